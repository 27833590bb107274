// TargetService: who is there.
#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/rpc/admission/names.h"
#include "daemon/rpc/convert/convert.h"
#include "daemon/rpc/server/call.h"
#include "daemon/rpc/server/server_stream.h"
#include "daemon/rpc/services/services.h"
#include "daemon/rpc/services/target_events.h"
#include "daemon/rpc/services/target_resolver.h"
#include "profd/v1/targets.grpc.pb.h"

namespace profd::rpc {
namespace {

using Position = std::tuple<int64_t, TargetNumber>;  // What lists are sorted by.

Position PositionOf(const TargetInfo& target) { return {target.pid, target.number}; }

// By pid; only what the caller may see.
std::vector<TargetInfo> VisibleTargets(const TargetPort& port, const Caller& caller) {
  std::vector<TargetInfo> targets = port.List();
  std::erase_if(targets, [&](const TargetInfo& target) {
    return target.state == TargetState::kGone || !caller.May(Verb::kList, OwnerOf(target));
  });
  std::sort(targets.begin(), targets.end(),
            [](const TargetInfo& a, const TargetInfo& b) { return PositionOf(a) < PositionOf(b); });
  return targets;
}

std::string EncodePosition(const TargetInfo& target) {
  return StrCat(target.pid, ":", target.number);
}

absl::StatusOr<Position> DecodePosition(std::string_view text) {
  Position position{-1, -1};
  if (text.empty()) return position;
  const std::pair<std::string, std::string> parts =
      absl::StrSplit(ToAbsl(text), absl::MaxSplits(':', 1));
  if (!absl::SimpleAtoi(parts.first, &std::get<0>(position)) ||
      !absl::SimpleAtoi(parts.second, &std::get<1>(position))) {
    return absl::InvalidArgumentError("page_token: not one that this listing returned");
  }
  return position;
}

class TargetWatch final : public StreamHandler {
 public:
  TargetWatch(const ServiceParts& parts, const Caller& caller,
              ServerStream<v1::WatchTargetsResponse>& stream)
      : targets_(parts.targets),
        news_(parts.target_events),
        caller_(caller),
        stream_(stream),
        subscription_(news_.Subscribe(stream.Waker())) {}
  ~TargetWatch() override { news_.Unsubscribe(subscription_); }

  void Pump() override {
    if (stream_.cancelled()) return stream_.Finish(absl::CancelledError("the caller went away"));
    if (stream_.closing()) {
      return stream_.Finish(absl::UnavailableError("profd is stopping; retry once it is back"));
    }
    // The list is read anew at each wake-up, so that several changes cost one message.
    const std::vector<TargetInfo> targets = VisibleTargets(targets_, caller_);
    std::vector<std::pair<TargetNumber, TargetState>> seen;
    seen.reserve(targets.size());
    for (const TargetInfo& target : targets) seen.emplace_back(target.number, target.state);
    if (sent_ && seen == last_) return;
    sent_ = true;
    last_ = std::move(seen);
    v1::WatchTargetsResponse response;
    for (const TargetInfo& target : targets) TargetToProto(target, *response.add_targets());
    stream_.Write(response);
  }

 private:
  const TargetPort& targets_;
  TargetEvents& news_;
  const Caller caller_;
  ServerStream<v1::WatchTargetsResponse>& stream_;
  bool sent_ = false;
  std::vector<std::pair<TargetNumber, TargetState>> last_;
  const TargetEvents::SubscriptionId subscription_;
};

class TargetService final : public RpcService {
 public:
  explicit TargetService(const ServiceParts& parts) : parts_(parts) {}
  grpc::Service& grpc_service() override { return service_; }

  void Serve() override {
    using Async = v1::TargetService::AsyncService;
    Admission& admission = parts_.admission;
    ServeUnary(admission, admission.work(), service_, &Async::RequestListTargets, Verb::kList,
               [this](const CallInfo& info, const v1::ListTargetsRequest& request,
                      v1::ListTargetsResponse& response) { return List(info, request, response); });
    ServeUnary(
        admission, admission.work(), service_, &Async::RequestResolveTargets, Verb::kList,
        [this](const CallInfo& info, const v1::ResolveTargetsRequest& request,
               v1::ResolveTargetsResponse& response) { return Resolve(info, request, response); });
    ServeStream(admission, service_, &Async::RequestWatchTargets, Verb::kList,
                [this](const CallInfo& info, const v1::WatchTargetsRequest&,
                       ServerStream<v1::WatchTargetsResponse>& stream) {
                  return std::make_unique<TargetWatch>(parts_, info.caller, stream);
                });
  }

 private:
  absl::Status List(const CallInfo& info, const v1::ListTargetsRequest& request,
                    v1::ListTargetsResponse& response) {
    ASSIGN_OR_RETURN(const int32_t page_size, CheckPageSize(request.page_size()));
    ASSIGN_OR_RETURN(const std::string token, ParsePageToken(request.page_token(), ""));
    ASSIGN_OR_RETURN(const Position after, DecodePosition(token));
    std::string last;
    for (const TargetInfo& target : VisibleTargets(parts_.targets, info.caller)) {
      if (PositionOf(target) <= after) continue;
      if (response.targets_size() == page_size) {
        response.set_next_page_token(MakePageToken(last, ""));
        break;
      }
      TargetToProto(target, *response.add_targets());
      last = EncodePosition(target);
    }
    return absl::OkStatus();
  }

  absl::Status Resolve(const CallInfo& info, const v1::ResolveTargetsRequest& request,
                       v1::ResolveTargetsResponse& response) {
    const std::vector<int64_t> pids(request.pids().begin(), request.pids().end());
    ASSIGN_OR_RETURN(const std::vector<TargetInfo> targets,
                     ResolveTargets(info.caller, pids, request.all(), parts_.targets.List(),
                                    ProcessTable::Real()));
    for (const TargetInfo& target : targets) TargetToProto(target, *response.add_targets());
    return absl::OkStatus();
  }

  const ServiceParts parts_;
  v1::TargetService::AsyncService service_;
};

}  // namespace

std::unique_ptr<RpcService> NewTargetService(const ServiceParts& parts) {
  return std::make_unique<TargetService>(parts);
}

}  // namespace profd::rpc
