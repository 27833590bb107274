#include "daemon/store/file/check.h"

#include <memory>
#include <string>
#include <vector>

#include "daemon/base/reason.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/store/file/reader.h"
#include "daemon/store/file/sqlite_db.h"

namespace profd::store {
namespace {

constexpr size_t kMaxMessageBytes = 300;

absl::Status TooLarge(std::string_view what, int64_t count, int64_t most) {
  return absl::DataLossError(
      StrCat("it has ", count, " ", what, ", and at most ", most, " are taken"));
}

// Before anything of it is loaded, which takes memory.
absl::Status CheckSizes(Database& db) {
  struct Limit {
    std::string_view what;
    std::string_view sql;
    int64_t most;
  };
  // length() of a text stops at its first NUL and counts characters; of a blob it counts bytes.
  // total() is a float and cannot overflow, where sum() fails.
  static constexpr Limit kLimits[] = {
      {"names", "SELECT count(*) FROM strings", kMaxCheckedNames},
      {"threads", "SELECT count(*) FROM threads", kMaxCheckedThreads},
      {"steps", "SELECT count(*) FROM steps", kMaxCheckedSteps},
      {"bytes of names",
       "SELECT (SELECT total(length(CAST(value AS BLOB))) FROM strings) + "
       "(SELECT total(length(CAST(name AS BLOB))) FROM threads)",
       kMaxCheckedTextBytes},
  };
  for (const Limit& limit : kLimits) {
    ASSIGN_OR_RETURN(const int64_t count, db.QueryInt(limit.sql));
    if (count > limit.most) return TooLarge(limit.what, count, limit.most);
  }
  return absl::OkStatus();
}

// Files of version 1 have no such tables.
absl::Status CheckInputs(Database& db) {
  ASSIGN_OR_RETURN(const int64_t tables,
                   db.QueryInt("SELECT count(*) FROM sqlite_schema WHERE name = 'inputs'"));
  if (tables == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(
      const int64_t bytes,
      db.QueryInt("SELECT (SELECT total(length(CAST(dims AS BLOB)) + length(CAST(types AS BLOB)) + "
                  "length(CAST(strides AS BLOB))) FROM inputs) + "
                  "(SELECT total(length(CAST(value AS BLOB))) FROM scalars)"));
  if (bytes > kMaxCheckedTextBytes) return TooLarge("bytes of inputs", bytes, kMaxCheckedTextBytes);
  return absl::OkStatus();
}

// The pages of the file and what they refer to: it will be opened for writing.
absl::Status CheckPages(Database& db) {
  Statement check(db.handle(), "PRAGMA quick_check(1)");
  ASSIGN_OR_RETURN(const bool row, check.Step());
  const std::string answer = row ? check.Text(0) : "no answer";
  if (answer == "ok") return absl::OkStatus();
  return absl::DataLossError(ForDisplay(answer, kMaxMessageBytes));
}

absl::Status CheckTables(int descriptor) {
  RETURN_IF_ERROR(CheckCaptureFileHeader(descriptor, "the file"));
  ASSIGN_OR_RETURN(const auto db, Database::OpenDescriptor(descriptor));
  // The schema comes before anything that SQLite computes from it: no statement runs over tables,
  // indexes, or defaults that profd did not define.
  RETURN_IF_ERROR(CheckCaptureSchema(*db));
  RETURN_IF_ERROR(CheckPages(*db));
  RETURN_IF_ERROR(CheckSizes(*db));
  return CheckInputs(*db);
}

absl::StatusOr<int64_t> CountEvents(const CaptureContents& contents) {
  int64_t rows = 0;
  int64_t events = 0;
  int64_t step_marks = 0;
  for (const ChunkEntry& chunk : contents.chunks) {
    if (!IsKnown(chunk.summary.kind)) {
      return absl::DataLossError(StrCat("it has events of kind ",
                                        static_cast<int>(chunk.summary.kind),
                                        ", which this profd does not know"));
    }
    rows += chunk.summary.rows;
    if (AreEvents(chunk.summary.kind)) events += chunk.summary.rows;
    if (chunk.summary.kind == RowKind::kStepMark) step_marks += chunk.summary.rows;
  }
  if (rows > kMaxCheckedRows) return TooLarge("rows", rows, kMaxCheckedRows);
  // They are sorted in memory.
  if (step_marks > kMaxCheckedSteps) return TooLarge("step marks", step_marks, kMaxCheckedSteps);
  return events;
}

// Reading checks every value that is an index, a time or a size.
absl::Status ReadEveryRow(CaptureFileReader& reader,
                          absl::FunctionRef<absl::Status()> still_wanted) {
  absl::Status status;
  EventTypes::ForEach([&]<typename Row>() {
    if (!status.ok()) return;
    status = reader.ForEach<Row>([still_wanted](const auto&) { return still_wanted(); });
  });
  return status;
}

absl::StatusOr<int64_t> Check(int descriptor, absl::FunctionRef<absl::Status()> still_wanted) {
  RETURN_IF_ERROR(CheckTables(descriptor));
  RETURN_IF_ERROR(still_wanted());
  ASSIGN_OR_RETURN(const auto reader, CaptureFileReader::OpenDescriptor(descriptor));
  ASSIGN_OR_RETURN(const int64_t events, CountEvents(reader->contents()));
  ASSIGN_OR_RETURN(const std::vector<int64_t> damaged, reader->FindDamagedChunks(still_wanted));
  if (!damaged.empty()) return absl::DataLossError("its chunks have wrong checksums");
  RETURN_IF_ERROR(ReadEveryRow(*reader, still_wanted));
  return events;
}

}  // namespace

absl::StatusOr<int64_t> CheckWholeCapture(int descriptor,
                                          absl::FunctionRef<absl::Status()> still_wanted) {
  absl::StatusOr<int64_t> checked = Check(descriptor, still_wanted);
  switch (checked.status().code()) {
    // Damage in an upload is the sender's error, and not a loss of data on this node.
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
      return WithReason(
          absl::InvalidArgumentError(StrCat("the upload is not a capture file that profd accepts: ",
                                            FromAbsl(checked.status().message()))),
          "NOT_A_CAPTURE");
    default:
      return checked;
  }
}

}  // namespace profd::store
