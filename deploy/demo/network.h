// A multilayer perceptron: linear layers with ReLU between them, softmax cross-entropy at
// the end, trained by stochastic gradient descent with momentum.
#ifndef PROFD_DEPLOY_DEMO_NETWORK_H_
#define PROFD_DEPLOY_DEMO_NETWORK_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "deploy/demo/batch_loader.h"
#include "deploy/demo/device.h"
#include "deploy/demo/tensor.h"

namespace profd::demo {

// One linear layer, its gradients and its momentum.
class Linear {
 public:
  // `device` does what the layer does, once more; nullptr: none.
  Linear(TensorPool& pool, Device* device, size_t index, size_t inputs, size_t outputs,
         std::mt19937_64& random);

  // input * weights + bias, and ReLU on top if asked.
  Tensor Forward(const Tensor& input, bool with_relu);
  // Computes this layer's gradients from that of its output; returns that of its input.
  Tensor Backward(const Tensor& input, const Tensor& output_gradient);
  // Applies the gradients and frees them.
  void Update(float learning_rate, float momentum);

 private:
  TensorPool* pool_;
  Device* device_;
  // What the ranges of this layer are called: "layer0.forward" and so on.
  std::string forward_name_;
  std::string backward_name_;
  std::string update_name_;

  Tensor weights_;  // inputs x outputs
  Tensor bias_;
  Tensor weights_gradient_;  // These two only between Backward() and Update().
  Tensor bias_gradient_;
  Tensor weights_velocity_;
  Tensor bias_velocity_;
};

// Network is the stack of layers.
//
// Threads:   one.
// Ownership: borrows the pool and the device, which may be nullptr.
class Network {
 public:
  Network(TensorPool& pool, uint64_t seed, Device* device);

  // One step of training on `batch`; returns its mean loss before the step.
  double TrainOn(const Batch& batch);

  // The mean loss over `batch`.
  double Evaluate(const Batch& batch);

 private:
  // The output of each layer; the last are the scores of the classes.
  std::vector<Tensor> Forward(const Batch& batch);
  void Backward(const Batch& batch, std::vector<Tensor>& outputs, Tensor gradient);
  void Update();

  TensorPool& pool_;
  Device* const device_;
  std::vector<Linear> layers_;
};

}  // namespace profd::demo

#endif  // PROFD_DEPLOY_DEMO_NETWORK_H_
