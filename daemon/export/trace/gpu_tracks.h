// GpuTracks is the table of rows that the GPU's part of a trace is shown on: one per (device,
// context, stream), one next to it for waiting on it, one per context for waiting on all of it,
// and those of overhead. Where slices of a row overlap, as nodes of a graph may, the row gets
// siblings. All trace formats show the same rows.
//
// Use: KeyOf() for whatever there is, AddSibling() for what overlaps, Finish() once, then read.
// Threads: one.
#ifndef PROFD_DAEMON_EXPORT_TRACE_GPU_TRACKS_H_
#define PROFD_DAEMON_EXPORT_TRACE_GPU_TRACKS_H_

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "daemon/export/trace/layout.h"
#include "daemon/report/index/wide_streams.h"

namespace profd::exporter {

enum class GpuTrackKind : uint8_t { kWork, kSync, kOverhead };

// Of one kind: where rows that must not overlap are.
struct GpuTrackKey {
  GpuTrackKind kind = GpuTrackKind::kWork;
  uint16_t device = 0;   // kNoGpuDevice: not known. kOverhead: 0.
  uint32_t context = 0;  // kOverhead: 0
  uint32_t stream = 0;   // kSync: wire::kNoStream for the whole context. kOverhead: the thread.

  friend bool operator==(const GpuTrackKey&, const GpuTrackKey&) = default;
  template <typename H>
  friend H AbslHashValue(H hash, const GpuTrackKey& key) {
    return H::combine(std::move(hash), key.kind, key.device, key.context, key.stream);
  }
};

struct GpuTrack {
  GpuTrackKey key;
  uint32_t sibling = 0;  // 0: the main one of its key.
  // Of the main one: its siblings, by number less one.
  std::vector<uint32_t> siblings;

  // By Finish().
  size_t process = 0;  // Index into processes().
  int64_t tid = 0;     // No other row of its process has it.
  std::string label;   // "stream 7", as Kineto has it; no other row of its process has it.
  int64_t sort_index = 0;
};

// What a row is under: a device, or CUPTI itself.
struct GpuTrackProcess {
  int64_t pid = 0;  // A device's number, unless a process has it.
  int64_t device = 0;
  bool is_overhead = false;
  std::string label;  // "GPU 0", "GPU 0 (simulated)", "CUPTI Overhead"
  int64_t sort_index = 0;
};

class GpuTracks {
 public:
  // More than any program has in a window. RESOURCE_EXHAUSTED beyond.
  static constexpr size_t kMostTracks = size_t{1} << 20;

  // The index of the main row of `key`, which is made at its first use.
  absl::StatusOr<uint32_t> Add(const GpuTrackKey& key);
  // The index of the sibling >= 1 of the main row `track`, which is made with those before it.
  absl::StatusOr<uint32_t> AddSibling(uint32_t track, uint32_t sibling);
  // How many siblings of `track` there are.
  uint32_t sibling_count(uint32_t track) const {
    return static_cast<uint32_t>(tracks_[track].siblings.size());
  }

  // Gives the rows their numbers and names. `layout` is that of the CPU's rows.
  void Finish(const TraceLayout& layout, const report::WideStreams& wide, bool simulated);

  // The index that Add(key) gave; kNone: not added.
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
  uint32_t Find(const GpuTrackKey& key) const;
  const GpuTrack& operator[](uint32_t track) const { return tracks_[track]; }
  std::span<const GpuTrack> tracks() const { return tracks_; }
  // Devices by number, then overhead.
  std::span<const GpuTrackProcess> processes() const { return processes_; }

 private:
  size_t ProcessOf(const GpuTrackKey& key, const TraceLayout& layout, bool simulated);

  std::vector<GpuTrack> tracks_;
  std::vector<GpuTrackProcess> processes_;
  absl::flat_hash_map<GpuTrackKey, uint32_t> by_key_;
  // Most rows are on the same one as the row before.
  mutable GpuTrackKey last_key_;
  mutable uint32_t last_track_ = kNone;
};

}  // namespace profd::exporter

#endif  // PROFD_DAEMON_EXPORT_TRACE_GPU_TRACKS_H_
