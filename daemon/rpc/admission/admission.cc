#include "daemon/rpc/admission/admission.h"

#include <unistd.h>

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "daemon/base/log.h"
#include "daemon/base/reason.h"
#include "daemon/base/str_cat.h"

namespace profd::rpc {

std::string WhyOutside(const Peer& peer, uid_t own_uid) {
  if (own_uid != 0 && peer.principal.uid != own_uid && !peer.place_known) {
    return StrCat("this profd runs as uid ", own_uid,
                  " and cannot read the namespaces of a process of uid ", peer.principal.uid,
                  "; run profctl as uid ", own_uid);
  }
  return "callers in another pid or user namespace than profd, or in a container, may only "
         "register as targets; run profctl on the host, as the user who owns the process";
}

std::string WithoutPath(std::string_view text, std::string_view path) {
  const auto is_of_name = [](char c) { return absl::ascii_isalnum(c) || c == '_' || c == '-'; };
  const auto goes_on = [&](std::string_view rest) {
    if (rest.starts_with('.')) rest.remove_prefix(1);  // The end of a sentence, or of a name.
    return !rest.empty() && is_of_name(rest.front());
  };
  std::string out;
  size_t done = 0;
  for (size_t at = text.find(path); at != std::string_view::npos; at = text.find(path, done)) {
    const std::string_view rest = text.substr(at + path.size());
    const bool is_in_other_path = goes_on(rest) || (at > 0 && is_of_name(text[at - 1]));
    const bool is_of_file = rest.size() > 1 && rest.front() == '/' && is_of_name(rest[1]);
    StrAppend(&out, text.substr(done, at - done));
    if (is_in_other_path) {
      StrAppend(&out, path);
    } else if (!is_of_file) {
      StrAppend(&out, "the data directory");
    }
    done = at + path.size() + (is_of_file && !is_in_other_path ? 1 : 0);
  }
  StrAppend(&out, text.substr(done));
  return out;
}

Admission::Admission(Limits limits, Identifier identifier, RulesSource rules, AuditLog& audit,
                     grpc::ServerCompletionQueue& completions, WorkQueue& work,
                     worker::ReportPool& reports)
    : limits_(limits),
      identifier_(std::move(identifier)),
      rules_(std::move(rules)),
      completions_(completions),
      work_(work),
      reports_(reports),
      audit_(audit),
      call_rate_(limits.max_call_rate_per_principal, limits.max_call_burst_per_principal) {}

Caller Admission::CallerOf(const Peer& peer) const {
  return {
      .uid = peer.principal.uid, .principal = peer.principal, .rules = rules_ ? rules_() : nullptr};
}

absl::Status Admission::Enter(const CallInfo& info, Verb verb) {
  if (closed()) return TurnedAway();
  if (info.peer.outside) {
    return WithReason(absl::PermissionDeniedError(WhyOutside(info.peer, geteuid())), "OUTSIDE");
  }
  if (!call_rate_.Allow(info.principal, audit_.clock().Monotonic())) {
    return absl::ResourceExhaustedError(
        StrCat(info.principal, " calls too often; retry in a second"));
  }
  if (!info.caller.MayAny(verb)) return NotAllowed(info.caller, verb, "anything on this node");
  absl::MutexLock lock(&mu_);
  int64_t& calls = calls_by_principal_[info.principal];
  if (calls >= limits_.max_calls_per_principal) {
    return absl::ResourceExhaustedError(
        StrCat(info.principal, " has ", calls, " calls and streams open; retry later"));
  }
  ++calls;
  return absl::OkStatus();
}

void Admission::Leave(std::string_view principal) {
  absl::MutexLock lock(&mu_);
  const auto calls = calls_by_principal_.find(principal);
  if (--calls->second == 0) calls_by_principal_.erase(calls);
}

absl::StatusOr<quota::Reservation> Admission::ReserveWaiting(const CallInfo& info) {
  if (limits_.ledger == nullptr || info.principal.empty()) return quota::Reservation();
  return limits_.ledger->Reserve(info.holder, quota::Resource::kWaitingCalls, 1);
}

absl::StatusOr<quota::Reservation> Admission::ReserveMemory(const CallInfo& info,
                                                            quota::Resource resource,
                                                            int64_t bytes) {
  if (limits_.ledger == nullptr || info.principal.empty()) return quota::Reservation();
  return limits_.ledger->Reserve(info.holder, resource, bytes);
}

absl::Status Admission::TurnedAway() const {
  if (closed()) return absl::UnavailableError("profd is stopping; retry once it is back");
  return absl::ResourceExhaustedError("too much is waiting to be answered; retry later");
}

absl::Status Admission::WithoutPaths(const absl::Status& status) const {
  const std::string_view text = FromAbsl(status.message());
  if (hidden_path_.empty() || text.find(hidden_path_) == std::string_view::npos) return status;
  LogWarning(StrCat("a call failed: ", status.ToString()));
  absl::Status cleaned(status.code(), ToAbsl(WithoutPath(text, hidden_path_)));
  status.ForEachPayload([&cleaned](absl::string_view type, const absl::Cord& payload) {
    cleaned.SetPayload(type, payload);
  });
  return cleaned;
}

void Admission::Close() {
  std::vector<Waker> wakers;
  {
    absl::MutexLock lock(&mu_);
    closed_.store(true, std::memory_order_release);
    // Under the mutex, WakeOnClose() either finds the server closed or adds its waker before this
    // swap, so none is missed. Waking comes after it, because a waker posts work that may call
    // back.
    wakers.swap(wakers_);
  }
  for (const Waker& waker : wakers) {
    if (const auto alive = waker.owner.lock()) waker.wake();
  }
}

void Admission::CallBegins() {
  absl::MutexLock lock(&mu_);
  ++calls_;
}

void Admission::CallEnds() {
  absl::MutexLock lock(&mu_);
  --calls_;
}

void Admission::AwaitNoCalls() {
  absl::MutexLock lock(&mu_);
  mu_.Await(absl::Condition(this, &Admission::NoCalls));
}

void Admission::WakeOnClose(std::weak_ptr<void> owner, const std::function<void()>& wake) {
  bool now = false;
  {
    absl::MutexLock lock(&mu_);
    now = closed();
    // Streams that have ended leave their entries here. Without this, the list would grow as long
    // as the daemon lives.
    std::erase_if(wakers_, [](const Waker& waker) { return waker.owner.expired(); });
    if (!now) wakers_.push_back({std::move(owner), wake});
  }
  if (now) wake();
}

}  // namespace profd::rpc
