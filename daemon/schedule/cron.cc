#include "daemon/schedule/cron.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/civil_time.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"

namespace profd {
namespace {

constexpr size_t kMaxTextBytes = 256;
// February 29th of a certain weekday comes once in 28 years, and 40 around 2100.
constexpr int kMaxYears = 41;
constexpr int64_t kLastYear = 9999;

struct FieldRange {
  std::string_view name;
  int lowest;
  int highest;
};

constexpr std::array<FieldRange, 5> kFields = {{
    {"minute", 0, 59},
    {"hour", 0, 23},
    {"day of the month", 1, 31},
    {"month", 1, 12},
    {"day of the week", 0, 7},
}};

absl::Status Wrong(const FieldRange& field, std::string_view part) {
  return absl::InvalidArgumentError(
      StrCat("cron: the ", field.name, " '", ForDisplay(part, 64), "' is not *, numbers in ",
             field.lowest, "-", field.highest,
             ", ranges of them (A-B), steps (*/S, A-B/S), or a list of these with commas"));
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::optional<int> ParseNumber(std::string_view text) {
  if (text.empty() || text.size() > 3) return std::nullopt;
  int value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
  }
  return value;
}

// One element of a list: sets its bits of `bits`.
bool ParseElement(std::string_view text, const FieldRange& field, std::bitset<60>& bits) {
  const std::vector<std::string_view> step_parts = Split(text, '/');
  if (step_parts.size() > 2) return false;
  const bool has_step = step_parts.size() == 2;
  int step = 1;
  if (has_step) {
    const std::optional<int> parsed = ParseNumber(step_parts[1]);
    if (!parsed.has_value() || *parsed < 1 || *parsed > field.highest) return false;
    step = *parsed;
  }
  int first = field.lowest;
  int last = field.highest;
  if (step_parts[0] != "*") {
    const std::vector<std::string_view> ends = Split(step_parts[0], '-');
    const std::optional<int> from = ParseNumber(ends.front());
    const std::optional<int> to = ParseNumber(ends.back());
    if (ends.size() > 2 || !from.has_value() || !to.has_value()) return false;
    if (has_step && ends.size() == 1) return false;  // What "5/15" means differs among crons.
    first = *from;
    last = *to;
  }
  if (first < field.lowest || last > field.highest || first > last) return false;
  for (int value = first; value <= last; value += step) bits.set(static_cast<size_t>(value));
  return true;
}

absl::StatusOr<std::bitset<60>> ParseField(std::string_view text, const FieldRange& field) {
  std::bitset<60> bits;
  for (const std::string_view element : Split(text, ',')) {
    if (!ParseElement(element, field, bits)) return Wrong(field, text);
  }
  return bits;
}

template <size_t kBits>
std::bitset<kBits> Narrow(const std::bitset<60>& bits) {
  std::bitset<kBits> out;
  for (size_t i = 0; i < std::min<size_t>(kBits, bits.size()); ++i) out[i] = bits[i];
  return out;
}

// The first set bit at or after `from`; size() if there is none.
template <size_t kBits>
size_t FirstFrom(const std::bitset<kBits>& bits, size_t from) {
  while (from < kBits && !bits[from]) ++from;
  return from;
}

}  // namespace

absl::StatusOr<CronExpression> CronExpression::Parse(std::string_view text) {
  if (text.size() > kMaxTextBytes) {
    return absl::InvalidArgumentError(
        StrCat("cron: ", text.size(), " bytes long; at most ", kMaxTextBytes));
  }
  std::vector<std::string_view> words = Split(text, ' ');
  std::erase(words, std::string_view());
  if (words.size() != kFields.size()) {
    return absl::InvalidArgumentError(
        StrCat("cron: '", ForDisplay(text, 80), "' has ", words.size(),
               " fields; write minute, hour, day of the month, month and day of the week, in UTC: "
               "\"30 4 * * 1-5\""));
  }
  std::array<std::bitset<60>, kFields.size()> bits;
  for (size_t i = 0; i < words.size(); ++i) {
    ASSIGN_OR_RETURN(bits[i], ParseField(words[i], kFields[i]));
  }
  CronExpression cron;
  cron.minutes_ = bits[0];
  cron.hours_ = Narrow<24>(bits[1]);
  cron.days_ = Narrow<32>(bits[2]);
  cron.months_ = Narrow<13>(bits[3]);
  // Sunday is 0 and 7.
  if (bits[4][7]) bits[4].set(0);
  cron.weekdays_ = Narrow<7>(bits[4]);
  cron.any_day_ = words[2] == "*";
  cron.any_weekday_ = words[4] == "*";
  // "30 4 31 2 *" is well-formed and never comes. A schedule that does nothing would look like one
  // that works.
  if (cron.Next(absl::UnixEpoch()) == absl::InfiniteFuture()) {
    return absl::InvalidArgumentError(
        StrCat("cron: '", ForDisplay(text, 80), "' never comes: no such day is in those months"));
  }
  return cron;
}

bool CronExpression::DayMatches(absl::CivilDay day) const {
  if (!months_[static_cast<size_t>(day.month())]) return false;
  const bool by_day = days_[static_cast<size_t>(day.day())];
  // absl counts from Monday.
  const auto weekday = (static_cast<size_t>(absl::GetWeekday(day)) + 1) % 7;
  const bool by_weekday = weekdays_[weekday];
  // As cron(8) has it: if both fields are restricted, a day that fits either of them is meant.
  if (any_day_) return by_weekday;
  if (any_weekday_) return by_day;
  return by_day || by_weekday;
}

absl::Time CronExpression::Next(absl::Time after) const {
  const absl::TimeZone utc = absl::UTCTimeZone();
  // Before 1970 nothing is scheduled, and the arithmetic below stays in range.
  absl::CivilMinute at =
      absl::ToCivilMinute(std::max(after, absl::UnixEpoch() - absl::Minutes(1)), utc) + 1;
  const absl::CivilYear first_year(at);
  auto hour = static_cast<size_t>(at.hour());
  auto minute = static_cast<size_t>(at.minute());
  absl::CivilDay day(at);
  while (day.year() <= std::min(first_year.year() + kMaxYears, kLastYear)) {
    if (!months_[static_cast<size_t>(day.month())]) {
      day = absl::CivilDay(absl::CivilMonth(day) + 1);
      hour = minute = 0;
      continue;
    }
    if (DayMatches(day)) {
      for (size_t h = FirstFrom(hours_, hour); h < hours_.size(); h = FirstFrom(hours_, h + 1)) {
        const size_t m = FirstFrom(minutes_, h == hour ? minute : 0);
        if (m == minutes_.size()) continue;
        return absl::FromCivil(absl::CivilMinute(day.year(), day.month(), day.day(),
                                                 static_cast<int>(h), static_cast<int>(m)),
                               utc);
      }
    }
    ++day;
    hour = minute = 0;
  }
  return absl::InfiniteFuture();
}

absl::Duration CronExpression::ShortestGap() const {
  // Gaps inside a day repeat every day that matches; those between days are looked at for a year.
  absl::Time at = absl::FromCivil(absl::CivilDay(2024, 1, 1), absl::UTCTimeZone());
  const absl::Time end = at + absl::Hours(24 * 366);
  absl::Duration shortest = absl::InfiniteDuration();
  absl::Time last = absl::InfinitePast();
  int looked_at = 0;
  constexpr int kEnough = 2 * 24 * 60 + 1;  // Two whole days, minute by minute.
  for (at = Next(at - absl::Minutes(1)); at < end; at = Next(at)) {
    shortest = std::min(shortest, at - last);
    last = at;
    if (shortest == absl::Minutes(1) || ++looked_at > kEnough) break;
  }
  return shortest;
}

}  // namespace profd
