// profd-report: reads capture files for profd, one request at a time, without rights. profd starts
// it and talks to it over descriptor 3 (daemon/worker/frames.h); it is not a command for people.
#include <malloc.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <new>
#include <string_view>

#include "absl/strings/numbers.h"
#include "daemon/base/budget.h"
#include "daemon/base/lock_checks.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/report_worker/answer.h"
#include "daemon/report_worker/sandbox.h"
#include "daemon/report_worker/tables.h"
#include "daemon/worker/frames.h"
#include "daemon/worker/report_process.h"

namespace profd::report_worker {
namespace {

constexpr int kExitOk = 0;
constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;
// Freed memory above this goes back to the system after a request.
constexpr size_t kMaxKeptBytes = 32 << 20;

struct Arguments {
  int64_t max_memory_bytes = 0;
  int64_t parent = 0;
  int64_t yield = 1;
};

bool ParseArguments(int argc, char** argv, Arguments& arguments) {
  for (int i = 1; i < argc; ++i) {
    std::string_view argument = argv[i];
    const auto take = [&argument](std::string_view prefix, int64_t& number) {
      return argument.starts_with(prefix) &&
             absl::SimpleAtoi(ToAbsl(argument.substr(prefix.size())), &number);
    };
    if (!take("--max-memory=", arguments.max_memory_bytes) &&
        !take("--parent=", arguments.parent) && !take("--yield=", arguments.yield)) {
      return false;
    }
  }
  struct stat info {};
  return arguments.max_memory_bytes > 0 && arguments.parent > 0 &&
         fstat(worker::kSocketFd, &info) == 0 && S_ISSOCK(info.st_mode);
}

// Whatever was being made is given up as a whole; profd knows the exit status.
void OnOutOfMemory() { _exit(worker::kExitOutOfMemory); }

absl::Status MakeAnswer(const worker::Frame& frame, Answer& answer) {
  ASSIGN_OR_RETURN(const worker::DecodedRequest request, worker::DecodeRequest(frame.payload));
  if (!frame.file.valid()) return absl::InternalError("a request without a capture");
  const ScopedHeapLimit limit("this report or export", kReportHeapBytes);
  return MakeTable(request.table, request.options, frame.file.get(), answer);
}

// Serves requests until profd closes the socket.
absl::Status Serve() {
  const uint32_t version = worker::kProtocolVersion;
  RETURN_IF_ERROR(worker::SendFrame(worker::kSocketFd, worker::FrameKind::kHello,
                                    {reinterpret_cast<const char*>(&version), sizeof(version)}));
  while (true) {
    ASSIGN_OR_RETURN(const worker::Frame frame,
                     worker::ReceiveRequestFrame(worker::kSocketFd, worker::kMaxRequestBytes));
    if (frame.kind != worker::FrameKind::kRequest) continue;  // It came after the end.
    Answer answer(worker::kSocketFd);
    const absl::Status status = MakeAnswer(frame, answer);
    RETURN_IF_ERROR(worker::SendFrame(worker::kSocketFd, worker::FrameKind::kEnd,
                                      worker::EncodeStatus(status)));
    if (mallinfo2().fordblks > kMaxKeptBytes) malloc_trim(0);
  }
}

int Main(int argc, char** argv) {
  Arguments arguments;
  if (!ParseArguments(argc, argv, arguments)) {
    std::fputs("profd-report: started by profd to read capture files; it is not a command\n",
               stderr);
    return kExitUsage;
  }
  closefrom(worker::kSocketFd + 1);
  // Allocations fail at RLIMIT_AS. An exception from the middle of a report would leave what it was
  // building half made.
  std::set_new_handler(OnOutOfMemory);
  absl::Status status = EnterSandbox(static_cast<pid_t>(arguments.parent),
                                     arguments.max_memory_bytes, arguments.yield != 0);
  if (status.ok()) status = Serve();
  if (absl::IsUnavailable(status)) return kExitOk;  // profd has ended, or does not need us.
  std::fprintf(stderr, "profd-report: %s\n", status.ToString().c_str());
  return kExitFailed;
}

}  // namespace
}  // namespace profd::report_worker

int main(int argc, char** argv) {
  profd::SkipLockChecks();
  return profd::report_worker::Main(argc, argv);
}
