// The collective operations of one capture, for comparing ranks: when each ended, which ranks took
// part, and how much of each step they took. collective_names.h defines what a collective is.
//
//   thread    ├─ nccl:all_reduce ──┤              one collective: the outermost such range,
//               ├─ record_param_comms ┤           what its note says of it,
//   stream            ██████████████████          and, where it launched kernels of NCCL, their
//   worker            ├─ gloo:all_reduce ─┤       time; or that of the worker that ran it
//
// Memory: 100 bytes per collective, and that of attribution for a capture with a GPU.
#ifndef PROFD_DAEMON_REPORT_RANKS_COLLECTIVES_H_
#define PROFD_DAEMON_REPORT_RANKS_COLLECTIVES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/base/table/table.h"
#include "daemon/report/index/collective_names.h"
#include "daemon/report/index/interval_set.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

// The ranks of the job that take part, as far as recorded.
struct Communicator {
  int64_t size = 0;         // Ranks; 0: unknown.
  int64_t first_rank = -1;  // -1: unknown
  int64_t rank_stride = -1;
  std::string id = {};    // Torch's name of the group, "11"; empty: unknown.
  std::string name = {};  // The program's, "TP"; empty: it gave none, or it is unknown.
  int64_t number = 0;     // Of CollectiveTable.communicators. Says nothing about the ranks.

  std::string_view shown_name() const { return name.empty() ? id : name; }
  auto identity() const { return std::tie(size, first_rank, rank_stride, id, name); }
  friend bool operator==(const Communicator& a, const Communicator& b) {
    return a.identity() == b.identity();
  }
  friend bool operator<(const Communicator& a, const Communicator& b) {
    return a.identity() < b.identity();
  }
};

struct CollectiveRow {
  int64_t start_ns = 0;  // On the device, if it ran there; else of the range on the host.
  int64_t duration_ns = 0;
  // Of that, what nothing hid: on the device no other kernel ran; on the host the thread that marks
  // the steps was in the call, or waited for the worker that ran it (collective_waits.h).
  int64_t exposed_ns = 0;
  int64_t sequence = -1;  // In its communicator; -1: not told.
  int64_t elements = -1;  // Of its first input; -1: not told.
  int64_t bytes = -1;     // That they take; -1: not told.
  // The number of the step that most of it ran in, on the host the one that it began in; -1: in
  // none.
  int64_t step = -1;
  uint32_t communicator = 0;  // Index into CollectiveTable.communicators.
  CollectiveKind kind = CollectiveKind::kOther;
  bool on_device = false;
  // It ends when the collective was done. If not, only the call that issued it is known.
  bool has_completion = true;

  friend bool operator==(const CollectiveRow&, const CollectiveRow&) = default;
};

// A step's duration, its time in collectives, and its waits for a CPU.
struct StepWorkRow {
  int64_t step = -1;  // -1: the capture has no steps, and this is one of its windows.
  int64_t duration_ns = 0;
  int64_t exposed_ns = 0;  // <= duration
  // How long the threads that work on the step waited for a CPU in it (cpu_waits.h), with a GPU at
  // most as long as that idled: 0..duration; -1: not known.
  int64_t cpu_wait_ns = -1;

  friend bool operator==(const StepWorkRow&, const StepWorkRow&) = default;
};

struct CollectiveTable {
  std::vector<Communicator> communicators;
  std::vector<CollectiveRow> rows;  // By start.
  std::vector<StepWorkRow> steps;   // By start.
  int64_t left_out_count = 0;       // Later ones, beyond the limit.
  // When a training thread was in a collective on the host, or waited for one; of all collectives.
  // Daemons do not send it.
  IntervalSet exposed_on_host;
};

inline constexpr int64_t kMostCollectives = 200'000;

// `limit`: rows kept, 1..kMostCollectives; 0: as many.
absl::StatusOr<CollectiveTable> SummarizeCollectives(store::CaptureReader& reader, int64_t limit);

// Waits for a CPU that cannot be are not known: of rows that come from elsewhere.
void ForgetImpossibleCpuWaits(std::vector<StepWorkRow>& steps);

table::Report ToReport(const CollectiveTable& collectives);
// The inverse, for a report from elsewhere. DATA_LOSS: its parts do not fit together.
absl::StatusOr<CollectiveTable> CollectivesFrom(const table::Report& report);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_RANKS_COLLECTIVES_H_
