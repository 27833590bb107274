#include "daemon/export/trace/gpu_tracks.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/capture/event_kinds.h"
#include "proto/wire/event.h"

namespace profd::exporter {
namespace {

// As Kineto has them.
constexpr int64_t kSyncTidOffset = 1'000'000;
constexpr int64_t kFirstGpuSortIndex = 5'000'000;
constexpr int64_t kOverheadSortIndex = 0x100000A;
constexpr int64_t kOverheadPid = -1;
// For a device with the number of the target's process; above any pid of Linux.
constexpr int64_t kFirstOddDevicePid = 5'000'000;

// By device, context and stream, and there: work, its siblings, waiting.
auto PlaceOf(const GpuTrack& track) {
  return std::tuple(track.key.kind == GpuTrackKind::kOverhead, track.key.device, track.key.context,
                    track.key.stream, track.key.kind, track.sibling);
}

std::string LabelOf(const GpuTrack& track, const report::WideStreams& wide, bool with_context) {
  const GpuTrackKey& key = track.key;
  std::string label;
  if (key.kind == GpuTrackKind::kOverhead) {
    label = key.stream == 0 ? std::string("all threads") : StrCat("thread ", key.stream);
  } else if (key.kind == GpuTrackKind::kSync && key.stream == wire::kNoStream) {
    label = StrCat("context ", key.context, " (sync)");
  } else {
    label = StrCat("stream ", wide.NumberOf(key.stream));
    if (with_context) StrAppend(&label, " of context ", key.context);
    if (key.kind == GpuTrackKind::kSync) label += " (sync)";
  }
  if (track.sibling > 0) StrAppend(&label, " (", track.sibling + 1, ")");
  return label;
}

int64_t WantedTid(const GpuTrackKey& key) {
  switch (key.kind) {
    case GpuTrackKind::kSync:
      return key.stream == wire::kNoStream ? -1 : int64_t{key.stream} + kSyncTidOffset;
    case GpuTrackKind::kWork:
    case GpuTrackKind::kOverhead:
      break;
  }
  return key.stream;
}

}  // namespace

absl::StatusOr<uint32_t> GpuTracks::Add(const GpuTrackKey& key) {
  if (key == last_key_ && last_track_ < tracks_.size()) return last_track_;
  const auto [at, inserted] = by_key_.try_emplace(key, static_cast<uint32_t>(tracks_.size()));
  if (inserted) {
    if (tracks_.size() == kMostTracks) {
      return absl::ResourceExhaustedError(
          StrCat("the capture has more than ", kMostTracks, " streams: it is damaged"));
    }
    tracks_.push_back({.key = key});
  }
  last_key_ = key;
  last_track_ = at->second;
  return at->second;
}

absl::StatusOr<uint32_t> GpuTracks::AddSibling(uint32_t track, uint32_t sibling) {
  while (tracks_[track].siblings.size() < sibling) {
    if (tracks_.size() == kMostTracks) {
      return absl::ResourceExhaustedError(
          StrCat("more than ", kMostTracks, " GPU rows run at once: the capture is damaged"));
    }
    const auto made = static_cast<uint32_t>(tracks_.size());
    tracks_[track].siblings.push_back(made);
    tracks_.push_back({.key = tracks_[track].key,
                       .sibling = static_cast<uint32_t>(tracks_[track].siblings.size())});
  }
  return tracks_[track].siblings[sibling - 1];
}

uint32_t GpuTracks::Find(const GpuTrackKey& key) const {
  if (key == last_key_ && last_track_ < tracks_.size()) return last_track_;
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return kNone;
  last_key_ = key;
  last_track_ = found->second;
  return last_track_;
}

size_t GpuTracks::ProcessOf(const GpuTrackKey& key, const TraceLayout& layout, bool simulated) {
  const bool is_overhead = key.kind == GpuTrackKind::kOverhead;
  if (!processes_.empty() && processes_.back().is_overhead == is_overhead &&
      (is_overhead || processes_.back().device == key.device)) {
    return processes_.size() - 1;
  }
  GpuTrackProcess process;
  process.is_overhead = is_overhead;
  const TracePlace& place = layout.place;
  if (place.is_merged) {
    // A device's number is that of other captures' devices, too.
    process.is_overhead = is_overhead;
    process.device = is_overhead ? 0 : key.device;
    process.pid =
        place.Pid() + 1 +
        std::min(static_cast<int64_t>(processes_.size()), TracePlace::kPidsPerCapture - 2);
    process.sort_index = process.pid;
    process.label = is_overhead                  ? std::string("CUPTI Overhead")
                    : key.device == kNoGpuDevice ? std::string("GPU not known")
                                                 : StrCat("GPU ", key.device);
    if (layout.rank.has_value()) StrAppend(&process.label, ", rank ", *layout.rank);
  } else if (is_overhead) {
    process.pid = kOverheadPid;
    process.label = "CUPTI Overhead";
    process.sort_index = kOverheadSortIndex;
  } else {
    process.device = key.device;
    // Viewers take a device's number for a process ID, as Kineto writes it. In a container the
    // training process may have that very ID.
    process.pid = key.device == layout.pid ? kFirstOddDevicePid + key.device : key.device;
    process.label =
        key.device == kNoGpuDevice ? std::string("GPU not known") : StrCat("GPU ", key.device);
    process.sort_index = kFirstGpuSortIndex + key.device;
  }
  if (simulated) process.label += " (simulated)";
  processes_.push_back(std::move(process));
  return processes_.size() - 1;
}

void GpuTracks::Finish(const TraceLayout& layout, const report::WideStreams& wide, bool simulated) {
  std::vector<uint32_t> order(tracks_.size());
  std::iota(order.begin(), order.end(), uint32_t{0});
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return PlaceOf(tracks_[a]) < PlaceOf(tracks_[b]); });
  // Numbers of streams that several contexts of a device have.
  std::map<std::pair<uint16_t, uint32_t>, uint32_t> contexts;
  std::set<std::pair<uint16_t, uint32_t>> shared_streams;
  for (const GpuTrack& track : tracks_) {
    const std::pair stream(track.key.device, track.key.stream);
    const auto [at, inserted] = contexts.emplace(stream, track.key.context);
    if (!inserted && at->second != track.key.context) shared_streams.insert(stream);
  }
  int64_t sort_index = 0;
  for (const uint32_t index : order) {
    GpuTrack& track = tracks_[index];
    track.process = ProcessOf(track.key, layout, simulated);
    track.sort_index = sort_index++;
    track.label =
        LabelOf(track, wide, shared_streams.contains({track.key.device, track.key.stream}));
  }
  // A stream keeps its number as the row's; then waiting its; siblings get what is left.
  std::vector<TidAllocator> tids(processes_.size());
  const auto give = [&](auto wants) {
    for (const uint32_t index : order) {
      GpuTrack& track = tracks_[index];
      if (!wants(track)) continue;
      track.tid = tids[track.process].Take(track.sibling > 0 ? -1 : WantedTid(track.key));
    }
  };
  give([](const GpuTrack& track) {
    return track.sibling == 0 && track.key.kind != GpuTrackKind::kSync;
  });
  give([](const GpuTrack& track) {
    return track.sibling == 0 && track.key.kind == GpuTrackKind::kSync;
  });
  give([](const GpuTrack& track) { return track.sibling > 0; });
}

}  // namespace profd::exporter
