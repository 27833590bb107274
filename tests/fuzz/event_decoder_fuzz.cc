// Bytes as chunks of a capture's memory, whatever their order, windows and names; what comes
// out must keep the sink's contract.
#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "daemon/ingest/decode/event_decoder.h"
#include "proto/wire/event.h"
#include "tests/fuzz/fuzz_target.h"

namespace profd {
namespace {

constexpr uint64_t kEpoch = 5'000'000'000'000;

// Traps on a row that no reader may meet.
class StrictSink final : public CaptureSink {
 public:
  absl::Status AddName(uint32_t id, std::string_view name) override {
    Require(id == ++name_count_ && id <= wire::kMaxNames && name.size() <= wire::kMaxNameBytes);
    return absl::OkStatus();
  }
  absl::Status AddThread(const ThreadRow& thread) override {
    last_end_.resize(std::max<size_t>(last_end_.size(), thread.index + 1), INT64_MIN);
    return absl::OkStatus();
  }
  absl::Status AddInputs(uint32_t id, const OperatorInputs& inputs) override {
    Require(id == ++inputs_count_ && id <= kMaxOperatorInputs);
    for (const std::string& text : {inputs.dims, inputs.types}) Require(IsList(text));
    Require(inputs.strides.empty() || IsList(inputs.strides));
    return absl::OkStatus();
  }
  absl::Status AddScalars(uint32_t id, std::string_view scalars) override {
    Require(id == ++scalars_count_ && id <= kMaxOperatorInputs && IsList(scalars));
    return absl::OkStatus();
  }
  absl::Status AppendRows(const EventRows& rows) override {
    rows.Visit([&](auto of_kind) { Take(rows.thread(), of_kind); });
    return absl::OkStatus();
  }
  int64_t approx_bytes() const override { return 0; }

