#include "daemon/report/findings/advice.h"

#include <string_view>

#include "daemon/base/str_cat.h"
#include "daemon/report/findings/rules.h"

namespace profd::report {

ProgramKind KindOf(const Facts& facts) {
  const ProgramFacts& program = facts.program;
  if (!program.uses_torch) return ProgramKind::kWithoutTorch;
  return program.has_operators && !program.trains ? ProgramKind::kInference
                                                  : ProgramKind::kTraining;
}

bool ReplaysGraphs(const Facts& facts) {
  return facts.kernels.graph_count > 0 && 2 * facts.kernels.graph_count >= facts.kernels.count;
}

// A copy of the batch, reads of the loss and of a norm, and the like stay outside of a graph.
constexpr int64_t kWaitsAroundStep = 4;

std::string WaitsInStep(const Facts& facts) {
  const int64_t waits = facts.PerStep(facts.gaps.waiting_call_count);
  if (!facts.scope.has_steps || waits <= kWaitsAroundStep) return {};
  std::string text = StrCat(waits, " calls that wait for the GPU");
  if (!facts.gaps.after_sync.empty()) {
    const Evidence& most = facts.gaps.after_sync.front();
    StrAppend(&text, " (most of all ", most.name, most.detail.empty() ? "" : " ", most.detail, ")");
  }
  return text;
}

namespace {

// Optimizers that take less of the time, or of the gaps of the host, leave little to gain.
constexpr double kOptimizersMatter = 0.05;
constexpr double kGapsInOptimizersMatter = 0.2;

// Whether a fused optimizer can help: there is one for those that were recorded, which take time.
bool CanFuseOptimizers(const Facts& facts) {
  const ProgramFacts& program = facts.program;
  if (program.fused_optimizer) return false;
  if (!program.optimizers.is_known) return true;
  return program.optimizers.variants.has_fused &&
         facts.ShareOfSteps(static_cast<int64_t>(program.optimizers.steps.total_ns())) >
             kOptimizersMatter;
}

}  // namespace

std::string_view FusedOptimizersToo(const Facts& facts) {
  return CanFuseOptimizers(facts) ? ", fused optimizers" : "";
}

std::string LaunchAdvice(const Facts& facts) {
  if (ReplaysGraphs(facts)) {
    return "The program replays CUDA graphs already, so look between the replays: capture more of "
           "the step in one graph, fill its inputs ahead on another stream, and launch the next "
           "graph before this one ends.";
  }
  if (const std::string waits = WaitsInStep(facts); !waits.empty()) {
    return StrCat(
        "Launch fewer kernels, or launch them faster: ",
        KindOf(facts) == ProgramKind::kWithoutTorch
            ? "fuse kernels that follow each other, and replay CUDA graphs."
            : StrCat("torch.compile, CUDA graphs", FusedOptimizersToo(facts), ", larger batches."),
        " Before that, remove from the step the calls that would end a compiled region or a "
        "CUDA graph: ",
        waits, ".");
  }
  switch (KindOf(facts)) {
    case ProgramKind::kWithoutTorch:
      return "Launch fewer kernels, or launch them faster: fuse kernels that follow each other, "
             "record the step as a CUDA graph (cudaStreamBeginCapture, cudaGraphLaunch), and give "
             "each launch more work.";
    case ProgramKind::kInference:
      return "Launch fewer kernels, or launch them faster: torch.compile(mode=\"reduce-overhead\") "
             "or CUDA graphs for the sizes that are used, and larger batches: several requests in "
             "one batch.";
    case ProgramKind::kTraining:
      break;
  }
  if (!facts.time.compile.regions.empty()) {
    return StrCat(
        "Part of the program is compiled already: compile the rest of the step as well, use "
        "torch.compile(mode=\"reduce-overhead\"), which replays CUDA graphs",
        FusedOptimizersToo(facts), ", and larger batches.");
  }
  return StrCat("Launch fewer kernels, or launch them faster: torch.compile, CUDA graphs",
                FusedOptimizersToo(facts), ", larger batches.");
}

namespace {

// Whether the calls that wait copy batches from pageable memory.
bool WaitsForBatches(const Facts& facts) {
  if (facts.gaps.after_sync.empty() || facts.copies.pageable_ns <= 0 ||
      facts.copies.pageable_to_host_ns > 0) {
    return false;
  }
  const std::string& op = facts.gaps.after_sync.front().detail;
  return op == "in aten::to" || op == "in aten::copy_" || op == "in aten::_to_copy";
}

}  // namespace

std::string WaitingAdvice(const Facts& facts) {
  switch (KindOf(facts)) {
    case ProgramKind::kWithoutTorch:
      return "Do not wait for the GPU in the step: order work with streams and events instead of "
             "cudaDeviceSynchronize() and cudaStreamSynchronize(), copy with cudaMemcpyAsync() "
             "from and to pinned memory (cudaMallocHost()), and read results every N steps.";
    case ProgramKind::kInference:
      return "Wait once for each batch, at its end: keep what decides about the next step on the "
             "GPU, copy results to pinned memory with non_blocking=True, and launch the next batch "
             "before reading them. Avoid .item(), .cpu(), bool(tensor), and nonzero() in between.";
    case ProgramKind::kTraining:
      break;
  }
  if (WaitsForBatches(facts)) {
    return "Pin the memory of batches (DataLoader(pin_memory=True), tensor.pin_memory()), and copy "
           "them with non_blocking=True: a copy from pageable memory waits for the GPU.";
  }
  return "Avoid .item(), .cpu(), print(tensor), bool(tensor), nonzero(), and "
         "torch.cuda.synchronize() in the step. Keep metrics on the GPU and read them every N "
         "steps. Copy with non_blocking=True from pinned memory.";
}

std::string LoaderAdvice(const Facts& facts) {
  const bool in_process = 2 * facts.gaps.loader_in_process_ns > facts.gaps.loader_wait_ns;
  // Without an accelerator, torch warns and pins nothing.
  const GpuOutcome outcome = facts.record->gpu.outcome;
  const bool uses_gpu = facts.has_gpu() || facts.gpu_withheld || outcome == GpuOutcome::kRecorded ||
                        outcome == GpuOutcome::kBroken;
  return StrCat(in_process ? "The loader has no workers (num_workers=0): each step waits while the "
                             "training process itself makes the batch. Set num_workers to 1 or more"
                           : "Load data ahead: raise the DataLoader's num_workers and "
                             "prefetch_factor",
                uses_gpu ? ", set pin_memory, and " : ", and ",
                in_process ? "make decoding and augmentation cheaper."
                           : "move decoding and augmentation out of the training process.");
}

// Of the time: others of the process run for so much of it, and the thread itself is ready to run
// for no more. One that waits for the lock sleeps; one that waits for a CPU is ready.
constexpr double kLockHoldersRun = 0.5;

bool MayWaitForPythonLock(const Facts& facts) {
  const CpuFacts& cpu = facts.cpu;
  return KindOf(facts) != ProgramKind::kWithoutTorch && facts.host.lock_gaps.LookLikeWaits() &&
         cpu.of_step_thread && cpu.ShareOfWatched(cpu.ran_ns + cpu.waited_ns) <= kLockHoldersRun &&
         cpu.ShareOfWatched(cpu.all_ran_ns - cpu.ran_ns) >= kLockHoldersRun;
}

std::string PythonLockClause(const Facts& facts) {
  if (!MayWaitForPythonLock(facts)) return {};
  const int64_t others_ns = facts.cpu.all_ran_ns - facts.cpu.ran_ns;
  return StrCat(" ", CountText(facts.host.lock_gaps.interval_count(), "gap"),
                " at different places took 5 to 6 ms, as long as Python lets a thread wait for its "
                "lock (GIL) before it interrupts the holder, while other threads of the process "
                "ran for ",
                PercentText(facts.cpu.ShareOfWatched(others_ns)),
                " of the time: one of them probably holds it.");
}

std::string LongGapAdvice(const Facts& facts) {
  if (MayWaitForPythonLock(facts)) {
    return "Find the thread that runs Python meanwhile (py-spy dump --pid PID), and move its work "
           "to another process, or into code that gives up the lock (NumPy, PyTorch, extensions). "
           "Another thread does not help.";
  }
  if (facts.host.freed_bytes > 0) {
    return "Keep large tensors instead of making new ones in each step: write into one that has "
           "room (torch.cat of a growing list copies and frees all of it), or let the allocator "
           "keep freed memory (MALLOC_MMAP_THRESHOLD_ and MALLOC_TRIM_THRESHOLD_ of glibc, or "
           "jemalloc).";
  }
  return StrCat(
      "Look at the code that runs in the gaps below: logging, checkpoints, evaluation, garbage "
      "collection, freeing large tensors, locks, files, sleeping. Move it out of the step, to "
      "another ",
      KindOf(facts) == ProgramKind::kWithoutTorch ? "thread"
                                                  : "process (threads of Python share one lock)",
      ", or to every N-th step.");
}

namespace {

// Of gaps most of which are at one line; else empty.
std::string StartAtLine(const Facts& facts) {
  const std::vector<ShortGapRow>& places = facts.host.short_gaps;
  const bool at_one_line = !places.empty() && places.front().is_line &&
                           2 * places.front().total_ns > facts.host.gaps.short_ns;
  if (!at_one_line) return {};
  return StrCat("Start at ", places.front().place,
                ": call fewer and larger operators there, instead of one for each element or "
                "tensor. ");
}

}  // namespace

std::string OverheadAdvice(const Facts& facts) {
  const bool compiled = !facts.time.compile.regions.empty();
  switch (KindOf(facts)) {
    case ProgramKind::kWithoutTorch:
      return "Do less between the ranges below, or move it to another thread.";
    case ProgramKind::kInference:
      return StrCat(StartAtLine(facts),
                    compiled
                        ? "Spend less Python per request: compile the code around the compiled "
                          "regions as well, and serve several requests in one batch."
                        : "Spend less Python per request: torch.compile, several requests in one "
                          "batch, fewer small operators.");
    case ProgramKind::kTraining:
      break;
  }
  const OptimizerVariants variants = facts.program.optimizers.variants;
  const bool in_optimizers = static_cast<double>(facts.host.optimizer_ns) >
                             kGapsInOptimizersMatter * static_cast<double>(facts.host.outside_ns);
  return StrCat(StartAtLine(facts), "Spend less Python per operator: ",
                compiled ? "compile the rest of the step as well" : "torch.compile",
                !in_optimizers       ? ""
                : variants.has_fused ? ", fused or foreach optimizers"
                                     : ", foreach optimizers",
                ", larger batches, fewer small operators.");
}

std::string CommunicationAdvice(const Facts& facts, bool can_hide) {
  if (KindOf(facts) == ProgramKind::kTraining) {
    return can_hide ? "Overlap it with compute: larger or earlier gradient buckets (bucket_cap_mb, "
                      "FSDP prefetching), fewer bytes (gradient accumulation, lower precision), or "
                      "a larger batch per GPU."
                    : "Communicate less: gradient accumulation, lower precision, fewer and larger "
                      "collectives, or a larger batch per GPU.";
  }
  return can_hide
             ? "Overlap it with compute: split a batch in two, so that one part computes while "
               "the other one communicates, or send fewer bytes (lower precision)."
             : "Communicate less: fewer ranks for a layer (a smaller tensor-parallel size), "
               "lower precision, or fewer and larger collectives.";
}

std::string FusionAdvice(const Facts& facts) {
  switch (KindOf(facts)) {
    case ProgramKind::kWithoutTorch:
      return "Fuse them: one kernel for the whole chain, or the epilogue of the product before it "
             "(cuBLASLt, CUTLASS, cuDNN).";
    case ProgramKind::kInference:
      return "Fuse them: torch.compile, or fused activations and norms.";
    case ProgramKind::kTraining:
      break;
  }
  return StrCat("Fuse them: torch.compile, or fused activations, dropout, ",
                CanFuseOptimizers(facts) ? "norms, and optimizers." : "and norms.");
}

std::string GraphAdvice(const Facts& facts) {
  if (KindOf(facts) == ProgramKind::kWithoutTorch) {
    return "Record the step once and replay it: cudaStreamBeginCapture(), cudaGraphInstantiate(), "
           "cudaGraphLaunch(). Move calls that wait for the GPU out of the step first.";
  }
  return "Record the step once and replay it: torch.cuda.graphs, "
         "torch.cuda.make_graphed_callables or torch.compile(mode=\"reduce-overhead\"). Move calls "
         "that wait for the GPU out of the step first.";
}

}  // namespace profd::report
