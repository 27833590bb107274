// What a training program asks of a GPU: the demo computes on the CPU, and a device does the same
// work once more, as launches, copies and waits that a profiler can see.
#ifndef PROFD_DEPLOY_DEMO_DEVICE_H_
#define PROFD_DEPLOY_DEMO_DEVICE_H_

#include <cstddef>

namespace profd::demo {

// A linear layer at work on a batch.
struct LayerShape {
  size_t batch;
  size_t inputs;
  size_t outputs;
};

// Each call is made within the range of the work it stands for, and returns before the device is
// done, but for EndStep().
//
// Threads: the one that trains.
class Device {
 public:
  virtual ~Device() = default;

  virtual void CopyBatch(size_t bytes) = 0;
  virtual void Forward(const LayerShape& layer, bool with_relu) = 0;
  virtual void Loss(size_t batch, size_t classes) = 0;
  virtual void ReluBackward(size_t count) = 0;
  virtual void Backward(const LayerShape& layer) = 0;
  virtual void Update(size_t parameters) = 0;
  // Waits for the step's work and its loss.
  virtual void EndStep() = 0;
};

}  // namespace profd::demo

#endif  // PROFD_DEPLOY_DEMO_DEVICE_H_
