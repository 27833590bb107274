// Python functions and call stacks in Chrome traces, as torch.profiler writes them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "daemon/export/chrome/python.h"
#include "proto/wire/event.h"
#include "tests/export/chrome/exported_chrome.h"
#include "tests/fakes/fake_capture_reader.h"

namespace profd::exporter {
namespace {

class ChromePythonTest : public testing::Test {
 protected:
  FakeCaptureReader reader_;
  const uint32_t main_ = reader_.AddThread(100, "main");
};

TEST_F(ChromePythonTest, FunctionsHaveIdsOfTheirCallersAndModules) {
  reader_.Module(0x10, 0x10, "", "Net").Module(0x20, 0x10, "head", "Linear");
  const uint32_t train = reader_.Stack(0, "train.py", 12, "train");
  const uint32_t net = reader_.ModuleStack(train, 0x10, "Net");
  const uint32_t head = reader_.ModuleStack(net, 0x20, "Linear");
  reader_.Operator(main_, "aten::add", 1000, 2000, {.stack = train})
      .Operator(main_, "aten::linear", 3000, 4000, {.stack = head});
  const JsonValue root = TraceOf(reader_);
  const JsonValue& caller = Named(root, "train.py(12): train");
  const JsonValue& outer = Named(root, "nn.Module: Net_0");
  const JsonValue& inner = Named(root, "nn.Module: Linear_0");
  for (const JsonValue* const event : {&caller, &outer, &inner}) {
    EXPECT_EQ((*event)["cat"].text, "python_function");
    EXPECT_EQ((*event)["tid"].integer(), 100);
    EXPECT_EQ((*event)["args"]["Python thread"].integer(), 0);
  }
  EXPECT_EQ(caller["dur"].text, "3.000");
  EXPECT_EQ(caller["args"].Find("Python parent id"), nullptr);
  EXPECT_EQ(caller["args"].Find("Python module id"), nullptr);
  EXPECT_EQ(outer["args"]["Python parent id"].integer(), caller["args"]["Python id"].integer());
  EXPECT_EQ(inner["args"]["Python parent id"].integer(), outer["args"]["Python id"].integer());
  EXPECT_EQ(inner["args"]["Python module id"].integer(), 0);
  EXPECT_EQ(inner["args"]["Module"].text, "head");
  EXPECT_EQ(Named(root, "aten::linear")["args"]["Call stack"].text,
            "nn.Module: Linear_0;nn.Module: Net_0;train.py(12): train;");
}

TEST_F(ChromePythonTest, StacksOfGeneratedCodeHaveTheLineThatItComesFrom) {
  reader_.Note(main_, kNoNoteTime, static_cast<uint16_t>(wire::NoteKind::kGeneratedCode), "gen.py",
               "net.py(8): forward", 5);
  const uint32_t train = reader_.Stack(0, "train.py", 12, "train");
  const uint32_t call = reader_.Stack(train, "gen.py", 6, "call");
  reader_.Operator(main_, "aten::mm", 1000, 2000, {.stack = call});
  const JsonValue root = TraceOf(reader_);
  EXPECT_EQ(Named(root, "aten::mm")["args"]["Call stack"].text,
            "net.py(8): forward;gen.py(6): call;train.py(12): train;");
  EXPECT_EQ(Named(root, "net.py(8): forward")["args"]["Python parent id"].integer(),
            Named(root, "gen.py(6): call")["args"]["Python id"].integer());
  EXPECT_EQ(ExportOrDie(reader_).find("cpu_instant_event"), std::string::npos) << "no notes";
}

TEST_F(ChromePythonTest, ACaptureWithoutStacksHasNone) {
  reader_.Operator(main_, "aten::add", 1000, 2000);
  const std::string text = ExportOrDie(reader_);
  EXPECT_EQ(text.find("python_function"), text.npos);
  EXPECT_EQ(text.find("Call stack"), text.npos);
}

TEST_F(ChromePythonTest, HostileNamesBreakNothingAndLongStacksAreCutAndCounted) {
  reader_.mutable_record().torch.outcome = TorchOutcome::kRecorded;
  reader_.mutable_record().torch.operators = OperatorMode::kNames;
  uint32_t stack = reader_.Stack(0, "a;\"b\\\x01\xff.py", 1, std::string(10'000, 'f'));
  for (int i = 0; i < 200; ++i) stack = reader_.Stack(stack, std::string(300, 'd'), 7, "deep");
  reader_.Operator(main_, "aten::add", 1000, 2000, {.stack = stack});
  const JsonValue root = TraceOf(reader_);
  const std::string& call_stack = Named(root, "aten::add")["args"]["Call stack"].text;
  EXPECT_LE(call_stack.size(), ChromePython::kMostCallStackBytes);
  EXPECT_TRUE(call_stack.ends_with("(7): deep;"));
  EXPECT_GT(root["profd"]["torch"]["cut_stacks"].integer(), 0);
}

}  // namespace
}  // namespace profd::exporter
