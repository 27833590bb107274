#include "tests/store/file/capture_file_builder.h"

#include <stdlib.h>

#include <algorithm>
#include <system_error>
#include <type_traits>

#include "absl/strings/str_format.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"

namespace profd::store {

TemporaryFolder::TemporaryFolder() {
  std::string name = std::filesystem::temp_directory_path() / "profd_store_XXXXXX";
  if (mkdtemp(name.data()) == nullptr) std::abort();
  path_ = name;
}
TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string IdOf(int number) { return absl::StrFormat("01J0000000000000000000%04d", number); }

CaptureRecord NewRecord(std::string_view id) {
  CaptureRecord record;
  record.id = std::string(id);
  record.spec.steps = 2;
  record.requested_by_uid = 1000;
  record.target.pid = 4711;
  record.target.uid = 1000;
  record.target.command = "python3 train.py";
  record.node = "node-a";
  record.create_time = absl::FromUnixSeconds(1'790'000'000);
  record.armed_time = absl::InfinitePast();
  record.end_time = absl::InfiniteFuture();
  return record;
}

CaptureRecord FinishedRecord(CaptureRecord record, const WindowRecord& window) {
  record.state = CaptureState::kComplete;
  record.ended_by = EndedBy::kSteps;
  record.start_unix_ns = 1'790'000'001'000'000'000;
  record.covered_ns = window.end_ns - window.start_ns;
  record.covered_steps = window.end_step - window.first_step;
  record.windows = {window};
  record.slowdown = {.known = true, .low = -0.01, .high = 0.01};
  record.end_time = absl::FromUnixSeconds(1'790'000'010);
  return record;
}

StepPattern::StepPattern(uint32_t seed, uint32_t name_count)
    : random_(seed), name_count_(name_count) {}

int64_t StepPattern::Jitter(int64_t mean_ns) {
  std::normal_distribution<double> around(1.0, 0.1);
  std::uniform_int_distribution<int> percent(0, 99);
  const double factor = percent(random_) == 0 ? 8.0 : std::max(0.2, around(random_));
  return std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(mean_ns) * factor));
}

void StepPattern::AddRange(int64_t body_ns, uint16_t depth, uint32_t name, int children,
                           int fanout) {
  const int64_t start_ns = now_ns_;
  now_ns_ += Jitter(body_ns);
  for (int i = 0; i < children; ++i) {
    const uint32_t child = 1 + (name * 7 + static_cast<uint32_t>(i) * 13) % (name_count_ - 1);
    AddRange(body_ns / 2 + 100, static_cast<uint16_t>(depth + 1), child, fanout, 0);
    now_ns_ += Jitter(150);
  }
  ranges_.push_back({.start_ns = start_ns,
                     .duration_ns = now_ns_ - start_ns,
                     .name = name,
                     .depth = depth,
                     .category = 0,
                     .flags = 0});
  if (ranges_.size() % 8 != 0) return;
  const auto slot = static_cast<uint64_t>(ranges_.size() / 8);
  memory_.push_back({.time_ns = now_ns_,
                     .address = 0x7f0000000000 + slot * 4096,
                     .bytes = static_cast<int64_t>(256 + (slot % 32) * 512),
                     .total_allocated_bytes = static_cast<int64_t>(1'000'000 + slot * 100),
                     .total_reserved_bytes = 1 << 24,
                     .device_type = 0,
                     .device_index = 0,
                     .category = static_cast<uint8_t>(slot % 7),
                     .is_free = slot % 2 == 1});
}

const std::vector<RangeRow>& StepPattern::NextRanges() {
  ranges_.clear();
  memory_.clear();
  constexpr int kLayers = 111;
  for (int layer = 0; layer < kLayers; ++layer) {
    const auto name = static_cast<uint32_t>(1 + layer % static_cast<int>(name_count_ - 1));
    AddRange(2'000, 1, name, 5, 4);
    now_ns_ += Jitter(400);
  }
  return ranges_;
}

GpuPattern::GpuPattern(uint32_t seed, uint32_t name_count)
    : random_(seed), name_count_(name_count) {}

void GpuPattern::Add(size_t number) {
  constexpr size_t kKernelsPerStep = 800;
  std::normal_distribution<double> around(1.0, 0.1);
  const auto jitter = [&](double mean_ns) {
    return static_cast<int64_t>(mean_ns * std::max(0.2, around(random_)));
  };
  const size_t place = number % kKernelsPerStep;
  const bool is_copy = place % 97 == 96;
  const bool is_memset = place % 89 == 88 && !is_copy;
  const bool second_stream = place % 10 == 9;

  call_ns_ += jitter(6'000);
  ++correlation_;
  calls_.push_back({.start_ns = call_ns_,
                    .duration_ns = jitter(3'500),
                    .name = is_copy     ? 2u
                            : is_memset ? 3u
                                        : 1u,
                    .correlation = correlation_,
                    .cbid = is_copy     ? 41u
                            : is_memset ? 51u
                                        : 211u,
                    .result = 0,
                    .is_driver = false});
  correlation_ += 1 + static_cast<uint32_t>(place % 4 == 0);  // Calls that launch nothing.

  int64_t& free_ns = stream_free_ns_[second_stream ? 1 : 0];
  GpuRow row = {};
  row.start_ns = std::max(free_ns + jitter(900), call_ns_ + jitter(4'000));
  row.kind = is_copy ? GpuRowKind::kMemcpy : is_memset ? GpuRowKind::kMemset : GpuRowKind::kKernel;
  row.device = 0;
  row.context = 1;
  row.stream = second_stream ? 20 : 7;
  row.correlation = calls_.back().correlation;
  row.source_device = kNoGpuDevice;
  row.destination_device = kNoGpuDevice;
  row.queued_ns = kNoGpuTime;
  row.submitted_ns = kNoGpuTime;
  if (is_copy || is_memset) {
    row.bytes = 4096 * (1 + place % 5);
    row.duration_ns = jitter(1'800);
    row.destination_kind = 3;
    if (is_copy) {
      row.flags = kGpuAsync;
      row.copy_kind = 1;
      row.source_kind = 2;
    }
  } else {
    const auto shape = static_cast<uint32_t>(place % 13);
    row.name = 1 + static_cast<uint32_t>(place * 7 % (name_count_ - 1));
    row.duration_ns = jitter(3'000.0 + 1'700.0 * static_cast<double>(place % 31));
    row.grid = {(1 + shape) * 32, 1 + shape % 3, 1};
    row.block = {128u << (shape % 3), 1, 1};
    row.registers_per_thread = static_cast<uint16_t>(32 + 8 * shape);
    row.static_shared_bytes = shape % 4 * 1024;
    row.dynamic_shared_bytes = shape % 5 == 0 ? 49'152 : 0;
  }
  free_ns = row.start_ns + row.duration_ns;
  rows_.push_back(row);
}

const std::vector<GpuRow>& GpuPattern::NextRows(size_t count) {
  rows_.clear();
  calls_.clear();
  for (size_t i = 0; i < count; ++i) Add(number_++);
  std::stable_sort(rows_.begin(), rows_.end(), [](const GpuRow& a, const GpuRow& b) {
    return a.start_ns + a.duration_ns < b.start_ns + b.duration_ns;
  });
  return rows_;
}

std::vector<OperatorRow> OperatorsOf(std::span<const RangeRow> ranges) {
  std::vector<OperatorRow> rows;
  for (const RangeRow& range : ranges) {
    const auto number = static_cast<uint32_t>(rows.size());
    const bool backward = number % 4 == 3;
    rows.push_back({.start_ns = range.start_ns,
                    .depth = range.depth,
                    .scope = static_cast<uint8_t>(backward ? 1 : 0),
                    .sequence = number % 3 == 0 ? -1 : int64_t{number},
                    .forward_thread = backward ? uint64_t{1} : 0,
                    .torch_thread = 1,
                    .inputs = range.name % (kPatternInputs + 1),
                    .scalars = number % 2 == 0 ? 0 : 1 + range.name % kPatternInputs});
  }
  return rows;
}

absl::Status IntroduceInputs(CaptureSink& sink) {
  for (uint32_t id = 1; id <= kPatternInputs; ++id) {
    const OperatorInputs inputs = {.dims = StrCat("[[", id, ",64],[]]"),
                                   .types = R"(["float","Scalar"])",
                                   .strides = id % 2 == 0 ? "[[64,1],[]]" : ""};
    RETURN_IF_ERROR(sink.AddInputs(id, inputs));
    RETURN_IF_ERROR(sink.AddScalars(id, StrCat(R"(["",")", id, R"("])")));
  }
  return absl::OkStatus();
}

absl::Status IntroducePattern(const StepPattern& pattern, uint32_t threads, CaptureSink& sink) {
  for (uint32_t id = 1; id < pattern.name_count(); ++id) {
    RETURN_IF_ERROR(sink.AddName(id, StrCat("aten::operator_", id)));
  }
  for (uint32_t thread = 0; thread < threads; ++thread) {
    RETURN_IF_ERROR(sink.AddThread(
        {.index = thread, .os_thread = 1000 + thread, .name = StrCat("worker-", thread)}));
  }
  return absl::OkStatus();
}

namespace {

template <typename Row>
absl::Status ReadKind(CaptureReader& reader, std::vector<Row>& rows) {
  return reader.ForEach<Row>([&rows](const BatchOfRow<Row>& batch) {
    for (size_t i = 0; i < batch.size; ++i) rows.push_back(RowAt<Row>(batch, i));
    return absl::OkStatus();
  });
}
template <typename Row>
absl::Status ReadKind(CaptureReader& reader, std::vector<std::vector<Row>>& by_thread) {
  return reader.ForEach<Row>([&by_thread](const BatchOfRow<Row>& batch) {
    if (by_thread.size() <= batch.thread) by_thread.resize(batch.thread + size_t{1});
    for (size_t i = 0; i < batch.size; ++i) {
      by_thread[batch.thread].push_back(RowAt<Row>(batch, i));
    }
    return absl::OkStatus();
  });
}

}  // namespace

absl::StatusOr<ReadBack> ReadAll(CaptureReader& reader) {
  ReadBack all;
  RETURN_IF_ERROR(ReadKind(reader, all.ranges));
  RETURN_IF_ERROR(ReadKind(reader, all.instants));
  RETURN_IF_ERROR(ReadKind(reader, all.counters));
  RETURN_IF_ERROR(ReadKind(reader, all.memory));
  RETURN_IF_ERROR(ReadKind(reader, all.api_calls));
  RETURN_IF_ERROR(ReadKind(reader, all.gpu));
  RETURN_IF_ERROR(ReadKind(reader, all.syncs));
  RETURN_IF_ERROR(ReadKind(reader, all.overheads));
  RETURN_IF_ERROR(ReadKind(reader, all.cuda_events));
  RETURN_IF_ERROR(ReadKind(reader, all.operators));
  RETURN_IF_ERROR(ReadKind(reader, all.tensor_uses));
  RETURN_IF_ERROR(ReadKind(reader, all.notes));
  RETURN_IF_ERROR(ReadKind(reader, all.blocks));
  RETURN_IF_ERROR(ReadKind(reader, all.stacks));
  RETURN_IF_ERROR(ReadKind(reader, all.modules));
  RETURN_IF_ERROR(ReadKind(reader, all.arguments));
  RETURN_IF_ERROR(ReadKind(reader, all.gpu_annotations));
  return all;
}

}  // namespace profd::store
