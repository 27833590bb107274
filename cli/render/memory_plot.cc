#include "cli/render/memory_plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string_view>

#include "daemon/base/str_cat.h"
#include "daemon/base/units.h"

namespace profd::cli {
namespace {

using report::kMemoryLayers;
using report::MemoryLayer;
using report::MemorySample;

constexpr int kLabelWidth = 10;  // "1023.9 KiB"

// By MemoryLayer.
constexpr std::array<char, kMemoryLayers> kLetters = {':', 'P', 'B', 'O', 'G', 'I', 'A', 'T', '?'};
constexpr char kReserved = '-';

struct Axes {
  std::string_view vertical;
  std::string_view corner;
  std::string_view horizontal;
};
Axes AxesOf(const Style& style) {
  return style.unicode ? Axes{"│", "└", "─"} : Axes{"|", "+", "-"};
}

// Of each of `columns` equal spans of [begin, end), the sample with most allocated.
std::vector<MemorySample> HighestPerColumn(const std::vector<MemorySample>& samples, int64_t begin,
                                           int64_t end, size_t columns) {
  std::vector<MemorySample> highest;
  const double span = std::max<double>(1, static_cast<double>(end) - static_cast<double>(begin));
  size_t next = 0;
  MemorySample holding = samples.front();
  for (size_t column = 0; column < columns; ++column) {
    const double edge = static_cast<double>(begin) +
                        span * static_cast<double>(column + 1) / static_cast<double>(columns);
    // The last column takes all that is left, also what rounding puts at its edge.
    const bool last = column + 1 == columns;
    // A column without a sample shows the level that still holds.
    MemorySample most = holding;
    while (next < samples.size() && (last || static_cast<double>(samples[next].time_ns) < edge)) {
      holding = samples[next++];
      if (holding.allocated_bytes > most.allocated_bytes) most = holding;
    }
    highest.push_back(most);
  }
  return highest;
}

std::string AxisLabel(std::string_view text) {
  std::string label(text);
  const size_t width = DisplayWidth(label);
  if (width < kLabelWidth) label.insert(0, kLabelWidth - width, ' ');
  return label;
}

// The part of a bar of `eighths` that falls into row `row` (0 at the bottom).
std::string_view BarPiece(int64_t eighths, int row, bool unicode) {
  constexpr std::string_view kPieces[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const int64_t filled = std::clamp<int64_t>(eighths - int64_t{8} * row, 0, 8);
  if (unicode) return kPieces[filled];
  return filled == 0 ? " " : filled < 5 ? "." : "#";
}

bool IsStacked(const std::vector<MemorySample>& samples) {
  std::array<bool, kMemoryLayers> seen{};
  for (const MemorySample& sample : samples) {
    for (size_t layer = 0; layer < kMemoryLayers; ++layer) {
      if (sample.layer_bytes[layer] < 0) return false;
      seen[layer] |= sample.layer_bytes[layer] > 0;
    }
  }
  return std::count(seen.begin(), seen.end(), true) > 1;
}

// The rows of a plot, the highest first.
using Rows = std::vector<std::string>;

Rows DrawBars(const std::vector<MemorySample>& columns, int64_t bottom, int64_t top, int rows,
              bool unicode) {
  const double scale = (static_cast<double>(top) - static_cast<double>(bottom)) / (8.0 * rows);
  Rows drawn(static_cast<size_t>(rows));
  for (const MemorySample& sample : columns) {
    const double height =
        (static_cast<double>(sample.allocated_bytes) - static_cast<double>(bottom)) / scale;
    // What is there at all is seen.
    const int64_t eighths =
        sample.allocated_bytes > bottom ? std::max<int64_t>(1, std::llround(height)) : 0;
    for (int row = 0; row < rows; ++row) {
      drawn[static_cast<size_t>(rows - 1 - row)] += BarPiece(eighths, row, unicode);
    }
  }
  return drawn;
}

// The layer that is at `height` of the sample; ' ': above all.
char LayerAt(const MemorySample& sample, double height) {
  double below = 0;
  for (size_t layer = 0; layer < kMemoryLayers; ++layer) {
    below += static_cast<double>(sample.layer_bytes[layer]);
    if (height < below) return kLetters[layer];
  }
  return ' ';
}

Rows DrawLayers(const std::vector<MemorySample>& columns, int64_t top, int rows) {
  const double row_bytes = static_cast<double>(top) / rows;
  Rows drawn(static_cast<size_t>(rows));
  for (const MemorySample& sample : columns) {
    for (int row = 0; row < rows; ++row) {
      const double begin = row_bytes * row;
      char cell = LayerAt(sample, begin + row_bytes / 2);
      // What is there at all is seen.
      if (row == 0 && cell == ' ') cell = LayerAt(sample, 0);
      const auto reserved = static_cast<double>(sample.reserved_bytes);
      // The highest row ends with the scale.
      if (cell == ' ' && reserved > begin && reserved <= begin + row_bytes) cell = kReserved;
      drawn[static_cast<size_t>(rows - 1 - row)].push_back(cell);
    }
  }
  return drawn;
}

std::string LegendOf(const std::vector<MemorySample>& samples, const Rows& drawn) {
  std::string legend;
  for (size_t layer = 0; layer < kMemoryLayers; ++layer) {
    const bool is_there =
        std::any_of(samples.begin(), samples.end(),
                    [&](const MemorySample& sample) { return sample.layer_bytes[layer] > 0; });
    if (!is_there) continue;
    StrAppend(&legend, legend.empty() ? "" : "  ", std::string_view(&kLetters[layer], 1), " ",
              ToString(static_cast<MemoryLayer>(layer)));
  }
  const bool has_reserved = std::any_of(drawn.begin(), drawn.end(), [](const std::string& row) {
    return row.find(kReserved) != std::string::npos;
  });
  if (has_reserved) legend += "  - reserved";
  return legend;
}

std::string TimeAxis(int64_t begin, int64_t end, int columns, const Axes& axes) {
  std::string text = StrCat(AxisLabel(""), " ", axes.corner);
  for (int i = 0; i < columns; ++i) text += axes.horizontal;
  const std::string first = FormatNs(begin);
  const std::string last = FormatNs(end);
  const int gap = columns - static_cast<int>(first.size() + last.size());
  StrAppend(&text, "\n", AxisLabel(""), "  ", first, std::string(std::max(1, gap), ' '), last,
            "\n");
  return text;
}

// What was reserved is on the scale where that leaves at least half of it to what was allocated.
int64_t TopOf(const std::vector<MemorySample>& columns, bool is_stacked) {
  int64_t allocated = 1;
  int64_t reserved = 0;
  for (const MemorySample& sample : columns) {
    allocated = std::max(allocated, sample.allocated_bytes);
    reserved = std::max(reserved, sample.reserved_bytes);
  }
  return is_stacked && reserved / 2 <= allocated ? std::max(allocated, reserved) : allocated;
}

}  // namespace

std::string PlotMemory(const std::vector<MemorySample>& samples, int64_t end_ns, int columns,
                       int rows, const Style& style) {
  if (samples.empty() || columns < 1 || rows < 1) return "";
  const int64_t begin = std::min<int64_t>(0, samples.front().time_ns);
  const int64_t end = std::max(end_ns, samples.back().time_ns);
  const std::vector<MemorySample> highest =
      HighestPerColumn(samples, begin, end, static_cast<size_t>(columns));
  const bool is_stacked = IsStacked(highest);
  const int64_t top = TopOf(highest, is_stacked);
  int64_t bottom = 0;
  for (const MemorySample& sample : highest) bottom = std::min(bottom, sample.allocated_bytes);
  const Axes axes = AxesOf(style);
  const Rows drawn = is_stacked ? DrawLayers(highest, top, rows)
                                : DrawBars(highest, bottom, top, rows, style.unicode);
  std::string text;
  for (size_t row = 0; row < drawn.size(); ++row) {
    const std::string label = row == 0                  ? FormatBytes(top)
                              : row + 1 == drawn.size() ? FormatBytes(bottom)
                                                        : std::string();
    std::string line = StrCat(AxisLabel(label), " ", axes.vertical, drawn[row]);
    line.resize(line.find_last_not_of(' ') + 1);
    StrAppend(&text, line, "\n");
  }
  StrAppend(&text, TimeAxis(begin, end, columns, axes));
  if (is_stacked) StrAppend(&text, AxisLabel(""), "  ", LegendOf(highest, drawn), "\n");
  return text;
}

}  // namespace profd::cli
