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

// What exports themselves say of a range.
constexpr auto kOwnKeys = std::to_array<std::string_view>({
    "External id",
    "external id",
    "Ev Idx",
    "finished",
    "began_before_window",
    "never_ended",
    "ended_with_thread",
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
  struct Found {
    uint32_t row;
    Argument argument;
  };
  std::map<uint32_t, std::vector<Found>> by_thread;
  size_t count = 0;
  RETURN_IF_ERROR(reader.ForEach<ArgumentRow>([&](const ArgumentBatch& batch) {
    count += batch.size;
    if (count > kMostArguments) {
      return absl::ResourceExhaustedError(
          StrCat("the file has more than ", kMostArguments, " arguments"));
    }
    for (size_t i = 0; i < batch.size; ++i) {
      const auto type = static_cast<ArgumentType>(batch.type[i]);
      if (batch.of[i] != kArgumentOfRange || type == ArgumentType::kAbsent) continue;
      by_thread[batch.of_thread[i]].push_back(
          {batch.row[i], {.range = 0, .key = batch.key[i], .value = batch.value[i], .type = type}});
    }
    return absl::OkStatus();
  }));
  if (by_thread.empty()) return result;
  for (auto& [thread, found] : by_thread) std::ranges::stable_sort(found, {}, &Found::row);
  struct Place {
    uint32_t rows = 0;  // Of the thread, so far.
    size_t next = 0;
  };
  std::map<uint32_t, Place> places;
  uint32_t first_range = 0;
  RETURN_IF_ERROR(reader.ForEach<RangeRow>(kRangeStart, {}, [&](const RangeBatch& batch) {
    const auto size = static_cast<uint32_t>(batch.size);
    if (const auto of_thread = by_thread.find(batch.thread); of_thread != by_thread.end()) {
      Place& place = places[batch.thread];
      const std::vector<Found>& found = of_thread->second;
      for (; place.next < found.size() && found[place.next].row < place.rows + size; ++place.next) {
        Argument argument = found[place.next].argument;
        argument.range = first_range + (found[place.next].row - place.rows);
        result.arguments_.push_back(argument);
      }
      place.rows += size;
    }
    first_range += size;
    return absl::OkStatus();
  }));
  std::ranges::stable_sort(result.arguments_, {}, &Argument::range);
  return result;
}

std::span<const RangeArguments::Argument> RangeArguments::Of(uint32_t range) const {
  const auto of_range = std::ranges::equal_range(arguments_, range, {}, &Argument::range);
  return std::span(of_range.begin(), of_range.end())
      .first(std::min(kMostOfRange, static_cast<size_t>(of_range.size())));
}

std::string RangeArguments::KeyOf(const Argument& argument) const {
  return ForDisplay(names_[argument.key], kMostValueBytes);
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
  std::vector<std::string> keys;
  for (const Argument& argument : Of(range)) {
    std::string key = KeyOf(argument);
    if (std::ranges::find(kOwnKeys, key) != kOwnKeys.end()) key += " (argument)";
    if (std::ranges::find(keys, key) != keys.end()) continue;
    std::string member = members.empty() ? "" : ",";
    AppendJsonString(key, member);
    StrAppend(&member, ":", JsonOf(argument));
    if (members.size() + member.size() > max_bytes) continue;
    members += member;
    keys.push_back(std::move(key));
  }
  return members;
}

}  // namespace profd::exporter
