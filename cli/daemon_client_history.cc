#include <utility>

#include "cli/daemon_client_impl.h"
#include "cli/history.h"
#include "daemon/base/status_macros.h"

namespace profd::cli {
namespace {

void SetTime(absl::Time time, google::protobuf::Timestamp& out) {
  const int64_t unix_ns = absl::ToUnixNanos(time);
  constexpr int64_t kNsPerSecond = 1'000'000'000;
  out.set_seconds(unix_ns / kNsPerSecond);
  out.set_nanos(static_cast<int32_t>(unix_ns % kNsPerSecond));
}

v1::GetHistoryRequest ToProto(const HistoryQuery& query) {
  v1::GetHistoryRequest request;
  request.set_step_time(query.operator_name.empty());
  request.set_operator_name(query.operator_name);
  // Before 1970 nothing was captured.
  if (query.since > absl::UnixEpoch()) SetTime(query.since, *request.mutable_since());
  if (query.until != absl::InfiniteFuture()) {
    SetTime(std::max(query.until, absl::UnixEpoch()), *request.mutable_until());
  }
  request.set_job(query.job);
  if (!query.schedule.empty()) request.set_schedule(ScheduleName(query.schedule));
  request.set_pid(query.pid);
  request.set_limit(query.limit);
  return request;
}

std::string IdOf(const std::string& name) { return name.substr(name.find('/') + 1); }

HistoryPoint FromProto(const v1::HistoryPoint& message) {
  return {.time_unix_ns = absl::ToUnixNanos(absl::FromUnixSeconds(message.time().seconds()) +
                                            absl::Nanoseconds(message.time().nanos())),
          .capture = IdOf(message.capture()),
          .node = message.node(),
          .pid = message.pid(),
          .rank = message.rank(),
          .job = message.job(),
          .schedule = message.schedule().empty() ? "" : IdOf(message.schedule()),
          .sampling_weight = message.sampling_weight(),
          .quality = message.quality(),
          .steps = message.steps(),
          .min_ns = message.min_ns(),
          .median_ns = message.median_ns(),
          .mean_ns = message.mean_ns(),
          .max_ns = message.max_ns(),
          .calls = message.calls(),
          .self_cpu_ns = message.self_cpu_ns(),
          .cpu_total_ns = message.cpu_total_ns(),
          .self_device_ns = message.self_device_ns()};
}

}  // namespace

absl::StatusOr<History> DaemonClient::GetHistory(const HistoryQuery& query) {
  ASSIGN_OR_RETURN(const v1::GetHistoryResponse response,
                   impl_->Unary(*impl_->reports_, &v1::ReportService::Stub::GetHistory,
                                ToProto(query), kReportDeadline));
  History history = {.left_out_count = response.left_out_count(),
                     .without_operator_count = response.without_operator_count()};
  for (const v1::HistoryPoint& point : response.points()) {
    history.points.push_back(FromProto(point));
  }
  return history;
}

}  // namespace profd::cli
