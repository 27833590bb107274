// What a slow rank of a job does more of than the others, or more slowly, from reports on the
// captures of a few ranks. All figures are per step: a rank's medians over its steps, or its sums
// over its number of steps; "the others" have the median over the other ranks.
//
//   own work      ├──────── compute ───────┤├─ copies ─┤├──────── idle ────────┤
//   of that           kernels: more calls,                the host's parts: data loader,
//   by name           or longer ones                      operators, compilation, Python
//
// A rank without a GPU has the host's parts alone. Operators and kernels are compared by name.
// Where a rank runs other kernels than the others for the same work (a library may choose its
// kernels by trial), the two are shown together.
//
// Threads: any. Errors: none; any numbers are safe.
#ifndef PROFD_DAEMON_REPORT_FINDINGS_RANK_EXCESS_H_
#define PROFD_DAEMON_REPORT_FINDINGS_RANK_EXCESS_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "daemon/report/findings/findings.h"
#include "daemon/report/gpu/kernel_table.h"
#include "daemon/report/ops/profile.h"
#include "daemon/report/ranks/group_reports.h"
#include "daemon/report/time/time_report.h"

namespace profd::report {

// Reports on one rank's capture, as SummarizeTime(), SummarizeOpProfile(), and SummarizeKernels()
// make them by default.
struct RankFigures {
  TimeReport time;
  OpProfile ops;
  KernelTable kernels;
};

// Its waits for a CPU, where they are a possible cause (RankScore::slow_by_cpu_waits); else
// RankExcess::text is empty. `name` is the slow rank's, "rank 2"; `ranking` has all ranks.
RankExcess ExplainRankByCpuWaits(std::string_view name, const RankScore& slow,
                                 std::span<const RankScore> ranking);

// Adds to `by_cpu_waits` what else takes longer. `more_ns` is how much more own work the rank has
// per step, > 0. Parts and names that explain less than a tenth of `more_ns` are left out. Nothing
// is added without steps, without others, or if no part explains a tenth.
//
// `slow_steps`: the numbers of the steps in which the rank is slow, if not in all
// (RankScore::slow_steps). Then these are compared with the same steps of the others, and `more_ns`
// is of these. Operators and kernels are known per capture only: what they take more of is taken to
// be in these steps.
RankExcess ExplainRank(std::string_view name, const RankFigures& slow,
                       std::span<const RankFigures> others, int64_t more_ns,
                       RankExcess by_cpu_waits = {}, std::span<const int64_t> slow_steps = {});

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_FINDINGS_RANK_EXCESS_H_
