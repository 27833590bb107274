// The few functions of the CUDA driver API that the GPU tests call, found at run time in
// libcuda.so.1: building the tests takes no CUDA toolkit.
//
// Types and values are those of cuda.h, which has kept them since CUDA 3 (`_v2` names).
// Every call that fails ends the program with the call's name and the driver's own words: a
// test program whose GPU does not work has nothing to go on with.
//
// Threads: any, once Load() has returned.
#ifndef PROFD_TESTS_GPU_DRIVER_API_H_
#define PROFD_TESTS_GPU_DRIVER_API_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace profd::gpu {

using Device = int;
using DevicePointer = unsigned long long;
struct ContextObject;
struct ModuleObject;
struct FunctionObject;
struct StreamObject;
struct EventObject;
struct GraphObject;
struct GraphExecObject;
using Context = ContextObject*;
using Module = ModuleObject*;
using Function = FunctionObject*;
using Stream = StreamObject*;
using Event = EventObject*;
using Graph = GraphObject*;
using GraphExec = GraphExecObject*;

inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kCaptureRelaxed = 2;

struct DriverApi {
  int (*Init)(unsigned);
  int (*DriverGetVersion)(int*);
  int (*GetErrorString)(int, const char**);
  int (*DeviceGetCount)(int*);
  int (*DeviceGet)(Device*, int);
  int (*DeviceGetName)(char*, int, Device);
  int (*DevicePrimaryCtxRetain)(Context*, Device);
  int (*CtxSetCurrent)(Context);
  int (*CtxSynchronize)();
  int (*ModuleLoadData)(Module*, const void*);
  int (*ModuleUnload)(Module);
  int (*ModuleGetFunction)(Function*, Module, const char*);
  int (*MemAlloc)(DevicePointer*, size_t);
  int (*MemFree)(DevicePointer);
  int (*MemAllocHost)(void**, size_t);
  int (*MemcpyHtoDAsync)(DevicePointer, const void*, size_t, Stream);
  int (*MemcpyDtoHAsync)(void*, DevicePointer, size_t, Stream);
  int (*MemcpyDtoDAsync)(DevicePointer, DevicePointer, size_t, Stream);
  int (*MemsetD32Async)(DevicePointer, unsigned, size_t, Stream);
  int (*StreamCreate)(Stream*, unsigned);
  int (*StreamSynchronize)(Stream);
  int (*StreamWaitEvent)(Stream, Event, unsigned);
  int (*EventCreate)(Event*, unsigned);
  int (*EventRecord)(Event, Stream);
  int (*LaunchKernel)(Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                      unsigned, Stream, void**, void**);
  int (*StreamBeginCapture)(Stream, unsigned);
  int (*StreamEndCapture)(Stream, Graph*);
  int (*GraphInstantiateWithFlags)(GraphExec*, Graph, unsigned long long);
  int (*GraphLaunch)(GraphExec, Stream);
};

// False: there is no usable driver or no device; `why` says which.
bool Load(DriverApi& api, std::string& why);

// Ends the program unless `result` is CUDA_SUCCESS.
void Check(const DriverApi& api, int result, const char* call);

}  // namespace profd::gpu

#define PROFD_GPU_CALL(api, function, ...) \
  ::profd::gpu::Check((api), (api).function(__VA_ARGS__), #function)

#endif  // PROFD_TESTS_GPU_DRIVER_API_H_
