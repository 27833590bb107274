// FakeTargetPort: targets without processes. A test adds and removes them, sees which
// commands they got, and lets them answer: armed, progress, drained.
//
//   FakeTargetPort targets;
//   CaptureManager manager(options, targets, store, clock);
//   targets.SetObserver(&manager);
//   const TargetNumber t = targets.Add({.pid = 4711, .uid = 1000});
//   manager.Create(...);  manager.DrainForTesting();
//   targets.Armed(targets.LastArm().request.capture_id);
//
// It behaves as ingest does where the contract says so: Arm() refuses unknown and busy
// targets, Stop() is answered once, and a target that goes away answers what it owes.
//
// Threads: any. Answers are given on the calling thread, without a lock held.
#ifndef PROFD_TESTS_FAKES_FAKE_TARGET_PORT_H_
#define PROFD_TESTS_FAKES_FAKE_TARGET_PORT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "daemon/capture/ports.h"

namespace profd {

class FakeTargetPort final : public TargetPort {
 public:
  struct ArmCall {
    TargetNumber target = 0;
    ArmRequest request;
    CaptureSink* sink = nullptr;  // Valid until the capture was drained or failed to arm.
  };
  struct FireCall {
    std::string capture_id;
    FirePlan plan;
  };

  // Who hears of what happens here. Set before the first event; may be replaced.
  void SetObserver(TargetPort::Observer* observer);

  // ---- the test's side: targets ----

  // Gives it the next number unless `info.number` is set, and tells the observer.
  TargetNumber Add(TargetInfo info);
  // Changes what List() and Find() say of it. Nothing happens if there is no such target.
  void Change(TargetNumber target, const std::function<void(TargetInfo&)>& change);
  // What MedianStepNs() says of any range of its steps; 0 until set.
  void SetMedianStepNs(TargetNumber target, int64_t median_ns);
  // The target runs `count` more steps of `duration_ns` each: its current step goes on by as many,
  // and GetRecentSteps() shows the last 63 that ran so.
  void RunSteps(TargetNumber target, int64_t count, int64_t duration_ns);
  // The process ends: OnDrained with `target_gone` for its armed capture (OnArmFailed if
  // it was still arming), then OnTargetGone.
  void Remove(TargetNumber target);

  // ---- the test's side: answers ----

  void Armed(std::string_view capture_id);
  void Arming(std::string_view capture_id, std::string_view activity);
  void ArmFailed(std::string_view capture_id, absl::Status why);
  void Reached(std::string_view capture_id, const Progress& progress);
  // Ends the capture's time with the port: its target is free afterwards.
  void Drained(std::string_view capture_id, DrainResult result);

  // Answers by itself: every Arm() with OnArmed, every Stop() with OnDrained(`result`).
  // The answers come on the caller's thread, before Arm() or Stop() returns.
  void AnswerByItself(DrainResult result);
  // What the next Arm() returns instead of starting.
  void RefuseNextArm(absl::Status why);

  // ---- the test's side: what was asked ----

  std::vector<ArmCall> arms() const;
  std::vector<FireCall> fires() const;
  std::vector<std::string> stops() const;  // Every call, also repeated ones.
  ArmCall LastArm() const;                 // Empty if there was none.
  // Waits for the n-th call (from 1) that any thread makes. False: not within 10 s.
  [[nodiscard]] bool WaitForArms(size_t count) const;
  [[nodiscard]] bool WaitForFires(size_t count) const;
  [[nodiscard]] bool WaitForStops(size_t count) const;

  // ---- TargetPort ----

  std::vector<TargetInfo> List() const override;
  std::optional<TargetInfo> Find(TargetNumber target) const override;
  int64_t MedianStepNs(TargetNumber target, int64_t first_step, int64_t end_step) const override;
  RecentSteps GetRecentSteps(TargetNumber target) const override;
  absl::Status Arm(TargetNumber target, const ArmRequest& request, CaptureSink& sink) override;
  void Fire(std::string_view capture_id, const FirePlan& plan) override;
  void Stop(std::string_view capture_id) override;

 private:
  struct Live {
    TargetNumber target = 0;
    bool armed = false;
    bool stop_asked = false;
  };

  TargetPort::Observer* observer() const;
  void SetState(TargetNumber target, TargetState state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Takes the capture out of live_; false if it was not there.
  bool EndLive(std::string_view capture_id);

  mutable absl::Mutex mu_;
  TargetPort::Observer* observer_ ABSL_GUARDED_BY(mu_) = nullptr;
  TargetNumber last_number_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<TargetNumber, TargetInfo> targets_ ABSL_GUARDED_BY(mu_);
  std::map<TargetNumber, int64_t> median_step_ns_ ABSL_GUARDED_BY(mu_);
  std::map<TargetNumber, std::vector<StepTime>> recent_steps_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, Live, std::less<>> live_ ABSL_GUARDED_BY(mu_);
  std::vector<ArmCall> arms_ ABSL_GUARDED_BY(mu_);
  std::vector<FireCall> fires_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> stops_ ABSL_GUARDED_BY(mu_);
  std::optional<DrainResult> own_answer_ ABSL_GUARDED_BY(mu_);
  std::optional<absl::Status> refuse_ ABSL_GUARDED_BY(mu_);
};

}  // namespace profd

#endif  // PROFD_TESTS_FAKES_FAKE_TARGET_PORT_H_
