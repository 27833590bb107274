// PairedEvents makes ranges of events that come in two: B and E, which nest on their thread, and
// the asynchronous b and e, which have an id and may overlap. TensorFlow, Chrome's own tracing, and
// libraries for C++ and Rust write those.
//
//   thread   B forward ── B matmul ── E ── E          two ranges of the thread
//   id 7          b request ─────────────────── e     on a lane "overlapping ranges of THREAD",
//   id 8                  b request ──── e            as ranges of nvtxRangeStart() are
//
// An end with a name ends the last open range of that name. At one time, ends come first, unless
// the range began at that time, too; an end without a name keeps its place in the file.
//
// An event without its partner makes no range, and is counted. So are b and e without an id, and
// their arguments, which are not kept.
//
// Threads: one. Memory: 24 bytes per event, and kMaxIdBytes of distinct ids; events with further
// ones make no range, and are counted.
#ifndef PROFD_DAEMON_IMPORT_PAIRED_EVENTS_H_
#define PROFD_DAEMON_IMPORT_PAIRED_EVENTS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "daemon/import/not_understood.h"
#include "daemon/import/trace_event.h"

namespace profd::importer {

class PairedEvents {
 public:
  static constexpr size_t kMaxIdBytes = size_t{128} << 20;

  struct Range {
    uint32_t thread = 0;  // That of its begin.
    int64_t start_ns = 0;
    int64_t duration_ns = 0;
    uint32_t name = 0;
    bool overlaps = false;  // It is of b and e.
    bool is_open = false;   // The trace is cut off before its end.
  };

  // Adds an event with a time, which is since any epoch.
  void Add(const TraceEvent& event, int64_t time_ns, uint32_t thread, uint32_t name,
           NotUnderstood& not_understood);
  bool empty() const { return marks_.empty(); }
  size_t size() const { return marks_.size(); }  // Events; until Finish().
  // Gives all ranges: by thread, or id, and end. Ranges without an end are open until `open_end_ns`
  // if it has a value. Call once, last.
  absl::Status Finish(std::optional<int64_t> open_end_ns, NotUnderstood& not_understood,
                      absl::FunctionRef<absl::Status(const Range&)> on_range);

 private:
  struct Mark {
    int64_t time_ns;
    uint32_t of;  // A thread; of b and e a number for the id.
    uint32_t thread;
    uint32_t name;
    bool is_async;
    bool has_name;
    bool is_begin;
  };

  class OpenMarks;

  void PutEndsFirst();

  std::vector<Mark> marks_;
  absl::flat_hash_map<std::string, uint32_t> ids_;
  size_t id_bytes_ = 0;
  std::string key_;
};

}  // namespace profd::importer

#endif  // PROFD_DAEMON_IMPORT_PAIRED_EVENTS_H_
