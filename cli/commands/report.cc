#include "daemon/export/html/report.h"

#include <utility>
#include <vector>

#include "cli/base/errors.h"
#include "cli/captures/capture_set.h"
#include "cli/captures/capture_source.h"
#include "cli/captures/one_run.h"
#include "cli/captures/output_file.h"
#include "cli/captures/set_collectives.h"
#include "cli/commands/command.h"
#include "cli/commands/show_group_steps.h"
#include "cli/render/capture.h"
#include "cli/render/findings.h"
#include "cli/render/group_reports.h"
#include "cli/render/report_tables.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/table/table.h"
#include "daemon/base/text.h"
#include "daemon/base/text_file.h"
#include "daemon/report/findings/findings.h"
#include "daemon/report/reports.h"

namespace profd::cli {
namespace {

constexpr int64_t kEvidenceForPeople = 3;

// The file's text; empty: none is given.
absl::StatusOr<std::string> ReadThresholds(const ParsedFlags& flags) {
  const std::optional<std::string> path = flags.Get("thresholds");
  if (!path.has_value()) return std::string();
  // One byte more than is allowed, so that the parser refuses what is too long.
  constexpr size_t kMost = (1 << 20) + 1;
  absl::StatusOr<std::string> text = ReadUpTo(kMost, *path);
  if (!text.ok()) {
    return UsageError(StrCat("--thresholds: ", FromAbsl(text.status().message())));
  }
  const absl::Status status = report::ParseFindingThresholds(*text).status();
  if (status.ok()) return text;
  return UsageError(
      StrCat("--thresholds: ", ForDisplay(*path, 200), ", ", FromAbsl(status.message())));
}

// nullopt: for the terminal.
absl::StatusOr<std::optional<std::string>> HtmlPath(const Invocation& invocation) {
  const std::optional<std::string> path = invocation.flags().Get("html");
  if (!path.has_value()) return path;
  if (path->empty()) return UsageError("--html: say where to write (- is stdout)");
  if (invocation.json()) return UsageError("--html and --json are two reports; leave one out");
  if (*path != "-") RETURN_IF_ERROR(CheckWritable(*path));
  return path;
}

absl::Status WriteHtml(Invocation& invocation, store::CaptureReader& reader,
                       const report::FindingsReport& findings, const std::string& path) {
  RETURN_IF_ERROR(WriteToFile(
                      path, [](int64_t, int64_t) {},
                      [&](exporter::ByteSink& sink) {
                        return exporter::ExportHtmlReport(reader, findings, sink);
                      })
                      .status());
  if (path != "-") invocation.Print(StrCat(path, "\n"));
  return absl::OkStatus();
}

struct ReportOptions {
  std::string thresholds_text;  // Valid.
  report::FindingThresholds thresholds;
  FindingsView view;
  std::optional<std::string> html;
};

absl::StatusOr<ReportOptions> ReadOptions(const Invocation& invocation) {
  ReportOptions options;
  ASSIGN_OR_RETURN(const std::optional<int64_t> limit, invocation.flags().Int("limit", 0));
  options.view = {.evidence_rows = limit.value_or(invocation.json() ? 0 : kEvidenceForPeople),
                  .all = invocation.flags().Has("all")};
  ASSIGN_OR_RETURN(options.thresholds_text, ReadThresholds(invocation.flags()));
  ASSIGN_OR_RETURN(options.thresholds, report::ParseFindingThresholds(options.thresholds_text));
  ASSIGN_OR_RETURN(options.html, HtmlPath(invocation));
  return options;
}

// A group, and which member of it is reported on.
struct MemberOfGroup {
  const CaptureSet& set;
  size_t member;
  report::RankComparison ranks;
};

std::string MemberName(const CaptureSet::Member& member) {
  return StrCat(member.rank >= 0 ? "rank " : "", LabelOf(member));
}

// As the capture's daemon finds them.
absl::StatusOr<report::FindingsReport> FindingsOf(CaptureSource& source,
                                                  const ReportOptions& options) {
  report::ReportRequest request = {.report = "findings"};
  if (!options.thresholds_text.empty()) {
    request.options["thresholds"] = ToValidUtf8(options.thresholds_text);  // Of comments.
  }
  ASSIGN_OR_RETURN(const table::Report report, DemandingReport(source, request));
  return report::FindingsFrom(report);
}

// At most `rows` of each finding; 0: all.
report::FindingsReport LimitEvidence(report::FindingsReport report, int64_t rows) {
  for (report::Finding& finding : report.findings) {
    const auto most = static_cast<size_t>(rows);
    if (rows > 0 && finding.evidence.size() > most) finding.evidence.resize(most);
  }
  return report;
}

// `of`: nullptr: the capture was asked for by itself.
void PrintFindings(Invocation& invocation, const CaptureSource& source,
                   const report::FindingsReport& findings, const FindingsView& shown,
                   const MemberOfGroup* of) {
  CaptureView view = source.view();
  view.quality = findings.quality.grade;  // The events were looked at, too.
  if (invocation.json()) {
    ReportedMember reported;
    if (of != nullptr) {
      reported = {
          .set = &of->set, .member = static_cast<int64_t>(of->member), .excess = of->ranks.excess};
    }
    JsonWriter json;
    WriteFindingsJson(view, LimitEvidence(findings, shown.evidence_rows),
                      of == nullptr ? nullptr : &reported, json);
    invocation.Print(json.TakeLine());
    return;
  }
  if (of != nullptr) {
    invocation.Print(RenderSetHeader(of->set, invocation.style()));
    const bool is_straggler = of->ranks.steps.verdict == report::StragglerVerdict::kStraggler;
    // Where the first finding is on this, it says why the rank is slow.
    const bool says_why =
        !findings.findings.empty() && findings.findings.front().rule == "STRAGGLER_RANK";
    invocation.Print(StrCat(
        RenderStragglerVerdict(of->set, of->ranks.steps),
        says_why ? "" : RenderExcess(of->ranks.excess, invocation.style()), "What follows is of ",
        of->ranks.names[of->member],
        is_straggler ? ", a straggler.\n" : ", which comes first in `profctl stragglers`.\n"));
  }
  // The verdict names the grade and the worst of its reasons. All of them: on request, and where
  // something is missing.
  const bool is_whole =
      view.record.state == CaptureState::kComplete && view.dropped_event_count == 0;
  invocation.Print(is_whole && !shown.all ? RenderReportTitle(view, invocation.style())
                                          : RenderReportHeader(view, invocation.style()));
  invocation.Print("\n");
  invocation.Print(RenderFindings(findings, shown, invocation.style()));
}

// The modules that took the most time; empty: the capture has none.
absl::StatusOr<std::string> RenderHottestModules(CaptureSource& source, const Style& style) {
  constexpr int64_t kMostModules = 8;
  const bool has_gpu = !source.view().record.gpu.devices.empty();
  ASSIGN_OR_RETURN(const table::Report modules,
                   DemandingReport(source, {.report = "modules",
                                            .options = {{"sort", has_gpu ? "self_device" : "self"},
                                                        {"limit", StrCat(kMostModules)}}}));
  // One row is what is outside of modules; a daemon's answer may have no table.
  if (modules.tables.empty() || modules.tables.front().row_count < 2) return std::string();
  const table::Table& rows = modules.tables.front();
  return StrCat("\nModules, and what is outside of them, by self time on the ",
                has_gpu ? "GPU" : "host", " (`profctl modules` has all, as a tree)\n",
                RenderTable(rows, StyleFor(source.view(), style)));
}

absl::Status ReportOnMember(Invocation& invocation, CaptureSource& source,
                            const ReportOptions& options, const MemberOfGroup& of) {
  ASSIGN_OR_RETURN(store::CaptureReader* const reader, source.Reader());
  ASSIGN_OR_RETURN(const report::FindingsReport findings,
                   report::SummarizeFindings(*reader, options.thresholds, &of.ranks));
  if (options.html.has_value()) return WriteHtml(invocation, *reader, findings, *options.html);
  PrintFindings(invocation, source, findings, options.view, &of);
  return absl::OkStatus();
}

absl::Status ReportOnOne(Invocation& invocation, CaptureSource& source,
                         const ReportOptions& options) {
  if (!options.html.has_value()) {
    ASSIGN_OR_RETURN(const report::FindingsReport findings, FindingsOf(source, options));
    PrintFindings(invocation, source, findings, options.view, nullptr);
    if (!options.view.all || invocation.json()) return absl::OkStatus();
    const auto modules = RenderHottestModules(source, invocation.style());
    if (modules.ok()) {
      invocation.Print(*modules);
    } else {
      invocation.Note(
          StrCat("Modules are not shown: ", FromAbsl(modules.status().message()), "\n"));
    }
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(store::CaptureReader* const reader, source.Reader());
  ASSIGN_OR_RETURN(const report::FindingsReport findings,
                   report::SummarizeFindings(*reader, options.thresholds));
  return WriteHtml(invocation, *reader, findings, *options.html);
}

absl::StatusOr<int> ReportOnGroup(Invocation& invocation, CaptureSet& set,
                                  const ReportOptions& options) {
  const absl::StatusOr<SetCollectives> collectives = ReadCollectives(set);
  invocation.Note(RenderMissing(set));
  RETURN_IF_ERROR(collectives.status());
  MemberOfGroup of = {.set = set, .member = 0, .ranks = {}};
  of.ranks.steps = CompareStepsOf(set, *collectives);
  for (const CaptureSet::Member& member : set.members())
    of.ranks.names.push_back(MemberName(member));
  const std::vector<report::RankScore>& ranking = of.ranks.steps.ranking;
  if (ranking.empty()) {
    return absl::FailedPreconditionError(
        "the captures of the group have no steps or windows to compare; ask for one of them");
  }
  of.member = ranking.front().member;
  ASSIGN_OR_RETURN(of.ranks.excess, ExplainOrNote(invocation, set, of.ranks.steps));
  absl::Status status;
  RETURN_IF_ERROR(set.ForEach([&](size_t member, CaptureSource& source) -> absl::Status {
    if (member == of.member) status = ReportOnMember(invocation, source, options, of);
    return absl::OkStatus();
  }));
  RETURN_IF_ERROR(status);
  return ExitCodeOf(set);
}

absl::StatusOr<int> RunReport(Invocation& invocation) {
  ASSIGN_OR_RETURN(const ReportOptions options, ReadOptions(invocation));
  if (invocation.flags().Has("print-thresholds")) {
    invocation.Print(report::FormatFindingThresholds(options.thresholds));
    return 0;
  }
  if (invocation.arguments().empty()) {
    return UsageError("say which capture: its id, that of a group, or files ending in .profd");
  }
  ASSIGN_OR_RETURN(CaptureSet set, CaptureSet::Open(invocation));
  if (set.is_group()) return ReportOnGroup(invocation, set, options);
  RETURN_IF_ERROR(ReportOnOne(invocation, set.Only(), options));
  return 0;
}

}  // namespace

Command ReportCommand() {
  return {
      .name = "report",
      .summary = "Recommend what to optimize first, with estimated savings and evidence",
      .arguments = "ID|GROUP|FILES.profd",
      .description =
          "Recommends what to optimize first, with estimated savings and evidence. A first "
          "paragraph says where the time goes, what to change first, and whether the numbers can "
          "be trusted. Then come the first three findings by estimated saving, each with its "
          "measurement, threshold, evidence, and confidence. --all shows all findings, all reasons "
          "of the capture's grade, the checks that passed, and those that were skipped for lack of "
          "data.\n\nAverages leave out a "
          "first step with warm-up. Savings are "
          "separate estimates of wall time per step. A thresholds file has lines `key = value`; "
          "--print-thresholds writes one with every key, its meaning, and its default.\n\nFor a "
          "group or several files, it compares the ranks, says whether one slows the others down "
          "(as `profctl stragglers` does), and reports on the rank that the others waited for "
          "longest. A "
          "member that cannot be reached is named on stderr, and the exit code is 4.",
      .flags = {{.name = "thresholds",
                 .value_name = "FILE",
                 .help = "Thresholds file: when a measurement becomes a finding",
                 .completes = Completes::kFile},
                {.name = "print-thresholds",
                 .help = "Print a thresholds file with the defaults and exit"},
                {.name = "html",
                 .value_name = "FILE",
                 .help =
                     "Write a self-contained HTML page with charts and tables instead; - is stdout",
                 .completes = Completes::kFile},
                {.name = "limit",
                 .value_name = "N",
                 .help = "At most N rows of evidence per finding; 0 is all (default: 3, all with "
                         "--json)"},
                {.name = "all",
                 .help = "Show all findings, and the checks that passed or were skipped (always so "
                         "with --json and --html); of a capture with modules, also those that took "
                         "the most time"},
                ForceGroupFlag()},
      .examples = {{"profctl report 01J9ZK", "What to change first"},
                   {"profctl report 01J9ZK --html report.html", "As a page for a browser"},
                   {"profctl report 01J9ZM", "For a group: which rank slows the job, and why"},
                   {"profctl report --print-thresholds > limits", "A file to start from"},
                   {"profctl report 01J9ZK --thresholds limits", "With one's own thresholds"}},
      .min_arguments = 0,
      .max_arguments = 4096,
      .completes = Completes::kCapture,
      .takes_nodes = true,
      .run = &RunReport};
}

}  // namespace profd::cli
