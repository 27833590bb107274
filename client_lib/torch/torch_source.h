// One thing that is recorded of PyTorch: steps, operators, memory. torch_part.cc has the list of
// them, and calls each through its TorchSource; a function that a source has no use for is null.
//
// How do I add a source?  Define a `const TorchSource`, declare it in a header of its own, and add
// it to kSources in torch_part.cc.
#ifndef PROFD_CLIENT_LIB_TORCH_TORCH_SOURCE_H_
#define PROFD_CLIENT_LIB_TORCH_TORCH_SOURCE_H_

#include <cstdint>

#include "proto/wire/event.h"
#include "proto/wire/frame.h"

namespace profd::client {

class LateWriter;

namespace torch {

struct TorchSource {
  // Those of wire::TorchFeature that work in this process. Any thread.
  uint32_t (*features)();
  // A capture is armed that wants `wanted`. The agent's thread.
  void (*on_arm)(const wire::ArmTorchField& wanted);
  // The capture's flag went on or off. Called with each change, by one thread at a time, which may
  // be inside a write and inside a callback of torch: no allocation, no waiting.
  void (*set_recording)(bool on);
  // Adds to the counts of the status, what was left out in this capture. The agent's thread, and
  // no thread records any more.
  void (*add_counts)(uint64_t* counts);
  // Why `feature`, one bit, does not work; null: it is not of this source, or does. As above.
  const char* (*why_missing)(uint32_t feature);
  // Writes what the source has to say after the window. As above.
  void (*write_behind)(LateWriter* writer);
  // The capture is over. The agent's thread.
  void (*on_leave)();
  // A forked child's only thread, in its fork handler.
  void (*reset_in_child)();
};

}  // namespace torch
}  // namespace profd::client

#endif  // PROFD_CLIENT_LIB_TORCH_TORCH_SOURCE_H_
