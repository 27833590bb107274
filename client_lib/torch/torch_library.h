// TorchLibrary is the libtorch of this process: found among what the loader has mapped, and its
// functions by their names. Never linked, never loaded by us, never closed.
//
// Where it is looked for, in this order:
//   1. libtorch_cpu.so, with or without a version after it: where wheels, conda and
//      distributions have it;
//   2. the program itself and what it was linked with, for builds that have no such library.
//
// Threads:   FindTorch() any, once. What it found is constant.
// Ownership: the loader's; torch is kept mapped for ever, since callbacks lead from it to us.
// Errors:    FindTorch() says what is missing, in words for people. Two copies of torch in one
//            process are refused: it would be unknown whose operators were seen.
#ifndef PROFD_CLIENT_LIB_TORCH_TORCH_LIBRARY_H_
#define PROFD_CLIENT_LIB_TORCH_TORCH_LIBRARY_H_

#include <cstddef>
#include <cstdint>

#include "client_lib/torch/torch_abi.h"

namespace profd::client::torch {

struct TorchLibrary {
  // Callbacks: registering one costs every operator something, unless it is disabled. Each takes
  // a lock of torch's for a moment; a thread sees the change at its next operator.
  uint64_t (*add_callback)(RecordFunctionCallback callback);
  void (*remove_callback)(uint64_t handle);
  void (*disable_callback)(uint64_t handle);
  void (*reenable_callback)(uint64_t handle);

  // Of a RecordFunction, inside a callback. The text need not outlive the callback.
  const char* (*name)(const void* record_function);
  // Null where torch has none. An async one may end on another thread.
  bool (*is_async)(const void* record_function);
  size_t (*input_count)(const void* record_function);

  // To make a RecordFunction of our own, as torch's macros do. One of the two `before`s is null.
  void (*construct)(void* record_function, uint8_t scope);
  void (*before)(void* record_function, const char* name, int64_t sequence);
  void (*before_variant)(void* record_function, NameOrSchema name, int64_t sequence);
  void (*destroy)(void* record_function);
  // torch's number of the calling thread.
  uint64_t (*current_thread)();

  // How many nodes autograd has made on the calling thread: it grows with each forward pass. Null
  // where torch does not tell.
  uint64_t (*autograd_nodes)();

  // The one tensor that stands for no tensor; null where torch does not tell.
  const void* undefined_tensor;

  char path[512];  // "" for the program itself.
};

// False: there is no torch that we can use; `why` says so.
bool FindTorch(TorchLibrary* library, char* why, size_t why_bytes);

}  // namespace profd::client::torch

#endif  // PROFD_CLIENT_LIB_TORCH_TORCH_LIBRARY_H_
