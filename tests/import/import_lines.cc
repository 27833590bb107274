#include <algorithm>
#include <deque>
#include <map>
#include <tuple>

#include "daemon/base/status_macros.h"
#include "proto/wire/event.h"
#include "tests/import/import_fixture.h"

namespace profd::importer {
namespace {

class Lines {
 public:
  explicit Lines(store::CaptureReader& reader) : reader_(reader) {}

  absl::Status Read() {
    RETURN_IF_ERROR(ReadRanges());
    RETURN_IF_ERROR(ReadGpu());
    return ReadOthers();
  }
  std::vector<std::string> Take() {
    std::sort(lines_.begin(), lines_.end());
    return std::move(lines_);
  }

 private:
  std::string Of(uint32_t thread) const {
    return StrCat(" ", reader_.threads()[thread].os_thread, ": ");
  }
  const std::string& Name(uint32_t name) const { return reader_.names()[name]; }

  absl::Status ReadRanges() {
    // Operators come in the order of their ranges; some that take no time share start and depth.
    std::map<std::tuple<uint32_t, int64_t, uint16_t>, std::deque<uint32_t>> names;
    RETURN_IF_ERROR(reader_.ForEach<RangeRow>(kRangeAllColumns, {}, [&](const RangeBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) {
        if (batch.category[i] == static_cast<uint8_t>(wire::RangeCategory::kOperator)) {
          names[{batch.thread, batch.start_ns[i], batch.depth[i]}].push_back(batch.name[i]);
        }
        lines_.push_back(StrCat("range", Of(batch.thread), Name(batch.name[i]), " ",
                                batch.start_ns[i], " ", batch.duration_ns[i], " depth ",
                                batch.depth[i], " cat ", int{batch.category[i]}, " flags ",
                                int{batch.flags[i]}));
      }
      return absl::OkStatus();
    }));
    return reader_.ForEach<OperatorRow>([&](const OperatorBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) {
        const OperatorInputs& inputs = reader_.inputs()[batch.inputs[i]];
        std::deque<uint32_t>& waiting = names[{batch.thread, batch.start_ns[i], batch.depth[i]}];
        const bool is_users =
            batch.scope[i] == static_cast<uint8_t>(wire::OperatorScope::kUserScope);
        if (waiting.empty() && !is_users) return absl::DataLossError("an operator without a range");
        const std::string name = is_users ? "(of the program)" : Name(waiting.front());
        if (!is_users) waiting.pop_front();
        lines_.push_back(StrCat("operator", Of(batch.thread), name, " ", batch.start_ns[i], " ",
                                batch.depth[i], " seq ", batch.sequence[i], " fwd ",
                                batch.forward_thread[i], " ", inputs.dims, " ", inputs.types, " ",
                                inputs.strides, " ", reader_.scalars()[batch.scalars[i]]));
      }
      return absl::OkStatus();
    });
  }

  absl::Status ReadGpu() {
    RETURN_IF_ERROR(reader_.ForEach<ApiRow>([&](const ApiBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) {
        lines_.push_back(StrCat("api", Of(batch.thread), Name(batch.name[i]), " ",
                                batch.start_ns[i], " ", batch.duration_ns[i], " corr ",
                                batch.correlation[i], " cbid ", batch.cbid[i], " driver ",
                                int{batch.is_driver[i]}, " result ", batch.result[i]));
      }
      return absl::OkStatus();
    }));
    return reader_.ForEach<GpuRow>(kGpuAllColumns, {}, [&](const GpuBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) {
        std::string line =
            StrCat("gpu kind ", int{batch.kind[i]}, " ", Name(batch.name[i]), " ",
                   batch.start_ns[i], " ", batch.duration_ns[i], " dev ", batch.device[i], " ctx ",
                   batch.context[i], " stream ", batch.stream[i], " corr ", batch.correlation[i]);
        StrAppend(&line, " flags ", int{batch.flags[i]} & ~kGpuOrphan, " graph ", batch.graph_id[i],
                  "/", batch.graph_node_id[i], " bytes ", batch.bytes[i], " kinds ",
                  int{batch.copy_kind[i]}, ",", int{batch.source_kind[i]}, ",",
                  int{batch.destination_kind[i]});
        StrAppend(&line, " grid ", batch.grid[0][i], ",", batch.grid[1][i], ",", batch.grid[2][i],
                  " block ", batch.block[0][i], ",", batch.block[1][i], ",", batch.block[2][i],
                  " regs ", batch.registers_per_thread[i], " shared ",
                  batch.static_shared_bytes[i] + batch.dynamic_shared_bytes[i]);
        lines_.push_back(std::move(line));
      }
      return absl::OkStatus();
    });
  }

  absl::Status ReadOthers() {
    RETURN_IF_ERROR(reader_.ForEach<SyncRow>([&](const SyncBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) {
        lines_.push_back(StrCat("sync ", batch.kind[i], " ", batch.start_ns[i], " ",
                                batch.duration_ns[i], " dev ", batch.device[i], " ctx ",
                                batch.context[i], " stream ", batch.stream[i], " corr ",
                                batch.correlation[i], " event ", batch.event_id[i]));
      }
      return absl::OkStatus();
    }));
    RETURN_IF_ERROR(reader_.ForEach<OverheadRow>([&](const OverheadBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) {
        lines_.push_back(
            StrCat("overhead ", batch.kind[i], " ", batch.start_ns[i], " ", batch.duration_ns[i]));
      }
      return absl::OkStatus();
    }));
    RETURN_IF_ERROR(reader_.ForEach<MemoryRow>([&](const MemoryBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) {
        lines_.push_back(StrCat("memory", Of(batch.thread), batch.time_ns[i], " ", batch.address[i],
                                " ", batch.bytes[i], " ", batch.total_allocated_bytes[i], " ",
                                batch.total_reserved_bytes[i], " dev ", int{batch.device_type[i]},
                                ":", batch.device_index[i], " free ", int{batch.is_free[i]}));
      }
      return absl::OkStatus();
    }));
    RETURN_IF_ERROR(reader_.ForEach<InstantRow>([&](const InstantBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) {
        lines_.push_back(
            StrCat("instant", Of(batch.thread), Name(batch.name[i]), " ", batch.time_ns[i]));
      }
      return absl::OkStatus();
    }));
    RETURN_IF_ERROR(reader_.ForEach<CounterRow>([&](const CounterBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) {
        lines_.push_back(StrCat("counter", Of(batch.thread), Name(batch.name[i]), " ",
                                batch.time_ns[i], " ", batch.value[i]));
      }
      return absl::OkStatus();
    }));
    RETURN_IF_ERROR(reader_.ForEach<NoteRow>([&](const NoteBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) {
        lines_.push_back(StrCat("note", Of(batch.thread), batch.kind[i], " ",
                                Name(batch.subject[i]), " ", Name(batch.text[i]), " ",
                                batch.value[i], " ", batch.time_ns[i]));
      }
      return absl::OkStatus();
    }));
    for (const StepRecord& step : reader_.steps()) {
      lines_.push_back(StrCat("step ", step.index, " ", step.start_ns, " ", step.duration_ns));
    }
    return absl::OkStatus();
  }

  store::CaptureReader& reader_;
  std::vector<std::string> lines_;
};

}  // namespace

std::vector<std::string> LinesOf(store::CaptureReader& reader) {
  Lines lines(reader);
  EXPECT_THAT(lines.Read(), IsOk());
  return lines.Take();
}

}  // namespace profd::importer
