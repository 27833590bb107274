// GpuPlan is all that trace formats decide alike about the GPU's part of a capture before they
// write any of it: on which row each slice stands, and what is linked to what. GPU rows come
// from the reader in no order; the plan is made in separate passes over them, so that a format can
// write rows as they come (Chrome) or window by window (Perfetto, see windows()).
//
// Memory: GpuLinks', and 24 bytes per GPU row, wait and overhead while it is made; then 40 per
//         annotation and 16 per slice that is on a sibling row.
// Errors: the reader's; RESOURCE_EXHAUSTED for more rows than any capture has.
#ifndef PROFD_DAEMON_EXPORT_TRACE_GPU_PLAN_H_
#define PROFD_DAEMON_EXPORT_TRACE_GPU_PLAN_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "daemon/export/trace/gpu_links.h"
#include "daemon/export/trace/gpu_tracks.h"
#include "daemon/export/trace/layout.h"
#include "daemon/export/trace/slice_lanes.h"
#include "daemon/report/index/wide_streams.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::exporter {

GpuTrackKey WorkKey(const GpuBatch& batch, size_t i);
GpuTrackKey SyncKey(const SyncBatch& batch, size_t i);
GpuTrackKey OverheadKey(const OverheadBatch& batch, size_t i);

// GpuBatches counts GPU rows: as some batches are left out where a time is asked for, their
// places are found by what their starts are.
class GpuBatches {
 public:
  // All batches, in order.
  void Add(const GpuBatch& batch);

  // Finds the batches of one more reading, in order.
  class Cursor {
   public:
    explicit Cursor(const GpuBatches& batches) : batches_(batches) {}
    // The ordinal of the batch's first row. DATA_LOSS: it is none of them. (Where several could
    // be it, none of them has a row in the time asked for.)
    absl::StatusOr<uint32_t> FirstOrdinal(const GpuBatch& batch);

   private:
    const GpuBatches& batches_;
    size_t next_ = 0;
  };

 private:
  struct Entry {
    int64_t first_start_ns;
    int64_t last_start_ns;
    uint32_t ordinal;
    uint32_t size;
  };
  static Entry EntryOf(const GpuBatch& batch, uint32_t ordinal);

  std::vector<Entry> entries_;
  uint32_t rows_ = 0;
};

// What is read several times has to be the same each time.
absl::Status ChangedWhileRead();

class GpuPlan {
 public:
  // More than a capture may be asked for. RESOURCE_EXHAUSTED beyond.
  static constexpr size_t kMostRows = 100'000'000;
  // A window has that many GPU rows at most, or a sixteenth of all.
  static constexpr size_t kWindowRows = size_t{1} << 18;
  static constexpr size_t kMostWindows = 16;

  // Which annotations the format writes: those of steps need room on rows, too.
  enum class Annotations : uint8_t { kAll, kWithoutSteps };
  static absl::StatusOr<GpuPlan> Make(store::CaptureReader& reader, const TraceLayout& layout,
                                      Annotations wanted = Annotations::kAll);

  // No GPU row, API call, wait or overhead in the capture.
  bool empty() const { return links_.calls().empty() && tracks_.tracks().empty(); }

  const GpuTracks& tracks() const { return tracks_; }
  const GpuLinks& links() const { return links_; }
  // What an imported trace calls the stream of a row; -1 for all streams.
  int64_t StreamNumber(uint32_t stream) const;

  // The index of the row that slice `ordinal` of key.kind stands on; each kind's are counted as
  // the reader gives them. DATA_LOSS: it was not there when the plan was made.
  absl::StatusOr<uint32_t> TrackOf(const GpuTrackKey& key, uint32_t ordinal) const;

  // Annotations with the row that each stands on, by start; enclosing ones first. Each is 1 ns
  // longer at either end than what it holds, where nothing stands there, as Kineto's are.
  std::span<const GpuAnnotation> annotations() const { return annotations_; }
  // How many had no room: rows of annotations are few.
  int64_t annotations_left_out() const { return annotations_left_out_; }

  // Stretches of time that divide the GPU rows so that few begin in each; a row begins in one if
  // Holds(its start, its ordinal).
  struct Window {
    int64_t first_start_ns;
    uint32_t first_ordinal;
    int64_t end_start_ns;  // Of the first row after it.
    uint32_t end_ordinal;
    bool is_last;

    bool Holds(int64_t start_ns, uint32_t ordinal) const;
    store::TimeFilter filter() const;
  };
  std::span<const Window> windows() const { return windows_; }
  const GpuBatches& batches() const { return batches_; }

 private:
  friend class GpuPlanBuilder;
  explicit GpuPlan(GpuLinks links) : links_(std::move(links)) {}

  GpuTracks tracks_;
  GpuLinks links_;
  report::WideStreams wide_streams_;
  std::array<absl::flat_hash_map<uint32_t, uint32_t>, 3> siblings_;  // By kind: ordinal -> track.
  std::vector<GpuAnnotation> annotations_;
  int64_t annotations_left_out_ = 0;
  std::vector<Window> windows_;
  GpuBatches batches_;
};

}  // namespace profd::exporter

#endif  // PROFD_DAEMON_EXPORT_TRACE_GPU_PLAN_H_
