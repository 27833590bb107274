#include "tests/cupti_standin/api_call.h"

#include <unistd.h>

#include <algorithm>
#include <array>

#include "tests/cupti_standin/api_ids.h"
#include "tests/cupti_standin/clock.h"
#include "tests/cupti_standin/gpu.h"
#include "tests/cupti_standin/settings.h"
#include "tests/cupti_standin/shared_rival.h"
#include "tests/cupti_standin/subscriber.h"
#include "tests/cupti_standin/versions.h"

namespace sgpu {
namespace {

uint32_t ProcessId() {
  static const auto id = static_cast<uint32_t>(getpid());
  return id;
}

// The driver's function within each runtime function, by callback id.
using DriverCbids = std::array<uint16_t, kCallbackIds>;
constexpr DriverCbids kDriverCbids = [] {
  DriverCbids cbids{};
  for (const ApiName& name : kRuntimeNames) {
    cbids[name.cbid] = static_cast<uint16_t>(name.driver_cbid);
  }
  return cbids;
}();

bool TruthIsKept() { return settings().truth.load(std::memory_order_relaxed) != 0; }

// Before 13.0 every call has an id; since, only while something records calls.
bool CallsAreNumbered() {
  return tracer().AnyApiIsOn() || subscriber().IsSubscribed() || shared_rival().IsJoined() ||
         settings().always_correlate.load(std::memory_order_relaxed) != 0 ||
         !VersionIsAtLeast(130000);
}

}  // namespace

ApiCall::ApiCall(uint32_t domain, uint32_t cbid)
    : thread_(ThisThread()), domain_(domain), cbid_(cbid) {
  if (Forked()) {
    error_ = CUPTI_ERROR_UNKNOWN;
    return;
  }
  if (!gpu().is_initialized()) {
    error_ = CUPTI_ERROR_NOT_INITIALIZED;
    return;
  }
  tracer().WaitWhileStalled();
  if (domain == SGPU_DOMAIN_RUNTIME && cbid < kCallbackIds) driver_cbid_ = kDriverCbids[cbid];
  if (CallsAreNumbered()) correlation_ = tracer().NextCorrelation();
  thread_.api_calls.store(thread_.api_calls.load(std::memory_order_relaxed) + 1,
                          std::memory_order_relaxed);
  began_ = Clock::Now();
  CallSubscribers(CUPTI_API_ENTER, 0);
}

void ApiCall::CallSubscriber(CUpti_ApiCallbackSite site, uint32_t domain, uint32_t cbid,
                             uint32_t return_value) {
  if (!subscriber().IsOn(domain, cbid)) return;
  const ApiName* const known = FindApiName(domain, cbid);
  CUpti_CallbackData data{};
  data.callbackSite = site;
  data.functionName = known == nullptr ? "" : known->name;
  data.functionReturnValue = site == CUPTI_API_EXIT ? &return_value : nullptr;
  data.context = reinterpret_cast<CUcontext>(uintptr_t{1});
  data.contextUid = 1;
  data.correlationData = &correlation_data_;
  data.correlationId = correlation_;
  subscriber().Call(domain, cbid, data, thread_);
}

void ApiCall::CallSubscribers(CUpti_ApiCallbackSite site, uint32_t return_value) {
  if (!subscriber().AnyIsOn()) return;
  if (site == CUPTI_API_ENTER) {
    CallSubscriber(site, domain_, cbid_, return_value);
    if (driver_cbid_ != 0) CallSubscriber(site, SGPU_DOMAIN_DRIVER, driver_cbid_, return_value);
  } else {
    if (driver_cbid_ != 0) CallSubscriber(site, SGPU_DOMAIN_DRIVER, driver_cbid_, return_value);
    CallSubscriber(site, domain_, cbid_, return_value);
  }
}

sgpu_truth_rec ApiCall::TruthOf(uint32_t kind) const {
  sgpu_truth_rec happened{};
  happened.kind = kind;
  happened.correlation_id = correlation_;
  happened.domain = domain_;
  happened.cbid = cbid_;
  happened.thread_id = thread_.system_id;
  return happened;
}

int ApiCall::Submit(uint32_t stream, const Work& work) {
  Op op;
  const Gpu::Placed placed = gpu().Place(stream, work, began_, op);
  if (placed == Gpu::Placed::kNoSuchStream) return CUPTI_ERROR_INVALID_PARAMETER;
  if (placed == Gpu::Placed::kCaptured) return CUPTI_SUCCESS;
  if (tracer().kinds() == 0 && !TruthIsKept() && !shared_rival().IsJoined()) return CUPTI_SUCCESS;
  op.work = work;
  Submit(op);
  return CUPTI_SUCCESS;
}

void ApiCall::Submit(Op& op) { SubmitAs(op, tracer().RecordedAs(op.work.kind)); }

void ApiCall::SubmitUnrecorded(Op& op) { SubmitAs(op, 0); }

void ApiCall::SubmitAs(Op& op, uint32_t recorded_as) {
  op.correlation = correlation_;
  if (tracer().LosesLaunchers()) thread_.loses_kernels = true;
  if (op.work.kind == kKernel && thread_.loses_kernels) recorded_as = 0;
  if (TruthIsKept()) {
    const Work& work = op.work;
    sgpu_truth_rec happened = TruthOf(recorded_as != 0 ? recorded_as : work.kind);
    happened.fate = recorded_as != 0 ? SGPU_PENDING : SGPU_UNWANTED;
    happened.start_ns = Clock::Stamp(op.recorded_start);
    happened.end_ns = Clock::Stamp(op.recorded_end);
    happened.device = op.device;
    happened.context = op.context;
    happened.stream = op.stream_id;
    happened.graph_id = op.graph;
    happened.graph_node_id = op.graph_node;
    happened.name = work.function == nullptr ? nullptr : work.function->copy;
    happened.bytes = work.bytes;
    happened.copy_kind = work.copy_kind;
    happened.grid[0] = work.grid.x;
    happened.grid[1] = work.grid.y;
    happened.grid[2] = work.grid.z;
    happened.block[0] = work.block.x;
    happened.block[1] = work.block.y;
    happened.block[2] = work.block.z;
    op.truth = truth().Add(happened);
  }
  shared_rival().NoteWork(op.work.kind, op.end);
  if (recorded_as == 0) return;
  op.work.kind = static_cast<Kind>(recorded_as);
  if (settings().reserve.load(std::memory_order_relaxed) != 0 && !tracer().Reserve(op)) {
    truth().SetFate(op.truth, SGPU_DROPPED);
    return;
  }
  tracer().Submit(op);
}

void ApiCall::RecordCall(uint32_t domain, uint32_t cbid, uint64_t start, uint64_t end,
                         uint32_t return_value) {
  const uint32_t kind = domain == SGPU_DOMAIN_DRIVER ? kDriver : kRuntime;
  const bool is_silent =
      domain == SGPU_DOMAIN_DRIVER && settings().silent_driver.load(std::memory_order_relaxed) != 0;
  const bool is_wanted = tracer().ApiIsOn(domain, cbid) && !is_silent;
  sgpu_fate fate = SGPU_UNWANTED;
  if (is_wanted) {
    const ApiRecord record{
        .kind = kind,
        .cbid = cbid,
        .start = Clock::Stamp(start),
        .end = Clock::Stamp(end),
        .process = ProcessId(),
        .thread = tracer().ThreadIdOf(thread_),
        .correlation = correlation_,
        .return_value = return_value,
    };
    fate = tracer().Append(kind, &record) ? SGPU_WRITTEN : SGPU_DROPPED;
  }
  shared_rival().NoteCall(domain);
  if (!TruthIsKept()) return;
  sgpu_truth_rec happened = TruthOf(kind);
  happened.fate = fate;
  happened.domain = domain;
  happened.cbid = cbid;
  happened.start_ns = Clock::Stamp(start);
  happened.end_ns = Clock::Stamp(end);
  happened.return_value = return_value;
  truth().Add(happened);
}

// One for each kind of id that is pushed, just before the record of the call.
void ApiCall::RecordExternalCorrelation() {
  if (!tracer().IsOn(kExternalCorrelation) || !tracer().AnyApiIsOn()) return;
  for (uint32_t kind = 0; kind < kExternalKinds; ++kind) {
    if (thread_.external[kind].empty()) continue;
    const ExternalCorrelationRecord record{
        .kind = kExternalCorrelation,
        .external_kind = kind,
        .external_id = thread_.external[kind].back(),
        .correlation = correlation_,
        .reserved = 0,
    };
    tracer().Append(kExternalCorrelation, &record);
  }
}

// What CUPTI adds to a call: something while it is in the process, more for a record.
uint64_t ApiCall::Tax() const {
  if (!tracer().IsAttached()) return 0;
  const auto of = [](const std::atomic<int64_t>& setting) {
    return static_cast<uint64_t>(std::max<int64_t>(setting.load(std::memory_order_relaxed), 0));
  };
  const uint64_t tax = of(settings().call_tax_ns);
  return tracer().ApiIsOn(domain_, cbid_) ? tax + of(settings().record_tax_ns) : tax;
}

int ApiCall::Finish(uint64_t api_ns, uint32_t return_value) {
  api_ns += Tax();
  if (api_ns != 0 || Clock::IsVirtual()) Clock::Spend(api_ns);
  if (tracer().AnyApiIsOn() || TruthIsKept() || shared_rival().IsJoined()) {
    const uint64_t end = std::max(Clock::Now(), began_);
    RecordExternalCorrelation();
    if (driver_cbid_ != 0) {
      const uint64_t length = end - began_;
      RecordCall(SGPU_DOMAIN_DRIVER, driver_cbid_, began_ + length / 4, end - length / 8,
                 return_value);
    }
    RecordCall(domain_, cbid_, began_, end, return_value);
  }
  CallSubscribers(CUPTI_API_EXIT, return_value);
  return static_cast<int>(return_value);
}

}  // namespace sgpu
