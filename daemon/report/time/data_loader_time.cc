#include "daemon/report/time/data_loader_time.h"

#include <algorithm>
#include <string_view>

#include "daemon/base/status_macros.h"
#include "daemon/report/index/step_lookup.h"
#include "daemon/report/index/wrapping_math.h"

namespace profd::report {
namespace {

struct Wait {
  int64_t start_ns;
  int64_t duration_ns;
};

}  // namespace

bool IsDataLoaderWait(std::string_view name) {
  return name.starts_with("enumerate(DataLoader)#") || name.starts_with("enumerate(DataPipe)#");
}

bool HasLoaderWorkers(std::string_view name) {
  return IsDataLoaderWait(name) && name.find("MultiProcessing") != std::string_view::npos;
}

absl::StatusOr<DataLoaderWaits> ReadDataLoaderWaits(store::CaptureReader& reader) {
  StepLookup lookup(reader.steps());
  DataLoaderWaits waits;
  waits.step_ns.resize(lookup.steps().size());
  std::vector<bool> is_wait;  // By name.
  for (const std::string& name : reader.names()) is_wait.push_back(IsDataLoaderWait(name));
  if (std::find(is_wait.begin(), is_wait.end(), true) == is_wait.end()) return waits;
  std::vector<std::vector<Wait>> by_thread(reader.threads().size());
  RETURN_IF_ERROR(reader.ForEach<RangeRow>(
      kRangeStart | kRangeDuration | kRangeName, {}, [&](const RangeBatch& batch) {
        if (batch.thread >= by_thread.size()) by_thread.resize(batch.thread + size_t{1});
        std::vector<Wait>& thread = by_thread[batch.thread];
        for (size_t i = 0; i < batch.size; ++i) {
          if (!is_wait[batch.name[i]]) continue;
          // Ranges come in order of their end: those inside of this one are
          // part of it.
          while (!thread.empty() && thread.back().start_ns >= batch.start_ns[i]) thread.pop_back();
          thread.push_back({batch.start_ns[i], batch.duration_ns[i]});
        }
        return absl::OkStatus();
      }));
  const int64_t step_thread = reader.step_thread();
  for (size_t thread = 0; thread < by_thread.size(); ++thread) {
    const bool has_steps = step_thread < 0 || static_cast<size_t>(step_thread) == thread;
    for (const Wait& wait : by_thread[thread]) {
      ++waits.sum.count;
      AddTo(waits.sum.total_ns, wait.duration_ns);
      waits.sum.max_ns = std::max(waits.sum.max_ns, wait.duration_ns);
      const size_t position = has_steps ? lookup.PositionAt(wait.start_ns) : StepLookup::kNone;
      if (position == StepLookup::kNone) continue;
      AddTo(waits.sum.in_steps_ns, wait.duration_ns);
      AddTo(waits.step_ns[position], wait.duration_ns);
    }
  }
  return waits;
}

}  // namespace profd::report
