// Filters of system calls that would end the program.
#include <grp.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <vector>

#include "tests/client_lib/child.h"
#include "tests/fakes/fake_daemon.h"
#include "tests/fakes/sanitized.h"

namespace profd::testing {
namespace {

// From now on, `verdict` for `call` in this thread and those that it makes.
void Filter(long call, uint32_t verdict) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(call), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, verdict),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{std::size(program), program};
  CHILD_EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  CHILD_EXPECT(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0);
}

TEST(SeccompTest, AFilterIsFoundInAProcessOfThousandsOfGroups) {
  if (geteuid() != 0) GTEST_SKIP() << "only root may join groups";
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent&) {
    std::vector<gid_t> groups;
    for (gid_t group = 1'000'000; group < 1'065'536; ++group) groups.push_back(group);
    CHILD_EXPECT(setgroups(groups.size(), groups.data()) == 0);
    Filter(SYS_membarrier, SECCOMP_RET_KILL_PROCESS);
    profd_init();
    CHILD_EXPECT(Status().disabled != 0);
  });
  child.ExpectSuccess();
}

// What the library calls in its threads, to make them, and in captures.
TEST(SeccompTest, AFilterThatKillsForACallOfTheLibraryKeepsItOff) {
  if (kSanitized) GTEST_SKIP() << "the sanitizer makes such calls, too";
  constexpr long kClone3 = 435;
  constexpr long kCloseRange = 436;
  constexpr long kFutexWaitv = 449;
  for (const long call : {long{SYS_clock_nanosleep},
                          kClone3,
                          kCloseRange,
                          long{SYS_connect},
                          long{SYS_fcntl},
                          kFutexWaitv,
                          long{SYS_geteuid},
                          long{SYS_getpriority},
                          long{SYS_getsockopt},
                          long{SYS_gettid},
                          long{SYS_lseek},
                          long{SYS_membarrier},
                          long{SYS_munmap},
                          long{SYS_nanosleep},
                          long{SYS_newfstatat},
                          long{SYS_pipe2},
                          long{SYS_prctl},
                          long{SYS_process_vm_readv},
                          long{SYS_recvmsg},
                          long{SYS_sendto},
                          long{SYS_set_robust_list},
                          long{SYS_setpriority},
                          long{SYS_signalfd4},
                          long{SYS_socket},
                          long{SYS_tgkill}}) {
    SCOPED_TRACE(call);
    FakeDaemon daemon;
    Child child(daemon.directory(), [call](Parent&) {
      Filter(call, SECCOMP_RET_KILL_PROCESS);
      profd_init();
      CHILD_EXPECT(Status().disabled != 0);
    });
    child.ExpectSuccess();
    EXPECT_FALSE(daemon.HasCaller());
  }
}

}  // namespace
}  // namespace profd::testing
