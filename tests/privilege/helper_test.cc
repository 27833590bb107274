// profd-helper as the daemon sees it: what it answers, and what it refuses.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/str_cat.h"
#include "daemon/base/unique_fd.h"
#include "daemon/privilege/helper_protocol.h"
#include "daemon/privilege/helper_reader.h"
#include "daemon/privilege/process_reader.h"
#include "daemon/privilege/root_start.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/status_matchers.h"

namespace profd {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

UniqueFd PidfdOf(pid_t pid) { return UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))); }

sockaddr_un AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

// A process that connects to the agent socket and waits for its end, with a word in its memory.
class Child {
 public:
  explicit Child(const std::string& agent_socket) {
    int ready[2];
    EXPECT_EQ(pipe2(ready, O_CLOEXEC), 0);
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const int peer = socket(AF_UNIX, SOCK_SEQPACKET, 0);
      const sockaddr_un address = AddressOf(agent_socket);
      const int result = connect(peer, reinterpret_cast<const sockaddr*>(&address), sizeof address);
      word_ = 4711;
      [[maybe_unused]] const ssize_t written = write(ready[1], &result, sizeof result);
      for (;;) pause();
    }
    close(ready[1]);
    int result = -1;
    EXPECT_EQ(read(ready[0], &result, sizeof result), static_cast<ssize_t>(sizeof result));
    EXPECT_EQ(result, 0);
    close(ready[0]);
  }
  ~Child() { End(); }

  void End() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  pid_t pid() const { return pid_; }

  static inline volatile int64_t word_ = 0;

 private:
  pid_t pid_ = -1;
};

class HelperTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "profd_helper_XXXXXX";
    folder_ = mkdtemp(name.data());
    agent_socket_ = folder_ / "agent.sock";
    listener_ = UniqueFd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    const sockaddr_un address = AddressOf(agent_socket_);
    ASSERT_EQ(bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
              0);
    ASSERT_EQ(listen(listener_.get(), 8), 0);
    auto connection = StartHelper(PROFD_HELPER, agent_socket_);
    ASSERT_THAT(connection, IsOk());
    connection_ = *std::move(connection);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  UniqueFd Accept() { return UniqueFd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)); }

  // Sends any bytes and descriptors, as a daemon that was taken over may; returns the answer's
  // error.
  int Send(const void* bytes, size_t size, const std::vector<int>& descriptors) {
    iovec vector{.iov_base = const_cast<void*>(bytes), .iov_len = size};
    alignas(cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &vector;
    message.msg_iovlen = 1;
    if (!descriptors.empty()) {
      message.msg_control = control;
      message.msg_controllen = CMSG_SPACE(descriptors.size() * sizeof(int));
      cmsghdr* part = CMSG_FIRSTHDR(&message);
      part->cmsg_level = SOL_SOCKET;
      part->cmsg_type = SCM_RIGHTS;
      part->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
      std::memcpy(CMSG_DATA(part), descriptors.data(), descriptors.size() * sizeof(int));
    }
    EXPECT_EQ(sendmsg(connection_.get(), &message, MSG_NOSIGNAL), static_cast<ssize_t>(size));
    const auto answer = std::make_unique<HelperAnswer>();
    EXPECT_EQ(recv(connection_.get(), answer.get(), sizeof *answer, 0),
              static_cast<ssize_t>(sizeof *answer));
    return answer->error;
  }
  int Send(const HelperRequest& request, const std::vector<int>& descriptors) {
    return Send(&request, sizeof request, descriptors);
  }

  std::filesystem::path folder_;
  std::filesystem::path agent_socket_;
  UniqueFd listener_;
  UniqueFd connection_;
};

TEST_F(HelperTest, FactsAreThoseOfTheProcessOfThePidfd) {
  HelperReader reader(std::move(connection_));
  Child child(agent_socket_);
  const UniqueFd pidfd = PidfdOf(child.pid());
  const auto facts = reader.Read(pidfd.get());
  ASSERT_THAT(facts, IsOk());
  EXPECT_GT((*facts)->start_ticks, 0);
  EXPECT_THAT(std::string((*facts)->status_text()), HasSubstr(StrCat("\nPid:\t", child.pid())));
  EXPECT_TRUE((*facts)->user_namespace.known());
  child.End();
  EXPECT_THAT(reader.Read(pidfd.get()), StatusIs(StatusCode::kNotFound));
}

