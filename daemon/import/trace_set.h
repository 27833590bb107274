// Which traces are of the ranks of one job, by what each says of itself (`distributedInfo`).
#ifndef PROFD_DAEMON_IMPORT_TRACE_SET_H_
#define PROFD_DAEMON_IMPORT_TRACE_SET_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace profd::importer {

struct TraceRank {
  int64_t rank = 0;
  int64_t world_size = 0;  // Ranks of the job.
};

// What the trace says of its rank; nullopt: not both of it. Reads to the first event, or, where it
// is not said in front of the events, the whole file without a look into them. `is_cancelled` as
// ImportOptions has it.
//
// Threads: any.
// Memory:  a window of the trace, as ImportTrace().
// Errors:  of a file that ImportTrace() would refuse, some of its.
absl::StatusOr<std::optional<TraceRank>> RankOfTrace(const std::filesystem::path& trace,
                                                     const std::function<bool()>& is_cancelled);

struct TraceSet {
  // Two or more traces, each of a rank of its own, of one number of ranks.
  bool is_job = false;
  int64_t world_size = 0;
  std::vector<int64_t> absent_ranks;  // Without a trace, in order; at most kMostNamed of them.
  int64_t absent_count = 0;
  // Why traces that say ranks are not those of one job; empty: none says any, or they are.
  std::string contradiction;

  static constexpr int64_t kMostNamed = 16;
};
// `ranks` are of `traces`, by position.
TraceSet SetOf(std::span<const std::string> traces,
               std::span<const std::optional<TraceRank>> ranks);

}  // namespace profd::importer

#endif  // PROFD_DAEMON_IMPORT_TRACE_SET_H_
