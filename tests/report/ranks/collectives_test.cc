#include "daemon/report/ranks/collectives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "daemon/report/index/collective_names.h"
#include "daemon/report/ranks/collective_match.h"
#include "proto/wire/event.h"
#include "tests/fakes/fake_capture_reader.h"
#include "tests/fakes/status_matchers.h"

namespace profd::report {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using enum CollectiveKind;

// As torch 2 gives them.
std::string Scalars(std::string_view name, int64_t sequence, int64_t group_size = 8,
                    int64_t first_rank = 0) {
  return R"(["",")" + std::to_string(sequence) + R"(","","3",")" + std::string(name) +
         R"(","[]","[]",")" + std::to_string(first_rank) + R"(","1",")" +
         std::to_string(group_size) + R"("])";
}

TEST(CollectiveNamesTest, EverySpellingOfAnOperationIsKnown) {
  EXPECT_EQ(CollectiveKindOf("allreduce"), kAllReduce);
  EXPECT_EQ(CollectiveKindOf("_allgather_base"), kAllGather);
  EXPECT_EQ(CollectiveKindOf("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL"), kReduceScatter);
  EXPECT_EQ(CollectiveKindOf("ncclKernel_AllReduce_RING_LL_Sum_float"), kAllReduce);
  EXPECT_EQ(CollectiveKindOf("ALL_TO_ALL"), kAllToAll);
  EXPECT_EQ(CollectiveKindOf("coalesced"), kOther);
  EXPECT_EQ(CollectiveKindOf("tensorrt_llm::kernels::moe_comm::moeA2ADispatchKernel"), kAllToAll);
  EXPECT_EQ(CollectiveKindOf("flashinfer::moeA2ACombineKernel"), kAllToAll);
  // NCCL's kernel of send, of receive, and of all_to_all.
  EXPECT_EQ(CollectiveKindOf("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"), kOther);
  EXPECT_EQ(CollectiveKindOf("nccl:send 0->1"), kSend);
}

TEST(CollectiveNamesTest, RangesOfLibrariesAreCollectives) {
  EXPECT_EQ(CollectiveOfRange("gloo:all_reduce"), kAllReduce);
  EXPECT_EQ(CollectiveOfRange("nccl:_all_gather_base"), kAllGather);
  EXPECT_EQ(CollectiveOfRange("c10d::allreduce_"), kAllReduce);
  EXPECT_EQ(CollectiveOfRange("c10d::broadcast_"), kBroadcast);
  EXPECT_EQ(CollectiveOfRange("ncclReduceScatter"), kReduceScatter);
  EXPECT_EQ(CollectiveOfRange("record_param_comms"), kOther);
  EXPECT_EQ(CollectiveOfRange("_C_custom_ar::all_reduce"), kAllReduce);
  EXPECT_EQ(CollectiveOfRange("symm_mem::multimem_all_reduce_"), kAllReduce);
  EXPECT_EQ(CollectiveOfRange("_c10d_functional::reduce_scatter_tensor"), kReduceScatter);
  EXPECT_EQ(CollectiveOfRange("deep_ep::dispatch"), kAllToAll);
  EXPECT_EQ(CollectiveOfRange("deep_ep::get_dispatch_layout"), std::nullopt);
  EXPECT_EQ(CollectiveOfRange("vllm::gather_cache"), std::nullopt);
  // Their products run while the data comes.
  EXPECT_EQ(CollectiveOfRange("symm_mem::fused_all_gather_matmul"), std::nullopt);
  EXPECT_EQ(CollectiveOfRange("symm_mem::fused_scaled_matmul_reduce_scatter"), std::nullopt);
}

TEST(CollectiveNamesTest, AUsersRangeIsOneByItsWholeNameOnly) {
  EXPECT_EQ(CollectiveOfRange("all_reduce"), kAllReduce);
  EXPECT_EQ(CollectiveOfRange("AllReduce"), kAllReduce);
  EXPECT_EQ(CollectiveOfRange("barrier"), kBarrier);
  for (const std::string_view name :
       {"reduce", "gather", "aten::gather", "aten::_scatter", "before all_reduce of grads",
        "ncclGroupStart", "c10d::something", "", "barrier functions"}) {
    EXPECT_EQ(CollectiveOfRange(name), std::nullopt) << name;
  }
  EXPECT_EQ(CollectiveOfRange(std::string(1 << 16, 'a')), std::nullopt);
}

TEST(CollectiveNamesTest, NamesOfKindsAreReadBack) {
  for (const CollectiveKind kind :
       {kOther, kAllReduce, kAllGather, kReduceScatter, kAllToAll, kBarrier, kBroadcast, kReduce,
        kGather, kScatter, kSend, kReceive}) {
    CollectiveKind read = kOther;
    EXPECT_TRUE(FromString(ToString(kind), read));
    EXPECT_EQ(read, kind);
  }
  CollectiveKind read = kBarrier;
  EXPECT_FALSE(FromString("allreduce", read));
  EXPECT_EQ(read, kOther);
}

TEST(CollectiveNamesTest, TheSizeIsThatOfTheTypeInAnySpelling) {
  const auto bytes_of = [](const std::string& type) {
    return SizeOfFirstInput({.dims = "[[100],[]]", .types = R"([")" + type + R"(",""])"}).bytes;
  };
  for (const char* const type : {"c10::Float8_e4m3fnuz", "Float8_e5m2", "unsigned char", "bool"}) {
    EXPECT_EQ(bytes_of(type), 100) << type;
  }
  for (const char* const type : {"c10::BFloat16", "Half", "UInt16"}) {
    EXPECT_EQ(bytes_of(type), 200) << type;
  }
  EXPECT_EQ(bytes_of("float"), 400);
  EXPECT_EQ(bytes_of("UInt64"), 800);
  EXPECT_EQ(bytes_of("ComplexFloat"), 800);
  EXPECT_EQ(bytes_of("a type of tomorrow"), std::nullopt);
}

