#include "daemon/report/index/collective_names.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"

namespace profd::report {
namespace {

using enum CollectiveKind;

struct KindName {
  CollectiveKind kind;
  std::string_view text;
  std::string_view plain;  // Without what spellings differ in.
};
// A name that holds another comes before it.
constexpr auto kKinds = std::to_array<KindName>({
    {kAllReduce, "all_reduce", "allreduce"},
    {kAllGather, "all_gather", "allgather"},
    {kReduceScatter, "reduce_scatter", "reducescatter"},
    {kAllToAll, "all_to_all", "alltoall"},
    {kBarrier, "barrier", "barrier"},
    {kBroadcast, "broadcast", "broadcast"},
    {kReduce, "reduce", "reduce"},
    {kGather, "gather", "gather"},
    {kScatter, "scatter", "scatter"},
    {kSend, "send", "send"},
    {kReceive, "recv", "recv"},
});

// What libraries put before the names of their ranges.
constexpr auto kLibraries =
    std::to_array<std::string_view>({"c10d::", "nccl:", "gloo:", "ucc:", "mpi:",
                                     // Operators of symmetric memory and of inference engines.
                                     "symm_mem::", "_c10d_functional::", "_C_custom_ar::", "vllm::",
                                     "sgl_kernel::", "deep_ep::", "aiter::", "trtllm::"});
// Of those, whose collectives run on workers, which end the ranges.
constexpr auto kWorkerLibraries = std::to_array<std::string_view>({"gloo:", "ucc:", "mpi:"});

constexpr size_t kMostNameBytes = 64;

// NVTX ranges of NCCL: "ncclAllReduce".
bool IsNcclCall(std::string_view name) {
  return name.starts_with("nccl") && name.size() > 4 && name[4] >= 'A' && name[4] <= 'Z';
}

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

// Letters alone, small.
std::string Plain(std::string_view name) {
  std::string plain;
  for (const char c : name.substr(0, 256)) {
    if (c >= 'A' && c <= 'Z') plain.push_back(static_cast<char>(c - 'A' + 'a'));
    if (c >= 'a' && c <= 'z') plain.push_back(c);
  }
  return plain;
}

// Of an operator's name.
bool HasProduct(std::string_view name) {
  return std::ranges::any_of(
      std::to_array<std::string_view>({"matmul", "gemm", "_mm_", "_linear"}),
      [&](std::string_view part) { return name.find(part) != std::string_view::npos; });
}

// The strings of a list, with their escapes.
std::vector<std::string_view> Strings(std::string_view json) {
  std::vector<std::string_view> strings;
  for (size_t i = 0; i < json.size(); ++i) {
    if (json[i] != '"') continue;
    const size_t begin = ++i;
    while (i < json.size() && json[i] != '"') i += json[i] == '\\' ? 2 : 1;
    if (i >= json.size()) break;
    strings.push_back(json.substr(begin, i - begin));
  }
  return strings;
}

// A name rather than a number, a list or a truth.
bool IsName(std::string_view text) {
  return !text.empty() && IsLetter(text[0]) && text != "True" && text != "False" &&
         text.find('\\') == std::string_view::npos;
}
bool IsList(std::string_view text) { return text.starts_with('[') && text.ends_with(']'); }

std::optional<int64_t> Integer(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// How many elements the tensors of the first input have; nullopt: it is none, or their number
// is not one.
std::optional<int64_t> ElementsOfFirst(const OperatorInputs& inputs) {
  const std::vector<std::string_view> types = Strings(inputs.types);
  if (types.empty() || types[0].empty() || types[0].starts_with("Scalar")) return std::nullopt;
  // After the list of inputs begins the first one's.
  std::string_view rest = inputs.dims;
  rest.remove_prefix(std::min(rest.find('[', 1), rest.size()));
  const bool is_list = types[0] == "TensorList";
  int64_t sum = 0;
  int64_t product = 1;
  int depth = 0;
  while (!rest.empty()) {
    int64_t size = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), size);
    if (error == std::errc::result_out_of_range) return std::nullopt;
    if (error == std::errc()) {
      if (__builtin_mul_overflow(product, size, &product)) return std::nullopt;
      rest.remove_prefix(static_cast<size_t>(end - rest.data()));
      continue;
    }
    if (rest[0] == '[') {
      ++depth;
      product = 1;
    } else if (rest[0] == ']') {
      // Of a tensor, rather than of the list that it is in.
      const bool ends_tensor = depth == (is_list ? 2 : 1);
      if (ends_tensor && __builtin_add_overflow(sum, product, &sum)) return std::nullopt;
      if (--depth == 0) return sum;
    }
    rest.remove_prefix(1);
  }
  return std::nullopt;
}

struct TypeSize {
  std::string_view name;
  int64_t bytes;
};
// As torch spells them in its own notes and in those of its traces, small and without "c10::".
constexpr auto kTypeSizes = std::to_array<TypeSize>({{"float", 4},
                                                     {"double", 8},
                                                     {"half", 2},
                                                     {"bfloat16", 2},
                                                     {"long", 8},
                                                     {"long int", 8},
                                                     {"int", 4},
                                                     {"short", 2},
                                                     {"short int", 2},
                                                     {"char", 1},
                                                     {"signed char", 1},
                                                     {"byte", 1},
                                                     {"unsigned char", 1},
                                                     {"bool", 1},
                                                     {"float8_e4m3fn", 1},
                                                     {"float8_e5m2", 1},
                                                     {"float8_e4m3fnuz", 1},  // ROCm's.
                                                     {"float8_e5m2fnuz", 1},
                                                     {"float8_e8m0fnu", 1},
                                                     {"uint16", 2},
                                                     {"unsigned short", 2},
                                                     {"uint32", 4},
                                                     {"unsigned int", 4},
                                                     {"uint64", 8},
                                                     {"unsigned long", 8},
                                                     {"complexhalf", 4},
                                                     {"complexfloat", 8},
                                                     {"complexdouble", 16},
                                                     {"complex<float>", 8},
                                                     {"complex<double>", 16}});

std::optional<int64_t> BytesOfType(std::string_view type) {
  constexpr std::string_view kPrefix = "c10::";
  if (type.starts_with(kPrefix)) type.remove_prefix(kPrefix.size());
  std::string small;
  for (const char c : type.substr(0, kMostNameBytes)) {
    small.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c);
  }
  for (const TypeSize& known : kTypeSizes) {
    if (known.name == small) return known.bytes;
  }
  return std::nullopt;
}

