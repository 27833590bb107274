// PartFile: what a capture arrives in, under a name of its own and locked against others, until
// it is whole. Writing and hashing are done by a thread of its own next to the one that receives,
// so that a fetch goes as fast as the bytes come.
//
// Threads:    one caller; its own thread ends with it.
// Ownership:  pieces are copied.
// Durability: none before Publish().
// Errors:     LOCAL; of a piece by the next Append(), or by Finish(). So is a thread that could not
//             be started.
#ifndef PROFD_CLI_CAPTURES_PART_FILE_H_
#define PROFD_CLI_CAPTURES_PART_FILE_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "daemon/base/unique_fd.h"

namespace profd::cli {

class PartFile {
 public:
  // Makes `path` with mode 0600, or opens it. FAILED_PRECONDITION: it is not an ordinary file with
  // one name that only this user may read and write, or another profctl writes it.
  static absl::StatusOr<std::unique_ptr<PartFile>> Open(std::string path);
  ~PartFile();
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  // Bytes that are there or on their way.
  int64_t size() const { return size_; }

  absl::Status Restart();  // From nothing.
  absl::Status Append(std::string_view bytes);
  // When all is written: the sha256 of the whole file. Append() or Restart() may follow.
  absl::StatusOr<std::string> Finish();

  // Onto the disk, and to where it is found.
  absl::Status Publish(const std::string& path);
  void Remove();

 private:
  PartFile(std::string path, UniqueFd fd, int64_t size);
  absl::Status Failure() const;

  // Bounds what waits to be written: 16 pieces of a download are 8 MiB.
  static constexpr size_t kMaxWaiting = 16;

  absl::Status StartWriter();
  void WriterLoop();
  absl::StatusOr<std::string> WriteAll();
  absl::Status WritePiece(std::string_view bytes, int64_t offset) const;
  bool HasRoom() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::string path_;
  const UniqueFd fd_;
  int64_t size_;

  absl::Mutex mu_;
  std::deque<std::string> waiting_ ABSL_GUARDED_BY(mu_);
  bool ending_ ABSL_GUARDED_BY(mu_) = false;  // Nothing more is appended.
  bool failed_ ABSL_GUARDED_BY(mu_) = false;
  int64_t written_from_ = 0;  // Where the writer begins.
  absl::StatusOr<std::string> result_{absl::InternalError("the writer has not ended")};
  std::jthread writer_;  // Not joinable: nothing was appended since the last Finish().
};

}  // namespace profd::cli

#endif  // PROFD_CLI_CAPTURES_PART_FILE_H_
