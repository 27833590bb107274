// Descriptors: what the program does to its own numbers must not reach ours, and the other way
// round.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <vector>

#include "tests/client_lib/child.h"
#include "tests/fakes/fake_daemon.h"

namespace profd::testing {
namespace {

using ::testing::Contains;
using ::testing::Pair;

// Where the library puts its own, if it must share the program's table.
constexpr int kFirstHighNumber = 512;
constexpr int kNumbersTaken = 24;
constexpr char kFirstPart[] = "CHECKPOINT-DATA\n";
constexpr char kSecondPart[] = "SECOND-PART\n";

void Write(int fd, const std::string& text) {
  CHILD_EXPECT(write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
}

// As daemonizing code, sandboxes, and launchers do.
void CloseAllDescriptors(const Parent& parent) {
  for (int fd = 3; fd < 2 * kFirstHighNumber; ++fd) {
    if (!parent.Has(fd)) close(fd);
  }
}

// A program's files, at all the numbers that were free.
class Checkpoints {
 public:
  Checkpoints() {
    for (int i = 0; i < kNumbersTaken; ++i) {
      files_.push_back(static_cast<int>(syscall(SYS_memfd_create, "checkpoint", 0)));
      CHILD_EXPECT(files_.back() >= 0 && files_.back() < kFirstHighNumber);
    }
    for (int i = 0; i < kNumbersTaken; ++i) {
      numbers_.push_back(fcntl(files_[static_cast<size_t>(i)], F_DUPFD, kFirstHighNumber));
      CHILD_EXPECT(numbers_.back() == kFirstHighNumber + i);
    }
    for (const int fd : files_) Write(fd, kFirstPart);
  }
  // Appends, and ends the child unless every byte is the program's.
  void ExpectWhole() {
    for (int i = 0; i < kNumbersTaken; ++i) {
      const int fd = files_[static_cast<size_t>(i)];
      Write(numbers_[static_cast<size_t>(i)], kSecondPart);
      char bytes[256] = {};
      CHILD_EXPECT(pread(fd, bytes, sizeof(bytes) - 1, 0) > 0);
      CHILD_EXPECT(std::string(bytes) == std::string(kFirstPart) + kSecondPart);
    }
  }

 private:
  std::vector<int> files_;
  std::vector<int> numbers_;
};

// What the program does: connect, lose all descriptors, use their numbers, annotate.
void LoseDescriptors(Parent& parent, bool is_shared) {
  setenv("PROFD_TEST_SHARED_FILES", is_shared ? "1" : "0", 1);
  profd_init();
  WaitConnected();
  parent.Tell('c');
  parent.Await('g');
  CloseAllDescriptors(parent);
  Checkpoints checkpoints;
  CHILD_EXPECT(profd_set_metadata("loss", "1") == PROFD_OK);
  profd_step();
  parent.Tell('m');
  WaitRecording();
  EmptyRange(&g_range);
  parent.Tell('r');
  parent.Await('x');
  checkpoints.ExpectWhole();
}

void ExpectOneRange(FakeTarget& target, Child& child) {
  auto capture = target.Arm();
  capture->Fire(ByTime());
  child.Await('r');
  EXPECT_EQ(capture->Finish().CountRanges("range"), 1u);
}

TEST(DescriptorsTest, AProgramThatClosesEverythingKeepsItsFilesAndItsConnection) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent& parent) { LoseDescriptors(parent, false); });
  auto target = daemon.WaitTarget();
  child.Await('c');
  child.Tell('g');
  child.Await('m');
  while (target->metadata().count("loss") == 0) target->Expect(wire::FrameType::kMetadata);
  ExpectOneRange(*target, child);
  child.Tell('x');
  child.ExpectSuccess();
}

TEST(DescriptorsTest, InTheProgramsTableTheLibraryForgetsWhatWasClosedAndConnectsAgain) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent& parent) { LoseDescriptors(parent, true); });
  auto target = daemon.WaitTarget();
  child.Await('c');
  child.Tell('g');
  child.Await('m');
  target->ExpectClosed();  // When the agent looks at what it has, once a second.
  auto next = daemon.WaitTarget();
  EXPECT_THAT(next->metadata(), Contains(Pair("loss", "1")));
  ExpectOneRange(*next, child);
  child.Tell('x');
  child.ExpectSuccess();
}

