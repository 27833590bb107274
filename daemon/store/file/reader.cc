#include "daemon/store/file/reader.h"

#include <sqlite3.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/watchdog.h"

namespace profd::store {
namespace {

constexpr uint32_t Bit(uint32_t column) { return 1u << column; }

absl::Status DamagedCapture(std::string_view what) {
  return absl::DataLossError(StrCat("damaged capture file: ", what));
}

template <typename T>
bool AllBelow(const std::vector<T>& values, size_t bound) {
  T largest = 0;
  for (const T value : values) largest = std::max(largest, value);
  return largest < bound;
}
bool AllWithin(const std::vector<int64_t>& values, int64_t lowest, int64_t highest) {
  int64_t low = highest;
  int64_t high = lowest;
  for (const int64_t value : values) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  return low >= lowest && high <= highest;
}
bool AreTimes(const std::vector<int64_t>& values) {
  return AllWithin(values, -kMaxTimeNs, kMaxTimeNs);
}

constexpr int64_t kAnyCount = std::numeric_limits<int64_t>::max();

uint32_t WantedRangeColumns(uint32_t columns) {
  uint32_t wanted = Bit(RangeTable::kThread);
  if (columns & kRangeStart) wanted |= Bit(RangeTable::kEnd) | Bit(RangeTable::kDuration);
  if (columns & kRangeDuration) wanted |= Bit(RangeTable::kDuration);
  if (columns & kRangeName) wanted |= Bit(RangeTable::kName);
  if (columns & kRangeDepth) wanted |= Bit(RangeTable::kDepth);
  if (columns & kRangeCategory) wanted |= Bit(RangeTable::kCategory);
  if (columns & kRangeFlags) wanted |= Bit(RangeTable::kFlags);
  return wanted;
}

uint32_t WantedGpuColumns(uint32_t columns) {
  const auto group = [columns](uint32_t bit, uint32_t first, uint32_t last) {
    return (columns & bit) == 0 ? 0 : (Bit(last) - Bit(first)) | Bit(last);
  };
  uint32_t wanted = group(kGpuTime, GpuTable::kStart, GpuTable::kDuration) |
                    group(kGpuWhat, GpuTable::kRowKind, GpuTable::kBytes) |
                    group(kGpuWhere, GpuTable::kDevice, GpuTable::kStream) |
                    group(kGpuCause, GpuTable::kCorrelation, GpuTable::kGraphNode) |
                    group(kGpuCopy, GpuTable::kCopyKind, GpuTable::kDestinationDevice) |
                    group(kGpuLaunch, GpuTable::kQueuedLead, GpuTable::kLocal);
  // Leads count back from the start.
  if (columns & kGpuLaunch) wanted |= Bit(GpuTable::kStart);
  return wanted != 0 ? wanted : Bit(GpuTable::kRowKind);
}

constexpr uint32_t kAllColumns = ~0u;

template <typename Table>
uint32_t KnownColumns() {
  return kAllColumns >> (kMaxChunkColumns - std::size(Table::kTransforms));
}

// Rows [begin, end) of a column; empty if it was not asked for.
template <typename T>
std::span<const T> Rows(const std::vector<T>& column, size_t begin, size_t end) {
  return std::span(column).subspan(begin, end - begin);
}
template <typename T>
std::span<const T> RowsIf(bool wanted, const std::vector<T>& column, size_t begin, size_t end) {
  return wanted ? Rows(column, begin, end) : std::span<const T>();
}

// Whether starts, and starts plus durations, are times that a file may hold.
bool AreSpans(const std::vector<int64_t>& starts, const std::vector<int64_t>& durations) {
  if (!AreTimes(starts) || !AllWithin(durations, 0, kMaxTimeNs)) return false;
  bool valid = true;
  for (size_t i = 0; i < starts.size(); ++i) valid &= starts[i] + durations[i] <= kMaxTimeNs;
  return valid;
}

// `times` become times since the capture's start.
void Rebase(std::vector<int64_t>& times, int64_t offset_ns) {
  for (int64_t& time : times) time -= offset_ns;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CaptureReader>> CaptureReader::Open(
    const std::filesystem::path& path) {
  return CaptureFileReader::Open(path, CaptureFileReader::Accept::kSealed);
}
absl::StatusOr<std::unique_ptr<CaptureReader>> CaptureReader::Open(std::unique_ptr<ByteFile> file,
                                                                   std::string_view name) {
  return CaptureFileReader::OpenBytes(std::move(file), name);
}

CaptureFileReader::CaptureFileReader(std::unique_ptr<Database> db, CaptureContents contents)
    : db_(std::move(db)), contents_(std::move(contents)) {}
CaptureFileReader::~CaptureFileReader() { sqlite3_blob_close(blob_); }

absl::StatusOr<std::unique_ptr<CaptureFileReader>> CaptureFileReader::Open(
    const std::filesystem::path& path, Accept accept) {
  RETURN_IF_ERROR(CheckCaptureFileHeader(path));
  ASSIGN_OR_RETURN(auto db, Database::Open(path, Database::Mode::kImmutableUntrusted));
  ASSIGN_OR_RETURN(auto reader, Load(std::move(db), accept));
  struct stat info;
  if (stat(path.c_str(), &info) == 0) reader->contents_.record.file_bytes = info.st_size;
  return reader;
}

absl::StatusOr<std::unique_ptr<CaptureFileReader>> CaptureFileReader::OpenDescriptor(
    int descriptor) {
  RETURN_IF_ERROR(CheckCaptureFileHeader(descriptor, "the capture file"));
  ASSIGN_OR_RETURN(auto db, Database::OpenDescriptor(descriptor));
  ASSIGN_OR_RETURN(auto reader, Load(std::move(db), Accept::kSealed));
  struct stat info;
  if (fstat(descriptor, &info) == 0) reader->contents_.record.file_bytes = info.st_size;
  return reader;
}

absl::StatusOr<std::unique_ptr<CaptureFileReader>> CaptureFileReader::OpenBytes(
    std::unique_ptr<ByteFile> file, std::string_view name) {
  RETURN_IF_ERROR(CheckCaptureFileHeader(*file, name));
  ASSIGN_OR_RETURN(const int64_t file_bytes, file->Size());
  ASSIGN_OR_RETURN(auto db, Database::OpenBytes(std::move(file)));
  ASSIGN_OR_RETURN(auto reader, Load(std::move(db), Accept::kSealed));
  reader->contents_.record.file_bytes = file_bytes;
  return reader;
}

absl::StatusOr<std::unique_ptr<CaptureFileReader>> CaptureFileReader::Load(
    std::unique_ptr<Database> db, Accept accept) {
  RETURN_IF_ERROR(CheckCaptureSchema(*db));
  ASSIGN_OR_RETURN(CaptureContents contents, CaptureContents::Load(*db));
  if (accept == Accept::kSealed && !contents.sealed) {
    return absl::DataLossError(StrCat(db->path().string(),
                                      " is an unfinished capture; the profd that recorded it "
                                      "finishes it when it is started again"));
  }
  return std::unique_ptr<CaptureFileReader>(
      new CaptureFileReader(std::move(db), std::move(contents)));
}

absl::Status CaptureFileReader::OpenBlob(int64_t chunk) {
  const int code = blob_ == nullptr ? sqlite3_blob_open(db_->handle(), "main", "chunks", "data",
                                                        chunk, 0, &blob_)
                                    : sqlite3_blob_reopen(blob_, chunk);
  if (code == SQLITE_OK) return absl::OkStatus();
  absl::Status status = SqliteStatus(db_->handle(), code, "reading a chunk");
  // After a failed reopen the handle is of no more use.
  sqlite3_blob_close(std::exchange(blob_, nullptr));
  // The directory speaks of a chunk that is not there, or not a blob.
  return code == SQLITE_ERROR ? DamagedCapture("a chunk is missing") : status;
}

absl::Status CaptureFileReader::ReadBlob(size_t offset, size_t size, std::vector<char>& out) {
  if (out.size() < size) out.resize(size);
  const int code =
      sqlite3_blob_read(blob_, out.data(), static_cast<int>(size), static_cast<int>(offset));
  if (code != SQLITE_OK) return SqliteStatus(db_->handle(), code, "reading a chunk");
  return absl::OkStatus();
}

absl::StatusOr<ChunkLayout> CaptureFileReader::OpenChunk(const ChunkEntry& entry) {
  RETURN_IF_ERROR(OpenBlob(entry.id));
  const auto chunk_bytes = static_cast<size_t>(sqlite3_blob_bytes(blob_));
  const size_t prefix_bytes = std::min(chunk_bytes, kMaxChunkPrefixBytes);
  RETURN_IF_ERROR(ReadBlob(0, prefix_bytes, bytes_));
  ASSIGN_OR_RETURN(const ChunkLayout layout,
                   ChunkLayout::Parse({bytes_.data(), prefix_bytes}, chunk_bytes));
  const ChunkSummary& found = layout.summary;
  const ChunkSummary& told = entry.summary;
  if (found.kind != told.kind || found.rows != told.rows ||
      found.span.begin_ns != told.span.begin_ns || found.span.end_ns != told.span.end_ns) {
    return DamagedCapture("a chunk is not the one its directory tells of");
  }
  return layout;
}

absl::Status CaptureFileReader::CheckHeap() const {
  const HeapLimit* scoped = ScopedHeapLimit::Current();
  return scoped != nullptr ? scoped->Check() : absl::OkStatus();
}

template <typename Table>
absl::Status CaptureFileReader::LoadChunk(const ChunkEntry& entry, uint32_t wanted, Table& table) {
  ReportProgress();
  ASSIGN_OR_RETURN(const ChunkLayout layout, OpenChunk(entry));
  // Between the first and the last wanted column, in one piece.
  const auto first = static_cast<size_t>(std::countr_zero(wanted));
  const auto last = static_cast<size_t>(std::bit_width(wanted)) - 1;
  if (last >= layout.column_count) return DamagedCapture("a chunk lacks a column");
  const size_t begin = layout.offsets[first];
  const size_t size = layout.offsets[last + 1] - begin;
  RETURN_IF_ERROR(ReadBlob(begin, size, bytes_));
  return DecodeChunk(layout, wanted, {bytes_.data(), size}, begin, decoder_, table);
}

template <typename Table, typename Prepare, typename Emit>
absl::Status CaptureFileReader::Scan(uint32_t wanted, const TimeFilter& filter, Prepare prepare,
                                     Emit emit) {
  Table table;
  for (const ChunkEntry& entry : contents_.chunks) {
    if (entry.summary.kind != Table::kKind) continue;
    const int64_t begin_ns = entry.summary.span.begin_ns - contents_.epoch_offset_ns;
    const int64_t end_ns = entry.summary.span.end_ns - contents_.epoch_offset_ns;
    if (begin_ns >= filter.end_ns || end_ns < filter.begin_ns) continue;
    RETURN_IF_ERROR(CheckHeap());
    RETURN_IF_ERROR(LoadChunk(entry, wanted & KnownColumns<Table>(), table));
    if constexpr (!kHasThreads<Table>) {
      RETURN_IF_ERROR(prepare(table));
      RETURN_IF_ERROR(emit(table, 0u, size_t{0}, size_t{entry.summary.rows}));
    } else {
      if (!AllBelow(table.thread, contents_.threads.size()))
        return DamagedCapture("unknown thread");
      RETURN_IF_ERROR(prepare(table));
      const std::vector<uint32_t>& threads = table.thread;
      for (size_t begin = 0; begin < threads.size();) {
        const uint32_t thread = threads[begin];
        size_t end = begin + 1;
        while (end < threads.size() && threads[end] == thread) ++end;
        RETURN_IF_ERROR(emit(table, thread, begin, end));
        begin = end;
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CaptureFileReader::ForEachRange(
    uint32_t columns, const TimeFilter& filter,
    absl::FunctionRef<absl::Status(const RangeBatch&)> fn) {
  const uint32_t wanted = WantedRangeColumns(columns);
  const bool with_start = (columns & kRangeStart) != 0;
  std::vector<int64_t> starts;
  const auto prepare = [&](RangeTable& table) -> absl::Status {
    if (!AllBelow(table.name, contents_.names.size())) return DamagedCapture("unknown name");
    if (!AllBelow(table.depth, kMaxDepth)) return DamagedCapture("impossible depth");
    if (!AllWithin(table.duration_ns, 0, kMaxTimeNs)) return DamagedCapture("impossible duration");
    if (!with_start) return absl::OkStatus();
    if (!AreTimes(table.end_ns)) return DamagedCapture("impossible time");
    starts.resize(table.size());
    for (size_t i = 0; i < starts.size(); ++i) {
      starts[i] = table.end_ns[i] - table.duration_ns[i] - contents_.epoch_offset_ns;
    }
    return absl::OkStatus();
  };
  const auto emit = [&](const RangeTable& table, uint32_t thread, size_t begin, size_t end) {
    return fn(
        {.thread = thread,
         .size = end - begin,
         .start_ns = RowsIf(with_start, starts, begin, end),
         .duration_ns = RowsIf((columns & kRangeDuration) != 0, table.duration_ns, begin, end),
         .name = RowsIf((columns & kRangeName) != 0, table.name, begin, end),
         .depth = RowsIf((columns & kRangeDepth) != 0, table.depth, begin, end),
         .category = RowsIf((columns & kRangeCategory) != 0, table.category, begin, end),
         .flags = RowsIf((columns & kRangeFlags) != 0, table.flags, begin, end)});
  };
  return Scan<RangeTable>(wanted, filter, prepare, emit);
}

absl::Status CaptureFileReader::ForEachInstant(
    const TimeFilter& filter, absl::FunctionRef<absl::Status(const InstantBatch&)> fn) {
  const auto prepare = [&](InstantTable& table) -> absl::Status {
    if (!AllBelow(table.name, contents_.names.size())) return DamagedCapture("unknown name");
    if (!AreTimes(table.time_ns)) return DamagedCapture("impossible time");
    Rebase(table.time_ns, contents_.epoch_offset_ns);
    return absl::OkStatus();
  };
  const auto emit = [&](const InstantTable& table, uint32_t thread, size_t begin, size_t end) {
    return fn({.thread = thread,
               .size = end - begin,
               .time_ns = Rows(table.time_ns, begin, end),
               .name = Rows(table.name, begin, end)});
  };
  return Scan<InstantTable>(kAllColumns, filter, prepare, emit);
}

absl::Status CaptureFileReader::ForEachCounter(
    const TimeFilter& filter, absl::FunctionRef<absl::Status(const CounterBatch&)> fn) {
  std::vector<double> values;
  const auto prepare = [&](CounterTable& table) -> absl::Status {
    if (!AllBelow(table.name, contents_.names.size())) return DamagedCapture("unknown name");
    if (!AreTimes(table.time_ns)) return DamagedCapture("impossible time");
    Rebase(table.time_ns, contents_.epoch_offset_ns);
    values.resize(table.size());
    std::transform(table.value_bits.begin(), table.value_bits.end(), values.begin(),
                   [](uint64_t bits) { return std::bit_cast<double>(bits); });
    return absl::OkStatus();
  };
  const auto emit = [&](const CounterTable& table, uint32_t thread, size_t begin, size_t end) {
    return fn({.thread = thread,
               .size = end - begin,
               .time_ns = Rows(table.time_ns, begin, end),
               .name = Rows(table.name, begin, end),
               .value = Rows(values, begin, end)});
  };
  return Scan<CounterTable>(kAllColumns, filter, prepare, emit);
}

absl::Status CaptureFileReader::ForEachMemory(
    const TimeFilter& filter, absl::FunctionRef<absl::Status(const MemoryBatch&)> fn) {
  const auto prepare = [&](MemoryTable& table) -> absl::Status {
    if (!AreTimes(table.time_ns)) return DamagedCapture("impossible time");
    if (!AllWithin(table.bytes, 0, kAnyCount) ||
        !AllWithin(table.total_allocated_bytes, -1, kAnyCount) ||
        !AllWithin(table.total_reserved_bytes, -1, kAnyCount) || !AllBelow(table.is_free, 2)) {
      return DamagedCapture("impossible sizes");
    }
    Rebase(table.time_ns, contents_.epoch_offset_ns);
    return absl::OkStatus();
  };
  const auto emit = [&](const MemoryTable& table, uint32_t thread, size_t begin, size_t end) {
    return fn({.thread = thread,
               .size = end - begin,
               .time_ns = Rows(table.time_ns, begin, end),
               .address = Rows(table.address, begin, end),
               .bytes = Rows(table.bytes, begin, end),
               .total_allocated_bytes = Rows(table.total_allocated_bytes, begin, end),
               .total_reserved_bytes = Rows(table.total_reserved_bytes, begin, end),
               .device_type = Rows(table.device_type, begin, end),
               .device_index = Rows(table.device_index, begin, end),
               .category = Rows(table.category, begin, end),
               .is_free = Rows(table.is_free, begin, end)});
  };
  return Scan<MemoryTable>(kAllColumns, filter, prepare, emit);
}

int64_t CaptureFileReader::gpu_row_count() const {
  int64_t rows = 0;
  for (const ChunkEntry& chunk : contents_.chunks) {
    if (chunk.summary.kind == ChunkKind::kGpu) rows += chunk.summary.rows;
  }
  return rows;
}

absl::Status CaptureFileReader::ForEachApiCall(
    const TimeFilter& filter, absl::FunctionRef<absl::Status(const ApiBatch&)> fn) {
  const auto prepare = [&](ApiCallTable& table) -> absl::Status {
    if (!AllBelow(table.name, contents_.names.size())) return DamagedCapture("unknown name");
    if (!AreSpans(table.start_ns, table.duration_ns)) return DamagedCapture("impossible time");
    if (!AllBelow(table.is_driver, 2)) return DamagedCapture("impossible API");
    Rebase(table.start_ns, contents_.epoch_offset_ns);
    return absl::OkStatus();
  };
  const auto emit = [&](const ApiCallTable& table, uint32_t thread, size_t begin, size_t end) {
    return fn({.thread = thread,
               .size = end - begin,
               .start_ns = Rows(table.start_ns, begin, end),
               .duration_ns = Rows(table.duration_ns, begin, end),
               .name = Rows(table.name, begin, end),
               .correlation = Rows(table.correlation, begin, end),
               .cbid = Rows(table.cbid, begin, end),
               .result = Rows(table.result, begin, end),
               .is_driver = Rows(table.is_driver, begin, end)});
  };
  return Scan<ApiCallTable>(kAllColumns, filter, prepare, emit);
}

absl::Status CaptureFileReader::ForEachGpu(uint32_t columns, const TimeFilter& filter,
                                           absl::FunctionRef<absl::Status(const GpuBatch&)> fn) {
  const bool time = (columns & kGpuTime) != 0;
  const bool what = (columns & kGpuWhat) != 0;
  const bool launch = (columns & kGpuLaunch) != 0;
  std::vector<int64_t> queued;
  std::vector<int64_t> submitted;
  const auto unpack = [&](const GpuTable& table) -> absl::Status {
    queued.resize(table.size());
    submitted.resize(table.size());
    for (size_t i = 0; i < table.size(); ++i) {
      if (!UnpackLead(table.start_ns[i], table.queued_lead[i], queued[i]) ||
          !UnpackLead(table.start_ns[i], table.submitted_lead[i], submitted[i])) {
        return DamagedCapture("impossible time");
      }
      if (queued[i] != kNoGpuTime) queued[i] -= contents_.epoch_offset_ns;
      if (submitted[i] != kNoGpuTime) submitted[i] -= contents_.epoch_offset_ns;
    }
    return absl::OkStatus();
  };
  const auto prepare = [&](GpuTable& table) -> absl::Status {
    if (time && !AreSpans(table.start_ns, table.duration_ns))
      return DamagedCapture("impossible time");
    if (launch && !AreTimes(table.start_ns)) return DamagedCapture("impossible time");
    if (what) {
      if (!AllBelow(table.name, contents_.names.size())) return DamagedCapture("unknown name");
      for (const uint8_t kind : table.kind) {
        if (kind < static_cast<uint8_t>(GpuRowKind::kKernel) ||
            kind > static_cast<uint8_t>(GpuRowKind::kGraphLaunch)) {
          return DamagedCapture("unknown kind of GPU work");
        }
      }
      for (uint8_t& flags : table.flags) flags &= kKnownGpuFlags;
    }
    if (launch) RETURN_IF_ERROR(unpack(table));
    if (time) Rebase(table.start_ns, contents_.epoch_offset_ns);
    return absl::OkStatus();
  };
  const auto emit = [&](const GpuTable& table, uint32_t, size_t begin, size_t end) {
    const auto rows_if = [begin, end](bool wanted, const auto& column) {
      return RowsIf(wanted, column, begin, end);
    };
    const bool where = (columns & kGpuWhere) != 0;
    const bool cause = (columns & kGpuCause) != 0;
    const bool copy = (columns & kGpuCopy) != 0;
    return fn({.size = end - begin,
               .start_ns = rows_if(time, table.start_ns),
               .duration_ns = rows_if(time, table.duration_ns),
               .kind = rows_if(what, table.kind),
               .flags = rows_if(what, table.flags),
               .name = rows_if(what, table.name),
               .bytes = rows_if(what, table.bytes),
               .device = rows_if(where, table.device),
               .context = rows_if(where, table.context),
               .stream = rows_if(where, table.stream),
               .correlation = rows_if(cause, table.correlation),
               .graph_id = rows_if(cause, table.graph_id),
               .graph_node_id = rows_if(cause, table.graph_node_id),
               .copy_kind = rows_if(copy, table.copy_kind),
               .source_kind = rows_if(copy, table.source_kind),
               .destination_kind = rows_if(copy, table.destination_kind),
               .source_device = rows_if(copy, table.source_device),
               .destination_device = rows_if(copy, table.destination_device),
               .queued_ns = rows_if(launch, queued),
               .submitted_ns = rows_if(launch, submitted),
               .grid_x = rows_if(launch, table.grid_x),
               .grid_y = rows_if(launch, table.grid_y),
               .grid_z = rows_if(launch, table.grid_z),
               .block_x = rows_if(launch, table.block_x),
               .block_y = rows_if(launch, table.block_y),
               .block_z = rows_if(launch, table.block_z),
               .cluster_x = rows_if(launch, table.cluster_x),
               .cluster_y = rows_if(launch, table.cluster_y),
               .cluster_z = rows_if(launch, table.cluster_z),
               .registers_per_thread = rows_if(launch, table.registers_per_thread),
               .static_shared_bytes = rows_if(launch, table.static_shared_bytes),
               .dynamic_shared_bytes = rows_if(launch, table.dynamic_shared_bytes),
               .local_bytes_per_thread = rows_if(launch, table.local_bytes_per_thread)});
  };
  return Scan<GpuTable>(WantedGpuColumns(columns), filter, prepare, emit);
}

absl::Status CaptureFileReader::ForEachSync(const TimeFilter& filter,
                                            absl::FunctionRef<absl::Status(const SyncBatch&)> fn) {
  const auto prepare = [&](SyncTable& table) -> absl::Status {
    if (!AreSpans(table.start_ns, table.duration_ns)) return DamagedCapture("impossible time");
    Rebase(table.start_ns, contents_.epoch_offset_ns);
    return absl::OkStatus();
  };
  const auto emit = [&](const SyncTable& table, uint32_t, size_t, size_t end) {
    return fn({.size = end,
               .start_ns = table.start_ns,
               .duration_ns = table.duration_ns,
               .kind = table.kind,
               .device = table.device,
               .context = table.context,
               .stream = table.stream,
               .correlation = table.correlation,
               .event_id = table.event_id});
  };
  return Scan<SyncTable>(kAllColumns, filter, prepare, emit);
}

absl::Status CaptureFileReader::ForEachOverhead(
    const TimeFilter& filter, absl::FunctionRef<absl::Status(const OverheadBatch&)> fn) {
  const auto prepare = [&](OverheadTable& table) -> absl::Status {
    if (!AreSpans(table.start_ns, table.duration_ns)) return DamagedCapture("impossible time");
    Rebase(table.start_ns, contents_.epoch_offset_ns);
    return absl::OkStatus();
  };
  const auto emit = [&](const OverheadTable& table, uint32_t, size_t, size_t end) {
    return fn({.size = end,
               .start_ns = table.start_ns,
               .duration_ns = table.duration_ns,
               .kind = table.kind,
               .os_thread = table.os_thread,
               .correlation = table.correlation});
  };
  return Scan<OverheadTable>(kAllColumns, filter, prepare, emit);
}

absl::Status CaptureFileReader::ForEachCudaEvent(
    absl::FunctionRef<absl::Status(const CudaEventBatch&)> fn) {
  const auto prepare = [](CudaEventTable&) { return absl::OkStatus(); };
  const auto emit = [&](const CudaEventTable& table, uint32_t, size_t, size_t end) {
    return fn({.size = end,
               .correlation = table.correlation,
               .context = table.context,
               .stream = table.stream,
               .event_id = table.event_id});
  };
  return Scan<CudaEventTable>(kAllColumns, {}, prepare, emit);
}

int64_t CaptureFileReader::framework_row_count() const {
  int64_t rows = 0;
  for (const ChunkEntry& chunk : contents_.chunks) {
    if (AreFrameworkRows(chunk.summary.kind)) rows += chunk.summary.rows;
  }
  return rows;
}

absl::Status CaptureFileReader::ForEachOperator(
    const TimeFilter& filter, absl::FunctionRef<absl::Status(const OperatorBatch&)> fn) {
  const auto prepare = [&](OperatorTable& table) -> absl::Status {
    if (!AreTimes(table.start_ns)) return DamagedCapture("impossible time");
    if (!AllBelow(table.depth, kMaxDepth)) return DamagedCapture("impossible depth");
    if (!AllWithin(table.sequence, -1, kAnyCount))
      return DamagedCapture("impossible sequence number");
    if (!AllBelow(table.inputs, contents_.inputs.size()) ||
        !AllBelow(table.scalars, contents_.scalars.size())) {
      return DamagedCapture("unknown inputs");
    }
    Rebase(table.start_ns, contents_.epoch_offset_ns);
    return absl::OkStatus();
  };
  const auto emit = [&](const OperatorTable& table, uint32_t thread, size_t begin, size_t end) {
    return fn({.thread = thread,
               .size = end - begin,
               .start_ns = Rows(table.start_ns, begin, end),
               .depth = Rows(table.depth, begin, end),
               .scope = Rows(table.scope, begin, end),
               .sequence = Rows(table.sequence, begin, end),
               .forward_thread = Rows(table.forward_thread, begin, end),
               .torch_thread = Rows(table.torch_thread, begin, end),
               .inputs = Rows(table.inputs, begin, end),
               .scalars = Rows(table.scalars, begin, end)});
  };
  return Scan<OperatorTable>(kAllColumns, filter, prepare, emit);
}

absl::Status CaptureFileReader::ForEachTensorUse(
    const TimeFilter& filter, absl::FunctionRef<absl::Status(const TensorUseBatch&)> fn) {
  const auto prepare = [&](TensorUseTable& table) -> absl::Status {
    if (!AreTimes(table.time_ns)) return DamagedCapture("impossible time");
    if (!AllBelow(table.depth, kMaxDepth)) return DamagedCapture("impossible depth");
    Rebase(table.time_ns, contents_.epoch_offset_ns);
    return absl::OkStatus();
  };
  const auto emit = [&](const TensorUseTable& table, uint32_t thread, size_t begin, size_t end) {
    return fn({.thread = thread,
               .size = end - begin,
               .time_ns = Rows(table.time_ns, begin, end),
               .address = Rows(table.address, begin, end),
               .depth = Rows(table.depth, begin, end),
               .scope = Rows(table.scope, begin, end),
               .input = Rows(table.input, begin, end)});
  };
  return Scan<TensorUseTable>(kAllColumns, filter, prepare, emit);
}

absl::Status CaptureFileReader::ForEachNote(absl::FunctionRef<absl::Status(const NoteBatch&)> fn) {
  const auto prepare = [&](NoteTable& table) -> absl::Status {
    if (!AllBelow(table.subject, contents_.names.size()) ||
        !AllBelow(table.text, contents_.names.size())) {
      return DamagedCapture("unknown name");
    }
    for (int64_t& time : table.time_ns) {
      if (time == kNoNoteTime) continue;
      if (time < -kMaxTimeNs || time > kMaxTimeNs) return DamagedCapture("impossible time");
      time -= contents_.epoch_offset_ns;
    }
    return absl::OkStatus();
  };
  const auto emit = [&](const NoteTable& table, uint32_t thread, size_t begin, size_t end) {
    return fn({.thread = thread,
               .size = end - begin,
               .time_ns = Rows(table.time_ns, begin, end),
               .kind = Rows(table.kind, begin, end),
               .subject = Rows(table.subject, begin, end),
               .text = Rows(table.text, begin, end),
               .value = Rows(table.value, begin, end)});
  };
  return Scan<NoteTable>(kAllColumns, {}, prepare, emit);
}

absl::Status CaptureFileReader::ForEachBlock(
    absl::FunctionRef<absl::Status(const BlockBatch&)> fn) {
  const auto prepare = [&](BlockTable& table) -> absl::Status {
    if (!AllBelow(table.name, contents_.names.size())) return DamagedCapture("unknown name");
    if (!AllWithin(table.bytes, 0, kAnyCount)) return DamagedCapture("impossible sizes");
    return absl::OkStatus();
  };
  const auto emit = [&](const BlockTable& table, uint32_t, size_t, size_t end) {
    return fn({.size = end,
               .address = table.address,
               .bytes = table.bytes,
               .name = table.name,
               .category = table.category,
               .device_type = table.device_type,
               .device_index = table.device_index});
  };
  return Scan<BlockTable>(kAllColumns, {}, prepare, emit);
}

absl::Status CaptureFileReader::ForEachArgument(
    absl::FunctionRef<absl::Status(const ArgumentBatch&)> fn) {
  const auto prepare = [&](ArgumentTable& table) -> absl::Status {
    if (!AllBelow(table.key, contents_.names.size())) return DamagedCapture("unknown name");
    const auto name_count = static_cast<int64_t>(contents_.names.size());
    for (size_t i = 0; i < table.size(); ++i) {
      if (table.type[i] > static_cast<uint8_t>(ArgumentType::kQuotedInteger)) {
        return DamagedCapture("unknown type of an argument");
      }
      if (table.type[i] != static_cast<uint8_t>(ArgumentType::kJson)) continue;
      if (table.value[i] < 0 || table.value[i] >= name_count) return DamagedCapture("unknown name");
    }
    return absl::OkStatus();
  };
  const auto emit = [&](const ArgumentTable& table, uint32_t, size_t, size_t end) {
    return fn({.size = end,
               .of = table.of,
               .of_thread = table.of_thread,
               .row = table.row,
               .key = table.key,
               .type = table.type,
               .value = table.value});
  };
  return Scan<ArgumentTable>(kAllColumns, {}, prepare, emit);
}

absl::Status CaptureFileReader::ForEachGpuAnnotation(
    absl::FunctionRef<absl::Status(const GpuAnnotationBatch&)> fn) {
  const auto prepare = [&](GpuAnnotationTable& table) -> absl::Status {
    if (!AllBelow(table.name, contents_.names.size())) return DamagedCapture("unknown name");
    if (!AreSpans(table.start_ns, table.duration_ns)) return DamagedCapture("impossible time");
    Rebase(table.start_ns, contents_.epoch_offset_ns);
    return absl::OkStatus();
  };
  const auto emit = [&](const GpuAnnotationTable& table, uint32_t, size_t, size_t end) {
    return fn({.size = end,
               .start_ns = table.start_ns,
               .duration_ns = table.duration_ns,
               .name = table.name,
               .device = table.device,
               .stream = table.stream,
               .external_id = table.external_id});
  };
  return Scan<GpuAnnotationTable>(kAllColumns, {}, prepare, emit);
}

int64_t CaptureFileReader::step_thread() {
  if (step_thread_.has_value()) return *step_thread_;
  step_thread_ = -1;
  const auto prepare = [](StepMarkTable&) { return absl::OkStatus(); };
  const auto emit = [&](const StepMarkTable&, uint32_t thread, size_t, size_t) {
    step_thread_ = thread;
    return absl::CancelledError();  // The first is enough.
  };
  Scan<StepMarkTable>(Bit(StepMarkTable::kThread), {}, prepare, emit).IgnoreError();
  return *step_thread_;
}

absl::Status CaptureFileReader::ForEachStepMark(absl::FunctionRef<void(const StepRow&)> fn) {
  const auto prepare = [](StepMarkTable& table) -> absl::Status {
    const bool valid = AreTimes(table.time_ns) && AllWithin(table.step, 0, kAnyCount);
    return valid ? absl::OkStatus() : DamagedCapture("impossible step mark");
  };
  const auto emit = [&](const StepMarkTable& table, uint32_t, size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) fn({table.time_ns[i], table.step[i]});
    return absl::OkStatus();
  };
  return Scan<StepMarkTable>(kAllColumns, {}, prepare, emit);
}

absl::StatusOr<bool> CaptureFileReader::ChunkIsWhole(const ChunkEntry& entry) {
  const absl::StatusOr<ChunkLayout> layout = OpenChunk(entry);
  if (absl::IsDataLoss(layout.status()) && blob_ != nullptr) return false;
  RETURN_IF_ERROR(layout.status());
  const size_t size = layout->offsets[layout->column_count];
  RETURN_IF_ERROR(ReadBlob(0, size, bytes_));
  const std::string_view bytes(bytes_.data(), size);
  for (size_t i = 0; i < layout->column_count; ++i) {
    const size_t begin = layout->offsets[i];
    const size_t length = layout->offsets[i + 1] - begin;
    if (!ColumnDecoder::ChecksumIsRight(bytes.substr(begin, length))) return false;
  }
  return true;
}

absl::StatusOr<std::vector<int64_t>> CaptureFileReader::FindDamagedChunks(
    absl::FunctionRef<absl::Status()> still_wanted) {
  std::vector<int64_t> damaged;
  for (const ChunkEntry& entry : contents_.chunks) {
    RETURN_IF_ERROR(still_wanted());
    ReportProgress();
    ASSIGN_OR_RETURN(const bool whole, ChunkIsWhole(entry));
    if (!whole) damaged.push_back(entry.id);
  }
  return damaged;
}

}  // namespace profd::store
