// ChromeGpu writes the GPU's part of a Chrome trace, as Kineto does: CUDA calls on the rows of
// their threads, GPU work on a row per stream with the GPU as its process, arrows between them.
// Work is written as the reader gives it: viewers and loaders sort.
//
// Threads: one. Errors: the reader's; those of the sink are in `out`.
#ifndef PROFD_DAEMON_EXPORT_CHROME_GPU_H_
#define PROFD_DAEMON_EXPORT_CHROME_GPU_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/capture/event_kinds.h"
#include "daemon/export/chrome/flows.h"
#include "daemon/export/chrome/labels.h"
#include "daemon/export/chrome/operators.h"
#include "daemon/export/sink/output_buffer.h"
#include "daemon/export/trace/call_nesting.h"
#include "daemon/export/trace/clock.h"
#include "daemon/export/trace/cuda_events.h"
#include "daemon/export/trace/gpu_plan.h"
#include "daemon/export/trace/json_text.h"
#include "daemon/export/trace/layout.h"
#include "daemon/export/trace/source_arguments.h"
#include "daemon/report/index/gpu_names.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::exporter {

class ChromeGpu {
 public:
  // Borrows all; `layout` gives rows to calls that cannot stand on their thread's.
  ChromeGpu(store::CaptureReader& reader, const GpuPlan& plan, const CallNesting& nesting,
            const ChromeOperators& operators, SourceArguments& source, ChromeFlows& flows,
            TraceLayout& layout, TraceClock clock, OutputBuffer& out);

  void WriteRows(ChromeLabels& labels);
  absl::Status WriteEvents();

 private:
  absl::Status WriteWork();
  void WriteWorkRow(const GpuRow& work, uint32_t track, uint32_t ordinal,
                    const SourceArguments::Row& source);
  char* PutKernelArguments(char* at, const GpuRow& kernel,
                           const SourceArguments::Row& source) const;
  char* PutTransferArguments(char* at, const GpuRow& transfer,
                             const SourceArguments::Row& source) const;
  // `,"External id":7`: the source's, or, where profd numbers events, its own.
  char* PutExternalId(char* at, const SourceArguments::Row& source, int64_t external_id) const;
  // `key_with_comma` and the value, unless the source has this argument.
  template <typename Number>
  char* PutUnless(char* at, const SourceArguments::Row& source, RowArgument argument,
                  std::string_view key_with_comma, Number value) const;
  void WriteAnnotations();
  absl::Status WriteSyncs();
  void WriteSync(const SyncBatch& batch, size_t i, uint32_t track, uint32_t ordinal,
                 const SourceArguments::Row& source);
  char* PutWaitedFor(char* at, const SyncBatch& batch, size_t i,
                     const SourceArguments::Row& source) const;
  absl::Status WriteOverheads();
  absl::Status WriteCalls();
  void WriteCall(const ApiBatch& batch, size_t i, size_t call, uint32_t ordinal,
                 const SourceArguments::Row& source);
  // The call's position in the plan's.
  absl::StatusOr<size_t> FindCall(const ApiBatch& batch, size_t i);

  // `,{"ph":"X",...,"name":"...",` of GPU work; made at the first use.
  std::string_view WorkPrefix(const GpuRow& work);
  std::string_view CallPrefix(bool is_driver, uint32_t name);
  std::string AnnotationPrefix(const GpuAnnotation& annotation) const;
  char* PutSlice(char* at, std::string_view prefix, std::string_view row, int64_t start_ns,
                 int64_t end_ns);
  // The arrow that ends at the slice just written, unless the trace has its own.
  void WriteFlowEnd(uint32_t correlation, std::string_view row, int64_t start_ns);

  store::CaptureReader& reader_;
  const GpuPlan& plan_;
  const CallNesting& nesting_;
  const ChromeOperators& operators_;
  SourceArguments& source_;
  ChromeFlows& flows_;
  const TraceLayout& layout_;
  const TraceClock clock_;
  OutputBuffer& out_;
  MicrosWriter micros_;
  CudaEvents cuda_events_;
  std::vector<std::string> track_rows_;  // `"pid":0,"tid":7,"ts":`, by track.
  // The same by thread and, after its own, its siblings; and what these are called.
  std::vector<std::vector<std::string>> call_rows_;
  std::vector<TraceRow> sibling_rows_;
  std::vector<size_t> next_call_;      // By thread: where the plan's next one is likely to be.
  std::vector<uint32_t> call_counts_;  // By thread: those written.
  report::Demangler demangler_;
  std::vector<std::string> kernel_prefixes_;      // By name.
  std::vector<std::string> annotation_prefixes_;  // By a range's name.
  std::vector<std::string> call_prefixes_[2];     // The runtime's and the driver's, by name.
  std::map<std::tuple<GpuRowKind, uint8_t, uint8_t, uint8_t>, std::string> transfer_prefixes_;
};

}  // namespace profd::exporter

#endif  // PROFD_DAEMON_EXPORT_CHROME_GPU_H_
