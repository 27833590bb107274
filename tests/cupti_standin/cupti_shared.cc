// CUPTI's functions of the second interface, which takes a subscriber's handle. The stand-in has
// room for one such client, and for SharedRival.
#include <atomic>
#include <cstring>

#include "tests/cupti_standin/cupti_api.h"
#include "tests/cupti_standin/entry.h"
#include "tests/cupti_standin/settings.h"
#include "tests/cupti_standin/shared_rival.h"
#include "tests/cupti_standin/subscriber.h"
#include "tests/cupti_standin/tracer.h"

namespace sgpu {
namespace {

std::atomic<SgpuBufferRequested> shared_requested{nullptr};
std::atomic<SgpuBufferCompleted> shared_completed{nullptr};

void Request(uint8_t** buffer, size_t* size, size_t* max_records) {
  size_t info = sizeof(info);
  shared_requested.load()(buffer, size, max_records, &info);
}

void CompleteShared(CUcontext, uint32_t, uint8_t* buffer, size_t size, size_t valid_size) {
  size_t info[4] = {sizeof(info), 0, 0, 0};
  shared_completed.load()(buffer, size, valid_size, info);
}

CUptiResult EnableShared(CUpti_SubscriberHandle handle, uint32_t kind) {
  if (!subscriber().IsCurrent(handle)) return CUPTI_ERROR_INVALID_PARAMETER;
  // One of all subscribers has to choose graph-level records, before any kind is on.
  if (kind == kGraphTrace && settings().shared_graph_trace == 0) return CUPTI_ERROR_NOT_COMPATIBLE;
  return tracer().Enable(kind);
}

// Those that a subscriber has for itself, and the one that all share.
enum SharedAttribute : uint32_t {
  kLatencyTimestamps = 15,
  kAllSyncRecords = 16,
  kSharedGraphTrace = 20,
  kThreadIdType = 21,
};

// The bytes of attribute `id`; 0: it is one of the first interface.
size_t SharedAttributeBytes(uint32_t id) {
  switch (id) {
    case kLatencyTimestamps:
    case kAllSyncRecords:
    case kSharedGraphTrace:
      return sizeof(uint8_t);
    case kThreadIdType:
      return sizeof(uint32_t);
    default:
      return 0;
  }
}

uint32_t ReadShared(uint32_t id) {
  switch (id) {
    case kLatencyTimestamps:
      return tracer().latency_timestamps ? 1 : 0;
    case kAllSyncRecords:
      return tracer().all_sync_records ? 1 : 0;
    case kThreadIdType:
      return tracer().system_thread_ids ? 1 : 0;
    default:
      return settings().shared_graph_trace != 0 ? 1 : 0;
  }
}

void WriteShared(uint32_t id, uint32_t value) {
  switch (id) {
    case kLatencyTimestamps:
      tracer().latency_timestamps = value != 0;
      return;
    case kAllSyncRecords:
      tracer().all_sync_records = value != 0;
      return;
    case kThreadIdType:
      tracer().system_thread_ids = value != 0;
      return;
    default:
      settings().shared_graph_trace = value;
  }
}

}  // namespace
}  // namespace sgpu

using sgpu::Entry;
using sgpu::subscriber;
using sgpu::tracer;

