// Reads memory that may not be there: an address is a guess until it has been read, and a name may
// go with its module. No hot path ever needs it.
//
// The kernel reads for us and says EFAULT where a load would be a fault: SafeMemory by write() to a
// pipe, CopyFromPage() by process_vm_readv() where that is allowed.
//
// Threads:   one at a time.
// Ownership: owns a pipe while it lives.
// Errors:    Read() says false for what cannot be read, and for everything where no pipe could be
//            had.
#ifndef PROFD_CLIENT_LIB_CORE_SAFE_MEMORY_H_
#define PROFD_CLIENT_LIB_CORE_SAFE_MEMORY_H_

#include <cstddef>
#include <cstdint>

namespace profd::client {

class SafeMemory {
 public:
  SafeMemory();
  ~SafeMemory();
  SafeMemory(const SafeMemory&) = delete;
  SafeMemory& operator=(const SafeMemory&) = delete;

  // Copies `bytes`, at most 4,096, from `address`. False: not all of them can be read.
  bool Read(uint64_t address, void* into, size_t bytes);

  bool Read(const void* address, void* into, size_t bytes) {
    return Read(reinterpret_cast<uint64_t>(address), into, bytes);
  }

  // Whether `text` and its terminator stand at `address`.
  bool IsText(uint64_t address, const char* text);

 private:
  int ends_[2] = {-1, -1};
};

// Copies `bytes`, all of one page, from `address`. False: they cannot be read. Any thread.
// Without the privilege or the system call, as in some containers, it opens a pipe for the moment.
bool CopyFromPage(uint64_t address, void* into, size_t bytes);

// The word at `at` in `bytes`.
inline uint64_t WordAt(const uint8_t* bytes, size_t at) {
  uint64_t word;
  __builtin_memcpy(&word, bytes + at, sizeof(word));
  return word;
}

}  // namespace profd::client

#endif  // PROFD_CLIENT_LIB_CORE_SAFE_MEMORY_H_
