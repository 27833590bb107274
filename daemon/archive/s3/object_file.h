// ObjectFile: an object in S3 as a ByteFile, read by ranges. What was read is kept in blocks, the
// ones that were used last; a run of blocks is fetched ahead while reading goes forward.
//
// Threads:   one at a time. Calls wait for the network.
// Ownership: the client must outlive the file.
// Errors:    those of S3Client. DATA_LOSS also if the object becomes shorter.
#ifndef PROFD_DAEMON_ARCHIVE_S3_OBJECT_FILE_H_
#define PROFD_DAEMON_ARCHIVE_S3_OBJECT_FILE_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "absl/status/statusor.h"
#include "daemon/archive/s3/s3_client.h"
#include "daemon/store/file/byte_file.h"

namespace profd::archive {

class ObjectFile final : public store::ByteFile {
 public:
  static constexpr int64_t kBlockBytes = 256 << 10;
  static constexpr int64_t kMaxBlocksAhead = 16;  // 4 MiB in one request.
  static constexpr size_t kMaxKeptBlocks = 256;   // 64 MiB of memory.

  // NOT_FOUND: there is no such object.
  static absl::StatusOr<std::unique_ptr<ObjectFile>> Open(S3Client& client, std::string_view key);

  absl::StatusOr<int64_t> Size() override { return info_.bytes; }
  absl::StatusOr<size_t> Read(int64_t offset, std::span<char> to) override;

  const ObjectInfo& info() const { return info_; }
  int64_t fetched_bytes() const { return fetched_bytes_; }

 private:
  struct Block {
    int64_t number = 0;
    std::string bytes;
  };
  ObjectFile(S3Client& client, ObjectInfo info) : client_(client), info_(std::move(info)) {}
  absl::StatusOr<const std::string*> BlockAt(int64_t number);
  absl::Status Fetch(int64_t number);
  void Keep(int64_t number, std::string bytes);

  S3Client& client_;
  const ObjectInfo info_;
  int64_t fetched_bytes_ = 0;
  int64_t next_number_ = 0;  // After the last fetched one.
  int64_t ahead_ = 1;        // How many blocks to fetch if that one comes next.
  std::list<Block> blocks_;  // The one used last is first.
  std::unordered_map<int64_t, std::list<Block>::iterator> by_number_;
};

}  // namespace profd::archive

#endif  // PROFD_DAEMON_ARCHIVE_S3_OBJECT_FILE_H_
