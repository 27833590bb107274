// IncomingCapture is a capture file while it arrives: ID.upload in the captures folder. It becomes
// a capture in CaptureStore::FinishImport(). If it is destroyed before that, the file is removed;
// files that a dead daemon left are removed too.
//
// Threads: one at a time.
// Errors:  RESOURCE_EXHAUSTED (DISK_FULL): the disk is full; OUT_OF_RANGE: more bytes than
//          announced.
#ifndef PROFD_DAEMON_STORE_INCOMING_CAPTURE_H_
#define PROFD_DAEMON_STORE_INCOMING_CAPTURE_H_

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/base/unique_fd.h"
#include "daemon/store/file/sha256.h"

namespace profd::store {

class IncomingCapture {
 public:
  // Creates `path` for `total_bytes`. `promised_bytes` counts the bytes that all incoming captures
  // still expect; it must outlive this.
  static absl::StatusOr<std::unique_ptr<IncomingCapture>> Create(
      const std::filesystem::path& path, int64_t total_bytes, std::atomic<int64_t>& promised_bytes);
  ~IncomingCapture();
  IncomingCapture(const IncomingCapture&) = delete;
  IncomingCapture& operator=(const IncomingCapture&) = delete;

  absl::Status Append(std::string_view bytes);

  // Returns DATA_LOSS if bytes are missing.
  absl::Status CheckComplete() const;
  // Opens the received bytes for reading.
  absl::StatusOr<UniqueFd> OpenReadOnly() const;

  int64_t total_bytes() const { return total_bytes_; }
  int64_t received_bytes() const { return received_bytes_; }
  const std::filesystem::path& path() const { return path_; }

  // Returns lower-case hex. Call once, when all bytes have arrived.
  absl::StatusOr<std::string> Sha256Hex() { return hash_.Finish(); }

 private:
  IncomingCapture(std::filesystem::path path, UniqueFd file, int64_t total_bytes,
                  std::atomic<int64_t>& promised_bytes);

  const std::filesystem::path path_;
  const UniqueFd file_;
  const int64_t total_bytes_;
  int64_t received_bytes_ = 0;
  std::atomic<int64_t>& promised_bytes_;
  Sha256 hash_;
};

}  // namespace profd::store

#endif  // PROFD_DAEMON_STORE_INCOMING_CAPTURE_H_
