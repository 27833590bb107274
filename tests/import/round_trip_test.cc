// What was imported and exported again imports as the same.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "daemon/export/trace_export.h"
#include "gmock/gmock.h"
#include "tests/export/sink/string_sink.h"
#include "tests/fakes/fake_capture_reader.h"
#include "tests/import/import_fixture.h"
#include "tests/import/real_traces.h"

namespace profd::importer {
namespace {

class RoundTripTest : public ImportTest {
 protected:
  // Events that were not understood, by kind; not arguments, which exports have again.
  static std::map<std::string, int64_t> LeftOut(const CaptureRecord& record) {
    std::map<std::string, int64_t> events = record.imported.not_understood;
    std::erase_if(events, [](const auto& count) { return count.first.starts_with("arg:"); });
    return events;
  }
  // Of the capture made of `trace`, the lines that its own export, imported, does not have, and
  // those that only that has.
  void ExpectSameAgain(const std::filesystem::path& trace) {
    const auto first = Import(trace);
    ASSERT_THAT(first, IsOk());
    const auto reader = Open(first->file);
    StringSink sink;
    ASSERT_THAT(exporter::ExportTrace(*reader, exporter::TraceFormat::kChrome, sink), IsOk());
    exported_ = sink.text();
    const auto second = ImportText(exported_);
    ASSERT_THAT(second, IsOk());
    EXPECT_EQ(LeftOut(second->record), LeftOut(first->record));
    EXPECT_EQ(second->record.state, first->record.state);
    EXPECT_EQ(second->record.ended_by, first->record.ended_by);
    EXPECT_EQ(second->record.imported.producer, "profd");
    EXPECT_EQ(second->record.start_unix_ns, first->record.start_unix_ns);
    EXPECT_EQ(second->record.event_count, first->record.event_count);
    EXPECT_EQ(second->record.windows.size(), first->record.windows.size());
    EXPECT_EQ(second->record.target.pid, first->record.target.pid);
    EXPECT_EQ(second->record.target.command, first->record.target.command);
    EXPECT_EQ(second->record.target.metadata, first->record.target.metadata);
    EXPECT_EQ(second->record.gpu.orphan_count, first->record.gpu.orphan_count);
    const auto again = Open(second->file);
    const std::vector<std::string> before = LinesOf(*reader);
    const std::vector<std::string> after = LinesOf(*again);
    std::vector<std::string> lost;
    std::vector<std::string> made;
    std::ranges::set_difference(before, after, std::back_inserter(lost));
    std::ranges::set_difference(after, before, std::back_inserter(made));
    EXPECT_EQ(lost.size(), 0u) << lost.front();
    EXPECT_EQ(made.size(), 0u) << made.front();
  }

