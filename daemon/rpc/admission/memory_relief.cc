#include "daemon/rpc/admission/memory_relief.h"

#include <malloc.h>
#include <unistd.h>

#include <fstream>
#include <utility>

namespace profd::rpc {

int64_t PrivateMemoryBytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t total_pages = 0;
  int64_t resident_pages = 0;
  int64_t shared_pages = 0;
  statm >> total_pages >> resident_pages >> shared_pages;
  return (resident_pages - shared_pages) * sysconf(_SC_PAGESIZE);
}

void MemoryRelief::SetWake(std::function<void()> wake) {
  absl::MutexLock lock(&mu_);
  wake_ = std::move(wake);
}

void RecentBytes::Add(int64_t bytes, int64_t window) {
  const int64_t last = window_.load(std::memory_order_relaxed);
  if (window != last) {
    const int64_t earlier = window == last + 1 ? bytes_.load(std::memory_order_relaxed) : 0;
    earlier_bytes_.store(earlier, std::memory_order_relaxed);
    bytes_.store(0, std::memory_order_relaxed);
    window_.store(window, std::memory_order_relaxed);
  }
  bytes_.fetch_add(bytes, std::memory_order_relaxed);
}

int64_t RecentBytes::Get(int64_t window) const {
  const int64_t age = window - window_.load(std::memory_order_relaxed);
  const int64_t bytes = bytes_.load(std::memory_order_relaxed);
  if (age == 0) return bytes + earlier_bytes_.load(std::memory_order_relaxed);
  return age == 1 ? bytes : 0;
}

void MemoryRelief::OnReceived(int64_t bytes) {
  if (options_.mark_bytes == 0) return;
  received_.Add(bytes, window());
  int64_t next = next_look_ns_.load(std::memory_order_relaxed);
  const int64_t now = NowNs();
  if (now < next) return;
  if (!next_look_ns_.compare_exchange_strong(next,
                                             now + absl::ToInt64Nanoseconds(kUrgentLookInterval))) {
    return;  // Another thread looks.
  }
  const int64_t used = options_.used_bytes();
  last_used_bytes_.store(used, std::memory_order_relaxed);
  if (used <= options_.mark_bytes) {
    next_look_ns_.store(now + absl::ToInt64Nanoseconds(kLookInterval));
    return;
  }
  if (now < next_close_ns_.load(std::memory_order_relaxed)) return;
  next_close_ns_.store(now + absl::ToInt64Nanoseconds(kCloseInterval));
  absl::MutexLock lock(&mu_);
  if (wake_) wake_();
}

bool MemoryRelief::IsTooMuch(int64_t recent_bytes) const {
  const int64_t used = last_used_bytes_.load(std::memory_order_relaxed);
  const int64_t mark = options_.mark_bytes;
  if (mark == 0 || used <= mark + mark / 4) return false;
  if (recent_bytes >= kSmallBytes) return true;
  return used > mark + mark / 2 && received_.Get(window()) >= kManySmallBytes;
}

bool MemoryRelief::IsNeeded() {
  if (options_.mark_bytes == 0 || !IsAboveMark()) return false;
  malloc_trim(0);
  return IsAboveMark();
}

void MemoryRelief::NoteClosed() {
  closed_count_.fetch_add(1, std::memory_order_relaxed);
  next_close_ns_.store(NowNs() + absl::ToInt64Nanoseconds(kCloseInterval));
}

int64_t MemoryRelief::window() const { return NowNs() / absl::ToInt64Nanoseconds(kWindow); }

bool ReceivedMeter::OnReceived(std::span<const std::byte> bytes) {
  received_.Add(std::ssize(bytes), relief_->window());
  relief_->OnReceived(std::ssize(bytes));
  if (!relief_->IsTooMuch(recent_bytes())) return next_ == nullptr || next_->OnReceived(bytes);
  has_ended_.store(true, std::memory_order_relaxed);
  return false;
}

}  // namespace profd::rpc
