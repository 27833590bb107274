// FakeScheduledCaptures: a ScheduledCaptures whose captures end when the test says so.
//
// Threads: one at a time; on_change is called on the thread of End().
#ifndef PROFD_TESTS_FAKES_FAKE_SCHEDULED_CAPTURES_H_
#define PROFD_TESTS_FAKES_FAKE_SCHEDULED_CAPTURES_H_

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/str_cat.h"
#include "daemon/capture/ports.h"
#include "daemon/capture/scheduled_captures.h"
#include "tests/fakes/fake_clock.h"

namespace profd {

class FakeScheduledCaptures final : public ScheduledCaptures {
 public:
  struct Asked {
    std::string id;
    Caller caller;
    TargetNumber target = 0;
    CaptureSpec spec;
    ScheduledBy schedule;
  };

  FakeScheduledCaptures(TargetPort& targets, FakeClock& clock) : targets_(targets), clock_(clock) {}

  absl::Status refuse;  // What the next calls answer, until set again.
  std::vector<Asked> asked;

  // The capture ends now; `change` says how. COMPLETE with 5 steps of 10 ms unless it does.
  void End(const std::string& id, const std::function<void(CaptureRecord&)>& change = nullptr) {
    CaptureRecord& record = records_.at(id);
    record.state = CaptureState::kComplete;
    record.ended_by = EndedBy::kSteps;
    record.start_unix_ns = 1;
    record.file_bytes = 1 << 20;
    record.end_time = clock_.Now();
    record.step_before_ns = record.step_during_ns = 10'000'000;
    if (change) change(record);
    const OnChange on_change = std::move(watchers_.at(id));
    watchers_.erase(id);
    if (on_change) on_change(record);
  }
  // What is known of it later.
  void Change(const std::string& id, const std::function<void(CaptureRecord&)>& change) {
    change(records_.at(id));
  }

  absl::StatusOr<CaptureRecord> CreateScheduled(const Caller& caller, TargetNumber target,
                                                const CaptureSpec& spec,
                                                const ScheduledBy& schedule,
                                                OnChange on_change) override {
    if (!refuse.ok()) return refuse;
    const std::string id = StrCat("C", ++last_number_);
    CaptureRecord record{.id = id,
                         .spec = spec,
                         .state = CaptureState::kArming,
                         .create_time = clock_.Now(),
                         .end_time = absl::InfiniteFuture()};
    if (auto info = targets_.Find(target)) record.target = *std::move(info);
    records_.emplace(id, record);
    watchers_.emplace(id, std::move(on_change));
    asked.push_back({id, caller, target, spec, schedule});
    return record;
  }
  absl::StatusOr<CaptureRecord> Get(const Caller& /*caller*/, std::string_view id) override {
    const auto found = records_.find(id);
    if (found == records_.end()) return absl::NotFoundError(std::string(id));
    return found->second;
  }

 private:
  TargetPort& targets_;
  FakeClock& clock_;
  int last_number_ = 0;
  std::map<std::string, CaptureRecord, std::less<>> records_;
  std::map<std::string, OnChange> watchers_;
};

}  // namespace profd

#endif  // PROFD_TESTS_FAKES_FAKE_SCHEDULED_CAPTURES_H_
