#include "deploy/demo/batch_loader.h"

#include <cmath>
#include <random>
#include <string>
#include <utility>

#include "profd/profd.hpp"

namespace profd::demo {
namespace {

// Wide enough that the classes overlap and there is something to learn for a while.
constexpr float kNoise = 2.5F;

void Sample(std::mt19937_64& random, const std::vector<float>& centres, Batch& batch) {
  PROFD_RANGE("sample");
  std::normal_distribution<float> noise(0.0F, kNoise);
  std::uniform_int_distribution<uint32_t> label(0, kClassCount - 1);
  for (size_t i = 0; i < batch.inputs.rows(); ++i) {
    batch.labels[i] = label(random);
    const float* centre = &centres[batch.labels[i] * kFeatureCount];
    float* row = batch.inputs.row(i);
    for (size_t j = 0; j < kFeatureCount; ++j) row[j] = centre[j] + noise(random);
  }
}

// Scales every sample to zero mean and unit variance.
void Normalize(Tensor& inputs) {
  PROFD_RANGE("normalize");
  for (size_t i = 0; i < inputs.rows(); ++i) {
    float* row = inputs.row(i);
    float sum = 0;
    float square_sum = 0;
    for (size_t j = 0; j < inputs.columns(); ++j) {
      sum += row[j];
      square_sum += row[j] * row[j];
    }
    const float mean = sum / static_cast<float>(inputs.columns());
    const float variance = square_sum / static_cast<float>(inputs.columns()) - mean * mean;
    const float scale = 1.0F / std::sqrt(variance + 1e-5F);
    for (size_t j = 0; j < inputs.columns(); ++j) row[j] = (row[j] - mean) * scale;
  }
}

}  // namespace

Dataset::Dataset(TensorPool& pool, uint64_t seed, size_t batch_size)
    : pool_(pool), seed_(seed), batch_size_(batch_size), centres_(kClassCount * kFeatureCount) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  for (float& value : centres_) value = normal(random);
}

Batch Dataset::Make(uint64_t index) const {
  std::seed_seq seeds{seed_, seed_ >> 32, index, index >> 32};
  std::mt19937_64 random(seeds);
  Batch batch{Tensor(pool_, batch_size_, kFeatureCount, PROFD_MEMORY_INPUT),
              std::vector<uint32_t>(batch_size_)};
  Sample(random, centres_, batch);
  Normalize(batch.inputs);
  return batch;
}

BatchLoader::BatchLoader(const Dataset& dataset, size_t thread_count) : dataset_(dataset) {
  for (size_t i = 0; i < thread_count; ++i) {
    threads_.emplace_back([this, i] { Work(i); });
  }
}

BatchLoader::~BatchLoader() {
  const std::lock_guard lock(mu_);
  stopping_ = true;
  changed_.notify_all();
}

Batch BatchLoader::Next() {
  std::unique_lock lock(mu_);
  changed_.wait(lock, [this] { return ready_.contains(next_to_take_); });
  Batch batch = std::move(ready_.extract(next_to_take_).mapped());
  ++next_to_take_;
  lock.unlock();
  changed_.notify_all();
  return batch;
}

void BatchLoader::Work(size_t thread_index) {
  ThreadName(("loader-" + std::to_string(thread_index)).c_str());
  std::unique_lock lock(mu_);
  while (true) {
    changed_.wait(lock,
                  [this] { return stopping_ || next_to_make_ < next_to_take_ + kBatchesAhead; });
    if (stopping_) return;
    const uint64_t index = next_to_make_++;
    lock.unlock();
    Batch batch;
    {
      PROFD_RANGE("load_batch");
      batch = dataset_.Make(index);
    }
    lock.lock();
    ready_.emplace(index, std::move(batch));
    changed_.notify_all();
  }
}

}  // namespace profd::demo
