// Python stacks and modules of operators, as one of the sources of torch_part.cc. What reads them
// is client_lib/python_stack; operators.cc asks it for the stack of each operator.
#ifndef PROFD_CLIENT_LIB_TORCH_PYTHON_STACKS_H_
#define PROFD_CLIENT_LIB_TORCH_PYTHON_STACKS_H_

#include "client_lib/torch/torch_source.h"

namespace profd::client::torch {

extern const TorchSource kStackSource;

}  // namespace profd::client::torch

#endif  // PROFD_CLIENT_LIB_TORCH_PYTHON_STACKS_H_
