#include "deploy/demo/network.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "profd/profd.hpp"

namespace profd::demo {
namespace {

constexpr size_t kLayerSizes[] = {kFeatureCount, 64, 64, kClassCount};
constexpr float kLearningRate = 0.02F;
constexpr float kMomentum = 0.9F;

// out += a * b. The innermost loop runs along rows, so that compilers vectorise it.
void AddProduct(const Tensor& a, const Tensor& b, Tensor& out) {
  PROFD_RANGE("matmul");
  for (size_t i = 0; i < a.rows(); ++i) {
    float* out_row = out.row(i);
    for (size_t k = 0; k < a.columns(); ++k) {
      const float factor = a.row(i)[k];
      const float* b_row = b.row(k);
      for (size_t j = 0; j < b.columns(); ++j) out_row[j] += factor * b_row[j];
    }
  }
}

Tensor Transpose(TensorPool& pool, const Tensor& matrix) {
  PROFD_RANGE("transpose");
  Tensor result(pool, matrix.columns(), matrix.rows(), PROFD_MEMORY_TEMPORARY);
  for (size_t i = 0; i < matrix.rows(); ++i) {
    for (size_t j = 0; j < matrix.columns(); ++j) result.row(j)[i] = matrix.row(i)[j];
  }
  return result;
}

Tensor Zeros(TensorPool& pool, size_t rows, size_t columns, profd_memory_category category) {
  Tensor result(pool, rows, columns, category);
  result.Fill(0.0F);
  return result;
}

void ApplyRelu(Tensor& values) {
  PROFD_RANGE("relu");
  for (size_t i = 0; i < values.size(); ++i) {
    values.data()[i] = std::max(values.data()[i], 0.0F);
  }
}

// Lets a gradient through where ReLU let its output through.
void MaskByRelu(const Tensor& output, Tensor& gradient) {
  PROFD_RANGE("relu_backward");
  for (size_t i = 0; i < gradient.size(); ++i) {
    if (output.data()[i] <= 0.0F) gradient.data()[i] = 0.0F;
  }
}

void ApplyGradient(const Tensor& gradient, float learning_rate, float momentum, Tensor& velocity,
                   Tensor& parameter) {
  for (size_t i = 0; i < parameter.size(); ++i) {
    velocity.data()[i] = momentum * velocity.data()[i] + gradient.data()[i];
    parameter.data()[i] -= learning_rate * velocity.data()[i];
  }
}

// Turns a row of scores into probabilities; returns the loss of `label`.
double SoftmaxInPlace(float* scores, size_t count, uint32_t label) {
  const float highest = *std::max_element(scores, scores + count);
  float sum = 0;
  for (size_t i = 0; i < count; ++i) sum += scores[i] = std::exp(scores[i] - highest);
  for (size_t i = 0; i < count; ++i) scores[i] /= sum;
  return -std::log(std::max(scores[label], 1e-20F));
}

struct LossAndGradient {
  double loss;
  Tensor gradient;  // Of the mean loss with respect to the scores.
};

LossAndGradient CrossEntropy(TensorPool& pool, Device* device, const Tensor& scores,
                             const std::vector<uint32_t>& labels) {
  PROFD_RANGE("loss");
  if (device != nullptr) device->Loss(scores.rows(), scores.columns());
  Tensor gradient(pool, scores.rows(), scores.columns(), PROFD_MEMORY_TEMPORARY);
  std::copy_n(scores.data(), scores.size(), gradient.data());
  double loss = 0;
  const auto count = static_cast<double>(scores.rows());
  for (size_t i = 0; i < gradient.rows(); ++i) {
    float* row = gradient.row(i);
    loss += SoftmaxInPlace(row, gradient.columns(), labels[i]) / count;
    row[labels[i]] -= 1.0F;
    for (size_t j = 0; j < gradient.columns(); ++j) row[j] /= static_cast<float>(count);
  }
  return {loss, std::move(gradient)};
}

}  // namespace

Linear::Linear(TensorPool& pool, Device* device, size_t index, size_t inputs, size_t outputs,
               std::mt19937_64& random)
    : pool_(&pool),
      device_(device),
      forward_name_("layer" + std::to_string(index) + ".forward"),
      backward_name_("layer" + std::to_string(index) + ".backward"),
      update_name_("layer" + std::to_string(index) + ".update"),
      weights_(pool, inputs, outputs, PROFD_MEMORY_PARAMETER),
      bias_(Zeros(pool, 1, outputs, PROFD_MEMORY_PARAMETER)),
      weights_velocity_(Zeros(pool, inputs, outputs, PROFD_MEMORY_OPTIMIZER_STATE)),
      bias_velocity_(Zeros(pool, 1, outputs, PROFD_MEMORY_OPTIMIZER_STATE)) {
  std::normal_distribution<float> normal(0.0F, std::sqrt(2.0F / static_cast<float>(inputs)));
  for (size_t i = 0; i < weights_.size(); ++i) weights_.data()[i] = normal(random);
}

Tensor Linear::Forward(const Tensor& input, bool with_relu) {
  const ScopedDynamicRange range(forward_name_);
  Tensor output(*pool_, input.rows(), weights_.columns(), PROFD_MEMORY_ACTIVATION);
  for (size_t i = 0; i < output.rows(); ++i) {
    std::copy_n(bias_.data(), bias_.size(), output.row(i));
  }
  if (device_ != nullptr) {
    device_->Forward({input.rows(), weights_.rows(), weights_.columns()}, with_relu);
  }
  AddProduct(input, weights_, output);
  if (with_relu) ApplyRelu(output);
  return output;
}

Tensor Linear::Backward(const Tensor& input, const Tensor& output_gradient) {
  const ScopedDynamicRange range(backward_name_);
  if (device_ != nullptr) {
    device_->Backward({input.rows(), weights_.rows(), weights_.columns()});
  }
  weights_gradient_ = Zeros(*pool_, weights_.rows(), weights_.columns(), PROFD_MEMORY_GRADIENT);
  AddProduct(Transpose(*pool_, input), output_gradient, weights_gradient_);

  bias_gradient_ = Zeros(*pool_, 1, bias_.columns(), PROFD_MEMORY_GRADIENT);
  for (size_t i = 0; i < output_gradient.rows(); ++i) {
    for (size_t j = 0; j < bias_.columns(); ++j) {
      bias_gradient_.data()[j] += output_gradient.row(i)[j];
    }
  }

  Tensor input_gradient = Zeros(*pool_, input.rows(), input.columns(), PROFD_MEMORY_TEMPORARY);
  AddProduct(output_gradient, Transpose(*pool_, weights_), input_gradient);
  return input_gradient;
}

void Linear::Update(float learning_rate, float momentum) {
  const ScopedDynamicRange range(update_name_);
  if (device_ != nullptr) device_->Update(weights_.size() + bias_.size());
  ApplyGradient(weights_gradient_, learning_rate, momentum, weights_velocity_, weights_);
  ApplyGradient(bias_gradient_, learning_rate, momentum, bias_velocity_, bias_);
  weights_gradient_.Release();
  bias_gradient_.Release();
}

Network::Network(TensorPool& pool, uint64_t seed, Device* device) : pool_(pool), device_(device) {
  std::mt19937_64 random(seed);
  for (size_t i = 0; i + 1 < std::size(kLayerSizes); ++i) {
    layers_.emplace_back(pool, device, i, kLayerSizes[i], kLayerSizes[i + 1], random);
  }
}

double Network::TrainOn(const Batch& batch) {
  std::vector<Tensor> outputs = Forward(batch);
  LossAndGradient result = CrossEntropy(pool_, device_, outputs.back(), batch.labels);
  Backward(batch, outputs, std::move(result.gradient));
  Update();
  return result.loss;
}

double Network::Evaluate(const Batch& batch) {
  PROFD_RANGE("evaluate");
  return CrossEntropy(pool_, device_, Forward(batch).back(), batch.labels).loss;
}

std::vector<Tensor> Network::Forward(const Batch& batch) {
  PROFD_RANGE("forward");
  std::vector<Tensor> outputs;
  outputs.reserve(layers_.size());
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Tensor& input = i == 0 ? batch.inputs : outputs[i - 1];
    outputs.push_back(layers_[i].Forward(input, /*with_relu=*/i + 1 < layers_.size()));
  }
  return outputs;
}

void Network::Backward(const Batch& batch, std::vector<Tensor>& outputs, Tensor gradient) {
  PROFD_RANGE("backward");
  for (size_t i = layers_.size(); i-- > 0;) {
    if (i + 1 < layers_.size()) {
      if (device_ != nullptr) device_->ReluBackward(gradient.size());
      MaskByRelu(outputs[i], gradient);
    }
    outputs[i].Release();
    const Tensor& input = i == 0 ? batch.inputs : outputs[i - 1];
    gradient = layers_[i].Backward(input, gradient);
  }
}

void Network::Update() {
  PROFD_RANGE("optimizer");
  for (Linear& layer : layers_) layer.Update(kLearningRate, kMomentum);
}

}  // namespace profd::demo
