#include "cli/render/top.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"
#include "cli/base/short_names.h"
#include "cli/base/table.h"
#include "cli/base/units.h"
#include "cli/render/capture.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/units.h"

namespace profd::cli {
namespace {

constexpr int kTrendWidth = 30;
std::string Counted(size_t count, std::string_view one, std::string_view many) {
  return StrCat(FormatCount(static_cast<int64_t>(count)), " ", count == 1 ? one : many);
}

}  // namespace

const ObjectDescription<TopAnswer>& TopAnswerObject() {
  using Row = TopAnswer;
  static const ObjectDescription<Row> object(
      {},
      {FieldsOf<Row>(&TargetsAnswerObject,
                     [](const Row& row) { return TargetsAnswerOf(row.look.nodes, row.outcomes); }),
       ListOf<Row>("captures", "Captures that have not ended", &CaptureObject,
                   [](const Row& row) { return CaptureRowsOf(row.look.captures); })});
  return object;
}

void TopView::Follow(const TargetInfo& target, absl::Time now, Track& track) const {
  const int64_t steps = target.step_mark_count;
  if (track.steps >= 0 && steps > track.steps) {
    if (track.last_step_time > absl::InfinitePast()) {
      const double step_ns = absl::ToDoubleNanoseconds(now - track.last_step_time) /
                             static_cast<double>(steps - track.steps);
      track.step_times.push_back({absl::ToUnixNanos(now), step_ns});
    }
    track.last_step_time = now;
  }
  track.steps = steps;
  const int64_t oldest = absl::ToUnixNanos(now - kShown);
  while (!track.step_times.empty() && track.step_times.front().time_unix_ns < oldest) {
    track.step_times.pop_front();
  }
}

void TopView::Add(const TopLook& look) {
  std::map<Key, Track> tracks;  // Those that are gone are forgotten.
  for (const NodeTargets& node : look.nodes) {
    for (const TargetInfo& target : node.targets) {
      // With the start of the process, because the system reuses PIDs.
      const Key key = {node.node, target.pid, target.process_start_ticks};
      Track& track = tracks[key];
      if (const auto known = tracks_.find(key); known != tracks_.end()) {
        track = std::move(known->second);
      }
      Follow(target, look.time, track);
    }
  }
  tracks_ = std::move(tracks);
  last_ = look;
}

std::vector<std::string> TopView::Cells(const std::string& node, const TargetInfo& target,
                                        const Style& style) const {
  const Track& track = tracks_.at({node, target.pid, target.process_start_ticks});
  const bool is_late = MissesSteps(target);
  std::string step_time = "-";
  if (is_late) {
    step_time = StrCat("none for ", FormatAge(absl::Nanoseconds(target.since_last_step_ns)));
  } else if (target.median_step_ns > 0) {
    step_time = FormatNs(target.median_step_ns);
  } else if (target.steps_per_second > 0) {
    step_time = FormatNs(std::llround(1e9 / target.steps_per_second));
  }
  const std::vector<TimedValue> values(track.step_times.begin(), track.step_times.end());
  const int64_t end = absl::ToUnixNanos(last_.time);
  std::string trend =
      values.empty() || !style.unicode
          ? std::string()
          : Sparkline(values, end - absl::ToInt64Nanoseconds(kShown), end, kTrendWidth);
  return {StrCat(target.pid),
          RankOf(target) < 0 ? "-" : StrCat(RankOf(target)),
          target.opted_out ? "opted out" : std::string(ToString(target.state)),
          target.step_mark_count == 0 ? "-" : StrCat(target.current_step),
          is_late || target.steps_per_second <= 0
              ? "-"
              : absl::StrFormat("%.2f", target.steps_per_second),
          std::move(step_time),
          std::move(trend),
          ShortCommand(target.command)};
}

std::string TopView::Render(const Style& style) const {
  const bool has_nodes =
      last_.nodes.size() > 1 || (!last_.nodes.empty() && !last_.nodes[0].node.empty());
  std::vector<Column> columns;
  if (has_nodes) columns.push_back({.title = "NODE", .right = false});
  columns.insert(columns.end(), {{.title = "PID"},
                                 {.title = "RANK", .drop_order = 2},
                                 {.title = "STATE", .right = false, .drop_order = 1},
                                 {.title = "STEP"},
                                 {.title = "STEPS/S", .drop_order = 3},
                                 {.title = "STEP TIME"},
                                 {.title = "LAST MINUTE", .right = false, .drop_order = 4},
                                 {.title = "COMMAND", .right = false, .flexible = true}});
  Table table(std::move(columns));
  size_t targets = 0;
  for (const NodeTargets& node : last_.nodes) {
    for (const TargetInfo& target : node.targets) {
      std::vector<std::string> cells = Cells(node.node, target, style);
      if (has_nodes) cells.insert(cells.begin(), node.node);
      table.AddRow(std::move(cells), MissesSteps(target)                       ? Colour::kYellow
                                     : target.state == TargetState::kCapturing ? Colour::kGreen
                                                                               : Colour::kNone);
      ++targets;
    }
  }
  std::string text = StrCat(Counted(targets, "target", "targets"), ", ",
                            Counted(last_.captures.size(), "running capture", "running captures"),
                            "; q quits\n\n");
  if (targets == 0) return StrCat(text, RenderTargets({}, style));
  StrAppend(&text, table.Render(style));
  if (!last_.captures.empty()) {
    StrAppend(&text, "\n",
              has_nodes ? RenderNodeCaptureTable(last_.captures, last_.time, style)
                        : RenderCaptureTable(last_.captures, last_.time, style));
  }
  return text;
}

}  // namespace profd::cli
