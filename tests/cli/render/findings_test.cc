// The report that people read: the first findings, and a line for the rest.
#include "cli/render/findings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "cli/base/style.h"
#include "daemon/report/findings/findings.h"

namespace profd::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::string_view kTitles[] = {"Title 1", "Title 2", "Title 3", "Title 4", "Title 5"};

report::FindingsReport AReport(int findings, int passed, int skipped) {
  report::FindingsReport report;
  report.verdict = "A step takes 20 ms.";
  for (int i = 0; i < findings; ++i) {
    report::Finding& finding = report.findings.emplace_back();
    finding.rule = "RULE";
    finding.title = kTitles[i];
    finding.measured = "It was measured.";
    finding.advice = "Change it.";
  }
  for (int i = 0; i < passed; ++i) report.passed.push_back({.rule = "PASSED_RULE"});
  for (int i = 0; i < skipped; ++i) {
    report.skipped.push_back({.rule = "SKIPPED_RULE", .needs = "a GPU"});
  }
  return report;
}

std::string Short(const report::FindingsReport& report) {
  return RenderFindings(report, {}, Style());
}
std::string Whole(const report::FindingsReport& report) {
  return RenderFindings(report, {.all = true}, Style());
}

TEST(FindingsTextTest, TheFirstThreeFindingsAreShownAndTheRestIsCounted) {
  const report::FindingsReport report = AReport(5, 12, 27);
  EXPECT_THAT(Short(report), AllOf(HasSubstr("3. Title 3"), Not(HasSubstr("Title 4")),
                                   Not(HasSubstr("PASSED_RULE")), Not(HasSubstr("SKIPPED_RULE"))));
  EXPECT_THAT(
      Short(report),
      HasSubstr("2 more findings, 12 checks passed, 27 checks skipped for lack of data; --all "
                "shows them.\n"));
  EXPECT_THAT(Whole(report), AllOf(HasSubstr("5. Title 5"), HasSubstr("Checks passed: PASSED_RULE"),
                                   HasSubstr("SKIPPED_RULE"), Not(HasSubstr("--all"))));
}

TEST(FindingsTextTest, ASavingThatOthersCountIsNotCalledUnestimated) {
  report::FindingsReport report = AReport(1, 0, 0);
  EXPECT_THAT(Short(report), HasSubstr("No saving estimated; measured"));
  report.findings[0].counted_elsewhere = true;
  EXPECT_THAT(Short(report), HasSubstr("No saving of its own; measured"));
}

TEST(FindingsTextTest, OneOfAKindIsNotSeveral) {
  EXPECT_THAT(Short(AReport(4, 1, 0)),
              HasSubstr("1 more finding, 1 check passed; --all shows them."));
}

TEST(FindingsTextTest, NothingLeftOutIsNotMentioned) {
  EXPECT_THAT(Short(AReport(2, 0, 0)), Not(HasSubstr("--all")));
  EXPECT_THAT(Short(AReport(0, 3, 0)),
              AllOf(HasSubstr("No findings."), HasSubstr("3 checks passed")));
}

}  // namespace
}  // namespace profd::cli
