#include "tests/client_lib/child.h"

#include <dirent.h>
#include <errno.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/fakes/fake_daemon.h"

#if defined(__SANITIZE_THREAD__)
// Forked children of processes with threads start a thread of their own: what is tested.
extern "C" const char* __tsan_default_options() { return "die_after_fork=0"; }
#endif

namespace profd::testing {
namespace {

void Write(int fd, char message) {
  if (write(fd, &message, 1) != 1) FailTest("the other side of a test is gone");
}

char Read(int fd, int timeout_ms) {
  pollfd waited{fd, POLLIN, 0};
  int ready;
  do {
    ready = poll(&waited, 1, timeout_ms);
  } while (ready < 0 && errno == EINTR);
  char message = 0;
  if (ready != 1 || read(fd, &message, 1) != 1) FailTest("the other side of a test said nothing");
  return message;
}

void Require(char got, char wanted) {
  if (got != wanted) {
    FailTest(std::string("waited for '") + wanted + "', got '" + got + "'");
  }
}

}  // namespace

void Parent::Tell(char message) { Write(out_, message); }
// The test has the deadline, and takes its children with it.
void Parent::Await(char message) { Require(Read(in_, -1), message); }

char Parent::Next() { return Read(in_, -1); }

Child::Child(const std::string& socket_directory, const std::function<void(Parent&)>& body) {
  int to_child[2];
  int to_parent[2];
  if (pipe(to_child) != 0 || pipe(to_parent) != 0) FailTest("pipe");
  fflush(stdout);
  fflush(stderr);
  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(to_child[1]);
    close(to_parent[0]);
    setenv("PROFD_SOCKET_DIR", socket_directory.c_str(), 1);
    Parent parent(to_child[0], to_parent[1]);
    body(parent);
    _exit(0);
  }
  close(to_child[0]);
  close(to_parent[1]);
  out_ = to_child[1];
  in_ = to_parent[0];
}

Child::~Child() {
  if (pid_ >= 0) {
    kill(pid_, SIGKILL);
    WaitForExit(pid_);
  }
  close(in_);
  close(out_);
}

void Child::Tell(char message) { Write(out_, message); }
void Child::Await(char message) { Require(Read(in_, kDeadlineMs), message); }

void Child::ExpectSuccess() {
  EXPECT_EQ(WaitForExit(pid_), 0);
  pid_ = -1;
}

int Child::WaitForEnd() {
  const int status = WaitForExit(pid_);
  pid_ = -1;
  return status;
}

void Child::Signal(int number) { kill(pid_, number); }

void ExpectInChild(bool condition, const char* text, const char* file, int line) {
  if (condition) return;
  fprintf(stderr, "%s:%d: in the child: %s\n", file, line, text);
  _exit(1);
}

profd_status Status() {
  profd_status status{};
  status.size_bytes = sizeof(status);
  profd_get_status(&status);
  return status;
}

void WaitConnected() {
  WaitUntil("the connection", [] {
    profd_init();  // Ends the agent's wait between two tries.
    return Status().connected != 0;
  });
}
void WaitDisconnected() {
  WaitUntil("the disconnection", [] { return Status().connected == 0; });
}
void WaitRecording() {
  WaitUntil("recording", [] { return Status().recording != 0; });
}
void WaitNotRecording() {
  WaitUntil("the end of recording", [] { return Status().recording == 0; });
}

int WaitForExit(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int CountOpenFiles() { return CountOpenFilesOf("/proc/self"); }

std::string ThreadDirectory(const std::string& name) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string found;
    std::ifstream(entry.path() / "comm") >> found;
    if (found == name) return entry.path();
  }
  return "";
}

int CountOpenFilesOf(const std::string& thread_directory) {
  int count = 0;
  DIR* directory = opendir((thread_directory + "/fd").c_str());
  while (directory != nullptr && readdir(directory) != nullptr) ++count;
  closedir(directory);
  return count;
}

void EmptyRange(profd_name* name) {
  profd_range_begin(name);
  profd_range_end();
}

}  // namespace profd::testing
