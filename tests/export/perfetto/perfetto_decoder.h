// Reads a Perfetto protobuf trace as its trace processor does, but forgives nothing: it
// knows the messages only by their numbers, sorts events stably by time and pairs begins
// with ends, track by track.
#ifndef PROFD_TESTS_EXPORT_PERFETTO_PERFETTO_DECODER_H_
#define PROFD_TESTS_EXPORT_PERFETTO_PERFETTO_DECODER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace profd {

struct PerfettoTrack {
  uint64_t parent = 0;
  std::string name;
  int64_t pid = -1;  // Of a process or thread.
  int64_t tid = -1;  // Of a thread.
  bool is_counter = false;
  uint64_t unit = 0;
  uint64_t rank = 0;  // Among its siblings, where its parent orders them.
};

struct PerfettoSlice {
  uint64_t track = 0;
  std::string name;
  std::string category;
  int64_t start_ns = 0;  // Unix time
  int64_t end_ns = 0;
  size_t depth = 0;
  std::map<std::string, std::string> annotations;  // Numbers as text.
  std::vector<std::string> callstack;              // "function file:line", outermost first.
  std::vector<uint64_t> flows_out;
  std::vector<uint64_t> flows_in;  // That end here.
};

// An arrow, by positions in PerfettoTrace::slices.
struct PerfettoFlow {
  size_t from = 0;
  size_t to = 0;
};

struct PerfettoInstant {
  uint64_t track = 0;
  std::string name;
  int64_t time_ns = 0;
  std::map<std::string, std::string> annotations;
};

struct PerfettoSample {
  uint64_t track = 0;
  int64_t time_ns = 0;
  double value = 0;
};

struct PerfettoTrace {
  std::map<uint64_t, PerfettoTrack> tracks;
  std::vector<PerfettoSlice> slices;  // By start; enclosing ones first.
  std::vector<PerfettoInstant> instants;
  std::vector<PerfettoSample> samples;
  std::vector<PerfettoFlow> flows;
  // What a loader would have to guess or repair: an end without a begin, a name that was
  // not interned, an unknown track, slices of a sequence that go back in time, ...
  std::vector<std::string> offences;

  const PerfettoTrack* TrackNamed(std::string_view name) const;
};

// INVALID_ARGUMENT: not the wire format, or a packet that cannot be understood.
absl::StatusOr<PerfettoTrace> DecodePerfetto(std::string_view bytes);

}  // namespace profd

#endif  // PROFD_TESTS_EXPORT_PERFETTO_PERFETTO_DECODER_H_