TEST_F(HelperTest, ProcessesOfOtherUsersAreSeenByADaemonWithoutPrivileges) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  Child child(agent_socket_);
  // In a process of its own, which becomes nobody.
  const pid_t daemon = fork();
  if (daemon == 0) {
    if (setgid(65534) != 0 || setuid(65534) != 0) _exit(2);
    const UniqueFd pidfd = PidfdOf(child.pid());
    const auto own = ProcessReader::Direct().Read(pidfd.get());
    HelperReader reader(std::move(connection_));
    const auto helped = reader.Read(pidfd.get());
    const bool right = own.ok() && !(*own)->user_namespace.known() && helped.ok() &&
                       (*helped)->user_namespace.known() && (*helped)->pid_namespace.known();
    _exit(right ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(daemon, &status, 0), daemon);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(HelperTest, MemoryIsThatOfARegisteredTargetAndReadOnly) {
  HelperReader reader(std::move(connection_));
  Child child(agent_socket_);
  const UniqueFd connection = Accept();
  const UniqueFd pidfd = PidfdOf(child.pid());
  const auto facts = reader.Read(pidfd.get());
  ASSERT_THAT(facts, IsOk());
  const auto memory = reader.OpenMemory(pidfd.get(), connection.get(), (*facts)->start_ticks);
  if (absl::IsPermissionDenied(memory.status())) {
    GTEST_SKIP() << "this kernel forbids to read the memory of processes (Yama)";
  }
  ASSERT_THAT(memory, IsOk());
  EXPECT_EQ(fcntl(memory->get(), F_GETFL) & O_ACCMODE, O_RDONLY);
  int64_t word = 0;
  const auto address = static_cast<off_t>(reinterpret_cast<uintptr_t>(&Child::word_));
  ASSERT_EQ(pread(memory->get(), &word, sizeof word, address), static_cast<ssize_t>(sizeof word));
  EXPECT_EQ(word, 4711);
}

TEST_F(HelperTest, MemoryOfAnyOtherProcessIsRefused) {
  HelperReader reader(std::move(connection_));
  Child child(agent_socket_);
  const UniqueFd connection = Accept();
  const UniqueFd pidfd = PidfdOf(child.pid());
  const UniqueFd self = PidfdOf(getpid());
  const auto facts = reader.Read(pidfd.get());
  const auto own_facts = reader.Read(self.get());
  ASSERT_THAT(facts, IsOk());
  ASSERT_THAT(own_facts, IsOk());
  // Another process than the one that connected.
  EXPECT_THAT(reader.OpenMemory(self.get(), connection.get(), (*own_facts)->start_ticks),
              StatusIs(StatusCode::kInvalidArgument));
  // A process that listens, and one end of a pair: neither was accepted on the agent socket.
  int pair[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
  EXPECT_THAT(reader.OpenMemory(self.get(), pair[0], (*own_facts)->start_ticks),
              StatusIs(StatusCode::kInvalidArgument));
  const UniqueFd peer(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const sockaddr_un address = AddressOf(agent_socket_);
  ASSERT_EQ(connect(peer.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_THAT(reader.OpenMemory(self.get(), peer.get(), (*own_facts)->start_ticks),
              StatusIs(StatusCode::kInvalidArgument))
      << "SO_PEERCRED of the connecting side is the listener";
  // A pid that was given to another process since.
  EXPECT_THAT(reader.OpenMemory(pidfd.get(), connection.get(), (*facts)->start_ticks + 1),
              StatusIs(StatusCode::kNotFound));
  close(pair[0]);
  close(pair[1]);
}

TEST_F(HelperTest, RequestsThatBreakARuleAreRefusedAndTheNextIsAnswered) {
  const UniqueFd self = PidfdOf(getpid());
  const UniqueFd file(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const HelperRequest good{.kind = HelperRequestKind::kFacts, .number = 1};
  std::string longer(sizeof good + 1, '\0');
  std::memcpy(longer.data(), &good, sizeof good);
  EXPECT_EQ(Send(longer.data(), longer.size(), {self.get()}), EINVAL);
  EXPECT_EQ(Send(longer.data(), sizeof good - 1, {self.get()}), EINVAL);
  EXPECT_EQ(Send(good, {}), EINVAL);
  EXPECT_EQ(Send(good, {self.get(), self.get()}), EINVAL);
  EXPECT_EQ(Send(good, {self.get(), self.get(), self.get()}), EINVAL) << "more than it takes";
  EXPECT_EQ(Send(good, {file.get()}), EINVAL) << "not a pidfd";
  EXPECT_EQ(Send({.kind = HelperRequestKind{3}, .number = 1}, {self.get()}), EINVAL);
  EXPECT_EQ(Send({.kind = HelperRequestKind::kMemory, .number = 1}, {self.get(), file.get()}),
            EINVAL)
      << "without a start time";
  EXPECT_EQ(Send({.kind = HelperRequestKind::kFacts, .number = 1, .start_ticks = 1}, {self.get()}),
            ESRCH);
  EXPECT_EQ(Send(good, {self.get()}), 0);
}

TEST_F(HelperTest, ALostHelperIsNoticedAndLeavesWhatOneSeesOneself) {
  const UniqueFd self = PidfdOf(getpid());
  shutdown(connection_.get(), SHUT_RDWR);
  HelperReader reader(std::move(connection_));
  EXPECT_THAT(reader.Read(self.get()), IsOk());
  EXPECT_THAT(reader.OpenMemory(self.get(), self.get(), 1), StatusIs(StatusCode::kUnavailable));
}

TEST(AccountTest, AnAccountThatDoesNotExistIsAnErrorWithTheRemedy) {
  EXPECT_THAT(AccountFor("no such user"),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("useradd")));
  const auto root = AccountFor("root");
  ASSERT_THAT(root, IsOk());
  EXPECT_FALSE(root->has_value());
}

TEST(ProcFilesTest, TheStartTimeIsFoundBehindAnyName) {
  EXPECT_EQ(
      StartTicksIn("7 (a) R 1 ) (b) S 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 98 24"), 98);
  for (const char* text : {"", "7 (a", "7 (a)", "7 (a) S 1 2 3", ")"}) {
    EXPECT_EQ(StartTicksIn(text), -1) << text;
  }
}

}  // namespace
}  // namespace profd
