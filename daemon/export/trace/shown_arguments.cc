#include "daemon/export/trace/shown_arguments.h"

#include <algorithm>
#include <array>

#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/export/trace/json_text.h"

namespace profd::exporter {
namespace {

// What profd's exports or Kineto themselves say of an event of any kind: readers take an event with
// a stream and a correlation for GPU work, wherever it stands.
constexpr auto kOwnKeys = std::to_array<std::string_view>({
    "External id",
    "external id",
    "Ev Idx",
    "finished",
    "began_before_window",
    "ended_after_window",
    "never_ended",
    "ended_with_thread",
    "stream",
    "correlation",
    "device",
    "context",
    "cbid",
    "queued",
    "graph id",
    "graph node id",
    "grid",
    "block",
    "shared memory",
    "registers per thread",
    "blocks per SM",
    "warps per SM",
    "est. achieved occupancy %",
    "kind",
    "bytes",
    "memory bandwidth (GB/s)",
    "fromDevice",
    "inDevice",
    "toDevice",
    "result",
    "wait_on_stream",
    "wait_on_cuda_event_record_corr_id",
    "wait_on_cuda_event_id",
    "cuda_sync_kind",
    "event_id",
    "Sequence number",
    "Fwd thread id",
    "Record function id",
    "Concrete Inputs",
    "Input Dims",
    "Input Strides",
    "Input type",
    "Call stack",
    "Module Hierarchy",
    "Python id",
    "Python parent id",
    "Python module id",
    "Python thread",
    "Trace name",
    "Trace iteration",
    "Collective name",
    "In msg nelems",
    "Out msg nelems",
    "In split size",
    "Out split size",
    "dtype",
    "Group size",
    "Process Group Name",
    "Process Group Description",
    "Process Group Ranks",
    "Global rank start",
    "Global rank stride",
    "Rank",
    "Src Rank",
    "Dst Rank",
    "Root Rank",
    "P2P Peer",
    "Seq",
    "Comms Id",
    "Is asynchronized op",
    "Total Allocated",
    "Total Reserved",
    "Addr",
    "Bytes",
    "Device Id",
    "Device Type",
});

}  // namespace

std::vector<ShownArguments::Shown> ShownArguments::ShownOf(uint32_t range) const {
  std::vector<Shown> shown;
  for (const Argument& argument : arguments_.Of(range)) {
    std::string key = ForDisplay(arguments_.KeyOf(argument), kMostValueBytes);
    if (std::ranges::find(kOwnKeys, key) != kOwnKeys.end()) key += " (argument)";
    if (std::ranges::find(shown, key, &Shown::key) != shown.end()) continue;
    shown.push_back({std::move(key), &argument});
  }
  return shown;
}

std::string ShownArguments::JsonOf(const Argument& argument) const {
  if (argument.type != ArgumentType::kJson) return report::RangeArguments::NumberText(argument);
  const std::string& json = arguments_.JsonOf(argument);
  return json.size() <= kMostValueBytes && IsPlainJson(json) ? json : "null";
}

std::string ShownArguments::MembersOf(uint32_t range, size_t max_bytes) const {
  std::string members;
  if (empty()) return members;
  for (const Shown& shown : ShownOf(range)) {
    std::string member = members.empty() ? "" : ",";
    AppendJsonString(shown.key, member);
    StrAppend(&member, ":", JsonOf(*shown.argument));
    if (members.size() + member.size() <= max_bytes) members += member;
  }
  return members;
}

}  // namespace profd::exporter
