#include "daemon/ingest/chunk_queue.h"

#include <sys/mman.h>

#include <algorithm>

#include "daemon/base/clock.h"
#include "proto/wire/capture_memory.h"

namespace profd {
namespace {

constexpr size_t kMinCopies = 4;

}  // namespace

ChunkQueue::ChunkQueue(uint64_t bytes)
    : copies_(std::max<size_t>(kMinCopies, (bytes + wire::kChunkBytes - 1) / wire::kChunkBytes)) {
  // Pages come as they are touched, and go back to the system as a whole.
  slab_ = mmap(nullptr, copies_.size() * wire::kChunkBytes, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (slab_ == MAP_FAILED) {
    slab_ = nullptr;
    return;
  }
  absl::MutexLock lock(&mu_);
  // The unused buffers are a stack, with the first of the slab on top. A capture that needs few
  // touches only the start of it.
  for (size_t i = copies_.size(); i-- > 0;) {
    copies_[i].bytes = static_cast<std::byte*>(slab_) + i * wire::kChunkBytes;
    unused_.push_back(&copies_[i]);
  }
}

ChunkQueue::~ChunkQueue() {
  if (slab_ != nullptr) munmap(slab_, copies_.size() * wire::kChunkBytes);
}

ChunkCopy* ChunkQueue::Take() {
  absl::MutexLock lock(&mu_);
  if (unused_.empty()) return nullptr;
  ChunkCopy* copy = unused_.back();
  unused_.pop_back();
  return copy;
}

void ChunkQueue::Give(ChunkCopy* copy) {
  absl::MutexLock lock(&mu_);
  unused_.push_back(copy);
}

void ChunkQueue::Push(ChunkCopy* copy) {
  copy->copy_time = Clock::Real().Monotonic();
  absl::MutexLock lock(&mu_);
  filled_.push_back(copy);
  changed_.Signal();
}

void ChunkQueue::Close() {
  absl::MutexLock lock(&mu_);
  closed_ = true;
  changed_.Signal();
}

bool ChunkQueue::IsPressing() const { return closed_ || unused_.size() < copies_.size() / 2; }

ChunkCopy* ChunkQueue::Pop(absl::Duration settle, absl::Duration longest_wait) {
  absl::MutexLock lock(&mu_);
  const absl::Duration deadline = Clock::Real().Monotonic() + longest_wait;
  for (;;) {
    absl::Duration wake = deadline;
    const absl::Duration now = Clock::Real().Monotonic();
    if (!filled_.empty()) {
      const absl::Duration due = filled_.front()->copy_time + settle;
      if (IsPressing() || now >= due) break;
      wake = std::min(wake, due);
    } else if (closed_) {
      return nullptr;
    }
    if (now >= deadline) return nullptr;
    changed_.WaitWithTimeout(&mu_, wake - now);
  }
  ChunkCopy* copy = filled_.front();
  filled_.pop_front();
  return copy;
}

bool ChunkQueue::closed() const {
  absl::MutexLock lock(&mu_);
  return closed_;
}

bool ChunkQueue::drained() const {
  absl::MutexLock lock(&mu_);
  return closed_ && filled_.empty();
}

}  // namespace profd
