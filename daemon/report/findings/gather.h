// Gathers the facts for findings: each function reads one kind of data and fills its part of Facts.
// FactSources has what they share.
#ifndef PROFD_DAEMON_REPORT_FINDINGS_GATHER_H_
#define PROFD_DAEMON_REPORT_FINDINGS_GATHER_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/report/findings/facts.h"
#include "daemon/report/findings/launchers.h"
#include "daemon/report/findings/scope.h"
#include "daemon/report/gpu/device_work.h"
#include "daemon/report/index/gpu_attribution.h"
#include "daemon/report/index/gpu_names.h"
#include "daemon/report/index/interval_set.h"

namespace profd::report {

// A host time in a range or call.
struct HostTime {
  int64_t start_ns;
  int64_t end_ns;
  uint32_t name;
  bool starts_workers = false;  // A wait for a loader: it started its worker processes first.
};

// Launches of one path of ranges; paths are those of the attribution.
struct PathLaunches {
  int64_t kernels = 0;
  int64_t small_kernels = 0;
  uint64_t kernel_ns = 0;
  uint64_t idle_ns = 0;  // Idle time of the device before them that fewer launches would close.
};

struct FactSources {
  store::CaptureReader& reader;
  const FindingThresholds& thresholds;
  const GpuAttribution& attribution;
  const DeviceWork& work;
  const FindingScope& scope;
  uint32_t device_number = 0;    // CUDA's
  uint32_t device_position = 0;  // In work.devices()
  const Launchers& launchers;
  Demangler& demangler;
  std::vector<int64_t> calls_of_name;  // Ranges begun in the scope, by the first ID of a name.
  std::vector<uint32_t> first_ids;     // By name.
  std::vector<HostTime> loader_waits;  // By start, in the scope.
  std::vector<PathLaunches> launches;  // By path.

  std::string_view Name(uint32_t name) const { return reader.names()[name]; }
  // Returns the innermost range around the call; empty: none.
  std::string OpOf(const GpuAttribution::Call* call) const;
};

// Reads ranges: calls by name, waits for the data loader, and facts about the program.
absl::Status ReadRanges(FactSources& sources, ProgramFacts& program);
absl::StatusOr<GapFacts> GatherGaps(FactSources& sources, const TimeReport& time,
                                    int64_t mean_step_ns);
// Makes waits for the first batch of a loader begin with its start. Call after ReadRanges().
void AddLoaderStarts(std::span<const LoaderStart> starts, FactSources& sources);
// For captures without GPU work: adds only the waits.
void AddLoaderWaits(const FactSources& sources, const IntervalSet& busy, GapFacts& gaps);
absl::Status GatherKernelsAndCopies(FactSources& sources, const GpuDevice* device,
                                    KernelFacts& kernels, CopyFacts& copies);
void FindFusible(FactSources& sources, KernelFacts& kernels);
void FindWrittenOutAttention(const FactSources& sources, KernelFacts& kernels);
// Call after the gaps, because it counts their idle time.
absl::Status FindTinyKernels(FactSources& sources, KernelFacts& kernels);
// Call after the kernels; `has_gpu`: their work is known.
absl::Status GatherCasts(const FactSources& sources, bool has_gpu, CastFacts& facts);
void FindHottestOperator(const FactSources& sources, KernelFacts& kernels);
// Call after it, where the operator matters.
absl::Status DescribeHottest(store::CaptureReader& reader, KernelFacts& kernels);
// The same of a program without a GPU.
absl::Status DescribeHottestOnHost(store::CaptureReader& reader, HostFacts& host);
CallFacts GatherCalls(const FactSources& sources);

// Returns the GB/s between host and device that a GPU's generation allows; 0: unknown.
double LinkBandwidthOf(const GpuDevice* device);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_FINDINGS_GATHER_H_
