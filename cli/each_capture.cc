#include "cli/each_capture.h"

#include <utility>
#include <vector>

#include "cli/capture_source.h"
#include "cli/errors.h"
#include "cli/render_capture.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"

namespace profd::cli {

absl::StatusOr<int> ForEachCapture(
    Invocation& invocation,
    absl::FunctionRef<absl::StatusOr<CaptureView>(DaemonClient&, const std::string&)> act) {
  std::vector<std::string> ids;
  for (const std::string& argument : invocation.arguments()) {
    ASSIGN_OR_RETURN(ids.emplace_back(), ParseCaptureId(argument));
  }
  ASSIGN_OR_RETURN(DaemonClient* const daemon, invocation.Daemon());
  std::vector<CaptureView> views;
  std::vector<std::pair<std::string, absl::Status>> failures;
  for (const std::string& id : ids) {
    absl::StatusOr<CaptureView> view = daemon->GetCapture(id);
    if (view.ok()) view = act(*daemon, view->record.id);
    if (!view.ok()) {
      failures.emplace_back(id, view.status());
      invocation.Note(DescribeError(view.status()));
      continue;
    }
    if (!invocation.json()) {
      invocation.Print(
          StrCat(view->record.id, " ", view->record.deleted ? "deleted" : view->state, "\n"));
    }
    views.push_back(*std::move(view));
  }
  if (invocation.json()) {
    JsonWriter json;
    json.BeginObject().Key("captures").BeginArray();
    for (const CaptureView& view : views) WriteCaptureJson(view, "", json);
    json.EndArray().Key("errors").BeginArray();
    for (const auto& [id, status] : failures) {
      json.BeginObject();
      json.Field("id", id);
      json.Field("message", FromAbsl(status.message()));
      json.EndObject();
    }
    json.EndArray().EndObject();
    invocation.Print(json.TakeLine());
  }
  return failures.empty() ? 0 : ExitCodeOf(failures.front().second);
}

}  // namespace profd::cli
