#include "daemon/export/trace/layout.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/report/index/step_names.h"

namespace profd::exporter {
namespace {

constexpr std::string_view kEllipsis = "...";
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
constexpr std::string_view kNoName = "(unnamed)";
constexpr size_t kMostProcessNameBytes = 256;
constexpr int64_t kMostId = std::numeric_limits<int32_t>::max();

// Appends U+2400 + `offset`.
void AppendPicture(uint8_t offset, std::string& out) {
  out.append("\xE2\x90");
  out.push_back(static_cast<char>(0x80 + offset));
}

// Length of the control character without a picture that starts at `i`: C1 controls, line
// separators and the marks that turn text around. 0: there is none.
size_t InvisibleControlAt(std::string_view text, size_t i) {
  const std::string_view rest = text.substr(i, 3);
  if (rest.size() >= 2 && rest[0] == '\xC2' && static_cast<uint8_t>(rest[1]) < 0xA0) return 2;
  return rest >= "\xE2\x80\xA8" && rest <= "\xE2\x80\xAE" ? 3 : 0;
}

// Where to cut valid UTF-8 so that at most `limit` bytes are left.
size_t CutAt(std::string_view text, size_t limit) {
  while (limit > 0 && (static_cast<uint8_t>(text[limit]) & 0xC0) == 0x80) --limit;
  return limit;
}

std::optional<int64_t> SmallNumber(const CaptureRecord& record, const std::string& key) {
  const auto found = record.target.metadata.find(key);
  if (found == record.target.metadata.end()) return std::nullopt;
  const std::string& text = found->second;
  int64_t value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (value < 0 || value > kMostId) return std::nullopt;
  return value;
}

std::string ThreadLabel(const store::ReaderThread& thread, int64_t tid) {
  std::string label = StrCat("thread ", thread.os_thread);
  if (!thread.name.empty()) StrAppend(&label, " (", TraceName(thread.name), ")");
  if (tid != thread.os_thread) StrAppend(&label, ", row ", tid);
  return label;
}

int64_t FindStepThread(store::CaptureReader& reader) {
  const auto threads = reader.threads();
  const int64_t marked = reader.step_thread();
  if (marked >= 0 && marked < static_cast<int64_t>(threads.size())) return marked;
  // The main thread drives the steps of most programs.
  const TargetInfo& target = reader.record().target;
  for (size_t i = 0; i < threads.size(); ++i) {
    const int64_t id = threads[i].os_thread;
    if (id != 0 && (id == target.namespace_pid || id == target.pid)) return static_cast<int64_t>(i);
  }
  return -1;
}

using report::IsProfilerStep;
using report::kProfilerStepPrefix;
constexpr std::string_view kOtherStepPrefix = "step ";

// TensorBoard's plugin takes what begins so for a step, and refuses the file where no number
// follows.
bool LooksLikeAStepWithoutNumber(std::string_view name) {
  if (!IsProfilerStep(name)) return false;
  const std::string_view rest = name.substr(kProfilerStepPrefix.size());
  const std::string_view number = rest.substr(0, rest.find('#'));
  return number.empty() || number.find_first_not_of("0123456789") != std::string_view::npos;
}

}  // namespace

bool IsPythonRow(std::string_view thread_name) { return thread_name.ends_with("Python functions"); }

std::string TraceName(std::string_view untrusted) {
  if (untrusted.empty()) return std::string(kNoName);
  std::string name;
  if (LooksLikeAStepWithoutNumber(untrusted)) {
    name = StrCat(kProfilerStepPrefix.substr(0, kProfilerStepPrefix.size() - 1), " ");
    untrusted.remove_prefix(kProfilerStepPrefix.size() - 1);
  }
  const std::string text = ToValidUtf8(untrusted);
  name.reserve(name.size() + text.size());
  for (size_t i = 0; i < text.size();) {
    const auto byte = static_cast<uint8_t>(text[i]);
    if (byte < 0x20 || byte == 0x7F) {
      AppendPicture(byte == 0x7F ? 0x21 : byte, name);
      ++i;
    } else if (const size_t length = InvisibleControlAt(text, i); length > 0) {
      name.append(kReplacement);
      i += length;
    } else {
      name.push_back(text[i++]);
    }
  }
  if (name.size() > kMostTraceNameBytes) {
    name.resize(CutAt(name, kMostTraceNameBytes - kEllipsis.size()));
    name.append(kEllipsis);
  }
  return name;
}

std::string NonFiniteLabel(std::string_view trace_name, double value) {
  const std::string_view text = std::isnan(value) ? " = nan" : value > 0 ? " = inf" : " = -inf";
  if (trace_name.size() + text.size() > kMostTraceNameBytes) {
    trace_name = trace_name.substr(0, CutAt(trace_name, kMostTraceNameBytes - text.size()));
  }
  return StrCat(trace_name, text);
}

bool HasTorch(const TorchRecord& torch) {
  return torch.outcome != TorchOutcome::kOff && torch.outcome != TorchOutcome::kNoTorch;
}

std::string MemoryCurveName(const report::DeviceMemory& device) {
  return StrCat(device.device, " allocated bytes", device.relative ? " (since start)" : "");
}

int64_t TidAllocator::Take(int64_t wanted) {
  if (wanted >= 0 && wanted <= kMostId && used_.insert(wanted).second) return wanted;
  while (!used_.insert(next_).second) ++next_;
  return next_++;
}

TracePlace PlaceAlone(const CaptureRecord& record) {
  return {.start_unix_ns = record.start_unix_ns};
}

TraceLayout MakeLayout(store::CaptureReader& reader, const TracePlace& place) {
  const CaptureRecord& record = reader.record();
  TraceLayout layout;
  layout.place = place;
  layout.pid = place.is_merged ? place.Pid() : std::clamp<int64_t>(record.target.pid, 0, kMostId);
  layout.rank = SmallNumber(record, "rank");
  layout.world_size = SmallNumber(record, "world_size");
  layout.process_name = ForDisplay(
      record.target.command.empty() ? "(unknown)" : record.target.command, kMostProcessNameBytes);
  if (place.is_merged && layout.rank.has_value()) {
    layout.process_name = StrCat("rank ", *layout.rank, ": ", layout.process_name);
  }
  const auto threads = reader.threads();
  layout.threads.resize(threads.size());
  // Rows of Python's functions have the number of a thread that has a row of its own.
  for (const bool is_python : {false, true}) {
    for (size_t i = 0; i < threads.size(); ++i) {
      if (IsPythonRow(threads[i].name) != is_python) continue;
      const int64_t tid = layout.tids.Take(threads[i].os_thread);
      layout.threads[i] = {tid, ThreadLabel(threads[i], tid)};
    }
  }
  layout.step_thread = FindStepThread(reader);
  layout.steps = {layout.tids.Take(-1), "steps"};
  return layout;
}

absl::StatusOr<std::string_view> StepPrefix(store::CaptureReader& reader) {
  // In an imported trace such ranges are the steps.
  if (!reader.record().imported.source.empty()) return kProfilerStepPrefix;
  const auto is_step = [](const std::string& name) {
    return IsProfilerStep(name) && !LooksLikeAStepWithoutNumber(name);
  };
  if (std::ranges::none_of(reader.names(), is_step)) return kProfilerStepPrefix;
  bool has_steps = false;
  RETURN_IF_ERROR(reader.ForEach<RangeRow>(kRangeName, {}, [&](const RangeBatch& batch) {
    for (size_t i = 0; i < batch.size; ++i) has_steps |= is_step(reader.names()[batch.name[i]]);
    return absl::OkStatus();
  }));
  return has_steps ? kOtherStepPrefix : kProfilerStepPrefix;
}

absl::StatusOr<int64_t> EarliestTime(store::CaptureReader& reader) {
  int64_t earliest_ns = 0;
  const store::TimeFilter before_start = {std::numeric_limits<int64_t>::min(), 0};
  const auto note = [&earliest_ns](const auto& batch) {
    for (const int64_t start_ns : batch.start_ns) {
      earliest_ns = std::min(earliest_ns, start_ns);
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(reader.ForEach<RangeRow>(kRangeStart, before_start, note));
  RETURN_IF_ERROR(reader.ForEach<GpuRow>(kGpuTime, before_start, note));
  RETURN_IF_ERROR(reader.ForEach<ApiRow>(before_start, note));
  RETURN_IF_ERROR(reader.ForEach<SyncRow>(before_start, note));
  RETURN_IF_ERROR(reader.ForEach<OverheadRow>(before_start, note));
  return earliest_ns;
}

int64_t EndOfRecording(const store::CaptureReader& reader) {
  int64_t end_ns = 0;
  for (const WindowRecord& window : reader.record().windows) {
    end_ns = std::max(end_ns, window.end_ns);
  }
  for (const StepRecord& step : reader.steps()) {
    end_ns = std::max(end_ns, static_cast<int64_t>(static_cast<uint64_t>(step.start_ns) +
                                                   static_cast<uint64_t>(step.duration_ns)));
  }
  return end_ns;
}

}  // namespace profd::exporter
