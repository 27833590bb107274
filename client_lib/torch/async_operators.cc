#include "client_lib/torch/async_operators.h"

#include <atomic>

namespace profd::client::torch {
namespace {

struct alignas(AsyncOperator) Place {
  unsigned char bytes[sizeof(AsyncOperator)];
};

constinit Place g_places[kMaxAsyncOperators] = {};
// The spans under way, by place; 0: none. The thread that takes one out writes it, or keeps it.
constinit std::atomic<uint64_t> g_spans[kMaxAsyncOperators] = {};
// Those that were set aside, and how many: more are lost.
constinit std::atomic<uint64_t> g_open[kMaxOpenSpans] = {};
constinit std::atomic<uint32_t> g_open_count{0};
constinit std::atomic<uint64_t> g_lost{0};
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
  if (place == nullptr) return nullptr;
  g_spans[place - g_places].store(span, std::memory_order_release);
  return new (place->bytes) AsyncOperator(/*is_range=*/false);
}

AsyncOperator* AsyncOperator::TakeForRange() {
  Place* place = TakePlace();
  return place == nullptr ? nullptr : new (place->bytes) AsyncOperator(/*is_range=*/true);
}

uint64_t AsyncOperator::TakeSpan() {
  const auto index = reinterpret_cast<Place*>(this) - g_places;
  return g_spans[index].exchange(0, std::memory_order_acq_rel);
}

void AsyncOperator::operator delete(void* operation) {
  const auto index = static_cast<uint32_t>(static_cast<Place*>(operation) - g_places);
  g_spans[index].store(0, std::memory_order_relaxed);
  uint64_t head = g_free.load(std::memory_order_relaxed);
  uint64_t tag;
  do {
    g_next_free[index].store(static_cast<uint32_t>(head), std::memory_order_relaxed);
    tag = (head >> 32) + 1;
  } while (
      !g_free.compare_exchange_weak(head, (tag << 32) | (index + 1), std::memory_order_acq_rel));
}

void KeepOpenSpan(uint64_t span) {
  const uint32_t index = g_open_count.fetch_add(1, std::memory_order_relaxed);
  if (index < kMaxOpenSpans) g_open[index].store(span, std::memory_order_release);
}

void EndSpans() {
  const uint32_t end = g_high_water.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < end; ++i) {
    const uint64_t span = g_spans[i].exchange(0, std::memory_order_acq_rel);
    if (span != 0) KeepOpenSpan(span);
  }
}

void BeginSpans() {
  // Only those of the last window are written.
  g_lost.fetch_add(g_open_count.exchange(0, std::memory_order_relaxed), std::memory_order_relaxed);
}

OpenSpans TakeOpenSpans(uint64_t* spans) {
  const uint32_t kept = g_open_count.exchange(0, std::memory_order_acquire);
  OpenSpans open = {.count = 0, .lost = g_lost.exchange(0, std::memory_order_relaxed)};
  for (uint32_t i = 0; i < kept && i < kMaxOpenSpans; ++i) {
    const uint64_t span = g_open[i].exchange(0, std::memory_order_acquire);
    if (span != 0) spans[open.count++] = span;
  }
  open.lost += kept - open.count;
  return open;
}

}  // namespace profd::client::torch
