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
    // ---- time: what its description (daemon/report/time/columns.cc) does not have ----
    {"time", "%",
     "Its total as a share of that of all rows; ~12% where more than 0.1 % of the events were "
     "lost, and - from 10 % on, here and in all tables",
     "Total / sum of Total"},
    {"time", "Bound by", "What takes longer: launching the work, or doing it", ""},
    {"time", "Where|Size", "Whether the GPU or the host did it; the bytes of each input", ""},
    // ---- memory: likewise (daemon/report/memory/columns.cc) ----
    {"memory", "Share", "Share of the total above the table", ""},
    {"memory", "Over the window, by category", "What memory was for", ""},
    {"memory", "Mean", "Mean bytes over the window", "integral of bytes over time / time"},
    {"memory", "Left behind",
     "Allocated in the step and still alive at the window end; unknown for the last step", ""},
    {"memory", "Lived", "Time from allocation to free", ""},
    {"memory", "Largest blocks at the peak, by operator",
     "The innermost range around the allocation", ""},
};

}  // namespace

std::span<const ColumnDoc> ReportColumnDocs() { return kReportDocs; }

}  // namespace profd::cli
