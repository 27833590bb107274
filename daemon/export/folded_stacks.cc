#include "daemon/export/folded_stacks.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/export/trace/layout.h"
#include "daemon/export/trace/slice_order.h"
#include "daemon/report/index/gpu_attribution.h"
#include "daemon/report/index/gpu_names.h"

namespace profd::exporter {
namespace {

using report::RangePaths;

// The text of a frame: a semicolon would end it.
std::string FrameText(std::string_view name) {
  constexpr std::string_view kStep = "ProfilerStep#";
  if (name.starts_with(kStep)) return "ProfilerStep*";
  std::string text = TraceName(name);
  std::replace(text.begin(), text.end(), ';', ',');
  return text;
}

// Stacks of frames, each with its own time.
class Stacks {
 public:
  explicit Stacks(std::span<const std::string> names) : names_(names), frame_of_(names.size()) {}

  // `parent` is RangePaths::kNone or a stack.
  uint32_t Inside(uint32_t parent, std::string_view frame) {
    return paths_.Child(parent, FrameOf(frame));
  }
  // `name` is the reader's.
  uint32_t InsideRange(uint32_t parent, uint32_t name) {
    if (frame_of_[name] == 0) frame_of_[name] = FrameOf(FrameText(names_[name]));
    return paths_.Child(parent, frame_of_[name]);
  }

  void Add(uint32_t stack, int64_t ns) {
    if (stack >= own_ns_.size()) own_ns_.resize(stack + size_t{1});
    // Unsigned, so that no number in a stranger's file can overflow.
    own_ns_[stack] += static_cast<uint64_t>(std::max<int64_t>(0, ns));
  }

  bool empty() const { return paths_.size() == 1; }

  void Write(OutputBuffer& out) const {
    std::vector<uint32_t> frames;
    for (uint32_t stack = 1; stack < own_ns_.size() && out.status().ok(); ++stack) {
      if (own_ns_[stack] == 0) continue;
      frames.clear();
      for (uint32_t at = stack; at != RangePaths::kNone; at = paths_[at].parent) {
        frames.push_back(paths_[at].name);
      }
      for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
        if (frame != frames.rbegin()) out.Append(";");
        out.Append(frames_[*frame]);
      }
      out.Append(StrCat(" ", own_ns_[stack], "\n"));
    }
  }

 private:
  uint32_t FrameOf(std::string_view text) {
    const auto next = static_cast<uint32_t>(frames_.size());
    const auto [at, inserted] = frame_at_.try_emplace(std::string(text), next);
    if (inserted) frames_.emplace_back(text);
    return at->second;
  }

  const std::span<const std::string> names_;
  std::vector<uint32_t> frame_of_;                                 // By name; 0: not asked for yet.
  std::vector<std::string> frames_ = std::vector<std::string>(1);  // 0: none
  absl::flat_hash_map<std::string, uint32_t> frame_at_;
  RangePaths paths_;
  std::vector<uint64_t> own_ns_;  // By stack.
};

// The ranges of one thread, as they begin and end.
class OpenRanges {
 public:
  void Begin(uint32_t stack, int64_t time_ns) { open_.push_back({stack, time_ns, 0}); }
  void End(int64_t time_ns, Stacks& stacks) {
    if (open_.empty()) return;
    const Range range = open_.back();
    open_.pop_back();
    const int64_t duration_ns = time_ns - range.start_ns;
    stacks.Add(range.stack, duration_ns - range.children_ns);
    if (!open_.empty()) open_.back().children_ns += duration_ns;
  }
  // kNone: no range is open.
  uint32_t stack() const { return open_.empty() ? RangePaths::kNone : open_.back().stack; }

 private:
  struct Range {
    uint32_t stack;
    int64_t start_ns;
    int64_t children_ns;
  };
  std::vector<Range> open_;
};

std::string ThreadFrame(const store::ReaderThread& thread) {
  return thread.name.empty() ? StrCat("thread ", thread.os_thread) : FrameText(thread.name);
}

class DeviceStacks {
 public:
  DeviceStacks(store::CaptureReader& reader, report::GpuAttribution attribution)
      : attribution_(std::move(attribution)), names_(reader.names()), stacks_(names_) {}

