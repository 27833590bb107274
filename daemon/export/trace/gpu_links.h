// GpuLinks tells what caused what, for the links that traces draw: from a range to the API calls
// in it ("External id"), from an API call to the GPU work it launched (flows), and how long each
// range and step kept each stream busy (annotations on the GPU's rows).
//
// Memory: 64 bytes per API call, 4 per range with an API call in it, 40 per annotation; while it
//         is made, 24 per GPU row.
// Errors: the reader's; RESOURCE_EXHAUSTED for more streams than GpuTracks holds.
#ifndef PROFD_DAEMON_EXPORT_TRACE_GPU_LINKS_H_
#define PROFD_DAEMON_EXPORT_TRACE_GPU_LINKS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/export/trace/gpu_tracks.h"
#include "daemon/report/index/gpu_attribution.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::exporter {

// From the first start to the last end of what a range or step launched on one stream.
struct GpuAnnotation {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  uint32_t track = 0;  // Of GpuTracks: the stream's.
  uint32_t name = 0;   // Index into names(); of a step: into GpuLinks::steps().
  int64_t external_id = 0;
  bool is_step = false;
  bool is_recorded = false;  // As an imported trace has it; external_id, too.
};

class GpuLinks {
 public:
  using Call = report::GpuAttribution::Call;

  // Adds the streams of all GPU rows to `tracks`.
  static absl::StatusOr<GpuLinks> Make(store::CaptureReader& reader, GpuTracks& tracks);

  // By thread, then by start; positions in it name calls.
  std::span<const Call> calls() const { return attribution_.calls(); }
  std::span<const Call> CallsOf(uint32_t thread) const { return attribution_.CallsOf(thread); }
  size_t PositionOf(const Call& call) const {
    return static_cast<size_t>(&call - attribution_.calls().data());
  }

  // What the correlation of GPU work, or of a wait, leads to.
  struct Cause {
    int64_t external_id = 0;  // Of the range around the call; 0: none.
    // The call's position, where an arrow can be drawn from it to what began at `start_ns`: the
    // call is in the capture, and did not begin later.
    std::optional<size_t> flow_from;
  };
  Cause CauseOf(uint32_t correlation, int64_t start_ns) const;
  // How many arrows begin at the call.
  uint32_t FlowCountOf(size_t call) const { return flow_counts_[call]; }
  // Of the range around the call; 0: none.
  int64_t ExternalIdOf(size_t call) const { return call_ids_[call]; }

  // Ranges are counted as readers give them. Those that something refers to, ascending.
  std::span<const uint32_t> ranges_with_id() const { return ranges_with_id_; }
  int64_t RangeId(uint32_t range) const { return static_cast<int64_t>(steps().size()) + 1 + range; }
  std::span<const StepRecord> steps() const { return attribution_.steps(); }  // By start.
  static int64_t StepId(size_t step) { return static_cast<int64_t>(step) + 1; }

  std::span<const GpuAnnotation> annotations() const { return annotations_; }

 private:
  friend class GpuLinksBuilder;
  explicit GpuLinks(report::GpuAttribution attribution) : attribution_(std::move(attribution)) {}

  report::GpuAttribution attribution_;
  std::vector<uint32_t> flow_counts_;  // By call.
  std::vector<uint32_t> call_ids_;     // By call.
  std::vector<uint32_t> ranges_with_id_;
  std::vector<GpuAnnotation> annotations_;
};

}  // namespace profd::exporter

#endif  // PROFD_DAEMON_EXPORT_TRACE_GPU_LINKS_H_
