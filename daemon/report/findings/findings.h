// Findings: what to change first, in words, with evidence.
//
//   verdict    one paragraph: where the time goes, what to change first, the estimated saving, and
//              whether the numbers can be trusted
//   findings   what may end the run, then what the verdict says to change first, then by estimated
//              saving; symptoms after the cause that explains them
//   skipped    rules that could not be checked, and the data that they need
//   passed     rules that were checked and found nothing
//
// Savings are estimates of wall time per step. Idle time of the GPU is in the saving of one finding
// only (idle_claims.h). Other savings may overlap (kernels that are both small and unfused), so
// they must not be added up. A capture without steps counts as one step.
//
// Facts are gathered once (facts.h); a rule is a function over them (rules.h).
//
// Threads: any, one reader each.
// Memory:  that of the reports that it uses, one after the other (op_table.h, time_report.h,
//          memory_report.h), and 56 bytes per GPU row during the search for gaps.
// Errors:  the reader's; INVALID_ARGUMENT for thresholds out of range.
#ifndef PROFD_DAEMON_REPORT_FINDINGS_FINDINGS_H_
#define PROFD_DAEMON_REPORT_FINDINGS_FINDINGS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/base/table/object.h"
#include "daemon/base/table/table.h"
#include "daemon/capture/quality.h"
#include "daemon/report/findings/thresholds.h"
#include "daemon/report/ranks/group_reports.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

// Severity by saving: kCritical from a quarter of a step, kWarning from a twentieth, else kInfo.
// For findings that cost no time but may end the run (memory), the rule sets it.
enum class Severity { kInfo, kWarning, kCritical };
std::string_view ToString(Severity severity);  // "warning"
bool FromString(std::string_view name, Severity& severity);

enum class Confidence { kLow, kMedium, kHigh };
std::string_view ToString(Confidence confidence);  // "high"
bool FromString(std::string_view name, Confidence& confidence);

// The unit of `value` and `threshold` of a finding.
enum class FindingUnit {
  kShare,  // 0..1
  kNs,
  kBytes,
  kCount,
  kRatio,
};
std::string_view ToString(FindingUnit unit);  // "share"
bool FromString(std::string_view name, FindingUnit& unit);

// The subject of an evidence row, so that a page can link to it.
enum class EvidenceKind {
  kStep,        // `step`
  kOp,          // `name` is a range: op table
  kKernel,      // `name` is a kernel, demangled: kernel table
  kCopy,        // `name` as in CopyRow
  kCall,        // `name` is an API call
  kGap,         // An idle time of the device: start_ns, duration_ns
  kCollective,  // `name`
  kMemory,      // `name`: an op or a category; bytes
  kCode,        // `name`: a place in the program
  kCheck,       // `name`: a check of the capture's quality
  kRank,        // `name`: a rank of the group; `duration_ns`: its own work in a step
};
std::string_view ToString(EvidenceKind kind);  // "step"
bool FromString(std::string_view name, EvidenceKind& kind);

struct Evidence {
  EvidenceKind kind = EvidenceKind::kOp;
  std::string name;          // As recorded or displayed: any bytes.
  std::string detail;        // For display: "while aten::item ran"; may be empty.
  int64_t count = -1;        // -1: not applicable; likewise below.
  int64_t duration_ns = -1;  // Of one, or the sum over `count`.
  int64_t bytes = -1;
  int64_t step = -1;  // Its number.
  // What the framework calls that step; -1: unknown. Set for all findings after their rules.
  int64_t global_step = -1;
  int64_t device = -1;
  int64_t start_ns = kNoTime;  // The start of it, or of the longest one.
  int64_t step_count = -1;     // In how many steps, where sums were counted by step.

  static constexpr int64_t kNoTime = INT64_MIN;
};
inline constexpr size_t kMostEvidence = 10;  // Rows per finding, the largest first.

