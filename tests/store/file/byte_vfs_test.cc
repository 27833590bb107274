#include "daemon/store/file/byte_vfs.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sqlite3.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <iterator>

namespace profd::store {
namespace {

// From now on, getrandom() fails in this process.
bool RefuseRandomNumbers() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getrandom, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{std::size(program), program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

TEST(ByteVfsTest, RandomnessIsACountOfBytes) {
  ASSERT_EQ(RegisterByteVfs(), SQLITE_OK);
  sqlite3_vfs* const vfs = sqlite3_vfs_find(kByteVfs);
  ASSERT_NE(vfs, nullptr);
  std::array<char, 64> bytes;
  bytes.fill('x');
  EXPECT_EQ(vfs->xRandomness(vfs, bytes.size(), bytes.data()), int{bytes.size()});
  EXPECT_NE(std::ranges::count(bytes, 'x'), std::ssize(bytes));
  EXPECT_EQ(vfs->xRandomness(vfs, 0, bytes.data()), 0);
}

TEST(ByteVfsTest, WithoutRandomNumbersItGivesNoneAndZeros) {
  ASSERT_EQ(RegisterByteVfs(), SQLITE_OK);
  sqlite3_vfs* const vfs = sqlite3_vfs_find(kByteVfs);
  const pid_t child = fork();
  if (child == 0) {
    std::array<char, 64> bytes;
    bytes.fill('x');
    if (!RefuseRandomNumbers()) _exit(2);
    if (vfs->xRandomness(vfs, bytes.size(), bytes.data()) != 0) _exit(3);
    _exit(std::ranges::count(bytes, '\0') == std::ssize(bytes) ? 0 : 4);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace profd::store