extern "C" {

#pragma GCC visibility push(default)

CUptiResult CUPTIAPI cuptiActivityRegisterCallbacks_v2(CUpti_SubscriberHandle handle,
                                                       SgpuBufferRequested requested,
                                                       SgpuBufferCompleted completed) {
  const Entry entry(__func__);
  if (entry.is_refused()) return entry.Return();
  if (!subscriber().IsCurrent(handle) || requested == nullptr || completed == nullptr) {
    return entry.Return(CUPTI_ERROR_INVALID_PARAMETER);
  }
  tracer().BeginSharedSubscription();
  sgpu::shared_requested = requested;
  sgpu::shared_completed = completed;
  tracer().RegisterCallbacks(&sgpu::Request, &sgpu::CompleteShared);
  return entry.Return();
}

CUptiResult CUPTIAPI cuptiActivityEnable_v2(CUpti_SubscriberHandle handle, CUpti_ActivityKind kind,
                                            void*) {
  const Entry entry(__func__, kind);
  if (entry.is_refused()) return entry.Return();
  return entry.Return(sgpu::EnableShared(handle, kind));
}

CUptiResult CUPTIAPI cuptiActivityEnableAndDump_v2(CUpti_SubscriberHandle handle,
                                                   CUpti_ActivityKind kind, void*) {
  const Entry entry(__func__, kind);
  if (entry.is_refused()) return entry.Return();
  const CUptiResult result = sgpu::EnableShared(handle, kind);
  if (result == CUPTI_SUCCESS) tracer().Dump(kind);
  return entry.Return(result);
}

CUptiResult CUPTIAPI cuptiActivityDisable_v2(CUpti_SubscriberHandle handle, CUpti_ActivityKind kind,
                                             void*) {
  const Entry entry(__func__, kind);
  if (entry.is_refused()) return entry.Return();
  if (!subscriber().IsCurrent(handle)) return entry.Return(CUPTI_ERROR_INVALID_PARAMETER);
  return entry.Return(tracer().Disable(kind));
}

CUptiResult CUPTIAPI cuptiActivityGetEnabledKinds(CUpti_SubscriberHandle handle,
                                                  CUpti_ActivityKind* buffer, uint32_t* room,
                                                  uint32_t* count) {
  const Entry entry(__func__);
  if (entry.is_refused()) return entry.Return();
  if (count == nullptr || (buffer != nullptr && room == nullptr)) {
    return entry.Return(CUPTI_ERROR_INVALID_PARAMETER);
  }
  uint64_t kinds = tracer().kinds();
  if (handle == nullptr) kinds |= sgpu::shared_rival().kinds();
  *count = 0;
  for (uint32_t kind = 0; kind < sgpu::kKinds; ++kind) {
    if ((kinds >> kind & 1) == 0) continue;
    if (buffer != nullptr && *count < *room) buffer[*count] = static_cast<CUpti_ActivityKind>(kind);
    ++*count;
  }
  return entry.Return();
}

CUptiResult CUPTIAPI cuptiActivityEnableRuntimeApi_v2(CUpti_SubscriberHandle handle,
                                                      CUpti_CallbackId cbid, uint8_t enable) {
  const Entry entry(__func__, cbid);
  if (entry.is_refused()) return entry.Return();
  if (!subscriber().IsCurrent(handle)) return entry.Return(CUPTI_ERROR_INVALID_PARAMETER);
  tracer().EnableApi(SGPU_DOMAIN_RUNTIME, cbid, enable != 0);
  return entry.Return();
}

CUptiResult CUPTIAPI cuptiActivityEnableDriverApi_v2(CUpti_SubscriberHandle handle,
                                                     CUpti_CallbackId cbid, uint8_t enable) {
  const Entry entry(__func__, cbid);
  if (entry.is_refused()) return entry.Return();
  if (!subscriber().IsCurrent(handle)) return entry.Return(CUPTI_ERROR_INVALID_PARAMETER);
  tracer().EnableApi(SGPU_DOMAIN_DRIVER, cbid, enable != 0);
  return entry.Return();
}

CUptiResult CUPTIAPI cuptiActivityGetNumDroppedRecords_v2(CUpti_SubscriberHandle handle, CUcontext,
                                                          uint32_t, size_t* dropped) {
  const Entry entry(__func__);
  if (entry.is_refused()) return entry.Return();
  if (!subscriber().IsCurrent(handle) || dropped == nullptr) {
    return entry.Return(CUPTI_ERROR_INVALID_PARAMETER);
  }
  *dropped = tracer().TakeDropped();
  return entry.Return();
}

CUptiResult CUPTIAPI cuptiActivityGetAttribute_v2(CUpti_SubscriberHandle handle,
                                                  CUpti_ActivityAttribute attribute, size_t* size,
                                                  void* value) {
  const Entry entry(__func__, attribute);
  if (entry.is_refused()) return entry.Return();
  if (!subscriber().IsCurrent(handle)) return entry.Return(CUPTI_ERROR_INVALID_PARAMETER);
  const size_t bytes = sgpu::SharedAttributeBytes(attribute);
  if (bytes == 0) return entry.Return(tracer().GetAttribute(attribute, size, value));
  if (size == nullptr || value == nullptr) return entry.Return(CUPTI_ERROR_INVALID_PARAMETER);
  if (*size < bytes) return entry.Return(CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT);
  const uint32_t current = sgpu::ReadShared(attribute);
  std::memcpy(value, &current, bytes);
  *size = bytes;
  return entry.Return();
}

CUptiResult CUPTIAPI cuptiActivitySetAttribute_v2(CUpti_SubscriberHandle handle,
                                                  CUpti_ActivityAttribute attribute, size_t* size,
                                                  void* value) {
  const Entry entry(__func__, attribute);
  if (entry.is_refused()) return entry.Return();
  if (!subscriber().IsCurrent(handle)) return entry.Return(CUPTI_ERROR_INVALID_PARAMETER);
  const size_t bytes = sgpu::SharedAttributeBytes(attribute);
  if (bytes == 0) return entry.Return(tracer().SetAttribute(attribute, size, value));
  if (size == nullptr || value == nullptr) return entry.Return(CUPTI_ERROR_INVALID_PARAMETER);
  if (*size < bytes) return entry.Return(CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT);
  uint32_t next = 0;
  std::memcpy(&next, value, bytes);
  sgpu::WriteShared(attribute, next);
  return entry.Return();
}

#pragma GCC visibility pop

}  // extern "C"