  void Add(const GpuBatch& batch) {
    for (size_t i = 0; i < batch.size; ++i) {
      const uint16_t device = batch.device[i];
      const auto* const call = attribution_.Find(batch.correlation[i]);
      const uint32_t launched_in =
          call == nullptr
              ? stacks_.Inside(StackOf(device, RangePaths::kNone), "(launch not recorded)")
              : StackOf(device, call->path);
      stacks_.Add(stacks_.Inside(launched_in, WorkFrame(batch, i)), batch.duration_ns[i]);
    }
  }
  const Stacks& stacks() const { return stacks_; }

 private:
  uint32_t StackOf(uint16_t device, uint32_t path) {
    const uint64_t key = uint64_t{device} << 32 | path;
    const auto found = stack_of_.find(key);
    if (found != stack_of_.end()) return found->second;
    const RangePaths::Node& node = attribution_.paths()[path];
    const uint32_t stack = path == RangePaths::kNone
                               ? stacks_.Inside(RangePaths::kNone, StrCat("GPU ", int{device}))
                               : stacks_.InsideRange(StackOf(device, node.parent), node.name);
    stack_of_.emplace(key, stack);
    return stack;
  }

  std::string WorkFrame(const GpuBatch& batch, size_t i) {
    switch (static_cast<GpuRowKind>(batch.kind[i])) {
      case GpuRowKind::kKernel:
        return KernelFrame(batch.name[i]);
      case GpuRowKind::kMemcpy:
        return report::CopyName(batch.copy_kind[i], batch.source_kind[i],
                                batch.destination_kind[i]);
      case GpuRowKind::kMemset:
        return report::MemsetName(batch.destination_kind[i]);
      case GpuRowKind::kGraphLaunch:
        return "CUDA graph";
    }
    return "(unknown)";
  }

  const std::string& KernelFrame(uint32_t name) {
    std::string& frame = kernel_frame_[name];
    if (frame.empty()) frame = FrameText(demangler_.Demangle(names_[name]));
    return frame;
  }

  const report::GpuAttribution attribution_;
  const std::span<const std::string> names_;
  Stacks stacks_;
  report::Demangler demangler_;
  absl::flat_hash_map<uint64_t, uint32_t> stack_of_;         // (device, path)
  absl::flat_hash_map<uint32_t, std::string> kernel_frame_;  // By name.
};

}  // namespace

absl::Status WriteFoldedCpu(store::CaptureReader& reader, OutputBuffer& out) {
  SliceOrder order;
  RETURN_IF_ERROR(reader.ForEach<RangeRow>(
      SliceOrder::kColumns, {}, [&](const RangeBatch& batch) { return order.Learn(batch); }));
  Stacks stacks(reader.names());
  std::vector<OpenRanges> threads(reader.threads().size());
  RETURN_IF_ERROR(reader.ForEach<RangeRow>(SliceOrder::kColumns, {}, [&](const RangeBatch& batch) {
    OpenRanges& open = threads[batch.thread];
    for (const SliceEdge& edge : order.Order(batch)) {
      if (!edge.is_begin) {
        open.End(edge.time_ns, stacks);
        continue;
      }
      const uint32_t around =
          open.stack() != RangePaths::kNone
              ? open.stack()
              : stacks.Inside(RangePaths::kNone, ThreadFrame(reader.threads()[batch.thread]));
      open.Begin(stacks.InsideRange(around, edge.name), edge.time_ns);
    }
    return out.status();
  }));
  if (stacks.empty()) {
    return absl::FailedPreconditionError("the capture has no ranges, so there is nothing to fold");
  }
  stacks.Write(out);
  return absl::OkStatus();
}

absl::Status WriteFoldedDevice(store::CaptureReader& reader, OutputBuffer& out) {
  if (reader.gpu_row_count() == 0) {
    return absl::FailedPreconditionError(
        "the capture has no work of a GPU; folded stacks of the CPU are format folded");
  }
  ASSIGN_OR_RETURN(report::GpuAttribution attribution, report::GpuAttribution::Build(reader));
  DeviceStacks devices(reader, std::move(attribution));
  RETURN_IF_ERROR(reader.ForEach<GpuRow>(kGpuTime | kGpuWhat | kGpuWhere | kGpuCause | kGpuCopy, {},
                                         [&](const GpuBatch& batch) {
                                           devices.Add(batch);
                                           return out.status();
                                         }));
  devices.stacks().Write(out);
  return absl::OkStatus();
}

}  // namespace profd::exporter
