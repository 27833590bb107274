// The rules for Chrome traces: a good trace breaks none, and each is broken by a trace of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>

#include "daemon/base/str_cat.h"
#include "daemon/check/check_rules.h"
#include "daemon/check/chrome_event.h"
#include "daemon/check/chrome_timeline.h"
#include "tests/check/checked.h"

namespace profd::check {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

constexpr std::string_view kRow = R"("pid":100,"tid":7)";
constexpr std::string_view kGpuRow = R"("pid":0,"tid":7)";

std::string TraceWith(std::string_view events, std::string_view header = "") {
  return StrCat("{", header, R"("traceEvents": [)", events, "]}");
}

// Of the CPU; `more` stands behind its duration.
std::string Op(std::string_view name, double ts, double dur, std::string_view more = "",
               std::string_view category = "cpu_op") {
  return StrCat(R"({"ph":"X","cat":")", category, R"(","name":")", name, "\",", kRow,
                ",\"ts\":", ts, ",\"dur\":", dur, more, "}");
}
std::string Step(int number, double ts) {
  return Op(StrCat("ProfilerStep#", number), ts, 10, "", "user_annotation");
}
std::string Launch(double ts, std::string_view name = "cudaLaunchKernel", int correlation = 5) {
  return Op(name, ts, 1, StrCat(R"(,"args":{"correlation":)", correlation, "}"), "cuda_runtime");
}
std::string Kernel(double ts,
                   std::string_view arguments = R"("device":0,"stream":7,"correlation":5)",
                   std::string_view row = kGpuRow, double dur = 1) {
  return StrCat(R"({"ph":"X","cat":"kernel","name":"k",)", row, ",\"ts\":", ts, ",\"dur\":", dur,
                R"(,"args":{)", arguments, "}}");
}
std::string Arrow(std::string_view phase, double ts, std::string_view more = R"(,"id":5)",
                  std::string_view row = kRow) {
  return StrCat(R"({"ph":")", phase, R"(","cat":"ac2g","name":"ac2g",)", row, ",\"ts\":", ts, more,
                phase == "f" ? R"(,"bp":"e"})" : "}");
}

// Two steps, in each a launch, its kernel and the arrow between them.
std::string GoodEvents() {
  std::string events = StrCat(Step(1, 0), ",", Step(2, 10));
  for (int step = 0; step < 2; ++step) {
    const int start = 10 * step;
    const std::string id = StrCat(",\"id\":", 5 + step);
    StrAppend(&events, ",", Op("aten::mm", start + 1, 4), ",",
              Launch(start + 2, "cudaLaunchKernel", 5 + step), ",",
              Kernel(start + 4, StrCat(R"("device":0,"stream":7,"correlation":)", 5 + step)), ",",
              Arrow("s", start + 2, id), ",", Arrow("f", start + 4, id, kGpuRow));
  }
  return events;
}

constexpr std::string_view kRank = R"("distributedInfo": {"rank": 3},)";

TEST(ChromeCheckTest, AGoodTraceBreaksNoRule) {
  const CheckReport report = Checked(TraceWith(GoodEvents(), kRank), "a.pt.trace.json");
  EXPECT_THAT(Broken(report, /*with_notes=*/true), IsEmpty());
  EXPECT_THAT(report.unchecked, IsEmpty());
  EXPECT_TRUE(report.clean());
  EXPECT_EQ(report.kind, TraceKind::kChrome);
  EXPECT_EQ(report.event_count, 12);
}

TEST(ChromeCheckTest, WhatKinetoWritesBesideSlicesBreaksNoRule) {
  EXPECT_THAT(
      Broken(Checked(TraceWith(
          GoodEvents() +
          R"(,{"ph":"M","name":"process_name","pid":100,"tid":0,"args":{"name":"python"}})"
          R"j(,{"ph":"X","cat":"Trace","name":"PyTorch Profiler (0)","pid":"Spans","tid":"x","ts":1,"dur":5})j"
          R"(,{"ph":"i","s":"g","name":"Iteration Start: PyTorch Profiler","pid":"Traces","tid":"T","ts":1})"
          R"(,{"ph":"C","name":"dram","pid":"GPU 0 Counters","ts":1,"args":{"":5}})"
          R"(,{"ph":"i","s":"t","cat":"cpu_instant_event","name":"[memory]","pid":100,"tid":7,"ts":1,)"
          R"("args":{"Bytes":-5,"Device Type":0,"Device Id":-1}})"
          R"(,{"ph":"X","cat":"overhead","name":"Buffer Flush","pid":-1,"tid":0,"ts":1.5,"dur":2})"
          R"(,{"ph":"i","s":"g","name":"Record Window End","pid":"","tid":"","ts":50})"))),
      IsEmpty());
}

