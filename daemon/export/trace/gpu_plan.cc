#include "daemon/export/trace/gpu_plan.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "proto/wire/event.h"

namespace profd::exporter {
namespace {

// Rows besides a stream's for annotations that overlap without nesting: threads that launch into
// one stream at once make them, and few do.
constexpr uint32_t kMostAnnotationSiblings = 8;

bool Overlaps(const LaneSlice& slice, int64_t start_ns, int64_t end_ns) {
  return slice.start_ns < end_ns && start_ns < slice.end_ns;
}
bool Contains(const LaneSlice& slice, int64_t start_ns, int64_t end_ns) {
  return slice.start_ns <= start_ns && end_ns <= slice.end_ns;
}

// By start; the enclosing one first, which of ranges is the one that ended last. Those that were
// recorded stay in their order.
bool StandsBefore(const GpuAnnotation& a, const GpuAnnotation& b) {
  if (a.is_recorded && b.is_recorded) {
    return std::tie(a.start_ns, b.end_ns) < std::tie(b.start_ns, a.end_ns);
  }
  return std::tie(a.start_ns, b.end_ns, b.is_step, b.external_id, a.track) <
         std::tie(b.start_ns, a.end_ns, a.is_step, a.external_id, b.track);
}

// Whether `later_ns` is at least 2 after `ns`, which is not later.
bool IsGap(int64_t ns, int64_t later_ns) {
  return static_cast<uint64_t>(later_ns) - static_cast<uint64_t>(ns) >= 2;
}

// One row with slices that nest, made from the left to the right.
class NestingRow {
 public:
  bool TryAdd(int64_t start_ns, int64_t end_ns) {
    while (!ends_ns_.empty() && ends_ns_.back() <= start_ns) ends_ns_.pop_back();
    if (!ends_ns_.empty() && ends_ns_.back() < end_ns) return false;
    ends_ns_.push_back(end_ns);
    return true;
  }

 private:
  std::vector<int64_t> ends_ns_;  // Of the work that is open.
};

}  // namespace

class GpuPlanBuilder {
 public:
  GpuPlanBuilder(store::CaptureReader& reader, GpuPlan::Annotations wanted, GpuPlan& plan)
      : reader_(reader), wanted_(wanted), plan_(plan) {}

  absl::Status Build() {
    RETURN_IF_ERROR(ReadSyncs());
    RETURN_IF_ERROR(Pack(GpuTrackKind::kSync));
    RETURN_IF_ERROR(ReadOverheads());
    RETURN_IF_ERROR(Pack(GpuTrackKind::kOverhead));
    // The GPU's work is read last: what follows needs its slices in slices_, which the kinds share
    // to save memory.
    RETURN_IF_ERROR(ReadWork());
    RETURN_IF_ERROR(Pack(GpuTrackKind::kWork));
    RETURN_IF_ERROR(PlaceAnnotations());
    MakeWindows();
    return absl::OkStatus();
  }

 private:
  absl::Status ReadSyncs() {
    slices_.clear();
    return reader_.ForEach<SyncRow>([&](const SyncBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) {
        RETURN_IF_ERROR(Take(SyncKey(batch, i), batch.start_ns[i], batch.duration_ns[i]));
      }
      return absl::OkStatus();
    });
  }