struct Finding {
  std::string rule;  // "COMM_EXPOSED"
  std::string title;
  Severity severity = Severity::kInfo;
  FindingUnit unit = FindingUnit::kShare;
  double value = 0;
  double threshold = 0;
  int64_t saving_ns_per_step = 0;  // 0: none, or not estimated.
  bool counted_elsewhere = false;  // Other findings count all of its saving.
  Confidence confidence = Confidence::kMedium;
  std::string confidence_reason;  // "3 steps"
  std::string measured;           // One sentence with the figures.
  std::string advice;             // What to change.
  std::vector<Evidence> evidence;
};

struct SkippedRule {
  std::string rule;
  std::string title;
  std::string needs;  // "events of an allocator (profctl trace --with memory)"
};

struct PassedRule {
  std::string rule;
  std::string title;
  FindingUnit unit = FindingUnit::kShare;
  double value = 0;
  double threshold = 0;
};

// Where a step's time goes, for the verdict; for the device with the most work.
enum class BoundBy {
  kUnknown,
  kHost,           // The GPU waits for the program.
  kCompute,        // The GPU computes nearly all the time.
  kCommunication,  // Exposed communication is the largest loss; likewise below.
  kInput,          // The program waits for data.
  kCopies,
  kSynchronization,  // The program waits for the GPU, which then waits for the program.
  kAllocation,       // The program waits for memory.
  kStartUp,          // The first calls load the driver.
  kCompilation,
  kProfiler,   // The recording itself.
  kHostWork,   // Operators and ranges that launch nothing.
  kApiCalls,   // Calls of CUDA take long that neither launch, nor wait, nor allocate.
  kLateStart,  // Launched work does not start.
  kOtherGpus,  // Other GPUs of the process work meanwhile: they take turns.
  kCpuOnly,    // No GPU was used.
};
std::string_view ToString(BoundBy bound);  // "host"
bool FromString(std::string_view name, BoundBy& bound);

struct FindingsReport {
  std::string verdict;
  BoundBy bound = BoundBy::kUnknown;
  Quality quality;
  int64_t step_count = 0;    // Steps in averages; 0: no steps, the window counts as one.
  int64_t mean_step_ns = 0;  // Of these steps, or of the window.
  // Steps that are not in averages are the first ones. `steps_of_gpu`: each lasts from the GPU's
  // first work for it to that for the next step, not from mark to mark.
  bool steps_of_gpu = false;
  // Of the GPU in these steps, summed; -1: no GPU. As the time report has them (TimeBreakdown).
  int64_t idle_ns = -1;
  int64_t gap_count = -1;
  // A step without the recording, and the idle time of the GPU in it; -1: recording did not
  // certainly make steps longer, or there is no GPU.
  int64_t unrecorded_step_ns = -1;
  int64_t unrecorded_idle_ns = -1;
  std::vector<Finding> findings;  // In the order above.
  std::vector<SkippedRule> skipped;
  std::vector<PassedRule> passed;
};

// What the slow rank of a group does more of than the others (rank_excess.h).
struct RankExcess {
  std::string text;                // "Compared with 3 other ranks, ..."; empty: unknown.
  std::string advice;              // "Check how ..."
  std::vector<Evidence> evidence;  // Parts of a step, operators, and kernels; the most time first.
};

// The ranks that were captured together, for the rules that compare them.
struct RankComparison {
  GroupSteps steps;
  std::vector<std::string> names;  // By member: "rank 3".
  RankExcess excess;               // Of the member that comes first in steps.ranking.
};

// `ranks` are those of the capture's group, if the group was read.
absl::StatusOr<FindingsReport> SummarizeFindings(store::CaptureReader& reader,
                                                 const FindingThresholds& thresholds,
                                                 const RankComparison* ranks = nullptr);

// The report that daemons answer ("findings" of reports.h), and back. All that SummarizeFindings()
// gives goes through both. DATA_LOSS: the parts do not fit together.
table::Report ToReport(const FindingsReport& findings);
absl::StatusOr<FindingsReport> FindingsFrom(const table::Report& report);

// What `profctl report` prints with --json, and what `show` and it print of a check.
const table::ObjectDescription<FindingsReport>& FindingsObject();
const table::ObjectDescription<QualityCheck>& QualityCheckObject();

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_FINDINGS_FINDINGS_H_
