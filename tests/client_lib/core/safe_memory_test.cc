#include "client_lib/core/safe_memory.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

namespace profd::client {
namespace {

constexpr size_t kPageBytes = 4096;

// A page with a text at its end: to read on is to leave the page.
class Page {
 public:
  Page()
      : at_(static_cast<char*>(mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    strcpy(at_ + kPageBytes - 6, "hello");
  }
  ~Page() { munmap(at_, kPageBytes); }
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;

  void Protect() { mprotect(at_, kPageBytes, PROT_NONE); }
  uint64_t text() const { return reinterpret_cast<uint64_t>(at_) + kPageBytes - 6; }

 private:
  char* at_;
};

// Not below qemu-user, which on aarch64 has no process_vm_readv() to forbid.
bool HasFilters() { return prctl(PR_GET_SECCOMP, 0, 0, 0, 0) >= 0; }

// From now on process_vm_readv() fails with `error`, as in a container that forbids it.
void ForbidReadingProcesses(int error) {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<uint32_t>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{4, code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) abort();
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) abort();
}

// Whether what is there is read, and what is not there is not.
bool ReadsWhatIsThere() {
  Page page;
  char text[6] = "";
  if (!CopyFromPage(page.text(), text, sizeof(text)) || strcmp(text, "hello") != 0) return false;
  page.Protect();
  return !CopyFromPage(page.text(), text, sizeof(text)) && !CopyFromPage(8, text, sizeof(text));
}

TEST(CopyFromPageTest, ReadsWhatIsThereAndNothingElse) { EXPECT_TRUE(ReadsWhatIsThere()); }

TEST(CopyFromPageTest, WhereProcessesMayNotBeReadItDoesToo) {
  if (!HasFilters()) GTEST_SKIP() << "no seccomp filters";
  for (const int error : {EPERM, ENOSYS}) {
    EXPECT_EXIT(
        {
          ForbidReadingProcesses(error);
          _exit(ReadsWhatIsThere() ? 0 : 1);
        },
        ::testing::ExitedWithCode(0), "")
        << error;
  }
}

TEST(CopyFromPageTest, WithoutDescriptorsNothingIsReadThere) {
  if (!HasFilters()) GTEST_SKIP() << "no seccomp filters";
  EXPECT_EXIT(
      {
        ForbidReadingProcesses(EPERM);
        rlimit none;
        none.rlim_cur = none.rlim_max = 0;
        setrlimit(RLIMIT_NOFILE, &none);
        Page page;
        char text[6];
        _exit(CopyFromPage(page.text(), text, sizeof(text)) ? 1 : 0);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace profd::client
