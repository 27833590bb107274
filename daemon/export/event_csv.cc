#include "daemon/export/event_csv.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/base/csv.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/capture/event_kinds.h"
#include "daemon/export/trace/shown_arguments.h"
#include "daemon/report/index/gpu_names.h"
#include "daemon/report/index/overlaps.h"
#include "daemon/report/index/wide_streams.h"
#include "daemon/report/memory/category_levels.h"
#include "daemon/report/memory/tracker.h"
#include "proto/wire/event.h"

namespace profd::exporter {
namespace {

enum class Column : uint8_t {
  kKind,
  kStart,
  kDuration,
  kThread,
  kThreadName,
  kName,
  kDepth,
  kDevice,
  kContext,
  kStream,
  kCorrelation,
  kBytes,
  kValue,
  kAddress,
  kTotalAllocated,
  kTotalReserved,
  kCategory,
  kArguments,
};
constexpr std::array<std::string_view, 18> kColumnNames = {"kind",
                                                           "start_ns",
                                                           "duration_ns",
                                                           "thread",
                                                           "thread_name",
                                                           "name",
                                                           "depth",
                                                           "device",
                                                           "context",
                                                           "stream",
                                                           "correlation",
                                                           "bytes",
                                                           "value",
                                                           "address",
                                                           "total_allocated_bytes",
                                                           "total_reserved_bytes",
                                                           "category",
                                                           "arguments"};

class CsvWriter {
 public:
  CsvWriter(store::CaptureReader& reader, ShownArguments arguments,
            report::WideStreams wide_streams, OutputBuffer& out)
      : reader_(reader),
        arguments_(std::move(arguments)),
        wide_streams_(std::move(wide_streams)),
        out_(out),
        names_(reader.names()),
        cells_(names_.size()) {
    for (const store::ReaderThread& thread : reader.threads()) {
      thread_cells_.push_back({StrCat(thread.os_thread), CsvCell(thread.name)});
    }
  }

  absl::Status Write() {
    for (size_t i = 0; i < kColumnNames.size(); ++i) {
      out_.Append(i == 0 ? "" : ",");
      out_.Append(kColumnNames[i]);
    }
    // CSV's end of a line (RFC 4180).
    out_.Append("\r\n");
    for (const StepRecord& step : reader_.steps()) WriteStep(step);
    RETURN_IF_ERROR(WriteCpu());
    RETURN_IF_ERROR(WriteMemory());
    return WriteGpu();
  }

 private:
  struct ThreadCells {
    std::string number;
    std::string name;
  };

  // ---- one row ----

  std::string& Cell(Column column) { return row_[static_cast<size_t>(column)]; }
  template <typename T>
  void Set(Column column, T value) {
    Cell(column) = StrCat(value);
  }
  void SetName(uint32_t name) {
    std::string& cell = cells_[name];
    if (cell.empty()) cell = CsvCell(names_[name]);
    Cell(Column::kName) = cell;
  }
  void SetArguments(uint32_t range) {
    if (arguments_.empty()) return;
    const std::string members = arguments_.MembersOf(range, kMostArgumentBytes);
    if (!members.empty()) Cell(Column::kArguments) = CsvCell(StrCat("{", members, "}"));
  }
  void Begin(std::string_view kind, int64_t start_ns) {
    for (std::string& cell : row_) cell.clear();
    Cell(Column::kKind) = kind;
    Set(Column::kStart, start_ns);
  }
  void BeginOn(uint32_t thread, std::string_view kind, int64_t start_ns) {
    Begin(kind, start_ns);
    Cell(Column::kThread) = thread_cells_[thread].number;
    Cell(Column::kThreadName) = thread_cells_[thread].name;
  }
  void End() {
    line_.clear();
    for (size_t i = 0; i < row_.size(); ++i) {
      if (i > 0) line_.push_back(',');
      line_ += row_[i];
    }
    line_ += "\r\n";
    out_.Append(line_);
  }

  // ---- by kind ----

  void WriteStep(const StepRecord& step) {
    Begin("step", step.start_ns);
    Set(Column::kDuration, step.duration_ns);
    Set(Column::kValue, step.index);
    End();
  }

