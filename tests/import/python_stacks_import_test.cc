// Python stacks and modules of traces: what an export of a capture with stacks says, an import of
// it says again.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "daemon/export/trace_export.h"
#include "daemon/import/python_stacks.h"
#include "daemon/report/ops/profile.h"
#include "gmock/gmock.h"
#include "proto/wire/event.h"
#include "tests/export/sink/string_sink.h"
#include "tests/fakes/fake_capture_reader.h"
#include "tests/import/import_fixture.h"

namespace profd::importer {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

class PythonStacksImportTest : public ImportTest {
 protected:
  using Rows = std::map<std::pair<std::string, std::string>, int64_t>;  // Calls, by name and place.

  static Rows RowsBy(store::CaptureReader& reader, report::OpGroup group) {
    Rows rows;
    const auto profile = report::SummarizeOpProfile(reader, {.group = group});
    EXPECT_THAT(profile, IsOk());
    for (const report::OpProfileRow& row : profile->rows) {
      // Modules are rows of imports.
      if (row.name.starts_with("nn.Module: ")) continue;
      rows[{row.name, group == report::OpGroup::kModule   ? row.module
                      : group == report::OpGroup::kSource ? row.source
                                                          : row.stack}] = row.calls;
    }
    return rows;
  }
};

TEST_F(PythonStacksImportTest, AnExportWithStacksImportsWithTheSamePlaces) {
  constexpr auto kBackward = static_cast<uint8_t>(wire::OperatorScope::kBackwardFunction);
  constexpr auto kUserScope = static_cast<uint8_t>(wire::OperatorScope::kUserScope);
  FakeCaptureReader live;
  const uint32_t main = live.AddThread(100, "main");
  const uint32_t worker = live.AddThread(101, "autograd");
  live.Module(0x10, 0x10, "", "Net")
      .Module(0x20, 0x10, "a", "Linear")
      .Module(0x30, 0x10, "b", "Linear");
  const uint32_t train = live.Stack(0, "/home/me/train.py", 12, "train");
  const uint32_t later = live.Stack(0, "/home/me/train.py", 14, "train");
  const uint32_t net = live.ModuleStack(train, 0x10, "Net");
  const uint32_t forward = live.Stack(net, "/home/me/net.py", 30, "Net.forward");
  const uint32_t a = live.ModuleStack(forward, 0x20, "Linear");
  const uint32_t b = live.ModuleStack(forward, 0x30, "Linear");
  const uint32_t engine =
      live.Stack(later, "/usr/lib/python3/dist-packages/torch/_tensor.py", 400, "backward");
  live.Operator(main, "aten::linear", 1000, 2000, {.sequence = 1, .torch_thread = 1, .stack = a})
      .Operator(main, "aten::linear", 3000, 4000, {.sequence = 2, .torch_thread = 1, .stack = b})
      .Operator(main, "loss", 4100, 4500, {.scope = kUserScope, .stack = later})
      .Operator(main, "LinearBackward0", 5000, 6000,
                {.scope = kBackward,
                 .sequence = 2,
                 .forward_thread = 1,
                 .torch_thread = 1,
                 .stack = engine})
      .Operator(main, "aten::mm", 5100, 5900, {.torch_thread = 1, .stack = engine})
      .Operator(worker, "LinearBackward0", 7000, 8000,
                {.scope = kBackward, .sequence = 1, .forward_thread = 1, .torch_thread = 2})
      .Operator(main, "aten::add_", 9000, 9500, {.torch_thread = 1, .stack = later});
  StringSink sink;
  ASSERT_THAT(exporter::ExportTrace(live, exporter::TraceFormat::kChrome, sink), IsOk());
  const auto imported = Read(sink.text());
  ASSERT_NE(imported, nullptr);
  EXPECT_THAT(imported->record().imported.not_understood, IsEmpty());
  for (const report::OpGroup group : {report::OpGroup::kSource, report::OpGroup::kModule}) {
    const Rows expected = RowsBy(live, group);
    EXPECT_EQ(RowsBy(*imported, group), expected) << report::ToString(group);
    EXPECT_GE(expected.size(), 5u);
  }
  // And once more: what was imported is exported as it was.
  StringSink again;
  ASSERT_THAT(exporter::ExportTrace(*imported, exporter::TraceFormat::kChrome, again), IsOk());
  const auto twice = Read(again.text());
  ASSERT_NE(twice, nullptr);
  EXPECT_EQ(LinesOf(*twice), LinesOf(*imported));
}

TEST_F(PythonStacksImportTest, TheCallStackOfTorchNamesLinesAndModules) {
  const auto reader = ReadEvents(
      R"({"ph":"X","cat":"cpu_op","name":"aten::relu","pid":1,"tid":1,"ts":1,"dur":2,"args":)"
      R"({"Call stack":"<built-in method relu of type object at 0x7f>;torch/nn/functional.py(1766): )"
      R"(relu;nn.Module: ReLU_0;train.py(7): <lambda>;"}})");
  ASSERT_NE(reader, nullptr);
  EXPECT_THAT(reader->record().imported.not_understood, IsEmpty());
  EXPECT_EQ(reader->record().torch.stack_count, 4);
  EXPECT_THAT(RowsBy(*reader, report::OpGroup::kSource),
              ElementsAre(Pair(Pair("aten::relu", "train.py(7): <lambda>"), 1)));
  EXPECT_THAT(RowsBy(*reader, report::OpGroup::kModule),
              ElementsAre(Pair(Pair("aten::relu", "ReLU_0"), 1)));
  EXPECT_THAT(RowsBy(*reader, report::OpGroup::kStack),
              ElementsAre(Pair(Pair("aten::relu",
                                    "<built-in method relu of type object at 0x7f> < "
                                    "torch/nn/functional.py(1766): relu < nn.Module: ReLU_0 < "
                                    "train.py(7): <lambda>"),
                               1)));
}

