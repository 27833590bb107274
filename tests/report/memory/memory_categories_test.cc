// What blocks were for, by the rules in report/memory/categories.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/report/memory/categories.h"
#include "daemon/report/memory/memory_report.h"
#include "daemon/report/memory/timeline.h"
#include "tests/fakes/fake_capture_reader.h"
#include "tests/fakes/status_matchers.h"
#include "tests/report/memory/category_numbers.h"

namespace profd::report {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint8_t kBackwardScope = 1;
constexpr int64_t kWindowNs = 1'000'000'000;  // Byte-seconds are bytes that were there throughout.

// name -> (peak, blocks)
using Uses = std::map<std::string, std::pair<int64_t, int64_t>>;

class MemoryCategoriesTest : public testing::Test {
 protected:
  MemoryCategoriesTest() : main_(reader_.AddThread(1, "main")) {
    reader_.mutable_record().windows.push_back({.start_ns = 0, .end_ns = kWindowNs});
  }

  DeviceMemory Device() {
    absl::StatusOr<MemoryTimeline> timeline = SummarizeMemory(reader_, {});
    EXPECT_THAT(timeline, IsOk());
    EXPECT_EQ(timeline->devices.size(), 1U);
    return timeline.ok() && !timeline->devices.empty() ? std::move(timeline->devices.front())
                                                       : DeviceMemory();
  }
  Uses CategoryUses() {
    Uses uses;
    for (const MemoryCategoryUse& use : Device().categories) {
      uses[use.name] = {use.peak_bytes, use.block_count};
    }
    return uses;
  }

  // An operator that uses `inputs` and makes a block of `bytes` at `result`; 0: none.
  void Op(std::string_view name, int64_t start_ns, std::initializer_list<uint64_t> inputs,
          uint64_t result, int64_t bytes, uint16_t depth = 0, uint8_t scope = 0) {
    reader_.Operator(main_, name, start_ns, start_ns + 10, {.scope = scope});
    uint8_t input = 0;
    for (const uint64_t address : inputs) {
      reader_.TensorUse(main_, start_ns, address,
                        {.depth = depth, .scope = scope, .input = input++});
    }
    if (result != 0) reader_.Allocate(main_, start_ns + 5, result, bytes);
  }
  // A function of the backward pass, as the engine runs it: at depths 0 and 1.
  void BackwardOp(std::string_view name, int64_t start_ns, std::initializer_list<uint64_t> inputs,
                  uint64_t result, int64_t bytes) {
    reader_.Operator(main_, "autograd::engine::evaluate_function: F", start_ns - 1, start_ns + 12);
    Op(name, start_ns, inputs, result, bytes, 1, kBackwardScope);
  }
  // AccumulateGrad, whose first child is `child` on `gradient`.
  void AccumulateGrad(std::string_view child, int64_t start_ns, uint64_t gradient) {
    reader_.Operator(main_, "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad",
                     start_ns - 1, start_ns + 20);
    reader_.Operator(main_, "torch::autograd::AccumulateGrad", start_ns, start_ns + 19,
                     {.scope = kBackwardScope});
    reader_.Operator(main_, child, start_ns + 2, start_ns + 4)
        .TensorUse(main_, start_ns + 2, gradient, {.depth = 2});
  }

