// UnfinishedFiles knows the files of captures and imports that are being written, so that their
// size can be asked for without listing their folder, which also holds thousands of finished ones.
//
// Threads: any.
#ifndef PROFD_DAEMON_STORE_UNFINISHED_FILES_H_
#define PROFD_DAEMON_STORE_UNFINISHED_FILES_H_

#include <cstdint>
#include <filesystem>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace profd::store {

class UnfinishedFiles {
 public:
  // All that an earlier daemon left in `folder`.
  absl::Status AddLeftovers(const std::filesystem::path& folder);
  // A file that was made.
  void Add(std::filesystem::path path);

  // Returns the size of all together. A file that is gone was finished, or removed, and is
  // forgotten.
  int64_t Bytes();

 private:
  absl::Mutex mu_;
  std::vector<std::filesystem::path> paths_ ABSL_GUARDED_BY(mu_);
};

}  // namespace profd::store

#endif  // PROFD_DAEMON_STORE_UNFINISHED_FILES_H_
