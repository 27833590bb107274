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

// The first descriptor of a message; any others are closed.
UniqueFd FileOf(msghdr& message) {
  UniqueFd first;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof fd);
      UniqueFd file(fd);
      if (!first.valid()) first = std::move(file);
    }
  }
  return first;
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
  absl::StatusOr<Reply> reply = Ask({.kind = HelperRequestKind::kFacts}, {pidfd});
  if (!reply.ok()) return own;
  if (reply->answer->error != 0) return absl::NotFoundError("the process has ended");
  return std::make_unique<ProcFacts>(reply->answer->facts);
}

absl::StatusOr<UniqueFd> HelperReader::OpenMemory(int pidfd, int connection, int64_t start_ticks) {
  ASSIGN_OR_RETURN(
      Reply reply,
      Ask({.kind = HelperRequestKind::kMemory, .start_ticks = start_ticks}, {pidfd, connection}));
  switch (const int error = reply.answer->error) {
    case 0:
      if (!reply.file.valid()) return absl::InternalError("profd-helper sent no descriptor");
      return std::move(reply.file);
    case EINVAL:
      return absl::InvalidArgumentError("profd-helper: not the process of a registered target");
    case ESRCH:
      return absl::NotFoundError("the process has ended");
    default:
      return absl::PermissionDeniedError(
          StrCat("profd-helper cannot open the memory of the process: ", strerror(error)));
  }
}

absl::StatusOr<HelperReader::Reply> HelperReader::Ask(HelperRequest request,
                                                      std::initializer_list<int> descriptors) {
  absl::MutexLock lock(&mu_);
  if (clock_.Monotonic() < next_try_) return absl::UnavailableError("profd-helper does not answer");
  const bool fresh = !connection_.valid();
  request.number = ++last_number_;
  absl::StatusOr<Reply> reply = AskOnce(request, descriptors);
  // Its unit may have been restarted since the last request.
  if (!reply.ok() && !fresh && !connection_.valid() && !socket_.empty()) {
    reply = AskOnce(request, descriptors);
  }
  if (reply.ok()) return reply;
  next_try_ = clock_.Monotonic() + kPauseAfterLoss;
  if (const auto more = log_limiter_.Allow()) {
    LogError(StrCat(FromAbsl(reply.status().message()),
                    "; callers of other users are refused as outsiders until it answers; ",
                    socket_.empty() ? "restart profd" : "see systemctl status 'profd-helper*'",
                    " (", *more, " more)"));
  }
  return reply;
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
  if (listener.uid != 0 && listener.uid != geteuid()) {
    return absl::UnavailableError(
        StrCat("profd-helper: uid ", listener.uid, " listens at '", path, "', which is not root"));
  }
  connection_ = std::move(connection);
  return absl::OkStatus();
}

absl::StatusOr<HelperReader::Reply> HelperReader::AskOnce(const HelperRequest& request,
                                                          std::initializer_list<int> descriptors) {
  RETURN_IF_ERROR(Connect());
  iovec bytes{.iov_base = const_cast<HelperRequest*>(&request), .iov_len = sizeof request};
  alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_SPACE(descriptors.size() * sizeof(int));
  cmsghdr* part = CMSG_FIRSTHDR(&message);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
  memcpy(CMSG_DATA(part), descriptors.begin(), descriptors.size() * sizeof(int));
  if (sendmsg(connection_.get(), &message, MSG_NOSIGNAL) != sizeof request) {
    const absl::Status lost = Lost("does not take requests");
    connection_.Reset();
    return lost;
  }
  absl::StatusOr<Reply> reply = Receive(request.number);
  // One that is slow is asked again later, and its late answer is skipped.
  if (!reply.ok() && !absl::IsDeadlineExceeded(reply.status())) connection_.Reset();
  return reply;
}

absl::StatusOr<HelperReader::Reply> HelperReader::Receive(uint64_t number) {
  for (;;) {
    Reply reply{.answer = std::make_unique<HelperAnswer>(), .file = UniqueFd()};
    iovec bytes{.iov_base = reply.answer.get(), .iov_len = sizeof(HelperAnswer)};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t size = recvmsg(connection_.get(), &message, MSG_CMSG_CLOEXEC);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) {
      return absl::DeadlineExceededError("profd-helper does not answer");
    }
    if (size == 0) return absl::UnavailableError("profd-helper has ended");
    if (size < 0) return Lost("does not answer");
    reply.file = FileOf(message);
    const ProcFacts& facts = reply.answer->facts;
    if (size != sizeof(HelperAnswer) || reply.answer->number > number ||
        facts.status_bytes > sizeof facts.status || facts.command_bytes > sizeof facts.command ||
        facts.cgroup_bytes > sizeof facts.cgroup) {
      return absl::UnavailableError("profd-helper sent a malformed answer");
    }
    if (reply.answer->number == number) return reply;
  }
}

}  // namespace profd
