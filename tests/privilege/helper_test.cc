// profd-helper as the daemon sees it: what it answers, and what it refuses.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/str_cat.h"
#include "daemon/base/unique_fd.h"
#include "daemon/privilege/helper_protocol.h"
#include "daemon/privilege/helper_reader.h"
#include "daemon/privilege/proc_files.h"
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

// A process that waits for its end.
class Child {
 public:
  Child() : pid_(fork()) {
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) pause();
  }
  ~Child() { End(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void End() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
};

class HelperTest : public testing::Test {
 protected:
  void SetUp() override {
    auto connection = StartHelper(PROFD_HELPER);
    ASSERT_THAT(connection, IsOk());
    connection_ = *std::move(connection);
  }

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
    vector = {.iov_base = answer.get(), .iov_len = sizeof *answer};
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    EXPECT_EQ(recvmsg(connection_.get(), &message, 0), static_cast<ssize_t>(sizeof *answer));
    received_control_bytes_ = message.msg_controllen;
    return answer->error;
  }
  int Send(const HelperRequest& request, const std::vector<int>& descriptors) {
    return Send(&request, sizeof request, descriptors);
  }

  UniqueFd connection_;
  size_t received_control_bytes_ = 0;  // Of the last answer.
};

TEST_F(HelperTest, FactsAreThoseOfTheProcessOfThePidfd) {
  HelperReader reader(std::move(connection_));
  Child child;
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
  Child child;
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

TEST_F(HelperTest, AnAnswerHasNoDescriptor) {
  const Child child;
  const UniqueFd pidfd = PidfdOf(child.pid());
  // As the request for memory was, which a daemon that was taken over could send.
  struct {
    uint32_t kind = 2;
    uint32_t reserved = 0;
    uint64_t number = 1;
    int64_t start_ticks = 1;
  } old_request;
  EXPECT_EQ(Send(&old_request, sizeof old_request, {pidfd.get(), connection_.get()}), EINVAL);
  EXPECT_EQ(Send({.number = 1}, {pidfd.get()}), 0);
  EXPECT_EQ(received_control_bytes_, 0U);
}

TEST_F(HelperTest, RequestsThatBreakARuleAreRefusedAndTheNextIsAnswered) {
  const UniqueFd self = PidfdOf(getpid());
  const UniqueFd file(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const HelperRequest good{.number = 1};
  std::string longer(sizeof good + 1, '\0');
  std::memcpy(longer.data(), &good, sizeof good);
  EXPECT_EQ(Send(longer.data(), longer.size(), {self.get()}), EINVAL);
  EXPECT_EQ(Send(longer.data(), sizeof good - 1, {self.get()}), EINVAL);
  EXPECT_EQ(Send(good, {}), EINVAL);
  EXPECT_EQ(Send(good, {self.get(), self.get()}), EINVAL);
  EXPECT_EQ(Send(good, {self.get(), self.get(), self.get()}), EINVAL) << "more than it takes";
  EXPECT_EQ(Send(good, {file.get()}), EINVAL) << "not a pidfd";
  EXPECT_EQ(Send(good, {self.get()}), 0);
}

TEST_F(HelperTest, ALostHelperIsNoticedAndLeavesWhatOneSeesOneself) {
  const UniqueFd self = PidfdOf(getpid());
  shutdown(connection_.get(), SHUT_RDWR);
  HelperReader reader(std::move(connection_));
  EXPECT_THAT(reader.Read(self.get()), IsOk());
}

TEST(AccountTest, AnAccountThatDoesNotExistIsAnErrorWithTheRemedy) {
  EXPECT_THAT(AccountFor("no such user"),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("useradd")));
  const auto root = AccountFor("root");
  ASSERT_THAT(root, IsOk());
  EXPECT_FALSE(root->has_value());
}

TEST(ProcFilesTest, ThousandsOfGroupsHideNoLine) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / StrCat("proc_files_", getpid());
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "stat")
      << "7 (a) S 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 98 0";
  std::ofstream status(folder / "status");
  status << "Name:\tGroups:\nPPid:\t3\nGroups:\t";
  for (int group = 0; group < 65'536; ++group) status << 1'000'000 + group << " ";
  status << "\nNSpid:\t7\t12\n";
  status.close();
  const UniqueFd opened(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto facts = std::make_unique<ProcFacts>();
  EXPECT_EQ(ReadProcFacts(opened.get(), *facts), 0);
  EXPECT_EQ(facts->status_text(), "Name:\tGroups:\nPPid:\t3\nNSpid:\t7\t12\n");
  std::filesystem::remove_all(folder);
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
