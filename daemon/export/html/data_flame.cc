// Flame views: host time and GPU time by stack, of Python functions above operators above GPU work.
#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/base/status_macros.h"
#include "daemon/export/html/data.h"
#include "daemon/export/stacks/stack_frames.h"

namespace profd::exporter {
namespace {

struct FlameStack {
  uint32_t frame = 0;
  uint32_t caller = 0;    // A position among the stacks shown; 0: none.
  uint64_t total_ns = 0;  // With what it calls.
};

// The frames of all views, each once, by the order in which they are shown.
class ShownFrames {
 public:
  explicit ShownFrames(const StackFrames& frames) : frames_(frames) {}

  int64_t NumberOf(uint32_t frame) {
    const auto [at, inserted] = number_of_.try_emplace(frame, static_cast<int64_t>(shown_.size()));
    if (inserted) shown_.push_back(frame);
    return at->second;
  }
  void Write(JsonWriter& json) const {
    json.Key("frames").BeginArray();
    for (const uint32_t frame : shown_) json.String(ShownName(frames_.texts()[frame]));
    json.EndArray();
  }

 private:
  const StackFrames& frames_;
  std::vector<uint32_t> shown_;
  absl::flat_hash_map<uint32_t, int64_t> number_of_;
};

// The stacks that took most time. A caller takes at least the time of what it calls and comes
// before it, so it is among them, too. Element 0 is none.
std::vector<FlameStack> MostTime(std::span<const StackFrames::Stack> stacks) {
  std::vector<uint64_t> total_ns(stacks.size());
  std::vector<uint32_t> by_time;
  for (size_t i = stacks.size(); i-- > 1;) {
    total_ns[i] += stacks[i].own_ns;
    total_ns[stacks[i].caller] += total_ns[i];
    if (total_ns[i] > 0) by_time.push_back(static_cast<uint32_t>(i));
  }
  if (by_time.size() > kMostFlameStacks) {
    const auto is_before = [&](uint32_t a, uint32_t b) {
      return total_ns[a] != total_ns[b] ? total_ns[a] > total_ns[b] : a < b;
    };
    std::ranges::nth_element(by_time, by_time.begin() + kMostFlameStacks, is_before);
    by_time.resize(kMostFlameStacks);
  }
  std::ranges::sort(by_time);
  std::vector<uint32_t> position(stacks.size());
  std::vector<FlameStack> shown(1);
  for (const uint32_t stack : by_time) {
    position[stack] = static_cast<uint32_t>(shown.size());
    shown.push_back({.frame = stacks[stack].frame,
                     .caller = position[stacks[stack].caller],
                     .total_ns = total_ns[stack]});
  }
  return shown;
}

void WriteView(std::string_view key, std::span<const StackFrames::Stack> stacks,
               ShownFrames& frames, JsonWriter& json) {
  const std::vector<FlameStack> all = MostTime(stacks);
  const std::span<const FlameStack> shown = std::span(all).subspan(1);
  json.Key(key).BeginObject();
  json.Field("stack_count", static_cast<int64_t>(stacks.size()) - 1);
  json.Key("stacks").BeginObject();
  WriteColumn(json, "frame", shown,
              [&](const FlameStack& stack) { return frames.NumberOf(stack.frame); });
  // Of the outermost ones -1.
  WriteColumn(json, "caller", shown,
              [](const FlameStack& stack) { return int64_t{stack.caller} - 1; });
  WriteColumn(json, "total_ns", shown, &FlameStack::total_ns);
  json.EndObject().EndObject();
}

}  // namespace

absl::Status WriteFlameData(store::CaptureReader& reader, JsonWriter& json) {
  ASSIGN_OR_RETURN(StackFrames frames, StackFrames::Build(reader));
  ShownFrames shown(frames);
  json.Key("flame").BeginObject();
  WriteView("host", frames.HostTime(), shown, json);
  if (reader.gpu_row_count() > 0) {
    ASSIGN_OR_RETURN(const std::vector<StackFrames::Stack> stacks, frames.DeviceTime());
    WriteView("device", stacks, shown, json);
  }
  shown.Write(json);
  json.EndObject();
  return absl::OkStatus();
}

}  // namespace profd::exporter
