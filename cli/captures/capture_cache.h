// CaptureCache: captures that were copied here from other machines for a report, kept so that the
// next report on one of them copies nothing.
//
//   <folder>/01J9ZK….<start of its sha256>.profd      mode 0600, in a folder of the user's alone
//
// A capture never changes, so that its id and hash name it for good; whoever may not read it any
// more is told so by its daemon before the cache is asked. What has not been used longest goes
// first when there is more than kMaxBytes, and copies that were begun and left go after a day.
//
// Threads:    any; several profctl may share the folder.
// Durability: none: what is damaged is copied again.
#ifndef PROFD_CLI_CAPTURES_CAPTURE_CACHE_H_
#define PROFD_CLI_CAPTURES_CAPTURE_CACHE_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "cli/client/endpoints.h"
#include "daemon/capture/capture_types.h"

namespace profd::cli {

class CaptureCache {
 public:
  static constexpr int64_t kMaxBytes = int64_t{2} << 30;
  static constexpr absl::Duration kMaxPartAge = absl::Hours(24);

  // The folder that PROFD_CACHE_DIR names, for every capture; without it
  // $XDG_CACHE_HOME/profd/captures or ~/.cache/profd/captures, for those of daemons that are
  // `remote`. Made if it is not there. nullopt: PROFD_CACHE_DIR is empty, there is no such folder
  // to be had, or others than the user may write it.
  static std::optional<CaptureCache> Find(const GetEnv& getenv, bool remote);

  explicit CaptureCache(std::filesystem::path folder, int64_t max_bytes = kMaxBytes)
      : folder_(std::move(folder)), max_bytes_(max_bytes) {}

  // Whether the capture is one to be kept: it has a file, and would not fill the cache by itself.
  bool Takes(const CaptureRecord& record) const;
  // Where it is, or is to be put. Only for what it takes.
  std::filesystem::path PathOf(const CaptureRecord& record) const;
  // True: it is there, whole, and counts as used now. What is there and is not whole is removed.
  bool Has(const CaptureRecord& record) const;
  // Removes what is too much or too old, but never `kept`.
  void Trim(const std::filesystem::path& kept, absl::Time now) const;

 private:
  const std::filesystem::path folder_;
  const int64_t max_bytes_;
};

}  // namespace profd::cli

#endif  // PROFD_CLI_CAPTURES_CAPTURE_CACHE_H_
