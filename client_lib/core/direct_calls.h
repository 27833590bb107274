// System calls that bypass libc, and with it every tool that replaces libc's functions.
//
// Memory profilers replace libc's mmap(), munmap(), and prctl() in every library, and run their own
// code in the calling thread. The agent thread has its own descriptor table (own_files.h), so a
// descriptor that such code opens there may have the number of another file of the program. With
// memray 1.20, libunwind opened its pipe on the agent thread, and later closed the program's
// standard output. Therefore the agent calls the kernel directly.
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

// Sanitizers need to see memory being mapped and unmapped.
#ifdef PROFD_SANITIZED
inline void* Map(size_t bytes, int flags, int fd) {
  return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
}
inline void Unmap(void* memory, size_t bytes) { munmap(memory, bytes); }
#else
// Maps readable and writable memory. MAP_FAILED: out of memory.
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

// Names the calling thread: at most 15 bytes and a NUL.
inline void SetThreadName(const char* name) {
  syscall(SYS_prctl, PR_SET_NAME, name, 0UL, 0UL, 0UL);
}
// Writes the calling thread's name to `name`, of 16 bytes. False: seccomp forbids it.
inline bool GetThreadName(char* name) {
  return syscall(SYS_prctl, PR_GET_NAME, name, 0UL, 0UL, 0UL) == 0;
}

}  // namespace profd::client::direct

#endif  // PROFD_CLIENT_LIB_CORE_DIRECT_CALLS_H_