struct Case {
  Rule rule;
  std::string text;
  int64_t count = 1;
};

std::vector<Case> FindingCases() {
  const auto x = [](std::string_view fields) { return StrCat(R"({"ph":"X",)", fields, "}"); };
  const std::string good = GoodEvents();
  const auto with = [&](std::string_view event) { return TraceWith(StrCat(good, ",", event)); };
  return {
      {Rule::kJsonSyntax, TraceWith(good).substr(0, 400)},
      {Rule::kJsonSyntax, TraceWith(good) + "x"},
      {Rule::kJsonSyntax, with(R"({"ph":"M","name":"a"b"})")},
      {Rule::kJsonText, with(Op("a\nb", 30, 1))},
      {Rule::kJsonText, with(Op("a\xff", 30, 1))},
      {Rule::kJsonText, with(Op("\\ud800", 30, 1))},
      {Rule::kJsonText, with(Op("\\q", 30, 1))},
      {Rule::kJsonNumber, with(Op("a", 30, 1, R"(,"args":{"x":nan,"y":-inf})")), 2},
      {Rule::kJsonKey, with(Op("a", 30, 1, R"(,"args":{"x":1,"x":2})"))},
      {Rule::kEventList, StrCat("[", good, "]")},
      {Rule::kRank, TraceWith(good, R"("distributedInfo": {"rank":3},)")},
      {Rule::kRank, TraceWith(good, R"("x": {"rank": 0},"distributedInfo": {"rank": 3},)")},
      {Rule::kLaunchFirst, TraceWith(StrCat(Launch(0), ",", Op("a", 5, 1)))},
      {Rule::kEvent, with("7")},
      {Rule::kEvent, with(R"({"name":"a"})")},
      {Rule::kEvent, with(R"({"name":"a","ph":"?"})")},
      {Rule::kEventName, with(x(StrCat(R"("cat":"cpu_op",)", kRow, R"(,"ts":30,"dur":1)")))},
      {Rule::kEventCategory, with(x(StrCat(R"("name":"a",)", kRow, R"(,"ts":30,"dur":1)")))},
      {Rule::kEventTime, with(Op("a", -1, 1))},
      {Rule::kEventTime, with(x(StrCat(R"("name":"a","cat":"cpu_op",)", kRow, R"(,"dur":1)")))},
      {Rule::kEventTime,
       with(x(StrCat(R"("name":"a","cat":"cpu_op",)", kRow, R"(,"ts":"30","dur":1)")))},
      {Rule::kEventTime,
       with(x(StrCat(R"("name":"a","cat":"cpu_op",)", kRow, R"(,"ts":9007199254740992,"dur":1)")))},
      {Rule::kEventDuration, with(Op("a", 30, -1))},
      {Rule::kEventDuration, with(x(StrCat(R"("name":"a","cat":"cpu_op",)", kRow, R"(,"ts":30)")))},
      {Rule::kEventDuration,
       with(x(StrCat(R"("name":"a","cat":"cpu_op",)", kRow, R"(,"ts":30,"dur":604800000001)")))},
      {Rule::kEventRow,
       with(x(R"("name":"a","cat":"cpu_op","pid":100,"tid":"stream 7","ts":30,"dur":1)"))},
      {Rule::kNameText, with(Op("", 30, 1))},
      {Rule::kNameText, with(Op("a\\u0007", 30, 1))},
      {Rule::kStepName, with(Op("ProfilerStep#x", 30, 1, "", "user_annotation"))},
      {Rule::kGpuArguments, with(Kernel(30, R"("device":0,"correlation":5)"))},
      {Rule::kGpuArguments, with(Kernel(30, R"("device":0,"stream":"7","correlation":5)"))},
      {Rule::kCpuStream, with(Op("a", 30, 1, R"(,"args":{"stream":7,"correlation":9})"))},
      {Rule::kGpuProcess,
       with(Kernel(30, R"("device":1,"stream":7,"correlation":5)", R"("pid":2,"tid":7)"))},
      {Rule::kLaunchName, with(Launch(30, "cudaLaunchKernel_v7000", 9))},
      {Rule::kMemoryArguments,
       with(StrCat(R"({"ph":"i","name":"[memory]",)", kRow, R"(,"ts":1,"args":{"Bytes":5}})"))},
      {Rule::kFlowId, with(Arrow("s", 2, ""))},
      {Rule::kNesting, with(StrCat(Op("a", 30, 10), ",", Op("b", 35, 10)))},
      {Rule::kBeginEnd, with(StrCat(R"({"ph":"B","name":"a","cat":"c",)", kRow, R"(,"ts":30})"))},
      {Rule::kStepTwice, with(Step(2, 30))},
      {Rule::kFlowBackwards,
       with(StrCat(Arrow("s", 5, R"(,"id":9)"), ",", Arrow("f", 4, R"(,"id":9)", kGpuRow)))},
      {Rule::kFlowNowhere,
       with(StrCat(Arrow("s", 5, R"(,"id":9)"), ",", Arrow("f", 90, R"(,"id":9)", kGpuRow)))},
      {Rule::kTimePrecision, with(x(StrCat(R"("name":"a","cat":"cpu_op",)", kRow,
                                           R"(,"ts":1700000000000000.125,"dur":1)")))},
  };
}

