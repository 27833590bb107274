// The GPU's part of a Chrome trace. What every trace must obey is in trace_rules.h, which all
// of these are held against.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "daemon/base/str_cat.h"
#include "tests/export/chrome/exported_chrome.h"
#include "tests/export/gpu_capture.h"
#include "tests/export/hostile_names.h"
#include "tests/fakes/fake_capture_reader.h"

namespace profd::exporter {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

std::vector<const JsonValue*> OfCategory(const JsonValue& root, std::string_view category) {
  std::vector<const JsonValue*> events;
  for (const JsonValue* event : Events(root, "X")) {
    if ((*event)["cat"].text == category) events.push_back(event);
  }
  return events;
}

std::vector<std::string> KeysOf(const JsonValue& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.members) keys.push_back(key);
  return keys;
}

// Names of rows by (pid, tid).
std::map<std::pair<int64_t, int64_t>, std::string> RowNames(const JsonValue& root) {
  std::map<std::pair<int64_t, int64_t>, std::string> names;
  for (const JsonValue* event : Events(root, "M")) {
    if ((*event)["name"].text != "thread_name") continue;
    names[{(*event)["pid"].integer(), (*event)["tid"].integer()}] = (*event)["args"]["name"].text;
  }
  return names;
}
std::string RowOf(const JsonValue& root, const JsonValue& event) {
  return RowNames(root)[{event["pid"].integer(), event["tid"].integer()}];
}

class ChromeGpuTest : public testing::Test {
 protected:
  ChromeGpuTest() : main_(AddGpuSteps(reader_)) {}
  int64_t start_unix_ns() { return reader_.record().start_unix_ns; }

  FakeCaptureReader reader_;
  const uint32_t main_;
};

// One with a thread and nothing else.
class ChromeGpuPlainTest : public testing::Test {
 protected:
  ChromeGpuPlainTest() : main_(reader_.AddThread(4242, "main")) {
    reader_.mutable_record().gpu = RecordedGpu();
  }
  FakeCaptureReader reader_;
  const uint32_t main_;
};

