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
