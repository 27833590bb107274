#include "cli/render/group_reports.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "cli/base/errors.h"
#include "cli/base/object.h"
#include "cli/base/table.h"
#include "cli/captures/find_group.h"
#include "cli/captures/group_start.h"
#include "cli/render/capture.h"
#include "cli/render/group_view.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/units.h"

namespace profd::cli {
namespace {

bool IsTime(report::OpSort sort) { return sort != report::OpSort::kCalls; }

std::string_view SortKeyText(report::OpSort sort) {
  switch (sort) {
    case report::OpSort::kSelfCpu:
    case report::OpSort::kName:
      return "self CPU time";
    case report::OpSort::kCpuTotal:
      return "CPU total";
    case report::OpSort::kCalls:
      return "calls";
    case report::OpSort::kAverage:
      return "CPU time of a call";
    case report::OpSort::kMax:
      return "longest call";
    case report::OpSort::kSelfDevice:
      return "self CUDA time";
    case report::OpSort::kDeviceTotal:
      return "CUDA total";
    case report::OpSort::kBusyDevice:
      return "CUDA busy";
  }
  return "";
}

// Of the step `step`, if the framework has a number for it.
void WriteGlobalStep(const report::FrameworkSteps& framework, int64_t step, JsonWriter& json) {
  json.Key("global_step");
  if (const std::optional<int64_t> number = framework.GlobalStepOf(step)) {
    json.Int(*number);
  } else {
    json.Null();
  }
}

void NullableNs(std::string_view key, int64_t ns, JsonWriter& json) {
  json.Key(key);
  if (ns < 0) {
    json.Null();
  } else {
    json.Int(ns);
  }
}

// What keeps the figures from meaning what they seem to.
std::string Caveats(const ComparedSteps& compared) {
  const report::GroupSteps& steps = compared.steps;
  const report::ClockAlignment& clocks = compared.clocks;
  std::string text;
  if (clocks.rejected_count > 0) {
    StrAppend(&text, FormatCount(clocks.rejected_count),
              " matched collectives were rejected: their times on the ranks differ by up to ",
              FormatNs(clocks.largest_shift_ns), ", so they are not one collective.\n");
  }
  if (!steps.has_collectives) {
    text +=
        "No collective operation was recorded: a rank that waits for another looks like one that "
        "works. Record operators of PyTorch or the GPU, or annotate them (\"all_reduce\").\n";
  } else if (steps.matched_count == 0) {
    text +=
        "No completed collective of one rank was found in another, so waiting and transfer are "
        "unknown.\n";
  }
  return text;
}

std::string NameOfMember(const CaptureSet& set, size_t member) {
  const CaptureSet::Member& of = set.members()[member];
  return StrCat(of.rank >= 0 ? "rank " : "", LabelOf(of));
}

std::string VerdictText(const CaptureSet& set, const report::GroupSteps& steps) {
  const report::RankScore& first = steps.ranking.front();
  switch (steps.verdict) {
    case report::StragglerVerdict::kStraggler: {
      const auto count = std::count_if(steps.ranking.begin(), steps.ranking.end(),
                                       [](const auto& rank) { return rank.straggler; });
      return StrCat(count, count == 1 ? " straggler" : " stragglers",
                    absl::StrFormat(" (score above %.1f)", report::kStragglerScore), ": ",
                    NameOfMember(set, first.member), " has ", FormatNs(first.more_own_ns),
                    " more own work per step; it arrives last at ", FormatCount(first.last_count),
                    " of ", FormatCount(steps.matched_count), " collectives.\n");
    }
    case report::StragglerVerdict::kPair:
      return StrCat(NameOfMember(set, steps.ranking.back().member), " waits for ",
                    NameOfMember(set, first.member), ": ", FormatNs(first.caused_wait_ns),
                    " per step. At least 3 ranks are needed to identify an outlier.\n");
    case report::StragglerVerdict::kNone:
      return steps.reason == report::StragglerReason::kNone
                 ? absl::StrFormat("No straggler (score above %.1f).\n", report::kStragglerScore)
                 : StrCat("No straggler: ", TextOf(steps.reason), ".\n");
    case report::StragglerVerdict::kWithheld:
      break;
  }
  return StrCat("Verdict withheld: ", TextOf(steps.reason), ".\n");
}

// Empty: all steps were compared.
std::string LeftOutSteps(const report::GroupSteps& steps) {
  int64_t most = 0;
  for (const std::vector<report::RankStep>& of_member : steps.members) {
    most = std::max<int64_t>(most, std::ssize(of_member));
  }
  if (most == std::ssize(steps.common_steps)) return "";
  return StrCat("Compares the ", steps.common_steps.size(), " steps that all ranks have, of up to ",
                most, ".\n");
}

// Ranks of the job that no member is of, by what the captures say of its size.
std::vector<int64_t> RanksWithoutMember(const CaptureSet& set) {
  std::vector<TargetInfo> targets;
  std::set<int64_t> missing;
  for (const CaptureSet::Member& member : set.members()) {
    if (!member.missing.empty()) {
      missing.insert(member.rank);
    } else {
      targets.push_back(member.view.record.target);
    }
  }
  std::vector<int64_t> absent = AbsentRanks(targets);
  std::erase_if(absent, [&](int64_t rank) { return missing.contains(rank); });
  return absent;
}

const ObjectDescription<CaptureSet::Member>& MemberObject() {
  using Row = CaptureSet::Member;
  static const ObjectDescription<Row> object(
      {{&Row::node, {.key = "node", .doc = "Node of the member"}},
       {&Row::pid, {.key = "pid", .doc = "Process ID of the member"}},
       {&Row::rank, {.key = "rank", .doc = "Rank of the member; -1: not known"}},
       {&Row::capture_id,
        {.key = "id", .doc = "Capture ID; empty: the member could not be prepared"}},
       {table::Path<&Row::view, &CaptureView::state>(),
        {.key = "state", .doc = "COMPLETE, PARTIAL, FAILED, or CANCELLED; empty: no capture"}},
       {table::Path<&Row::view, &CaptureView::quality>(),
        {.key = "quality", .doc = "The grade, A to D; -: none"}},
       {[](const Row& row) { return std::string(ToString(SharesOf(row.view))); },
        {.key = "shares", .doc = "Reliability of percentages: whole, marked, or withheld"}},
       {&Row::missing,
        {.key = "missing", .doc = "Why there is nothing of the member; empty: there is"}}});
  return object;
}

}  // namespace

std::string LabelOf(const CaptureSet::Member& member) {
  if (member.rank >= 0) return StrCat(member.rank);
  return member.node.empty() ? StrCat("pid ", member.pid)
                             : StrCat(ForDisplay(member.node, 255), "/", member.pid);
}

const ObjectDescription<CaptureSet>& MembersObject() {
  static const ObjectDescription<CaptureSet> object(
      {{[](const CaptureSet& set) { return set.group_id(); },
        {.key = "group", .doc = "Group of the captures; empty: none"}}},
      {ListOf<CaptureSet>("members", "Captures that were compared", &MemberObject,
                          [](const CaptureSet& set) { return set.members(); }),
       IntsOf<CaptureSet>("absent_ranks", "Ranks of the job without a capture",
                          &RanksWithoutMember)});
  return object;
}

void WriteMembersJson(const CaptureSet& set, JsonWriter& json) {
  MembersObject().WriteFields(set, json);
}

Style StyleFor(const CaptureSet& set, Style style) {
  for (const CaptureSet::Member& member : set.members()) {
    if (member.missing.empty()) style.shares = std::max(style.shares, SharesOf(member.view));
  }
  return style;
}

std::string RenderSetHeader(const CaptureSet& set, const Style& style) {
  std::string worst;
  bool simulated = false;
  for (const CaptureSet::Member& member : set.members()) {
    if (!member.missing.empty()) continue;
    worst = std::max(worst, member.view.quality);
    simulated |= member.view.record.gpu.simulated;
  }
  std::string title = set.group_id().empty() ? StrCat(set.members().size(), " captures")
                                             : StrCat("Group ", set.group_id());
  const std::vector<int64_t> absent = RanksWithoutMember(set);
  std::string text = StrCat(style.Paint(Colour::kBold, title), "  ", set.present_count(), " of ",
                            set.members().size() + absent.size(), " ranks");
  if (!absent.empty()) {
    StrAppend(&text, " (without ", NameRanks(absent, std::ssize(absent)), ")");
  }
  if (!worst.empty()) StrAppend(&text, ", quality ", worst, " or better");
  if (simulated) text += ", GPU simulated";
  return text + "\n";
}

std::string RenderMissing(const CaptureSet& set) {
  std::string text;
  std::vector<int64_t> without_trace;  // One line for all.
  for (const CaptureSet::Member& member : set.members()) {
    if (member.missing.empty()) continue;
    if (member.rank >= 0 && member.missing == kNoTraceMessage) {
      without_trace.push_back(member.rank);
      continue;
    }
    StrAppend(&text, "profctl: missing ", member.rank >= 0 ? "rank " : "", LabelOf(member));
    if (member.rank >= 0 && !member.node.empty()) {
      StrAppend(&text, " (", ForDisplay(member.node, 255), ", pid ", member.pid, ")");
    }
    StrAppend(&text, ": ", ForDisplay(member.missing, 1000), "\n");
  }
  if (!without_trace.empty()) {
    StrAppend(&text, "profctl: missing ", NameRanks(without_trace, std::ssize(without_trace)), ": ",
              kNoTraceMessage, "\n");
  }
  return text;
}

int ExitCodeOf(const CaptureSet& set) {
  return set.present_count() < set.members().size() ? kExitPartial : kExitDone;
}

void WriteClockJson(const report::ClockAlignment& alignment, JsonWriter& json) {
  json.Key("clock").BeginObject();
  NullableNs("residual_ns", alignment.residual_p50_ns, json);
  NullableNs("residual_p99_ns", alignment.residual_p99_ns, json);
  NullableNs("spread_ns", alignment.spread_p50_ns, json);
  NullableNs("spread_p99_ns", alignment.spread_p99_ns, json);
  json.Field("collectives", alignment.collective_count);
  json.Field("rejected_count", alignment.rejected_count);
  json.Field("largest_rejected_shift_ns", alignment.largest_shift_ns);
  json.Key("members").BeginArray();
  for (const report::AlignedClock& clock : alignment.members) {
    json.BeginObject();
    json.Field("basis", ToString(clock.basis));
    json.Field("offset_ns", clock.offset_ns);
    json.Field("drift_ppm", clock.drift * 1e6);
    NullableNs("error_ns", clock.error_ns, json);
    json.EndObject();
  }
  json.EndArray().EndObject();
}

std::string RenderClock(const report::ClockAlignment& alignment) {
  int64_t probed = 0;
  int64_t shared = 0;
  int64_t bound_ns = 0;
  for (const report::AlignedClock& clock : alignment.members) {
    shared += clock.basis == report::ClockBasis::kShared ? 1 : 0;
    if (clock.basis != report::ClockBasis::kProbe) continue;
    ++probed;
    bound_ns = std::max(bound_ns, clock.error_ns);
  }
  const auto count = static_cast<int64_t>(alignment.members.size());
  std::string text = "Clocks: ";
  if (alignment.rejected_count > 0) {
    StrAppend(&text, FormatCount(alignment.rejected_count),
              " matched collectives rejected, whose times differ by up to ",
              FormatNs(alignment.largest_shift_ns), "; ");
  }
  if (alignment.refined_count > 0) {
    StrAppend(&text, alignment.refined_count, " of ", count, " aligned on ",
              FormatCount(alignment.collective_count), " collectives");
    if (alignment.residual_p50_ns >= 0) {
      StrAppend(&text, ", residual ", FormatNs(alignment.residual_p50_ns), " at the median, ",
                FormatNs(alignment.residual_p99_ns), " at the 99th percentile");
    }
    text += "; ";
  }
  if (probed > 0) {
    StrAppend(&text, probed, " of ", count, " by measured offsets, good to ", FormatNs(bound_ns),
              "; ");
  }
  if (shared > 0) StrAppend(&text, shared, " of ", count, " share one host's clock; ");
  if (const int64_t rest = count - probed - shared - alignment.refined_count; rest > 0) {
    StrAppend(&text, rest, " of ", count,
              " by the nodes' wall clocks, whose offsets were not measured; ");
  }
  text.resize(text.size() - 2);
  return text + "\n";
}

std::string RenderGroupOps(const CaptureSet& set, const report::GroupOps& ops,
                           const report::OpOptions& options, const Style& style) {
  std::vector<Column> columns = {{.title = "Name", .right = false, .flexible = true}};
  if (options.by_step) columns.push_back({.title = "Step"});
  if (options.by_inputs) {
    columns.push_back({.title = "Input shapes", .right = false, .drop_order = 2});
  }
  for (const Column& column :
       {Column{.title = "Min"}, Column{.title = "Median"}, Column{.title = "Max"},
        Column{.title = "Max/median", .drop_order = 3}, Column{.title = "Slowest", .right = false},
        Column{.title = "Ranks", .drop_order = 4}, Column{.title = "Calls", .drop_order = 1}}) {
    columns.push_back(column);
  }
  Table out(std::move(columns));
  const auto figure = [&](int64_t value) {
    return IsTime(options.sort) ? FormatNs(value) : FormatCount(value);
  };
  for (const report::GroupOpRow& row : ops.rows) {
    std::vector<std::string> cells = {row.name};
    if (options.by_step) cells.push_back(row.step < 0 ? std::string("-") : StrCat(row.step));
    if (options.by_inputs) cells.push_back(row.dims.empty() ? "-" : row.dims);
    for (const int64_t value : {row.min, row.median, row.max}) cells.push_back(figure(value));
    cells.push_back(row.median > 0 ? absl::StrFormat("%.2f", static_cast<double>(row.max) /
                                                                 static_cast<double>(row.median))
                                   : "-");
    cells.push_back(LabelOf(set.members()[row.slowest]));
    cells.push_back(FormatCount(row.member_count));
    cells.push_back(FormatCount(row.median_calls));
    out.AddRow(std::move(cells));
  }
  std::string text = out.Render(style);
  if (ops.row_count == 0) text += "No ranges were recorded.\n";
  if (const auto shown = static_cast<int64_t>(ops.rows.size()); shown < ops.row_count) {
    StrAppend(&text, "(", FormatCount(ops.row_count - shown), " more: --limit 0)\n");
  }
  StrAppend(&text, "Over ranks: ", SortKeyText(options.sort),
            " of each; one that did not run it counts as 0.\n");
  return text;
}

void WriteGroupOpsJson(const CaptureSet& set, const report::GroupOps& ops,
                       const report::OpOptions& options, JsonWriter& json) {
  json.BeginObject();
  WriteMembersJson(set, json);
  json.Field("figure", ToString(options.sort == report::OpSort::kName ? report::OpSort::kSelfCpu
                                                                      : options.sort));
  json.Field("row_count", ops.row_count);
  json.Key("rows").BeginArray();
  for (const report::GroupOpRow& row : ops.rows) {
    json.BeginObject();
    json.Field("name", row.name);
    if (options.by_step) json.Field("step", row.step);
    if (options.by_inputs) {
      json.Field("dims", row.dims);
      json.Field("types", row.types);
    }
    json.Field("member_count", row.member_count);
    json.Field("median_calls", row.median_calls);
    json.Field("min", row.min);
    json.Field("median", row.median);
    json.Field("max", row.max);
    json.Field("slowest", row.slowest);
    json.Key("by_member").BeginArray();
    for (const int64_t value : row.figures) json.Int(value);
    json.EndArray().EndObject();
  }
  json.EndArray().EndObject();
}

std::string RenderGroupSteps(const CaptureSet& set, const ComparedSteps& compared,
                             const Style& style) {
  const report::GroupSteps& steps = compared.steps;
  if (steps.rows.empty()) return "No step was covered by any rank.\n";
  Table out({{.title = "Step"},
             {.title = "Ranks", .drop_order = 3},
             {.title = "Min", .drop_order = 2},
             {.title = "Median"},
             {.title = "Max"},
             {.title = "Slow", .right = false},
             {.title = "Own work"},
             {.title = "Median own", .drop_order = 1},
             {.title = "Waited", .right = false},
             {.title = "Wait"}});
  for (const report::GroupStepRow& row : steps.rows) {
    const bool waited = row.longest_wait_ns > 0;
    out.AddRow({row.step < 0 ? std::string("window") : compared.framework.NumberText(row.step),
                FormatCount(row.member_count), FormatNs(row.min_ns), FormatNs(row.median_ns),
                FormatNs(row.max_ns), LabelOf(set.members()[row.slowest]),
                FormatNs(row.slowest_own_ns), FormatNs(row.median_own_ns),
                waited ? LabelOf(set.members()[row.waited_most]) : std::string("-"),
                waited ? FormatNs(row.longest_wait_ns) : std::string("-")});
  }
  return StrCat(out.Render(style), Caveats(compared));
}

void WriteGroupStepsJson(const CaptureSet& set, const ComparedSteps& compared, JsonWriter& json) {
  const report::GroupSteps& steps = compared.steps;
  json.BeginObject();
  WriteMembersJson(set, json);
  json.Field("has_collectives", steps.has_collectives);
  json.Field("matched_count", steps.matched_count);
  json.Field("rejected_count", compared.clocks.rejected_count);
  json.Key("steps").BeginArray();
  for (const report::GroupStepRow& row : steps.rows) {
    json.BeginObject();
    json.Field("step", row.step);
    WriteGlobalStep(compared.framework, row.step, json);
    json.Field("member_count", row.member_count);
    json.Field("min_ns", row.min_ns);
    json.Field("median_ns", row.median_ns);
    json.Field("max_ns", row.max_ns);
    json.Field("slowest", row.slowest);
    json.Field("slowest_own_ns", row.slowest_own_ns);
    json.Field("median_own_ns", row.median_own_ns);
    json.Field("waited_most", row.waited_most);
    json.Field("longest_wait_ns", row.longest_wait_ns);
    json.EndObject();
  }
  json.EndArray();
  json.Key("by_member").BeginArray();
  for (const std::vector<report::RankStep>& of_member : steps.members) {
    json.BeginArray();
    for (const report::RankStep& step : of_member) {
      json.BeginObject();
      json.Field("step", step.step);
      json.Field("duration_ns", step.duration_ns);
      json.Field("own_ns", step.own_ns);
      json.Field("transfer_ns", step.transfer_ns);
      json.Field("wait_ns", step.wait_ns);
      json.EndObject();
    }
    json.EndArray();
  }
  json.EndArray().EndObject();
}

std::string RenderStragglers(const CaptureSet& set, const ComparedSteps& compared,
                             const Style& style) {
  const report::GroupSteps& steps = compared.steps;
  if (steps.ranking.empty()) return "No step was covered by any rank.\n";
  Table out({{.title = "Rank", .right = false},
             {.title = "Node", .right = false, .flexible = true, .drop_order = 4},
             {.title = "PID", .drop_order = 2},
             {.title = "Steps", .drop_order = 3},
             {.title = "Step"},
             {.title = "Own work"},
             {.title = "Transfer", .drop_order = 1},
             {.title = "Wait"},
             {.title = "Caused"},
             {.title = "Last"},
             {.title = "Score"},
             {.title = "", .right = false}});
  const auto if_matched = [&](std::string text) {
    return steps.matched_count > 0 ? std::move(text) : std::string("-");
  };
  for (const report::RankScore& rank : steps.ranking) {
    const CaptureSet::Member& member = set.members()[rank.member];
    out.AddRow(
        {member.rank >= 0 ? StrCat(member.rank) : std::string("-"), member.node, StrCat(member.pid),
         FormatCount(rank.step_count), FormatNs(rank.duration_ns), FormatNs(rank.own_ns),
         if_matched(FormatNs(rank.transfer_ns)), if_matched(FormatNs(rank.wait_ns)),
         if_matched(FormatNs(rank.caused_wait_ns)), if_matched(FormatCount(rank.last_count)),
         steps.enough_ranks ? absl::StrFormat("%.1f", rank.score) : "-",
         rank.straggler ? "straggler" : ""},
        rank.straggler ? Colour::kYellow : Colour::kNone);
  }
  return StrCat(out.Render(style), VerdictText(set, steps), LeftOutSteps(steps), Caveats(compared));
}

void WriteStragglersJson(const CaptureSet& set, const ComparedSteps& compared, JsonWriter& json) {
  const report::GroupSteps& steps = compared.steps;
  json.BeginObject();
  WriteMembersJson(set, json);
  json.Field("has_collectives", steps.has_collectives);
  json.Field("matched_count", steps.matched_count);
  json.Field("rejected_count", compared.clocks.rejected_count);
  json.Field("threshold", report::kStragglerScore);
  json.Field("verdict", ToString(steps.verdict));
  json.Field("reason", ToString(steps.reason));
  json.Field("reason_text", TextOf(steps.reason));
  json.Key("common_steps").BeginArray();
  for (const int64_t step : steps.common_steps) json.Int(step);
  json.EndArray();
  WriteClockJson(compared.clocks, json);
  json.Key("ranks").BeginArray();
  for (const report::RankScore& rank : steps.ranking) {
    const CaptureSet::Member& member = set.members()[rank.member];
    json.BeginObject();
    json.Field("member", rank.member);
    json.Field("rank", member.rank);
    json.Field("node", member.node);
    json.Field("pid", member.pid);
    json.Field("step_count", rank.step_count);
    json.Field("duration_ns", rank.duration_ns);
    json.Field("own_ns", rank.own_ns);
    json.Field("more_own_ns", rank.more_own_ns);
    const auto if_matched = [&](std::string_view key, int64_t value) {
      json.Key(key);
      steps.matched_count > 0 ? json.Int(value) : json.Null();
    };
    if_matched("transfer_ns", rank.transfer_ns);
    if_matched("wait_ns", rank.wait_ns);
    if_matched("caused_wait_ns", rank.caused_wait_ns);
    if_matched("last_count", rank.last_count);
    if_matched("late_ns", rank.late_ns);
    json.Key("score");
    if (steps.enough_ranks) {
      json.Double(rank.score);
    } else {
      json.Null();
    }
    json.Field("relative", rank.relative);
    json.Field("straggler", rank.straggler);
    json.EndObject();
  }
  json.EndArray().Key("collectives").BeginArray();
  for (const report::CollectiveBlame& blame : steps.blames) {
    json.BeginObject();
    json.Field("step", blame.step);
    WriteGlobalStep(compared.framework, blame.step, json);
    json.Field("kind", ToString(blame.kind));
    json.Field("last", blame.last);
    json.Field("late_by_ns", blame.late_by_ns);
    json.Field("caused_wait_ns", blame.total_wait_ns);
    json.Key("waits").BeginArray();
    for (const report::CollectiveBlame::Wait& wait : blame.waits) {
      json.BeginObject();
      json.Field("member", wait.member);
      json.Field("wait_ns", wait.wait_ns);
      json.EndObject();
    }
    json.EndArray().EndObject();
  }
  json.EndArray().EndObject();
}

}  // namespace profd::cli
