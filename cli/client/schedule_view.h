// A schedule, and what became of its windows, as one daemon tells it.
#ifndef PROFD_CLI_CLIENT_SCHEDULE_VIEW_H_
#define PROFD_CLI_CLIENT_SCHEDULE_VIEW_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
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
  int64_t version = 0;  // Of the declaration; 0: the daemon has no versions.
  absl::Time next_window = absl::InfiniteFuture();  // InfiniteFuture: none.
  std::string node;                                 // As it calls itself.
  int64_t window_count = 0;
  int64_t capture_count = 0;
  int64_t capture_bytes = 0;
};

// What a declaration comes to on one node.
struct AppliedView {
  ScheduleView schedule;
  DeclaredChange change = DeclaredChange::kNone;
};

// A schedule as a file declares it.
struct DeclarationView {
  std::string id;
  int64_t version = 1;
  bool deleted = false;
  std::string display_name;
  std::string message;  // As the daemon takes it.
};

struct WindowView {
  ScheduleWindow window;
  std::string outcome;  // As told: there may be more than this version knows.
  std::string node;
};

// The declarations in a file of JSON (v1.ScheduleFile), in its order. INVALID_ARGUMENT (USAGE):
// names the schedule and the field. What a spec may be is the daemon's to check.
absl::StatusOr<std::vector<DeclarationView>> ParseScheduleFile(std::string_view json);
// That the schedule is deleted as of `version`.
DeclarationView DeletionOf(const std::string& id, int64_t version);

}  // namespace profd::cli

#endif  // PROFD_CLI_CLIENT_SCHEDULE_VIEW_H_
