#include "cli/base/errors.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "cli/base/failed_writes.h"
#include "cli/base/flags.h"
#include "daemon/base/reason.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"

namespace profd::cli {
namespace {

struct Advice {
  std::string_view reason;
  int exit_code;
  std::string_view text;  // Empty: the daemon's own message says it.
};

constexpr Advice kAdvice[] = {
    {kNoDaemonReason, kExitNoDaemon,
     "Start one (`profd`, or `systemctl start profd`), or name the one you mean with --address, "
     "PROFD_ADDRESS or PROFD_SOCKET_DIR. Captures that a profd left are files: "
     "DATA_DIR/captures/ID.profd, which commands take in place of an id."},
    {kNoAnswerReason, kExitNoDaemon,
     "It may be stopped (SIGSTOP, a debugger) or starved of CPU; look at its log and restart it."},
    {kNotTrustedReason, kExitRefused,
     "`profctl context show` says which certificates are used; PROFD_TLS_CA, PROFD_TLS_CERT and "
     "PROFD_TLS_KEY name others."},
    {kOtherUsersDaemonReason, kExitRefused,
     "It could answer anything. --address, PROFD_ADDRESS and PROFD_SOCKET_DIR name other daemons."},
    {kLocalReason, kExitFailed, ""},
    {kStdoutClosedReason, kExitStdoutClosed, ""},
    {kVersionsDifferReason, kExitFailed,
     "Install profctl and profd of one release; `profctl version` shows both."},
    {"NO_SUCH_PROCESS", kExitFailed, "`profctl ps` lists the processes that can be captured."},
    {"NO_SUCH_TARGET", kExitFailed, "`profctl ps` lists the processes that can be captured."},
    {"NOT_INSTRUMENTED", kExitFailed, "`profctl ps` lists the processes that can be captured."},
    {"NO_TARGETS", kExitFailed, "`profctl ps` lists the processes that can be captured."},
    {"SEVERAL_TARGETS", kExitUsage, ""},
    {"AMBIGUOUS_PID", kExitFailed, "`profctl ps` shows both pids; use that of the column PID."},
    {"OTHER_OWNER", kExitRefused, "Run profctl as the owner of that process, or as root."},
    {"NOT_ALLOWED", kExitRefused,
     "Who runs the daemon can let you, with a rule in its policy file; `profctl node --json` says "
     "whom it takes you for."},
    {"OPTED_OUT", kExitRefused, ""},
    {"CAPTURES_OFF", kExitRefused, ""},
    {"NO_STEPS", kExitFailed, ""},
    {"STEP_PASSED", kExitFailed,
     "Ask for a later --start-step, or leave it out to start as soon as possible."},
    {"TARGET_BUSY", kExitRefused, ""},
    {"CAPTURE_LIVE", kExitRefused, ""},
    {"CAPTURE_LIMIT", kExitRefused, ""},
    {"QUOTA_EXCEEDED", kExitRefused, "`profctl node --quotas` shows use and limits."},
    {"MEMORY_CAP", kExitRefused,
     "Ask for less with --buffer, accept less with --allow-smaller-buffer, or wait until other "
     "captures have ended."},
    {"DISK_FULL", kExitRefused, "`profctl node` shows the storage in use."},
    {"STORAGE_FULL", kExitRefused, "`profctl node` shows the storage in use."},
    {"PIN_LIMIT", kExitRefused, ""},
    {"REQUEST_ID_REUSED", kExitUsage, "Use a new --request-id for a new request."},
    {"TARGET_EXITED", kExitFailed, "Start it again, or capture another one; see `profctl ps`."},
};

const Advice* FindAdvice(std::string_view reason) {
  const auto* found = std::find_if(std::begin(kAdvice), std::end(kAdvice),
                                   [&](const Advice& advice) { return advice.reason == reason; });
  return found == std::end(kAdvice) ? nullptr : found;
}

int ExitCodeWithoutReason(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return kExitDone;
    case absl::StatusCode::kCancelled:
      return kExitInterrupted;
    case absl::StatusCode::kInvalidArgument:
      return kExitUsage;
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kResourceExhausted:
      return kExitRefused;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return kExitNoDaemon;
    default:
      return kExitFailed;
  }
}

// Messages may quote what targets and files say: no control character may reach the terminal,
// but our own messages have several lines.
std::string CleanLines(std::string_view message) {
  constexpr size_t kLongestLine = 4096;
  std::string out;
  while (true) {
    const size_t end = message.find('\n');
    out += ForDisplay(message.substr(0, end), kLongestLine);
    if (end == std::string_view::npos) return out;
    out.push_back('\n');
    message.remove_prefix(end + 1);
  }
}

}  // namespace

