// CuptiTracer makes the calls of CUPTI that a capture takes: attach, kinds on and off, flush,
// detach. cupti_errors.h turns what they answer into words and reasons.
//
// Success of Attach() is a lock unless other tools may have subscriptions, too (cupti_interface.h):
// only one subscriber is let in, and every profiler subscribes first.
//
// What each mode records, and what that costs (see README.md):
//
//   light    kernels, copies, and memsets, also as nodes of graphs
//   default  and API calls (less those that only ask), synchronization, overhead
//   full     and all driver calls, device memory, pools, CUDA events, host functions in streams,
//            decompression by the GPU
//
// Threads:   the GPU thread's; any call may take seconds, or hang. stage() from any thread.
// Exit:      while the process exits, nothing more is turned on.
// Errors:    a kind that cannot be turned on costs that kind only, and is reported.
#ifndef PROFD_CLIENT_LIB_CUPTI_CUPTI_TRACER_H_
#define PROFD_CLIENT_LIB_CUPTI_CUPTI_TRACER_H_

#include <atomic>
#include <cstdint>

#include "client_lib/cupti/cupti_abi.h"
#include "client_lib/cupti/cupti_errors.h"
#include "client_lib/cupti/cupti_interface.h"
#include "client_lib/cupti/cupti_library.h"
#include "client_lib/cupti/cupti_settings.h"
#include "client_lib/cupti/exit_gate.h"
#include "client_lib/cupti/record_decoder.h"
#include "proto/wire/event.h"
#include "proto/wire/frame.h"

namespace profd::client {

class CuptiTracer {
 public:
  // Every call of CUPTI passes `gate`.
  constexpr explicit CuptiTracer(const ExitGate* gate) : gate_(gate), interface_(gate) {}

  // `library` and the callbacks are used from here on, also after Detach(). CUPTI may allocate
  // `device_buffers` on each device (device_memory.h).
  void Begin(const CuptiLibrary* library, wire::GpuMode mode, uint32_t arm_flags,
             uint32_t device_buffers);

  // Subscribes and registers. False: `failure` says why; nothing is attached.
  bool Attach(const BufferCallbacks& buffers, ArmFailure* failure);

  // Turns on those of the mode's kinds that are off. False: CUPTI turned on none of them.
  bool EnableKinds(ArmFailure* failure);
  // Turns off records of API calls. Work of the GPU is still recorded.
  void DisableCalls();
  // Turns off the rest, too.
  void DisableKinds();
  // Whether work of the GPU is recorded.
  bool is_enabled() const { return is_enabled_; }
  bool calls_are_enabled() const { return calls_are_enabled_; }

  // Has CUPTI describe the devices, contexts and streams that there are.
  void DescribeDevices();
  // The same for devices alone, if this CUPTI can do that at will.
  bool DescribeDevicesAgain();

  // What is complete; `forced`: also what is not, which then never comes again. Not if another
  // subscriber records, because a flush affects all of them.
  void Flush(bool forced);
  uint64_t TakeDropCount() const { return interface_.TakeDropCount(); }
  // CUPTI's clock. REQUIRES: attached.
  cupti::Result GetTimestamp(uint64_t* ns) const { return interface_.GetTimestamp(ns); }

  // Whether Detach() can take CUPTI out of the process.
  bool CanFinalize() const;
  // Restores CUPTI's settings and unsubscribes. `finalize`: takes CUPTI out of the process, if it
  // will.
  void Detach(bool finalize);

  // Another tool has put its callbacks in place of ours. Leaves everything as it is: nothing is
  // turned off, and no setting restored, because it may be the other tool's. Detach() only
  // unsubscribes then.
  void Abandon();
  bool is_taken() const { return is_taken_; }

  // CUPTI said that it cannot go on.
  bool is_dead() const { return is_dead_.load(std::memory_order_relaxed); }

  ApiFilter api_filter() const;
  // Whether CUPTI has turned on records of decompression.
  bool records_decompression() const;
  // CUPTI turned `kind` on, and records of it are missing.
  void ReportSilentKind(cupti::Kind kind);
  // Fills in what could not be turned on.
  void ReportKinds(wire::GpuStatusEvent* status) const;

  // The call that is being made, for people.
  const char* stage() const { return stage_.load(std::memory_order_relaxed); }
  void set_stage(const char* stage);
  uint64_t stage_begin_ns() const { return stage_begin_ns_.load(std::memory_order_relaxed); }

 private:
  // Above the numbers that API functions have: 13.0 has 807 of the driver's.
  static constexpr uint32_t kMaxApis = 1536;

  static void OnCallback(void* user, uint32_t domain, uint32_t cbid, const void* data);
  cupti::Result EnableKind(cupti::Kind kind);
  void EnableCalls();
  void EnableCallsOf(cupti::Kind kind, uint32_t domain);
  void NoteResult(cupti::Kind kind, cupti::Result result);
  void NoteFailure(cupti::Kind kind, cupti::Result result);
  void AddKindResult(cupti::Kind kind, uint16_t result);
  bool FinalizeInCallback();

  const CuptiLibrary& Cupti() const { return interface_.Cupti(); }

  const ExitGate* const gate_;
  CuptiInterface interface_;
  const CuptiLibrary* library_ = nullptr;
  wire::GpuMode mode_ = wire::GpuMode::kOff;
  uint32_t arm_flags_ = 0;
  uint32_t device_buffers_ = 0;
  CuptiSettings settings_;
  bool is_attached_ = false;
  bool is_taken_ = false;
  bool is_enabled_ = false;
  bool calls_are_enabled_ = false;
  uint64_t enabled_kinds_ = 0;  // Bit k: kind k.
  uint64_t described_kinds_ = 0;
  uint32_t result_count_ = 0;
  wire::GpuKindResult results_[16] = {};
  std::atomic<bool> is_dead_{false};
  // What a thread that comes out of a CUDA call is to do.
  enum class Finalizing : uint32_t { kNo, kWanted, kBegun, kDone };
  std::atomic<Finalizing> finalizing_{Finalizing::kNo};
  std::atomic<const char*> stage_{""};
  std::atomic<uint64_t> stage_begin_ns_{0};
};

}  // namespace profd::client

#endif  // PROFD_CLIENT_LIB_CUPTI_CUPTI_TRACER_H_
