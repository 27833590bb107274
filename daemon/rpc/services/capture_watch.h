// CaptureWatch: what one WatchCapture stream does. News come on the manager's thread, are
// kept in order, and go out as fast as the caller reads. To a slow one, records of the same
// state are replaced by the newest, so that what waits stays small and no state is skipped.
#ifndef PROFD_DAEMON_RPC_SERVICES_CAPTURE_WATCH_H_
#define PROFD_DAEMON_RPC_SERVICES_CAPTURE_WATCH_H_

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "daemon/capture/capture_manager.h"
#include "daemon/rpc/server/server_stream.h"
#include "daemon/rpc/services/services.h"
#include "profd/v1/captures.pb.h"

namespace profd::rpc {

class CaptureWatch final : public StreamHandler {
 public:
  CaptureWatch(const ServiceParts& parts, const CallInfo& info, std::string name,
               ServerStream<v1::Capture>& stream);
  ~CaptureWatch() override;

  void Pump() override;

 private:
  // Shared with the manager's callback, which may outlive the stream by a moment.
  class News {
   public:
    explicit News(std::function<void()> wake) : wake_(std::move(wake)) {}
    void Push(const CaptureRecord& record);
    std::optional<CaptureRecord> Pop();

   private:
    const std::function<void()> wake_;
    absl::Mutex mu_;
    std::deque<CaptureRecord> records_ ABSL_GUARDED_BY(mu_);
  };

  absl::Status Begin();

  const ServiceParts parts_;
  const CallInfo info_;
  const std::string name_;
  ServerStream<v1::Capture>& stream_;
  const std::shared_ptr<News> news_;
  bool begun_ = false;
  std::optional<CaptureManager::WatchId> watch_;
};

// Adds the captures that were evicted for capture `id`. Only those of `principal`, who asks, are
// named: IDs of other users' captures are theirs.
void EvictedToProto(store::CaptureStore& store, std::string_view principal, std::string_view id,
                    v1::Capture& out);
// The record as `principal` may see it, with its steps, if it is terminal and they can be read.
void CompleteCaptureToProto(store::CaptureStore& store, std::string_view principal,
                            const CaptureRecord& record, v1::Capture& out);

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_SERVICES_CAPTURE_WATCH_H_
