// NVTX push/pop as something to compare with: with no tool's callback behind it, and with
// one that records what ours does (name, start, duration, 32 bytes) into a buffer.
#ifndef PROFD_TESTS_BENCH_NVTX_RECORDER_H_
#define PROFD_TESTS_BENCH_NVTX_RECORDER_H_

#if defined(PROFD_HAVE_NVTX)
#include <nvtx3/nvToolsExt.h>
#endif

namespace profd::bench {

#if defined(PROFD_HAVE_NVTX)
constexpr bool HaveNvtx() { return true; }
inline void NvtxPush(const char* name) { nvtxRangePushA(name); }
inline void NvtxPop() { nvtxRangePop(); }
#else
constexpr bool HaveNvtx() { return false; }
inline void NvtxPush(const char*) {}
inline void NvtxPop() {}
#endif

// Fills or empties the callback slots, as a tool does when it starts and stops.
void SetNvtxRecording(bool on);

}  // namespace profd::bench

#endif  // PROFD_TESTS_BENCH_NVTX_RECORDER_H_
