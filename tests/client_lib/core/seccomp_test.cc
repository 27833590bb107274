// Filters of system calls that would end the program.
#include <errno.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stddef.h>
#include <sys/ioctl.h>
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

// From now on, connect() waits for an answer that is given at the returned descriptor; but not that
// of no descriptor, which the library makes to see what is allowed.
int AnswerConnects() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_connect, 0, 2),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ~0U, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
  };
  const sock_fprog filter{std::size(program), program};
  CHILD_EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  const long listener =
      syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &filter);
  CHILD_EXPECT(listener >= 0);
  return static_cast<int>(listener);
}

TEST(ConnectTest, WhoAsksDuringATryThatFailsGetsAnotherOneAtOnce) {
  // Of the waits, each twice as long as the one before, the last would be longer.
  constexpr int kTries = 9;
  constexpr int kAtOnceMs = 5000;
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent&) {
    const int listener = AnswerConnects();
    profd_init();
    for (int i = 0; i < kTries; ++i) {
      pollfd tried{listener, POLLIN, 0};
      CHILD_EXPECT(poll(&tried, 1, kAtOnceMs) == 1);
      seccomp_notif call{};
      CHILD_EXPECT(ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call) == 0);
      profd_init();
      seccomp_notif_resp answer{};
      answer.id = call.id;
      answer.error = -ECONNREFUSED;
      CHILD_EXPECT(ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer) == 0);
    }
  });
  child.ExpectSuccess();
}

}  // namespace
}  // namespace profd::testing
