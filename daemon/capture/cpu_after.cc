#include "daemon/capture/cpu_after.h"

#include <algorithm>

namespace profd {

void CpuAfter::AddTo(absl::Duration now, CpuRecord& cpu) const {
  const int64_t watched_ns = absl::ToInt64Nanoseconds(now - begin_);
  const std::vector<CpuTimes> times = read_();
  if (now - begin_ < kLeast || times.size() != times_.size() ||
      times.size() != cpu.threads.size()) {
    return;
  }
  cpu.after_watched_ns = watched_ns;
  for (size_t i = 0; i < times.size(); ++i) {
    if (times_[i].ran_ns < 0 || times[i].ran_ns < times_[i].ran_ns ||
        times[i].waited_ns < times_[i].waited_ns) {
      continue;  // It has ended; another thread may have its number.
    }
    // The kernel counts a wait when it ends, also what of it was before.
    cpu.threads[i].after_ran_ns = std::min(times[i].ran_ns - times_[i].ran_ns, watched_ns);
    cpu.threads[i].after_waited_ns = std::min(times[i].waited_ns - times_[i].waited_ns,
                                              watched_ns - cpu.threads[i].after_ran_ns);
  }
}

}  // namespace profd
