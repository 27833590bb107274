// A CUDA program whose GPU work per step is known exactly, as a target for tests on a GPU.
//
//   gpu_program --probe             says whether there is a GPU: exits with 0, or 77 and why
//   gpu_program [--steps N]         N steps, or (0, the default) until SIGTERM
//   gpu_program --uninstrumented    does not use profd's library: for `profctl run`
//   gpu_program --expected          prints what one step does, as JSON, and ends
//
// One step: a copy to the device on a copy stream, an event that the compute streams wait for,
// kernels on two streams from two threads, a memset, a copy on the device, a graph of kernels,
// a copy back, and a check of the numbers that came back: what profiling must not change.
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>
#include <vector>

#include "kernels_ptx.h"
#include "profd/profd.hpp"
#include "tests/gpu/driver_api.h"

namespace profd::gpu {
namespace {

constexpr unsigned kValues = 1 << 20;
constexpr size_t kBytes = kValues * sizeof(float);
constexpr int kKernelsPerStream = 50;
constexpr int kGraphKernels = 10;
constexpr uint64_t kSpinNs = 20'000;

std::atomic<bool> g_stop{false};

struct Options {
  long steps = 0;
  bool instrumented = true;
};

void PrintExpected() {
  printf(
      "{\"kernels_per_step\": %d, \"spins_per_step\": 2, \"graph_launches_per_step\": 1, "
      "\"kernels_per_graph\": %d, \"copies_to_device_per_step\": 1, "
      "\"copies_on_device_per_step\": 1, \"copies_from_device_per_step\": 1, "
      "\"memsets_per_step\": 1, \"bytes_per_copy\": %zu}\n",
      2 * kKernelsPerStream, kGraphKernels, kBytes);
}

class Program {
 public:
  Program(const DriverApi& api, const Options& options) : api_(api), options_(options) {
    Device device = 0;
    PROFD_GPU_CALL(api_, DeviceGet, &device, 0);
    PROFD_GPU_CALL(api_, DevicePrimaryCtxRetain, &context_, device);
    PROFD_GPU_CALL(api_, CtxSetCurrent, context_);
    Module module = nullptr;
    PROFD_GPU_CALL(api_, ModuleLoadData, &module, kKernelsPtx);
    PROFD_GPU_CALL(api_, ModuleGetFunction, &saxpy_, module, "profd_saxpy");
    PROFD_GPU_CALL(api_, ModuleGetFunction, &spin_, module, "profd_spin");
    for (DevicePointer& vector : vectors_) PROFD_GPU_CALL(api_, MemAlloc, &vector, kBytes);
    void* host = nullptr;
    PROFD_GPU_CALL(api_, MemAllocHost, &host, kBytes);
    host_ = static_cast<float*>(host);
    PROFD_GPU_CALL(api_, StreamCreate, &copies_, kStreamNonBlocking);
    for (Stream& stream : compute_) PROFD_GPU_CALL(api_, StreamCreate, &stream, kStreamNonBlocking);
    PROFD_GPU_CALL(api_, EventCreate, &copied_, 0u);
    MakeGraph();
  }

  void Run() {
    for (long step = 0; !g_stop && (options_.steps == 0 || step < options_.steps); ++step) {
      if (options_.instrumented) profd_step();
      RunStep();
    }
    if (options_.instrumented) profd_step();
  }

 private:
  void Launch(Function function, Stream stream, unsigned blocks, unsigned threads,
              void** arguments) {
    PROFD_GPU_CALL(api_, LaunchKernel, function, blocks, 1u, 1u, threads, 1u, 1u, 0u, stream,
                   arguments, nullptr);
  }

  void LaunchSaxpy(Stream stream, DevicePointer x, DevicePointer y, float factor) {
    unsigned count = kValues;
    std::array<void*, 4> arguments = {&x, &y, &factor, &count};
    Launch(saxpy_, stream, kValues / 256, 256, arguments.data());
  }

  void LaunchSpin(Stream stream) {
    uint64_t ns = kSpinNs;
    std::array<void*, 1> arguments = {&ns};
    Launch(spin_, stream, 1, 1, arguments.data());
  }

  void MakeGraph() {
    PROFD_GPU_CALL(api_, StreamBeginCapture, compute_[0], kCaptureRelaxed);
    for (int i = 0; i < kGraphKernels; ++i) LaunchSaxpy(compute_[0], vectors_[2], vectors_[3], 0);
    Graph graph = nullptr;
    PROFD_GPU_CALL(api_, StreamEndCapture, compute_[0], &graph);
    PROFD_GPU_CALL(api_, GraphInstantiateWithFlags, &graph_, graph, 0ull);
  }

