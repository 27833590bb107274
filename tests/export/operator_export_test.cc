// What the traces say of operators and notes: Chrome JSON, then Perfetto.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "daemon/base/str_cat.h"
#include "daemon/export/trace/operator_texts.h"
#include "tests/export/chrome/exported_chrome.h"
#include "tests/export/hostile_names.h"
#include "tests/export/perfetto/exported_perfetto.h"
#include "tests/fakes/fake_capture_reader.h"

namespace profd::exporter {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using ::testing::SizeIs;

// wire::NoteKind
constexpr uint16_t kGraphBreak = 1;
constexpr uint16_t kRecompile = 2;
constexpr uint16_t kCompiledRegion = 3;
constexpr uint16_t kOutOfMemory = 4;
constexpr uint16_t kStepLabel = 5;
constexpr uint16_t kMissing = 6;
constexpr uint16_t kFolded = 7;

class OperatorExportTest : public testing::Test {
 protected:
  OperatorExportTest() : main_(reader_.AddThread(4242, "main")) {}

  // A step of one layer: as torch 2 shows it.
  void TrainOnce() {
    const uint32_t autograd = reader_.AddThread(4243, "autograd");
    reader_.Range(main_, "forward", 0, 100);
    reader_.Operator(main_, "aten::addmm", 10, 90,
                     {.sequence = 9,
                      .torch_thread = 1,
                      .inputs = reader_.Inputs("[[64],[16,64],[64,64],[],[]]",
                                               R"(["float","float","float","Scalar","Scalar"])",
                                               "[[1],[64,1],[1,64],[],[]]"),
                      .scalars = reader_.Scalars(R"(["","","","1","1"])")});
    reader_.Operator(autograd, "autograd::engine::evaluate_function: AddmmBackward0", 200, 300);
    reader_.Operator(autograd, "AddmmBackward0", 210, 290,
                     {.scope = 1,
                      .sequence = 9,
                      .forward_thread = 1,
                      .torch_thread = 2,
                      .inputs = reader_.Inputs("[[16,64]]", R"(["float"])")});
    reader_.Operator(main_, "Optimizer.step#SGD.step", 400, 500, {.scope = 7, .torch_thread = 1});
  }