TEST_F(ChromeGpuTest, AKernelHasKinetosArguments) {
  const JsonValue root = TraceOf(reader_);
  const JsonValue& gemm = Named(root, "gemm(float*, int)");
  EXPECT_EQ(gemm["cat"].text, "kernel");
  EXPECT_EQ(UnixNs(root, gemm), start_unix_ns() + 3'500);
  EXPECT_EQ(gemm["dur"].text, "2.000");
  EXPECT_EQ(gemm["pid"].integer(), 0);
  EXPECT_EQ(gemm["tid"].integer(), 7);
  const JsonValue& arguments = gemm["args"];
  EXPECT_THAT(
      KeysOf(arguments),
      UnorderedElementsAre("External id", "queued", "device", "context", "stream", "correlation",
                           "registers per thread", "shared memory", "blocks per SM", "warps per SM",
                           "grid", "block", "est. achieved occupancy %"));
  EXPECT_EQ(arguments["context"].integer(), 1);
  EXPECT_EQ(arguments["correlation"].integer(), 2);
  EXPECT_EQ(arguments["queued"].integer(), 0);
  EXPECT_EQ(arguments["registers per thread"].integer(), 128);
  EXPECT_EQ(arguments["shared memory"].integer(), 3072);
  EXPECT_DOUBLE_EQ(arguments["blocks per SM"].number(), 0.5);
  EXPECT_DOUBLE_EQ(arguments["warps per SM"].number(), 2);
  // Half a block of 128 threads, of 2048 that fit.
  EXPECT_EQ(arguments["est. achieved occupancy %"].integer(), 3);
  EXPECT_EQ(arguments["grid"].items.at(0).integer(), 66);
  EXPECT_EQ(arguments["block"].items.at(0).integer(), 128);
  EXPECT_THAT(arguments["block"].items, SizeIs(3));
}

TEST_F(ChromeGpuTest, ACopyHasItsBytesAndBandwidth) {
  const JsonValue root = TraceOf(reader_);
  const JsonValue& copy = Named(root, "Memcpy HtoD (Pageable -> Device)");
  EXPECT_EQ(copy["cat"].text, "gpu_memcpy");
  EXPECT_THAT(KeysOf(copy["args"]),
              UnorderedElementsAre("External id", "device", "context", "stream", "correlation",
                                   "bytes", "memory bandwidth (GB/s)"));
  EXPECT_EQ(copy["args"]["bytes"].integer(), 4096);
  EXPECT_DOUBLE_EQ(copy["args"]["memory bandwidth (GB/s)"].number(), 4.096);
}

TEST_F(ChromeGpuPlainTest, ADecompressionLooksLikeACopy) {
  reader_.ApiCall(main_, "cuMemBatchDecompressAsync", 10, 20, 1, {.cbid = 761, .is_driver = true})
      .GpuWork(GpuRowKind::kMemDecompress, 100, 300, 1, {.stream = 13, .bytes = 4000});
  const JsonValue root = TraceOf(reader_);
  const JsonValue& work = Named(root, "Memcpy Decompress");
  EXPECT_EQ(work["cat"].text, "gpu_memcpy");
  EXPECT_EQ(work["tid"].integer(), 13);
  EXPECT_EQ(work["args"]["correlation"].integer(), 1);
  EXPECT_EQ(work["args"]["bytes"].integer(), 4000);
  EXPECT_THAT(KeysOf(work["args"]), testing::Not(testing::Contains("memory bandwidth (GB/s)")));
}

TEST_F(ChromeGpuTest, CallsStandOnTheirThreadInKinetosCategories) {
  reader_.ApiCall(main_, "cuLaunchKernelEx", 20'000, 20'100, 77,
                  {.cbid = 652, .result = 700, .is_driver = true});
  const JsonValue root = TraceOf(reader_);
  const JsonValue& launch = Named(root, "cudaLaunchKernel");
  EXPECT_EQ(launch["cat"].text, "cuda_runtime");
  EXPECT_EQ(launch["pid"].integer(), 4242);
  EXPECT_EQ(launch["tid"].integer(), 4242);
  EXPECT_EQ(launch["args"]["cbid"].integer(), 211);
  EXPECT_EQ(launch["args"]["correlation"].integer(), 2);
  EXPECT_EQ(launch["args"].Find("result"), nullptr);
  const JsonValue& driver = Named(root, "cuLaunchKernelEx");
  EXPECT_EQ(driver["cat"].text, "cuda_driver");
  EXPECT_EQ(driver["args"]["result"].integer(), 700);
  // It was made in no range, and launched nothing that is here.
  EXPECT_EQ(driver["args"].Find("External id"), nullptr);
  for (const JsonValue* flow : Events(root, "s")) EXPECT_NE((*flow)["id"].integer(), 77);
}

TEST_F(ChromeGpuTest, ExternalIdsLeadToTheInnermostRange) {
  const JsonValue root = TraceOf(reader_);
  const int64_t mm = Named(root, "aten::mm")["args"]["External id"].integer();
  EXPECT_GT(mm, 0);
  EXPECT_EQ(Named(root, "gemm(float*, int)")["args"]["External id"].integer(), mm);
  EXPECT_EQ(Named(root, "cudaLaunchKernel")["args"]["External id"].integer(), mm);
  // Launched in forward, but in none of its operators.
  EXPECT_EQ(Named(root, "relu")["args"]["External id"].integer(),
            Named(root, "forward")["args"]["External id"].integer());
}

TEST_F(ChromeGpuTest, ArrowsLeadFromEveryCallToWhatItLaunched) {
  const JsonValue root = TraceOf(reader_);
  EXPECT_THAT(Events(root, "s"), SizeIs(8));  // Three launches and a wait, twice.
  EXPECT_THAT(Events(root, "f"), SizeIs(8));
  for (const JsonValue* flow : Events(root, "f")) {
    if ((*flow)["id"].integer() != 2) continue;
    EXPECT_EQ((*flow)["tid"].integer(), 7);
    EXPECT_EQ(UnixNs(root, *flow), start_unix_ns() + 3'500);
  }
}

TEST_F(ChromeGpuPlainTest, AGraphLaunchHasOneArrowToManyNodes) {
  reader_.ApiCall(main_, "cudaGraphLaunch", 0, 10, 5)
      .Kernel("a", 20, 30, 5, {.graph_id = 3, .graph_node_id = 100})
      .Kernel("b", 25, 40, 5, {.graph_id = 3, .graph_node_id = 101})
      .Kernel("c", 30, 50, 5, {.graph_id = 3, .graph_node_id = 102});
  const JsonValue root = TraceOf(reader_);
  EXPECT_THAT(Events(root, "s"), SizeIs(1));
  EXPECT_THAT(Events(root, "f"), SizeIs(3));
  EXPECT_EQ(Named(root, "b")["args"]["graph id"].integer(), 3);
  EXPECT_EQ(Named(root, "b")["args"]["graph node id"].integer(), 101);
  // Nodes that ran at once have rows of their own.
  EXPECT_EQ(Named(root, "a")["tid"].integer(), 7);
  EXPECT_EQ(RowOf(root, Named(root, "b")), "stream 7 (2) ");
  EXPECT_EQ(Named(root, "c")["tid"].integer(), 7);
}

TEST_F(ChromeGpuPlainTest, AGraphWithoutItsNodesIsASliceThatKeepsTheGpuBusy) {
  reader_.ApiCall(main_, "cudaGraphLaunch", 0, 10, 5).GraphLaunch(20, 90, 5, {.graph_id = 3});
  const JsonValue root = TraceOf(reader_);
  EXPECT_EQ(Named(root, "CUDA graph")["cat"].text, "kernel");
  EXPECT_EQ(Named(root, "CUDA graph")["args"]["graph id"].integer(), 3);
  EXPECT_THAT(Events(root, "f"), SizeIs(1));
}

TEST_F(ChromeGpuPlainTest, NoArrowHasOnlyOneEnd) {
  reader_
      .ApiCall(main_, "cudaMalloc", 0, 10, 1)  // Launched nothing.
      .ApiCall(main_, "cudaGetDevice", 20, 30, 0)
      .Kernel("orphan", 5, 15, 99, {.flags = kGpuOrphan})  // Its call is not here.
      .Kernel("none", 15, 16, 0)
      .ApiCall(main_, "cudaLaunchKernel", 40, 50, 2)
      .Kernel("early", 39, 60, 2)  // As a clock's error has it.
      .ApiCall(main_, "cudaLaunchKernel", 60, 70, 3)
      .ApiCall(main_, "cudaLaunchKernel", 80, 90, 3)  // The first is taken.
      .Kernel("twice", 100, 110, 3);
  const JsonValue root = TraceOf(reader_);
  ASSERT_THAT(Events(root, "s"), SizeIs(1));
  ASSERT_THAT(Events(root, "f"), SizeIs(1));
  EXPECT_EQ((*Events(root, "s")[0])["id"].integer(), 3);
  EXPECT_EQ(UnixNs(root, *Events(root, "s")[0]), reader_.record().start_unix_ns + 60);
  EXPECT_EQ(Named(root, "orphan")["args"]["launch_not_recorded"].text, "true");
}

TEST_F(ChromeGpuTest, AnnotationsHoldWhatEachRangeLaunchedButAreNotOfSteps) {
  const JsonValue root = TraceOf(reader_);
  const std::vector<const JsonValue*> annotations = OfCategory(root, "gpu_user_annotation");
  // forward, twice; operators have none, and HTA would count those of steps as steps.
  ASSERT_THAT(annotations, SizeIs(2));
  for (const JsonValue* annotation : annotations) {
    EXPECT_EQ((*annotation)["name"].text, "forward");
    EXPECT_EQ((*annotation)["tid"].integer(), 7);
    EXPECT_EQ((*annotation)["pid"].integer(), 0);
  }
  EXPECT_EQ((*annotations[0])["args"]["External id"].integer(),
            Named(root, "forward")["args"]["External id"].integer());
  // From 1 ns before the copy to 1 ns behind relu.
  EXPECT_EQ(UnixNs(root, *annotations[0]), start_unix_ns() + 1'999);
  EXPECT_EQ(TraceTimeNs((*annotations[0])["dur"]), 6'600 - 2'000 + 2);
}

TEST_F(ChromeGpuPlainTest, AnAnnotationIsPerStreamAndHoldsWhatInnerRangesLaunched) {
  reader_.Range(main_, "outer", 0, 100)
      .Range(main_, "inner", 10, 50)
      .Range(main_, "idle", 60, 70)
      .ApiCall(main_, "cudaLaunchKernel", 20, 30, 1)
      .ApiCall(main_, "cudaLaunchKernel", 30, 40, 2)
      .ApiCall(main_, "cudaLaunchKernel", 80, 90, 3)
      .Kernel("a", 200, 300, 1, {.stream = 7})
      .Kernel("b", 250, 350, 2, {.stream = 8})
      .Kernel("c", 400, 500, 3, {.stream = 7});
  const JsonValue root = TraceOf(reader_);
  std::vector<std::string> found;
  for (const JsonValue* annotation : OfCategory(root, "gpu_user_annotation")) {
    found.push_back(StrCat((*annotation)["name"].text, " ", (*annotation)["tid"].integer(), " ",
                           UnixNs(root, *annotation) - reader_.record().start_unix_ns, " ",
                           TraceTimeNs((*annotation)["dur"])));
  }
  EXPECT_THAT(found, UnorderedElementsAre("outer 7 199 302", "inner 7 199 102", "outer 8 249 102",
                                          "inner 8 249 102"));
}

TEST_F(ChromeGpuPlainTest, AnnotationsOfWorkWithoutAGapDoNotOverlap) {
  for (int64_t i = 0; i < 3; ++i) {
    const auto correlation = static_cast<uint32_t>(i + 1);
    reader_.Range(main_, StrCat("layer ", i), i * 10, i * 10 + 10)
        .ApiCall(main_, "cudaLaunchKernel", i * 10 + 1, i * 10 + 5, correlation)
        .Kernel("k", 1000 + i * 100, 1100 + i * 100 - (i == 1 ? 1 : 0), correlation);
  }
  const JsonValue root = TraceOf(reader_);
  for (const JsonValue* annotation : OfCategory(root, "gpu_user_annotation")) {
    EXPECT_EQ((*annotation)["tid"].integer(), 7) << (*annotation)["name"].text;
  }
  EXPECT_EQ(TraceTimeNs(Named(root, "layer 0")["dur"]), 10);
}

TEST_F(ChromeGpuPlainTest, AnnotationsThatCannotNestStandBesideTheirStream) {
  const uint32_t other = reader_.AddThread(4243, "other");
  reader_.Range(main_, "mine", 0, 100)
      .Range(other, "its", 0, 100)
      .ApiCall(main_, "cudaLaunchKernel", 10, 20, 1)
      .ApiCall(other, "cudaLaunchKernel", 10, 20, 2)
      .ApiCall(main_, "cudaLaunchKernel", 30, 40, 3)
      .ApiCall(other, "cudaLaunchKernel", 30, 40, 4);
  for (uint32_t i = 1; i <= 4; ++i) reader_.Kernel("k", 100 * i, 100 * i + 50, i);
  const JsonValue root = TraceOf(reader_);
  std::map<std::string, std::string> rows;
  for (const JsonValue* annotation : OfCategory(root, "gpu_user_annotation")) {
    rows[(*annotation)["name"].text] = RowOf(root, *annotation);
  }
  EXPECT_THAT(
      rows, ElementsAre(testing::Pair("its", "stream 7 (2) "), testing::Pair("mine", "stream 7 ")));
}

// Those of steps are not in the trace, and take no room.
TEST_F(ChromeGpuPlainTest, AnAnnotationAcrossAStepsStaysOnItsStream) {
  reader_.Step(1, 0, 100).Step(2, 100, 100).StepThread(main_);
  reader_.Range(main_, "across", 40, 160)
      .ApiCall(main_, "cudaLaunchKernel", 10, 20, 1)
      .ApiCall(main_, "cudaLaunchKernel", 50, 60, 2)
      .ApiCall(main_, "cudaLaunchKernel", 120, 130, 3)
      .ApiCall(main_, "cudaLaunchKernel", 170, 180, 4);
  for (uint32_t i = 1; i <= 4; ++i) reader_.Kernel("k", 1000 * i, 1000 * i + 50, i);
  const JsonValue root = TraceOf(reader_);
  const auto annotations = OfCategory(root, "gpu_user_annotation");
  ASSERT_THAT(annotations, SizeIs(1));
  EXPECT_EQ(RowOf(root, *annotations[0]), "stream 7 ");
}

TEST_F(ChromeGpuPlainTest, AnnotationsBeyondTheRowsForThemAreCounted) {
  constexpr uint32_t kThreads = 12;
  // Every thread's range reaches into the next one's on the stream.
  for (uint32_t i = 0; i < kThreads; ++i) {
    const uint32_t thread = reader_.AddThread(5000 + i, "");
    reader_.Range(thread, "r", 0, 100)
        .ApiCall(thread, "cudaLaunchKernel", 10, 20, i + 1)
        .ApiCall(thread, "cudaLaunchKernel", 30, 40, i + 101)
        .Kernel("k", 1000 + i * 10, 1005 + i * 10, i + 1)
        .Kernel("k", 2000 + i * 10, 2005 + i * 10, i + 101);
  }
  const JsonValue root = TraceOf(reader_);
  EXPECT_THAT(OfCategory(root, "gpu_user_annotation"), SizeIs(9));  // Its row and eight more.
  EXPECT_EQ(root["profd"]["gpu"]["annotations_left_out"].integer(), kThreads - 9);
}

TEST_F(ChromeGpuTest, WaitsStandBesideTheirStreamAndSayWhatTheyWaitFor) {
  reader_.ApiCall(main_, "cudaStreamWaitEvent", 20'100, 20'200, 50)
      .CudaEvent(/*event_id=*/3, /*correlation=*/30, 1, /*stream=*/9)
      .CudaEvent(3, 40, 1, 11)
      .CudaEvent(3, 60, 1, 12)  // After the wait.
      .CudaEvent(4, 41, 1, 13)
      .Sync(report::kStreamWaitEvent, 20'120, 20'150, 50, {.stream = 7, .event_id = 3})
      .Sync(report::kEventSync, 20'300, 20'400, 51, {.event_id = 8})
      .Sync(report::kContextSync, 20'500, 20'600, 52)
      .Sync(42, 20'700, 20'800, 53);
  const JsonValue root = TraceOf(reader_);
  const JsonValue& stream = Named(root, "Stream Sync");
  EXPECT_EQ(stream["cat"].text, "cuda_sync");
  EXPECT_EQ(stream["tid"].integer(), 1'000'007);
  EXPECT_EQ(RowOf(root, stream), "stream 7 (sync) ");
  EXPECT_THAT(KeysOf(stream["args"]),
              ElementsAre("cuda_sync_kind", "stream", "correlation", "device", "context"));
  EXPECT_EQ(stream["args"]["cuda_sync_kind"].text, "Stream Sync");
  const JsonValue& wait = Named(root, "Stream Wait Event")["args"];
  EXPECT_EQ(wait["wait_on_stream"].integer(), 11);
  EXPECT_EQ(wait["wait_on_cuda_event_record_corr_id"].integer(), 40);
  EXPECT_EQ(wait["wait_on_cuda_event_id"].integer(), 3);
  const JsonValue& unknown = Named(root, "Event Sync")["args"];
  EXPECT_EQ(unknown["wait_on_stream"].integer(), -1);
  EXPECT_EQ(unknown["wait_on_cuda_event_record_corr_id"].integer(), -1);
  EXPECT_EQ(unknown["wait_on_cuda_event_id"].integer(), 8);
  EXPECT_EQ(unknown["stream"].integer(), -1);
  EXPECT_EQ(RowOf(root, Named(root, "Context Sync")), "context 1 (sync) ");
  EXPECT_EQ(Named(root, "Sync 42")["args"]["cuda_sync_kind"].text, "Sync 42");
}

TEST_F(ChromeGpuTest, OverheadIsCuptisOwnProcess) {
  reader_.Overhead(65536, 100, 300).Overhead(196608, 150, 250, 4242).Overhead(77, 200, 400);
  const JsonValue root = TraceOf(reader_);
  const std::vector<const JsonValue*> overheads = OfCategory(root, "overhead");
  ASSERT_THAT(overheads, SizeIs(3));
  for (const JsonValue* overhead : overheads) {
    EXPECT_EQ((*overhead)["pid"].integer(), -1);
    EXPECT_EQ(overhead->Find("args"), nullptr);
  }
  EXPECT_EQ((*overheads[0])["tid"].integer(), 0);
  EXPECT_EQ((*overheads[1])["tid"].integer(), 4242);
  EXPECT_EQ(RowOf(root, *overheads[2]), "all threads (2) ");  // It overlaps the first.
}

TEST_F(ChromeGpuTest, RowsAreKinetos) {
  reader_.Overhead(65536, 100, 300);
  const JsonValue root = TraceOf(reader_);
  std::map<std::pair<int64_t, std::string>, std::string> processes;
  for (const JsonValue* event : Events(root, "M")) {
    if ((*event)["name"].text.starts_with("process_")) {
      processes[{(*event)["pid"].integer(), (*event)["name"].text}] =
          (*event)["args"].members.at(0).second.text;
    }
  }
  EXPECT_EQ((processes[{0, "process_name"}]), "python train.py");
  EXPECT_EQ((processes[{0, "process_labels"}]), "GPU 0");
  EXPECT_EQ((processes[{0, "process_sort_index"}]), "5000000");
  EXPECT_EQ((processes[{-1, "process_name"}]), "CUPTI Overhead");
  EXPECT_EQ((processes[{4242, "process_labels"}]), "CPU, node-1");
  EXPECT_EQ((RowNames(root)[{0, 7}]), "stream 7 ");
}

TEST_F(ChromeGpuTest, TheHeaderHasTheDevicesWithKinetosKeys) {
  const JsonValue root = TraceOf(reader_);
  ASSERT_THAT(root["deviceProperties"].items, SizeIs(1));
  const JsonValue& device = root["deviceProperties"].items[0];
  EXPECT_THAT(KeysOf(device),
              ElementsAre("id", "name", "totalGlobalMem", "computeMajor", "computeMinor",
                          "maxThreadsPerBlock", "maxThreadsPerMultiprocessor", "regsPerBlock",
                          "warpSize", "sharedMemPerBlock", "numSms", "regsPerMultiprocessor",
                          "sharedMemPerBlockOptin", "sharedMemPerMultiprocessor"));
  EXPECT_EQ(device["name"].text, "NVIDIA H200");
  EXPECT_EQ(device["numSms"].integer(), 132);
  EXPECT_EQ(root["cupti_version"].integer(), 130001);
  EXPECT_EQ(root["cuda_driver_version"].integer(), 13000);
  EXPECT_EQ(root["profd"]["gpu"]["outcome"].text, "recorded");
}

TEST_F(ChromeGpuTest, WhatIsSimulatedSaysSo) {
  EXPECT_THAT(ExportOrDie(reader_), Not(HasSubstr("simulated")));
  reader_.mutable_record().gpu.simulated = true;
  const std::string text = ExportOrDie(reader_);
  EXPECT_THAT(text, HasSubstr("\"simulated\": true"));
  EXPECT_THAT(text, HasSubstr("GPU 0 (simulated)"));
  EXPECT_EQ(ParsedTrace(text)["traceName"].text, reader_.record().id + " (simulated GPU).json");
}

TEST_F(ChromeGpuPlainTest, ACaptureWithoutGpuRowsIsWhatItWas) {
  FakeCaptureReader other;
  const uint32_t thread = other.AddThread(4242, "main");
  for (FakeCaptureReader* reader : {&reader_, &other}) {
    reader->mutable_record().gpu = {};
    reader->Step(1, 0, 100).Range(thread, "forward", 0, 50, {.flags = 1});
  }
  const std::string text = ExportOrDie(reader_);
  EXPECT_EQ(text, ExportOrDie(other));
  for (const std::string_view word : {"External id", "gpu", "cupti", "simulated", "stream"}) {
    EXPECT_THAT(text, Not(HasSubstr(std::string(word))));
  }
  EXPECT_THAT(text, HasSubstr("\"deviceProperties\": [],"));
}

TEST_F(ChromeGpuPlainTest, StreamsOfOneNumberKeepApart) {
  reader_.Kernel("a", 0, 100, 0, {.context = 1, .stream = 7})
      .Kernel("b", 50, 150, 0, {.context = 2, .stream = 7})
      .Kernel("c", 50, 150, 0, {.device = 1, .context = 3, .stream = 7})
      .Kernel("d", 0, 10, 0, {.context = 2, .stream = 20});
  const JsonValue root = TraceOf(reader_);
  EXPECT_EQ(Named(root, "a")["tid"].integer(), 7);
  EXPECT_NE(Named(root, "b")["tid"].integer(), 7);
  EXPECT_EQ(Named(root, "b")["args"]["stream"].integer(), 7);
  EXPECT_EQ(RowOf(root, Named(root, "a")), "stream 7 of context 1 ");
  EXPECT_EQ(RowOf(root, Named(root, "b")), "stream 7 of context 2 ");
  EXPECT_EQ(Named(root, "c")["pid"].integer(), 1);
  EXPECT_EQ(Named(root, "c")["tid"].integer(), 7);
  EXPECT_EQ(RowOf(root, Named(root, "d")), "stream 20 ");
}

TEST_F(ChromeGpuPlainTest, ADeviceWithTheNumberOfTheProcessIsAnother) {
  reader_.mutable_record().target.pid = 1;
  reader_.AddThread(7, "seven");
  reader_.Kernel("k", 0, 100, 0, {.device = 1});
  const JsonValue root = TraceOf(reader_);
  EXPECT_EQ(Named(root, "k")["pid"].integer(), 5'000'001);
  EXPECT_EQ(Named(root, "k")["args"]["device"].integer(), 1);
}

TEST_F(ChromeGpuPlainTest, ACallThatReachesOverARangeByTheClocksErrorIsCut) {
  reader_.mutable_record().gpu.clock_error_ns = 60;
  reader_.mutable_record().clock_error_ns = 40;
  reader_.Range(main_, "forward", 0, 1'000)
      .Range(main_, "backward", 2'000, 3'000)
      .ApiCall(main_, "over the end", 500, 1'100, 1)
      .ApiCall(main_, "into the start", 1'950, 2'500, 2)
      .Range(main_, "later", 4'000, 5'000)
      .ApiCall(main_, "just touches", 3'500, 4'100, 3);
  const JsonValue root = TraceOf(reader_);
  const auto span = [&](std::string_view name) {
    const JsonValue& event = Named(root, name);
    EXPECT_EQ(event["tid"].integer(), 4242) << name;
    const int64_t start_ns = UnixNs(root, event) - reader_.record().start_unix_ns;
    return std::pair(start_ns, start_ns + TraceTimeNs(event["dur"]));
  };
  EXPECT_THAT(span("over the end"), testing::Pair(500, 1'000));
  EXPECT_THAT(span("into the start"), testing::Pair(2'000, 2'500));
  EXPECT_THAT(span("just touches"), testing::Pair(3'500, 4'000));
}

TEST_F(ChromeGpuPlainTest, ACallThatOverlapsARangeForLongerStandsBesideItsThread) {
  reader_.mutable_record().gpu.clock_error_ns = 99;
  reader_.Range(main_, "forward", 0, 1'000)
      .Range(main_, "backward", 2'000, 3'000)
      .ApiCall(main_, "over the end", 500, 1'100, 1)
      .ApiCall(main_, "into the start", 1'800, 2'500, 2)
      .ApiCall(main_, "around", 5'000, 9'000, 3)
      .Range(main_, "callback", 6'000, 7'000)
      .ApiCall(main_, "again", 5'500, 5'600, 4)
      .ApiCall(main_, "fits", 100, 200, 5);
  const JsonValue root = TraceOf(reader_);
  for (const std::string_view name : {"over the end", "into the start", "again"}) {
    EXPECT_EQ(RowOf(root, Named(root, name)), "thread 4242 (main) CUDA calls") << name;
  }
  EXPECT_EQ(TraceTimeNs(Named(root, "over the end")["dur"]), 600);
  for (const std::string_view name : {"around", "fits"}) {
    EXPECT_EQ(Named(root, name)["tid"].integer(), 4242) << name;
  }
}

TEST_F(ChromeGpuPlainTest, ACallThatStraddlesStepsStandsBesideAThreadThatHasThem) {
  reader_.Step(0, 0, 1'000).Step(1, 1'000, 1'000).StepThread(main_);
  reader_.ApiCall(main_, "cudaDeviceSynchronize", 900, 1'200, 1);
  const JsonValue root = TraceOf(reader_);
  EXPECT_EQ(Named(root, "ProfilerStep#1")["tid"].integer(), 4242);
  EXPECT_NE(Named(root, "cudaDeviceSynchronize")["tid"].integer(), 4242);
}

TEST_F(ChromeGpuPlainTest, WhatWasCutSaysSo) {
  reader_
      .Kernel("k", -100, 900, 0,
              {.flags = kGpuUnfinished | kGpuStraddlesStart | kGpuStraddlesEnd | kGpuDeviceLaunched,
               .queued_ns = 50,
               .cluster = {2, 1, 1}})
      .Copy(1'000, 1'000, 0,
            {.bytes = 8,
             .copy_kind = 10,
             .source_kind = 3,
             .destination_kind = 3,
             .source_device = 2,
             .destination_device = 3});
  const JsonValue root = TraceOf(reader_);
  const JsonValue& kernel = Named(root, "k")["args"];
  EXPECT_THAT(KeysOf(kernel), IsSupersetOf({"finished", "began_before_window", "ended_after_window",
                                            "launched_by_device"}));
  EXPECT_EQ(kernel["cluster"].items.at(0).integer(), 2);
  EXPECT_EQ(root["baseTimeNanoseconds"].integer() + kernel["queued"].integer(),
            reader_.record().start_unix_ns + 50);
  const JsonValue& copy = (*OfCategory(root, "gpu_memcpy").at(0))["args"];
  EXPECT_EQ(copy["fromDevice"].integer(), 2);
  EXPECT_EQ(copy["toDevice"].integer(), 3);
  // It took no time: no number is true.
  EXPECT_EQ(copy.Find("memory bandwidth (GB/s)"), nullptr);
}

TEST_F(ChromeGpuPlainTest, MemoryOfCudaItselfIsNotTheAllocators) {
  reader_.Allocate(main_, 10, 0x7f00, 512, {.device_type = 1})
      .Allocate(main_, 20, 0x7f00, 2048, {.device_type = 64})
      .Allocate(main_, 30, 0x7f00, 4096, {.device_type = 65});
  const JsonValue root = TraceOf(reader_);
  std::vector<std::string> names;
  for (const JsonValue* event : Events(root, "i")) {
    if (event->Find("args") != nullptr) names.push_back((*event)["name"].text);
  }
  EXPECT_THAT(names, ElementsAre("[memory]", "[cuda memory]", "[cuda memory]"));
}

TEST_F(ChromeGpuPlainTest, ADeviceThatNobodyDescribedHasNoFigures) {
  reader_.mutable_record().gpu.devices.clear();
  reader_.Kernel("k", 0, 10, 0).Sync(report::kContextSync, 0, 5, 1, {.device = kNoGpuDevice});
  const JsonValue root = TraceOf(reader_);
  EXPECT_EQ(Named(root, "k")["args"].Find("blocks per SM"), nullptr);
  EXPECT_EQ(Named(root, "k")["args"].Find("est. achieved occupancy %"), nullptr);
  EXPECT_EQ(Named(root, "Context Sync")["args"].Find("device"), nullptr);
}

TEST_F(ChromeGpuPlainTest, HostileNamesMakeAGoodTrace) {
  reader_.mutable_record().gpu.devices[0].name = "\"rank\": 3 \xFF\n";
  reader_.mutable_record().gpu.problem = "\"rank\": 4";
  reader_.mutable_record().target.metadata = {{"rank", "1"}};
  uint32_t correlation = 1;
  int64_t at = 0;
  for (const std::string& name : HostileNames()) {
    reader_.Range(main_, name, at, at + 10)
        .ApiCall(main_, name, at + 2, at + 5, correlation)
        .Kernel(name, at + 3, at + 8, correlation);
    ++correlation;
    at += 10;
  }
  const JsonValue root = TraceOf(reader_);
  EXPECT_THAT(OfCategory(root, "kernel"), SizeIs(HostileNames().size()));
  EXPECT_THAT(OfCategory(root, "cuda_runtime"), SizeIs(HostileNames().size()));
  EXPECT_THAT(OfCategory(root, "gpu_user_annotation"), SizeIs(HostileNames().size()));
}

TEST_F(ChromeGpuPlainTest, HostileNumbersMakeAGoodTrace) {
  constexpr uint32_t kMost = std::numeric_limits<uint32_t>::max();
  const FakeGpu odd = {.device = kNoGpuDevice,
                       .context = kMost,
                       .stream = kMost,
                       .flags = 0xFF,
                       .graph_id = kMost,
                       .graph_node_id = ~uint64_t{0},
                       .bytes = ~uint64_t{0},
                       .copy_kind = 255,
                       .source_kind = 255,
                       .destination_kind = 255,
                       .source_device = 65534,
                       .destination_device = 65534,
                       .queued_ns = std::numeric_limits<int64_t>::max(),
                       .grid = {kMost, kMost, kMost},
                       .block = {kMost, kMost, kMost},
                       .cluster = {65535, 65535, 65535},
                       .registers_per_thread = 65535,
                       .static_shared_bytes = kMost,
                       .dynamic_shared_bytes = kMost};
  FakeGpu same = odd;
  same.device = 0;
  same.stream = 1'000'007;  // The row of waits for stream 7.
  FakeGpu nothing = odd;
  nothing.device = 0;
  nothing.stream = 7;
  nothing.grid = nothing.block = {0, 0, 0};
  reader_.ApiCall(main_, "cudaLaunchKernel", 0, 10, kMost, {.cbid = kMost, .result = -1});
  for (const FakeGpu& gpu : {odd, same, nothing}) {
    reader_.Kernel("k", 20, 30, kMost, gpu).Copy(20, 30, kMost, gpu).Memset(20, 30, kMost, gpu);
  }
  reader_
      .Sync(kMost, 20, 30, kMost, {.device = 0, .context = kMost, .stream = 7, .event_id = kMost})
      .Sync(2, 20, 30, kMost, {.device = 65534, .context = 0, .stream = kMost - 1})
      .Overhead(kMost, 0, 1, kMost, kMost);
  const JsonValue root = TraceOf(reader_);
  EXPECT_THAT(OfCategory(root, "kernel"), SizeIs(3));
  EXPECT_THAT(OfCategory(root, "gpu_memset"), SizeIs(3));
  EXPECT_THAT(OfCategory(root, "cuda_sync"), SizeIs(2));
  EXPECT_THAT(Events(root, "f"), SizeIs(11));
  EXPECT_EQ(OfCategory(root, "overhead").size(), 1U);
}

TEST_F(ChromeGpuPlainTest, TimesAtTheEdgesOfTimeDoNotOverflow) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  reader_.mutable_record().clock_error_ns = kMost;
  reader_.mutable_record().gpu.clock_error_ns = kMost;
  reader_.Range(main_, "r", kLeast / 4, kMost / 4)
      .ApiCall(main_, "a", kLeast / 2, kLeast / 2 + 1, 1)
      .ApiCall(main_, "b", kMost / 2, kMost, 2)
      .Kernel("k", kLeast, kLeast, 1)
      .Kernel("l", kMost, kMost, 2)
      .Kernel("m", 0, kMost, 2)
      .Sync(1, kLeast, kLeast, 1)
      .Overhead(1, kMost, kMost);
  for (const TraceFormat format : {TraceFormat::kChrome, TraceFormat::kPerfetto}) {
    StringSink sink;
    ASSERT_THAT(ExportTrace(reader_, format, sink), IsOk());
    if (format == TraceFormat::kChrome) {
      EXPECT_THAT(ParseStrictJson(sink.text()), IsOk());
    }
  }
}

TEST_F(ChromeGpuPlainTest, WhateverRunsAtOnceMakesAGoodTrace) {
  for (const uint64_t seed : {1, 2, 3, 4, 5}) {
    FakeCaptureReader reader;
    reader.BatchRows(17);
    reader.mutable_record().gpu = RecordedGpu();
    reader.mutable_record().gpu.clock_error_ns = seed % 2 == 0 ? 5 : 0;
    std::mt19937_64 random(seed);
    const auto below = [&](int64_t limit) {
      return static_cast<int64_t>(random() % static_cast<uint64_t>(limit));
    };
    for (uint32_t thread = 0; thread < 3; ++thread) {
      reader.AddThread(100 + thread, "");
      for (int64_t at = 0; at < 1'000; at += 100) {
        reader.Range(thread, "outer", at, at + 90);
        reader.Range(thread, "inner", at + below(40), at + 50 + below(40));
      }
    }
    reader.Step(1, 0, 300).Step(2, 300, 300).StepThread(0);
    for (uint32_t i = 0; i < 300; ++i) {
      const int64_t start = below(1'000);
      reader.ApiCall(static_cast<uint32_t>(below(3)), "call", start, start + below(30),
                     static_cast<uint32_t>(below(200)));
      const int64_t begin = below(1'500);
      reader.Kernel(
          "k", begin, begin + below(60), static_cast<uint32_t>(below(250)),
          {.device = static_cast<uint16_t>(below(2)), .stream = static_cast<uint32_t>(below(3))});
      reader.Sync(static_cast<uint32_t>(below(5)), begin, begin + below(60),
                  static_cast<uint32_t>(below(250)), {.stream = static_cast<uint32_t>(below(2))});
    }
    const JsonValue root = TraceOf(reader);
    EXPECT_THAT(OfCategory(root, "kernel"), SizeIs(300));
    EXPECT_THAT(OfCategory(root, "cuda_runtime"), SizeIs(300));
    EXPECT_THAT(OfCategory(root, "cuda_sync"), SizeIs(300));
  }
}

}  // namespace
}  // namespace profd::exporter
