// The rules that findings are made by. A rule looks at facts (facts.h) and says one of
// three things: nothing to report, a finding, or what it needs that the capture does not have.
//
// How do I add a rule?  A function in the finding_rules_*.cc that its facts belong to, declared
// below, a row in kRules in rules.cc, thresholds in thresholds.h, a test where it
// fires and one where it must not in tests/report/findings/finding_rules_test.cc.
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

// What a rule says. `finding.rule` and `title` are the engine's to set, and its severity where the
// rule leaves it at kInfo.
struct RuleResult {
  std::string needs;  // Not empty: it could not be looked at.
  bool fired = false;
  Finding finding;  // Its unit, value and threshold also where it did not fire.
};
RuleResult Needs(std::string what);

using RuleFunction = RuleResult (*)(const Facts&, const FindingThresholds&);

struct Rule {
  std::string_view id;
  std::string_view title;   // "The GPU waits for launches"
  bool uses_shares = true;  // Its value is a share of what was recorded: see ShareTrust.
  RuleFunction look = nullptr;
};
std::span<const Rule> Rules();
bool IsRule(std::string_view id);
std::vector<std::string_view> RuleIds();

// Saving of what makes the device's own work shorter: nothing, while the device waits for the
// program anyway. Says so in `finding`.
void SetDeviceSaving(const Facts& facts, int64_t ns_per_step, Finding& finding);

// Operators by how long the device waited for their launches.
std::vector<Evidence> LateLaunchers(const Facts& facts);

// "12.3%", "1.23 ms", "3.4 GiB", "12": values in sentences.
std::string PercentText(double share);
std::string TimeText(int64_t ns);
std::string SizeText(int64_t bytes);
std::string ValueText(FindingUnit unit, double value);
// "12 kernels", "1 kernel"
std::string CountText(int64_t count, std::string_view singular);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_FINDINGS_RULES_H_
