#include "daemon/report/ranks/rank_summary.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <set>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "daemon/base/budget.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/store/file/column_codec.h"

namespace profd::report {
namespace {

constexpr uint32_t kSummaryMagic = 0x534b5250;  // "PRKS"
constexpr uint32_t kSummaryVersion = 2;
constexpr uint32_t kVersionWithoutCpuWaits = 1;
// As many as collective_table.cc finds.
constexpr int64_t kMostSummaryCommunicators = 4096;

struct SummaryHeader {
  uint32_t magic = kSummaryMagic;
  uint32_t version = kSummaryVersion;
  uint32_t crc = 0;
  uint32_t reserved = 0;
  int64_t rows = 0;
  int64_t steps = 0;
  int64_t communicators = 0;
  int64_t left_out_rows = 0;
  int64_t left_out_steps = 0;
};
static_assert(sizeof(SummaryHeader) == 56);
constexpr size_t kCheckedFrom = offsetof(SummaryHeader, reserved);

// One member of a row struct as a column of integers.
template <typename Row>
struct SummaryField {
  int64_t (*get)(const Row& row);
  void (*set)(Row& row, int64_t value);
  ColumnTransform transform;
};
template <typename Row, auto kMember>
constexpr SummaryField<Row> FieldOf(ColumnTransform transform) {
  return {[](const Row& row) { return static_cast<int64_t>(row.*kMember); },
          [](Row& row, int64_t value) {
            row.*kMember = static_cast<std::remove_cvref_t<decltype(row.*kMember)>>(value);
          },
          transform};
}

constexpr ColumnTransform kOffset = ColumnTransform::kOffset;
constexpr ColumnTransform kDelta = ColumnTransform::kDelta;

constexpr std::array kRowFields = {FieldOf<CollectiveRow, &CollectiveRow::start_ns>(kDelta),
                                   FieldOf<CollectiveRow, &CollectiveRow::duration_ns>(kOffset),
                                   FieldOf<CollectiveRow, &CollectiveRow::exposed_ns>(kOffset),
                                   FieldOf<CollectiveRow, &CollectiveRow::sequence>(kDelta),
                                   FieldOf<CollectiveRow, &CollectiveRow::elements>(kOffset),
                                   FieldOf<CollectiveRow, &CollectiveRow::bytes>(kOffset),
                                   FieldOf<CollectiveRow, &CollectiveRow::step>(kDelta),
                                   FieldOf<CollectiveRow, &CollectiveRow::communicator>(kOffset),
                                   FieldOf<CollectiveRow, &CollectiveRow::kind>(kOffset),
                                   FieldOf<CollectiveRow, &CollectiveRow::on_device>(kOffset),
                                   FieldOf<CollectiveRow, &CollectiveRow::has_completion>(kOffset)};
constexpr std::array kStepFields = {FieldOf<StepWorkRow, &StepWorkRow::step>(kDelta),
                                    FieldOf<StepWorkRow, &StepWorkRow::duration_ns>(kOffset),
                                    FieldOf<StepWorkRow, &StepWorkRow::exposed_ns>(kOffset)};
constexpr std::array kCommunicatorFields = {
    FieldOf<Communicator, &Communicator::size>(kOffset),
    FieldOf<Communicator, &Communicator::first_rank>(kOffset),
    FieldOf<Communicator, &Communicator::rank_stride>(kOffset)};

// Of steps, since version 2; after the others, so that the columns of version 1 are its first ones.
constexpr std::array kCpuWaitFields = {FieldOf<StepWorkRow, &StepWorkRow::cpu_wait_ns>(kOffset)};

constexpr size_t kSummaryColumns =
    kRowFields.size() + kStepFields.size() + kCommunicatorFields.size() + kCpuWaitFields.size();
using ColumnLengths = std::array<uint32_t, kSummaryColumns>;
constexpr size_t kSummaryPrefixBytes = sizeof(SummaryHeader) + sizeof(ColumnLengths);

size_t ColumnCountOf(uint32_t version) {
  return version == kVersionWithoutCpuWaits ? kSummaryColumns - kCpuWaitFields.size()
                                            : kSummaryColumns;
}
size_t PrefixBytesOf(uint32_t version) {
  return sizeof(SummaryHeader) + ColumnCountOf(version) * sizeof(uint32_t);
}

absl::Status DamagedSummary(const char* what) {
  return absl::DataLossError(StrCat("damaged summary of a rank: ", what));
}

uint32_t CrcOf(const SummaryHeader& header, const ColumnLengths& lengths) {
  std::array<char, kSummaryPrefixBytes - kCheckedFrom> checked;
  const size_t of_header = sizeof(header) - kCheckedFrom;
  std::memcpy(checked.data(), reinterpret_cast<const char*>(&header) + kCheckedFrom, of_header);
  std::memcpy(checked.data() + of_header, lengths.data(), sizeof(lengths));
  return store::Crc32(0, {checked.data(), PrefixBytesOf(header.version) - kCheckedFrom});
}

class SummaryWriter {
 public:
  template <typename Row, size_t kFields>
  void Append(const std::vector<Row>& rows, const std::array<SummaryField<Row>, kFields>& fields) {
    values_.reserve(rows.size());
    for (const SummaryField<Row>& field : fields) {
      values_.clear();
      for (const Row& row : rows) values_.push_back(field.get(row));
      const size_t begin = columns_.size();
      if (!values_.empty()) {
        encoder_.Encode(std::span<const int64_t>(values_), field.transform, columns_);
      }
      lengths_[next_++] = static_cast<uint32_t>(columns_.size() - begin);
    }
  }

