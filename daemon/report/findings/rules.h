// The rules behind findings. A rule checks facts (facts.h) and returns one of three results:
// nothing to report, a finding, or the data that the capture lacks.
//
// How do I add a rule?  A function in the rules_*.cc that its facts belong to, declared in
// rule_list.h, a row in kRules in rules.cc, thresholds in thresholds.h, a test where it fires and
// one where it must not in tests/report/findings/finding_rules_test.cc.
#ifndef PROFD_DAEMON_REPORT_FINDINGS_RULES_H_
#define PROFD_DAEMON_REPORT_FINDINGS_RULES_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/report/findings/facts.h"
#include "daemon/report/findings/findings.h"
#include "daemon/report/findings/thresholds.h"

namespace profd::report {

// The result of a rule. The engine sets `finding.rule`, `title` if it is empty, and the severity if
// the rule leaves it at kInfo.
struct RuleResult {
  std::string needs;  // Not empty: the rule could not be checked.
  bool fired = false;
  Finding finding;  // Unit, value, and threshold are set even if the rule did not fire.
};
RuleResult Needs(std::string what);

using RuleFunction = RuleResult (*)(const Facts&, const FindingThresholds&);

struct Rule {
  std::string_view id;
  std::string_view title;   // "The GPU waits for launches"
  bool uses_shares = true;  // Its value is a share of the recorded events: see ShareTrust.
  RuleFunction look = nullptr;
  bool of_gpu = false;        // It concludes from what the GPU did, or did not do.
  bool of_idle_time = false;  // Its saving is time in which the GPU is idle.
};
std::span<const Rule> Rules();
bool IsRule(std::string_view id);
std::vector<std::string_view> RuleIds();
// True for rules that measure how much time is lost without naming a cause.
bool IsSymptom(std::string_view id);

// Whether the run will end for lack of memory, or has. Such a finding comes before one that costs
// time.
bool EndsTheRun(const Finding& finding);
// Whether it is a mode for debugging, which is to be turned off before anything else is looked at.
// It saves more than is known.
bool IsDebugMode(const Finding& finding);
Severity SeverityOfShare(double share);  // Of a step.
// A cause that explains at least this share of a symptom comes before it.
inline constexpr double kExplainedSymptom = 0.5;

// Sets the saving of a change that shortens the device's own work: none while the device waits for
// the program anyway. Says so in `finding`.
void SetDeviceSaving(const Facts& facts, int64_t ns_per_step, Finding& finding);

// Caps the saving of overlapping `exposed_ns` with compute: `hidden_ns` of the compute overlaps
// already, so only the rest can hide anything. The severity stays that of the exposed time. Returns
// false, and says so in `finding`, if the rest can hide less than half of it.
bool CapByFreeCompute(const Facts& facts, int64_t exposed_ns, int64_t hidden_ns, Finding& finding);

// Returns operators by the time that the device waited for their launches.
std::vector<Evidence> LateLaunchers(const Facts& facts);

// "12.3%", "1.23 ms", "3.4 GiB", "12": values in sentences.
// After a time that is of each step, or of a capture without steps: " a step", " of the capture".
inline std::string_view StepWords(const Facts& facts) {
  return facts.scope.has_steps ? " a step" : " of the capture";
}
std::string PercentText(double share);
std::string TimeText(int64_t ns);
std::string SizeText(int64_t bytes);
std::string ValueText(FindingUnit unit, double value);
// "12 kernels", "1 kernel"
std::string CountText(int64_t count, std::string_view singular);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_FINDINGS_RULES_H_
