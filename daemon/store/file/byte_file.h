// ByteFile: bytes that can be read at any offset, wherever they are: behind an open descriptor, or
// in object storage. SQLite reads a database in them through byte_vfs.h.
//
// Threads: one at a time. Calls wait for the disk or the network.
#ifndef PROFD_DAEMON_STORE_FILE_BYTE_FILE_H_
#define PROFD_DAEMON_STORE_FILE_BYTE_FILE_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/statusor.h"

namespace profd::store {

class ByteFile {
 public:
  virtual ~ByteFile() = default;
  virtual absl::StatusOr<int64_t> Size() = 0;
  // Fills `to` with the bytes at `offset`. Returns how many there were: fewer only at the end.
  virtual absl::StatusOr<size_t> Read(int64_t offset, std::span<char> to) = 0;
};

// The bytes of a descriptor that another process or function opened; it is borrowed.
class DescriptorFile final : public ByteFile {
 public:
  explicit DescriptorFile(int descriptor) : descriptor_(descriptor) {}
  absl::StatusOr<int64_t> Size() override;
  absl::StatusOr<size_t> Read(int64_t offset, std::span<char> to) override;

 private:
  const int descriptor_;
};

}  // namespace profd::store

#endif  // PROFD_DAEMON_STORE_FILE_BYTE_FILE_H_