  std::string Take(SummaryHeader header) && {
    header.crc = CrcOf(header, lengths_);
    std::string bytes(kSummaryPrefixBytes, '\0');
    std::memcpy(bytes.data(), &header, sizeof(header));
    std::memcpy(bytes.data() + sizeof(header), lengths_.data(), sizeof(lengths_));
    bytes.append(columns_);
    return bytes;
  }

 private:
  store::ColumnEncoder encoder_;
  std::vector<int64_t> values_;
  ColumnLengths lengths_{};
  size_t next_ = 0;
  std::string columns_;
};

class SummaryReader {
 public:
  SummaryReader(const ColumnLengths& lengths, std::string_view columns)
      : lengths_(lengths), columns_(columns) {}

  template <typename Row, size_t kFields>
  absl::Status Read(const std::array<SummaryField<Row>, kFields>& fields, std::vector<Row>& rows) {
    values_.resize(rows.size());
    for (const SummaryField<Row>& field : fields) {
      const uint32_t length = lengths_[next_++];
      if (length > columns_.size()) return DamagedSummary("too short for its columns");
      const std::string_view column = columns_.substr(0, length);
      columns_.remove_prefix(length);
      if (rows.empty()) {
        if (length > 0) return DamagedSummary("a column of no rows has bytes");
        continue;
      }
      RETURN_IF_ERROR(decoder_.Decode(column, std::span(values_)));
      for (size_t i = 0; i < rows.size(); ++i) {
        field.set(rows[i], values_[i]);
        if (field.get(rows[i]) != values_[i]) return DamagedSummary("a number out of range");
      }
    }
    return absl::OkStatus();
  }
  bool is_at_end() const { return columns_.empty(); }

