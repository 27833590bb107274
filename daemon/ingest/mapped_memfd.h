// MappedMemfd: anonymous memory that is shared with a target by its descriptor, sealed so
// that no holder of the descriptor can take bytes away under our feet (SIGBUS) or add some.
//
// Threads:   the mapping may be read and written by any; the rest is for its owner.
// Ownership: owns mapping and descriptor.
#ifndef PROFD_DAEMON_INGEST_MAPPED_MEMFD_H_
#define PROFD_DAEMON_INGEST_MAPPED_MEMFD_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/base/unique_fd.h"

namespace profd {

class MappedMemfd {
 public:
  // RESOURCE_EXHAUSTED: no memory, descriptors or address space.
  static absl::StatusOr<MappedMemfd> Create(const char* name, uint64_t bytes);

  MappedMemfd() = default;
  MappedMemfd(MappedMemfd&& other) noexcept;
  MappedMemfd& operator=(MappedMemfd&& other) noexcept;
  ~MappedMemfd();

  // Gives the pages of [from, to) to us, so that they are charged to us and not to who
  // touches them first. False: there are none to be had.
  bool Allocate(uint64_t from, uint64_t to);

  // Writes zeros to the pages that have never been written, and maps all. Does nothing before
  // Linux 5.14, or if there is no memory.
  void Populate(uint64_t from, uint64_t to);

  // Gives all pages back, also those that are mapped elsewhere; they read as zeros from then on.
  void Free();

  std::byte* data() const { return data_; }
  uint64_t size_bytes() const { return size_bytes_; }
  int fd() const { return fd_.get(); }
  // The mapping stays.
  UniqueFd ReleaseFd() { return std::move(fd_); }

 private:
  UniqueFd fd_;
  std::byte* data_ = nullptr;
  uint64_t size_bytes_ = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_INGEST_MAPPED_MEMFD_H_
