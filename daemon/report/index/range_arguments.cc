#include "daemon/report/index/range_arguments.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <map>

#include "absl/status/status.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"

namespace profd::report {

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

std::string RangeArguments::NumberText(const Argument& argument) {
  switch (argument.type) {
    case ArgumentType::kInteger:
      return StrCat(argument.value);
    case ArgumentType::kQuotedInteger:
      return StrCat("\"", argument.value, "\"");
    case ArgumentType::kReal: {
      const auto value = std::bit_cast<double>(argument.value);
      if (!std::isfinite(value)) return "null";
      std::array<char, 32> text;
      return std::string(text.data(),
                         std::to_chars(text.data(), text.data() + text.size(), value).ptr);
    }
    case ArgumentType::kJson:
    case ArgumentType::kAbsent:
      break;
  }
  return "null";
}

std::span<const RangeArguments::Argument> RangeArguments::Of(uint32_t range) const {
  const auto first = std::ranges::lower_bound(arguments_, range, {}, &Argument::range);
  const auto last = std::ranges::upper_bound(arguments_, range, {}, &Argument::range);
  return std::span(first, last).first(std::min(kMostOfRange, static_cast<size_t>(last - first)));
}

}  // namespace profd::report
