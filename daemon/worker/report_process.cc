#include "daemon/worker/report_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/base/reason.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"

namespace profd::worker {
namespace {

constexpr char kProgramName[] = "profd-report";
// Starting takes some 10 ms; a machine out of memory or CPU takes longer.
constexpr absl::Duration kHelloTimeout = absl::Seconds(20);
// How soon a start notices that it is not wanted any more.
constexpr absl::Duration kStartTick = absl::Milliseconds(20);
constexpr absl::Duration kFirstBackOff = absl::Milliseconds(200);
constexpr absl::Duration kMaxBackOff = absl::Seconds(10);
// A crashed program has closed its socket a moment before it can be waited for.
constexpr absl::Duration kDeathWait = absl::Seconds(2);
constexpr absl::Duration kLastWait = absl::Milliseconds(50);
constexpr timeval kSendTimeout = {.tv_sec = 10, .tv_usec = 0};

// What the program needs of our environment: no secrets, nothing that changes what it does.
std::vector<char*> ChildEnvironment() {
  static constexpr std::string_view kKept[] = {
      "LD_LIBRARY_PATH=", "ASAN_OPTIONS=", "TSAN_OPTIONS=",
      "UBSAN_OPTIONS=",   "LSAN_OPTIONS=", "LLVM_PROFILE_FILE="};
  std::vector<char*> kept;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (std::ranges::any_of(kKept, [text](auto prefix) { return text.starts_with(prefix); })) {
      kept.push_back(*entry);
    }
  }
  kept.push_back(nullptr);
  return kept;
}

// posix_spawn()'s two objects, destroyed with it.
struct SpawnSetup {
  SpawnSetup() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
  }
  ~SpawnSetup() {
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
  }
  SpawnSetup(const SpawnSetup&) = delete;
  SpawnSetup& operator=(const SpawnSetup&) = delete;

  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
};

absl::Status DeathStatus(int wait_status, const SpawnOptions& options) {
  if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == kExitOutOfMemory) {
    const std::string setting =
        options.memory_setting.empty() ? "" : StrCat(" (", options.memory_setting, ")");
    return WithReason(absl::ResourceExhaustedError(StrCat("the report needs more than ",
                                                          options.max_memory_bytes >> 20,
                                                          " MiB of memory", setting)),
                      kTooLarge);
  }
  if (WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL) {
    return WithReason(absl::UnavailableError(
                          "the report process was killed, by the kernel for lack of memory or by "
                          "an administrator; retry later"),
                      kKilled);
  }
  const std::string how = WIFSIGNALED(wait_status)
                              ? StrCat("signal ", WTERMSIG(wait_status))
                              : StrCat("exit status ", WEXITSTATUS(wait_status));
  return WithReason(
      absl::InternalError(StrCat("the report process crashed on this capture (", how, ")")),
      kCrashed);
}

}  // namespace

SpawnedProcess::~SpawnedProcess() {
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  if (!Reap(kLastWait).has_value()) LogDebug(StrCat("profd-report pid=", pid_, " is left to init"));
}

absl::Status SpawnedProcess::EnsureStarted(absl::FunctionRef<absl::Status()> still_wanted) {
  if (pid_ >= 0) {
    // While it has nothing to do it says nothing: what can be read is its end.
    pollfd readable = {.fd = socket_.get(), .events = POLLIN, .revents = 0};
    if (poll(&readable, 1, 0) == 0) return absl::OkStatus();
    LogWarning(StrCat("profd-report pid=", pid_, " has ended; another one is started"));
    Kill();
  }
  if (clock_.Monotonic() < not_before_) return failure_;
  absl::Status started = Start(still_wanted);
  if (started.ok()) {
    failures_ = 0;
    return started;
  }
  Kill();
  if (absl::Status wanted = still_wanted(); !wanted.ok()) return wanted;
  failure_ = absl::UnavailableError(StrCat("cannot start ", options_.program.string(), ": ",
                                           FromAbsl(started.message()),
                                           "; install profd completely, or set report-program"));
  LogError(FromAbsl(failure_.message()));
  const int doublings = std::min(failures_++, 10);
  not_before_ = clock_.Monotonic() + std::min(kFirstBackOff * (1 << doublings), kMaxBackOff);
  return failure_;
}

absl::Status SpawnedProcess::Start(absl::FunctionRef<absl::Status()> still_wanted) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return absl::ErrnoToStatus(errno, "socketpair");
  }
  socket_.Reset(ends[0]);
  UniqueFd theirs(ends[1]);
  // A program that hangs and does not read must not block the lane's thread for ever.
  setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &kSendTimeout, sizeof(kSendTimeout));
  RETURN_IF_ERROR(Spawn(theirs.get()));
  theirs.Reset();  // Or we would not see that the program has ended.
  reader_ = std::make_unique<FrameReader>(socket_.get(), kMaxDataBytes);
  return AwaitHello(still_wanted);
}