TEST(ChromeCheckTest, EachRuleIsBrokenByItsTrace) {
  for (const Case& one : FindingCases()) {
    const std::map<std::string, int64_t> broken = Broken(Checked(one.text));
    const std::string id(RuleOf(one.rule).id);
    EXPECT_THAT(broken, Contains(Pair(id, one.count))) << one.text;
  }
}

// But for a trace that breaks off, and an empty one, of which more is missing.
TEST(ChromeCheckTest, WhatBreaksOneRuleBreaksNoOther) {
  for (const Case& one : FindingCases()) {
    if (one.rule == Rule::kJsonSyntax || one.rule == Rule::kJsonText) continue;
    EXPECT_THAT(Broken(Checked(one.text)),
                UnorderedElementsAre(Pair(std::string(RuleOf(one.rule).id), one.count)))
        << one.text;
  }
}

TEST(ChromeCheckTest, NotesAreNoFindings) {
  const auto note = [](Rule rule, const std::string& text, const std::string& name = "") {
    const CheckReport report = Checked(text, name);
    EXPECT_THAT(Broken(report, /*with_notes=*/true), Contains(Key(std::string(RuleOf(rule).id))))
        << text;
    EXPECT_TRUE(report.clean()) << text;
  };
  const std::string good = GoodEvents();
  note(Rule::kNoRank, TraceWith(good));
  note(Rule::kNoSteps, TraceWith(Op("a", 0, 1)));
  note(Rule::kNoSlices, TraceWith(R"({"ph":"M","name":"process_name","pid":1})"));
  note(Rule::kStreamZero,
       TraceWith(StrCat(good, ",", Kernel(30, R"("device":0,"stream":0,"correlation":5)"))));
  note(Rule::kLaunchAfterWork,
       TraceWith(StrCat(good, ",", Launch(30, "cudaLaunchKernel", 9), ",",
                        Kernel(29, R"("device":0,"stream":7,"correlation":9)"))));
  note(Rule::kOneStep, TraceWith(Step(4, 0)));
  note(Rule::kNameLength, TraceWith(Op(std::string(4097, 'x'), 0, 1)));
  note(Rule::kFlowEnd, TraceWith(StrCat(good, ",", Arrow("s", 2, R"(,"id":9)"))));
  note(Rule::kFlowStart, TraceWith(StrCat(good, ",", Arrow("f", 4, R"(,"id":9)", kGpuRow))));
  note(Rule::kWorkWithoutLaunch,
       TraceWith(StrCat(good, ",", Kernel(30, R"("device":0,"stream":7,"correlation":77)"))));
  note(Rule::kGraphLaunch, TraceWith(StrCat(good, ",", Kernel(30))));
  note(Rule::kLaunchUnknown,
       TraceWith(StrCat(Op("a", 0, 1), ",", Launch(2, "cudaGraphLaunch"), ",", Kernel(4))));
  note(Rule::kUnknownCategory, TraceWith(StrCat(good, ",", Op("a", 30, 1, "", "wheels"))));
  note(Rule::kTensorBoardName, TraceWith(good), "five.json");
}

TEST(ChromeCheckTest, AFindingSaysWhichEventAndWhere) {
  const std::string text = TraceWith(StrCat(Op("a", 30, 10), ",", Op("b", 35, 10)));
  EXPECT_EQ(ExampleOf(Checked(text), "nesting"),
            "\"b\" (event 1) begins inside \"a\" (event 0) and ends 5000 ns after it, on row 7 of "
            "process 100");
  const std::string bad = Op("b", -1, 10);
  const std::string trace = TraceWith(StrCat(Op("a", 30, 10), ",", bad));
  EXPECT_EQ(ExampleOf(Checked(trace), "event-time"),
            StrCat("\"b\" (event 1, byte ", trace.find(bad), ") has a negative ts"));
}

TEST(ChromeCheckTest, NothingOfAFileReachesATerminalRaw) {
  const CheckReport report = Checked(TraceWith(Op("\x1b[31m\\u001b[0m", -1, 1)));
  for (const Finding& finding : report.findings) {
    for (const std::string& example : finding.examples) {
      EXPECT_EQ(example.find('\x1b'), std::string::npos) << finding.rule->id;
    }
  }
}

