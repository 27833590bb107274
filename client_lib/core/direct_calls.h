// Calls of the kernel that no tool sees.
//
// Memory profilers replace libc's mmap(), munmap(), and prctl() in every library, and run code of
// their own in the thread that calls. The agent's descriptor table is not the program's
// (own_files.h), so a descriptor that such code opens there has a number that means another file in
// the program. With memray 1.20, libunwind opened its pipe there, and later closed the program's
// standard output. What the agent may call has to go past the tools.
//
// Threads: any. Errors: as the functions of libc, errno included.
#ifndef PROFD_CLIENT_LIB_CORE_DIRECT_CALLS_H_
#define PROFD_CLIENT_LIB_CORE_DIRECT_CALLS_H_

#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace profd::client::direct {

// A sanitizer has to see memory come and go.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline void* Map(size_t bytes, int flags, int fd) {
  return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
}
inline void Unmap(void* memory, size_t bytes) { munmap(memory, bytes); }
#else
// Readable and writable memory; MAP_FAILED: there is none.
inline void* Map(size_t bytes, int flags, int fd) {
  const auto address =
      syscall(SYS_mmap, nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd, off_t{0});
  return reinterpret_cast<void*>(address);
}
inline void Unmap(void* memory, size_t bytes) { syscall(SYS_munmap, memory, bytes); }
#endif

inline bool Advise(void* memory, size_t bytes, int advice) {
  return syscall(SYS_madvise, memory, bytes, advice) == 0;
}

// At most 15 bytes, and a NUL.
inline void SetThreadName(const char* name) {
  syscall(SYS_prctl, PR_SET_NAME, name, 0UL, 0UL, 0UL);
}

}  // namespace profd::client::direct

#endif  // PROFD_CLIENT_LIB_CORE_DIRECT_CALLS_H_
