// ChromePython writes the Python of a capture with stacks into a Chrome trace, as torch.profiler
// does with `with_stack` and `with_modules`: its functions as `python_function` rows, and the `Call
// stack` of operators.
//
//   "Python id", "Python parent id"   of a function and its caller, from 1; the outermost function
//                                     has no parent
//   "Python module id"                of a module ("nn.Module: Linear_0"), among those of its class
//   "Module"                          where the module is in the model: "blocks.0.mlp";
//                                     torch.profiler does not write it
//   "Call stack"                      innermost first, a semicolon after each. Lines are those of
//                                     the calls; torch.profiler has the first lines of the
//                                     functions, as names of `python_function` rows have here, too
// A function lasts as report/index/host_slices.h says. Imported traces have their own
// `python_function` rows, and only the `Call stack` is written here.
//
// Threads: one. Errors: the reader's; those of the sink are in `out`.
// Memory:  that of HostSlices if the capture has stacks, else nothing; and the text of each frame.
#ifndef PROFD_DAEMON_EXPORT_CHROME_PYTHON_H_
#define PROFD_DAEMON_EXPORT_CHROME_PYTHON_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/export/sink/output_buffer.h"
#include "daemon/export/trace/clock.h"
#include "daemon/export/trace/layout.h"
#include "daemon/report/index/host_slices.h"
#include "daemon/report/index/stack_table.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::exporter {

class ChromePython {
 public:
  // What PutCallStack() writes at most. Of a longer stack the outermost frames are left out.
  static constexpr size_t kMostCallStackBytes = size_t{32} << 10;

  static absl::StatusOr<ChromePython> Make(store::CaptureReader& reader,
                                           const report::HostSlices::Options& options);

  // Distinct stacks of which frames are left out.
  int64_t cut_stack_count() const { return cut_stack_count_; }

  // `,"Call stack":"...;"` of a stack; nothing for 0.
  char* PutCallStack(char* at, uint32_t stack) const;
  // `rows`: `17,"ts":`, by thread. Outer functions come first, and before what they call, because
  // viewers keep the order of slices with equal times.
  void WriteFunctions(const TraceLayout& layout, std::span<const std::string> rows,
                      TraceClock clock, OutputBuffer& out) const;

 private:
  struct Frame {
    std::string text;  // With its semicolon, escaped.
    uint32_t caller = 0;
  };

  void ReadFrames(store::CaptureReader& reader, const report::StackTable& stacks);

  report::HostSlices slices_;
  std::vector<Frame> frames_;  // By stack.
  int64_t cut_stack_count_ = 0;
};

}  // namespace profd::exporter

#endif  // PROFD_DAEMON_EXPORT_CHROME_PYTHON_H_
