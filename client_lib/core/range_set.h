// RangeSet is a set of open ranges of all threads, each known by the tick at which it began.
//
// Threads:  any; no locks. What a thread adds is there for the others once count() says so.
// Hot path: while the set is empty, a look costs the load of count(); else the load of one place,
//           or of as many as the range that found the most places taken.
// Errors:   Add() returns false where the places of a range are all taken.
#ifndef PROFD_CLIENT_LIB_CORE_RANGE_SET_H_
#define PROFD_CLIENT_LIB_CORE_RANGE_SET_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace profd::client {

class RangeSet {
 public:
  static constexpr size_t kPlaces = 1024;
  static constexpr size_t kProbes = 64;

  bool is_empty() const { return count_.load(std::memory_order_acquire) == 0; }

  bool Add(uint64_t start_ticks) {
    for (size_t probe = 0; probe < kProbes; ++probe) {
      uint64_t none = 0;
      if (!PlaceOf(start_ticks, probe)
               .compare_exchange_strong(none, start_ticks, std::memory_order_relaxed)) {
        continue;
      }
      uint32_t most = most_probes_.load(std::memory_order_relaxed);
      while (most <= probe &&
             !most_probes_.compare_exchange_weak(most, static_cast<uint32_t>(probe) + 1,
                                                 std::memory_order_relaxed)) {
      }
      // What sees this sees the range, and how many places to look at.
      count_.fetch_add(1, std::memory_order_release);
      return true;
    }
    return false;
  }

  // Returns whether it was there.
  bool Remove(uint64_t start_ticks) {
    const size_t probes = most_probes_.load(std::memory_order_relaxed);
    for (size_t probe = 0; probe < probes; ++probe) {
      std::atomic<uint64_t>& place = PlaceOf(start_ticks, probe);
      uint64_t there = start_ticks;
      if (place.load(std::memory_order_relaxed) != start_ticks ||
          !place.compare_exchange_strong(there, 0, std::memory_order_relaxed)) {
        continue;
      }
      count_.fetch_sub(1, std::memory_order_relaxed);
      return true;
    }
    return false;
  }

  // While no other thread adds or removes.
  void Clear() {
    most_probes_.store(0, std::memory_order_relaxed);
    if (is_empty()) return;
    for (std::atomic<uint64_t>& place : places_) place.store(0, std::memory_order_relaxed);
    count_.store(0, std::memory_order_relaxed);
  }

 private:
  std::atomic<uint64_t>& PlaceOf(uint64_t start_ticks, size_t probe) {
    const uint64_t mixed = start_ticks * 0x9E3779B97F4A7C15u;
    return places_[((mixed >> 32) + probe) % kPlaces];
  }

  std::atomic<uint64_t> places_[kPlaces] = {};
  std::atomic<uint32_t> count_{0};
  std::atomic<uint32_t> most_probes_{0};  // Since the set was cleared.
};

}  // namespace profd::client

#endif  // PROFD_CLIENT_LIB_CORE_RANGE_SET_H_
