// CUPTI's functions for results, versions, subscribers and ids.
#include <algorithm>
#include <cstring>
#include <string>

#include "tests/cupti_standin/api_ids.h"
#include "tests/cupti_standin/cupti_api.h"
#include "tests/cupti_standin/entry.h"
#include "tests/cupti_standin/gpu.h"
#include "tests/cupti_standin/subscriber.h"
#include "tests/cupti_standin/versions.h"

namespace sgpu {
namespace {

struct ResultName {
  uint32_t result;
  const char* name;
};
constexpr ResultName kResultNames[] = {
    {0, "CUPTI_SUCCESS"},
    {1, "CUPTI_ERROR_INVALID_PARAMETER"},
    {2, "CUPTI_ERROR_INVALID_DEVICE"},
    {3, "CUPTI_ERROR_INVALID_CONTEXT"},
    {7, "CUPTI_ERROR_INVALID_OPERATION"},
    {8, "CUPTI_ERROR_OUT_OF_MEMORY"},
    {9, "CUPTI_ERROR_HARDWARE"},
    {10, "CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT"},
    {11, "CUPTI_ERROR_API_NOT_IMPLEMENTED"},
    {12, "CUPTI_ERROR_MAX_LIMIT_REACHED"},
    {13, "CUPTI_ERROR_NOT_READY"},
    {14, "CUPTI_ERROR_NOT_COMPATIBLE"},
    {15, "CUPTI_ERROR_NOT_INITIALIZED"},
    {18, "CUPTI_ERROR_QUEUE_EMPTY"},
    {19, "CUPTI_ERROR_INVALID_HANDLE"},
    {20, "CUPTI_ERROR_INVALID_STREAM"},
    {21, "CUPTI_ERROR_INVALID_KIND"},
    {23, "CUPTI_ERROR_DISABLED"},
    {24, "CUPTI_ERROR_INVALID_MODULE"},
    {26, "CUPTI_ERROR_HARDWARE_BUSY"},
    {27, "CUPTI_ERROR_NOT_SUPPORTED"},
    {33, "CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED"},
    {34, "CUPTI_ERROR_CUDA_COMPILER_NOT_COMPATIBLE"},
    {35, "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"},
    {38, "CUPTI_ERROR_LEGACY_PROFILER_NOT_SUPPORTED"},
    {39, "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"},
    {40, "CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES"},
    {41, "CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED"},
    {42, "CUPTI_ERROR_CMP_DEVICE_NOT_SUPPORTED"},
    {43, "CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED"},
    {44, "CUPTI_ERROR_SLI_DEVICE_NOT_SUPPORTED"},
    {45, "CUPTI_ERROR_WSL_DEVICE_NOT_SUPPORTED"},
    {999, "CUPTI_ERROR_UNKNOWN"},
};

CUptiResult ResultText(uint32_t result, const char** text) {
  if (text == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  const auto* const found =
      std::find_if(std::begin(kResultNames), std::end(kResultNames),
                   [result](const ResultName& each) { return each.result == result; });
  const bool is_known = found != std::end(kResultNames);
  *text = is_known ? found->name : "<unknown>";
  return is_known ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}

// Domains that something is ever called back for come first.
CUpti_CallbackDomain domain_table[] = {CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_CB_DOMAIN_RUNTIME_API,
                                       CUPTI_CB_DOMAIN_RESOURCE,   CUPTI_CB_DOMAIN_SYNCHRONIZE,
                                       CUPTI_CB_DOMAIN_NVTX,       CUPTI_CB_DOMAIN_STATE};

bool IsDomain(uint32_t domain) { return domain > 0 && domain < kDomains; }

// allowMultipleSubscribers, which follows the fields that 13.0 knows.
bool AllowsOthers(const CUpti_SubscriberParams* params) {
  constexpr size_t kFieldsOf13_0 = 4 * sizeof(size_t);
  uint8_t allows = 0;
  if (VersionIsAtLeast(kCupti13_2) && params->structSize > kFieldsOf13_0) {
    std::memcpy(&allows, reinterpret_cast<const uint8_t*>(params) + kFieldsOf13_0, sizeof(allows));
  }
  return allows != 0;
}

// The handles of contexts are their ids, as those of graphs are theirs.
uint32_t IdOf(const void* handle) {
  return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(handle));
}

}  // namespace
}  // namespace sgpu

