#include "daemon/store/file/writer.h"

#include <algorithm>
#include <type_traits>

#include "daemon/base/log.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/store/file/record_codec.h"
#include "daemon/store/file/schema.h"

namespace profd::store {
namespace {

// Kept free below the byte cap for the record, the steps and the summaries.
constexpr int64_t kSealBytes = 128 << 10;
constexpr int64_t kNameOverheadBytes = 16;
constexpr int64_t kThreadRowBytes = 24;
constexpr int64_t kInputsOverheadBytes = 24;
constexpr double kLowestBytesPerRow = 0.25;

// SQLite does not check that text is UTF-8, but programs that read the file do. A blob keeps any
// bytes.
absl::Status BindName(Statement& statement, int parameter, std::string_view name) {
  if (IsPrintableUtf8(name)) {
    statement.BindText(parameter, name);
  } else {
    statement.BindBlob(parameter, name);
  }
  return statement.Run();
}

}  // namespace

absl::StatusOr<std::unique_ptr<CaptureFileWriter>> CaptureFileWriter::Create(
    const CaptureRecord& record, Clock& clock, Options options) {
  CapturePaths paths(options.directory, record.id);
  ASSIGN_OR_RETURN(const int64_t file_bytes, ReserveCaptureDatabase(paths.part));
  absl::StatusOr<SpaceReserve> reserve = SpaceReserve::Take(paths.reserve, kReserveBytes);
  if (!reserve.ok()) {
    RemoveFile(paths.part).IgnoreError();
    return reserve.status();
  }
  const int64_t max_bytes = options.max_bytes > 0
                                ? std::min(options.max_bytes, record.spec.max_bytes)
                                : record.spec.max_bytes;
  return std::unique_ptr<CaptureFileWriter>(
      new CaptureFileWriter(record, *std::move(reserve), std::move(paths), file_bytes, max_bytes,
                            clock, std::move(options)));
}

CaptureFileWriter::CaptureFileWriter(const CaptureRecord& record, SpaceReserve reserve,
                                     CapturePaths paths, int64_t file_bytes, int64_t max_bytes,
                                     Clock& clock, Options options)
    : paths_(std::move(paths)),
      max_bytes_(max_bytes),
      clock_(clock),
      options_(std::move(options)),
      first_record_(EncodeRecord(record)),
      created_unix_ns_(absl::ToUnixNanos(clock.Now())),
      reserve_(std::move(reserve)),
      file_bytes_(file_bytes) {}

// The record is committed at once: it is what recovery goes by, should the daemon die.
absl::Status CaptureFileWriter::OpenDatabase() {
  if (db_ != nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(auto db, MakeCaptureDatabase(paths_.part));
  Transaction transaction(*db);
  RETURN_IF_ERROR(transaction.status());
  RETURN_IF_ERROR(SetMetaText(*db, kMetaRecord, first_record_));
  RETURN_IF_ERROR(SetMeta(*db, kMetaCreated, created_unix_ns_));
  RETURN_IF_ERROR(transaction.Commit());
  db_ = std::move(db);
  return absl::OkStatus();
}

CaptureFileWriter::~CaptureFileWriter() {
  // Neither finished nor discarded: the daemon is ending, and what is written now is what recovery
  // finds.
  if (!is_over_ && error_.ok()) WriteAll().IgnoreError();
}

absl::Status CaptureFileWriter::AddName(uint32_t id, std::string_view name) {
  RETURN_IF_ERROR(error_);
  if (id == 0 || id > kMaxNameId) return Fail(absl::InternalError(StrCat("name id ", id)));
  const auto bytes = static_cast<int64_t>(name.size()) + kNameOverheadBytes;
  RETURN_IF_ERROR(CheckCap(static_cast<double>(bytes)));
  RETURN_IF_ERROR(Begin());
  StatementLease put = db_->Use("INSERT OR REPLACE INTO strings(id, value) VALUES(?1, ?2)");
  if (absl::Status status = BindName(put->Bind(1, id), 2, name); !status.ok()) return Fail(status);
  uncommitted_bytes_ += bytes;
  largest_name_ = std::max(largest_name_, id);
  return absl::OkStatus();
}

absl::Status CaptureFileWriter::AddThread(const ThreadRow& thread) {
  RETURN_IF_ERROR(error_);
  if (thread.index > kMaxThreadIndex) {
    return Fail(absl::InternalError(StrCat("thread index ", thread.index)));
  }
  RETURN_IF_ERROR(CheckCap(static_cast<double>(thread.name.size() + kThreadRowBytes)));
  RETURN_IF_ERROR(Begin());
  return PutThread(thread);
}

absl::Status CaptureFileWriter::PutThread(const ThreadRow& thread) {
  StatementLease put =
      db_->Use("INSERT OR REPLACE INTO threads(id, os_thread, name) VALUES(?1, ?2, ?3)");
  put->Bind(1, thread.index).Bind(2, thread.os_thread).BindText(3, ToValidUtf8(thread.name));
  if (absl::Status status = put->Run(); !status.ok()) return Fail(status);
  uncommitted_bytes_ += static_cast<int64_t>(thread.name.size()) + kThreadRowBytes;
  thread_count_ = std::max(thread_count_, thread.index + 1);
  return absl::OkStatus();
}

// Rows of a thread that was never introduced are kept all the same.
absl::Status CaptureFileWriter::NoteThread(uint32_t thread) {
  if (thread < thread_count_) return absl::OkStatus();
  return AddThread({.index = thread, .os_thread = 0, .name = ""});
}

template <typename Row>
bool CaptureFileWriter::NoteReferences(std::span<const Row> rows) {
  using enum ColumnMeaning;
  bool known = true;
  const auto name = [this](uint32_t id) { largest_used_name_ = std::max(largest_used_name_, id); };
  for (const Row& row : rows) {
    if constexpr (requires { row.device_type; })
      devices_.emplace(row.device_type, row.device_index);
    if constexpr (requires { FileVersionOf(row); })
      version_of_rows_ = std::max(version_of_rows_, FileVersionOf(row));
    ForEachColumn(row, [&]<ColumnRule kRule, typename T>(const Column<kRule, T>& column) {
      if constexpr (kRule.meaning == kName) {
        name(column.values);
      } else if constexpr (kRule.meaning == kInputs) {
        known &= column.values <= largest_inputs_;
      } else if constexpr (kRule.meaning == kScalars) {
        known &= column.values <= largest_scalars_;
      } else if constexpr (kRule.meaning == kArgumentValue) {
        if (DependingOn<T>(row).type == ArgumentType::kJson)
          name(static_cast<uint32_t>(column.values));
      }
    });
  }
  return known && largest_used_name_ <= kMaxNameId;
}

absl::Status CaptureFileWriter::BeginInputs(uint32_t id, size_t bytes) {
  RETURN_IF_ERROR(error_);
  if (id == 0 || id > kMaxOperatorInputs) {
    return Fail(absl::InternalError(StrCat("inputs of id ", id)));
  }
  const int64_t file_bytes = static_cast<int64_t>(bytes) + kInputsOverheadBytes;
  if (inputs_area_bytes_ + static_cast<int64_t>(bytes) > int64_t{kMaxInputsAreaBytes}) {
    return Fail(absl::OutOfRangeError("more operators' inputs than a capture file can hold"));
  }
  RETURN_IF_ERROR(CheckCap(static_cast<double>(file_bytes)));
  RETURN_IF_ERROR(Begin());
  RETURN_IF_ERROR(RaiseVersionTo(kInputsVersion));
  inputs_area_bytes_ += static_cast<int64_t>(bytes);
  uncommitted_bytes_ += file_bytes;
  return absl::OkStatus();
}

absl::Status CaptureFileWriter::AddInputs(uint32_t id, const OperatorInputs& inputs) {
  RETURN_IF_ERROR(
      BeginInputs(id, inputs.dims.size() + inputs.types.size() + inputs.strides.size()));
  StatementLease put =
      db_->Use("INSERT OR REPLACE INTO inputs(id, dims, types, strides) VALUES(?1, ?2, ?3, ?4)");
  put->Bind(1, id).BindText(2, inputs.dims).BindText(3, inputs.types).BindText(4, inputs.strides);
  if (absl::Status status = put->Run(); !status.ok()) return Fail(status);
  largest_inputs_ = std::max(largest_inputs_, id);
  return absl::OkStatus();
}

absl::Status CaptureFileWriter::AddScalars(uint32_t id, std::string_view scalars) {
  RETURN_IF_ERROR(BeginInputs(id, scalars.size()));
  StatementLease put = db_->Use("INSERT OR REPLACE INTO scalars(id, value) VALUES(?1, ?2)");
  if (absl::Status status = put->Bind(1, id).BindText(2, scalars).Run(); !status.ok()) {
    return Fail(status);
  }
  largest_scalars_ = std::max(largest_scalars_, id);
  return absl::OkStatus();
}

absl::Status CaptureFileWriter::AppendRows(const EventRows& rows) {
  absl::Status status;
  rows.Visit([&]<typename Row>(std::span<const Row> of_kind) {
    status = AppendOfKind(rows.thread(), of_kind);
  });
  return status;
}

// Whatever can fail comes before the rows are taken, so that a refused batch is refused whole.
template <typename Row>
absl::Status CaptureFileWriter::AppendOfKind(uint32_t thread, std::span<const Row> rows) {
  Buffers<Row>& buffers = std::get<Buffers<Row>>(buffers_);
  RETURN_IF_ERROR(error_);
  if (rows.empty()) return absl::OkStatus();
  if (rows.size() > kMaxChunkRows) {
    RETURN_IF_ERROR(AppendOfKind(thread, rows.first(kMaxChunkRows)));
    return AppendOfKind(thread, rows.subspan(kMaxChunkRows));
  }
  RETURN_IF_ERROR(CheckCap(static_cast<double>(rows.size()) * buffers.bytes_per_row));
  // The record is in the file before any row is taken.
  if (absl::Status status = OpenDatabase(); !status.ok()) return Fail(status);
  if constexpr (Row::kHasThread) RETURN_IF_ERROR(NoteThread(thread));
  if (!AreValid(rows) || !NoteReferences(rows)) {
    return Fail(absl::InternalError("a row that a capture file cannot hold"));
  }
  RETURN_IF_ERROR(MakeRoom(buffers, thread, rows.size()));
  if (BufferedRows() == 0) oldest_buffered_ = clock_.Monotonic();
  EventTable<Row>& table = buffers.threads[thread];
  const size_t before = CapacityBytes(table);
  table.Append(rows);
  // Of the capacity, because a table keeps its memory when its rows are written. WriteMerged()
  // frees it.
  buffered_bytes_ += CapacityBytes(table) - before;
  buffers.rows += static_cast<int64_t>(rows.size());
  return absl::OkStatus();
}

template <typename Row>
absl::Status CaptureFileWriter::MakeRoom(Buffers<Row>& buffers, uint32_t thread, size_t rows) {
  const bool too_old =
      BufferedRows() > 0 && clock_.Monotonic() - oldest_buffered_ > kMaxBufferedTime;
  // Before the new rows are added: a batch has at most 64 K rows, so the buffer exceeds its limit
  // by one batch at most.
  if (too_old || buffered_bytes_ > kMaxBufferedBytes) RETURN_IF_ERROR(WriteAll());
  if (buffers.threads.size() <= thread) buffers.threads.resize(thread + 1);
  if (buffers.threads[thread].size() + rows <= kMaxChunkRows) return absl::OkStatus();
  RETURN_IF_ERROR(WriteMarks());
  if constexpr (std::is_same_v<Row, StepRow>) return absl::OkStatus();
  return WriteThread(buffers, thread);
}

// If the daemon is killed, events without their step marks cannot be assigned to steps. Marks are
// few, so they are written with each chunk of events.
absl::Status CaptureFileWriter::WriteMarks() {
  Buffers<StepRow>& steps = std::get<Buffers<StepRow>>(buffers_);
  if (steps.rows == 0) return absl::OkStatus();
  for (const auto& table : steps.threads) buffered_bytes_ -= CapacityBytes(table);
  return WriteMerged(steps);
}

absl::Status CaptureFileWriter::CheckCap(double more_bytes) {
  const double room = static_cast<double>(max_bytes_ - kSealBytes - approx_bytes());
  if (BufferedBytesEstimate() + more_bytes <= room) return absl::OkStatus();
  return Fail(absl::OutOfRangeError(
      StrCat("the capture file has reached its cap of ", max_bytes_, " bytes")));
}

int64_t CaptureFileWriter::approx_bytes() const { return file_bytes_ + uncommitted_bytes_; }

int64_t CaptureFileWriter::BufferedRows() const {
  return std::apply([](const auto&... buffers) { return (buffers.rows + ...); }, buffers_);
}

int64_t CaptureFileWriter::BufferedEvents() const {
  int64_t events = 0;
  EventTypes::ForEach([this, &events]<typename Row>() {
    if (AreEvents(Row::kKind)) events += std::get<Buffers<Row>>(buffers_).rows;
  });
  return events;
}

double CaptureFileWriter::BufferedBytesEstimate() const {
  const auto estimate = [](const auto& buffers) {
    return static_cast<double>(buffers.rows) * buffers.bytes_per_row;
  };
  return std::apply([&](const auto&... buffers) { return (estimate(buffers) + ...); }, buffers_);
}

template <typename Row>
absl::Status CaptureFileWriter::WriteChunk(Buffers<Row>& buffers, EventTable<Row>& table) {
  const ChunkSummary summary = EncodeChunk(table, table.Span(), encoder_, chunk_);
  RETURN_IF_ERROR(Begin());
  StatementLease put =
      db_->Use("INSERT INTO chunks(kind, rows, begin_ns, end_ns, data) VALUES(?1, ?2, ?3, ?4, ?5)");
  put->Bind(1, static_cast<int64_t>(summary.kind)).Bind(2, summary.rows);
  put->Bind(3, summary.span.begin_ns).Bind(4, summary.span.end_ns).BindBorrowedBlob(5, chunk_);
  if (absl::Status status = put->Run(); !status.ok()) return Fail(status);
  RETURN_IF_ERROR(Commit());
  buffers.rows -= summary.rows;
  buffers.bytes_per_row = std::max(
      kLowestBytesPerRow, static_cast<double>(chunk_.size()) / static_cast<double>(summary.rows));
  return absl::OkStatus();
}

// The rows of a chunk that could not be written are of no more use: the writer has failed.
template <typename Row>
absl::Status CaptureFileWriter::WriteThread(Buffers<Row>& buffers, uint32_t thread) {
  EventTable<Row>& table = buffers.threads[thread];
  const size_t before = CapacityBytes(table);
  SetThread(thread, table);
  buffered_bytes_ += CapacityBytes(table) - before;
  const absl::Status status = WriteChunk(buffers, table);
  ClearRows(table);
  return status;
}

template <typename Row>
absl::Status CaptureFileWriter::WriteMerged(Buffers<Row>& buffers) {
  EventTable<Row> merged;
  for (size_t thread = 0; thread < buffers.threads.size(); ++thread) {
    EventTable<Row>& table = buffers.threads[thread];
    const size_t size = table.size();
    for (size_t begin = 0; begin < size;) {
      const size_t end = std::min(size, begin + kMaxChunkRows - merged.size());
      AppendThreadRows(static_cast<uint32_t>(thread), table, begin, end, merged);
      begin = end;
      if (merged.size() < kMaxChunkRows) continue;
      RETURN_IF_ERROR(WriteChunk(buffers, merged));
      ClearRows(merged);
    }
    table = EventTable<Row>();
  }
  if (merged.size() > 0) RETURN_IF_ERROR(WriteChunk(buffers, merged));
  return absl::OkStatus();
}

absl::Status CaptureFileWriter::WriteAll() {
  absl::Status status;
  EventTypes::ForEach([this, &status]<typename Row>() {
    if (status.ok()) status = WriteMerged(std::get<Buffers<Row>>(buffers_));
  });
  if (status.ok()) buffered_bytes_ = 0;
  return status;
}

absl::Status CaptureFileWriter::Begin() {
  if (in_transaction_) return absl::OkStatus();
  absl::Status status = OpenDatabase();
  if (status.ok()) status = db_->Exec("BEGIN IMMEDIATE");
  if (!status.ok()) return Fail(status);
  in_transaction_ = true;
  return absl::OkStatus();
}

absl::Status CaptureFileWriter::RaiseVersionTo(int64_t version) {
  if (version <= version_) return absl::OkStatus();
  if (absl::Status status = RaiseVersion(*db_, version); !status.ok()) return Fail(status);
  version_ = version;
  return absl::OkStatus();
}

absl::Status CaptureFileWriter::Commit() {
  RETURN_IF_ERROR(Begin());
  RETURN_IF_ERROR(RaiseVersionTo(version_of_rows_));
  // Rows may use a name that was not added yet. The reader refuses IDs above those of the table, so
  // an empty string of the largest ID keeps the committed chunk readable.
  if (largest_used_name_ > largest_name_) {
    StatementLease put = db_->Use("INSERT OR REPLACE INTO strings(id, value) VALUES(?1, ?2)");
    absl::Status status = BindName(put->Bind(1, largest_used_name_), 2, "");
    if (!status.ok()) return Fail(status);
    largest_name_ = largest_used_name_;
  }
  for (const auto& [type, number] : devices_) {
    StatementLease put = db_->Use("INSERT OR IGNORE INTO devices(type, number) VALUES(?1, ?2)");
    absl::Status status = put->Bind(1, type).Bind(2, number).Run();
    if (!status.ok()) return Fail(status);
  }
  if (absl::Status status = db_->Exec("COMMIT"); !status.ok()) return Fail(status);
  in_transaction_ = false;
  uncommitted_bytes_ = 0;
  StatementLease pages = db_->Use("PRAGMA page_count");
  const absl::StatusOr<bool> row = pages->Step();
  if (!row.ok()) return Fail(row.status());
  // The true size replaces the estimates of all that was committed.
  file_bytes_ = pages->Int(0) * kFilePageBytes;
  return absl::OkStatus();
}

absl::Status CaptureFileWriter::Fail(absl::Status status) {
  if (!error_.ok()) return error_;
  error_ = std::move(status);
  // What lies beyond the cap is refused; what was taken before is still written.
  if (in_transaction_ && !absl::IsOutOfRange(error_)) {
    db_->Exec("ROLLBACK").IgnoreError();  // Some errors have rolled back already.
    in_transaction_ = false;
    uncommitted_bytes_ = 0;
  }
  return error_;
}

absl::Status CaptureFileWriter::Finish(CaptureRecord& record, int64_t start_ns) {
  if (is_over_) return absl::FailedPreconditionError("the capture file is finished");
  is_over_ = true;
  // What follows writes the record and the steps, which is what the reserve was taken for.
  reserve_.Release();
  if (absl::Status status = OpenDatabase(); !status.ok()) {
    Fail(status).IgnoreError();
    return status;
  }
  if (absl::IsOutOfRange(error_)) error_ = absl::OkStatus();
  if (error_.ok() && WriteAll().ok()) Commit().IgnoreError();
  // The room that is left belongs to the record; what could not be written is counted.
  if (const int64_t lost = BufferedEvents(); lost > 0) {
    record.event_count = std::max<int64_t>(0, record.event_count - lost);
    record.drops[static_cast<size_t>(DropReason::kDisk)] += lost;
    if (record.state == CaptureState::kComplete) {
      record.state = CaptureState::kPartial;
      record.ended_by = absl::IsResourceExhausted(error_) ? EndedBy::kDiskFull : EndedBy::kStorage;
    }
  }
  absl::StatusOr<SealedCapture> sealed = SealCaptureFile(
      std::move(db_), paths_, record, start_ns, std::move(steps_given_), options_.check_events);
  RETURN_IF_ERROR(sealed.status());
  if (options_.on_sealed) options_.on_sealed(*sealed);
  record = std::move(sealed->record);
  return absl::OkStatus();
}

void CaptureFileWriter::Discard() {
  is_over_ = true;
  db_.reset();
  reserve_.Release();
  std::filesystem::path journal = paths_.part;
  journal += "-journal";
  for (const std::filesystem::path& path : {paths_.part, journal}) {
    if (absl::Status status = RemoveFile(path); !status.ok()) LogWarning(status.ToString());
  }
}

}  // namespace profd::store
