#include "tests/fakes/synthetic_capture_reader.h"

#include <algorithm>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/store/file/event_columns.h"

namespace profd {
namespace {

constexpr int64_t kStepsPerBatch = 32;
constexpr int64_t kOpNs = 1500;
constexpr int64_t kGapNs = 40;
constexpr int64_t kLayerNs = SyntheticCaptureReader::kOpsPerLayer * kOpNs + 2 * kGapNs;
constexpr int64_t kHalfNs = SyntheticCaptureReader::kLayers * kLayerNs + 2 * kGapNs;
constexpr int64_t kStepNs = 2 * kHalfNs + 4 * kGapNs;

constexpr uint32_t kStepName = 1;
constexpr uint32_t kFirstLayerName = 4;
constexpr uint32_t kFirstOpName = kFirstLayerName + SyntheticCaptureReader::kLayers;
constexpr uint32_t kOpNames = 200;

void Append(int64_t start_ns, int64_t end_ns, uint32_t name, uint16_t depth,
            std::vector<RangeRow>& rows) {
  rows.push_back({.start_ns = start_ns,
                  .duration_ns = end_ns - start_ns,
                  .name = name,
                  .depth = depth,
                  .category = static_cast<uint8_t>(depth == 3 ? 1 : 0),
                  .flags = 0});
}

}  // namespace

SyntheticCaptureReader::SyntheticCaptureReader(uint32_t threads, int64_t steps) {
  record_.id = "01JSYNTHET1C00000000000000";
  record_.node = "node-1";
  record_.start_unix_ns = 1'800'000'000'000'000'000;
  record_.target.pid = 4242;
  record_.target.namespace_pid = 4242;
  record_.target.command = "python train.py";
  record_.target.metadata = {{"rank", "3"}, {"world_size", "8"}};
  for (uint32_t i = 0; i < threads; ++i) {
    threads_.push_back({4242 + i, i == 0 ? "main" : StrCat("worker ", i)});
  }
  names_ = {"", "train_step", "forward", "backward"};
  for (int64_t i = 0; i < kLayers; ++i) names_.push_back(StrCat("transformer.layer.", i));
  for (uint32_t i = 0; i < kOpNames; ++i) names_.push_back(StrCat("aten::operator_", i));
  for (int64_t i = 0; i < steps; ++i) steps_.push_back({100 + i, 0, i * kStepNs, kStepNs});
}

int64_t SyntheticCaptureReader::range_count() const {
  return static_cast<int64_t>(steps_.size() * threads_.size()) * kRangesPerStep;
}

void SyntheticCaptureReader::AppendStep(int64_t step, std::vector<RangeRow>& rows) {
  const int64_t start_ns = step * kStepNs;
  // A little noise that depends on nothing but the place.
  uint64_t noise = static_cast<uint64_t>(step) * 0x9e3779b97f4a7c15ULL;
  int64_t at = start_ns + kGapNs;
  for (uint32_t half = 0; half < 2; ++half) {
    const int64_t half_start = at;
    at += kGapNs;
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      const int64_t layer_start = at;
      for (int64_t op = 0; op < kOpsPerLayer; ++op) {
        noise = noise * 6364136223846793005ULL + 1442695040888963407ULL;
        const auto shorter = static_cast<int64_t>(noise >> 54);
        Append(at, at + kOpNs - shorter,
               kFirstOpName + static_cast<uint32_t>(noise >> 33) % kOpNames, 3, rows);
        at += kOpNs;
      }
      at += kGapNs;
      Append(layer_start, at, kFirstLayerName + layer, 2, rows);
      at += kGapNs;
    }
    at += kGapNs;
    Append(half_start, at, kStepName + 1 + half, 1, rows);
  }
  Append(start_ns, start_ns + kStepNs, kStepName, 0, rows);
}

absl::Status SyntheticCaptureReader::Scan(RowKind kind, uint32_t columns,
                                          const store::TimeFilter& filter,
                                          absl::FunctionRef<absl::Status(const EventBatch&)> fn) {
  if (kind != RowKind::kRange) return absl::OkStatus();
  const auto steps = static_cast<int64_t>(steps_.size());
  for (int64_t first = 0; first < steps; first += kStepsPerBatch) {
    const int64_t last = std::min(first + kStepsPerBatch, steps);
    if (last * kStepNs < filter.begin_ns || first * kStepNs >= filter.end_ns) continue;
    std::vector<RangeRow> rows;
    for (int64_t step = first; step < last; ++step) AppendStep(step, rows);
    store::EventTable<RangeRow> table;
    table.Append(rows);
    for (uint32_t thread = 0; thread < threads_.size(); ++thread) {
      ++batches_given_;
      RETURN_IF_ERROR(fn(store::ToBatch(table, columns, thread, 0, rows.size())));
    }
  }
  return absl::OkStatus();
}

}  // namespace profd
