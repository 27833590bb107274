#include "cli/render/memory.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/strings/str_format.h"
#include "cli/base/table.h"
#include "cli/render/capture.h"
#include "cli/render/memory_plot.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/units.h"

namespace profd::cli {
namespace {

using report::DeviceMemoryReport;
using report::FrameworkSteps;

constexpr int kPlotRows = 10;
constexpr int kWidestPlot = 100;
constexpr int kAxisWidth = 12;  // "1023.9 KiB |"

std::optional<int64_t> StepAt(const CaptureView& view, int64_t time_ns) {
  for (const StepRecord& step : view.steps) {
    if (time_ns >= step.start_ns && time_ns - step.start_ns < step.duration_ns) return step.index;
  }
  return std::nullopt;
}

int64_t EndOfWindow(const CaptureView& view) {
  return view.record.windows.empty() ? view.record.covered_ns : view.record.windows.back().end_ns;
}

std::string MoreRows(int64_t shown, size_t all) {
  const int64_t more = static_cast<int64_t>(all) - shown;
  if (more <= 0) return "";
  return StrCat("(", FormatCount(more), more == 1 ? " more row" : " more rows", ": --limit 0)\n");
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
    table.AddRow({share.name, FormatBytes(share.bytes),
                  style.Share(FormatPercent(share.bytes, whole)),
                  share.blocks == 0 ? "-" : FormatCount(share.blocks)});
    ++shown;
  }
  return StrCat("\n", table.Render(style), MoreRows(shown, shares.size()));
}

std::string RenderBlocks(const std::vector<report::MemoryBlock>& blocks, int64_t limit,
                         const Style& style, const FrameworkSteps& framework) {
  // One block after another says more than shares only where they differ in size and kind.
  if (blocks.empty()) return "";
  Table table(
      {{.title = "Largest blocks at the peak, by operator", .right = false, .flexible = true},
       {.title = "Bytes"},
       {.title = "Category", .right = false, .drop_order = 1},
       {.title = "Step", .drop_order = 3},
       {.title = "Lived", .drop_order = 2}});
  int64_t shown = 0;
  for (const report::MemoryBlock& block : blocks) {
    if (limit > 0 && shown == limit) break;
    ++shown;
    table.AddRow(
        {block.op, FormatBytes(block.bytes), block.category,
         block.step < 0 ? "-" : framework.NumberText(block.step),
         block.freed_ns < 0 ? "to the end" : FormatNs(block.freed_ns - block.allocated_ns)});
  }
  return StrCat("\n", table.Render(style), MoreRows(shown, blocks.size()));
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
    table.AddRow(
        {use.name, FormatBytes(std::llround(use.byte_seconds / seconds)),
         whole > 0 ? style.Share(absl::StrFormat("%.2f%%", 100 * use.byte_seconds / whole)) : "-",
         FormatBytes(use.peak_bytes), FormatCount(use.block_count)});
  }
  return StrCat("\n", table.Render(style));
}

std::string RenderMemorySteps(const std::vector<report::MemoryStepRow>& steps, int64_t limit,
                              const Style& style, const FrameworkSteps& framework) {
  if (steps.empty()) return "";
  Table table({{.title = "Step"},
               {.title = "Start"},
               {.title = "Peak"},
               {.title = "End"},
               {.title = "Allocated", .drop_order = 2},
               {.title = "Allocations", .drop_order = 3},
               {.title = "Left behind", .drop_order = 1}});
  int64_t shown = 0;
  for (const report::MemoryStepRow& step : steps) {
    if (limit > 0 && shown == limit) break;
    ++shown;
    table.AddRow({framework.NumberText(step.step), FormatBytes(step.start_bytes),
                  FormatBytes(step.peak_bytes), FormatBytes(step.end_bytes),
                  FormatBytes(step.allocated_total_bytes), FormatCount(step.allocation_count),
                  step.kept_bytes < 0 ? "-" : FormatBytes(step.kept_bytes)});
  }
  return StrCat("\n", table.Render(style), MoreRows(shown, steps.size()));
}

// Empty: too few steps were recorded to say it.
std::string GrowthSentence(const report::MemoryGrowth& growth) {
  if (!growth.unknown_because.empty()) {
    return StrCat("Whether it grows from step to step is not known: ", growth.unknown_because,
                  ".\n");
  }
  if (growth.step_count < report::MemoryGrowth::kFewestSteps) return "";
  return StrCat(growth.bytes_per_step == 0
                    ? std::string("Steady from step to step: ")
                    : StrCat(growth.bytes_per_step > 0 ? "Grows by " : "Shrinks by ",
                             FormatBytes(std::abs(growth.bytes_per_step)), " per step: "),
                growth.rising_count, " of ", growth.step_count - 1,
                growth.step_count == 2 ? " step" : " steps",
                " ended with more than the one before.\n");
}

