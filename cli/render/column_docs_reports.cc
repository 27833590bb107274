#include "cli/render/column_docs.h"

namespace profd::cli {
namespace {

constexpr ColumnDoc kReportDocs[] = {
    // ---- findings ----
    {"report", "Evidence", "What supports the finding: a step, an operator, a kernel, a gap", ""},
    {"report", "Time",
     "Its duration, or the total of all that are counted; for operators that launch late, how "
     "long the GPU waited for them",
     ""},
    {"report", "Count", "Number of occurrences", ""},
    {"report", "Bytes", "Their total size", ""},
    {"report", "Step", "The step of the longest of them", ""},
    // ---- operators ----
    {"ops", "CPU total %", "With --torch: CPU total as a share of the self CPU of all rows",
     "CPU total / sum of Self CPU"},
    {"ops", "Min|Median|Max",
     "For a group: minimum, median, and maximum over the ranks of the --sort column", ""},
    {"ops", "Max/median", "For a group: maximum relative to the median", "Max / Median"},
    {"ops", "Slowest", "For a group: the rank with the maximum", ""},
    {"ops steps", "Ranks", "For a group: number of ranks that have it", ""},
    // ---- steps ----
    {"steps", "Min|Median|Max", "For a group: minimum, median, and maximum of the ranks' durations",
     ""},
    {"steps", "Slow", "For a group: the rank with the most own work in the step", ""},
    {"steps stragglers", "Own work",
     "Time in which the rank neither waited in collectives nor transferred data for them",
     "duration - transfer - wait"},
    {"steps", "Median own", "Median of the ranks' own work", ""},
    {"steps", "Waited", "Number of ranks that waited for the slow one", ""},
    {"steps stragglers", "Wait", "Time in collectives before the last rank arrived", ""},
    {"stragglers", "Transfer", "Time in collectives after all ranks had arrived", ""},
    {"stragglers", "Rank|Node|PID", "Identity of the rank", ""},
    {"stragglers", "Steps", "Number of compared steps", ""},
    {"stragglers", "Step", "Median duration of its steps", ""},
    {"stragglers", "Caused", "How long the other ranks together waited for the rank, per step", ""},
    {"stragglers", "Last", "Number of matched collectives at which the rank arrived last", ""},
    {"stragglers", "Score",
     "How far its own work stands out among the ranks, as a modified z-score; a straggler has more "
     "than 3.5, step by step, and is the one that the others waited for",
     "0.6745 x (own work - median) / median absolute deviation, which counts as at least 1 % of a "
     "step"},
    // ---- GPU ----
    {"time", "Total", "Sum of durations", "sum of end - start"},
    {"time", "%",
     "Its total as a share of that of all rows; ~12% where more than 0.1 % of the events were "
     "lost, "
     "and - from 10 % on, here and in all tables",
     "Total / sum of Total"},
    {"time", "Count", "Number of calls", ""},
    {"time", "Mean", "Mean duration", "Total / Count"},
    {"time", "Max", "The longest", ""},
    {"time", "Op", "The range around the CUDA calls that launched most of it", ""},
    {"time", "GB/s", "Bandwidth", "Bytes / Total"},
    {"time", "Call", "The CUDA call that waited", ""},
    {"time", "GPU", "The device's number", ""},
    {"time", "Step", "The step, on the host, from mark to mark; \"all\" is the whole capture", ""},
    {"time", "Duration", "Of the step, on the host", ""},
    {"time", "Busy", "Time in which the device, or the stream, ran anything",
     "length of the union of its work"},
    {"time", "Compute", "Time in which a non-communication kernel ran",
     "length of the union of such kernels"},
    {"time", "Comm", "Time in which a communication kernel (NCCL, RCCL) ran",
     "length of the union of such kernels"},
    {"time", "exposed|Comm exposed", "Part of the time to its left that nothing overlapped",
     "communication: while no compute ran; copies: while no kernel ran"},
    {"time", "overlapped", "Communication while compute ran", "Comm - exposed"},
    {"time", "Copies", "Time in which a copy or memset ran", "length of their union"},
    {"time", "Idle", "Time in which nothing ran", "Duration - Busy"},
    {"time", "Host wait",
     "Idle time before work whose CUDA call began only after the work before it had ended", ""},
    {"time", "Kernel wait", "Other idle time in gaps below 30 us: the cost of launching", ""},
    {"time", "Other", "Idle time that is neither", ""},
    {"time", "Stream|Ran|Gaps", "The stream, how much it ran, and how often it then ran nothing",
     ""},
    // ---- time ----
    {"time", "Host only", "Idle time in which no launched work was pending", ""},
    {"time", "Data loader", "Time in which the step thread waited for the next batch", ""},
    {"time", "Launches", "CUDA calls that launched work on the device", ""},
    {"time", "Launched in", "The innermost range around the calls", ""},
    {"time", "GPU waited", "Idle time of the device because these launches came late", ""},
    {"time", "Host|GPU", "Time in the calls, and time of what they launched", "sum of end - start"},
    {"time", "Short", "Kernels that are too short for a launch of their own", ""},
    {"time", "Bound by", "What takes longer: launching the work, or doing it", ""},
    {"time", "Sync", "Time in calls that wait for a GPU", ""},
    {"time", "Changes", "Number of changes of the launch queue depth", ""},
    {"time", "Min|25%|50%|75%|Std dev",
     "Least, quartiles and standard deviation; of a queue over its changes", ""},
    {"time", "Full for", "Time in which the queue was so full that launches had to wait", ""},
    {"time", "Collective|Ranks|Where|Size",
     "The collective operation, how many ranks take part, between which, and the bytes of each "
     "one's input",
     ""},
    {"time", "Bus GB/s", "Bus bandwidth of the fastest one, as nccl-tests defines it",
     "GB/s x a factor of the operation and the ranks, all-reduce: 2 (n - 1) / n"},
    {"time", "Type", "Which kinds of work ran at once: computation, communication, memory", ""},
    {"time", "Exposed", "Part that no compute overlapped", ""},
    {"time", "Cause", "Why the host waited: explicit, .item(), a copy, an operator, the allocator",
     ""},
    {"time", "In", "The innermost range around the operator", ""},
    {"time", "Per step", "Those begun in steps, over the steps", ""},
    {"time", "Regions|after breaks", "Compiled regions run, and those after a graph break", ""},
    {"time", "Operators|Collectives|Data loading|GPU wait",
     "Part of the step that the training threads spent in this activity; overlaps count once, in "
     "the "
     "order data loading, GPU wait, collectives, operators",
     "time / duration of the step"},
    {"time", "Outside operators",
     "Part of the step with no recorded activity: Python, sleeping, or waiting",
     "time / duration of the step"},
    {"time", "After|Before", "The operators around a gap on the host", ""},
    {"time", "Median", "Median length of the gaps", ""},
    // ---- memory ----
    {"memory", "Bytes|Allocated", "Bytes allocated at that moment", ""},
    {"memory", "Share", "Share of the total above the table", ""},
    {"memory", "Blocks|Allocations", "Number of allocations", ""},
    {"memory", "Over the window, by category|Category",
     "What memory was for: parameter, gradient, optimizer_state, buffer, input, activation, "
     "temporary or unknown",
     ""},
    {"memory", "Mean", "Mean bytes over the window", "integral of bytes over time / time"},
    {"memory", "Peak", "Maximum at one time", ""},
    {"memory", "Start|End", "Bytes at the start and end of the step", ""},
    {"memory", "Left behind",
     "Allocated in the step and still alive at the window end; unknown for the last step", ""},
    {"memory", "Lived", "Time from allocation to free", ""},
    {"memory", "Step", "The step", ""},
    {"memory", "Largest blocks at the peak, by operator",
     "The innermost range around the allocation", ""},
};

}  // namespace

std::span<const ColumnDoc> ReportColumnDocs() { return kReportDocs; }

}  // namespace profd::cli