  // y = 0 + 50 * (1/50 * x), on a stream of its own, from the calling thread.
  void Compute(int which) {
    PROFD_GPU_CALL(api_, CtxSetCurrent, context_);
    PROFD_GPU_CALL(api_, StreamWaitEvent, compute_[which], copied_, 0u);
    LaunchSpin(compute_[which]);
    for (int i = 0; i < kKernelsPerStream; ++i) {
      LaunchSaxpy(compute_[which], vectors_[0], vectors_[1 + which], 1.0f / kKernelsPerStream);
    }
    PROFD_GPU_CALL(api_, StreamSynchronize, compute_[which]);
  }

  void RunStep() {
    {
      const Range range("load", options_.instrumented);
      for (unsigned i = 0; i < kValues; ++i) host_[i] = static_cast<float>(i % 7);
      PROFD_GPU_CALL(api_, MemcpyHtoDAsync, vectors_[0], host_, kBytes, copies_);
      PROFD_GPU_CALL(api_, MemsetD32Async, vectors_[1], 0u, kValues, copies_);
      PROFD_GPU_CALL(api_, MemcpyDtoDAsync, vectors_[2], vectors_[1], kBytes, copies_);
      PROFD_GPU_CALL(api_, EventRecord, copied_, copies_);
    }
    {
      const Range range("forward", options_.instrumented);
      std::thread other([this] {
        const Range inner("other thread", options_.instrumented);
        Compute(1);
      });
      Compute(0);
      other.join();
    }
    {
      const Range range("graph", options_.instrumented);
      PROFD_GPU_CALL(api_, GraphLaunch, graph_, compute_[0]);
      PROFD_GPU_CALL(api_, StreamSynchronize, compute_[0]);
    }
    {
      const Range range("check", options_.instrumented);
      PROFD_GPU_CALL(api_, MemcpyDtoHAsync, host_, vectors_[1], kBytes, copies_);
      PROFD_GPU_CALL(api_, StreamSynchronize, copies_);
      CheckResults();
    }
  }

  void CheckResults() {
    for (unsigned i = 0; i < kValues; ++i) {
      const float expected = static_cast<float>(i % 7);
      if (host_[i] > expected - 0.01f && host_[i] < expected + 0.01f) continue;
      fprintf(stderr, "gpu: value %u is %f, not %f\n", i, host_[i], expected);
      exit(1);
    }
  }

  // A range of profd's, if the program is to have any.
  class Range {
   public:
    Range(const char* name, bool wanted) : wanted_(wanted) {
      if (wanted_) profd_range_begin_id(profd_intern(name, strlen(name)));
    }
    ~Range() {
      if (wanted_) profd_range_end_id();
    }
    Range(const Range&) = delete;
    Range& operator=(const Range&) = delete;

   private:
    const bool wanted_;
  };

  const DriverApi& api_;
  const Options options_;
  Context context_ = nullptr;
  Function saxpy_ = nullptr;
  Function spin_ = nullptr;
  std::array<DevicePointer, 4> vectors_{};
  float* host_ = nullptr;
  Stream copies_ = nullptr;
  std::array<Stream, 2> compute_{};
  Event copied_ = nullptr;
  GraphExec graph_ = nullptr;
};

int Main(int argc, char** argv) {
  constexpr int kSkipped = 77;
  Options options;
  bool probe = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--probe") {
      probe = true;
    } else if (argument == "--expected") {
      PrintExpected();
      return 0;
    } else if (argument == "--uninstrumented") {
      options.instrumented = false;
    } else if (argument == "--steps" && i + 1 < argc) {
      options.steps = strtol(argv[++i], nullptr, 10);
    } else {
      fprintf(stderr, "gpu: unknown argument %s\n", argv[i]);
      return 2;
    }
  }
  DriverApi api{};
  std::string why;
  if (!Load(api, why)) {
    fprintf(stderr, "gpu: %s\n", why.c_str());
    return kSkipped;
  }
  if (probe) return 0;
  signal(SIGTERM, [](int) { g_stop = true; });
  if (options.instrumented) profd::Init();
  Program(api, options).Run();
  return 0;
}

}  // namespace
}  // namespace profd::gpu

int main(int argc, char** argv) { return profd::gpu::Main(argc, argv); }
