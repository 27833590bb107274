#include "daemon/privilege/helper_reader.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <utility>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"

namespace profd {
namespace {

constexpr absl::Duration kPauseAfterLoss = absl::Seconds(5);

void SetPatience(int connection) {
  const timeval patience = absl::ToTimeval(HelperReader::kPatience);
  setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
}

absl::Status Lost(std::string_view what) {
  return absl::UnavailableError(StrCat("profd-helper ", what, ": ", strerror(errno)));
}

}  // namespace

HelperReader::HelperReader(UniqueFd connection, Clock& clock)
    : clock_(clock), log_limiter_(absl::Minutes(1), clock), connection_(std::move(connection)) {
  SetPatience(connection_.get());
}

HelperReader::HelperReader(std::filesystem::path socket, Clock& clock)
    : socket_(std::move(socket)), clock_(clock), log_limiter_(absl::Minutes(1), clock) {}

absl::StatusOr<std::unique_ptr<ProcFacts>> HelperReader::Read(int pidfd) {
  absl::StatusOr<std::unique_ptr<ProcFacts>> own = Direct().Read(pidfd);
  // What can be seen without privileges needs no helper: a process of our own user.
  if (own.ok() && (*own)->user_namespace.known() && (*own)->pid_namespace.known()) return own;
  const absl::StatusOr<std::unique_ptr<HelperAnswer>> answer = Ask(pidfd);
  if (!answer.ok()) return own;
  if ((*answer)->error != 0) return absl::NotFoundError("the process has ended");
  return std::make_unique<ProcFacts>((*answer)->facts);
}

absl::StatusOr<std::unique_ptr<HelperAnswer>> HelperReader::Ask(int pidfd) {
  absl::MutexLock lock(&mu_);
  if (clock_.Monotonic() < next_try_) return absl::UnavailableError("profd-helper does not answer");
  const bool fresh = !connection_.valid();
  const HelperRequest request{.number = ++last_number_};
  absl::StatusOr<std::unique_ptr<HelperAnswer>> answer = AskOnce(request, pidfd);
  // Its unit may have been restarted since the last request.
  if (!answer.ok() && !fresh && !connection_.valid() && !socket_.empty()) {
    answer = AskOnce(request, pidfd);
  }
  if (answer.ok()) return answer;
  next_try_ = clock_.Monotonic() + kPauseAfterLoss;
  if (const auto more = log_limiter_.Allow()) {
    LogError(StrCat(FromAbsl(answer.status().message()),
                    "; callers of other users are refused as outsiders until it answers; ",
                    socket_.empty() ? "restart profd" : "see systemctl status 'profd-helper*'",
                    " (", *more, " more)"));
  }
  return answer;
}

absl::Status HelperReader::Connect() {
  if (connection_.valid()) return absl::OkStatus();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = socket_.string();
  if (path.empty()) return absl::UnavailableError("profd-helper has ended");
  if (path.size() >= sizeof address.sun_path) {
    return absl::InvalidArgumentError(StrCat("the helper's path is too long: '", path, "'"));
  }
  memcpy(address.sun_path, path.data(), path.size());
  UniqueFd connection(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!connection.valid()) return Lost("cannot be reached");
  SetPatience(connection.get());
  ucred listener{};
  socklen_t size = sizeof listener;
  if (connect(connection.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &listener, &size) != 0) {
    return Lost(StrCat("cannot be reached at '", path, "'"));
  }
  // Another user could put a socket there and answer with made-up facts.
  if (listener.uid != 0 && listener.uid != geteuid()) {
    return absl::UnavailableError(
        StrCat("profd-helper: uid ", listener.uid, " listens at '", path, "', which is not root"));
  }
  connection_ = std::move(connection);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<HelperAnswer>> HelperReader::AskOnce(const HelperRequest& request,
                                                                    int pidfd) {
  RETURN_IF_ERROR(Connect());
  iovec bytes{.iov_base = const_cast<HelperRequest*>(&request), .iov_len = sizeof request};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof pidfd)] = {};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* part = CMSG_FIRSTHDR(&message);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(sizeof pidfd);
  memcpy(CMSG_DATA(part), &pidfd, sizeof pidfd);
  if (sendmsg(connection_.get(), &message, MSG_NOSIGNAL) != sizeof request) {
    const absl::Status lost = Lost("does not take requests");
    connection_.Reset();
    return lost;
  }
  absl::StatusOr<std::unique_ptr<HelperAnswer>> answer = Receive(request.number);
  // One that is slow is asked again later, and its late answer is skipped.
  if (!answer.ok() && !absl::IsDeadlineExceeded(answer.status())) connection_.Reset();
  return answer;
}

absl::StatusOr<std::unique_ptr<HelperAnswer>> HelperReader::Receive(uint64_t number) {
  auto answer = std::make_unique<HelperAnswer>();
  for (;;) {
    const ssize_t size = recv(connection_.get(), answer.get(), sizeof *answer, MSG_TRUNC);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) {
      return absl::DeadlineExceededError("profd-helper does not answer");
    }
    if (size == 0) return absl::UnavailableError("profd-helper has ended");
    if (size < 0) return Lost("does not answer");
    const ProcFacts& facts = answer->facts;
    if (size != sizeof *answer || answer->number > number ||
        facts.status_bytes > sizeof facts.status || facts.command_bytes > sizeof facts.command ||
        facts.cgroup_bytes > sizeof facts.cgroup) {
      return absl::UnavailableError("profd-helper sent a malformed answer");
    }
    if (answer->number == number) return answer;
  }
}

}  // namespace profd
