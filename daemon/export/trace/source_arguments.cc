#include "daemon/export/trace/source_arguments.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <numeric>
#include <tuple>

#include "absl/status/status.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/capture/event_kinds.h"
#include "daemon/export/trace/json_text.h"
#include "daemon/report/index/source_kinds.h"

namespace profd::exporter {
namespace {

using std::literals::string_view_literals::operator""sv;

constexpr size_t kMostKeyBytes = 80;
enum Shown : uint8_t { kUnknown, kShown, kHidden };

constexpr std::array<std::string_view, kRowArgumentCount> kRowArguments = {
    "Sequence number",
    "Fwd thread id",
    "Call stack",
    "Concrete Inputs",
    "Input type",
    "Input Strides",
    "Input Dims",
    "device",
    "context",
    "stream",
    "correlation",
    "cbid",
    "queued",
    "registers per thread",
    "shared memory",
    "grid",
    "block",
    "bytes",
    "Addr",
    "Device Id",
    "Device Type",
    "cuda_sync_kind",
    "wait_on_stream",
    "wait_on_cuda_event_record_corr_id",
    "wait_on_cuda_event_id"};

constexpr std::array kFirst = {"External id"sv, "external id"sv};
constexpr std::array kFigures = {"queued"sv, "blocks per SM"sv, "warps per SM"sv,
                                 "est. achieved occupancy %"sv, "memory bandwidth (GB/s)"sv};
// As exports of captures that were not imported have them.
constexpr std::array kLast = {"Sequence number"sv,
                              "Fwd thread id"sv,
                              "Call stack"sv,
                              "Concrete Inputs"sv,
                              "Input type"sv,
                              "Input Strides"sv,
                              "Input Dims"sv,
                              "launch_not_recorded"sv,
                              "Collective name"sv,
                              "Rank"sv,
                              "Group size"sv,
                              "Global rank start"sv,
                              "Global rank stride"sv,
                              "In split size"sv,
                              "Out split size"sv,
                              "In msg nelems"sv,
                              "dtype"sv,
                              "Python thread"sv,
                              "Python parent id"sv,
                              "Python id"sv,
                              "Python module id"sv,
                              "Module"sv};
constexpr std::string_view kVeryLast = "Ev Idx";

template <size_t kSize>
std::optional<size_t> PositionIn(const std::array<std::string_view, kSize>& list,
                                 std::string_view name) {
  const auto found = std::ranges::find(list, name);
  return found == list.end() ? std::nullopt
                             : std::optional(static_cast<size_t>(found - list.begin()));
}

}  // namespace

absl::StatusOr<SourceArguments> SourceArguments::Read(store::CaptureReader& reader) {
  SourceArguments source(reader.names());
  // Of a recorded capture: shown_arguments.h.
  if (reader.record().imported.source.empty()) return source;
  RETURN_IF_ERROR(
      reader.ForEach<ArgumentRow>([&](const ArgumentBatch& batch) { return source.Add(batch); }));
  source.SortKeys();
  source.Sort();
  return source;
}

absl::Status SourceArguments::Add(const ArgumentBatch& batch) {
  count_ += batch.size;
  if (count_ > kMostArguments) {
    return absl::ResourceExhaustedError(
        StrCat("the file has more than ", kMostArguments, " arguments"));
  }
  key_of_name_.resize(names_.size(), kMostKeys);
  may_be_shown_.resize(names_.size(), kUnknown);
  Table* table = nullptr;
  std::pair<uint8_t, uint32_t> last;
  for (size_t i = 0; i < batch.size; ++i) {
    const uint16_t key = KeyOf(batch.key[i]);
    if (key == kMostKeys) continue;
    const std::pair place(batch.of[i], batch.of_thread[i]);
    if (table == nullptr || place != last) {
      table = &tables_[place];
      last = place;
    }
    table->arguments.push_back({batch.value[i], batch.row[i], key, batch.type[i]});
    if (batch.type[i] == static_cast<uint8_t>(ArgumentType::kJson) &&
        !MayBeShown(static_cast<uint32_t>(batch.value[i]))) {
      table->arguments.back().type = static_cast<uint8_t>(ArgumentType::kAbsent);
    }
  }
  return absl::OkStatus();
}

// kMostKeys: it cannot be one, or there are too many.
uint16_t SourceArguments::KeyOf(uint32_t name) {
  uint16_t& known = key_of_name_[name];
  if (known != kMostKeys || names_[name].size() > kMostKeyBytes) return known;
  std::string text = ",";
  AppendJsonString(names_[name], text);
  text += ":";
  const auto found = std::ranges::find(keys_, text, &Key::text);
  if (found == keys_.end() && keys_.size() == kMostKeys) return known;
  known = static_cast<uint16_t>(found - keys_.begin());
  if (found != keys_.end()) return known;
  Key key = {.text = std::move(text), .name = names_[name]};
  key.rank = kLast.size();
  if (const std::optional<size_t> first = PositionIn(kFirst, key.name)) {
    key.part = kFirstArguments;
    key.rank = *first;
  } else if (const std::optional<size_t> figure = PositionIn(kFigures, key.name)) {
    key.part = kFigureArguments;
    key.rank = *figure;
  } else if (const std::optional<size_t> last = PositionIn(kLast, key.name)) {
    key.rank = *last;
  } else if (key.name == kVeryLast) {
    key.rank = kLast.size() + 1;
  }
  key.has = uint64_t{key.part} << kPartShift;
  if (const std::optional<size_t> argument = PositionIn(kRowArguments, key.name)) {
    key.has |= uint64_t{1} << *argument;
  }
  keys_.push_back(std::move(key));
  return known;
}

void SourceArguments::SortKeys() {
  std::vector<uint16_t> order(keys_.size());
  std::iota(order.begin(), order.end(), uint16_t{0});
  std::ranges::sort(order, [&](uint16_t a, uint16_t b) {
    return std::tie(keys_[a].part, keys_[a].rank, keys_[a].name) <
           std::tie(keys_[b].part, keys_[b].rank, keys_[b].name);
  });
  std::vector<Key> sorted;
  std::vector<uint16_t> position(keys_.size());
  for (const uint16_t key : order) {
    position[key] = static_cast<uint16_t>(sorted.size());
    sorted.push_back(std::move(keys_[key]));
  }
  keys_ = std::move(sorted);
  for (auto& [place, table] : tables_) {
    for (Argument& argument : table.arguments) argument.key = position[argument.key];
  }
}

bool SourceArguments::MayBeShown(uint32_t name) {
  uint8_t& known = may_be_shown_[name];
  if (known == kUnknown) {
    const std::string& json = names_[name];
    known = json.size() <= kMostValueBytes && IsPlainJson(json) ? kShown : kHidden;
  }
  return known == kShown;
}

void SourceArguments::Sort() {
  const auto by_row = [](const Argument& a, const Argument& b) {
    return a.row != b.row ? a.row < b.row : a.key < b.key;
  };
  for (auto& [place, table] : tables_) {
    std::stable_sort(table.arguments.begin(), table.arguments.end(), by_row);
    // JSON has each key once.
    const auto rest = std::unique(
        table.arguments.begin(), table.arguments.end(),
        [](const Argument& a, const Argument& b) { return a.row == b.row && a.key == b.key; });
    table.arguments.erase(rest, table.arguments.end());
  }
}

SourceArguments::Row SourceArguments::Of(uint8_t of, uint32_t thread, uint32_t row) {
  const auto found = tables_.find({of, thread});
  if (found == tables_.end()) return {};
  Table& table = found->second;
  const std::vector<Argument>& all = table.arguments;
  const bool is_next = table.next < all.size() && all[table.next].row == row;
  if (!is_next) {
    const auto at =
        std::lower_bound(all.begin(), all.end(), row,
                         [](const Argument& a, uint32_t wanted) { return a.row < wanted; });
    table.next = static_cast<size_t>(at - all.begin());
  }
  const size_t begin = table.next;
  Row result;
  while (table.next < all.size() && all[table.next].row == row) {
    result.has |= keys_[all[table.next++].key].has;
  }
  result.arguments = std::span(all).subspan(begin, table.next - begin);
  return result;
}

std::span<const SourceArguments::Argument> SourceArguments::AllOf(uint8_t of) const {
  const auto found = tables_.find({of, 0});
  return found == tables_.end() ? std::span<const Argument>() : found->second.arguments;
}

bool SourceArguments::HasKinds(uint8_t first, uint8_t last) const {
  const auto found = tables_.lower_bound({first, 0});
  return found != tables_.end() && found->first.first <= last;
}

std::string_view SourceArguments::JsonOf(const Argument& argument) const {
  return argument.type == static_cast<uint8_t>(ArgumentType::kJson)
             ? std::string_view(names_[static_cast<size_t>(argument.value)])
             : std::string_view();
}

std::optional<int64_t> SourceArguments::TidOf(uint32_t thread) {
  const Row row = Of(kArgumentOfThread, 0, thread);
  // Threads have no other argument.
  if (row.arguments.size() != 1) return std::nullopt;
  const Argument& tid = row.arguments.front();
  if (tid.type != static_cast<uint8_t>(ArgumentType::kInteger)) return std::nullopt;
  return tid.value;
}

std::optional<int64_t> SourceArguments::StartUnixNs() const {
  const std::span<const Argument> starts = AllOf(report::kArgumentOfStart);
  const bool is_known = starts.size() == 1 && starts[0].value <= 0 &&
                        starts[0].type == static_cast<uint8_t>(ArgumentType::kInteger);
  return is_known ? std::optional(starts[0].value) : std::nullopt;
}

char* SourceArguments::Put(char* at, const Row& row, unsigned parts) const {
  if ((row.has >> kPartShift & parts) == 0) return at;
  const char* const end = at + ((parts & kLastArguments) != 0 ? kMostLastBytes : kMostOtherBytes);
  for (const Argument& argument : row.arguments) {
    const auto type = static_cast<ArgumentType>(argument.type);
    if (type == ArgumentType::kAbsent || (keys_[argument.key].part & parts) == 0) continue;
    const std::string_view key = keys_[argument.key].text;
    const size_t bytes = key.size() + JsonOf(argument).size() + kMostNumberBytes + 2;
    if (static_cast<size_t>(end - at) < bytes) continue;
    at = PutValue(PutText(at, key), argument);
  }
  return at;
}

char* SourceArguments::PutValue(char* at, const Argument& argument) const {
  switch (static_cast<ArgumentType>(argument.type)) {
    case ArgumentType::kInteger:
      return PutInteger(at, argument.value);
    case ArgumentType::kQuotedInteger:
      *at++ = '"';
      at = PutInteger(at, argument.value);
      *at++ = '"';
      return at;
    case ArgumentType::kReal: {
      // A hostile file's may be none.
      const auto value = std::bit_cast<double>(argument.value);
      return std::isfinite(value) ? PutInteger(at, value) : PutText(at, "null");
    }
    case ArgumentType::kJson:
      return PutText(at, JsonOf(argument));
    case ArgumentType::kAbsent:
      break;
  }
  return at;
}

}  // namespace profd::exporter