TEST(CollectiveNamesTest, TheSequenceIsTheFirstNumberBeforeTheRank) {
  EXPECT_EQ(ParseCollectiveInputs(Scalars("allreduce", 12), nullptr)->sequence, 12);
  // An older torch gives the address of its process group, too; a still older one no number.
  EXPECT_EQ(
      ParseCollectiveInputs(R"(["7","94123","1","barrier","[]","[]","2"])", nullptr)->sequence, 7);
  EXPECT_EQ(ParseCollectiveInputs(R"(["","1","barrier","[]","[]","2"])", nullptr)->sequence, -1);
}

TEST(CollectiveNamesTest, AGroupHasTorchsNameAndTheProgramsOwn) {
  const auto names_of = [](std::string_view id, std::string_view name) {
    const std::string group = GroupText(id, name);
    const std::string scalars = ScalarsOfTold({.name = "allreduce", .group = group});
    const auto told = ParseCollectiveInputs(scalars, nullptr);
    EXPECT_TRUE(told.has_value());
    EXPECT_EQ(told->name, "allreduce");
    EXPECT_EQ(told->sequence, -1);
    EXPECT_EQ(told->group, group);
    const GroupNames names = GroupNamesOf(told->group);
    return std::string(names.id) + "/" + std::string(names.name);
  };
  EXPECT_EQ(names_of("11", "TP"), "11/TP");
  EXPECT_EQ(names_of("0", "default_pg"), "0/default_pg");
  EXPECT_EQ(names_of("3", "undefined"), "3/");
  EXPECT_EQ(names_of("", "mesh_[a]_b"), "/mesh_[a]_b");
  EXPECT_EQ(names_of("", ""), "/");
  // What would look like a list, or need escapes, is left out.
  EXPECT_EQ(names_of("1]", "x"), "/");
  EXPECT_EQ(names_of("1,2", "x"), "/");
  EXPECT_EQ(ParseCollectiveInputs(R"(["","[0, 1]","1","barrier","[]","[]","2"])", nullptr)->group,
            "");
  EXPECT_EQ(names_of("1", "x]"), "/");
  EXPECT_EQ(names_of("1", "a\"b"), "/");
  EXPECT_EQ(names_of("1", std::string(1 << 16, 'x')), "/");
  EXPECT_EQ(ScalarsOfTold({.name = "allreduce"}),
            R"(["","","","0","allreduce","[]","[]","0","1","0"])");
}

class CollectiveTableTest : public testing::Test {
 protected:
  CollectiveTable Table(int64_t limit = 0) {
    absl::StatusOr<CollectiveTable> table = SummarizeCollectives(reader_, limit);
    EXPECT_THAT(table, IsOk());
    return *std::move(table);
  }

  FakeCaptureReader reader_;
  const uint32_t main_ = reader_.AddThread(1, "main");
  const uint32_t other_ = reader_.AddThread(2, "other");
};

TEST_F(CollectiveTableTest, ACaptureWithoutAnyHasItsSteps) {
  reader_.Range(main_, "forward", 0, 50).Step(7, 0, 100);
  const CollectiveTable table = Table();
  EXPECT_THAT(table.rows, IsEmpty());
  EXPECT_THAT(table.steps, ElementsAre(StepWorkRow{.step = 7, .duration_ns = 100}));
}

TEST_F(CollectiveTableTest, TheOutermostRangeCountsAndItsNoteSaysWhatItIs) {
  reader_.Range(main_, "c10d::allreduce_", 10, 40);
  reader_.Operator(main_, "record_param_comms", 15, 35,
                   {.inputs = reader_.Inputs("[[4,5],[]]", R"(["float",""])"),
                    .scalars = reader_.Scalars(Scalars("allreduce", 12, 8, 16))});
  reader_.Step(3, 0, 100).StepThread(main_);
  const CollectiveTable table = Table();
  ASSERT_THAT(table.rows, SizeIs(1));
  EXPECT_EQ(table.rows[0], (CollectiveRow{.start_ns = 10,
                                          .duration_ns = 30,
                                          .exposed_ns = 30,
                                          .sequence = 12,
                                          .elements = 20,
                                          .bytes = 80,
                                          .step = 3,
                                          .kind = kAllReduce,
                                          .has_completion = false}));
  EXPECT_EQ(table.communicators[0], (Communicator{.size = 8, .first_rank = 16, .rank_stride = 1}));
  EXPECT_THAT(table.steps,
              ElementsAre(StepWorkRow{.step = 3, .duration_ns = 100, .exposed_ns = 30}));
}

TEST_F(CollectiveTableTest, WithoutANoteTheInputsOfNcclsRangeTellTheSize) {
  constexpr auto kUserScope = static_cast<uint8_t>(wire::OperatorScope::kUserScope);
  reader_.Operator(
      main_, "nccl:all_reduce", 10, 20,
      {.scope = kUserScope, .inputs = reader_.Inputs("[[1000,3]]", R"(["c10::BFloat16"])")});
  reader_.Operator(main_, "nccl:all_to_all", 30, 40,
                   {.scope = kUserScope, .inputs = reader_.Inputs("[[8]]", R"(["unheard of"])")});
  reader_.Range(main_, "nccl:broadcast", 50, 60);
  const CollectiveTable table = Table();
  ASSERT_THAT(table.rows, SizeIs(3));
  EXPECT_EQ(table.rows[0].elements, 3000);
  EXPECT_EQ(table.rows[0].bytes, 6000);
  EXPECT_EQ(table.rows[1].elements, 8);
  EXPECT_EQ(table.rows[1].bytes, -1);
  EXPECT_EQ(table.rows[2].elements, -1);
  EXPECT_EQ(table.rows[2].bytes, -1);
}