TEST(DescriptorsTest, InTheProgramsTableOurNumbersAreHigh) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent& parent) {
    setenv("PROFD_TEST_SHARED_FILES", "1", 1);
    const int lowest = dup(0);
    close(lowest);
    profd_init();
    WaitConnected();
    parent.Tell('c');
    parent.Await('x');
    // Once the file of WELCOME is closed, the program gets the number that it would get anyway.
    WaitUntil("the lowest number", [&] {
      const int fd = dup(0);
      close(fd);
      return fd == lowest;
    });
    CHILD_EXPECT(fcntl(kFirstHighNumber, F_GETFD) == FD_CLOEXEC);
  });
  auto target = daemon.WaitTarget();
  child.Await('c');
  child.Tell('x');
  child.ExpectSuccess();
}

TEST(DescriptorsTest, AReaderOfTheProgramsStandardOutputSeesItsEnd) {
  FakeDaemon daemon;
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  Child child(daemon.directory(), [&](Parent& parent) {
    CHILD_EXPECT(dup2(ends[1], STDOUT_FILENO) == STDOUT_FILENO);
    close(ends[1]);
    profd_init();
    WaitConnected();
    Write(STDOUT_FILENO, "last line");
    close(STDOUT_FILENO);
    parent.Tell('c');
    parent.Await('x');
  });
  close(ends[1]);
  auto target = daemon.WaitTarget();
  child.Await('c');
  char bytes[64];
  EXPECT_EQ(read(ends[0], bytes, sizeof(bytes)), 9);
  pollfd waited{ends[0], POLLIN, 0};
  ASSERT_EQ(poll(&waited, 1, kDeadlineMs), 1);
  EXPECT_EQ(read(ends[0], bytes, sizeof(bytes)), 0);
  close(ends[0]);
  child.Tell('x');
  child.ExpectSuccess();
}

TEST(DescriptorsTest, TheAgentHasATableOfItsOwnAndTheHelperTheProgramsOne) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent& parent) {
    profd_init();
    WaitConnected();
    const int fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 100);
    const auto sees = [&](const std::string& thread) {
      const std::string link = ThreadDirectory(thread) + "/fd/" + std::to_string(fd);
      char target[256];
      return readlink(link.c_str(), target, sizeof(target)) >= 0;
    };
    CHILD_EXPECT(sees("profd-helper"));
    CHILD_EXPECT(!sees("profd"));
    parent.Tell('c');
    parent.Await('x');
  });
  auto target = daemon.WaitTarget();
  child.Await('c');
  child.Tell('x');
  child.ExpectSuccess();
}

std::atomic<int> g_handled{0};

TEST(DescriptorsTest, WakingTheAgentRunsNoHandlerOfTheProgram) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent& parent) {
    struct sigaction action {};
    action.sa_handler = [](int) { g_handled.fetch_add(1); };
    sigaction(SIGURG, &action, nullptr);
    profd_init();
    WaitConnected();
    for (int i = 0; i < 100; ++i) profd_set_metadata("round", std::to_string(i).c_str());
    parent.Tell('c');
    parent.Await('x');
    CHILD_EXPECT(g_handled == 0);
    raise(SIGURG);  // It is the program's as before.
    CHILD_EXPECT(g_handled == 1);
  });
  auto target = daemon.WaitTarget();
  child.Await('c');
  while (target->metadata().count("round") == 0 || target->metadata().at("round") != "99") {
    target->Expect(wire::FrameType::kMetadata);
  }
  child.Tell('x');
  child.ExpectSuccess();
}

