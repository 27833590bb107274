#include "daemon/report_worker/tables.h"

#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/export/trace_export.h"
#include "daemon/report/catalog_summaries.h"
#include "daemon/report/findings/quality.h"
#include "daemon/report/reports.h"
#include "daemon/report_worker/abandonable_reader.h"
#include "daemon/rpc/convert/report.h"
#include "daemon/store/file/capture_reader.h"
#include "daemon/store/file/check.h"
#include "daemon/store/file/reader.h"
#include "daemon/worker/frames.h"
#include "daemon/worker/report_process.h"
#include "daemon/worker/seal_answers.h"
#include "profd/v1/export.pb.h"
#include "profd/v1/reports.pb.h"

namespace profd::report_worker {
namespace {

// A message on its way into frames, without a copy of all of it.
class FrameStream final : public google::protobuf::io::CopyingOutputStream {
 public:
  explicit FrameStream(Answer& answer) : answer_(answer) {}
  bool Write(const void* buffer, int size) override {
    status_ = answer_.Append({static_cast<const char*>(buffer), static_cast<size_t>(size)});
    return status_.ok();
  }
  const absl::Status& status() const { return status_; }

 private:
  Answer& answer_;
  absl::Status status_;
};

absl::Status Send(const google::protobuf::MessageLite& response, std::string_view remedy,
                  Answer& answer) {
  const size_t bytes = response.ByteSizeLong();
  if (bytes > worker::kMaxAnswerBytes) {
    return absl::ResourceExhaustedError(
        StrCat("the report has ", bytes >> 20, " MiB, and an answer at most ",
               worker::kMaxAnswerBytes >> 20, "; ", remedy,
               ", or `profctl fetch` the capture and report on the file"));
  }
  FrameStream frames(answer);
  google::protobuf::io::CopyingOutputStreamAdaptor stream(
      &frames, static_cast<int>(std::min(bytes + 1, worker::kMaxDataBytes)));
  const bool sent = response.SerializeToZeroCopyStream(&stream) && stream.Flush();
  if (sent) return absl::OkStatus();
  return frames.status().ok() ? absl::InternalError("the report cannot be sent") : frames.status();
}

template <typename Message>
absl::StatusOr<Message> Parse(std::string_view bytes) {
  Message message;
  if (bytes.size() <= worker::kMaxRequestBytes &&
      message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return message;
  }
  return absl::InternalError("the options of the report cannot be read");
}

absl::Status AnyReport(store::CaptureReader& reader, std::string_view options, Answer& answer) {
  ASSIGN_OR_RETURN(const auto request, Parse<v1::GetReportRequest>(options));
  ASSIGN_OR_RETURN(const table::Report report,
                   report::MakeReport(
                       reader, {.report = request.report(),
                                .options = {request.options().begin(), request.options().end()}}));
  v1::Report response;
  rpc::ReportToProto(report, response);
  response.set_simulated(reader.record().gpu.simulated);
  return Send(response, "limit the rows, or the samples of memory (max_points)", answer);
}

absl::StatusOr<exporter::TraceFormat> FormatOf(const v1::ExportTraceRequest& request) {
  switch (request.format()) {
    case v1::ExportTraceRequest::CHROME:
      return exporter::TraceFormat::kChrome;
    case v1::ExportTraceRequest::CHROME_GZ:
      return exporter::TraceFormat::kChromeGz;
    case v1::ExportTraceRequest::PERFETTO:
      return exporter::TraceFormat::kPerfetto;
    default:
      return absl::InvalidArgumentError(
          StrCat("format: ", static_cast<int>(request.format()), " is not known; set one"));
  }
}

absl::Status Export(store::CaptureReader& reader, std::string_view options, Answer& answer) {
  ASSIGN_OR_RETURN(const auto request, Parse<v1::ExportTraceRequest>(options));
  ASSIGN_OR_RETURN(const exporter::TraceFormat format, FormatOf(request));
  return exporter::ExportTrace(reader, format, answer);
}

absl::StatusOr<std::unique_ptr<store::CaptureReader>> Open(
    int capture,
    store::CaptureFileReader::Accept accept = store::CaptureFileReader::Accept::kSealed) {
  auto reader = store::CaptureFileReader::OpenDescriptor(capture, accept);
  // profd wrote it: whatever keeps it from being read is damage.
  if (!absl::IsInvalidArgument(reader.status())) return reader;
  return absl::DataLossError(
      StrCat("the capture file is damaged: ", FromAbsl(reader.status().message())));
}

// ---- for the seal (worker/seal_answers.h) ----

// The file is not sealed yet.
absl::Status CheckEvents(int capture, Answer& answer) {
  ASSIGN_OR_RETURN(auto reader, Open(capture, store::CaptureFileReader::Accept::kUnfinished));
  AbandonableReader abandonable(std::move(reader), answer);
  ASSIGN_OR_RETURN(const EventChecks checks, report::CheckEventsForSeal(abandonable));
  return answer.Append(worker::EncodeEventChecks(checks));
}

absl::Status SummarizeEvents(store::CaptureReader& reader, std::string_view options,
                             Answer& answer) {
  ASSIGN_OR_RETURN(const store::SummaryRequest request, worker::DecodeSummaryRequest(options));
  return answer.Append(worker::EncodeEventSummaries(report::SummarizeForCatalog(reader, request)));
}

// The answer is the number of events, as text.
absl::Status CheckImport(int capture, Answer& answer) {
  ASSIGN_OR_RETURN(const int64_t events,
                   store::CheckWholeCapture(capture, [&answer] { return answer.StillWanted(); }));
  return answer.Append(StrCat(events));
}

struct Table {
  std::string_view name;
  absl::Status (*make)(store::CaptureReader& reader, std::string_view options, Answer& answer);
};
constexpr Table kTables[] = {
    {"GetReport", AnyReport},
    {"ExportTrace", Export},
    {worker::kSummarizeEvents, SummarizeEvents},
};

}  // namespace

absl::Status MakeTable(std::string_view table, std::string_view options, int capture,
                       Answer& answer) {
  if (table == "CheckImport") return CheckImport(capture, answer);
  if (table == worker::kCheckEvents) return CheckEvents(capture, answer);
  const auto* const found = std::ranges::find(kTables, table, &Table::name);
  if (found == std::end(kTables)) {
    return absl::InvalidArgumentError(StrCat("no report '", ForDisplay(table, 64), "'"));
  }
  ASSIGN_OR_RETURN(auto reader, Open(capture));
  AbandonableReader abandonable(std::move(reader), answer);
  return found->make(abandonable, options, answer);
}

}  // namespace profd::report_worker
