#include <algorithm>
#include <utility>

#include "cli/capture_source.h"
#include "cli/command.h"
#include "cli/daemon_client.h"
#include "cli/label.h"
#include "cli/render_capture.h"
#include "daemon/base/clock.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"

namespace profd::cli {
namespace {

constexpr int64_t kRowsForPeople = 50;
constexpr int64_t kMostRows = 1'000'000'000;

// "2026-11-20T10:00:00Z", or how long ago: "2h".
absl::StatusOr<absl::Time> ParseSince(const std::string& text, absl::Time now) {
  absl::Time time;
  std::string why;
  if (absl::ParseTime(absl::RFC3339_full, text, &time, &why)) return time;
  const absl::StatusOr<absl::Duration> age = ParseDuration(text);
  if (age.ok()) return now - *age;
  return UsageError(StrCat("--since '", ForDisplay(text, 80),
                           "' is neither an age such as 90s, 2h, 3d nor a time such as "
                           "2026-11-20T10:00:00Z"));
}

absl::StatusOr<std::vector<CaptureState>> ParseStates(const std::vector<std::string>& words) {
  std::vector<CaptureState> states;
  for (std::string word : words) {
    std::transform(word.begin(), word.end(), word.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    const std::optional<CaptureState> state = CaptureStateFromString(word);
    if (!state.has_value()) {
      return UsageError(StrCat("--state '", ForDisplay(word, 80),
                               "' is no state; they are PENDING, ARMING, WAITING_STEP, WARMUP, "
                               "RECORDING, DRAINING, STORING, COMPLETE, PARTIAL, FAILED, "
                               "CANCELLED"));
    }
    states.push_back(*state);
  }
  return states;
}

absl::StatusOr<CaptureFilter> ParseFilter(const ParsedFlags& flags, absl::Time now) {
  CaptureFilter filter;
  ASSIGN_OR_RETURN(filter.states, ParseStates(flags.List("state")));
  ASSIGN_OR_RETURN(const std::optional<int64_t> pid, flags.Int("pid", 1, int64_t{1} << 32));
  filter.pid = pid.value_or(0);
  ASSIGN_OR_RETURN(filter.labels, ParseLabels(flags.All("label")));
  filter.display_name = flags.Get("name").value_or("");
  if (const auto since = flags.Get("since")) {
    ASSIGN_OR_RETURN(filter.since, ParseSince(*since, now));
  }
  if (const auto group = flags.Get("group")) {
    ASSIGN_OR_RETURN(filter.group, ParseCaptureId(*group));
  }
  filter.include_deleted = flags.Has("deleted");
  return filter;
}

// A listing has no steps; the rows that scripts get are whole captures.
absl::Status FillInSteps(DaemonClient& daemon, std::vector<CaptureView>& views) {
  for (CaptureView& view : views) {
    if (view.record.covered_steps == 0 || !view.steps.empty()) continue;
    absl::StatusOr<CaptureView> whole = daemon.GetCapture(view.record.id);
    if (whole.status().code() == absl::StatusCode::kNotFound) continue;  // deleted just now
    RETURN_IF_ERROR(whole.status());
    view = *std::move(whole);
  }
  return absl::OkStatus();
}

absl::StatusOr<int> Run(Invocation& invocation) {
  const absl::Time now = Clock::Real().Now();
  ASSIGN_OR_RETURN(const CaptureFilter filter, ParseFilter(invocation.flags(), now));
  ASSIGN_OR_RETURN(const std::optional<int64_t> limit,
                   invocation.flags().Int("limit", 0, kMostRows));
  ASSIGN_OR_RETURN(DaemonClient* const daemon, invocation.Daemon());

  if (invocation.json()) {
    ASSIGN_OR_RETURN(std::vector<CaptureView> views,
                     daemon->ListCaptures(filter, limit.value_or(0)));
    RETURN_IF_ERROR(FillInSteps(*daemon, views));
    JsonWriter json;
    json.BeginObject().Key("captures").BeginArray();
    for (const CaptureView& view : views) WriteCaptureJson(view, "", json);
    json.EndArray().EndObject();
    invocation.Print(json.TakeLine());
    return 0;
  }

  const int64_t rows = limit.value_or(kRowsForPeople);
  // One more than shown tells whether there are more.
  ASSIGN_OR_RETURN(std::vector<CaptureView> views,
                   daemon->ListCaptures(filter, rows == 0 ? 0 : rows + 1));
  if (views.empty()) {
    invocation.Print("No captures match. `profctl trace --steps 5` makes one.\n");
    return 0;
  }
  const bool more = rows > 0 && static_cast<int64_t>(views.size()) > rows;
  if (more) views.resize(static_cast<size_t>(rows));
  invocation.Print(RenderCaptureTable(views, now, invocation.style()));
  if (more) invocation.Print("(more: --limit 0 shows all)\n");
  return 0;
}

}  // namespace

Command CapturesCommand() {
  return {
      .name = "captures",
      .summary = "List captures, newest first",
      .description =
          "Lists the captures of this node that you may see, newest first. All filters "
          "that are given must match.",
      .flags = {{.name = "label",
                 .value_name = "KEY=VALUE",
                 .help = "Only captures with this label; may be repeated",
                 .repeated = true},
                {.name = "pid",
                 .value_name = "PID",
                 .help = "Only captures of this process",
                 .completes = Completes::kPid},
                {.name = "name",
                 .value_name = "NAME",
                 .help = "Only captures that were given this name, exactly"},
                {.name = "since",
                 .value_name = "WHEN",
                 .help = "Only captures made since then: an age (90s, 2h, 3d) or a time "
                         "(2026-11-20T10:00:00Z)"},
                {.name = "state",
                 .value_name = "STATE",
                 .help = "Only captures in this state; several as a list with commas",
                 .repeated = true,
                 .completes = Completes::kChoice,
                 .choices = {"PENDING", "ARMING", "WAITING_STEP", "WARMUP", "RECORDING", "DRAINING",
                             "STORING", "COMPLETE", "PARTIAL", "FAILED", "CANCELLED"}},
                {.name = "group", .value_name = "ID", .help = "Only captures of this group"},
                {.name = "deleted", .help = "Also captures whose events were deleted"},
                {.name = "limit",
                 .value_name = "N",
                 .help = "At most N rows; 0 is all (default: 50, all with --json)"}},
      .examples = {{"profctl captures --since 2h", "What was captured in the last two hours"},
                   {"profctl captures --label run=a17 --state PARTIAL,FAILED",
                    "What went wrong in one run"}},
      .run = &Run};
}

}  // namespace profd::cli
