// NodeService: the daemon and its machine.
#include <sys/timex.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/synchronization/mutex.h"
#include "daemon/base/log.h"
#include "daemon/base/reason.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/rpc/admission/names.h"
#include "daemon/rpc/convert/convert.h"
#include "daemon/rpc/server/call.h"
#include "daemon/rpc/services/capture_report.h"
#include "daemon/rpc/services/services.h"
#include "profd/v1/node.grpc.pb.h"

namespace profd::rpc {
namespace {

// Raised when a client must know of a change to ask for it.
constexpr int32_t kApiVersion = 1;
constexpr size_t kMaxReasonBytes = 255;

int64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t total_pages = 0;
  int64_t resident_pages = 0;
  statm >> total_pages >> resident_pages;
  return resident_pages * sysconf(_SC_PAGESIZE);
}

// Returns the maximum error of the time of day in ns; -1: unknown.
int64_t ClockErrorNs() {
  timex state = {};
  if (adjtimex(&state) < 0 || (state.status & STA_UNSYNC) != 0) return -1;
  return int64_t{state.maxerror} * 1000;
}

class NodeService final : public RpcService {
 public:
  explicit NodeService(const ServiceParts& parts) : parts_(parts) {}
  grpc::Service& grpc_service() override { return service_; }

  void Serve() override {
    Admission& admission = parts_.admission;
    ServeUnary(admission, admission.work(), service_,
               &v1::NodeService::AsyncService::RequestGetNode, Verb::kList,
               [this](const CallInfo& info, const v1::GetNodeRequest&, v1::Node& response) {
                 return Get(info, response);
               });
    ServeUnary(admission, admission.work(), service_,
               &v1::NodeService::AsyncService::RequestGetClock, Verb::kList,
               [this](const CallInfo&, const v1::GetClockRequest&, v1::Node::Clock& response) {
                 ClockToProto(parts_, response);
                 return absl::OkStatus();
               });
    ServeUnary(admission, admission.work(), service_,
               &v1::NodeService::AsyncService::RequestGetQuotas, Verb::kList,
               [this](const CallInfo& info, const v1::GetQuotasRequest&, v1::Quotas& response) {
                 GetQuotas(info, response);
                 return absl::OkStatus();
               });
    ServeUnary(
        admission, admission.work(), service_, &v1::NodeService::AsyncService::RequestListAudit,
        Verb::kList,
        [this](const CallInfo& info, const v1::ListAuditRequest& request,
               v1::ListAuditResponse& response) { return ListAudit(info, request, response); });
    ServeUnary(admission, admission.work(), service_,
               &v1::NodeService::AsyncService::RequestSetCapturesAllowed, Verb::kAdmin,
               [this](const CallInfo& info, const v1::SetCapturesAllowedRequest& request,
                      v1::Node& response) { return SetCapturesAllowed(info, request, response); });
  }

 private:
  void GetQuotas(const CallInfo& info, v1::Quotas& quotas) {
    const bool sees_all = info.holder.is_operator || info.caller.MayAll(Verb::kAdmin);
    for (const quota::Ledger::ResourceUse& use : parts_.ledger.Snapshot()) {
      const quota::ResourceInfo& resource = quota::InfoOf(use.resource);
      v1::Quotas::Resource& out = *quotas.add_resources();
      out.set_name(std::string(resource.name));
      out.set_unit(UnitToProto(resource.unit));
      out.set_used(use.used);
      out.set_capacity(use.limit.capacity);
      out.set_reserve(use.limit.reserve);
      out.set_per_principal(use.limit.per_principal);
      out.set_refused_count(use.refused_count);
      for (const quota::Ledger::Holding& holding : use.holdings) {
        // The sums above are for everyone. Who holds them is for the holder and for operators.
        if (!sees_all && holding.who.account != info.holder.account) continue;
        v1::Quotas::Holding& row = *out.add_holdings();
        row.set_principal(ToValidUtf8(holding.who.name));
        row.set_used(holding.amount);
        row.set_share(holding.share);
        row.set_active(holding.active);
      }
    }
  }

