// Launchers: the threads that launch the work of a device, and which calls keep them from it.
//
//   main      ├─ forward ─┤├─ cudaStreamSynchronize ─┤├──── backward() waits ────┤
//   autograd                                             ├─ launch ─┤├─ launch ─┤
//   pinning       ├────────── cudaHostAlloc ──────────┤
//
// The call of main delays the launches of autograd, which did nothing meanwhile. That of the
// pinning thread delays none: it launches nothing, and no thread is known to wait for it.
//
// Threads: one. Memory: 8 bytes per launch.
#ifndef PROFD_DAEMON_REPORT_FINDINGS_LAUNCHERS_H_
#define PROFD_DAEMON_REPORT_FINDINGS_LAUNCHERS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/report/gpu/device_work.h"
#include "daemon/report/index/gpu_attribution.h"

namespace profd::report {

class Launchers {
 public:
  // `device`: a position in work.devices().
  Launchers(const DeviceWork& work, uint32_t device);

  bool Has(uint32_t thread) const { return starts_.contains(thread); }
  // Those that launch most first. Empty: no launch is recorded.
  std::span<const uint32_t> threads() const { return threads_; }
  // Whether `thread` launched nothing during `call` because of it: it made the call itself, or
  // another one that launches did.
  bool IsHeldUpBy(uint32_t thread, const GpuAttribution::Call& call) const;
  // Whether the one that launches most is held up. True where none is known.
  bool IsProgramHeldUpBy(const GpuAttribution::Call& call) const {
    return threads_.empty() || IsHeldUpBy(threads_.front(), call);
  }
  // Of all launches, the share that came before `time_ns`, 0..1; 0 without launches.
  double ShareBefore(int64_t time_ns) const;
  // Whether any of them made the call. True where none is known.
  bool MayHoldUp(const GpuAttribution::Call& call) const {
    return starts_.empty() || Has(call.thread);
  }

 private:
  absl::flat_hash_map<uint32_t, std::vector<int64_t>> starts_;  // Of launches, by time.
  std::vector<uint32_t> threads_;
};

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_FINDINGS_LAUNCHERS_H_
