#include "client_lib/core/given_names.h"

#include <atomic>

#include "proto/wire/event.h"

namespace profd::client {
namespace {

// (os_thread << 32) | name id, filled from the front; 0: free from here on.
constinit std::atomic<uint64_t> g_given[kMaxGivenNames] = {};

}  // namespace

void GiveThreadName(uint32_t os_thread, uint32_t name_id) {
  const uint64_t given = uint64_t{os_thread} << 32 | name_id;
  for (std::atomic<uint64_t>& entry : g_given) {
    uint64_t known = entry.load(std::memory_order_relaxed);
    while (known == 0 || known >> 32 == os_thread) {
      if (entry.compare_exchange_weak(known, given, std::memory_order_relaxed)) return;
    }
  }
}

uint32_t GivenThreadName(uint32_t os_thread) {
  for (const std::atomic<uint64_t>& entry : g_given) {
    const uint64_t known = entry.load(std::memory_order_relaxed);
    if (known == 0) break;
    if (known >> 32 == os_thread) return static_cast<uint32_t>(known);
  }
  return wire::kNoNameId;
}

}  // namespace profd::client