  static v1::Quotas::Unit UnitToProto(quota::Unit unit) {
    switch (unit) {
      case quota::Unit::kCount:
        return v1::Quotas::COUNT;
      case quota::Unit::kBytes:
        return v1::Quotas::BYTES;
      case quota::Unit::kMilliseconds:
        return v1::Quotas::MILLISECONDS;
    }
    return v1::Quotas::UNIT_UNSPECIFIED;
  }

  absl::Status ListAudit(const CallInfo& info, const v1::ListAuditRequest& request,
                         v1::ListAuditResponse& response) {
    ASSIGN_OR_RETURN(const int32_t page_size, CheckPageSize(request.page_size()));
    store::AuditFilter filter{.principal = request.principal(),
                              .method = request.verb(),
                              .refused_only = request.refused_only()};
    if (request.has_since()) {
      ASSIGN_OR_RETURN(filter.since, TimeFromProto(request.since(), "since"));
    }
    if (!info.caller.MayAll(Verb::kAdmin)) {
      if (!filter.principal.empty() && filter.principal != info.principal) {
        return NotAllowed(info.caller, Verb::kAdmin, "the audit log of others");
      }
      filter.principal = info.principal;
    }
    const std::string filter_text =
        StrCat(filter.principal, "\n", filter.method, "\n", filter.refused_only ? 1 : 0, "\n",
               request.since().seconds(), ".", request.since().nanos());
    ASSIGN_OR_RETURN(const std::string token, ParsePageToken(request.page_token(), filter_text));
    int64_t before = 0;
    if (!token.empty() && (!absl::SimpleAtoi(token, &before) || before <= 0)) {
      return absl::InvalidArgumentError("page_token: not one that this listing returned");
    }
    ASSIGN_OR_RETURN(const store::AuditPage page,
                     parts_.store.ListAudit(filter, page_size, before,
                                            [&] { return StillWanted(parts_.admission, info); }));
    for (const store::AuditEntry& entry : page.entries) {
      AuditEntryToProto(entry, *response.add_entries());
    }
    if (page.next_before > 0) {
      response.set_next_page_token(MakePageToken(StrCat(page.next_before), filter_text));
    }
    return absl::OkStatus();
  }

  absl::Status SetCapturesAllowed(const CallInfo& info,
                                  const v1::SetCapturesAllowedRequest& request, v1::Node& node) {
    if (!info.caller.MayAll(Verb::kAdmin)) {
      return NotAllowed(info.caller, Verb::kAdmin, "this node");
    }
    const std::string& reason = request.reason();
    if (request.allowed() != reason.empty() || reason.size() > kMaxReasonBytes ||
        !IsPrintableUtf8(reason)) {
      return absl::InvalidArgumentError(
          "reason: 1 to 255 printable bytes that say why captures are forbidden; none to allow "
          "them");
    }
    std::optional<std::string> forbidden;
    if (!request.allowed()) forbidden = reason;
    // Of two calls at once, the same one is the last for both.
    const absl::MutexLock lock(&switch_mu_);
    // In this order: it must work when the disk does not.
    parts_.manager.ForbidCaptures(forbidden);
    const absl::Status saved = parts_.store.ForbidCaptures(forbidden);
    const std::string_view now = request.allowed() ? "allowed" : "forbidden";
    LogWarning(
        StrCat("captures ", now, " by ", info.principal, request.allowed() ? "" : ": ", reason));
    if (saved.ok()) return Get(info, node);
    LogError(StrCat("the switch of captures is not saved: ", saved.ToString()));
    return WithReason(
        absl::Status(saved.code(),
                     StrCat("captures are ", now,
                            " now, but only until profd restarts: this could not be saved (",
                            FromAbsl(saved.message()), "); free space and repeat the command")),
        "SWITCH_UNSAVED");
  }

  static void AuditEntryToProto(const store::AuditEntry& entry, v1::AuditEntry& out) {
    TimeToProto(entry.time, *out.mutable_time());
    out.set_principal(ToValidUtf8(entry.principal));
    out.set_peer(ToValidUtf8(entry.peer));
    out.set_method(ToValidUtf8(entry.method));
    out.set_resource(ToValidUtf8(entry.resource));
    out.set_outcome(ToValidUtf8(entry.outcome));
    out.set_reason(ToValidUtf8(entry.reason));
    out.set_repeat_count(entry.repeats);
    out.set_duration_ns(absl::ToInt64Nanoseconds(entry.duration));
    out.set_bytes(entry.bytes);
    TimeToProto(entry.last_time, *out.mutable_last_time());
  }

