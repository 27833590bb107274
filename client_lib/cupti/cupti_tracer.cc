#include "client_lib/cupti/cupti_tracer.h"

#include <string.h>
#include <time.h>

#include "client_lib/core/hot_state.h"
#include "client_lib/core/log.h"

namespace profd::client {
namespace {

using wire::GpuMode;

// A program without a call of CUDA for so long pays nothing for CUPTI, and the next capture waits.
constexpr int kFinalizeTimeoutMs = 500;
constexpr int kRequestedFinalizeTimeoutMs = 2000;
constexpr int kFinalizeGraceMs = 50;

void PauseMs(int ms) {
  const timespec pause{ms / 1000, (ms % 1000) * 1'000'000L};
  nanosleep(&pause, nullptr);
}

}  // namespace

void CuptiTracer::Begin(const CuptiLibrary* library, GpuMode mode, uint32_t arm_flags,
                        uint32_t device_buffers) {
  library_ = library;
  interface_.Begin(library);
  mode_ = mode;
  arm_flags_ = arm_flags;
  device_buffers_ = device_buffers;
  is_attached_ = false;
  is_taken_ = false;
  is_enabled_ = false;
  calls_are_enabled_ = false;
  enabled_kinds_ = 0;
  described_kinds_ = 0;
  result_count_ = 0;
  is_dead_.store(false, std::memory_order_relaxed);
  finalizing_.store(Finalizing::kNo, std::memory_order_relaxed);
}

void CuptiTracer::set_stage(const char* stage) {
  stage_begin_ns_.store(wire::ReadMonotonicNs(), std::memory_order_relaxed);
  stage_.store(stage, std::memory_order_relaxed);
}

ApiFilter CuptiTracer::api_filter() const {
  switch (mode_) {
    case GpuMode::kDefault:
      return ApiFilter::kMost;
    case GpuMode::kFull:
      return ApiFilter::kAll;
    default:
      return ApiFilter::kNone;
  }
}

bool CuptiTracer::records_decompression() const {
  return (enabled_kinds_ >> cupti::kKindMemDecompress & 1) != 0;
}

void CuptiTracer::OnCallback(void* user, uint32_t domain, uint32_t cbid, const void* data) {
  auto* tracer = static_cast<CuptiTracer*>(user);
  if (domain == cupti::kDomainState && cbid == cupti::kCallbackFatalError) {
    tracer->is_dead_.store(true, std::memory_order_relaxed);
    return;
  }
  if (domain != cupti::kDomainRuntimeApi && domain != cupti::kDomainDriverApi) return;
  if (static_cast<const cupti::CallbackData*>(data)->site != cupti::kSiteExit) return;
  auto wanted = Finalizing::kWanted;
  if (!tracer->finalizing_.compare_exchange_strong(wanted, Finalizing::kBegun)) return;
  tracer->library_->Finalize();
  tracer->finalizing_.store(Finalizing::kDone, std::memory_order_release);
}

bool CuptiTracer::Attach(const BufferCallbacks& buffers, ArmFailure* failure) {
  set_stage("attaching to CUPTI");
  CuptiInterface::Refusal refusal;
  if (!interface_.Attach(OnCallback, this, buffers, &refusal)) {
    ExplainResult(refusal.result, refusal.call, refusal.rival, failure);
    return false;
  }
  is_attached_ = true;
  settings_.Apply(interface_, (arm_flags_ & wire::kArmGpuLatency) != 0, device_buffers_);
  if (interface_.is_subscribed()) {
    Cupti().EnableCallback(1, interface_.subscriber(), cupti::kDomainState,
                           cupti::kCallbackFatalError);
  }
  return true;
}

void CuptiTracer::NoteResult(cupti::Kind kind, cupti::Result result) {
  if (result == cupti::kSuccess) {
    enabled_kinds_ |= uint64_t{1} << kind;
    return;
  }
  NoteFailure(kind, result);
}

void CuptiTracer::NoteFailure(cupti::Kind kind, cupti::Result result) {
  Log(LogLevel::kInfo, "CUPTI does not turn on kind %u: %s", kind, ResultName(result));
  AddKindResult(kind, static_cast<uint16_t>(result));
}

void CuptiTracer::ReportSilentKind(cupti::Kind kind) {
  Log(LogLevel::kWarning, "CUPTI gives no records of kind %u", kind);
  AddKindResult(kind, wire::kGpuKindGivesNoRecords);
}

void CuptiTracer::AddKindResult(cupti::Kind kind, uint16_t result) {
  for (uint32_t i = 0; i < result_count_; ++i) {
    if (results_[i].kind == kind) return;
  }
  if (result_count_ == sizeof(results_) / sizeof(results_[0])) return;
  results_[result_count_++] = {static_cast<uint16_t>(kind), result};
}

cupti::Result CuptiTracer::EnableKind(cupti::Kind kind) {
  if (gate_->is_leaving()) return cupti::kErrorDisabled;
  // One that we could not read would only fill the buffers.
  const cupti::Result result = CanDecode(kind, library_->record_bytes[kind])
                                   ? interface_.Enable(kind)
                                   : cupti::kErrorInvalidKind;
  NoteResult(kind, result);
  return result;
}

// Turns on `kind`, and off again those of its functions that we do not keep. In this order: a
// function that is switched on without its kind makes no records (CUPTI 12.5 to 13.2, and later
// ones once the kind was on and off), and the kind turns all functions on. A function that stays on
// costs buffers and no truth, because the decoder leaves it out.
void CuptiTracer::EnableCallsOf(cupti::Kind kind, uint32_t domain) {
  if (EnableKind(kind) != cupti::kSuccess || !interface_.can_switch_apis()) return;
  for (uint32_t cbid = 1; cbid < kMaxApis; ++cbid) {
    const char* name = nullptr;
    if (Cupti().GetCallbackName(domain, cbid, &name) != cupti::kSuccess || name == nullptr ||
        KeepsApi(api_filter(), domain == cupti::kDomainDriverApi, name)) {
      continue;
    }
    interface_.SwitchApi(domain, cbid, false);
  }
}

void CuptiTracer::EnableCalls() {
  if (calls_are_enabled_) return;
  calls_are_enabled_ = true;
  if (mode_ < GpuMode::kDefault) return;
  set_stage("turning on API calls");
  EnableCallsOf(cupti::kKindRuntime, cupti::kDomainRuntimeApi);
  EnableCallsOf(cupti::kKindDriver, cupti::kDomainDriverApi);
}

bool CuptiTracer::EnableKinds(ArmFailure* failure) {
  cupti::Result last = cupti::kSuccess;
  const auto enable = [&](cupti::Kind kind) {
    const cupti::Result result = EnableKind(kind);
    if (result != cupti::kSuccess) last = result;
  };
  // Kernels first. With another kind before it, a thread that launches meanwhile may lose all its
  // kernels, in this session and later ones (CUPTI 11.8 to 13.5; in this order 0 of 144 sessions).
  if (!is_enabled_) {
    set_stage("turning on kernels");
    enable(cupti::kKindConcurrentKernel);
  }
  // Calls before other work, so that little work has a launch that is not there.
  EnableCalls();
  if (is_enabled_) return true;
  is_enabled_ = true;
  if (mode_ >= GpuMode::kDefault) {
    enable(cupti::kKindSynchronization);
    enable(cupti::kKindOverhead);
  }
  set_stage("turning on copies");
  if (mode_ == GpuMode::kFull) {
    enable(cupti::kKindMemory);
    enable(cupti::kKindMemoryPool);
    enable(cupti::kKindCudaEvent);
    // Not below `full`: no GPU that has the engine was at hand to measure what it costs.
    if (library_->version >= cupti::kVersion12_8) enable(cupti::kKindMemDecompress);
    if (library_->version >= cupti::kVersion13_1) {
      enable(cupti::kKindHostLaunch);
      enable(cupti::kKindGraphHostNode);
    }
  }
  enable(cupti::kKindMemcpy);
  enable(cupti::kKindMemcpyPeer);
  enable(cupti::kKindMemset);
  // Never GRAPH_TRACE: the next launch of a graph that was instantiated before crashes (CUPTI 12.4
  // to 13.1), or has no records at all (13.3 on), also after the kind is off again.
  if (enabled_kinds_ != 0) return true;
  ExplainResult(last, "cuptiActivityEnable", "", failure);
  return false;
}

void CuptiTracer::DisableCalls() {
  if (!calls_are_enabled_) return;
  calls_are_enabled_ = false;
  set_stage("turning off API calls");
  constexpr cupti::Kind kCallKinds[] = {cupti::kKindRuntime, cupti::kKindDriver};
  for (const cupti::Kind kind : kCallKinds) {
    if ((enabled_kinds_ >> kind & 1) != 0) interface_.Disable(kind);
    enabled_kinds_ &= ~(uint64_t{1} << kind);
  }
}

void CuptiTracer::DisableKinds() {
  DisableCalls();
  if (!is_enabled_) return;
  is_enabled_ = false;
  set_stage("turning CUPTI's records off");
  for (cupti::Kind kind = 0; kind < 64; ++kind) {
    if ((enabled_kinds_ >> kind & 1) != 0) interface_.Disable(kind);
  }
  enabled_kinds_ = 0;
}

void CuptiTracer::DescribeDevices() {
  set_stage("asking CUPTI for devices");
  constexpr cupti::Kind kDescriptions[] = {cupti::kKindDevice, cupti::kKindContext,
                                           cupti::kKindStream};
  for (const cupti::Kind kind : kDescriptions) {
    if (!CanDecode(kind, library_->record_bytes[kind])) continue;
    // Before 11.7 only those that are made from now on are described.
    const cupti::Result result =
        interface_.can_dump() ? interface_.EnableAndDump(kind) : interface_.Enable(kind);
    if (result == cupti::kSuccess) described_kinds_ |= uint64_t{1} << kind;
  }
}

bool CuptiTracer::DescribeDevicesAgain() {
  if (!interface_.can_dump() || (described_kinds_ >> cupti::kKindDevice & 1) == 0) {
    return false;
  }
  set_stage("asking CUPTI whether it is still ours");
  interface_.Disable(cupti::kKindDevice);
  return interface_.EnableAndDump(cupti::kKindDevice) == cupti::kSuccess;
}

void CuptiTracer::Flush(bool forced) {
  set_stage(forced ? "having CUPTI hand over what still runs" : "having CUPTI hand over records");
  // A flush affects all subscribers, and a forced one takes the times from their records.
  if (forced && interface_.OthersRecord(enabled_kinds_ | described_kinds_)) forced = false;
  Cupti().ActivityFlushAll(forced ? 1 : 0);
}

// CUPTI wants to be taken out from within the last callback of a CUDA call. False: no call came.
bool CuptiTracer::FinalizeInCallback() {
  if (!interface_.Subscribe(OnCallback, this)) return false;
  finalizing_.store(Finalizing::kWanted, std::memory_order_seq_cst);
  Cupti().EnableDomain(1, interface_.subscriber(), cupti::kDomainRuntimeApi);
  Cupti().EnableDomain(1, interface_.subscriber(), cupti::kDomainDriverApi);
  const bool is_requested = (arm_flags_ & wire::kArmGpuDetach) != 0;
  const int timeout_ms = is_requested ? kRequestedFinalizeTimeoutMs : kFinalizeTimeoutMs;
  for (int waited_ms = 0; waited_ms < timeout_ms; ++waited_ms) {
    if (finalizing_.load(std::memory_order_acquire) == Finalizing::kDone) break;
    if (gate_->is_leaving()) break;
    PauseMs(1);
  }
  auto wanted = Finalizing::kWanted;
  if (finalizing_.compare_exchange_strong(wanted, Finalizing::kNo)) {
    Cupti().EnableDomain(0, interface_.subscriber(), cupti::kDomainRuntimeApi);
    Cupti().EnableDomain(0, interface_.subscriber(), cupti::kDomainDriverApi);
    interface_.Unsubscribe();
    return false;
  }
  // Begun, if not done: it is that thread's. Others may be on their way out of the callback.
  PauseMs(kFinalizeGraceMs);
  return true;
}

void CuptiTracer::Abandon() {
  is_taken_ = true;
  is_enabled_ = false;
  calls_are_enabled_ = false;
  enabled_kinds_ = 0;
  described_kinds_ = 0;
  settings_.Forget();
}

bool CuptiTracer::CanFinalize() const {
  // With several subscribers, other tools may need it, and it may do nothing.
  return !is_taken() && !is_dead() && !interface_.is_shared() &&
         library_->version >= cupti::kVersion12_6;
}

void CuptiTracer::Detach(bool finalize) {
  if (!is_attached_) return;
  is_attached_ = false;
  set_stage("detaching from CUPTI");
  for (cupti::Kind kind = 0; kind < 64; ++kind) {
    if ((described_kinds_ >> kind & 1) != 0) interface_.Disable(kind);
  }
  described_kinds_ = 0;
  // Buffers that CUPTI still has would take the first records of the next tool, such as Kineto.
  if (!is_taken() && !is_dead()) Flush(true);
  // Having said that it is dead it has also ended the subscription.
  if (is_dead()) return;
  settings_.Restore(interface_);
  if (finalize && CanFinalize() && FinalizeInCallback()) return;
  if ((arm_flags_ & wire::kArmGpuDetach) != 0) {
    Log(LogLevel::kInfo,
        "CUPTI stays in the process: it is too old, or the program is idle, or "
        "another tool uses it");
  }
  interface_.Unsubscribe();
}

void CuptiTracer::ReportKinds(wire::GpuStatusEvent* status) const {
  status->kind_result_count = result_count_;
  memcpy(status->kind_results, results_, sizeof(results_));
}

}  // namespace profd::client
