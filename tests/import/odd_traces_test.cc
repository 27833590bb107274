// Traces that are not what they look like: several windows or processes in one file, damaged
// events, and other profilers' files.
#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "daemon/report/findings/findings.h"
#include "daemon/report/gpu/copy_table.h"
#include "daemon/report/gpu/idle_table.h"
#include "daemon/report/ranks/collectives.h"
#include "daemon/report/time/time_report.h"
#include "daemon/store/file/imported_record.h"
#include "gmock/gmock.h"
#include "tests/import/import_fixture.h"

namespace profd::importer {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Key;
using testing::Not;
using testing::Pair;
using testing::SizeIs;
using testing::UnorderedElementsAre;

// Events of a trace, with times in us.
class OddTracesTest : public ImportTest {
 protected:
  void Add(std::string_view event) { StrAppend(&events_, events_.empty() ? "" : ",\n", event); }
  void Step(int index, int64_t at, int64_t length = 1000) {
    Add(StrCat(R"({"ph":"X","cat":"user_annotation","name":"ProfilerStep#)", index,
               R"(","pid":7,"tid":9,"ts":)", at, R"(,"dur":)", length, "}"));
  }
  // An operator of 40 us that launches a kernel which begins 60 us later.
  void Launch(int64_t at, int64_t kernel_us, int pid = 7, int correlation = 0,
              std::string_view op = "aten::mm") {
    if (correlation == 0) correlation = ++correlation_;
    Add(StrCat(R"({"ph":"X","cat":"cpu_op","name":")", op, R"(","pid":)", pid, R"(,"tid":9,"ts":)",
               at, R"(,"dur":40,"args":{}})"));
    Add(StrCat(R"({"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":)", pid,
               R"(,"tid":9,"ts":)", at + 5, R"(,"dur":8,"args":{"correlation":)", correlation,
               "}}"));
    Add(StrCat(R"({"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":)", at + 60,
               R"(,"dur":)", kernel_us, R"(,"args":{"device":0,"stream":7,"correlation":)",
               correlation, "}}"));
  }
  std::unique_ptr<store::CaptureReader> ReadAll() { return ReadEvents(events_); }

