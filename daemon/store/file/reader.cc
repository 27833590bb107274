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

absl::Status DamagedCapture(std::string_view what) {
  return absl::DataLossError(StrCat("damaged capture file: ", what));
}

template <typename T>
bool AllWithin(const std::vector<T>& values, int64_t lowest, int64_t highest) {
  T low = std::numeric_limits<T>::max();
  T high = std::numeric_limits<T>::min();
  for (const T value : values) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  return values.empty() ||
         (std::cmp_greater_equal(low, lowest) && std::cmp_less_equal(high, highest));
}
// One comparison per value, and not two: most columns are such.
template <typename T>
requires std::is_unsigned_v<T>
bool AllBelow(const std::vector<T>& values, size_t bound) {
  T high = 0;
  for (const T value : values) high = std::max(high, value);
  return values.empty() || high < bound;
}
bool AreTimes(const std::vector<int64_t>& values) {
  return AllWithin(values, -kMaxTimeNs, kMaxTimeNs);
}
bool AreTimesOrAbsent(const std::vector<int64_t>& values) {
  bool valid = true;
  for (const int64_t value : values) valid &= value == kAbsentTime || IsTime(value);
  return valid;
}

// Whether the durations are possible, and end at a time. Both columns may be of hostile bytes.
bool AreDurations(const std::vector<int64_t>& starts, const std::vector<int64_t>& durations) {
  if (!AllWithin(durations, 0, kMaxTimeNs) || !AreTimes(starts)) return false;
  bool valid = true;
  for (size_t i = 0; i < starts.size(); ++i) valid &= starts[i] + durations[i] <= kMaxTimeNs;
  return valid;
}

bool AreArgumentValues(const std::vector<uint8_t>& types, const std::vector<int64_t>& values,
                       size_t name_count) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (types[i] != static_cast<uint8_t>(ArgumentType::kJson)) continue;
    if (values[i] < 0 || std::cmp_greater_equal(values[i], name_count)) return false;
  }
  return true;
}

// Returns whether files have the ends of the rows in place of their starts.
template <typename Row>
constexpr bool HasEnds() {
  Row row = {};
  bool has_ends = false;
  ForEachColumn(row, [&has_ends](const auto& column) {
    has_ends |= column.kRule.meaning == ColumnMeaning::kEnd;
  });
  return has_ends;
}

// What is wrong with a column that breaks its rule.
std::string_view Complaint(ColumnMeaning meaning) {
  switch (meaning) {
    case ColumnMeaning::kName:
    case ColumnMeaning::kArgumentValue:
      return "unknown name";
    case ColumnMeaning::kInputs:
    case ColumnMeaning::kScalars:
      return "unknown inputs";
    case ColumnMeaning::kTime:
    case ColumnMeaning::kTimeOrAbsent:
    case ColumnMeaning::kEnd:
    case ColumnMeaning::kLead:
    case ColumnMeaning::kDuration:
      return "impossible time";
    case ColumnMeaning::kNumber:
    case ColumnMeaning::kFlags:
      break;
  }
  return "impossible number";
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
    int descriptor, Accept accept) {
  RETURN_IF_ERROR(CheckCaptureFileHeader(descriptor, "the capture file"));
  ASSIGN_OR_RETURN(auto db, Database::OpenDescriptor(descriptor));
  ASSIGN_OR_RETURN(auto reader, Load(std::move(db), accept));
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
  // One handle serves all chunks: to reopen it on another row costs less than a new statement each
  // time.
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
  // The prefix bounds what a chunk may say of itself, so a hostile header makes nothing larger be
  // read.
  const size_t prefix_bytes = std::min(chunk_bytes, kMaxChunkPrefixBytes);
  RETURN_IF_ERROR(ReadBlob(0, prefix_bytes, bytes_));
  ASSIGN_OR_RETURN(const ChunkLayout layout,
                   ChunkLayout::Parse({bytes_.data(), prefix_bytes}, chunk_bytes));
  const ChunkSummary& found = layout.summary;
  const ChunkSummary& told = entry.summary;
  if (found.kind != told.kind || found.rows != told.rows ||
      found.span.begin_ns != told.span.begin_ns || found.span.end_ns != told.span.end_ns) {
    return DamagedCapture("a chunk is not the one that its directory names");
  }
  return layout;
}

