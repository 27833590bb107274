#include "daemon/worker/background.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace profd::worker {
namespace {

// linux/ioprio.h is not in the C library's headers.
constexpr int kIoprioWhoProcess = 1;
constexpr int kIoprioClassIdle = 3;
constexpr int kIoprioClassShift = 13;
constexpr int kNicest = 19;

}  // namespace

void YieldToTraining() {
  const auto tid = static_cast<id_t>(syscall(SYS_gettid));  // Both take a thread's ID.
  setpriority(PRIO_PROCESS, tid, kNicest);
  syscall(SYS_ioprio_set, kIoprioWhoProcess, tid, kIoprioClassIdle << kIoprioClassShift);
}

}  // namespace profd::worker