  absl::Status WriteCpu() {
    ASSIGN_OR_RETURN(report::RowDepths row_depths, report::RowDepths::Build(reader_));
    RETURN_IF_ERROR(reader_.ForEach<RangeRow>(
        kRangeStart | kRangeDuration | kRangeName | kRangeDepth | kRangeCategory, {},
        [&](const RangeBatch& batch) {
          const std::span<const uint16_t> depths = row_depths.Next(batch);
          for (size_t i = 0; i < batch.size; ++i) {
            BeginOn(batch.thread, RangeKind(batch.category[i]), batch.start_ns[i]);
            Set(Column::kDuration, batch.duration_ns[i]);
            SetName(batch.name[i]);
            Set(Column::kDepth, depths[i]);
            SetArguments(range_count_++);
            End();
          }
          return out_.status();
        }));
    RETURN_IF_ERROR(reader_.ForEach<InstantRow>([&](const InstantBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) {
        BeginOn(batch.thread, "instant", batch.time_ns[i]);
        SetName(batch.name[i]);
        End();
      }
      return out_.status();
    }));
    RETURN_IF_ERROR(reader_.ForEach<CounterRow>([&](const CounterBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) {
        BeginOn(batch.thread, "counter", batch.time_ns[i]);
        SetName(batch.name[i]);
        Cell(Column::kValue) = CsvNumber(batch.value[i]);
        End();
      }
      return out_.status();
    }));
    return reader_.ForEach<NoteRow>([&](const NoteBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) WriteNote(batch, i);
      return out_.status();
    });
  }

  void WriteNote(const NoteBatch& batch, size_t i) {
    BeginOn(batch.thread, "note", batch.time_ns[i]);
    if (batch.time_ns[i] == kNoNoteTime) Cell(Column::kStart).clear();
    const std::string& text = names_[batch.text[i]];
    Cell(Column::kName) = CsvCell(StrCat(names_[batch.subject[i]], text.empty() ? "" : ": ", text));
    Set(Column::kValue, batch.value[i]);
    End();
  }

  absl::Status WriteMemory() {
    return reader_.ForEach<MemoryRow>([&](const MemoryBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) {
        BeginOn(batch.thread, batch.is_free[i] != 0 ? "free" : "allocation", batch.time_ns[i]);
        Cell(Column::kDevice) =
            report::MemoryDeviceName({batch.device_type[i], batch.device_index[i]});
        Set(Column::kBytes, batch.bytes[i]);
        Set(Column::kAddress, batch.address[i]);
        if (batch.total_allocated_bytes[i] >= 0) {
          Set(Column::kTotalAllocated, batch.total_allocated_bytes[i]);
        }
        if (batch.total_reserved_bytes[i] >= 0) {
          Set(Column::kTotalReserved, batch.total_reserved_bytes[i]);
        }
        Cell(Column::kCategory) = report::CategoryName(batch.category[i]);
        End();
      }
      return out_.status();
    });
  }

  absl::Status WriteGpu() {
    RETURN_IF_ERROR(reader_.ForEach<ApiRow>([&](const ApiBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) {
        BeginOn(batch.thread, "api_call", batch.start_ns[i]);
        Set(Column::kDuration, batch.duration_ns[i]);
        SetName(batch.name[i]);
        Set(Column::kCorrelation, batch.correlation[i]);
        End();
      }
      return out_.status();
    }));
    RETURN_IF_ERROR(reader_.ForEach<GpuRow>(kGpuTime | kGpuWhat | kGpuWhere | kGpuCause | kGpuCopy,
                                            {}, [&](const GpuBatch& batch) {
                                              for (size_t i = 0; i < batch.size; ++i) {
                                                WriteWork(batch, i);
                                              }
                                              return out_.status();
                                            }));
    RETURN_IF_ERROR(reader_.ForEach<SyncRow>([&](const SyncBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) WriteSync(batch, i);
      return out_.status();
    }));
    return reader_.ForEach<OverheadRow>([&](const OverheadBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) {
        Begin("overhead", batch.start_ns[i]);
        Set(Column::kDuration, batch.duration_ns[i]);
        if (batch.os_thread[i] != 0) Set(Column::kThread, batch.os_thread[i]);
        Cell(Column::kName) = CsvCell(report::OverheadName(batch.kind[i]));
        End();
      }
      return out_.status();
    });
  }

  void WriteWork(const GpuBatch& batch, size_t i) {
    const auto kind = static_cast<GpuRowKind>(batch.kind[i]);
    Begin(GpuKindOf(kind).name, batch.start_ns[i]);
    Set(Column::kDuration, batch.duration_ns[i]);
    Set(Column::kDevice, batch.device[i]);
    Set(Column::kContext, batch.context[i]);
    Set(Column::kStream, wide_streams_.NumberOf(batch.stream[i]));
    Set(Column::kCorrelation, batch.correlation[i]);
    if (kind == GpuRowKind::kKernel) {
      SetName(batch.name[i]);
    } else if (IsMemoryWork(kind)) {
      Cell(Column::kName) = CsvCell(report::WorkName(kind, batch.copy_kind[i], batch.source_kind[i],
                                                     batch.destination_kind[i]));
      Set(Column::kBytes, batch.bytes[i]);
    }
    End();
  }

  void WriteSync(const SyncBatch& batch, size_t i) {
    Begin("sync", batch.start_ns[i]);
    Set(Column::kDuration, batch.duration_ns[i]);
    Cell(Column::kName) = CsvCell(report::SyncName(batch.kind[i]));
    if (batch.device[i] != kNoGpuDevice) Set(Column::kDevice, batch.device[i]);
    Set(Column::kContext, batch.context[i]);
    if (batch.stream[i] != wire::kNoStream) {
      Set(Column::kStream, wide_streams_.NumberOf(batch.stream[i]));
    }
    Set(Column::kCorrelation, batch.correlation[i]);
    End();
  }

  static std::string_view RangeKind(uint8_t category) {
    if (category == static_cast<uint8_t>(wire::RangeCategory::kOperator)) return "operator";
    if (category == static_cast<uint8_t>(wire::RangeCategory::kPython)) return "python_function";
    return "range";
  }

  static constexpr size_t kMostArgumentBytes = size_t{18} << 10;

  store::CaptureReader& reader_;
  const ShownArguments arguments_;
  const report::WideStreams wide_streams_;
  uint32_t range_count_ = 0;
  OutputBuffer& out_;
  const std::span<const std::string> names_;
  std::vector<std::string> cells_;  // By name; empty: not asked for yet.
  std::vector<ThreadCells> thread_cells_;
  std::array<std::string, kColumnNames.size()> row_;
  std::string line_;
};

}  // namespace

absl::Status WriteEventCsv(store::CaptureReader& reader, OutputBuffer& out) {
  ASSIGN_OR_RETURN(report::RangeArguments arguments, report::RangeArguments::Read(reader));
  ASSIGN_OR_RETURN(report::WideStreams wide_streams, report::WideStreams::Read(reader));
  return CsvWriter(reader, ShownArguments(std::move(arguments)), std::move(wide_streams), out)
      .Write();
}

}  // namespace profd::exporter
