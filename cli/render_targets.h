// The list of targets as text and as JSON.
#ifndef PROFD_CLI_RENDER_TARGETS_H_
#define PROFD_CLI_RENDER_TARGETS_H_

#include <span>
#include <string>

#include "cli/json_writer.h"
#include "cli/style.h"
#include "daemon/capture/capture_types.h"

namespace profd::cli {

// Children stand below their parents, further in.
std::string RenderTargets(std::span<const TargetInfo> targets, const Style& style);
// {"targets": [...]}
void WriteTargetsJson(std::span<const TargetInfo> targets, JsonWriter& json);

}  // namespace profd::cli

#endif  // PROFD_CLI_RENDER_TARGETS_H_