absl::Status CaptureFileReader::CheckHeap() const {
  const HeapLimit* scoped = ScopedHeapLimit::Current();
  return scoped != nullptr ? scoped->Check() : absl::OkStatus();
}

template <typename Row>
absl::Status CaptureFileReader::LoadChunk(const ChunkEntry& entry, uint32_t wanted,
                                          EventTable<Row>& table) {
  ReportProgress();
  ASSIGN_OR_RETURN(const ChunkLayout layout, OpenChunk(entry));
  if (wanted == 0) return absl::OkStatus();
  // Between the first and the last wanted column that is there, in one piece.
  // ChunkLayout has at least one column, so that this shifts by less than 32.
  static_assert(kMaxChunkColumns <= 32);
  const uint32_t stored = ~uint32_t{0} >> (kMaxChunkColumns - layout.column_count);
  if ((wanted & ~stored & ~AddedColumns<Row>()) != 0 || (wanted & stored) == 0) {
    return DamagedCapture("a chunk lacks a column");
  }
  const auto first = static_cast<size_t>(std::countr_zero(wanted));
  const auto last = static_cast<size_t>(std::bit_width(wanted & stored)) - 1;
  const size_t begin = layout.offsets[first];
  const size_t size = layout.offsets[last + 1] - begin;
  RETURN_IF_ERROR(ReadBlob(begin, size, bytes_));
  return DecodeChunk(layout, wanted, {bytes_.data(), size}, begin, decoder_, table);
}

template <typename Row>
absl::Status CaptureFileReader::CheckColumns(const EventTable<Row>& table, uint32_t columns) const {
  using enum ColumnMeaning;
  absl::Status status;
  if (!AllBelow(table.thread, contents_.threads.size())) return DamagedCapture("unknown thread");
  ForEachColumn(table.columns, [&]<ColumnRule kRule, typename T>(const Column<kRule, T>& column) {
    if (!kRule.IsDecoded(columns) || !status.ok()) return;
    bool valid = true;
    if constexpr (kRule.meaning == kTime || kRule.meaning == kEnd) {
      valid = AreTimes(column.values);
    } else if constexpr (kRule.meaning == kTimeOrAbsent) {
      valid = AreTimesOrAbsent(column.values);
    } else if constexpr (kRule.meaning == kDuration) {
      valid = HasEnds<Row>() ? AllWithin(column.values, 0, kMaxTimeNs)
                             : AreDurations(DependingOn<T>(table.columns).start_ns, column.values);
    } else if constexpr (kRule.meaning == kName) {
      valid = AllBelow(column.values, contents_.names.size());
    } else if constexpr (kRule.meaning == kInputs) {
      valid = AllBelow(column.values, contents_.inputs.size());
    } else if constexpr (kRule.meaning == kScalars) {
      valid = AllBelow(column.values, contents_.scalars.size());
    } else if constexpr (kRule.meaning == kArgumentValue) {
      valid = AreArgumentValues(DependingOn<T>(table.columns).type, column.values,
                                contents_.names.size());
    } else if constexpr (kRule.meaning == kNumber && kRule.has_bounds()) {
      if constexpr (kRule.low == 0 && std::is_unsigned_v<columns_internal::ValueOf<T>>) {
        valid = AllBelow(column.values, static_cast<size_t>(kRule.high) + 1);
      } else {
        valid = AllWithin(column.values, kRule.low, kRule.high);
      }
    }
    if (!valid) status = DamagedCapture(Complaint(kRule.meaning));
  });
  return status;
}

