#include "daemon/import/kept_arguments.h"

#include <algorithm>
#include <array>
#include <bit>
#include <bitset>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/import/exact_time.h"
#include "daemon/import/json/skip.h"
#include "daemon/report/index/source_kinds.h"
#include "daemon/report/index/wide_streams.h"

namespace profd::importer {
namespace {

using enum RestoredArguments;

// Beyond any list that Kineto writes; names are cut there, and a list that is cut is none.
constexpr size_t kMaxArgumentBytes = NameTable::kMaxNameBytes;

constexpr uint16_t Of(RestoredArguments kind) {
  return static_cast<uint16_t>(1u << static_cast<unsigned>(kind));
}
constexpr uint16_t kOfRanges = Of(kAnnotation) | Of(kOperator) | Of(kAutogradFrame);
constexpr uint16_t kOfStacks = kOfRanges | Of(kCollective) | Of(kNone);
constexpr uint16_t kOfMemory = Of(kMemory) | Of(kForeignMemory);
constexpr uint16_t kOfWork = Of(kKernel) | Of(kTransfer);
constexpr uint16_t kOfWaits = Of(kSync) | Of(kEventWait);

struct Restored {
  std::string_view key;
  uint16_t by;      // The kinds whose rows restore it.
  uint16_t always;  // Of these, those whose exports have it in any case.
};
constexpr auto kRestored = std::to_array<Restored>({
    {"Input Dims", kOfRanges, Of(kCollective)},
    {"Input dims", kOfRanges, 0},
    {"Input type", kOfRanges, kOfRanges | Of(kCollective)},
    {"Input Strides", kOfRanges, Of(kCollective)},
    {"Concrete Inputs", kOfRanges, Of(kCollective)},
    {"Sequence number", Of(kOperator), Of(kAutogradFrame)},
    {"Fwd thread id", Of(kOperator), Of(kOperator) | Of(kAutogradFrame)},
    {"began_before_window", kOfRanges | kOfWork | Of(kCollective) | Of(kNone), 0},
    {"ended_after_window", kOfWork, 0},
    {"ended_with_thread", kOfRanges | Of(kCollective) | Of(kNone), 0},
    {"never_ended", kOfRanges | Of(kCollective) | Of(kNone), 0},
    {"finished", kOfRanges | kOfWork | Of(kCollective) | Of(kNone), 0},
    {"launched_by_device", kOfWork, 0},
    {"Total Reserved", kOfMemory, 0},
    {"Total Allocated", kOfMemory, 0},
    {"Bytes", kOfMemory, 0},
    {"Addr", kOfMemory, kOfMemory},
    {"Device Id", kOfMemory, kOfMemory},
    {"Device Type", Of(kMemory), kOfMemory},
    {"cbid", Of(kCall), Of(kCall)},
    {"correlation", Of(kCall) | kOfWork | kOfWaits, Of(kCall) | kOfWork | kOfWaits},
    {"device", kOfWork | kOfWaits, kOfWork},
    {"context", kOfWork | kOfWaits, kOfWork | kOfWaits},
    {"stream", kOfWork | kOfWaits, kOfWork | kOfWaits},
    {"queued", Of(kKernel), Of(kKernel)},
    {"registers per thread", Of(kKernel), Of(kKernel)},
    {"shared memory", Of(kKernel), Of(kKernel)},
    {"grid", Of(kKernel), Of(kKernel)},
    {"block", Of(kKernel), Of(kKernel)},
    {"cluster", Of(kKernel), 0},
    {"bytes", Of(kTransfer), Of(kTransfer)},
    {"fromDevice", Of(kTransfer), 0},
    {"inDevice", Of(kTransfer), 0},
    {"toDevice", Of(kTransfer), 0},
    {"cuda_sync_kind", kOfWaits, kOfWaits},
    {"wait_on_stream", Of(kEventWait), Of(kEventWait)},
    {"wait_on_cuda_event_record_corr_id", Of(kEventWait), Of(kEventWait)},
    {"wait_on_cuda_event_id", Of(kEventWait), Of(kEventWait)},
});

constexpr size_t kKindCount = static_cast<size_t>(kEventWait) + 1;

// The same by the IDs of keys.
struct RestoredById {
  std::array<uint16_t, kMaxArgumentIds> by{};
  struct Always {
    uint8_t id;
    std::string_view key;
  };
  std::array<std::vector<Always>, kKindCount> always;
  uint8_t call_stack = 0;
  uint8_t dims = 0;
  uint8_t old_dims = 0;
  uint8_t types = 0;
  uint8_t sequence = 0;
  uint8_t forward_thread = 0;
  uint8_t graph = 0;
  uint8_t graph_node = 0;
  uint8_t result = 0;
  uint8_t stream = 0;
  uint8_t wait_stream = 0;
  uint8_t wait_correlation = 0;
  uint8_t queued = 0;
  std::bitset<kMaxArgumentIds> of_32_bits;  // What rows have so many bits for.
};

uint8_t IdOfKnown(std::string_view key) { return ArgumentId(key).value_or(0); }

const RestoredById& ById() {
  static const auto* const kById = [] {
    auto* const ids = new RestoredById;
    for (const Restored& known : kRestored) {
      const uint8_t id = IdOfKnown(known.key);
      ids->by[id] = known.by;
      for (size_t kind = 0; kind < kKindCount; ++kind) {
        if ((known.always >> kind & 1) != 0) ids->always[kind].push_back({id, known.key});
      }
    }
    ids->call_stack = IdOfKnown("Call stack");
    ids->dims = IdOfKnown("Input Dims");
    ids->old_dims = IdOfKnown("Input dims");
    ids->types = IdOfKnown("Input type");
    ids->sequence = IdOfKnown("Sequence number");
    ids->forward_thread = IdOfKnown("Fwd thread id");
    ids->graph = IdOfKnown("graph id");
    ids->graph_node = IdOfKnown("graph node id");
    ids->result = IdOfKnown("result");
    ids->stream = IdOfKnown("stream");
    ids->wait_stream = IdOfKnown("wait_on_stream");
    ids->wait_correlation = IdOfKnown("wait_on_cuda_event_record_corr_id");
    ids->queued = IdOfKnown("queued");
    for (const char* const key :
         {"cbid", "correlation", "device", "context", "stream", "registers per thread",
          "shared memory", "wait_on_cuda_event_id"}) {
      ids->of_32_bits.set(IdOfKnown(key));
    }
    return ids;
  }();
  return *kById;
}

// A stream whose row has another number.
bool IsWideStream(std::string_view json) {
  return ParseInteger(json).value_or(0) >= report::kFirstWideStream;
}

// A number of at most 32 bits, as exports write it.
bool IsSmall(std::string_view json) {
  const bool has_digits = !json.empty() && json[0] >= '0' && json[0] <= '9';
  if (has_digits && json.size() < 10) return true;
  const std::optional<int64_t> number = ParseInteger(json);
  return has_digits && number.has_value() && std::in_range<uint32_t>(*number);
}

bool IsRestored(const RestoredById& ids, const RawArgument& argument, RestoredArguments kind,
                bool restores_stack) {
  const uint8_t id = argument.id;
  if (id == kUnknownArgument) return false;
  // Operators have a column for it; those of Python's functions follow from their parents.
  // An empty one is no row of theirs.
  if (id == ids.call_stack) {
    const bool is_empty = argument.json.size() <= 2;
    return !is_empty && restores_stack && (Of(kind) & kOfStacks) != 0;
  }
  // Rows have no zeros of these; exports have what rows have.
  if (id == ids.graph || id == ids.graph_node) {
    return (Of(kind) & kOfWork) != 0 && argument.json != "0";
  }
  if (id == ids.result) return kind == kCall && argument.json != "0";
  if ((ids.by[id] & Of(kind)) == 0) return false;
  // Rows of imports have none.
  if (id == ids.queued) return argument.json == "0";
  const bool is_stream = id == ids.stream || id == ids.wait_stream;
  if (is_stream && argument.json.size() >= 10 && IsWideStream(argument.json)) return false;
  // All of the context, which exports write as -1. Likewise an event whose record is not known.
  const bool may_be_unknown =
      (is_stream && (Of(kind) & kOfWaits) != 0) || id == ids.wait_correlation;
  if (may_be_unknown) return argument.json == "-1" || IsSmall(argument.json);
  return !ids.of_32_bits[id] || IsSmall(argument.json);
}

std::optional<int64_t> IntegerOf(std::string_view text) {
  // As it will be written: no "-0", and no "007" in quotes.
  const std::string_view digits = text.starts_with('-') ? text.substr(1) : text;
  if (digits.empty() || (digits[0] == '0' && text.size() > 1)) return std::nullopt;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool IsDigits(std::string_view text) {
  return text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::optional<double> RealOf(std::string_view text) {
  if (text.empty() || !(text[0] == '-' || (text[0] >= '0' && text[0] <= '9'))) return std::nullopt;
  // An integer that has no place in 64 bits with a sign, as addresses and handles may be: a double
  // is another number.
  constexpr size_t kDigitsOfAnyDouble = 15;
  if (text.size() > kDigitsOfAnyDouble && IsDigits(text.substr(1))) {
    return std::nullopt;
  }
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

// `,"cat":"ac2g"`; nothing of an empty text. `inside_of_quotes` is as the trace has it.
void AppendTextMember(std::string_view key, std::string_view inside_of_quotes, std::string& text) {
  if (!inside_of_quotes.empty()) StrAppend(&text, ",\"", key, "\":\"", inside_of_quotes, "\"");
}
void AppendJsonMember(std::string_view key, std::string_view json, std::string& text) {
  if (!json.empty()) StrAppend(&text, ",\"", key, "\":", CompactJson(json));
}

std::string HeadOf(const TraceEvent& event) {
  return StrCat("{\"ph\":\"", std::string(1, event.phase), "\"");
}

}  // namespace

KeptArguments::KeptArguments(NameTable& names, NotUnderstood& not_understood,
                             std::filesystem::path directory)
    : names_(names), not_understood_(not_understood), directory_(std::move(directory)) {}

absl::Status KeptArguments::Add(const TraceEvent& event, RestoredArguments restored, uint8_t of,
                                uint32_t thread, uint32_t row, bool restores_stack) {
  const RestoredById& ids = ById();
  std::bitset<kMaxArgumentIds> has;
  Kept kept = {.value = 0, .thread = thread, .row = row, .of = of, .type = {}};
  Remember(event, kept);
  for (const RawArgument& argument : event.arguments) {
    const bool is_known = argument.id != kUnknownArgument;
    if (is_known) has.set(argument.id);
    if (IsRestored(ids, argument, restored, restores_stack)) continue;
    ASSIGN_OR_RETURN(const bool has_room, Parse(event, argument, kept));
    if (!has_room) continue;
    RETURN_IF_ERROR(is_known ? Put(argument.id, argument.key, kept)
                             : PutUnknown(event, argument.key, kept));
  }
  kept.value = 0;
  kept.type = ArgumentType::kAbsent;
  for (const auto& [id, key] : ids.always[static_cast<size_t>(restored)]) {
    if (has[id]) continue;
    // Without inputs there are no types either, and without a number no thread that counted it.
    const bool is_range = (Of(restored) & kOfRanges) != 0;
    if (is_range && id == ids.types && !has[ids.dims] && !has[ids.old_dims]) continue;
    if (restored == kOperator && id == ids.forward_thread && !has[ids.sequence]) continue;
    RETURN_IF_ERROR(Put(id, key, kept));
  }
  return absl::OkStatus();
}

void KeptArguments::Remember(const TraceEvent& event, const Kept& kept) {
  if (event.phase != 'X' || !event.start.has_value()) return;
  Recent& recent = recent_[next_recent_++ % kRecent];
  recent.is_slice = true;
  recent.pid.assign(event.pid);
  recent.tid.assign(event.tid);
  recent.start_ns = event.start->ns;
  recent.of = kept.of;
  recent.thread = kept.thread;
  recent.row = kept.row;
  recent.flow_count = 0;
}

KeptArguments::Recent* KeptArguments::RecentAt(const TraceEvent& flow) {
  for (size_t back = 1; back <= kRecent; ++back) {
    Recent& recent = recent_[(next_recent_ - back) % kRecent];
    if (!recent.is_slice) return nullptr;
    if (recent.start_ns == flow.start->ns && recent.tid == flow.tid && recent.pid == flow.pid) {
      return &recent;
    }
  }
  return nullptr;
}

absl::Status KeptArguments::AddFlow(const TraceEvent& flow) {
  if (!flow.start.has_value()) {
    not_understood_.Count(StrCat("ph:", std::string(1, flow.phase), " without ts"));
    return absl::OkStatus();
  }
  Recent* const at = RecentAt(flow);
  if (at == nullptr || at->flow_count == report::kMostFlowsOfEvent) return AddLooseFlow(flow);
  ++at->flow_count;
  std::string shape(1, flow.phase);
  if (at->flow_count > 1) StrAppend(&shape, at->flow_count);
  AppendTextMember("cat", flow.category, shape);
  AppendTextMember("name", flow.name, shape);
  AppendJsonMember("bp", flow.binds, shape);
  Spool* const spool =
      shape.size() > kMaxKeyBytes ? nullptr : SpoolOf(shape, kMaxFlowShapes, of_flows_);
  if (spool == nullptr) return AddLooseFlow(flow);
  Kept kept = {.value = 0,
               .thread = at->thread,
               .row = at->row,
               .of = static_cast<uint8_t>(at->of + report::kFlowsOf),
               .type = ArgumentType::kAbsent};
  if (!flow.flow.empty()) {
    ASSIGN_OR_RETURN(const bool has_room, Parse(flow, {.key = "id", .json = flow.flow}, kept));
    if (!has_room) return absl::OkStatus();
  }
  has_any_ = true;
  return spool->Add(kept);
}

// Kineto's flows of old traces that another program sorted, for example.
absl::Status KeptArguments::AddLooseFlow(const TraceEvent& flow) {
  std::string event = HeadOf(flow);
  AppendJsonMember("pid", flow.pid, event);
  AppendJsonMember("tid", flow.tid, event);
  AppendTextMember("cat", flow.category, event);
  AppendTextMember("name", flow.name, event);
  AppendJsonMember("bp", flow.binds, event);
  event += "}";
  const uint32_t row = loose_flow_count_++;
  const uint8_t of = report::kArgumentOfLooseFlow;
  RETURN_IF_ERROR(AddOther(flow, report::kFlowKey, event, of, row));
  if (!flow.flow.empty()) RETURN_IF_ERROR(AddOther(flow, report::kFlowIdKey, flow.flow, of, row));
  return AddOther(flow, report::kFlowTimeKey, StrCat(flow.start->ns), of, row);
}

absl::Status KeptArguments::AddLabel(const TraceEvent& label) {
  std::string event = HeadOf(label);
  AppendTextMember("name", label.name, event);
  AppendJsonMember("pid", label.pid, event);
  AppendJsonMember("tid", label.tid, event);
  std::string arguments;
  for (const RawArgument& argument : label.arguments) {
    StrAppend(&arguments, arguments.empty() ? ",\"args\":{\"" : ",\"", argument.key,
              "\":", CompactJson(argument.json));
  }
  StrAppend(&event, arguments, arguments.empty() ? "}" : "}}");
  return AddOther(label, report::kLabelKey, event, report::kArgumentOfLabel, label_count_++);
}

absl::Status KeptArguments::AddOther(const TraceEvent& event, std::string_view key,
                                     std::string_view json, uint8_t of, uint32_t row) {
  Kept kept = {.value = 0, .thread = 0, .row = row, .of = of, .type = {}};
  if (json.starts_with('{') && !nlohmann::json::accept(json)) {
    not_understood_.Count(StrCat("ph:", std::string(1, event.phase), " with a damaged text"));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const bool has_room, Parse(event, {.key = key, .json = json}, kept));
  if (!has_room) return absl::OkStatus();
  has_any_ = true;
  return SpoolOf(key, kMaxFlowShapes + 4, of_flows_)->Add(kept);
}

absl::Status KeptArguments::AddNumber(std::string_view key, int64_t number, uint8_t of,
                                      uint32_t row) {
  return Put(ArgumentId(key).value_or(kMaxArgumentIds), key,
             {.value = number, .thread = 0, .row = row, .of = of, .type = ArgumentType::kInteger});
}

absl::StatusOr<bool> KeptArguments::Parse(const TraceEvent& event, const RawArgument& argument,
                                          Kept& kept) {
  const std::string_view json = argument.json;
  if (const std::optional<int64_t> integer = IntegerOf(json)) {
    kept.type = ArgumentType::kInteger;
    kept.value = *integer;
    return true;
  }
  if (const std::optional<double> real = RealOf(json)) {
    kept.type = ArgumentType::kReal;
    kept.value = std::bit_cast<int64_t>(*real);
    return true;
  }
  if (json.size() > 2 && json.front() == '"') {
    if (const std::optional<int64_t> integer = IntegerOf(json.substr(1, json.size() - 2))) {
      kept.type = ArgumentType::kQuotedInteger;
      kept.value = *integer;
      return true;
    }
  }
  kept.type = ArgumentType::kJson;
  std::string text = CompactJson(json);
  if (const auto found = texts_.find(text); found != texts_.end()) {
    kept.value = found->second;
    return true;
  }
  if (text.size() > kMaxArgumentBytes || text_bytes_ + text.size() > kMaxTextBytes ||
      texts_.size() >= kMaxTexts) {
    // Of a stack, the frames are kept all the same.
    if (argument.id != ById().call_stack) {
      not_understood_.Count(StrCat("arg:", event.category, ".", argument.key, " is too long"));
    }
    return false;
  }
  ASSIGN_OR_RETURN(const uint32_t name, names_.IdOf(text));
  text_bytes_ += text.size();
  texts_.emplace(std::move(text), name);
  kept.value = name;
  return true;
}

absl::Status KeptArguments::Put(uint8_t id, std::string_view key, const Kept& kept) {
  has_any_ = true;
  OfKey& of_key = of_keys_[id];
  if (of_key.spool == nullptr) {
    of_key.key = key;
    of_key.spool = std::make_unique<Spool>(directory_, kMemoryBytes);
  }
  return of_key.spool->Add(kept);
}

absl::Status KeptArguments::PutUnknown(const TraceEvent& event, std::string_view key,
                                       const Kept& kept) {
  has_any_ = true;
  Spool* const spool =
      key.size() > kMaxKeyBytes ? nullptr : SpoolOf(key, kMaxUnknownKeys, of_unknown_keys_);
  if (spool != nullptr) return spool->Add(kept);
  not_understood_.Count(StrCat("arg:", event.category, ".", key, " is not kept"));
  return absl::OkStatus();
}

KeptArguments::Spool* KeptArguments::SpoolOf(std::string_view key, size_t most, Spools& spools) {
  const auto found = spools.find(key);
  if (found != spools.end()) return found->second.get();
  if (spools.size() >= most) return nullptr;
  return spools.emplace(std::string(key), std::make_unique<Spool>(directory_, kMemoryBytes))
      .first->second.get();
}

absl::Status KeptArguments::Finish(const PositionOf& position_of, int64_t start_ns,
                                   CaptureSink& sink) {
  for (auto& [key, spool] : of_keys_) {
    if (spool == nullptr) continue;
    RETURN_IF_ERROR(Drain(key, *spool, position_of, start_ns, sink));
    spool.reset();
  }
  for (auto& [key, spool] : of_unknown_keys_) {
    RETURN_IF_ERROR(Drain(Unescape(key), *spool, position_of, start_ns, sink));
    spool.reset();
  }
  for (auto& [key, spool] : of_flows_) {
    RETURN_IF_ERROR(Drain(key, *spool, position_of, start_ns, sink));
    spool.reset();
  }
  return absl::OkStatus();
}

absl::Status KeptArguments::Drain(std::string_view key, Spool& spool, const PositionOf& position_of,
                                  int64_t start_ns, CaptureSink& sink) {
  std::vector<ArgumentRow> batch;
  ASSIGN_OR_RETURN(const uint32_t name, names_.IdOf(key));
  return spool.Drain([&](std::span<Kept> rows) -> absl::Status {
    batch.clear();
    for (const Kept& kept : rows) {
      const std::optional<uint32_t> position = position_of(kept.of, kept.thread, kept.row);
      if (!position.has_value()) {
        // Of a range that is left out. Its arguments are counted with it, but arrows are events.
        if (kept.of >= report::kFlowsOf) not_understood_.Count("flow at a range nested too deep");
        continue;
      }
      ArgumentRow row = {.of = kept.of,
                         .of_thread = kept.thread,
                         .row = *position,
                         .key = name,
                         .type = kept.type,
                         .value = kept.value};
      const bool is_time = kept.of == report::kArgumentOfLooseFlow && key == report::kFlowTimeKey;
      if (is_time && (__builtin_sub_overflow(kept.value, start_ns, &row.value) ||
                      !report::IsWithinReachOfFlows(row.value))) {
        not_understood_.Count("flow over a year away");
        continue;
      }
      batch.push_back(row);
    }
    return sink.Append(batch);
  });
}

}  // namespace profd::importer
