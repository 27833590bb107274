// Where steps begin, by what optimizers and DataLoaders do. Times are of a clock of our own.
#include "client_lib/torch/step_detector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace profd::client::torch {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint64_t kAdam = 1;
constexpr uint64_t kSgd = 2;
constexpr uint64_t kSparseAdam = 3;

// Runs loops, and remembers after which calls a step began.
class StepDetectorTest : public ::testing::Test {
 protected:
  // Without autograd, which is all that is seen of a torch that does not tell of it.
  void Compute(uint64_t ticks) { now_ += ticks; }

  // A forward and a backward pass.
  void Train(uint64_t ticks, uint64_t nodes = 30) {
    Compute(ticks);
    nodes_ += nodes;
  }

  // One call of step(), named `call` in what begun() returns.
  void Step(uint64_t name, const std::string& call, uint64_t ticks = 100) {
    detector_.OnOptimizerBegin(now_);
    now_ += ticks;
    if (detector_.OnOptimizerEnd(name, now_, nodes_, told_count_)) begun_.push_back(call);
    if (!detector_.WantsCounts()) return;
    ++questions_;
    told_count_ = optimizer_count_;
  }

  // The same, where torch's hooks tell which optimizer it is.
  void Call(uint64_t optimizer, const std::string& call, uint64_t ticks = 100) {
    const uint64_t begin = now_;
    now_ += ticks;
    if (detector_.OnOptimizerCall({kAdam, optimizer, begin, now_}, nodes_)) begun_.push_back(call);
  }

  void Batch(const std::string& call, uint64_t ticks = 50) {
    if (detector_.OnBatchBegin(now_, nodes_)) begun_.push_back(call);
    now_ += ticks;
    detector_.OnBatchEnd(now_);
  }

  // What has begun since this was last asked.
  std::vector<std::string> begun() { return std::exchange(begun_, {}); }

  StepDetector detector_;
  uint64_t now_ = 1;
  uint64_t nodes_ = 0;
  uint32_t optimizer_count_ = kUnknownCount;  // What Python would say.
  uint32_t told_count_ = kUnknownCount;
  int questions_ = 0;
  std::vector<std::string> begun_;
};

constexpr uint64_t kForward = 10'000;

TEST_F(StepDetectorTest, EachStepOfTheOneOptimizerIsAStep) {
  for (int i = 0; i < 100; ++i) {
    Compute(kForward);
    Step(kAdam, "adam");
  }
  EXPECT_EQ(begun().size(), 100u);
}

TEST_F(StepDetectorTest, AnOptimizerWithinAnotherIsTheSameStep) {
  for (int i = 0; i < 3; ++i) {
    Compute(kForward);
    detector_.OnOptimizerBegin(now_);
    Step(kAdam, "inner");
    now_ += 10;
    if (detector_.OnOptimizerEnd(kSgd, now_, nodes_)) begun_.emplace_back("outer");
  }
  EXPECT_THAT(begun(), ElementsAre("outer", "outer", "outer"));
}

TEST_F(StepDetectorTest, AnEndWithoutABeginIsNoStep) {
  EXPECT_FALSE(detector_.OnOptimizerEnd(kAdam, 100, 0));
  Compute(kForward);
  Step(kAdam, "adam");
  EXPECT_THAT(begun(), ElementsAre("adam"));
}

TEST_F(StepDetectorTest, OfTwoOptimizersTheLastOfThePeriodLeads) {
  for (int i = 0; i < 3; ++i) {
    Compute(kForward);
    Step(kAdam, "adam");
    Compute(kForward);
    Step(kSgd, "sgd");
  }
  // Two periods show it.
  EXPECT_THAT(begun(), ElementsAre("adam", "adam", "sgd"));
  for (int i = 0; i < 20; ++i) {
    Compute(kForward);
    Step(kAdam, "adam");
    Compute(kForward);
    Step(kSgd, "sgd");
  }
  EXPECT_EQ(begun(), std::vector<std::string>(20, "sgd"));
}