// Leads count back from the start, so they come before the start is moved.
template <typename Row>
absl::Status CaptureFileReader::Unpack(EventTable<Row>& table, uint32_t columns) const {
  using enum ColumnMeaning;
  auto& fields = table.columns;
  const int64_t offset_ns = contents_.epoch_offset_ns;
  absl::Status status;
  ForEachColumn(fields, [&]<ColumnRule kRule, typename T>(const Column<kRule, T>& column) {
    if constexpr (kRule.meaning == kLead) {
      if (!kRule.IsDecoded(columns)) return;
      for (size_t i = 0; i < column.values.size(); ++i) {
        int64_t time_ns = 0;
        if (!UnpackLead(DependingOn<T>(fields).start_ns[i], column.values[i], time_ns)) {
          status = DamagedCapture("impossible time");
        }
        column.values[i] = time_ns == kAbsentTime ? kAbsentTime : time_ns - offset_ns;
      }
    }
  });
  ForEachColumn(fields, [&]<ColumnRule kRule, typename T>(const Column<kRule, T>& column) {
    if (!kRule.IsDecoded(columns)) return;
    if constexpr (kRule.meaning == kTime) {
      for (int64_t& time_ns : column.values) time_ns -= offset_ns;
    } else if constexpr (kRule.meaning == kTimeOrAbsent) {
      for (int64_t& time_ns : column.values) time_ns -= time_ns == kAbsentTime ? 0 : offset_ns;
    } else if constexpr (kRule.meaning == kEnd) {
      for (size_t i = 0; i < column.values.size(); ++i) {
        column.values[i] -= DependingOn<T>(fields).duration_ns[i] + offset_ns;
      }
    } else if constexpr (kRule.meaning == kFlags) {
      for (uint8_t& flags : column.values) flags &= static_cast<uint8_t>(kRule.high);
    }
  });
  return status;
}

template <typename Row>
absl::Status CaptureFileReader::ScanRows(uint32_t columns, const TimeFilter& filter,
                                         absl::FunctionRef<absl::Status(const EventBatch&)> fn) {
  const uint32_t wanted = WantedColumns<Row>(columns);
  EventTable<Row> table;
  for (const ChunkEntry& entry : contents_.chunks) {
    if (entry.summary.kind != Row::kKind) continue;
    const int64_t begin_ns = entry.summary.span.begin_ns - contents_.epoch_offset_ns;
    const int64_t end_ns = entry.summary.span.end_ns - contents_.epoch_offset_ns;
    if (begin_ns >= filter.end_ns || end_ns < filter.begin_ns) continue;
    RETURN_IF_ERROR(CheckHeap());
    RETURN_IF_ERROR(LoadChunk(entry, wanted, table));
    RETURN_IF_ERROR(CheckColumns(table, columns));
    RETURN_IF_ERROR(Unpack(table, columns));
    const size_t rows = entry.summary.rows;
    if constexpr (!Row::kHasThread) {
      RETURN_IF_ERROR(fn(ToBatch(table, columns, 0, 0, rows)));
    } else {
      const std::vector<uint32_t>& threads = table.thread;
      for (size_t begin = 0; begin < rows;) {
        const uint32_t thread = threads[begin];
        size_t end = begin + 1;
        while (end < rows && threads[end] == thread) ++end;
        RETURN_IF_ERROR(fn(ToBatch(table, columns, thread, begin, end)));
        begin = end;
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CaptureFileReader::Scan(RowKind kind, uint32_t columns, const TimeFilter& filter,
                                     absl::FunctionRef<absl::Status(const EventBatch&)> fn) {
  absl::Status status;
  EventTypes::Visit(kind, [&]<typename Row>() { status = ScanRows<Row>(columns, filter, fn); });
  return status;
}

int64_t CaptureFileReader::step_thread() {
  if (step_thread_.has_value()) return *step_thread_;
  step_thread_ = -1;
  ForEach<StepRow>([this](const StepBatch& batch) {
    step_thread_ = batch.thread;
    return absl::CancelledError();  // The first is enough.
  }).IgnoreError();
  return *step_thread_;
}

absl::StatusOr<bool> CaptureFileReader::ChunkIsWhole(const ChunkEntry& entry) {
  const absl::StatusOr<ChunkLayout> layout = OpenChunk(entry);
  // A chunk whose bytes are wrong can be left out. One that SQLite cannot open is a damaged
  // database, and that is an error.
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
