#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/strings/str_format.h"
#include "cli/render_capture.h"
#include "cli/render_reports.h"
#include "cli/table.h"
#include "cli/units.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"

namespace profd::cli {
namespace {

constexpr int kPlotRows = 8;
constexpr int kWidestPlot = 100;
constexpr int kAxisWidth = 12;  // "1023.9 KiB │"

// The highest value in each of `columns` equal spans of [begin, end).
std::vector<int64_t> HighestPerColumn(const std::vector<report::MemoryPoint>& points, int64_t begin,
                                      int64_t end, size_t columns) {
  std::vector<int64_t> highest;
  const double span = std::max<double>(1, static_cast<double>(end) - static_cast<double>(begin));
  size_t next = 0;
  int64_t holding = points.front().allocated_bytes;
  for (size_t column = 0; column < columns; ++column) {
    const double edge = static_cast<double>(begin) +
                        span * static_cast<double>(column + 1) / static_cast<double>(columns);
    const bool last = column + 1 == columns;
    int64_t value = holding;
    while (next < points.size() && (last || static_cast<double>(points[next].time_ns) < edge)) {
      holding = points[next++].allocated_bytes;
      value = std::max(value, holding);
    }
    highest.push_back(value);
  }
  return highest;
}

// The part of a bar of `eighths` that falls into row `row` (0 at the bottom).
std::string_view BarPiece(int64_t eighths, int row) {
  constexpr std::string_view kPieces[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  return kPieces[std::clamp<int64_t>(eighths - int64_t{8} * row, 0, 8)];
}

std::string AxisLabel(std::string_view text) {
  std::string label(text);
  const size_t width = DisplayWidth(label);
  if (width < kAxisWidth - 2) label.insert(0, kAxisWidth - 2 - width, ' ');
  return label;
}

std::optional<int64_t> StepAt(const CaptureView& view, int64_t time_ns) {
  for (const StepRecord& step : view.steps) {
    if (time_ns >= step.start_ns && time_ns < step.start_ns + step.duration_ns) return step.index;
  }
  return std::nullopt;
}

std::string RenderShares(std::string_view title, const std::vector<report::MemoryShare>& shares,
                         int64_t whole, int64_t limit, const Style& style) {
  if (shares.empty()) return "";
  Table table({{.title = title, .right = false, .flexible = true},
               {.title = "Bytes"},
               {.title = "Share", .drop_order = 1},
               {.title = "Blocks", .drop_order = 2}});
  int64_t shown = 0;
  for (const report::MemoryShare& share : shares) {
    if (limit > 0 && shown == limit) break;
    table.AddRow({share.name, FormatBytes(share.bytes), FormatPercent(share.bytes, whole),
                  FormatCount(share.blocks)});
    ++shown;
  }
  std::string text = table.Render(style);
  const auto all = static_cast<int64_t>(shares.size());
  if (shown < all) {
    StrAppend(&text, "(", all - shown, all - shown == 1 ? " more row" : " more rows",
              ": --limit 0)\n");
  }
  return text;
}

int64_t EndOfWindow(const CaptureView& view) {
  return view.record.windows.empty() ? view.record.covered_ns : view.record.windows.back().end_ns;
}

// What blocks of each category took over the window; nothing where no category is known.
std::string RenderCategories(const std::vector<report::MemoryCategoryUse>& categories,
                             int64_t window_ns, const Style& style) {
  const bool any_known =
      std::any_of(categories.begin(), categories.end(),
                  [](const report::MemoryCategoryUse& use) { return use.name != "unknown"; });
  if (!any_known) return "";
  double whole = 0;
  for (const report::MemoryCategoryUse& use : categories) whole += use.byte_seconds;
  Table table({{.title = "Over the window, by category", .right = false, .flexible = true},
               {.title = "Mean"},
               {.title = "Share", .drop_order = 1},
               {.title = "Peak"},
               {.title = "Blocks", .drop_order = 2}});
  const double seconds = std::max<double>(1, static_cast<double>(window_ns)) / 1e9;
  for (const report::MemoryCategoryUse& use : categories) {
    table.AddRow({use.name, FormatBytes(std::llround(use.byte_seconds / seconds)),
                  whole > 0 ? absl::StrFormat("%.2f%%", 100 * use.byte_seconds / whole) : "-",
                  FormatBytes(use.peak_bytes), FormatCount(use.block_count)});
  }
  return table.Render(style);
}

std::string RenderOutOfMemory(const CaptureView& view,
                              const std::vector<report::OutOfMemory>& events, int64_t limit) {
  std::string text;
  int64_t shown = 0;
  for (const report::OutOfMemory& event : events) {
    if (limit > 0 && shown == limit) break;
    ++shown;
    StrAppend(&text, "Out of memory: ", FormatBytes(event.bytes), " on ",
              ForDisplay(event.device, 60), " at ", FormatNs(event.time_ns));
    if (const auto step = StepAt(view, event.time_ns)) StrAppend(&text, " (step ", *step, ")");
    text.push_back('\n');
  }
  const int64_t more = static_cast<int64_t>(events.size()) - shown;
  if (more > 0) StrAppend(&text, "(", FormatCount(more), " more: --limit 0)\n");
  return text;
}

std::string RenderDeviceFacts(const CaptureView& view, const report::DeviceMemory& device) {
  std::string text =
      StrCat("Peak ", FormatBytes(device.peak_bytes), " at ", FormatNs(device.peak_time_ns));
  if (const auto step = StepAt(view, device.peak_time_ns)) StrAppend(&text, " (step ", *step, ")");
  StrAppend(&text, "; ", FormatBytes(device.start_bytes), " at the start, ",
            FormatBytes(device.end_bytes), " at the end");
  if (device.peak_reserved_bytes >= 0) {
    StrAppend(&text, "; reserved up to ", FormatBytes(device.peak_reserved_bytes));
  }
  StrAppend(&text, "\n", FormatCount(device.allocation_count), " allocations of ",
            FormatBytes(device.allocated_total_bytes), " in all, ", FormatCount(device.free_count),
            " frees\n");
  if (device.relative) {
    StrAppend(&text,
              "Relative: bytes count from 0 at the window's start, as the program gave no "
              "totals; what was allocated before is in no number.\n");
  }
  if (device.unknown_free_count > 0) {
    StrAppend(&text, FormatCount(device.unknown_free_count), " frees (",
              FormatBytes(device.unknown_free_bytes),
              ") were of blocks allocated before the window.\n");
  }
  return text;
}

std::string RenderDevice(const CaptureView& view, const report::DeviceMemory& device, int64_t limit,
                         const Style& style) {
  std::string text = StrCat(
      style.Paint(Colour::kBold,
                  StrCat("Device ", ForDisplay(device.device, 60), ": allocated memory over time")),
      "\n");
  if (!device.points.empty()) {
    const int width = style.width == 0 ? 80 : style.width;
    const int columns = std::clamp(width - kAxisWidth - 1, 16, kWidestPlot);
    StrAppend(&text, PlotMemory(device.points, EndOfWindow(view), columns, kPlotRows));
  }
  StrAppend(&text, RenderDeviceFacts(view, device));
  int64_t whole = device.peak_older_bytes;
  for (const report::MemoryShare& share : device.peak_by_category) whole += share.bytes;
  std::vector<report::MemoryShare> categories = device.peak_by_category;
  std::vector<report::MemoryShare> ops = device.peak_by_op;
  if (device.peak_older_bytes > 0) {
    categories.push_back({"(allocated before the window)", device.peak_older_bytes, 0});
    ops.push_back(categories.back());
  }
  const std::string by_category =
      RenderShares("At the peak, by category", categories, whole, limit, style);
  const std::string by_op = RenderShares("At the peak, by range", ops, whole, limit, style);
  if (!by_category.empty()) StrAppend(&text, "\n", by_category);
  if (!by_op.empty()) StrAppend(&text, "\n", by_op);
  const std::string over_window = RenderCategories(device.categories, EndOfWindow(view), style);
  if (!over_window.empty()) StrAppend(&text, "\n", over_window);
  return text;
}

void WriteShares(std::string_view key, const std::vector<report::MemoryShare>& shares,
                 JsonWriter& json) {
  json.Key(key).BeginArray();
  for (const report::MemoryShare& share : shares) {
    json.BeginObject();
    json.Field("name", share.name);
    json.Field("bytes", share.bytes);
    json.Field("blocks", share.blocks);
    json.EndObject();
  }
  json.EndArray();
}

void WriteDevice(const report::DeviceMemory& device, JsonWriter& json) {
  json.BeginObject();
  json.Field("device", device.device);
  json.Field("relative", device.relative);
  json.Field("peak_bytes", device.peak_bytes);
  json.Field("peak_time_ns", device.peak_time_ns);
  json.Field("start_bytes", device.start_bytes);
  json.Field("end_bytes", device.end_bytes);
  json.Field("peak_reserved_bytes", device.peak_reserved_bytes);
  json.Field("allocation_count", device.allocation_count);
  json.Field("free_count", device.free_count);
  json.Field("allocated_total_bytes", device.allocated_total_bytes);
  json.Field("unknown_free_count", device.unknown_free_count);
  json.Field("unknown_free_bytes", device.unknown_free_bytes);
  WriteShares("peak_by_category", device.peak_by_category, json);
  WriteShares("peak_by_op", device.peak_by_op, json);
  json.Field("peak_older_bytes", device.peak_older_bytes);
  json.Key("points").BeginArray();
  for (const report::MemoryPoint& point : device.points) {
    json.BeginArray().Int(point.time_ns).Int(point.allocated_bytes).EndArray();
  }
  json.EndArray();
  json.Key("categories").BeginArray();
  for (const report::MemoryCategoryUse& use : device.categories) {
    json.BeginObject();
    json.Field("name", use.name);
    json.Field("peak_bytes", use.peak_bytes);
    json.Field("byte_seconds", use.byte_seconds);
    json.Field("block_count", use.block_count);
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
}

}  // namespace

std::string PlotMemory(const std::vector<report::MemoryPoint>& points, int64_t end_ns, int columns,
                       int rows) {
  if (points.empty() || columns < 1 || rows < 1) return "";
  const int64_t begin = std::min<int64_t>(0, points.front().time_ns);
  const int64_t end = std::max(end_ns, points.back().time_ns);
  const std::vector<int64_t> highest =
      HighestPerColumn(points, begin, end, static_cast<size_t>(columns));
  const int64_t top = std::max<int64_t>(1, *std::max_element(highest.begin(), highest.end()));
  const int64_t bottom = std::min<int64_t>(0, *std::min_element(highest.begin(), highest.end()));
  const double scale = (static_cast<double>(top) - static_cast<double>(bottom)) / (8.0 * rows);
  std::vector<int64_t> eighths;
  for (const int64_t value : highest) {
    const double height = (static_cast<double>(value) - static_cast<double>(bottom)) / scale;
    // What is there at all is seen.
    eighths.push_back(value > bottom ? std::max<int64_t>(1, std::llround(height)) : 0);
  }
  std::string text;
  for (int row = rows - 1; row >= 0; --row) {
    const std::string label = row == rows - 1 ? FormatBytes(top)
                              : row == 0      ? FormatBytes(bottom)
                                              : std::string();
    StrAppend(&text, AxisLabel(label), " │");
    for (const int64_t bar : eighths) text += BarPiece(bar, row);
    text.resize(text.find_last_not_of(' ') + 1);
    text.push_back('\n');
  }
  StrAppend(&text, AxisLabel(""), " └");
  for (int i = 0; i < columns; ++i) text += "─";
  const std::string first = FormatNs(begin);
  const std::string last = FormatNs(end);
  const int gap = columns - static_cast<int>(first.size() + last.size());
  StrAppend(&text, "\n", AxisLabel(""), "  ", first, std::string(std::max(1, gap), ' '), last,
            "\n");
  return text;
}

std::string RenderMemory(const CaptureView& view, const report::MemoryTimeline& timeline,
                         int64_t shares, const Style& style) {
  std::string text = RenderOutOfMemory(view, timeline.out_of_memory, shares);
  if (timeline.devices.empty()) {
    StrAppend(&text,
              "No memory events were recorded. Record those of PyTorch (profctl trace --with "
              "memory), or report allocations (profd_alloc, profd_free; profd.alloc, profd.free "
              "in Python) to see them here.\n");
    return text;
  }
  for (const report::DeviceMemory& device : timeline.devices) {
    StrAppend(&text, text.empty() ? "" : "\n", RenderDevice(view, device, shares, style));
  }
  return text;
}

void WriteMemoryJson(const CaptureView& view, const report::MemoryTimeline& timeline,
                     JsonWriter& json) {
  json.BeginObject();
  WriteReportHeaderJson(view, json);
  json.Key("devices").BeginArray();
  for (const report::DeviceMemory& device : timeline.devices) WriteDevice(device, json);
  json.EndArray();
  json.Key("out_of_memory").BeginArray();
  for (const report::OutOfMemory& event : timeline.out_of_memory) {
    json.BeginObject();
    json.Field("time_ns", event.time_ns);
    json.Field("device", event.device);
    json.Field("bytes", event.bytes);
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
}

}  // namespace profd::cli
