// What CaptureBuilder takes of formats that are no Chrome traces: rows, with times of the format.
// And ranges of events in pairs.
#include <algorithm>
#include <string>
#include <vector>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/import/capture_builder.h"
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
    RETURN_IF_ERROR(Keep(thread, {.start_ns = range.start_ns, .duration_ns = range.duration_ns},
                         {.start_ns = range.start_ns,
                          .duration_ns = range.duration_ns,
                          .name = range.name,
                          .op = 0,
                          .order = position,
                          .position = position,
                          .depth = 0,
                          .category = static_cast<uint8_t>(wire::RangeCategory::kUser),
                          .flags = range.is_open ? kRangeOpen : uint8_t{0}}));
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
