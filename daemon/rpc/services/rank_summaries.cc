#include "daemon/rpc/services/rank_summaries.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/capture/group_types.h"
#include "daemon/rpc/admission/names.h"
#include "daemon/rpc/convert/convert.h"
#include "daemon/rpc/convert/report.h"

namespace profd::rpc {
namespace {

// How many captures are read while the catalog is locked.
constexpr int64_t kRowsAtOnce = 50;
// Enough to fill a page where most captures do not match; then the caller asks on.
constexpr int kMostRounds = 200;
constexpr size_t kMostPageBytes = size_t{4} << 20;
constexpr size_t kMostJobBytes = 256;

struct RankQuery {
  store::CaptureFilter filter;
  std::string job;
  std::string schedule_prefix;  // Of ids; empty: any.
  int32_t page_size = 0;
  std::string text;  // The same for the same filter and caller.
};

absl::StatusOr<RankQuery> RankQueryFrom(const Caller& caller,
                                        const v1::ListRankSummariesRequest& request) {
  RankQuery query;
  ASSIGN_OR_RETURN(query.page_size, CheckPageSize(request.page_size()));
  if (request.job().size() > kMostJobBytes) {
    return absl::InvalidArgumentError(
        StrCat("job has ", request.job().size(), " bytes, at most ", kMostJobBytes));
  }
  query.job = request.job();
  if (!request.schedule().empty()) {
    ASSIGN_OR_RETURN(query.schedule_prefix, ParseScheduleName(request.schedule()));
  }
  if (!request.group().empty()) {
    ASSIGN_OR_RETURN(query.filter.group_id, ParseGroupName(request.group()));
  }
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
  query.text =
      StrCat(PrincipalName(caller.principal), "\n", request.since().seconds(), ".",
             request.since().nanos(), "\n", request.until().seconds(), ".", request.until().nanos(),
             "\n", query.job, "\n", query.schedule_prefix, "\n", query.filter.group_id);
  return query;
}

bool IsMeant(const RankQuery& query, const CaptureRecord& record) {
  if (record.group_id.empty() || !IsTerminal(record.state)) return false;
  if (!record.imported.source.empty()) return false;
  if (!query.job.empty() && JobOf(record.target) != query.job) return false;
  return query.schedule_prefix.empty() || record.schedule_id.starts_with(query.schedule_prefix);
}

// The records of groups, each read once. Who did not ask for a group does not see its members.
class GroupClocks {
 public:
  GroupClocks(store::CaptureStore& store, const Caller& caller) : store_(store), caller_(caller) {}

  absl::Status AddTo(const CaptureRecord& record, v1::RankSummary& summary) {
    const auto [group, is_new] = groups_.try_emplace(record.group_id);
    if (is_new) RETURN_IF_ERROR(Read(record.group_id, group->second));
    const auto member = group->second.find(record.id);
    if (member == group->second.end()) return absl::OkStatus();
    summary.set_clock_offset_ns(member->second.first);
    summary.set_clock_bound_ns(member->second.second);
    return absl::OkStatus();
  }

 private:
  using ClockOf = std::map<std::string, std::pair<int64_t, int64_t>>;  // By capture.

  absl::Status Read(const std::string& id, ClockOf& clocks) {
    const absl::StatusOr<GroupRecord> group = store_.GetGroup(id);
    if (absl::IsNotFound(group.status())) return absl::OkStatus();
    RETURN_IF_ERROR(group.status());
    if (group->requested_by != PrincipalName(caller_.principal) && !caller_.MayAll(Verb::kList)) {
      return absl::OkStatus();
    }
    for (const GroupMember& member : group->members) {
      if (member.clock_bound_ns < 0) continue;
      clocks[member.capture_id] = {member.clock_offset_ns, member.clock_bound_ns};
    }
    return absl::OkStatus();
  }

  store::CaptureStore& store_;
  const Caller& caller_;
  std::map<std::string, ClockOf> groups_;
};

}  // namespace

absl::Status ListRankSummaries(store::CaptureStore& store, const CallInfo& info,
                               const v1::ListRankSummariesRequest& request,
                               v1::ListRankSummariesResponse& response, RateLimiter& damaged_log) {
  ASSIGN_OR_RETURN(const RankQuery query, RankQueryFrom(info.caller, request));
  ASSIGN_OR_RETURN(std::string before_id, ParsePageToken(request.page_token(), query.text));
  GroupClocks clocks(store, info.caller);
  const store::SummaryParts parts = {.steps = false, .devices = false, .ops = false, .ranks = true};
  size_t page_bytes = 0;
  for (int round = 0; round < kMostRounds; ++round) {
    if (info.cancelled->load(std::memory_order_acquire)) {
      return absl::CancelledError("the caller went away");
    }
    ASSIGN_OR_RETURN(const std::vector<store::SummarizedCapture> captures,
                     store.ListSummaries(query.filter, parts, kRowsAtOnce, before_id));
    for (const store::SummarizedCapture& capture : captures) {
      if (response.summaries_size() >= query.page_size || page_bytes >= kMostPageBytes) {
        response.set_next_page_token(MakePageToken(before_id, query.text));
        return absl::OkStatus();
      }
      // Also for a capture that is left out: the next page begins after it and does not look at it
      // again.
      before_id = capture.record.id;
      if (!IsMeant(query, capture.record)) continue;
      if (!info.caller.May(Verb::kRead, OwnerOf(capture.record))) continue;
      v1::RankSummary& summary = *response.add_summaries();
      CaptureToProto(capture.record, *summary.mutable_capture());
      RETURN_IF_ERROR(clocks.AddTo(capture.record, summary));
      const std::string& kept = capture.summaries.ranks;
      if (kept.empty()) continue;
      if (absl::Status status = RankSummaryToProto(kept, summary); !status.ok()) {
        if (const auto more = damaged_log.Allow()) {
          LogWarning(
              StrCat("capture=", capture.record.id, " ", status.ToString(), " (", *more, " more)"));
        }
      }
      page_bytes += summary.collectives().ByteSizeLong();
    }
    if (std::ssize(captures) < kRowsAtOnce) return absl::OkStatus();
  }
  response.set_next_page_token(MakePageToken(before_id, query.text));
  return absl::OkStatus();
}

}  // namespace profd::rpc