std::string RenderGrowth(const report::MemoryGrowth& growth, int64_t limit, const Style& style) {
  const std::string sentence = GrowthSentence(growth);
  if (sentence.empty()) return "";
  int64_t whole = 0;
  for (const report::MemoryShare& share : growth.suspects_by_op) whole += share.bytes;
  return StrCat(sentence,
                RenderShares("Left by all steps but the last, by operator", growth.suspects_by_op,
                             whole, limit, style),
                growth.suspects_by_source.empty()
                    ? ""
                    : RenderShares("Left by all steps but the last, by line",
                                   growth.suspects_by_source, whole, limit, style));
}

std::string RenderFailed(const CaptureView& view,
                         const std::vector<report::FailedAllocation>& failures, int64_t limit,
                         const FrameworkSteps& framework) {
  std::string text;
  int64_t shown = 0;
  for (const report::FailedAllocation& failed : failures) {
    if (limit > 0 && shown == limit) break;
    ++shown;
    StrAppend(&text, "Out of memory: ", FormatBytes(failed.asked.bytes), " on ",
              ForDisplay(failed.asked.device, 60), " at ", FormatNs(failed.asked.time_ns));
    if (const auto step = StepAt(view, failed.asked.time_ns)) {
      StrAppend(&text, framework.InStepText(*step));
    }
    if (!failed.op.empty()) StrAppend(&text, ", asked for in ", ForDisplay(failed.op, 120));
    if (failed.allocated_bytes >= 0) {
      StrAppend(&text, "; ", FormatBytes(failed.allocated_bytes), " were allocated");
    }
    if (failed.reserved_bytes >= 0) {
      StrAppend(&text, failed.allocated_bytes >= 0 ? ", " : "; ",
                FormatBytes(failed.reserved_bytes), " reserved");
    }
    if (failed.capacity_bytes >= 0) StrAppend(&text, " of ", FormatBytes(failed.capacity_bytes));
    text.push_back('\n');
  }
  const int64_t more = static_cast<int64_t>(failures.size()) - shown;
  if (more > 0) StrAppend(&text, "(", FormatCount(more), " more: --limit 0)\n");
  return text;
}

// "2.00 GiB reserved at that time, 512 MiB (25.00%) of it unused"
std::string HeldBack(int64_t reserved, int64_t allocated) {
  const int64_t unused = std::max<int64_t>(0, reserved - allocated);
  return StrCat(FormatBytes(reserved), " reserved at that time, ", FormatBytes(unused), " (",
                FormatPercent(unused, reserved), ") of it unused");
}

std::string RenderReserved(const DeviceMemoryReport& device) {
  // The CPU's allocator reserves nothing.
  if (device.memory.peak_reserved_bytes <= 0) return "";
  std::string text;
  if (device.reserved_at_peak_bytes >= 0) {
    StrAppend(&text,
              "At the peak: ", HeldBack(device.reserved_at_peak_bytes, device.memory.peak_bytes),
              ".\n");
  }
  if (device.memory.peak_reserved_bytes > device.reserved_at_peak_bytes) {
    StrAppend(&text, "Reserved most at ", FormatNs(device.peak_reserved_time_ns), ": ",
              HeldBack(device.memory.peak_reserved_bytes, device.allocated_at_peak_reserved_bytes),
              ".\n");
  }
  return text;
}

