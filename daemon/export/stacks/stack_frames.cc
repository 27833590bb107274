#include "daemon/export/stacks/stack_frames.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/export/trace/layout.h"
#include "daemon/report/index/overlaps.h"
#include "daemon/report/index/place_index.h"
#include "daemon/report/index/step_names.h"

namespace profd::exporter {

using report::HostSlice;

// Stacks by their frames.
class StackFrames::Sums {
 public:
  uint32_t Inside(uint32_t caller, uint32_t frame) {
    const auto next = static_cast<uint32_t>(stacks_.size());
    const auto [at, inserted] = number_of_.try_emplace(std::pair(caller, frame), next);
    if (inserted) stacks_.push_back({.frame = frame, .caller = caller});
    return at->second;
  }
  // Unsigned, so that no number in a stranger's file can overflow.
  void Add(uint32_t stack, int64_t ns) {
    stacks_[stack].own_ns += static_cast<uint64_t>(std::max<int64_t>(0, ns));
  }
  std::vector<Stack> Take() { return std::move(stacks_); }

 private:
  std::vector<Stack> stacks_ = std::vector<Stack>(1);
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, uint32_t> number_of_;
};

absl::StatusOr<StackFrames> StackFrames::Build(store::CaptureReader& reader) {
  StackFrames frames(reader);
  ASSIGN_OR_RETURN(frames.slices_, report::HostSlices::Build(reader, {}));
  frames.by_name_.resize(reader.names().size());
  frames.by_function_.resize(frames.slices_.frames().size());
  return frames;
}

uint32_t StackFrames::FrameOfText(std::string text) {
  const auto next = static_cast<uint32_t>(texts_.size());
  const auto [at, inserted] = by_text_.try_emplace(text, next);
  if (inserted) texts_.push_back(std::move(text));
  return at->second;
}

uint32_t StackFrames::FrameOf(const HostSlice& slice) {
  if (slice.is_python) {
    uint32_t& frame = by_function_[slice.frame];
    if (frame == 0) {
      const report::FrameTree::Function& function = slices_.frames().FunctionOf(slice.frame);
      frame = FrameOfText(TraceName(function.module.empty()
                                        ? function.name
                                        : StrCat(report::kModulePrefix, function.module)));
    }
    return frame;
  }
  uint32_t& frame = by_name_[slice.name];
  if (frame == 0) {
    const std::string& name = reader_.names()[slice.name];
    // Steps are one frame.
    frame =
        FrameOfText(report::IsProfilerStep(name) ? std::string(report::kStepRow) : TraceName(name));
  }
  return frame;
}

uint32_t StackFrames::FrameOfRow(uint32_t row) {
  const std::span<const store::ReaderThread> threads = reader_.threads();
  for (uint32_t i = 0; i < threads.size(); ++i) {
    if (slices_.RowOf(i) != row) continue;
    return FrameOfText(threads[i].name.empty() ? StrCat("thread ", threads[i].os_thread)
                                               : TraceName(threads[i].name));
  }
  return FrameOfText("thread");
}

uint32_t StackFrames::FrameOfWork(const GpuBatch& batch, size_t i) {
  const auto kind = static_cast<GpuRowKind>(batch.kind[i]);
  if (kind != GpuRowKind::kKernel) {
    return FrameOfText(report::WorkName(kind, batch.copy_kind[i], batch.source_kind[i],
                                        batch.destination_kind[i]));
  }
  uint32_t& frame = by_kernel_[batch.name[i]];
  if (frame == 0) {
    frame = FrameOfText(TraceName(demangler_.Demangle(reader_.names()[batch.name[i]])));
  }
  return frame;
}

std::vector<std::vector<uint32_t>> StackFrames::RowsOfThreads() const {
  constexpr size_t kNone = std::numeric_limits<size_t>::max();
  const std::span<const store::ReaderThread> threads = reader_.threads();
  const std::vector<uint32_t> groups = report::OverlapGroups(threads);
  std::vector<std::vector<uint32_t>> rows;
  rows.reserve(slices_.row_count());
  std::vector<size_t> place_of_group(threads.size(), kNone);
  std::vector<bool> is_placed(slices_.row_count());
  for (const bool is_lane : {false, true}) {
    for (uint32_t i = 0; i < threads.size(); ++i) {
      const uint32_t row = slices_.RowOf(i);
      if (report::IsLane(threads[i]) != is_lane || is_placed[row]) continue;
      is_placed[row] = true;
      const bool is_grouped = groups[i] != report::kNoOverlaps;
      if (is_grouped && place_of_group[groups[i]] != kNone) {
        rows[place_of_group[groups[i]]].push_back(row);
        continue;
      }
      if (is_grouped) place_of_group[groups[i]] = rows.size();
      rows.push_back({row});
    }
  }
  return rows;
}

void StackFrames::AddOwnTimes(uint32_t row, std::span<const uint32_t> stack_of, Sums& sums) {
  const std::span<const HostSlice> slices = slices_.SlicesOf(row);
  std::vector<int64_t> inside_ns(slices.size());
  for (const HostSlice& slice : slices) {
    if (slice.parent != HostSlice::kNone) inside_ns[slice.parent] += slice.end_ns - slice.start_ns;
  }
  for (size_t i = 0; i < slices.size(); ++i) {
    sums.Add(stack_of[i], slices[i].end_ns - slices[i].start_ns - inside_ns[i]);
  }
}

// `stack_of` has the slices of all rows, one row after the other.
void StackFrames::AddSharedTimes(std::span<const uint32_t> rows, std::span<const uint32_t> stack_of,
                                 Sums& sums) {
  struct Piece {
    const HostSlice* slice;
    uint32_t position;  // In `stack_of`.
    bool is_lane;
  };
  std::vector<Piece> pieces;
  pieces.reserve(stack_of.size());
  for (const uint32_t row : rows) {
    for (const HostSlice& slice : slices_.SlicesOf(row)) {
      pieces.push_back({&slice, static_cast<uint32_t>(pieces.size()), row != rows.front()});
    }
  }
  // Of those that begin together, a range of a lane is around what its thread does. The slices of a
  // row keep their order.
  std::ranges::sort(pieces, std::less(), [](const Piece& piece) {
    return std::tuple(piece.slice->start_ns, !piece.is_lane, piece.position);
  });
  std::vector<const Piece*> open;  // By begin. Those that have ended leave once they are the last.
  int64_t now_ns = std::numeric_limits<int64_t>::min();
  const auto advance = [&](int64_t until_ns) {
    while (!open.empty() && now_ns < until_ns) {
      const Piece& last = *open.back();
      const int64_t to_ns = std::min(last.slice->end_ns, until_ns);
      if (to_ns > now_ns) {
        sums.Add(stack_of[last.position], static_cast<int64_t>(static_cast<uint64_t>(to_ns) -
                                                               static_cast<uint64_t>(now_ns)));
        now_ns = to_ns;
      }
      if (last.slice->end_ns <= now_ns) open.pop_back();
    }
    now_ns = std::max(now_ns, until_ns);
  };
  for (const Piece& piece : pieces) {
    advance(piece.slice->start_ns);
    open.push_back(&piece);
  }
  advance(std::numeric_limits<int64_t>::max());
}

std::vector<StackFrames::Stack> StackFrames::HostTime() {
  Sums sums;
  std::vector<uint32_t> stack_of;  // By slice.
  for (const std::vector<uint32_t>& rows : RowsOfThreads()) {
    stack_of.clear();
    for (const uint32_t row : rows) {
      const std::span<const HostSlice> of_row = slices_.SlicesOf(row);
      if (of_row.empty()) continue;
      const uint32_t thread = sums.Inside(0, FrameOfRow(rows.front()));
      const size_t first = stack_of.size();
      stack_of.reserve(first + of_row.size());
      for (const HostSlice& slice : of_row) {
        const bool is_outermost = slice.parent == HostSlice::kNone;
        stack_of.push_back(
            sums.Inside(is_outermost ? thread : stack_of[first + slice.parent], FrameOf(slice)));
      }
      if (rows.size() == 1) AddOwnTimes(row, stack_of, sums);
    }
    if (rows.size() > 1) AddSharedTimes(rows, stack_of, sums);
  }
  return sums.Take();
}

absl::StatusOr<std::vector<StackFrames::Stack>> StackFrames::DeviceTime() {
  ASSIGN_OR_RETURN(const report::GpuAttribution calls, report::GpuAttribution::BuildCalls(reader_));
  Sums sums;
  absl::flat_hash_map<std::tuple<uint16_t, uint32_t, uint32_t>, uint32_t> known;
  std::vector<uint32_t> frames;
  const auto stack_of = [&](uint16_t device, uint32_t row, uint32_t slice) {
    const auto [at, inserted] = known.try_emplace(std::tuple(device, row, slice));
    if (!inserted) return at->second;
    const uint32_t gpu = sums.Inside(0, FrameOfText(StrCat("GPU ", int{device})));
    frames.clear();
    for (; slice != HostSlice::kNone; slice = slices_.SlicesOf(row)[slice].parent) {
      frames.push_back(FrameOf(slices_.SlicesOf(row)[slice]));
    }
    uint32_t stack = gpu;
    for (size_t i = frames.size(); i-- > 0;) stack = sums.Inside(stack, frames[i]);
    at->second = stack;
    return stack;
  };
  RETURN_IF_ERROR(reader_.ForEach<GpuRow>(
      kGpuTime | kGpuWhat | kGpuWhere | kGpuCause | kGpuCopy, {}, [&](const GpuBatch& batch) {
        for (size_t i = 0; i < batch.size; ++i) {
          const auto* const call = calls.Find(batch.correlation[i]);
          uint32_t stack = 0;
          if (call == nullptr) {
            stack = sums.Inside(stack_of(batch.device[i], 0, HostSlice::kNone),
                                FrameOfText("(launch not recorded)"));
          } else {
            const uint32_t row = slices_.RowOf(call->thread);
            stack = stack_of(batch.device[i], row, slices_.At(row, call->start_ns));
          }
          sums.Add(sums.Inside(stack, FrameOfWork(batch, i)), batch.duration_ns[i]);
        }
        return absl::OkStatus();
      }));
  return sums.Take();
}

}  // namespace profd::exporter