  std::string exported_;
};

TEST_F(RoundTripTest, WindowsWithoutStepsStayApart) {
  std::string events;
  for (const int64_t at_us : {0, 5'000'000}) {
    for (int i = 0; i < 3; ++i) {
      StrAppend(&events, events.empty() ? "" : ",",
                R"({"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":)",
                at_us + 1000 * i, R"(,"dur":900})");
    }
  }
  ExpectSameAgain(
      Write("windows.json", StrCat(R"({"schemaVersion":1,"traceEvents":[)", events, "]}")));
}

TEST_F(RoundTripTest, ATraceThatIsCutOffStaysPartial) {
  // Of the GPU's events after the last operator, none is complete, so all are left out.
  constexpr std::string_view kTrace =
      R"({"schemaVersion":1,"traceEvents":[)"
      R"({"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":1,"dur":20},)"
      R"({"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":2,"dur":3,)"
      R"("args":{"correlation":1}},)"
      R"({"ph":"X","cat":"kernel","name":"mm","pid":0,"tid":7,"ts":9,"dur":3,)"
      R"("args":{"device":0,"stream":7,"correlation":1}},)"
      R"({"ph":"X","cat":"cpu_op","name":"aten::add","pid":1,"tid":1,"ts":30,"dur":20},)"
      R"({"ph":"X","cat":"cuda_run)";
  const std::filesystem::path trace = Write("cut.json", kTrace);
  const auto first = Import(trace);
  ASSERT_THAT(first, IsOk());
  EXPECT_EQ(first->record.state, CaptureState::kPartial);
  ExpectSameAgain(trace);
}

TEST_F(RoundTripTest, AKernelThatDoesNotSayItsGpuStaysOnTheGpuOfItsRow) {
  const std::filesystem::path trace =
      Write("row.json",
            R"({"schemaVersion":1,"deviceProperties":[{"id":0,"name":"A"},{"id":1,"name":"B"}],)"
            R"("traceEvents":[{"ph":"X","cat":"kernel","name":"mm","pid":1,"tid":7,"ts":9,"dur":3,)"
            R"("args":{"stream":7,"correlation":1}},)"
            R"({"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":1,"dur":20}]})");
  const auto first = Import(trace);
  ASSERT_THAT(first, IsOk());
  ASSERT_EQ(first->record.gpu.streams.size(), 1u);
  EXPECT_EQ(first->record.gpu.streams[0].device, 1);
  ExpectSameAgain(trace);
}

TEST_F(RoundTripTest, ACollectiveGetsNoInputsThatItsTraceLacked) {
  ExpectSameAgain(Write(
      "collective.json",
      R"({"schemaVersion":1,"traceEvents":[{"ph":"X","cat":"cpu_op","name":"record_param_comms",)"
      R"("pid":1,"tid":1,"ts":1,"dur":2,"args":{"Collective name":"allreduce","dtype":"Float",)"
      R"("In msg nelems":64,"Group size":8,"Rank":3,"Global rank start":0,"Global rank stride":1,)"
      R"("In split size":"[]","Out split size":"[]"}}]})"));
  for (const char* made : {"Input Dims", "Input type", "Concrete Inputs"}) {
    EXPECT_EQ(exported_.find(made), std::string::npos) << made;
  }
  for (const char* had : {R"("In msg nelems":64)", R"("dtype":"Float")", R"("Group size":8)"}) {
    EXPECT_NE(exported_.find(had), std::string::npos) << had;
  }
}

TEST_F(RoundTripTest, ACollectiveKeepsTheInputsThatItHas) {
  constexpr std::string_view kInputs = R"(["","12","","3","allreduce","[]","[]","0","1","8"])";
  ExpectSameAgain(
      Write("collective.json",
            StrCat(R"({"schemaVersion":1,"traceEvents":[{"ph":"X","cat":"cpu_op",)",
                   R"("name":"record_param_comms","pid":1,"tid":1,"ts":1,"dur":2,"args":{)",
                   R"("Collective name":"allreduce","In msg nelems":64,"Group size":8,"Rank":3,)",
                   R"("Input Dims":[[64],[],[],[],[],[],[],[],[],[]],"Input type":["float","Int",)",
                   R"("","Int","","","","Int","Int","Int"],"Concrete Inputs":)", kInputs, "}}]}")));
  EXPECT_NE(exported_.find(kInputs), std::string::npos);
}

TEST_F(RoundTripTest, ARangeThatEndedWithItsThreadStaysMarked) {
  ExpectSameAgain(
      Write("unended.json",
            R"({"schemaVersion":1,"traceEvents":[{"ph":"X","cat":"user_annotation","name":"a",)"
            R"("pid":1,"tid":1,"ts":1,"dur":2,"args":{"ended_with_thread":"true"}}]})"));
  EXPECT_NE(exported_.find(R"("ended_with_thread":"true")"), std::string::npos);
}

TEST_F(RoundTripTest, ARangeThatNothingEndedStaysMarked) {
  ExpectSameAgain(
      Write("never.json",
            R"({"schemaVersion":1,"traceEvents":[{"ph":"X","cat":"user_annotation","name":"a",)"
            R"("pid":1,"tid":1,"ts":1,"dur":2,)"
            R"("args":{"finished":"false","never_ended":"true"}}]})"));
  EXPECT_NE(exported_.find(R"("finished":"false","never_ended":"true")"), std::string::npos);
}

// Kinds of work that other traces have no category for come back from our own.
TEST_F(RoundTripTest, EveryKindOfGpuWorkOfACaptureKeepsItsKindAndBytes) {
  FakeCaptureReader reader;
  const uint32_t thread = reader.AddThread(4242, "main");
  reader.mutable_record().gpu.outcome = GpuOutcome::kRecorded;
  std::vector<GpuRowKind> kinds;
  uint32_t correlation = 0;
  for (const GpuKind& kind : kGpuKinds) {
    const int64_t at = 1'000 * ++correlation;
    reader.ApiCall(thread, "cuLaunch", at, at + 100, correlation);
    if (kind.kind == GpuRowKind::kKernel) {
      reader.Kernel("gemm", at + 200, at + 300, correlation);
    } else {
      reader.GpuWork(kind.kind, at + 200, at + 300, correlation, {.bytes = correlation});
    }
    kinds.push_back(kind.kind);
  }
  StringSink sink;
  ASSERT_THAT(exporter::ExportTrace(reader, exporter::TraceFormat::kChrome, sink), IsOk());
  const auto imported = Read(sink.text());
  ASSERT_NE(imported, nullptr);
  EXPECT_TRUE(imported->record().imported.not_understood.empty());
  std::vector<GpuRowKind> found;
  ASSERT_THAT(imported->ForEach<GpuRow>(
                  kGpuAllColumns, {},
                  [&](const GpuBatch& batch) {
                    for (size_t i = 0; i < batch.size; ++i) {
                      const auto kind = static_cast<GpuRowKind>(batch.kind[i]);
                      found.push_back(kind);
                      EXPECT_EQ(batch.bytes[i], IsMemoryWork(kind) ? batch.correlation[i] : 0u);
                    }
                    return absl::OkStatus();
                  }),
              IsOk());
  EXPECT_THAT(found, testing::UnorderedElementsAreArray(kinds));
}

// Exports put calls that do not nest with their thread's ranges on rows of their own.
TEST_F(RoundTripTest, CallsThatDoNotNestStayThoseOfTheirThread) {
  const auto call = [](int at, int correlation) {
    return StrCat(R"({"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":9,)"
                  R"("ts":)",
                  at, R"(,"dur":10,"args":{"cbid":211,"correlation":)", correlation, "}},");
  };
  ExpectSameAgain(
      Write("aside.json",
            StrCat(R"x({"schemaVersion":1,"traceEvents":[{"ph":"M","name":"thread_name","pid":1,)x"
                   R"x("tid":9,"args":{"name":"thread 9 (main)"}},)x",
                   call(5, 1), call(12, 2), call(30, 3),
                   R"x({"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":20,"dur":5,)x"
                   R"x("args":{"device":0,"stream":7,"correlation":1}},)x"
                   R"x({"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":9,"ts":0,"dur":10}]})x")));
  EXPECT_NE(exported_.find("\"thread 9 (main) CUDA calls\""), std::string::npos);
  EXPECT_NE(exported_.find("\"thread 9 (main) CUDA calls (2)\""), std::string::npos);
  const auto again = ImportText(exported_);
  ASSERT_THAT(again, IsOk());
  StringSink sink;
  ASSERT_THAT(exporter::ExportTrace(*Open(again->file), exporter::TraceFormat::kChrome, sink),
              IsOk());
  EXPECT_EQ(sink.text(), exported_);
}

TEST_F(RoundTripTest, AKeptTrace) {
  ExpectSameAgain(std::filesystem::path(std::getenv("PROFD_SOURCE_DIR")) /
                  "tests/data/alexnet_train.json.gz");
}

class RealRoundTripTest : public RoundTripTest, public testing::WithParamInterface<const char*> {};

TEST_P(RealRoundTripTest, IsLossless) {
  const std::filesystem::path trace = RealTrace(GetParam());
  if (!std::filesystem::exists(trace)) GTEST_SKIP() << "no " << trace;
  ExpectSameAgain(trace);
}

INSTANTIATE_TEST_SUITE_P(Traces, RealRoundTripTest, testing::ValuesIn(kRealTraces), RealTraceName);

}  // namespace
}  // namespace profd::importer