using sgpu::Entry;
using sgpu::subscriber;

extern "C" {

#pragma GCC visibility push(default)

CUptiResult CUPTIAPI cuptiGetVersion(uint32_t* version) {
  if (const CUptiResult failure = sgpu::Dispatch(__func__); failure != CUPTI_SUCCESS) {
    return failure;
  }
  if (version == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  if (const CUptiResult failure = sgpu::FailureOf(__func__); failure != CUPTI_SUCCESS) {
    return failure;
  }
  *version = sgpu::Version();
  return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiGetResultString(CUptiResult result, const char** text) {
  if (const CUptiResult failure = sgpu::Dispatch(__func__); failure != CUPTI_SUCCESS) {
    return failure;
  }
  return sgpu::ResultText(result, text);
}

CUptiResult CUPTIAPI cuptiGetErrorMessage(CUptiResult result, const char** text) {
  if (const CUptiResult failure = sgpu::Dispatch(__func__); failure != CUPTI_SUCCESS) {
    return failure;
  }
  return sgpu::ResultText(result, text);
}

CUptiResult CUPTIAPI cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t cbid,
                                          const char** name) {
  if (const CUptiResult failure = sgpu::Dispatch(__func__); failure != CUPTI_SUCCESS) {
    return failure;
  }
  if (name == nullptr ||
      (domain != CUPTI_CB_DOMAIN_DRIVER_API && domain != CUPTI_CB_DOMAIN_RUNTIME_API)) {
    return CUPTI_ERROR_INVALID_PARAMETER;
  }
  const sgpu::ApiName* const known = sgpu::FindApiName(domain, cbid);
  if (known == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *name = known->name;
  return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiSupportedDomains(size_t* count, CUpti_DomainTable* table) {
  const Entry entry(__func__);
  if (entry.is_refused()) return entry.Return();
  if (count == nullptr || table == nullptr) return entry.Return(CUPTI_ERROR_INVALID_PARAMETER);
  *count = std::size(sgpu::domain_table) - (sgpu::VersionIsAtLeast(20) ? 0 : 1);
  *table = sgpu::domain_table;
  return entry.Return();
}

CUptiResult CUPTIAPI cuptiSubscribe(CUpti_SubscriberHandle* handle, CUpti_CallbackFunc callback,
                                    void* user_data) {
  const Entry entry(__func__);
  if (entry.is_refused()) return entry.Return();
  if (handle == nullptr) return entry.Return(CUPTI_ERROR_INVALID_PARAMETER);
  return entry.Return(subscriber().Subscribe(callback, user_data, "", false, handle, nullptr));
}

CUptiResult CUPTIAPI cuptiSubscribe_v2(CUpti_SubscriberHandle* handle, CUpti_CallbackFunc callback,
                                       void* user_data, CUpti_SubscriberParams* params) {
  const Entry entry(__func__);
  if (entry.is_refused()) return entry.Return();
  if (handle == nullptr || params == nullptr) return entry.Return(CUPTI_ERROR_INVALID_PARAMETER);
  std::string holder;
  const CUptiResult result = subscriber().Subscribe(
      callback, user_data, params->subscriberName == nullptr ? "" : params->subscriberName,
      sgpu::AllowsOthers(params), handle, &holder);
  if (params->oldSubscriberName != nullptr && params->oldSubscriberSize > holder.size()) {
    std::memcpy(params->oldSubscriberName, holder.c_str(), holder.size() + 1);
  }
  return entry.Return(result);
}

CUptiResult CUPTIAPI cuptiUnsubscribe(CUpti_SubscriberHandle handle) {
  const Entry entry(__func__);
  if (entry.is_refused()) return entry.Return();
  return entry.Return(subscriber().Unsubscribe(handle));
}

CUptiResult CUPTIAPI cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle handle,
                                         CUpti_CallbackDomain domain, CUpti_CallbackId cbid) {
  const Entry entry(__func__, cbid);
  if (entry.is_refused()) return entry.Return();
  if (!subscriber().IsCurrent(handle) || !sgpu::IsDomain(domain)) {
    return entry.Return(CUPTI_ERROR_INVALID_PARAMETER);
  }
  subscriber().Enable(domain, cbid, enable != 0);
  return entry.Return();
}

CUptiResult CUPTIAPI cuptiEnableDomain(uint32_t enable, CUpti_SubscriberHandle handle,
                                       CUpti_CallbackDomain domain) {
  const Entry entry(__func__, domain);
  if (entry.is_refused()) return entry.Return();
  if (!subscriber().IsCurrent(handle) || !sgpu::IsDomain(domain)) {
    return entry.Return(CUPTI_ERROR_INVALID_PARAMETER);
  }
  subscriber().EnableDomain(domain, enable != 0);
  return entry.Return();
}

CUptiResult CUPTIAPI cuptiEnableAllDomains(uint32_t enable, CUpti_SubscriberHandle handle) {
  const Entry entry(__func__);
  if (entry.is_refused()) return entry.Return();
  if (!subscriber().IsCurrent(handle)) return entry.Return(CUPTI_ERROR_INVALID_PARAMETER);
  for (uint32_t domain = 1; domain < sgpu::kDomains; ++domain) {
    subscriber().EnableDomain(domain, enable != 0);
  }
  return entry.Return();
}

CUptiResult CUPTIAPI cuptiGetCallbackState(uint32_t* enable, CUpti_SubscriberHandle handle,
                                           CUpti_CallbackDomain domain, CUpti_CallbackId cbid) {
  const Entry entry(__func__, cbid);
  if (entry.is_refused()) return entry.Return();
  if (enable == nullptr || !subscriber().IsCurrent(handle)) {
    return entry.Return(CUPTI_ERROR_INVALID_PARAMETER);
  }
  *enable = subscriber().IsOn(domain, cbid) ? 1 : 0;
  return entry.Return();
}

CUptiResult CUPTIAPI cuptiGetContextId(CUcontext context, uint32_t* id) {
  const Entry entry(__func__);
  if (entry.is_refused()) return entry.Return();
  if (id == nullptr) return entry.Return(CUPTI_ERROR_INVALID_PARAMETER);
  if (!sgpu::gpu().Context(sgpu::IdOf(context))) return entry.Return(CUPTI_ERROR_INVALID_CONTEXT);
  *id = sgpu::IdOf(context);
  return entry.Return();
}

CUptiResult CUPTIAPI cuptiGetDeviceId(CUcontext context, uint32_t* device) {
  const Entry entry(__func__);
  if (entry.is_refused()) return entry.Return();
  if (device == nullptr) return entry.Return(CUPTI_ERROR_INVALID_PARAMETER);
  const auto info = sgpu::gpu().Context(sgpu::IdOf(context));
  if (!info) return entry.Return(CUPTI_ERROR_INVALID_CONTEXT);
  *device = info->device;
  return entry.Return();
}

CUptiResult CUPTIAPI cuptiGetStreamIdEx(CUcontext context, CUstream stream, uint8_t, uint32_t* id) {
  const Entry entry(__func__);
  if (entry.is_refused()) return entry.Return();
  if (id == nullptr) return entry.Return(CUPTI_ERROR_INVALID_PARAMETER);
  if (stream == nullptr) {
    if (!sgpu::gpu().Context(sgpu::IdOf(context))) return entry.Return(CUPTI_ERROR_INVALID_CONTEXT);
    *id = sgpu::kDefaultStreamId;
    return entry.Return();
  }
  const auto info = sgpu::gpu().Stream(sgpu::IdOf(stream));
  if (!info) return entry.Return(CUPTI_ERROR_INVALID_STREAM);
  *id = info->id;
  return entry.Return();
}

CUptiResult CUPTIAPI cuptiGetStreamId(CUcontext context, CUstream stream, uint32_t* id) {
  return cuptiGetStreamIdEx(context, stream, 0, id);
}

CUptiResult CUPTIAPI cuptiGetGraphId(CUgraph graph, uint32_t* id) {
  if (id == nullptr || graph == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *id = sgpu::IdOf(graph);
  return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiGetGraphExecId(CUgraphExec exec, uint32_t* id) {
  if (id == nullptr || exec == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *id = sgpu::IdOf(exec);
  return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiGetGraphNodeId(CUgraphNode node, uint64_t* id) {
  if (id == nullptr || node == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *id = reinterpret_cast<uintptr_t>(node);
  return CUPTI_SUCCESS;
}

#pragma GCC visibility pop

}  // extern "C"