TEST_F(StepDetectorTest, OfThreeOptimizersTheLastOfThePeriodLeadsForGood) {
  for (int i = 0; i < 30; ++i) {
    Compute(kForward);
    Step(kAdam, "adam");
    Compute(kForward);
    Step(kSgd, "sgd");
    Compute(kForward);
    Step(kSparseAdam, "sparse");
    if (i == 9) begun();
  }
  EXPECT_EQ(begun(), std::vector<std::string>(20, "sparse"));
}

TEST_F(StepDetectorTest, TheOptimizerThatFiresMoreOftenLeads) {
  for (int i = 0; i < 6; ++i) {
    Compute(kForward);
    Step(kSgd, "generator");
    for (int k = 0; k < 5; ++k) {
      Compute(kForward);
      Step(kAdam, "critic");
    }
    if (i == 1) begun();
  }
  EXPECT_EQ(begun(), std::vector<std::string>(20, "critic"));
}

TEST_F(StepDetectorTest, AnOptimizerTakesOverFromOneThatIsSilent) {
  for (int i = 0; i < 10; ++i) {
    Compute(kForward);
    Step(kAdam, "adam");
  }
  begun();
  for (int i = 0; i < 10; ++i) {
    Compute(kForward);
    Step(kSgd, "sgd");
  }
  EXPECT_EQ(begun(), std::vector<std::string>(3, "sgd"));  // From the eighth on.
}

TEST_F(StepDetectorTest, OptimizersInARowAreOneStepThatBeginsBehindTheLast) {
  for (int i = 0; i < 25; ++i) {
    Compute(kForward);
    Step(kAdam, "first");
    Compute(10);
    Step(kAdam, "second");
    if (i == 9) begun();
  }
  EXPECT_EQ(begun(), std::vector<std::string>(15, "second"));
}

// As Lightning trains: in a closure that step() calls.
TEST_F(StepDetectorTest, ABatchBetweenTwoStepsMakesThemTwoHoweverShortTheGap) {
  for (int i = 0; i < 100; ++i) {
    Compute(i < 32 ? kForward : 1);
    Batch("batch");
    Step(kAdam, "adam", kForward);
  }
  const std::vector<std::string> calls = begun();
  EXPECT_EQ(std::ranges::count(calls, "adam"), 100);
}

TEST_F(StepDetectorTest, OptimizersInARowWithALoaderAreOneStep) {
  for (int i = 0; i < 40; ++i) {
    if (i == 20) begun();
    Batch("batch");
    Compute(kForward);
    Step(kAdam, "adam");
    Step(kSgd, "sgd");
  }
  const std::vector<std::string> calls = begun();
  EXPECT_EQ(std::ranges::count(calls, "sgd"), 20);
  EXPECT_EQ(std::ranges::count(calls, "adam"), 0);
}

TEST_F(StepDetectorTest, ARowThatLacksOneOptimizerMakesItsStepLonger) {
  const auto period = [&](bool both) {
    Compute(kForward);
    Step(kAdam, "first");
    Compute(10);
    if (both) Step(kAdam, "second");
  };
  for (int i = 0; i < 10; ++i) period(true);
  begun();
  period(false);
  EXPECT_THAT(begun(), IsEmpty());
  period(true);
  EXPECT_EQ(begun().size(), 1u);
  period(true);
  EXPECT_THAT(begun(), ElementsAre("second"));
}