 private:
  void Take(uint32_t thread, std::span<const RangeRow> rows) {
    Require(thread < last_end_.size() && !rows.empty());
    for (const RangeRow& row : rows) {
      Require(row.duration_ns >= 0 && row.depth < wire::kMaxRangeDepth && row.category <= 1);
      Require(row.name >= 1 && row.name <= name_count_);
      Require(row.start_ns + row.duration_ns >= last_end_[thread]);
      last_end_[thread] = row.start_ns + row.duration_ns;
    }
  }
  void Take(uint32_t thread, std::span<const InstantRow> rows) {
    Require(thread < last_end_.size());
    for (const InstantRow& row : rows) Require(row.name >= 1 && row.name <= name_count_);
  }
  void Take(uint32_t thread, std::span<const CounterRow> rows) {
    Require(thread < last_end_.size());
    for (const CounterRow& row : rows) Require(row.name >= 1 && row.name <= name_count_);
  }
  void Take(uint32_t thread, std::span<const MemoryRow> rows) {
    Require(thread < last_end_.size());
    int64_t last_ns = INT64_MIN;
    for (const MemoryRow& row : rows) {
      // Those of the driver and its pools come all at once.
      if (row.device_type > 1) Require(row.time_ns >= last_ns);
      last_ns = row.time_ns;
      Require(row.bytes >= 0 && row.total_allocated_bytes >= -1 && row.device_index >= 0 &&
              row.category <= wire::kMaxMemoryCategory);
    }
  }
  void Take(uint32_t thread, std::span<const StepRow> rows) {
    Require(thread < last_end_.size());
    for (const StepRow& row : rows) {
      Require(row.step > last_step_);
      last_step_ = row.step;
    }
  }
  void Take(uint32_t thread, std::span<const ApiRow> rows) {
    Require(thread < last_end_.size() && !rows.empty());
    for (const ApiRow& row : rows) {
      Require(row.duration_ns >= 0 && row.name >= 1 && row.name <= name_count_);
    }
  }
  void Take(uint32_t, std::span<const GpuRow> rows) {
    for (const GpuRow& row : rows) {
      Require(row.duration_ns >= 0 && row.device != kNoGpuDevice && row.name <= name_count_);
      Require((row.name != 0) == (row.kind == GpuRowKind::kKernel));
      Require(std::ranges::count(kGpuKinds, row.kind, &GpuKind::kind) == 1);
      Require((row.flags & 0xc0) == 0);
      Require(row.queued_ns == kNoGpuTime || row.queued_ns <= row.start_ns);
    }
  }
  void Take(uint32_t, std::span<const SyncRow> rows) {
    for (const SyncRow& row : rows) Require(row.duration_ns >= 0);
  }
  void Take(uint32_t, std::span<const OverheadRow> rows) {
    for (const OverheadRow& row : rows) Require(row.duration_ns >= 0);
  }
  void Take(uint32_t, std::span<const CudaEventRow> rows) { Require(!rows.empty()); }
  void Take(uint32_t thread, std::span<const OperatorRow> rows) {
    Require(thread < last_end_.size() && !rows.empty());
    for (const OperatorRow& row : rows) {
      Require(row.depth < wire::kMaxRangeDepth && row.scope <= wire::kMaxOperatorScope);
      Require(row.sequence >= -1);
      Require(row.inputs <= inputs_count_ && row.scalars <= scalars_count_);
      Require(row.stack <= stack_count_);
    }
  }
  void Take(uint32_t thread, std::span<const TensorUseRow> rows) {
    Require(thread < last_end_.size());
    for (const TensorUseRow& row : rows) Require(row.depth < wire::kMaxRangeDepth);
  }
  void Take(uint32_t thread, std::span<const NoteRow> rows) {
    Require(thread < last_end_.size());
    for (const NoteRow& row : rows) {
      Require(row.kind >= 1 && row.kind <= wire::kMaxNoteKind);
      Require(row.subject <= name_count_ && row.text <= name_count_);
    }
  }
  void Take(uint32_t, std::span<const BlockRow> rows) {
    for (const BlockRow& row : rows) {
      Require(row.bytes >= 0 && row.name <= name_count_ && row.device_index >= 0);
      Require(row.device_type <= 1 && row.category <= wire::kMaxMemoryCategory);
    }
  }
  void Take(uint32_t, std::span<const StackRow> rows) {
    for (const StackRow& row : rows) {
      Require(row.caller <= stack_count_ && row.file >= 1 && row.file <= name_count_);
      Require(row.function >= 1 && row.function <= name_count_ && row.class_name <= name_count_);
      ++stack_count_;
    }
  }
  void Take(uint32_t, std::span<const ModuleRow> rows) {
    for (const ModuleRow& row : rows) {
      Require(row.address != 0 && row.root != 0 && row.path <= name_count_);
      Require(row.class_name >= 1 && row.class_name <= name_count_);
    }
  }
  // Kinds that only imports have.
  template <typename Row>
  void Take(uint32_t, std::span<const Row>) {
    Require(false);
  }

  // Brackets in pairs, outside of what is quoted.
  static bool IsList(std::string_view text) {
    int depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < text.size(); ++i) {
      if (quoted && text[i] == '\\') {
        ++i;
      } else if (text[i] == '"') {
        quoted = !quoted;
      } else if (!quoted) {
        depth += text[i] == '[' ? 1 : text[i] == ']' ? -1 : 0;
        if (depth <= 0 && i + 1 < text.size()) return false;
      }
    }
    return depth == 0 && !quoted && text.size() >= 2 && text.front() == '[';
  }

  uint32_t name_count_ = 0;
  uint32_t inputs_count_ = 0;
  uint32_t scalars_count_ = 0;
  uint32_t stack_count_ = 0;
  int64_t last_step_ = -1;
  std::vector<int64_t> last_end_;  // By thread.
};

// Ids below 32 have names, every fourth the same one.
class SomeNames final : public NameReader {
 public:
  bool ReadName(uint32_t id, std::string& name) const override {
    name = std::to_string(id % 4 == 0 ? 0 : id);
    return id < 32;
  }
};

}  // namespace
}  // namespace profd

