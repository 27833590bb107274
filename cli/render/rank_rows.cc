#include "cli/render/rank_rows.h"

#include <cmath>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/base/object.h"

namespace profd::cli {

RankRow RankRowOf(const report::GroupSteps& steps, const report::RankScore& of) {
  RankRow row = {.member = static_cast<int64_t>(of.member), .of = of};
  if (steps.matched_count == 0) {
    report::RankScore& figures = row.of;
    if (!steps.is_pipeline) figures.transfer_ns = figures.wait_ns = -1;
    // Of several peers, it is not known which one a rank waits for.
    if (!steps.is_pipeline || steps.enough_ranks) {
      figures.caused_wait_ns = figures.mean_caused_wait_ns = -1;
    }
    figures.last_count = figures.late_ns = -1;
  }
  if (steps.enough_ranks) row.score = of.score;
  return row;
}

std::vector<table::Field<RankRow>> ComparedRankFields() {
  using report::RankScore;
  using table::Path;
  using table::Unit;
  return {
      {&RankRow::rank,
       {.key = "rank",
        .doc = "Rank, from the program's metadata; -1: not known",
        .priority = kOnlyInData}},
      {[](const RankRow& row) { return row.rank < 0 ? std::string() : std::to_string(row.rank); },
       {.title = "Rank", .doc = "Rank of the process in its job"}},
      {&RankRow::node,
       {.key = "node",
        .title = "Node",
        .doc = "Node of the rank",
        .priority = 4,
        .flexible = true}},
      {&RankRow::pid,
       {.key = "pid", .title = "PID", .doc = "Process ID of the rank", .priority = 2}},
      {Path<&RankRow::of, &RankScore::step_count>(),
       {.key = "step_count",
        .title = "Steps",
        .doc = "Number of compared steps",
        .unit = Unit::kCount,
        .priority = 3}},
      {Path<&RankRow::of, &RankScore::duration_ns>(),
       {.key = "duration_ns",
        .title = "Step",
        .doc = "Median duration of its steps",
        .unit = Unit::kNs}},
      {Path<&RankRow::of, &RankScore::own_ns>(),
       {.key = "own_ns",
        .title = "Own work",
        .doc = "Time in which the rank neither waited in collectives nor transferred data for them",
        .formula = "median over steps of duration - transfer - wait",
        .unit = Unit::kNs}},
      {Path<&RankRow::of, &RankScore::more_own_ns>(),
       {.key = "more_own_ns",
        .doc = "Own work beyond that of the other ranks",
        .formula = "median over steps of own work - median of the other ranks",
        .unit = Unit::kNs,
        .priority = kOnlyInData}},
      {Path<&RankRow::of, &RankScore::cpu_wait_ns>(),
       {.key = "cpu_wait_ns",
        .title = "CPU wait",
        .doc = "Part of its own work in which the threads that work on the steps were ready to run "
               "but waited for a CPU, at most; null: not known",
        .formula = "median over steps",
        .unit = Unit::kNs,
        .priority = 1,
        .nullable = true}},
      {Path<&RankRow::of, &RankScore::slow_by_cpu_waits>(),
       {.key = "slow_by_cpu_waits",
        .doc = "Whether longer waits for a CPU than those of the other ranks can be at least half "
               "of more_own_ns: possible, no, or unknown (the rank's waits are not known)",
        .priority = kOnlyInData}},
      {Path<&RankRow::of, &RankScore::transfer_ns>(),
       {.key = "transfer_ns",
        .title = "Transfer",
        .doc = "Time in collectives after all ranks had arrived; null: none were matched",
        .unit = Unit::kNs,
        .priority = 1,
        .nullable = true}},
      {Path<&RankRow::of, &RankScore::wait_ns>(),
       {.key = "wait_ns",
        .title = "Wait",
        .doc = "Time in collectives before the last rank arrived, and in sends and receives before "
               "the peer was ready; null: none were matched",
        .formula = "median over steps",
        .unit = Unit::kNs,
        .nullable = true}},
      {Path<&RankRow::of, &RankScore::peer_wait_ns>(),
       {.key = "peer_wait_ns",
        .doc = "Part of its wait in sends and receives, beyond the shortest of their kind and size "
               "on any rank: at least so long it waited for a peer",
        .formula = "median over steps",
        .unit = Unit::kNs,
        .priority = kOnlyInData}},
      {Path<&RankRow::of, &RankScore::caused_wait_ns>(),
       {.key = "caused_wait_ns",
        .title = "Caused",
        .doc = "How long the other ranks together waited for the rank: of two ranks, the Wait of "
               "the other one",
        .formula = "median over steps of the sum of their waits for it",
        .unit = Unit::kNs,
        .nullable = true}},
      {Path<&RankRow::of, &RankScore::mean_caused_wait_ns>(),
       {.key = "mean_caused_wait_ns",
        .doc = "How long the other ranks together waited for the rank, also if in few steps",
        .formula = "mean over steps of the sum of their waits for it",
        .unit = Unit::kNs,
        .priority = kOnlyInData,
        .nullable = true}},
      {Path<&RankRow::of, &RankScore::last_count>(),
       {.key = "last_count",
        .title = "Last",
        .doc = "Number of matched collectives at which the rank arrived last",
        .unit = Unit::kCount,
        .nullable = true}},
      {Path<&RankRow::of, &RankScore::late_ns>(),
       {.key = "late_ns",
        .doc = "Time from the previous rank's arrival at those collectives to its own, per step "
               "on average",
        .unit = Unit::kNs,
        .priority = kOnlyInData,
        .nullable = true}},
      {[](const RankRow& row) { return std::ssize(row.of.slow_steps); },
       {.key = "slow_step_count",
        .doc = "Steps in which it delays the others, by 10 % of a step or more and by longer than "
               "any other rank",
        .unit = Unit::kCount,
        .priority = kOnlyInData}},
      {[](const RankRow& row) { return absl::StrJoin(row.of.slow_steps, ", "); },
       {.key = "slow_steps",
        .doc = "The numbers of these steps, comma-separated",
        .priority = kOnlyInData}},
      {Path<&RankRow::of, &RankScore::slow_step_delay_ns>(),
       {.key = "slow_step_delay_ns",
        .doc = "Its delay in these steps: own work above the others' median that they waited for",
        .formula = "mean over these steps",
        .unit = Unit::kNs,
        .priority = kOnlyInData}},
      {Path<&RankRow::of, &RankScore::slow_step_period>(),
       {.key = "slow_step_period",
        .doc = "These steps are every Nth one; 0: no such pattern",
        .unit = Unit::kCount,
        .priority = kOnlyInData}},
      {Path<&RankRow::of, &RankScore::is_slow_in_steps>(),
       {.key = "slow_in_steps",
        .doc = "Whether it is named for these steps: chance does not explain them, and its median "
               "step does not stand out",
        .priority = kOnlyInData}},
      {&RankRow::score,
       {.key = "score",
        .doc = "Modified z-score of its own work among the ranks; null: fewer than 3 ranks",
        .formula =
            "0.6745 x (own work - median) / median absolute deviation, which counts as at "
            "least 1 % of a step; where the middle two are 10 % of a step apart, medians are the "
            "lower one",
        .priority = kOnlyInData,
        .nullable = true,
        .may_be_negative = true}},
      {[](const RankRow& row) {
         return std::isnan(row.score) ? std::string() : absl::StrFormat("%.1f", row.score);
       },
       {.title = "Score",
        .doc = "How far its own work stands out among the ranks, as a modified z-score; a "
               "straggler has more than 3.5, step by step, and is the one that the others waited "
               "for, or delays them in some steps",
        .formula = "0.6745 x (own work - median) / median absolute deviation, which counts as at "
                   "least 1 % of a step",
        .right = true}},
      {Path<&RankRow::of, &RankScore::relative>(),
       {.key = "relative",
        .doc = "The least own work of any rank, relative to the rank's own work",
        .formula = "least own work / own work",
        .unit = Unit::kShare,
        .priority = kOnlyInData}},
      {Path<&RankRow::of, &RankScore::straggler>(),
       {.key = "straggler",
        .doc = "Whether the rank is a straggler",
        .priority = kOnlyInData,
        .highlight = true}}};
}

}  // namespace profd::cli
