// What a check of some bytes says, as tests look at it.
#ifndef PROFD_TESTS_CHECK_CHECKED_H_
#define PROFD_TESTS_CHECK_CHECKED_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/check/trace_check.h"
#include "tests/fakes/status_matchers.h"

namespace profd::check {

inline CheckReport Checked(std::string_view bytes, const std::string& name = "") {
  absl::StatusOr<CheckReport> report = CheckTraceBytes(bytes, {.name = name, .on_progress = {}});
  EXPECT_THAT(report, IsOk());
  return report.ok() ? *std::move(report) : CheckReport();
}

// Rules broken, and how often: findings and, if asked for, notes.
inline std::map<std::string, int64_t> Broken(const CheckReport& report, bool with_notes = false) {
  std::map<std::string, int64_t> broken;
  for (const Finding& finding : report.findings) {
    broken[std::string(finding.rule->id)] = finding.count;
  }
  for (const Finding& note : report.notes) {
    if (with_notes) broken[std::string(note.rule->id)] = note.count;
  }
  return broken;
}

// A rule's first example; empty if it was not broken.
inline std::string ExampleOf(const CheckReport& report, std::string_view rule) {
  for (const auto* list : {&report.findings, &report.notes}) {
    for (const Finding& finding : *list) {
      if (finding.rule->id == rule) return finding.examples.front();
    }
  }
  return "";
}

}  // namespace profd::check

#endif  // PROFD_TESTS_CHECK_CHECKED_H_
