// Steps of a program that marks none: from the names of the few ranges that torch itself puts
// around an optimizer's step, a DataLoader's next batch, and a step of the program's own
// torch.profiler. step_detector.h has the rules; core/steps.h what a mark does.
//
// Two observers, both of USER_SCOPE alone, both always on: the first is registered before the
// operators' and makes the marks that lie at begins, the second behind it and makes those that lie
// at ends. So a range lies wholly in the step that it belongs to. operators.cc registers its own
// between the two.
//
// Threads:  ObserveBegins() once, ObserveEnds() one at a time, by who attaches.
// Hot path: per record_function() of the program one comparison of some bytes, beside what torch
//           does for calling anybody; operators are not seen at all. No lock, no allocation.
// Errors:   where torch takes no callback there are no steps but the program's own.
#ifndef PROFD_CLIENT_LIB_TORCH_STEPS_H_
#define PROFD_CLIENT_LIB_TORCH_STEPS_H_

#include "client_lib/torch/torch_library.h"
#include "client_lib/torch/torch_source.h"

namespace profd::client::torch {

extern const TorchSource kStepsSource;

// `library` must stay. ObserveEnds() again moves that observer behind those registered since.
void ObserveBegins(const TorchLibrary& library);
void ObserveEnds(const TorchLibrary& library);

}  // namespace profd::client::torch

#endif  // PROFD_CLIENT_LIB_TORCH_STEPS_H_
