// Several captures that were asked for together, as one result.
#ifndef PROFD_CLI_RENDER_GROUP_VIEW_H_
#define PROFD_CLI_RENDER_GROUP_VIEW_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cli/base/failures.h"
#include "cli/base/object.h"
#include "cli/base/style.h"
#include "cli/captures/find_group.h"
#include "cli/captures/group_capture.h"
#include "cli/client/capture_view.h"
#include "daemon/base/json_writer.h"

namespace profd::cli {

// Several captures of one daemon. `missed` are those that have ended and do not cover all that was
// asked. What it refers to must outlive it.
struct GroupAnswer {
  std::span<const CaptureView> views;
  std::span<const std::string> paths;  // The files they were fetched to, or none.
  std::span<const Failure> failures;   // Of writing the files, or of cancelling.
};
const ObjectDescription<GroupAnswer>& GroupAnswerObject();

// A row per target, then those that missed, each with its reason.
std::string RenderGroup(std::span<const CaptureView> views, const Style& style);

// A group that was looked up: as above, and who its members are. Members are all of all nodes, also
// those that could not be asked. Ranks of which no trace was imported are missed, too.
struct FoundGroupAnswer {
  const FoundGroup& group;
  std::span<const CaptureView> views;
  const std::vector<NodeOutcome>* outcomes = nullptr;  // nullptr: one daemon was asked.
};
const ObjectDescription<FoundGroupAnswer>& FoundGroupObject();
void WriteFoundGroupJson(const FoundGroup& group, JsonWriter& json);
std::string RenderFoundGroup(const FoundGroup& group, const Style& style);

// A capture on many nodes.
struct JobCapture {
  const GroupCaptureResult& result;
  std::span<const std::string> paths;  // As result.members.
  std::span<const Failure> failures;   // Of writing these files.
};
const ObjectDescription<JobCapture>& JobCaptureAnswerObject();
std::string RenderGroupCapture(const GroupCaptureResult& result, const Style& style);
// Returns who missed it, and why, with a line for each reason; empty: none. `called_off`:
// nothing was captured, because too few were ready. Those that were are then named as ready.
std::string RenderMissed(const GroupCaptureResult& result, bool called_off);

// Which commands to go on with, after a group was captured.
// `profctl`: as Invocation::NextProfctl() has it.
std::string NextForGroup(std::string_view profctl, const std::string& group_id);

// "rank 1, 5 and 7 more": the first of `ranks`, of which there are `count` in all.
std::string NameRanks(std::span<const int64_t> ranks, int64_t count);

}  // namespace profd::cli

#endif  // PROFD_CLI_RENDER_GROUP_VIEW_H_
