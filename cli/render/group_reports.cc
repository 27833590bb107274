#include "cli/render/group_reports.h"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "cli/base/errors.h"
#include "cli/base/object.h"
#include "cli/captures/find_group.h"
#include "cli/captures/group_start.h"
#include "cli/render/capture.h"
#include "cli/render/group_objects.h"
#include "cli/render/group_view.h"
#include "cli/render/report_tables.h"
#include "daemon/base/median.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/table/json.h"
#include "daemon/base/text.h"
#include "daemon/base/units.h"
#include "daemon/report/ops/profile.h"

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
  } else if (steps.matched_count == 0 && !steps.is_pipeline) {
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

constexpr size_t kMostNamedStragglers = 8;

std::vector<std::string> StragglerNames(const CaptureSet& set, const report::GroupSteps& steps) {
  std::vector<std::string> names;
  for (const report::RankScore& rank : steps.ranking) {
    if (rank.straggler) names.push_back(NameOfMember(set, rank.member));
  }
  return names;
}

// " Mean wait for a CPU per step above the others' median: rank 2 12 ms, rank 0 3 ms." Empty: none
// waits longer, or that is not known.
std::string CpuWaitsByRank(const CaptureSet& set, const report::GroupSteps& steps) {
  std::vector<const report::RankScore*> ranks;
  for (const report::RankScore& rank : steps.ranking) {
    if (rank.mean_more_cpu_wait_ns > 0) ranks.push_back(&rank);
  }
  if (ranks.empty()) return "";
  std::ranges::stable_sort(ranks, std::ranges::greater(), [](const report::RankScore* rank) {
    return rank->mean_more_cpu_wait_ns;
  });
  std::string text = " Mean wait for a CPU per step above the others' median: ";
  for (size_t i = 0; i < ranks.size() && i < kMostNamedStragglers; ++i) {
    StrAppend(&text, i == 0 ? "" : ", ", NameOfMember(set, ranks[i]->member), " ",
              FormatNs(ranks[i]->mean_more_cpu_wait_ns));
  }
  if (ranks.size() > kMostNamedStragglers) text += ", ...";
  return text + ".";
}

// After a reason: that waits for a CPU can be another one, and of which ranks. Empty: they cannot.
std::string CpuWaitsNote(const CaptureSet& set, const report::GroupSteps& steps) {
  if (!steps.cpu_waits_can_explain) return "";
  return StrCat(steps.reason == report::StragglerReason::kCpuWaits
                    ? ""
                    : " Waits for a CPU can explain at least half of how they differ.",
                CpuWaitsByRank(set, steps));
}

// Of the first rank, named for some of its steps; `others`: those that are slow likewise.
std::string SlowStepsVerdict(const std::string& name, const report::RankScore& first,
                             const std::string& others) {
  return StrCat(name, " delays the others ", SlowStepsText(first),
                ". In these steps it has more own work, and they wait for it", others, ".\n");
}

// Of ranks that exchange data by send and receive.
std::string SlowStageVerdict(const CaptureSet& set, const report::GroupSteps& steps, size_t count,
                             const std::string& others) {
  const report::RankScore& first = steps.ranking.front();
  return StrCat(count, count == 1 ? " straggler" : " stragglers",
                absl::StrFormat(" (score above %.1f)", report::kStragglerScore), ": ",
                NameOfMember(set, first.member), " has ", FormatNs(first.more_own_ns),
                " more own work per step. In sends and receives, the other ranks wait for ",
                FormatNs(UsualPeerWait(steps)), " per step at the median, and it waits for ",
                FormatNs(first.peer_wait_ns), ": it is the slow stage", others, ".\n");
}

// No rank has a high score, or one has, but its difference is too small to matter.
std::string NoStraggler(const CaptureSet& set, const report::GroupSteps& steps) {
  const auto highest = std::ranges::max_element(steps.ranking, {}, &report::RankScore::score);
  if (highest == steps.ranking.end() || highest->score <= report::kStragglerScore) {
    return absl::StrFormat("No straggler (score above %.1f).", report::kStragglerScore);
  }
  return StrCat(
      "No straggler: ", NameOfMember(set, highest->member),
      absl::StrFormat(" scores %.1f (above %.1f), but its additional own work is small or "
                      "in few steps (",
                      highest->score, report::kStragglerScore),
      FormatNs(std::max<int64_t>(highest->more_own_ns, 0)), " of ", FormatNs(highest->duration_ns),
      " per step).");
}

// The bubble of a pipeline without a slow stage. Empty: it is not one.
std::string BubbleNote(const report::GroupSteps& steps) {
  if (!steps.is_pipeline) return "";
  std::vector<int64_t> durations_ns;
  for (const report::RankScore& rank : steps.ranking) durations_ns.push_back(rank.duration_ns);
  return StrCat(" In sends and receives, ranks wait for ", FormatNs(UsualPeerWait(steps)), " of ",
                FormatNs(Median(durations_ns)),
                " per step at the median: the pipeline's bubble. More microbatches per step make "
                "it smaller.");
}

// After "no straggler": the rank that the others waited for in few steps. Empty: there is none.
std::string FewStepsNote(const CaptureSet& set, const report::GroupSteps& steps) {
  if (steps.reason != report::StragglerReason::kFewSteps) return "";
  const auto longest =
      std::ranges::max_element(steps.ranking, {}, &report::RankScore::mean_caused_wait_ns);
  if (longest->slow_steps.empty()) return "";
  return StrCat(" ", NameOfMember(set, longest->member), " delays the others ",
                SlowStepsText(*longest), ", which may be chance.");
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

std::string RenderStragglerVerdict(const CaptureSet& set, const report::GroupSteps& steps) {
  const report::RankScore& first = steps.ranking.front();
  switch (steps.verdict) {
    case report::StragglerVerdict::kStraggler: {
      const std::vector<std::string> names = StragglerNames(set, steps);
      std::string others;
      for (size_t i = 1; i < names.size() && i <= kMostNamedStragglers; ++i) {
        StrAppend(&others,
                  i > 1               ? ", "
                  : names.size() == 2 ? "; the other is "
                                      : "; the others are ",
                  names[i]);
      }
      if (names.size() > kMostNamedStragglers + 1) others += ", ...";
      if (first.is_slow_in_steps) {
        return StrCat(names.size(), names.size() == 1 ? " straggler: " : " stragglers: ",
                      SlowStepsVerdict(NameOfMember(set, first.member), first, others));
      }
      if (steps.is_pipeline) return SlowStageVerdict(set, steps, names.size(), others);
      return StrCat(names.size(), names.size() == 1 ? " straggler" : " stragglers",
                    absl::StrFormat(" (score above %.1f)", report::kStragglerScore), ": ",
                    NameOfMember(set, first.member), " has ", FormatNs(first.more_own_ns),
                    " more own work per step; it arrives last at ", FormatCount(first.last_count),
                    " of ", FormatCount(steps.matched_count), " collectives",
                    first.group.empty() ? std::string()
                                        : StrCat(" (most of the wait is in process group ",
                                                 ForDisplay(first.group, 64), ")"),
                    others, ".\n");
    }
    case report::StragglerVerdict::kPair: {
      if (first.is_slow_in_steps) {
        return StrCat(SlowStepsVerdict(NameOfMember(set, first.member), first, ""),
                      "At least 3 ranks are needed to identify an outlier.\n");
      }
      const bool is_usual = first.caused_wait_ns > 0;
      return StrCat(NameOfMember(set, steps.ranking.back().member), " waits for ",
                    NameOfMember(set, first.member), ": ",
                    FormatNs(is_usual ? first.caused_wait_ns : first.mean_caused_wait_ns),
                    " per step ", is_usual ? "at the median" : "on average",
                    ". At least 3 ranks are needed to identify an outlier.\n");
    }
    case report::StragglerVerdict::kNone:
      if (steps.reason == report::StragglerReason::kNone) {
        return StrCat(NoStraggler(set, steps), BubbleNote(steps), "\n");
      }
      return StrCat("No straggler: ", TextOf(steps.reason), ".", FewStepsNote(set, steps),
                    BubbleNote(steps), CpuWaitsNote(set, steps), "\n");
    case report::StragglerVerdict::kWithheld:
      break;
  }
  return StrCat("Verdict withheld: ", TextOf(steps.reason), ".", CpuWaitsNote(set, steps), "\n");
}

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
  std::string title = set.group_id().empty()
                          ? FormatCountOf(std::ssize(set.members()), "capture", "captures")
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
  table::Table rows = GroupOpObject().columns().ToTable("rows", OpViewsOf(set, ops));
  rows.row_count = ops.row_count;
  for (table::Column& column : rows.columns) {
    if (column.key != "min" && column.key != "median" && column.key != "max") continue;
    column.unit = IsTime(options.sort) ? table::Unit::kNs : table::Unit::kCount;
    if (ops.per_step) column.title += "/step";
  }
  // Of unequal captures only the calls per step can be compared.
  if (ops.per_step) {
    for (table::Column& column : rows.columns) {
      if (column.key == "median_calls") column.priority = kOnlyInData;
    }
  }
  std::string text = RenderTable(rows, style);
  if (ops.row_count == 0) text += "No ranges were recorded.\n";
  return text + RenderGroupOpsBasis(set, ops, options);
}

std::string RenderGroupOpsBasis(const CaptureSet& set, const report::GroupOps& ops,
                                const report::OpOptions& options) {
  std::string text =
      StrCat("Over ranks: ", SortKeyText(options.sort), ops.per_step ? " per step" : "",
             " of each; one that did not run it counts as 0.\n");
  if (!ops.differ_in_steps) return text;
  std::string counts;
  for (size_t i = 0; i < ops.step_counts.size(); ++i) {
    if (!set.members()[i].missing.empty()) continue;
    StrAppend(&counts, counts.empty() ? "" : ", ", NameOfMember(set, i), " ", ops.step_counts[i]);
  }
  StrAppend(&text, "Totals of captures with different numbers of steps (", counts,
            "): do not compare them",
            IsTime(options.sort) ? ", because not all have steps.\n"
                                 : "; times are compared per step.\n");
  return text;
}

void WriteSetReportJson(const CaptureSet& set, const table::Report& report, JsonWriter& json) {
  json.BeginObject();
  MembersObject().WriteFields(set, json);
  table::WriteReport(report, json);
  json.EndObject();
}

void WriteSetReportSchema(const table::Report& shape, JsonWriter& json) {
  const ReportFields fields(shape);
  const std::array<const table::AnyObject*, 2> parts = {&MembersObject(), &fields};
  WriteSchemaOfParts(parts, {}, json);
}

void WriteGroupOpsJson(const CaptureSet& set, const report::GroupOps& ops,
                       const report::OpOptions& options, JsonWriter& json) {
  const std::vector<GroupOpView> rows = OpViewsOf(set, ops);
  const report::OpSort figure =
      options.sort == report::OpSort::kName ? report::OpSort::kSelfCpu : options.sort;
  GroupOpsObject().Write({.set = set,
                          .figure = std::string(ToString(figure)),
                          .row_count = ops.row_count,
                          .per_step = ops.per_step,
                          .step_counts = ops.step_counts,
                          .rows = rows},
                         json);
}

std::string GroupOpsCsv(const CaptureSet& set, const report::GroupOps& ops) {
  return table::ToCsv(GroupOpObject().columns().ToTable("rows", OpViewsOf(set, ops)));
}

table::Table GroupStepsTable(const CaptureSet& set, const report::GroupSteps& steps,
                             const report::FrameworkSteps& framework) {
  return GroupStepColumns().ToTable("steps", StepViewsOf(set, steps, framework));
}

std::string RenderGroupSteps(const CaptureSet& /*set*/, const ComparedSteps& compared,
                             const table::Table& rows, const Style& style) {
  if (compared.steps.rows.empty()) return "No step was covered by any rank.\n";
  return StrCat(RenderTable(rows, style), Caveats(compared));
}

void WriteGroupStepsJson(const CaptureSet& set, const ComparedSteps& compared,
                         const table::Table& rows, JsonWriter& json) {
  GroupStepsObject().Write({.set = set, .compared = compared, .rows = rows}, json);
}

table::Table StragglersTable(const CaptureSet& set, const report::GroupSteps& steps,
                             const report::FrameworkSteps& /*framework*/) {
  return StragglerColumns().ToTable("ranks", RankRowsOf(set, steps));
}

std::string RenderExcess(const report::RankExcess& excess, const Style& style) {
  if (excess.text.empty()) return "";
  const std::string advice = excess.advice.empty() ? "" : StrCat(" ", excess.advice);
  return Paragraph(StrCat(excess.text, advice), 0, style);
}

std::string RenderStragglers(const CaptureSet& set, const ComparedSteps& compared,
                             const table::Table& rows, const Style& style) {
  const report::GroupSteps& steps = compared.steps;
  if (steps.ranking.empty()) return "No step was covered by any rank.\n";
  return StrCat(RenderTable(rows, style), RenderStragglerVerdict(set, steps),
                RenderExcess(compared.excess, style), LeftOutSteps(steps), Caveats(compared));
}

void WriteStragglersJson(const CaptureSet& set, const ComparedSteps& compared,
                         const table::Table& rows, JsonWriter& json) {
  StragglersObject().Write({.set = set, .compared = compared, .ranks = rows}, json);
}

}  // namespace profd::cli
