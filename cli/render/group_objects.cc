#include "cli/render/group_objects.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_format.h"
#include "cli/base/object.h"
#include "daemon/base/table/json.h"
#include "daemon/base/units.h"

namespace profd::cli {
namespace {

using report::AlignedClock;
using report::ClockAlignment;
using report::CollectiveBlame;
using report::GroupOpRow;
using report::GroupStepRow;
using report::GroupSteps;
using report::RankStep;
using table::Description;

const ObjectDescription<AlignedClock>& AlignedClockObject() {
  using Row = AlignedClock;
  static const ObjectDescription<Row> object(
      {{&Row::basis,
        {.key = "basis", .doc = "What aligned it: wall_clock, probe, collectives, or shared"}},
       {&Row::offset_ns,
        {.key = "offset_ns",
         .doc = "How far it is ahead of the common clock",
         .unit = table::Unit::kNs}},
       {[](const Row& row) { return row.drift * 1e6; },
        {.key = "drift_ppm", .doc = "Microseconds that it gains per second"}},
       {&Row::error_ns,
        {.key = "error_ns",
         .doc = "How far it may still be off; null: unknown",
         .unit = table::Unit::kNs,
         .nullable = true}}});
  return object;
}

table::Column NullableNs(std::string key, std::string doc) {
  return {.key = std::move(key), .doc = std::move(doc), .unit = table::Unit::kNs, .nullable = true};
}

const ObjectDescription<RankStep>& RankStepObject() {
  using Row = RankStep;
  static const ObjectDescription<Row> object(
      {{&Row::step, {.key = "step", .doc = "Step number; -1: a window of a capture without steps"}},
       {&Row::duration_ns,
        {.key = "duration_ns", .doc = "Duration of the step", .unit = table::Unit::kNs}},
       {&Row::own_ns,
        {.key = "own_ns",
         .doc = "Time in which no collective was waited for",
         .formula = "duration - transfer - wait",
         .unit = table::Unit::kNs}},
       {&Row::transfer_ns,
        {.key = "transfer_ns",
         .doc = "Time in collectives after all ranks had arrived",
         .unit = table::Unit::kNs}},
       {&Row::wait_ns,
        {.key = "wait_ns",
         .doc =
             "Time in collectives before the last rank arrived, and in sends and receives before "
             "the peer was ready",
         .unit = table::Unit::kNs}},
       {&Row::peer_wait_ns,
        {.key = "peer_wait_ns",
         .doc = "Part of the wait in sends and receives",
         .unit = table::Unit::kNs}},
       {&Row::cpu_wait_ns,
        NullableNs(
            "cpu_wait_ns",
            "How long the threads that work on the step waited for a CPU in its own work, at "
            "most; null: not known")}});
  return object;
}

// A list of steps for each member.
Member<GroupStepsAnswer> StepsByMember() {
  return {.key = "by_member",
          .doc = "Steps of each member, in the order of the members",
          .write =
              [](const GroupStepsAnswer& answer, JsonWriter& json) {
                json.BeginArray();
                for (const std::vector<RankStep>& of_member : answer.compared.steps.members) {
                  json.BeginArray();
                  for (const RankStep& step : of_member) RankStepObject().Write(step, json);
                  json.EndArray();
                }
                json.EndArray();
              },
          .write_schema =
              [](JsonWriter& json) {
                json.Field("type", "array").Key("items").BeginObject();
                json.Field("type", "array").Key("items").BeginObject();
                RankStepObject().WriteSchema(json);
                json.EndObject().EndObject();
              }};
}

const ObjectDescription<CollectiveBlame::Wait>& BlameWaitObject() {
  using Row = CollectiveBlame::Wait;
  static const ObjectDescription<Row> object(
      {{[](const Row& row) { return static_cast<int64_t>(row.member); },
        {.key = "member", .doc = "Position of the member that waited"}},
       {&Row::wait_ns, {.key = "wait_ns", .doc = "How long it waited", .unit = table::Unit::kNs}}});
  return object;
}

struct BlameView {
  const CollectiveBlame* of;
  int64_t global_step = -1;  // The framework's number; -1: it has none.
};

std::vector<BlameView> BlameViewsOf(const ComparedSteps& compared) {
  std::vector<BlameView> views;
  views.reserve(compared.steps.blames.size());
  for (const CollectiveBlame& blame : compared.steps.blames) {
    views.push_back({&blame, compared.framework.GlobalStepOf(blame.step).value_or(-1)});
  }
  return views;
}

const std::string& GroupOf(const BlameView& view) { return view.of->group; }
const std::vector<CollectiveBlame::Wait>& WaitsOf(const BlameView& view) { return view.of->waits; }

const ObjectDescription<BlameView>& BlameObject() {
  using Row = BlameView;
  static const ObjectDescription<Row> object(
      {{[](const Row& row) { return row.of->step; },
        {.key = "step", .doc = "Step of the collective on the last rank; -1: in none"}},
       {&Row::global_step,
        {.key = "global_step",
         .doc = "The step's number in Lightning or Trainer; null: it has none",
         .nullable = true}},
       {[](const Row& row) { return row.of->kind; },
        {.key = "kind", .doc = "Operation; other: unknown"}},
       {GroupOf,
        {.key = "process_group",
         .doc = "Name of its process group, the program's or else torch's; empty: unknown"}},
       {[](const Row& row) { return static_cast<int64_t>(row.of->last); },
        {.key = "last", .doc = "Position of the member that arrived last"}},
       {[](const Row& row) { return row.of->late_by_ns; },
        {.key = "late_by_ns",
         .doc = "Time between the arrival of the member before it and its own",
         .unit = table::Unit::kNs}},
       {[](const Row& row) { return row.of->total_wait_ns; },
        {.key = "caused_wait_ns",
         .doc = "How long all others waited for it together",
         .unit = table::Unit::kNs}}},
      {ListOf<Row>("waits", "Wait of each other member", &BlameWaitObject, WaitsOf)});
  return object;
}

// The fields of MembersObject().
template <typename Answer>
Member<Answer> MembersOf() {
  return FieldsOf<Answer>(
      &MembersObject, [](const Answer& answer) -> const auto& { return answer.set; });
}

// Fields that `steps` and `stragglers` have of the comparison.
template <typename Answer>
std::vector<table::Field<Answer>> ComparedFields() {
  return {{[](const Answer& answer) { return answer.compared.steps.has_collectives; },
           {.key = "has_collectives", .doc = "Whether any collective was recorded"}},
          {[](const Answer& answer) { return answer.compared.steps.matched_count; },
           {.key = "matched_count",
            .doc = "Collectives of one rank that were found in another",
            .unit = table::Unit::kCount}},
          {[](const Answer& answer) { return answer.compared.clocks.rejected_count; },
           {.key = "rejected_count",
            .doc = "Matched collectives whose times contradict each other",
            .unit = table::Unit::kCount}}};
}

}  // namespace

const ObjectDescription<ClockAlignment>& ClockObject() {
  using Row = ClockAlignment;
  static const ObjectDescription<Row> object(
      {{&Row::residual_p50_ns,
        NullableNs("residual_ns", "Possible error of refined clocks, median; null: unknown")},
       {&Row::residual_p99_ns, NullableNs("residual_p99_ns", "The same, 99th percentile")},
       {&Row::spread_p50_ns,
        NullableNs("spread_ns",
                   "Distance of a collective's ends from their median after alignment, median")},
       {&Row::spread_p99_ns, NullableNs("spread_p99_ns", "The same, 99th percentile")},
       {&Row::collective_count,
        {.key = "collectives", .doc = "Collectives that were used", .unit = table::Unit::kCount}},
       {&Row::rejected_count,
        {.key = "rejected_count",
         .doc = "Matched collectives whose times contradict each other",
         .unit = table::Unit::kCount}},
       {&Row::largest_shift_ns,
        {.key = "largest_rejected_shift_ns",
         .doc = "Largest shift between two clocks that a rejected collective would need",
         .unit = table::Unit::kNs}}},
      {ListOf<Row>(
          "members", "Clock of each member, in the order of the members", &AlignedClockObject,
          [](const Row& row) -> const auto& { return row.members; })});
  return object;
}

std::vector<GroupOpView> OpViewsOf(const CaptureSet& set, const report::GroupOps& ops) {
  std::vector<GroupOpView> views;
  views.reserve(ops.rows.size());
  for (const GroupOpRow& row : ops.rows) {
    views.push_back({.row = &row, .slowest_label = LabelOf(set.members()[row.slowest])});
  }
  return views;
}

const ObjectDescription<GroupOpView>& GroupOpObject() {
  using Row = GroupOpView;
  static const ObjectDescription<Row> object(
      {{[](const Row& view) { return view.row->name; },
        {.key = "name", .title = "Name", .doc = "Name of the operator or range", .flexible = true}},
       {[](const Row& view) { return view.row->step; },
        {.key = "step",
         .title = "Step",
         .doc = "With --by-step: its step",
         .nullable = true,
         .only_if_set = true}},
       {[](const Row& view) { return view.row->dims; },
        {.key = "dims",
         .title = "Input shapes",
         .doc = "With --group-by input_shape: shapes of its inputs",
         .priority = 2,
         .only_if_set = true}},
       {[](const Row& view) { return view.row->types; },
        {.key = "types",
         .doc = "With --group-by input_shape: types of its inputs",
         .priority = kOnlyInData}},
       {[](const Row& view) { return view.row->min; },
        {.key = "min",
         .title = "Min",
         .doc = "Minimum over the ranks of the figure that --sort names: ns, or calls with --sort "
                "calls. Per step if all ranks have steps, except for calls, averages, and maxima "
                "(per_step). A rank that did not run it has 0"}},
       {[](const Row& view) { return view.row->median; },
        {.key = "median", .title = "Median", .doc = "Median of the same over the ranks"}},
       {[](const Row& view) { return view.row->max; },
        {.key = "max", .title = "Max", .doc = "Maximum of the same over the ranks"}},
       {[](const Row& view) {
          return view.row->median > 0
                     ? absl::StrFormat("%.2f", static_cast<double>(view.row->max) /
                                                   static_cast<double>(view.row->median))
                     : std::string();
        },
        {.title = "Max/median",
         .doc = "Maximum relative to the median",
         .formula = "Max / Median",
         .priority = 3,
         .right = true}},
       {[](const Row& view) { return static_cast<int64_t>(view.row->slowest); },
        {.key = "slowest",
         .doc = "Position of the member with the maximum",
         .priority = kOnlyInData}},
       {&Row::slowest_label,
        {.key = "slowest_rank",
         .title = "Slowest",
         .doc = "The rank with the maximum; without a rank, its node and process"}},
       {[](const Row& view) { return view.row->member_count; },
        {.key = "member_count",
         .title = "Ranks",
         .doc = "Number of ranks that ran it",
         .unit = table::Unit::kCount,
         .priority = 4}},
       {[](const Row& view) { return view.row->median_calls; },
        {.key = "median_calls",
         .title = "Calls",
         .doc = "Median number of its calls over the ranks",
         .unit = table::Unit::kCount,
         .priority = 1}},
       {[](const Row& view) { return view.row->calls_per_step; },
        {.key = "calls_per_step",
         .title = "Calls/step",
         .doc = "Median over the ranks that ran it of its calls per step; null: not compared per "
                "step",
         .formula = "calls / steps of the capture",
         .priority = 1,
         .nullable = true,
         .only_if_set = true}}},
      {IntsOf<Row>(
          "by_member", "The figure of each member, in the order of the members",
          [](const Row& view) -> const auto& { return view.row->figures; })});
  return object;
}

const ObjectDescription<GroupOpsAnswer>& GroupOpsObject() {
  using Row = GroupOpsAnswer;
  static const ObjectDescription<Row> object(
      {},
      {MembersOf<Row>(),
       ColumnsOf<Row>(
           {{&Row::figure,
             {.key = "figure", .doc = "Figure that ranks are compared by: the key of --sort"}},
            {&Row::row_count,
             {.key = "row_count",
              .doc = "Number of rows before --limit",
              .unit = table::Unit::kCount}},
            {&Row::per_step,
             {.key = "per_step",
              .doc = "Whether the figures are per step; if not, they are totals of each capture, "
                     "or of one call"}}}),
       IntsOf<Row>(
           "step_counts", "Steps of each member, in the order of the members; 0: it has none",
           [](const Row& row) -> const auto& { return row.step_counts; }),
       ListOf<Row>(
           "rows", "Operators, by the median over the ranks, descending", &GroupOpObject,
           [](const Row& row) -> const auto& { return row.rows; })});
  return object;
}

std::vector<GroupStepView> StepViewsOf(const CaptureSet& set, const GroupSteps& steps,
                                       const report::FrameworkSteps& framework) {
  std::vector<GroupStepView> views;
  views.reserve(steps.rows.size());
  for (const GroupStepRow& row : steps.rows) {
    const bool waited = row.longest_wait_ns > 0;
    views.push_back(
        {.row = &row,
         .global_step = framework.GlobalStepOf(row.step).value_or(-1),
         .number = row.step < 0 ? std::string("window") : framework.NumberText(row.step),
         .slowest_label = LabelOf(set.members()[row.slowest]),
         .waited_most_label = waited ? LabelOf(set.members()[row.waited_most]) : std::string()});
  }
  return views;
}

const Description<GroupStepView>& GroupStepColumns() {
  using Row = GroupStepView;
  static const Description<Row> columns = {
      {[](const Row& view) { return view.row->step; },
       {.key = "step",
        .doc = "Step number; -1: a window of captures without steps",
        .priority = kOnlyInData}},
      {&Row::global_step,
       {.key = "global_step",
        .doc = "The step's number in Lightning or Trainer; null: it has none",
        .priority = kOnlyInData,
        .nullable = true}},
      {&Row::number, {.title = "Step", .doc = "Step number, and the framework's", .right = true}},
      {[](const Row& view) { return view.row->member_count; },
       {.key = "member_count",
        .title = "Ranks",
        .doc = "Number of ranks that have the step",
        .unit = table::Unit::kCount,
        .priority = 3}},
      {[](const Row& view) { return view.row->min_ns; },
       {.key = "min_ns",
        .title = "Min",
        .doc = "Minimum of the ranks' durations",
        .unit = table::Unit::kNs,
        .priority = 2}},
      {[](const Row& view) { return view.row->median_ns; },
       {.key = "median_ns",
        .title = "Median",
        .doc = "Median of the ranks' durations",
        .unit = table::Unit::kNs}},
      {[](const Row& view) { return view.row->max_ns; },
       {.key = "max_ns",
        .title = "Max",
        .doc = "Maximum of the ranks' durations",
        .unit = table::Unit::kNs}},
      {[](const Row& view) { return static_cast<int64_t>(view.row->slowest); },
       {.key = "slowest",
        .doc = "Position of the member with the most own work",
        .priority = kOnlyInData}},
      {&Row::slowest_label,
       {.key = "slowest_rank",
        .title = "Slow",
        .doc = "The rank with the most own work in the step"}},
      {[](const Row& view) { return view.row->slowest_own_ns; },
       {.key = "slowest_own_ns",
        .title = "Own work",
        .doc = "Own work of that rank",
        .formula = "duration - transfer - wait",
        .unit = table::Unit::kNs}},
      {[](const Row& view) { return view.row->median_own_ns; },
       {.key = "median_own_ns",
        .title = "Median own",
        .doc = "Median of the ranks' own work",
        .unit = table::Unit::kNs,
        .priority = 1}},
      {[](const Row& view) { return static_cast<int64_t>(view.row->waited_most); },
       {.key = "waited_most",
        .doc = "Position of the member that waited longest in collectives",
        .priority = kOnlyInData}},
      {&Row::waited_most_label,
       {.key = "waited_most_rank",
        .title = "Waited",
        .doc = "The rank that waited longest in collectives; empty: none waited"}},
      {[](const Row& view) { return view.row->longest_wait_ns; },
       {.key = "longest_wait_ns",
        .doc = "How long that rank waited",
        .unit = table::Unit::kNs,
        .priority = kOnlyInData}},
      {[](const Row& view) {
         return view.row->longest_wait_ns > 0 ? FormatNs(view.row->longest_wait_ns) : std::string();
       },
       {.title = "Wait", .doc = "How long that rank waited in collectives", .right = true}}};
  return columns;
}

const ObjectDescription<GroupStepsAnswer>& GroupStepsObject() {
  using Row = GroupStepsAnswer;
  static const ObjectDescription<Row> object(
      {}, {MembersOf<Row>(), ColumnsOf<Row>(Description<Row>(ComparedFields<Row>())),
           table::RowsOfTable<Row>(
               "steps", "Steps that any rank has", &GroupStepColumns,
               [](const Row& row) -> const auto& { return row.rows; }),
           StepsByMember()});
  return object;
}

std::vector<RankRow> RankRowsOf(const CaptureSet& set, const GroupSteps& steps) {
  std::vector<RankRow> rows;
  rows.reserve(steps.ranking.size());
  for (const report::RankScore& rank : steps.ranking) {
    RankRow& row = rows.emplace_back(RankRowOf(steps, rank));
    const CaptureSet::Member& member = set.members()[rank.member];
    row.capture = member.capture_id;
    row.node = member.node;
    row.pid = member.pid;
    row.rank = member.rank;
  }
  return rows;
}

const Description<RankRow>& StragglerColumns() {
  static const Description<RankRow> columns = [] {
    std::vector<table::Field<RankRow>> fields = {
        {&RankRow::member,
         {.key = "member", .doc = "Position of the rank's member", .priority = kOnlyInData}}};
    std::ranges::move(ComparedRankFields(), std::back_inserter(fields));
    fields.push_back(
        {[](const RankRow& row) { return std::string(row.of.straggler ? "straggler" : ""); },
         {.unknown_text = ""}});
    return Description<RankRow>(fields);
  }();
  return columns;
}

const ObjectDescription<StragglersAnswer>& StragglersObject() {
  using Row = StragglersAnswer;
  static const ObjectDescription<Row> object = [] {
    std::vector<table::Field<Row>> fields = ComparedFields<Row>();
    const std::vector<table::Field<Row>> more = {
        {[](const Row& /*row*/) { return report::kStragglerScore; },
         {.key = "threshold", .doc = "Score above which a rank may be a straggler"}},
        {[](const Row& row) { return row.compared.steps.verdict; },
         {.key = "verdict", .doc = "straggler, pair, none (no rank is one), or withheld"}},
        {[](const Row& row) { return row.compared.steps.reason; },
         {.key = "reason", .doc = "Why the verdict is withheld, as a word; empty: it is not"}},
        {[](const Row& row) { return std::string(TextOf(row.compared.steps.reason)); },
         {.key = "reason_text", .doc = "The same as a clause"}},
        {[](const Row& row) { return row.compared.steps.is_pipeline; },
         {.key = "pipeline",
          .doc = "Whether most of the waiting is in sends and receives, as in a pipeline"}},
        {[](const Row& row) { return row.compared.steps.cpu_waits_can_explain; },
         {.key = "cpu_waits_can_explain",
          .doc = "Whether waits for a CPU can be at least half of a straggler's additional own "
                 "work or, where no rank is one, of how ranks differ"}},
        {[](const Row& row) { return row.compared.excess.text; },
         {.key = "more_of",
          .doc =
              "What the first rank does more of than others, in a sentence; empty: it is unknown, "
              "or no rank is slow"}},
        {[](const Row& row) { return row.compared.excess.advice; },
         {.key = "more_of_advice", .doc = "Where to look; empty: it is unknown"}}};
    fields.insert(fields.end(), more.begin(), more.end());
    return ObjectDescription<Row>(
        {}, {MembersOf<Row>(), ColumnsOf<Row>(Description<Row>(fields)),
             IntsOf<Row>(
                 "common_steps", "Steps that all ranks have, which are compared",
                 [](const Row& row) -> const auto& { return row.compared.steps.common_steps; }),
             ObjectOf<Row>(
                 "clock", "Clocks of the members, and what aligned them", &ClockObject,
                 [](const Row& row) -> const auto& { return row.compared.clocks; }),
             table::RowsOfTable<Row>(
                 "ranks", "Ranks: stragglers first, then by the wait that they caused",
                 &StragglerColumns, [](const Row& row) -> const auto& { return row.ranks; }),
             ListOf<Row>("collectives",
                         "Matched collectives with the most wait, at most 100, the most first",
                         &BlameObject, [](const Row& row) { return BlameViewsOf(row.compared); })});
  }();
  return object;
}

std::vector<table::Column> GroupOpTextColumns() { return GroupOpObject().columns().columns(); }
std::vector<table::Column> GroupStepTextColumns() { return GroupStepColumns().columns(); }
std::vector<table::Column> StragglerTextColumns() { return StragglerColumns().columns(); }

}  // namespace profd::cli
