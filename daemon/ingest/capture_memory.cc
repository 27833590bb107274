#include "daemon/ingest/capture_memory.h"

#include <algorithm>
#include <new>
#include <utility>

#include "daemon/base/status_macros.h"
#include "daemon/ingest/shared_bytes.h"

namespace profd {
namespace {

// Before the target hears of the memory: what it touches when it is armed.
constexpr uint64_t kFirstNameBytes = 256 << 10;
constexpr uint64_t kTouchedChunkBytes = 512 << 10;
// Before anything can be recorded, if there is memory for it: a chunk for each of 64 threads.
constexpr uint64_t kFirstChunkBytes = 4 << 20;
// One call holds a processor that others may be waiting for.
constexpr uint32_t kAllocateStepBytes = 1 << 20;
// An honest target's threads collide with us a few times at most.
constexpr int kMaxPushTries = 1000;
// Until the target's first mark in this capture.
constexpr uint64_t kNoStep = UINT64_MAX;

absl::Status NoMemory() {
  return absl::ResourceExhaustedError("no memory left for capture memory on this node");
}

}  // namespace

absl::StatusOr<std::unique_ptr<CaptureMemory>> CaptureMemory::Create(uint64_t capture_number,
                                                                     uint64_t bytes) {
  ASSIGN_OR_RETURN(MappedMemfd mapped, MappedMemfd::Create("profd-capture", bytes));
  std::unique_ptr<CaptureMemory> memory(new CaptureMemory(capture_number, std::move(mapped)));
  if (!memory->memory_.Allocate(0, memory->first_bytes())) return NoMemory();
  memory->SetFilledBytes(memory->first_bytes());
  if (memory->FillChunks(kTouchedChunkBytes / wire::kChunkBytes) == Fill::kNoMemory) {
    return NoMemory();
  }
  memory->ClearTouched();
  return memory;
}

void CaptureMemory::ClearTouched() {
  memory_.Populate(0, first_bytes());
  memory_.Populate(layout_.chunks_offset,
                   std::min(layout_.total_bytes, layout_.chunks_offset + kTouchedChunkBytes));
}

uint64_t CaptureMemory::first_bytes() const {
  return std::min(layout_.chunks_offset, layout_.name_area_offset + kFirstNameBytes);
}

CaptureMemory::CaptureMemory(uint64_t capture_number, MappedMemfd memory)
    : memory_(std::move(memory)),
      layout_(wire::LayoutFor(memory_.size_bytes())),
      header_(new (memory_.data()) wire::CaptureMemoryHeader{}),
      chunk_table_(
          reinterpret_cast<wire::ChunkControl*>(memory_.data() + layout_.chunk_table_offset)) {
  header_->magic = wire::kCaptureMemoryMagic;
  header_->version = wire::kCaptureMemoryVersion;
  header_->capture_number = capture_number;
  header_->total_bytes = layout_.total_bytes;
  header_->chunk_bytes = wire::kChunkBytes;
  header_->chunk_count = layout_.chunk_count;
  header_->name_capacity = layout_.name_capacity;
  header_->name_area_bytes = layout_.name_area_bytes;
  header_->chunk_table_offset = layout_.chunk_table_offset;
  header_->name_index_offset = layout_.name_index_offset;
  header_->name_area_offset = layout_.name_area_offset;
  header_->chunks_offset = layout_.chunks_offset;
  header_->current_step.store(kNoStep, std::memory_order_relaxed);
}

CaptureMemory::Fill CaptureMemory::FillFreeList() {
  if (!has_first_chunks()) return FillChunks(first_chunks());
  if (filled_bytes_ < layout_.chunks_offset) return FillNames();
  return FillChunks(layout_.chunk_count);
}

uint32_t CaptureMemory::first_chunks() const {
  return std::min<uint32_t>(layout_.chunk_count, kFirstChunkBytes / wire::kChunkBytes);
}

CaptureMemory::Fill CaptureMemory::FillChunks(uint32_t until) {
  const uint32_t end = std::min<uint32_t>(
      {until, layout_.chunk_count, filled_chunks_ + kAllocateStepBytes / wire::kChunkBytes});
  if (end <= filled_chunks_) return Fill::kDone;
  if (!memory_.Allocate(ChunkOffset(filled_chunks_), ChunkOffset(end))) return Fill::kNoMemory;
  // The list is a stack. Pushed from the last to the first, the lowest chunk is on top, so that a
  // target that needs few chunks stays in pages that were touched already.
  for (uint32_t i = end; i-- > filled_chunks_;) {
    if (!PushFree(i)) return Fill::kNoMemory;
  }
  filled_chunks_ = end;
  // Until the names have their pages, filled_bytes ends among them.
  if (filled_bytes_ >= layout_.chunks_offset) SetFilledToChunks();
  return Fill::kMore;
}

CaptureMemory::Fill CaptureMemory::FillNames() {
  const uint64_t end = std::min(layout_.chunks_offset, filled_bytes_ + kAllocateStepBytes);
  if (!memory_.Allocate(filled_bytes_, end)) return Fill::kNoMemory;
  if (end < layout_.chunks_offset) {
    SetFilledBytes(end);
  } else {
    SetFilledToChunks();
  }
  return Fill::kMore;
}

void CaptureMemory::SetFilledToChunks() {
  SetFilledBytes(filled_chunks_ == layout_.chunk_count ? layout_.total_bytes
                                                       : ChunkOffset(filled_chunks_));
}

void CaptureMemory::SetFilledBytes(uint64_t bytes) {
  filled_bytes_ = bytes;
  // Release: the pages are there before the target sees that it may use them.
  header_->filled_bytes.store(bytes, std::memory_order_release);
}

wire::ChunkState CaptureMemory::untrusted_state(uint32_t index) const {
  return static_cast<wire::ChunkState>(control(index).state.load(std::memory_order_acquire));
}

CaptureMemory::ChunkTag CaptureMemory::ReadTag(uint32_t index) const {
  alignas(8) std::byte head[64];
  CopyFromShared(head, chunk(index), sizeof(head));
  ChunkTag tag{.index = index, .thread_serial = 0, .sequence = 0};
  memcpy(&tag.thread_serial, head + offsetof(wire::ChunkHeader, thread_serial), 4);
  memcpy(&tag.sequence, head + offsetof(wire::ChunkHeader, sequence), 4);
  return tag;
}

void CaptureMemory::CopyChunk(uint32_t index, ChunkCopy& to) const {
  const std::byte* from = chunk(index);
  const auto* head = reinterpret_cast<const wire::ChunkHeader*>(from);
  // Acquire pairs with the writer's release, so the records up to here are complete. The number
  // itself is the target's and is bounded before it is used.
  const uint32_t published = head->published_bytes.load(std::memory_order_acquire) / 8 * 8;
  to.record_bytes = std::min(published, wire::kChunkDataBytes);
  CopyFromShared(to.bytes, from, wire::kChunkDataOffset);
  CopyFromShared(to.bytes + wire::kChunkDataOffset, from + wire::kChunkDataOffset, to.record_bytes);
  memcpy(&to.thread_serial, to.bytes + offsetof(wire::ChunkHeader, thread_serial), 4);
  memcpy(&to.sequence, to.bytes + offsetof(wire::ChunkHeader, sequence), 4);
}

bool CaptureMemory::PushFree(uint32_t index) {
  control(index).state.store(static_cast<uint32_t>(wire::ChunkState::kFree),
                             std::memory_order_relaxed);
  uint64_t head = header_->free_head.load(std::memory_order_acquire);
  for (int i = 0; i < kMaxPushTries; ++i) {
    control(index).next_free.store(static_cast<uint32_t>(head), std::memory_order_relaxed);
    // The tag changes with every push and pop. Without it, a compare-and-swap could succeed on a
    // head that was taken and put back in between, and lose chunks (ABA).
    const uint64_t tag = (head >> 32) + 1;
    if (header_->free_head.compare_exchange_weak(head, (tag << 32) | (index + 1),
                                                 std::memory_order_acq_rel)) {
      return true;
    }
  }
  return false;
}

bool CaptureMemory::ReadName(uint32_t id, std::string& name) const {
  if (id == wire::kNoNameId || id >= layout_.name_capacity) return false;
  const auto* index =
      reinterpret_cast<const std::atomic<uint32_t>*>(memory_.data() + layout_.name_index_offset);
  // Acquire pairs with the release of the thread that wrote the name before its index.
  const uint64_t offset = index[id].load(std::memory_order_acquire);
  const uint64_t area_end = layout_.name_area_offset + layout_.name_area_bytes;
  if (offset % 8 != 0 || offset < layout_.name_area_offset ||
      offset + sizeof(wire::NameEntry) > area_end) {
    return false;
  }
  alignas(8) std::byte copy[sizeof(wire::NameEntry) + wire::kMaxNameBytes];
  // The target can change the entry at any time. Its length is read once, checked, and used from
  // the copy.
  CopyFromShared(copy, memory_.data() + offset, sizeof(wire::NameEntry));
  uint32_t length;
  memcpy(&length, copy, sizeof(length));
  const uint64_t padded = (uint64_t{length} + 7) / 8 * 8;
  if (length > wire::kMaxNameBytes || offset + sizeof(wire::NameEntry) + padded > area_end) {
    return false;
  }
  CopyFromShared(copy, memory_.data() + offset + sizeof(wire::NameEntry), padded);
  name.assign(reinterpret_cast<const char*>(copy), length);
  return true;
}

}  // namespace profd
