// FakeProfd serves the gRPC contract on a unix socket with the answers a test gave it, and
// keeps what it was asked.
//
//   FakeProfd profd;
//   profd.targets.push_back(ATarget(4711));
//   ... run profctl with PROFD_SOCKET_DIR=profd.socket_dir() ...
//
// Threads: fields are set before a call needs them; those that calls change are read through
//          the methods.
#ifndef PROFD_TESTS_CLI_FAKE_PROFD_H_
#define PROFD_TESTS_CLI_FAKE_PROFD_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "daemon/base/table/table.h"
#include "daemon/report/ranks/history.h"
#include "profd/v1/captures.pb.h"
#include "profd/v1/export.pb.h"
#include "profd/v1/node.pb.h"
#include "profd/v1/reports.pb.h"
#include "profd/v1/schedules.pb.h"
#include "profd/v1/targets.pb.h"

namespace profd::cli {

// A status with the reason that goes into the trailing metadata.
struct Refusal {
  absl::StatusCode code = absl::StatusCode::kOk;
  std::string reason;
  std::string message;
};

class FakeProfd {
 public:
  // Listens on DIRECTORY/control.sock; makes the directory.
  explicit FakeProfd(std::filesystem::path directory);
  ~FakeProfd();

  std::string socket_dir() const { return directory_.string(); }
  std::string address() const { return "unix:" + (directory_ / "control.sock").string(); }

  // As if it was killed: calls in progress break.
  void Kill();
  // After Kill(): listens again.
  void Start();

  v1::Node node;
  std::vector<v1::Target> targets;
  // By id. Without `applies_schedules`, served as a profd without versions does: ApplySchedule is
  // unimplemented. With it, every declaration creates a schedule that is not kept.
  bool applies_schedules = false;
  std::map<std::string, v1::Schedule> schedules;
  std::vector<v1::ScheduleWindow> windows;  // Of the history of each.
  Refusal on_resolve, on_create, on_report, on_delete;

  // A created capture, also one that was prepared for a group, is `ends_as` for its target, after
  // it went through ARMING and RECORDING. With `runs_until_cancelled` it stays in RECORDING until
  // then.
  v1::Capture ends_as;
  std::map<int64_t, v1::Capture> ends_as_for_pid;
  bool runs_until_cancelled = false;
  bool ignores_cancel = false;

  std::map<std::string, v1::Capture> captures;  // By id; created ones are added.
  std::vector<std::string> newest_first;        // Their ids, as ListCaptures gives them.
  std::string group_name;                       // Of the answer of GetCaptureGroup, if not empty.
  // What GetReport answers, by the report's name; others are empty.
  std::map<std::string, table::Report, std::less<>> reports;
  void Set(table::Report report) { reports[report.name] = std::move(report); }
  report::History history;
  v1::ListAuditResponse audit;
  v1::Quotas quotas;
  v1::ListRankSummariesResponse rank_summaries;
  bool never_ends_lists = false;  // Every page has the same next one.
  bool compresses = false;        // The answer of GetNode.
  std::string trace_bytes = "{\"traceEvents\": []}\n";

  std::string file_bytes;
  std::string file_sha256;
  int64_t piece_bytes = 1000;
  int64_t break_download_after = -1;  // Bytes of the next download; then -1 again.

  void AwaitWatchers(int count);     // WatchCapture calls that have sent RECORDING.
  void AwaitTargetPages(int count);  // ListTargets calls, a target each.
  int target_pages();
  void AwaitCancel();
  std::vector<int64_t> download_offsets();
  std::vector<v1::CreateCaptureRequest> creates();
  std::vector<v1::CreateCaptureGroupRequest> group_creates();
  std::vector<v1::ListCapturesRequest> lists();
  std::vector<v1::GetReportRequest> report_calls();
  std::vector<v1::ExportTraceRequest> exports();
  std::vector<v1::GetHistoryRequest> history_calls();
  std::vector<v1::ListRankSummariesRequest> rank_calls();

 private:
  class Services;
  const std::filesystem::path directory_;
  std::unique_ptr<Services> services_;
};

// Ids that sort and look as real ones do.
std::string TestId(int number);
v1::Target ATarget(int64_t pid);
// COMPLETE, five steps, with a file.
v1::Capture ACapture(const std::string& id);

}  // namespace profd::cli

#endif  // PROFD_TESTS_CLI_FAKE_PROFD_H_
