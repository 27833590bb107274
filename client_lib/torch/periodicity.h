// Steps of a capture that counts rounds of operators (StepSource::kPeriodicity): an observer of all
// operators but record_function()s, registered while such a capture is armed, and not otherwise.
//
// It is behind those of operators.cc, so that the mark that ends a step lies behind all of it.
// One thread is watched: the first that runs an operator, or another one once that has run
// many while the first ran none.
//
// Threads:  the observer any; OnArm(), OnLeave() the helper's, while the agent waits.
// Hot path: an outermost operator costs a hash of its name and some 50 ns; see period_detector.h.
//           No lock, no allocation.
// Fork:     a child is not watched.
#ifndef PROFD_CLIENT_LIB_TORCH_PERIODICITY_H_
#define PROFD_CLIENT_LIB_TORCH_PERIODICITY_H_

#include "client_lib/torch/torch_library.h"
#include "client_lib/torch/torch_source.h"

namespace profd::client::torch {

extern const TorchSource kPeriodicitySource;

// `library` must stay. From here on captures may ask for it.
void AttachPeriodicity(const TorchLibrary& library);

}  // namespace profd::client::torch

#endif  // PROFD_CLIENT_LIB_TORCH_PERIODICITY_H_
