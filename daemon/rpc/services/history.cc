#include "daemon/rpc/services/history.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/capture/quality.h"
#include "daemon/rpc/admission/names.h"
#include "daemon/rpc/convert/convert.h"

namespace profd::rpc {
namespace {

// A point takes some 200 bytes: far below what an answer may have.
constexpr int64_t kMostPoints = 10'000;
// How many captures are read while the catalog is locked.
constexpr int64_t kCapturesAtOnce = 200;
constexpr size_t kMaxOperatorNameBytes = 4096;
constexpr size_t kMaxJobBytes = 256;

struct Query {
  store::CaptureFilter filter;
  store::SummaryParts parts;
  std::string job;
  std::string schedule_prefix;  // Of ids; empty: any.
  int64_t limit = kMostPoints;
};

absl::StatusOr<Query> QueryFromProto(const v1::GetHistoryRequest& request) {
  if (request.step_time() == !request.operator_name().empty()) {
    return absl::InvalidArgumentError("ask for either step_time or an operator_name");
  }
  if (request.operator_name().size() > kMaxOperatorNameBytes) {
    return absl::InvalidArgumentError(StrCat("operator_name has ", request.operator_name().size(),
                                             " bytes, and a name at most ", kMaxOperatorNameBytes));
  }
  if (request.job().size() > kMaxJobBytes) {
    return absl::InvalidArgumentError(
        StrCat("job has ", request.job().size(), " bytes, at most ", kMaxJobBytes));
  }
  if (request.pid() < 0) {
    return absl::InvalidArgumentError(StrCat("pid is ", request.pid(), "; it must be positive"));
  }
  if (request.limit() < 0 || request.limit() > kMostPoints) {
    return absl::InvalidArgumentError(
        StrCat("limit is ", request.limit(), "; it must be in 0..", kMostPoints));
  }
  Query query;
  query.parts = {.steps = request.step_time(),
                 .devices = false,
                 .ops = false,
                 .operator_name = request.operator_name()};
  query.job = request.job();
  if (request.limit() > 0) query.limit = request.limit();
  if (!request.schedule().empty()) {
    ASSIGN_OR_RETURN(query.schedule_prefix, ParseScheduleName(request.schedule()));
  }
  if (request.pid() > 0) query.filter.pid = request.pid();
  if (request.has_since()) {
    ASSIGN_OR_RETURN(query.filter.since, TimeFromProto(request.since(), "since"));
  }
  if (request.has_until()) {
    ASSIGN_OR_RETURN(query.filter.until, TimeFromProto(request.until(), "until"));
  }
  if (query.filter.since.has_value() && query.filter.until.has_value() &&
      *query.filter.until < *query.filter.since) {
    return absl::InvalidArgumentError("until lies before since");
  }
  return query;
}

bool Concerns(const Query& query, const CaptureRecord& record) {
  // What ran elsewhere did not become slow here.
  if (!record.imported.source.empty()) return false;
  if (!query.job.empty() && JobOf(record.target) != query.job) return false;
  return query.schedule_prefix.empty() || record.schedule_id.starts_with(query.schedule_prefix);
}

v1::HistoryPoint PointOf(const CaptureRecord& record, int64_t start_ns) {
  v1::HistoryPoint point;
  TimeToProto(absl::FromUnixNanos(record.start_unix_ns + start_ns), *point.mutable_time());
  point.set_capture(CaptureName(record.id));
  point.set_node(ToValidUtf8(record.node));
  point.set_pid(record.target.pid);
  point.set_rank(RankOf(record.target));
  point.set_job(ToValidUtf8(JobOf(record.target)));
  if (!record.schedule_id.empty()) point.set_schedule(ScheduleName(record.schedule_id));
  point.set_sampling_weight(record.sampling_weight);
  point.set_quality(QualityGrade(record));
  return point;
}

// Its points, newest first.
std::vector<v1::HistoryPoint> StepPoints(const store::SummarizedCapture& capture) {
  const CaptureRecord& record = capture.record;
  std::vector<v1::HistoryPoint> points;
  for (auto row = capture.summaries.steps.rbegin(); row != capture.summaries.steps.rend(); ++row) {
    const auto window = static_cast<size_t>(row->window);
    const bool known = row->window >= 0 && window < record.windows.size();
    v1::HistoryPoint point = PointOf(record, known ? record.windows[window].start_ns : 0);
    point.set_steps(row->steps);
    point.set_min_ns(row->min_ns);
    point.set_median_ns(row->median_ns);
    point.set_mean_ns(row->mean_ns);
    point.set_max_ns(row->max_ns);
    points.push_back(std::move(point));
  }
  return points;
}

v1::HistoryPoint OperatorPoint(const CaptureRecord& record, const store::OpSummaryRow& op) {
  v1::HistoryPoint point = PointOf(record, 0);
  point.set_steps(record.covered_steps);
  point.set_min_ns(op.min_ns);
  point.set_mean_ns(op.calls > 0 ? op.cpu_total_ns / op.calls : 0);
  point.set_max_ns(op.max_ns);
  point.set_calls(op.calls);
  point.set_self_cpu_ns(op.self_cpu_ns);
  point.set_cpu_total_ns(op.cpu_total_ns);
  point.set_self_device_ns(op.self_device_ns);
  return point;
}

}  // namespace

absl::Status GetHistory(store::CaptureStore& store, const CallInfo& info,
                        const v1::GetHistoryRequest& request, v1::GetHistoryResponse& response) {
  ASSIGN_OR_RETURN(const Query query, QueryFromProto(request));
  std::vector<v1::HistoryPoint> newest_first;
  int64_t left_out = 0;
  int64_t without_operator = 0;
  const auto take = [&](v1::HistoryPoint point) {
    if (static_cast<int64_t>(newest_first.size()) < query.limit) {
      newest_first.push_back(std::move(point));
    } else {
      ++left_out;
    }
  };
  std::string before_id;
  for (;;) {
    if (info.cancelled->load(std::memory_order_acquire)) {
      return absl::CancelledError("the caller went away");
    }
    ASSIGN_OR_RETURN(const std::vector<store::SummarizedCapture> captures,
                     store.ListSummaries(query.filter, query.parts, kCapturesAtOnce, before_id));
    for (const store::SummarizedCapture& capture : captures) {
      // A live one has no summaries yet.
      if (capture.record.start_unix_ns == 0 || !Concerns(query, capture.record)) continue;
      if (!info.caller.May(Verb::kRead, OwnerOf(capture.record))) continue;
      for (v1::HistoryPoint& point : StepPoints(capture)) take(std::move(point));
      const std::vector<store::OpSummaryRow>& ops = capture.summaries.ops;
      const auto op = std::ranges::find(ops, request.operator_name(), &store::OpSummaryRow::name);
      if (op != ops.end()) {
        take(OperatorPoint(capture.record, *op));
      } else if (!ops.empty()) {
        ++without_operator;
      }
    }
    if (static_cast<int64_t>(captures.size()) < kCapturesAtOnce) break;
    before_id = captures.back().record.id;
  }
  for (auto point = newest_first.rbegin(); point != newest_first.rend(); ++point) {
    *response.add_points() = std::move(*point);
  }
  response.set_left_out_count(left_out);
  response.set_without_operator_count(without_operator);
  return absl::OkStatus();
}

}  // namespace profd::rpc
