#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/client/daemon_client_impl.h"
#include "cli/client/from_proto.h"
#include "cli/client/history.h"
#include "cli/client/resource_names.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/ulid.h"
#include "daemon/rpc/convert/proto_time.h"

namespace profd::cli {
namespace {

v1::GetHistoryRequest HistoryRequestOf(const HistoryQuery& query) {
  v1::GetHistoryRequest request;
  request.set_step_time(query.operator_name.empty());
  request.set_operator_name(query.operator_name);
  // Before 1970 nothing was captured.
  if (query.since > absl::UnixEpoch()) rpc::TimeToProto(query.since, *request.mutable_since());
  if (query.until != absl::InfiniteFuture())
    rpc::TimeToProto(query.until, *request.mutable_until());
  request.set_job(query.job);
  if (!query.schedule.empty()) request.set_schedule(ScheduleName(query.schedule));
  request.set_pid(query.pid);
  request.set_limit(query.limit);
  return request;
}

// They become arguments of further commands, and are in no field of their own that CheckAnswer()
// would look at.
absl::Status CheckIds(const HistoryPoint& point) {
  for (const std::string& id : {point.capture, point.schedule}) {
    if (id.empty() || IsUlid(id)) continue;
    return absl::DataLossError(
        StrCat("invalid ID '", ForDisplay(id, 80), "' in the history (expected a ULID)"));
  }
  return absl::OkStatus();
}

absl::StatusOr<RankSummaryView> RankSummaryOf(const v1::RankSummary& message) {
  RankSummaryView summary = {.view = FromProto(message.capture()),
                             .left_out_step_count = message.left_out_step_count()};
  if (message.has_collectives()) {
    ASSIGN_OR_RETURN(summary.collectives, FromProto(message.collectives()));
  }
  if (message.has_clock_bound_ns()) {
    summary.clock_offset_ns = message.clock_offset_ns();
    summary.clock_bound_ns = message.clock_bound_ns();
  }
  return summary;
}

int64_t RowsOf(const RankSummaryView& summary) {
  if (!summary.collectives.has_value()) return 0;
  int64_t rows = 0;
  for (const table::Table& table : summary.collectives->tables) rows += std::ssize(table);
  return rows;
}

// Whether the newest groups that a caller wants have been seen whole, going from new to old.
class EnoughGroups {
 public:
  // 0: it wants all.
  explicit EnoughGroups(int64_t wanted) : wanted_(static_cast<size_t>(wanted)) {}

  // Whether no capture of theirs comes from `record` on.
  bool AreWholeBefore(const CaptureRecord& record) {
    if (wanted_ == 0) return false;
    // Twice: captures this close to the last one are left out when all answers are joined.
    if (times_.size() >= wanted_ && times_[wanted_ - 1] > record.create_time + 2 * kGroupSlack) {
      return true;
    }
    if (groups_.insert(record.group_id).second) times_.push_back(record.create_time);
    return false;
  }

 private:
  size_t wanted_;
  std::set<std::string> groups_;
  std::vector<absl::Time> times_;  // When each group's first capture was seen: its newest.
};

}  // namespace

absl::StatusOr<History> DaemonClient::GetHistory(const HistoryQuery& query) {
  ASSIGN_OR_RETURN(const v1::Report response,
                   impl_->Unary(*impl_->reports_, &v1::ReportService::Stub::GetHistory,
                                HistoryRequestOf(query), kReportDeadline));
  ASSIGN_OR_RETURN(const table::Report report, FromProto(response));
  ASSIGN_OR_RETURN(History history, report::HistoryOf(report));
  for (const HistoryPoint& point : history.points) RETURN_IF_ERROR(CheckIds(point));
  return history;
}

absl::StatusOr<RankSummaries> DaemonClient::ListRankSummaries(const HistoryQuery& query,
                                                              const RankSummaryLimits& limits) {
  v1::ListRankSummariesRequest request;
  if (query.since > absl::UnixEpoch()) rpc::TimeToProto(query.since, *request.mutable_since());
  if (query.until != absl::InfiniteFuture())
    rpc::TimeToProto(query.until, *request.mutable_until());
  request.set_job(query.job);
  if (!query.schedule.empty()) request.set_schedule(ScheduleName(query.schedule));
  RankSummaries all;
  int64_t rows = 0;
  EnoughGroups enough(query.limit);
  RETURN_IF_ERROR(impl_->ForEachRow(
      *impl_->reports_, &v1::ReportService::Stub::ListRankSummaries, std::move(request),
      kReportDeadline, 0, [](const auto& response) -> const auto& { return response.summaries(); },
      [&](const v1::RankSummary& message) -> absl::StatusOr<bool> {
        ASSIGN_OR_RETURN(RankSummaryView summary, RankSummaryOf(message));
        if (std::ssize(all.captures) == limits.captures || rows > limits.rows) {
          all.is_cut = true;
          return false;
        }
        rows += RowsOf(summary);
        // The last one shows how far back the answer goes.
        all.is_cut = enough.AreWholeBefore(summary.view.record);
        all.captures.push_back(std::move(summary));
        return !all.is_cut;
      }));
  return all;
}

}  // namespace profd::cli
