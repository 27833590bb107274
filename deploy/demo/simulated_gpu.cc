#include "deploy/demo/simulated_gpu.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

namespace profd::demo {
namespace {

// Names as compilers and libraries make them for this GPU.
constexpr char kForwardGemm[] =
    "sm90_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize64x64x32_warpgroupsize1x1x1_execute_kernel";
constexpr char kWeightsGemm[] =
    "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize64x64x32_warpgroupsize1x1x1_execute_kernel";
constexpr char kInputsGemm[] =
    "sm90_xmma_gemm_f32f32_tf32f32_f32_nt_n_tilesize64x64x32_warpgroupsize1x1x1_execute_kernel";
constexpr char kBias[] = "add_bias_kernel(float*, float const*, int, int)";
constexpr char kRelu[] = "relu_kernel(float*, int)";
constexpr char kReluBackward[] = "relu_backward_kernel(float*, float const*, int)";
constexpr char kSoftmax[] = "softmax_cross_entropy_kernel(float*, float*, int const*, int, int)";
constexpr char kReduceColumns[] =
    "void reduce_columns_kernel<float, 256>(float const*, float*, int, int)";
constexpr char kSgd[] = "sgd_momentum_kernel(float*, float*, float const*, float, float, int)";

// A slow GPU, so that the work of so small a network can be seen.
constexpr uint64_t kFloatingPointOperationsPerNs = 4;
constexpr uint64_t kElementsPerNs = 4;
constexpr uint64_t kLeastKernelNs = 4000;
constexpr uint64_t kLaunchCallNs = 2500;
constexpr uint32_t kTile = 64;
constexpr uint32_t kThreads = 256;

std::string DefaultPath() {
  if (const char* const path = std::getenv("PROFD_CUPTI_LIB"); path != nullptr && *path != '\0') {
    return path;
  }
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  return program.parent_path().parent_path() / "lib/cupti_standin/13.0/libcupti.so.13";
}

uint32_t Blocks(size_t count, uint32_t per_block) {
  return static_cast<uint32_t>((count + per_block - 1) / per_block);
}

template <typename Function>
bool Find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace

bool SimulatedGpu::FindFunctions(void* library, Functions& functions) {
  return Find(library, "sgpu_init", functions.init) &&
         Find(library, "sgpu_shutdown", functions.shutdown) &&
         Find(library, "sgpu_set", functions.set) &&
         Find(library, "sgpu_stream_create", functions.stream_create) &&
         Find(library, "sgpu_default_stream", functions.default_stream) &&
         Find(library, "sgpu_kernel_attributes", functions.kernel_attributes) &&
         Find(library, "sgpu_launch", functions.launch) &&
         Find(library, "sgpu_memcpy", functions.memcpy) &&
         Find(library, "sgpu_memset", functions.memset) &&
         Find(library, "sgpu_event_record", functions.event_record) &&
         Find(library, "sgpu_stream_wait_event", functions.stream_wait_event) &&
         Find(library, "sgpu_stream_sync", functions.stream_sync);
}

std::unique_ptr<SimulatedGpu> SimulatedGpu::Open(const std::string& path, std::string& error) {
  const std::string file = path.empty() ? DefaultPath() : path;
  // Never closed: what is recorded points into it.
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    error = dlerror();
    return nullptr;
  }
  Functions gpu{};
  if (!FindFunctions(library, gpu)) {
    error = file + " has no simulated GPU: name the stand-in with --cupti-standin";
    return nullptr;
  }
  std::unique_ptr<SimulatedGpu> device(new SimulatedGpu(gpu, file));
  if (gpu.init(nullptr) != 0 || gpu.default_stream(1, &device->compute_stream_) != 0 ||
      gpu.stream_create(1, 0, 1, &device->copy_stream_) != 0) {
    error = file + ": its GPU cannot be initialised";
    return nullptr;
  }
  gpu.set("truth", "0");  // Training may go on for ever; nobody asks what exactly happened.
  for (const char* const gemm : {kForwardGemm, kWeightsGemm, kInputsGemm}) {
    gpu.kernel_attributes(gemm, 168, 1024, 96 << 10, 0);
  }
  gpu.kernel_attributes(kReduceColumns, 26, 4096, 0, 0);
  gpu.kernel_attributes(kSoftmax, 40, 1024, 0, 0);
  return device;
}

SimulatedGpu::~SimulatedGpu() {
  if (compute_stream_ != 0) gpu_.stream_sync(compute_stream_);
}

void SimulatedGpu::Gemm(const char* kernel, size_t rows, size_t columns, size_t depth) {
  const uint64_t operations = 2 * static_cast<uint64_t>(rows) * columns * depth;
  gpu_.launch(compute_stream_, kernel, {Blocks(columns, kTile), Blocks(rows, kTile), 1},
              {kThreads / 2, 1, 1}, kLeastKernelNs + operations / kFloatingPointOperationsPerNs,
              kLaunchCallNs, 0);
}

void SimulatedGpu::Elementwise(const char* kernel, size_t count) {
  gpu_.launch(compute_stream_, kernel, {Blocks(count, kThreads), 1, 1}, {kThreads, 1, 1},
              kLeastKernelNs + count / kElementsPerNs, kLaunchCallNs, 0);
}

void SimulatedGpu::CopyBatch(size_t bytes) {
  gpu_.memcpy(copy_stream_, SGPU_HTOD, bytes, /*async=*/1, /*pinned=*/1);
  gpu_.event_record(copy_stream_, &batch_is_there_);
  gpu_.stream_wait_event(compute_stream_, batch_is_there_);
}

void SimulatedGpu::Forward(const LayerShape& layer, bool with_relu) {
  Gemm(kForwardGemm, layer.batch, layer.outputs, layer.inputs);
  Elementwise(kBias, layer.batch * layer.outputs);
  if (with_relu) Elementwise(kRelu, layer.batch * layer.outputs);
}

void SimulatedGpu::Loss(size_t batch, size_t classes) { Elementwise(kSoftmax, batch * classes); }

void SimulatedGpu::ReluBackward(size_t count) { Elementwise(kReluBackward, count); }

void SimulatedGpu::Backward(const LayerShape& layer) {
  gpu_.memset(compute_stream_, 0, layer.inputs * layer.outputs * sizeof(float), /*async=*/1);
  Gemm(kWeightsGemm, layer.inputs, layer.outputs, layer.batch);
  Elementwise(kReduceColumns, layer.batch * layer.outputs);
  Gemm(kInputsGemm, layer.batch, layer.inputs, layer.outputs);
}

void SimulatedGpu::Update(size_t parameters) { Elementwise(kSgd, parameters); }

void SimulatedGpu::EndStep() {
  gpu_.memcpy(compute_stream_, SGPU_DTOH, sizeof(float), /*async=*/1, /*pinned=*/1);
  gpu_.stream_sync(compute_stream_);
}

}  // namespace profd::demo
