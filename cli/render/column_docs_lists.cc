#include "cli/render/column_docs.h"

namespace profd::cli {
namespace {

constexpr ColumnDoc kListDocs[] = {
    {"ps top captures show node audit schedule history", "NODE|NODES",
     "The machine whose daemon it is", ""},
    {"ps top captures show schedule history", "PID", "The process, as the daemon's node numbers it",
     ""},
    {"ps", "NSPID", "The process, as its own namespace numbers it", ""},
    {"ps", "UID", "The user who runs it", ""},
    {"ps top captures show schedule", "STATE", "What it is doing; of a capture, how far it is", ""},
    {"ps top", "STEP",
     "The number of the step that it is in. From the second missed step on, also the time since "
     "its "
     "last step: it may hang",
     "missed: no step for twice the median step time, and for 1 s"},
    {"ps top", "STEPS/S", "Steps per second, over the last marks", "marks / time between them"},
    {"ps", "STEPS FROM",
     "Where steps come from: marks, an optimizer, torch.profiler, a data loader", ""},
    {"ps history", "JOB", "The job that it is part of, from its cgroup or environment", ""},
    {"ps top captures show history", "RANK", "The rank, from the program's metadata", ""},
    {"ps top", "COMMAND", "Its command, without folders and without the Python that runs it", ""},
    {"top", "STEP TIME", "Time of a step; \"none for\" and how long there was none", "1 / STEPS/S"},
    {"top", "LAST MINUTE", "Step times of the last minute; the lowest block is the shortest", ""},
    {"captures schedule", "ID", "Its id; the first characters do, as long as no other begins so",
     ""},
    {"captures", "AGE", "How long ago it was asked for", ""},
    {"captures show", "STEPS", "Complete steps recorded", ""},
    {"show", "STEP TIME", "Duration of its steps on average", "covered time / steps"},
    {"captures show", "EVENTS", "Events kept", ""},
    {"captures show", "LOST", "Events that could not be kept", ""},
    {"captures show", "GRADE",
     "How far its numbers can be trusted, A to D; `profctl show` says why", ""},
    {"captures", "SIZE", "Bytes of the capture file", ""},
    {"captures schedule context", "NAME",
     "Name given by its creator; without one, the file of an import, or the command of the target",
     ""},
    {"show", "ENDED BY", "Why it ended", ""},
    {"show schedule", "CAPTURE|CAPTURES", "The capture's id; of a schedule, how many it made", ""},
    {"node", "PROFD", "The daemon's version", ""},
    {"node", "UP", "How long the daemon has run", ""},
    {"node", "TARGETS|CAPTURING",
     "Processes that can be captured, and those that are being captured", ""},
    {"node", "STORED", "Captures that are kept", ""},
    {"node schedule", "BYTES", "Bytes of the capture files", ""},
    {"node", "DISK FREE", "Free space where captures are kept", ""},
    {"node", "MEMORY", "Memory for captures in use, of what is allowed", ""},
    {"node", "NAMES ITSELF", "What the daemon calls its node", ""},
    {"audit", "TIME|WHO|CALL|RESULT|FROM|WHAT",
     "When who asked for what, from where, and what became of it", ""},
    {"audit", "TOOK|SENT", "How long the answer took, and how many bytes it had", ""},
    {"context", "CURRENT|WHERE|CERTIFICATE",
     "Which context is used, where it connects to, and until when its certificate is good", ""},
    {"schedule", "WHEN|WHAT|SAMPLE|NEXT",
     "When it captures, what, how many of the targets, and when next", ""},
    {"schedule", "WINDOWS", "How often it has captured", ""},
    {"schedule", "TIME|OUTCOME|DETAIL", "When a window was, what became of it, and why", ""},
    {"schedule", "WEIGHT", "What the window stands for", "1 / the chance of choosing the target"},
    {"schedule", "BEFORE|IN|AFTER",
     "Step time before, in and after the window: what recording cost", ""},
    {"node", "QUOTA|PRINCIPAL", "What is limited, and the user, job, or pod that holds it", ""},
    {"node", "USED|MAY USE", "How much the principal holds, and how much it may hold now", ""},
    {"node", "FOR ROOT|REFUSED", "What is reserved for root; number of refused requests", ""},
    {"history", "Windows", "Captures that are counted", ""},
    {"history", "Min|Median|Max", "Of the figure over the windows", ""},
    {"history", "Early|Late", "The median of the first and of the last quarter of the windows", ""},
    {"history", "Change", "How far the late windows are above the early ones", "Late / Early - 1"},
    {"history", "Trend", "The figure over time, oldest left", ""},
};

}  // namespace

std::span<const ColumnDoc> ListColumnDocs() { return kListDocs; }

}  // namespace profd::cli