TEST_F(StepDetectorTest, AnEvaluationDoesNotMakeOtherGapsLookShort) {
  for (int epoch = 0; epoch < 6; ++epoch) {
    for (int i = 0; i < 5; ++i) {
      Compute(kForward);
      Step(kAdam, "adam");
    }
    Compute(100'000 * kForward);
  }
  EXPECT_EQ(begun().size(), 30u);
}

TEST_F(StepDetectorTest, CompilationsInTheFirstStepsHideNone) {
  for (const uint64_t times : {100'000, 50'000, 5, 20'000, 300}) {
    Step(kAdam, "adam");
    Compute(times * kForward);
  }
  for (int i = 0; i < 40; ++i) {
    Step(kAdam, "adam");
    Compute(kForward);
  }
  EXPECT_EQ(begun().size(), 45u);
}

// Of a machine that is busy: every other moment or so the thread has to wait for long.
class Scheduler {
 public:
  uint64_t Wait() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return (state_ >> 33) % 100 < 45 ? 200 * kForward : 0;
  }

 private:
  uint64_t state_ = 1;
};

TEST_F(StepDetectorTest, AThreadThatOftenHasToWaitLosesNoStep) {
  Scheduler scheduler;
  for (int i = 0; i < 20'000; ++i) {
    Train(kForward + scheduler.Wait());
    Step(kAdam, "adam");
  }
  EXPECT_EQ(begun().size(), 20'000u);
}

TEST_F(StepDetectorTest, AThreadThatOftenHasToWaitLosesNoBatch) {
  Scheduler scheduler;
  for (int i = 0; i < 20'000; ++i) {
    Batch("batch");
    Train(kForward + scheduler.Wait());
  }
  EXPECT_EQ(begun().size(), 20'000u);
}

// Rows that are all equal by chance are all that is left.
TEST_F(StepDetectorTest, WithoutAutogradItLosesFew) {
  Scheduler scheduler;
  for (int i = 0; i < 20'000; ++i) {
    Compute(kForward + scheduler.Wait());
    Step(kAdam, "adam");
  }
  EXPECT_GT(begun().size(), 19'500u);
}

TEST_F(StepDetectorTest, WorkBetweenStepsMakesThemTwoHoweverShortItIs) {
  for (int i = 0; i < 100; ++i) {
    Train(i % 3 == 0 ? 100 * kForward : kForward);
    Step(kAdam, "adam");
  }
  EXPECT_EQ(begun().size(), 100u);
}

TEST_F(StepDetectorTest, WorkInAClosureMakesStepsOfARowToo) {
  for (int i = 0; i < 99; ++i) {
    Compute(i % 3 == 0 ? kForward : 1);
    nodes_ += 30;  // Before its end.
    Step(kAdam, "lbfgs", kForward);
  }
  EXPECT_EQ(begun().size(), 99u);
}

TEST_F(StepDetectorTest, OptimizersInARowBehindEachOthersWorkAreOneStep) {
  Scheduler scheduler;
  for (int i = 0; i < 1000; ++i) {
    Train(kForward + scheduler.Wait());
    Step(kAdam, "first");
    Compute(10);
    Step(kAdam, "second");
    if (i == 9) begun();
  }
  EXPECT_EQ(begun(), std::vector<std::string>(990, "second"));
}

TEST_F(StepDetectorTest, RowsThatEndAreStepsAgain) {
  for (int i = 0; i < 20; ++i) {
    Train(kForward);
    Step(kAdam, "first");
    Step(kAdam, "second");
  }
  begun();
  for (int i = 0; i < 20; ++i) {
    Train(kForward);
    Step(kAdam, "only");
  }
  EXPECT_GE(begun().size(), 18u);  // The first may be a row that lacks one.
}

TEST_F(StepDetectorTest, OfTwoOptimizersOfOneNameTheLastOfTheBatchCounts) {
  for (int i = 0; i < 20; ++i) {
    Batch("batch");
    Compute(kForward);
    Step(kAdam, "discriminator");
    Compute(kForward);
    Step(kAdam, "generator");
    if (i == 2) begun();
  }
  std::vector<std::string> optimizers = begun();
  std::erase(optimizers, "batch");
  EXPECT_EQ(optimizers, std::vector<std::string>(17, "generator"));
}

TEST_F(StepDetectorTest, BatchesWithoutAStepAreGradientAccumulation) {
  for (int i = 0; i < 40; ++i) {
    Batch("batch");
    Compute(kForward);
    if (i % 4 == 3) Step(kAdam, "adam");
  }
  std::vector<std::string> all = begun();
  EXPECT_EQ(std::erase(all, "batch"), 40u);
  EXPECT_EQ(all, std::vector<std::string>(10, "adam"));
}

TEST_F(StepDetectorTest, StepsOfABatchThatVaryAllCount) {
  size_t steps = 0;
  for (const int count : {3, 5, 4, 6, 3, 7, 5}) {
    Batch("batch");
    for (int i = 0; i < count; ++i, ++steps) {
      Compute(kForward);
      Step(kAdam, "adam");
    }
  }
  std::vector<std::string> all = begun();
  std::erase(all, "batch");
  EXPECT_EQ(all.size(), steps);
}

TEST_F(StepDetectorTest, AnInferenceLoopStepsWhereTheNextBatchIsAskedFor) {
  for (int i = 0; i < 10; ++i) {
    Batch("batch");
    Compute(kForward);
  }
  EXPECT_EQ(begun(), std::vector<std::string>(10, "batch"));
}

TEST_F(StepDetectorTest, ALoopThatWaitsForDataMostOfTheTimeStepsAsWell) {
  for (int i = 0; i < 30; ++i) {
    Batch("batch", 1000 * kForward);
    Compute(kForward / 10);
  }
  EXPECT_EQ(begun().size(), 30u);
}

TEST_F(StepDetectorTest, TwoLoadersInALoopAreOneBatch) {
  for (int i = 0; i < 25; ++i) {
    Batch("first");
    Compute(1);
    Batch("second");
    Compute(kForward);
    if (i == 9) begun();
  }
  EXPECT_EQ(begun(), std::vector<std::string>(15, "first"));
}

TEST_F(StepDetectorTest, ALoaderWithinALoaderIsTheSameBatch) {
  for (int i = 0; i < 3; ++i) {
    Compute(kForward);
    if (detector_.OnBatchBegin(now_, nodes_)) begun_.emplace_back("outer");
    Batch("inner");
    detector_.OnBatchEnd(now_);
  }
  EXPECT_THAT(begun(), ElementsAre("outer", "outer", "outer"));
}

TEST_F(StepDetectorTest, MoreNamesThanAreKeptDoNotLead) {
  for (int i = 0; i < 3; ++i) {
    for (uint64_t name = 1; name <= 20; ++name) {
      Compute(kForward);
      Step(name, std::to_string(name));
    }
  }
  for (const std::string& call : begun()) EXPECT_LE(std::stoi(call), 8);
}

// A loop without a DataLoader, all of whose optimizers are Adams.
class TwinsTest : public StepDetectorTest {
 protected:
  static constexpr int kLearning = 40;  // Periods after which it must be known.

  void Call(const std::string& call, uint64_t nodes) {
    Train(kForward, nodes);
    Step(kAdam, call);
  }

  void Gan() {
    Call("discriminator", 52);
    Call("generator", 31);
  }

  template <typename Period>
  void Learn(const Period& period) {
    for (int i = 0; i < kLearning; ++i) period();
    begun();
  }
  template <typename Period>
  std::vector<std::string> BegunIn(int periods, const Period& period) {
    for (int i = 0; i < periods; ++i) period();
    return begun();
  }
};

TEST_F(TwinsTest, OfTwoThatTakeTurnsTheLastCounts) {
  optimizer_count_ = 2;
  Learn([&] { Gan(); });
  EXPECT_EQ(BegunIn(100, [&] { Gan(); }), std::vector<std::string>(100, "generator"));
  EXPECT_EQ(questions_, 1);
}

TEST_F(TwinsTest, UntilTheyAreToldApartEachCallIsAStep) {
  EXPECT_EQ(BegunIn(100, [&] { Gan(); }).size(), 200u);  // Nobody answers.
  EXPECT_EQ(questions_, 1);
}

TEST_F(TwinsTest, OneWhoseWorkAlternatesIsOne) {
  optimizer_count_ = 1;
  EXPECT_EQ(BegunIn(10'000, [&] { Gan(); }).size(), 20'000u);
  EXPECT_GT(questions_, 1);  // There may be two by now.
  EXPECT_LE(questions_, 8);
}

TEST_F(TwinsTest, OneThatWorksTheSameEachTimeIsNotAskedFor) {
  optimizer_count_ = 2;
  EXPECT_EQ(BegunIn(100, [&] { Call("adam", 30); }).size(), 100u);
  EXPECT_EQ(questions_, 0);
}

TEST_F(TwinsTest, OfThreeTheLastCounts) {
  optimizer_count_ = 3;
  const auto period = [&] {
    Call("critic", 20);
    Call("actor", 30);
    Call("temperature", 5);
  };
  Learn(period);
  EXPECT_EQ(BegunIn(50, period), std::vector<std::string>(50, "temperature"));
}

TEST_F(TwinsTest, TheOneThatIsCalledMoreOftenLeads) {
  optimizer_count_ = 2;
  const auto period = [&] {
    for (int i = 0; i < 5; ++i) Call("critic", 40);
    Call("generator", 25);
  };
  Learn(period);
  EXPECT_EQ(BegunIn(20, period), std::vector<std::string>(100, "critic"));
}

TEST_F(TwinsTest, WithOneOfAnotherNameAsWell) {
  optimizer_count_ = 2;
  const auto period = [&] {
    Gan();
    Train(kForward);
    Step(kSgd, "encoder");
  };
  Learn(period);
  EXPECT_EQ(BegunIn(50, period), std::vector<std::string>(50, "encoder"));
}

TEST_F(TwinsTest, OneOfAnotherNameMayComeFirst) {
  optimizer_count_ = 2;
  const auto period = [&] {
    Train(kForward);
    Step(kSgd, "encoder");
    Gan();
  };
  Learn(period);
  EXPECT_EQ(BegunIn(50, period), std::vector<std::string>(50, "generator"));
}

TEST_F(TwinsTest, MoreKindsOfWorkThanOptimizersAreNotToldApart) {
  optimizer_count_ = 2;
  const auto period = [&] {
    Call("discriminator", 52);
    Call("generator", 31);
    Call("discriminator", 90);  // With a penalty.
    Call("generator", 31);
  };
  Learn(period);
  EXPECT_EQ(BegunIn(50, period).size(), 200u);
}

TEST_F(TwinsTest, WorkThatVariesIsNotToldApart) {
  optimizer_count_ = 2;
  Scheduler random;
  const auto period = [&] {
    Call("encoder", 20 + random.Wait() % 77);
    Call("decoder", 120 + random.Wait() % 91);
    Call("decoder", 30);
  };
  Learn(period);
  EXPECT_EQ(BegunIn(50, period).size(), 150u);
}

TEST_F(TwinsTest, ACallWhoseWorkIsNewMakesItsStepLonger) {
  optimizer_count_ = 2;
  Learn([&] { Gan(); });
  Call("discriminator", 52);
  Call("generator", 77);
  EXPECT_THAT(begun(), IsEmpty());
  EXPECT_EQ(BegunIn(10, [&] { Gan(); }), std::vector<std::string>(10, "generator"));
}

TEST_F(TwinsTest, AnEvaluationsLoaderDoesNotMixThemUp) {
  optimizer_count_ = 2;
  const auto epoch = [&] {
    for (int i = 0; i < 50; ++i) Gan();
    for (int i = 0; i < 10; ++i) {
      Batch("batch");
      Compute(kForward);
    }
  };
  epoch();
  begun();
  epoch();
  std::vector<std::string> calls = begun();
  std::erase(calls, "batch");
  EXPECT_EQ(calls, std::vector<std::string>(50, "generator"));
}

TEST_F(TwinsTest, WhenTheWorkOfAllChangesTheyAreLearntAnew) {
  optimizer_count_ = 2;
  Learn([&] { Gan(); });
  const auto grown = [&] {
    Call("discriminator", 62);
    Call("generator", 37);
  };
  EXPECT_GE(BegunIn(kLearning, grown).size(), 35u);  // It may take each for a step a while.
  for (int i = 0; i < 400; ++i) grown();
  begun();
  EXPECT_EQ(BegunIn(50, grown), std::vector<std::string>(50, "generator"));
}

TEST_F(TwinsTest, OneThatGoesOnAloneIsCounted) {
  optimizer_count_ = 2;
  Learn([&] { Gan(); });
  // Eight calls until it has taken over, or five until its work is known to be new.
  EXPECT_GE(BegunIn(100, [&] { Call("discriminator", 52); }).size(), 93u);
  EXPECT_GE(BegunIn(100, [&] { Call("other", 99); }).size(), 95u);
}

TEST_F(TwinsTest, WithALoaderNobodyIsAsked) {
  optimizer_count_ = 2;
  for (int i = 0; i < 100; ++i) {
    Batch("batch");
    Gan();
    if (i == 2) begun();
  }
  EXPECT_EQ(questions_, 0);
  std::vector<std::string> calls = begun();
  std::erase(calls, "batch");
  EXPECT_EQ(calls, std::vector<std::string>(97, "generator"));
}

TEST_F(TwinsTest, RowsOfTwinsAreOneStep) {
  optimizer_count_ = 2;
  for (int i = 0; i < 100; ++i) {
    Train(kForward);
    Step(kAdam, "first");
    Step(kAdam, "second");
    if (i == 9) begun();
  }
  EXPECT_EQ(begun(), std::vector<std::string>(90, "second"));
  EXPECT_EQ(questions_, 0);
}

// Optimizers of one class that are known by their numbers.
class KnownOptimizersTest : public StepDetectorTest {
 protected:
  static constexpr uint64_t kD = 0x1000;
  static constexpr uint64_t kG = 0x2000;
};

TEST_F(KnownOptimizersTest, EachStepOfTheOneOptimizerIsAStep) {
  for (int i = 0; i < 100; ++i) {
    Train(kForward);
    Call(kD, "adam");
  }
  EXPECT_EQ(begun(), std::vector<std::string>(100, "adam"));
}

TEST_F(KnownOptimizersTest, OfTwoThatTakeTurnsTheLastCountsWithinAFewPeriods) {
  for (int i = 0; i < 5; ++i) {
    Train(kForward, 30);
    Call(kD, "discriminator");
    Train(kForward, 30);  // Work alone would not tell them apart.
    Call(kG, "generator");
  }
  begun();
  for (int i = 0; i < 100; ++i) {
    Train(kForward, 30);
    Call(kD, "discriminator");
    Train(kForward, 30);
    Call(kG, "generator");
  }
  EXPECT_EQ(begun(), std::vector<std::string>(100, "generator"));
}

// One for each parameter, called by hooks of the backward pass or in a row after it.
TEST_F(KnownOptimizersTest, HoweverManyTakeTurnsEachRoundIsOneStep) {
  for (const uint64_t count : {5, 9, 16, 17, 24, 200}) {
    for (const uint64_t between : {kForward / 20, uint64_t{10}}) {
      detector_ = StepDetector();
      const auto rounds = [&](int number) {
        for (int i = 0; i < number; ++i) {
          Train(kForward, 100);
          for (uint64_t k = 0; k < count; ++k) {
            Call(0x10000 + 0x100 * k, "adam", 40);
            now_ += between;
          }
        }
      };
      rounds(10);
      begun();
      rounds(50);
      EXPECT_EQ(begun().size(), 50u) << count << " " << between;
    }
  }
}

// Numbers that never come back.
TEST_F(KnownOptimizersTest, TasksMayHaveOptimizersOfTheirOwn) {
  constexpr int kTasks = 100;
  struct Program {
    int optimizers;  // Of a task.
    int steps;       // Of a task; each calls all of its optimizers.
    double least;    // Of these, as steps that are counted: some are learned from.
    double most;
  };
  for (const Program& program :
       {Program{1, 1, 1, 1}, Program{1, 10, 1, 1}, Program{2, 50, 0.8, 1.2},
        Program{2, 10, 0.4, 1.6}, Program{2, 2, 0.3, 2}, Program{3, 2, 0.3, 3}}) {
    detector_ = StepDetector();
    uint64_t next = 0x1000;
    for (int task = 0; task < kTasks; ++task, next += 0x100) {
      for (int i = 0; i < program.steps; ++i) {
        for (int k = 0; k < program.optimizers; ++k) {
          Train(kForward);
          Call(next + 0x10 * static_cast<uint64_t>(k), "adam");
        }
      }
    }
    const double ratio = static_cast<double>(begun().size()) / (kTasks * program.steps);
    EXPECT_GE(ratio, program.least) << program.optimizers << " " << program.steps;
    EXPECT_LE(ratio, program.most) << program.optimizers << " " << program.steps;
  }
}

// An outer loop's optimizers, and a new one of the same class for each of its steps.
TEST_F(KnownOptimizersTest, LastingOnesLeadNewOnes) {
  for (const int lasting : {1, 2}) {
    for (const int inner_steps : {1, 3, 10}) {
      detector_ = StepDetector();
      uint64_t next = 0x2000;
      const auto rounds = [&](int number) {
        for (int round = 0; round < number; ++round, next += 0x10) {
          for (int i = 0; i < inner_steps; ++i) {
            Train(kForward);
            Call(next, "inner");
          }
          for (int k = 0; k < lasting; ++k) {
            Train(kForward);
            Call(0x1000 + 0x10 * static_cast<uint64_t>(k), "outer");
          }
        }
      };
      rounds(10);
      begun();
      rounds(100);
      const size_t count = begun().size();
      EXPECT_GE(count, 90u) << lasting << " " << inner_steps;
      EXPECT_LE(count, 120u) << lasting << " " << inner_steps;
    }
  }
}

TEST_F(KnownOptimizersTest, BatchesThatAreSeenAtTimesDoNotMatter) {
  for (int i = 0; i < 100; ++i) {
    if (i % 10 < 3) Batch("batch");  // While a capture is armed.
    Train(kForward);
    Call(kD, "adam");
    Train(kForward);
    Call(kD, "adam");
  }
  const std::vector<std::string> all = begun();
  EXPECT_EQ(std::count(all.begin(), all.end(), "adam"), 200);
}

TEST_F(KnownOptimizersTest, ANewOptimizerForEachTrialLosesNoStep) {
  for (uint64_t trial = 0; trial < 50; ++trial) {
    for (int i = 0; i < 5; ++i) {
      Train(kForward);
      Call(0x10000 + trial * 0x100, "adam");
    }
  }
  EXPECT_EQ(begun().size(), 250u);
}

TEST_F(KnownOptimizersTest, AShortStepWithoutAutogradIsNoRow) {
  for (int i = 0; i < 100; ++i) {
    Compute(i % 5 == 0 ? kForward : 1);
    Call(kD, "adam");
  }
  EXPECT_EQ(begun().size(), 100u);
}

TEST_F(KnownOptimizersTest, RowsAreOneStep) {
  for (int i = 0; i < 40; ++i) {
    Train(kForward);
    Call(kD, "first");
    Call(kG, "second");
  }
  begun();
  for (int i = 0; i < 100; ++i) {
    Train(kForward);
    Call(kD, "first");
    Call(kG, "second");
  }
  EXPECT_EQ(begun(), std::vector<std::string>(100, "second"));
}

}  // namespace
}  // namespace profd::client::torch
