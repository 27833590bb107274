// A CaptureManager on fakes, and the requests and results that its tests share.
#ifndef PROFD_TESTS_CAPTURE_MANAGER_FIXTURE_H_
#define PROFD_TESTS_CAPTURE_MANAGER_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/capture/capture_manager.h"
#include "tests/fakes/callers.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_store.h"
#include "tests/fakes/fake_target_port.h"
#include "tests/fakes/status_matchers.h"

namespace profd {

inline CaptureSpec Steps(int64_t steps) { return CaptureSpec{.steps = steps}; }

inline TargetInfo Training(int64_t pid) {
  return TargetInfo{.pid = pid,
                    .uid = kAlice.uid,
                    .process_start_ticks = 7,
                    .state = TargetState::kRunning,
                    .step_mark_count = 101,
                    .current_step = 100,
                    .steps_per_second = 100,
                    .step_source = StepSource::kMarks};
}

// What ingest reports for one window of steps [first, end) of 1 ms each.
inline DrainResult Window(int64_t first, int64_t end, bool complete = true) {
  DrainResult result;
  result.epoch_unix_ns = 5'000'000'000;
  result.event_count = 10;
  result.windows.push_back({.start_ns = 1'000,
                            .end_ns = 1'000 + (end - first) * 1'000'000,
                            .first_step = first,
                            .end_step = end,
                            .complete = complete});
  return result;
}

class CaptureManagerTest : public testing::Test {
 protected:
  CaptureManagerTest() { targets_.SetObserver(&manager_); }
  // What a test left live ends here, as ingest would end it.
  void TearDown() override {
    targets_.AnswerByItself(DrainResult());
    for (const CaptureRecord& record : manager_.Live()) {
      targets_.Drained(record.id, DrainResult());
    }
  }

  CaptureRecord CreateOrDie(TargetNumber target, const CaptureSpec& spec,
                            std::string_view request_id = "") {
    absl::StatusOr<CaptureRecord> record = manager_.Create(kAlice, target, spec, request_id);
    EXPECT_THAT(record, IsOk());
    return record.ok() ? *record : CaptureRecord();
  }
  CaptureRecord GetOrDie(std::string_view id) {
    manager_.DrainForTesting();
    absl::StatusOr<CaptureRecord> record = manager_.Get(kRoot, id);
    EXPECT_THAT(record, IsOk());
    return record.ok() ? *record : CaptureRecord();
  }
  void Reach(std::string_view id, RecordingPhase phase, int64_t step = -1) {
    targets_.Reached(id, Progress{.phase = phase, .window = 0, .current_step = step});
  }
  void Advance(absl::Duration by) {
    clock_.Advance(by);
    manager_.RunTimersForTesting();
  }

  FakeClock clock_;
  FakeTargetPort targets_;
  FakeStore store_;
  quota::Ledger ledger_{quota::Limits::ForMemory(int64_t{2} << 30), clock_};
  CaptureManager manager_{{.node_name = "node1", .ledger = &ledger_}, targets_, store_, clock_};
};

}  // namespace profd

#endif  // PROFD_TESTS_CAPTURE_MANAGER_FIXTURE_H_
