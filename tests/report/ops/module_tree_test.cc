// The module tree: where the time of steps went, by module.
#include "daemon/report/ops/module_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "proto/wire/event.h"
#include "tests/fakes/fake_capture_reader.h"
#include "tests/fakes/status_matchers.h"

namespace profd::report {
namespace {

using ::testing::ElementsAre;

constexpr uint8_t kPythonRange = static_cast<uint8_t>(wire::RangeCategory::kPython);
constexpr auto kBackwardScope = static_cast<uint8_t>(wire::OperatorScope::kBackwardFunction);
constexpr uint8_t kCudaDevice = static_cast<uint8_t>(wire::DeviceType::kCuda);

class ModuleTreeTest : public testing::Test {
 protected:
  ModuleTreeTest() {
    reader_.Module(0x10, 0x10, "", "Net")
        .Module(0x20, 0x10, "a", "Linear")
        .Module(0x30, 0x10, "b", "Linear");
    train_ = reader_.Stack(0, "train.py", 12, "train");
    net_ = reader_.ModuleStack(train_, 0x10, "Net");
    a_ = reader_.ModuleStack(net_, 0x20, "Linear");
    b_ = reader_.ModuleStack(net_, 0x30, "Linear");
  }

  ModuleTree Summarize(const ModuleTreeOptions& options = {}) {
    absl::StatusOr<ModuleTree> tree = SummarizeModules(reader_, options);
    EXPECT_THAT(tree, IsOk());
    return *std::move(tree);
  }
  static const ModuleTreeRow& Row(const ModuleTree& tree, std::string_view name) {
    for (const ModuleTreeRow& row : tree.rows) {
      if (row.name == name) return row;
    }
    ADD_FAILURE() << "no row " << name;
    static const ModuleTreeRow kNone;
    return kNone;
  }
  static int64_t SelfSum(const ModuleTree& tree) {
    return std::accumulate(tree.rows.begin(), tree.rows.end(), int64_t{0},
                           [](int64_t sum, const ModuleTreeRow& row) { return sum + row.self_ns; });
  }
  static std::vector<std::string> Names(const ModuleTree& tree) {
    std::vector<std::string> names;
    for (const ModuleTreeRow& row : tree.rows) {
      names.push_back(std::string(static_cast<size_t>(row.depth), ' ') + row.name);
    }
    return names;
  }

