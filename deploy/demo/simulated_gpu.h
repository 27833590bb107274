// SimulatedGpu is a Device without hardware: the GPU made of software that comes with the CUPTI
// stand-in of profd's tests. It computes nothing; kernels take as long as a model of their work
// says.
#ifndef PROFD_DEPLOY_DEMO_SIMULATED_GPU_H_
#define PROFD_DEPLOY_DEMO_SIMULATED_GPU_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "deploy/demo/device.h"
#include "tests/cupti_standin/sgpu.h"

namespace profd::demo {

class SimulatedGpu final : public Device {
 public:
  // Loads the stand-in at `path`; empty: what PROFD_CUPTI_LIB names, else the one that was built
  // with this program. nullptr with the reason in `error`.
  static std::unique_ptr<SimulatedGpu> Open(const std::string& path, std::string& error);
  ~SimulatedGpu() override;

  const std::string& path() const { return path_; }

  void CopyBatch(size_t bytes) override;
  void Forward(const LayerShape& layer, bool with_relu) override;
  void Loss(size_t batch, size_t classes) override;
  void ReluBackward(size_t count) override;
  void Backward(const LayerShape& layer) override;
  void Update(size_t parameters) override;
  void EndStep() override;

 private:
  // The stand-in's functions, by their own names.
  struct Functions {
    decltype(&::sgpu_init) init;
    decltype(&::sgpu_shutdown) shutdown;
    decltype(&::sgpu_set) set;
    decltype(&::sgpu_stream_create) stream_create;
    decltype(&::sgpu_default_stream) default_stream;
    decltype(&::sgpu_kernel_attributes) kernel_attributes;
    decltype(&::sgpu_launch) launch;
    decltype(&::sgpu_memcpy) memcpy;
    decltype(&::sgpu_memset) memset;
    decltype(&::sgpu_event_record) event_record;
    decltype(&::sgpu_stream_wait_event) stream_wait_event;
    decltype(&::sgpu_stream_sync) stream_sync;
  };

  SimulatedGpu(const Functions& gpu, std::string path) : gpu_(gpu), path_(std::move(path)) {}
  static bool FindFunctions(void* library, Functions& functions);

  // rows x columns of a product over `depth`, in tiles of 64 x 64.
  void Gemm(const char* kernel, size_t rows, size_t columns, size_t depth);
  void Elementwise(const char* kernel, size_t count);

  const Functions gpu_;
  const std::string path_;
  uint32_t compute_stream_ = 0;
  uint32_t copy_stream_ = 0;
  uint32_t batch_is_there_ = 0;  // An event.
};

}  // namespace profd::demo

#endif  // PROFD_DEPLOY_DEMO_SIMULATED_GPU_H_
