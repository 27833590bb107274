// RowSpool keeps rows until all are there: the first in memory, the others in a file without a
// name.
//
// Threads: one.
// Memory:  kMemoryBytes and one block.
// Errors:  RESOURCE_EXHAUSTED where the disk is full, INTERNAL otherwise.
#ifndef PROFD_DAEMON_IMPORT_ROW_SPOOL_H_
#define PROFD_DAEMON_IMPORT_ROW_SPOOL_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/unique_fd.h"

namespace profd::importer {

// A file in `directory` that is gone when it is closed, written and read in whole blocks.
class SpoolFile {
 public:
  explicit SpoolFile(std::filesystem::path directory) : directory_(std::move(directory)) {}

  absl::Status Append(const void* block, size_t bytes);
  absl::Status Read(int64_t offset, void* block, size_t bytes) const;

 private:
  absl::Status Open();

  const std::filesystem::path directory_;
  UniqueFd fd_;
  int64_t size_ = 0;
};

template <typename Row>
class RowSpool {
  static_assert(std::is_trivially_copyable_v<Row>);

 public:
  static constexpr size_t kMemoryBytes = size_t{64} << 20;
  static constexpr size_t kBlockRows = 8192;

  explicit RowSpool(std::filesystem::path directory, size_t memory_bytes = kMemoryBytes)
      : memory_blocks_(memory_bytes / kBlockBytes), file_(std::move(directory)) {}

  absl::Status Add(const Row& row) {
    if (block_.size() == kBlockRows) RETURN_IF_ERROR(PutBlockAway());
    block_.push_back(row);
    return absl::OkStatus();
  }

  // In the order in which they came; `fn` may change what it is given. Call once, last.
  absl::Status Drain(absl::FunctionRef<absl::Status(std::span<Row>)> fn) {
    for (std::vector<Row>& block : in_memory_) {
      RETURN_IF_ERROR(fn(block));
      block = {};
    }
    std::vector<Row> read(in_file_ > 0 ? kBlockRows : 0);
    for (int64_t i = 0; i < in_file_; ++i) {
      RETURN_IF_ERROR(file_.Read(i * static_cast<int64_t>(kBlockBytes), read.data(), kBlockBytes));
      RETURN_IF_ERROR(fn(read));
    }
    return block_.empty() ? absl::OkStatus() : fn(block_);
  }

 private:
  static constexpr size_t kBlockBytes = kBlockRows * sizeof(Row);

  absl::Status PutBlockAway() {
    if (in_memory_.size() < memory_blocks_) {
      in_memory_.push_back(std::exchange(block_, {}));
      block_.reserve(kBlockRows);
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(file_.Append(block_.data(), kBlockBytes));
    ++in_file_;
    block_.clear();
    return absl::OkStatus();
  }

  const size_t memory_blocks_;
  std::vector<std::vector<Row>> in_memory_;
  SpoolFile file_;
  int64_t in_file_ = 0;  // Blocks, which follow those in memory.
  std::vector<Row> block_;
};

}  // namespace profd::importer

#endif  // PROFD_DAEMON_IMPORT_ROW_SPOOL_H_