// What `elements` of the first input take; nullopt: a list of tensors does not say its type.
std::optional<int64_t> BytesOfFirst(const OperatorInputs& inputs, int64_t elements) {
  const std::vector<std::string_view> types = Strings(inputs.types);
  const std::optional<int64_t> each = types.empty() ? std::nullopt : BytesOfType(types[0]);
  int64_t bytes = 0;
  if (!each.has_value() || __builtin_mul_overflow(*each, elements, &bytes)) return std::nullopt;
  return bytes;
}

}  // namespace

std::string_view ToString(CollectiveKind kind) {
  for (const KindName& known : kKinds) {
    if (known.kind == kind) return known.text;
  }
  return "other";
}

bool FromString(std::string_view text, CollectiveKind& kind) {
  kind = kOther;
  if (text == "other") return true;
  for (const KindName& known : kKinds) {
    if (known.text != text) continue;
    kind = known.kind;
    return true;
  }
  return false;
}

bool Synchronises(CollectiveKind kind) {
  return kind == kAllReduce || kind == kAllGather || kind == kReduceScatter || kind == kAllToAll ||
         kind == kBarrier;
}

CollectiveKind CollectiveKindOf(std::string_view name) {
  const std::string plain = Plain(name);
  if (plain.find("crossdevicereduce") != std::string::npos) return kAllReduce;
  // Tokens go to the ranks of their experts, and come back.
  if (name.find("moeA2ADispatch") != std::string_view::npos ||
      name.find("moeA2ACombine") != std::string_view::npos) {
    return kAllToAll;
  }
  if (plain.find("deepep") != std::string::npos) {
    const bool exchanges =
        plain.find("dispatch") != std::string::npos || plain.find("combine") != std::string::npos;
    return exchanges && plain.find("layout") == std::string::npos ? kAllToAll : kOther;
  }
  // NCCL's kernel of send, of receive, and of all_to_all.
  if (plain.find("sendrecv") != std::string::npos) return kOther;
  for (const KindName& known : kKinds) {
    if (plain.find(known.plain) != std::string::npos) return known.kind;
  }
  return kOther;
}

std::optional<CollectiveKind> CollectiveOfRange(std::string_view name) {
  if (name == kCollectiveOperator) return kOther;
  // Not "ncclGroupStart", which is around others.
  const bool is_library = IsNcclCall(name) || std::any_of(kLibraries.begin(), kLibraries.end(),
                                                          [&](std::string_view prefix) {
                                                            return name.starts_with(prefix);
                                                          });
  if (is_library) {
    const CollectiveKind kind = CollectiveKindOf(name);
    // Engines have operators of other kinds, too: "vllm::gather_cache".
    const bool is_of_engine = !IsNcclCall(name) && !name.starts_with("c10d::") &&
                              name.find("::") != std::string_view::npos;
    if (is_of_engine && !Synchronises(kind)) return std::nullopt;
    // "symm_mem::fused_all_gather_matmul": its products run while the data comes.
    if (is_of_engine && HasProduct(name)) return std::nullopt;
    return kind == kOther ? std::nullopt : std::optional(kind);
  }
  if (name.size() > kMostNameBytes) return std::nullopt;
  const std::string plain = Plain(name);
  for (const KindName& known : kKinds) {
    if (plain == known.plain && Synchronises(known.kind)) return known.kind;
  }
  return std::nullopt;
}

