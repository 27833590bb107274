#include "daemon/report/findings/contention.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/report/findings/outliers.h"
#include "daemon/report/findings/rules.h"

namespace profd::report {
namespace {

// The wait for a CPU explains a time if it is this share of it or more.
constexpr double kExplainingShare = 0.8;
// Slow steps whose operators are compared with those of their neighbors, which takes time.
constexpr size_t kMostExamined = 16;

bool Explains(int64_t waited_ns, int64_t ns, int64_t unreported_ns = 0) {
  return ns - waited_ns <= unreported_ns ||
         static_cast<double>(waited_ns) >= kExplainingShare * static_cast<double>(ns);
}

// Whether the loader has workers: of one without, waiting for data is making it.
bool HasWorkers(const Facts& facts) {
  if (facts.time.data_loader.count == 0) return false;
  return std::ranges::none_of(facts.gaps.loader_waits, [](const Evidence& wait) {
    return wait.name.find("_SingleProcessDataLoaderIter") != std::string::npos;
  });
}

std::string OfEachStep(const Facts& facts) {
  return facts.scope.has_steps ? "each step" : "the capture";
}

void Doubt(std::string reason, const Facts& facts, Finding& finding) {
  finding.confidence = Confidence::kLow;
  finding.confidence_reason = std::move(reason);
  if (facts.cpu.watched_ns >= kShortestCpuWatchNs) {
    StrAppend(&finding.confidence_reason, " (CPU_CONTENTION)");
  }
}

}  // namespace

void DoubtIfWithoutCpu(const Facts& facts, const FindingThresholds& thresholds, int64_t ns_per_step,
                       Finding& finding, bool burst_can_explain, int64_t unreported_ns) {
  if (facts.cpu.may_be_one_burst && !burst_can_explain) return;
  if (facts.cpu.Share() <= thresholds.cpu_wait_share) return;
  const int64_t waited_ns = facts.CpuWaitPerStep();
  if (!Explains(waited_ns, ns_per_step, unreported_ns)) return;
  Doubt(StrCat("the thread waits for a CPU for ", TimeText(waited_ns), " of ", OfEachStep(facts),
               ", which can explain it"),
        facts, finding);
}

void DoubtIfThreadsWithoutCpu(const Facts& facts, const FindingThresholds& thresholds,
                              int64_t ns_per_step, Finding& finding, int64_t unreported_ns) {
  const double share = facts.cpu.AllShare();
  if (share <= thresholds.cpu_wait_share) return;
  const int64_t waited_ns =
      facts.PerStep(static_cast<int64_t>(share * static_cast<double>(facts.scope.total_ns)));
  if (!Explains(waited_ns, ns_per_step, unreported_ns)) return;
  Doubt(StrCat("the threads of the program together wait for a CPU for ", TimeText(waited_ns),
               " of ", OfEachStep(facts), ", which can explain it"),
        facts, finding);
}

void DoubtIfWorkersWithoutCpu(const Facts& facts, int64_t ns_per_step, Finding& finding,
                              int64_t unreported_ns) {
  const int64_t workers_ns = facts.WorkerWaitPerStep();
  if (workers_ns == 0 || !HasWorkers(facts)) return;
  const int64_t waited_ns = workers_ns + facts.CpuWaitPerStep();
  if (!Explains(waited_ns, ns_per_step, unreported_ns)) return;
  Doubt(StrCat("the program and its child processes (", facts.cpu.child_count,
               ") wait for a CPU, which can delay each step by up to ", TimeText(waited_ns)),
        facts, finding);
}

absl::Status FindWaitingSteps(store::CaptureReader& reader, const FindingThresholds& thresholds,
                              Facts& facts) {
  WaitingSteps& result = facts.waiting;
  result.explained.resize(facts.scope.stretches.size());
  const std::optional<StepCharges> charges = ChargesOf(facts.scope, thresholds);
  if (!charges.has_value()) return absl::OkStatus();
  const bool has_workers = HasWorkers(facts);
  std::vector<bool> remaining = facts.host.outliers;
  size_t examined = 0;
  for (size_t i = 0; i < facts.scope.stretches.size(); ++i) {
    if (!facts.host.outliers[i]) continue;
    const FindingScope::Stretch& step = facts.scope.stretches[i];
    const std::optional<int64_t> waited_ns =
        facts.cpu.MostWaited(step.start_ns, step.end_ns, has_workers);
    if (!waited_ns.has_value()) continue;
    const int64_t without_ns = charges->charged_ns[i] - *waited_ns;
    if (static_cast<double>(without_ns) > charges->bound_ns) continue;
    if (++examined > kMostExamined) break;
    ASSIGN_OR_RETURN(const SlowStep why,
                     ExplainStep(reader, facts.scope, facts.time, facts.host.outliers, i));
    // Other work explains its time better than a wait.
    if (why.mostly_more_calls) continue;
    result.explained[i] = true;
    remaining[i] = false;
    ++result.count;
    result.waited_ns += *waited_ns;
  }
  if (result.count > 0 && std::ranges::count(remaining, true) > 0) {
    ASSIGN_OR_RETURN(facts.slowest, ExplainSlowestStep(reader, facts.scope, facts.time, remaining));
  }
  return absl::OkStatus();
}

}  // namespace profd::report
