#include "daemon/ingest/decode/operator_inputs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"

namespace profd {
namespace {

// The first byte of an input in a key of shapes. A tensor goes on with dtype, rank, whether it has
// strides, sizes and strides; a list of tensors with their number, and they follow.
constexpr char kTensor = 'T';
constexpr char kTensorList = 'L';
constexpr char kScalar = 'S';
constexpr char kScalarList = 'A';
constexpr char kOther = '-';

// In a key of scalars: of a number, its 8 bytes follow; of a list or string, whether it was cut,
// the number of items, and those.
constexpr char kInt = 'i';
constexpr char kDouble = 'd';
constexpr char kBool = 'b';
constexpr char kString = 's';
constexpr char kIntList = 'I';
constexpr char kDoubleList = 'D';
constexpr char kBoolList = 'B';

constexpr uint32_t kWordBytes = 8;

// As the type names of C++ are, with which torch.profiler names c10::ScalarType, by number.
constexpr auto kDtypeNames = std::to_array<std::string_view>({
    "unsigned char",
    "signed char",
    "short int",
    "int",
    "long int",
    "c10::Half",
    "float",
    "double",
    "c10::complex<c10::Half>",
    "c10::complex<float>",
    "c10::complex<double>",
    "bool",
    "c10::qint8",
    "c10::quint8",
    "c10::qint32",
    "c10::BFloat16",
    "c10::quint4x2",
    "c10::quint2x4",
    "c10::bits1x8",
    "c10::bits2x4",
    "c10::bits4x2",
    "c10::bits8",
    "c10::bits16",
    "c10::Float8_e5m2",
    "c10::Float8_e4m3fn",
    "c10::Float8_e5m2fnuz",
    "c10::Float8_e4m3fnuz",
    "short unsigned int",
    "unsigned int",
    "long unsigned int",
});

std::string_view DtypeName(int8_t dtype) {
  // Of those that are not known the number is large.
  const auto number = static_cast<uint8_t>(dtype);
  return number < kDtypeNames.size() ? kDtypeNames[number] : "";
}

uint32_t PaddedBytes(uint32_t bytes) { return (bytes + kWordBytes - 1) / kWordBytes * kWordBytes; }

// How many bytes of values follow `input`. False: it is none, or says too much.
bool ValueBytes(const wire::OperatorInput& input, uint32_t& bytes) {
  using enum wire::InputKind;
  bytes = 0;
  switch (static_cast<wire::InputKind>(input.kind)) {
    case wire::InputKind::kNone:
    case wire::InputKind::kOther:
      return true;
    case wire::InputKind::kTensor: {
      const bool storage = (input.flags & wire::kInputStorage) != 0;
      const bool strides = (input.flags & wire::kInputStrides) != 0;
      bytes = kWordBytes * (uint32_t{storage} + input.rank * (strides ? 2u : 1u));
      return input.rank <= wire::kMaxTensorRank;
    }
    case wire::InputKind::kTensorList:
      return input.count <= wire::kMaxListItems;
    case wire::InputKind::kInt:
    case wire::InputKind::kDouble:
    case wire::InputKind::kBool:
      bytes = kWordBytes;
      return true;
    case wire::InputKind::kIntList:
    case wire::InputKind::kDoubleList:
    case wire::InputKind::kBoolList:
      bytes = kWordBytes * std::min(input.count, wire::kMaxListItems);
      return input.count <= wire::kMaxListItems;
    case wire::InputKind::kString:
      bytes = PaddedBytes(std::min(input.count, wire::kMaxInputStringBytes));
      return input.count <= wire::kMaxInputStringBytes;
  }
  return false;
}

void AppendBytes(const std::byte* from, size_t size, std::string& out) {
  out.append(reinterpret_cast<const char*>(from), size);
}

// Builds the keys of one operator, input by input.
class KeyBuilder {
 public:
  explicit KeyBuilder(InputKeys& keys) : keys_(keys) {}

  // False: a list of tensors holds something else.
  bool Add(const wire::OperatorInput& input, const std::byte* values) {
    const auto kind = static_cast<wire::InputKind>(input.kind);
    const bool in_list = list_left_ > 0;
    if (in_list) {
      --list_left_;
      const bool is_tensor = kind == wire::InputKind::kTensor || kind == wire::InputKind::kNone ||
                             kind == wire::InputKind::kOther;
      if (!is_tensor) return false;
    } else {
      ++top_count_;
    }
    keys_.is_cut |= (input.flags & wire::kInputCut) != 0;
    if (kind == wire::InputKind::kTensor) {
      AddTensor(input, values);
    } else if (kind == wire::InputKind::kTensorList) {
      keys_.shapes += kTensorList;
      keys_.shapes += static_cast<char>(input.count);
      list_left_ = input.count;
    } else {
      keys_.shapes += ShapeTag(kind);
    }
    if (!in_list) AddScalar(kind, input, values);
    return true;
  }
  uint32_t top_count() const { return top_count_; }
  // Of the last list of tensors, those that were not there.
  uint32_t list_left() const { return list_left_; }