TEST(ChromeCheckTest, ManyBreachesAreCountedAndFewKept) {
  std::string events = Op("a", 0, 1);
  for (int i = 0; i < 1000; ++i) StrAppend(&events, ",", Op("a", 10.0 * i, -1));
  const CheckReport report = Checked(TraceWith(events));
  ASSERT_THAT(Broken(report), UnorderedElementsAre(Pair("event-duration", 1000)));
  EXPECT_EQ(report.findings.front().examples.size(), FindingLog::kMostExamples);
}

TEST(ChromeCheckTest, SlicesMayComeInAnyOrder) {
  EXPECT_THAT(Broken(Checked(TraceWith(StrCat(Op("c", 4, 2), ",", Op("b", 2, 5), ",",
                                              Op("a", 0, 10), ",", Op("d", 10, 0))))),
              IsEmpty());
}

TEST(ChromeCheckTest, CorrelationsOfSeveralProcessesAreNotCompared) {
  const std::string other = R"({"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":101,)"
                            R"("tid":8,"ts":60,"dur":1,"args":{"correlation":5}})";
  const CheckReport report = Checked(TraceWith(StrCat(GoodEvents(), ",", other)));
  EXPECT_THAT(Broken(report), IsEmpty());
  EXPECT_THAT(report.unchecked, Contains(HasSubstr("several processes")));
}

std::string Half(std::string_view phase, double ts) {
  return StrCat(R"({"ph":")", phase, R"(","cat":"cpu_op","name":"a",)", kRow, ",\"ts\":", ts, "}");
}

TEST(ChromeCheckTest, AnArrowMayEndInASliceOfABeginAndAnEnd) {
  const std::string halves =
      StrCat(Half("E", 9), ",", Half("B", 2), ",", Half("E", 5), ",", Half("B", 3));
  for (const double ts : {2, 4, 5, 7, 9}) {
    EXPECT_THAT(Broken(Checked(TraceWith(StrCat(Op("x", 40, 1), ",", halves, ",", Arrow("s", ts),
                                                ",", Arrow("f", 40))))),
                IsEmpty())
        << ts;
  }
  for (const double ts : {1.5, 9.5}) {
    EXPECT_THAT(Broken(Checked(TraceWith(StrCat(Op("x", 40, 1), ",", halves, ",", Arrow("s", ts),
                                                ",", Arrow("f", 40))))),
                UnorderedElementsAre(Pair("flow-nowhere", 1)))
        << ts;
  }
  // The end without a begin could belong to any slice.
  EXPECT_THAT(Broken(Checked(TraceWith(StrCat(Op("x", 40, 1), ",", Half("E", 2), ",", Half("B", 3),
                                              ",", Arrow("s", 20), ",", Arrow("f", 40))))),
              IsEmpty());
}

TEST(ChromeCheckTest, TheSmallestNumberIsNoTime) {
  EXPECT_THAT(
      Broken(Checked(TraceWith(StrCat(Op("a", 0, 1), R"(,{"ph":"X","cat":"cpu_op","name":"b",)",
                                      kRow, R"(,"ts":-9223372036854775808,"dur":1})")))),
      UnorderedElementsAre(Pair("event-time", 1)));
}

// An arrow's end whose slice and other end were left out is no finding.
TEST(ChromeCheckTest, WhatNeedsAllFactsIsNotJudgedWithoutSome) {
  ChromeEvent arrow;
  arrow.phase = 'f';
  arrow.binds_enclosing = true;
  ChromeEvent work;
  work.correlation = 5;
  ChromeEvent end;
  end.phase = 'E';
  const auto findings = [&](size_t max_bytes) {
    FindingLog log;
    ChromeTimeline timeline(log, max_bytes);
    timeline.AddFlow(arrow);
    timeline.AddWork(work);
    timeline.AddHalf(end);
    timeline.AddSlice(ChromeEvent());
    timeline.Judge();
    EXPECT_EQ(timeline.whole(), max_bytes > 4096);
    return log.count(Rule::kFlowStart) + log.count(Rule::kWorkWithoutLaunch) +
           log.count(Rule::kBeginEnd);
  };
  EXPECT_EQ(findings(1 << 20), 3);
  EXPECT_EQ(findings(100), 0);
}

TEST(ChromeCheckTest, WhatIsNoTraceIsRefused) {
  for (const std::string_view text : {"{}", "[[1,2]]", R"({"name":"package"})"}) {
    EXPECT_THAT(CheckTraceBytes(text, {}), StatusIs(absl::StatusCode::kInvalidArgument)) << text;
  }
}

}  // namespace
}  // namespace profd::check
