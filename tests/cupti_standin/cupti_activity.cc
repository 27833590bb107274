// CUPTI's activity functions: each checks what it was given and asks Tracer.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string_view>
#include <utility>

#include "tests/cupti_standin/clock.h"
#include "tests/cupti_standin/cupti_api.h"
#include "tests/cupti_standin/entry.h"
#include "tests/cupti_standin/gpu.h"
#include "tests/cupti_standin/settings.h"
#include "tests/cupti_standin/subscriber.h"
#include "tests/cupti_standin/tracer.h"
#include "tests/cupti_standin/versions.h"

namespace sgpu {
namespace {

std::atomic<uint64_t> cupti_calls{0};
thread_local constinit CUptiResult last_error = CUPTI_SUCCESS;

CUptiResult WithoutDriver() {
  return VersionIsAtLeast(130000) ? CUPTI_ERROR_UNKNOWN : CUPTI_ERROR_NOT_INITIALIZED;
}

// 11.8 looks at the kind before the driver.
CUptiResult CheckKindFirst(uint32_t kind) {
  const bool is_looked_at = VersionIsAtLeast(kCupti11_8) && !VersionIsAtLeast(19);
  return is_looked_at && RecordSize(kind) == 0 ? CUPTI_ERROR_INVALID_KIND : CUPTI_SUCCESS;
}

// kNone: it serves both.
Interface InterfaceOf(std::string_view function) {
  constexpr std::string_view kGuarded[] = {
      "cuptiActivityDisableContext",
      "cuptiActivityEnableAllSyncRecords",
      "cuptiActivityEnableAllocationSource",
      "cuptiActivityEnableAndDump",
      "cuptiActivityEnableContext",
      "cuptiActivityEnableCudaEventDeviceTimestamps",
      "cuptiActivityEnableDeviceGraph",
      "cuptiActivityEnableDriverApi",
      "cuptiActivityEnableHWTrace",
      "cuptiActivityEnableLatencyTimestamps",
      "cuptiActivityEnableLaunchAttributes",
      "cuptiActivityEnableRuntimeApi",
      "cuptiActivityGetAttribute",
      "cuptiActivityGetNextRecord",
      "cuptiActivityGetNumDroppedRecords",
      "cuptiActivityPopExternalCorrelationId",
      "cuptiActivityPushExternalCorrelationId",
      "cuptiActivityRegisterCallbacks",
      "cuptiActivityRegisterTimestampCallback",
      "cuptiActivitySetAttribute",
      "cuptiGetThreadIdType",
      "cuptiSetThreadIdType",
  };
  if (std::find(std::begin(kGuarded), std::end(kGuarded), function) != std::end(kGuarded)) {
    return Interface::kFirst;
  }
  const bool is_second = function.ends_with("_v2") && function != "cuptiSubscribe_v2";
  return is_second ? Interface::kSecond : Interface::kNone;
}

// What a second copy of the library in a process answers, as measured.
CUptiResult AsSecondCopy(std::string_view function) {
  if (function == "cuptiUnsubscribe") return CUPTI_ERROR_INVALID_PARAMETER;
  if (function != "cuptiActivityGetNumDroppedRecords" || !VersionIsAtLeast(kCupti12_6)) {
    return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  }
  if (!VersionIsAtLeast(kCupti13_2)) return CUPTI_SUCCESS;
  std::fprintf(stderr, "sgpu: a second copy of CUPTI 13.2 or later crashes in this function\n");
  std::abort();
}

bool IsExternalKind(uint32_t kind) { return kind > 0 && kind < kExternalKinds; }

}  // namespace

CUptiResult Dispatch(const char* function) {
  if (tracer().IsTornDown()) {
    std::fprintf(stderr, "sgpu: %s called after CUPTI's teardown at exit\n", function);
    std::abort();
  }
  if (!VersionIsAtLeast(kCupti13_2)) return CUPTI_SUCCESS;
  if (settings().no_driver != 0) {
    if (VersionIsAtLeast(kCuptiFuture)) return CUPTI_ERROR_UNKNOWN;
    std::fprintf(stderr, "sgpu: %s without a driver: CUPTI 13.2 crashes then\n", function);
    std::abort();
  }
  const Interface wanted = InterfaceOf(function);
  const bool is_free = wanted == Interface::kNone || subscriber().Take(wanted);
  return is_free ? CUPTI_SUCCESS : CUPTI_ERROR_NOT_COMPATIBLE;
}

CUptiResult Entry::Refusal(const char* function, uint32_t argument) {
  if (Forked()) return CUPTI_ERROR_UNKNOWN;
  ++cupti_calls;
  if (const CUptiResult failure = Dispatch(function); failure != CUPTI_SUCCESS) return failure;
  if (settings().no_driver != 0) return WithoutDriver();
  if (settings().second_copy != 0) {
    const CUptiResult refusal = AsSecondCopy(function);
    if (refusal != CUPTI_SUCCESS) return refusal;
  }
  return FailureOf(function, argument);
}

Entry::Entry(const char* function, uint32_t argument)
    : result_(Refusal(function, argument)), strict_(function) {}

CUptiResult Entry::Return(CUptiResult result) const {
  if (is_refused()) result = result_;
  if (result != CUPTI_SUCCESS && settings().no_driver == 0) last_error = result;
  return result;
}

uint64_t Entry::calls() { return cupti_calls; }

void Entry::ForgetCalls() {
  cupti_calls = 0;
  last_error = CUPTI_SUCCESS;
}

CUptiResult Entry::TakeLastError() { return std::exchange(last_error, CUPTI_SUCCESS); }

}  // namespace sgpu

