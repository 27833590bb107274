#include "tests/ingest/target_process.h"

#include <errno.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iostream>
#include <optional>
#include <string_view>

#include "tests/fakes/fake_target.h"

extern char** environ;

namespace profd {
namespace {

constexpr char kFlag[] = "--fake-target";

}  // namespace

TargetProcess::TargetProcess(const std::filesystem::path& socket_dir) {
  int to_child[2];
  int from_child[2];
  if (pipe2(to_child, O_CLOEXEC) != 0 || pipe2(from_child, O_CLOEXEC) != 0) abort();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, to_child[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, from_child[1], STDOUT_FILENO);
  std::string dir = socket_dir.string();
  char* arguments[] = {const_cast<char*>("ingest_test"), const_cast<char*>(kFlag), dir.data(),
                       nullptr};
  if (posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, arguments, environ) != 0) abort();
  posix_spawn_file_actions_destroy(&actions);
  close(to_child[0]);
  close(from_child[1]);
  to_child_.Reset(to_child[1]);
  from_child_.Reset(from_child[0]);
  WaitReady();
}

TargetProcess::~TargetProcess() { Kill(SIGKILL); }

void TargetProcess::WaitReady() {
  char byte;
  if (read(from_child_.get(), &byte, 1) != 1) {
    ADD_FAILURE() << "the target process died";
    abort();
  }
}

void TargetProcess::Command(const std::string& line) {
  const std::string text = line + "\n";
  if (write(to_child_.get(), text.data(), text.size()) < 0) abort();
  WaitReady();
}

void TargetProcess::Kill(int signal) {
  if (pid_ < 0) return;
  kill(pid_, signal);
  if (signal == SIGSTOP) waitpid(pid_, nullptr, WUNTRACED);  // Until it has taken effect.
  if (signal != SIGKILL) return;
  // A stopped process is killed all the same.
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

int RunTargetProcess(const std::filesystem::path& socket_dir) {
  std::optional<FakeTarget> target(std::in_place, socket_dir);
  target->Register();
  target->AnswerInBackground();
  std::optional<FakeThread> thread;
  const auto ready = [] { return write(STDOUT_FILENO, ".", 1) == 1; };
  ready();
  std::string line;
  // Unbuffered: the image after exec reads on where this one stopped.
  for (char byte; read(STDIN_FILENO, &byte, 1) == 1;) {
    if (byte != '\n') {
      line.push_back(byte);
      continue;
    }
    const size_t space = line.find(' ');
    const std::string command = line.substr(0, space);
    const std::string argument = space == std::string::npos ? "" : line.substr(space + 1);
    line.clear();
    if (command == "window") {
      target->WaitFired();
      target->OpenWindow(0, 3);
      thread.emplace(*target, 1);
    } else if (command == "ranges") {
      for (int i = 0; i < std::stoi(argument); ++i) {
        thread->Begin("work");
        thread->End();
      }
    } else if (command == "open") {
      thread->Begin(argument);
    } else if (command == "spin") {
      const std::clock_t begin = std::clock();
      while (std::clock() - begin < CLOCKS_PER_SEC / 20) {
      }
    } else if (command == "leave") {
      target->CloseSocket();
    } else if (command == "exec") {
      execl("/proc/self/exe", "ingest_test", kFlag, socket_dir.c_str(), nullptr);
      return 1;
    }
    ready();
  }
  return 0;
}

}  // namespace profd

int main(int argc, char** argv) {
  if (argc == 3 && std::string_view(argv[1]) == profd::kFlag) {
    return profd::RunTargetProcess(argv[2]);
  }
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
