#include "daemon/export/trace/range_arguments.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>

#include "absl/status/status.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/export/trace/json_text.h"

namespace profd::exporter {
namespace {

// What profd's exports or Kineto themselves say of an event of any kind: readers take an event with
// a stream and a correlation for GPU work, wherever it stands.
constexpr auto kOwnKeys = std::to_array<std::string_view>({
    "External id",
    "external id",
    "Ev Idx",
    "finished",
    "began_before_window",
    "ended_after_window",
    "never_ended",
    "ended_with_thread",
    "stream",
    "correlation",
    "device",
    "context",
    "cbid",
    "queued",
    "graph id",
    "graph node id",
    "grid",
    "block",
    "shared memory",
    "registers per thread",
    "blocks per SM",
    "warps per SM",
    "est. achieved occupancy %",
    "kind",
    "bytes",
    "memory bandwidth (GB/s)",
    "fromDevice",
    "inDevice",
    "toDevice",
    "result",
    "wait_on_stream",
    "wait_on_cuda_event_record_corr_id",
    "wait_on_cuda_event_id",
    "cuda_sync_kind",
    "event_id",
    "Sequence number",
    "Fwd thread id",
    "Record function id",
    "Concrete Inputs",
    "Input Dims",
    "Input Strides",
    "Input type",
    "Call stack",
    "Module Hierarchy",
    "Python id",
    "Python parent id",
    "Python module id",
    "Python thread",
    "Trace name",
    "Trace iteration",
    "Collective name",
    "In msg nelems",
    "Out msg nelems",
    "In split size",
    "Out split size",
    "dtype",
    "Group size",
    "Process Group Name",
    "Process Group Description",
    "Process Group Ranks",
    "Global rank start",
    "Global rank stride",
    "Rank",
    "Src Rank",
    "Dst Rank",
    "Root Rank",
    "P2P Peer",
    "Seq",
    "Comms Id",
    "Is asynchronized op",
    "Total Allocated",
    "Total Reserved",
    "Addr",
    "Bytes",
    "Device Id",
    "Device Type",
});

std::string RealText(int64_t bits) {
  const auto value = std::bit_cast<double>(bits);
  if (!std::isfinite(value)) return "null";
  char text[kMostNumberBytes];
  return std::string(text, PutInteger(text, value));
}

}  // namespace

absl::StatusOr<RangeArguments> RangeArguments::Read(store::CaptureReader& reader) {
  RangeArguments result(reader.names());
  if (!reader.record().imported.source.empty()) return result;
  const auto is_kept = [](const ArgumentBatch& batch, size_t i) {
    return batch.of[i] == kArgumentOfRange &&
           static_cast<ArgumentType>(batch.type[i]) != ArgumentType::kAbsent;
  };
  size_t rows = 0;
  size_t count = 0;
  RETURN_IF_ERROR(reader.ForEach<ArgumentRow>([&](const ArgumentBatch& batch) {
    rows += batch.size;
    if (rows > kMostArguments) {
      return absl::ResourceExhaustedError(
          StrCat("the file has more than ", kMostArguments, " arguments"));
    }
    for (size_t i = 0; i < batch.size; ++i) count += is_kept(batch, i);
    return absl::OkStatus();
  }));
  if (count == 0) return result;
  std::vector<Argument>& all = result.arguments_;
  all.reserve(count);
  RETURN_IF_ERROR(reader.ForEach<ArgumentRow>([&](const ArgumentBatch& batch) {
    for (size_t i = 0; i < batch.size; ++i) {
      if (!is_kept(batch, i)) continue;
      all.push_back({.range = batch.row[i],
                     .key = batch.key[i],
                     .value = batch.value[i],
                     .type = static_cast<ArgumentType>(batch.type[i]),
                     .has_range = false,
                     .thread = batch.of_thread[i]});
    }
    return absl::OkStatus();
  }));
  std::ranges::stable_sort(all, {}, [](const Argument& argument) {
    return uint64_t{argument.thread} << 32 | argument.range;
  });
  struct Place {
    uint64_t rows;  // Of the thread, so far.
    size_t next;
  };
  std::map<uint32_t, Place> places;
  for (size_t i = 0; i < all.size(); ++i) places.try_emplace(all[i].thread, Place{0, i});
  uint32_t first_range = 0;
  RETURN_IF_ERROR(reader.ForEach<RangeRow>(kRangeStart, {}, [&](const RangeBatch& batch) {
    const auto size = static_cast<uint32_t>(batch.size);
    if (const auto of_thread = places.find(batch.thread); of_thread != places.end()) {
      Place& place = of_thread->second;
      for (; place.next < all.size() && all[place.next].thread == batch.thread &&
             all[place.next].range < place.rows + size;
           ++place.next) {
        Argument& argument = all[place.next];
        argument.range = first_range + static_cast<uint32_t>(argument.range - place.rows);
        argument.has_range = true;
      }
      place.rows += size;
    }
    first_range += size;
    return absl::OkStatus();
  }));
  std::erase_if(all, [](const Argument& argument) { return !argument.has_range; });
  std::ranges::stable_sort(all, {}, &Argument::range);
  return result;
}

std::span<const RangeArguments::Argument> RangeArguments::Of(uint32_t range) const {
  const auto first = std::ranges::lower_bound(arguments_, range, {}, &Argument::range);
  const auto last = std::ranges::upper_bound(arguments_, range, {}, &Argument::range);
  return std::span(first, last).first(std::min(kMostOfRange, static_cast<size_t>(last - first)));
}

std::vector<RangeArguments::Shown> RangeArguments::ShownOf(uint32_t range) const {
  std::vector<Shown> shown;
  for (const Argument& argument : Of(range)) {
    std::string key = ForDisplay(names_[argument.key], kMostValueBytes);
    if (std::ranges::find(kOwnKeys, key) != kOwnKeys.end()) key += " (argument)";
    if (std::ranges::find(shown, key, &Shown::key) != shown.end()) continue;
    shown.push_back({std::move(key), &argument});
  }
  return shown;
}

std::string RangeArguments::JsonOf(const Argument& argument) const {
  switch (argument.type) {
    case ArgumentType::kInteger:
      return StrCat(argument.value);
    case ArgumentType::kQuotedInteger:
      return StrCat("\"", argument.value, "\"");
    case ArgumentType::kReal:
      return RealText(argument.value);
    case ArgumentType::kJson: {
      const std::string& json = names_[static_cast<size_t>(argument.value)];
      if (json.size() <= kMostValueBytes && IsPlainJson(json)) return json;
      break;
    }
    case ArgumentType::kAbsent:
      break;
  }
  return "null";
}

std::string RangeArguments::MembersOf(uint32_t range, size_t max_bytes) const {
  std::string members;
  if (empty()) return members;
  for (const Shown& shown : ShownOf(range)) {
    std::string member = members.empty() ? "" : ",";
    AppendJsonString(shown.key, member);
    StrAppend(&member, ":", JsonOf(*shown.argument));
    if (members.size() + member.size() <= max_bytes) members += member;
  }
  return members;
}

}  // namespace profd::exporter
