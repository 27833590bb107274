// Steps of a program that marks none: from the names of the few ranges that torch itself puts
// around an optimizer's step, a DataLoader's next batch, and a step of the program's own
// torch.profiler. step_detector.h has the rules; core/steps.h what a mark does.
//
// One observer, of USER_SCOPE alone. From 2.0 on torch copies its list of observers at every node
// of a backward pass, some 0.5 us each. So the observer is registered only while it is needed:
//
//   until the first optimizer's step   a program without one has no backward passes to pay for
//   while a capture is armed           for the ranges that a window begins or ends with, batches,
//                                      and torch.profiler's steps
//
// At other times torch's global hooks around Optimizer.step(), which the Python package installs,
// report the steps: two calls each. Without them (torch before 2.1, or optimizers that do not call
// them) the observer stays, and the metadata torch_observer says so to `profctl ps`. The first step
// of an optimizer that does not raise decides which of the two it is.
//
// torch calls it before those of operators.cc, so that a mark at a begin lies before what they
// write of the range. One at an end must lie after that: DeferStepEnd(), EndDeferredStep(). So a
// range lies wholly in the step that it belongs to.
//
// Threads:  ObserveSteps() once, by who attaches; the others on the optimizer's or range's thread.
// Hot path: without a capture two clock reads per optimizer step; with one, a comparison of some
//           bytes per record_function(). Operators are not seen at all. No lock, no allocation.
// Errors:   where torch takes no callback there are no steps but the program's own.
#ifndef PROFD_CLIENT_LIB_TORCH_STEPS_H_
#define PROFD_CLIENT_LIB_TORCH_STEPS_H_

#include "client_lib/torch/torch_library.h"
#include "client_lib/torch/torch_source.h"

namespace profd::client::torch {

extern const TorchSource kStepsSource;

// `library` must stay.
void ObserveSteps(const TorchLibrary& library);

// torch's hooks call this when the step() of an optimizer begins and ends, inside its range. `type`
// and `optimizer` are the addresses of its class and its own.
void OnOptimizerHook(uint64_t type, uint64_t optimizer, bool begins);

// `count` optimizers of a class train. The collector's thread, for each class there is.
void TellOptimizers(const char* class_name, uint32_t count);

// An observer after ours is about to write of the range `name` that begins: its end is told by
// EndDeferredStep(), once that is written, too. Ends of other ranges may be told as well.
void DeferStepEnd(const void* record_function, const char* name);
void EndDeferredStep(const void* record_function);

}  // namespace profd::client::torch

#endif  // PROFD_CLIENT_LIB_TORCH_STEPS_H_