 private:
  const ColumnLengths& lengths_;
  std::string_view columns_;
  store::ColumnDecoder decoder_;
  std::vector<int64_t> values_;
  size_t next_ = 0;
};

absl::Status TooManyCollectives(size_t count, std::string_view unit) {
  return OverBudget("a summary for comparing ranks", static_cast<int64_t>(count),
                    kMostSummaryCollectives, unit);
}

// The numbers of the first whole steps that fit.
absl::StatusOr<std::set<int64_t>> StepsThatFit(const CollectiveTable& collectives) {
  // Windows may repeat the number of a step.
  std::map<int64_t, size_t> rows_of;
  std::map<int64_t, size_t> step_rows_of;
  for (const CollectiveRow& row : collectives.rows) ++rows_of[row.step];
  for (const StepWorkRow& row : collectives.steps) ++step_rows_of[row.step];
  std::set<int64_t> steps;
  size_t rows = 0;
  size_t step_rows = 0;
  for (const StepWorkRow& step : collectives.steps) {
    if (step.step < 0) {
      return TooManyCollectives(collectives.rows.size(), "collectives outside of steps");
    }
    if (steps.contains(step.step)) continue;
    rows += rows_of[step.step];
    step_rows += step_rows_of[step.step];
    if (rows > kMostSummaryCollectives || step_rows > kMostSummarySteps) break;
    steps.insert(step.step);
  }
  if (steps.empty()) return TooManyCollectives(rows, "collectives in its first step");
  return steps;
}

absl::StatusOr<RankSummary> Shortened(const CollectiveTable& collectives) {
  RankSummary summary = {.collectives = {.communicators = collectives.communicators,
                                         .rows = collectives.rows,
                                         .steps = collectives.steps,
                                         .left_out_count = collectives.left_out_count}};
  CollectiveTable& kept = summary.collectives;
  if (kept.rows.size() <= kMostSummaryCollectives && kept.steps.size() <= kMostSummarySteps) {
    return summary;
  }
  ASSIGN_OR_RETURN(const std::set<int64_t> steps, StepsThatFit(collectives));
  kept.left_out_count += static_cast<int64_t>(
      std::erase_if(kept.rows, [&](const auto& row) { return !steps.contains(row.step); }));
  summary.left_out_step_count = static_cast<int64_t>(
      std::erase_if(kept.steps, [&](const auto& step) { return !steps.contains(step.step); }));
  return summary;
}

}  // namespace

absl::StatusOr<std::string> EncodeRankSummary(const CollectiveTable& collectives) {
  ASSIGN_OR_RETURN(const RankSummary summary, Shortened(collectives));
  const CollectiveTable& kept = summary.collectives;
  SummaryWriter writer;
  writer.Append(kept.rows, kRowFields);
  writer.Append(kept.steps, kStepFields);
  writer.Append(kept.communicators, kCommunicatorFields);
  writer.Append(kept.steps, kCpuWaitFields);
  return std::move(writer).Take({.rows = std::ssize(kept.rows),
                                 .steps = std::ssize(kept.steps),
                                 .communicators = std::ssize(kept.communicators),
                                 .left_out_rows = kept.left_out_count,
                                 .left_out_steps = summary.left_out_step_count});
}

absl::StatusOr<RankSummary> DecodeRankSummary(std::string_view bytes) {
  if (bytes.size() < sizeof(SummaryHeader)) return DamagedSummary("too short for its header");
  SummaryHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  const bool has_cpu_waits = header.version == kSummaryVersion;
  if (header.magic != kSummaryMagic ||
      (!has_cpu_waits && header.version != kVersionWithoutCpuWaits)) {
    return DamagedSummary("another format");
  }
  const size_t prefix_bytes = PrefixBytesOf(header.version);
  if (bytes.size() < prefix_bytes) return DamagedSummary("too short for its header");
  ColumnLengths lengths{};
  std::memcpy(lengths.data(), bytes.data() + sizeof(header), prefix_bytes - sizeof(header));
  if (header.crc != CrcOf(header, lengths)) return DamagedSummary("checksum");
  const auto is_within = [](int64_t count, int64_t most) { return count >= 0 && count <= most; };
  if (!is_within(header.rows, kMostSummaryCollectives) ||
      !is_within(header.steps, kMostSummarySteps) ||
      !is_within(header.communicators, kMostSummaryCommunicators) || header.left_out_rows < 0 ||
      header.left_out_steps < 0) {
    return DamagedSummary("too many rows");
  }
  RankSummary summary = {.left_out_step_count = header.left_out_steps};
  CollectiveTable& kept = summary.collectives;
  kept.left_out_count = header.left_out_rows;
  kept.rows.resize(static_cast<size_t>(header.rows));
  kept.steps.resize(static_cast<size_t>(header.steps));
  kept.communicators.resize(static_cast<size_t>(header.communicators));
  SummaryReader reader(lengths, bytes.substr(prefix_bytes));
  RETURN_IF_ERROR(reader.Read(kRowFields, kept.rows));
  RETURN_IF_ERROR(reader.Read(kStepFields, kept.steps));
  RETURN_IF_ERROR(reader.Read(kCommunicatorFields, kept.communicators));
  if (has_cpu_waits) RETURN_IF_ERROR(reader.Read(kCpuWaitFields, kept.steps));
  if (!reader.is_at_end()) return DamagedSummary("bytes after its last column");
  const bool fits = std::ranges::all_of(kept.rows, [&](const CollectiveRow& row) {
    return row.communicator < kept.communicators.size() && row.duration_ns >= 0 &&
           row.exposed_ns >= 0 && row.kind <= CollectiveKind::kReceive;
  });
  if (!fits) return DamagedSummary("its parts do not fit together");
  ForgetImpossibleCpuWaits(kept.steps);
  return summary;
}

}  // namespace profd::report
