// CaptureDiff: what differs between captures of one program, before a change and after it: one
// capture on each side, or several, of which times are the means.
//
//   step      before ├── compute ──┤├ communication ┤├ idle ┤
//             after  ├─── compute ────┤├ communication ┤├ idle ┤
//   by name   operators and kernels: more calls, longer calls, new ones, and those that are gone
//
// All times are per step: a capture's sum over its number of steps. Of captures without steps they
// are per second of the windows. Operators and kernels are compared by name.
//
// The facts say how the captures differ otherwise: another program, GPU, or PyTorch, other work per
// step (FLOPs), something else recorded. Times may differ for that alone. Where a capture lost so
// many events that shares are withheld (daemon/capture/quality.h), only steps are compared.
//
// Threads: any. Errors: none; any numbers are safe.
#ifndef PROFD_DAEMON_REPORT_DIFF_CAPTURE_DIFF_H_
#define PROFD_DAEMON_REPORT_DIFF_CAPTURE_DIFF_H_

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/base/table/description.h"
#include "daemon/capture/capture_types.h"
#include "daemon/report/diff/step_change.h"
#include "daemon/report/findings/rank_excess.h"

namespace profd::report {

struct DiffCapture {
  CaptureRecord record;
  RankFigures figures;
  int64_t lost_event_count = 0;
};
using DiffSide = std::vector<DiffCapture>;

// A part of a step, the mean over the steps. The parts of one side, "gpu" or "host", add up to the
// step.
struct DiffPart {
  std::string side;
  std::string name;  // "compute"
  int64_t before_ns = 0;
  int64_t after_ns = 0;

  int64_t change_ns() const { return after_ns - before_ns; }
};

// An operator or a kernel.
struct DiffName {
  std::string name;
  double before_calls = 0;
  double after_calls = 0;
  int64_t before_ns = 0;  // Of an operator, self time; of a kernel, all of it.
  int64_t after_ns = 0;
  std::string why;  // "new", "gone", "longer calls", "more calls", ...; empty: as before.

  int64_t change_ns() const { return after_ns - before_ns; }
};

// What else differs.
struct DiffFact {
  std::string what;  // "GPU"
  std::string before;
  std::string after;
};

struct CaptureDiff {
  std::string before;  // IDs, with commas between them.
  std::string after;
  StepChange steps;
  std::string sentence;  // DescribeStepChange()
  // The part that changed most in the direction of the step, and the name in it that did; empty:
  // the step did not change, or none stands out.
  std::string why;
  // Of the facts below, those that alone make times differ: "rank, GPU"; empty: none.
  std::string other_work;
  std::string
      not_compared;       // Why parts, operators, and kernels are not, a sentence; empty: they are.
  bool per_step = false;  // Else per second.
  // Some steps are timed by their device, because the host runs ahead of it. Then parts, which are
  // of the host's steps, are not compared.
  bool by_device = false;
  bool operators_on_device = false;  // Their times are of GPUs; else of CPUs.
  std::vector<DiffFact> facts;
  std::vector<DiffPart> parts;      // Empty: a side has no steps.
  std::vector<DiffName> operators;  // By how much they changed, the most first.
  std::vector<DiffName> kernels;    // Likewise; empty: a capture has no GPU rows.
};

CaptureDiff DiffCaptures(const DiffSide& before, const DiffSide& after);

const table::Description<CaptureDiff>& DiffColumns();
const table::Description<DiffFact>& DiffFactColumns();
const table::Description<DiffPart>& DiffPartColumns();
const table::Description<DiffName>& DiffOperatorColumns();
const table::Description<DiffName>& DiffKernelColumns();

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_DIFF_CAPTURE_DIFF_H_
