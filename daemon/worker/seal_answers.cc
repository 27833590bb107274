#include "daemon/worker/seal_answers.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "daemon/base/budget.h"
#include "daemon/base/reason.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/worker/frames.h"

namespace profd::worker {
namespace {

absl::Status BadAnswer(std::string_view what) {
  return absl::InternalError(StrCat("the report process answered wrongly: ", what));
}

class AnswerWriter {
 public:
  // More than a string holds in itself: for two numbers in there, GCC 12 warns of an overflow.
  AnswerWriter() { bytes_.reserve(64); }

  void Put(int64_t number) {
    bytes_.append(reinterpret_cast<const char*>(&number), sizeof(number));
  }
  void Put(std::string_view text) {
    Put(static_cast<int64_t>(text.size()));
    bytes_.append(text);
  }
  // An empty text for OK.
  void Put(const absl::Status& status) {
    Put(status.ok() ? std::string_view() : std::string_view(EncodeStatus(status)));
  }
  std::string Take() && { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Reads what AnswerWriter wrote. After the first error all that follows is empty.
class AnswerReader {
 public:
  explicit AnswerReader(std::string_view bytes) : bytes_(bytes) {}

  int64_t Number() {
    int64_t number = 0;
    if (bytes_.size() < sizeof(number)) return Fail("too short");
    std::memcpy(&number, bytes_.data(), sizeof(number));
    bytes_.remove_prefix(sizeof(number));
    return number < 0 ? Fail("a number below 0") : number;
  }
  // A number of at most `most`.
  size_t Count(size_t most) {
    const auto count = static_cast<uint64_t>(Number());
    return count > most ? static_cast<size_t>(Fail("too many rows or bytes"))
                        : static_cast<size_t>(count);
  }
  std::string_view Text(size_t most) {
    const size_t size = Count(most);
    if (size > bytes_.size()) Fail("too short");
    const std::string_view text = bytes_.substr(0, failed_ ? 0 : size);
    bytes_.remove_prefix(text.size());
    return text;
  }
  // The status of a part.
  absl::Status Part() {
    constexpr size_t kMaxStatusBytes = 8192;
    const std::string_view text = Text(kMaxStatusBytes);
    if (text.empty()) return absl::OkStatus();
    const absl::Status status = DecodeStatus(text);
    if (status.ok()) Fail("an error without an error code");
    if (IsOverBudget(status)) return status;
    // Other reasons are profd's to give.
    return absl::Status(status.code(), status.message());
  }
  void Require(bool condition, const char* what) {
    if (!condition) Fail(what);
  }
  absl::Status End() {
    if (!failed_ && !bytes_.empty()) Fail("bytes after its end");
    return failed_ ? BadAnswer(what_) : absl::OkStatus();
  }

 private:
  int64_t Fail(const char* what) {
    if (!failed_) what_ = what;
    failed_ = true;
    bytes_ = {};
    return 0;
  }

  std::string_view bytes_;
  bool failed_ = false;
  const char* what_ = "";
};

// All numbers of the checks, in the order of their transfer.
constexpr std::array kCheckNumbers = {&EventChecks::gpu_row_count,
                                      &EventChecks::orphan_count,
                                      &EventChecks::earlier_work_count,
                                      &EventChecks::unknown_gpu_ns,
                                      &EventChecks::launch_count,
                                      &EventChecks::silent_launch_count,
                                      &EventChecks::failed_launch_count,
                                      &EventChecks::failed_result,
                                      &EventChecks::graph_launch_count,
                                      &EventChecks::silent_graph_count,
                                      &EventChecks::short_graph_count,
                                      &EventChecks::missing_node_count,
                                      &EventChecks::inversion_count,
                                      &EventChecks::worst_inversion_ns,
                                      &EventChecks::overlong_count,
                                      &EventChecks::overlong_ns,
                                      &EventChecks::overlong_possible_ns,
                                      &EventChecks::detached_count,
                                      &EventChecks::detached_ns,
                                      &EventChecks::host_call_count,
                                      &EventChecks::overlong_call_count,
                                      &EventChecks::overlong_call_ns,
                                      &EventChecks::overlong_call_possible_ns,
                                      &EventChecks::range_count,
                                      &EventChecks::cut_range_count,
                                      &EventChecks::spanning_range_count,
                                      &EventChecks::unended_range_count,
                                      &EventChecks::left_open_count};
// Parts, each with its whole.
constexpr std::array<std::pair<int64_t EventChecks::*, int64_t EventChecks::*>, 10> kCheckParts = {
    {{&EventChecks::orphan_count, &EventChecks::gpu_row_count},
     {&EventChecks::earlier_work_count, &EventChecks::orphan_count},
     {&EventChecks::silent_launch_count, &EventChecks::launch_count},
     {&EventChecks::silent_graph_count, &EventChecks::graph_launch_count},
     {&EventChecks::short_graph_count, &EventChecks::graph_launch_count},
     {&EventChecks::inversion_count, &EventChecks::gpu_row_count},
     {&EventChecks::overlong_call_count, &EventChecks::host_call_count},
     {&EventChecks::cut_range_count, &EventChecks::range_count},
     {&EventChecks::spanning_range_count, &EventChecks::cut_range_count},
     {&EventChecks::left_open_count, &EventChecks::unended_range_count}}};

constexpr std::array kOpNumbers = {
    &store::OpSummaryRow::calls,        &store::OpSummaryRow::self_cpu_ns,
    &store::OpSummaryRow::cpu_total_ns, &store::OpSummaryRow::min_ns,
    &store::OpSummaryRow::max_ns,       &store::OpSummaryRow::self_device_ns};
constexpr std::array kDeviceNumbers = {
    &store::DeviceSummaryRow::device, &store::DeviceSummaryRow::duration_ns,
    &store::DeviceSummaryRow::busy_ns, &store::DeviceSummaryRow::communication_ns,
    &store::DeviceSummaryRow::exposed_communication_ns};

template <typename Row, size_t kCount>
void PutNumbers(const Row& row, const std::array<int64_t Row::*, kCount>& members,
                AnswerWriter& writer) {
  for (const auto member : members) writer.Put(row.*member);
}
template <typename Row, size_t kCount>
void TakeNumbers(AnswerReader& reader, const std::array<int64_t Row::*, kCount>& members,
                 Row& row) {
  for (const auto member : members) row.*member = reader.Number();
}

std::vector<store::OpSummaryRow> TakeOps(AnswerReader& reader) {
  std::vector<store::OpSummaryRow> rows(reader.Count(store::kMaxCatalogOps));
  size_t name_bytes_left = store::kMaxCatalogNameBytes;
  for (store::OpSummaryRow& row : rows) {
    row.name = reader.Text(name_bytes_left);
    // One bound on all names together, as the catalog has it. A bound on each would allow the
    // product of both.
    name_bytes_left -= row.name.size();
    TakeNumbers(reader, kOpNumbers, row);
  }
  return rows;
}

std::vector<store::DeviceSummaryRow> TakeDevices(AnswerReader& reader) {
  std::vector<store::DeviceSummaryRow> rows(reader.Count(kMaxSummarizedDevices));
  for (store::DeviceSummaryRow& row : rows) TakeNumbers(reader, kDeviceNumbers, row);
  return rows;
}

}  // namespace

std::string EncodeSummaryRequest(const store::SummaryRequest& request) {
  AnswerWriter writer;
  writer.Put(int64_t{request.devices});
  writer.Put(int64_t{request.ranks});
  return std::move(writer).Take();
}

absl::StatusOr<store::SummaryRequest> DecodeSummaryRequest(std::string_view options) {
  AnswerReader reader(options);
  store::SummaryRequest request;
  request.devices = reader.Count(1) != 0;
  request.ranks = reader.Count(1) != 0;
  RETURN_IF_ERROR(reader.End());
  return request;
}

std::string EncodeEventChecks(const EventChecks& checks) {
  AnswerWriter writer;
  PutNumbers(checks, kCheckNumbers, writer);
  writer.Put(int64_t{checks.captures_graphs});
  writer.Put(std::string_view(checks.overlong_name).substr(0, kMaxEventNameBytes));
  writer.Put(std::string_view(checks.overlong_call_name).substr(0, kMaxEventNameBytes));
  writer.Put(std::string_view(checks.unended_range_name).substr(0, kMaxEventNameBytes));
  return std::move(writer).Take();
}

absl::StatusOr<EventChecks> DecodeEventChecks(std::string_view answer) {
  AnswerReader reader(answer);
  EventChecks checks;
  TakeNumbers(reader, kCheckNumbers, checks);
  checks.captures_graphs = reader.Count(1) != 0;
  checks.overlong_name = reader.Text(kMaxEventNameBytes);
  checks.overlong_call_name = reader.Text(kMaxEventNameBytes);
  checks.unended_range_name = reader.Text(kMaxEventNameBytes);
  for (const auto& [part, whole] : kCheckParts) {
    reader.Require(checks.*part <= checks.*whole, "a part larger than its whole");
  }
  // The row of either is not one of the other.
  reader.Require(checks.overlong_count <= checks.gpu_row_count &&
                     checks.detached_count <= checks.gpu_row_count - checks.overlong_count,
                 "a part larger than its whole");
  RETURN_IF_ERROR(reader.End());
  return checks;
}

std::string EncodeEventSummaries(store::EventSummaries summaries) {
  AnswerWriter writer;
  writer.Put(summaries.ops.status());
  if (summaries.ops.ok()) {
    const std::vector<store::OpSummaryRow> rows = store::LargestOps(*std::move(summaries.ops));
    writer.Put(static_cast<int64_t>(rows.size()));
    for (const store::OpSummaryRow& row : rows) {
      writer.Put(std::string_view(row.name));
      PutNumbers(row, kOpNumbers, writer);
    }
  }
  if (summaries.devices.ok() && summaries.devices->size() > kMaxSummarizedDevices) {
    summaries.devices = OverBudget("the summary of the GPUs", std::ssize(*summaries.devices),
                                   int64_t{kMaxSummarizedDevices}, "GPUs");
  }
  writer.Put(summaries.devices.status());
  if (summaries.devices.ok()) {
    writer.Put(static_cast<int64_t>(summaries.devices->size()));
    for (const store::DeviceSummaryRow& row : *summaries.devices) {
      PutNumbers(row, kDeviceNumbers, writer);
    }
  }
  writer.Put(summaries.ranks.status());
  if (summaries.ranks.ok()) writer.Put(std::string_view(*summaries.ranks));
  return std::move(writer).Take();
}

absl::StatusOr<store::EventSummaries> DecodeEventSummaries(std::string_view answer) {
  AnswerReader reader(answer);
  store::EventSummaries summaries;
  const auto take = [&reader](auto& part, auto take_value) {
    if (absl::Status status = reader.Part(); !status.ok()) {
      part = std::move(status);
    } else {
      part = take_value(reader);
    }
  };
  take(summaries.ops, TakeOps);
  take(summaries.devices, TakeDevices);
  take(summaries.ranks,
       [](AnswerReader& from) { return std::string(from.Text(kMaxSealAnswerBytes)); });
  RETURN_IF_ERROR(reader.End());
  return summaries;
}

}  // namespace profd::worker
