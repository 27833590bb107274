// The rules that traces are held against, by name, and the log of how they were broken.
//
// How do I add a rule?  A value here, its row at the same place in check_rules.cc, a call of
// FindingLog::Add() where the breach is seen, and a case in tests/check that breaks it.
#ifndef PROFD_DAEMON_CHECK_CHECK_RULES_H_
#define PROFD_DAEMON_CHECK_CHECK_RULES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "daemon/base/str_cat.h"
#include "daemon/check/trace_check.h"

namespace profd::check {

enum class Rule : uint8_t {
  // Any file.
  kGzipDamaged,
  kGzipMembers,
  kGzipTrailing,
  kFileName,
  // JSON.
  kJsonSyntax,
  kJsonText,
  kJsonNumber,
  kJsonKey,
  // A Chrome trace as a whole.
  kEventList,
  kRank,
  kNoSlices,
  kLaunchFirst,
  // Its events, one by one.
  kEvent,
  kEventName,
  kEventCategory,
  kEventTime,
  kEventDuration,
  kEventRow,
  kNameText,
  kStepName,
  kGpuArguments,
  kCpuStream,
  kGpuProcess,
  kLaunchName,
  kMemoryArguments,
  kFlowId,
  // Its events together.
  kNesting,
  kBeginEnd,
  kStepTwice,
  kStreamZero,
  kLaunchAfterWork,
  kFlowBackwards,
  kFlowNowhere,
  kTimePrecision,
  // Perfetto's protobuf.
  kWireFormat,
  kPacketSequence,
  kPacketState,
  kInterning,
  kTrack,
  kSliceOrder,
  kSliceBalance,
  kPacketFlow,
  kPacketTime,
  // What is worth knowing.
  kNoRank,
  kNoSteps,
  kOneStep,
  kNameLength,
  kFlowStart,
  kFlowEnd,
  kWorkWithoutLaunch,
  kGraphLaunch,
  kLaunchUnknown,
  kUnknownCategory,
  kTensorBoardName,
  kLargeFile,
  kCount,
};
inline constexpr size_t kRuleCount = static_cast<size_t>(Rule::kCount);

const CheckRule& RuleOf(Rule rule);

// FindingLog counts breaches and keeps the first of each rule as examples.
//
// Threads: one.
class FindingLog {
 public:
  static constexpr size_t kMostExamples = 3;

  // The parts of the example are put together only if it is kept.
  template <typename... Parts>
  void Add(Rule rule, const Parts&... parts) {
    Entry& entry = entries_[static_cast<size_t>(rule)];
    ++entry.count;
    if (entry.examples.size() < kMostExamples) Keep(entry, StrCat(parts...));
  }
  // Many at once, of which one is an example.
  void AddMany(Rule rule, int64_t count, const std::string& example);

  int64_t count(Rule rule) const { return entries_[static_cast<size_t>(rule)].count; }

  // Into findings and notes.
  void Fill(CheckReport& report) const;

 private:
  struct Entry {
    int64_t count = 0;
    std::vector<std::string> examples;
  };
  static void Keep(Entry& entry, const std::string& untrusted);

  std::array<Entry, kRuleCount> entries_;
};

}  // namespace profd::check

#endif  // PROFD_DAEMON_CHECK_CHECK_RULES_H_
