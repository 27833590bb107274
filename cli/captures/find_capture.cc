#include "cli/captures/find_capture.h"

#include <optional>
#include <utility>

#include "cli/base/errors.h"
#include "cli/base/flags.h"
#include "cli/base/hostlist.h"
#include "cli/client/daemon_client.h"
#include "daemon/base/reason.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"

namespace profd::cli {
namespace {

using Answers = std::vector<absl::StatusOr<CaptureView>>;  // One of each member.

absl::Status NobodyHas(const Fleet& fleet, const std::string& id,
                       const std::vector<NodeOutcome>& outcomes) {
  std::vector<std::string> unasked;
  for (const NodeOutcome& outcome : outcomes) {
    if (!outcome.status.ok()) unasked.push_back(outcome.node);
  }
  std::string message = StrCat("no capture ", id, " on ", fleet.members().size(), " nodes");
  if (!unasked.empty()) {
    StrAppend(&message, "; ", CompressHostlist(unasked), " could not be asked");
  }
  return absl::NotFoundError(message);
}

absl::StatusOr<FoundCapture> Choose(const Fleet& fleet, const std::string& id, Answers& answers,
                                    const std::vector<NodeOutcome>& outcomes) {
  std::optional<size_t> owner;
  for (size_t member = 0; member < answers.size(); ++member) {
    if (!answers[member].ok()) continue;
    if (owner.has_value()) {
      return UsageError(
          StrCat("'", id, "' begins the ids of several captures: ", answers[*owner]->record.id,
                 " on ", fleet.members()[*owner].node, " and ", answers[member]->record.id, " on ",
                 fleet.members()[member].node, "; give more of it"));
    }
    owner = member;
  }
  if (owner.has_value()) return FoundCapture{*owner, *std::move(answers[*owner])};
  for (size_t member = 0; member < answers.size(); ++member) {
    const bool was_asked = outcomes[member].status.ok();
    const absl::Status& status = answers[member].status();
    if (was_asked && status.code() != absl::StatusCode::kNotFound) return status;
  }
  return NobodyHas(fleet, id, outcomes);
}

// A daemon that is not there or says nothing cannot be asked for the other ids either.
bool IsOutOfReach(const absl::Status& status) {
  const std::string reason = ReasonOf(status);
  return reason == kNoDaemonReason || reason == kNoAnswerReason ||
         status.code() == absl::StatusCode::kCancelled;
}

}  // namespace

absl::StatusOr<CaptureSearch> FindCaptures(Invocation& invocation, Fleet& fleet,
                                           const std::vector<std::string>& ids) {
  ASSIGN_OR_RETURN(const absl::Duration timeout, NodeTimeoutOf(invocation));
  const size_t member_count = fleet.members().size();
  std::vector<Answers> answers(
      ids.size(), Answers(member_count, absl::StatusOr<CaptureView>(absl::UnknownError(""))));
  CaptureSearch search;
  search.outcomes = RunOnAll(invocation, fleet, timeout,
                             [&](size_t member, DaemonClient& daemon) -> absl::Status {
                               for (size_t i = 0; i < ids.size(); ++i) {
                                 answers[i][member] = daemon.GetCapture(ids[i]);
                                 const absl::Status& status = answers[i][member].status();
                                 if (IsOutOfReach(status)) return status;
                               }
                               // The command goes on with this connection, beyond the deadline of
                               // the search.
                               daemon.LimitCalls(absl::InfiniteDuration());
                               return absl::OkStatus();
                             });
  for (size_t i = 0; i < ids.size(); ++i) {
    search.found.push_back(Choose(fleet, ids[i], answers[i], search.outcomes));
    if (search.found.back().ok()) {
      FoundCapture& found = *search.found.back();
      found.view.record.node = fleet.members()[found.member].node;
    }
  }
  return search;
}

absl::StatusOr<FoundCapture> FindCapture(Invocation& invocation, Fleet& fleet,
                                         const std::string& id) {
  ASSIGN_OR_RETURN(CaptureSearch search, FindCaptures(invocation, fleet, {id}));
  return std::move(search.found.front());
}

}  // namespace profd::cli
