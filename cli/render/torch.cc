#include "cli/render/torch.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"

namespace profd::cli {
namespace {

using report::TorchRow;
using report::TorchTable;

constexpr size_t kColumnWidth = 12;
constexpr size_t kMaxNameWidth = 55;
constexpr size_t kMaxShapesWidth = 80;
constexpr std::string_view kSpacing = "  ";

std::string TimeText(double us) {
  if (us >= 1e6) return absl::StrFormat("%.3fs", us / 1e6);
  if (us >= 1e3) return absl::StrFormat("%.3fms", us / 1e3);
  return absl::StrFormat("%.3fus", us);
}

std::string ShareText(double part_us, double whole_us) {
  if (whole_us == 0) return "NaN";
  return absl::StrFormat("%.2f%%", part_us * 100.0 / whole_us);
}

std::string BytesText(int64_t bytes, const report::TorchVersion& version) {
  // The units changed their spelling.
  const bool is_upper = version.IsAtLeast(2, 8);
  struct Unit {
    double bytes;
    const char* text;
    const char* upper;
  };
  constexpr std::array<Unit, 3> kUnits = {
      {{1 << 30, "Gb", "GB"}, {1 << 20, "Mb", "MB"}, {1 << 10, "Kb", "KB"}}};
  const auto value = static_cast<double>(bytes);
  for (const Unit& unit : kUnits) {
    if (std::fabs(value) < unit.bytes) continue;
    return absl::StrFormat("%.2f %s", value / unit.bytes, is_upper ? unit.upper : unit.text);
  }
  return StrCat(bytes, is_upper ? " B" : " b");
}

// Characters as Python counts them; the text is valid UTF-8.
bool BeginsCharacter(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }
size_t CharacterCount(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), BeginsCharacter));
}
std::string_view FirstCharacters(std::string_view text, size_t count) {
  size_t bytes = 0;
  for (size_t seen = 0; bytes < text.size(); ++bytes) {
    if (BeginsCharacter(text[bytes]) && seen++ == count) break;
  }
  return text.substr(0, bytes);
}

std::string ForTorchTable(std::string_view untrusted) {
  return ForDisplay(untrusted, size_t{1} << 16);
}

class TorchText {
 public:
  TorchText(const TorchTable& table, int64_t row_limit) : table_(table), row_limit_(row_limit) {
    bool is_on_gpu = false;
    size_t longest_name = 0;
    size_t longest_shapes = 0;
    for (const TorchRow& row : table.rows) {
      is_on_gpu |= row.is_device;
      has_device_time_ |= row.self_device_us > 0;
      has_device_memory_ |= row.self_device_memory_bytes > 0;
      longest_name = std::max(longest_name, CharacterCount(ForTorchTable(row.name)));
      longest_shapes = std::max(longest_shapes, CharacterCount(ForTorchTable(row.shapes)));
      has_shapes_ |= !row.shapes.empty() && row.shapes != "[]";
    }
    has_device_memory_ &= is_on_gpu;
    name_width_ = std::min(longest_name + 4, kMaxNameWidth);
    shapes_width_ = std::min(longest_shapes + 4, kMaxShapesWidth);
    SumUp();
  }

  std::string Render() {
    AddTitles();
    for (const size_t width : widths_) StrAppend(&rule_, std::string(width, '-'), kSpacing);
    StrAppend(&text_, rule_, "\n");
    AddLine(titles_);
    StrAppend(&text_, rule_, "\n");
    int64_t shown = 0;
    for (const TorchRow& row : table_.rows) {
      if (shown++ == row_limit_) break;
      AddLine(CellsOf(row));
    }
    StrAppend(&text_, rule_, "\n", "Self CPU time total: ", TimeText(self_cpu_total_us_), "\n");
    if (has_device_time_) {
      StrAppend(&text_, "Self CUDA time total: ", TimeText(self_device_total_us_), "\n");
    }
    return std::move(text_);
  }