TEST_F(CollectiveTableTest, ANoteTellsTheSizeBeforeTheInputsOfTheRangeAroundIt) {
  reader_.Operator(main_, "record_param_comms", 15, 18,
                   {.inputs = reader_.Inputs("[[4,5],[]]", R"(["float",""])"),
                    .scalars = reader_.Scalars(Scalars("allreduce", 12))});
  reader_.Operator(main_, "nccl:all_reduce", 10, 20,
                   {.scope = static_cast<uint8_t>(wire::OperatorScope::kUserScope),
                    .inputs = reader_.Inputs("[[7]]", R"(["float"])")});
  const CollectiveTable table = Table();
  ASSERT_THAT(table.rows, SizeIs(1));
  EXPECT_EQ(table.rows[0].elements, 20);
  EXPECT_EQ(table.rows[0].bytes, 80);
}

TEST(CollectiveNamesTest, RangesOfWorkersAndOfUsersLastUntilTheCollectiveIsDone) {
  for (const std::string_view name : {"gloo:all_reduce", "ucc:all_reduce", "all_reduce"}) {
    EXPECT_TRUE(LastsUntilDone(name)) << name;
  }
  for (const std::string_view name :
       {"nccl:all_reduce", "c10d::allreduce_", "ncclAllReduce", "record_param_comms"}) {
    EXPECT_FALSE(LastsUntilDone(name)) << name;
  }
}

// Steps of 50 ms as DDP has them on gloo: the training thread issues a bucket's all-reduce while it
// works, and waits for it at the end; a worker runs it.
class GlooTableTest : public CollectiveTableTest {
 protected:
  static constexpr int64_t kMs = 1'000'000;

  // The training thread works from `from_ms` on, in operators of a millisecond.
  void Work(int64_t from_ms, int64_t to_ms) {
    for (int64_t ms = from_ms; ms < to_ms; ++ms) {
      reader_.Range(main_, "aten::mm", ms * kMs, (ms + 1) * kMs,
                    {.category = static_cast<uint8_t>(wire::RangeCategory::kOperator)});
    }
  }
};

TEST_F(GlooTableTest, TheTrainingThreadWaitsForAWorkerUntilItGoesOn) {
  Work(0, 20);
  reader_.Range(other_, "gloo:all_reduce", 15 * kMs, 48 * kMs);
  Work(48, 50);
  reader_.Step(0, 0, 50 * kMs).StepThread(main_);
  const CollectiveTable table = Table();
  ASSERT_THAT(table.rows, SizeIs(1));
  EXPECT_EQ(table.rows[0].duration_ns, 33 * kMs);
  EXPECT_EQ(table.rows[0].exposed_ns, 28 * kMs);
  EXPECT_TRUE(table.rows[0].has_completion);
  EXPECT_EQ(table.steps[0].exposed_ns, 28 * kMs);
}

TEST_F(GlooTableTest, WhoWorksOrSleepsMeanwhileDoesNotWait) {
  // It works until after the end.
  Work(0, 30);
  reader_.Range(other_, "gloo:all_reduce", 5 * kMs, 20 * kMs);
  // It sleeps from 30 to 50, and goes on long after the end at 40.
  reader_.Range(other_, "gloo:all_reduce", 29 * kMs, 40 * kMs);
  Work(50, 60);
  reader_.Step(0, 0, 60 * kMs).StepThread(main_);
  const CollectiveTable table = Table();
  ASSERT_THAT(table.rows, SizeIs(2));
  EXPECT_EQ(table.steps[0].exposed_ns, 0);
}

// The worker that wakes the thread may lose its CPU to it before it records its end.
TEST_F(GlooTableTest, ACollectiveWhoseEndIsRecordedLateWasDoneWhenTheThreadWentOn) {
  Work(0, 20);
  reader_.Range(other_, "gloo:all_reduce", 15 * kMs, 48 * kMs);
  Work(48, 60);
  reader_.Range(other_, "gloo:all_reduce", 59 * kMs, 103 * kMs);
  Work(98, 102);
  // A pause of Python in which the end is recorded is no wait.
  reader_.Range(main_, "aten::mm", 102 * kMs, 103 * kMs - 50'000,
                {.category = static_cast<uint8_t>(wire::RangeCategory::kOperator)});
  Work(103, 110);
  reader_.Step(0, 0, 50 * kMs).Step(1, 50 * kMs, 60 * kMs).StepThread(main_);
  const CollectiveTable table = Table();
  ASSERT_THAT(table.rows, SizeIs(2));
  EXPECT_EQ(table.rows[1].duration_ns, 39 * kMs);
  EXPECT_EQ(table.rows[1].exposed_ns, 38 * kMs);
  EXPECT_EQ(table.steps[1].exposed_ns, 38 * kMs);
}

