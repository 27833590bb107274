// Several captures that were asked for together, as one result.
#ifndef PROFD_CLI_GROUP_VIEW_H_
#define PROFD_CLI_GROUP_VIEW_H_

#include <span>
#include <string>

#include "cli/capture_view.h"
#include "cli/json_writer.h"
#include "cli/style.h"

namespace profd::cli {

// {"group", "captures": [...], "missed": [...]}; missed are those that have ended and do not
// cover all that was asked. `paths`: the files they were fetched to, or none.
void WriteGroupJson(std::span<const CaptureView> views, std::span<const std::string> paths,
                    JsonWriter& json);

// A row per target, then those that missed, each with its reason.
std::string RenderGroup(std::span<const CaptureView> views, const Style& style);

}  // namespace profd::cli

#endif  // PROFD_CLI_GROUP_VIEW_H_
