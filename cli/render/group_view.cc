#include "cli/render/group_view.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cli/base/errors.h"
#include "cli/base/folded_errors.h"
#include "cli/base/table.h"
#include "cli/captures/group_start.h"
#include "cli/render/capture.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/units.h"

namespace profd::cli {
namespace {

constexpr std::string_view kNoProcess =
    "no process of the job has this rank on the nodes that answered: it ended, or is on another "
    "node";

// PARTIAL is missed, too: the group has steps that this member lacks.
bool Missed(const CaptureView& view) {
  return IsTerminal(view.record.state) && view.record.state != CaptureState::kComplete;
}

std::string Why(const CaptureView& view) {
  if (!view.record.error_message.empty()) return view.record.error_message;
  const std::string_view advice = AdviceForEnd(view.ended_by);
  return std::string(advice.empty() ? std::string_view(view.ended_by) : advice);
}

// ---- Fields of every group.

struct MissedCapture {
  const CaptureView* view = nullptr;  // nullptr: a rank of which no trace was imported.
  int64_t rank = -1;
};

const ObjectDescription<MissedCapture>& MissedCaptureObject() {
  using Row = MissedCapture;
  static const ObjectDescription<Row> object(
      {{[](const Row& row) { return row.view == nullptr ? std::string() : row.view->record.id; },
        {.key = "id", .doc = "Capture ID; empty: there is no capture"}},
       {[](const Row& row) {
          return row.view == nullptr ? int64_t{-1} : row.view->record.target.pid;
        },
        {.key = "pid", .doc = "Process ID; -1: there is no capture"}},
       {&Row::rank, {.key = "rank", .doc = "Rank; -1: none"}},
       {[](const Row& row) { return row.view == nullptr ? std::string() : row.view->state; },
        {.key = "state", .doc = "PARTIAL, FAILED, or CANCELLED; empty: there is no capture"}},
       {[](const Row& row) { return row.view == nullptr ? std::string() : row.view->ended_by; },
        {.key = "ended_by", .doc = "Reason for the end; empty: there is no capture"}},
       {[](const Row& row) {
          return row.view == nullptr ? std::string("NO_TRACE") : row.view->record.error_reason;
        },
        {.key = "error_reason",
         .doc = "Stable error reason; NO_TRACE: no trace of the rank was imported"}},
       {[](const Row& row) {
          return row.view == nullptr ? std::string(kNoTraceMessage)
                                     : row.view->record.error_message;
        },
        {.key = "error_message", .doc = "Error message; empty: no error"}}});
  return object;
}

struct GroupFields {
  std::span<const CaptureView> views;
  std::span<const std::string> paths;  // As `views`, or none.
  std::span<const int64_t> ranks_without_trace = {};
};

std::vector<MissedCapture> MissedOf(const GroupFields& group) {
  std::vector<MissedCapture> missed;
  for (const CaptureView& view : group.views) {
    if (Missed(view)) missed.push_back({&view, RankOf(view.record.target)});
  }
  for (const int64_t rank : group.ranks_without_trace) missed.push_back({nullptr, rank});
  return missed;
}

const ObjectDescription<GroupFields>& GroupFieldsObject() {
  using Row = GroupFields;
  static const ObjectDescription<Row> object(
      {{[](const Row& row) {
          return row.views.empty() ? std::string() : row.views.front().record.group_id;
        },
        {.key = "group", .doc = "Group of the captures; empty: none"}}},
      {ListOf<Row>("captures", "Captures of the group", &CaptureObject,
                   [](const Row& row) { return CaptureRowsOf(row.views, row.paths); }),
       ListOf<Row>("missed",
                   "Captures that ended without all that was requested, and ranks without a trace",
                   &MissedCaptureObject, &MissedOf)});
  return object;
}

std::vector<CaptureView> ViewsOf(const FoundGroup& group) {
  std::vector<CaptureView> views;
  for (const FoundCaptureOf& capture : group.captures) views.push_back(capture.view);
  return views;
}

bool IsHere(const FoundGroup& group, const GroupMember& member) {
  return std::ranges::any_of(group.captures, [&](const FoundCaptureOf& capture) {
    return capture.view.record.id == member.capture_id;
  });
}

// ---- A group that was looked up.

const ObjectDescription<GroupMember>& GroupMemberObject() {
  using Row = GroupMember;
  static const ObjectDescription<Row> object(
      {{&Row::node, {.key = "node", .doc = "Node of the member"}},
       {&Row::pid, {.key = "pid", .doc = "Process ID"}},
       {&Row::rank, {.key = "rank", .doc = "Rank; -1: none"}},
       {&Row::capture_id,
        {.key = "id", .doc = "Capture ID; empty: the process could not be prepared"}},
       {&Row::state, {.key = "state", .doc = "State of its capture, as last reported"}},
       {&Row::error, {.key = "error", .doc = "Error message; empty: no error"}},
       {&Row::clock_offset_ns,
        {.key = "clock_offset_ns",
         .doc = "How far the node's clock is ahead of the creator's",
         .unit = table::Unit::kNs}},
       {&Row::clock_bound_ns,
        {.key = "clock_bound_ns",
         .doc = "Maximum error of that figure; -1: not measured",
         .unit = table::Unit::kNs}}});
  return object;
}

// ---- A group that was captured on many nodes.

// A process that was asked for, or a rank of the job that no process has.
struct JobRow {
  const GroupCaptureResult* result = nullptr;
  const JobMember* member = nullptr;  // nullptr: no process.
  int64_t rank = -1;
  std::string_view path = {};  // Of the file that the capture was written to; empty: none.
};

const CaptureRecord& RecordOf(const JobRow& row) { return row.member->view.record; }

const JobRow& Itself(const JobRow& row) { return row; }

const ObjectDescription<JobRow>& JobRowObject() {
  using Row = JobRow;
  static const ObjectDescription<Row> object(
      {{[](const Row& row) {
          return row.member == nullptr ? std::string() : row.result->nodes[row.member->node].node;
        },
        {.key = "node", .doc = "Node name given with --nodes; empty: no process"}},
       {[](const Row& row) { return row.member == nullptr ? int64_t{-1} : row.member->target.pid; },
        {.key = "pid", .doc = "Process ID; -1: no process"}},
       {&Row::rank, {.key = "rank", .doc = "Rank; -1: none"}},
       {[](const Row& row) { return row.member == nullptr ? std::string() : RecordOf(row).id; },
        {.key = "id", .doc = "Capture ID; empty: there is no capture"}}});
  return object;
}

const ObjectDescription<JobRow>& JobCaptureObject() {
  using Row = JobRow;
  static const ObjectDescription<Row> object(
      {},
      {FieldsOf<Row>(&JobRowObject, &Itself),
       ColumnsOf<Row>(
           {{[](const Row& row) { return row.member->view.state; },
             {.key = "state", .doc = "COMPLETE, PARTIAL, FAILED, or CANCELLED"}},
            {[](const Row& row) { return row.member->view.ended_by; },
             {.key = "ended_by", .doc = "Reason for the end; empty: not ended"}},
            {[](const Row& row) {
               return RecordOf(row).windows.empty() ? -1 : RecordOf(row).windows.front().first_step;
             },
             {.key = "first_step", .doc = "Number of the first step; -1: no steps"}},
            {[](const Row& row) {
               return RecordOf(row).windows.empty() ? -1 : RecordOf(row).windows.back().end_step;
             },
             {.key = "end_step", .doc = "Number of the last step plus one; -1: no steps"}},
            {[](const Row& row) { return RecordOf(row).covered_steps; },
             {.key = "covered_steps",
              .doc = "Complete steps recorded",
              .unit = table::Unit::kCount}},
            {[](const Row& row) { return RecordOf(row).start_unix_ns; },
             {.key = "start_unix_ns",
              .doc = "Start of the first window, since 1970-01-01 UTC; 0: nothing was recorded",
              .unit = table::Unit::kNs}},
            {[](const Row& row) { return RecordOf(row).event_count; },
             {.key = "event_count", .doc = "Events kept", .unit = table::Unit::kCount}},
            {[](const Row& row) { return row.member->view.dropped_event_count; },
             {.key = "dropped_event_count", .doc = "Lost events", .unit = table::Unit::kCount}},
            {[](const Row& row) { return row.member->view.quality; },
             {.key = "quality", .doc = "Quality grade, A to D; -: not ended"}},
            {[](const Row& row) { return row.member->view.evicted_count; },
             {.key = "evicted_count",
              .doc = "Captures whose events were removed to make room for this one",
              .unit = table::Unit::kCount}}}),
       TextsOf<Row>(
           "evicted_ids", "IDs of those that were yours, oldest first, at most 16",
           [](const Row& row) -> const auto& { return row.member->view.evicted_ids; }),
       ColumnsOf<Row>(
           {{[](const Row& row) { return std::string(row.path); },
             {.key = "path", .doc = "File to which the capture was written; empty: none"}}})});
  return object;
}

const ObjectDescription<JobRow>& JobMissedObject() {
  using Row = JobRow;
  static const ObjectDescription<Row> object(
      {},
      {FieldsOf<Row>(&JobRowObject, &Itself),
       ColumnsOf<Row>(
           {{[](const Row& row) {
               return row.member == nullptr ? std::string("NO_PROCESS") : row.member->error_reason;
             },
             {.key = "error_reason",
              .doc = "Stable error reason; NO_PROCESS: no process of the job has the rank"}},
            {[](const Row& row) {
               return row.member == nullptr ? std::string(kNoProcess) : row.member->error_message;
             },
             {.key = "error_message", .doc = "Error message; empty: no error"}}})});
  return object;
}

std::vector<JobRow> CapturedOf(const JobCapture& row) {
  std::vector<JobRow> rows;
  for (size_t i = 0; i < row.result.members.size(); ++i) {
    const JobMember& member = row.result.members[i];
    if (!member.HasCapture()) continue;
    const std::string_view path = i < row.paths.size() ? row.paths[i] : std::string_view();
    rows.push_back({&row.result, &member, RankOf(member.target), path});
  }
  return rows;
}

std::vector<JobRow> MissedOfJob(const JobCapture& row) {
  std::vector<JobRow> rows;
  for (const JobMember& member : row.result.members) {
    if (!member.IsComplete()) rows.push_back({&row.result, &member, RankOf(member.target)});
  }
  for (const int64_t rank : row.result.absent_ranks) rows.push_back({&row.result, nullptr, rank});
  return rows;
}

struct NodeClock {
  std::string node;
  ClockOffset clock;
};

const ObjectDescription<NodeClock>& NodeClockObject() {
  using Row = NodeClock;
  static const ObjectDescription<Row> object(
      {{&Row::node, {.key = "node", .doc = "Node name given with --nodes"}},
       {table::Path<&Row::clock, &ClockOffset::offset_ns>(),
        {.key = "offset_ns",
         .doc = "How far its clock is ahead of this machine's",
         .unit = table::Unit::kNs}},
       {table::Path<&Row::clock, &ClockOffset::bound_ns>(),
        {.key = "bound_ns", .doc = "Maximum error of that figure", .unit = table::Unit::kNs}}});
  return object;
}

std::vector<NodeClock> NodeClocksOf(const GroupCaptureResult& result) {
  std::vector<NodeClock> clocks;
  for (size_t node = 0; node < result.nodes.size(); ++node) {
    if (result.clocks[node].bound_ns < 0) continue;
    clocks.push_back({result.nodes[node].node, result.clocks[node]});
  }
  return clocks;
}

const ObjectDescription<GroupCaptureResult>& StartClocksObject() {
  using Row = GroupCaptureResult;
  static const ObjectDescription<Row> object(
      {{[](const Row& row) { return row.ClockResidualNs(); },
        {.key = "residual_ns",
         .doc = "Largest error bound of any node's clock; -1: none was measured",
         .unit = table::Unit::kNs}}},
      {ListOf<Row>("nodes", "Clocks of the nodes, where measured", &NodeClockObject,
                   &NodeClocksOf)});
  return object;
}

}  // namespace

const ObjectDescription<GroupAnswer>& GroupAnswerObject() {
  using Row = GroupAnswer;
  static const ObjectDescription<Row> object(
      {}, {FieldsOf<Row>(&GroupFieldsObject,
                         [](const Row& row) {
                           return GroupFields{row.views, row.paths};
                         }),
           ListOf<Row>("errors", "What failed of what was to be done with them",
                       &FailedCaptureObject, [](const Row& row) { return row.failures; })});
  return object;
}

std::string RenderGroup(std::span<const CaptureView> views, const Style& style) {
  if (views.empty()) return "";
  std::string text = StrCat(
      style.Paint(Colour::kBold,
                  StrCat("Group ", views.front().record.group_id, "  ", views.size(), " targets")),
      "\n", RenderGroupTable(views, style));
  for (const CaptureView& view : views) {
    if (!Missed(view)) continue;
    StrAppend(&text, "pid ", view.record.target.pid, " is ", view.state, ": ",
              ForDisplay(Why(view), 1000), "\n");
  }
  std::set<int64_t> first_steps;
  for (const CaptureView& view : views) {
    const CaptureRecord& record = view.record;
    // With a step marker or a step source each process counts from 0: equal numbers say nothing.
    if (record.windows.empty() || CountsOwnSteps(record.spec)) continue;
    first_steps.insert(record.windows.front().first_step);
  }
  if (first_steps.size() > 1) {
    StrAppend(&text, "These processes do not run in step: each recorded its own next steps.\n");
  }
  return text + RenderEvicted(views);
}

const ObjectDescription<FoundGroupAnswer>& FoundGroupObject() {
  using Row = FoundGroupAnswer;
  static const ObjectDescription<Row> object(
      {},
      {FieldsOf<Row>(&GroupFieldsObject,
                     [](const Row& row) {
                       return GroupFields{row.views, {}, row.group.ranks_without_trace};
                     }),
       ColumnsOf<Row>(
           {{[](const Row& row) { return row.group.record.first_step; },
             {.key = "first_step", .doc = "First step, the same for all; -1: none"}},
            {[](const Row& row) { return row.group.record.closed; },
             {.key = "closed", .doc = "Whether the creator has reported how all members ended"}},
            {[](const Row& row) { return row.group.record.requested_by; },
             {.key = "requested_by", .doc = "Requester, such as uid:1000 or cn:alice"}}}),
       ListOf<Row>(
           "members", "Members on all nodes, also those that were not asked", &GroupMemberObject,
           [](const Row& row) -> const auto& { return row.group.record.members; }),
       NodeOutcomesMember<Row>()});
  return object;
}

void WriteFoundGroupJson(const FoundGroup& group, JsonWriter& json) {
  const std::vector<CaptureView> views = ViewsOf(group);
  FoundGroupObject().Write({group, views, group.outcomes.empty() ? nullptr : &group.outcomes},
                           json);
}

std::string RenderFoundGroup(const FoundGroup& group, const Style& style) {
  std::string text = RenderGroup(ViewsOf(group), style);
  if (group.record.first_step >= 0) {
    StrAppend(&text, "All began at step ", group.record.first_step, ".\n");
  }
  if (const auto absent = std::ssize(group.ranks_without_trace); absent > 0) {
    StrAppend(&text, "It is PARTIAL, without ", NameRanks(group.ranks_without_trace, absent), ": ",
              kNoTraceMessage, "\n");
  }
  bool titled = false;
  for (const GroupMember& member : group.record.members) {
    if (IsHere(group, member)) continue;
    if (!titled) {
      StrAppend(&text, group.captures.front().view.record.schedule_id.empty()
                           ? "Not asked; as reported when they were captured:\n"
                           : "Not asked, or not in the group:\n");
    }
    titled = true;
    // A member that could not be armed never got a capture, so its state is still the first one.
    const bool is_refused = member.capture_id.empty() && member.state == CaptureState::kPending;
    StrAppend(&text, "  ", ForDisplay(member.node, 255),
              member.rank < 0 ? StrCat(" pid ", member.pid) : StrCat(" rank ", member.rank), "  ",
              is_refused ? std::string_view("not prepared") : ToString(member.state), "  ",
              member.capture_id, member.error.empty() ? "" : "  ", ForDisplay(member.error, 500),
              "\n");
  }
  return text;
}

std::string NextForGroup(std::string_view profctl, const std::string& group_id) {
  return StrCat("next: ", profctl, " stragglers ", group_id, " | report ", group_id, " | ops ",
                group_id, " | export ", group_id, " -o FILE.json.gz\n");
}

std::string NameRanks(std::span<const int64_t> ranks, int64_t count) {
  constexpr size_t kMostNamed = 16;
  const std::span<const int64_t> named = ranks.first(std::min(kMostNamed, ranks.size()));
  std::string text = "rank";
  for (size_t i = 0; i < named.size(); ++i) StrAppend(&text, i == 0 ? " " : ", ", named[i]);
  if (std::ssize(named) < count) StrAppend(&text, " and ", count - std::ssize(named), " more");
  return text;
}

const ObjectDescription<JobCapture>& JobCaptureAnswerObject() {
  using Row = JobCapture;
  static const ObjectDescription<Row> object(
      {{[](const Row& row) { return row.result.id; }, {.key = "id", .doc = "Group ID, a ULID"}},
       {[](const Row& row) { return row.result.state; },
        {.key = "state", .doc = "COMPLETE, PARTIAL, FAILED, or CANCELLED"}},
       {[](const Row& row) { return row.result.first_step; },
        {.key = "first_step", .doc = "First step, the same for all; -1: none"}}},
      {ListOf<Row>("captures", "Captures, by rank, node, and process", &JobCaptureObject,
                   &CapturedOf),
       ListOf<Row>("missed",
                   "Processes without a complete capture, and ranks of the job without a process",
                   &JobMissedObject, &MissedOfJob),
       ObjectOf<Row>(
           "clock", "Clocks of the nodes, compared with this machine's", &StartClocksObject,
           [](const Row& row) -> const auto& { return row.result; }),
       ListOf<Row>("errors", "Files that could not be written", &FailedCaptureObject,
                   [](const Row& row) { return row.failures; }),
       ListOf<Row>(
           "nodes", "Result per node", &NodeOutcomeObject,
           [](const Row& row) -> const auto& { return row.result.nodes; })});
  return object;
}

std::string RenderGroupCapture(const GroupCaptureResult& result, const Style& style) {
  std::string title = StrCat("Group ", result.id, "  ", ToString(result.state));
  if (result.first_step >= 0) StrAppend(&title, "  from step ", result.first_step);
  Table table({{.title = "NODE", .right = false, .flexible = true},
               {.title = "RANK"},
               {.title = "PID", .drop_order = 3},
               {.title = "STATE", .right = false},
               {.title = "STEPS"},
               {.title = "STEP TIME", .drop_order = 1},
               {.title = "EVENTS", .drop_order = 4},
               {.title = "LOST", .drop_order = 5},
               {.title = "GRADE", .right = false, .drop_order = 6},
               {.title = "CAPTURE", .right = false}});
  for (const JobMember& member : result.members) {
    const CaptureRecord& record = member.view.record;
    const int64_t rank = RankOf(member.target);
    const bool kept = member.view.HasEvents();
    table.AddRow(
        {result.nodes[member.node].node, rank < 0 ? "-" : StrCat(rank), StrCat(member.target.pid),
         member.HasCapture() ? member.view.state : "-", kept ? StrCat(record.covered_steps) : "-",
         record.step_during_ns > 0 ? FormatNs(record.step_during_ns) : "-",
         kept ? FormatCount(record.event_count) : "-",
         kept ? FormatCount(member.view.dropped_event_count) : "-", member.view.quality,
         member.HasCapture() ? record.id : "-"},
        member.IsComplete() ? Colour::kNone : Colour::kYellow);
  }
  std::string text = StrCat(style.Paint(Colour::kBold, title), "\n", table.Render(style));
  if (result.ClockResidualNs() >= 0) {
    StrAppend(&text, "The clock of every node is known to ", FormatNs(result.ClockResidualNs()),
              ".\n");
  }
  std::vector<CaptureView> views;
  views.reserve(result.members.size());
  for (const JobMember& member : result.members) views.push_back(member.view);
  return text + RenderEvicted(views);
}

std::string RenderMissed(const GroupCaptureResult& result, bool called_off) {
  std::string ready;
  std::vector<std::string> names;
  std::vector<NodeError> errors;
  for (const JobMember& member : result.members) {
    if (member.IsComplete()) continue;
    const std::string name = ForDisplay(NameOf(result, member), 300);
    // Ready members are not why the group was called off, so they are listed separately.
    if (called_off && member.was_ready) {
      StrAppend(&ready, ready.empty() ? "" : ", ", name);
      continue;
    }
    names.push_back(name);
    errors.push_back({result.nodes[member.node].node,
                      member.error_message.empty() ? member.error_reason : member.error_message});
  }
  for (const int64_t rank : result.absent_ranks) {
    names.push_back(StrCat("rank ", rank));
    errors.push_back({"", std::string(kNoProcess)});
  }
  std::string text;
  for (const FoldedError& error : FoldErrors(errors)) {
    std::vector<std::string> missed;
    for (const size_t i : error.of) missed.push_back(names[i]);
    const std::string who = missed.size() == 1
                                ? missed[0]
                                : StrCat(missed.size(), " processes (", FirstOf(missed), ")");
    StrAppend(&text, "profctl: ", who, " missed it", error.text.empty() ? "" : ": ",
              ForDisplay(error.text, 1000), "\n");
  }
  if (!ready.empty()) StrAppend(&text, "profctl: ready, and released again: ", ready, "\n");
  return text;
}

}  // namespace profd::cli