absl::Status SpawnedProcess::Spawn(int socket) {
  SpawnSetup setup;
  posix_spawn_file_actions_addopen(&setup.actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&setup.actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  // The copy stays open in the program: dup2() clears close-on-exec.
  posix_spawn_file_actions_adddup2(&setup.actions, socket, kSocketFd);
  // profd blocks some signals in all its threads.
  sigset_t signals;
  sigemptyset(&signals);
  posix_spawnattr_setsigmask(&setup.attributes, &signals);
  sigaddset(&signals, SIGPIPE);
  sigaddset(&signals, SIGXFSZ);
  posix_spawnattr_setsigdefault(&setup.attributes, &signals);
  posix_spawnattr_setflags(&setup.attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);

  std::string name = kProgramName;
  std::string memory = StrCat("--max-memory=", options_.max_memory_bytes);
  std::string parent = StrCat("--parent=", getpid());
  std::string yield = StrCat("--yield=", options_.yields_to_training ? 1 : 0);
  std::array<char*, 5> arguments = {name.data(), memory.data(), parent.data(), yield.data(),
                                    nullptr};
  std::vector<char*> environment = ChildEnvironment();
  pid_t pid = -1;
  const int error = posix_spawn(&pid, options_.program.c_str(), &setup.actions, &setup.attributes,
                                arguments.data(), environment.data());
  if (error != 0) return absl::ErrnoToStatus(error, "posix_spawn");
  pid_ = pid;
  return absl::OkStatus();
}

absl::Status SpawnedProcess::AwaitHello(absl::FunctionRef<absl::Status()> still_wanted) {
  const absl::Duration until = Clock::Real().Monotonic() + kHelloTimeout;
  absl::StatusOr<std::optional<Frame>> frame = std::nullopt;
  while (frame.ok() && !frame->has_value() && Clock::Real().Monotonic() < until) {
    RETURN_IF_ERROR(still_wanted());
    frame = reader_->Next(kStartTick);
  }
  if (!frame.ok()) return absl::InternalError("it ended before it was ready");
  uint32_t version = 0;
  if (!frame->has_value()) return absl::DeadlineExceededError("it does not answer");
  const Frame& hello = **frame;
  if (hello.kind == FrameKind::kHello && hello.payload.size() == sizeof(version)) {
    std::memcpy(&version, hello.payload.data(), sizeof(version));
  }
  if (version == kProtocolVersion) return absl::OkStatus();
  return absl::FailedPreconditionError("it is of another version of profd; restart profd");
}

absl::Status SpawnedProcess::Send(const ReportRequest& request) {
  LogDebug(StrCat("profd-report pid=", pid_, " begins ", request.table));
  const absl::Status sent = SendRequestFrame(
      socket_.get(), EncodeRequest(request.table, request.options), request.capture);
  return sent.ok() ? sent : Explain(sent);
}

absl::StatusOr<std::optional<Frame>> SpawnedProcess::Receive(absl::Duration timeout) {
  absl::StatusOr<std::optional<Frame>> frame = reader_->Next(timeout);
  if (frame.ok()) return frame;
  return Explain(frame.status());
}

void SpawnedProcess::RequestCancel() {
  if (pid_ >= 0) SendFrame(socket_.get(), FrameKind::kCancel, {}).IgnoreError();
}

void SpawnedProcess::Pause() {
  if (pid_ >= 0) kill(pid_, SIGSTOP);
}

void SpawnedProcess::Resume() {
  if (pid_ >= 0) kill(pid_, SIGCONT);
}

void SpawnedProcess::Kill() {
  reader_.reset();
  socket_.Reset();
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  // After SIGKILL this ends soon, also for a stopped program.
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

std::optional<int> SpawnedProcess::Reap(absl::Duration timeout) {
  const absl::Duration until = Clock::Real().Monotonic() + timeout;
  while (Clock::Real().Monotonic() < until) {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = -1;
      return status;
    }
    absl::SleepFor(absl::Milliseconds(1));
  }
  return std::nullopt;
}

absl::Status SpawnedProcess::Explain(const absl::Status& error) {
  const pid_t pid = pid_;
  // UNAVAILABLE is the end of its socket, and so of the program. How it ended tells whether the
  // report was too large or the program crashed.
  const std::optional<int> status = absl::IsUnavailable(error) ? Reap(kDeathWait) : std::nullopt;
  Kill();
  const absl::Status explained =
      status.has_value() ? DeathStatus(*status, options_)
                         : WithReason(absl::InternalError(StrCat("the report process failed: ",
                                                                 FromAbsl(error.message()))),
                                      kCrashed);
  LogWarning(StrCat("profd-report pid=", pid, ": ", FromAbsl(explained.message())));
  return explained;
}

std::filesystem::path FindReportProgram() {
  std::error_code error;
  std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  // Without /proc: the name that the kernel was given to run.
  if (error) self = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
  const std::filesystem::path folder = std::filesystem::absolute(self, error).parent_path();
  const std::filesystem::path next_to_it = folder / kProgramName;
  if (access(next_to_it.c_str(), X_OK) == 0) return next_to_it;
  return folder.parent_path() / "libexec/profd" / kProgramName;
}

}  // namespace profd::worker
