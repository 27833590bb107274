// PerfettoGpu writes the GPU's part of a Perfetto trace: under the process a track per device,
// under that a track per stream with its work and annotations, nested and in the order of time,
// and flows from the calls that launched them.
//
// Order:   all of it is one packet sequence. GPU rows are read window by window (see GpuPlan),
//          sorted there, and written; waits, overhead and annotations are few.
// Memory:  136 bytes per GPU row of a window, 48 per wait and overhead.
// Threads: one. Errors: the reader's; those of the sink are in the packets' OutputBuffer.
#ifndef PROFD_DAEMON_EXPORT_PERFETTO_GPU_H_
#define PROFD_DAEMON_EXPORT_PERFETTO_GPU_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "daemon/capture/event_kinds.h"
#include "daemon/export/perfetto/packets.h"
#include "daemon/export/perfetto/proto_writer.h"
#include "daemon/export/trace/call_nesting.h"
#include "daemon/export/trace/cuda_events.h"
#include "daemon/export/trace/gpu_plan.h"
#include "daemon/report/index/gpu_names.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::exporter {

class PerfettoGpu {
 public:
  // No call has more arrows than that: a graph's nodes beyond it are not pointed at.
  static constexpr uint32_t kMostFlowsPerCall = 1024;

  // Borrows all. `sequence`: one that is not used elsewhere. `step_prefix`: as StepPrefix() has it.
  PerfettoGpu(store::CaptureReader& reader, const GpuPlan& plan, PerfettoPackets& packets,
              uint64_t sequence, std::string_view step_prefix);

  void WriteTracks();
  absl::Status WriteEvents();

  // Adds to a call's begin its correlation and the flows that begin there.
  void DescribeCall(size_t call, ProtoMessage& event) const;
  // Calls that cannot stand on their thread's track, by their positions: on tracks under it.
  void WriteCallsAside(const CallNesting& nesting, std::vector<uint32_t> calls,
                       std::span<const uint64_t> thread_uuids);

 private:
  struct Slice {
    int64_t start_ns;
    int64_t end_ns;
    uint32_t track;
    uint32_t index;  // Of what is shown.
  };

  uint64_t TrackUuid(uint32_t track) const;
  uint64_t ProcessUuid(const GpuTrackProcess& process) const;
  void WriteTrack(uint64_t uuid, uint64_t parent, std::string_view name, int64_t rank,
                  bool orders_children);
  // Writes the ends of a track's open slices that end by `time_ns`.
  void CloseUntil(int64_t time_ns, uint32_t track);
  void CloseAll();
  // Sorts `slices`, calls `begin` for each, and ends them all.
  void WriteSlices(std::vector<Slice>& slices, absl::FunctionRef<void(const Slice&)> begin);
  // `describe(event)` adds what only this slice has.
  template <typename Describe>
  void Begin(const Slice& slice, uint64_t category, std::string_view name, Describe describe);
  void BeginAnnotation(const GpuAnnotation& annotation);
  void BeginWork(const Slice& slice, const GpuRow& work);
  void DescribeWork(const GpuRow& work, ProtoMessage& event);
  void DescribeKernel(const GpuRow& kernel, ProtoMessage& event) const;
  void DescribeSync(const SyncRow& sync, ProtoMessage& event) const;
  void AddFlowEnd(uint32_t correlation, int64_t start_ns, ProtoMessage& event);

  absl::Status WriteWork();
  absl::Status WriteWindow(const GpuPlan::Window& window);
  absl::Status ReadWindow(const GpuPlan::Window& window);
  absl::Status WriteSyncs();
  absl::Status WriteOverheads();

  // Fit for viewers; made at its first use.
  std::string_view NameOf(const GpuRow& work);

  store::CaptureReader& reader_;
  const GpuPlan& plan_;
  PerfettoPackets& packets_;
  const std::string_view step_prefix_;
  const uint64_t sequence_;
  CudaEvents cuda_events_;
  std::vector<uint64_t> track_uuids_;
  std::vector<std::vector<int64_t>> open_;  // Ends of open slices, by track.
  std::vector<uint32_t> flow_ends_;         // By call: how many have been written.
  size_t next_annotation_ = 0;
  std::vector<Slice> slices_;  // Of a window, and what they show.
  std::vector<GpuRow> rows_;
  absl::flat_hash_map<std::string, uint64_t> name_iids_;
  report::Demangler demangler_;
  std::vector<std::string> kernel_names_;      // By name.
  std::vector<std::string> annotation_names_;  // By a range's name.
  std::map<std::tuple<GpuRowKind, uint8_t, uint8_t, uint8_t>, std::string> transfer_names_;
};

}  // namespace profd::exporter

#endif  // PROFD_DAEMON_EXPORT_PERFETTO_GPU_H_
