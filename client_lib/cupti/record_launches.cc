// The half of RecordDecoder that knows which work launches have, and which of it is missing.
#include "client_lib/core/hot_state.h"
#include "client_lib/cupti/record_decoder.h"

namespace profd::client {

PROFD_NOINLINE void RecordDecoder::TakeUntimedWork(uint32_t correlation) {
  if (is_kept_buffer_ && !is_last_flush_) {
    const uint8_t* launch = launches_.At(correlation);
    if (launch == nullptr || *launch == 0) {
      ++counts_[wire::kGpuStale];
      return;
    }
  }
  if (!is_last_flush_ || untimed_count_ == kUntimedSlots) {
    ++counts_[wire::kGpuUntimed];
    if (uint8_t* launch = launches_.At(correlation)) *launch |= LaunchTracker::kHasWork;
    return;
  }
  // Its call may come after it, in the same buffer.
  untimed_[untimed_count_++] = correlation;
}

bool RecordDecoder::SettleCalls() {
  if (!knows_calls()) return false;
  const LaunchTracker::Missing missing = CountMissing();
  // A few may be calls that were under way when their records were turned off.
  if (missing.callless < 3 || missing.callless * 100 < missing.worked) return false;
  counts_[wire::kGpuLaterLaunch] -= unsure_count_;
  counts_[wire::kGpuStillRunning] += unsure_count_;
  unsure_count_ = 0;
  return true;
}

LaunchTracker::Missing RecordDecoder::CountMissing() const {
  // Work before the first call may have been launched before calls were recorded.
  if (window_first_id_ == 0) return launches_.CountMissing();
  return launches_.CountMissing(first_call_id_, window_last_id_);
}

PROFD_NOINLINE void RecordDecoder::NoteEarlyWork(uint32_t correlation) {
  uint32_t& last = early_work_[correlation % kEarlySlots];
  if (last == 0 || IsBefore(last, correlation)) last = correlation;
}

// Whether `held`, of early_, is a launch whose work makes a record.
bool RecordDecoder::IsEarlyLaunch(const cupti::ApiRecord& held) const {
  if (held.correlation == 0) return false;
  const uint32_t index = held.cbid < kApiSlots ? held.cbid : kApiSlots - 1;
  const ApiName& name = apis_[held.kind == cupti::kKindDriver ? 1 : 0][index];
  return (name.launches & LaunchTracker::kIsAwaited) != 0;
}

uint32_t RecordDecoder::LastEarlyLaunch() const {
  uint32_t last = 0;
  for (const cupti::ApiRecord& held : early_) {
    if (IsEarlyLaunch(held) && (last == 0 || IsBefore(last, held.correlation))) {
      last = held.correlation;
    }
  }
  return last;
}

uint32_t RecordDecoder::CountEarlyLaunchesWithoutWork(uint32_t last) const {
  uint32_t count = 0;
  for (const cupti::ApiRecord& held : early_) {
    if (!IsEarlyLaunch(held) || IsBefore(last, held.correlation)) continue;
    // Newer work in its place: so many launches later, this one's has run.
    const uint32_t worked = early_work_[held.correlation % kEarlySlots];
    count += worked == 0 || IsBefore(worked, held.correlation) ? 1 : 0;
  }
  return count;
}

PROFD_NOINLINE void RecordDecoder::NoteGraphCapture(const ApiName& name, uint32_t thread) {
  uint32_t at = 0;
  while (at < capturing_count_ && capturing_threads_[at] != thread) ++at;
  if (name.begins_capture) {
    if (at == capturing_count_ && at < kCapturingThreads) {
      capturing_threads_[capturing_count_++] = thread;
    }
  } else if (at < capturing_count_) {
    capturing_threads_[at] = capturing_threads_[--capturing_count_];
  }
}

bool RecordDecoder::IsCapturing(uint32_t thread) const {
  for (uint32_t i = 0; i < capturing_count_; ++i) {
    if (capturing_threads_[i] == thread) return true;
  }
  return false;
}

}  // namespace profd::client
