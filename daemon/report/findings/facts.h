// The facts that findings rest on, gathered once from a capture: what the reports say, and what
// only findings ask for. Rules read them; they read no events.
//
// All sums are over the steps that count: all but a first one that was far slower than the others
// (it warmed up), and those at the start in which the host only filled the launch queue, or the GPU
// did what was launched before the capture. A capture
// without steps has one "step", from the start of the first to the end of the last work of its GPU.
//
// Threads: one. Errors: the reader's.
// Memory:  see findings.h.
#ifndef PROFD_DAEMON_REPORT_FINDINGS_FACTS_H_
#define PROFD_DAEMON_REPORT_FINDINGS_FACTS_H_

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "daemon/capture/quality.h"
#include "daemon/report/findings/findings.h"
#include "daemon/report/findings/host.h"
#include "daemon/report/findings/idle_split.h"
#include "daemon/report/findings/optimizers.h"
#include "daemon/report/findings/outliers.h"
#include "daemon/report/findings/scope.h"
#include "daemon/report/findings/thresholds.h"
#include "daemon/report/index/step_table.h"
#include "daemon/report/memory/memory_report.h"
#include "daemon/report/time/time_report.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

// Times in which the device did nothing, in the steps that count.
struct GapFacts {
  int64_t p95_ns = 0;  // Of the gaps; their number is that of Facts::sum.
  int64_t longest_ns = 0;
  int64_t long_ns = 0;   // Sum of the gaps that GPU_GAP counts.
  IdleParts long_parts;  // Of these gaps.
  IdleParts parts;       // Of all idle time in the scope, also at its edges.
  // The part of parts.dispatch_ns in gaps that are not as long as GPU_GAP's shortest.
  int64_t dispatch_ns = 0;
  // Of it, by the innermost range around the launch; empty: outside any range.
  absl::flat_hash_map<std::string, int64_t> dispatch_by_op;
  int64_t closable_ns = 0;  // Sum of short gaps before launches that waited for nothing else.
  std::vector<Evidence> longest;
  // Because of a call that waited for the GPU, during which nothing could be launched.
  std::vector<Evidence> after_sync;
  // Calls that wait for a GPU, in the scope, of threads that launch work.
  int64_t waiting_call_count = 0;
  // Idle time in operators and ranges of kLongHostWorkNs or longer that launch nothing.
  std::vector<Evidence> host_work;
  // Idle time in other calls of kLongCallNs or longer, by call and operator.
  std::vector<Evidence> long_calls;
  // In launch calls of kLongCallNs or longer: by call and operator, and how much of the time
  // was in calls that launched a kernel for the first time in the capture.
  std::vector<Evidence> long_launches;
  int64_t first_launch_ns = 0;
  // Calls of threads that launch nothing, which stopped the GPU while launched work waited.
  std::vector<Evidence> other_frees;
  int64_t other_free_count = 0;
  int64_t other_free_ns = 0;
  std::vector<Evidence> late_starts;  // The longest gaps of parts.late_start_ns.
  // Times in which the device was busy, or idle for another reason than the host before a launch.
  IntervalSet explained;
  // Waits for the data loader while the device did nothing (all of them, without a device).
  int64_t loader_wait_ns = 0;
  // Of it, in steps that begin an epoch of a loader with worker processes, and these steps; without
  // steps, in waits that do. Such a step starts the workers, or asks twice: the old iterator ends,
  // and a new one begins.
  int64_t epoch_start_wait_ns = 0;
  int64_t epoch_start_count = 0;
  std::vector<bool> epoch_starts;  // By stretch of the scope: whether its step is one of these.
  // Of loader_wait_ns, in loaders without worker processes, which make the batch meanwhile.
  int64_t loader_in_process_ns = 0;
  std::vector<Evidence> loader_waits;
  // The idlest of 30 equal parts of the time that counts, by their busy share.
  std::vector<Evidence> idlest_parts;
};

