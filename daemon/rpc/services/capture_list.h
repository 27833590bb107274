// CaptureList: listings of the store, with what the manager knows better laid over them.
// The store hears of a capture when it begins and when it ends; in between its state is
// the manager's.
//
// Threads: one each; waits for the manager and the disk.
#ifndef PROFD_DAEMON_RPC_SERVICES_CAPTURE_LIST_H_
#define PROFD_DAEMON_RPC_SERVICES_CAPTURE_LIST_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/capture/capture_manager.h"
#include "daemon/store/capture_store.h"
#include "profd/v1/captures.pb.h"

namespace profd::rpc {

class CaptureList {
 public:
  CaptureList(CaptureManager& manager, store::CaptureStore& store, const Caller& caller);

  struct Page {
    std::vector<CaptureRecord> captures;  // Newest first.
    std::string next_page_token;
  };
  // INVALID_ARGUMENT names the field. A page may be short, or empty with a token.
  absl::StatusOr<Page> GetPage(const v1::ListCapturesRequest& request);

  // All members, also deleted ones, oldest first. Empty: none the caller may see.
  absl::StatusOr<std::vector<CaptureRecord>> Group(std::string_view group_id);

 private:
  void Overlay(std::vector<CaptureRecord>& records) const;

  store::CaptureStore& store_;
  const Caller caller_;
  std::map<std::string, CaptureRecord> live_;
};

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_SERVICES_CAPTURE_LIST_H_
