// ChunkSequencer puts the chunks of each thread into the order in which the thread filled
// them. The ingest thread finds them in nearly that order; one that comes early is held
// back until those before it have come.
//
// A target may lie about sequence numbers. So only so many chunks are held back: beyond
// that, and at the end, a gap is declared and counted, and the order goes on after it.
//
// Threads:   one at a time.
// Ownership: borrows the copies it is given until it hands them to `decode` or `reject`.
#ifndef PROFD_DAEMON_INGEST_CHUNK_SEQUENCER_H_
#define PROFD_DAEMON_INGEST_CHUNK_SEQUENCER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>

#include "absl/container/flat_hash_map.h"
#include "daemon/ingest/chunk_queue.h"

namespace profd {

class ChunkSequencer {
 public:
  using Take = std::function<void(ChunkCopy*)>;

  // `decode` gets chunks in order; `reject` those whose place is taken or has gone by.
  ChunkSequencer(size_t max_held, Take decode, Take reject);

  void Accept(ChunkCopy* copy);
  // No more will come: gives what is held back, in order.
  void Finish();

  // Runs of chunks that never came.
  int64_t gap_count() const { return gap_count_; }

 private:
  struct Order {
    uint32_t next = 0;
    std::map<uint32_t, ChunkCopy*> held;  // By sequence, all after `next`.
  };
  void GiveHeld(Order& order);
  void DeclareGap(Order& order);

  const size_t max_held_;
  const Take decode_;
  const Take reject_;
  absl::flat_hash_map<uint32_t, Order> orders_;  // By thread serial.
  size_t held_count_ = 0;
  int64_t gap_count_ = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_INGEST_CHUNK_SEQUENCER_H_
