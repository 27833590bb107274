#include "daemon/report_worker/sandbox.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/unique_fd.h"
#include "daemon/worker/background.h"
#include "daemon/worker/frames.h"

namespace profd::report_worker {
namespace {

#ifdef PROFD_SANITIZED
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// stdin, stdout, stderr, the socket, and the capture of one request with some to spare.
constexpr rlim_t kMaxDescriptors = 16;

absl::Status Check(int result, std::string_view what) {
  return result == 0 ? absl::OkStatus() : absl::ErrnoToStatus(errno, ToAbsl(what));
}

absl::Status Limit(int resource, rlim_t most, std::string_view name) {
  const rlimit limit = {.rlim_cur = most, .rlim_max = most};
  return Check(setrlimit(static_cast<__rlimit_resource>(resource), &limit), name);
}

void PreferToEndUs() {
  const UniqueFd file(open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
  constexpr std::string_view kFirst = "1000";
  // Without /proc the kernel decides by size.
  if (file.valid() && write(file.get(), kFirst.data(), kFirst.size()) < 0) return;
}

absl::Status DropCapabilities() {
  __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  std::array<__user_cap_data_struct, 2> none{};
  return Check(static_cast<int>(syscall(SYS_capset, &header, none.data())), "capset");
}

// Pages that are mapped now, all in all.
int64_t AddressSpaceBytes() {
  const UniqueFd file(open("/proc/self/statm", O_RDONLY | O_CLOEXEC));
  std::array<char, 64> text{};
  constexpr int64_t kGuess = int64_t{256} << 20;  // Without /proc.
  if (!file.valid() || read(file.get(), text.data(), text.size() - 1) <= 0) return kGuess;
  return std::strtoll(text.data(), nullptr, 10) * sysconf(_SC_PAGESIZE);
}

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr uint32_t kArchitecture = 0;
#endif

// What reading a descriptor, computing, and talking over a socket take. fstat() of the C library is
// newfstatat(): it can tell about other files, but not open them.
constexpr int kAllowedCalls[] = {
    SYS_read,
    SYS_pread64,
    SYS_write,
    SYS_close,
    SYS_recvfrom,
    SYS_recvmsg,
    SYS_sendto,
    SYS_sendmsg,
    SYS_newfstatat,
    SYS_fstat,
    SYS_lseek,
    SYS_munmap,
    SYS_mremap,
    SYS_madvise,
    SYS_brk,
    SYS_futex,
    SYS_clock_gettime,
    SYS_gettimeofday,
    SYS_getrandom,
    SYS_getpid,
    SYS_gettid,
    SYS_sched_yield,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_sigaltstack,
    SYS_tgkill,
    SYS_exit,
    SYS_exit_group,
    SYS_sysinfo,
    SYS_restart_syscall,
};
// Memory that is executable is refused: their third argument tells.
constexpr int kMappingCalls[] = {SYS_mmap, SYS_mprotect};

std::vector<sock_filter> MakeFilter() {
  constexpr uint32_t kRefuse = SECCOMP_RET_ERRNO | EPERM;
  std::vector<sock_filter> filter = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
      // Numbers of system calls differ between architectures: a 32-bit call must not be taken for
      // the 64-bit one of that number.
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
  };
  for (const int call : kAllowedCalls) {
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(call), 0, 1));
    filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  }
  for (const int call : kMappingCalls) {
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(call), 0, 4));
    filter.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2])));
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 1, 0));
    filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    filter.push_back(BPF_STMT(BPF_RET | BPF_K, kRefuse));
  }
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, kRefuse));
  return filter;
}

absl::Status FilterSystemCalls() {
  if (kArchitecture == 0) {
    std::fputs("profd-report: no seccomp filter for this architecture\n", stderr);
    return absl::OkStatus();
  }
  std::vector<sock_filter> filter = MakeFilter();
  sock_fprog program = {.len = static_cast<uint16_t>(filter.size()), .filter = filter.data()};
  return Check(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), "seccomp");
}

// profd ends us; a service manager that signals the whole group must not.
void IgnoreSignals() {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGPIPE, SIGXFSZ}) {
    ::signal(signal, SIG_IGN);
  }
}

}  // namespace

absl::Status EnterSandbox(pid_t parent, int64_t max_memory_bytes, bool yields_to_training) {
  IgnoreSignals();
  RETURN_IF_ERROR(Check(prctl(PR_SET_PDEATHSIG, SIGKILL), "PR_SET_PDEATHSIG"));
  // If profd ended before prctl(), the signal never comes.
  if (getppid() != parent) return absl::UnavailableError("profd has ended");
  if (yields_to_training) worker::YieldToTraining();
  PreferToEndUs();
  // The limit counts address space, of which libraries and stacks take much that is never touched.
  // It is on top of what is mapped now.
  const int64_t mapped_bytes = AddressSpaceBytes();

  // Refused by some kernels and service managers; then the filter alone keeps it off the network.
  (void)unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWIPC);
  // The kernel lets a process without privileges set a filter only after this.
  RETURN_IF_ERROR(Check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "PR_SET_NO_NEW_PRIVS"));
  RETURN_IF_ERROR(DropCapabilities());
  RETURN_IF_ERROR(Limit(RLIMIT_CORE, 0, "RLIMIT_CORE"));
  if (kSanitized) return absl::OkStatus();
  RETURN_IF_ERROR(Check(prctl(PR_SET_DUMPABLE, 0), "PR_SET_DUMPABLE"));
  RETURN_IF_ERROR(Limit(RLIMIT_NOFILE, kMaxDescriptors, "RLIMIT_NOFILE"));
  RETURN_IF_ERROR(Limit(RLIMIT_NPROC, 0, "RLIMIT_NPROC"));
  RETURN_IF_ERROR(Limit(RLIMIT_FSIZE, 0, "RLIMIT_FSIZE"));
  RETURN_IF_ERROR(
      Limit(RLIMIT_AS, static_cast<rlim_t>(mapped_bytes + max_memory_bytes), "RLIMIT_AS"));
  return FilterSystemCalls();
}

}  // namespace profd::report_worker
