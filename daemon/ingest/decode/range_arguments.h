// RangeArguments turns the arguments of ranges (proto/wire/range_arguments.h) into rows: those of
// annotate(), and the text that torch's record_function(name, args) takes.
//
// They come when the range begins and wait, by its start, until EventDecoder has kept the range or
// forgotten it. A range on a lane may be there first, as it comes in a chunk of the thread that
// ended it: such ranges are remembered.
//
// What is missing is counted by range: cut or left out by the target, no room for a text, two
// arguments of one name, forgotten because too many others waited, or without their range at the
// end.
//
// Refused, as in event_decoder.h: whatever is no list of keys and values.
//
// Threads:   one at a time.
// Ownership: borrows the names and the sink.
// Memory:    of what waits, 2 * kMaxWaitingBytes. Texts: kMaxTexts and kMaxTextBytes in a capture.
#ifndef PROFD_DAEMON_INGEST_DECODE_RANGE_ARGUMENTS_H_
#define PROFD_DAEMON_INGEST_DECODE_RANGE_ARGUMENTS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/capture/ports.h"
#include "daemon/ingest/decode/decode_context.h"
#include "proto/wire/event.h"

namespace profd {

// The values added last, by the start of a range: at least kMost / 2 of them, or half of
// kMostBytes, whichever is reached first.
template <typename Value, size_t kMost, size_t kMostBytes = SIZE_MAX>
class RecentByStart {
 public:
  bool empty() const { return young_.empty() && old_.empty(); }
  // Replaces the value that is there. Returns how many values are gone for it.
  int64_t Add(uint64_t start_ticks, Value value, size_t bytes) {
    int64_t gone = Take(start_ticks).has_value() ? 1 : 0;
    if (young_.size() >= kMost / 2 || young_bytes_ > kMostBytes / 2) {
      gone += static_cast<int64_t>(old_.size());
      old_ = std::exchange(young_, {});
      young_bytes_ = 0;
    }
    young_bytes_ += bytes;
    young_.emplace(start_ticks, Entry{std::move(value), bytes});
    return gone;
  }
  // Null: there is none.
  const Value* Find(uint64_t start_ticks) const {
    for (const Map* map : {&young_, &old_}) {
      if (const auto found = map->find(start_ticks); found != map->end())
        return &found->second.value;
    }
    return nullptr;
  }
  std::optional<Value> Take(uint64_t start_ticks) {
    for (Map* map : {&young_, &old_}) {
      const auto found = map->find(start_ticks);
      if (found == map->end()) continue;
      std::optional<Value> value(std::move(found->second.value));
      if (map == &young_) young_bytes_ -= found->second.bytes;
      map->erase(found);
      return value;
    }
    return std::nullopt;
  }
  // Forgets all. Returns how many there were whose start `is_counted`.
  template <typename IsCounted>
  int64_t Clear(IsCounted is_counted) {
    int64_t count = 0;
    for (Map* map : {&young_, &old_}) {
      for (const auto& [start_ticks, entry] : *map) count += is_counted(start_ticks) ? 1 : 0;
      map->clear();
    }
    young_bytes_ = 0;
    return count;
  }

 private:
  struct Entry {
    Value value;
    size_t bytes;
  };
  using Map = absl::flat_hash_map<uint64_t, Entry>;
  Map young_;
  Map old_;
  size_t young_bytes_ = 0;  // Of the arguments in it.
};

class RangeArguments {
 public:
  static constexpr size_t kMaxWaiting = 1u << 16;
  static constexpr size_t kMaxWaitingBytes = 8u << 20;
  static constexpr size_t kMaxTexts = 1u << 18;
  static constexpr size_t kMaxTextBytes = 32u << 20;

  // A range that was kept: the decoder's number of its thread, and its number among the ranges
  // that were kept of that.
  struct Kept {
    uint32_t thread;
    uint32_t row;
  };

  RangeArguments(NameTable& names, RowSink& sink) : names_(names), sink_(sink) {}

  // Whether an OperatorEvent of `size` bytes is annotate()'s arguments.
  static bool AreArguments(const std::byte* record, uint32_t size);

  // Each: false for an invalid record, of which nothing is kept. `thread`: who wrote it.
  bool Decode(const std::byte* record, uint32_t size, uint32_t thread);
  // An OperatorEvent that DecodeOperator() has accepted: arguments if it is a record_function()'s.
  void DecodeOfTorch(const std::byte* record, uint32_t size, uint32_t thread);

  // The range that began at `start_ticks` was kept. `is_lane`: its thread is a lane.
  void Keep(uint64_t start_ticks, Kept range, bool is_lane);
  // It was not.
  void Forget(uint64_t start_ticks) {
    if (!waiting_.empty()) waiting_.Take(start_ticks);
  }

  // No range comes any more. is_inside(start_ticks): it began in a window, so its range was lost.
  template <typename IsInside>
  void Finish(IsInside is_inside) {
    cut_count_ += waiting_.Clear(is_inside);
  }

  // Gives the sink what there is. index_of(thread) is the sink's index of a thread.
  template <typename IndexOf>
  void Flush(IndexOf index_of) {
    if (rows_.empty()) return;
    for (ArgumentRow& row : rows_) row.of_thread = index_of(row.of_thread);
    Give();
  }

  // Ranges whose arguments are not all there.
  int64_t cut_count() const { return cut_count_; }

 private:
  struct Waiting {
    uint32_t thread;
    bool is_cut;         // By the target.
    std::string inputs;  // Checked.
  };

  void Add(uint64_t start_ticks, Waiting arguments);
  void Append(const Waiting& arguments, Kept range);
  // False: there is no room for a text.
  bool SetValue(const wire::OperatorInput& input, std::string_view bytes, ArgumentRow& row);
  // 0: there is no room.
  uint32_t TextId(std::string text);
  void Give();

  NameTable& names_;
  RowSink& sink_;
  RecentByStart<Waiting, kMaxWaiting, kMaxWaitingBytes> waiting_;
  RecentByStart<Kept, kMaxWaiting> lanes_;
  std::vector<ArgumentRow> rows_;  // `of_thread` is the decoder's number.
  size_t text_count_ = 0;
  size_t text_bytes_ = 0;
  int64_t cut_count_ = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_INGEST_DECODE_RANGE_ARGUMENTS_H_
