// Steps of a program that marks none, in the whole library: who marks, what the page shows, and
// what a capture counts.
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <optional>
#include <thread>

#include "client_lib/core/hot_state.h"
#include "client_lib/core/steps.h"
#include "client_lib/core/thread_state.h"
#include "client_lib/torch/steps.h"
#include "client_lib/torch/torch_api.h"
#include "tests/client_lib/torch/torch_fixture.h"

namespace profd::testing {
namespace {

using ::testing::ElementsAre;
using wire::OperatorsMode;
using wire::Phase;
using wire::StepSource;

class TorchStepsTest : public TorchTest {
 protected:
  static std::vector<uint64_t> StepsOf(const CaptureContents& contents) {
    std::vector<uint64_t> steps;
    for (const auto& step : contents.steps) steps.push_back(step.step);
    return steps;
  }
};

TEST_F(TorchStepsTest, AStepBeginsWhereAnOptimizersStepEnds) {
  StartChild();
  EXPECT_EQ(source(), StepSource::kNone);
  Do("AAA");
  EXPECT_EQ(steps(), 3u);
  EXPECT_EQ(source(), StepSource::kOptimizer);
  EXPECT_EQ(target_->status_page().step_thread.load(), static_cast<uint32_t>(child_->pid()));
}

TEST_F(TorchStepsTest, AWindowHoldsTheStepsOfOptimizers) {
  StartChild();
  Do("A");
  auto capture = target_->ArmTorch(Wants(OperatorsMode::kOff));
  capture->Fire(Steps(2));
  capture->WaitPhase(Phase::kWaiting);
  Do("wAwAwwAw");
  const CaptureContents contents = capture->Finish();
  EXPECT_THAT(StepsOf(contents), ElementsAre(1u, 2u, 3u));
  EXPECT_EQ(contents.CountRanges("work"), 3u);
  EXPECT_EQ(contents.torch_status().step_source, static_cast<uint32_t>(StepSource::kOptimizer));
}

TEST_F(TorchStepsTest, BetterSourcesTakeOverForGoodWithNumbersOfTheirOwn) {
  StartChild();
  Do("BB");
  EXPECT_EQ(source(), StepSource::kDataLoader);
  EXPECT_EQ(steps(), 2u);
  Do("PPB");
  EXPECT_EQ(source(), StepSource::kProfiler);
  EXPECT_EQ(steps(), 2u);
  EXPECT_EQ(target_->status_page().source_first_step.load(), 0u);
  Do("APB");
  EXPECT_EQ(source(), StepSource::kOptimizer);
  EXPECT_EQ(steps(), 1u);
  EXPECT_EQ(target_->status_page().source_first_step.load(), 0u);
  Do("AsAPB");
  EXPECT_EQ(source(), StepSource::kMarks);
  EXPECT_EQ(steps(), 1u);
  EXPECT_EQ(target_->status_page().source_first_step.load(), 0u);
}

// A statistic over the data, or a validation, and then the training.
TEST_F(TorchStepsTest, BatchesBeforeTheTrainingAreNotInTheNumbersOfItsSteps) {
  StartChild();
  Do(std::string(57, 'B'));
  EXPECT_EQ(steps(), 57u);
  Do("BABABA");
  EXPECT_EQ(steps(), 3u) << "three steps were made";
}

// Ranks of tensor and pipeline parallelism take no batches; captures of a group begin at one
// number.
TEST_F(TorchStepsTest, RanksWithAndWithoutADataLoaderHaveTheSameNumbers) {
  for (const char* training : {"AAA", "BABABA", "BBBABABA", "PAPAPA", "BPABPABPA"}) {
    StartChild();
    Do(training);
    EXPECT_EQ(steps(), 3u) << training;
    EXPECT_EQ(target_->status_page().source_first_step.load(), 0u) << training;
  }
}

TEST_F(TorchStepsTest, TheTimesOfRenumberedStepsAreTheirOwn) {
  StartChild();
  Do(std::string(70, 'B'));
  const wire::StatusPage& page = target_->status_page();
  const uint64_t last_batch = page.steps[69 % wire::kStatusPageSteps].ticks.load();
  Do("AAA");
  ASSERT_EQ(page.step_mark_count.load(), 3u);
  for (const uint64_t step : {0, 1, 2}) EXPECT_EQ(page.steps[step].step_plus_1.load(), step + 1);
  EXPECT_LT(last_batch, page.steps[0].ticks.load());
  EXPECT_LT(page.steps[0].ticks.load(), page.steps[1].ticks.load());
  EXPECT_LT(page.steps[1].ticks.load(), page.steps[2].ticks.load());
}

TEST_F(TorchStepsTest, ACaptureKeepsItsNumbersAndALaterOneHasThoseOfTheTraining) {
  StartChild([] { AttachFakeTorch(); },
             [](char, Parent&) {
               while (client::StepNumbersAreKept()) usleep(1'000);
             });
  Do("BBBBB");
  auto first = target_->ArmTorch(Wants(OperatorsMode::kOff));
  first->Fire(Steps(3));
  first->WaitPhase(Phase::kWaiting);
  Do("BAAAA");
  EXPECT_THAT(StepsOf(first->Finish()), ElementsAre(5u, 6u, 7u, 8u));
  auto second = target_->ArmTorch(Wants(OperatorsMode::kOff));
  Do("A");
  EXPECT_EQ(steps(), 11u) << "a capture is armed";
  second->Fire(Steps(1));
  second->WaitPhase(Phase::kWaiting);
  Do("AA");
  second->Finish();
  Do("d");  // No capture is armed.
  Do("A");
  EXPECT_EQ(steps(), 8u) << "eight steps were made";
  auto third = target_->ArmTorch(Wants(OperatorsMode::kOff));
  third->Fire(Steps(1));
  third->WaitPhase(Phase::kWaiting);
  Do("AA");
  EXPECT_THAT(StepsOf(third->Finish()), ElementsAre(8u, 9u));
}

// A thread that is inside a write keeps the agent from ending the window.
class HeldWriter {
 public:
  HeldWriter()
      : thread_([this] {
          client::WriteGuard guard(client::CurrentThreadOrNew());
          is_inside_ = true;
          is_inside_.notify_one();
          may_end_.wait(false);
        }) {
    is_inside_.wait(false);
  }
  ~HeldWriter() {
    may_end_ = true;
    may_end_.notify_one();
    thread_.join();
  }

 private:
  std::atomic<bool> is_inside_{false};
  std::atomic<bool> may_end_{false};
  std::thread thread_;
};

TEST_F(TorchStepsTest, ACaptureThatIsStoppedEarlyHasItsNumbersUntilItIsReleased) {
  StartChild([] { AttachFakeTorch(); },
             [](char letter, Parent&) {
               static std::optional<HeldWriter> writer;
               if (letter == 'h') {
                 writer.emplace();
               } else if (letter == 'm') {  // Between the flag's end and the window's.
                 while (client::g_hot.session.load() != nullptr) usleep(100);
                 RunUserScope("Optimizer.step#Adam.step");
                 writer.reset();
               } else if (letter == 'l') {  // What Python reads for its labels.
                 CHILD_EXPECT(profd_step_count() == 10);
               } else {
                 while (client::StepNumbersAreKept()) usleep(1'000);
               }
             });
  Do("BBBBB");
  auto capture = target_->ArmTorch(Wants(OperatorsMode::kOff));
  capture->Fire(Steps(100));
  capture->WaitPhase(Phase::kWaiting);
  Do("BAAh");
  target_->Send(wire::FrameType::kStop, wire::StopBody{capture->number()});
  Do("m");
  target_->Expect(wire::FrameType::kDrained);
  Do("Al");
  EXPECT_EQ(steps(), 10u);
  const CaptureContents contents = capture->Read();
  EXPECT_THAT(StepsOf(contents), ElementsAre(5u, 6u, 7u));
  ASSERT_EQ(contents.windows.size(), 1u);
  EXPECT_EQ(contents.windows[0].first_step, 5u);
  EXPECT_EQ(contents.windows[0].end_step, 7u) << "the mark after the flag is not in the window";
  capture->Release();
  Do("dA");
  EXPECT_EQ(steps(), 5u) << "no capture is armed: five steps were made";
}

TEST_F(TorchStepsTest, ANewDaemonSeesTheNumbersOfTheTraining) {
  StartChild([] { AttachFakeTorch(); }, [](char, Parent&) { WaitConnected(); });
  Do("BBBBBBA");
  target_.reset();
  target_ = daemon_.WaitTarget();
  child_->Tell('r');
  child_->Await('r');
  EXPECT_EQ(target_->hello().step_mark_count, 1u);
  EXPECT_EQ(steps(), 1u);
  EXPECT_EQ(target_->status_page().source_first_step.load(), 0u);
  Do("A");
  EXPECT_EQ(steps(), 2u);
}

TEST_F(TorchStepsTest, BatchesAreCountedOnAnyThread) {
  StartChild();
  Do("BBbAB");
  EXPECT_EQ(target_->status_page().batch_count.load(), 4u);
}

TEST_F(TorchStepsTest, ABetterSourceMayHaveAnotherThread) {
  StartChild();
  Do("B");
  EXPECT_EQ(target_->status_page().step_thread.load(), static_cast<uint32_t>(child_->pid()));
  std::string commands = "a";
  Do(commands);
  EXPECT_EQ(source(), StepSource::kOptimizer);
  EXPECT_NE(target_->status_page().step_thread.load(), static_cast<uint32_t>(child_->pid()));
  EXPECT_EQ(steps(), 1u);
}

TEST_F(TorchStepsTest, OptimizersOfOtherThreadsMakeForeignMarks) {
  StartChild();
  Do("Aaa");
  EXPECT_EQ(steps(), 1u);
  EXPECT_EQ(target_->status_page().foreign_step_mark_count.load(), 2u);
}

TEST_F(TorchStepsTest, APageOfANewDaemonShowsSourceAndBatches) {
  StartChild([] { AttachFakeTorch(); }, [](char, Parent&) { WaitConnected(); });
  Do("BA");
  target_.reset();
  target_ = daemon_.WaitTarget();
  child_->Tell('r');
  child_->Await('r');
  EXPECT_EQ(source(), StepSource::kOptimizer);
  EXPECT_EQ(target_->status_page().batch_count.load(), 1u);
  EXPECT_EQ(steps(), 1u);
}

TEST_F(TorchStepsTest, ACaptureCanCountStepsOfAnotherSource) {
  StartChild();
  Do("BAA");
  auto capture = target_->ArmTorch(Wants(OperatorsMode::kOff, 0, StepSource::kDataLoader));
  Do("B");  // Before the plan: no step of the capture.
  capture->Fire(Steps(2, 0, 1));
  capture->WaitPhase(Phase::kWaiting);
  Do("wBwAwBwAwBwAB");
  const CaptureContents contents = capture->Finish();
  // One waited for, two recorded, from 0 on; the process's own go on by themselves.
  EXPECT_THAT(StepsOf(contents), ElementsAre(1u, 2u, 3u));
  EXPECT_EQ(contents.CountRanges("work"), 3u);
  EXPECT_EQ(contents.torch_status().step_source, static_cast<uint32_t>(StepSource::kDataLoader));
  EXPECT_EQ(source(), StepSource::kOptimizer);
  EXPECT_EQ(steps(), 5u);
}

TEST_F(TorchStepsTest, ACaptureCanCountTheProgramsOwnMarks) {
  StartChild();
  Do("s");
  auto capture = target_->ArmTorch(Wants(OperatorsMode::kOff, 0, StepSource::kMarks));
  capture->Fire(Steps(1));
  capture->WaitPhase(Phase::kWaiting);
  Do("swsw");
  const CaptureContents contents = capture->Finish();
  EXPECT_THAT(StepsOf(contents), ElementsAre(0u, 1u));
  EXPECT_EQ(contents.CountRanges("work"), 1u);
  EXPECT_EQ(steps(), 3u);
}

TEST_F(TorchStepsTest, TheRangeAtWhoseBeginAWindowOpensIsRecorded) {
  StartChild();
  constexpr char kBatch[] = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";
  for (const bool wants_operators : {true, false}) {
    auto capture =
        target_->ArmTorch(Wants(wants_operators ? OperatorsMode::kNames : OperatorsMode::kOff));
    capture->Fire(Steps(2));
    capture->WaitPhase(Phase::kWaiting);
    Do("BBB");
    const CaptureContents contents = capture->Finish();
    // The others are the operators' observer's, which this child has not.
    ASSERT_EQ(contents.CountRanges(kBatch), wants_operators ? 1u : 0u);
    for (const auto& range : contents.ranges) {
      EXPECT_GE(range.start_ticks, contents.steps[0].ticks);
    }
  }
}

TEST_F(TorchStepsTest, ASourceThatIsNoneOfOursIsTheProcesssOwn) {
  StartChild();
  auto wanted = Wants(OperatorsMode::kOff);
  wanted.step_source = wire::kMaxStepSource + 1;
  auto capture = target_->ArmTorch(wanted);
  capture->Fire(Steps(1));
  capture->WaitPhase(Phase::kWaiting);
  Do("AA");
  const CaptureContents contents = capture->Finish();
  EXPECT_THAT(StepsOf(contents), ElementsAre(0u, 1u));
  EXPECT_EQ(contents.torch_status().step_source, static_cast<uint32_t>(StepSource::kOptimizer));
}

TEST_F(TorchStepsTest, RangesOfOtherNamesAreNoSteps) {
  StartChild([] { AttachFakeTorch(); },
             [](char, Parent&) {
               for (const char* name : {"Optimizer.zero_grad#Adam.zero_grad", "Optimizer.step",
                                        "forward", "ProfilerStep", ""}) {
                 RunUserScope(name);
               }
             });
  Do("xx");
  EXPECT_EQ(steps(), 0u);
  EXPECT_EQ(source(), StepSource::kNone);
}

TEST_F(TorchStepsTest, AForkedChildHasStepsOfItsOwn) {
  StartChild([] { AttachFakeTorch(); },
             [](char, Parent&) {
               const pid_t pid = fork();
               if (pid == 0) {
                 RunUserScope("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__");
                 WaitConnected();
                 _exit(0);
               }
               CHILD_EXPECT(WaitForExit(pid) == 0);
             });
  Do("AAA");
  child_->Tell('f');
  const auto grandchild = daemon_.WaitTarget();
  grandchild->WaitStepMarks(1);
  EXPECT_EQ(SourceOf(*grandchild), StepSource::kDataLoader);
  child_->Await('f');
  EXPECT_EQ(steps(), 3u);
}

// Python's thread, which says that there are two Adams.
class Counter {
 public:
  void Start() {
    pthread_t thread;
    pthread_create(
        &thread, nullptr,
        [](void* self) -> void* {
          uint32_t wanted = 0;
          while (profd_torch_wait(&wanted) != PROFD_TORCH_COUNT) {
          }
          profd_torch_optimizers("SGD", 1);
          profd_torch_optimizers("Adam", 2);
          static_cast<Counter*>(self)->was_asked_ = true;
          static_cast<Counter*>(self)->was_asked_.notify_all();
          return nullptr;
        },
        this);
  }
  void Await() { was_asked_.wait(false); }

 private:
  std::atomic<bool> was_asked_{false};
};

TEST_F(TorchStepsTest, OptimizersOfOneNameAreCountedOnceByPython) {
  static Counter counter;
  StartChild(
      [] {
        AttachFakeTorch();
        counter.Start();
      },
      [](char letter, Parent&) {
        if (letter == 'Q') return counter.Await();
        MakeNodes(letter == 'D' ? 52 : 31);
        RunUserScope("Optimizer.step#Adam.step");
      });
  for (int i = 0; i < 20; ++i) Do("DG");
  Do("Q");
  for (int i = 0; i < 20; ++i) Do("DG");
  const uint64_t before = steps();
  for (int i = 0; i < 20; ++i) Do("DG");
  EXPECT_EQ(steps(), before + 20);
}

// torch's hooks tell of an optimizer 1 ('1', or 'e' and it raises), and of one within 2 ('2'). The
// observer must be there ('o'), or not ('0').
void DoHooked(char letter) {
  switch (letter) {
    case '1':
      return RunHookedStep(1);
    case '2':
      return RunHookedStep(2, [] { RunHookedStep(1); });
    case 'e':
      return RunUserScope("Optimizer.step#Adam.step",
                          [] { client::torch::OnOptimizerHook(0x1000, 1, true); });
    case 'l':  // Until the library has left the capture.
      while (CallbackCount() != 0) RunHookedStep(1);
      return;
    case '0':
      CHILD_EXPECT(CallbackCount() == 0);
      return;
    default:
      CHILD_EXPECT(CallbackCount() == 1);
  }
}

class HookedStepsTest : public TorchStepsTest {
 protected:
  void SetUp() override {
    StartChild([] { AttachFakeTorch(); }, [](char letter, Parent&) { DoHooked(letter); });
  }
};

TEST_F(HookedStepsTest, TheObserverGoesOnceHooksHaveToldOfAStep) {
  Do("o1o1010");
  EXPECT_EQ(steps(), 3u);
  EXPECT_EQ(source(), StepSource::kOptimizer);
}

TEST_F(HookedStepsTest, AnOptimizerWithinAnotherIsTheSameStep) {
  Do("2220");
  EXPECT_EQ(steps(), 3u);
}

TEST_F(HookedStepsTest, TheObserverStaysWithoutHooksAndIgnoresThemLater) {
  Do("AoAo1o1");
  EXPECT_EQ(steps(), 4u);
}

TEST_F(HookedStepsTest, AnObserverThatStaysIsInTheMetadata) {
  Do("B");
  EXPECT_EQ(target_->metadata().count("torch_observer"), 0u) << "no optimizer has made a step";
  Do("A");
  while (target_->metadata().count("torch_observer") == 0) {
    target_->Expect(wire::FrameType::kMetadata);
  }
  EXPECT_EQ(target_->metadata().at("torch_observer"), "stays");
}

TEST_F(HookedStepsTest, AFirstStepThatRaisesDecidesNothing) {
  Do("eoeo");
  EXPECT_EQ(steps(), 0u);
  Do("1o1010");
  EXPECT_EQ(steps(), 2u) << "one that raised costs one step";
  EXPECT_EQ(target_->metadata().count("torch_observer"), 0u);
}

TEST_F(HookedStepsTest, TheObserverStaysUntilThereIsAnOptimizer) {
  Do("BoBoB");
  EXPECT_EQ(source(), StepSource::kDataLoader);
  Do("11");
  EXPECT_EQ(source(), StepSource::kOptimizer);
  EXPECT_EQ(steps(), 2u);
  Do("0B");
  EXPECT_EQ(target_->status_page().batch_count.load(), 3u) << "nobody looks";
}

TEST_F(HookedStepsTest, AStepThatRaisesCostsOneStep) {
  Do("11e111");
  EXPECT_EQ(steps(), 4u);
}

TEST_F(HookedStepsTest, ACaptureHasTheObserverAndTheSameSteps) {
  Do("110");
  auto capture = target_->ArmTorch(Wants(OperatorsMode::kNames));
  Do("o1o");  // Before the plan.
  capture->Fire(Steps(2));
  capture->WaitPhase(Phase::kWaiting);
  Do("w1Bw1Bww1w");
  const CaptureContents contents = capture->Finish();
  EXPECT_THAT(StepsOf(contents), ElementsAre(3u, 4u, 5u));
  EXPECT_EQ(contents.CountRanges("work"), 3u);
  EXPECT_EQ(target_->status_page().batch_count.load(), 2u);
  Do("l");
  const uint64_t before = steps();
  Do("110");
  EXPECT_EQ(steps(), before + 2);
}

TEST_F(HookedStepsTest, EachOfManyCapturesHasTheObserver) {
  Do("110");
  for (int i = 0; i < 10; ++i) {
    auto capture = target_->ArmTorch(Wants(OperatorsMode::kNames));
    capture->Fire(Steps(1));
    capture->WaitPhase(Phase::kWaiting);
    Do("o11");
    const CaptureContents contents = capture->Finish();
    EXPECT_EQ(StepsOf(contents).size(), 2u);
    Do("l110");
  }
}

TEST_F(HookedStepsTest, OtherThreadsMakeForeignMarks) {
  child_.reset();
  StartChild([] { AttachFakeTorch(); },
             [](char letter, Parent&) {
               if (letter == 't') {
                 std::thread([] { RunHookedStep(7); }).join();
               } else {
                 DoHooked(letter);
               }
             });
  Do("1t0t");
  EXPECT_EQ(steps(), 1u);
  EXPECT_EQ(target_->status_page().foreign_step_mark_count.load(), 2u);
}

// A second thread of the program, which stays.
class Worker {
 public:
  void Run(const std::function<void()>& work) {
    work_ = &work;
    turn_.store(1, std::memory_order_release);
    turn_.notify_all();
    turn_.wait(1, std::memory_order_acquire);
  }

 private:
  std::atomic<int> turn_{0};
  const std::function<void()>* work_ = nullptr;
  std::thread thread_{[this] {
    for (;;) {
      turn_.wait(0, std::memory_order_acquire);
      (*work_)();
      turn_.store(0, std::memory_order_release);
      turn_.notify_all();
    }
  }};
};

// The step of an optimizer that wraps another one, with or without torch's hooks.
void RunWrappedStep(bool with_hooks) {
  if (with_hooks) return RunHookedStep(8, [] { RunHookedStep(7); });
  RunUserScope("Optimizer.step#Wrapper.step", [] { RunUserScope("Optimizer.step#Adam.step"); });
}

// Adds letters: 'x' and 'y' are a wrapped step, with hooks and without, on a second thread; 'X' and
// 'Y' the same while the main thread is in a step of its own.
class TwoThreadsTest : public TorchStepsTest {
 protected:
  void SetUp() override {
    StartChild([] { AttachFakeTorch(); },
               [](char letter, Parent&) {
                 static Worker& worker = *new Worker();
                 const bool with_hooks = letter == 'x' || letter == 'X';
                 const auto step = [&] { worker.Run([&] { RunWrappedStep(with_hooks); }); };
                 if (letter == 'x' || letter == 'y') return step();
                 if (with_hooks) return RunHookedStep(1, step);
                 RunUserScope("Optimizer.step#SGD.step", step);
               });
  }
  uint64_t foreign_marks() { return target_->status_page().foreign_step_mark_count.load(); }
};

TEST_F(TwoThreadsTest, AThreadThatTrainsHasItsStepsAlsoIfAnotherOneLoads) {
  for (const char* const steps_of_second : {"BxxBxBxx", "ByyByByy"}) {
    SetUp();
    Do(steps_of_second);
    EXPECT_EQ(source(), StepSource::kOptimizer);
    EXPECT_EQ(steps(), 5u) << "a wrapper and what it wraps are one step";
    EXPECT_EQ(foreign_marks(), 0u);
  }
}

TEST_F(TwoThreadsTest, StepsAreThoseOfTheThreadThatBeganOneFirst) {
  for (const char* const steps_of_both : {"XXXXX", "YYYYY"}) {
    SetUp();
    Do(steps_of_both);
    EXPECT_EQ(steps(), 5u);
    EXPECT_EQ(target_->status_page().step_thread.load(), static_cast<uint32_t>(child_->pid()));
    EXPECT_GE(foreign_marks(), 5u);
  }
}

TEST_F(TwoThreadsTest, ACaptureSaysThatAnotherThreadStepped) {
  Do("X");
  auto capture = target_->ArmTorch(Wants(OperatorsMode::kOff));
  capture->Fire(Steps(2));
  capture->WaitPhase(Phase::kWaiting);
  Do("XXXX");
  const CaptureContents contents = capture->Finish();
  EXPECT_THAT(StepsOf(contents), ElementsAre(1u, 2u, 3u));
  EXPECT_GE(contents.foreign_step_marks, 3u);
}

// What operators.cc relies on.
TEST_F(TorchStepsTest, MarksLieBeforeAndBehindWhatAnotherObserverWrites) {
  StartChild([] {
    client::torch::ObserveSteps(FakeTorch());
    client::torch::RecordFunctionCallback operators{};
    operators.scopes[7] = 1;
    operators.start = [](const void* range) -> decltype(operators.start(nullptr)) {
      client::torch::DeferStepEnd(range, FakeTorch().name(range));
      profd_range_begin_id(profd_intern("operator", 8));
      return {};
    };
    operators.end = [](const void* range, void*) {
      profd_range_end_id();
      client::torch::EndDeferredStep(range);
    };
    FakeTorch().add_callback(operators);
  });
  auto capture = target_->Arm();
  capture->Fire(Steps(3));
  capture->WaitPhase(Phase::kWaiting);
  Do("BABB");  // 0 begins at the batch, 1 at the optimizer's end.
  const CaptureContents contents = capture->Finish();
  ASSERT_THAT(StepsOf(contents), ElementsAre(0u, 1u));
  std::vector<uint64_t> starts;
  for (const auto& range : contents.ranges) {
    if (range.name == "operator") starts.push_back(range.start_ticks);
  }
  ASSERT_EQ(starts.size(), 4u);
  const auto& batch = contents.ranges[0];
  const auto& optimizer = contents.ranges[1];
  EXPECT_LE(contents.steps[0].ticks, batch.start_ticks);
  EXPECT_LE(optimizer.start_ticks + optimizer.duration_ticks, contents.steps[1].ticks);
}

}  // namespace
}  // namespace profd::testing
