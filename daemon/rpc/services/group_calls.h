// GroupCalls: what CaptureService's calls for groups do, and the stream of PrepareGroup.
//
// Whose is a group?  Whoever asked for it, by principal, commits and closes it. Its captures are
// listed to whom each may be listed to; the members on other nodes are told to whoever asked,
// and to who may list everything here.
//
// Threads: any; the calls wait for the manager and the disk.
#ifndef PROFD_DAEMON_RPC_SERVICES_GROUP_CALLS_H_
#define PROFD_DAEMON_RPC_SERVICES_GROUP_CALLS_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "daemon/capture/group_types.h"
#include "daemon/rpc/server/server_stream.h"
#include "daemon/rpc/services/services.h"
#include "profd/v1/captures.pb.h"

namespace profd::rpc {

class GroupCalls {
 public:
  explicit GroupCalls(const ServiceParts& parts) : parts_(parts) {}

  absl::Status Create(const CallInfo& info, const v1::CreateCaptureGroupRequest& request,
                      v1::CaptureGroup& response);
  absl::Status Commit(const CallInfo& info, const v1::CommitGroupRequest& request,
                      v1::CommitGroupResponse& response);
  absl::Status Abort(const CallInfo& info, const v1::AbortGroupRequest& request,
                     v1::CaptureGroup& response);
  absl::Status Close(const CallInfo& info, const v1::CloseGroupRequest& request,
                     v1::CaptureGroup& response);
  absl::Status Get(const CallInfo& info, const v1::GetCaptureGroupRequest& request,
                   v1::CaptureGroup& response);

 private:
  absl::StatusOr<std::vector<CaptureRecord>> DoCreate(const CallInfo& info,
                                                      const v1::CreateCaptureGroupRequest& request);
  absl::Status ToProto(const Caller& caller, std::string_view id, v1::CaptureGroup& out);

  const ServiceParts parts_;
};

// One PrepareGroup stream. To a slow caller only the newest of what waits is told.
class GroupPrepare final : public StreamHandler {
 public:
  GroupPrepare(const ServiceParts& parts, const CallInfo& info, v1::PrepareGroupRequest request,
               ServerStream<v1::GroupPreparation>& stream);
  ~GroupPrepare() override;

  void Pump() override;

 private:
  // Shared with the manager's callback, which may outlive the stream by a moment.
  class News {
   public:
    explicit News(std::function<void()> wake) : wake_(std::move(wake)) {}
    void Set(const GroupPreparation& preparation);
    std::optional<GroupPreparation> Take();

   private:
    const std::function<void()> wake_;
    absl::Mutex mu_;
    std::optional<GroupPreparation> newest_ ABSL_GUARDED_BY(mu_);
  };

  absl::Status Begin();

  const ServiceParts parts_;
  const CallInfo info_;
  const v1::PrepareGroupRequest request_;
  ServerStream<v1::GroupPreparation>& stream_;
  const std::shared_ptr<News> news_;
  bool begun_ = false;
  std::optional<CaptureManager::WatchId> watch_;
};

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_SERVICES_GROUP_CALLS_H_
