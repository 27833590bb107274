// What NVTX calls: the functions of each slot that we fill.
//
// Threads:  any thread of the program.
// Hot path: push and pop cost what profd_range_begin() and _end() do, and the look-up of the
//           name (tests/bench/hot_path_benchmark.cc). They neither lock nor allocate.
// Errors:   nothing is thrown, and what a program gets back is the same whether a capture
//           runs or not, but for ids of start/end ranges, which are 0 without.
#ifndef PROFD_CLIENT_LIB_NVTX_NVTX_CALLBACKS_H_
#define PROFD_CLIENT_LIB_NVTX_NVTX_CALLBACKS_H_

#include <cstdint>

#include "client_lib/nvtx/nvtx_abi.h"

namespace profd::client::nvtx {

// The function table of one module of a shared object; empty where it has none.
struct Slots {
  FunctionTable table = nullptr;
  unsigned int size = 0;
};

// Fills or empties the slots of ranges and marks, which are ours while a capture is armed.
void SetRangeCallbacks(const Slots& core, const Slots& core2, bool on);

// Fills those of what lasts: what they return or are told is needed in captures to come.
void SetHandleCallbacks(const Slots& core, const Slots& core2);

}  // namespace profd::client::nvtx

#endif  // PROFD_CLIENT_LIB_NVTX_NVTX_CALLBACKS_H_
