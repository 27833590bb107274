#include "tests/gpu/driver_api.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace profd::gpu {
namespace {

template <typename F>
bool Find(void* library, const char* name, F& function, std::string& why) {
  function = reinterpret_cast<F>(dlsym(library, name));
  if (function != nullptr) return true;
  why = std::string("libcuda.so.1 has no ") + name;
  return false;
}

bool FindAll(void* library, DriverApi& api, std::string& why) {
  return Find(library, "cuInit", api.Init, why) &&
         Find(library, "cuDriverGetVersion", api.DriverGetVersion, why) &&
         Find(library, "cuGetErrorString", api.GetErrorString, why) &&
         Find(library, "cuDeviceGetCount", api.DeviceGetCount, why) &&
         Find(library, "cuDeviceGet", api.DeviceGet, why) &&
         Find(library, "cuDeviceGetName", api.DeviceGetName, why) &&
         Find(library, "cuDevicePrimaryCtxRetain", api.DevicePrimaryCtxRetain, why) &&
         Find(library, "cuCtxSetCurrent", api.CtxSetCurrent, why) &&
         Find(library, "cuCtxSynchronize", api.CtxSynchronize, why) &&
         Find(library, "cuModuleLoadData", api.ModuleLoadData, why) &&
         Find(library, "cuModuleUnload", api.ModuleUnload, why) &&
         Find(library, "cuModuleGetFunction", api.ModuleGetFunction, why) &&
         Find(library, "cuMemAlloc_v2", api.MemAlloc, why) &&
         Find(library, "cuMemFree_v2", api.MemFree, why) &&
         Find(library, "cuMemAllocHost_v2", api.MemAllocHost, why) &&
         Find(library, "cuMemcpyHtoDAsync_v2", api.MemcpyHtoDAsync, why) &&
         Find(library, "cuMemcpyDtoHAsync_v2", api.MemcpyDtoHAsync, why) &&
         Find(library, "cuMemcpyDtoDAsync_v2", api.MemcpyDtoDAsync, why) &&
         Find(library, "cuMemsetD32Async", api.MemsetD32Async, why) &&
         Find(library, "cuStreamCreate", api.StreamCreate, why) &&
         Find(library, "cuStreamSynchronize", api.StreamSynchronize, why) &&
         Find(library, "cuStreamWaitEvent", api.StreamWaitEvent, why) &&
         Find(library, "cuEventCreate", api.EventCreate, why) &&
         Find(library, "cuEventRecord", api.EventRecord, why) &&
         Find(library, "cuLaunchKernel", api.LaunchKernel, why) &&
         Find(library, "cuStreamBeginCapture_v2", api.StreamBeginCapture, why) &&
         Find(library, "cuStreamEndCapture", api.StreamEndCapture, why) &&
         Find(library, "cuGraphInstantiateWithFlags", api.GraphInstantiateWithFlags, why) &&
         Find(library, "cuGraphLaunch", api.GraphLaunch, why);
}

std::string Describe(const DriverApi& api, int result) {
  const char* text = nullptr;
  if (api.GetErrorString(result, &text) != 0 || text == nullptr) text = "unknown error";
  return std::string(text) + " (" + std::to_string(result) + ")";
}

}  // namespace

bool Load(DriverApi& api, std::string& why) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) {
    why = "no NVIDIA driver: libcuda.so.1 cannot be loaded";
    return false;
  }
  if (!FindAll(library, api, why)) return false;
  if (const int result = api.Init(0); result != 0) {
    why = "cuInit: " + Describe(api, result);
    return false;
  }
  int count = 0;
  if (api.DeviceGetCount(&count) != 0 || count == 0) {
    why = "the driver knows no device";
    return false;
  }
  return true;
}

void Check(const DriverApi& api, int result, const char* call) {
  if (result == 0) return;
  fprintf(stderr, "gpu: %s: %s\n", call, Describe(api, result).c_str());
  exit(1);
}

}  // namespace profd::gpu
