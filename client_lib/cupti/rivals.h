// Other profilers in this process, as far as its environment and its loaded libraries tell.
//
// Kineto, PyTorch's profiler, subscribes to CUPTI when torch.profiler is first used, and stays
// subscribed for the life of the process (torch 2.11). While it is idle it has no kind on and needs
// nothing of CUPTI, so a capture without a subscription disturbs neither. While it records, it
// does.
//
// Threads: the GPU thread's.
#ifndef PROFD_CLIENT_LIB_CUPTI_RIVALS_H_
#define PROFD_CLIENT_LIB_CUPTI_RIVALS_H_

namespace profd::client {

// Who may hold CUPTI, where CUPTI does not say. For people.
const char* GuessRival();

// Whether the holder of CUPTI's subscription may be Kineto: torch is loaded, and no tool is known
// that was injected.
bool HolderMayBeKineto();

// A function of torch: whether torch.profiler records on the main thread. Null: there is no torch,
// or one that does not say. It says false while a schedule warms up.
using TorchProfilerRecords = bool (*)();
TorchProfilerRecords FindTorchProfiler();

}  // namespace profd::client

#endif  // PROFD_CLIENT_LIB_CUPTI_RIVALS_H_
