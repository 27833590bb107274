// Several captures that were asked for together, as one result.
#ifndef PROFD_CLI_RENDER_GROUP_VIEW_H_
#define PROFD_CLI_RENDER_GROUP_VIEW_H_

#include <cstdint>
#include <span>
#include <string>

#include "cli/base/failures.h"
#include "cli/base/style.h"
#include "cli/captures/find_group.h"
#include "cli/captures/group_capture.h"
#include "cli/client/capture_view.h"
#include "daemon/base/json_writer.h"

namespace profd::cli {

// {"group", "captures": [...], "missed": [...], "errors": [...]}; missed are those that have ended
// and do not cover all that was asked, and ranks of which no trace was imported. `paths`: the files
// they were fetched to, or none. `failures`: what else was to be done with them, and failed.
void WriteGroupJson(std::span<const CaptureView> views, std::span<const std::string> paths,
                    std::span<const Failure> failures, JsonWriter& json);

// A row per target, then those that missed, each with its reason.
std::string RenderGroup(std::span<const CaptureView> views, const Style& style);

// A group that was looked up: as above, with "first_step", "closed", "requested_by",
// "members": [{"node","pid","rank","id","state","error","clock_offset_ns","clock_bound_ns"}], and
// of many nodes "nodes". Members are all of all nodes, also those that could not be asked.
void WriteFoundGroupJson(const FoundGroup& group, JsonWriter& json);
std::string RenderFoundGroup(const FoundGroup& group, const Style& style);

// The same of a capture on many nodes:
// {"id", "state", "first_step", "captures": [{"node","pid","rank","id","state",...}],
//  "missed": [{"node","pid","rank","id","error_reason","error_message"}],
//  "clock": {"residual_ns", "nodes": [{"node","offset_ns","bound_ns"}]}, "errors": [...],
//  "nodes": [...]}
// `paths`: as result.members. `failures`: of writing these files.
void WriteGroupCaptureJson(const GroupCaptureResult& result, std::span<const std::string> paths,
                           std::span<const Failure> failures, JsonWriter& json);
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