  FakeCaptureReader reader_;
  const uint32_t main_;
};

TEST_F(MemoryCategoriesTest, ATrainingStepHasAllOfThem) {
  // Addresses: 0x10 weight, 0x20 batch, 0x30 activation, 0x40 loss, 0x50 gradient, 0x60 state.
  reader_.Block(0x10, 1000, {.name = "weight", .category = kParameter})
      .Block(0x60, 1000, {.name = "exp_avg", .category = kOptimizerState})
      .Block(0x70, 40, {.name = "running_mean", .category = kBuffer});
  Op("aten::stack", 100, {}, 0x20, 64);
  Op("aten::linear", 200, {0x20, 0x10}, 0x30, 32);
  Op("aten::sum", 300, {0x30}, 0x40, 4);
  BackwardOp("SumBackward0", 400, {0x45}, 0x46, 32);
  BackwardOp("AddmmBackward0", 500, {0x46, 0x20}, 0x50, 1000);
  reader_.Free(main_, 505, 0x46, 32);
  AccumulateGrad("aten::detach", 600, 0x50);
  reader_.Free(main_, 700, 0x30, 32).Free(main_, 701, 0x40, 4);
  reader_.Range(main_, "Optimizer.step#Adam.step", 800, 900);
  Op("aten::add_", 810, {0x10, 0x50}, 0, 0, 1);
  Op("aten::mul_", 830, {0x60}, 0, 0, 1);
  Op("aten::sqrt", 850, {0x60}, 0x80, 1000, 1);
  reader_.Free(main_, 870, 0x80, 1000);
  reader_.Free(main_, 950, 0x50, 1000);
  EXPECT_EQ(CategoryUses(), (Uses{{"parameter", {1000, 1}},
                                  {"optimizer_state", {1000, 1}},
                                  {"buffer", {40, 1}},
                                  {"input", {64, 1}},
                                  {"activation", {36, 2}},
                                  {"gradient", {1000, 1}},
                                  {"unknown", {1000, 2}}}));
}

TEST_F(MemoryCategoriesTest, TheIntegralIsOverTheWindowAndHoldsOlderBlocks) {
  reader_.Block(0x10, 500, {.category = kParameter});
  Op("aten::empty", 0, {}, 0x20, 800);
  reader_.Free(main_, kWindowNs / 4, 0x20, 800);
  const DeviceMemory device = Device();
  ASSERT_EQ(device.categories.size(), 2U);
  EXPECT_EQ(device.categories[0].name, "parameter");  // most byte-seconds first
  EXPECT_NEAR(device.categories[0].byte_seconds, 500, 1e-3);
  EXPECT_NEAR(device.categories[1].byte_seconds, 200, 1e-3);
}

TEST_F(MemoryCategoriesTest, TheBlocksAtThePeakHaveTheSameCategories) {
  reader_.Block(0x10, 500, {.category = kParameter});
  Op("aten::linear", 100, {0x10}, 0x20, 70);
  const DeviceMemory device = Device();
  // Older blocks whose owners told their size count, too.
  EXPECT_THAT(device.peak_by_category,
              ElementsAre(MemoryShare{"parameter", 500, 1}, MemoryShare{"activation", 70, 1}));
  EXPECT_TRUE(device.relative);
  EXPECT_EQ(device.start_bytes, 500);
  EXPECT_EQ(device.peak_bytes, 570);
  EXPECT_EQ(device.peak_older_bytes, 500);
  EXPECT_EQ(device.peak_unknown_bytes, 0);
}

TEST_F(MemoryCategoriesTest, AnOlderBlockThatWasFreedBeforeThePeakIsNotAtThePeak) {
  reader_.Block(0x10, 500, {.category = kParameter});
  Op("aten::linear", 100, {0x10, 0x30}, 0x20, 70);
  reader_.Free(main_, 150, 0x30, 40);
  Op("aten::linear", 200, {0x20, 0x10}, 0x50, 90);
  const DeviceMemory device = Device();
  EXPECT_EQ(device.start_bytes, 540);
  EXPECT_EQ(device.peak_bytes, 660);
  EXPECT_EQ(device.end_bytes, 660);
  EXPECT_EQ(device.peak_older_bytes, 500);
}

TEST_F(MemoryCategoriesTest, TotalsOfTheCpuThatLeaveNoRoomForKnownBlocksAreNone) {
  reader_.Step(0, 0, 1000);
  reader_.Block(0x10, 500, {.category = kParameter});
  reader_.Range(main_, "aten::linear", 100, 110)
      .TensorUse(main_, 100, 0x10)
      .Allocate(main_, 105, 0x20, 70, {.total_allocated_bytes = 70});
  absl::StatusOr<MemoryReport> report = ReportMemory(reader_, {});
  ASSERT_THAT(report, IsOk());
  const DeviceMemoryReport& device = report->devices.at(0);
  EXPECT_TRUE(device.memory.relative);
  EXPECT_EQ(device.memory.start_bytes, 500);
  EXPECT_EQ(device.memory.peak_bytes, 570);
  EXPECT_EQ(device.samples.back().allocated_bytes, 570);  // The chart ...
  EXPECT_EQ(device.steps.at(0).start_bytes, 500);         // ... and the steps agree.
  EXPECT_EQ(device.steps.at(0).peak_bytes, 570);
}

TEST_F(MemoryCategoriesTest, ADoubleFreeIsNoOlderBlock) {
  Op("aten::linear", 100, {}, 0x20, 70);
  reader_.Free(main_, 150, 0x20, 70).Free(main_, 160, 0x20, 70);
  const DeviceMemory device = Device();
  EXPECT_EQ(device.repeated_free_count, 1);
  EXPECT_EQ(device.unknown_free_count, 0);
  EXPECT_EQ(device.start_bytes, 0);
  EXPECT_EQ(device.end_bytes, 0);
}

TEST_F(MemoryCategoriesTest, MadeAndFreedInsideOneOperatorIsTemporary) {
  reader_.Operator(main_, "aten::conv2d", 100, 200)
      .Operator(main_, "aten::_convolution", 110, 190)
      .Operator(main_, "aten::empty", 120, 130)
      .Allocate(main_, 125, 0x20, 64)
      .Free(main_, 180, 0x20, 64)
      .Operator(main_, "aten::relu", 300, 400)
      .Allocate(main_, 310, 0x30, 8)
      .Operator(main_, "aten::relu", 500, 600)
      .Free(main_, 510, 0x30, 8);
  EXPECT_EQ(CategoryUses(), (Uses{{"temporary", {64, 1}}, {"unknown", {8, 1}}}));
}

TEST_F(MemoryCategoriesTest, ACompiledFunctionIsOneOperator) {
  reader_.Block(0x10, 500, {.category = kParameter});
  reader_.Operator(main_, "Torch-Compiled Region: 0/0", 90, 300)
      .Operator(main_, "CompiledFunction", 100, 200)
      .TensorUse(main_, 100, 0x10, {.depth = 1})
      .Allocate(main_, 110, 0x20, 64)
      .Free(main_, 150, 0x20, 64)
      .Allocate(main_, 120, 0x30, 32);
  EXPECT_EQ(CategoryUses(),
            (Uses{{"parameter", {500, 1}}, {"temporary", {64, 1}}, {"activation", {32, 1}}}));
}

TEST_F(MemoryCategoriesTest, EveryStepsGradientIsOneThoughOnlyTheLastIsAliveAtTheEnd) {
  reader_.Block(0x10, 500, {.category = kParameter}).Block(0x52, 500, {.category = kGradient});
  BackwardOp("MmBackward0", 100, {0x40}, 0x51, 500);
  AccumulateGrad("aten::detach", 200, 0x51);
  reader_.Free(main_, 300, 0x51, 500);
  BackwardOp("MmBackward0", 400, {0x40}, 0x52, 500);
  EXPECT_EQ(CategoryUses(), (Uses{{"parameter", {500, 1}}, {"gradient", {500, 2}}}));
}

TEST_F(MemoryCategoriesTest, WhatIsAddedToAGradientIsNone) {
  reader_.Block(0x10, 500, {.category = kParameter}).Block(0x50, 500, {.category = kGradient});
  BackwardOp("MmBackward0", 100, {0x40}, 0x51, 500);
  AccumulateGrad("aten::add_", 200, 0x50);  // older than the window, and used
  reader_.Free(main_, 300, 0x51, 500);
  EXPECT_EQ(CategoryUses(),
            (Uses{{"parameter", {500, 1}}, {"gradient", {500, 1}}, {"unknown", {500, 1}}}));
}

TEST_F(MemoryCategoriesTest, WhatAnOptimizerUsesAndTheBackwardPassMadeIsAGradient) {
  reader_.Block(0x10, 500, {.category = kParameter});
  BackwardOp("MmBackward0", 100, {0x40}, 0x51, 300);
  BackwardOp("MmBackward0", 200, {0x40}, 0x52, 200);
  reader_.Range(main_, "Optimizer.step#SGD.step", 300, 400);
  Op("aten::_foreach_add_", 310, {0x10, 0x51}, 0, 0, 1);
  EXPECT_EQ(CategoryUses(),
            (Uses{{"parameter", {500, 1}}, {"gradient", {300, 1}}, {"unknown", {200, 1}}}));
}

TEST_F(MemoryCategoriesTest, AGradientThatNothingTouchedWasMadeAfterTheWindow) {
  reader_.Block(0x10, 500, {.category = kParameter}).Block(0x50, 500, {.category = kGradient});
  Op("aten::linear", 100, {0x10}, 0x30, 8);
  EXPECT_EQ(CategoryUses(), (Uses{{"parameter", {500, 1}}, {"activation", {8, 1}}}));
}

TEST_F(MemoryCategoriesTest, AnAddressUsedAgainAfterTheWindowTellsNothingOfItsBlockInIt) {
  reader_.Block(0x10, 500, {.category = kParameter})
      .Block(0x30, 8, {.category = kGradient})  // was an activation in the window
      .Block(0x31, 900, {.category = kBuffer})  // larger than the block there
      .Block(0x32, 8, {.category = kBuffer});   // freed in the window
  Op("aten::linear", 100, {0x10}, 0x30, 8);
  Op("aten::linear", 200, {0x10}, 0x31, 8);
  Op("aten::linear", 300, {0x10}, 0x32, 8);
  reader_.Free(main_, 400, 0x32, 8);
  EXPECT_EQ(CategoryUses(), (Uses{{"parameter", {500, 1}}, {"activation", {24, 3}}}));
}

TEST_F(MemoryCategoriesTest, AnAddressIsAnotherBlockAfterItsFree) {
  reader_.Block(0x10, 500, {.category = kParameter});
  Op("aten::linear", 100, {0x10}, 0x30, 8);
  reader_.Free(main_, 150, 0x30, 8);
  Op("aten::stack", 200, {}, 0x30, 8);
  Op("aten::linear", 300, {0x10, 0x30}, 0, 0);
  EXPECT_EQ(CategoryUses(),
            (Uses{{"parameter", {500, 1}}, {"activation", {8, 1}}, {"input", {8, 1}}}));
}

TEST_F(MemoryCategoriesTest, WhatComesFromAGradientIsNoActivation) {
  reader_.Block(0x10, 500, {.category = kParameter});
  BackwardOp("MmBackward0", 100, {0x40}, 0x50, 500);
  AccumulateGrad("aten::detach", 200, 0x50);
  Op("aten::norm", 300, {0x50, 0x10}, 0x60, 4);
  Op("aten::mul", 400, {0x60}, 0x61, 4);
  EXPECT_EQ(CategoryUses(),
            (Uses{{"parameter", {500, 1}}, {"gradient", {500, 1}}, {"unknown", {8, 2}}}));
}

TEST_F(MemoryCategoriesTest, WhatIsChangedInPlaceComesFromWhatItWasChangedWith) {
  reader_.Block(0x10, 500, {.category = kParameter});
  Op("aten::empty", 100, {}, 0x20, 8);
  Op("aten::empty", 120, {}, 0x21, 8);
  Op("aten::copy_", 200, {0x20, 0x10}, 0, 0);
  Op("aten::copy", 300, {0x21, 0x10}, 0, 0);
  EXPECT_EQ(CategoryUses(),
            (Uses{{"parameter", {500, 1}}, {"activation", {8, 1}}, {"input", {8, 1}}}));
}

TEST_F(MemoryCategoriesTest, WithoutParametersWhatTheBackwardPassUsesOrFreesIsAnActivation) {
  Op("aten::linear", 100, {0x10}, 0x20, 8);
  Op("aten::linear", 120, {0x10}, 0x21, 16);
  Op("aten::linear", 140, {0x10}, 0x22, 32);
  BackwardOp("MmBackward0", 200, {0x20}, 0, 0);
  reader_.Free(main_, 205, 0x21, 16);
  EXPECT_EQ(CategoryUses(), (Uses{{"activation", {24, 2}}, {"unknown", {32, 1}}}));
}

TEST_F(MemoryCategoriesTest, AnOlderBlockThatIsFreedWasThereFromTheWindowsStart) {
  reader_.Block(0x10, 500, {.category = kParameter});
  Op("aten::linear", 100, {0x20, 0x10}, 0x30, 8);
  reader_.Free(main_, kWindowNs / 2, 0x20, 64);
  const DeviceMemory device = Device();
  ASSERT_EQ(device.categories.size(), 3U);
  EXPECT_EQ(device.categories[1].name, "input");
  EXPECT_NEAR(device.categories[1].byte_seconds, 32, 1e-3);
}

TEST_F(MemoryCategoriesTest, AnOlderBlockOfWhichOnlyTheSizeIsToldIsWhatItIsUsedAs) {
  reader_.Block(0x10, 500, {.category = kParameter})
      .Block(0x20, 64, {})   // a batch
      .Block(0x21, 32, {})   // used with nothing of the model
      .Block(0x30, 999, {})  // made in the window, which tells its size
      .Block(0x40, 16, {});  // not used: of after the window, perhaps
  Op("aten::linear", 100, {0x20, 0x10}, 0x30, 8);
  Op("aten::sum", 200, {0x21}, 0, 0);
  EXPECT_EQ(CategoryUses(), (Uses{{"parameter", {500, 1}},
                                  {"input", {64, 1}},
                                  {"activation", {8, 1}},
                                  {"unknown", {32, 1}}}));
}

TEST_F(MemoryCategoriesTest, SizesAloneDoNotMakeAGradientOfWhatAnOptimizerUses) {
  reader_.Block(0x20, 64, {});
  reader_.Range(main_, "Optimizer.step#SGD.step", 300, 400);
  Op("aten::add_", 310, {0x20}, 0, 0, 1);
  EXPECT_EQ(CategoryUses(), (Uses{{"unknown", {64, 1}}}));
}

TEST_F(MemoryCategoriesTest, TheSizeToldOfAnAddressThatWasFreedIsOfAnother) {
  reader_.Block(0x10, 500, {.category = kParameter}).Block(0x20, 999, {});
  Op("aten::linear", 100, {0x20, 0x10}, 0x30, 8);
  reader_.Free(main_, 200, 0x20, 64);
  EXPECT_EQ(CategoryUses(),
            (Uses{{"parameter", {500, 1}}, {"input", {64, 1}}, {"activation", {8, 1}}}));
}

TEST_F(MemoryCategoriesTest, WhatZeroGradFreesIsAGradient) {
  reader_.Block(0x10, 500, {.category = kParameter});
  reader_.Range(main_, "Optimizer.zero_grad#SGD.zero_grad", 90, 110)
      .Free(main_, 100, 0x51, 500)  // of the step before the window
      .Free(main_, 120, 0x52, 64);
  BackwardOp("MmBackward0", 200, {0x40}, 0x53, 300);
  Op("aten::linear", 300, {0x10}, 0x54, 8);
  reader_.Range(main_, "Optimizer.zero_grad#SGD.zero_grad", 400, 500)
      .Free(main_, 410, 0x53, 300)
      .Free(main_, 420, 0x54, 8);
  EXPECT_EQ(CategoryUses(), (Uses{{"parameter", {500, 1}},
                                  {"gradient", {500, 2}},
                                  {"activation", {8, 1}},
                                  {"unknown", {64, 1}}}));
}

TEST_F(MemoryCategoriesTest, WhatAnEventSaysOfItselfStands) {
  Op("aten::linear", 100, {0x10}, 0, 0);
  reader_.Allocate(main_, 105, 0x20, 8, {.category = 5}).Free(main_, 106, 0x20, 8);
  EXPECT_EQ(CategoryUses(), (Uses{{"input", {8, 1}}}));
}

TEST_F(MemoryCategoriesTest, CudasOwnAllocationsDoNotTakeABlocksAddress) {
  reader_.Block(0x10, 500, {.category = kParameter, .device_type = 1});
  reader_.Operator(main_, "aten::linear", 100, 200)
      .TensorUse(main_, 100, 0x10)
      .Allocate(main_, 110, 0x20, 2 << 20, {.device_type = 64, .category = 0})
      .Allocate(main_, 120, 0x20, 512, {.device_type = 1});
  absl::StatusOr<MemoryTimeline> timeline = SummarizeMemory(reader_, {});
  ASSERT_THAT(timeline, IsOk());
  ASSERT_EQ(timeline->devices.size(), 2U);
  EXPECT_EQ(timeline->devices[0].device, "cuda:0");
  std::vector<std::string> names;
  for (const MemoryCategoryUse& use : timeline->devices[0].categories) names.push_back(use.name);
  EXPECT_THAT(names, testing::UnorderedElementsAre("activation", "parameter"));
  EXPECT_EQ(timeline->devices[1].device, "cuda-driver:0");
  EXPECT_EQ(timeline->devices[1].categories.at(0).name, "unknown");
}

TEST_F(MemoryCategoriesTest, AThreadOfTheBackwardPassIsItsOwn) {
  const uint32_t engine = reader_.AddThread(2, "pt_autograd_0");
  reader_.Block(0x10, 500, {.category = kParameter});
  Op("aten::linear", 100, {0x20, 0x10}, 0x30, 8);
  reader_.Operator(engine, "autograd::engine::evaluate_function: MmBackward0", 90, 300)
      .Operator(engine, "MmBackward0", 95, 290, {.scope = kBackwardScope})
      .Allocate(engine, 105, 0x40, 16)
      .Free(engine, 205, 0x30, 8);
  EXPECT_EQ(CategoryUses(),
            (Uses{{"parameter", {500, 1}}, {"activation", {8, 1}}, {"unknown", {16, 1}}}));
}

TEST_F(MemoryCategoriesTest, WhatTheEngineFreesBetweenItsFunctionsWasKeptForThem) {
  reader_.Operator(main_, "aten::linear", 10, 40)
      .Allocate(main_, 20, 0x30, 8)
      .Operator(main_, "aten::relu", 50, 60)
      .Allocate(main_, 55, 0x31, 16)
      .Free(main_, 70, 0x31, 16)
      .Operator(main_, "autograd::engine::evaluate_function: AddmmBackward0", 100, 200)
      .Operator(main_, "AddmmBackward0", 110, 150, {.scope = kBackwardScope})
      .Free(main_, 180, 0x30, 8);
  EXPECT_EQ(CategoryUses(), (Uses{{"activation", {8, 1}}, {"unknown", {16, 1}}}));
}

TEST_F(MemoryCategoriesTest, WithoutAnythingOfAFrameworkCategoriesAreThoseOfTheEvents) {
  reader_.Range(main_, "step", 0, 100)
      .Allocate(main_, 10, 0x1, 8, {.category = kParameter})
      .Allocate(main_, 20, 0x2, 4)
      .Free(main_, 30, 0x9, 100);
  EXPECT_EQ(CategoryUses(), (Uses{{"parameter", {8, 1}}, {"unknown", {104, 2}}}));
}

TEST_F(MemoryCategoriesTest, FailedAllocationsAreListedByTime) {
  reader_.Note(main_, 70, 4, "cuda:1", "", 1 << 30)
      .Note(main_, 20, 4, "cuda:0", "", 2 << 20)
      .Note(main_, 10, 1, "train.py:3 in f", "why", 0);
  absl::StatusOr<MemoryTimeline> timeline = SummarizeMemory(reader_, {});
  ASSERT_THAT(timeline, IsOk());
  EXPECT_THAT(timeline->devices, IsEmpty());
  ASSERT_EQ(timeline->out_of_memory.size(), 2U);
  EXPECT_EQ(timeline->out_of_memory[0].device, "cuda:0");
  EXPECT_EQ(timeline->out_of_memory[0].bytes, 2 << 20);
  EXPECT_EQ(timeline->out_of_memory[1].time_ns, 70);
}

TEST_F(MemoryCategoriesTest, RowsOfAHostileFileAreSafe) {
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  for (int64_t i = 0; i < 40; ++i) {
    const int64_t at = i * 7 % 40;
    reader_
        .Operator(main_, i % 2 == 0 ? "torch::autograd::AccumulateGrad" : "aten::detach", at,
                  at + i % 5, {.scope = static_cast<uint8_t>(i % 3)})
        .LooseOperator(main_, {.start_ns = -kHuge + i, .depth = 127, .scope = 255})
        .TensorUse(main_, i % 3 == 0 ? kHuge : -kHuge, static_cast<uint64_t>(i % 4),
                   {.depth = 65535, .scope = 255, .input = 255})
        .Block(static_cast<uint64_t>(i % 6), kHuge,
               {.category = static_cast<uint8_t>(200 + i), .device_type = 9});
  }
  reader_.Allocate(main_, -kHuge, 1, kHuge)
      .Allocate(main_, 5, 1, kHuge, {.category = 99})
      .Free(main_, kHuge, 1, -5)
      .Free(main_, kHuge, 1, kHuge)
      .Free(main_, kHuge, 3, std::numeric_limits<int64_t>::min());
  absl::StatusOr<MemoryTimeline> timeline = SummarizeMemory(reader_, {});
  ASSERT_THAT(timeline, IsOk());
  ASSERT_EQ(timeline->devices.size(), 2U);  // That of the events, and that of the blocks.
  EXPECT_FALSE(timeline->devices[0].categories.empty());
}

TEST_F(MemoryCategoriesTest, AReadersErrorIsTheReportsError) {
  Op("aten::linear", 100, {0x10}, 0x20, 8);
  reader_.FailAfter(0, absl::DataLossError("bad chunk"));
  MemoryInOrder events(reader_);
  EXPECT_THAT(FindMemoryCategories(reader_, events), StatusIs(absl::StatusCode::kDataLoss));
}

}  // namespace
}  // namespace profd::report