  absl::Status ReadOverheads() {
    slices_.clear();
    return reader_.ForEach<OverheadRow>([&](const OverheadBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) {
        RETURN_IF_ERROR(Take(OverheadKey(batch, i), batch.start_ns[i], batch.duration_ns[i]));
      }
      return absl::OkStatus();
    });
  }

  absl::Status ReadWork() {
    slices_.clear();
    constexpr uint32_t kColumns = kGpuTime | kGpuWhere;
    return reader_.ForEach<GpuRow>(kColumns, {}, [&](const GpuBatch& batch) {
      plan_.batches_.Add(batch);
      for (size_t i = 0; i < batch.size; ++i) {
        RETURN_IF_ERROR(Take(WorkKey(batch, i), batch.start_ns[i], batch.duration_ns[i]));
      }
      return absl::OkStatus();
    });
  }

  absl::Status Take(const GpuTrackKey& key, int64_t start_ns, int64_t duration_ns) {
    if (slices_.size() == GpuPlan::kMostRows) {
      return absl::ResourceExhaustedError(
          StrCat("the capture has more than ", GpuPlan::kMostRows, " GPU rows"));
    }
    ASSIGN_OR_RETURN(const uint32_t track, plan_.tracks_.Add(key));
    slices_.push_back(
        {start_ns, start_ns + duration_ns, static_cast<uint32_t>(slices_.size()), track});
    return absl::OkStatus();
  }

  // Puts slices_, which are of one kind, on rows, and by row and time.
  absl::Status Pack(GpuTrackKind kind) {
    absl::flat_hash_map<uint32_t, uint32_t>& siblings = plan_.siblings_[static_cast<size_t>(kind)];
    absl::Status status;
    AssignLanes(slices_, [&](const LaneSlice& slice, uint32_t lane) {
      const absl::StatusOr<uint32_t> track = plan_.tracks_.AddSibling(slice.group, lane);
      if (track.ok()) {
        siblings[slice.ordinal] = *track;
      } else {
        status = track.status();
      }
    });
    return status;
  }

  // Annotations stand on the row of their stream, around its slices, where they nest with
  // these and with each other. slices_ has the GPU's.
  absl::Status PlaceAnnotations() {
    const std::span<const GpuAnnotation> wanted = plan_.links_.annotations();
    std::vector<GpuAnnotation>& annotations = plan_.annotations_;
    std::ranges::copy_if(wanted, std::back_inserter(annotations), [this](const GpuAnnotation& a) {
      return !a.is_step || wanted_ == GpuPlan::Annotations::kAll;
    });
    std::ranges::stable_sort(annotations, [](const GpuAnnotation& a, const GpuAnnotation& b) {
      return a.track != b.track ? a.track < b.track : StandsBefore(a, b);
    });
    size_t kept = 0;
    std::span<const LaneSlice> rest = slices_;
    for (size_t begin = 0; begin < annotations.size();) {
      const uint32_t stream = annotations[begin].track;
      while (!rest.empty() && rest.front().group < stream) {
        rest = rest.subspan(FirstGroup(rest).size());
      }
      const std::vector<LaneSlice> row = MainRow(rest, stream);
      std::vector<NestingRow> rows(1);
      size_t end = begin;
      for (; end < annotations.size() && annotations[end].track == stream; ++end) {
        ASSIGN_OR_RETURN(const bool has_room, Place(row, rows, annotations[end]));
        if (has_room) {
          annotations[kept++] = annotations[end];
        } else {
          ++plan_.annotations_left_out_;
        }
      }
      begin = end;
    }
    annotations.resize(kept);
    std::ranges::stable_sort(annotations, StandsBefore);
    return absl::OkStatus();
  }

  // The slices that stand on the main row of `stream`, by time; they do not overlap.
  std::vector<LaneSlice> MainRow(std::span<const LaneSlice> rest, uint32_t stream) const {
    std::vector<LaneSlice> row;
    if (rest.empty() || rest.front().group != stream) return row;
    const auto& siblings = plan_.siblings_[static_cast<size_t>(GpuTrackKind::kWork)];
    for (const LaneSlice& slice : FirstGroup(rest)) {
      if (!siblings.contains(slice.ordinal)) row.push_back(slice);
    }
    return row;
  }

  // False: there is no room. `rows`: the stream's, then those of annotations only.
  absl::StatusOr<bool> Place(std::span<const LaneSlice> row, std::vector<NestingRow>& rows,
                             GpuAnnotation& annotation) {
    if (FitsAmong(row, annotation) && rows.front().TryAdd(annotation.start_ns, annotation.end_ns)) {
      return true;
    }
    const uint32_t stream = annotation.track;
    for (uint32_t sibling = 1; sibling <= kMostAnnotationSiblings; ++sibling) {
      if (sibling == rows.size()) rows.emplace_back();
      if (!rows[sibling].TryAdd(annotation.start_ns, annotation.end_ns)) continue;
      // After the siblings that hold slices.
      const uint32_t slice_siblings = SliceSiblings(stream);
      ASSIGN_OR_RETURN(annotation.track,
                       plan_.tracks_.AddSibling(stream, slice_siblings + sibling));
      return true;
    }
    return false;
  }

  uint32_t SliceSiblings(uint32_t stream) {
    const auto [at, inserted] = slice_siblings_.try_emplace(stream, 0);
    if (inserted) at->second = plan_.tracks_.sibling_count(stream);
    return at->second;
  }

  // Whether the annotation nests with the slices of its row; if so it is made longer by 1 ns
  // where the gap to the next slice is at least 2, so that its neighbour can be, too. One that was
  // recorded stays as it is.
  static bool FitsAmong(std::span<const LaneSlice> row, GpuAnnotation& annotation) {
    const int64_t start_ns = annotation.start_ns;
    const int64_t end_ns = annotation.end_ns;
    const bool grows = !annotation.is_recorded;
    const auto first_inside =
        std::lower_bound(row.begin(), row.end(), start_ns,
                         [](const LaneSlice& slice, int64_t ns) { return slice.start_ns < ns; });
    const auto first_after =
        std::lower_bound(first_inside, row.end(), end_ns,
                         [](const LaneSlice& slice, int64_t ns) { return slice.start_ns < ns; });
    if (first_inside != row.begin()) {
      const LaneSlice& before = *(first_inside - 1);
      if (Overlaps(before, start_ns, end_ns)) return Contains(before, start_ns, end_ns);
      if (grows && IsGap(before.end_ns, start_ns)) --annotation.start_ns;
    } else if (grows && start_ns > std::numeric_limits<int64_t>::min()) {
      --annotation.start_ns;
    }
    if (first_after != row.begin() && (first_after - 1)->end_ns > end_ns) {
      annotation.start_ns = start_ns;
      return false;
    }
    const int64_t next_ns =
        first_after == row.end() ? std::numeric_limits<int64_t>::max() : first_after->start_ns;
    if (grows && IsGap(end_ns, next_ns)) ++annotation.end_ns;
    return true;
  }

  // slices_ has the GPU's, and is not needed afterwards.
  void MakeWindows() {
    std::sort(slices_.begin(), slices_.end(), [](const LaneSlice& a, const LaneSlice& b) {
      return std::tie(a.start_ns, a.ordinal) < std::tie(b.start_ns, b.ordinal);
    });
    // Rows of a file are in no order of time. Each window is read by one pass over the chunks that
    // reach into it, so the number of windows bounds the passes, and the rows of a window the
    // memory.
    const size_t rows = std::max(
        GpuPlan::kWindowRows, (slices_.size() + GpuPlan::kMostWindows - 1) / GpuPlan::kMostWindows);
    for (size_t begin = 0; begin < slices_.size(); begin += rows) {
      const size_t end = begin + rows;
      const bool is_last = end >= slices_.size();
      const LaneSlice& behind = is_last ? slices_.back() : slices_[end];
      plan_.windows_.push_back({slices_[begin].start_ns, slices_[begin].ordinal, behind.start_ns,
                                behind.ordinal, is_last});
    }
    slices_ = {};
  }

  store::CaptureReader& reader_;
  const GpuPlan::Annotations wanted_;
  GpuPlan& plan_;
  std::vector<LaneSlice> slices_;
  absl::flat_hash_map<uint32_t, uint32_t> slice_siblings_;  // By stream, without annotations'.
};

