#include "daemon/ingest/mapped_memfd.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <utility>

#include "daemon/base/str_cat.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

namespace profd {
namespace {

absl::Status Exhausted(const char* what, const char* name, uint64_t bytes) {
  return absl::ResourceExhaustedError(
      StrCat(what, " of ", bytes, " bytes for ", name, ": ", strerror(errno)));
}

// MFD_NOEXEC_SEAL came with Linux 6.3 and silences its warning about memfds without it.
int OpenMemfd(const char* name) {
  const int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
  if (fd >= 0 || errno != EINVAL) return fd;
  return memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
}

}  // namespace

absl::StatusOr<MappedMemfd> MappedMemfd::Create(const char* name, uint64_t bytes) {
  MappedMemfd memory;
  memory.fd_.Reset(OpenMemfd(name));
  if (!memory.fd_.valid()) return Exhausted("memfd", name, bytes);
  if (ftruncate(memory.fd(), static_cast<off_t>(bytes)) != 0) {
    return Exhausted("memfd", name, bytes);
  }
  // The target gets a descriptor of this memory. If it could shrink the file, the daemon's next
  // access would be a SIGBUS. F_SEAL_SEAL keeps the target from adding seals of its own, such as
  // one against writing.
  if (fcntl(memory.fd(), F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0) {
    return Exhausted("seals", name, bytes);
  }
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.fd(), 0);
  if (data == MAP_FAILED) return Exhausted("mapping", name, bytes);
  memory.data_ = static_cast<std::byte*>(data);
  memory.size_bytes_ = bytes;
  return memory;
}

MappedMemfd::MappedMemfd(MappedMemfd&& other) noexcept
    : fd_(std::move(other.fd_)),
      data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)) {}

MappedMemfd& MappedMemfd::operator=(MappedMemfd&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

MappedMemfd::~MappedMemfd() {
  if (data_ != nullptr) munmap(data_, size_bytes_);
}

bool MappedMemfd::Allocate(uint64_t from, uint64_t to) {
  int result;
  do {
    // Pages exist before anyone may write to them. A write to a page for which there is no memory
    // would end the writer, and that is the training process.
    result = fallocate(fd_.get(), 0, static_cast<off_t>(from), static_cast<off_t>(to - from));
  } while (result != 0 && errno == EINTR);
  return result == 0;
}

void MappedMemfd::Populate(uint64_t from, uint64_t to) {
  const auto page_bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  from = from / page_bytes * page_bytes;
  // Only a saving of time: before Linux 5.14 it fails, and the pages are mapped when they are
  // touched.
  madvise(data_ + from, to - from, MADV_POPULATE_WRITE);
}

void MappedMemfd::Free() {
  // The seals forbid a change of size, which a hole is not.
  fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
            static_cast<off_t>(size_bytes_));
}

}  // namespace profd