std::string RenderDeviceFacts(const CaptureView& view, const DeviceMemoryReport& report,
                              const FrameworkSteps& framework) {
  const report::DeviceMemory& device = report.memory;
  std::string text =
      StrCat("Peak ", FormatBytes(device.peak_bytes), " at ", FormatNs(device.peak_time_ns));
  if (const auto step = StepAt(view, device.peak_time_ns)) {
    StrAppend(&text, framework.InStepText(*step));
  }
  if (report.capacity_bytes > 0 && !device.relative) {
    StrAppend(&text, ", ", FormatPercent(device.peak_bytes, report.capacity_bytes), " of ",
              FormatBytes(report.capacity_bytes));
  }
  StrAppend(&text, "; ", FormatBytes(device.start_bytes), " at the start, ",
            FormatBytes(device.end_bytes), " at the end\n");
  StrAppend(&text, RenderReserved(report));
  StrAppend(&text, FormatCount(device.allocation_count), " allocations of ",
            FormatBytes(device.allocated_total_bytes), " in all, ", FormatCount(device.free_count),
            " frees\n");
  if (device.relative) {
    StrAppend(&text,
              "Relative to the window start: the total of the process was not recorded. Of earlier "
              "allocations, only blocks of known size count (",
              FormatBytes(device.start_bytes), "); the rest is not included.\n");
  }
  if (device.unknown_free_count > 0) {
    StrAppend(&text, FormatCount(device.unknown_free_count), " frees (",
              FormatBytes(device.unknown_free_bytes),
              ") were of blocks allocated before the window.\n");
  }
  if (device.repeated_free_count > 0) {
    StrAppend(&text, FormatCount(device.repeated_free_count),
              " frees were of addresses that were freed already: double frees, or allocations that "
              "were lost.\n");
  }
  return text;
}

std::string RenderPeak(const DeviceMemoryReport& device, int64_t limit, const Style& style,
                       const FrameworkSteps& framework) {
  int64_t whole = device.memory.peak_unknown_bytes;
  for (const report::MemoryShare& share : device.memory.peak_by_category) whole += share.bytes;
  const auto render = [&](std::string_view title, std::vector<report::MemoryShare> shares) {
    if (device.memory.peak_older_bytes > 0 && !shares.empty()) {
      shares.push_back({"(allocated before the window)", device.memory.peak_older_bytes, 0});
    }
    return RenderShares(title, shares, whole, limit, style);
  };
  std::vector<report::MemoryShare> by_category = device.memory.peak_by_category;
  if (device.memory.peak_unknown_bytes > 0 && !by_category.empty()) {
    by_category.push_back(
        {"(allocated before the window, purpose unknown)", device.memory.peak_unknown_bytes, 0});
  }
  return StrCat(
      RenderShares("At the peak, by category", by_category, whole, limit, style),
      render("At the peak, by operator", device.memory.peak_by_op),
      render("At the peak, by module", device.peak_by_module),
      RenderShares("At the peak, by lifetime", device.peak_by_lifetime, whole, limit, style),
      RenderBlocks(device.peak_blocks, limit, style, framework));
}

std::string RenderDevice(const CaptureView& view, const DeviceMemoryReport& device, int64_t limit,
                         const Style& style, const FrameworkSteps& framework) {
  std::string text =
      StrCat(style.Paint(Colour::kBold, StrCat("Device ", ForDisplay(device.memory.device, 60),
                                               ": allocated memory over time")),
             "\n");
  const int width = style.width == 0 ? 80 : style.width;
  const int columns = std::clamp(width - kAxisWidth - 1, 16, kWidestPlot);
  StrAppend(&text, PlotMemory(device.samples, EndOfWindow(view), columns, kPlotRows, style));
  StrAppend(&text, RenderDeviceFacts(view, device, framework),
            RenderPeak(device, limit, style, framework));
  StrAppend(&text, RenderMemorySteps(device.steps, limit, style, framework),
            RenderGrowth(device.growth, limit, style));
  StrAppend(&text, RenderCategories(device.memory.categories, EndOfWindow(view), style));
  return text;
}

std::vector<const DeviceMemoryReport*> FullestFirst(
    const std::vector<DeviceMemoryReport>& devices) {
  std::vector<const DeviceMemoryReport*> order;
  order.reserve(devices.size());
  for (const DeviceMemoryReport& device : devices) order.push_back(&device);
  std::ranges::stable_sort(order, std::greater(), [](const DeviceMemoryReport* device) {
    return device->memory.peak_bytes;
  });
  return order;
}

}  // namespace

std::string RenderMemory(const CaptureView& view, const report::MemoryReport& report, int64_t limit,
                         const Style& terminal, const FrameworkSteps& framework) {
  const Style style = StyleFor(view, terminal);
  std::string text = RenderFailed(view, report.out_of_memory, limit, framework);
  if (report.devices.empty()) {
    StrAppend(&text,
              "No memory events were recorded. Record those of PyTorch (profctl trace --with "
              "memory, or profile_memory=True in torch.profiler), or report allocations "
              "(profd_alloc, profd_free; profd.alloc, profd.free in Python) to see them here.\n");
    return text;
  }
  for (const DeviceMemoryReport* device : FullestFirst(report.devices)) {
    StrAppend(&text, text.empty() ? "" : "\n",
              RenderDevice(view, *device, limit, style, framework));
  }
  return text;
}

}  // namespace profd::cli
