#include "tests/store/file/capture_file_builder.h"

#include <stdlib.h>

#include <algorithm>
#include <system_error>

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
template <typename T>
std::vector<T>& Of(std::vector<std::vector<T>>& by_thread, uint32_t thread) {
  if (by_thread.size() <= thread) by_thread.resize(thread + 1);
  return by_thread[thread];
}
}  // namespace

absl::StatusOr<ReadBack> ReadAll(CaptureReader& reader) {
  ReadBack all;
  RETURN_IF_ERROR(reader.ForEachRange(kRangeAllColumns, {}, [&](const RangeBatch& batch) {
    for (size_t i = 0; i < batch.size; ++i) {
      Of(all.ranges, batch.thread)
          .push_back({batch.start_ns[i], batch.duration_ns[i], batch.name[i], batch.depth[i],
                      batch.category[i], batch.flags[i]});
    }
    return absl::OkStatus();
  }));
  RETURN_IF_ERROR(reader.ForEachInstant({}, [&](const InstantBatch& batch) {
    for (size_t i = 0; i < batch.size; ++i) {
      Of(all.instants, batch.thread).push_back({batch.time_ns[i], batch.name[i]});
    }
    return absl::OkStatus();
  }));
  RETURN_IF_ERROR(reader.ForEachCounter({}, [&](const CounterBatch& batch) {
    for (size_t i = 0; i < batch.size; ++i) {
      Of(all.counters, batch.thread).push_back({batch.time_ns[i], batch.value[i], batch.name[i]});
    }
    return absl::OkStatus();
  }));
  RETURN_IF_ERROR(reader.ForEachMemory({}, [&](const MemoryBatch& batch) {
    for (size_t i = 0; i < batch.size; ++i) {
      Of(all.memory, batch.thread)
          .push_back({batch.time_ns[i], batch.address[i], batch.bytes[i],
                      batch.total_allocated_bytes[i], batch.total_reserved_bytes[i],
                      batch.device_type[i], batch.device_index[i], batch.category[i],
                      batch.is_free[i] != 0});
    }
    return absl::OkStatus();
  }));
  RETURN_IF_ERROR(reader.ForEachApiCall({}, [&](const ApiBatch& batch) {
    for (size_t i = 0; i < batch.size; ++i) {
      Of(all.api_calls, batch.thread)
          .push_back({batch.start_ns[i], batch.duration_ns[i], batch.name[i], batch.correlation[i],
                      batch.cbid[i], batch.result[i], batch.is_driver[i] != 0});
    }
    return absl::OkStatus();
  }));
  RETURN_IF_ERROR(reader.ForEachGpu(kGpuAllColumns, {}, [&](const GpuBatch& b) {
    for (size_t i = 0; i < b.size; ++i) {
      all.gpu.push_back({.start_ns = b.start_ns[i],
                         .duration_ns = b.duration_ns[i],
                         .kind = static_cast<GpuRowKind>(b.kind[i]),
                         .flags = b.flags[i],
                         .device = b.device[i],
                         .context = b.context[i],
                         .stream = b.stream[i],
                         .correlation = b.correlation[i],
                         .name = b.name[i],
                         .graph_id = b.graph_id[i],
                         .graph_node_id = b.graph_node_id[i],
                         .bytes = b.bytes[i],
                         .copy_kind = b.copy_kind[i],
                         .source_kind = b.source_kind[i],
                         .destination_kind = b.destination_kind[i],
                         .source_device = b.source_device[i],
                         .destination_device = b.destination_device[i],
                         .queued_ns = b.queued_ns[i],
                         .submitted_ns = b.submitted_ns[i],
                         .grid = {b.grid_x[i], b.grid_y[i], b.grid_z[i]},
                         .block = {b.block_x[i], b.block_y[i], b.block_z[i]},
                         .cluster = {b.cluster_x[i], b.cluster_y[i], b.cluster_z[i]},
                         .registers_per_thread = b.registers_per_thread[i],
                         .static_shared_bytes = b.static_shared_bytes[i],
                         .dynamic_shared_bytes = b.dynamic_shared_bytes[i],
                         .local_bytes_per_thread = b.local_bytes_per_thread[i]});
    }
    return absl::OkStatus();
  }));
  RETURN_IF_ERROR(reader.ForEachSync({}, [&](const SyncBatch& batch) {
    for (size_t i = 0; i < batch.size; ++i) {
      all.syncs.push_back({batch.start_ns[i], batch.duration_ns[i], batch.kind[i], batch.device[i],
                           batch.context[i], batch.stream[i], batch.correlation[i],
                           batch.event_id[i]});
    }
    return absl::OkStatus();
  }));
  RETURN_IF_ERROR(reader.ForEachOverhead({}, [&](const OverheadBatch& batch) {
    for (size_t i = 0; i < batch.size; ++i) {
      all.overheads.push_back({batch.start_ns[i], batch.duration_ns[i], batch.kind[i],
                               batch.os_thread[i], batch.correlation[i]});
    }
    return absl::OkStatus();
  }));
  RETURN_IF_ERROR(reader.ForEachCudaEvent([&](const CudaEventBatch& batch) {
    for (size_t i = 0; i < batch.size; ++i) {
      all.cuda_events.push_back(
          {batch.correlation[i], batch.context[i], batch.stream[i], batch.event_id[i]});
    }
    return absl::OkStatus();
  }));
  RETURN_IF_ERROR(reader.ForEachOperator({}, [&](const OperatorBatch& b) {
    for (size_t i = 0; i < b.size; ++i) {
      Of(all.operators, b.thread)
          .push_back({b.start_ns[i], b.depth[i], b.scope[i], b.sequence[i], b.forward_thread[i],
                      b.torch_thread[i], b.inputs[i], b.scalars[i]});
    }
    return absl::OkStatus();
  }));
  RETURN_IF_ERROR(reader.ForEachTensorUse({}, [&](const TensorUseBatch& b) {
    for (size_t i = 0; i < b.size; ++i) {
      Of(all.tensor_uses, b.thread)
          .push_back({b.time_ns[i], b.address[i], b.depth[i], b.scope[i], b.input[i]});
    }
    return absl::OkStatus();
  }));
  RETURN_IF_ERROR(reader.ForEachNote([&](const NoteBatch& b) {
    for (size_t i = 0; i < b.size; ++i) {
      Of(all.notes, b.thread)
          .push_back({b.time_ns[i], b.kind[i], b.subject[i], b.text[i], b.value[i]});
    }
    return absl::OkStatus();
  }));
  RETURN_IF_ERROR(reader.ForEachBlock([&](const BlockBatch& b) {
    for (size_t i = 0; i < b.size; ++i) {
      all.blocks.push_back({b.address[i], b.bytes[i], b.name[i], b.category[i], b.device_type[i],
                            b.device_index[i]});
    }
    return absl::OkStatus();
  }));
  RETURN_IF_ERROR(reader.ForEachArgument([&](const ArgumentBatch& b) {
    for (size_t i = 0; i < b.size; ++i) {
      all.arguments.push_back({b.of[i], b.of_thread[i], b.row[i], b.key[i],
                               static_cast<ArgumentType>(b.type[i]), b.value[i]});
    }
    return absl::OkStatus();
  }));
  RETURN_IF_ERROR(reader.ForEachGpuAnnotation([&](const GpuAnnotationBatch& b) {
    for (size_t i = 0; i < b.size; ++i) {
      all.gpu_annotations.push_back(
          {b.start_ns[i], b.duration_ns[i], b.name[i], b.device[i], b.stream[i], b.external_id[i]});
    }
    return absl::OkStatus();
  }));
  return all;
}

}  // namespace profd::store
