// What torch.compile did.
#include "daemon/report/time/compile_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/fakes/fake_capture_reader.h"
#include "tests/fakes/status_matchers.h"

namespace profd::report {

bool operator==(const CompiledRegionRow& a, const CompiledRegionRow& b) {
  return a.id == b.id && a.code == b.code && a.after_graph_break == b.after_graph_break &&
         a.calls == b.calls && a.total_ns == b.total_ns;
}
void PrintTo(const CompiledRegionRow& row, std::ostream* out) {
  *out << "{" << row.id << ", " << row.code << ", " << row.after_graph_break << ", " << row.calls
       << ", " << row.total_ns << "}";
}
bool operator==(const GraphBreakRow& a, const GraphBreakRow& b) {
  return a.where == b.where && a.reason == b.reason && a.count == b.count;
}
void PrintTo(const GraphBreakRow& row, std::ostream* out) {
  *out << "{" << row.where << ", " << row.reason << ", " << row.count << "}";
}
bool operator==(const RecompileRow& a, const RecompileRow& b) {
  return a.where == b.where && a.reason == b.reason && a.count == b.count &&
         a.compile_ns == b.compile_ns;
}
void PrintTo(const RecompileRow& row, std::ostream* out) {
  *out << "{" << row.where << ", " << row.reason << ", " << row.count << ", " << row.compile_ns
       << "}";
}
bool operator==(const CompileStepRow& a, const CompileStepRow& b) {
  return a.step == b.step && a.regions == b.regions && a.after_breaks == b.after_breaks &&
         a.compilations == b.compilations && a.compile_ns == b.compile_ns &&
         a.cache_lookups == b.cache_lookups && a.cache_lookup_ns == b.cache_lookup_ns;
}
void PrintTo(const CompileStepRow& row, std::ostream* out) {
  *out << "{" << row.step << ", " << row.regions << ", " << row.after_breaks << ", "
       << row.compilations << ", " << row.compile_ns << ", " << row.cache_lookups << ", "
       << row.cache_lookup_ns << "}";
}

namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint16_t kGraphBreak = 1;
constexpr uint16_t kRecompile = 2;
constexpr uint16_t kCompiledRegion = 3;
constexpr uint16_t kFolded = 7;

class CompileReportTest : public testing::Test {
 protected:
  CompileReportTest() : main_(reader_.AddThread(1, "main")) {}

  CompileReport Report() {
    absl::StatusOr<CompileReport> report = SummarizeCompile(reader_);
    EXPECT_THAT(report, IsOk());
    return report.ok() ? *std::move(report) : CompileReport();
  }

