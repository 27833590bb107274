#include "daemon/report/index/earlier_work.h"

#include <algorithm>

#include "daemon/capture/event_kinds.h"
#include "daemon/report/index/gpu_names.h"
#include "daemon/report/index/wrapping_math.h"

namespace profd::report {
namespace {

// A GPU that has nothing to do begins with what is launched, and ends a wait, much sooner.
constexpr int64_t kPromptNs = 1'000'000;

}  // namespace

EarlierWork::EarlierWork(const CaptureRecord& record) {
  if (record.windows.empty() || !record.imported.source.empty() ||
      record.gpu.mode == GpuMode::kOff) {
    return;
  }
  const auto window = std::ranges::min_element(record.windows, {}, &WindowRecord::start_ns);
  applies_ = true;
  has_calls_ = record.gpu.mode >= GpuMode::kDefault;
  // Without calls, only work of the GPU has an end before the window.
  recorded_before_ = !has_calls_ && record.gpu.before_window_count > 0;
  begin_ns_ = window->start_ns;
  end_ns_ = window->end_ns;
}

bool EarlierWork::BeginsLate(const First& first) const {
  return first.start_ns > begin_ns_ &&
         Distance(begin_ns_, first.start_ns) > static_cast<uint64_t>(kPromptNs);
}

absl::Status EarlierWork::AddWaits(store::CaptureReader& reader) {
  if (!has_calls_ || std::ranges::none_of(
                         devices_, [&](const auto& device) { return BeginsLate(device.second); })) {
    return absl::OkStatus();
  }
  return reader.ForEach<::profd::SyncRow>(
      {.begin_ns = begin_ns_, .end_ns = end_ns_}, [&](const SyncBatch& batch) {
        for (size_t i = 0; i < batch.size; ++i) {
          const uint32_t kind = batch.kind[i];
          const bool thread_waits =
              kind == kEventSync || kind == kStreamSync || kind == kContextSync;
          if (!thread_waits || batch.duration_ns[i] <= kPromptNs) continue;
          const int64_t end_ns = Sum(batch.start_ns[i], batch.duration_ns[i]);
          for (auto& [device, first] : devices_) {
            const bool is_of_device = batch.device[i] == device ||
                                      (batch.device[i] == kNoGpuDevice && devices_.size() == 1);
            if (!is_of_device || end_ns > first.start_ns) continue;
            first.waited_until_ns = std::max(first.waited_until_ns, end_ns);
          }
        }
        return absl::OkStatus();
      });
}

int64_t EarlierWork::EndOf(const First& first) const {
  if (!BeginsLate(first) || recorded_before_) return begin_ns_;
  const bool waited = first.call == nullptr || (first.start_ns > first.call->end_ns &&
                                                Distance(first.call->end_ns, first.start_ns) >
                                                    static_cast<uint64_t>(kPromptNs));
  if (waited) return std::min(first.start_ns, std::max(end_ns_, begin_ns_));
  return std::clamp(first.waited_until_ns, begin_ns_, std::max(end_ns_, begin_ns_));
}

int64_t EarlierWork::EndOf(uint16_t device) const {
  const auto found = devices_.find(device);
  return found == devices_.end() ? begin_ns_ : EndOf(found->second);
}

int64_t EarlierWork::LongestNs() const {
  uint64_t longest = 0;
  for (const auto& [device, first] : devices_) {
    longest = std::max(longest, Distance(begin_ns_, EndOf(first)));
  }
  return static_cast<int64_t>(longest);
}

}  // namespace profd::report
