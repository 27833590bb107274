#include "deploy/demo/tensor.h"

#include <algorithm>
#include <new>
#include <utility>

namespace profd::demo {
namespace {

constexpr std::align_val_t kAlignment{64};

}  // namespace

TensorPool::~TensorPool() {
  for (auto& [count, blocks] : free_blocks_) {
    for (float* block : blocks) ::operator delete[](block, kAlignment);
  }
}

float* TensorPool::Allocate(size_t count, profd_memory_category category) {
  const std::lock_guard lock(mu_);
  std::vector<float*>& blocks = free_blocks_[count];
  float* block;
  if (blocks.empty()) {
    block = static_cast<float*>(::operator new[](count * sizeof(float), kAlignment));
    reserved_bytes_ += static_cast<int64_t>(count * sizeof(float));
  } else {
    block = blocks.back();
    blocks.pop_back();
  }
  allocated_bytes_ += static_cast<int64_t>(count * sizeof(float));
  // Under the lock, so that the totals reach the trace in the order they came about.
  const profd_memory_event event = EventFor(block, count, category);
  profd_alloc(&event);
  return block;
}

void TensorPool::Free(float* block, size_t count, profd_memory_category category) {
  const std::lock_guard lock(mu_);
  free_blocks_[count].push_back(block);
  allocated_bytes_ -= static_cast<int64_t>(count * sizeof(float));
  const profd_memory_event event = EventFor(block, count, category);
  profd_free(&event);
}

profd_memory_event TensorPool::EventFor(const float* block, size_t count,
                                        profd_memory_category category) const {
  profd_memory_event event{};
  event.address = reinterpret_cast<uintptr_t>(block);
  event.bytes = static_cast<int64_t>(count * sizeof(float));
  event.total_allocated_bytes = allocated_bytes_;
  event.total_reserved_bytes = reserved_bytes_;
  event.device_type = PROFD_DEVICE_CPU;
  event.category = static_cast<uint16_t>(category);
  return event;
}

Tensor::Tensor(TensorPool& pool, size_t rows, size_t columns, profd_memory_category category)
    : pool_(&pool),
      data_(pool.Allocate(rows * columns, category)),
      rows_(rows),
      columns_(columns),
      category_(category) {}

Tensor::Tensor(Tensor&& other) noexcept { *this = std::move(other); }

Tensor& Tensor::operator=(Tensor&& other) noexcept {
  if (this != &other) {
    Release();
    pool_ = std::exchange(other.pool_, nullptr);
    data_ = std::exchange(other.data_, nullptr);
    rows_ = std::exchange(other.rows_, 0);
    columns_ = std::exchange(other.columns_, 0);
    category_ = other.category_;
  }
  return *this;
}

Tensor::~Tensor() { Release(); }

void Tensor::Fill(float value) { std::fill_n(data_, size(), value); }

void Tensor::Release() {
  if (data_ != nullptr) pool_->Free(data_, size(), category_);
  data_ = nullptr;
  rows_ = columns_ = 0;
}

}  // namespace profd::demo
