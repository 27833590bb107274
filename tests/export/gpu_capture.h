// A small capture with a GPU, for tests of traces: two steps of a training program on one
// thread, each of which copies a batch in, launches two kernels and waits.
//
//   step 10           0 ... 10'000     step 11: the same, 10'000 later, correlations + 10
//   forward           1'000 ... 6'000  around the operators aten::to and aten::mm
//   cudaMemcpyAsync   1'200 [1]        Memcpy HtoD  2'000 ... 3'000 on stream 7
//   cudaLaunchKernel  2'200 [2]        gemm         3'500 ... 5'500
//   cudaLaunchKernel  3'200 [3]        relu         5'600 ... 6'600, in forward but no operator
//   cudaStreamSynchronize 6'500 ... 8'000 [4]
#ifndef PROFD_TESTS_EXPORT_GPU_CAPTURE_H_
#define PROFD_TESTS_EXPORT_GPU_CAPTURE_H_

#include <cstdint>

#include "daemon/report/index/gpu_names.h"
#include "tests/fakes/fake_capture_reader.h"

namespace profd {

inline GpuDevice H200() {
  return {.number = 0,
          .name = "NVIDIA H200",
          .uuid = "",
          .memory_bytes = 150'000'000'000,
          .compute_major = 9,
          .compute_minor = 0,
          .sm_count = 132,
          .warp_threads = 32,
          .max_threads_per_block = 1024,
          .max_threads_per_sm = 2048,
          .max_blocks_per_sm = 32,
          .registers_per_block = 65536,
          .registers_per_sm = 65536,
          .shared_bytes_per_block = 49152,
          .shared_bytes_per_sm = 233472,
          .shared_bytes_per_block_optin = 232448};
}

inline GpuRecord RecordedGpu() {
  GpuRecord gpu;
  gpu.outcome = GpuOutcome::kRecorded;
  gpu.mode = GpuMode::kDefault;
  gpu.cupti_version = 130001;
  gpu.driver_version = 13000;
  gpu.devices = {H200()};
  return gpu;
}

// The kernel that the demangler has to read: "gemm(float*, int)".
inline constexpr char kMangledGemm[] = "_Z4gemmPfi";
inline constexpr FakeGpu kGemm = {.grid = {66, 1, 1},
                                  .block = {128, 1, 1},
                                  .registers_per_thread = 128,
                                  .static_shared_bytes = 1024,
                                  .dynamic_shared_bytes = 2048};

// Adds the thread `main` (os 4242) with its two steps.
inline uint32_t AddGpuSteps(FakeCaptureReader& reader) {
  reader.mutable_record().gpu = RecordedGpu();
  const uint32_t main = reader.AddThread(4242, "main");
  for (int64_t step = 0; step < 2; ++step) {
    const int64_t at = step * 10'000;
    const auto first = static_cast<uint32_t>(step * 10 + 1);
    reader.Step(10 + step, at, 10'000)
        .Range(main, "forward", at + 1'000, at + 6'000)
        .Range(main, "aten::to", at + 1'100, at + 2'000, {.category = 1})
        .Range(main, "aten::mm", at + 2'100, at + 3'000, {.category = 1})
        .ApiCall(main, "cudaMemcpyAsync", at + 1'200, at + 1'500, first, {.cbid = 41})
        .ApiCall(main, "cudaLaunchKernel", at + 2'200, at + 2'600, first + 1, {.cbid = 211})
        .ApiCall(main, "cudaLaunchKernel", at + 3'200, at + 3'700, first + 2, {.cbid = 211})
        .ApiCall(main, "cudaStreamSynchronize", at + 6'500, at + 8'000, first + 3, {.cbid = 131})
        // In no order.
        .Kernel("relu", at + 5'600, at + 6'600, first + 2)
        .Copy(at + 2'000, at + 3'000, first,
              {.flags = kGpuAsync,
               .bytes = 4096,
               .copy_kind = 1,
               .source_kind = 1,
               .destination_kind = 3})
        .Kernel(kMangledGemm, at + 3'500, at + 5'500, first + 1, kGemm)
        .Sync(report::kStreamSync, at + 6'550, at + 7'950, first + 3, {.stream = 7});
  }
  reader.StepThread(main);
  return main;
}

}  // namespace profd

#endif  // PROFD_TESTS_EXPORT_GPU_CAPTURE_H_
