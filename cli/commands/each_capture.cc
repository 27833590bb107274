#include "cli/commands/each_capture.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "cli/base/errors.h"
#include "cli/base/failures.h"
#include "cli/captures/capture_source.h"
#include "cli/captures/find_capture.h"
#include "cli/captures/find_group.h"
#include "cli/captures/fleet.h"
#include "cli/client/resource_names.h"
#include "cli/render/outcomes.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"

namespace profd::cli {
namespace {

using CaptureAction =
    absl::FunctionRef<absl::StatusOr<CaptureView>(DaemonClient&, const std::string&)>;

// What came of each id, in their order.
struct Results {
  std::vector<absl::StatusOr<CaptureView>> views;
  std::optional<std::vector<NodeOutcome>> nodes;  // nullopt: it was one daemon.
};

absl::StatusOr<Results> ActOnDaemon(Invocation& invocation, const std::vector<std::string>& ids,
                                    CaptureAction act) {
  ASSIGN_OR_RETURN(DaemonClient* const daemon, invocation.Daemon());
  Results results;
  for (const std::string& id : ids) {
    absl::StatusOr<CaptureView> view = daemon->GetCapture(id);
    if (view.ok()) {
      view = act(*daemon, view->record.id);
    } else {
      view = WhyNoCapture(*daemon, id, view.status());
    }
    results.views.push_back(std::move(view));
  }
  return results;
}

// Finds all of them first, then acts on every node at once.
absl::StatusOr<Results> ActOnFleet(Invocation& invocation, Fleet& fleet,
                                   const std::vector<std::string>& ids, CaptureAction act) {
  ASSIGN_OR_RETURN(const absl::Duration timeout, NodeTimeoutOf(invocation));
  ASSIGN_OR_RETURN(CaptureSearch search, FindCaptures(invocation, fleet, ids));
  Results results;
  results.nodes = std::move(search.outcomes);
  results.views.assign(ids.size(), absl::UnavailableError("its node did not answer again"));
  RunOnAll(invocation, fleet, timeout, [&](size_t member, DaemonClient& daemon) {
    for (size_t i = 0; i < ids.size(); ++i) {
      const absl::StatusOr<FoundCapture>& found = search.found[i];
      if (!found.ok() || found->member != member) continue;
      results.views[i] = act(daemon, found->view.record.id);
      if (results.views[i].ok()) results.views[i]->record.node = found->view.record.node;
    }
    return absl::OkStatus();
  });
  for (size_t i = 0; i < ids.size(); ++i) {
    if (search.found[i].ok()) continue;
    results.views[i] = WhyNoCapture(invocation, fleet, ids[i], search.found[i].status());
  }
  return results;
}

absl::StatusOr<Results> ActOn(Invocation& invocation, const std::vector<std::string>& ids,
                              CaptureAction act) {
  ASSIGN_OR_RETURN(std::optional<Fleet> fleet, FleetOf(invocation));
  return fleet.has_value() ? ActOnFleet(invocation, *fleet, ids, act)
                           : ActOnDaemon(invocation, ids, act);
}

// The captures of a group on the nodes that answer. Names those of others, and sets `failure`.
absl::StatusOr<std::vector<std::string>> IdsOfGroup(Invocation& invocation,
                                                    const std::string& group_id,
                                                    absl::Status& failure) {
  ASSIGN_OR_RETURN(std::optional<Fleet> fleet, FleetOf(invocation));
  ASSIGN_OR_RETURN(const FoundGroup group,
                   FindGroup(invocation, fleet.has_value() ? &*fleet : nullptr, group_id));
  std::vector<std::string> ids;
  for (const FoundCaptureOf& capture : group.captures) {
    if (!capture.view.record.deleted) ids.push_back(capture.view.record.id);
  }
  const std::vector<Failure> elsewhere = CapturesElsewhere(group);
  invocation.Note(DescribeFailures(elsewhere, "capture"));
  if (failure.ok() && !elsewhere.empty()) failure = elsewhere.front().status;
  return ids;
}

// Of all arguments, each once.
absl::StatusOr<std::vector<std::string>> IdsOf(Invocation& invocation, absl::Status& failure) {
  std::vector<std::string> ids;
  const auto add = [&ids](std::string id) {
    if (std::ranges::find(ids, id) == ids.end()) ids.push_back(std::move(id));
  };
  for (const std::string& argument : invocation.arguments()) {
    const std::optional<std::string> group_id =
        argument.starts_with(kGroupsPrefix) ? WholeGroupId(argument) : std::nullopt;
    if (!group_id.has_value()) {
      ASSIGN_OR_RETURN(std::string id, ParseCaptureId(argument));
      add(std::move(id));
      continue;
    }
    ASSIGN_OR_RETURN(std::vector<std::string> members, IdsOfGroup(invocation, *group_id, failure));
    for (std::string& id : members) add(std::move(id));
  }
  return ids;
}

std::string OutcomeLine(const Results& results, const CaptureView& view, std::string_view done) {
  const std::string where = results.nodes.has_value() ? StrCat(" on ", view.record.node) : "";
  if (done.empty()) done = view.record.deleted ? std::string_view("deleted") : view.state;
  return StrCat(view.record.id, where, " ", done, "\n");
}

void PrintOutcomesJson(Invocation& invocation, const std::vector<std::string>& ids,
                       const Results& results) {
  ActedOnAnswer answer = {.outcomes = results.nodes.has_value() ? &*results.nodes : nullptr};
  for (size_t i = 0; i < ids.size(); ++i) {
    const absl::StatusOr<CaptureView>& view = results.views[i];
    if (view.ok()) {
      answer.captures.push_back({.view = &*view});
    } else {
      answer.failures.push_back({ids[i], /*node=*/"", view.status()});
    }
  }
  JsonWriter json;
  ActedOnObject().Write(answer, json);
  invocation.Print(json.TakeLine());
}

}  // namespace

absl::StatusOr<int> ForEachCapture(Invocation& invocation, CaptureAction act,
                                   std::string_view done) {
  absl::Status first_failure;
  ASSIGN_OR_RETURN(const std::vector<std::string> ids, IdsOf(invocation, first_failure));
  ASSIGN_OR_RETURN(const Results results, ActOn(invocation, ids, act));
  for (const absl::StatusOr<CaptureView>& view : results.views) {
    if (!view.ok()) {
      invocation.Note(DescribeError(view.status()));
      if (first_failure.ok()) first_failure = view.status();
    } else if (!invocation.json()) {
      invocation.Print(OutcomeLine(results, *view, done));
    }
  }
  if (invocation.json()) PrintOutcomesJson(invocation, ids, results);
  if (!first_failure.ok() && results.nodes.has_value()) {
    invocation.Note(RenderNodeFailures(*results.nodes));
  }
  return ExitCodeOf(first_failure);
}

}  // namespace profd::cli
