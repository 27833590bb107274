#include "cli/captures/group_capture.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <iterator>
#include <tuple>
#include <utility>

#include "cli/base/errors.h"
#include "cli/client/daemon_client.h"
#include "cli/client/invocation.h"
#include "daemon/base/clock.h"
#include "daemon/base/reason.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/ulid.h"

namespace profd::cli {
namespace {

constexpr int kMaxTries = 3;
// By how much the lead grows from one try to the next.
constexpr int kLeadGrowth = 4;
constexpr int kClockProbes = 8;
constexpr std::string_view kMissedStart = "MISSED_START";
// Attaching to a GPU takes long; a member that says so is waited for.
constexpr absl::Duration kMaxPrepare = absl::Seconds(80);
// What is left of the lease when the last member was prepared, and when profctl has gone before.
constexpr absl::Duration kLeaseRest = absl::Seconds(10);
// How long committed members wait for their window without hearing from profctl. It renews the
// lease three times as often, so that one lost call ends nothing.
constexpr absl::Duration kCommitLease = absl::Seconds(15);
// How long members may go on after their timeout: draining and storing.
constexpr absl::Duration kMaxAfterwards = absl::Minutes(2);

absl::Time Now() { return Clock::Real().Now(); }
absl::Duration Monotonic() { return Clock::Real().Monotonic(); }

bool RecordsOrHas(const CaptureView& view) {
  const CaptureState state = view.record.state;
  return view.HasEvents() || (state >= CaptureState::kRecording && state <= CaptureState::kPartial);
}

// Processes that only start others are not ranks: they mark no steps, and children do.
void DropLaunchers(std::vector<TargetInfo>& targets) {
  const auto is_launcher = [&targets](const TargetInfo& target) {
    return target.step_mark_count == 0 &&
           std::ranges::any_of(targets, [&](const TargetInfo& other) {
             return other.parent_pid == target.pid && other.step_mark_count > 0;
           });
  };
  std::vector<TargetInfo> kept;
  std::ranges::copy_if(targets, std::back_inserter(kept), std::not_fn(is_launcher));
  targets = std::move(kept);
}

std::string CountOf(int64_t part, int64_t all, std::string_view what) {
  return StrCat(part, " of ", all, " ", what);
}

}  // namespace

int64_t GroupCaptureResult::ClockResidualNs() const {
  int64_t largest = -1;
  for (const ClockOffset& clock : clocks) largest = std::max(largest, clock.bound_ns);
  return largest;
}

std::string NameOf(const GroupCaptureResult& result, const JobMember& member) {
  const int64_t rank = RankOf(member.target);
  return StrCat(result.nodes[member.node].node, rank < 0 ? " pid " : " rank ",
                rank < 0 ? member.target.pid : rank);
}

GroupCapture::GroupCapture(Invocation& invocation, Fleet& fleet, Interrupts& interrupts,
                           GroupCaptureRequest request)
    : invocation_(invocation),
      fleet_(fleet),
      interrupts_(interrupts),
      request_(std::move(request)),
      lead_(request_.lead),
      line_(invocation.error_style()) {}

absl::Status GroupCapture::Run() {
  RETURN_IF_ERROR(Resolve());
  for (int left = kMaxTries; left > 0; --left) {
    Prepare();
    RETURN_IF_ERROR(CheckQuorum());
    // After the preparation, which may take a minute: the start is chosen by the steps of now.
    MeasureClocks();
    RETURN_IF_ERROR(ChooseStart());
    Commit();
    const JobMember* missed = MissedBeforeAnyRecorded();
    if (missed != nullptr && left > 1) {
      CallOff();
    } else {
      Watch();
      missed = MissedAndNothingRecorded();
      if (missed == nullptr || left == 1) break;
      Close();
    }
    lead_ *= kLeadGrowth;
    Show("");
    invocation_.Note(StrCat("profctl: ", NameOf(result_, *missed), " had passed step ",
                            result_.first_step, " when it was told; again, ",
                            absl::FormatDuration(lead_), " ahead\n"));
  }
  Conclude();
  Close();
  Show("");
  return absl::OkStatus();
}

// ---- who takes part ----

absl::Status GroupCapture::Resolve() {
  const size_t count = fleet_.members().size();
  for (const Fleet::Member& member : fleet_.members()) {
    result_.nodes.push_back({member.node, absl::OkStatus()});
  }
  result_.clocks.resize(count);
  names_.resize(count);
  std::vector<std::vector<TargetInfo>> targets(count);
  Show("looking for processes");
  fleet_.Run(
      request_.node_timeout,
      [&](size_t node, DaemonClient& daemon) -> absl::Status {
        names_[node] = daemon.node().name;
        ASSIGN_OR_RETURN(targets[node], daemon.ListTargets());
        return absl::OkStatus();
      },
      [&](size_t node, const absl::Status& status) { Note(node, status); });
  for (size_t node = 0; node < count; ++node) {
    std::erase_if(targets[node], [&](const TargetInfo& target) {
      return target.state == TargetState::kGone || target.opted_out ||
             (!request_.job.empty() && JobOf(target) != request_.job);
    });
    if (request_.spec.steps > 0 && !CountsOwnSteps(request_.spec)) DropLaunchers(targets[node]);
    for (TargetInfo& target : targets[node]) {
      result_.members.push_back({.node = node, .target = std::move(target)});
    }
  }
  if (!request_.job.empty()) {
    std::vector<TargetInfo> all;
    for (const JobMember& member : result_.members) all.push_back(member.target);
    for (const TargetInfo& other : TakeOutOtherUsers(all)) {
      invocation_.Note(StrCat("profctl: ", WhyOtherUser(other, request_.job), "\n"));
    }
    std::erase_if(result_.members, [&](const JobMember& member) {
      return !all.empty() && member.target.uid != all.front().uid;
    });
    result_.absent_ranks = AbsentRanks(all);
    result_.world_size = WorldSizeOf(all);
  }
  std::ranges::stable_sort(result_.members, {}, [](const JobMember& member) {
    return std::tuple(RankOf(member.target), member.node, member.target.pid);
  });
  if (!result_.members.empty()) return absl::OkStatus();
  for (const NodeOutcome& outcome : result_.nodes) RETURN_IF_ERROR(outcome.status);
  return WithReason(
      absl::NotFoundError(
          request_.job.empty()
              ? "no process on these nodes can be captured; start one as `profctl run -- CMD...`"
              : StrCat("no process of job ", ForDisplay(request_.job, 80),
                       " can be captured on these nodes; start it as `profctl run -- CMD...`")),
      "NO_TARGETS");
}

// ---- the first phase ----

void GroupCapture::Prepare() {
  result_.id = NewUlid(Now());
  interrupts_.SetLastWords(LastWordsOfTrace(invocation_.NextProfctl(), "group", result_.id));
  result_.first_step = -1;
  std::vector<std::vector<size_t>> members(fleet_.members().size());
  for (size_t i = 0; i < result_.members.size(); ++i) {
    JobMember& member = result_.members[i];
    member.view = {};
    member.error_reason.clear();
    member.error_message.clear();
    members[member.node].push_back(i);
  }
  paces_.assign(result_.members.size(), {});
  presences_.assign(fleet_.members().size(), nullptr);

  const absl::Duration begun = Monotonic();
  const bool may_take_long = request_.spec.gpu.mode != GpuMode::kOff;
  const absl::Duration lease =
      (may_take_long ? kMaxPrepare : request_.node_timeout) + request_.node_timeout + kLeaseRest;
  const auto prepare = [&](size_t node, DaemonClient& daemon) -> absl::Status {
    GroupRequest request{.id = result_.id,
                         .spec = request_.spec,
                         .lease = std::min(lease, kMaxGroupLease),
                         .lease_without_caller = kLeaseRest};
    // Commit() says the step, which is the same for all.
    request.spec.start_step = -1;
    for (const size_t i : members[node])
      request.targets.push_back(result_.members[i].target.number);
    const auto keep_waiting = [&](const GroupPreparation& so_far) {
      if (interrupts_.interrupted()) return false;
      if (Monotonic() < begun + request_.node_timeout) return true;
      return std::ranges::any_of(so_far.members, [](const PreparedMember& member) {
        return member.capture.has_value() && !member.capture->activity.empty();
      });
    };
    ASSIGN_OR_RETURN(const GroupPreparation preparation,
                     daemon.PrepareGroup(request, keep_waiting, &presences_[node]));
    for (size_t i = 0; i < std::min(members[node].size(), preparation.members.size()); ++i) {
      Take(preparation.members[i], members[node][i]);
    }
    return absl::OkStatus();
  };
  std::vector<size_t> nodes;
  for (size_t node = 0; node < members.size(); ++node) {
    if (!members[node].empty() && result_.nodes[node].status.ok()) nodes.push_back(node);
  }
  Show(StrCat("preparing ", result_.members.size(), " processes"));
  fleet_.RunTogether(nodes, kMaxPrepare, prepare, [&](size_t node, const absl::Status& status) {
    Note(node, status);
    if (status.ok()) return;
    for (const size_t i : members[node]) Miss(result_.members[i], status);
  });
}

// On the node's thread.
void GroupCapture::Take(const PreparedMember& prepared, size_t index) {
  JobMember& member = result_.members[index];
  if (prepared.capture.has_value()) {
    member.view = ViewOf(*prepared.capture, {});
  }
  paces_[index] = {
      .step = prepared.current_step, .median_step_ns = prepared.median_step_ns, .read = Now()};
  if (prepared.prepared) return;
  member.error_reason = prepared.error_reason.empty() ? "ARM_TIMEOUT" : prepared.error_reason;
  member.error_message =
      prepared.error_message.empty()
          ? StrCat("was not ready within ", absl::FormatDuration(request_.node_timeout))
          : prepared.error_message;
}

absl::Status GroupCapture::CheckQuorum() {
  int64_t prepared = 0;
  for (JobMember& member : result_.members) {
    member.was_ready = CanStart(member);
    prepared += member.was_ready ? 1 : 0;
  }
  int64_t unanswered_nodes = 0;
  for (size_t node = 0; node < result_.nodes.size(); ++node) {
    const bool has_members = std::ranges::any_of(
        result_.members, [node](const JobMember& member) { return member.node == node; });
    if (!has_members && !result_.nodes[node].status.ok()) ++unanswered_nodes;
  }
  const int64_t asked =
      MembersAskedFor(std::ssize(result_.members), unanswered_nodes, result_.world_size);
  if (interrupts_.interrupted()) {
    CallOff();
    return absl::CancelledError("interrupted");
  }
  if (IsMet(request_.quorum, prepared, asked)) return absl::OkStatus();
  CallOff();
  Show("");
  std::string why = StrCat(
      "only ",
      CountOf(prepared, asked,
              result_.world_size.has_value() ? "ranks are ready" : "processes could be prepared"));
  for (const JobMember& member : result_.members) {
    if (member.was_ready) continue;
    StrAppend(&why, "; ", NameOf(result_, member), ": ", ForDisplay(member.error_message, 500));
    break;
  }
  return WithReason(absl::FailedPreconditionError(why),
                    prepared == 0 ? FirstReason() : "NO_QUORUM");
}

// What kept everybody from taking part, if that is one thing.
std::string GroupCapture::FirstReason() const {
  const auto first = std::ranges::find_if(
      result_.members, [](const JobMember& member) { return !member.error_reason.empty(); });
  return first == result_.members.end() ? "NO_QUORUM" : first->error_reason;
}

// ---- the second phase ----

void GroupCapture::MeasureClocks() {
  Show("measuring clocks");
  OnNodes(request_.node_timeout, [&](size_t node, DaemonClient& daemon) -> absl::Status {
    std::array<ClockProbe, kClockProbes> probes;
    for (ClockProbe& probe : probes) {
      probe.sent_unix_ns = absl::ToUnixNanos(Now());
      ASSIGN_OR_RETURN(probe.node_unix_ns, daemon.ReadClock(request_.node_timeout));
      probe.answered_unix_ns = absl::ToUnixNanos(Now());
    }
    result_.clocks[node] = OffsetFrom(probes);
    return ReadSteps(node, daemon);
  });
}

absl::Status GroupCapture::ReadSteps(size_t node, DaemonClient& daemon) {
  const absl::Time asked = Now();
  ASSIGN_OR_RETURN(const std::vector<TargetInfo> targets, daemon.ListTargets());
  for (const size_t i : MembersOf(node)) {
    const auto target =
        std::ranges::find(targets, result_.members[i].target.number, &TargetInfo::number);
    if (target == targets.end()) continue;
    paces_[i].step = target->current_step;
    paces_[i].read = asked;  // The step is of then, or of later.
  }
  return absl::OkStatus();
}

absl::Status GroupCapture::ChooseStart() {
  const CaptureSpec& spec = request_.spec;
  start_time_ = absl::InfinitePast();
  if (spec.steps == 0) {
    start_time_ = Now() + lead_;
    return absl::OkStatus();
  }
  if (CountsOwnSteps(spec)) return absl::OkStatus();
  std::vector<MemberPace> paces;
  int64_t furthest = -1;
  for (size_t i = 0; i < paces_.size(); ++i) {
    if (!CanStart(result_.members[i])) continue;
    paces.push_back(paces_[i]);
    furthest = std::max(furthest, paces_[i].step);
  }
  if (spec.start_step < 0) {
    result_.first_step = FirstStepFor(paces, spec, lead_, Now());
    if (!request_.job.empty() || RunInStep(paces, lead_, Now())) {
      return absl::OkStatus();
    }
    CallOff();
    Show("");
    return WithReason(
        absl::FailedPreconditionError(StrCat(
            "these processes do not run in step: one of them would need more than 10 s to get to "
            "step ",
            result_.first_step, "; capture them by --job, by --duration, or one at a time")),
        "NOT_IN_STEP");
  }
  result_.first_step = spec.start_step;
  if (spec.start_step > furthest) return absl::OkStatus();
  CallOff();
  Show("");
  return WithReason(absl::FailedPreconditionError(StrCat("start step ", spec.start_step,
                                                         " has passed: the furthest process is at ",
                                                         "step ", furthest)),
                    "STEP_PASSED");
}

void GroupCapture::Commit() {
  const std::vector<GroupMember> members = Hearsay();
  Show("starting");
  OnNodes(request_.node_timeout, [&](size_t node, DaemonClient& daemon) -> absl::Status {
    const absl::StatusOr<std::vector<MemberStart>> outcomes =
        daemon.CommitGroup(result_.id, StartOf(node, members));
    // All that it held has ended meanwhile: watching tells how.
    if (absl::IsNotFound(outcomes.status())) return absl::OkStatus();
    RETURN_IF_ERROR(outcomes.status());
    for (const size_t i : MembersOf(node)) {
      JobMember& member = result_.members[i];
      const auto outcome =
          std::ranges::find(*outcomes, member.view.record.id, &MemberStart::capture_id);
      if (outcome == outcomes->end() || outcome->started) continue;
      member.error_reason = outcome->error_reason;
      member.error_message = outcome->error_message;
    }
    return absl::OkStatus();
  });
  presences_.clear();  // From here on the commit's lease is renewed.
}

GroupStart GroupCapture::StartOf(size_t node, std::vector<GroupMember> members) const {
  GroupStart start{.first_step = result_.first_step, .members = std::move(members)};
  if (!request_.detach) start.lease = kCommitLease;
  if (start_time_ != absl::InfinitePast()) {
    // As the node's own clock will show it.
    start.time = start_time_ + absl::Nanoseconds(result_.clocks[node].offset_ns);
  }
  return start;
}

const JobMember* GroupCapture::MissedBeforeAnyRecorded() {
  if (interrupts_.interrupted() || request_.spec.start_step >= 0) return nullptr;
  const auto missed = std::ranges::find(result_.members, kMissedStart, &JobMember::error_reason);
  if (missed == result_.members.end()) return nullptr;
  std::atomic<bool> records = false;
  OnNodes(request_.node_timeout, [&](size_t, DaemonClient& daemon) -> absl::Status {
    ASSIGN_OR_RETURN(const GroupView group, daemon.GetCaptureGroup(result_.id));
    if (std::ranges::any_of(group.captures, RecordsOrHas)) records = true;
    return absl::OkStatus();
  });
  return records ? nullptr : &*missed;
}

const JobMember* GroupCapture::MissedAndNothingRecorded() const {
  if (interrupts_.interrupted() || request_.spec.start_step >= 0) return nullptr;
  const JobMember* missed = nullptr;
  for (const JobMember& member : result_.members) {
    if (member.view.HasEvents()) return nullptr;
    if (member.view.record.error_reason == kMissedStart) missed = &member;
  }
  return missed;
}

// ---- following it ----

void GroupCapture::Watch() {
  CaptureProgress progress(result_.members.size());
  OnNodes(request_.spec.timeout + kMaxAfterwards,
          [&](size_t node, DaemonClient& daemon) { return WatchNode(node, daemon, progress); });
}

// On the node's thread.
absl::Status GroupCapture::WatchNode(size_t node, DaemonClient& daemon, CaptureProgress& progress) {
  const std::vector<size_t> members = MembersOf(node);
  std::vector<std::string> ids;
  ids.reserve(members.size());
  for (const size_t i : members) ids.push_back(result_.members[i].view.record.id);
  bool aborted = false;
  const auto heed_interrupt = [&] {
    if (aborted || !interrupts_.interrupted()) return;
    aborted = true;
    (void)daemon.AbortGroup(result_.id);
  };
  absl::Duration heard = Monotonic();
  absl::Duration renewed = heard;
  // A renewal that fails changes nothing: others follow, and on_idle notices a silent node.
  const auto renew_lease = [&] {
    if (request_.detach || Monotonic() < renewed + kCommitLease / 3) return;
    const bool any_waits = std::ranges::any_of(members, [this](size_t i) {
      return result_.members[i].view.record.state < CaptureState::kRecording;
    });
    if (!any_waits) return;
    renewed = Monotonic();
    // Short enough that the next one still comes in time.
    (void)daemon.RenewGroup(result_.id, StartOf(node, {}),
                            std::min(request_.node_timeout / 2, kCommitLease / 3));
  };
  const auto on_change = [&](size_t index, const CaptureView& view) {
    heard = Monotonic();
    heed_interrupt();
    renew_lease();
    const absl::MutexLock lock(&mu_);
    result_.members[members[index]].view = view;
    const absl::Time now = Now();
    progress.OnChange(members[index], view, now);
    line_.Show(progress.Text(now));
  };
  absl::Status no_answer;
  const auto on_idle = [&] {
    heed_interrupt();
    renew_lease();
    if (Monotonic() < heard + request_.node_timeout) return;
    // A rank that stands still has no news; a node that does not answer is another matter.
    heard = Monotonic();
    no_answer = daemon.ReadClock(request_.node_timeout).status();
    if (!no_answer.ok()) daemon.Abort();
  };
  const absl::Status ended = daemon.WatchCaptures(ids, on_change, on_idle).status();
  return no_answer.ok() ? ended : no_answer;
}

void GroupCapture::Close() {
  const std::vector<GroupMember> members = Hearsay();
  OnNodes(request_.node_timeout,
          [&](size_t, DaemonClient& daemon) { return daemon.CloseGroup(result_.id, members); });
}

// Nothing is armed any more when this returns.
void GroupCapture::CallOff() {
  OnNodes(request_.node_timeout,
          [&](size_t, DaemonClient& daemon) { return daemon.AbortGroup(result_.id); });
  Watch();
  Close();
}

void GroupCapture::Conclude() {
  result_.interrupted = interrupts_.interrupted();
  bool all_complete = result_.absent_ranks.empty();
  bool any_kept = false;
  bool any_cancelled = false;
  for (JobMember& member : result_.members) {
    const CaptureRecord& record = member.view.record;
    all_complete = all_complete && member.HasCapture() && member.IsComplete();
    any_kept = any_kept || member.view.HasEvents();
    any_cancelled = any_cancelled || record.state == CaptureState::kCancelled;
    if (!member.error_reason.empty() || member.IsComplete()) continue;
    member.error_reason = record.error_reason;
    member.error_message = record.error_message;
    if (member.error_reason.empty()) member.error_reason = member.view.ended_by;
  }
  for (const NodeOutcome& node : result_.nodes) all_complete = all_complete && node.status.ok();
  if (all_complete) {
    result_.state = CaptureState::kComplete;
  } else if (any_cancelled && result_.interrupted) {
    result_.state = CaptureState::kCancelled;
  } else {
    result_.state = any_kept ? CaptureState::kPartial : CaptureState::kFailed;
  }
}

// ---- nodes ----

void GroupCapture::OnNodes(absl::Duration deadline,
                           absl::FunctionRef<absl::Status(size_t, DaemonClient&)> work) {
  std::vector<size_t> nodes;
  for (size_t node = 0; node < result_.nodes.size(); ++node) {
    if (result_.nodes[node].status.ok() && !MembersOf(node).empty()) nodes.push_back(node);
  }
  fleet_.RunTogether(nodes, deadline, work, [&](size_t node, const absl::Status& status) {
    Note(node, status);
    if (status.ok()) return;
    const absl::MutexLock lock(&mu_);
    for (const size_t i : MembersOf(node)) {
      JobMember& member = result_.members[i];
      if (!IsTerminal(member.view.record.state)) Miss(member, status);
    }
  });
}

void GroupCapture::Note(size_t node, const absl::Status& status) {
  if (!status.ok()) result_.nodes[node].status = status;
}

void GroupCapture::Miss(JobMember& member, const absl::Status& why) {
  if (!member.error_reason.empty()) return;
  member.error_reason = ReasonOf(why);
  if (member.error_reason.empty()) member.error_reason = absl::StatusCodeToString(why.code());
  member.error_message = std::string(why.message());
}

bool GroupCapture::CanStart(const JobMember& member) const {
  return member.HasCapture() && member.error_reason.empty() &&
         result_.nodes[member.node].status.ok();
}

std::vector<size_t> GroupCapture::MembersOf(size_t node) const {
  std::vector<size_t> members;
  for (size_t i = 0; i < result_.members.size(); ++i) {
    if (result_.members[i].node == node && result_.members[i].HasCapture()) members.push_back(i);
  }
  return members;
}

std::vector<GroupMember> GroupCapture::Hearsay() const {
  std::vector<GroupMember> members;
  members.reserve(result_.members.size());
  for (const JobMember& member : result_.members) {
    const ClockOffset& clock = result_.clocks[member.node];
    const Endpoint& endpoint = fleet_.members()[member.node].endpoint;
    members.push_back({.node = names_[member.node],
                       .address = endpoint.unix_path.empty() ? endpoint.address : "",
                       .capture_id = member.view.record.id,
                       .pid = member.target.pid,
                       .rank = RankOf(member.target),
                       .state = member.view.record.state,
                       .error = member.error_message,
                       .clock_offset_ns = clock.offset_ns,
                       .clock_bound_ns = clock.bound_ns});
  }
  return members;
}

void GroupCapture::Show(std::string_view text) {
  const absl::MutexLock lock(&mu_);
  if (text.empty()) return line_.Clear();
  line_.Show(text);
}

}  // namespace profd::cli
