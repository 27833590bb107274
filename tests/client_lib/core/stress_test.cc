// Everything at once: threads that record, intern, come and go, while captures are armed,
// fired, stopped, and lost with their daemon. What is checked is that nothing breaks, that
// every record is whole, and (under ThreadSanitizer) that nothing races.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/client_lib/child.h"
#include "tests/fakes/fake_daemon.h"

namespace profd::testing {
namespace {

profd_name g_names[] = {PROFD_NAME_INIT("alpha"), PROFD_NAME_INIT("beta"),
                        PROFD_NAME_INIT("gamma")};
std::atomic<bool> g_stop{false};

void Annotate(uint32_t round) {
  profd_name* name = &g_names[round % 3];
  profd_range_begin(name);
  profd_instant(name);
  profd_range_begin(&g_names[(round + 1) % 3]);
  profd_counter(name, round);
  profd_range_end();
  const profd_memory_event event{round, 64, -1, -1, 0, 0, 0, 0};
  profd_alloc(&event);
  profd_free(&event);
  profd_range_end();
}

void AnnotateUntilStopped() {
  for (uint32_t round = 0; !g_stop.load(std::memory_order_relaxed); ++round) Annotate(round);
}

void InternUntilStopped() {
  for (uint32_t round = 0; !g_stop.load(std::memory_order_relaxed); ++round) {
    const std::string name = "name " + std::to_string(round % 5'000);
    profd_range_begin_id(profd_intern(name.data(), name.size()));
    profd_range_end_id();
  }
}

void ComeAndGoUntilStopped() {
  while (!g_stop.load(std::memory_order_relaxed)) {
    std::thread([] {
      profd_thread_name("short-lived");
      for (uint32_t round = 0; round < 20; ++round) Annotate(round);
      profd_range_begin(&g_names[0]);  // Left open.
    }).join();
  }
}

void StepUntilStopped() {
  while (!g_stop.load(std::memory_order_relaxed)) {
    profd_step();
    Annotate(1);
    std::this_thread::yield();
  }
}

void RunEverything(Parent& parent) {
  profd_init();
  std::vector<std::thread> threads;
  threads.emplace_back(StepUntilStopped);
  threads.emplace_back(AnnotateUntilStopped);
  threads.emplace_back(InternUntilStopped);
  threads.emplace_back(ComeAndGoUntilStopped);
  parent.Await('x');
  g_stop.store(true);
  for (std::thread& thread : threads) thread.join();
}

void RunOneCapture(FakeTarget& target, int round) {
  auto capture = target.Arm((1 + static_cast<uint64_t>(round) % 4) << 20);
  const bool by_time = round % 2 == 0;
  capture->Fire(by_time ? ByTime() : Steps(3, 1, 1, 4));
  capture->WaitPhase(by_time ? wire::Phase::kRecording : wire::Phase::kEnded);
  if (by_time) {
    WaitUntil("a chunk", [&] {
      capture->RecycleFullChunks();
      return capture->chunk_control(0).state.load() !=
             static_cast<uint32_t>(wire::ChunkState::kFree);
    });
  }
  if (round % 5 == 4) return;  // The connection is about to be lost.
  EXPECT_EQ(capture->Stop().stuck_writer_count, 0u);
  const CaptureContents contents = capture->Read();
  EXPECT_EQ(contents.phase, wire::Phase::kEnded);
  EXPECT_EQ(contents.windows.size(), by_time ? 1u : 4u);
  for (const auto& window : contents.windows) EXPECT_LE(window.start_ticks, window.end_ticks);
  capture->Release();
}

TEST(StressTest, CapturesBeginAndEndUnderThreadsThatNeverRest) {
  FakeDaemon daemon;
  Child child(daemon.directory(), RunEverything);
  auto target = daemon.WaitTarget();
  for (int round = 0; round < 20; ++round) {
    RunOneCapture(*target, round);
    if (round % 5 == 4) {
      target.reset();
      target = daemon.WaitTarget();
    }
  }
  child.Tell('x');
  child.ExpectSuccess();
}

// STOP comes at any moment of a window's begin. The flag would stay on, and writers would go on in
// memory that is unmapped.
TEST(StressTest, AStopThatMeetsTheBeginOfAWindowTurnsRecordingOff) {
  constexpr int kRounds = 600;
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent& parent) {
    profd_init();
    std::thread steps([] {
      while (!g_stop.load(std::memory_order_relaxed)) {
        profd_step();
        EmptyRange(&g_names[0]);
      }
    });
    std::thread annotates(AnnotateUntilStopped);
    for (int i = 0; i < kRounds; ++i) {
      parent.Await('s');
      CHILD_EXPECT(__atomic_load_n(profd_recording_flag(), __ATOMIC_SEQ_CST) == 0);
      parent.Tell('o');
    }
    g_stop.store(true);
    steps.join();
    annotates.join();
  });
  auto target = daemon.WaitTarget();
  for (int i = 0; i < kRounds; ++i) {
    auto capture = target->Arm(1u << 20);
    capture->Fire(Steps(1, 0, 1, wire::kMaxWindows));
    EXPECT_EQ(capture->Stop().stuck_writer_count, 0u);
    child.Tell('s');
    child.Await('o');
    capture->Release();
  }
  child.ExpectSuccess();
}

TEST(StressTest, AfterDrainedNothingIsWritten) {
  FakeDaemon daemon;
  Child child(daemon.directory(), RunEverything);
  auto target = daemon.WaitTarget();
  for (int round = 0; round < 10; ++round) {
    auto capture = target->Arm(4u << 20);
    capture->Fire(ByTime());
    WaitUntil("a chunk", [&] {
      return capture->chunk_control(0).state.load() !=
             static_cast<uint32_t>(wire::ChunkState::kFree);
    });
    capture->Stop();
    const std::vector<std::byte> before(capture->memory(),
                                        capture->memory() + capture->layout().total_bytes);
    const uint64_t marks = target->status_page().step_mark_count.load();
    target->WaitStepMarks(marks + 20);  // The threads have gone on.
    EXPECT_EQ(memcmp(before.data(), capture->memory(), before.size()), 0);
    capture->Release();
  }
  child.Tell('x');
  child.ExpectSuccess();
}

}  // namespace
}  // namespace profd::testing
