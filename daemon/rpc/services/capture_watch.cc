#include "daemon/rpc/services/capture_watch.h"

#include <utility>

#include "daemon/base/log.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/rpc/admission/names.h"
#include "daemon/rpc/convert/convert.h"
#include "daemon/rpc/services/capture_lookup.h"

namespace profd::rpc {
namespace {

// More changes of state than any capture goes through: 64 windows of three each.
constexpr size_t kMaxWaiting = 256;

}  // namespace

void EvictedToProto(store::CaptureStore& store, std::string_view principal, std::string_view id,
                    v1::Capture& out) {
  const absl::StatusOr<EvictedCaptures> evicted = store.ListEvictedFor(id, principal);
  if (!evicted.ok()) {
    LogWarning(StrCat("capture=", id, " evicted captures: ", evicted.status().ToString()));
    return;
  }
  for (const std::string& other : evicted->ids) out.add_evicted_captures(CaptureName(other));
  out.set_evicted_count(evicted->count);
}

void CompleteCaptureToProto(store::CaptureStore& store, std::string_view principal,
                            const CaptureRecord& record, v1::Capture& out) {
  CaptureToProto(record, out);
  EvictedToProto(store, principal, record.id, out);
  out.set_pinned(store.IsPinned(record.id).value_or(false));
  if (!IsTerminal(record.state) || record.deleted || record.file_bytes == 0) return;
  const auto reader = store.OpenReader(record.id);
  if (reader.ok()) return StepsToProto((*reader)->steps(), out);
  // The record is still right; reports will say what is wrong with the file.
  LogWarning(StrCat("capture=", record.id,
                    " steps cannot be read: ", FromAbsl(reader.status().message())));
}

void CaptureWatch::News::Push(const CaptureRecord& record) {
  {
    absl::MutexLock lock(&mu_);
    // Of one state only the newest record counts. A full queue loses the one before the newest, so
    // the final state always arrives.
    const bool replace = !records_.empty() &&
                         (records_.back().state == record.state || records_.size() >= kMaxWaiting);
    if (replace) records_.pop_back();
    records_.push_back(record);
  }
  wake_();
}

std::optional<CaptureRecord> CaptureWatch::News::Pop() {
  absl::MutexLock lock(&mu_);
  if (records_.empty()) return std::nullopt;
  CaptureRecord record = std::move(records_.front());
  records_.pop_front();
  return record;
}

CaptureWatch::CaptureWatch(const ServiceParts& parts, const CallInfo& info, std::string name,
                           ServerStream<v1::Capture>& stream)
    : parts_(parts),
      info_(info),
      name_(std::move(name)),
      stream_(stream),
      news_(std::make_shared<News>(stream.Waker())) {}

CaptureWatch::~CaptureWatch() {
  if (watch_.has_value()) parts_.manager.StopWatching(*watch_);
}

absl::Status CaptureWatch::Begin() {
  ASSIGN_OR_RETURN(const CaptureRecord record,
                   FindCapture(parts_.manager, parts_.store, info_.caller, name_));
  ASSIGN_OR_RETURN(
      watch_, parts_.manager.Watch(info_.caller, record.id,
                                   [news = news_](const CaptureRecord& now) { news->Push(now); }));
  return absl::OkStatus();
}

void CaptureWatch::Pump() {
  if (stream_.cancelled()) return stream_.Finish(absl::CancelledError("the caller went away"));
  if (!begun_) {
    begun_ = true;
    if (absl::Status status = Begin(); !status.ok()) return stream_.Finish(status);
  }
  const std::optional<CaptureRecord> record = news_->Pop();
  if (!record.has_value()) {
    if (stream_.closing()) {
      stream_.Finish(absl::UnavailableError("profd is stopping; ask again once it is back"));
    }
    return;
  }
  v1::Capture capture;
  CompleteCaptureToProto(parts_.store, info_.principal, *record, capture);
  if (IsTerminal(record->state)) return stream_.WriteLast(capture);
  stream_.Write(capture);
}

}  // namespace profd::rpc