// Out-of-band data comes so, for example.
TEST(DescriptorsTest, NoSignalIsTakenThatTheProgramWaitsFor) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent& parent) {
    sigset_t urgent;
    sigemptyset(&urgent);
    sigaddset(&urgent, SIGURG);
    pthread_sigmask(SIG_BLOCK, &urgent, nullptr);
    profd_init();
    WaitConnected();
    parent.Tell('c');
    parent.Await('x');
    for (int i = 0; i < 50; ++i) {
      kill(getpid(), SIGURG);
      profd_set_metadata("round", std::to_string(i).c_str());
      // The library's thread has run since: it would have taken the signal.
      parent.Await('r');
      const timespec now{};
      CHILD_EXPECT(sigtimedwait(&urgent, nullptr, &now) == SIGURG);
    }
    parent.Tell('d');
    parent.Await('x');
  });
  auto target = daemon.WaitTarget();
  child.Await('c');
  child.Tell('x');
  for (int i = 0; i < 50; ++i) {
    while (target->metadata().count("round") == 0 ||
           target->metadata().at("round") != std::to_string(i)) {
      target->Expect(wire::FrameType::kMetadata);
    }
    child.Tell('r');
  }
  child.Await('d');
  child.Tell('x');
  child.ExpectSuccess();
}

TEST(DescriptorsTest, AProcessThatMayHaveNoPendingSignalsIsATarget) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent& parent) {
    const rlimit none{};
    setrlimit(RLIMIT_SIGPENDING, &none);
    profd_init();
    WaitConnected();
    profd_set_metadata("round", "1");
    parent.Tell('c');
    parent.Await('x');
  });
  auto target = daemon.WaitTarget();
  child.Await('c');
  while (target->metadata().count("round") == 0) target->Expect(wire::FrameType::kMetadata);
  child.Tell('x');
  child.ExpectSuccess();
}

TEST(DescriptorsTest, AForkedChildClosesNothingOfItsOwn) {
  for (const char* shared : {"0", "1"}) {
    FakeDaemon daemon;
    Child child(daemon.directory(), [&](Parent& parent) {
      setenv("PROFD_TEST_SHARED_FILES", shared, 1);
      std::vector<int> before;
      if (*shared == '0') {
        for (int i = 0; i < kNumbersTaken; ++i) {
          before.push_back(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, kFirstHighNumber));
        }
      }
      const int files_before = CountOpenFiles();
      profd_init();
      WaitConnected();
      const pid_t pid = fork();
      if (pid == 0) {
        for (const int fd : before) CHILD_EXPECT(fcntl(fd, F_GETFD) >= 0);
        CHILD_EXPECT(CountOpenFiles() == files_before);
        profd_step();
        WaitConnected();  // By an agent of its own.
        _exit(0);
      }
      parent.Tell('f');
      CHILD_EXPECT(WaitForExit(pid) == 0);
      parent.Await('x');
    });
    auto target = daemon.WaitTarget();
    child.Await('f');
    auto forked = daemon.WaitTarget();
    child.Tell('x');
    child.ExpectSuccess();
  }
}

// ---- System calls that are refused.

// From now on, in this thread and those that it makes, `call` fails with EPERM.
void Refuse(long call) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(call), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{std::size(program), program};
  CHILD_EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  CHILD_EXPECT(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0);
}

constexpr long kCloseRange = 436;

TEST(RefusedCallsTest, WithoutCloseRangeTheAgentWorksInTheProgramsTable) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent& parent) {
    Refuse(kCloseRange);
    profd_init();
    WaitConnected();
    CHILD_EXPECT(fcntl(kFirstHighNumber, F_GETFD) == FD_CLOEXEC);
    parent.Tell('c');
    WaitRecording();
    EmptyRange(&g_range);
    parent.Tell('r');
    parent.Await('x');
  });
  auto target = daemon.WaitTarget();
  child.Await('c');
  ExpectOneRange(*target, child);
  child.Tell('x');
  child.ExpectSuccess();
}

TEST(RefusedCallsTest, WithoutACallThatItNeedsTheLibraryStaysOffAndSaysSo) {
  for (const long call : {SYS_signalfd4, SYS_tgkill, SYS_socket}) {
    SCOPED_TRACE(call);
    FakeDaemon daemon;
    Child child(daemon.directory(), [&](Parent&) {
      Refuse(call);
      profd_init();
      WaitUntil("it to be off", [] { return Status().disabled != 0; });
      CHILD_EXPECT(profd_init() == PROFD_DISABLED);
      profd_step();
      EmptyRange(&g_range);
      WaitUntil("its threads to end", [] {
        return ThreadDirectory("profd").empty() && ThreadDirectory("profd-helper").empty();
      });
    });
    child.ExpectSuccess();
    EXPECT_FALSE(daemon.HasCaller());
  }
}

}  // namespace
}  // namespace profd::testing