  // The time that was read then, unless the clock has been set since.
  absl::Time StartTime(absl::Duration uptime) {
    constexpr absl::Duration kLeastJump = absl::Seconds(1);
    const absl::Time started = parts_.clock.Now() - uptime;
    const absl::Time read = parts_.options.start_time;
    return absl::AbsDuration(started - read) < kLeastJump ? read : started;
  }

  absl::Status Get(const CallInfo& info, v1::Node& node) {
    ASSIGN_OR_RETURN(const std::optional<std::string> forbidden, parts_.store.CapturesForbidden());
    node.set_captures_allowed(!forbidden.has_value());
    node.set_captures_forbidden_reason(ToValidUtf8(forbidden.value_or("")));
    node.set_caller(ToValidUtf8(info.principal));
    const ControlServerOptions& options = parts_.options;
    node.set_name(options.node_name);
    node.set_version(options.version);
    node.set_api_version(kApiVersion);
    const absl::Duration uptime = parts_.clock.Monotonic() - options.start_monotonic;
    TimeToProto(StartTime(uptime), *node.mutable_start_time());
    DurationToProto(uptime, *node.mutable_uptime());
    node.set_pid(getpid());
    node.set_uid(geteuid());
    node.set_target_count(std::ssize(parts_.targets.List()));
    node.set_live_capture_count(parts_.manager.live_count());
    node.set_resident_bytes(ResidentBytes());
    FactsToProto(info.caller, node);
    return StorageToProto(info.caller, *node.mutable_storage());
  }

  void FactsToProto(const Caller& caller, v1::Node& node) {
    const NodeFacts facts = parts_.node_facts();
    ClockToProto(parts_, *node.mutable_clock());
    node.set_capture_memory_bytes(facts.capture_memory_bytes);
    node.set_max_capture_memory_bytes(facts.max_capture_memory_bytes);
    node.set_unknown_frame_count(facts.unknown_frame_count);
    node.set_refused_target_count(facts.refused_target_count);
    node.set_policy_stale(!facts.policy_error.empty());
    if (caller.MayAny(Verb::kAdmin)) node.set_policy_error(ToValidUtf8(facts.policy_error));
  }

  absl::Status StorageToProto(const Caller& caller, v1::Node::Storage& storage) {
    ASSIGN_OR_RETURN(const store::StoreUsage usage, parts_.store.Usage());
    if (caller.MayAny(Verb::kAdmin) || caller.uid == geteuid())
      storage.set_data_dir(parts_.options.data_dir.string());
    storage.set_capture_count(usage.capture_count);
    storage.set_capture_bytes(usage.capture_bytes);
    storage.set_catalog_bytes(usage.catalog_bytes);
    storage.set_max_bytes(usage.max_total_bytes);
    storage.set_free_bytes(usage.disk.free_bytes);
    storage.set_evicted_count(usage.evicted_capture_count);
    storage.set_pinned_bytes(usage.pinned_bytes);
    storage.set_is_outdated(usage.is_outdated);
    return absl::OkStatus();
  }

  const ServiceParts parts_;
  absl::Mutex switch_mu_;  // While captures are forbidden, or allowed.
  v1::NodeService::AsyncService service_;
};

}  // namespace

void ClockToProto(const ServiceParts& parts, v1::Node::Clock& out) {
  const NodeFacts facts = parts.node_facts();
  out.set_event_clock(facts.event_clock);
  out.set_ticks_per_second(facts.ticks_per_second);
  out.set_error_ns(ClockErrorNs());
  // Last: whoever measures how far we are apart wants it as old as the answer.
  out.set_unix_ns(absl::ToUnixNanos(parts.clock.Now()));
  out.set_monotonic_ns(absl::ToInt64Nanoseconds(parts.clock.Monotonic()));
}

std::unique_ptr<RpcService> NewNodeService(const ServiceParts& parts) {
  return std::make_unique<NodeService>(parts);
}

}  // namespace profd::rpc
