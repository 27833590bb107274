// PyTorch's part in the process and in a capture, as core sees it. Declared here, in the folder
// that does it; core/torch_hooks.h is how core calls it without knowing torch.
//
//   import torch ──► Attach(): find symbols, prove offsets, register the observer of steps, of
//                      │  USER_SCOPE only, always on                    (steps.cc)
//                      └─► JoinCore(): from here on core calls
//   ARM   ───────────► OnArm(): what this capture wants; registers the observers of operators,
//                      disabled until a window is open                  (operators.cc)
//   flag on / off ───► OnFlag(): enables or disables the operators' observer and the
//                      allocators' hook, on whichever thread moved the flag
//   STOP  ───────────► OnStop(): asks Python who owns what; ready at once where it is not asked
//   DRAINED ◄──────── WriteBehind(): notes, blocks and the status, after the window
//
// Threads: as each function says. No function takes the GIL, or waits for one who has it.
// Errors:  what cannot be proved is switched off and named in a NoteEvent; nothing fails a capture.
#ifndef PROFD_CLIENT_LIB_TORCH_TORCH_PART_H_
#define PROFD_CLIENT_LIB_TORCH_TORCH_PART_H_

#include <cstdint>

#include "client_lib/core/torch_hooks.h"

namespace profd::client::torch {

// There is a torch of `version` in the process, and every source knows what of it works. From
// here on captures, also one that is armed already, have a part of torch's. Once; any thread.
void JoinCore(const char* version);

// What core calls; given to it by JoinCore(). See core/torch_hooks.h.
const TorchHooks& Hooks();

// Which of wire::TorchFeature work in this process; 0: there is no torch that we can use. Any
// thread.
uint32_t Features();

// Those that a capture of `wanted` asks this process for: what it cannot have, such as CUDA's
// memory without CUDA, is not asked for.
uint32_t FeaturesWanted(const wire::ArmTorchField& wanted);

// Whether a capture is armed that wants anything of torch; operators. Any thread.
bool IsWanted();
bool AreOperatorsWanted();

}  // namespace profd::client::torch

#endif  // PROFD_CLIENT_LIB_TORCH_TORCH_PART_H_
