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

void MemoryRelief::OnReceived() {
  if (options_.mark_bytes == 0) return;
  int64_t next = next_look_ns_.load(std::memory_order_relaxed);
  const int64_t now = NowNs();
  if (now < next) return;
  const int64_t after = now + absl::ToInt64Nanoseconds(kLookInterval);
  if (!next_look_ns_.compare_exchange_strong(next, after)) return;  // Another thread looks.
  if (!IsAboveMark()) return;
  absl::MutexLock lock(&mu_);
  if (wake_) wake_();
}

bool MemoryRelief::IsNeeded() {
  if (options_.mark_bytes == 0 || !IsAboveMark()) return false;
  malloc_trim(0);
  return IsAboveMark();
}

void MemoryRelief::NoteClosed() {
  closed_count_.fetch_add(1, std::memory_order_relaxed);
  next_look_ns_.store(NowNs() + absl::ToInt64Nanoseconds(kCloseInterval));
}

int64_t MemoryRelief::window() const { return NowNs() / absl::ToInt64Nanoseconds(kWindow); }

bool ReceivedMeter::OnReceived(std::span<const std::byte> bytes) {
  const int64_t window = relief_->window();
  const int64_t last = window_.load(std::memory_order_relaxed);
  if (window != last) {
    const int64_t earlier = window == last + 1 ? bytes_.load(std::memory_order_relaxed) : 0;
    earlier_bytes_.store(earlier, std::memory_order_relaxed);
    bytes_.store(0, std::memory_order_relaxed);
    window_.store(window, std::memory_order_relaxed);
  }
  bytes_.fetch_add(std::ssize(bytes), std::memory_order_relaxed);
  relief_->OnReceived();
  return true;
}

int64_t ReceivedMeter::recent_bytes() const {
  const int64_t age = relief_->window() - window_.load(std::memory_order_relaxed);
  const int64_t bytes = bytes_.load(std::memory_order_relaxed);
  if (age == 0) return bytes + earlier_bytes_.load(std::memory_order_relaxed);
  return age == 1 ? bytes : 0;
}

}  // namespace profd::rpc
