// StackFrames is what formats of stacks (folded, speedscope) show: Python functions above ranges
// and operators above GPU work, as report/index/host_slices.h nests them. A frame is one text.
//
// Threads: one.
// Memory:  that of HostSlices; 24 bytes per CUDA call; 16 bytes per slice of threads with ranges
//          that overlap; the text of each frame once.
// Errors:  the reader's.
#ifndef PROFD_DAEMON_EXPORT_STACKS_STACK_FRAMES_H_
#define PROFD_DAEMON_EXPORT_STACKS_STACK_FRAMES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "daemon/report/index/gpu_attribution.h"
#include "daemon/report/index/gpu_names.h"
#include "daemon/report/index/host_slices.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::exporter {

class StackFrames {
 public:
  // `reader` must outlive it.
  static absl::StatusOr<StackFrames> Build(store::CaptureReader& reader);

  const report::HostSlices& slices() const { return slices_; }
  // Texts of frames, valid UTF-8 without control characters; 0 is none. Valid until the next frame.
  std::span<const std::string> texts() const { return texts_; }

  uint32_t FrameOf(const report::HostSlice& slice);
  // "train.py(12): step" of a thread's row: its name, or "thread 4711".
  uint32_t FrameOfRow(uint32_t row);

  // Sums by stack of frames.
  struct Stack {
    uint32_t frame = 0;
    uint32_t caller = 0;  // Smaller than its own number; 0: none.
    uint64_t own_ns = 0;
  };
  // Host time: of each stack what no other slice inside of it took. Ranges that overlap others of
  // their thread are below that thread. There an instant belongs to the slice that began last, as
  // in report/index/overlaps.h, so that a thread's times add up to no more than passed.
  std::vector<Stack> HostTime();
  // The time of GPU work, below the slices that launched it; the outermost frame is the GPU.
  absl::StatusOr<std::vector<Stack>> DeviceTime();

 private:
  class Sums;

  explicit StackFrames(store::CaptureReader& reader) : reader_(reader) {}
  // The rows of each thread: its own first, those of its lanes after it.
  std::vector<std::vector<uint32_t>> RowsOfThreads() const;
  // Add host time to `stack_of`, the stacks of slices, of a row without lanes, and of one with
  // them.
  void AddOwnTimes(uint32_t row, std::span<const uint32_t> stack_of, Sums& sums);
  void AddSharedTimes(std::span<const uint32_t> rows, std::span<const uint32_t> stack_of,
                      Sums& sums);
  uint32_t FrameOfText(std::string text);
  uint32_t FrameOfWork(const GpuBatch& batch, size_t i);

  store::CaptureReader& reader_;
  report::HostSlices slices_;
  std::vector<std::string> texts_ = std::vector<std::string>(1);
  absl::flat_hash_map<std::string, uint32_t> by_text_;
  std::vector<uint32_t> by_name_;                      // Of ranges; 0: not asked for yet.
  std::vector<uint32_t> by_function_;                  // By node of the frame tree, likewise.
  absl::flat_hash_map<uint32_t, uint32_t> by_kernel_;  // By name.
  report::Demangler demangler_;
};

}  // namespace profd::exporter

#endif  // PROFD_DAEMON_EXPORT_STACKS_STACK_FRAMES_H_
