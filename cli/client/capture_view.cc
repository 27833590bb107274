#include "cli/client/capture_view.h"

#include <utility>

#include "daemon/capture/quality.h"

namespace profd::cli {

CaptureView ViewOf(CaptureRecord record, std::vector<StepRecord> steps) {
  CaptureView view;
  view.state = ToString(record.state);
  if (record.ended_by != EndedBy::kNone) view.ended_by = ToString(record.ended_by);
  view.quality = QualityGrade(record);
  view.dropped_event_count = TotalDrops(record.drops);
  for (int i = 0; i < kDropReasonCount; ++i) {
    const int64_t count = record.drops[static_cast<size_t>(i)];
    if (count > 0) {
      view.dropped_by_reason.emplace(ToString(static_cast<DropReason>(i)), count);
    }
  }
  view.record = std::move(record);
  view.steps = std::move(steps);
  return view;
}

}  // namespace profd::cli
