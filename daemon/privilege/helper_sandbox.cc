#include "daemon/privilege/helper_sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <iterator>

namespace profd {
namespace {

constexpr bool kSanitized =
#ifdef PROFD_SANITIZED
    true;
#else
    false;
#endif

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
#error "no system call filter for this processor"
#endif

constexpr int kAllowed[] = {
    SYS_read,    SYS_close,    SYS_newfstatat, SYS_fstat,        SYS_readlinkat,      SYS_ppoll,
    SYS_recvmsg, SYS_sendto,   SYS_exit_group, SYS_rt_sigreturn, SYS_restart_syscall,
#if defined(__x86_64__)
    SYS_poll,    SYS_readlink,
#endif
};

constexpr uint32_t kLowFlags = offsetof(seccomp_data, args) + 2 * sizeof(uint64_t);
constexpr uint32_t kWriteFlags = O_ACCMODE | O_CREAT | O_TRUNC;

}  // namespace

bool CloseOtherDescriptors(int connection) {
  return syscall(SYS_close_range, static_cast<unsigned>(connection) + 1, ~0U, 0) == 0 ||
         errno == ENOSYS;
}

bool KeepNeededCapabilities() {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct sets[2] = {};
  if (syscall(SYS_capget, &header, sets) != 0) return false;
  constexpr uint32_t kNeeded = 1U << CAP_SYS_PTRACE | 1U << CAP_DAC_READ_SEARCH;
  sets[0] = {.effective = sets[0].permitted & kNeeded,
             .permitted = sets[0].permitted & kNeeded,
             .inheritable = 0};
  sets[1] = {};
  return syscall(SYS_capset, &header, sets) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}

bool AllowOnlyNeededSystemCalls() {
  if (kSanitized) return true;
  constexpr size_t kCount = std::size(kAllowed);
  // Checks the processor, then openat(), then the list; everything else is EPERM.
  sock_filter filter[9 + 2 * kCount + 1];
  size_t n = 0;
  const auto add = [&](sock_filter instruction) { filter[n++] = instruction; };
  add(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)));
  add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0));
  add(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
  add(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)));
  add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 4));
  // A filter loads 32 bits at a time; the flags of openat() are in the low half of its third
  // argument.
  add(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kLowFlags));
  add(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, kWriteFlags, 1, 0));
  add(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  add(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
  for (const int number : kAllowed) {
    add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 1));
    add(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  }
  add(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
  const sock_fprog program{.len = static_cast<unsigned short>(n), .filter = filter};
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

}  // namespace profd
