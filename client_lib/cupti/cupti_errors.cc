#include "client_lib/cupti/cupti_errors.h"

#include <stdio.h>
#include <string.h>

#include "client_lib/cupti/rivals.h"

namespace profd::client {
namespace {

using wire::ArmFailedReason;

constexpr struct {
  cupti::Result result;
  const char* name;
} kResultNames[] = {
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
    {19, "CUPTI_ERROR_INVALID_HANDLE"},
    {21, "CUPTI_ERROR_INVALID_KIND"},
    {23, "CUPTI_ERROR_DISABLED"},
    {26, "CUPTI_ERROR_HARDWARE_BUSY"},
    {27, "CUPTI_ERROR_NOT_SUPPORTED"},
    {33, "CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED"},
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

}  // namespace

const char* ResultName(cupti::Result result) {
  for (const auto& known : kResultNames) {
    if (known.result == result) return known.name;
  }
  return "an unknown result";
}

void ExplainResult(cupti::Result result, const char* call, const char* rival, ArmFailure* failure) {
  const auto say = [&](ArmFailedReason reason, const char* what, const char* remedy) {
    failure->reason = reason;
    snprintf(failure->text, sizeof(failure->text), "%s (%s: %d, %s); %s", what, call, result,
             ResultName(result), remedy);
  };
  switch (result) {
    // NOT_COMPATIBLE: from 13.2 on, while another tool uses the interface for several subscribers.
    case cupti::kErrorNotCompatible:
    case cupti::kErrorMultipleSubscribers: {
      char what[192];
      // 13.x answers "<not provided>" for a holder without a name.
      const bool is_named = rival[0] != '\0' && strstr(rival, "not provided") == nullptr;
      snprintf(what, sizeof(what), "CUPTI is held by %s", is_named ? rival : GuessRival());
      return say(ArmFailedReason::kCuptiBusy, what, "stop it, or wait for its end, and try again");
    }
    case cupti::kErrorNotInitialized:
    case cupti::kErrorUnknown:
      return say(ArmFailedReason::kNoDriver, "CUPTI finds no driver that it can work with",
                 "see that the driver is as new as this libcupti, and that this process has not "
                 "been forked from one that uses CUDA");
    case cupti::kErrorInsufficientPrivileges:
    case cupti::kErrorVirtualizedInsufficientPrivileges:
      return say(ArmFailedReason::kGpuRefused, "the driver does not allow this user to profile",
                 "set NVreg_RestrictProfilingToAdminUsers=0, or profile as an administrator");
    case cupti::kErrorConfidentialComputing:
      return say(ArmFailedReason::kGpuRefused, "the GPU is in confidential computing mode",
                 "switch on its developer tools mode");
    case cupti::kErrorMigDevice:
    case cupti::kErrorCmpDevice:
    case cupti::kErrorWslDevice:
    case cupti::kErrorLegacyProfilerNotSupported:
      return say(ArmFailedReason::kGpuRefused, "this GPU cannot be traced",
                 "capture with --gpu off");
    default:
      return say(ArmFailedReason::kGpuRefused, "CUPTI refuses", "capture with --gpu off");
  }
}

}  // namespace profd::client
