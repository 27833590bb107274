// LiveIndex is what callers' threads may know of live captures while the manager's own thread waits
// for the disk: whose each is, so that a caller who may end it can have its target stopped
// meanwhile.
//
// Threads: any.
#ifndef PROFD_DAEMON_CAPTURE_LIVE_INDEX_H_
#define PROFD_DAEMON_CAPTURE_LIVE_INDEX_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "daemon/capture/access.h"
#include "daemon/capture/capture_types.h"

namespace profd {

class LiveIndex {
 public:
  // Adds a capture, or replaces what is known of it.
  void Put(const CaptureRecord& record);
  void Remove(std::string_view id);

  int64_t size() const;
  std::vector<std::string> ListAll() const;
  // The capture `id`, if it is live and `caller` may end it.
  std::vector<std::string> ListCancellable(const Caller& caller, std::string_view id) const;
  // The live captures of a group; none if there is one that `caller` may not end.
  std::vector<std::string> ListAbortable(const Caller& caller, std::string_view group_id) const;

 private:
  struct Entry {
    std::string id;
    std::string group_id;
    std::string requested_by;  // PrincipalName().
    Ownership owner;
  };
  std::vector<Entry> Copy() const;

  mutable absl::Mutex mu_;
  std::map<std::string, Entry, std::less<>> entries_ ABSL_GUARDED_BY(mu_);  // By ID.
};

}  // namespace profd

#endif  // PROFD_DAEMON_CAPTURE_LIVE_INDEX_H_