bool EndsOnWorker(std::string_view name) {
  return std::any_of(kWorkerLibraries.begin(), kWorkerLibraries.end(),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

bool LastsUntilDone(std::string_view name) {
  return EndsOnWorker(name) ||
         !(name == kCollectiveOperator || name.find("::") != std::string_view::npos ||
           name.starts_with("nccl:") || IsNcclCall(name));
}

std::optional<CollectiveInputs> ParseCollectiveInputs(std::string_view untrusted_scalars,
                                                      const OperatorInputs* inputs) {
  const std::vector<std::string_view> items = Strings(untrusted_scalars);
  const auto name = std::find_if(items.begin(), items.end(), IsName);
  if (name == items.begin() || items.end() - name < 4) return std::nullopt;
  const std::optional<int64_t> rank = Integer(name[-1]);
  if (!rank.has_value() || !IsList(name[1]) || !IsList(name[2])) return std::nullopt;
  if (name->size() > kMostNameBytes) return std::nullopt;
  std::vector<int64_t> numbers;
  for (auto item = name + 3; item != items.end() && numbers.size() < 3; ++item) {
    const std::optional<int64_t> number = Integer(*item);
    if (!number.has_value()) break;
    numbers.push_back(*number);
  }
  if (numbers.empty() || numbers.size() == 2) return std::nullopt;

  CollectiveInputs collective = {.name = *name,
                                 .rank = *rank,
                                 .group_size = numbers.back(),
                                 .in_splits = name[1],
                                 .out_splits = name[2]};
  const auto group = std::find_if(items.begin(), name - 1, [](std::string_view item) {
    return item.starts_with('[') && item.find('\\') == std::string_view::npos &&
           GroupNamesOf(item).id.find(',') == std::string_view::npos;  // Else a list.
  });
  if (group != name - 1) collective.group = *group;
  // The first number before the rank.
  for (auto item = items.begin(); item != name - 1; ++item) {
    const std::optional<int64_t> number = Integer(*item);
    if (!number.has_value()) continue;
    collective.sequence = std::max<int64_t>(*number, -1);
    break;
  }
  if (numbers.size() == 3) {
    collective.first_rank = numbers[0];
    collective.rank_stride = numbers[1];
  }
  if (inputs != nullptr) {
    const FirstInputSize size = SizeOfFirstInput(*inputs);
    collective.elements = size.elements;
    collective.bytes = size.bytes;
  }
  return collective;
}

FirstInputSize SizeOfFirstInput(const OperatorInputs& untrusted_inputs) {
  FirstInputSize size = {.elements = ElementsOfFirst(untrusted_inputs)};
  if (size.elements.has_value()) size.bytes = BytesOfFirst(untrusted_inputs, *size.elements);
  return size;
}

std::string GroupText(std::string_view untrusted_id, std::string_view untrusted_name) {
  constexpr std::string_view kUnnamed = "undefined";  // As torch calls a group without a name.
  const std::string_view name = untrusted_name == kUnnamed ? std::string_view() : untrusted_name;
  if (untrusted_id.empty() && name.empty()) return "";
  const auto is_plain = [](std::string_view text) {
    return text.size() <= kMostNameBytes && std::ranges::all_of(text, [](char c) {
             return c >= ' ' && c <= '~' && c != '"' && c != '\\';
           });
  };
  const bool fits = is_plain(untrusted_id) && is_plain(name) &&
                    untrusted_id.find_first_of("],") == std::string_view::npos &&
                    !name.ends_with(']');
  return fits ? StrCat("[", untrusted_id, "]", name) : "";
}

GroupNames GroupNamesOf(std::string_view group) {
  const size_t end = group.find(']');
  if (!group.starts_with('[') || end == std::string_view::npos) return {};
  return {.id = group.substr(1, end - 1), .name = group.substr(end + 1)};
}

std::string ScalarsOfTold(const ToldCollective& untrusted_told) {
  std::string scalars = R"(["",")";
  AppendJsonEscaped(ToValidUtf8(untrusted_told.group), scalars);
  scalars += R"(","")";
  for (const std::string_view text :
       {untrusted_told.rank, untrusted_told.name, untrusted_told.in_splits,
        untrusted_told.out_splits, untrusted_told.first_rank, untrusted_told.rank_stride,
        untrusted_told.group_size}) {
    scalars += ",\"";
    AppendJsonEscaped(ToValidUtf8(text), scalars);
    scalars += "\"";
  }
  return scalars + "]";
}

OperatorInputs InputsOfTold(int64_t elements, std::string_view untrusted_type) {
  OperatorInputs inputs = {.dims = StrCat("[[", elements, "],[],[],[],[],[],[],[],[],[]]"),
                           .types = "[\"",
                           .strides = ""};
  AppendJsonEscaped(ToValidUtf8(untrusted_type), inputs.types);
  inputs.types += R"(","","","","","","","","",""])";
  return inputs;
}

}  // namespace profd::report
