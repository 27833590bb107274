#include "cli/render/column_docs.h"

namespace profd::cli {
namespace {

constexpr ColumnDoc kListDocs[] = {
    {"top", "NODE|NODES", "The machine whose daemon it is", ""},
    {"schedule", "NODES", "How many of its nodes have it", ""},
    {"top", "PID", "The process, as the daemon's node numbers it", ""},
    {"top schedule", "STATE", "What it is doing", ""},
    {"top", "STEP", "The number of the step that it is in", ""},
    {"top", "RANK", "The rank, from the program's metadata", ""},
    {"top", "COMMAND", "Its command, without folders and without the Python that runs it", ""},
    {"top", "STEP TIME", "Time of a step; \"none for\" and how long there was none",
     "1 / steps per second"},
    {"top", "LAST MINUTE", "Step times of the last minute; the lowest block is the shortest", ""},
    {"schedule", "ID", "Its ID. The first characters are enough if no other begins so", ""},
    {"schedule context", "NAME", "Name given by its creator", ""},
    {"schedule", "CAPTURES", "Number of captures that it made", ""},
    {"schedule", "BYTES", "Bytes of their files", ""},
    {"context", "CURRENT|WHERE|CERTIFICATE",
     "Which context is used, where it connects to, and until when its certificate is good", ""},
    {"schedule", "WHEN|WHAT|SAMPLE|NEXT",
     "When it captures, what, how many of the targets, and when next", ""},
    {"schedule", "WINDOWS", "How often it has captured", ""},
};

}  // namespace

std::span<const ColumnDoc> ListColumnDocs() { return kListDocs; }

}  // namespace profd::cli
