// From an operator's inputs, as torch has them in memory, to the inputs after an OperatorEvent.
//
// Threads:  any.
// Hot path: loads from places that tensor_layout.h has proved, and stores. Nothing of torch is
//           called: a method of a tensor may be Python. No lock, no allocation.
// Errors:   what does not look like a tensor, list or string is given as kOther, and counted; what
//           finds no room is left out, and counted.
#ifndef PROFD_CLIENT_LIB_TORCH_OPERATOR_INPUTS_H_
#define PROFD_CLIENT_LIB_TORCH_OPERATOR_INPUTS_H_

#include <atomic>
#include <cstdint>

#include "client_lib/torch/tensor_layout.h"
#include "client_lib/torch/torch_abi.h"
#include "proto/wire/event.h"

namespace profd::client::torch {

// Which inputs are wanted; no more than is proved.
struct InputOptions {
  bool strides;
  bool storages;
};

struct InputCounts {
  std::atomic<uint64_t> cut;          // Operators of whose inputs something was left out, or cut.
  std::atomic<uint64_t> odd_tensors;  // Those that did not look like one.
};

// Writes what fits of `count` inputs after `record`, which has room for wire::kMaxEventBytes, and
// sets its input_count and described_count. Returns the bytes of the whole record.
uint32_t DescribeInputs(const TensorLayout& layout, const InputOptions& options,
                        const IValue* inputs, uint64_t count, wire::OperatorEvent* record,
                        InputCounts* counts);

}  // namespace profd::client::torch

#endif  // PROFD_CLIENT_LIB_TORCH_OPERATOR_INPUTS_H_
