#include "daemon/rpc/door.h"

#include <utility>

#include "daemon/base/reason.h"
#include "daemon/base/str_cat.h"

namespace profd::rpc {

Door::Door(Limits limits, PeerTable& peers, grpc::ServerCompletionQueue& completions,
           WorkQueue& work, WorkQueue& reports)
    : limits_(limits), peers_(peers), completions_(completions), work_(work), reports_(reports) {}

absl::StatusOr<Peer> Door::Enter(const grpc::ServerContext& context) {
  if (closed()) return TurnedAway();
  const std::optional<Peer> peer = peers_.Find(context.peer());
  if (!peer.has_value()) return absl::UnauthenticatedError("profd cannot tell who calls");
  if (peer->outside) {
    return WithReason(
        absl::PermissionDeniedError(
            "callers in another pid or user namespace than profd, or in a container, may only "
            "register as targets; run profctl on the host, as the user who owns the process"),
        "OUTSIDE");
  }
  absl::MutexLock lock(&mu_);
  int64_t& calls = calls_by_uid_[peer->uid];
  if (calls >= limits_.max_calls_per_uid) {
    return absl::ResourceExhaustedError(
        StrCat("uid ", peer->uid, " has ", calls, " calls and streams open; retry later"));
  }
  ++calls;
  return *peer;
}

void Door::Leave(int64_t uid) {
  absl::MutexLock lock(&mu_);
  if (--calls_by_uid_[uid] == 0) calls_by_uid_.erase(uid);
}

absl::Status Door::TurnedAway() const {
  if (closed()) return absl::UnavailableError("profd is stopping; retry once it is back");
  return absl::ResourceExhaustedError("too much is waiting to be answered; retry later");
}

void Door::Close() {
  std::vector<Waker> wakers;
  {
    absl::MutexLock lock(&mu_);
    closed_.store(true, std::memory_order_release);
    wakers.swap(wakers_);
  }
  for (const Waker& waker : wakers) {
    if (const auto alive = waker.owner.lock()) waker.wake();
  }
}

void Door::CallBegins() {
  absl::MutexLock lock(&mu_);
  ++calls_;
}

void Door::CallEnds() {
  absl::MutexLock lock(&mu_);
  --calls_;
}

void Door::AwaitNoCalls() {
  absl::MutexLock lock(&mu_);
  mu_.Await(absl::Condition(this, &Door::NoCalls));
}

void Door::WakeOnClose(std::weak_ptr<void> owner, const std::function<void()>& wake) {
  bool now = false;
  {
    absl::MutexLock lock(&mu_);
    now = closed();
    std::erase_if(wakers_, [](const Waker& waker) { return waker.owner.expired(); });
    if (!now) wakers_.push_back({std::move(owner), wake});
  }
  if (now) wake();
}

}  // namespace profd::rpc
