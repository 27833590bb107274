// What a collective operation is, on the CPU and on GPUs. No other file defines that.
//
// It appears as a range of the program ("gloo:all_reduce", "ncclAllReduce", "all_reduce"), as an
// operator ("c10d::allreduce_"), as torch's own record of it, the operator `record_param_comms`,
// and as an NCCL kernel. Only the inputs of `record_param_comms` identify the group and the
// sequence number:
//
//   ["", "12", "", "0", "allreduce", "[]", "[]", "0", "1", "8"]
//     │   │      │  │     │            │    │     │    │    └── ranks in the group
//     │   │      │  │     name         splits     first rank and stride; torch from 2.1 on
//     │   │      │  rank               of input and output
//     │   │      the process group; its name cannot be read
//     │   sequence number in the group
//     tensors, or not there
//
// How do I add one?  Its name in collective_names.cc, and a new kind in CollectiveKind if needed.
#ifndef PROFD_DAEMON_REPORT_INDEX_COLLECTIVE_NAMES_H_
#define PROFD_DAEMON_REPORT_INDEX_COLLECTIVE_NAMES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/capture/event_kinds.h"

namespace profd::report {

enum class CollectiveKind : uint8_t {
  kOther,
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kBarrier,
  kBroadcast,
  kReduce,
  kGather,
  kScatter,
  kSend,
  kReceive,
};
std::string_view ToString(CollectiveKind kind);                // "all_reduce"
bool FromString(std::string_view text, CollectiveKind& kind);  // False: unknown, and kOther.

// Returns whether no rank can end it before all have begun it, so that it ends on all ranks at
// about the same time.
bool Synchronises(CollectiveKind kind);

// Returns the kind for any spelling of a name: "_allgather_base" is kAllGather. kOther: unknown.
CollectiveKind CollectiveKindOf(std::string_view name);

// Returns the kind of a range with this name; nullopt: not a collective. A user's range counts only
// if its name is the operation's name, or a library's name and that; "reduce" alone may be
// anything.
std::optional<CollectiveKind> CollectiveOfRange(std::string_view name);

// Whether a range of this name, which is a collective's, lasts until the collective is done: those
// of gloo, UCC, and MPI, which end on a worker, and a user's own. A range of NCCL or of c10d
// ("nccl:all_reduce", "c10d::allreduce_") covers the call that issues it.
bool LastsUntilDone(std::string_view name);
// Whether it begins on the thread that issues the collective and ends on a worker.
bool EndsOnWorker(std::string_view name);

inline constexpr std::string_view kCollectiveOperator = "record_param_comms";

// Views live as long as the inputs.
struct CollectiveInputs {
  std::string_view name;   // "allreduce", at most 64 bytes
  int64_t sequence = -1;   // -1: not recorded
  int64_t rank = 0;        // In the group.
  int64_t group_size = 0;  // Ranks
  // The group's ranks in the job: first, first + stride, ...; nullopt: not recorded.
  std::optional<int64_t> first_rank;
  std::optional<int64_t> rank_stride;
  std::string_view group;           // "[11]TP": torch's name of it, and the program's; or empty.
  std::string_view in_splits;       // "[1, 2]"
  std::string_view out_splits;      // "[]"
  std::optional<int64_t> elements;  // Of the first input; nullopt: not recorded.
  std::optional<int64_t> bytes;     // Of these elements; nullopt: not recorded, or unknown type.
};
// Returns nullopt if the inputs have another form. `scalars` and the texts of `inputs` may contain
// anything; `inputs` may be null.
std::optional<CollectiveInputs> ParseCollectiveInputs(std::string_view untrusted_scalars,
                                                      const OperatorInputs* inputs);

// The size of the first input, which is what a collective sends; nullopt: not recorded, or unknown.
struct FirstInputSize {
  std::optional<int64_t> elements;
  std::optional<int64_t> bytes;
};
FirstInputSize SizeOfFirstInput(const OperatorInputs& untrusted_inputs);

// Facts about a collective that a trace has outside the inputs, if the inputs lack them; texts have
// the form of CollectiveInputs.
struct ToldCollective {
  std::string_view name;
  std::string_view rank = "0";
  std::string_view group_size = "0";
  std::string_view first_rank = "0";
  std::string_view rank_stride = "1";
  std::string_view in_splits = "[]";
  std::string_view out_splits = "[]";
  std::string_view group;
};
// CollectiveInputs::group of the names that torch ("11") and the program ("TP") gave a group;
// empty: both are empty, or have characters that it cannot have. And the inverse: torch's name
// alone where the program gave none.
std::string GroupText(std::string_view untrusted_id, std::string_view untrusted_name);
struct GroupNames {
  std::string_view id;
  std::string_view name;
};
GroupNames GroupNamesOf(std::string_view group);

// Return the equivalent inputs for ParseCollectiveInputs(): the scalars, and the inputs for an
// input of this many elements of a type ("Float"). Texts may contain anything.
std::string ScalarsOfTold(const ToldCollective& untrusted_told);
OperatorInputs InputsOfTold(int64_t elements, std::string_view untrusted_type);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_INDEX_COLLECTIVE_NAMES_H_
