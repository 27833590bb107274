// ChunkQueue carries copies of chunks from the ingest thread to a capture's decoder. Its
// buffers are its bound: when all are in use the ingest thread leaves full chunks where
// they are, and the target counts what it then has no room for. So a slow disk costs
// events, counted, and never stalls the ingest thread.
//
// Buffers are handed out last-used first, so that a capture that needs few touches few.
//
// Threads:   any.
// Ownership: owns the buffers; a ChunkCopy is lent from Take() to Give().
#ifndef PROFD_DAEMON_INGEST_CHUNK_QUEUE_H_
#define PROFD_DAEMON_INGEST_CHUNK_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "daemon/base/cond_var.h"

namespace profd {

struct ChunkCopy {
  std::byte* bytes = nullptr;  // wire::kChunkBytes of them.
  uint32_t record_bytes = 0;
  uint32_t thread_serial = 0;
  uint32_t sequence = 0;
  uint64_t copy_ticks = 0;
  absl::Duration copy_time;  // Monotonic.
};

class ChunkQueue {
 public:
  // `bytes` is rounded up to four chunks at least.
  explicit ChunkQueue(uint64_t bytes);
  ~ChunkQueue();
  ChunkQueue(const ChunkQueue&) = delete;
  ChunkQueue& operator=(const ChunkQueue&) = delete;

  // False: the system had no address space for the buffers; nothing can be taken.
  bool ok() const { return slab_ != nullptr; }
  size_t capacity() const { return copies_.size(); }

  // A buffer to fill; nullptr: all are in use.
  ChunkCopy* Take();
  // The buffer of `copy` may be used again.
  void Give(ChunkCopy* copy);

  // Appends a filled buffer.
  void Push(ChunkCopy* copy);
  // No more will be pushed; what is there is due at once.
  void Close();

  // The oldest copy once it is `settle` old, or at once if half of the buffers are in use
  // or the queue is closed. nullptr: closed and empty, or nothing was due for `longest_wait`.
  ChunkCopy* Pop(absl::Duration settle, absl::Duration longest_wait);
  bool drained() const;  // Closed and empty.
  bool closed() const;

 private:
  bool IsPressing() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  void* slab_ = nullptr;
  std::vector<ChunkCopy> copies_;

  mutable absl::Mutex mu_;
  CondVar changed_;
  std::vector<ChunkCopy*> unused_ ABSL_GUARDED_BY(mu_);
  std::deque<ChunkCopy*> filled_ ABSL_GUARDED_BY(mu_);
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace profd

#endif  // PROFD_DAEMON_INGEST_CHUNK_QUEUE_H_