 private:
  // In the order of the lines, as torch does.
  void SumUp() {
    for (const TorchRow& row : table_.rows) {
      self_cpu_total_us_ += row.self_cpu_us;
      const bool is_counted =
          row.is_device && !(row.is_annotation && table_.version.totals_work_only());
      if (is_counted) self_device_total_us_ += row.self_device_us;
    }
  }

  void AddTitles() {
    Title("Name", name_width_);
    for (const char* title : {"Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg"})
      Title(title);
    if (has_device_time_) {
      for (const char* title : {"Self CUDA", "Self CUDA %", "CUDA total", "CUDA time avg"})
        Title(title);
    }
    if (table_.has_memory) {
      Title("CPU Mem");
      Title("Self CPU Mem");
      if (has_device_memory_) {
        Title("CUDA Mem");
        Title("Self CUDA Mem");
      }
    }
    Title("# of Calls");
    if (has_shapes_) Title("Input Shapes", shapes_width_);
  }

  void Title(std::string title, size_t width = kColumnWidth) {
    titles_.push_back(std::move(title));
    widths_.push_back(width);
  }

  std::vector<std::string> CellsOf(const TorchRow& row) const {
    const report::TorchVersion& version = table_.version;
    std::vector<std::string> cells = {NameCell(row),
                                      ShareText(row.self_cpu_us, self_cpu_total_us_),
                                      TimeText(row.self_cpu_us),
                                      ShareText(row.cpu_total_us, self_cpu_total_us_),
                                      TimeText(row.cpu_total_us),
                                      TimeText(report::AverageUs(row.cpu_total_us, row.calls))};
    const auto add = [&](std::string cell) { cells.push_back(std::move(cell)); };
    if (has_device_time_) {
      add(TimeText(row.self_device_us));
      add(ShareText(row.self_device_us, self_device_total_us_));
      add(TimeText(row.device_total_us));
      add(TimeText(report::AverageUs(row.device_total_us, row.calls)));
    }
    if (table_.has_memory) {
      add(BytesText(row.cpu_memory_bytes, version));
      add(BytesText(row.self_cpu_memory_bytes, version));
      if (has_device_memory_) {
        add(BytesText(row.device_memory_bytes, version));
        add(BytesText(row.self_device_memory_bytes, version));
      }
    }
    add(StrCat(row.calls));
    if (has_shapes_) add(std::string(FirstCharacters(ForTorchTable(row.shapes), shapes_width_)));
    return cells;
  }

  static std::string NameCell(const TorchRow& row) {
    const std::string name = ForTorchTable(row.name);
    constexpr size_t kMost = kMaxNameWidth - 3;
    if (CharacterCount(name) < kMost) return name;
    return StrCat(FirstCharacters(name, kMost), "...");
  }

  void AddLine(const std::vector<std::string>& cells) {
    for (size_t i = 0; i < cells.size(); ++i) {
      const size_t width = CharacterCount(cells[i]);
      if (width < widths_[i]) StrAppend(&text_, std::string(widths_[i] - width, ' '));
      StrAppend(&text_, cells[i], kSpacing);
    }
    StrAppend(&text_, "\n");
  }

  const TorchTable& table_;
  const int64_t row_limit_;
  double self_cpu_total_us_ = 0;
  double self_device_total_us_ = 0;
  bool has_device_time_ = false;
  bool has_device_memory_ = false;
  bool has_shapes_ = false;
  size_t name_width_ = 0;
  size_t shapes_width_ = 0;
  std::vector<std::string> titles_;
  std::vector<size_t> widths_;
  std::string rule_;
  std::string text_;
};

}  // namespace

std::string RenderTorchTable(const TorchTable& table, int64_t row_limit) {
  if (table.rows.empty()) return "";
  return TorchText(table, row_limit).Render();
}

}  // namespace profd::cli
