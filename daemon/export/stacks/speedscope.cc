#include "daemon/export/stacks/speedscope.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/numbers.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/export/stacks/stack_frames.h"
#include "daemon/export/trace/json_text.h"

namespace profd::exporter {
namespace {

using report::HostSlice;

// The first object of `profiles` has no comma before it.
class ProfileList {
 public:
  explicit ProfileList(OutputBuffer& out) : out_(out) {}

  void Begin(std::string_view type, std::string_view name, uint64_t start, uint64_t end) {
    std::string text = is_first_ ? "\n{" : ",\n{";
    is_first_ = false;
    StrAppend(&text, R"("type":")", type, R"(","name":)");
    AppendJsonString(name, text);
    StrAppend(&text, R"(,"unit":"nanoseconds","startValue":)", start, ",\"endValue\":", end);
    out_.Append(text);
  }
  bool empty() const { return is_first_; }

 private:
  OutputBuffer& out_;
  bool is_first_ = true;
};

class ThreadEvents {
 public:
  ThreadEvents(std::span<const HostSlice> slices, int64_t begin_ns, StackFrames& frames,
               OutputBuffer& out)
      : slices_(slices), begin_ns_(begin_ns), frames_(frames), out_(out) {}

  void Write() {
    out_.Append(",\"events\":[");
    for (const HostSlice& slice : slices_) {
      while (!open_.empty() && open_.back().position != slice.parent) CloseOne();
      const int64_t limit_ns =
          open_.empty() ? std::numeric_limits<int64_t>::max() : open_.back().end_ns;
      open_.push_back({static_cast<uint32_t>(&slice - slices_.data()), frames_.FrameOf(slice),
                       std::min(slice.end_ns, limit_ns)});
      Event('O', open_.back().frame, std::min(slice.start_ns, limit_ns));
    }
    while (!open_.empty()) CloseOne();
    out_.Append("\n]}");
  }

 private:
  struct Open {
    uint32_t position;
    uint32_t frame;
    int64_t end_ns;
  };

  void CloseOne() {
    Event('C', open_.back().frame, open_.back().end_ns);
    open_.pop_back();
  }

