// CaptureMemory is the daemon's end of one capture's shared memory (layout and life of a
// chunk: proto/wire/capture_memory.h). It makes the memory, hands chunks out and takes
// copies; it believes nothing that the target could have written.
//
// Indexes and sizes come from this side's own layout; every loop is bounded by it. A
// target that corrupts the free list or the chunk table harms its own capture only.
//
// Threads:   FillFreeList() and PushFree() any; the rest may run while those and the target do.
// Ownership: owns the memory; the target keeps its own mapping when this one is gone.
#ifndef PROFD_DAEMON_INGEST_CAPTURE_MEMORY_H_
#define PROFD_DAEMON_INGEST_CAPTURE_MEMORY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/ingest/chunk_queue.h"
#include "daemon/ingest/decode/event_decoder.h"
#include "daemon/ingest/mapped_memfd.h"
#include "proto/wire/capture_memory.h"

namespace profd {

class CaptureMemory : public NameReader {
 public:
  // Which chunk it is, as its head says (hostile).
  struct ChunkTag {
    uint32_t index;
    uint32_t thread_serial;
    uint32_t sequence;
  };

  // `bytes` as wire::LayoutFor() wants it. What the target touches when it is armed, about the
  // first MiB, gets its pages and is cleared: the library reads it, which is slow for pages that
  // were never written. FillFreeList() adds the rest. RESOURCE_EXHAUSTED.
  static absl::StatusOr<std::unique_ptr<CaptureMemory>> Create(uint64_t capture_number,
                                                               uint64_t bytes);

  // Gives a memory that was made ahead to a capture. Before the target has it.
  void SetCaptureNumber(uint64_t capture_number) { header_->capture_number = capture_number; }

  // Allocates some of what is left, and puts the chunks on the free list: the first chunks, then
  // the names, then the other chunks. All of it takes about 0.25 ms per MiB, which is why Create()
  // leaves it. kNoMemory: what there is is all there will be.
  enum class Fill { kMore, kDone, kNoMemory };
  Fill FillFreeList();
  // Whether there is a chunk for each of 64 threads, or all there are of fewer. For the thread that
  // fills the list.
  bool has_first_chunks() const { return filled_chunks_ >= first_chunks(); }

  // Gives all pages back to the system: no thread reads or writes the memory any more.
  void FreePages() { memory_.Free(); }

  int fd() const { return memory_.fd(); }
  // Of the start: what has pages since Create().
  uint64_t first_bytes() const;
  uint64_t size_bytes() const { return layout_.total_bytes; }
  const wire::CaptureMemoryLayout& layout() const { return layout_; }

  // Hostile values: read each once, check it, use the copy.
  const wire::CaptureMemoryHeader& untrusted_header() const { return *header_; }

  wire::ChunkState untrusted_state(uint32_t index) const;
  ChunkTag ReadTag(uint32_t index) const;

  // Copies head and published records, and notes in `to` how much that is and whose.
  void CopyChunk(uint32_t index, ChunkCopy& to) const;

  // Makes the chunk free. False: the target kept changing the list's head; try again later.
  [[nodiscard]] bool PushFree(uint32_t index);

  bool ReadName(uint32_t id, std::string& name) const override;

 private:
  CaptureMemory(uint64_t capture_number, MappedMemfd memory);

  // Clears what the target touches when it is armed, so that the target need not: 0.2 ms.
  void ClearTouched();
  uint32_t first_chunks() const;
  // Some of the chunks up to this one.
  Fill FillChunks(uint32_t until);
  Fill FillNames();
  void SetFilledToChunks();
  void SetFilledBytes(uint64_t bytes);

  uint64_t ChunkOffset(uint32_t index) const {
    return layout_.chunks_offset + uint64_t{index} * wire::kChunkBytes;
  }
  std::byte* chunk(uint32_t index) const { return memory_.data() + ChunkOffset(index); }
  wire::ChunkControl& control(uint32_t index) const { return chunk_table_[index]; }

  MappedMemfd memory_;
  const wire::CaptureMemoryLayout layout_;
  wire::CaptureMemoryHeader* const header_;
  wire::ChunkControl* const chunk_table_;
  // Progress of FillFreeList(): how much has its pages.
  uint64_t filled_bytes_ = 0;
  uint32_t filled_chunks_ = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_INGEST_CAPTURE_MEMORY_H_
