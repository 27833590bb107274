// CUPTI's callback ids of the API calls that the software GPU makes, and of some that programs make
// all the time: what cuptiGetCallbackName() knows.
#ifndef PROFD_TESTS_CUPTI_STANDIN_API_IDS_H_
#define PROFD_TESTS_CUPTI_STANDIN_API_IDS_H_

#include <cstdint>

namespace sgpu {

struct ApiName {
  uint32_t cbid;
  const char* name;
  uint32_t driver_cbid;  // Of a runtime function: the driver's function within it; 0: none.
};

enum RuntimeCbid : uint32_t {
  kCudaMalloc = 20,
  kCudaFree = 22,
  kCudaMemcpy = 31,
  kCudaMemcpyAsync = 41,
  kCudaMemset = 49,
  kCudaMemsetAsync = 51,
  kCudaStreamSynchronize = 131,
  kCudaEventRecord = 135,
  kCudaEventSynchronize = 137,
  kCudaEventQuery = 138,
  kCudaStreamWaitEvent = 147,
  kCudaMemcpyPeerAsync = 161,
  kCudaDeviceSynchronize = 165,
  kCudaLaunchKernel = 211,
  kCudaLaunchHostFunc = 284,
  kCudaGraphInstantiate = 310,
  kCudaGraphLaunch = 311,
  kCudaStreamBeginCapture = 315,
  kCudaStreamEndCapture = 319,
  kCudaMallocAsync = 373,
  kCudaFreeAsync = 375,
  kCudaMemPoolTrimTo = 377,
};

enum DriverCbid : uint32_t {
  kCuMemBatchDecompressAsync = 761,
};

constexpr ApiName kRuntimeNames[] = {
    {10, "cudaGetLastError_v3020", 0},
    {11, "cudaPeekAtLastError_v3020", 0},
    {17, "cudaGetDevice_v3020", 304},
    {kCudaMalloc, "cudaMalloc_v3020", 243},
    {kCudaFree, "cudaFree_v3020", 245},
    {kCudaMemcpy, "cudaMemcpy_v3020", 276},
    {kCudaMemcpyAsync, "cudaMemcpyAsync_v3020", 306},
    {kCudaMemset, "cudaMemset_v3020", 216},
    {kCudaMemsetAsync, "cudaMemsetAsync_v3020", 216},
    {kCudaStreamSynchronize, "cudaStreamSynchronize_v3020", 126},
    {133, "cudaEventCreate_v3020", 0},
    {kCudaEventRecord, "cudaEventRecord_v3020", 119},
    {kCudaEventSynchronize, "cudaEventSynchronize_v3020", 121},
    {kCudaEventQuery, "cudaEventQuery_v3020", 0},
    {kCudaStreamWaitEvent, "cudaStreamWaitEvent_v3020", 295},
    {kCudaMemcpyPeerAsync, "cudaMemcpyPeerAsync_v4000", 319},
    {kCudaDeviceSynchronize, "cudaDeviceSynchronize_v3020", 17},
    {kCudaLaunchKernel, "cudaLaunchKernel_v7000", 307},
    {kCudaLaunchHostFunc, "cudaLaunchHostFunc_v10000", 527},
    {kCudaGraphInstantiate, "cudaGraphInstantiate_v10000", 0},
    {kCudaGraphLaunch, "cudaGraphLaunch_v10000", 514},
    {kCudaStreamBeginCapture, "cudaStreamBeginCapture_v10000", 0},
    {kCudaStreamEndCapture, "cudaStreamEndCapture_v10000", 0},
    {kCudaMallocAsync, "cudaMallocAsync_v11020", 598},
    {kCudaFreeAsync, "cudaFreeAsync_v11020", 600},
    {kCudaMemPoolTrimTo, "cudaMemPoolTrimTo_v11020", 0},
    {430, "cudaLaunchKernelExC_v11060", 652},
};

constexpr ApiName kDriverNames[] = {
    {17, "cuCtxSynchronize", 0},      {119, "cuEventRecord", 0},
    {121, "cuEventSynchronize", 0},   {126, "cuStreamSynchronize", 0},
    {216, "cuMemsetD8Async", 0},      {243, "cuMemAlloc_v2", 0},
    {245, "cuMemFree_v2", 0},         {276, "cuMemcpyHtoD_v2", 0},
    {277, "cuMemcpyHtoDAsync_v2", 0}, {278, "cuMemcpyDtoH_v2", 0},
    {279, "cuMemcpyDtoHAsync_v2", 0}, {280, "cuMemcpyDtoD_v2", 0},
    {281, "cuMemcpyDtoDAsync_v2", 0}, {295, "cuStreamWaitEvent", 0},
    {304, "cuCtxGetCurrent", 0},      {306, "cuMemcpyAsync", 0},
    {307, "cuLaunchKernel", 0},       {319, "cuMemcpyPeerAsync", 0},
    {514, "cuGraphLaunch", 0},        {527, "cuLaunchHostFunc", 0},
    {598, "cuMemAllocAsync", 0},      {600, "cuMemFreeAsync", 0},
    {652, "cuLaunchKernelEx", 0},     {kCuMemBatchDecompressAsync, "cuMemBatchDecompressAsync", 0},
};

// nullptr for a call that is not above.
const ApiName* FindApiName(uint32_t domain, uint32_t cbid);

}  // namespace sgpu

#endif  // PROFD_TESTS_CUPTI_STANDIN_API_IDS_H_