 private:
  static char ShapeTag(wire::InputKind kind) {
    switch (kind) {
      case wire::InputKind::kInt:
      case wire::InputKind::kDouble:
      case wire::InputKind::kBool:
        return kScalar;
      case wire::InputKind::kIntList:
      case wire::InputKind::kDoubleList:
      case wire::InputKind::kBoolList:
        return kScalarList;
      default:
        return kOther;
    }
  }

  void AddTensor(const wire::OperatorInput& input, const std::byte* values) {
    if ((input.flags & wire::kInputStorage) != 0) {
      uint64_t address;
      memcpy(&address, values, sizeof(address));
      values += sizeof(address);
      keys_.tensors.push_back(
          {.storage_address = address, .input = static_cast<uint8_t>(top_count_ - 1)});
    }
    const bool strides = (input.flags & wire::kInputStrides) != 0;
    keys_.shapes += kTensor;
    keys_.shapes += static_cast<char>(input.dtype);
    keys_.shapes += static_cast<char>(input.rank);
    keys_.shapes += static_cast<char>(strides);
    AppendBytes(values, size_t{kWordBytes} * input.rank * (strides ? 2 : 1), keys_.shapes);
  }

  void AddScalar(wire::InputKind kind, const wire::OperatorInput& input, const std::byte* values) {
    std::string& key = keys_.scalars;
    const auto number = [&](char tag) {
      key += tag;
      AppendBytes(values, kWordBytes, key);
    };
    const auto list = [&](char tag, size_t bytes) {
      key += tag;
      key += static_cast<char>((input.flags & wire::kInputCut) != 0);
      AppendBytes(reinterpret_cast<const std::byte*>(&input.count), sizeof(input.count), key);
      AppendBytes(values, bytes, key);
    };
    switch (kind) {
      case wire::InputKind::kInt:
        return number(kInt);
      case wire::InputKind::kDouble:
        return number(kDouble);
      case wire::InputKind::kBool:
        return number(kBool);
      case wire::InputKind::kString:
        return list(kString, input.count);
      case wire::InputKind::kIntList:
        return list(kIntList, size_t{kWordBytes} * input.count);
      case wire::InputKind::kDoubleList:
        return list(kDoubleList, size_t{kWordBytes} * input.count);
      case wire::InputKind::kBoolList:
        return list(kBoolList, size_t{kWordBytes} * input.count);
      default:
        key += kOther;
    }
  }

  InputKeys& keys_;
  uint32_t top_count_ = 0;
  uint32_t list_left_ = 0;
};

// Reads a key, which is ours and so is right.
class KeyReader {
 public:
  explicit KeyReader(std::string_view key) : key_(key) {}
  bool done() const { return key_.empty(); }
  char Tag() { return Take<char>(); }
  template <typename T>
  T Take() {
    T value;
    memcpy(&value, key_.data(), sizeof(value));
    key_.remove_prefix(sizeof(value));
    return value;
  }
  std::string_view Text(size_t bytes) {
    const std::string_view text = key_.substr(0, bytes);
    key_.remove_prefix(bytes);
    return text;
  }

