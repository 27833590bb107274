#include "cli/render/group_view.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "cli/base/errors.h"
#include "cli/base/folded_errors.h"
#include "cli/base/table.h"
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

void WriteGroupFields(std::span<const CaptureView> views, std::span<const std::string> paths,
                      std::span<const int64_t> ranks_without_trace, JsonWriter& json) {
  json.Field("group", views.empty() ? std::string() : views.front().record.group_id);
  json.Key("captures").BeginArray();
  for (size_t i = 0; i < views.size(); ++i) {
    WriteCaptureJson(views[i], i < paths.size() ? paths[i] : std::string(), json);
  }
  json.EndArray();
  json.Key("missed").BeginArray();
  for (const CaptureView& view : views) {
    if (!Missed(view)) continue;
    json.BeginObject();
    json.Field("id", view.record.id);
    json.Field("pid", view.record.target.pid);
    json.Field("rank", RankOf(view.record.target));
    json.Field("state", view.state);
    json.Field("ended_by", view.ended_by);
    json.Field("error_reason", view.record.error_reason);
    json.Field("error_message", view.record.error_message);
    json.EndObject();
  }
  // With the keys of a capture, so that readers need no second case.
  for (const int64_t rank : ranks_without_trace) {
    json.BeginObject();
    json.Field("id", "");
    json.Field("pid", int64_t{-1});
    json.Field("rank", rank);
    json.Field("state", "");
    json.Field("ended_by", "");
    json.Field("error_reason", "NO_TRACE");
    json.Field("error_message", kNoTraceMessage);
    json.EndObject();
  }
  json.EndArray();
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

void WriteMemberFields(const GroupCaptureResult& result, const JobMember& member,
                       JsonWriter& json) {
  json.Field("node", result.nodes[member.node].node);
  json.Field("pid", member.target.pid);
  json.Field("rank", RankOf(member.target));
  json.Field("id", member.view.record.id);
}

void WriteStartClocksJson(const GroupCaptureResult& result, JsonWriter& json) {
  json.Key("clock").BeginObject();
  json.Field("residual_ns", result.ClockResidualNs());
  json.Key("nodes").BeginArray();
  for (size_t node = 0; node < result.nodes.size(); ++node) {
    if (result.clocks[node].bound_ns < 0) continue;
    json.BeginObject();
    json.Field("node", result.nodes[node].node);
    json.Field("offset_ns", result.clocks[node].offset_ns);
    json.Field("bound_ns", result.clocks[node].bound_ns);
    json.EndObject();
  }
  json.EndArray().EndObject();
}

}  // namespace

void WriteGroupJson(std::span<const CaptureView> views, std::span<const std::string> paths,
                    std::span<const Failure> failures, JsonWriter& json) {
  json.BeginObject();
  WriteGroupFields(views, paths, {}, json);
  WriteFailuresJson(failures, "id", json);
  json.EndObject();
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

void WriteFoundGroupJson(const FoundGroup& group, JsonWriter& json) {
  json.BeginObject();
  WriteGroupFields(ViewsOf(group), {}, group.ranks_without_trace, json);
  json.Field("first_step", group.record.first_step);
  json.Field("closed", group.record.closed);
  json.Field("requested_by", group.record.requested_by);
  json.Key("members").BeginArray();
  for (const GroupMember& member : group.record.members) {
    json.BeginObject();
    json.Field("node", member.node);
    json.Field("pid", member.pid);
    json.Field("rank", member.rank);
    json.Field("id", member.capture_id);
    json.Field("state", ToString(member.state));
    json.Field("error", member.error);
    json.Field("clock_offset_ns", member.clock_offset_ns);
    json.Field("clock_bound_ns", member.clock_bound_ns);
    json.EndObject();
  }
  json.EndArray();
  if (!group.outcomes.empty()) WriteNodeOutcomesJson(group.outcomes, json);
  json.EndObject();
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

void WriteGroupCaptureJson(const GroupCaptureResult& result, std::span<const std::string> paths,
                           std::span<const Failure> failures, JsonWriter& json) {
  json.BeginObject();
  json.Field("id", result.id);
  json.Field("state", ToString(result.state));
  json.Field("first_step", result.first_step);
  json.Key("captures").BeginArray();
  for (size_t i = 0; i < result.members.size(); ++i) {
    const JobMember& member = result.members[i];
    if (!member.HasCapture()) continue;
    const CaptureRecord& record = member.view.record;
    json.BeginObject();
    WriteMemberFields(result, member, json);
    json.Field("state", member.view.state);
    json.Field("ended_by", member.view.ended_by);
    json.Field("first_step", record.windows.empty() ? -1 : record.windows.front().first_step);
    json.Field("end_step", record.windows.empty() ? -1 : record.windows.back().end_step);
    json.Field("covered_steps", record.covered_steps);
    json.Field("start_unix_ns", record.start_unix_ns);
    json.Field("event_count", record.event_count);
    json.Field("dropped_event_count", member.view.dropped_event_count);
    json.Field("quality", member.view.quality);
    json.Field("evicted_count", member.view.evicted_count);
    json.Key("evicted_ids").BeginArray();
    for (const std::string& id : member.view.evicted_ids) json.String(id);
    json.EndArray();
    json.Field("path", i < paths.size() ? paths[i] : std::string());
    json.EndObject();
  }
  json.EndArray();
  json.Key("missed").BeginArray();
  for (const JobMember& member : result.members) {
    if (member.IsComplete()) continue;
    json.BeginObject();
    WriteMemberFields(result, member, json);
    json.Field("error_reason", member.error_reason);
    json.Field("error_message", member.error_message);
    json.EndObject();
  }
  for (const int64_t rank : result.absent_ranks) {
    json.BeginObject();
    json.Field("node", "");
    json.Field("pid", int64_t{-1});
    json.Field("rank", rank);
    json.Field("id", "");
    json.Field("error_reason", "NO_PROCESS");
    json.Field("error_message", kNoProcess);
    json.EndObject();
  }
  json.EndArray();
  WriteStartClocksJson(result, json);
  WriteFailuresJson(failures, "id", json);
  WriteNodeOutcomesJson(result.nodes, json);
  json.EndObject();
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