absl::Status LocalFailure(absl::Status status) {
  if (status.ok() || status.code() == absl::StatusCode::kCancelled) return status;
  if (ReasonOf(status) == kStdoutClosedReason) return status;
  return WithReason(std::move(status), kLocalReason);
}

absl::Status StdoutError(int error_number) {
  absl::Status status =
      absl::InternalError(StrCat("cannot write to stdout: ", std::strerror(error_number)));
  if (error_number != EPIPE || BrokenPipesWereIgnored()) return status;
  return WithReason(std::move(status), kStdoutClosedReason);
}

absl::Status NoThreadError() {
  return LocalFailure(absl::ResourceExhaustedError(
      "cannot start a thread; raise the limit on processes (`ulimit -u`, or pids.max of the "
      "cgroup), or end other programs of yours"));
}

int ExitCodeOf(const absl::Status& status) {
  const Advice* advice = FindAdvice(ReasonOf(status));
  return advice != nullptr ? advice->exit_code : ExitCodeWithoutReason(status.code());
}

std::string_view AdviceFor(std::string_view reason) {
  const Advice* advice = FindAdvice(reason);
  return advice == nullptr ? std::string_view() : advice->text;
}

std::string_view AdviceForDrop(std::string_view drop_reason) {
  if (drop_reason == "no_chunk") return "capture memory was full: raise --buffer";
  if (drop_reason == "too_deep") return "ranges were nested deeper than 128";
  if (drop_reason == "too_large") return "names or records were over 4 KiB";
  if (drop_reason == "unbalanced_end") return "ends without an open range: the program's bug";
  if (drop_reason == "no_thread_state") return "too many live threads";
  if (drop_reason == "unknown_kind") return "the library is newer than profd: upgrade profd";
  if (drop_reason == "byte_cap") {
    return "the capture file's cap was reached: raise --max-bytes (at most profd's --max-storage)";
  }
  if (drop_reason == "disk") return "the disk was full or failed";
  if (drop_reason == "thinned") return "removed from the trace before its import";
  return {};
}

std::string_view AdviceForEnd(std::string_view ended_by) {
  if (ended_by == "target_exit") return "the process ended inside the window";
  if (ended_by == "cupti_taken") return "another tool took CUPTI over";
  if (ended_by == "target_lost") return "the process replaced itself or its library went away";
  if (ended_by == "byte_cap") {
    return "the capture file reached its cap: raise --max-bytes (at most profd's --max-storage)";
  }
  if (ended_by == "deadline") return "the deadline passed: ask for a longer --timeout";
  if (ended_by == "daemon_stop") return "profd was stopped or died during the capture";
  if (ended_by == "disk_full") return "the disk was full: free space, or delete captures";
  if (ended_by == "storage") return "the capture file could not be written: see profd's log";
  return {};
}

std::string DescribeError(const absl::Status& status) {
  const std::string reason = ReasonOf(status);
  if (reason == kStdoutClosedReason) return "";
  std::string text = StrCat("profctl: ", CleanLines(FromAbsl(status.message())), "\n");
  const std::string_view advice = AdviceFor(reason);
  if (!advice.empty()) StrAppend(&text, advice, "\n");
  return text;
}

}  // namespace profd::cli