struct KernelFacts {
  int64_t count = 0;     // Kernels that are not communication.
  int64_t total_ns = 0;  // Of them, summed.
  // The part launched in the window. Only of these the operator is known; a host that is ahead of
  // the GPU launched the rest before.
  int64_t launched_ns = 0;
  int64_t median_ns = 0;
  int64_t graph_count = 0;  // Of CUDA graphs: nodes, and whole graphs.
  // Work launched by matrix multiplications, convolutions, and attention, by operator.
  int64_t eligible_ns = 0;
  int64_t eligible_tensor_ns = 0;  // The part on tensor cores, by the kernels' names.
  std::vector<Evidence> eligible_ops;
  // Consecutive elementwise kernels in a stream: the time of all except the longest of each run.
  int64_t fusible_ns = 0;
  std::vector<Evidence> fusible;
  // Attention that is written out: kernels between its two products, which a fused one does not
  // have, and those of the softmax's backward pass.
  int64_t attention_count = 0;  // Forward passes.
  int64_t attention_ns = 0;
  std::vector<Evidence> attention;
  // Kernels whose blocks do not fill the device, and the time lost by that.
  bool knows_device = false;
  int64_t unknown_wave_ns = 0;  // Time of kernels whose grid is not known.
  int64_t low_wave_ns = 0;
  int64_t low_wave_lost_ns = 0;
  std::vector<Evidence> low_waves;
  // The operator with the most small kernels in one call.
  double most_per_call = 0;
  int64_t tiny_idle_ns = 0;  // Gaps before them.
  std::vector<Evidence> tiny_ops;
  // The innermost operator whose kernels take the most time; empty: none is known.
  std::string hottest_op;
  int64_t hottest_op_ns = 0;
  // DescribeHottest(): of its calls with the inputs that take most of that time. Negative: unknown.
  std::string hottest_inputs;  // "[[4096, 4096], [4096, 4096]]"
  double hottest_flops_per_s = -1;
  double hottest_peak_share = -1;  // Share of the GPU's peak for that type; 0..1.
  std::string hottest_type;        // "bf16"
  // The innermost modules, with their numbers left out, whose work takes the most time.
  std::string hottest_module;       // "layers.*.mlp"
  double hottest_module_share = 0;  // Of all GPU work.
  // Steps that launched the same kernels as most other steps.
  int64_t alike_steps = 0;

  // What `ns` of the launched kernels are of all kernels, if the others are alike. Unchanged if
  // those are the most.
  int64_t OfAll(int64_t ns) const;
};

// Conversions of tensors to another type or memory format: their kernels, or in a program without a
// GPU, their operators.
struct CastFacts {
  bool is_known = false;
  bool of_gpu = false;
  int64_t count = 0;
  int64_t total_ns = 0;
  // The part in operators that need another type, as autocast converts for them, and in the
  // backward pass. The program asks for the rest: .to(), .float(), .type_as().
  int64_t in_operators_ns = 0;
  int64_t backward_ns = 0;
  // Of the time of all conversions, by the sizes that were recorded: of weights and biases of
  // layers (linear, convolutions), of their inputs, and of sizes that both have; each with
  // the gradients, which have the same sizes. The rest is of other tensors, or unknown. 0..1.
  bool knows_sizes = false;   // Some conversion has one.
  bool knows_layers = false;  // And some layer.
  double scalar_share = 0;    // Of tensors without dimensions, such as wrapped Python numbers.
  double weight_share = 0;
  double input_share = 0;
  double either_share = 0;
  double scalar_count_share = 0;  // As scalar_share, but of their number.
  // On the host: the others are so small that they cannot take so long. They wait for something,
  // such as pages of a file.
  bool must_wait = false;
  std::vector<Evidence> around;  // By the operator or range that needs the other type.
};

struct CopyFacts {
  int64_t host_copy_count = 0;  // Between host and device.
  int64_t to_device_ns = 0;     // Time of these, by direction.
  int64_t to_host_ns = 0;
  int64_t between_gpus_ns = 0;
  int64_t unknown_copy_ns = 0;  // Of copies of which it is not known where they go.
  int64_t pageable_ns = 0;      // Asynchronous ones with pageable memory.
  int64_t pageable_to_host_ns = 0;
  int64_t pageable_waited_ns = 0;  // Of those that the program waits for in the same operator.
  int64_t pageable_waited_in_op_ns = 0;  // Of these, where an operator is known.
  int64_t pageable_saving_ns = 0;
  std::vector<Evidence> pageable;
  int64_t blocking_ns = 0;  // Time of the host in calls that wait for a copy.
  int64_t blocking_to_host_ns = 0;
  int64_t blocking_pinned_ns = 0;  // With page-locked memory.
  std::vector<Evidence> blocking;
  // Large copies from and to pinned memory.
  int64_t link_bytes = 0;
  int64_t link_ns = 0;
  double link_gb_per_s = 0;  // Of the link; 0: unknown.
  std::vector<Evidence> slow;
  // Sums over streams.
  int64_t memory_work_ns = 0;  // Copies, memsets, and decompression.
  int64_t decompression_ns = 0;
  std::vector<Evidence> decompression;
};

