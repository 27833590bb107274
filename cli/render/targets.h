// The list of targets as text and as JSON.
#ifndef PROFD_CLI_RENDER_TARGETS_H_
#define PROFD_CLI_RENDER_TARGETS_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/base/object.h"
#include "cli/base/style.h"
#include "cli/captures/fleet.h"
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

// One row of the list.
struct TargetRow {
  const std::string* node = nullptr;  // nullptr: one daemon was asked.
  const TargetInfo* target = nullptr;
  size_t depth = 0;  // Below its parent.
};
// The whole answer of `ps`, and a part of that of `top`.
struct TargetsAnswer {
  std::vector<TargetRow> targets;
  const std::vector<NodeOutcome>* outcomes = nullptr;  // nullptr: one daemon was asked.
};
// Both must outlive the answer.
TargetsAnswer TargetsAnswerOf(std::span<const NodeTargets> nodes,
                              const std::vector<NodeOutcome>* outcomes);
const ObjectDescription<TargetsAnswer>& TargetsAnswerObject();

std::vector<table::Column> TargetColumns();

}  // namespace profd::cli

#endif  // PROFD_CLI_RENDER_TARGETS_H_