  FakeCaptureReader reader_;
  const uint32_t main_ = reader_.AddThread(1, "main");
  uint32_t train_ = 0;
  uint32_t net_ = 0;
  uint32_t a_ = 0;
  uint32_t b_ = 0;
};

TEST_F(ModuleTreeTest, SelfTimesAddUpToTheSteps) {
  reader_.Step(7, 0, 1000)
      .Operator(main_, "zero", 10, 20, {.stack = train_})
      .Operator(main_, "aten::add", 100, 110, {.stack = net_})
      .Operator(main_, "aten::linear", 120, 220, {.sequence = 1, .torch_thread = 1, .stack = a_})
      .Operator(main_, "aten::linear", 230, 280, {.sequence = 2, .torch_thread = 1, .stack = b_})
      .Operator(main_, "aten::mul", 290, 300, {.stack = net_})
      .Operator(main_, "BBackward0", 400, 500,
                {.scope = kBackwardScope, .sequence = 2, .forward_thread = 1, .stack = train_})
      .Operator(main_, "aten::mm", 410, 490, {.stack = train_})
      .Operator(main_, "optimizer", 600, 900, {.stack = train_});
  const ModuleTree tree = Summarize();
  EXPECT_TRUE(tree.has_modules);
  EXPECT_THAT(Names(tree), ElementsAre("Net", " b", " a", ModuleTreeRow::kOutside));
  const ModuleTreeRow& net = Row(tree, "Net");
  EXPECT_EQ(net.total_ns, 300);  // From 100 to 300, and 100 backward.
  EXPECT_EQ(net.forward_ns, 200);
  // Optimizers, data, and the loss are neither.
  EXPECT_EQ(Row(tree, ModuleTreeRow::kOutside).forward_ns, -1);
  EXPECT_EQ(Row(tree, ModuleTreeRow::kOutside).backward_ns, -1);
  EXPECT_EQ(net.backward_ns, 100);
  EXPECT_EQ(net.self_ns, 50);
  EXPECT_EQ(net.calls, 1);
  EXPECT_EQ(Row(tree, "b").self_ns, 150);
  EXPECT_EQ(Row(tree, "b").backward_ns, 100);
  EXPECT_EQ(Row(tree, "b").parent, "Net");
  EXPECT_EQ(Row(tree, "b").class_name, "Linear");
  EXPECT_EQ(Row(tree, ModuleTreeRow::kOutside).self_ns, 700);
  EXPECT_EQ(SelfSum(tree), tree.steps_ns);
  EXPECT_EQ(tree.steps_ns, 1000);
  EXPECT_EQ(tree.concurrent_ns, 0);
}

TEST_F(ModuleTreeTest, AModuleThatIsCalledTwiceInARowHasTwoCalls) {
  const uint32_t a_again = reader_.ModuleStack(net_, 0x20, "Linear");
  const uint32_t net_again = reader_.ModuleStack(train_, 0x10, "Net");
  const uint32_t a_in_it = reader_.ModuleStack(net_again, 0x20, "Linear");
  reader_.Step(7, 0, 1000)
      .Operator(main_, "aten::linear", 100, 200, {.stack = a_})
      .Operator(main_, "aten::linear", 220, 250, {.stack = a_again})
      .Operator(main_, "aten::linear", 260, 300, {.stack = a_})
      .Operator(main_, "aten::linear", 310, 400, {.stack = a_in_it})
      .Operator(main_, "aten::linear", 400, 450, {.stack = a_in_it});
  const ModuleTree tree = Summarize();
  EXPECT_THAT(Names(tree), ElementsAre("Net", " a", ModuleTreeRow::kOutside));
  EXPECT_EQ(Row(tree, "a").calls, 4);
  EXPECT_EQ(Row(tree, "a").self_ns, 100 + 30 + 40 + 140);
  EXPECT_EQ(Row(tree, "Net").calls, 2);
  EXPECT_EQ(Row(tree, "Net").total_ns, 200 + 140);
  EXPECT_EQ(Row(tree, "Net").self_ns, 30);
  EXPECT_EQ(SelfSum(tree), 1000);
}

TEST_F(ModuleTreeTest, BackwardOnAnotherThreadIsTakenFromTheWaitForIt) {
  const uint32_t worker = reader_.AddThread(2, "autograd");
  reader_.Step(0, 0, 500)
      .Step(1, 500, 500)
      .Operator(main_, "aten::linear", 100, 200, {.sequence = 1, .torch_thread = 1, .stack = a_})
      .Operator(worker, "ABackward0", 300, 450,
                {.scope = kBackwardScope, .sequence = 1, .forward_thread = 1, .torch_thread = 2})
      .Operator(main_, "aten::linear", 480, 530, {.sequence = 9, .torch_thread = 1, .stack = a_});
  const ModuleTree tree = Summarize();
  EXPECT_EQ(Row(tree, "a").forward_ns, 150 + 280);  // One call, as far as operators tell.
  EXPECT_EQ(Row(tree, "a").backward_ns, 150);
  EXPECT_EQ(tree.concurrent_ns, 150);
  EXPECT_EQ(SelfSum(tree), 1000 + 150);
  const ModuleTree second = Summarize({.step = 1});
  EXPECT_EQ(Row(second, "a").total_ns, 30);
  EXPECT_EQ(SelfSum(second), 500);
}

TEST_F(ModuleTreeTest, GpuWorkMemoryAndFlopsBelongToWhatLaunchedThem) {
  const uint32_t inputs = reader_.Inputs("[[2,3],[3,4]]", R"(["float","float"])");
  reader_.Step(0, 0, 1000)
      .Operator(main_, "aten::matmul", 100, 200,
                {.sequence = 1, .torch_thread = 1, .inputs = inputs, .stack = a_})
      .Operator(main_, "aten::mm", 110, 190, {.inputs = inputs, .stack = a_})
      .Operator(main_, "ABackward0", 300, 400,
                {.scope = kBackwardScope, .sequence = 1, .forward_thread = 1, .stack = train_})
      .ApiCall(main_, "cudaLaunchKernel", 120, 130, 1)
      .ApiCall(main_, "cudaLaunchKernel", 310, 320, 2)
      .ApiCall(main_, "cudaLaunchKernel", 500, 510, 3)
      .Kernel("gemm", 2000, 2100, 1)
      .Kernel("gemm_back", 2100, 2400, 2)
      .Kernel("adam", 2400, 2450, 3)
      .Kernel("lost", 2500, 2507, 99)
      .Allocate(main_, 150, 0x1000, 64, {.device_type = kCudaDevice})
      .Allocate(main_, 160, 0x2000, 32)
      .Free(main_, 170, 0x1000, 64, {.device_type = kCudaDevice});
  const ModuleTree tree = Summarize();
  const ModuleTreeRow& a = Row(tree, "a");
  EXPECT_EQ(a.forward_device_ns, 100);
  EXPECT_EQ(a.backward_device_ns, 300);
  EXPECT_EQ(a.self_device_ns, 400);
  EXPECT_EQ(Row(tree, "Net").self_device_ns, 0);
  EXPECT_EQ(Row(tree, "Net").device_total_ns, 400);
  EXPECT_EQ(Row(tree, ModuleTreeRow::kOutside).self_device_ns, 57);
  EXPECT_EQ(tree.device_total_ns, 457);
  EXPECT_EQ(tree.unattributed_device_ns, 7);
  EXPECT_EQ(a.device_allocated_bytes, 64);
  EXPECT_EQ(a.cpu_allocated_bytes, 32);
  EXPECT_EQ(a.flops, 2 * 2 * 3 * 4) << "of operators inside each other the outermost counts";
}

TEST_F(ModuleTreeTest, ImportedTracesWithPythonFunctionsHaveTheSameTree) {
  FakeCaptureReader imported;
  const uint32_t main = imported.AddThread(1, "main");
  const uint32_t python = imported.AddThread(1, "main, row 2");
  imported.Step(0, 0, 1000)
      .Range(python, "train.py(12): train", 5, 900, {.category = kPythonRange})
      .Range(python, "nn.Module: Net_0", 100, 300, {.category = kPythonRange})
      .Range(python, "nn.Module: Linear_0", 120, 220, {.category = kPythonRange})
      .Operator(main, "aten::linear", 130, 210, {.sequence = 1, .torch_thread = 1})
      .Operator(main, "LinearBackward0", 400, 500,
                {.scope = kBackwardScope, .sequence = 1, .forward_thread = 1});
  const auto tree = SummarizeModules(imported, {});
  ASSERT_THAT(tree, IsOk());
  EXPECT_THAT(Names(*tree), ElementsAre("Net_0", " Linear_0", ModuleTreeRow::kOutside));
  EXPECT_EQ(Row(*tree, "Net_0").self_ns, 100);
  EXPECT_EQ(Row(*tree, "Linear_0").forward_ns, 100);
  EXPECT_EQ(Row(*tree, "Linear_0").backward_ns, 100);
  EXPECT_EQ(SelfSum(*tree), 1000);
}

TEST_F(ModuleTreeTest, WithoutModulesItSaysHowToGetThem) {
  reader_.Step(0, 0, 100).Operator(main_, "aten::add", 10, 20);
  const ModuleTree tree = Summarize();
  EXPECT_FALSE(tree.has_modules);
  EXPECT_THAT(ToReport(tree).notes,
              ElementsAre(testing::HasSubstr("profctl trace --with modules")));
  EXPECT_THAT(SummarizeModules(reader_, {.step = 5}), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(ModuleTreeTest, DamagedFilesDoNoHarm) {
  for (int64_t i = 0; i < 2000; ++i) {
    reader_.Operator(main_, "a", i * 3 % 700, 500 + i * 7 % 900,
                     {.stack = static_cast<uint32_t>(i % 9)});
  }
  reader_.Step(0, 0, 600).Step(1, 300, 900).Step(2, 1000, -5);
  const ModuleTree tree = Summarize();
  EXPECT_EQ(SelfSum(tree), tree.steps_ns + tree.concurrent_ns);
}

}  // namespace
}  // namespace profd::report