using sgpu::Entry;
using sgpu::tracer;

extern "C" {

#pragma GCC visibility push(default)

CUptiResult CUPTIAPI cuptiGetLastError() { return Entry::TakeLastError(); }

CUptiResult CUPTIAPI cuptiGetTimestamp(uint64_t* timestamp) {
  if (const CUptiResult failure = sgpu::Dispatch(__func__); failure != CUPTI_SUCCESS) {
    return failure;
  }
  if (timestamp == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  if (const CUptiResult failure = sgpu::FailureOf(__func__); failure != CUPTI_SUCCESS) {
    return failure;
  }
  *timestamp = sgpu::Clock::Stamp(sgpu::Clock::Now()) +
               static_cast<uint64_t>(sgpu::settings().unsettled_ns.load());
  return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiGetTimestamp_v2(CUpti_SubscriberHandle handle, uint64_t* timestamp) {
  const Entry entry(__func__);
  if (entry.is_refused()) return entry.Return();
  if (timestamp == nullptr || !sgpu::subscriber().IsCurrent(handle)) {
    return entry.Return(CUPTI_ERROR_INVALID_PARAMETER);
  }
  *timestamp = sgpu::Clock::Stamp(sgpu::Clock::Now()) +
               static_cast<uint64_t>(sgpu::settings().unsettled_ns.load());
  return entry.Return();
}

// Arithmetic on the kinds it finds, which needs no driver.
CUptiResult CUPTIAPI cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid_bytes,
                                                CUpti_Activity** record) {
  if (const CUptiResult failure = sgpu::Dispatch(__func__); failure != CUPTI_SUCCESS) {
    return failure;
  }
  if (buffer == nullptr || record == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  if (const CUptiResult failure = sgpu::FailureOf(__func__); failure != CUPTI_SUCCESS) {
    return failure;
  }
  const CUptiResult no_such_kind =
      sgpu::VersionIsAtLeast(19) ? CUPTI_ERROR_INVALID_KIND : CUPTI_ERROR_UNKNOWN;
  const auto kind_at = [&](size_t at) {
    uint32_t kind = 0;
    std::memcpy(&kind, buffer + at, sizeof(kind));
    return kind;
  };
  size_t at = 0;
  if (*record != nullptr) {
    at = static_cast<size_t>(reinterpret_cast<uint8_t*>(*record) - buffer);
    const uint32_t bytes = sgpu::RecordSize(kind_at(at));
    if (bytes == 0) return no_such_kind;
    at += bytes;
  }
  if (at + sizeof(CUpti_Activity) > valid_bytes) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  const uint32_t bytes = sgpu::RecordSize(kind_at(at));
  if (bytes == 0) return no_such_kind;
  if (at + bytes > valid_bytes) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(buffer + at);
  return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiActivityGetStructSize(CUpti_ActivityKind kind, uint32_t version,
                                                size_t* size) {
  if (const CUptiResult failure = sgpu::Dispatch(__func__); failure != CUPTI_SUCCESS) {
    return failure;
  }
  if (const CUptiResult failure = sgpu::FailureOf(__func__, kind); failure != CUPTI_SUCCESS) {
    return failure;
  }
  if (size == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  if (version != 0 && version != sgpu::Version()) return CUPTI_ERROR_NOT_SUPPORTED;
  if (sgpu::RecordSize(kind) == 0) return CUPTI_ERROR_INVALID_KIND;
  *size = sgpu::RecordSize(kind);
  return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiIsTracingSessionRunning(uint8_t* is_running) {
  const Entry entry(__func__);
  if (entry.is_refused()) return entry.Return();
  if (is_running == nullptr) return entry.Return(CUPTI_ERROR_INVALID_PARAMETER);
  *is_running = tracer().kinds() != 0 ? 1 : 0;
  return entry.Return();
}

CUptiResult CUPTIAPI cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t* dropped) {
  if (const CUptiResult failure = sgpu::Dispatch(__func__); failure != CUPTI_SUCCESS) {
    return failure;
  }
  const sgpu::StrictLock strict(__func__);
  if (dropped == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  if (const CUptiResult failure = sgpu::FailureOf(__func__); failure != CUPTI_SUCCESS) {
    return failure;
  }
  *dropped = sgpu::Forked() ? 0 : tracer().TakeDropped();
  return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc requested,
                                                    CUpti_BuffersCallbackCompleteFunc completed) {
  if (const CUptiResult failure = sgpu::Dispatch(__func__); failure != CUPTI_SUCCESS) {
    return failure;
  }
  if (requested == nullptr || completed == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  if (const CUptiResult failure = sgpu::FailureOf(__func__); failure != CUPTI_SUCCESS) {
    return failure;
  }
  if (sgpu::Forked()) return CUPTI_ERROR_UNKNOWN;
  tracer().RegisterCallbacks(requested, completed);
  return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiActivityEnable(CUpti_ActivityKind kind) {
  if (const CUptiResult wrong = sgpu::CheckKindFirst(kind); wrong != CUPTI_SUCCESS) return wrong;
  const Entry entry(__func__, kind);
  if (entry.is_refused()) return entry.Return();
  return entry.Return(tracer().Enable(kind));
}

CUptiResult CUPTIAPI cuptiActivityEnableAndDump(CUpti_ActivityKind kind) {
  const Entry entry(__func__, kind);
  if (entry.is_refused()) return entry.Return();
  const CUptiResult result = tracer().Enable(kind);
  if (result == CUPTI_SUCCESS) tracer().Dump(kind);
  return entry.Return(result);
}

CUptiResult CUPTIAPI cuptiActivityDisable(CUpti_ActivityKind kind) {
  const Entry entry(__func__, kind);
  if (entry.is_refused()) return entry.Return();
  return entry.Return(tracer().Disable(kind));
}

// The stand-in does not tell contexts apart.
CUptiResult CUPTIAPI cuptiActivityEnableContext(CUcontext context, CUpti_ActivityKind kind) {
  const Entry entry(__func__, kind);
  if (entry.is_refused()) return entry.Return();
  if (context == nullptr) return entry.Return(CUPTI_ERROR_INVALID_CONTEXT);
  return entry.Return(tracer().Enable(kind));
}

CUptiResult CUPTIAPI cuptiActivityDisableContext(CUcontext context, CUpti_ActivityKind kind) {
  const Entry entry(__func__, kind);
  if (entry.is_refused()) return entry.Return();
  if (context == nullptr) return entry.Return(CUPTI_ERROR_INVALID_CONTEXT);
  return entry.Return(tracer().Disable(kind));
}

CUptiResult CUPTIAPI cuptiActivityFlushAll(uint32_t flag) {
  const Entry entry(__func__);
  if (entry.is_refused()) return entry.Return();
  if (sgpu::ThisThread().in_buffer_callback != 0) {
    return entry.Return(CUPTI_ERROR_INVALID_OPERATION);
  }
  while (sgpu::settings().hold_flush != 0) sgpu::Clock::SleepMs(1);
  sgpu::Clock::SleepMs(sgpu::settings().flush_ms);
  tracer().Flush((flag & 1) != 0);
  return entry.Return();
}

CUptiResult CUPTIAPI cuptiActivityFlush(CUcontext, uint32_t, uint32_t flag) {
  return cuptiActivityFlushAll(flag);
}

CUptiResult CUPTIAPI cuptiActivityFlushPeriod(uint32_t period_ms) {
  const Entry entry(__func__);
  if (entry.is_refused()) return entry.Return();
  tracer().SetFlushPeriod(period_ms);
  return entry.Return();
}

CUptiResult CUPTIAPI cuptiActivityGetAttribute(CUpti_ActivityAttribute attribute, size_t* size,
                                               void* value) {
  const Entry entry(__func__, attribute);
  if (entry.is_refused()) return entry.Return();
  return entry.Return(tracer().GetAttribute(attribute, size, value));
}

CUptiResult CUPTIAPI cuptiActivitySetAttribute(CUpti_ActivityAttribute attribute, size_t* size,
                                               void* value) {
  const Entry entry(__func__, attribute);
  if (entry.is_refused()) return entry.Return();
  return entry.Return(tracer().SetAttribute(attribute, size, value));
}

CUptiResult CUPTIAPI cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind,
                                                            uint64_t id) {
  const Entry entry(__func__, kind);
  if (entry.is_refused()) return entry.Return();
  if (!sgpu::IsExternalKind(kind)) return entry.Return(CUPTI_ERROR_INVALID_PARAMETER);
  sgpu::ThisThread().external[kind].push_back(id);
  return entry.Return();
}

CUptiResult CUPTIAPI cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind,
                                                           uint64_t* last) {
  const Entry entry(__func__, kind);
  if (entry.is_refused()) return entry.Return();
  if (!sgpu::IsExternalKind(kind)) return entry.Return(CUPTI_ERROR_INVALID_PARAMETER);
  std::vector<uint64_t>& stack = sgpu::ThisThread().external[kind];
  if (stack.empty()) return entry.Return(CUPTI_ERROR_QUEUE_EMPTY);
  if (last != nullptr) *last = stack.back();
  stack.pop_back();
  return entry.Return();
}

CUptiResult CUPTIAPI cuptiActivityEnableRuntimeApi(CUpti_CallbackId cbid, uint8_t enable) {
  const Entry entry(__func__, cbid);
  if (entry.is_refused()) return entry.Return();
  tracer().EnableApi(SGPU_DOMAIN_RUNTIME, cbid, enable != 0);
  return entry.Return();
}

CUptiResult CUPTIAPI cuptiActivityEnableDriverApi(CUpti_CallbackId cbid, uint8_t enable) {
  const Entry entry(__func__, cbid);
  if (entry.is_refused()) return entry.Return();
  tracer().EnableApi(SGPU_DOMAIN_DRIVER, cbid, enable != 0);
  return entry.Return();
}

CUptiResult CUPTIAPI cuptiActivityEnableLatencyTimestamps(uint8_t enable) {
  const Entry entry(__func__);
  if (entry.is_refused()) return entry.Return();
  tracer().latency_timestamps = enable != 0;
  return entry.Return();
}

CUptiResult CUPTIAPI cuptiActivityEnableCudaEventDeviceTimestamps(uint8_t enable) {
  const Entry entry(__func__);
  if (entry.is_refused()) return entry.Return();
  tracer().event_device_timestamps = enable != 0;
  return entry.Return();
}

CUptiResult CUPTIAPI cuptiActivityEnableAllSyncRecords(uint8_t enable) {
  const Entry entry(__func__);
  if (entry.is_refused()) return entry.Return();
  tracer().all_sync_records = enable != 0;
  return entry.Return();
}

CUptiResult CUPTIAPI cuptiSetThreadIdType(CUpti_ActivityThreadIdType type) {
  const Entry entry(__func__);
  if (entry.is_refused()) return entry.Return();
  if (type != CUPTI_ACTIVITY_THREAD_ID_TYPE_DEFAULT &&
      type != CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM) {
    return entry.Return(CUPTI_ERROR_INVALID_PARAMETER);
  }
  tracer().system_thread_ids = type == CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM;
  return entry.Return();
}

CUptiResult CUPTIAPI cuptiGetThreadIdType(CUpti_ActivityThreadIdType* type) {
  const Entry entry(__func__);
  if (entry.is_refused()) return entry.Return();
  if (type == nullptr) return entry.Return(CUPTI_ERROR_INVALID_PARAMETER);
  *type = tracer().system_thread_ids ? CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM
                                     : CUPTI_ACTIVITY_THREAD_ID_TYPE_DEFAULT;
  return entry.Return();
}

// From now on all timestamps are in the clock that `clock` reads.
CUptiResult CUPTIAPI cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc clock) {
  const Entry entry(__func__);
  if (entry.is_refused()) return entry.Return();
  if (clock == nullptr) return entry.Return(CUPTI_ERROR_INVALID_PARAMETER);
  sgpu::Clock::Step(static_cast<int64_t>(clock() - sgpu::Clock::Stamp(sgpu::Clock::Now())));
  return entry.Return();
}

CUptiResult CUPTIAPI cuptiFinalize() {
  if (sgpu::Forked()) return CUPTI_ERROR_UNKNOWN;
  // The one such function that succeeds without a driver.
  if (sgpu::settings().no_driver != 0) return CUPTI_SUCCESS;
  const Entry entry(__func__);
  if (entry.is_refused()) return entry.Return();
  const sgpu::ThreadState& thread = sgpu::ThisThread();
  if (thread.in_buffer_callback != 0) return entry.Return(CUPTI_ERROR_INVALID_OPERATION);
  if (sgpu::subscriber().running() > (thread.in_subscriber_callback != 0 ? 1 : 0)) {
    sgpu::Clock::SleepMs(sgpu::settings().finalize_hang_ms);
  }
  tracer().Finalize();
  sgpu::subscriber().Clear();
  return entry.Return();
}

#pragma GCC visibility pop

}  // extern "C"