// An operator that is open around others, as aten::linear around aten::addmm, still works after one
// of them has ended.
TEST_F(GlooTableTest, ALateEndWithinAnOperatorIsNoWaitOfThatOperator) {
  Work(0, 20);
  reader_.Range(other_, "gloo:all_reduce", 15 * kMs, 48 * kMs);
  Work(48, 60);
  reader_.Range(other_, "gloo:all_reduce", 59 * kMs, 103 * kMs);
  Work(98, 102);
  constexpr FakeRange kOperator = {.category =
                                       static_cast<uint8_t>(wire::RangeCategory::kOperator)};
  reader_.Range(main_, "aten::t", 102 * kMs, 102 * kMs + 1'000, kOperator);
  reader_.Range(main_, "aten::linear", 102 * kMs, 103 * kMs + 100'000, kOperator);
  Work(104, 110);
  reader_.Step(0, 0, 50 * kMs).Step(1, 50 * kMs, 60 * kMs).StepThread(main_);
  const CollectiveTable table = Table();
  ASSERT_THAT(table.rows, SizeIs(2));
  EXPECT_EQ(table.rows[1].exposed_ns, 38 * kMs);
  EXPECT_EQ(table.steps[1].exposed_ns, 38 * kMs);
}

// A tensor of a functional collective waits for it in the operator that reads it.
TEST_F(GlooTableTest, AnOperatorWaitsForTheTensorThatItReads) {
  constexpr FakeRange kOperator = {.category =
                                       static_cast<uint8_t>(wire::RangeCategory::kOperator)};
  Work(0, 20);
  reader_.Range(other_, "gloo:all_reduce", 15 * kMs, 40 * kMs);
  reader_.Range(main_, "_c10d_functional::wait_tensor", 21 * kMs, 40 * kMs + 50'000, kOperator);
  reader_.Range(main_, "aten::mm", 40 * kMs + 60'000, 41 * kMs, kOperator);
  reader_.Range(main_, "aten::mm", 20 * kMs, 42 * kMs, kOperator);
  Work(42, 50);
  reader_.Step(0, 0, 50 * kMs).StepThread(main_);
  const CollectiveTable table = Table();
  ASSERT_THAT(table.rows, SizeIs(1));
  EXPECT_EQ(table.rows[0].exposed_ns, 19 * kMs);
  EXPECT_EQ(table.steps[0].exposed_ns, 19 * kMs);
}

TEST_F(GlooTableTest, ALateEndWhileTheNextIsIssuedIsNoWait) {
  Work(0, 20);
  reader_.Range(other_, "gloo:all_reduce", 15 * kMs, 48 * kMs);
  Work(48, 60);
  reader_.Range(other_, "gloo:all_reduce", 59 * kMs, 103 * kMs);
  Work(98, 102);
  reader_.Range(main_, "c10d::allreduce_", 102 * kMs, 103 * kMs + 100'000,
                {.category = static_cast<uint8_t>(wire::RangeCategory::kOperator)});
  Work(104, 110);
  reader_.Step(0, 0, 50 * kMs).Step(1, 50 * kMs, 60 * kMs).StepThread(main_);
  EXPECT_EQ(Table().rows[1].exposed_ns, 38 * kMs);
}

// On a busy machine Python takes longer between two operators.
TEST_F(GlooTableTest, ALateEndInALongPauseIsNoWaitOfThatPause) {
  Work(0, 20);
  reader_.Range(other_, "gloo:all_reduce", 15 * kMs, 48 * kMs);
  Work(48, 60);
  reader_.Range(other_, "gloo:all_reduce", 59 * kMs, 98 * kMs + 600'000);
  reader_.Range(main_, "aten::copy_", 98 * kMs, 98 * kMs + 100'000);
  Work(99, 110);
  reader_.Step(0, 0, 50 * kMs).Step(1, 50 * kMs, 60 * kMs).StepThread(main_);
  EXPECT_EQ(Table().steps[1].exposed_ns, 38 * kMs);
}

// The worker of the first one does not get a CPU until the thread waits for the second one.
class LateInNextWaitTest : public GlooTableTest {
 protected:
  // After `usual` steps in which the thread waits until the end. Returns what the first one
  // exposes.
  int64_t ExposedAfter(int64_t usual) {
    for (int64_t step = 0; step < usual; ++step) {
      Work(50 * step, 50 * step + 10);
      reader_.Range(other_, "gloo:all_reduce", (50 * step + 9) * kMs, (50 * step + 48) * kMs);
      Work(50 * step + 48, 50 * step + 50);
      reader_.Step(step, 50 * step * kMs, 50 * kMs);
    }
    const int64_t at = 50 * usual;
    Work(at, at + 10);
    reader_.Range(other_, "gloo:all_reduce", (at + 9) * kMs, (at + 57) * kMs);
    Work(at + 48, at + 54);
    reader_.Range(other_, "gloo:all_reduce", (at + 53) * kMs, (at + 96) * kMs);
    Work(at + 96, at + 100);
    reader_.Step(usual, at * kMs, 50 * kMs).StepThread(main_);
    return Table().steps.back().exposed_ns;
  }
};

TEST_F(LateInNextWaitTest, IsAWaitWhereItIsTheException) { EXPECT_EQ(ExposedAfter(3), 38 * kMs); }

TEST_F(LateInNextWaitTest, IsNoneWhereItIsAsUsualAsOthers) { EXPECT_EQ(ExposedAfter(0), 0); }

TEST_F(GlooTableTest, ALateEndIsTheException) {
  // It sleeps from 20 to 40, and does not wait after that.
  Work(0, 20);
  reader_.Range(other_, "gloo:all_reduce", 19 * kMs, 42 * kMs);
  Work(40, 50);
  reader_.Step(0, 0, 50 * kMs).StepThread(main_);
  const CollectiveTable table = Table();
  EXPECT_EQ(table.rows[0].duration_ns, 23 * kMs);
  EXPECT_EQ(table.steps[0].exposed_ns, 0);
}

TEST_F(GlooTableTest, WhoSleepsDuringACollectiveDoesNotWaitForAllOfIt) {
  Work(0, 20);
  reader_.Range(other_, "gloo:all_reduce", 15 * kMs, 48 * kMs);
  // It sleeps from 50 to 70, works, and waits from 71 to 73.
  Work(48, 50);
  reader_.Range(other_, "gloo:all_reduce", 49 * kMs, 73 * kMs);
  Work(70, 71);
  // It sleeps from 80 to 100, which is not when the collective ends.
  Work(73, 80);
  reader_.Range(other_, "gloo:all_reduce", 79 * kMs, 108 * kMs);
  // It sleeps from 110 to 118, which is the smaller part of the collective.
  Work(100, 110);
  reader_.Range(other_, "gloo:all_reduce", 101 * kMs, 119 * kMs);
  Work(118, 130);
  reader_.Step(0, 0, 50 * kMs).Step(1, 50 * kMs, 80 * kMs).StepThread(main_);
  const CollectiveTable table = Table();
  ASSERT_THAT(table.rows, SizeIs(4));
  EXPECT_EQ(table.rows[1].exposed_ns, 2 * kMs);
  EXPECT_EQ(table.rows[2].exposed_ns, 0);
  EXPECT_EQ(table.rows[3].exposed_ns, 0);
  EXPECT_EQ(table.rows[3].duration_ns, 18 * kMs);
}

TEST_F(GlooTableTest, ALateEndGivesNoTimeTwice) {
  Work(0, 20);
  reader_.Range(other_, "gloo:all_reduce", 15 * kMs, 48 * kMs);
  Work(48, 60);
  // The first one ends as the thread goes on, the other two are recorded late.
  reader_.Range(other_, "gloo:all_reduce", 55 * kMs, 80 * kMs);
  reader_.Range(other_, "gloo:all_reduce", 57 * kMs, 82 * kMs);
  reader_.Range(other_, "gloo:all_reduce", 58 * kMs, 84 * kMs);
  Work(81, 100);
  reader_.Step(0, 0, 50 * kMs).Step(1, 50 * kMs, 50 * kMs).StepThread(main_);
  const CollectiveTable table = Table();
  ASSERT_THAT(table.rows, SizeIs(4));
  EXPECT_EQ(table.rows[1].exposed_ns, 20 * kMs);
  EXPECT_EQ(table.rows[2].exposed_ns + table.rows[3].exposed_ns, 0);
  EXPECT_EQ(table.steps[1].exposed_ns, 20 * kMs);
}

TEST_F(GlooTableTest, SeveralBucketsShareTheWaitWithoutOverlap) {
  Work(0, 20);
  reader_.Range(other_, "gloo:all_reduce", 5 * kMs, 30 * kMs);
  reader_.Range(other_, "gloo:all_reduce", 15 * kMs, 45 * kMs);
  Work(45, 50);
  reader_.Step(0, 0, 50 * kMs).StepThread(main_);
  const CollectiveTable table = Table();
  ASSERT_THAT(table.rows, SizeIs(2));
  EXPECT_EQ(table.rows[0].exposed_ns, 10 * kMs);
  EXPECT_EQ(table.rows[1].exposed_ns, 15 * kMs);
  EXPECT_EQ(table.steps[0].exposed_ns, 25 * kMs);
}

TEST_F(GlooTableTest, AWorkersRunBelongsToTheCallThatIssuedIt) {
  Work(0, 10);
  reader_.Range(main_, "c10d::allreduce_", 10 * kMs, 11 * kMs);
  reader_.Range(other_, "gloo:all_reduce", 10 * kMs + 1000, 40 * kMs);
  Work(40, 50);
  reader_.Step(0, 0, 50 * kMs).StepThread(main_);
  const CollectiveTable table = Table();
  ASSERT_THAT(table.rows, SizeIs(1));
  EXPECT_EQ(table.rows[0].start_ns, 10 * kMs);
  EXPECT_EQ(table.rows[0].duration_ns, 30 * kMs);
  EXPECT_EQ(table.rows[0].exposed_ns, 30 * kMs);  // The call, and the wait after it.
  EXPECT_TRUE(table.rows[0].has_completion);
}

// On a machine with other work, the worker wakes up when the call has returned.
TEST_F(GlooTableTest, ARunThatBeginsAfterItsCallIsTheSameCollective) {
  const uint32_t bucket =
      reader_.Inputs("[[[263168]],[],[],[],[],[]]", R"(["TensorList","","","","Scalar","Scalar"])");
  for (int64_t step = 0; step < 3; ++step) {
    const int64_t at = step * 50;
    Work(at, at + 10);
    reader_.Operator(main_, "c10d::allreduce_", (at + 10) * kMs, (at + 11) * kMs,
                     {.inputs = bucket});
    reader_.Range(other_, "gloo:all_reduce", (at + 12) * kMs, (at + 40) * kMs);
    Work(at + 40, at + 50);
    reader_.Step(step, at * kMs, 50 * kMs);
  }
  reader_.StepThread(main_);
  const CollectiveTable table = Table();
  ASSERT_THAT(table.rows, SizeIs(3));
  for (size_t step = 0; step < 3; ++step) {
    const CollectiveRow& row = table.rows[step];
    EXPECT_EQ(row.step, static_cast<int64_t>(step));
    EXPECT_EQ(row.start_ns, (static_cast<int64_t>(step) * 50 + 10) * kMs);
    EXPECT_EQ(row.duration_ns, 30 * kMs);
    EXPECT_EQ(row.exposed_ns, 30 * kMs);
    EXPECT_EQ(row.elements, 263'168);
    EXPECT_EQ(row.bytes, -1);  // A list of tensors does not say its type.
    EXPECT_TRUE(row.has_completion);
  }
}

// The next run is not the one that was lost.
TEST_F(GlooTableTest, ACallWhoseRunIsNotRecordedKeepsNoOtherRun) {
  for (int64_t step = 0; step < 3; ++step) {
    const int64_t at = step * 50;
    Work(at, at + 10);
    reader_.Range(main_, "c10d::allreduce_", (at + 10) * kMs, (at + 11) * kMs);
    if (step != 1) reader_.Range(other_, "gloo:all_reduce", (at + 12) * kMs, (at + 40) * kMs);
    Work(at + 40, at + 50);
    reader_.Step(step, at * kMs, 50 * kMs);
  }
  reader_.StepThread(main_);
  const CollectiveTable table = Table();
  ASSERT_THAT(table.rows, SizeIs(3));
  EXPECT_EQ(table.rows[0].duration_ns, 30 * kMs);
  EXPECT_EQ(table.rows[1].duration_ns, 1 * kMs);
  EXPECT_FALSE(table.rows[1].has_completion);
  EXPECT_EQ(table.rows[2].duration_ns, 30 * kMs);
}

// Two buckets are issued at once; one worker runs them in order.
TEST_F(GlooTableTest, RunsAreOfTheCallsInTheirOrder) {
  Work(0, 10);
  reader_.Range(main_, "c10d::allreduce_", 10 * kMs, 11 * kMs);
  reader_.Range(main_, "c10d::allreduce_", 11 * kMs, 12 * kMs);
  reader_.Range(other_, "gloo:all_reduce", 13 * kMs, 25 * kMs);
  reader_.Range(other_, "gloo:all_reduce", 26 * kMs, 40 * kMs);
  Work(40, 50);
  // NCCL has no such workers.
  reader_.Range(main_, "nccl:all_reduce", 50 * kMs + 1, 51 * kMs - 1);
  reader_.Range(main_, "c10d::allreduce_", 50 * kMs, 51 * kMs);
  reader_.Range(other_, "gloo:all_reduce", 52 * kMs, 53 * kMs);
  reader_.Step(0, 0, 60 * kMs).StepThread(main_);
  const CollectiveTable table = Table();
  ASSERT_THAT(table.rows, SizeIs(4));
  EXPECT_EQ(table.rows[0].duration_ns, 15 * kMs);
  EXPECT_EQ(table.rows[1].start_ns, 11 * kMs);
  EXPECT_EQ(table.rows[1].duration_ns, 29 * kMs);
  EXPECT_EQ(table.rows[2].duration_ns, 1 * kMs);
  EXPECT_EQ(table.rows[3].duration_ns, 1 * kMs);
}

TEST_F(GlooTableTest, TheBackwardThreadsWorkIsNoWait) {
  Work(0, 10);
  reader_.Range(other_, "autograd::engine::evaluate_function: MmBackward0", 10 * kMs, 39 * kMs,
                {.category = static_cast<uint8_t>(wire::RangeCategory::kOperator)});
  const uint32_t worker = reader_.AddThread(3, "worker");
  reader_.Range(worker, "gloo:all_reduce", 12 * kMs, 40 * kMs);
  Work(40, 50);
  reader_.Step(0, 0, 50 * kMs).StepThread(main_);
  EXPECT_EQ(Table().steps[0].exposed_ns, 1 * kMs);
}

TEST_F(CollectiveTableTest, WhereItLaunchedKernelsTheirTimeIsIts) {
  reader_.Operator(main_, "record_param_comms", 10, 30,
                   {.scalars = reader_.Scalars(Scalars("allreduce", 1))});
  reader_.ApiCall(main_, "cuLaunchKernelEx", 15, 20, 7)
      .Kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 50, 90, 7)
      .ApiCall(main_, "cudaLaunchKernel", 40, 45, 8)
      .Kernel("gemm", 60, 70, 8, {.stream = 9})
      .Step(0, 0, 100)
      .StepThread(main_);
  const CollectiveTable table = Table();
  ASSERT_THAT(table.rows, SizeIs(1));
  EXPECT_EQ(table.rows[0], (CollectiveRow{.start_ns = 50,
                                          .duration_ns = 40,
                                          .exposed_ns = 30,  // The gemm hid ten.
                                          .sequence = 1,
                                          .step = 0,
                                          .kind = kAllReduce,
                                          .on_device = true}));
  EXPECT_EQ(table.steps[0].exposed_ns, 30);
}

// The last one of a step mostly ends after it.
TEST_F(CollectiveTableTest, AKernelIsOfTheStepThatMostOfItRanIn) {
  reader_.Kernel("ncclDevKernel_AllReduce_A", 50, 102, 1)
      .Kernel("ncclDevKernel_AllReduce_B", 98, 180, 2)
      .Kernel("ncclDevKernel_AllReduce_C", 190, 215, 3)
      .Kernel("ncclDevKernel_AllReduce_D", 195, 300, 4)
      .Kernel("ncclDevKernel_AllReduce_E", 250, 300, 5)
      .Step(0, 0, 100)
      .Step(1, 100, 100);
  std::vector<int64_t> steps;
  for (const CollectiveRow& row : Table().rows) steps.push_back(row.step);
  EXPECT_THAT(steps, ElementsAre(0, 1, 1, 1, -1));
}

// A host that launches each step in a millisecond. The GPU computes for 8 of them, and reduces
// for 2.
TEST_F(CollectiveTableTest, WhereTheHostRunsAheadStepsAreThoseOfTheGpu) {
  constexpr int64_t kMs = 1'000'000;
  constexpr int64_t kSteps = 4;
  for (int64_t step = 0; step < kSteps; ++step) {
    const int64_t host_ns = step * kMs;
    const int64_t gpu_ns = step * 10 * kMs + kMs / 2;
    const auto number = static_cast<uint32_t>(2 * step + 1);
    reader_.Step(step, host_ns, kMs)
        .ApiCall(main_, "cudaLaunchKernel", host_ns + 10, host_ns + 20, number)
        .Kernel("gemm", gpu_ns, gpu_ns + 8 * kMs, number)
        .ApiCall(main_, "cudaLaunchKernel", host_ns + 30, host_ns + 40, number + 1)
        .Kernel("ncclDevKernel_AllReduce_Sum", gpu_ns + 8 * kMs, gpu_ns + 10 * kMs, number + 1,
                {.stream = 20});
  }
  const CollectiveTable table = Table();
  std::vector<int64_t> steps;
  for (const CollectiveRow& row : table.rows) steps.push_back(row.step);
  EXPECT_THAT(steps, ElementsAre(0, 1, 2, 3));
  ASSERT_THAT(table.steps, SizeIs(kSteps));
  for (const StepWorkRow& step : table.steps) {
    EXPECT_EQ(step.duration_ns, 10 * kMs) << step.step;
    EXPECT_EQ(step.exposed_ns, 2 * kMs) << step.step;
  }
}

TEST_F(CollectiveTableTest, AKernelThatNobodyAnnouncedIsOneToo) {
  reader_.Kernel("ncclDevKernel_AllGather_RING_LL", 50, 90, 7).Step(0, 0, 100);
  const CollectiveTable table = Table();
  ASSERT_THAT(table.rows, SizeIs(1));
  EXPECT_EQ(table.rows[0].kind, kAllGather);
  EXPECT_EQ(table.communicators[0], Communicator{});
}

TEST_F(CollectiveTableTest, WithoutStepsItsWindowsCount) {
  reader_.mutable_record().windows = {{.start_ns = 0, .end_ns = 1000}};
  reader_.Range(main_, "barrier", 100, 300);
  EXPECT_THAT(Table().steps,
              ElementsAre(StepWorkRow{.step = -1, .duration_ns = 1000, .exposed_ns = 200}));
}

TEST_F(CollectiveTableTest, LaterOnesBeyondTheLimitAreLeftOutAndCounted) {
  for (int64_t i = 0; i < 5; ++i) reader_.Range(main_, "barrier", i * 100, i * 100 + 10);
  const CollectiveTable table = Table(2);
  ASSERT_THAT(table.rows, SizeIs(2));
  EXPECT_EQ(table.rows[1].start_ns, 100);
  EXPECT_EQ(table.left_out_count, 3);
  EXPECT_THAT(SummarizeCollectives(reader_, -1), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(SummarizeCollectives(reader_, kMostCollectives + 1),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(CollectiveTableTest, NumbersAtTheirEndsAreSafe) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  reader_.Operator(main_, "record_param_comms", -5, kMost,
                   {.scalars = reader_.Scalars(Scalars("allreduce", kMost, kLeast, kLeast))});
  reader_.Range(other_, "barrier", kLeast + 1, -1);
  reader_.Step(kMost, kLeast, kMost).Step(-1, kMost, kMost).Step(0, 0, -1);
  const CollectiveTable table = Table();
  for (const StepWorkRow& step : table.steps) EXPECT_GE(step.exposed_ns, 0);
}

// ---- which is which ----

CollectiveTable Ranks(std::vector<CollectiveRow> rows, std::vector<Communicator> communicators) {
  return {.communicators = std::move(communicators), .rows = std::move(rows)};
}

std::vector<MatchedCollective> Match(const std::vector<CollectiveTable>& tables) {
  std::vector<const CollectiveTable*> members;
  members.reserve(tables.size());
  for (const CollectiveTable& table : tables) members.push_back(&table);
  return MatchCollectives(members);
}

const Communicator kWorld = {.size = 2, .first_rank = 0, .rank_stride = 1};

TEST(CollectiveMatchTest, TheSequenceNumberMatchesAndNeverTheTime) {
  const auto matches = Match({Ranks({{.start_ns = 100, .sequence = 5, .kind = kAllReduce},
                                     {.start_ns = 200, .sequence = 6, .kind = kAllReduce}},
                                    {kWorld}),
                              // It began at once with the other's first, and is its second.
                              Ranks({{.start_ns = 100, .sequence = 6, .kind = kAllReduce},
                                     {.start_ns = 200, .sequence = 7, .kind = kAllReduce}},
                                    {kWorld})});
  ASSERT_THAT(matches, SizeIs(1));
  EXPECT_EQ(matches[0].parts[0].row, 1u);
  EXPECT_EQ(matches[0].parts[1].row, 0u);
}

TEST(CollectiveMatchTest, AnotherOperationSizeOrCommunicatorIsAnotherCollective) {
  const auto with = [](const CollectiveRow& row, const Communicator& communicator) {
    return Match({Ranks({{.sequence = 1, .elements = 4, .kind = kAllReduce}}, {kWorld}),
                  Ranks({row}, {communicator})});
  };
  EXPECT_THAT(with({.sequence = 1, .elements = 4, .kind = kAllReduce}, kWorld), SizeIs(1));
  EXPECT_THAT(with({.sequence = 1, .elements = 5, .kind = kAllReduce}, kWorld), IsEmpty());
  EXPECT_THAT(with({.sequence = 1, .elements = 4, .kind = kBarrier}, kWorld), IsEmpty());
  EXPECT_THAT(
      with({.sequence = 1, .elements = 4, .kind = kAllReduce}, {.size = 2, .first_rank = 2}),
      IsEmpty());
}

TEST(CollectiveMatchTest, GroupsOfTheSameRanksAreDistinguishedByTheirNames) {
  const Communicator tp = {.size = 2, .first_rank = 0, .rank_stride = 1, .id = "11", .name = "TP"};
  const Communicator dp = {.size = 2, .first_rank = 0, .rank_stride = 1, .id = "21", .name = "DP"};
  // Each rank begins with another one, and no collective has a number.
  const auto matches =
      Match({Ranks({{.start_ns = 1, .step = 1, .communicator = 0, .kind = kAllReduce},
                    {.start_ns = 2, .step = 1, .communicator = 1, .kind = kAllReduce}},
                   {tp, dp}),
             Ranks({{.start_ns = 1, .step = 1, .communicator = 0, .kind = kAllReduce},
                    {.start_ns = 2, .step = 1, .communicator = 1, .kind = kAllReduce}},
                   {dp, tp})});
  ASSERT_THAT(matches, SizeIs(2));
  for (const MatchedCollective& match : matches) {
    EXPECT_EQ(match.parts[0].row, 1 - match.parts[1].row);
  }
  EXPECT_NE(matches[0].communicator, matches[1].communicator);
}

TEST(CollectiveMatchTest, NamesThatEachRankHasOfItsOwnSayNothing) {
  const CollectiveRow row = {.sequence = 4, .kind = kAllReduce};
  EXPECT_THAT(Match({Ranks({row}, {{.size = 2, .first_rank = 0, .rank_stride = 1, .id = "7"}}),
                     Ranks({row}, {{.size = 2, .first_rank = 0, .rank_stride = 1, .id = "9"}})}),
              SizeIs(1));
  // A rank whose summary has no names.
  EXPECT_THAT(Match({Ranks({row}, {{.size = 2, .first_rank = 0, .rank_stride = 1, .id = "7"}}),
                     Ranks({row}, {{.size = 2, .first_rank = 0, .rank_stride = 1}})}),
              SizeIs(1));
}

TEST(CollectiveMatchTest, ANameInCommonDoesNotMakeTheOthersCount) {
  const auto group = [](std::string id, std::string name) {
    return Communicator{
        .size = 2, .first_rank = 0, .rank_stride = 1, .id = std::move(id), .name = std::move(name)};
  };
  const CollectiveRow of_world = {.sequence = 4, .communicator = 0, .kind = kAllReduce};
  const CollectiveRow of_other = {.sequence = 4, .communicator = 1, .kind = kAllReduce};
  // The group of all ranks and that for data have the same ranks.
  const Communicator world = group("0", "default_pg");
  for (const std::string_view name : {"DP", ""}) {
    const auto matches =
        Match({Ranks({of_world, of_other}, {world, group("5", std::string(name))}),
               Ranks({of_world, of_other}, {world, group("6", std::string(name))})});
    ASSERT_THAT(matches, SizeIs(2)) << name;
    EXPECT_NE(matches[0].communicator, matches[1].communicator) << name;
    for (const MatchedCollective& match : matches) {
      EXPECT_EQ(match.parts[0].row, match.parts[1].row) << name;
    }
  }
  // Of names that the program gave, and ids, the first tell more.
  const CollectiveRow second = {.sequence = 4, .communicator = 1, .kind = kAllReduce};
  const CollectiveRow first = {.sequence = 4, .communicator = 0, .kind = kAllReduce};
  const auto matches = Match({Ranks({first, second}, {group("5", "DP"), group("6", "TP")}),
                              Ranks({first, second}, {group("5", "TP"), group("6", "DP")})});
  ASSERT_THAT(matches, SizeIs(2));
  for (const MatchedCollective& match : matches) {
    EXPECT_EQ(match.parts[0].row, 1 - match.parts[1].row);
  }
  // Without a name of the program on one rank, the id is left.
  EXPECT_THAT(Match({Ranks({first, second}, {group("5", "DP"), group("6", "TP")}),
                     Ranks({first, second}, {group("5", ""), group("6", "")})}),
              SizeIs(2));
}

// Of groups of two that do not say which ranks they are of, four look like one.
TEST(CollectiveMatchTest, MoreRanksThanTheCommunicatorHasAreNotOneCollective) {
  const CollectiveTable rank =
      Ranks({{.sequence = 1, .elements = 4, .kind = kAllReduce}}, {{.size = 2}});
  EXPECT_THAT(Match({rank, rank}), SizeIs(1));
  EXPECT_THAT(Match({rank, rank, rank, rank}), IsEmpty());
}

TEST(CollectiveMatchTest, WhatOnlyItsCallIsKnownOfIsLeftOut) {
  const CollectiveTable table =
      Ranks({{.sequence = 1, .kind = kAllReduce, .has_completion = false}}, {kWorld});
  EXPECT_THAT(Match({table, table}), IsEmpty());
}

TEST(CollectiveMatchTest, WithoutNumbersTheOrderInTheStepMatches) {
  const auto matches =
      Match({Ranks({{.step = 3, .kind = kBarrier},
                    {.step = 3, .kind = kAllReduce},
                    {.step = 3, .kind = kBarrier},
                    {.step = 4, .kind = kBarrier}},
                   {{}}),
             Ranks({{.step = 4, .kind = kBarrier}}, {{}}),
             Ranks({{.step = 3, .kind = kBarrier}, {.step = 3, .kind = kBarrier}}, {{}})});
  ASSERT_THAT(matches, SizeIs(3));
  EXPECT_EQ(matches[0].parts[1].member, 2u);
  EXPECT_EQ(matches[1].parts[0].row, 2u);
  EXPECT_EQ(matches[2].parts[1].member, 1u);
}

TEST(CollectiveMatchTest, WhatARankHasTwiceIsLeftOut) {
  EXPECT_THAT(Match({Ranks({{.sequence = 1, .kind = kBarrier}, {.sequence = 1, .kind = kBarrier}},
                           {kWorld}),
                     Ranks({{.sequence = 1, .kind = kBarrier}}, {kWorld})}),
              IsEmpty());
}

TEST(CollectiveMatchTest, WhereSomeTellTheirCommunicatorOthersAreLeftOut) {
  EXPECT_THAT(Match({Ranks({{.step = 1, .kind = kBarrier}}, {{}}),
                     Ranks({{.step = 1, .kind = kBarrier},
                            {.sequence = 9, .communicator = 1, .kind = kAllReduce}},
                           {{}, kWorld})}),
              IsEmpty());
}

}  // namespace
}  // namespace profd::report