TEST_F(PythonStacksImportTest, DeepAndOddStacksAreCutAndCounted) {
  std::string deep;
  for (int i = 0; i < 1000; ++i) StrAppend(&deep, "f.py(", i, "): f;");
  const auto reader = ReadEvents(
      StrCat(R"({"ph":"X","cat":"cpu_op","name":"deep","pid":1,"tid":1,"ts":1,"dur":2,"args":)"
             R"({"Call stack":")",
             deep,
             R"("}},)"
             R"({"ph":"X","cat":"cpu_op","name":"odd","pid":1,"tid":1,"ts":5,"dur":2,"args":)"
             R"({"Call stack":";;(): ;x(99999999999): y;\"q\\;"}},)"
             R"({"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":5,"dur":2,"args":)"
             R"({"Call stack":"a.py(1): b;"}})"));
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(reader->record().torch.missing_stack_count, 1);
  EXPECT_THAT(reader->record().imported.not_understood,
              ElementsAre(Pair("arg:kernel.Call stack", 1)));
  EXPECT_THAT(RowsBy(*reader, report::OpGroup::kStack),
              ::testing::Contains(Pair(Pair("odd", "():  < x(99999999999): y < \"q\\"), 1)));
}

// f() that calls itself, once in full and once deeper than profd keeps.
TEST_F(PythonStacksImportTest, AStackIsCutWhateverOtherStacksAre) {
  std::string deep;
  for (size_t i = 0; i < PythonStacks::kMostFrames + 44; ++i) deep += "f;";
  const auto event = [](std::string_view name, int at, std::string_view stack) {
    return StrCat(R"({"ph":"X","cat":"cpu_op","name":")", name, R"(","pid":1,"tid":1,"ts":)", at,
                  R"(,"dur":2,"args":{"Call stack":")", stack, R"("}})");
  };
  for (const bool cut_first : {false, true}) {
    const auto reader =
        ReadEvents(cut_first ? StrCat(event("cut", 1, deep), ",", event("whole", 5, "f;"))
                             : StrCat(event("whole", 1, "f;"), ",", event("cut", 5, deep)));
    ASSERT_NE(reader, nullptr);
    EXPECT_EQ(reader->record().torch.missing_stack_count, 1);
    std::vector<StackRow> rows;
    ASSERT_THAT(reader->ForEach<StackRow>([&](const StackBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) rows.push_back(RowAt<StackRow>(batch, i));
      return absl::OkStatus();
    }),
                IsOk());
    ASSERT_EQ(rows.size(), PythonStacks::kMostFrames + 1);
    std::map<std::string, bool> is_cut;  // By operator: at its stack's outermost frame.
    std::vector<std::string> names;
    ASSERT_THAT(reader->ForEach<RangeRow>([&](const RangeBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) names.push_back(reader->names()[batch.name[i]]);
      return absl::OkStatus();
    }),
                IsOk());
    size_t next = 0;
    ASSERT_THAT(reader->ForEach<OperatorRow>([&](const OperatorBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) {
        uint32_t at = batch.stack[i];
        while (rows.at(at - 1).caller != 0) at = rows[at - 1].caller;
        is_cut[names.at(next++)] = rows[at - 1].is_cut;
      }
      return absl::OkStatus();
    }),
                IsOk());
    EXPECT_THAT(is_cut, ElementsAre(Pair("cut", true), Pair("whole", false))) << cut_first;
  }
}

}  // namespace
}  // namespace profd::importer
