// The list of targets as text and as JSON.
#ifndef PROFD_CLI_RENDER_TARGETS_H_
#define PROFD_CLI_RENDER_TARGETS_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/base/style.h"
#include "cli/captures/fleet.h"
#include "daemon/base/json_writer.h"
#include "daemon/base/table/column.h"
#include "daemon/capture/capture_types.h"

namespace profd::cli {

struct NodeTargets {
  std::string node;  // As named; what the column NODE and "node" show.
  std::vector<TargetInfo> targets;
};

// Children stand below their parents, further in. `job`: only its processes were asked for; empty:
// all.
std::string RenderTargets(std::span<const TargetInfo> targets, const Style& style,
                          std::string_view job = "");
std::string RenderNodeTargets(std::span<const NodeTargets> nodes, const Style& style,
                              std::string_view job = "");
// "targets": [...], a field of an open object.
void WriteTargetsJson(std::span<const TargetInfo> targets, JsonWriter& json);
// The same, each with its "node", and "nodes": [...].
void WriteNodeTargetsJson(std::span<const NodeTargets> nodes,
                          const std::vector<NodeOutcome>& outcomes, JsonWriter& json);

std::vector<table::Column> TargetColumns();
void WriteTargetsSchema(JsonWriter& json);

}  // namespace profd::cli

#endif  // PROFD_CLI_RENDER_TARGETS_H_
