// BufferPool lends CUPTI the memory that it writes records into.
//
// CUPTI asks for buffers on the program's own threads, during CUDA calls. So lending pops a list:
// no lock, no allocation, no first touch of a page. The GPU thread decodes a returned buffer,
// zeroes it, and puts it back on the list. Of the memory that a capture allows, seven eighths are
// one arena of buffers, and one eighth are discard buffers:
//
//   arena    ┌ slots ┬ buffer 0 ┬ buffer 1 ┬ ... ┐   of one capture
//   reserve  ┌ slots ┬ discard 0 ┬ discard 1 ┬ discard 2 ┬ ...   for ever; mostly never touched
//
// When all buffers are lent, CUPTI gets a small discard buffer. Its records are counted as lost on
// the thread that returns it. CUPTI before 12.9 crashes without a buffer, so it gets any number of
// discard buffers. Later versions get null when the discard buffers are lent too, and count the
// records that they drop. After the capture, the arena is unmapped, unless CUPTI still has some of
// its buffers: CUPTI may write to them at any time, so the arena is kept, and the pages of the
// other buffers are returned to the system. The next capture of the same size reuses it. In a
// capture of another size, the buffers that CUPTI has count toward that capture's memory. A kept
// buffer may return with records of several captures.
//
// Threads:   Request(), Complete(): any, also the program's. The rest: the GPU thread.
// Hot path:  Request(), Complete(): lock-free; no system call but a wake-up of the GPU thread.
// Ownership: owns the arenas. No destructor: CUPTI may come back while the process exits.
// Fork:      arenas are not in the child, which calls ResetInChild().
#ifndef PROFD_CLIENT_LIB_CUPTI_BUFFER_POOL_H_
#define PROFD_CLIENT_LIB_CUPTI_BUFFER_POOL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace profd::client {

class BufferPool {
 public:
  struct Arena;

  // A returned buffer.
  struct Returned {
    Arena* arena;
    uint32_t slot;
    std::byte* bytes;
    uint64_t size_bytes;
    uint64_t valid_bytes;  // As CUPTI reported, at most the buffer's size.
    bool is_kept;          // CUPTI has had it since an earlier capture.
  };

  // `on_wake` is called, on any thread, when a buffer came back or few are left.
  constexpr explicit BufferPool(void (*on_wake)()) : on_wake_(on_wake) {}

  // Maps an arena of `cap_bytes` at most (2 MiB at least) and touches its first buffers.
  // `record_bytes`, which stays, are the sizes to count lost records by. False: no memory.
  // `may_refuse`: CUPTI accepts null (12.9 and later), and counts the records that it drops.
  bool Open(uint64_t cap_bytes, const uint16_t* record_bytes, bool may_refuse);

  // Lends a buffer of `*size_bytes` zero bytes; null only if CUPTI accepts null and the cap is
  // reached.
  void Request(uint8_t** buffer, size_t* size_bytes);
  // Accepts `buffer` from CUPTI; its first `valid_bytes` bytes are records.
  void Complete(uint8_t* buffer, size_t valid_bytes);

  // Takes the buffer that was returned first. False: there is none.
  bool TakeReturned(Returned* returned);
  // Zeroes it and lends it again.
  void Recycle(const Returned& returned);

  // Touches the pages of the buffers that are lent next.
  void PopulateAhead();

  // Marks the buffers with records that CUPTI has now. All records so far are in marked buffers, or
  // in buffers that were taken.
  void MarkOutstanding();
  // Marked buffers that have not been taken yet.
  uint32_t marked() const { return marked_; }

  // Another tool gets the buffers that CUPTI has now, so that they are not waited for any more.
  void GiveUpOutstanding();

  // Counts the buffers that CUPTI has, discard buffers among them, and those whose memory shows
  // records. Not those that were given up.
  uint32_t outstanding() const;
  uint32_t CountHoldingRecords() const;
  uint64_t peak_bytes() const { return peak_bytes_.load(std::memory_order_relaxed); }
  // A number that changes whenever CUPTI asks for a buffer, gives one back, or writes a record to
  // one that it has.
  uint64_t CountSignsOfLife() const;
  // Records in discard buffers that came back since Open().
  uint64_t discarded_count() const { return discarded_.load(std::memory_order_relaxed); }
  // Buffers since Open() that were lent beyond all limits, to a CUPTI that accepts no null. They
  // are lost with whatever CUPTI writes there.
  uint64_t stray_count() const { return strays_.load(std::memory_order_relaxed) - earlier_strays_; }
  // Returned buffers that are not ours: another tool's callbacks are mixed with ours.
  uint64_t foreign_count() const { return foreign_.load(std::memory_order_relaxed); }

  // Ends the capture's arena. False: CUPTI still has buffers of it, so it was kept.
  bool Close();

  // Kept arenas that no capture uses.
  uint32_t CountKept() const;

  void ResetInChild();

 private:
  static void* Lend(Arena* arena, uint32_t slot, size_t* size_bytes);
  void* TryRequest(Arena* current, Arena* reserve, size_t* size_bytes);
  void Discard(Arena* arena, uint32_t slot, uint64_t valid_bytes);
  bool CompleteIn(Arena* arena, uint8_t* buffer, size_t valid_bytes);
  bool PopReturned(Arena* arena, Returned* returned);
  static uint32_t CountHolding(Arena* arena);
  bool WaitForUsers() const;
  void UnmapReturned();
  Arena* FindKept(uint64_t cap_bytes) const;
  uint64_t KeptBytes() const;
  static void ReleasePages(Arena* arena);
  void NotePeak(uint64_t bytes);

  void (*const on_wake_)();
  std::atomic<Arena*> current_{nullptr};
  std::atomic<Arena*> reserve_{nullptr};
  std::atomic<Arena*> arenas_{nullptr};  // All but the reserve; the GPU thread changes the list.
  std::atomic<const uint16_t*> record_bytes_{nullptr};
  std::atomic<uint64_t> discarded_{0};
  std::atomic<uint32_t> reserve_limit_{0};
  std::atomic<bool> may_refuse_{false};
  std::atomic<uint32_t> users_{0};  // Threads inside Request() or Complete().
  std::atomic<uint64_t> requests_{0};
  std::atomic<uint64_t> completions_{0};
  std::atomic<uint64_t> peak_bytes_{0};
  std::atomic<uint64_t> kept_bytes_{0};  // What CUPTI had of other arenas at Open().
  std::atomic<uint64_t> foreign_{0};
  std::atomic<uint64_t> strays_{0};  // Buffers lent out that belong to no arena.
  uint64_t earlier_strays_ = 0;      // At Open(). The GPU thread's, as is the next.
  uint32_t marked_ = 0;
};

}  // namespace profd::client

#endif  // PROFD_CLIENT_LIB_CUPTI_BUFFER_POOL_H_
