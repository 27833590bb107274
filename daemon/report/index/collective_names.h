// What a collective operation is, on the CPU and on GPUs: the one place that says so.
//
// It shows as a range of the program ("gloo:all_reduce", "ncclAllReduce", "all_reduce"), as an
// operator ("c10d::allreduce_"), as torch's own note of it, the operator `record_param_comms`, and
// as a kernel of NCCL. The note's inputs alone tell who takes part and which one of theirs it is:
//
//   ["", "12", "", "0", "allreduce", "[]", "[]", "0", "1", "8"]
//     │   │      │  │     │            │    │     │    │    └── ranks in the group
//     │   │      │  │     name         splits     first rank and stride; torch from 2.1 on
//     │   │      │  rank               of input and output
//     │   │      the process group; its name cannot be read
//     │   sequence number in the group
//     tensors, or not there
//
// How do I add one?  Its name in collective_names.cc, and in CollectiveKind if it is of a new one.
#ifndef PROFD_DAEMON_REPORT_INDEX_COLLECTIVE_NAMES_H_
#define PROFD_DAEMON_REPORT_INDEX_COLLECTIVE_NAMES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/capture/event_rows.h"

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
std::string_view ToString(CollectiveKind kind);  // "all_reduce"
std::optional<CollectiveKind> CollectiveKindFromString(std::string_view text);

// Whether no rank can end it before all have begun it, so that it ends on all of them at about
// the same time.
bool Synchronises(CollectiveKind kind);

// By any name, in whatever spelling: "_allgather_base" is kAllGather. kOther: none is known.
CollectiveKind CollectiveKindOf(std::string_view name);

// What a range of this name is; nullopt: no collective. A user's range has to be called by nothing
// but the operation's name, or have a library's before it: "reduce" alone may be anything.
std::optional<CollectiveKind> CollectiveOfRange(std::string_view name);

inline constexpr std::string_view kCollectiveOperator = "record_param_comms";

// Views live as long as the inputs.
struct CollectiveInputs {
  std::string_view name;   // "allreduce", at most 64 bytes
  int64_t sequence = -1;   // -1: not told
  int64_t rank = 0;        // In the group.
  int64_t group_size = 0;  // Ranks
  // Of the group's ranks in the job: first, first + stride, ...; nullopt: not told.
  std::optional<int64_t> first_rank;
  std::optional<int64_t> rank_stride;
  std::string_view in_splits;       // "[1, 2]"
  std::string_view out_splits;      // "[]"
  std::optional<int64_t> elements;  // Of the first input; nullopt: not told.
  std::optional<int64_t> bytes;     // That they take; nullopt: not told, or of an unknown type.
};
// nullopt: the inputs are not such ones. `scalars` and the texts of `inputs` may hold anything;
// `inputs` may be null.
std::optional<CollectiveInputs> ParseCollectiveInputs(std::string_view untrusted_scalars,
                                                      const OperatorInputs* inputs);

// What a trace tells of a collective beside its inputs, where it has none that say it; texts as
// CollectiveInputs has them.
struct ToldCollective {
  std::string_view name;
  std::string_view rank = "0";
  std::string_view group_size = "0";
  std::string_view first_rank = "0";
  std::string_view rank_stride = "1";
  std::string_view in_splits = "[]";
  std::string_view out_splits = "[]";
};
// The inputs that say the same to ParseCollectiveInputs(): the scalars, and, of an input of so many
// elements of a type ("Float"), the rest. Texts may hold anything.
std::string ScalarsOfTold(const ToldCollective& untrusted_told);
OperatorInputs InputsOfTold(int64_t elements, std::string_view untrusted_type);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_INDEX_COLLECTIVE_NAMES_H_
