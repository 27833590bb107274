// The list of targets as text and as JSON.
#ifndef PROFD_CLI_RENDER_TARGETS_H_
#define PROFD_CLI_RENDER_TARGETS_H_

#include <span>
#include <string>
#include <vector>

#include "cli/base/style.h"
#include "daemon/base/json_writer.h"
#include "daemon/capture/capture_types.h"

namespace profd::cli {

struct NodeTargets {
  std::string node;  // As named; what the column NODE and "node" show.
  std::vector<TargetInfo> targets;
};

// Children stand below their parents, further in.
std::string RenderTargets(std::span<const TargetInfo> targets, const Style& style);
std::string RenderNodeTargets(std::span<const NodeTargets> nodes, const Style& style);
// "targets": [...], a field of an open object; rows of nodes have a "node".
void WriteTargetsJson(std::span<const TargetInfo> targets, JsonWriter& json);
void WriteNodeTargetsJson(std::span<const NodeTargets> nodes, JsonWriter& json);

}  // namespace profd::cli

#endif  // PROFD_CLI_RENDER_TARGETS_H_
