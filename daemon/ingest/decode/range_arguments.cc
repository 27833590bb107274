#include "daemon/ingest/decode/range_arguments.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/ingest/decode/untrusted_values.h"
#include "proto/wire/range_arguments.h"

namespace profd {
namespace {

// What record_function() calls its second argument.
constexpr std::string_view kArgumentOfTorch = "args";

size_t PaddedSize(size_t bytes) { return (bytes + 7) / 8 * 8; }

// The bytes of a value after its head; nullopt: it is none.
std::optional<size_t> ValueSize(const wire::OperatorInput& input) {
  switch (static_cast<wire::InputKind>(input.kind)) {
    case wire::InputKind::kNone:
    case wire::InputKind::kOther:
      return 0;
    case wire::InputKind::kInt:
    case wire::InputKind::kDouble:
    case wire::InputKind::kBool:
      return sizeof(uint64_t);
    case wire::InputKind::kString:
      if (input.count > wire::kMaxInputStringBytes) return std::nullopt;
      return input.count;
    default:
      return std::nullopt;
  }
}

bool IsKey(const wire::OperatorInput& input) {
  return input.kind == static_cast<uint8_t>(wire::InputKind::kString) && input.count > 0 &&
         input.count <= wire::kMaxArgumentKeyBytes;
}

// Takes an input and its value off `untrusted`. False: there is none.
bool TakeInput(std::string_view& untrusted, wire::OperatorInput& input, std::string_view& value) {
  if (untrusted.size() < sizeof(input)) return false;
  memcpy(&input, untrusted.data(), sizeof(input));
  untrusted.remove_prefix(sizeof(input));
  const std::optional<size_t> size = ValueSize(input);
  if (!size.has_value() || untrusted.size() < PaddedSize(*size)) return false;
  value = untrusted.substr(0, *size);
  untrusted.remove_prefix(PaddedSize(*size));
  return true;
}

bool IsCut(const wire::OperatorInput& input) { return (input.flags & wire::kInputCut) != 0; }

std::string_view InputsOf(const std::byte* record, uint32_t size) {
  constexpr size_t kHead = sizeof(wire::OperatorEvent);
  return {reinterpret_cast<const char*>(record) + kHead, size - kHead};
}

std::string JsonText(std::string_view text, bool is_cut) {
  std::string json = "\"";
  AppendJsonEscaped(text, json);
  StrAppend(&json, is_cut ? "...\"" : "\"");
  return json;
}

template <typename Word>
Word WordOf(std::string_view bytes) {
  return LoadUnaligned<Word>(reinterpret_cast<const std::byte*>(bytes.data()));
}

}  // namespace

bool RangeArguments::AreArguments(const std::byte* record, uint32_t size) {
  return size >= sizeof(wire::OperatorEvent) &&
         LoadUnaligned<uint8_t>(record + offsetof(wire::OperatorEvent, scope)) ==
             wire::kArgumentScope;
}

bool RangeArguments::Decode(const std::byte* record, uint32_t size, uint32_t thread) {
  const auto event = LoadUnaligned<wire::OperatorEvent>(record);
  if (event.depth >= wire::kMaxRangeDepth || event.start_ticks == 0 || event.input_count % 2 != 0 ||
      event.described_count % 2 != 0 || event.described_count > event.input_count ||
      event.described_count > 2 * wire::kMaxRangeArguments) {
    return false;
  }
  std::string_view untrusted = InputsOf(record, size);
  const std::string_view all = untrusted;
  bool is_cut = event.described_count < event.input_count;
  for (uint32_t i = 0; i < event.described_count; ++i) {
    wire::OperatorInput input;
    std::string_view value;
    if (!TakeInput(untrusted, input, value) || (i % 2 == 0 && !IsKey(input))) return false;
    is_cut |= IsCut(input);
  }
  Add(event.start_ticks, {.thread = thread,
                          .is_cut = is_cut,
                          .inputs = std::string(all.substr(0, all.size() - untrusted.size()))});
  return true;
}

void RangeArguments::DecodeOfTorch(const std::byte* record, uint32_t size, uint32_t thread) {
  const auto event = LoadUnaligned<wire::OperatorEvent>(record);
  if (event.scope != static_cast<uint8_t>(wire::OperatorScope::kUserScope) ||
      event.input_count != 1 || event.described_count != 1 || event.start_ticks == 0) {
    return;
  }
  std::string_view untrusted = InputsOf(record, size);
  const std::string_view all = untrusted;
  wire::OperatorInput input;
  std::string_view value;
  if (!TakeInput(untrusted, input, value) ||
      input.kind != static_cast<uint8_t>(wire::InputKind::kString)) {
    return;
  }
  const wire::OperatorInput key = {.kind = static_cast<uint8_t>(wire::InputKind::kString),
                                   .dtype = -1,
                                   .rank = 0,
                                   .flags = 0,
                                   .count = kArgumentOfTorch.size()};
  std::string inputs(reinterpret_cast<const char*>(&key), sizeof(key));
  inputs += kArgumentOfTorch;
  inputs.resize(sizeof(key) + PaddedSize(kArgumentOfTorch.size()));
  inputs += all.substr(0, all.size() - untrusted.size());
  Add(event.start_ticks, {.thread = thread, .is_cut = IsCut(input), .inputs = std::move(inputs)});
}

void RangeArguments::Add(uint64_t start_ticks, Waiting arguments) {
  // Arguments and range come in either order. Whichever is first waits for the other, under the
  // tick at which both say that the range began.
  if (const std::optional<Kept> range = lanes_.Take(start_ticks)) {
    return Append(arguments, *range);
  }
  const size_t bytes = sizeof(Waiting) + arguments.inputs.size();
  cut_count_ += waiting_.Add(start_ticks, std::move(arguments), bytes);
}

void RangeArguments::Keep(uint64_t start_ticks, Kept range, bool is_lane) {
  const Waiting* const waiting = waiting_.empty() ? nullptr : waiting_.Find(start_ticks);
  if (waiting == nullptr) {
    if (is_lane) lanes_.Add(start_ticks, range, sizeof(range));
    return;
  }
  // Another thread's range of the same tick.
  if (!is_lane && waiting->thread != range.thread) return;
  Append(*waiting_.Take(start_ticks), range);
}

void RangeArguments::Append(const Waiting& arguments, Kept range) {
  bool is_cut = arguments.is_cut;
  std::string_view inputs = arguments.inputs;
  const size_t first = rows_.size();
  while (!inputs.empty()) {
    wire::OperatorInput key;
    wire::OperatorInput input;
    std::string_view name;
    std::string_view value;
    // Checked when it came.
    if (!TakeInput(inputs, key, name) || !TakeInput(inputs, input, value)) break;
    ArgumentRow row = {.of = kArgumentOfRange,
                       .of_thread = range.thread,
                       .row = range.row,
                       .key = TextId(ForDisplay(name, wire::kMaxArgumentKeyBytes)),
                       .type = ArgumentType::kJson,
                       .value = 0};
    const bool is_new =
        std::none_of(rows_.begin() + static_cast<std::ptrdiff_t>(first), rows_.end(),
                     [&](const ArgumentRow& other) { return other.key == row.key; });
    if (row.key != 0 && is_new && SetValue(input, value, row)) {
      rows_.push_back(row);
    } else {
      is_cut = true;
    }
  }
  cut_count_ += is_cut;
}

bool RangeArguments::SetValue(const wire::OperatorInput& input, std::string_view bytes,
                              ArgumentRow& row) {
  std::string json;
  switch (static_cast<wire::InputKind>(input.kind)) {
    case wire::InputKind::kInt:
      row.type = ArgumentType::kInteger;
      row.value = WordOf<int64_t>(bytes);
      return true;
    case wire::InputKind::kDouble: {
      const auto value = WordOf<double>(bytes);
      if (std::isfinite(value)) {
        row.type = ArgumentType::kReal;
        row.value = std::bit_cast<int64_t>(value);
        return true;
      }
      json = std::isnan(value) ? R"("NaN")" : value > 0 ? R"("Infinity")" : R"("-Infinity")";
      break;
    }
    case wire::InputKind::kBool:
      json = WordOf<int64_t>(bytes) != 0 ? "true" : "false";
      break;
    case wire::InputKind::kString:
      json = JsonText(ToValidUtf8(bytes), IsCut(input));
      break;
    case wire::InputKind::kOther:
      json = "\"(no text)\"";
      break;
    default:
      json = "null";
  }
  row.value = TextId(std::move(json));
  return row.value != 0;
}

uint32_t RangeArguments::TextId(std::string text) {
  const size_t bytes = text.size();
  const bool has_room = text_count_ < kMaxTexts && text_bytes_ + bytes <= kMaxTextBytes;
  bool is_new = false;
  const uint32_t id = names_.IdOf(std::move(text), has_room, is_new);
  text_count_ += is_new;
  text_bytes_ += is_new ? bytes : 0;
  return id;
}

void RangeArguments::Give() {
  sink_.Do([&](CaptureSink& sink) { return sink.Append(rows_); });
  rows_.clear();
}

}  // namespace profd
