// What `report` and the headers of captures say besides tables: verdicts, findings, grades.
#include "cli/render/column_docs.h"

namespace profd::cli {
namespace {

constexpr std::string_view kReport = "report";

constexpr ColumnDoc kDocs[] = {
    // ---- the first paragraph ----
    {kReport, "compute-bound",
     "The GPU is busy for 80 % of the step or more, and for most of that it computes", ""},
    {kReport, "host-bound",
     "Most of what leaves the GPU idle is the host, which does not launch work in time", ""},
    {kReport, "input-bound", "Most of what leaves the GPU idle is waiting for the program's data",
     ""},
    {kReport, "bound by exposed communication",
     "Collectives that no compute overlaps are the largest loss", ""},
    {kReport, "bound by exposed copies", "Copies that no kernel overlaps are the largest loss", ""},
    {kReport, "bound by synchronization",
     "Most of what leaves the GPU idle follows calls that wait for it", ""},
    {kReport, "bound by memory allocation",
     "Most of what leaves the GPU idle are calls that allocate or free memory", ""},
    {kReport, "starting up",
     "Most of what leaves the GPU idle is loading the driver, by the program's first calls", ""},
    {kReport, "bound by compilation", "Most of what leaves the GPU idle is compilation", ""},
    {kReport, "held up on the GPU",
     "Launched work does not start: the GPU is blocked, or does work that is not in the capture",
     ""},
    {"report show trace", "Quality",
     "How reliable the numbers are, from A to D; `show` lists the checks", ""},
    {"report show trace", "slow-down",
     "How much longer a step took while it was recorded than before the capture, and after it if "
     "CUPTI "
     "left; the interval holds the true value in 95 of 100 captures",
     "median, over all pairs of a recorded and an unrecorded step, of recorded / unrecorded - 1"},
    {kReport, "unrecorded step",
     "A step as it takes without the recording, where the slow-down is certain: the host is "
     "faster, "
     "and the GPU works as long. Idle shares and savings are of it",
     "mean step recorded / (1 + slow-down)"},
    {kReport, "confidence",
     "high: counted or measured directly. medium: estimated. low: other causes are as likely, or "
     "the "
     "difference is small against the noise",
     ""},
    {kReport, "Saves up to",
     "Most of a step's time that the change can save, by itself. Savings of findings that explain "
     "the "
     "same time overlap",
     ""},
    // ---- findings ----
    {kReport, "INPUT_BOUND",
     "Time in DataLoaders' __next__() and the like, and in which they start their workers, while "
     "the GPU is idle",
     ""},
    {kReport, "COMM_EXPOSED", "Time of collectives that no kernel overlaps", ""},
    {kReport, "GPU_UNDERUSED", "The share of the step in which no work runs on the GPU", ""},
    {kReport, "GPU_GAP", "Gaps between work on the GPU that are long compared with the step", ""},
    {kReport, "IDLE_HOST_WAIT", "Idle time of the GPU before the next launch call begins", ""},
    {kReport, "START_UP",
     "Idle time of the GPU because of the first calls that allocate or free memory, in a capture "
     "without steps: they load the driver",
     ""},
    {kReport, "SLOW_LAUNCH_CALLS",
     "Idle time of the GPU inside a launch call that takes long: the first use of a kernel's code, "
     "or a "
     "full queue",
     ""},
    {kReport, "HOST_WORK",
     "Idle time of the GPU while the thread that launches is in an operator or a range of its own "
     "of 1 ms or more in which nothing is launched: it computes on the CPU, or waits",
     ""},
    {kReport, "SLOW_API_CALLS",
     "Idle time of the GPU inside a call of the CUDA API that takes long, and neither launches "
     "work, nor waits for it, nor allocates: one that loads code, makes a graph, or opens a handle",
     ""},
    {kReport, "LATE_START",
     "Idle time of the GPU after its next work was launched: it was blocked, or did work that was "
     "not recorded",
     ""},
    {kReport, "IDLE_KERNEL_WAIT", "Idle time between kernels that were launched in time", ""},
    {kReport, "IDLE_OTHER", "Idle time of the GPU that is neither of the two above", ""},
    {kReport, "HOST_BOUND",
     "Time in which the host runs no operator of the framework and no CUDA call, while the GPU is "
     "idle; without a GPU, of the step. The program's own ranges count as operators only if there "
     "are none",
     ""},
    {kReport, "CPU_CONTENTION",
     "Time in which the step's thread was ready to run and had no CPU; where that is known, as it "
     "was after the capture, because recording needs CPU time itself",
     ""},
    {kReport, "SYNC_API", "Idle time of the GPU after calls that waited for it", ""},
    {kReport, "COPY_EXPOSED", "Time of copies that no kernel overlaps", ""},
    {kReport, "MEMCPY_PAGEABLE_ASYNC",
     "Copies from or to pageable memory with an asynchronous call of CUDA, which makes them "
     "slower, and often blocking. PyTorch makes them for .to() and .cpu(), too, and waits",
     ""},
    {kReport, "MEMCPY_SYNC", "Time in which the host waits for blocking copies", ""},
    {kReport, "H2D_BW_LOW", "Large copies that reach little of the link's bandwidth", ""},
    {kReport, "TC_UNUSED", "Matrix kernels that could use tensor cores and do not", ""},
    {kReport, "SMALL_KERNELS", "Kernels that take less time than their launch", ""},
    {kReport, "TINY_KERNELS_OF_OP", "A call of one operator that launches many tiny kernels", ""},
    {kReport, "CUDA_GRAPH", "Idle time between short kernels that one graph launch would close",
     ""},
    {kReport, "MISSING_FUSION", "Consecutive elementwise kernels that one kernel could replace",
     ""},
    {kReport, "UNFUSED_ATTENTION",
     "Kernels of attention that is written out: between its two products, and of the softmax's "
     "backward pass",
     ""},
    {kReport, "CASTS",
     "Conversions of tensors to another type or memory format (aten::_to_copy), as autocast makes "
     "them",
     ""},
    {kReport, "LOW_WAVES", "Kernels whose blocks leave many multiprocessors of the GPU empty", ""},
    {kReport, "GRAPH_BREAKS", "Places at which torch.compile leaves compiled code", ""},
    {kReport, "RECOMPILES", "Time of steps that torch.compile compiles in", ""},
    {kReport, "RECOMPILE_LIMIT",
     "Lookups of compiled code that found none to run, so that the code runs without torch.compile",
     "(lookups - compiled regions that ran) / lookups"},
    {kReport, "STEP_OUTLIER", "Steps far above the median, counted in median absolute deviations",
     ""},
    {kReport, "WARMUP_INCLUDED", "A first step that took much longer than the others", ""},
    {kReport, "STRAGGLER_RANK",
     "A rank with more work of its own than the others, which wait for it", ""},
    {kReport, "ANOMALY_MODE",
     "Autograd checks each node's gradients for NaN (torch.autograd.set_detect_anomaly)", ""},
    {kReport, "DATA_PARALLEL", "torch.nn.DataParallel, which copies the model at each step", ""},
    {kReport, "COMM_BACKEND", "Collectives of gloo in a program with a GPU", ""},
    {kReport, "OUT_OF_MEMORY", "An allocation that failed in the window", ""},
    {kReport, "MEM_NEAR_LIMIT", "The peak of memory, compared with what the device has", ""},
    {kReport, "MEM_FRAG", "Memory that the allocator reserved and does not use", ""},
    {kReport, "MEM_LEAK", "Memory that each step leaves allocated", ""},
    {kReport, "ALLOC_CHURN", "Time in cudaMalloc(), cudaFree() and the like during steps", ""},
    {kReport, "QUALITY_LOSS", "Events that were lost, by reason", ""},
    {kReport, "QUALITY_ORPHANS", "Work on the GPU whose launch call is not in the capture", ""},
    {kReport, "QUALITY_SILENT_LAUNCHES",
     "Launches without GPU work in the recording, or of graphs with less of it than other replays: "
     "what the GPU did is not all known",
     ""},
    {kReport, "QUALITY_INVERSIONS",
     "GPU work that begins before its launch call, or ends after the host waited for it: a clock",
     ""},
    {kReport, "QUALITY_TIMES",
     "GPU work that lasts beyond the start of the next in its stream, or beyond the host's wait "
     "for "
     "it, or that begins far from its launch, or after that wait",
     "it ends where the next begins, or where the wait ends, or is left out"},
    {kReport, "QUALITY_COVERAGE", "Steps that were requested and are not in the capture", ""},
    {kReport, "QUALITY_TRUNCATION", "Ranges that the window's begin or end cut off", ""},
    {kReport, "QUALITY_UNENDED",
     "Ranges that never ended: their thread did, or steps begin them again and again", ""},
    {kReport, "QUALITY_CLOCK", "The error of GPU times against host times", ""},
    {kReport, "QUALITY_PERTURBATION",
     "How much longer steps took while they were recorded than the unrecorded steps before and "
     "after. What is measured is the least that is certain; the sentence has the estimate",
     ""},
    {kReport, "QUALITY_WINDOW",
     "The mean time of the steps just before and after the capture, compared with those in it: "
     "far above, the capture lacks what makes some steps slow",
     "mean step around the capture / mean step in it"},
};

}  // namespace

std::span<const ColumnDoc> FindingDocs() { return kDocs; }

}  // namespace profd::cli