struct CallFacts {
  int64_t call_count = 0;  // Calls of the API in the capture.
  // In steps that count: calls that have the GPU decompress memory; cudaMalloc, cudaFree, and the
  // like.
  int64_t decompression_count = 0;
  int64_t allocation_count = 0;
  int64_t allocation_ns = 0;
  int64_t free_ns = 0;  // The part of it in calls that free.
  // A few calls take most of the time, before most launches of a capture without steps: they load
  // the driver's code.
  bool only_start_up = false;
  std::vector<Evidence> allocations;
};

// How long the thread that marks the steps was ready to run but had no CPU; without steps, the one
// that ran longest.
struct CpuFacts {
  int64_t watched_ns = 0;  // 0: not measured, or nothing of that thread.
  int64_t ran_ns = 0;
  int64_t waited_ns = 0;
  // At most that: how long it would have waited there if it had waited as after the capture.
  // nullopt: not known.
  std::optional<int64_t> waits_as_after_ns;
  bool of_step_thread = false;
  // It is so little that one burst of another process, or the start of the recording, may explain
  // it: less than 50 ms, and one of the steps that count is longer than the median by half of it or
  // more. With fewer than three steps, all below 50 ms is.
  bool may_be_one_burst = false;
  // Of all threads of the process.
  int64_t thread_count = 0;
  int64_t all_ran_ns = 0;
  int64_t all_waited_ns = 0;
  // Of the program's children that ran or waited, such as workers of a DataLoader.
  int64_t child_count = 0;
  int64_t children_ran_ns = 0;
  int64_t children_waited_ns = 0;
  std::span<const CpuSample> samples;  // Of the reader's record.

  double Share() const { return ShareOfWatched(waited_ns); }
  // How much of the time it would wait if nothing was recorded; as recorded, if that is not known.
  double UnrecordedShare() const {
    const int64_t waits_ns = waits_as_after_ns.value_or(waited_ns);
    const int64_t rest_ns = watched_ns - (waited_ns - waits_ns);
    return rest_ns <= 0 ? 0 : static_cast<double>(waits_ns) / static_cast<double>(rest_ns);
  }
  double AllShare() const { return ShareOfWatched(all_waited_ns); }
  double ShareOfWatched(int64_t ns) const {
    return watched_ns <= 0 ? 0 : static_cast<double>(ns) / static_cast<double>(watched_ns);
  }
  // What all threads, and with `children` those of the children, waited together from the last
  // sample before `start_ns` to the first one after `end_ns`, and how long that is. nullopt:
  // unknown.
  struct Waits {
    int64_t waited_ns = 0;
    int64_t time_ns = 0;
  };
  std::optional<Waits> MostWaited(int64_t start_ns, int64_t end_ns, bool children) const;
};
CpuFacts CpuFactsOf(store::CaptureReader& reader, const FindingScope& scope);

// The outliers that would not be outliers if threads of the program, and workers of its data
// loader, had not waited for a CPU for longer than usual; but none that does more work than others.
struct WaitingSteps {
  std::vector<bool> explained;  // By stretch of the scope.
  int64_t count = 0;
  int64_t waited_ns = 0;  // Longer than usual, in all of them; an upper bound.
};

struct ProgramFacts {
  bool uses_torch = false;     // PyTorch was recorded, or operators or kernels have its names.
  bool has_operators = false;  // Operators of it ran in the steps that count.
  bool trains = false;         // A backward pass or the step of an optimizer is recorded.
  bool fused_optimizer = false;
  OptimizerFacts optimizers;
  bool data_parallel = false;  // torch.nn.DataParallel
  // In the steps: nodes of autograd, and checks of gradients for NaN (aten::_is_any_true, which
  // programs do not call), with the time of these.
  int64_t node_count = 0;
  int64_t nan_check_count = 0;
  int64_t nan_check_ns = 0;
  bool gloo = false;    // Collectives of gloo, ...
  int64_t gloo_ns = 0;  // ... and their time in the steps that count.
  std::vector<Evidence> gloo_ops;
  // Of the ranges that --step-marker names, at most so many were open at once. From 2 on, as with
  // requests of a server, a step is the time from the start of one to the start of the next.
  int64_t marked_at_once = 0;
};

