#include "client_lib/core/safe_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

namespace profd::client {
namespace {

constexpr size_t kMostBytes = 4096;  // A pipe takes that much at once.

}  // namespace

SafeMemory::SafeMemory() {
  if (pipe2(ends_, O_CLOEXEC | O_NONBLOCK) != 0) ends_[0] = ends_[1] = -1;
}

SafeMemory::~SafeMemory() {
  if (ends_[0] < 0) return;
  close(ends_[0]);
  close(ends_[1]);
}

// By syscall(): a sanitizer's write() looks at the memory itself.
bool SafeMemory::Read(uint64_t address, void* into, size_t bytes) {
  if (ends_[0] < 0 || bytes > kMostBytes) return false;
  const auto written = syscall(SYS_write, ends_[1], address, bytes);
  if (written <= 0) return false;
  // What was written before the fault has to leave the pipe, too.
  return read(ends_[0], into, static_cast<size_t>(written)) == written &&
         static_cast<size_t>(written) == bytes;
}

bool SafeMemory::IsText(uint64_t address, const char* text) {
  char found[64];
  const size_t bytes = strlen(text) + 1;
  return bytes <= sizeof(found) && Read(address, found, bytes) && memcmp(found, text, bytes) == 0;
}

bool CopyFromPage(uint64_t address, void* into, size_t bytes) {
  const iovec local{into, bytes};
  const iovec remote{reinterpret_cast<void*>(address), bytes};  // NOLINT: it may point to nothing.
  const ssize_t copied = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
  if (copied < 0 && (errno == EPERM || errno == ENOSYS)) {
    return SafeMemory().Read(address, into, bytes);
  }
  return copied == static_cast<ssize_t>(bytes);
}

}  // namespace profd::client