  FakeCaptureReader reader_;
  const uint32_t main_;
};

TEST_F(OperatorExportTest, AnOperatorHasKinetosArguments) {
  TrainOnce();
  const JsonValue root = TraceOf(reader_);
  const JsonValue& addmm = Named(root, "aten::addmm");
  EXPECT_EQ(addmm["cat"].text, "cpu_op");
  std::vector<std::string> keys;
  for (const auto& [key, value] : addmm["args"].members) keys.push_back(key);
  EXPECT_THAT(keys,
              ElementsAre("External id", "Sequence number", "Fwd thread id", "Concrete Inputs",
                          "Input type", "Input Strides", "Input Dims", "Ev Idx"));
  EXPECT_EQ(addmm["args"]["Sequence number"].integer(), 9);
  EXPECT_EQ(addmm["args"]["Fwd thread id"].integer(), 0);
  EXPECT_EQ(addmm["args"]["Concrete Inputs"].items.at(3).text, "1");
  EXPECT_EQ(addmm["args"]["Input type"].items.at(0).text, "float");
  EXPECT_EQ(addmm["args"]["Input Strides"].items.at(1).items.at(0).integer(), 64);
  EXPECT_EQ(addmm["args"]["Input Dims"].items.at(1).items.at(0).integer(), 16);
  EXPECT_EQ(addmm["args"]["External id"].integer(), addmm["args"]["Ev Idx"].integer() + 1);
}

TEST_F(OperatorExportTest, WhatWasNotRecordedIsNotSaid) {
  TrainOnce();
  const JsonValue root = TraceOf(reader_);
  const JsonValue& backward = Named(root, "AddmmBackward0")["args"];
  EXPECT_EQ(backward.Find("Input Strides"), nullptr);
  EXPECT_EQ(backward.Find("Concrete Inputs"), nullptr);
  EXPECT_EQ(backward["Input Dims"].items.size(), 1U);
  const JsonValue& frame =
      Named(root, "autograd::engine::evaluate_function: AddmmBackward0")["args"];
  EXPECT_EQ(frame.Find("Input Dims"), nullptr);
  EXPECT_EQ(frame["Sequence number"].integer(), 9);
  EXPECT_EQ(frame["Fwd thread id"].integer(), 1);
  EXPECT_EQ(Named(root, "forward")["args"].Find("Input Dims"), nullptr);
}

TEST_F(OperatorExportTest, StepsAndRangesOfTheProgramAreEventsAsOperatorsAre) {
  TrainOnce();
  reader_.Step(7, 0, 600).Allocate(main_, 20, 0x1000, 64);
  const uint32_t python = reader_.Name("train.py(3): main");
  reader_.RangeById(main_, python, 0, 600, {.category = 2});
  const JsonValue root = TraceOf(reader_);
  std::set<int64_t> ids;
  std::set<int64_t> events;
  for (const char* const name : {"ProfilerStep#7", "forward", "aten::addmm",
                                 "autograd::engine::evaluate_function: AddmmBackward0",
                                 "AddmmBackward0", "Optimizer.step#SGD.step"}) {
    const JsonValue& arguments = Named(root, name)["args"];
    // profd does not know it: 0 would be made up.
    EXPECT_EQ(arguments.Find("Record function id"), nullptr) << name;
    EXPECT_EQ(arguments["External id"].integer(), arguments["Ev Idx"].integer() + 1) << name;
    ids.insert(arguments["External id"].integer());
    events.insert(arguments["Ev Idx"].integer());
  }
  EXPECT_THAT(ids, SizeIs(6));
  EXPECT_TRUE(events.insert(Named(root, "[memory]")["args"]["Ev Idx"].integer()).second);
  EXPECT_EQ(Named(root, "train.py(3): main").Find("args"), nullptr);
}

TEST_F(OperatorExportTest, WithoutOperatorsRangesHaveNoIdsThatNothingRefersTo) {
  reader_.Range(main_, "forward", 0, 100).Step(7, 0, 600);
  const JsonValue root = TraceOf(reader_);
  EXPECT_EQ(Named(root, "forward").Find("args"), nullptr);
  EXPECT_EQ(Named(root, "ProfilerStep#7").Find("args"), nullptr);
}

TEST_F(OperatorExportTest, RecordFunctionsOfUsersAreAnnotations) {
  TrainOnce();
  const JsonValue root = TraceOf(reader_);
  const JsonValue& step = Named(root, "Optimizer.step#SGD.step");
  EXPECT_EQ(step["cat"].text, "user_annotation");
  EXPECT_EQ(step["args"].Find("Sequence number"), nullptr);
  EXPECT_NE(step["args"].Find("External id"), nullptr);
}

TEST_F(OperatorExportTest, AnArrowLeadsFromForwardToBackward) {
  TrainOnce();
  const JsonValue root = TraceOf(reader_);
  ASSERT_THAT(Events(root, "s"), SizeIs(1));
  ASSERT_THAT(Events(root, "f"), SizeIs(1));
  const JsonValue& from = *Events(root, "s")[0];
  const JsonValue& to = *Events(root, "f")[0];
  EXPECT_EQ(from["cat"].text, "fwdbwd");
  EXPECT_EQ(from["tid"].integer(), 4242);
  EXPECT_EQ(from["ts"].text, Named(root, "aten::addmm")["ts"].text);
  EXPECT_EQ(to["tid"].integer(), 4243);
  EXPECT_EQ(to["ts"].text, Named(root, "AddmmBackward0")["ts"].text);
  EXPECT_EQ(to["id"].text, from["id"].text);
}

TEST_F(OperatorExportTest, OperatorsAndGpuWorkShareExternalIds) {
  TrainOnce();
  reader_.Step(0, 0, 400).Step(1, 400, 200);
  reader_.ApiCall(main_, "cudaLaunchKernel", 20, 30, 77).Kernel("gemm", 50, 60, 77);
  const JsonValue root = TraceOf(reader_);
  const int64_t id = Named(root, "aten::addmm")["args"]["External id"].integer();
  EXPECT_EQ(Named(root, "cudaLaunchKernel")["args"]["External id"].integer(), id);
  EXPECT_EQ(Named(root, "gemm")["args"]["External id"].integer(), id);
}

TEST_F(OperatorExportTest, TheHeaderTellsHowRecordingTorchWent) {
  EXPECT_EQ(TraceOf(reader_)["profd"].Find("torch"), nullptr);
  reader_.Inputs("bad", "bad");
  TorchRecord& torch = reader_.mutable_record().torch;
  torch.outcome = TorchOutcome::kLimited;
  torch.operators = OperatorMode::kNames;
  torch.version = "2.6.0+cu124";
  torch.step_source = StepSource::kOptimizer;
  torch.folded_count = 1731;
  torch.missing = {{"shapes", "not \"proved\""}, {"shapes", "again"}};
  JsonValue root = TraceOf(reader_);
  const JsonValue& about = root["profd"]["torch"];
  EXPECT_EQ(about["outcome"].text, ToString(TorchOutcome::kLimited));
  EXPECT_EQ(about["version"].text, "2.6.0+cu124");
  EXPECT_EQ(about["operators"].text, "names");
  EXPECT_EQ(about["step_source"].text, "optimizer");
  EXPECT_EQ(about["folded_count"].integer(), 1731);
  EXPECT_EQ(about["inputs_left_out"].integer(), 1);
  EXPECT_EQ(about["missing"].items.at(0)["reason"].text, "not \"proved\"");
  EXPECT_EQ(root.Find("record_shapes"), nullptr);
  torch.operators = OperatorMode::kShapes;
  torch.memory = true;
  root = TraceOf(reader_);
  EXPECT_EQ(root["record_shapes"].integer(), 1);
  EXPECT_EQ(root["profile_memory"].integer(), 1);
  torch.outcome = TorchOutcome::kNoTorch;
  EXPECT_EQ(TraceOf(reader_)["profd"].Find("torch"), nullptr);
}

TEST_F(OperatorExportTest, PerfettoTellsHowRecordingTorchWent) {
  const auto about = [&] { return PerfettoTraceOf(reader_).instants.at(0).annotations; };
  EXPECT_FALSE(about().contains("torch"));
  reader_.mutable_record().torch.outcome = TorchOutcome::kRecorded;
  reader_.mutable_record().torch.version = "2.6.0";
  EXPECT_EQ(about().at("torch"), ToString(TorchOutcome::kRecorded));
  EXPECT_EQ(about().at("torch_version"), "2.6.0");
}

TEST_F(OperatorExportTest, AnOperatorCutByTheWindowSaysSo) {
  reader_.Operator(main_, "aten::mm", -10, 20);
  const uint32_t name = reader_.Name("cut");
  reader_.RangeById(main_, name, 30, 40, {.category = 1, .flags = 3});
  const JsonValue root = TraceOf(reader_);
  EXPECT_EQ(Named(root, "aten::mm")["args"].Find("finished"), nullptr);
  EXPECT_EQ(Named(root, "cut")["args"]["finished"].text, "false");
}

TEST_F(OperatorExportTest, MemoryCountsAmongTheEvents) {
  TrainOnce();
  reader_.Allocate(main_, 20, 0x1000, 64).Free(main_, 30, 0x1000, 64);
  const JsonValue root = TraceOf(reader_);
  std::set<int64_t> indexes;
  size_t count = 0;
  for (const JsonValue& event : root["traceEvents"].items) {
    const JsonValue* const index = event["args"].Find("Ev Idx");
    if (index == nullptr) continue;
    indexes.insert(index->integer());
    ++count;
  }
  EXPECT_EQ(count, 7U);
  EXPECT_THAT(indexes, SizeIs(7));
}

TEST_F(OperatorExportTest, WhatAStrangerWroteIntoInputsIsLeftOut) {
  for (const std::string& text : HostileNames()) {
    const uint32_t inputs = reader_.Inputs(text, text, text);
    const uint32_t scalars = reader_.Scalars(text);
    const auto start_ns = int64_t{inputs} * 10;
    reader_.Operator(main_, "aten::mm", start_ns, start_ns + 5,
                     {.scope = 255,
                      .sequence = INT64_MAX,
                      .forward_thread = UINT64_MAX,
                      .inputs = inputs,
                      .scalars = scalars});
  }
  const std::string end = R"([[1]],"args":{)";
  reader_.Operator(main_, "last", 5000, 5001,
                   {.inputs = reader_.Inputs(end, "[\"float\"]"),
                    .scalars = reader_.Scalars(R"([""],"pid":7)")});
  const JsonValue root = TraceOf(reader_);
  for (const JsonValue* event : Events(root, "X")) {
    EXPECT_EQ((*event)["args"].Find("Input Dims"), nullptr);
    EXPECT_EQ((*event)["args"].Find("Concrete Inputs"), nullptr);
  }
  const PerfettoTrace trace = PerfettoTraceOf(reader_);
  for (const PerfettoSlice& slice : trace.slices) {
    EXPECT_FALSE(slice.annotations.contains("Input Dims"));
    EXPECT_FALSE(slice.annotations.contains("Concrete Inputs"));
  }
}

TEST_F(OperatorExportTest, TheLongestInputsFit) {
  std::string dims = "[[1";
  while (dims.size() + 4 < OperatorTexts::kMostBytes - 64) dims += ",12";
  dims += "]]";
  const std::string scalars = "[\"" + std::string(OperatorTexts::kMostBytes - 4, 'x') + "\"]";
  reader_.Operator(main_, std::string(4096, '"'), 0, 10,
                   {.sequence = INT64_MAX,
                    .forward_thread = UINT64_MAX,
                    .inputs = reader_.Inputs(dims, "[\"float\"]"),
                    .scalars = reader_.Scalars(scalars)});
  const JsonValue root = TraceOf(reader_);
  const JsonValue& arguments = (*Events(root, "X").at(0))["args"];
  EXPECT_GT(arguments["Input Dims"].items.at(0).items.size(), 8000U);
  EXPECT_EQ(arguments["Concrete Inputs"].items.at(0).text.size(), OperatorTexts::kMostBytes - 4);
  const PerfettoTrace trace = PerfettoTraceOf(reader_);
  EXPECT_EQ(trace.slices.at(0).annotations.at("Input Dims"), dims);
}

TEST_F(OperatorExportTest, NotesAreInstantsWithWhatTheySay) {
  reader_.Note(main_, 100, kGraphBreak, "train.py:19 in f", "Data-dependent branching", 0)
      .Note(main_, 200, kRecompile, "train.py:19 in f", "size mismatch at index 0", 5000)
      .Note(main_, kNoNoteTime, kCompiledRegion, "0/1", "train.py:19 in f", 7)
      .Note(main_, 300, kStepLabel, "global_step", "step 41", 1200)
      .Note(main_, kNoNoteTime, kMissing, "shapes", "not proved", 0)
      .Note(main_, 400, kFolded, "_compile.compile_inner", "", 1731)
      .Note(main_, 500, 999, "who \"knows\"", "", -1);
  const JsonValue root = TraceOf(reader_);
  const JsonValue& graph_break = Named(root, "Graph Break");
  EXPECT_EQ(graph_break["ph"].text, "i");
  EXPECT_EQ(graph_break["s"].text, "t");
  EXPECT_EQ(graph_break["cat"].text, "cpu_instant_event");
  EXPECT_EQ(UnixNs(root, graph_break), reader_.record().start_unix_ns + 100);
  EXPECT_EQ(graph_break["args"]["where"].text, "train.py:19 in f");
  EXPECT_EQ(graph_break["args"]["reason"].text, "Data-dependent branching");
  EXPECT_EQ(Named(root, "Recompile")["args"]["compile_ns"].integer(), 5000);
  const JsonValue& region = Named(root, "Compiled Region: 0/1");
  EXPECT_EQ(region["s"].text, "p");
  EXPECT_EQ(UnixNs(root, region), reader_.record().start_unix_ns);
  EXPECT_EQ(region["args"]["code"].text, "train.py:19 in f");
  EXPECT_EQ(Named(root, "global_step 1200")["args"]["behind"].text, "step 41");
  EXPECT_EQ(Named(root, "Not Recorded")["args"]["reason"].text, "not proved");
  EXPECT_EQ(Named(root, "Left Out")["args"]["events"].integer(), 1731);
  EXPECT_EQ(Named(root, "Note 999")["args"]["subject"].text, "who \"knows\"");
}

TEST_F(OperatorExportTest, AnAllocationThatFailedIsKinetosInstant) {
  reader_.Note(main_, 10, kOutOfMemory, "cuda:3", "", 1 << 20)
      .Note(main_, 20, kOutOfMemory, "cpu", "", 5)
      .Note(main_, 30, kOutOfMemory, "xpu:0", "", 6)
      .Note(main_, 40, kOutOfMemory, "cuda:x", "", 7);
  const JsonValue root = TraceOf(reader_);
  std::vector<const JsonValue*> found;
  for (const JsonValue* event : Events(root, "i")) {
    if ((*event)["name"].text == "[OutOfMemory]") found.push_back(&(*event)["args"]);
  }
  ASSERT_THAT(found, SizeIs(4));
  EXPECT_EQ((*found[0])["Bytes"].integer(), 1 << 20);
  EXPECT_EQ((*found[0])["Device Id"].integer(), 3);
  EXPECT_EQ((*found[0])["Device Type"].integer(), 1);
  EXPECT_EQ((*found[1])["Device Id"].integer(), -1);
  EXPECT_EQ((*found[1])["Device Type"].integer(), 0);
  EXPECT_EQ((*found[2])["Device Id"].integer(), 0);
  EXPECT_EQ((*found[2])["Device Type"].integer(), 12) << "xpu, as torch numbers it";
  EXPECT_EQ((*found[3])["device"].text, "cuda:x");
}

TEST_F(OperatorExportTest, HostileNotesHarmNoTrace) {
  int64_t at = 0;
  for (const std::string& text : HostileNames()) {
    for (uint16_t kind = 0; kind < 9; ++kind) {
      reader_.Note(main_, at, kind, text, text, INT64_MIN);
      at += 10;
    }
  }
  EXPECT_THAT(Events(TraceOf(reader_), "i"), Not(IsEmpty()));
  EXPECT_THAT(PerfettoTraceOf(reader_).instants, Not(IsEmpty()));
}

TEST_F(OperatorExportTest, PerfettoHasTheInputsAsAnnotations) {
  TrainOnce();
  const PerfettoTrace trace = PerfettoTraceOf(reader_);
  const PerfettoSlice& addmm = SliceNamed(trace, "aten::addmm");
  EXPECT_EQ(addmm.category, "cpu_op");
  EXPECT_EQ(addmm.annotations.at("Input Dims"), "[[64],[16,64],[64,64],[],[]]");
  EXPECT_EQ(addmm.annotations.at("Input type"), R"(["float","float","float","Scalar","Scalar"])");
  EXPECT_EQ(addmm.annotations.at("Input Strides"), "[[1],[64,1],[1,64],[],[]]");
  EXPECT_EQ(addmm.annotations.at("Concrete Inputs"), R"(["","","","1","1"])");
  EXPECT_EQ(addmm.annotations.at("Sequence number"), "9");
  EXPECT_EQ(addmm.annotations.at("Fwd thread id"), "0");
  EXPECT_EQ(SliceNamed(trace, "AddmmBackward0").annotations.at("Fwd thread id"), "1");
  EXPECT_EQ(SliceNamed(trace, "Optimizer.step#SGD.step").category, "user_annotation");
  EXPECT_THAT(SliceNamed(trace, "forward").annotations, IsEmpty());
}

TEST_F(OperatorExportTest, PerfettoHasTheArrow) {
  TrainOnce();
  const PerfettoTrace trace = PerfettoTraceOf(reader_);
  ASSERT_THAT(trace.flows, SizeIs(1));
  EXPECT_EQ(trace.slices[trace.flows[0].from].name, "aten::addmm");
  EXPECT_EQ(trace.slices[trace.flows[0].to].name, "AddmmBackward0");
}

TEST_F(OperatorExportTest, PerfettoFindsOperatorsAcrossBatches) {
  const uint32_t inputs[] = {reader_.Inputs("[[1]]", "[\"int\"]"),
                             reader_.Inputs("[[2]]", "[\"int\"]")};
  const uint32_t other = reader_.AddThread(4243, "other");
  for (int i = 0; i < 20; ++i) {
    for (const uint32_t thread : {main_, other}) {
      reader_.Operator(thread, StrCat("op", i), i * 100, i * 100 + 90,
                       {.inputs = inputs[(i + thread) % 2]});
      reader_.Range(thread, StrCat("in", i), i * 100 + 10, i * 100 + 20);
    }
  }
  reader_.Operator(main_, "around", -10, 5000, {.inputs = inputs[1]});
  reader_.BatchRows(3);
  const PerfettoTrace trace = PerfettoTraceOf(reader_);
  ASSERT_THAT(trace.slices, SizeIs(81));
  for (const PerfettoSlice& slice : trace.slices) {
    if (slice.name.starts_with("in")) {
      EXPECT_THAT(slice.annotations, IsEmpty());
      continue;
    }
    const bool on_main = trace.tracks.at(slice.track).tid == 4242;
    const int number = slice.name == "around" ? 1 : std::stoi(slice.name.substr(2));
    const uint32_t thread = on_main ? main_ : other;
    EXPECT_THAT(slice.annotations,
                Contains(Pair("Input Dims", (number + thread) % 2 == 0 ? "[[1]]" : "[[2]]")))
        << slice.name;
  }
}

TEST_F(OperatorExportTest, PerfettoHasTheNotes) {
  reader_.Note(main_, 100, kGraphBreak, "train.py:19 in f", "Data-dependent branching", 0)
      .Note(main_, kNoNoteTime, kCompiledRegion, "0/1", "train.py:19 in f", 7);
  const PerfettoTrace trace = PerfettoTraceOf(reader_);
  ASSERT_THAT(trace.instants, SizeIs(3));  // And what the capture is.
  const auto named = [&](std::string_view name) -> const PerfettoInstant& {
    for (const PerfettoInstant& instant : trace.instants) {
      if (instant.name == name) return instant;
    }
    ADD_FAILURE() << "no instant " << name;
    return trace.instants[0];
  };
  EXPECT_EQ(named("Graph Break").annotations.at("where"), "train.py:19 in f");
  EXPECT_EQ(trace.tracks.at(named("Graph Break").track).tid, 4242);
  EXPECT_EQ(named("Compiled Region: 0/1").annotations.at("guards"), "7");
}

}  // namespace
}  // namespace profd::exporter
