// The GPU of a scripted target: the software GPU of tests/cupti_standin, told what to do by
// commands that begin with "gpu":
//
//   gpu load FILE            loads the stand-in and makes its GPU, in real time
//   gpu load-virtual FILE    the same, in virtual time
//   gpu work [N]             N times the work of one training step (1); see StepWork()
//   gpu launch N [US [RATE]] N kernels of US microseconds (1), RATE per second (0: as fast as
//                            they can be launched)
//   gpu decompress BYTES     each step decompresses BYTES, too; 0: no longer
//   gpu outside              one kernel, launched outside any range
//   gpu module N             a module with one kernel is loaded, launched N times, unloaded
//   gpu set KEY VALUE | gpu fail SPEC | gpu rival NAME | gpu rival-gone | gpu steal
//   gpu clock-step NS | gpu settle | gpu truth-clear
//   gpu truth FILE           writes what really happened, one JSON object a line
//
// Each answers like any other command. With a GPU, a step of `train` does the work of one
// step, too.
#ifndef PROFD_TESTS_E2E_SCRIPTED_GPU_H_
#define PROFD_TESTS_E2E_SCRIPTED_GPU_H_

#include <sstream>
#include <string>

namespace profd::e2e {

// What to answer: "ok" or "error TEXT".
std::string HandleGpu(std::istringstream& words);

// The work of one training step; nothing before `gpu load`.
void StepWork();

}  // namespace profd::e2e

#endif  // PROFD_TESTS_E2E_SCRIPTED_GPU_H_
