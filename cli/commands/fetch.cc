#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "cli/base/errors.h"
#include "cli/base/failures.h"
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
#include "cli/render/outcomes.h"
#include "daemon/base/json_writer.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"

namespace profd::cli {
namespace {

constexpr std::string_view kWhatIsKept =
    "What has arrived is kept; run the same again to go on from there.\n";

bool IsCutOff(const absl::Status& status) {
  return absl::IsCancelled(status) || absl::IsUnavailable(status);
}

absl::Status FetchOne(Invocation& invocation, Interrupts& interrupts, DaemonClient& daemon,
                      const CaptureView& view, const std::string& path) {
  interrupts.OnInterrupt([&daemon] { daemon.Abort(); });
  ProgressLine progress(invocation.error_style());
  absl::Status status = FetchToFile(daemon, view, path, [&](int64_t done, int64_t total) {
    progress.Show(TransferProgress("fetching", done, total));
  });
  progress.Clear();
  interrupts.OnInterrupt(nullptr);
  return status;
}

// Members without a capture on the nodes that answered.
std::vector<Failure> MembersElsewhere(const FoundGroup& group) {
  std::vector<Failure> failures = CapturesElsewhere(group);
  for (const GroupMember& member : group.record.members) {
    if (!member.capture_id.empty()) continue;
    failures.push_back(
        {"", member.node,
         absl::NotFoundError(
             StrCat(member.rank >= 0 ? StrCat("rank ", member.rank) : StrCat("pid ", member.pid),
                    ": ", member.error.empty() ? "it could not be prepared" : member.error))});
  }
  return failures;
}

// Every capture of a group as a file of its own, with its rank or pid in front of the suffix. One
// that cannot be fetched does not keep the rest.
absl::StatusOr<int> FetchGroup(Invocation& invocation, Interrupts& interrupts, Fleet* fleet,
                               const FoundGroup& group, const std::string& asked) {
  std::vector<CaptureView> views;
  views.reserve(group.captures.size());
  for (const FoundCaptureOf& capture : group.captures) views.push_back(capture.view);
  const std::vector<std::string> tags = TagsFor(views);
  const std::string output = asked.empty() ? StrCat(group.record.id, ".profd") : asked;
  GroupFetchAnswer answer = {.outcomes = fleet == nullptr ? nullptr : &group.outcomes};
  bool is_cut_off = false;
  for (size_t i = 0; i < views.size(); ++i) {
    const CaptureRecord& record = views[i].record;
    const std::string path = WithTag(output, tags[i]);
    absl::Status status;
    if (interrupts.interrupted()) {
      status = absl::CancelledError("interrupted");
    } else if (!views[i].HasEvents()) {
      status = absl::FailedPreconditionError(StrCat("it holds no events: it is ", views[i].state));
    } else if (const auto daemon = OwnerOf(group.captures[i], invocation, fleet); !daemon.ok()) {
      status = daemon.status();
    } else {
      status = FetchOne(invocation, interrupts, **daemon, views[i], path);
      is_cut_off = is_cut_off || IsCutOff(status);
    }
    if (!status.ok()) {
      answer.failures.push_back({record.id, record.node, std::move(status)});
      continue;
    }
    if (!invocation.json()) invocation.Print(StrCat(path, "\n"));
    answer.captures.push_back({&record, path});
  }
  std::ranges::move(MembersElsewhere(group), std::back_inserter(answer.failures));
  if (invocation.json()) {
    JsonWriter json;
    GroupFetchObject().Write(answer, json);
    invocation.Print(json.TakeLine());
  }
  invocation.Note(DescribeFailures(answer.failures, "capture"));
  if (is_cut_off) invocation.Note(kWhatIsKept);
  invocation.Note(RenderNodeFailures(group.outcomes));
  return ExitCodeOf(answer.failures, !answer.captures.empty());
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

  const absl::Status status = FetchOne(invocation, interrupts, *daemon, view, path);
  if (IsCutOff(status)) invocation.Note(kWhatIsKept);
  RETURN_IF_ERROR(status);
  if (invocation.json()) {
    JsonWriter json;
    FetchedObject().Write({&view.record, path}, json);
    invocation.Print(json.TakeLine());
  } else {
    invocation.Print(StrCat(path, "\n"));
  }
  return 0;
}

}  // namespace

Command FetchCommand() {
  return {
      .name = "fetch",
      .summary = "Copy a capture to a file that commands take instead of its ID",
      .arguments = "ID",
      .description =
          "Copies the capture file here, verifies its SHA-256, and prints its path. Every "
          "report and `export` then take FILE.profd instead of an ID, without a daemon.\n\nAn "
          "interrupted copy leaves FILE.profd.ID.part; the same command resumes it.\n\nThe ID of a "
          "group copies each of its captures to a file of its own, with the rank or PID before "
          "the suffix. A capture that cannot be copied is named on stderr and in \"errors\" of "
          "--json; the others are copied (exit code 4).",
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