  std::string events_;
  int correlation_ = 0;
};

// ---- several windows ----

TEST_F(OddTracesTest, NothingIsKnownOfTheTimeBetweenWindows) {
  for (int step = 0; step < 3; ++step) {
    Step(3 + step, 1000 * (1 + step));
    Launch(1000 * (1 + step) + 50, 800);
  }
  for (int step = 0; step < 3; ++step) {
    Step(9 + step, 5'001'000 + 1000 * step);
    Launch(5'001'000 + 1000 * step + 50, 800);
  }
  const auto reader = ReadAll();
  ASSERT_NE(reader, nullptr);
  const std::vector<WindowRecord>& windows = reader->record().windows;
  ASSERT_THAT(windows, SizeIs(2));
  EXPECT_EQ(windows[0].first_step, 3);
  EXPECT_EQ(windows[0].end_step, 6);
  EXPECT_EQ(windows[1].first_step, 9);
  EXPECT_EQ(windows[1].end_step, 12);
  EXPECT_EQ(windows[1].start_ns, 5'000'000'000);
  EXPECT_EQ(reader->record().covered_ns, 6'000'000);

  const auto time = report::SummarizeTime(*reader, {});
  ASSERT_THAT(time, IsOk());
  EXPECT_EQ(time->unrecorded_ns, 4'997'000'000);
  EXPECT_EQ(time->whole.busy_ns, 4'800'000);
  EXPECT_EQ(time->whole.kernel_time_ns, 5'890'000 - 90'000);  // From the first kernel to the last.
  EXPECT_LT(time->whole.idle_by_cause.host_wait_ns, 1'100'000);
  EXPECT_LT(time->whole.host_only_ns, 1'000'000);
  EXPECT_LT(time->streams.at(0).idle_ns, 1'100'000);

  const auto idle = report::SummarizeIdle(*reader);
  ASSERT_THAT(idle, IsOk());
  EXPECT_EQ(idle->rows.at(0).duration_ns, 6'000'000);
  EXPECT_EQ(idle->rows.at(0).busy_ns, 4'800'000);

  const auto findings = report::SummarizeFindings(*reader, {});
  ASSERT_THAT(findings, IsOk());
  EXPECT_THAT(findings->verdict, AllOf(HasSubstr("4.997 s between the capture's 2 windows"),
                                       HasSubstr("computes for 80%")));
}

// An epoch's annotation, or a frame that with_stack saw open all the time.
TEST_F(OddTracesTest, ARangeOverTwoWindowsMakesThemNotOne) {
  for (const std::string_view category : {"user_annotation", "python_function"}) {
    SCOPED_TRACE(category);
    events_.clear();
    for (const int64_t at : {0, 5'000'000}) {
      for (int step = 0; step < 3; ++step) {
        const int64_t start_us = at + 1000 * (1 + step);
        Step(static_cast<int>(at / 1'000'000) + step, start_us);
        Launch(start_us + 50, 800);
      }
    }
    Add(StrCat(R"({"ph":"X","cat":")", category,
               R"(","name":"epoch","pid":7,"tid":9,"ts":900,)"
               R"("dur":5003200,"args":{}})"));
    const auto reader = ReadAll();
    ASSERT_NE(reader, nullptr);
    EXPECT_THAT(reader->record().windows, SizeIs(2));
    const auto time = report::SummarizeTime(*reader, {});
    ASSERT_THAT(time, IsOk());
    EXPECT_GT(time->unrecorded_ns, 4'990'000'000);
  }
}

TEST_F(OddTracesTest, WhatAnAnnotationCoversWasRecorded) {
  Launch(0, 800);
  Launch(5'000'000, 800);
  Add(R"({"ph":"X","cat":"user_annotation","name":"save","pid":7,"tid":9,"ts":900,"dur":4999000})");
  const auto reader = ReadAll();
  ASSERT_NE(reader, nullptr);
  EXPECT_THAT(reader->record().windows, SizeIs(1));
}

// As torch.profiler.schedule(wait=1, active=1) writes them.
TEST_F(OddTracesTest, OfVeryManyWindowsTheNearestAreJoined) {
  constexpr int kSkipping = static_cast<int>(store::kMaxImportedWindows) + 44;
  for (int step = 0; step < kSkipping; ++step) {
    const int64_t at = int64_t{3000} * step + (step >= 200 ? step : 0);  // Later holes are longer.
    Step(2 * step, at);
    Launch(at + 50, 800);
  }
  const auto reader = ReadAll();
  ASSERT_NE(reader, nullptr);
  const std::vector<WindowRecord>& windows = reader->record().windows;
  ASSERT_THAT(windows, SizeIs(store::kMaxImportedWindows));
  EXPECT_EQ(reader->record().covered_steps, kSkipping);
  EXPECT_EQ(windows.front().first_step, 0);
  EXPECT_EQ(windows.back().end_step, 2 * kSkipping - 1);
  EXPECT_EQ(windows.back().end_ns - windows.back().start_ns, 1'000'000);
  for (size_t i = 1; i < windows.size(); ++i) {
    EXPECT_GT(windows[i].start_ns, windows[i - 1].end_ns);
    EXPECT_GE(windows[i].first_step, windows[i - 1].end_step);
  }
}

TEST_F(OddTracesTest, AStepThatEndsAfterTheRecordingIsNoStep) {
  Step(1, 1000);
  Launch(1050, 800);
  Step(2, 2000, 13'000'000);
  Launch(2050, 800);
  Add(R"x({"ph":"X","cat":"Trace","name":"PyTorch Profiler (0)","pid":"Spans","tid":"P",)x"
      R"x("ts":900,"dur":2200})x");
  const auto reader = ReadAll();
  ASSERT_NE(reader, nullptr);
  EXPECT_THAT(reader->steps(), SizeIs(1));
  EXPECT_LT(reader->record().covered_ns, 3'000'000);
  EXPECT_THAT(reader->record().imported.not_understood,
              Contains(Pair("ProfilerStep that ends after the recording", 1)));
}

TEST_F(OddTracesTest, StepsHaveNumbersThatCanBeCounted) {
  Step(3, 1000);
  Launch(1050, 800);
  Add(R"({"ph":"X","cat":"user_annotation","name":"ProfilerStep#9223372036854775807",)"
      R"("pid":7,"tid":9,"ts":3000,"dur":1000})");
  Launch(3050, 800);
  const auto reader = ReadAll();
  ASSERT_NE(reader, nullptr);
  EXPECT_THAT(reader->steps(), SizeIs(1));
  EXPECT_THAT(reader->record().imported.not_understood,
              Contains(Pair("ProfilerStep with a number beyond 2^53", 1)));
}

TEST_F(OddTracesTest, StepsMayBeOperators) {
  for (int step = 1; step <= 2; ++step) {
    Add(StrCat(R"({"ph":"X","cat":"cpu_op","name":"ProfilerStep#)", step,
               R"(","pid":7,"tid":9,"ts":)", 1000 * step, R"(,"dur":1000})"));
    Launch(1000 * step + 50, 800);
  }
  Step(2, 2000);  // In both categories: the same step.
  const auto reader = ReadAll();
  ASSERT_NE(reader, nullptr);
  EXPECT_THAT(reader->steps(), SizeIs(2));
  EXPECT_TRUE(reader->record().imported.not_understood.empty());
}

// What cudaEventRecord() did is kept without its time.
TEST_F(OddTracesTest, EventsWithoutATimeAreNoCapture) {
  EXPECT_THAT(ImportText(R"({"schemaVersion":1,"traceEvents":[{"ph":"X","cat":"cuda_event",)"
                         R"("name":"e","pid":1,"tid":1,"ts":5,"dur":1,"args":{"correlation":3,)"
                         R"("stream":7,"context":1,"event_id":4}}]})"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no event")));
}

TEST_F(OddTracesTest, StreamsOf64BitsHaveTheirOwnNumbersInReports) {
  constexpr int64_t kHip = 94'354'525'917'696;
  const auto kernel = [](int64_t start_us, int64_t stream) {
    return StrCat(R"({"ph":"X","cat":"kernel","name":"k","pid":0,"tid":)", stream, R"(,"ts":)",
                  start_us, R"(,"dur":5,"args":{"device":0,"stream":)", stream, "}}");
  };
  const auto reader =
      ReadEvents(StrCat(kernel(10, kHip), ",", kernel(20, 7), ",", kernel(30, kHip + 1), ",",
                        kernel(40, kHip), ",", kernel(50, 3'221'225'473)));
  ASSERT_NE(reader, nullptr);
  const auto idle = report::SummarizeIdle(*reader);
  ASSERT_THAT(idle, IsOk());
  std::vector<std::pair<int64_t, int64_t>> counts;
  for (const report::StreamIdleRow& row : idle->streams) {
    counts.emplace_back(row.stream, row.activity_count);
  }
  EXPECT_THAT(counts, ElementsAre(std::pair(7, 1), std::pair(3'221'225'473, 1), std::pair(kHip, 2),
                                  std::pair(kHip + 1, 1)));
}

TEST_F(OddTracesTest, QuotesInAMemberOfTheTraceLoseThatMemberAlone) {
  Step(1, 1000);
  Launch(1050, 800);
  for (const std::string_view member :
       {R"("note": "run "a" of b")", R"("note": "./logs/"x"/a.json")", R"("note": "["a", "b"]")",
        R"("note": "say "a, b", c")"}) {
    for (const bool is_first : {true, false}) {
      SCOPED_TRACE(member);
      const std::string events = StrCat(R"("traceEvents": [)", events_, "]");
      const std::string text =
          is_first ? StrCat(R"({"schemaVersion": 1, )", member, ", ", events, "\n}\n")
                   : StrCat(R"({"schemaVersion": 1, )", events, ", ", member, ", \"x\": 1}");
      const auto reader = Read(text);
      ASSERT_NE(reader, nullptr);
      EXPECT_EQ(reader->gpu_row_count(), 1);
      EXPECT_THAT(reader->record().imported.not_understood,
                  Contains(Pair("member:note is not JSON", 1)));
    }
    const auto reader =
        Read(StrCat(R"({"schemaVersion": 1, "traceEvents": [)", events_, "], ", member, "}"));
    ASSERT_NE(reader, nullptr);
    EXPECT_EQ(reader->gpu_row_count(), 1);
  }
}

TEST_F(OddTracesTest, WindowsNeedNoSteps) {
  for (int i = 0; i < 3; ++i) Launch(1000 * i, 800);
  for (int i = 0; i < 3; ++i) Launch(9'000'000 + 1000 * i, 800);
  const auto reader = ReadAll();
  ASSERT_NE(reader, nullptr);
  ASSERT_THAT(reader->record().windows, SizeIs(2));
  const auto findings = report::SummarizeFindings(*reader, {});
  ASSERT_THAT(findings, IsOk());
  EXPECT_LT(findings->mean_step_ns, 7'000'000);
  EXPECT_THAT(findings->verdict, Not(HasSubstr("idle for 99")));
}

TEST_F(OddTracesTest, AProgramThatSleepsInAStepIsIdle) {
  Step(1, 0, 2'000'000);
  Launch(10, 800);
  Step(2, 2'000'000, 2'000'000);
  Launch(2'000'010, 800);
  const auto reader = ReadAll();
  ASSERT_NE(reader, nullptr);
  EXPECT_THAT(reader->record().windows, SizeIs(1));
}

TEST_F(OddTracesTest, AShortPauseBetweenStepsThatFollowEachOtherIsNoHole) {
  Step(1, 0);
  Step(2, 31'000);
  const auto reader = ReadAll();
  ASSERT_NE(reader, nullptr);
  EXPECT_THAT(reader->record().windows, SizeIs(1));
}

TEST_F(OddTracesTest, WorkAtImpossibleTimesMakesNoWindow) {
  constexpr int64_t kDayUs = 86'400'000'000;
  for (const int64_t away_us : {int64_t{9'000'000}, int64_t{-9'000'000}, 3 * kDayUs, -3 * kDayUs}) {
    SCOPED_TRACE(away_us);
    events_.clear();
    for (int step = 0; step < 3; ++step) {
      Step(3 + step, 1000 * (1 + step));
      Launch(1000 * (1 + step) + 50, 800);
    }
    // The GPU does what the last two launches began, at another time.
    for (int i = 0; i < 2; ++i) {
      Add(StrCat(R"({"ph":"X","cat":"kernel","name":"late","pid":1,"tid":7,"ts":)",
                 away_us + 100 * i, R"(,"dur":50,"args":{"device":1,"stream":7,"correlation":)",
                 correlation_ - i, "}}"));
    }
    const auto reader = ReadAll();
    ASSERT_NE(reader, nullptr);
    const CaptureRecord& record = reader->record();
    ASSERT_THAT(record.windows, SizeIs(1));
    EXPECT_EQ(record.windows[0].start_ns, 0);
    EXPECT_EQ(record.windows[0].end_ns, 3'000'000);
    EXPECT_EQ(record.windows[0].first_step, 3);
    EXPECT_EQ(record.windows[0].end_step, 6);
    EXPECT_EQ(record.covered_ns, 3'000'000);
    ASSERT_THAT(reader->steps(), SizeIs(3));
    EXPECT_EQ(reader->steps()[0].start_ns, 0);
    const auto findings = report::SummarizeFindings(*reader, {});
    ASSERT_THAT(findings, IsOk());
    EXPECT_THAT(findings->verdict, Not(HasSubstr("windows")));
    EXPECT_EQ(findings->mean_step_ns, 1'000'000);
  }
}

TEST_F(OddTracesTest, AnImpossibleLengthMakesTheWindowNoLonger) {
  for (const std::string_view category : {"kernel", "cuda_runtime"}) {
    SCOPED_TRACE(category);
    events_.clear();
    for (int step = 0; step < 3; ++step) {
      Step(3 + step, 1000 * (1 + step));
      Launch(1000 * (1 + step) + 50, 800);
    }
    // Its stream or its thread does other things long before it ends.
    Add(StrCat(R"({"ph":"X","cat":")", category, R"(","name":"k","pid":)",
               category == "kernel" ? "0" : "7", R"(,"tid":)", category == "kernel" ? "7" : "9",
               R"(,"ts":1020,"dur":5000000,"args":{"device":0,"stream":7,"correlation":99}})"));
    const auto reader = ReadAll();
    ASSERT_NE(reader, nullptr);
    ASSERT_THAT(reader->record().windows, SizeIs(1));
    EXPECT_EQ(reader->record().windows[0].end_ns, 3'000'000);
    EXPECT_EQ(reader->record().covered_ns, 3'000'000);
  }
}

TEST_F(OddTracesTest, WorkThatIsLastOnItsStreamMayBeLong) {
  for (int step = 0; step < 3; ++step) {
    Step(3 + step, 1000 * (1 + step));
    Launch(1000 * (1 + step) + 50, step < 2 ? 800 : 5'000'000);
  }
  const auto reader = ReadAll();
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(reader->record().covered_ns, 5'002'110'000);
}

TEST_F(OddTracesTest, AMomentHoursFromAllElseIsNoWindow) {
  constexpr int64_t kDayUs = 86'400'000'000;
  for (const int64_t at_us : {-17'000 * kDayUs / 100, 3 * kDayUs}) {
    SCOPED_TRACE(at_us);
    events_.clear();
    for (int step = 0; step < 3; ++step) {
      Step(3 + step, 1000 * (1 + step));
      Launch(1000 * (1 + step) + 50, 800);
    }
    Add(StrCat(R"({"ph":"X","cat":"python_function","name":"f","pid":7,"tid":9,"ts":)", at_us,
               R"(,"dur":3,"args":{"Python id":1}})"));
    const auto reader = ReadAll();
    ASSERT_NE(reader, nullptr);
    ASSERT_THAT(reader->record().windows, SizeIs(1));
    EXPECT_EQ(reader->record().covered_ns, 3'000'000);
    ASSERT_THAT(reader->steps(), SizeIs(3));
    EXPECT_EQ(reader->steps()[0].start_ns, 0);
    EXPECT_EQ(reader->record().windows[0].end_step, 6);
  }
}

TEST_F(OddTracesTest, WindowsOfATraceOfTheGpuAloneStay) {
  for (const int at : {0, 9'000'000}) {
    Add(StrCat(R"({"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":)", at,
               R"(,"dur":50,"args":{"device":0,"stream":7}})"));
  }
  const auto reader = ReadAll();
  ASSERT_NE(reader, nullptr);
  EXPECT_THAT(reader->record().windows, SizeIs(2));
}

TEST_F(OddTracesTest, AReplayOfAGraphThatLacksKernelsLostThem) {
  for (int replay = 0; replay < 6; ++replay) {
    const int at = 1000 * replay;
    Step(replay, at);
    Add(StrCat(R"({"ph":"X","cat":"cuda_runtime","name":"cudaGraphLaunch","pid":7,"tid":9,"ts":)",
               at, R"(,"dur":8,"args":{"correlation":)", replay + 1, "}}"));
    for (int node = 0; node < 10; ++node) {
      if (replay == 3 && node >= 6) continue;
      Add(StrCat(R"({"ph":"X","cat":"kernel","name":"k)", node, R"(","pid":0,"tid":7,"ts":)",
                 at + 20 + 90 * node, R"(,"dur":90,"args":{"device":0,"stream":7,"graph id":3,)",
                 R"("graph node id":)", 100 + node, R"(,"correlation":)", replay + 1, "}}"));
    }
  }
  const auto reader = ReadAll();
  ASSERT_NE(reader, nullptr);
  const CaptureRecord& record = reader->record();
  EXPECT_EQ(record.graded.grade, "C");
  const auto check =
      std::ranges::find(record.graded.checks, "silent_launches", &QualityCheck::name);
  ASSERT_NE(check, record.graded.checks.end());
  EXPECT_THAT(check->sentence,
              HasSubstr("1 of 6 (16.7%) launches have less than other replays of their graph (4 "
                        "activities are missing)"));
  const auto findings = report::SummarizeFindings(*reader, {});
  ASSERT_THAT(findings, IsOk());
  EXPECT_THAT(findings->verdict, Not(HasSubstr("idle for")));
  const auto time = report::SummarizeTime(*reader, {});
  ASSERT_THAT(time, IsOk());
  // Of five gaps of 100 us, one is unknown from the launch of the short replay on.
  EXPECT_EQ(time->whole.idle_ns, 480'000);
}

// ---- several processes ----

TEST_F(OddTracesTest, SeveralProcessesAreRefused) {
  for (int i = 0; i < 6; ++i) {
    Launch(1000 * i, 50, 100, 10 + i, "aten::mm");
    Launch(1000 * i + 7, 80, 200, 10 + i, "aten::add");
  }
  const auto imported = ImportText(StrCat(R"({"traceEvents":[)", events_, "]}"));
  EXPECT_THAT(imported, StatusIs(absl::StatusCode::kFailedPrecondition,
                                 AllOf(HasSubstr("2 processes (pid 100, 200)"),
                                       HasSubstr("each by itself"))));
}

TEST_F(OddTracesTest, CallsOfAContainerMayHaveAnotherPidThanItsOperators) {
  Add(R"({"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":9,"ts":1,"dur":40,"args":{}})");
  Add(R"({"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":4711,"tid":9,"ts":5,"dur":8,)"
      R"("args":{"correlation":1}})");
  EXPECT_NE(ReadAll(), nullptr);
}

// Ranks in containers have the same pid.
TEST_F(OddTracesTest, ProcessesWithOnePidAreKnownByTheNumbersOfTheirLaunches) {
  for (int i = 0; i < 4; ++i) {
    Launch(1000 + 200 * i, 50, 1, i + 1);
    Launch(1100 + 200 * i, 80, 1, i + 1, "aten::add");
  }
  EXPECT_THAT(ImportText(StrCat(R"({"traceEvents":[)", events_, "]}")),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("4 of its 8 launches have the correlation of another launch")));
}

// ---- damaged events ----

TEST_F(OddTracesTest, AnEventWithUnescapedQuotesIsLostAlone) {
  for (const std::string_view name : {R"({"device": "cpu", "dtype": "float32"}(12): run)",
                                      R"j(f("a"))j", R"(a"b)", R"("{)", R"("})", R"(a"],")"}) {
    for (const int at : {0, 3, 8}) {
      events_.clear();
      correlation_ = 0;
      for (int i = 0; i < 9; ++i) {
        if (i == at) {
          Add(StrCat(R"({"ph":"X","cat":"python_function","name":")", name,
                     R"(","pid":7,"tid":9,"ts":1290,"dur":60,"args":{"Python id":1}})"));
        }
        if (i == 8) break;
        Add(StrCat(R"({"ph":"X","cat":"cpu_op","name":"aten::mm","pid":7,"tid":9,"ts":)",
                   1000 + 100 * i, R"(,"dur":40,"args":{"External id":1}})"));
      }
      const auto reader =
          Read(StrCat(R"({"schemaVersion":1,"traceEvents":[)", events_, R"(],"traceName":"t"})"));
      ASSERT_NE(reader, nullptr) << name << " at " << at;
      EXPECT_EQ(reader->record().torch.operator_count, 8) << name << " at " << at;
      EXPECT_THAT(reader->record().imported.not_understood,
                  Contains(Key(HasSubstr("event damaged at byte"))))
          << name << " at " << at;
    }
  }
}

TEST_F(OddTracesTest, AnEventWithABracketTooManyIsLostAlone) {
  for (const std::string_view args :
       {R"({{"a":1})", R"({["a":1})", R"({"a":[1})", R"({"a":{"b":1})"}) {
    for (const std::string_view end :
         {R"(],"traceName":"t"})", "]}", "] \n, \"traceName\":\"t\"}"}) {
      for (const int at : {0, 1, 2}) {
        events_.clear();
        for (int i = 0; i < 3; ++i) {
          if (i == at) {
            Add(StrCat(
                R"({"ph":"X","cat":"cpu_op","name":"odd","pid":7,"tid":9,"ts":1290,"dur":6,)",
                R"("args":)", args, "}"));
          }
          Add(StrCat(R"({"ph":"X","cat":"cpu_op","name":"aten::mm","pid":7,"tid":9,"ts":)",
                     1000 + 100 * i, R"(,"dur":40,"args":{"External id":1}})"));
        }
        const auto reader = Read(StrCat(R"({"schemaVersion":1,"traceEvents":[)", events_, end));
        ASSERT_NE(reader, nullptr) << args << " at " << at << end;
        EXPECT_EQ(reader->record().torch.operator_count, 3) << args << " at " << at << end;
        EXPECT_THAT(reader->record().imported.not_understood,
                    Contains(Key(HasSubstr("event damaged at byte"))));
      }
    }
  }
}

// Wherever the next piece of the file begins, and whatever the next names look like with their
// quotes the wrong way round.
TEST_F(OddTracesTest, ABracketInAnOddTextLosesItsEventAlone) {
  constexpr size_t kEvents = 12'000;  // 1.3 MiB; the file is read in pieces of 1 MiB.
  const auto event = [](size_t index, std::string_view name) {
    return StrCat(R"({"ph":"X","cat":"cpu_op","name":")", name, R"(","pid":7,"tid":9,"ts":)",
                  100 * index, R"(,"dur":40,"args":{"External id":)", index + 1, "}}");
  };
  for (const std::string_view name : {R"([mem"ory])", R"(mem"ory])", R"(mem"ory})", R"({mem"ory})",
                                      R"([mem"o"ry])", R"(mem"]o"ry})", R"([[mem"ory)"}) {
    for (const size_t at : {size_t{0}, size_t{9'000}, kEvents - 2}) {
      for (const std::string_view end : {R"(],"traceName":"a.json"})", "]}"}) {
        SCOPED_TRACE(StrCat(name, " at ", at, ", ", end));
        std::string text = R"({"traceEvents":[)";
        size_t damaged_at = 0;
        for (size_t i = 0; i < kEvents; ++i) {
          if (i > 0) text += ',';
          if (i == at) damaged_at = text.size();
          text += event(i, i == at ? name : i % 7 == 0 ? "[memory]" : "void f<{lambda()#1}>(int)");
        }
        const auto reader = Read(StrCat(text, end));
        ASSERT_NE(reader, nullptr);
        EXPECT_EQ(reader->record().torch.operator_count, kEvents - 1);
        const std::map<std::string, int64_t>& counts = reader->record().imported.not_understood;
        ASSERT_THAT(counts, SizeIs(1));
        EXPECT_EQ(counts.begin()->second, 1);
        constexpr std::string_view kText = "event damaged at byte ";
        ASSERT_THAT(counts.begin()->first, testing::StartsWith(kText));
        const size_t byte = std::stoul(counts.begin()->first.substr(kText.size()));
        EXPECT_GE(byte, damaged_at);
        EXPECT_LT(byte, damaged_at + event(at, name).size());
      }
    }
  }
}

TEST_F(OddTracesTest, ManyDamagedEventsAreReadInTime) {
  std::string text = R"({"traceEvents":[)";
  constexpr int kEvents = 40'000;
  for (int i = 0; i < kEvents; ++i) {
    StrAppend(&text, i == 0 ? "" : ",", R"({"ph":"X","cat":"cpu_op","name":")",
              i % 2 == 0 ? "a" : R"([b"c])", R"(","pid":7,"tid":9,"ts":)", 100 * i,
              R"(,"dur":40})");
  }
  const auto reader = Read(StrCat(text, "]}"));
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(reader->record().torch.operator_count, kEvents / 2);
}

TEST_F(OddTracesTest, TheByteOfTheDamageIsNamed) {
  const std::string before =
      R"({"traceEvents":[{"ph":"X","cat":"cpu_op","name":"a","pid":7,"tid":9,)"
      R"("ts":1,"dur":40},{"ph":"X","name":"{")";
  const auto reader =
      Read(StrCat(before, R"j(device": "cpu"}(1)","pid":7,"tid":9,"ts":1290,"dur":60}]})j"));
  ASSERT_NE(reader, nullptr);
  EXPECT_THAT(reader->record().imported.not_understood,
              Contains(Key(StrCat("event damaged at byte ", before.size()))));
}

TEST_F(OddTracesTest, ANumberThatNoDoubleCanHoldLosesItsEventAlone) {
  const auto reader = Read(
      R"({"traceEvents":[{"ph":"X","cat":"cpu_op","name":"a","pid":7,"tid":9,"ts":1,"dur":40},)"
      R"({"ph":"X","cat":"cpu_op","name":"b","pid":7,"tid":9,"ts":{"a":1e400]},"dur":4},)"
      R"({"ph":"X","cat":"cpu_op","name":"c","pid":7,"tid":9,"ts":1e400,"dur":4},)"
      R"({"ph":"X","cat":"cpu_op","name":"d","pid":7,"tid":9,"ts":50,"dur":4}]})");
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(reader->record().torch.operator_count, 2);
}

TEST_F(OddTracesTest, NumbersThatAreNotFiniteLoseTheirArgumentAlone) {
  for (const std::string_view number :
       {"NaN", "nan", "-nan", "Infinity", "-Infinity", "inf", "-inf", "+inf"}) {
    const auto reader = Read(StrCat(
        R"({"traceEvents":[{"ph":"X","cat":"cpu_op","name":"a","pid":7,"tid":9,"ts":1,"dur":40},)"
        R"({"ph":"X","cat":"cpu_op","name":"NaN inf","pid":7,"tid":9,"ts":50,"dur":4,)"
        R"("args":{"blocks per SM":)",
        number, R"(,"External id":1}}, {"ph":"X","cat":"cpu_op","name":"c","pid":7,"tid":9,"ts":)",
        number, R"(,"dur":4}]})"));
    ASSERT_NE(reader, nullptr) << number;
    EXPECT_EQ(reader->record().torch.operator_count, 2) << number;
    EXPECT_THAT(reader->names(), Contains("NaN inf"));
    std::map<std::string, int64_t> not_understood = reader->record().imported.not_understood;
    EXPECT_EQ(not_understood["arg:numbers that are not finite"], 2) << number;
    not_understood.erase("arg:numbers that are not finite");
    EXPECT_THAT(not_understood, ElementsAre(Pair("cpu_op without ts", 1))) << number;
  }
}

TEST_F(OddTracesTest, NumbersInListsThatAreNotFiniteAreCountedToo) {
  const auto reader = Read(
      R"({"traceEvents":[{"ph":"X","cat":"cpu_op","name":"a","pid":7,"tid":9,"ts":1,"dur":40,)"
      R"("args":{"Concrete Inputs":["nan","\\"],"Input Dims":[[-nan],[2]],"x":{"nan":[inf]}}},)"
      R"({"ph":"X","cat":"cpu_op","name":"b","pid":7,"tid":9,"ts":50,"dur":4,)"
      R"("args":{"y":null,"z":["not a nan"],"w":-1}}]})");
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(reader->record().torch.operator_count, 2);
  EXPECT_THAT(reader->record().imported.not_understood,
              Contains(Pair("arg:numbers that are not finite", 2)));
  EXPECT_THAT(reader->names(), Contains(R"({"nan":[null]})"));
  EXPECT_THAT(reader->scalars(), Contains(R"(["nan","\\"])"));
}

TEST_F(OddTracesTest, ALineBreakInATextLosesNoEvent) {
  const auto reader = Read(
      "{\"traceEvents\":[{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"a\\\"\n\tb\",\"pid\":7,"
      "\"tid\":9,\"ts\":1,\"dur\":40},\n{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"c\",\"pid\":7,"
      "\"tid\":9,\"ts\":50,\"dur\":4}]}");
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(reader->record().torch.operator_count, 2);
  EXPECT_THAT(reader->names(), Contains("a\"  b"));
  EXPECT_THAT(reader->record().imported.not_understood,
              UnorderedElementsAre(Pair("arg:control characters in texts", 2)));
}

// HTA leaves them out, too. One such operator would be all of the program's time.
TEST_F(OddTracesTest, NothingLastsLongerThanAWeek) {
  for (int i = 0; i < 3; ++i) {
    Add(StrCat(R"({"ph":"X","cat":"cpu_op","name":"aten::mm","pid":7,"tid":9,"ts":)",
               1000 + 100 * i, R"(,"dur":)", i == 1 ? "604800000001" : "40", "}"));
  }
  const auto reader = ReadAll();
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(reader->record().torch.operator_count, 3);
  EXPECT_EQ(reader->record().covered_ns, 240'000);
  EXPECT_THAT(reader->record().imported.not_understood,
              UnorderedElementsAre(Pair("cpu_op with a dur of more than 7 days, taken as 0", 1)));
}

TEST_F(OddTracesTest, TimesMayBeTexts) {
  const auto reader =
      Read(R"({"traceEvents":[{"ph":"X","cat":"cpu_op","name":"a","pid":"7","tid":"9","ts":"1.5",)"
           R"("dur":"40"}]})");
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(reader->record().torch.operator_count, 1);
  EXPECT_EQ(reader->record().covered_ns, 40'000);
}

TEST_F(OddTracesTest, ATraceOfDamagedEventsOnlyIsRefusedWithTheByte) {
  EXPECT_THAT(ImportText(R"({"traceEvents":[{"ph" "X"},{"ph":"X",}]})"),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("damaged at byte")));
}

// ---- other profilers ----

TEST_F(OddTracesTest, AProfileOfOnnxRuntimeIsNamed) {
  const std::string node =
      R"({"cat":"Node","pid":31,"tid":31,"dur":60,"ts":100,"ph":"X","name":"mm_0_kernel_time",)"
      R"("args":{"op_name":"MatMul","provider":"CPUExecutionProvider"}})";
  const std::string kernel =
      R"({"cat":"Kernel","pid":31,"tid":31,"dur":40,"ts":110,"ph":"X","name":"sgemm","args":{}})";
  const std::string session =
      R"({"cat":"Session","pid":31,"tid":31,"dur":900,"ts":5,"ph":"X","name":"model_run","args":{}})";
  const std::string api =
      R"({"cat":"Api","pid":31,"tid":31,"dur":4,"ts":5,"ph":"X","name":"cudaLaunchKernel","args":{}})";
  for (const std::string& text :
       {StrCat("[", session, ",", node, ",", kernel, "]"), StrCat("[", node, "]"),
        StrCat("[", session, "]"), StrCat("[", api, "]"), StrCat("[", api, ",", kernel, "]"),
        // Kernels alone, by the arguments that it gives them.
        std::string(R"([{"cat":"Kernel","pid":31,"tid":1,"dur":40,)"
                    R"("ts":110,"ph":"X","name":"sgemm","args":{)"
                    R"("stream":"3","grid_x":"1"}}])")}) {
    EXPECT_THAT(ImportText(text),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("ONNX Runtime")));
  }
}

// ---- copies ----

TEST_F(OddTracesTest, TheBandwidthOfShortCopiesIsTheRecordedOne) {
  for (int i = 0; i < 8; ++i) {
    Add(StrCat(R"j({"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD (Pinned -> Device)","pid":0,)j"
               R"("tid":7,"ts":)",
               1030 + 100 * i, R"(,"dur":)", 1 + i % 2,
               R"(,"args":{"device":0,"context":1,"stream":7,"correlation":)", i + 1,
               R"j(,"bytes":4096,"memory bandwidth (GB/s)":)j",
               i % 2 == 0 ? "2.782608695652174" : "2.723404255319149", "}}"));
  }
  const auto reader = ReadAll();
  ASSERT_NE(reader, nullptr);
  const auto copies = report::SummarizeCopies(*reader);
  ASSERT_THAT(copies, IsOk());
  ASSERT_THAT(copies->rows, SizeIs(1));
  EXPECT_NEAR(copies->rows[0].bandwidth_gb_per_s, 2.753, 0.001);
}

// ---- collectives ----

TEST_F(OddTracesTest, TheSizeOfAListOfTensorsIsInTheMessage) {
  Add(R"({"ph":"X","cat":"cpu_op","name":"record_param_comms","pid":7,"tid":9,"ts":1100,"dur":60,)"
      R"("args":{"Collective name":"allreduce","dtype":"BFloat16","In msg nelems":2873320,)"
      R"("Out msg nelems":2873320,"Group size":8,"In split size":"[]","Out split size":"[]",)"
      R"("Rank":0,"Input Dims":[[[2873320]],[],[],[],[],[],[],[],[],[]],)"
      R"("Input type":["TensorList","","","Scalar","","ScalarList","ScalarList","Scalar","Scalar",)"
      R"("Scalar"],"Concrete Inputs":["","","","0","","[]","[]","0","1","8"]}})");
  Add(R"({"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":7,"tid":9,"ts":1120,)"
      R"("dur":8,"args":{"correlation":400}})");
  Add(R"j({"ph":"X","cat":"kernel","name":"ncclDevKernel_Generic(int)","pid":0,"tid":20,"ts":4050,)j"
      R"("dur":6000,"args":{"device":0,"stream":20,"correlation":400}})");
  Add(R"({"ph":"X","cat":"cpu_op","name":"record_param_comms","pid":7,"tid":9,"ts":1200,"dur":4,)"
      R"("args":{"Collective name":"wait","dtype":"Byte","In msg nelems":0,"Out msg nelems":0,)"
      R"("Group size":1,"In split size":"[]","Out split size":"[]","Rank":0}})");
  const auto reader = ReadAll();
  ASSERT_NE(reader, nullptr);
  const auto table = report::SummarizeCollectives(*reader, 0);
  ASSERT_THAT(table, IsOk());
  ASSERT_THAT(table->rows, SizeIs(1));  // The wait is none.
  EXPECT_EQ(table->rows[0].kind, report::CollectiveKind::kAllReduce);
  EXPECT_EQ(table->rows[0].bytes, 5'746'640);
  const auto time = report::SummarizeTime(*reader, {});
  ASSERT_THAT(time, IsOk());
  ASSERT_THAT(time->collectives, SizeIs(1));
  EXPECT_NEAR(time->collectives[0].algorithm_gb_per_s, 0.958, 0.001);
  EXPECT_NEAR(time->collectives[0].bus_gb_per_s, 1.676, 0.001);
}

TEST_F(OddTracesTest, GroupsHaveTheNamesThatTheTraceHas) {
  const auto collective = [](int at, std::string_view names) {
    return StrCat(R"({"ph":"X","cat":"cpu_op","name":"record_param_comms","pid":7,"tid":9,"ts":)",
                  at, R"(,"dur":60,"args":{"Collective name":"allreduce","dtype":"Float",)",
                  R"("In msg nelems":64,"Group size":2,"Process Group Ranks":"[0, 1]")", names,
                  "}}");
  };
  Add(collective(100, R"(,"Process Group Name":"11","Process Group Description":"TP")"));
  Add(collective(200, R"(,"Process Group Name":"21")"));
  Add(collective(300, R"(,"Process Group Name":"31","Process Group Description":"undefined")"));
  Add(collective(400, ""));
  const auto reader = Read(StrCat(
      R"({"schemaVersion":1,"distributedInfo":{"rank":0,"world_size":2,"pg_config":)",
      R"([{"pg_name":"21","pg_desc":"DP","ranks":[0,1]},7,{}]},"traceEvents":[)", events_, "]}"));
  ASSERT_NE(reader, nullptr);
  const auto table = report::SummarizeCollectives(*reader, 0);
  ASSERT_THAT(table, IsOk());
  std::vector<std::string> names;
  for (const report::Communicator& each : table->communicators) {
    names.push_back(StrCat(each.number, " ", each.id, " ", each.name, " ", each.shown_name()));
  }
  EXPECT_THAT(names, ElementsAre("0 11 TP TP", "1 21 DP DP", "2 31  31", "3   "));
}

TEST_F(OddTracesTest, GroupsOfOneSizeAreToldApartByTheirRanks) {
  struct Group {
    std::string_view ranks;
    int64_t first;
    int64_t stride;
  };
  for (const Group& group : std::vector<Group>{{"[0, 1]", 0, 1},
                                               {"[2, 3]", 2, 1},
                                               {"[1, 3]", 1, 2},
                                               {"[4, 5, ..., 7]", 4, 1},
                                               {"[0, 1, 5]", 0, -1}}) {
    events_.clear();
    Add(StrCat(R"({"ph":"X","cat":"cpu_op","name":"record_param_comms","pid":7,"tid":9,"ts":1100,)"
               R"("dur":60,"args":{"Collective name":"allreduce","dtype":"Float",)"
               R"("In msg nelems":64,"Group size":2,"Process Group Ranks":")",
               group.ranks, R"("}})"));
    const auto reader = ReadAll();
    ASSERT_NE(reader, nullptr);
    const auto table = report::SummarizeCollectives(*reader, 0);
    ASSERT_THAT(table, IsOk());
    ASSERT_THAT(table->communicators, SizeIs(1)) << group.ranks;
    EXPECT_EQ(table->communicators[0].first_rank, group.first) << group.ranks;
    EXPECT_EQ(table->communicators[0].rank_stride, group.stride) << group.ranks;
  }
}

}  // namespace
}  // namespace profd::importer
