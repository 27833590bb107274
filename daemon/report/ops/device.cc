#include "daemon/report/ops/device.h"

#include <algorithm>

#include "daemon/base/status_macros.h"

namespace profd::report {

absl::Status OpDevice::Read(store::CaptureReader& reader) {
  RETURN_IF_ERROR(
      reader.ForEach<GpuRow>(kGpuTime | kGpuWhere | kGpuCause, {}, [&](const GpuBatch& batch) {
        AddBatch(batch);
        return absl::OkStatus();
      }));
  size_t device = 0;
  for (auto& [number, work] : work_) {
    SumDevice(device++, work);
    work = {};
  }
  return absl::OkStatus();
}

void OpDevice::AddBatch(const GpuBatch& batch) {
  std::vector<Work>* work = nullptr;
  uint16_t device = 0;
  for (size_t i = 0; i < batch.size; ++i) {
    const GpuAttribution::Call* call = attribution_.Find(batch.correlation[i]);
    if (options_.step.has_value() &&
        (call == nullptr || call->step < 0 || attribution_.StepIndexOf(*call) != *options_.step)) {
      continue;
    }
    if (call != nullptr && attribution_.IsBeforeWindow(*call)) continue;
    const auto duration_ns = static_cast<uint64_t>(batch.duration_ns[i]);
    total_ns_ += duration_ns;
    if (call == nullptr || call->path == RangePaths::kNone) {
      unattributed_ns_ += duration_ns;
      continue;
    }
    if (work == nullptr || batch.device[i] != device) {
      device = batch.device[i];
      work = &work_[device];
    }
    work->push_back({batch.start_ns[i], batch.start_ns[i] + batch.duration_ns[i], call->path,
                     options_.by_step ? call->step : -1});
  }
}

// In order of their start, so that of each row only the end of its busy time so far is kept. Each
// piece of work walks up the ranges around its call: n log n to sort, and n times the depth.
void OpDevice::SumDevice(size_t device, std::vector<Work>& work) {
  std::sort(work.begin(), work.end(),
            [](const Work& a, const Work& b) { return a.start_ns < b.start_ns; });
  const RangePaths& paths = attribution_.paths();
  for (const Work& piece : work) {
    const auto duration_ns =
        static_cast<uint64_t>(piece.end_ns) - static_cast<uint64_t>(piece.start_ns);
    rows_[RowOf(paths[piece.path].name, piece.step)].self_ns += duration_ns;
    for (uint32_t path = piece.path; path != RangePaths::kNone; path = paths[path].parent) {
      const size_t at = RowOf(paths[path].name, piece.step);
      Covered& covered = covered_[at];
      if (covered.last == &piece) continue;
      covered.last = &piece;
      rows_[at].total_ns += duration_ns;
      // Devices run at the same time, but their busy times are added.
      if (covered.device != device) covered = {device, piece.start_ns, &piece};
      if (piece.end_ns <= covered.until_ns) continue;
      rows_[at].busy_ns += static_cast<uint64_t>(piece.end_ns) -
                           static_cast<uint64_t>(std::max(piece.start_ns, covered.until_ns));
      covered.until_ns = piece.end_ns;
    }
  }
}

size_t OpDevice::RowOf(uint32_t kind, int32_t step) {
  const uint32_t first = kinds_.FirstOf(kind);
  const auto [at, inserted] =
      row_of_.try_emplace(uint64_t{first} << 32 | static_cast<uint32_t>(step), rows_.size());
  if (inserted) {
    rows_.push_back({.kind = first, .step = step});
    covered_.emplace_back();
  }
  return at->second;
}

}  // namespace profd::report
