#include "client_lib/cupti/api_names.h"

#include <string.h>

#include "client_lib/cupti/launch_tracker.h"

namespace profd::client {
namespace {

// Calls that only ask, and are made by the thousand.
constexpr const char* kNoise[] = {
    "cudaGetDevice",
    "cudaGetLastError",
    "cudaPeekAtLastError",
    "cudaStreamIsCapturing",
    "cudaEventQuery",
    "cudaStreamQuery",
    "cudaStreamGetCaptureInfo",
    "cudaStreamGetCaptureInfo_v2",
    "cudaStreamGetCaptureInfo_v3",
    "cuCtxGetCurrent",
    "cuKernelGetAttribute",
    "cuDevicePrimaryCtxGetState",
    "cuPointerGetAttribute",
    "cuPointerGetAttributes",
    "cuEventQuery",
    "cuStreamQuery",
    "cuGetProcAddress",
    "cuGetProcAddress_v2",
    "cuStreamIsCapturing",
};

// Driver calls that put work on the GPU, wait for it, or take long, begin so.
constexpr const char* kDriverWork[] = {
    "cuLaunch",
    "cuGraphLaunch",
    "cuMemcpy",
    "cuMemset",
    "cuMemBatchDecompress",
    "cuMemAlloc",
    "cuMemFree",
    // Memory of expandable segments.
    "cuMemCreate",
    "cuMemRelease",
    "cuMemMap",
    "cuMemUnmap",
    "cuMemSetAccess",
    "cuMemPrefetchAsync",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
    "cuStreamWaitValue",
    "cuStreamWriteValue",
    "cuStreamBeginCapture",
    "cuStreamEndCapture",
    "cuCtxSynchronize",
    "cuEventSynchronize",
    "cuEventRecord",
    "cuModuleLoad",
    "cuLibraryLoad",
    // Lazy loading happens in these.
    "cuLibraryGetKernel",
    "cuModuleGetFunction",
    "cuTensorMapEncode",
    "cuGraphInstantiate",
};

// Calls that make work of the GPU, by how their names begin.
constexpr const char* kLaunches[] = {"cudaLaunchKernel", "cudaLaunchCooperativeKernel", "cuLaunch",
                                     "cudaGraphLaunch", "cuGraphLaunch"};
constexpr const char* kCopies[] = {"cudaMemcpy", "cudaMemset", "cuMemcpy", "cuMemset"};
constexpr const char* kDecompressions[] = {"cuMemBatchDecompress"};
constexpr const char* kCaptureBegins[] = {"cudaStreamBeginCapture", "cuStreamBeginCapture"};
constexpr const char* kCaptureEnds[] = {"cudaStreamEndCapture", "cuStreamEndCapture"};

template <size_t kCount>
bool StartsWithOneOf(const char* const (&starts)[kCount], const char* name) {
  for (const char* start : starts) {
    if (strncmp(name, start, strlen(start)) == 0) return true;
  }
  return false;
}

template <size_t kCount>
bool IsOneOf(const char* const (&names)[kCount], const char* name, size_t length) {
  for (const char* one : names) {
    if (strlen(one) == length && memcmp(one, name, length) == 0) return true;
  }
  return false;
}

}  // namespace

// CUPTI appends a version to the names of the runtime's functions ("cudaLaunchKernel_v7000"). _ptsz
// and _ptds name the variants for one default stream per thread.
size_t ApiNameLength(const char* name) {
  size_t length = strlen(name);
  size_t digits = 0;
  while (digits < length && name[length - 1 - digits] >= '0' && name[length - 1 - digits] <= '9') {
    ++digits;
  }
  const size_t before = length - digits;
  if (digits >= 4 && before >= 2 && name[before - 1] == 'v' && name[before - 2] == '_') {
    length = before - 2;
  }
  if (length > 5 &&
      (memcmp(name + length - 5, "_ptsz", 5) == 0 || memcmp(name + length - 5, "_ptds", 5) == 0)) {
    length -= 5;
  }
  return length;
}

uint8_t LaunchesOf(const char* name) {
  // The name begins as those of launches do, but the work runs on the host.
  if (strncmp(name, "cuLaunchHostFunc", 16) == 0) return 0;
  if (StartsWithOneOf(kLaunches, name)) return LaunchTracker::kIsAwaited;
  if (StartsWithOneOf(kCopies, name) || IsDecompression(name)) return LaunchTracker::kMayBeSilent;
  return 0;
}

bool IsDecompression(const char* name) { return StartsWithOneOf(kDecompressions, name); }

bool BeginsGraphCapture(const char* name) { return StartsWithOneOf(kCaptureBegins, name); }

bool EndsGraphCapture(const char* name) { return StartsWithOneOf(kCaptureEnds, name); }

bool KeepsApi(ApiFilter filter, bool is_driver, const char* name) {
  if (filter == ApiFilter::kNone) return false;
  if (IsOneOf(kNoise, name, ApiNameLength(name))) return false;
  if (!is_driver || filter == ApiFilter::kAll) return true;
  return StartsWithOneOf(kDriverWork, name);
}

}  // namespace profd::client