  FakeCaptureReader reader_;
  const uint32_t main_;
};

TEST_F(CompileReportTest, WithoutRegionsCompiledFunctionsAreRegions) {
  reader_.Range(main_, "## Call CompiledFxGraph fab3 ##", 10, 20);
  EXPECT_TRUE(Report().has_compiled);
  EXPECT_THAT(Report().regions,
              ElementsAre(CompiledRegionRow{"## Call CompiledFxGraph fab3 ##", "", false, 1, 10}));
  reader_.Range(main_, "CompiledFunction", 5, 25).Range(main_, "CompiledFunctionBackward", 30, 60);
  EXPECT_THAT(Report().regions,
              ElementsAre(CompiledRegionRow{"CompiledFunctionBackward", "", false, 1, 30},
                          CompiledRegionRow{"CompiledFunction", "", false, 1, 20}));
  reader_.Range(main_, "Torch-Compiled Region: 0/0", 0, 70);
  EXPECT_THAT(Report().regions, ElementsAre(CompiledRegionRow{"0/0", "", false, 1, 70}));
}

TEST_F(CompileReportTest, RegionsAreCountedByTheirIdWithTheCodeThatNotesTell) {
  reader_.Note(main_, kNoNoteTime, kCompiledRegion, "0/0", "train.py:10 in forward", 3)
      .Note(main_, kNoNoteTime, kCompiledRegion, "1/0",
            "train.py:19 in torch_dynamo_resume_in_forward_at_19", 7);
  reader_.Step(5, 0, 100).Step(6, 100, 100);
  reader_.Operator(main_, "TorchDynamo Cache Lookup", 1, 4)
      .Operator(main_, "Torch-Compiled Region: 0/0", 10, 50)
      .Operator(main_, "TorchDynamo Cache Lookup", 20, 22)
      .Operator(main_, "Torch-Compiled Region: 1/0", 30, 40)
      .Operator(main_, "Torch-Compiled Region: 0/0", 110, 130)
      .Operator(main_, "Torch-Compiled Region: 0/1", 300, 305);
  const CompileReport report = Report();
  EXPECT_TRUE(report.has_compiled);
  EXPECT_THAT(
      report.regions,
      ElementsAre(CompiledRegionRow{"0/0", "train.py:10 in forward", false, 2, 60},
                  CompiledRegionRow{"1/0", "train.py:19 in torch_dynamo_resume_in_forward_at_19",
                                    true, 1, 10},
                  CompiledRegionRow{"0/1", "", false, 1, 5}));
  EXPECT_THAT(report.steps,
              ElementsAre(CompileStepRow{-1, 1, 0, 0, 0, 0, 0}, CompileStepRow{5, 2, 1, 0, 0, 2, 5},
                          CompileStepRow{6, 1, 0, 0, 0, 0, 0}));
}

TEST_F(CompileReportTest, ACompilationCountsOnceWhateverIsInside) {
  reader_.Step(0, 0, 1000);
  reader_.BatchRows(1)
      .Range(main_, "_compile.compile_inner (dynamo_timed)", 100, 500)
      .Range(main_, "_compile.compile_inner (dynamo_timed)", 200, 300)
      .Range(main_, "_compile.<locals>.compile_inner (dynamo_timed)", 600, 700)
      .Range(main_, "_compile (dynamo_timed)", 800, 850)
      .Range(main_, "_compiled_by_hand", 900, 950);
  EXPECT_THAT(Report().steps, ElementsAre(CompileStepRow{0, 0, 0, 3, 550, 0, 0}));
}

TEST_F(CompileReportTest, GraphBreaksAreCountedByWhereAndWhyTheMostFirst) {
  reader_.Note(main_, 10, kGraphBreak, "a.py:1 in f", "builtin: print", 0)
      .Note(main_, 20, kGraphBreak, "b.py:2 in g", "data-dependent", 0)
      .Note(main_, 30, kGraphBreak, "b.py:2 in g", "data-dependent", 0)
      .Note(main_, 40, kGraphBreak, "b.py:2 in g", "builtin: print", 0);
  EXPECT_THAT(Report().graph_breaks,
              ElementsAre(GraphBreakRow{"b.py:2 in g", "data-dependent", 2},
                          GraphBreakRow{"a.py:1 in f", "builtin: print", 1},
                          GraphBreakRow{"b.py:2 in g", "builtin: print", 1}));
}

TEST_F(CompileReportTest, RecompilesAddUpTheTimesThatAreKnown) {
  reader_.Note(main_, 10, kRecompile, "f", "size mismatch", 100)
      .Note(main_, 20, kRecompile, "f", "size mismatch", -1)
      .Note(main_, 30, kRecompile, "f", "size mismatch", 50)
      .Note(main_, 40, kRecompile, "g", "dtype mismatch", -1);
  EXPECT_THAT(Report().recompiles, ElementsAre(RecompileRow{"f", "size mismatch", 3, 150},
                                               RecompileRow{"g", "dtype mismatch", 1, -1}));
}

TEST_F(CompileReportTest, WhereTorchHidesCompilationsThoseOfNotesCount) {
  reader_.Step(3, 0, 100).Step(4, 100, 100);
  reader_.Note(main_, 50, kRecompile, "f", "size mismatch", 30)
      .Note(main_, 150, kRecompile, "f", "size mismatch", -1)
      .Note(main_, kNoNoteTime, kRecompile, "f", "size mismatch", 9);
  EXPECT_THAT(Report().steps, ElementsAre(CompileStepRow{3, 0, 0, 1, 30, 0, 0},
                                          CompileStepRow{4, 0, 0, 1, 0, 0, 0}));
  reader_.Range(main_, "_compile.compile_inner (dynamo_timed)", 10, 45);
  EXPECT_THAT(Report().steps, ElementsAre(CompileStepRow{3, 0, 0, 1, 35, 0, 0}));
}

TEST_F(CompileReportTest, FoldedEventsAreThoseOfNotesOrOfTheRecord) {
  reader_.mutable_record().torch.folded_count = 40;
  EXPECT_EQ(Report().folded_event_count, 40);
  EXPECT_TRUE(Report().has_compiled);
  reader_.Note(main_, kNoNoteTime, kFolded, "_compile.compile_inner", "", 1700)
      .Note(main_, kNoNoteTime, kFolded, "CompiledFunction", "", 31);
  EXPECT_EQ(Report().folded_event_count, 1731);
}

TEST_F(CompileReportTest, ACaptureThatCompiledNothingSaysSoWithoutReadingARange) {
  reader_.Operator(main_, "aten::mm", 0, 10).Note(main_, 5, 4, "cuda:0", "", 1);
  const CompileReport report = Report();
  EXPECT_FALSE(report.has_compiled);
  EXPECT_THAT(report.steps, IsEmpty());
  EXPECT_THAT(reader_.range_readings(), IsEmpty());
}

TEST_F(CompileReportTest, NumbersOfAHostileFileDoNotOverflow) {
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  for (int i = 0; i < 3; ++i) {
    reader_.Range(main_, "Torch-Compiled Region: ", 0, kHuge, {.depth = 3})
        .Range(main_, "_compile (", i, kHuge, {.depth = 1})
        .Note(main_, kHuge, kRecompile, "f", "", kHuge)
        .Note(main_, -kHuge, kFolded, "", "f", kHuge)
        .Note(main_, 0, 60000, "", "", std::numeric_limits<int64_t>::min());
  }
  EXPECT_EQ(Report().regions.at(0).calls, 3);
}

TEST_F(CompileReportTest, AReadersErrorIsTheReportsError) {
  reader_.Range(main_, "TorchDynamo Cache Lookup", 0, 1)
      .FailAfter(0, absl::DataLossError("bad chunk"));
  EXPECT_THAT(SummarizeCompile(reader_), StatusIs(absl::StatusCode::kDataLoss));
}

}  // namespace
}  // namespace profd::report