 private:
  std::string_view key_;
};

void AppendComma(std::string& out) {
  if (out.back() != '[') out += ',';
}

void AppendNumbers(KeyReader& key, uint8_t count, std::string& out) {
  out += '[';
  for (uint8_t i = 0; i < count; ++i) {
    if (i > 0) out += ',';
    StrAppend(&out, key.Take<int64_t>());
  }
  out += ']';
}

// After its tag.
int8_t AppendTensor(KeyReader& key, std::string& dims, std::string& strides) {
  const auto dtype = key.Take<int8_t>();
  const auto rank = key.Take<uint8_t>();
  const bool has_strides = key.Take<char>() != 0;
  AppendNumbers(key, rank, dims);
  AppendNumbers(key, has_strides ? rank : uint8_t{0}, strides);
  return dtype;
}

// Of a list of tensors, after its tag: those of them that are there.
void AppendTensorList(KeyReader& key, std::string& dims, std::string& strides) {
  const auto count = key.Take<uint8_t>();
  dims += '[';
  strides += '[';
  for (uint8_t i = 0; i < count && !key.done(); ++i) {
    AppendComma(dims);
    AppendComma(strides);
    if (key.Tag() == kTensor) {
      AppendTensor(key, dims, strides);
    } else {
      dims += "[]";
      strides += "[]";
    }
  }
  dims += ']';
  strides += ']';
}

// As torch prints a double: a whole number ends in a point.
void AppendDouble(double value, std::string& out) {
  constexpr double kTwoTo63 = 9223372036854775808.0;
  if (value >= -kTwoTo63 && value < kTwoTo63 && std::trunc(value) == value) {
    StrAppend(&out, static_cast<int64_t>(value), ".");
  } else if (std::isnan(value)) {
    out += "nan";
  } else {
    absl::StrAppendFormat(&out, "%.17g", value);
  }
}

void AppendScalar(char tag, KeyReader& key, std::string& out) {
  switch (tag) {
    case kInt:
    case kIntList:
      return StrAppend(&out, key.Take<int64_t>());
    case kDouble:
    case kDoubleList:
      return AppendDouble(key.Take<double>(), out);
    default:
      out += key.Take<int64_t>() != 0 ? "True" : "False";
  }
}

void AppendConcrete(KeyReader& key, std::string& out) {
  const char tag = key.Tag();
  if (tag == kOther) return;
  if (tag == kInt || tag == kDouble || tag == kBool) return AppendScalar(tag, key, out);
  const bool is_cut = key.Take<char>() != 0;
  const auto count = key.Take<uint32_t>();
  if (tag == kString) {
    AppendJsonEscaped(ToValidUtf8(key.Text(count)), out);
    if (is_cut) out += "...";
    return;
  }
  out += '[';
  for (uint32_t i = 0; i < count; ++i) {
    if (i > 0) out += ", ";
    AppendScalar(tag, key, out);
  }
  if (is_cut) out += count > 0 ? ", ..." : "...";
  out += ']';
}

}  // namespace

void InputKeys::Clear() {
  shapes.clear();
  scalars.clear();
  tensors.clear();
  is_cut = false;
}

bool ReadInputs(std::span<const std::byte> untrusted, uint32_t untrusted_input_count,
                uint32_t untrusted_described_count, InputKeys& keys) {
  keys.Clear();
  KeyBuilder builder(keys);
  for (uint32_t i = 0; i < untrusted_described_count; ++i) {
    wire::OperatorInput input;
    if (untrusted.size() < sizeof(input)) return false;
    memcpy(&input, untrusted.data(), sizeof(input));
    untrusted = untrusted.subspan(sizeof(input));
    uint32_t value_bytes = 0;
    if (!ValueBytes(input, value_bytes) || untrusted.size() < value_bytes) return false;
    if (!builder.Add(input, untrusted.data())) return false;
    untrusted = untrusted.subspan(value_bytes);
  }
  if (builder.top_count() > untrusted_input_count) return false;
  keys.is_cut |= builder.top_count() < untrusted_input_count || builder.list_left() > 0;
  return true;
}

OperatorInputs ShapesText(std::string_view key, bool with_strides) {
  OperatorInputs text = {.dims = "[", .types = "[", .strides = "["};
  KeyReader reader(key);
  while (!reader.done()) {
    AppendComma(text.dims);
    AppendComma(text.types);
    AppendComma(text.strides);
    std::string_view type;
    switch (reader.Tag()) {
      case kTensor:
        type = DtypeName(AppendTensor(reader, text.dims, text.strides));
        break;
      case kTensorList:
        AppendTensorList(reader, text.dims, text.strides);
        type = "TensorList";
        break;
      case kScalar:
        type = "Scalar";
        break;
      case kScalarList:
        type = "ScalarList";
        break;
      default:
        break;
    }
    // Where there is no tensor.
    if (text.dims.back() != ']') {
      text.dims += "[]";
      text.strides += "[]";
    }
    StrAppend(&text.types, "\"", type, "\"");
  }
  text.dims += ']';
  text.types += ']';
  text.strides += ']';
  if (!with_strides) text.strides.clear();
  return text;
}

std::string ScalarsText(std::string_view key) {
  std::string text = "[";
  KeyReader reader(key);
  while (!reader.done()) {
    if (text.size() > 1) text += ',';
    text += '"';
    AppendConcrete(reader, text);
    text += '"';
  }
  text += ']';
  return text;
}

template <typename Give>
uint32_t InputTable::FindIn(IdsByKey& ids, const std::string& key, Give give) {
  const auto known = ids.find(key);
  if (known != ids.end()) return known->second;
  // Only new inputs are refused. A training loop repeats its shapes, so most operators still find
  // theirs.
  if (ids.size() >= kMaxOperatorInputs || bytes_ >= kMaxBytes) return 0;
  const auto id = static_cast<uint32_t>(ids.size() + 1);
  bytes_ += key.size() + give(id);
  ids.emplace(key, id);
  return id;
}

InputTable::Ids InputTable::Find(const InputKeys& keys) {
  Ids ids;
  if (keys.empty()) return ids;
  ids.inputs = FindIn(shapes_, keys.shapes, [&](uint32_t id) {
    const OperatorInputs text = ShapesText(keys.shapes, with_strides_);
    sink_.Do([&](CaptureSink& sink) { return sink.AddInputs(id, text); });
    return text.dims.size() + text.types.size() + text.strides.size();
  });
  ids.scalars = FindIn(scalars_, keys.scalars, [&](uint32_t id) {
    const std::string text = ScalarsText(keys.scalars);
    sink_.Do([&](CaptureSink& sink) { return sink.AddScalars(id, text); });
    return text.size();
  });
  ids.is_full = ids.inputs == 0 || ids.scalars == 0;
  return ids;
}

}  // namespace profd
