// Training data, made up on the fly by loader threads ahead of the training thread.
#ifndef PROFD_DEPLOY_DEMO_BATCH_LOADER_H_
#define PROFD_DEPLOY_DEMO_BATCH_LOADER_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "deploy/demo/tensor.h"

namespace profd::demo {

inline constexpr size_t kFeatureCount = 32;
inline constexpr size_t kClassCount = 10;

struct Batch {
  Tensor inputs;                 // One sample per row, kFeatureCount wide.
  std::vector<uint32_t> labels;  // Below kClassCount.
};

// Dataset is an endless set of samples around one centre per class. Batch `index` is the
// same for the same seed, whoever makes it and when.
//
// Threads: any thread, at the same time.
class Dataset {
 public:
  Dataset(TensorPool& pool, uint64_t seed, size_t batch_size);

  Batch Make(uint64_t index) const;

 private:
  TensorPool& pool_;
  const uint64_t seed_;
  const size_t batch_size_;
  std::vector<float> centres_;  // kClassCount x kFeatureCount
};

// BatchLoader has its own threads make the batches 0, 1, 2, ... and hands them out in order.
//
// Threads:   Next() from one thread.
// Ownership: borrows the dataset.
class BatchLoader {
 public:
  BatchLoader(const Dataset& dataset, size_t thread_count);
  ~BatchLoader();
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  // Waits for the next batch.
  Batch Next();

 private:
  static constexpr uint64_t kBatchesAhead = 4;

  void Work(size_t thread_index);

  const Dataset& dataset_;
  std::mutex mu_;
  std::condition_variable changed_;
  std::map<uint64_t, Batch> ready_;  // By index.
  uint64_t next_to_make_ = 0;
  uint64_t next_to_take_ = 0;
  bool stopping_ = false;
  std::vector<std::jthread> threads_;  // Last, so that it ends first.
};

}  // namespace profd::demo

#endif  // PROFD_DEPLOY_DEMO_BATCH_LOADER_H_
