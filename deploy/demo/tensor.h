// Tensor and the pool its memory comes from: a caching allocator, as deep-learning
// frameworks have one, that tells profd of every block it hands out and takes back.
#ifndef PROFD_DEPLOY_DEMO_TENSOR_H_
#define PROFD_DEPLOY_DEMO_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "profd/profd.h"

namespace profd::demo {

// TensorPool keeps freed blocks for the next request of the same size.
//
// Threads:   any thread.
// Ownership: must outlive the tensors made from it.
class TensorPool {
 public:
  TensorPool() = default;
  TensorPool(const TensorPool&) = delete;
  TensorPool& operator=(const TensorPool&) = delete;
  ~TensorPool();

  // A block for `count` floats, of unspecified content.
  float* Allocate(size_t count, profd_memory_category category);
  void Free(float* block, size_t count, profd_memory_category category);

 private:
  // What profd is told: the block, and how much is in use and held after the event.
  profd_memory_event EventFor(const float* block, size_t count,
                              profd_memory_category category) const;

  std::mutex mu_;
  std::map<size_t, std::vector<float*>> free_blocks_;
  int64_t allocated_bytes_ = 0;
  int64_t reserved_bytes_ = 0;
};

// Tensor is a matrix of floats, row by row. Movable, not copyable; a moved-from or
// default-made one holds no memory.
class Tensor {
 public:
  Tensor() = default;
  Tensor(TensorPool& pool, size_t rows, size_t columns, profd_memory_category category);
  Tensor(Tensor&& other) noexcept;
  Tensor& operator=(Tensor&& other) noexcept;
  ~Tensor();

  size_t rows() const { return rows_; }
  size_t columns() const { return columns_; }
  size_t size() const { return rows_ * columns_; }
  float* data() { return data_; }
  const float* data() const { return data_; }
  float* row(size_t index) { return data_ + index * columns_; }
  const float* row(size_t index) const { return data_ + index * columns_; }

  void Fill(float value);
  void Release();  // Gives the memory back; the tensor is empty then.

 private:
  TensorPool* pool_ = nullptr;
  float* data_ = nullptr;
  size_t rows_ = 0;
  size_t columns_ = 0;
  profd_memory_category category_ = PROFD_MEMORY_UNKNOWN;
};

}  // namespace profd::demo

#endif  // PROFD_DEPLOY_DEMO_TENSOR_H_
