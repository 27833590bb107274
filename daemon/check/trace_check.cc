#include "daemon/check/trace_check.h"

#include <memory>
#include <optional>
#include <utility>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/check/byte_source.h"
#include "daemon/check/check_rules.h"
#include "daemon/check/chrome_check.h"
#include "daemon/check/perfetto_check.h"
#include "daemon/check/proto_reader.h"

namespace profd::check {
namespace {

// What Perfetto's page can hold, by its documentation.
constexpr uint64_t kLargeTraceBytes = uint64_t{2} << 30;

// Whether a packet stands at the start. `is_followed`: and another after it, or nothing, which
// tells it from JSON with white space before it, as that begins with the same byte.
bool LooksLikePerfetto(std::string_view start, bool is_followed) {
  if (!start.starts_with('\x0a')) return false;
  start.remove_prefix(1);
  const std::optional<uint64_t> length = TakeVarint(start);
  if (!length.has_value() || *length == 0) return false;
  const bool ends_here = *length <= start.size();
  if (is_followed && !(ends_here && (*length == start.size() || start[*length] == '\x0a'))) {
    return false;
  }
  return ProtoReader(start.substr(0, *length)).Next();
}

bool LooksLikeJson(std::string_view start) {
  const size_t at = start.find_first_not_of(" \t\r\n");
  return at != std::string_view::npos && (start[at] == '{' || start[at] == '[');
}

absl::StatusOr<TraceKind> KindOf(std::string_view start, const ByteSource& source) {
  // From the strictest test to the most lenient: 0x0a is also a line feed, with which JSON may
  // begin.
  if (LooksLikePerfetto(start, /*is_followed=*/true)) return TraceKind::kPerfetto;
  if (LooksLikeJson(start)) return TraceKind::kChrome;
  if (LooksLikePerfetto(start, /*is_followed=*/false)) return TraceKind::kPerfetto;
  if (!source.damage().empty()) return absl::InvalidArgumentError(source.damage());
  if (start.empty()) return absl::InvalidArgumentError("the file is empty");
  return absl::InvalidArgumentError(
      "this is neither a Chrome trace, which begins with '{' or '[', nor a Perfetto trace");
}

void CheckName(std::string_view name, const CheckReport& report, FindingLog& log) {
  if (name.empty() || report.kind != TraceKind::kChrome) return;
  const bool says_gzip = name.ends_with(".gz");
  const std::string shown = StrCat("\"", ForDisplay(name, 200), "\"");
  if (!says_gzip && !name.ends_with(".json")) {
    log.Add(Rule::kFileName, shown, " ends in neither .json nor .gz");
  } else if (says_gzip != report.compressed) {
    log.Add(Rule::kFileName, shown, report.compressed ? " is gzip" : " is not gzip");
  } else if (!name.ends_with(".pt.trace.json") && !name.ends_with(".pt.trace.json.gz")) {
    log.Add(Rule::kTensorBoardName, shown);
  }
}

void CheckPacking(const ByteSource& source, FindingLog& log) {
  if (!source.damage().empty()) log.Add(Rule::kGzipDamaged, source.damage());
  if (source.gzip_members() > 1) {
    log.Add(Rule::kGzipMembers, "there are ", source.gzip_members(), " streams");
  }
  if (source.has_trailing_bytes()) {
    log.Add(Rule::kGzipTrailing, "something else follows the gzip stream, which ends before byte ",
            source.file_bytes());
  }
}

absl::StatusOr<CheckReport> Check(ByteSource& source, const CheckOptions& options) {
  ASSIGN_OR_RETURN(const std::string_view start, source.Peek());
  CheckReport report;
  ASSIGN_OR_RETURN(report.kind, KindOf(start, source));
  report.compressed = source.is_gzip();
  FindingLog log;
  RETURN_IF_ERROR(report.kind == TraceKind::kChrome ? CheckChrome(source, log, report)
                                                    : CheckPerfetto(source, log, report));
  CheckPacking(source, log);
  CheckName(options.name, report, log);
  report.file_bytes = source.file_bytes();
  report.trace_bytes = source.trace_bytes();
  if (report.trace_bytes > kLargeTraceBytes) {
    log.Add(Rule::kLargeFile, "it has ", report.trace_bytes, " bytes uncompressed");
  }
  log.Fill(report);
  return report;
}

}  // namespace

absl::StatusOr<CheckReport> CheckTraceFile(const std::string& path, const CheckOptions& options) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ByteSource> source,
                   ByteSource::OpenFile(path, options.on_progress));
  return Check(*source, options);
}

absl::StatusOr<CheckReport> CheckTraceBytes(std::string_view bytes, const CheckOptions& options) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ByteSource> source, ByteSource::OfBytes(bytes));
  return Check(*source, options);
}

}  // namespace profd::check
