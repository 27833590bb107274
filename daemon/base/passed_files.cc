#include "daemon/base/passed_files.h"

#include <errno.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <iterator>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace profd {
namespace {

// Not in Debian 12's headers. Linux: include/uapi/asm-generic/socket.h, since 6.16. The
// architectures that number socket options differently (mips, sparc, parisc) are not supported.
constexpr int kSoPassRights = 83;

// Messages of one closed connection that are looked at: more than its queue can hold.
constexpr int kMaxDrainedMessages = 100'000;

// Without this the last close() of a TCP socket waits until its data is sent.
void TurnLingerOff(int fd) {
  const linger off{.l_onoff = 0, .l_linger = 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &off, sizeof off);  // Fails for what is not a socket.
}

// The descriptors in the queue of a socket that was shut down.
std::vector<UniqueFd> Drain(int connection) {
  std::vector<UniqueFd> all;
  for (int i = 0; i < kMaxDrainedMessages; ++i) {
    alignas(cmsghdr) char control[kPassedFilesControlBytes];
    char data[16 << 10];
    iovec part{.iov_base = data, .iov_len = sizeof data};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t got = recvmsg(connection, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) break;
    std::vector<UniqueFd> files = TakePassedFiles(message);
    if (got == 0 && files.empty()) break;
    std::move(files.begin(), files.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace

bool RefusePassedFiles(int unix_socket) {
  const int off = 0;
  return setsockopt(unix_socket, SOL_SOCKET, kSoPassRights, &off, sizeof off) == 0;
}

std::vector<UniqueFd> TakePassedFiles(msghdr& message) {
  std::vector<UniqueFd> files;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
      files.emplace_back(fd);
    }
  }
  return files;
}

// Shared by the closer and its threads, which may outlive it.
class ForeignCloser::State : public std::enable_shared_from_this<State> {
 public:
  explicit State(CloseFunction close) : close_(std::move(close)) {}

  void CloseConnection(UniqueFd connection) {
    absl::MutexLock lock(&mu_);
    connections_.push_back(std::move(connection));
    if (!has_connection_thread_) has_connection_thread_ = StartThread(&State::ConnectionLoop);
  }

  void ClosePassed(std::vector<UniqueFd> files) {
    if (files.empty()) return;
    absl::MutexLock lock(&mu_);
    std::move(files.begin(), files.end(), std::back_inserter(passed_));
    StartPassedThreadIfNeeded();
  }

  int64_t waiting() const {
    absl::MutexLock lock(&mu_);
    return std::ssize(passed_) + closing_;
  }

  void End() {
    absl::MutexLock lock(&mu_);
    ends_ = true;
  }

 private:
  // False: the system has no room for a thread. What is to be closed waits for the next one.
  bool StartThread(void (State::*loop)()) {
    try {
      // Not joined: its close() may block for as long as a peer likes.
      std::thread([self = shared_from_this(), loop] {
        pthread_setname_np(pthread_self(), "profd-closer");
        (*self.*loop)();
      }).detach();
    } catch (const std::system_error&) {
      return false;
    }
    return true;
  }

  void StartPassedThreadIfNeeded() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    // An idle thread may be about to wake for an earlier descriptor.
    if (std::ssize(passed_) <= idle_ || threads_ >= kMaxThreads) return;
    if (StartThread(&State::PassedLoop)) ++threads_;
  }

  void ConnectionLoop() {
    while (true) {
      UniqueFd connection;
      {
        absl::MutexLock lock(&mu_);
        mu_.Await(absl::Condition(this, &State::HasConnectionOrEnds));
        if (connections_.empty()) return;
        connection = std::move(connections_.front());
        connections_.pop_front();
      }
      ClosePassed(Drain(connection.get()));
    }
  }

  void PassedLoop() {
    while (true) {
      UniqueFd file;
      {
        absl::MutexLock lock(&mu_);
        ++idle_;
        mu_.Await(absl::Condition(this, &State::HasPassedOrEnds));
        --idle_;
        if (passed_.empty()) return;
        file = std::move(passed_.front());
        passed_.pop_front();
        ++closing_;
        StartPassedThreadIfNeeded();
      }
      Close(std::move(file));
      absl::MutexLock lock(&mu_);
      --closing_;
    }
  }

  void Close(UniqueFd file) const {
    TurnLingerOff(file.get());
    if (close_) close_(file.get());
  }

  bool HasConnectionOrEnds() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return ends_ || !connections_.empty();
  }
  bool HasPassedOrEnds() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return ends_ || !passed_.empty();
  }

  const CloseFunction close_;  // Called before close(), if set.
  mutable absl::Mutex mu_;
  std::deque<UniqueFd> connections_ ABSL_GUARDED_BY(mu_);
  std::deque<UniqueFd> passed_ ABSL_GUARDED_BY(mu_);
  bool has_connection_thread_ ABSL_GUARDED_BY(mu_) = false;
  int threads_ ABSL_GUARDED_BY(mu_) = 0;  // Of passed descriptors.
  int idle_ ABSL_GUARDED_BY(mu_) = 0;     // How many of the threads are idle.
  int64_t closing_ ABSL_GUARDED_BY(mu_) = 0;
  bool ends_ ABSL_GUARDED_BY(mu_) = false;
};

ForeignCloser::ForeignCloser(CloseFunction close_for_testing)
    : state_(std::make_shared<State>(std::move(close_for_testing))) {}

ForeignCloser::~ForeignCloser() { state_->End(); }

void ForeignCloser::CloseConnection(UniqueFd connection) {
  if (!connection.valid()) return;
  // The peer learns of the end at once; its queue stays as it is.
  shutdown(connection.get(), SHUT_RDWR);
  state_->CloseConnection(std::move(connection));
}

void ForeignCloser::ClosePassed(std::vector<UniqueFd> files) {
  state_->ClosePassed(std::move(files));
}

int64_t ForeignCloser::waiting() const { return state_->waiting(); }

}  // namespace profd