absl::Status ChangedWhileRead() {
  return absl::DataLossError("the capture file was changed while it was read");
}

GpuBatches::Entry GpuBatches::EntryOf(const GpuBatch& batch, uint32_t ordinal) {
  const auto [first, last] = std::minmax_element(batch.start_ns.begin(), batch.start_ns.end());
  return {*first, *last, ordinal, static_cast<uint32_t>(batch.size)};
}

void GpuBatches::Add(const GpuBatch& batch) {
  if (batch.size == 0) return;
  entries_.push_back(EntryOf(batch, rows_));
  rows_ += static_cast<uint32_t>(batch.size);
}

absl::StatusOr<uint32_t> GpuBatches::Cursor::FirstOrdinal(const GpuBatch& batch) {
  if (batch.size == 0) return 0;
  const Entry wanted = EntryOf(batch, 0);
  while (next_ < batches_.entries_.size()) {
    const Entry& entry = batches_.entries_[next_++];
    if (entry.first_start_ns == wanted.first_start_ns &&
        entry.last_start_ns == wanted.last_start_ns && entry.size == wanted.size) {
      return entry.ordinal;
    }
  }
  return ChangedWhileRead();
}

bool GpuPlan::Window::Holds(int64_t start_ns, uint32_t ordinal) const {
  const std::pair row(start_ns, ordinal);
  return row >= std::pair(first_start_ns, first_ordinal) &&
         (is_last || row < std::pair(end_start_ns, end_ordinal));
}

store::TimeFilter GpuPlan::Window::filter() const {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  return {first_start_ns, is_last || end_start_ns == kMost ? kMost : end_start_ns + 1};
}

GpuTrackKey WorkKey(const GpuBatch& batch, size_t i) {
  return {GpuTrackKind::kWork, batch.device[i], batch.context[i], batch.stream[i]};
}
GpuTrackKey SyncKey(const SyncBatch& batch, size_t i) {
  return {GpuTrackKind::kSync, batch.device[i], batch.context[i], batch.stream[i]};
}
GpuTrackKey OverheadKey(const OverheadBatch& batch, size_t i) {
  return {GpuTrackKind::kOverhead, 0, 0, batch.os_thread[i]};
}

absl::StatusOr<GpuPlan> GpuPlan::Make(store::CaptureReader& reader, const TraceLayout& layout,
                                      Annotations wanted) {
  GpuTracks tracks;
  ASSIGN_OR_RETURN(GpuLinks links, GpuLinks::Make(reader, tracks));
  GpuPlan plan(std::move(links));
  plan.tracks_ = std::move(tracks);
  RETURN_IF_ERROR(GpuPlanBuilder(reader, wanted, plan).Build());
  ASSIGN_OR_RETURN(plan.wide_streams_, report::WideStreams::Read(reader));
  plan.tracks_.Finish(layout, plan.wide_streams_, reader.record().gpu.simulated);
  return plan;
}

int64_t GpuPlan::StreamNumber(uint32_t stream) const {
  return stream == wire::kNoStream ? -1 : wide_streams_.NumberOf(stream);
}

absl::StatusOr<uint32_t> GpuPlan::TrackOf(const GpuTrackKey& key, uint32_t ordinal) const {
  const auto& siblings = siblings_[static_cast<size_t>(key.kind)];
  if (!siblings.empty()) {
    const auto found = siblings.find(ordinal);
    if (found != siblings.end()) return found->second;
  }
  const uint32_t track = tracks_.Find(key);
  if (track == GpuTracks::kNone) return ChangedWhileRead();
  return track;
}

}  // namespace profd::exporter
