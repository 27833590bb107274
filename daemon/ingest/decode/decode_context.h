// What the decoders of one capture share: where names come from, where rows go and what
// became of them, which thread of the target is which.
//
// Threads:   one at a time.
// Ownership: each borrows what it is given.
#ifndef PROFD_DAEMON_INGEST_DECODE_DECODE_CONTEXT_H_
#define PROFD_DAEMON_INGEST_DECODE_DECODE_CONTEXT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "daemon/capture/ports.h"

namespace profd {

// Where names come from. Asked once per id.
class NameReader {
 public:
  virtual ~NameReader() = default;
  // False: there is no name of this id.
  virtual bool ReadName(uint32_t id, std::string& name) const = 0;
};

// A window's edges. 0: not known yet.
struct WindowTicks {
  uint64_t start = 0;
  uint64_t end = 0;
};

struct DecodeCounts {
  // Kept: ranges, instants, counters, memory events, and all rows of the GPU.
  int64_t event_count = 0;
  int64_t warmup_event_count = 0;   // Ended before their window began.
  int64_t outside_event_count = 0;  // Began after their window's end.
  int64_t open_range_count = 0;
  int64_t truncated_range_count = 0;
  int64_t invalid_count = 0;
  int64_t unknown_kind_count = 0;
  int64_t byte_cap_count = 0;
  int64_t disk_count = 0;
};

// The way to the sink: up to its first error, which is kept. What it does not take counts as
// byte_cap_count (OUT_OF_RANGE) or disk_count.
class RowSink {
 public:
  RowSink(CaptureSink& sink, DecodeCounts& counts) : sink_(sink), counts_(counts) {}

  // Calls give(sink), unless something failed before.
  template <typename Give>
  void Do(Give give) {
    if (status_.ok()) status_ = give(sink_);
  }
  // The same for `rows` events, which are counted. True: the sink took them.
  template <typename Give>
  bool Append(int64_t rows, Give give) {
    Do(give);
    if (status_.ok()) {
      counts_.event_count += rows;
      return true;
    }
    (absl::IsOutOfRange(status_) ? counts_.byte_cap_count : counts_.disk_count) += rows;
    return false;
  }
  const absl::Status& status() const { return status_; }

 private:
  CaptureSink& sink_;
  DecodeCounts& counts_;
  absl::Status status_;
};

// The sink's ids of names, by those on the wire, and of other texts. A name is given to the sink
// when it is first asked for; two ids of one text are one name.
class NameTable {
 public:
  static constexpr uint32_t kNoName = UINT32_MAX;

  NameTable(const NameReader& reader, RowSink& sink);

  // kNoName: there is none.
  uint32_t Find(uint32_t wire_id) {
    if (wire_id >= by_wire_id_.size()) return kNoName;
    const uint32_t name = by_wire_id_[wire_id];
    return name != kNotAsked ? name : LookUp(wire_id);
  }
  // The id of a text; 0: it is not there, and `may_add` is false. `is_new`: it was added.
  uint32_t IdOf(std::string&& text, bool may_add, bool& is_new);
  const NameReader& reader() const { return reader_; }

 private:
  static constexpr uint32_t kNotAsked = UINT32_MAX - 1;
  uint32_t LookUp(uint32_t wire_id);

  const NameReader& reader_;
  RowSink& sink_;
  std::vector<uint32_t> by_wire_id_;
  absl::flat_hash_map<std::string, uint32_t> ids_;
};

// The threads that rows belong to. The sink counts those that were announced, in their order, so
// that a thread with nothing to show leaves no gap. A thread shows
// itself by chunks of its own, or as the one that called CUDA: whichever comes first, it is
// the same row. (Where the system gave a thread id to another thread meanwhile, calls go to
// the thread that came last.)
class ThreadRows {
 public:
  // A hostile target could make threads as fast as chunks; there are no rows for more.
  static constexpr uint32_t kMaxThreads = 1u << 17;

  explicit ThreadRows(RowSink& sink) : sink_(sink) {}

  // A thread that has chunks of its own.
  std::optional<uint32_t> AddOwner(uint32_t os_thread);
  // One that events in another's chunks are of.
  std::optional<uint32_t> AddNamed(uint32_t os_thread);
  // One that is neither.
  std::optional<uint32_t> AddUnknown(std::string name);
  // The thread that called CUDA.
  std::optional<uint32_t> OfCaller(uint32_t os_thread);

  const std::string& name(uint32_t index) const { return rows_[index].row.name; }
  void SetName(uint32_t index, std::string name);
  // Before the first rows of it; returns the index that the sink knows it by.
  uint32_t Announce(uint32_t index);

 private:
  struct Row {
    ThreadRow row;           // Its index is the sink's; kNoIndex: not announced yet.
    bool announced = false;  // To the sink, as it is now.
  };
  static constexpr uint32_t kNoIndex = UINT32_MAX;
  enum class Kind : uint8_t { kCaller, kNamed, kOwner };
  struct Known {
    uint32_t index;
    Kind kind;
  };
  std::optional<uint32_t> Add(uint32_t os_thread, std::string name);

  RowSink& sink_;
  std::vector<Row> rows_;  // By our index.
  uint32_t announced_count_ = 0;
  absl::flat_hash_map<uint32_t, Known> by_os_thread_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_INGEST_DECODE_DECODE_CONTEXT_H_