  // Events of ranges that do not nest, of a damaged file, would go back in time.
  void Event(char type, uint32_t frame, int64_t time_ns) {
    last_ns_ = std::max(last_ns_, time_ns);
    char* at = out_.Reserve(128);
    at = PutText(at, is_first_ ? "\n{\"type\":\"" : ",\n{\"type\":\"");
    is_first_ = false;
    *at++ = type;
    at = PutInteger(PutText(at, R"(","frame":)"), frame - 1);
    at = PutInteger(PutText(at, R"(,"at":)"),
                    static_cast<uint64_t>(last_ns_) - static_cast<uint64_t>(begin_ns_));
    *at++ = '}';
    out_.Commit(at);
  }

  const std::span<const HostSlice> slices_;
  const int64_t begin_ns_;
  StackFrames& frames_;
  OutputBuffer& out_;
  std::vector<Open> open_;
  int64_t last_ns_ = std::numeric_limits<int64_t>::min();
  bool is_first_ = true;
};

void WriteThreads(StackFrames& frames, ProfileList& profiles, OutputBuffer& out) {
  const report::HostSlices& slices = frames.slices();
  int64_t begin_ns = std::numeric_limits<int64_t>::max();
  int64_t end_ns = std::numeric_limits<int64_t>::min();
  for (uint32_t row = 0; row < slices.row_count(); ++row) {
    for (const HostSlice& slice : slices.SlicesOf(row)) {
      begin_ns = std::min(begin_ns, slice.start_ns);
      end_ns = std::max(end_ns, slice.end_ns);
    }
  }
  for (uint32_t row = 0; row < slices.row_count(); ++row) {
    if (slices.SlicesOf(row).empty()) continue;
    const uint32_t thread = frames.FrameOfRow(row);
    profiles.Begin("evented", frames.texts()[thread], 0,
                   static_cast<uint64_t>(end_ns) - static_cast<uint64_t>(begin_ns));
    ThreadEvents(slices.SlicesOf(row), begin_ns, frames, out).Write();
  }
}

void WriteDevice(std::span<const StackFrames::Stack> stacks, std::span<const uint32_t> of_device,
                 std::string_view name, ProfileList& profiles, OutputBuffer& out) {
  uint64_t total_ns = 0;
  for (const uint32_t stack : of_device) total_ns += stacks[stack].own_ns;
  profiles.Begin("sampled", name, 0, total_ns);
  out.Append(",\"samples\":[");
  std::vector<uint32_t> path;
  for (size_t i = 0; i < of_device.size(); ++i) {
    path.clear();
    for (uint32_t at = of_device[i]; at != 0; at = stacks[at].caller) {
      path.push_back(stacks[at].frame);
    }
    std::string text = i > 0 ? ",\n[" : "\n[";
    for (size_t j = path.size(); j-- > 0;) StrAppend(&text, path[j] - 1, j > 0 ? "," : "]");
    out.Append(text);
  }
  out.Append("],\n\"weights\":[");
  for (size_t i = 0; i < of_device.size(); ++i) {
    out.Append(StrCat(i > 0 ? "," : "", stacks[of_device[i]].own_ns));
  }
  out.Append("]}");
}

absl::Status WriteDevices(StackFrames& frames, ProfileList& profiles, OutputBuffer& out) {
  ASSIGN_OR_RETURN(const std::vector<StackFrames::Stack> stacks, frames.DeviceTime());
  std::map<uint32_t, std::vector<uint32_t>> devices;  // Stacks, by the outermost frame.
  std::vector<uint32_t> outermost(stacks.size());
  for (uint32_t stack = 1; stack < stacks.size(); ++stack) {
    const uint32_t caller = stacks[stack].caller;
    outermost[stack] = caller == 0 ? stacks[stack].frame : outermost[caller];
    if (stacks[stack].own_ns > 0) devices[outermost[stack]].push_back(stack);
  }
  for (const auto& [device, of_device] : devices) {
    WriteDevice(stacks, of_device, frames.texts()[device], profiles, out);
  }
  return absl::OkStatus();
}

// "train.py(12): step" is in the file train.py, at line 12.
void AppendFrame(std::string_view text, std::string& json) {
  json += "{\"name\":";
  AppendJsonString(text, json);
  const size_t end = text.rfind("): ");
  const size_t begin = end == text.npos ? text.npos : text.rfind('(', end);
  if (begin != text.npos) {
    uint32_t line = 0;
    if (absl::SimpleAtoi(ToAbsl(text.substr(begin + 1, end - begin - 1)), &line)) {
      json += ",\"file\":";
      AppendJsonString(text.substr(0, begin), json);
      if (line > 0) StrAppend(&json, ",\"line\":", line);
    }
  }
  json += "}";
}

}  // namespace

absl::Status WriteSpeedscope(store::CaptureReader& reader, OutputBuffer& out) {
  ASSIGN_OR_RETURN(StackFrames frames, StackFrames::Build(reader));
  out.Append(
      "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\n"
      "\"exporter\":\"profd " PROFD_VERSION "\",\n\"name\":");
  std::string text;
  const bool is_simulated = reader.record().gpu.simulated;
  AppendJsonString(StrCat(reader.record().id, is_simulated ? " (simulated GPU)" : ""), text);
  out.Append(StrCat(text, ",\n\"activeProfileIndex\":0,\n\"profiles\":["));
  ProfileList profiles(out);
  WriteThreads(frames, profiles, out);
  if (reader.gpu_row_count() > 0) RETURN_IF_ERROR(WriteDevices(frames, profiles, out));
  if (profiles.empty()) {
    return absl::FailedPreconditionError(
        "the capture has neither ranges nor work of a GPU, so there are no stacks");
  }
  out.Append("\n],\n\"shared\":{\"frames\":[");
  for (size_t i = 1; i < frames.texts().size(); ++i) {
    text = i > 1 ? ",\n" : "\n";
    AppendFrame(frames.texts()[i], text);
    out.Append(text);
  }
  out.Append("\n]}}\n");
  return absl::OkStatus();
}

}  // namespace profd::exporter
