// profctl trace: from pids to a finished capture, its operator table and its file.
//
// In order: ParseRequest (flags), Start (targets, CreateCapture), Follow (progress, Ctrl-C),
// Save (-o), Report.
#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "cli/base/errors.h"
#include "cli/base/failures.h"
#include "cli/base/interrupts.h"
#include "cli/base/label.h"
#include "cli/base/spec_names.h"
#include "cli/captures/capture_source.h"
#include "cli/captures/fleet.h"
#include "cli/captures/output_file.h"
#include "cli/captures/progress.h"
#include "cli/client/daemon_client.h"
#include "cli/commands/command.h"
#include "cli/commands/trace_group.h"
#include "cli/render/capture.h"
#include "cli/render/group_view.h"
#include "cli/render/report_tables.h"
#include "daemon/base/clock.h"
#include "daemon/base/reason.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/ulid.h"

namespace profd::cli {
namespace {

constexpr int64_t kDefaultTraceSteps = 5;
constexpr int64_t kTopRows = 20;
constexpr size_t kMostPids = 1024;
constexpr absl::Duration kDefaultLead = absl::Milliseconds(500);
constexpr absl::Duration kMaxLead = absl::Minutes(1);

struct TraceRequest {
  std::vector<int64_t> pids;
  bool all = false;
  CaptureSpec spec;
  bool pin = false;
  std::string job;  // Empty: any.
  std::optional<Quorum> quorum;
  bool detach = false;
  absl::Duration lead = kDefaultLead;
  std::string request_id;
  std::string output;  // Empty: none.
  OutputKind output_kind;
};

absl::Status ParseTargets(const ParsedFlags& flags, TraceRequest& request) {
  std::set<int64_t> seen;
  for (const std::string& word : flags.List("pid")) {
    const absl::StatusOr<int64_t> pid = ParseInt(word);
    if (!pid.ok() || *pid < 1 || *pid > std::numeric_limits<int32_t>::max()) {
      return UsageError(StrCat("--pid '", ForDisplay(word, 80), "' is not a process ID"));
    }
    if (seen.insert(*pid).second) request.pids.push_back(*pid);
  }
  if (request.pids.size() > kMostPids) {
    return UsageError(StrCat("at most ", kMostPids, " pids at once"));
  }
  request.all = flags.Has("all");
  if (request.all && !request.pids.empty()) {
    return UsageError("--all and --pid are mutually exclusive");
  }
  request.job = flags.Get("job").value_or("");
  if (!request.job.empty() && !request.pids.empty()) {
    return UsageError("--job and --pid are mutually exclusive");
  }
  return absl::OkStatus();
}

absl::Status ParseGroupStart(const ParsedFlags& flags, TraceRequest& request) {
  if (const auto quorum = flags.Get("quorum")) {
    ASSIGN_OR_RETURN(request.quorum, QuorumFrom(*quorum));
  }
  request.detach = flags.Has("detach");
  ASSIGN_OR_RETURN(const auto lead, flags.Duration("lead"));
  request.lead = lead.value_or(kDefaultLead);
  if (request.lead <= absl::ZeroDuration() || request.lead > kMaxLead) {
    return UsageError("--lead must be above 0 and at most 1m");
  }
  return absl::OkStatus();
}

absl::Status ParseWindow(const ParsedFlags& flags, CaptureSpec& spec) {
  ASSIGN_OR_RETURN(const auto steps, flags.Int("steps", 1, 1'000'000));
  ASSIGN_OR_RETURN(const auto duration, flags.Duration("duration"));
  if (steps.has_value() && duration.has_value()) {
    return UsageError("--steps and --duration are mutually exclusive");
  }
  if (duration.has_value()) {
    for (const std::string_view flag : {"warmup", "wait", "repeat", "start-step", "step-marker"}) {
      if (flags.Has(flag)) return UsageError(StrCat("--", flag, " goes with --steps only"));
    }
    spec.steps = 0;
    spec.duration = *duration;
    if (spec.duration <= absl::ZeroDuration() || spec.duration > absl::Hours(1)) {
      return UsageError("--duration must be above 0 and at most 1h");
    }
  } else {
    spec.steps = steps.value_or(kDefaultTraceSteps);
  }
  ASSIGN_OR_RETURN(const auto warmup, flags.Int("warmup", 0, 10'000));
  spec.warmup_steps = warmup.value_or(spec.warmup_steps);
  ASSIGN_OR_RETURN(const auto wait, flags.Int("wait", 0, 1'000'000));
  spec.wait_steps = wait.value_or(spec.wait_steps);
  ASSIGN_OR_RETURN(const auto repeat, flags.Int("repeat", 1, 64));
  spec.repeat = repeat.value_or(spec.repeat);
  ASSIGN_OR_RETURN(const auto start, flags.Int("start-step", 0));
  spec.start_step = start.value_or(spec.start_step);
  const auto marker = flags.Get("step-marker");
  if (!marker.has_value()) return absl::OkStatus();
  if (marker->empty()) return UsageError("--step-marker needs the name of a range");
  if (flags.Has("start-step")) {
    return UsageError(
        "--step-marker and --start-step are mutually exclusive: its steps count from 0 when the "
        "capture begins");
  }
  spec.step_marker = *marker;
  return absl::OkStatus();
}

absl::Status ParseGpu(const ParsedFlags& flags, GpuSpec& spec) {
  if (const auto mode = flags.Get("gpu")) spec.mode = *GpuModeFromString(*mode);
  if (spec.mode == GpuMode::kOff) {
    for (const std::string_view flag :
         {"gpu-buffer", "gpu-max-records", "gpu-detach", "gpu-latency"}) {
      if (flags.Has(flag)) {
        return UsageError(StrCat("--", flag, " and --gpu off are mutually exclusive"));
      }
    }
  }
  ASSIGN_OR_RETURN(const auto buffer,
                   flags.Bytes("gpu-buffer", int64_t{4} << 20, int64_t{1} << 30));
  spec.buffer_bytes = buffer.value_or(spec.buffer_bytes);
  ASSIGN_OR_RETURN(const auto records, flags.Int("gpu-max-records", 1000, 100'000'000));
  spec.max_records = records.value_or(spec.max_records);
  spec.detach = flags.Has("gpu-detach");
  spec.latency = flags.Has("gpu-latency");
  return absl::OkStatus();
}

absl::Status ParseTorch(const ParsedFlags& flags, CaptureSpec& spec) {
  TorchSpec& torch = spec.torch;
  if (const auto mode = flags.Get("ops")) torch.operators = *OperatorModeFromString(*mode);
  for (const std::string& word : flags.List("with")) {
    if (word == "memory") {
      torch.memory = true;
    } else if (word == "strides") {
      torch.strides = true;
    } else if (word == "stacks") {
      torch.stacks = true;
    } else if (word == "modules") {
      torch.modules = true;
    } else {
      return UsageError(StrCat("--with '", ForDisplay(word, 80),
                               "' is none of memory, modules, stacks, and strides"));
    }
  }
  if ((torch.stacks || torch.modules) && torch.operators == OperatorMode::kOff) {
    return UsageError(StrCat("--with ", torch.stacks ? "stacks" : "modules",
                             " and --ops off are mutually exclusive"));
  }
  if (torch.strides && torch.operators == OperatorMode::kOff) {
    return UsageError("--with strides and --ops off are mutually exclusive");
  }
  if (torch.strides && torch.operators == OperatorMode::kNames) {
    return UsageError("--with strides goes with --ops shapes");
  }
  const auto source = flags.Get("step-source");
  if (!source.has_value()) return absl::OkStatus();
  for (const std::string_view flag : {"start-step", "step-marker", "duration"}) {
    if (flags.Has(flag))
      return UsageError(StrCat("--step-source and --", flag, " are mutually exclusive"));
  }
  torch.step_source = *StepSourceFromString(*source);
  return absl::OkStatus();
}

absl::Status ParseCaptureLimits(const ParsedFlags& flags, CaptureSpec& spec) {
  ASSIGN_OR_RETURN(const auto timeout, flags.Duration("timeout"));
  spec.timeout = timeout.value_or(spec.timeout + spec.duration);
  ASSIGN_OR_RETURN(const auto buffer, flags.Bytes("buffer", int64_t{1} << 20, int64_t{4} << 30));
  spec.memory_bytes = buffer.value_or(spec.memory_bytes);
  ASSIGN_OR_RETURN(const auto max_bytes,
                   flags.Bytes("max-bytes", int64_t{1} << 20, int64_t{1} << 50));
  spec.max_bytes = max_bytes.value_or(spec.max_bytes);
  spec.allow_less_memory = flags.Has("allow-smaller-buffer");
  spec.display_name = flags.Get("name").value_or("");
  ASSIGN_OR_RETURN(spec.labels, ParseLabels(flags.All("label")));
  return absl::OkStatus();
}

absl::StatusOr<TraceRequest> ParseRequest(const ParsedFlags& flags) {
  TraceRequest request;
  RETURN_IF_ERROR(ParseTargets(flags, request));
  RETURN_IF_ERROR(ParseGroupStart(flags, request));
  RETURN_IF_ERROR(ParseWindow(flags, request.spec));
  RETURN_IF_ERROR(ParseGpu(flags, request.spec.gpu));
  RETURN_IF_ERROR(ParseTorch(flags, request.spec));
  RETURN_IF_ERROR(ParseCaptureLimits(flags, request.spec));
  if (const absl::Status valid = ValidateSpec(request.spec); !valid.ok()) {
    return UsageError(InNamesOfFlags(FromAbsl(valid.message())));
  }
  request.pin = flags.Has("pin");
  // A request that a broken connection makes gRPC send twice must not capture twice.
  request.request_id = flags.Get("request-id").value_or(NewUlid(Clock::Real().Now()));
  if (const auto output = flags.Get("output")) {
    ASSIGN_OR_RETURN(request.output_kind, OutputKindOf(*output));
    RETURN_IF_ERROR(CheckWritable(*output));
    request.output = *output;
  }
  return request;
}

// For a user who leaves before the end: the ID, which nothing has printed yet.
std::string WhereToGoOn(const Invocation& invocation, const CaptureRecord& record, bool is_group) {
  const bool has_group = is_group && !record.group_id.empty();
  return LastWordsOfTrace(invocation.NextProfctl(), has_group ? "group" : "capture",
                          has_group ? record.group_id : record.id);
}

class TraceOnNode {
 public:
  TraceOnNode(Invocation& invocation, TraceRequest request, Interrupts& interrupts,
              DaemonClient& daemon)
      : invocation_(invocation),
        request_(std::move(request)),
        interrupts_(interrupts),
        daemon_(daemon) {}

  absl::StatusOr<int> Run() {
    RETURN_IF_ERROR(Start());
    interrupts_.SetLastWords(WhereToGoOn(invocation_, views_.front().record, IsGroup()));
    RETURN_IF_ERROR(Follow());
    NoteUnpinned();
    // A file that cannot be written does not cost the report, or another one's file.
    Save();
    RETURN_IF_ERROR(Report());
    if (!IsGroup() && !unsaved_.empty()) return unsaved_.front().status;
    invocation_.Note(DescribeFailures(unsaved_, "no file of capture"));
    return unsaved_.empty() ? ExitCode() : ExitCodeOf(unsaved_, /*any_done=*/false);
  }

 private:
  bool IsGroup() const { return views_.size() > 1; }

  absl::Status Start() {
    absl::StatusOr<std::vector<TargetInfo>> resolved =
        daemon_.ResolveTargets(request_.pids, request_.all || !request_.job.empty());
    // Said below, as where there are targets of other jobs.
    const bool has_none = !request_.job.empty() && ReasonOf(resolved.status()) == "NO_TARGETS";
    if (!has_none) RETURN_IF_ERROR(resolved.status());
    std::vector<TargetInfo> targets;
    if (!has_none) targets = *std::move(resolved);
    if (!request_.job.empty()) {
      std::erase_if(targets, [&](const TargetInfo& t) { return JobOf(t) != request_.job; });
      for (const TargetInfo& other : TakeOutOtherUsers(targets)) {
        invocation_.Note(StrCat("profctl: ", WhyOtherUser(other, request_.job), "\n"));
      }
    }
    if (request_.all || !request_.job.empty()) {
      LeaveOutOptedOut(targets);
      LeaveOutWithoutSteps(targets);
    }
    if (targets.empty()) {
      return WithReason(
          absl::NotFoundError(
              request_.job.empty()
                  ? "no process can be captured; start one as `profctl run -- CMD...`"
                  : StrCat("no process of job ", ForDisplay(request_.job, 80),
                           " can be captured here: it has none, or is just being restarted. Its "
                           "processes must be started as `profctl run -- CMD...`; --nodes "
                           "asks other nodes")),
          "NO_TARGETS");
    }
    if (targets.size() == 1) {
      ASSIGN_OR_RETURN(
          views_.emplace_back(),
          daemon_.CreateCapture(targets.front().number, request_.spec, request_.request_id));
      Pin();
      return absl::OkStatus();
    }
    // One request for all: the daemon chooses their first step, for which it needs all members.
    std::vector<TargetNumber> numbers;
    numbers.reserve(targets.size());
    for (const TargetInfo& target : targets) numbers.push_back(target.number);
    ASSIGN_OR_RETURN(views_,
                     daemon_.CreateCaptureGroup(numbers, request_.spec, request_.request_id));
    Pin();
    return absl::OkStatus();
  }

  void LeaveOutOptedOut(std::vector<TargetInfo>& targets) {
    for (const TargetInfo& target : targets) {
      if (!target.opted_out) continue;
      invocation_.Note(StrCat("profctl: pid ", target.pid,
                              " is left out: it asked not to be captured (PROFD_OPTOUT)\n"));
    }
    std::erase_if(targets, [](const TargetInfo& target) { return target.opted_out; });
  }

  // Where others have steps, a process without any is a launcher or a notebook that only loads what
  // they use. A rank is kept, and so is one alone: the daemon says what is missing.
  void LeaveOutWithoutSteps(std::vector<TargetInfo>& targets) {
    if (request_.spec.steps == 0 || CountsOwnSteps(request_.spec)) return;
    const auto has_steps = [](const TargetInfo& target) { return target.step_mark_count > 0; };
    if (std::ranges::none_of(targets, has_steps)) return;
    const auto is_left_out = [&](const TargetInfo& target) {
      return !has_steps(target) && RankOf(target) < 0;
    };
    for (const TargetInfo& target : targets) {
      if (!is_left_out(target)) continue;
      invocation_.Note(
          StrCat("profctl: pid ", target.pid,
                 " is left out: it has marked no step yet (--duration takes it, too)\n"));
    }
    std::erase_if(targets, is_left_out);
  }

  // A capture that cannot be pinned is still worth having.
  void Pin() {
    if (!request_.pin) return;
    for (const CaptureView& view : views_) {
      const absl::StatusOr<CaptureView> pinned = daemon_.SetCapturePinned(view.record.id, true);
      if (!pinned.ok()) pin_failures_[view.record.id] = FromAbsl(pinned.status().message());
    }
  }
  bool LacksPin(const CaptureView& view) const {
    return request_.pin && !view.pinned && view.HasEvents();
  }
  // What the daemon pins while it runs, it may unpin at the end: only then is its size known.
  void NoteUnpinned() {
    for (const CaptureView& view : views_) {
      if (!LacksPin(view)) continue;
      const auto failure = pin_failures_.find(view.record.id);
      invocation_.Note(StrCat("warning: capture ", view.record.id, " is not pinned: ",
                              failure != pin_failures_.end()
                                  ? failure->second
                                  : "pinned captures would take more than they may; unpin others, "
                                    "then run `profctl pin`",
                              "\n"));
    }
  }

  absl::Status Follow() {
    std::vector<std::string> ids;
    ids.reserve(views_.size());
    for (const CaptureView& view : views_) ids.push_back(view.record.id);
    // Cancelled captures still end in a state of their own, with what they recorded: so the
    // watch goes on.
    interrupts_.OnInterrupt([this, ids] {
      for (const std::string& id : ids) (void)daemon_.CancelCapture(id);
    });
    ProgressLine line(invocation_.error_style());
    CaptureProgress progress(ids.size());
    const auto show = [&] { line.Show(progress.Text(Clock::Real().Now())); };
    absl::StatusOr<std::vector<CaptureView>> ended = daemon_.WatchCaptures(
        ids,
        [&](size_t index, const CaptureView& view) {
          progress.OnChange(index, view, Clock::Real().Now());
          show();
        },
        show);
    line.Clear();
    // From here on an interrupt ends what we do ourselves: reading and writing files.
    interrupted_in_time_ = interrupts_.interrupted();
    if (interrupted_in_time_) {
      interrupts_.OnInterrupt(nullptr);
    } else {
      interrupts_.OnInterrupt([this] { daemon_.Abort(); });
    }
    RETURN_IF_ERROR(ended.status());
    views_ = *std::move(ended);
    return absl::OkStatus();
  }

  void Save() {
    paths_.assign(views_.size(), "");
    if (request_.output.empty()) return;
    const std::vector<std::string> tags = TagsFor(views_);
    for (size_t i = 0; i < views_.size(); ++i) {
      if (!views_[i].HasEvents()) continue;
      const std::string path = IsGroup() ? WithTag(request_.output, tags[i]) : request_.output;
      if (absl::Status saved = SaveOne(views_[i], path); saved.ok()) {
        paths_[i] = path;
      } else {
        unsaved_.push_back({views_[i].record.id, /*node=*/"", std::move(saved)});
      }
    }
  }

  absl::Status SaveOne(const CaptureView& view, const std::string& path) {
    ProgressLine line(invocation_.error_style());
    const auto show = [&](int64_t done, int64_t total) {
      line.Show(TransferProgress("writing", done, total));
    };
    if (!request_.output_kind.trace.has_value()) return FetchToFile(daemon_, view, path, show);
    const auto source = NewDaemonSource(daemon_, view);
    return ExportToFile(*source, *request_.output_kind.trace, path, show).status();
  }

  absl::Status Report() {
    if (invocation_.json()) {
      JsonWriter json;
      if (IsGroup()) {
        GroupAnswerObject().Write({views_, paths_, unsaved_}, json);
      } else {
        WriteCaptureJson(views_.front(), paths_.front(), json);
      }
      invocation_.Print(json.TakeLine());
      NoteFailures();
      return absl::OkStatus();
    }
    const Style& style = invocation_.style();
    if (IsGroup()) {
      invocation_.Print(RenderGroup(views_, style));
    } else {
      invocation_.Print(RenderCapture(views_.front(), style));
      if (views_.front().HasEvents()) RETURN_IF_ERROR(PrintOperators(views_.front()));
    }
    RETURN_IF_ERROR(invocation_.WriteStatus());
    NoteFailures();
    NoteNextCommands();
    for (const std::string& path : paths_) {
      if (!path.empty()) invocation_.Print(StrCat(path, "\n"));
    }
    return absl::OkStatus();
  }

  absl::Status PrintOperators(const CaptureView& view) {
    const report::ReportRequest request = {
        .report = "ops", .options = {{"limit", StrCat(kTopRows)}, {"sums_only", "1"}}};
    ASSIGN_OR_RETURN(const table::Report report, daemon_.GetReport(view.record.id, request));
    invocation_.Print("\n");
    invocation_.Print(RenderReport(report, StyleFor(view, invocation_.style())));
    return absl::OkStatus();
  }

  void NoteFailures() {
    for (const CaptureView& view : views_) {
      if (view.record.state != CaptureState::kFailed) continue;
      invocation_.Note(StrCat("profctl: capture ", view.record.id,
                              " failed: ", ForDisplay(view.record.error_message, 4096), "\n"));
      const std::string_view advice = AdviceFor(view.record.error_reason);
      if (!advice.empty()) invocation_.Note(StrCat(advice, "\n"));
    }
  }

  // What shows Python lines and modules, if they were recorded.
  static std::string ForPython(const CaptureRecord& record) {
    std::string text;
    if (record.torch.stack_count == 0) return text;
    if (record.spec.torch.stacks) StrAppend(&text, " | ops ", record.id, " --group-by source");
    if (record.spec.torch.modules) StrAppend(&text, " | modules ", record.id);
    return text;
  }

  void NoteNextCommands() {
    if (IsGroup() && !views_.front().record.group_id.empty()) {
      if (std::ranges::none_of(views_, &CaptureView::HasEvents)) return;
      invocation_.Note(NextForGroup(invocation_.NextProfctl(), views_.front().record.group_id));
      return;
    }
    for (const CaptureView& view : views_) {
      if (!view.HasEvents()) continue;
      const std::string& id = view.record.id;
      invocation_.Note(StrCat(
          "next: ", invocation_.NextProfctl(), " report ", id,
          view.record.covered_steps > 0 ? " | steps " : " | time ", id,
          view.record.torch.memory ? StrCat(" | memory ", id) : std::string(),
          ForPython(view.record),
          request_.output.empty() ? StrCat(" | export ", id, " -o FILE.json.gz") : std::string(),
          "\n"));
      return;
    }
  }

  int ExitCode() const {
    bool all_complete = true;
    bool any_kept = false;
    for (const CaptureView& view : views_) {
      all_complete = all_complete && view.record.state == CaptureState::kComplete;
      any_kept = any_kept || view.record.state != CaptureState::kFailed;
      if (view.record.state == CaptureState::kCancelled) {
        // By Ctrl-C. Interrupts after the end abort the calls instead, see Follow().
        if (interrupted_in_time_) return kExitInterrupted;
        // Cancelled before its window began: there is nothing to keep.
        any_kept = any_kept && (IsGroup() || view.HasEvents());
      }
    }
    if (all_complete) {
      const auto lacks_pin = [this](const CaptureView& view) { return LacksPin(view); };
      return std::ranges::any_of(views_, lacks_pin) ? kExitPartial : kExitDone;
    }
    return any_kept ? kExitPartial : kExitFailed;
  }

  Invocation& invocation_;
  const TraceRequest request_;
  Interrupts& interrupts_;
  DaemonClient& daemon_;
  std::vector<CaptureView> views_;
  std::map<std::string, std::string> pin_failures_;  // Messages by capture ID.
  std::vector<std::string> paths_;                   // As views_; empty where none was written.
  std::vector<Failure> unsaved_;                     // Those whose file could not be written.
  bool interrupted_in_time_ = false;                 // While there was something to cancel.
};

absl::StatusOr<int> TraceFleet(Invocation& invocation, Fleet& fleet, Interrupts& interrupts,
                               const TraceRequest& request) {
  if (!request.pids.empty()) {
    return UsageError("--pid goes with one node only; on several use --job JOB or --all");
  }
  if (request.pin) {
    return UsageError(
        "--pin goes with one node only; pin the captures afterwards with "
        "`profctl --nodes LIST pin ID...`");
  }
  if (request.job.empty() && !request.all) {
    return UsageError("on several nodes say which processes: --job JOB, or --all");
  }
  if (invocation.flags().Has("request-id")) {
    return UsageError("--request-id goes with one node only");
  }
  ASSIGN_OR_RETURN(const absl::Duration timeout, NodeTimeoutOf(invocation));
  return TraceGroup(invocation, fleet, interrupts,
                    {.spec = request.spec,
                     .job = request.job,
                     .quorum = request.quorum,
                     .lead = request.lead,
                     .node_timeout = timeout,
                     .detach = request.detach},
                    request.output, request.output_kind);
}

// Of a fleet of one; it lives as long as the fleet.
absl::StatusOr<DaemonClient*> OnlyDaemonOf(const Invocation& invocation, Fleet& fleet) {
  ASSIGN_OR_RETURN(const absl::Duration timeout, NodeTimeoutOf(invocation));
  absl::Status status;
  fleet.Run(
      timeout, [](size_t, DaemonClient&) { return absl::OkStatus(); },
      [&](size_t, const absl::Status& outcome) { status = outcome; });
  RETURN_IF_ERROR(status);
  DaemonClient* const daemon = fleet.connection(0);
  // The timeout is for reaching the node. A capture may last for hours.
  daemon->LimitCalls(absl::InfiniteDuration());
  return daemon;
}

absl::StatusOr<int> RunTrace(Invocation& invocation) {
  ASSIGN_OR_RETURN(TraceRequest request, ParseRequest(invocation.flags()));
  Interrupts interrupts;
  ASSIGN_OR_RETURN(std::optional<Fleet> fleet, FleetOf(invocation));
  // Process IDs are of one node, named in a list of its own or by itself.
  const bool is_one_of_list =
      fleet.has_value() && fleet->members().size() == 1 && !request.pids.empty();
  if (fleet.has_value() && !is_one_of_list) {
    return TraceFleet(invocation, *fleet, interrupts, request);
  }
  for (const std::string_view flag : {"quorum", "lead", "detach"}) {
    if (invocation.flags().Has(flag)) {
      return UsageError(StrCat("--", flag, " goes with several nodes: --nodes, or --job on Slurm"));
    }
  }
  DaemonClient* daemon = nullptr;
  if (is_one_of_list) {
    ASSIGN_OR_RETURN(daemon, OnlyDaemonOf(invocation, *fleet));
  } else {
    ASSIGN_OR_RETURN(daemon, invocation.Daemon());
  }
  TraceOnNode trace(invocation, std::move(request), interrupts, *daemon);
  absl::StatusOr<int> result = trace.Run();
  interrupts.OnInterrupt(nullptr);
  return result;
}

std::vector<Flag> TraceFlags() {
  return {
      {.name = "pid",
       .letter = 'p',
       .value_name = "PID",
       .help = "The process to capture; repeatable, or a comma-separated list. The PID of a shell "
               "or launcher selects all targets below it. A PID inside a container works where it "
               "is unique. Default: the only target",
       .repeated = true,
       .completes = Completes::kPid},
      {.name = "all", .letter = 'a', .help = "Capture all your targets that have steps"},
      {.name = "job",
       .value_name = "JOB",
       .help = "Capture all your targets of this job: every rank records the same steps. Without "
               "--nodes and --address, asks the job's Slurm nodes"},
      {.name = "quorum",
       .value_name = "N",
       .help = "On several nodes: how many processes must be ready (all, a number, or a "
               "percentage); with fewer, nothing is captured. Default: captures those that are "
               "ready; exit code 4 if some are not",
       .is_rare = true},
      {.name = "lead",
       .value_name = "TIME",
       .help = "On several nodes: how far ahead to choose the first step; increase it for slow "
               "nodes (default: 500ms)",
       .is_rare = true},
      {.name = "detach",
       .help = "On several nodes: record even if profctl ends before the first step. Default: "
               "processes that still wait are released about 15 s after profctl ended",
       .is_rare = true},
      {.name = "steps",
       .letter = 's',
       .value_name = "N",
       .help = "Number of whole training steps to capture, 1 to 1000000 (default: 5)"},
      {.name = "duration",
       .letter = 'd',
       .value_name = "TIME",
       .help = "A span of time instead (500ms, 10s, 2m; at most 1h)"},
      {.name = "warmup",
       .value_name = "N",
       .help = "Number of steps to record and discard before each window (default: 1)"},
      {.name = "wait",
       .value_name = "N",
       .help = "Number of steps to wait before each warm-up (default: 0)",
       .is_rare = true},
      {.name = "repeat",
       .value_name = "N",
       .help = "Number of windows of --steps, each after its own wait and warm-up (default: 1)",
       .is_rare = true},
      {.name = "start-step",
       .value_name = "K",
       .help = "The first step to record; must be in the future (default: as soon as possible)"},
      {.name = "step-marker",
       .value_name = "NAME",
       .help = "For programs that mark no steps: a step begins whenever the range NAME begins, on "
               "the first thread that begins it. Of ranges NAME inside each other, only the "
               "outermost is a step; annotate() blocks may overlap, and are all steps. An NVTX "
               "range in a domain is DOMAIN:NAME. Steps count from 0 "
               "in this capture",
       .is_rare = true},
      {.name = "step-source",
       .value_name = "SOURCE",
       .help = "Count these as steps in this capture, whatever `profctl ps` says that the process "
               "counts: marks, the program's own; optimizer, PyTorch's Optimizer.step(); profiler, "
               "the program's own torch.profiler; dataloader, batches taken from a DataLoader; "
               "periodicity, the rounds in which a thread repeats PyTorch's operators, for loops "
               "that have none of these: they are known after a second and three rounds. They "
               "count from 0",
       .is_rare = true,
       .completes = Completes::kChoice,
       .choices = {"marks", "optimizer", "profiler", "dataloader", "periodicity"}},
      {.name = "ops",
       .value_name = "MODE",
       .help = "How much to record of PyTorch operators: off; names (with nesting, forward and "
               "backward); shapes (also sizes, types, and scalars of inputs). Each costs more per "
               "operator. Default: shapes if the process uses torch, else off",
       .completes = Completes::kChoice,
       .choices = {"off", "names", "shapes"}},
      {.name = "with",
       .value_name = "WHAT",
       .help = "Also record, for PyTorch: memory (allocator events and owners of memory); modules "
               "(which torch.nn.Module each operator ran in); stacks (the Python lines that called "
               "each operator); strides (of inputs). Repeatable, or a comma-separated list",
       .repeated = true,
       .completes = Completes::kChoice,
       .choices = {"memory", "modules", "stacks", "strides"}},
      {.name = "gpu",
       .value_name = "MODE",
       .help =
           "How much to record of the GPU: off; light (kernels and copies, without their "
           "launches); default (also CUDA calls and waits, and so the range that launched each "
           "kernel); full (also device memory, events, and decompression). Each costs more per "
           "launch. Each node of a CUDA graph costs a record in every mode: record fewer steps, "
           "or set --gpu-max-records. Default: default if the process uses CUDA, else off",
       .completes = Completes::kChoice,
       .choices = {"off", "light", "default", "full"}},
      {.name = "gpu-buffer",
       .value_name = "SIZE",
       .help = "Memory in the process for GPU records, 4MiB to 1GiB (default: 64MiB)",
       .is_rare = true},
      {.name = "gpu-max-records",
       .value_name = "N",
       .help =
           "Stop recording the GPU after this many records, 1000 to 100000000 (default: 20000000)",
       .is_rare = true},
      {.name = "gpu-latency",
       .help = "Also record when kernels were queued and submitted; costs more per launch",
       .is_rare = true},
      {.name = "gpu-detach",
       .help =
           "Detach CUPTI afterwards also from a program that uses CUDA graphs, and wait up to "
           "2s for a CUDA call to do so. Default: detach where it is known to be safe. Attached, "
           "CUPTI slows down each CUDA call",
       .is_rare = true},
      {.name = "timeout",
       .value_name = "TIME",
       .help = "End the capture after this time and keep what was recorded (default: 5m, plus "
               "--duration; at most 24h)"},
      {.name = "output",
       .letter = 'o',
       .value_name = "FILE",
       .help = "Also write the capture to FILE, by suffix: .json, .json.gz (Chrome), .pftrace "
               "(Perfetto), .html (report), or .profd. With several targets, each file gets the "
               "rank or PID before the suffix",
       .completes = Completes::kFile},
      {.name = "name",
       .value_name = "NAME",
       .help = "Human-readable capture name",
       .is_rare = true},
      {.name = "label",
       .value_name = "KEY=VALUE",
       .help = "Label for filtering; repeatable",
       .is_rare = true,
       .repeated = true},
      {.name = "buffer",
       .value_name = "SIZE",
       .help = "Size of the event buffer, 1MiB to 4GiB (default: 64MiB, or an equal share if a "
               "node has too many processes for that); a larger one loses fewer events in bursts",
       .is_rare = true},
      {.name = "allow-smaller-buffer",
       .help = "Accept a smaller buffer if the node's capture memory is nearly used up, instead of "
               "failing",
       .is_rare = true},
      {.name = "max-bytes",
       .value_name = "SIZE",
       .help = "End the capture when its file reaches this size (default: 2GiB)",
       .is_rare = true},
      {.name = "pin",
       .help = "Pin the capture: its events are never removed to make room; exit code 4 if it "
               "cannot be pinned. Not with --nodes",
       .is_rare = true},
      {.name = "request-id",
       .value_name = "ID",
       .help = "For scripts that retry: a repeated ID never starts a second capture",
       .is_rare = true}};
}

}  // namespace

Command TraceCommand() {
  return {
      .name = "trace",
      .summary = "Capture training steps of running processes",
      .description =
          "Captures whole training steps, or a span of time, of one or more running processes. "
          "Prints what was recorded and where the time went. Several targets record the same "
          "steps, also across nodes (--nodes); on one node, those over 10 s apart record their "
          "own. One that did not take part is named (exit code 4).\n\n"
          "Ctrl-C, or a closed terminal (without nohup), ends the capture and keeps what was "
          "recorded; a second Ctrl-C exits at once.\n\n"
          "With -o, the last line on stdout is the path of the file. With --json, stdout is one "
          "object: the finished capture, or {\"group\", \"captures\", \"missed\", \"errors\"}, or "
          "on "
          "several nodes {\"id\", \"state\", \"first_step\", \"captures\", \"missed\", \"clock\", "
          "\"errors\", \"nodes\"}; errors name the files that could not be written.",
      .flags = TraceFlags(),
      .examples = {{"profctl trace --pid 41213 --steps 5", "Five whole steps of one process"},
                   {"profctl trace --steps 5 -o five.json.gz", "The only target, and a trace file"},
                   {"profctl trace --nodes gpu[001-128] --job 88123",
                    "Five steps of every rank of a job, the same ones everywhere"},
                   {"profctl trace --pid 41213 --with memory -o five.json.gz",
                    "PyTorch's operators with their shapes, and its memory"},
                   {"profctl trace --pid 41213 --steps 3 --step-marker ProfilerStep",
                    "Three steps of a program that marks none: its outermost such ranges"}},
      .takes_nodes = true,
      .run = &RunTrace};
}

}  // namespace profd::cli