// A step as it would be without the recording, which makes the host's part longer and leaves the
// GPU's as it is. Known if recording certainly made steps longer (SlowdownRecord).
struct UnrecordedStep {
  bool known = false;
  double slowdown = 0;  // Of recorded steps: 0.36 is 36 % longer.
  int64_t step_ns = 0;
  int64_t idle_ns = 0;  // Of the GPU.

  double IdleShare() const {
    return step_ns <= 0 ? 0 : static_cast<double>(idle_ns) / static_cast<double>(step_ns);
  }
};

struct Facts {
  const CaptureRecord* record = nullptr;
  FindingScope scope;
  Quality quality;
  EventChecks events;
  TimeReport time;
  TimeBreakdown sum;  // Of the device, over the scope.
  bool has_memory = false;
  MemoryReport memory;
  StepTable steps;
  GapFacts gaps;
  KernelFacts kernels;
  CopyFacts copies;
  CastFacts casts;
  CallFacts calls;
  CpuFacts cpu;
  ProgramFacts program;
  HostFacts host;
  SlowStep slowest;
  WaitingSteps waiting;
  UnrecordedStep unrecorded;
  const RankComparison* ranks = nullptr;  // Of the group; nullptr: one capture was looked at.
  // Why the recorded GPU work is not what the GPU did; empty: it is. "54 of 72 (75%) launches have
  // no GPU work in the recording"
  std::string gpu_doubt;
  // So much is missing that nothing is concluded from GPU work: there is none then.
  bool gpu_withheld = false;

  bool has_gpu() const { return time.has_device && !gpu_withheld; }
  // Hardly any launch shows work, since CUDA graphs are being recorded: idle time says nothing.
  bool RecordsGraphs() const {
    return events.captures_graphs && 2 * events.silent_launch_count > events.launch_count;
  }
  // Of the steps that count; 0..1.
  double ShareOfSteps(int64_t ns) const {
    return scope.total_ns <= 0 ? 0 : static_cast<double>(ns) / static_cast<double>(scope.total_ns);
  }
  int64_t PerStep(int64_t ns) const { return scope.count <= 0 ? ns : ns / scope.count; }
  // `share`: of the steps that count.
  int64_t PerStepOfShare(double share) const {
    return PerStep(static_cast<int64_t>(share * static_cast<double>(scope.total_ns)));
  }
  // A step as it would be without the recording: by `unrecorded`, or of a program without a GPU, if
  // steps of the windows are clearly longer than those before and after, by that. Else as recorded.
  int64_t StepNs() const;
  // The step of which the savings of a rule are a part: that of StepNs(). For CPU_CONTENTION it is
  // a recorded one, unless it is known how long an unrecorded one waits.
  int64_t StepOfSavings(std::string_view rule) const;
  // The same as a part of a recorded step, 0..1.
  double UnrecordedPart() const;
  // By how much they are longer: by the slow-down where it is certain, else by the means, for which
  // there may be other reasons; 0: they are not, or it is not known.
  int64_t LongerThanAroundNs() const;
  // Steps around the capture are much longer on average than at the median: some of them wait, too.
  bool AroundStepsVary() const;
  // The mean of the steps that count; without outliers, such as a checkpoint, if there were none
  // among the steps around the capture.
  int64_t ComparableStepNs() const;
  // Of an unrecorded step, where that is known.
  double IdleShare() const {
    return unrecorded.known ? unrecorded.IdleShare() : ShareOfSteps(sum.idle_ns);
  }
  double BusyShare() const {
    return unrecorded.known ? 1 - unrecorded.IdleShare() : ShareOfSteps(sum.busy_ns);
  }
  // Whether decompression is over half of the time in which copies ran and no kernel did, even if
  // all that kernels covered was decompression.
  bool ExposedCopiesAreDecompression() const {
    const int64_t covered_ns = sum.copy_ns - sum.exposed_copy_ns;
    return 2 * (copies.decompression_ns - covered_ns) > sum.exposed_copy_ns;
  }
  // The recording made the GPU look more idle than it is, by more than a few points.
  bool LooksIdlerThanItIs() const;
  // Of a step, on average.
  int64_t CpuWaitPerStep() const { return PerStepOfShare(cpu.Share()); }
  // By how much a step can be late because its batch is: workers that take turns, each with every
  // child_count-th batch, wait for a CPU. An upper bound.
  int64_t WorkerWaitPerStep() const;
  const GpuDevice* device() const;
};

absl::StatusOr<Facts> GatherFacts(store::CaptureReader& reader,
                                  const FindingThresholds& thresholds);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_FINDINGS_FACTS_H_
