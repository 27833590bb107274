#include "client_lib/torch/async_operators.h"

#include <atomic>

namespace profd::client::torch {
namespace {

struct alignas(AsyncOperator) Place {
  unsigned char bytes[sizeof(AsyncOperator)];
};

constinit Place g_places[kMaxAsyncOperators] = {};
// Places given back, as a stack: index + 1 of the next; 0: none.
constinit std::atomic<uint32_t> g_next_free[kMaxAsyncOperators] = {};
// (tag << 32) | (index + 1)
constinit std::atomic<uint64_t> g_free{0};
constinit std::atomic<uint32_t> g_high_water{0};

Place* TakePlace() {
  // The upper half counts changes. Without it, the exchange could succeed on a head that was taken
  // and put back meanwhile, with an old `next` (ABA).
  uint64_t head = g_free.load(std::memory_order_acquire);
  while (static_cast<uint32_t>(head) != 0) {
    const uint32_t index = static_cast<uint32_t>(head) - 1;
    const uint64_t next = g_next_free[index].load(std::memory_order_relaxed);
    const uint64_t tag = (head >> 32) + 1;
    if (g_free.compare_exchange_weak(head, (tag << 32) | next, std::memory_order_acq_rel)) {
      return &g_places[index];
    }
  }
  uint32_t index = g_high_water.load(std::memory_order_relaxed);
  do {
    if (index >= kMaxAsyncOperators) return nullptr;
  } while (!g_high_water.compare_exchange_weak(index, index + 1, std::memory_order_relaxed));
  return &g_places[index];
}

}  // namespace

AsyncOperator* AsyncOperator::Take(uint64_t span) {
  Place* place = TakePlace();
  return place == nullptr ? nullptr : new (place->bytes) AsyncOperator(span, /*is_range=*/false);
}

AsyncOperator* AsyncOperator::TakeForRange() {
  Place* place = TakePlace();
  return place == nullptr ? nullptr : new (place->bytes) AsyncOperator(0, /*is_range=*/true);
}

void AsyncOperator::operator delete(void* operation) {
  const auto index = static_cast<uint32_t>(static_cast<Place*>(operation) - g_places);
  uint64_t head = g_free.load(std::memory_order_relaxed);
  uint64_t tag;
  do {
    g_next_free[index].store(static_cast<uint32_t>(head), std::memory_order_relaxed);
    tag = (head >> 32) + 1;
  } while (
      !g_free.compare_exchange_weak(head, (tag << 32) | (index + 1), std::memory_order_acq_rel));
}

}  // namespace profd::client::torch
