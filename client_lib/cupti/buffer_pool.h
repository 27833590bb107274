// BufferPool lends CUPTI the memory that it writes records into.
//
// CUPTI asks on whatever thread of the program makes a CUDA call, so lending is a pop off a
// list: no lock, no allocation, no page that was not touched before. The GPU thread decodes
// what comes back, zeroes it and puts it on the list again. Seven eighths of what a capture
// allows are one arena of buffers, one eighth are discard buffers:
//
//   arena    ┌ slots ┬ buffer 0 ┬ buffer 1 ┬ ... ┐   of one capture
//   reserve  ┌ slots ┬ discard 0 ┬ discard 1 ┬ discard 2 ┬ ...   for ever; mostly never touched
//
// Where all buffers are out CUPTI gets a discard buffer, which is small: what falls into it is
// counted and lost, at once, on the thread that gives it back. CUPTI before 12.9 crashes
// without a buffer, so there the discards have no end; later ones are refused (null) when
// theirs are out, and count what they drop. When a capture is over its arena is unmapped,
// unless CUPTI still has buffers of it: then it is kept, for CUPTI may write there whenever it
// likes. Pages of its other buffers go back to the system. The next capture of the same size uses
// it again; for another size, what CUPTI has of it counts as that capture's. A kept buffer may
// return with records of several captures in it.
//
// Threads:   Request(), Complete() any, also none of ours. The rest on the GPU thread.
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

  // A buffer that came back.
  struct Returned {
    Arena* arena;
    uint32_t slot;
    std::byte* bytes;
    uint64_t size_bytes;
    uint64_t valid_bytes;  // As CUPTI said, no more than the buffer has.
    bool is_kept;          // CUPTI has had it since an earlier capture.
  };

  // `on_wake` is called, on any thread, when a buffer came back or few are left.
  constexpr explicit BufferPool(void (*on_wake)()) : on_wake_(on_wake) {}

  // Makes an arena of `cap_bytes` at most (2 MiB at least) and touches its first buffers.
  // `record_bytes`, which stays, are the sizes to count lost records by. False: no memory.
  // `may_refuse`: CUPTI takes null for an answer (12.9 and later), and drops and counts itself.
  bool Open(uint64_t cap_bytes, const uint16_t* record_bytes, bool may_refuse);

  // CUPTI wants a buffer. It gets one, of `*size_bytes` zero bytes; null only if it may be
  // refused and the cap is reached.
  void Request(uint8_t** buffer, size_t* size_bytes);
  // CUPTI is done with `buffer`, `valid_bytes` of which are records.
  void Complete(uint8_t* buffer, size_t valid_bytes);

  // Takes out the buffer that came back first. False: there is none.
  bool TakeReturned(Returned* returned);
  // Zeroes it and lends it again.
  void Recycle(const Returned& returned);

  // Touches buffers ahead of need.
  void PopulateAhead();

  // Marks the buffers with records that CUPTI has now. What was recorded so far is in them, or has
  // been taken.
  void MarkOutstanding();
  // Marked buffers that have not been taken yet.
  uint32_t marked() const { return marked_; }

  // Buffers in CUPTI's hands, and how many of them hold records, as far as memory shows.
  uint32_t outstanding() const;
  uint32_t CountHoldingRecords() const;
  uint64_t peak_bytes() const { return peak_bytes_.load(std::memory_order_relaxed); }
  // A number that changes whenever CUPTI asks for a buffer, gives one back, or writes a record to
  // one that it has.
  uint64_t CountSignsOfLife() const;
  // Records in discard buffers that came back since Open().
  uint64_t discarded_count() const { return discarded_.load(std::memory_order_relaxed); }
  // Buffers that came back and were none of ours: another tool's callbacks are mixed with ours.
  uint64_t foreign_count() const { return foreign_.load(std::memory_order_relaxed); }

  // Ends the capture's arena. False: CUPTI still has buffers of it, so it was kept.
  bool Close();

  // Arenas kept that are not in use.
  uint32_t CountKept() const;

  void ResetInChild();

 private:
  static void* Lend(Arena* arena, uint32_t slot, size_t* size_bytes);
  void* TryRequest(Arena* current, Arena* reserve, size_t* size_bytes);
  void Discard(Arena* arena, uint32_t slot, uint64_t valid_bytes);
  bool CompleteIn(Arena* arena, uint8_t* buffer, size_t valid_bytes);
  bool PopReturned(Arena* arena, Returned* returned);
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
  uint32_t marked_ = 0;              // The GPU thread's.
};

}  // namespace profd::client

#endif  // PROFD_CLIENT_LIB_CUPTI_BUFFER_POOL_H_
