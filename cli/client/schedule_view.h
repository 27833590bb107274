// A schedule, and what became of its windows, as one daemon tells it.
#ifndef PROFD_CLI_CLIENT_SCHEDULE_VIEW_H_
#define PROFD_CLI_CLIENT_SCHEDULE_VIEW_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "daemon/schedule/schedule_types.h"

namespace profd::cli {

struct ScheduleView {
  std::string id;
  ScheduleSpec spec;
  ScheduleState state = ScheduleState::kActive;
  std::string created_by;
  absl::Time create_time;
  std::string spec_hash;
  absl::Time next_window = absl::InfiniteFuture();  // InfiniteFuture: none.
  std::string node;                                 // As it calls itself.
  int64_t window_count = 0;
  int64_t capture_count = 0;
  int64_t capture_bytes = 0;
};

struct WindowView {
  ScheduleWindow window;
  std::string outcome;  // As told: there may be more than this version knows.
  std::string node;
};

}  // namespace profd::cli

#endif  // PROFD_CLI_CLIENT_SCHEDULE_VIEW_H_
