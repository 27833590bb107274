#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "cli/base/errors.h"
#include "cli/base/interrupts.h"
#include "cli/captures/capture_source.h"
#include "cli/captures/find_capture.h"
#include "cli/captures/find_group.h"
#include "cli/captures/fleet.h"
#include "cli/captures/output_file.h"
#include "cli/captures/progress.h"
#include "cli/client/daemon_client.h"
#include "cli/client/resource_names.h"
#include "cli/commands/command.h"
#include "daemon/base/json_writer.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"

namespace profd::cli {
namespace {

absl::Status FetchOne(Invocation& invocation, Interrupts& interrupts, DaemonClient& daemon,
                      const CaptureView& view, const std::string& path) {
  interrupts.OnInterrupt([&daemon] { daemon.Abort(); });
  ProgressLine progress(invocation.error_style());
  const absl::Status status = FetchToFile(daemon, view, path, [&](int64_t done, int64_t total) {
    progress.Show(TransferProgress("fetching", done, total));
  });
  progress.Clear();
  interrupts.OnInterrupt(nullptr);
  if (status.code() == absl::StatusCode::kCancelled ||
      status.code() == absl::StatusCode::kUnavailable) {
    invocation.Note("What has arrived is kept; run the same again to go on from there.\n");
  }
  return status;
}

void WriteFetchedJson(const CaptureRecord& record, const std::string& path, JsonWriter& json) {
  json.BeginObject();
  json.Field("id", record.id);
  json.Field("node", record.node);
  json.Field("path", path);
  json.Field("bytes", record.file_bytes);
  json.Field("sha256", record.file_sha256);
  json.EndObject();
}

// Every capture of a group as a file of its own, with its rank or pid in front of the suffix.
absl::StatusOr<int> FetchGroup(Invocation& invocation, Interrupts& interrupts, Fleet* fleet,
                               const FoundGroup& group, const std::string& asked) {
  std::vector<CaptureView> views;
  for (const FoundCaptureOf& capture : group.captures) views.push_back(capture.view);
  const std::vector<std::string> tags = TagsFor(views);
  const std::string output = asked.empty() ? StrCat(group.record.id, ".profd") : asked;
  JsonWriter json;
  json.BeginObject().Key("captures").BeginArray();
  bool all = true;
  for (size_t i = 0; i < views.size(); ++i) {
    const CaptureRecord& record = views[i].record;
    if (!views[i].HasEvents()) {
      all = false;
      invocation.Note(StrCat("profctl: capture ", record.id, " on ", ForDisplay(record.node, 255),
                             " holds no events: it is ", views[i].state, "\n"));
      continue;
    }
    const std::string path = WithTag(output, tags[i]);
    ASSIGN_OR_RETURN(DaemonClient* const daemon, OwnerOf(group.captures[i], invocation, fleet));
    RETURN_IF_ERROR(FetchOne(invocation, interrupts, *daemon, views[i], path));
    if (!invocation.json()) invocation.Print(StrCat(path, "\n"));
    WriteFetchedJson(record, path, json);
  }
  json.EndArray().EndObject();
  if (invocation.json()) invocation.Print(json.TakeLine());
  for (const GroupMember& member : group.record.members) {
    const bool here = std::ranges::any_of(
        views, [&](const CaptureView& view) { return view.record.id == member.capture_id; });
    if (here || member.capture_id.empty()) continue;
    all = false;
    invocation.Note(StrCat("profctl: capture ", member.capture_id, " is on ",
                           ForDisplay(member.node, 255), "; name that node with --nodes, too\n"));
  }
  invocation.Note(RenderNodeFailures(group.outcomes));
  return all ? kExitDone : kExitPartial;
}

absl::StatusOr<int> RunFetch(Invocation& invocation) {
  Interrupts interrupts;
  const std::string& name = invocation.arguments().front();
  if (!WholeGroupId(name).has_value()) RETURN_IF_ERROR(ParseCaptureId(name).status());
  const std::string asked = invocation.flags().Get("output").value_or("");
  if (!asked.empty()) {
    if (!asked.ends_with(".profd")) {
      return UsageError(
          "a fetched capture must be named FILE.profd; for a trace use "
          "`profctl export`");
    }
    RETURN_IF_ERROR(CheckWritable(asked));
  }
  ASSIGN_OR_RETURN(std::optional<Fleet> fleet, FleetOf(invocation));
  // Both kinds of IDs are ULIDs, so only the daemons know whether this is a group.
  if (const std::optional<std::string> group_id = WholeGroupId(name)) {
    Fleet* const many = fleet.has_value() ? &*fleet : nullptr;
    const absl::StatusOr<FoundGroup> group = FindGroup(invocation, many, *group_id);
    if (group.ok()) return FetchGroup(invocation, interrupts, many, *group, asked);
    if (name.starts_with(kGroupsPrefix)) return group.status();
  }
  ASSIGN_OR_RETURN(const std::string id, ParseCaptureId(name));
  DaemonClient* daemon = nullptr;
  CaptureView view;
  if (fleet.has_value()) {
    ASSIGN_OR_RETURN(FoundCapture found, FindCapture(invocation, *fleet, id));
    daemon = fleet->connection(found.member);
    view = std::move(found.view);
  } else {
    ASSIGN_OR_RETURN(daemon, invocation.Daemon());
    ASSIGN_OR_RETURN(view, daemon->GetCapture(id));
  }
  const std::string path = asked.empty() ? StrCat(view.record.id, ".profd") : asked;

  RETURN_IF_ERROR(FetchOne(invocation, interrupts, *daemon, view, path));
  if (invocation.json()) {
    JsonWriter json;
    WriteFetchedJson(view.record, path, json);
    invocation.Print(json.TakeLine());
  } else {
    invocation.Print(StrCat(path, "\n"));
  }
  return 0;
}

}  // namespace

Command FetchCommand() {
  return {.name = "fetch",
          .summary = "Copy a capture here, as a file that can replace its ID",
          .arguments = "ID",
          .description =
              "Copies the capture file here, verifies its SHA-256, and prints its path. Every "
              "report and `export` then take FILE.profd instead of an ID, without a daemon.\n\nAn "
              "interrupted copy leaves FILE.profd.ID.part; the same command resumes it.",
          .flags = {{.name = "output",
                     .letter = 'o',
                     .value_name = "FILE",
                     .help = "Output file, ending in .profd (default: ID.profd)",
                     .completes = Completes::kCaptureFile}},
          .examples = {{"profctl fetch 01J9ZK -o run.profd", "Take a capture along"},
                       {"profctl ops run.profd", "Read it anywhere"}},
          .min_arguments = 1,
          .max_arguments = 1,
          .completes = Completes::kCapture,
          .takes_nodes = true,
          .run = &RunFetch};
}

}  // namespace profd::cli
