// AuditLog writes who did, and tried to do, what: every call that changes or reads something,
// and every refusal. Calls are written by call.h and server_stream.h, so that a service cannot
// forget it; a handler has nothing to do for it. Failing to write a line is logged, and does not
// undo what was done.
//
// A line's resource is what the answer is called ("captures/01H..."), else what the request names.
// Refusals come cheap, so each principal gets only so many lines a minute; the rest is counted.
// Calls that admission refuses because there are too many get no lines.
//
// What is done with others' data must go on record: AuditGate refuses it while no line could be
// written. Root may end and delete captures and switch them off all the same.
//
// Threads: any.
#ifndef PROFD_DAEMON_RPC_ADMISSION_AUDIT_H_
#define PROFD_DAEMON_RPC_ADMISSION_AUDIT_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "daemon/base/clock.h"
#include "daemon/capture/access.h"
#include "daemon/capture/ports.h"
#include "daemon/rpc/admission/rate_limit.h"
#include "daemon/store/capture_store.h"

namespace google::protobuf {
class Message;
}

namespace profd::rpc {

// Whether it says that the caller may not do that.
bool IsRefusal(const absl::Status& status);

// The RPC of a request: "CreateCapture" of CreateCaptureRequest.
std::string MethodOf(const google::protobuf::Message& request);
// What a request or an answer is about, cleaned for display; empty: it does not say.
std::string ResourceOf(const google::protobuf::Message& message);

class AuditLog {
 public:
  AuditLog(store::CaptureStore& store, const TargetPort& targets, Clock& clock)
      : store_(store), targets_(targets), clock_(clock) {}

  Clock& clock() { return clock_; }

  // Whether a call that needed `verb` and ended so is to be written. Counts refusals, also those
  // that are too many to be written.
  bool Wants(Verb verb, const absl::Status& status, std::string_view principal);
  // Whether a line could be written now. RESOURCE_EXHAUSTED (AUDIT_UNAVAILABLE).
  absl::Status Check() { return store_.CheckAudit(); }
  // Adds the outcome to the line and, to a target, who it is. Waits for the disk.
  void Write(store::AuditEntry entry, const absl::Status& status);
  // A line that had to be given up.
  void CountUnwritten() { unwritten_.fetch_add(1, std::memory_order_relaxed); }

  int64_t refusals() const { return refusals_.load(std::memory_order_relaxed); }
  int64_t unwritten() const { return unwritten_.load(std::memory_order_relaxed); }

 private:
  std::string Describe(std::string resource) const;

  store::CaptureStore& store_;
  const TargetPort& targets_;
  Clock& clock_;
  RateLimit refusal_lines_{/*per_second=*/1, /*burst=*/60};
  std::atomic<int64_t> refusals_{0};
  std::atomic<int64_t> unwritten_{0};
};

// The gate of one call (capture/access.h): lets it act on what belongs to others while the audit
// log can be written.
class AuditGate final : public OthersGate {
 public:
  // `is_exempt`: lets everything through.
  AuditGate(AuditLog& audit, bool is_exempt) : audit_(audit), is_exempt_(is_exempt) {}

  bool MayProceed() override;

  // Whether the call asked for what belongs to others.
  bool asked() const { return asked_.load(std::memory_order_acquire); }
  // Returns `status`, or what this gate has to say if it turned the call into a refusal.
  absl::Status Explain(const absl::Status& status) const;

 private:
  AuditLog& audit_;
  const bool is_exempt_;
  std::atomic<bool> asked_{false};
  mutable absl::Mutex mu_;
  absl::Status why_ ABSL_GUARDED_BY(mu_);
};

// Whether root may call `method` while the audit log cannot be written, because it ends harm.
bool IsEmergency(std::string_view method);

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_ADMISSION_AUDIT_H_
