// What CaptureBuilder takes of formats that are no Chrome traces: rows, with times of the format.
// And ranges of events in pairs, and which part is kept of a trace that is cut off.
#include <algorithm>
#include <string>
#include <vector>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/import/capture_builder.h"
#include "daemon/import/trace_category.h"
#include "proto/wire/event.h"

namespace profd::importer {

std::optional<uint32_t> CaptureBuilder::AddThread(int64_t pid, int64_t tid) {
  const std::optional<uint32_t> thread =
      threads_.IndexOf(StrCat(pid), StrCat(tid), /*is_python=*/false);
  if (thread.has_value() && *thread >= rows_.size()) rows_.resize(*thread + 1);
  return thread;
}

void CaptureBuilder::NameThread(int64_t pid, int64_t tid, std::string_view name) {
  // As traces label threads: a name may begin as one of those labels does.
  threads_.NameThread(StrCat(pid), StrCat(tid), StrCat("thread ", tid, " (", name, ")"));
}

std::optional<int64_t> CaptureBuilder::last_ns() const {
  if (contents_.event_count == 0 || !epoch_ns_.has_value()) return std::nullopt;
  int64_t last_ns = 0;
  if (__builtin_add_overflow(*epoch_ns_, last_ns_, &last_ns)) return std::nullopt;
  return last_ns;
}

absl::StatusOr<bool> CaptureBuilder::AddRangeEvent(const RangeEvent& range) {
  const std::optional<Span> span = Place(range.start_ns, range.duration_ns);
  if (!span.has_value()) return false;
  if (AddStep(range.name, *span, range.thread)) {
    RETURN_IF_ERROR(Hold());
    return true;
  }
  std::vector<OperatorInfo>& operators = rows_[range.thread].operators;
  ImportedRange row = {
      .start_ns = span->start_ns,
      .duration_ns = span->duration_ns,
      .name = 0,
      .op = 0,
      .order = static_cast<uint32_t>(rows_[range.thread].ranges.size()),
      .position = static_cast<uint32_t>(rows_[range.thread].ranges.size()),
      .depth = 0,
      .category = static_cast<uint8_t>(range.is_operator ? wire::RangeCategory::kOperator
                                                         : wire::RangeCategory::kUser),
      .flags = range.flags};
  ASSIGN_OR_RETURN(row.name, names_.IdOf(range.name));
  if (range.is_operator) {
    OperatorInfo op = {.sequence = range.sequence};
    op.scope = static_cast<uint8_t>(wire::OperatorScope::kFunction);
    ASSIGN_OR_RETURN(op.inputs, texts_.Inputs(range.dims, {}, {}));
    ++contents_.operator_count;
    if (op.inputs != 0) ++contents_.input_count;
    operators.push_back(op);
    row.op = static_cast<uint32_t>(operators.size());
  }
  RETURN_IF_ERROR(Keep(range.thread, *span, row));
  return true;
}

absl::StatusOr<bool> CaptureBuilder::AddMark(uint32_t thread, int64_t time_ns,
                                             std::string_view name) {
  const std::optional<Span> span = Place(time_ns, 0);
  if (!span.has_value()) return false;
  InstantRow row = {.time_ns = span->start_ns, .name = 0};
  ASSIGN_OR_RETURN(row.name, names_.IdOf(name));
  Cover(*span);
  rows_[thread].instants.push_back(row);
  RETURN_IF_ERROR(Hold());
  return true;
}

absl::Status CaptureBuilder::AddPaired(const TraceEvent& event) {
  if (!event.start.has_value()) {
    not_understood_.Count(StrCat("ph:", std::string(1, event.phase), " without ts"));
    return absl::OkStatus();
  }
  if (std::max(event.flow.size(), event.category.size()) > kMaxIdBytes) {
    not_understood_.Count(StrCat("ph:", std::string(1, event.phase),
                                 " with an id or cat of more than ", kMaxIdBytes, " bytes"));
    return absl::OkStatus();
  }
  const std::optional<Span> span = SpanOf(event, /*needs_duration=*/false);
  if (!span.has_value()) return absl::OkStatus();
  const std::optional<uint32_t> thread = ThreadOf(event);
  if (!thread.has_value()) return absl::OkStatus();
  // What a profiler records of a GPU has a begin and a length in one event. In two, all that links
  // it is missing.
  const Category category = CategoryOf(event.category);
  const bool is_of_gpu = category == Category::kKernel || category == Category::kMemcpy ||
                         category == Category::kMemset || category == Category::kRuntime ||
                         category == Category::kDriver;
  if (is_of_gpu && event.phase == 'B') {
    not_understood_.Count(
        StrCat("cat:", event.category, " as ph:B and ph:E, taken as a range of the program"));
  }
  ASSIGN_OR_RETURN(const uint32_t name, names_.IdOfJson(event.name));
  paired_.Add(event, span->start_ns, *thread, name, not_understood_);
  return Hold();
}

absl::Status CaptureBuilder::FinishPaired() {
  if (paired_.empty()) return absl::OkStatus();
  std::optional<int64_t> end_ns;
  if (kept_part_ != nullptr) end_ns = EndOfKeptPart();
  // The events are held no longer once they are ranges, which are held in their place.
  held_rows_ -= static_cast<int64_t>(paired_.size());
  std::vector<PairedEvents::Range> ranges;
  RETURN_IF_ERROR(paired_.Finish(end_ns, not_understood_, [&](const PairedEvents::Range& range) {
    // Its times are those of the kept part at least.
    if (kept_part_ != nullptr && range.start_ns + range.duration_ns <= BeginOfKeptPart()) {
      not_understood_.Count("events before the first time that is complete");
      return absl::OkStatus();
    }
    ranges.push_back(range);
    if (range.duration_ns > kMostDurationNs) {
      not_understood_.Count(range.overlaps ? "ph:b with more than 7 days to ph:e, taken as 0"
                                           : "ph:B with more than 7 days to ph:E, taken as 0");
      ranges.back().duration_ns = 0;
    }
    return absl::OkStatus();
  }));
  std::stable_sort(ranges.begin(), ranges.end(),
                   [](const auto& a, const auto& b) { return a.start_ns < b.start_ns; });
  for (const PairedEvents::Range& range : ranges) {
    const uint32_t thread =
        range.overlaps ? LaneFor(range.thread, range.start_ns, range.start_ns + range.duration_ns)
                       : range.thread;
    const auto position = static_cast<uint32_t>(rows_[thread].ranges.size());
    uint8_t flags = range.is_open ? kRangeOpen : uint8_t{0};
    if (kept_part_ != nullptr && range.start_ns == BeginOfKeptPart()) flags |= kRangeTruncated;
    RETURN_IF_ERROR(Keep(thread, {.start_ns = range.start_ns, .duration_ns = range.duration_ns},
                         {.start_ns = range.start_ns,
                          .duration_ns = range.duration_ns,
                          .name = range.name,
                          .op = 0,
                          .order = position,
                          .position = position,
                          .depth = 0,
                          .category = static_cast<uint8_t>(wire::RangeCategory::kUser),
                          .flags = flags}));
  }
  return absl::OkStatus();
}

uint32_t CaptureBuilder::LaneFor(uint32_t thread, int64_t start_ns, int64_t end_ns) {
  constexpr size_t kMostLanes = 64;
  std::vector<Lane>& lanes = lanes_[thread];
  for (Lane& lane : lanes) {
    // Ranges come in order of their starts, so the first lane that is free takes the range and few
    // lanes are made.
    if (lane.end_ns > start_ns) continue;
    lane.end_ns = end_ns;
    return lane.thread;
  }
  if (lanes.size() == kMostLanes) return thread;
  const int64_t pid = ParseInteger(threads_.PidOf(thread)).value_or(0);
  const int64_t tid = int64_t{wire::kFirstLane} + lane_count_++;
  const std::optional<uint32_t> lane = AddThread(pid, tid);
  if (!lane.has_value()) return thread;
  NameThread(pid, tid, StrCat("overlapping ranges of ", threads_.TidOf(thread)));
  lanes.push_back({*lane, end_ns});
  return *lane;
}

std::string_view CaptureBuilder::WhyNotInKeptPart(const TraceEvent& event) const {
  if (kept_part_ == nullptr || event.phase == 'M') return {};
  const Category category = CategoryOf(event.category);
  const bool is_work = category == Category::kKernel || category == Category::kMemcpy ||
                       category == Category::kMemset;
  const bool is_of_gpu = is_work || category == Category::kRuntime ||
                         category == Category::kDriver || category == Category::kSync ||
                         category == Category::kCudaEvent || category == Category::kGpuAnnotation;
  if (is_of_gpu && !kept_part_->has_gpu) return "GPU events, of which others are missing";
  if (!event.start.has_value()) return {};
  if (event.start->ns > kept_part_->end_ns) {
    // GPU work after the end is kept if its launch is: a trace of a program that runs ahead of its
    // GPU has such work to its very end.
    const int64_t correlation = event.Get(Number::kCorrelation, 0);
    const bool is_launched = is_work && std::in_range<uint32_t>(correlation) &&
                             kept_part_->launches.contains(static_cast<uint32_t>(correlation));
    return is_launched ? std::string_view() : "events after the last time that is complete";
  }
  // Of ranges in two events, what ends before is known only when both are there.
  const bool is_of_pair =
      event.phase == 'B' || event.phase == 'E' || event.phase == 'b' || event.phase == 'e';
  if (is_of_pair || !BeganBeforeKeptPart(event)) return {};
  int64_t end_ns = event.start->ns;
  if (event.phase == 'X' && event.duration.has_value() && event.duration->ns <= kMostDurationNs &&
      __builtin_add_overflow(event.start->ns, event.duration->ns, &end_ns)) {
    end_ns = event.start->ns;
  }
  return end_ns <= kept_part_->begin_ns ? "events before the first time that is complete"
                                        : std::string_view();
}

bool CaptureBuilder::BeganBeforeKeptPart(const TraceEvent& event) const {
  return kept_part_ != nullptr && event.start.has_value() && event.start->ns < kept_part_->begin_ns;
}

int64_t CaptureBuilder::SinceEpoch(int64_t trace_ns) const {
  int64_t since_ns = 0;
  if (__builtin_sub_overflow(trace_ns, *epoch_ns_, &since_ns)) {
    since_ns = trace_ns < *epoch_ns_ ? -kMostReachNs : kMostReachNs;
  }
  return std::clamp(since_ns, -kMostReachNs, kMostReachNs);
}

int64_t CaptureBuilder::BeginOfKeptPart() const { return SinceEpoch(kept_part_->begin_ns); }
int64_t CaptureBuilder::EndOfKeptPart() const { return SinceEpoch(kept_part_->end_ns); }

template <typename Row>
bool CaptureBuilder::PlaceRow(Row* row) {
  const std::optional<Span> span = Place(row->start_ns, row->duration_ns);
  if (!span.has_value()) return false;
  row->start_ns = span->start_ns;
  row->duration_ns = span->duration_ns;
  return true;
}

template <typename Row>
absl::StatusOr<bool> CaptureBuilder::PlaceAndKeep(Row row) {
  if (!PlaceRow(&row)) return false;
  RETURN_IF_ERROR(Keep(row));
  return true;
}

absl::StatusOr<bool> CaptureBuilder::AddRow(uint32_t thread, ApiRow row) {
  if (!PlaceRow(&row)) return false;
  RETURN_IF_ERROR(Keep(thread, row));
  return true;
}

absl::StatusOr<bool> CaptureBuilder::AddRow(uint32_t thread, MemoryRow row) {
  const std::optional<Span> span = Place(row.time_ns, 0);
  if (!span.has_value()) return false;
  row.time_ns = span->start_ns;
  RETURN_IF_ERROR(Keep(thread, row));
  return true;
}

absl::StatusOr<bool> CaptureBuilder::AddRow(GpuRow row) { return PlaceAndKeep(row); }
absl::StatusOr<bool> CaptureBuilder::AddRow(SyncRow row) { return PlaceAndKeep(row); }
absl::StatusOr<bool> CaptureBuilder::AddRow(OverheadRow row) { return PlaceAndKeep(row); }
absl::StatusOr<bool> CaptureBuilder::AddRow(const CudaEventRow& row) { return NoteCudaEvent(row); }

}  // namespace profd::importer
