#include "daemon/rpc/services/history.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/capture/quality.h"
#include "daemon/report/ranks/cpu_waits.h"
#include "daemon/report/ranks/history.h"
#include "daemon/rpc/admission/names.h"
#include "daemon/rpc/convert/convert.h"
#include "daemon/rpc/convert/report.h"

namespace profd::rpc {
namespace {

using report::HistoryPoint;

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

HistoryPoint PointOf(const CaptureRecord& record, int64_t start_ns) {
  return {.time_unix_ns = record.start_unix_ns + start_ns,
          .capture = record.id,
          .node = ToValidUtf8(record.node),
          .pid = record.target.pid,
          .command = ToValidUtf8(record.target.command),
          .rank = RankOf(record.target),
          .job = ToValidUtf8(JobOf(record.target)),
          .schedule = record.schedule_id,
          .sampling_weight = record.sampling_weight,
          .quality = std::string(QualityGrade(record))};
}

// As HistoryPoint has it. A GPU hides waits of the host, and summaries do not keep how many.
int64_t CpuWaitOf(const CaptureRecord& record, int64_t step_ns) {
  if (record.gpu.outcome != GpuOutcome::kNoCuda) return -1;
  return report::StepCpuWaits(record.cpu, {}).OnAverage(step_ns);
}

// Its points, newest first.
std::vector<HistoryPoint> StepPoints(const store::SummarizedCapture& capture) {
  const CaptureRecord& record = capture.record;
  std::vector<HistoryPoint> points;
  for (auto row = capture.summaries.steps.rbegin(); row != capture.summaries.steps.rend(); ++row) {
    const auto window = static_cast<size_t>(row->window);
    const bool known = row->window >= 0 && window < record.windows.size();
    HistoryPoint& point =
        points.emplace_back(PointOf(record, known ? record.windows[window].start_ns : 0));
    point.steps = row->steps;
    point.min_ns = row->min_ns;
    point.median_ns = row->median_ns;
    point.mean_ns = row->mean_ns;
    point.max_ns = row->max_ns;
    point.cpu_wait_ns = CpuWaitOf(record, row->median_ns);
  }
  return points;
}

HistoryPoint OperatorPoint(const CaptureRecord& record, const store::OpSummaryRow& op) {
  HistoryPoint point = PointOf(record, 0);
  point.steps = record.covered_steps;
  point.min_ns = op.min_ns;
  point.mean_ns = op.calls > 0 ? op.cpu_total_ns / op.calls : 0;
  point.max_ns = op.max_ns;
  point.calls = op.calls;
  point.self_cpu_ns = op.self_cpu_ns;
  point.cpu_total_ns = op.cpu_total_ns;
  point.self_device_ns = op.self_device_ns;
  return point;
}

}  // namespace

absl::Status GetHistory(store::CaptureStore& store, const CallInfo& info,
                        const v1::GetHistoryRequest& request, v1::Report& response) {
  ASSIGN_OR_RETURN(const Query query, QueryFromProto(request));
  report::History history;
  std::vector<HistoryPoint>& points = history.points;  // Newest first.
  const auto take = [&](HistoryPoint point) {
    if (std::ssize(points) < query.limit) {
      points.push_back(std::move(point));
    } else {
      ++history.left_out_count;
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
      for (HistoryPoint& point : StepPoints(capture)) take(std::move(point));
      const std::vector<store::OpSummaryRow>& ops = capture.summaries.ops;
      const auto op = std::ranges::find(ops, request.operator_name(), &store::OpSummaryRow::name);
      if (op != ops.end()) {
        take(OperatorPoint(capture.record, *op));
      } else if (!ops.empty()) {
        ++history.without_operator_count;
      }
    }
    if (static_cast<int64_t>(captures.size()) < kCapturesAtOnce) break;
    before_id = captures.back().record.id;
  }
  std::ranges::reverse(points);
  ReportToProto(report::ToReport(history), response);
  return absl::OkStatus();
}

}  // namespace profd::rpc
