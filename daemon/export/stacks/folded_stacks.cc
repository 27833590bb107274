#include "daemon/export/stacks/folded_stacks.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/export/stacks/stack_frames.h"

namespace profd::exporter {
namespace {

void WriteStacks(std::span<const StackFrames::Stack> stacks, std::span<const std::string> texts,
                 OutputBuffer& out) {
  // A semicolon would end a frame.
  std::vector<std::string> frames(texts.begin(), texts.end());
  for (std::string& frame : frames) std::ranges::replace(frame, ';', ',');
  std::vector<uint32_t> path;
  for (const StackFrames::Stack& stack : stacks) {
    if (stack.own_ns == 0 || !out.status().ok()) continue;
    path.assign(1, stack.frame);
    for (uint32_t at = stack.caller; at != 0; at = stacks[at].caller) {
      path.push_back(stacks[at].frame);
    }
    for (size_t i = path.size(); i-- > 0;) {
      out.Append(frames[path[i]]);
      out.Append(i > 0 ? ";" : " ");
    }
    out.Append(StrCat(stack.own_ns, "\n"));
  }
}

}  // namespace

absl::Status WriteFoldedCpu(store::CaptureReader& reader, OutputBuffer& out) {
  ASSIGN_OR_RETURN(StackFrames frames, StackFrames::Build(reader));
  const std::vector<StackFrames::Stack> stacks = frames.HostTime();
  if (stacks.size() <= 1) {
    return absl::FailedPreconditionError("the capture has no ranges, so there is nothing to fold");
  }
  WriteStacks(stacks, frames.texts(), out);
  return absl::OkStatus();
}

absl::Status WriteFoldedDevice(store::CaptureReader& reader, OutputBuffer& out) {
  if (reader.gpu_row_count() == 0) {
    return absl::FailedPreconditionError(
        "the capture has no work of a GPU; folded stacks of the CPU are format folded");
  }
  ASSIGN_OR_RETURN(StackFrames frames, StackFrames::Build(reader));
  ASSIGN_OR_RETURN(const std::vector<StackFrames::Stack> stacks, frames.DeviceTime());
  WriteStacks(stacks, frames.texts(), out);
  return absl::OkStatus();
}

}  // namespace profd::exporter
