// CronExpression: "minute hour day-of-month month day-of-week" in UTC, as cron has it.
//
//   30 4 * * 1-5       04:30 on working days
//   */15 0,12 1 1 *    every quarter of the hours 0 and 12 of each January 1st
//
// A field is `*`, a number, a range A-B, either of the latter two with a step (*/S, A-B/S), or a
// list of these with commas. Days of the week are 0-7; 0 and 7 are Sunday. Where both the day of
// the month and the day of the week are restricted, a day that is either will do. Names and
// "@daily" are not taken: there is one way to write each.
//
// Threads: any; immutable.
#ifndef PROFD_DAEMON_SCHEDULE_CRON_H_
#define PROFD_DAEMON_SCHEDULE_CRON_H_

#include <bitset>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace profd {

class CronExpression {
 public:
  // INVALID_ARGUMENT naming the field and its range; also where no date ever matches.
  static absl::StatusOr<CronExpression> Parse(std::string_view text);

  // The first match later than `after`, at a whole minute. InfiniteFuture beyond the year 9999.
  absl::Time Next(absl::Time after) const;

  // The shortest time between two matches, of those of a year (a leap year).
  absl::Duration ShortestGap() const;

 private:
  CronExpression() = default;
  bool DayMatches(absl::CivilDay day) const;

  std::bitset<60> minutes_;
  std::bitset<24> hours_;
  std::bitset<32> days_;     // 1..31
  std::bitset<13> months_;   // 1..12
  std::bitset<7> weekdays_;  // 0 is Sunday.
  bool any_day_ = true;      // The day of the month is `*`.
  bool any_weekday_ = true;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SCHEDULE_CRON_H_
