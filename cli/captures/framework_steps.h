// The numbers that a framework has for the steps of a capture (step_labels.h), for text that names
// steps.
//
// Threads: any, one source each.
// Errors:  none: without them, steps have the capture's numbers only.
#ifndef PROFD_CLI_CAPTURES_FRAMEWORK_STEPS_H_
#define PROFD_CLI_CAPTURES_FRAMEWORK_STEPS_H_

#include "cli/captures/capture_source.h"
#include "daemon/report/index/step_labels.h"

namespace profd::cli {

// Asks for a report only if the capture may have such numbers.
report::FrameworkSteps FrameworkStepsOf(CaptureSource& source);

}  // namespace profd::cli

#endif  // PROFD_CLI_CAPTURES_FRAMEWORK_STEPS_H_
