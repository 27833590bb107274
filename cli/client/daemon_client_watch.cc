#include <grpcpp/grpcpp.h>

#include <chrono>
#include <utility>
#include <vector>

#include "cli/base/errors.h"
#include "cli/client/daemon_client_impl.h"
#include "cli/client/from_proto.h"
#include "daemon/base/reason.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"

namespace profd::cli {

namespace {

// How long a daemon that went away during a watch may take to come back.
constexpr std::chrono::seconds kComeBackDeadline(5);

// One WatchCapture stream among several on one queue. Its tag is its address: exactly one
// operation is in flight at a time.
struct Watch {
  enum class Phase { kStarting, kReading, kFinishing, kDone };
  size_t index = 0;
  Phase phase = Phase::kStarting;
  std::unique_ptr<grpc::ClientAsyncReader<v1::Capture>> reader;
  v1::Capture message;
  absl::Status answer;  // Not OK: `message` was refused, and the call is cancelled.
  grpc::Status status;
  std::optional<CaptureView> last;
};

using OnChange = absl::FunctionRef<void(size_t, const CaptureView&)>;
// Checks a message of that stream; cancels the call if it is refused.
using Check = absl::FunctionRef<absl::Status(size_t, const v1::Capture&)>;

// The operation in flight has ended: starts the next one.
void Advance(Watch& watch, bool ok, Check check, OnChange on_change) {
  using Phase = Watch::Phase;
  if (watch.phase == Phase::kFinishing) {
    watch.phase = Phase::kDone;
    return;
  }
  if (watch.phase == Phase::kReading && ok) {
    watch.answer = check(watch.index, watch.message);
    ok = watch.answer.ok();
  }
  if (watch.phase == Phase::kReading && ok) {
    watch.last = FromProto(watch.message);
    on_change(watch.index, *watch.last);
  }
  watch.phase = ok ? Phase::kReading : Phase::kFinishing;
  if (ok) {
    watch.reader->Read(&watch.message, &watch);
  } else {
    watch.reader->Finish(&watch.status, &watch);
  }
}

// Until the last stream of `running` has finished.
void RunWatches(grpc::CompletionQueue& queue, size_t running, Check check, OnChange on_change,
                absl::FunctionRef<void()> on_idle) {
  void* tag = nullptr;
  bool ok = false;
  while (running > 0) {
    if (queue.AsyncNext(&tag, &ok, MonotonicDeadline(kIdleInterval)) ==
        grpc::CompletionQueue::TIMEOUT) {
      on_idle();
      continue;
    }
    Watch& watch = *static_cast<Watch*>(tag);
    Advance(watch, ok, check, on_change);
    if (watch.phase == Watch::Phase::kDone) --running;
  }
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
}

}  // namespace

absl::StatusOr<CaptureView> DaemonClient::Impl::AskNextDaemon(const std::string& id) {
  Call call(*this, kComeBackDeadline);
  call.context()->set_wait_for_ready(true);
  v1::GetCaptureRequest request;
  request.set_name(CaptureName(id));
  v1::Capture capture;
  if (captures_->GetCapture(call.context(), request, &capture).ok()) {
    RETURN_IF_ERROR(Check(capture));
    return FromProto(capture);
  }
  if (Aborted()) return absl::CancelledError("interrupted");
  return WithReason(absl::UnavailableError(StrCat("profd went away while it captured ", id,
                                                  "; when it is back, `profctl show ", id,
                                                  "` says how that ended")),
                    kNoDaemonReason);
}

absl::StatusOr<std::vector<CaptureView>> DaemonClient::WatchCaptures(
    const std::vector<std::string>& ids, OnChange on_change, absl::FunctionRef<void()> on_idle) {
  grpc::CompletionQueue queue;
  // The calls outlive the readers, which live in their memory.
  std::vector<std::unique_ptr<Impl::Call>> calls;
  std::vector<Watch> watches(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    v1::WatchCaptureRequest request;
    request.set_name(CaptureName(ids[i]));
    calls.push_back(std::make_unique<Impl::Call>(*impl_, std::nullopt));
    watches[i].index = i;
    watches[i].reader =
        impl_->captures_->AsyncWatchCapture(calls[i]->context(), request, &queue, &watches[i]);
  }
  const auto check = [&](size_t index, const v1::Capture& message) {
    absl::Status status = impl_->Check(message);
    if (!status.ok()) calls[index]->context()->TryCancel();
    return status;
  };
  RunWatches(queue, watches.size(), check, on_change, on_idle);

  std::vector<CaptureView> views;
  for (Watch& watch : watches) {
    RETURN_IF_ERROR(watch.answer);
    if (watch.last.has_value() && IsTerminal(watch.last->record.state)) {
      views.push_back(*std::move(watch.last));
      continue;
    }
    const absl::Status status = calls[watch.index]->Result(watch.status);
    if (!status.ok() && ReasonOf(status) != kNoDaemonReason) return status;
    ASSIGN_OR_RETURN(views.emplace_back(), impl_->AskNextDaemon(ids[watch.index]));
    on_change(watch.index, views.back());
  }
  return views;
}

}  // namespace profd::cli
