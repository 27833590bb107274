// Advice that depends on what kind of program it is: torch.compile is no remedy for a C++ program,
// a fused optimizer none for a server, and CUDA graphs none for one that replays them already.
//
// Threads: any.
#ifndef PROFD_DAEMON_REPORT_FINDINGS_ADVICE_H_
#define PROFD_DAEMON_REPORT_FINDINGS_ADVICE_H_

#include <string>
#include <string_view>

#include "daemon/report/findings/facts.h"

namespace profd::report {

enum class ProgramKind {
  kTraining,      // PyTorch, with backward passes or optimizer steps, or unknown operators.
  kInference,     // PyTorch, and operators were recorded, but none of training.
  kWithoutTorch,  // No sign of PyTorch: no operators, no kernels of it.
};
ProgramKind KindOf(const Facts& facts);

// Most of its kernels come from CUDA graphs.
bool ReplaysGraphs(const Facts& facts);

// "25 calls that wait for the GPU (most of all cudaStreamSynchronize in aten::item)", of one step;
// empty: no more than a graph can leave outside.
std::string WaitsInStep(const Facts& facts);
// ", fused optimizers" if they can help; else empty.
std::string_view FusedOptimizersToo(const Facts& facts);
// What to do about kernels that are launched too slowly, or are too many.
std::string LaunchAdvice(const Facts& facts);
// About calls that wait for the GPU.
std::string WaitingAdvice(const Facts& facts);
// About waits for a data loader whose workers are not started again and again.
std::string LoaderAdvice(const Facts& facts);
// Whether the gaps of the host look like waits for Python's lock (python_lock.h), and other threads
// of the process run meanwhile.
bool MayWaitForPythonLock(const Facts& facts);
// " 21 gaps at different places took ...", or nothing if they do not.
std::string PythonLockClause(const Facts& facts);
// About long gaps of the host.
std::string LongGapAdvice(const Facts& facts);
// About many short gaps of the host between operators.
std::string OverheadAdvice(const Facts& facts);
// About elementwise kernels that follow each other.
std::string FusionAdvice(const Facts& facts);
// `can_hide`: there is enough compute to overlap with.
std::string CommunicationAdvice(const Facts& facts, bool can_hide);
// About steps that launch the same kernels, with gaps.
std::string GraphAdvice(const Facts& facts);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_FINDINGS_ADVICE_H_
