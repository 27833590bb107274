#include "daemon/report/believed/believed_reader.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "daemon/base/status_macros.h"
#include "daemon/report/index/gpu_attribution.h"
#include "daemon/report/index/wrapping_math.h"

namespace profd::report {
namespace {

// Rows [begin, end) of a batch.
GpuBatch PartOf(const GpuBatch& batch, size_t begin, size_t end) {
  GpuBatch part = batch;
  part.size = end - begin;
  ForEachColumn(part, [begin, size = part.size](const auto& column) {
    if (!column.values.empty()) column.values = column.values.subspan(begin, size);
  });
  return part;
}

// Whether the seal looked for impossible times and found none.
bool AreKnownToBePossible(const CaptureRecord& record) {
  const auto found =
      std::ranges::find(record.graded.checks, "impossible_times", &QualityCheck::name);
  return found != record.graded.checks.end() && found->value == 0;
}

}  // namespace

absl::Status BelievedCalls::Search() {
  searched_ = true;
  const bool is_below_another = dynamic_cast<BelievedCalls*>(&reader_) != nullptr ||
                                dynamic_cast<BelievedReader*>(&reader_) != nullptr;
  if (is_below_another || AreKnownToBePossible(reader_.record())) return absl::OkStatus();
  ASSIGN_OR_RETURN(calls_, FindImpossibleCalls(reader_));
  return absl::OkStatus();
}

absl::Status BelievedCalls::Scan(RowKind kind, uint32_t columns, const store::TimeFilter& filter,
                                 absl::FunctionRef<absl::Status(const EventBatch&)> fn) {
  const bool are_calls = kind == RowKind::kApiCall;
  if (are_calls || kind == RowKind::kSync) {
    if (!searched_) RETURN_IF_ERROR(Search());
  } else {
    return reader_.Scan(kind, columns, filter, fn);
  }
  if (calls_.possible_ns.empty()) return reader_.Scan(kind, columns, filter, fn);
  std::vector<int64_t> durations;
  if (are_calls) {
    return reader_.ForEach<ApiRow>(columns, filter, [&](const ApiBatch& batch) {
      durations.assign(batch.duration_ns.begin(), batch.duration_ns.end());
      for (size_t i = 0; i < batch.size; ++i) {
        const auto found =
            calls_.possible_ns.find({batch.thread, batch.start_ns[i], batch.duration_ns[i]});
        if (found != calls_.possible_ns.end()) durations[i] = found->second;
      }
      ApiBatch believed = batch;
      believed.duration_ns = durations;
      return fn(believed);
    });
  }
  return reader_.ForEach<SyncRow>(columns, filter, [&](const SyncBatch& batch) {
    durations.assign(batch.duration_ns.begin(), batch.duration_ns.end());
    for (size_t i = 0; i < batch.size; ++i) {
      const auto over = calls_.over_ns.find(batch.correlation[i]);
      if (batch.correlation[i] == 0 || over == calls_.over_ns.end()) continue;
      const int64_t possible_ns = std::max<int64_t>(0, Difference(over->second, batch.start_ns[i]));
      durations[i] = std::min(durations[i], possible_ns);
    }
    SyncBatch believed = batch;
    believed.duration_ns = durations;
    return fn(believed);
  });
}

absl::Status BelievedReader::Search() {
  searched_ = true;
  if (dynamic_cast<BelievedReader*>(&reader_) != nullptr) return absl::OkStatus();
  if (reader_.gpu_row_count() == 0 || AreKnownToBePossible(reader_.record())) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const GpuAttribution attribution, GpuAttribution::BuildCalls(believed_calls_));
  ASSIGN_OR_RETURN(times_, FindImpossibleTimes(believed_calls_, attribution));
  return absl::OkStatus();
}

absl::Status BelievedReader::Scan(RowKind kind, uint32_t columns, const store::TimeFilter& filter,
                                  absl::FunctionRef<absl::Status(const EventBatch&)> fn) {
  if (kind != RowKind::kGpu) return believed_calls_.Scan(kind, columns, filter, fn);
  if (!searched_) RETURN_IF_ERROR(Search());
  if (times_.possible_ns.empty()) return reader_.Scan(kind, columns, filter, fn);
  std::vector<int64_t> durations;
  return reader_.ForEach<GpuRow>(columns | kGpuTime, filter, [&](const GpuBatch& batch) {
    durations.assign(batch.duration_ns.begin(), batch.duration_ns.end());
    GpuBatch believed = batch;
    believed.duration_ns = durations;
    size_t begin = 0;
    for (size_t i = 0; i < batch.size; ++i) {
      const auto found = times_.possible_ns.find({batch.start_ns[i], batch.duration_ns[i]});
      if (found == times_.possible_ns.end()) continue;
      if (found->second != ImpossibleTimes::kLeftOut) {
        durations[i] = found->second;
        continue;
      }
      // A row that is left out splits the batch. The parts are views, so only durations are copied.
      if (i > begin) RETURN_IF_ERROR(fn(PartOf(believed, begin, i)));
      begin = i + 1;
    }
    if (begin == batch.size) return absl::OkStatus();
    return begin == 0 ? fn(believed) : fn(PartOf(believed, begin, batch.size));
  });
}

}  // namespace profd::report
