// The library's own descriptors, and the table that they are in.
//
// The agent thread has a descriptor table of its own where the kernel can give it one
// (close_range() with CLOSE_RANGE_UNSHARE, Linux 5.9). The program then cannot close our
// descriptors, and no mistake of ours can reach the program's files. The table holds nothing of
// the program's, so no pipe or file of the program is kept open.
//
// Elsewhere the agent stays in the program's table. The program may close any number there and
// get it again for a file of its own, so an OwnFile
//   - has a number from 512 on, where the limit of descriptors allows it,
//   - remembers device and inode, and compares them before each use,
//   - forgets a number that is no longer ours, and does not close it.
// What remains there is the moment between the comparison and the use. Callers use send() and
// recv(), which fail on what is not a socket.
//
// A thread shares the table of the thread that made it. So only the agent may call
// LeaveProgramFiles(), and it never makes a thread.
//
// Threads: the agent's, and OwnFile::Get() on its owner's. ResetInChild() on a forked child's only
//          thread.
#ifndef PROFD_CLIENT_LIB_CORE_OWN_FILES_H_
#define PROFD_CLIENT_LIB_CORE_OWN_FILES_H_

#include <atomic>
#include <cstdint>

namespace profd::client {

// Gives the calling thread an empty descriptor table of its own. False: the kernel cannot or may
// not do that, or a test forbids it; the thread stays in the program's table.
bool LeaveProgramFiles();

// Whether the calling thread has left the program's table.
bool HasLeftProgramFiles();

// Whether the agent of this process is still in it.
bool FilesAreShared();

// For tests: LeaveProgramFiles() fails from now on. Set from PROFD_TEST_SHARED_FILES when the
// library starts.
void ForbidOwnFiles(bool forbidden);

// Whether a seccomp filter looks at the calling thread's system calls.
bool HasSeccompFilter();

class OwnFile {
 public:
  constexpr OwnFile() = default;
  OwnFile(const OwnFile&) = delete;
  OwnFile& operator=(const OwnFile&) = delete;

  // Takes over `fd`, which the caller has just opened; closes what was held before.
  void Take(int fd);
  // The same without moving it to a high number: for a file that is used at once.
  void TakeInPlace(int fd);

  // The descriptor, or -1 if there is none. One that is no longer ours is forgotten.
  int Get();

  void Close();

  // A forked child closes what it inherited; a descriptor of the agent's own table it has not.
  void ResetInChild();

 private:
  void Remember(int fd);
  void Forget() { fd_.store(-1, std::memory_order_relaxed); }

  std::atomic<int> fd_{-1};
  // Set and compared in the program's table only.
  std::atomic<uint64_t> device_{0};
  std::atomic<uint64_t> inode_{0};
};

}  // namespace profd::client

#endif  // PROFD_CLIENT_LIB_CORE_OWN_FILES_H_