// Bytes 0 to 7: the edges of two windows, in microseconds behind the epoch, the lowest bits of
// the first also what of the GPU and of PyTorch is recorded; then chunks: how many 8-byte words of
// it (two bytes), window, serial, depth, and the words. A time is three bytes behind the epoch
// where the words leave its upper ones zero: in the second word of every record.
PROFD_FUZZ_TARGET(FuzzEventDecoder)(std::span<const uint8_t> data) {
  constexpr size_t kEdgeBytes = 8;
  constexpr size_t kChunkHeadBytes = 5;
  if (data.size() < kEdgeBytes) return;
  std::array<uint16_t, 4> edges;
  std::memcpy(edges.data(), data.data(), kEdgeBytes);
  data = data.subspan(kEdgeBytes);
  constexpr std::array kModes = {profd::GpuMode::kOff, profd::GpuMode::kLight,
                                 profd::GpuMode::kDefault, profd::GpuMode::kFull};
  const profd::GpuMode gpu_mode = kModes[edges[0] % kModes.size()];
  const profd::TorchSpec torch = {
      .operators = edges[0] / 4 % 2 == 0 ? profd::OperatorMode::kAuto : profd::OperatorMode::kOff,
      .strides = edges[0] / 8 % 2 == 0};
  std::sort(edges.begin(), edges.end());
  const auto ticks = [](uint16_t microseconds) { return kEpoch + 1 + microseconds * 1000ull; };
  std::array<profd::WindowTicks, 2> windows = {
      {{ticks(edges[0]), ticks(edges[1])}, {ticks(edges[2]), ticks(edges[3])}}};

  profd::StrictSink sink;
  const profd::SomeNames names;
  profd::EventDecoder decoder(profd::TickLine({kEpoch, 0, 0}, 0.4), names, windows, sink, gpu_mode,
                              torch);
  alignas(64) static std::byte chunk[profd::wire::kChunkBytes];
  while (data.size() >= kChunkHeadBytes) {
    const size_t words =
        std::min<size_t>({data[0] | size_t{data[1]} << 8, profd::wire::kChunkDataBytes / 8,
                          (data.size() - kChunkHeadBytes) / 8});
    auto& header = *reinterpret_cast<profd::wire::ChunkHeader*>(chunk);
    header.window = data[2] % 3;
    header.thread_serial = data[3] % 4;
    header.os_thread = 7;
    header.open_depth = data[4] % 131;
    const std::byte* from = reinterpret_cast<const std::byte*>(data.data()) + kChunkHeadBytes;
    std::byte* to = chunk + profd::wire::kChunkDataOffset;
    const auto to_ticks = [](uint64_t word) { return word >> 24 == 0 ? word + kEpoch : word; };
    size_t record_begin = 0;
    size_t record_end = 0;
    for (size_t i = 0; i < words; ++i) {
      uint64_t word;
      std::memcpy(&word, from + i * 8, 8);
      if (i == record_end) {
        record_begin = i;
        record_end = i + std::max<size_t>(1, (word & 0xffff) / 8);
      }
      if (i == record_begin + 1) word = to_ticks(word);
      std::memcpy(to + i * 8, &word, 8);
    }
    // The stack of open ranges is the same bytes once more, each begun at a time.
    const size_t stack = std::min<size_t>(words * 8, sizeof(header.open_ranges));
    std::byte* open_ranges = chunk + offsetof(profd::wire::ChunkHeader, open_ranges);
    std::memcpy(open_ranges, from, stack);
    for (size_t at = 0; at + sizeof(profd::wire::OpenRange) <= stack;
         at += sizeof(profd::wire::OpenRange)) {
      uint64_t word;
      std::memcpy(&word, open_ranges + at, 8);
      word = to_ticks(word);
      std::memcpy(open_ranges + at, &word, 8);
    }
    decoder.Decode({.bytes = chunk,
                    .record_bytes = static_cast<uint32_t>(words * 8),
                    .copy_ticks = kEpoch + 100'000'000});
    data = data.subspan(kChunkHeadBytes + words * 8);
  }
  decoder.Finish();
  const profd::DecodeCounts& counts = decoder.counts();
  profd::Require(counts.event_count >= counts.open_range_count);
  profd::GpuRecord gpu;
  profd::DropCounts drops{};
  decoder.DescribeGpu(gpu, drops);
  profd::Require(counts.event_count >= gpu.orphan_count);
  for (const int64_t count : drops) profd::Require(count >= 0);
  profd::TorchRecord record;
  decoder.DescribeTorch(record);
  profd::Require(record.operator_count <= counts.event_count && record.lost_note_count >= 0);
}
