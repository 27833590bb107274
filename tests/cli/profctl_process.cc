#include "tests/cli/profctl_process.h"

#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "daemon/base/str_cat.h"

namespace profd::cli {
namespace {

std::string ProfctlPath() {
  const char* build = getenv("PROFD_BUILD_DIR");
  if (build != nullptr) return std::string(build) + "/bin/profctl";
  // Started by hand: tests/bin lies beside bin.
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path().parent_path() /
         "bin/profctl";
}

std::vector<std::string> EnvironmentOf(const Environment& given) {
  std::vector<std::string> lines;
  for (const char* kept :
       {"PATH", "HOME", "LANG", "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"}) {
    if (const char* value = getenv(kept)) lines.push_back(StrCat(kept, "=", value));
  }
  // Nothing is left in the user's own cache.
  if (!given.contains("PROFD_CACHE_DIR")) lines.emplace_back("PROFD_CACHE_DIR=");
  for (const auto& [name, value] : given) lines.push_back(StrCat(name, "=", value));
  return lines;
}

std::vector<char*> Pointers(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

// `in`: -1: /dev/null.
pid_t Spawn(const std::vector<std::string>& arguments, const Environment& environment, int in,
            int out, int err, const std::vector<std::string>& launcher = {}) {
  std::vector<std::string> words = launcher;
  words.push_back(ProfctlPath());
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<std::string> variables = EnvironmentOf(environment);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (in < 0) {
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  } else {
    posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
  }
  posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
  // The runner of the tests may ignore signals (nohup does); profctl must not inherit that.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t defaults;
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGINT);
  sigaddset(&defaults, SIGTERM);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, words[0].c_str(), &actions, &attributes,
                                Pointers(words).data(), Pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) throw std::system_error(error, std::generic_category(), words[0]);
  return pid;
}

int AwaitExit(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string ReadAll(int fd, Keys keys = {}) {
  std::string text;
  char buffer[65536];
  while (true) {
    const ssize_t got = read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;  // A terminal says EIO when the other end is closed.
    text.append(buffer, static_cast<size_t>(got));
    if (keys.text.empty() || text.find(keys.after) == std::string::npos) continue;
    if (write(fd, keys.text.data(), keys.text.size()) < 0) return text;
    keys.text.clear();
  }
}

}  // namespace

ProfctlProcess::ProfctlProcess(const std::vector<std::string>& arguments,
                               const Environment& environment,
                               const std::vector<std::string>& launcher)
    : out_(memfd_create("stdout", MFD_CLOEXEC)), err_(memfd_create("stderr", MFD_CLOEXEC)) {
  pid_ = Spawn(arguments, environment, -1, out_, err_, launcher);
}

ProfctlProcess::~ProfctlProcess() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    AwaitExit(pid_);
  }
  close(out_);
  close(err_);
}

void ProfctlProcess::Signal(int signal) const { kill(pid_, signal); }

RunResult ProfctlProcess::Wait() {
  RunResult result;
  result.exit_code = AwaitExit(pid_);
  pid_ = -1;
  lseek(out_, 0, SEEK_SET);
  lseek(err_, 0, SEEK_SET);
  result.out = ReadAll(out_);
  result.err = ReadAll(err_);
  return result;
}

RunResult RunProfctl(const std::vector<std::string>& arguments, const Environment& environment,
                     const std::vector<std::string>& launcher) {
  return ProfctlProcess(arguments, environment, launcher).Wait();
}

RunResult RunOnTerminal(const std::vector<std::string>& arguments, Environment environment,
                        int columns, const Keys& keys) {
  environment.emplace("TERM", "xterm");
  int ours = -1;
  int theirs = -1;
  winsize size{};
  size.ws_col = static_cast<unsigned short>(columns);
  size.ws_row = 50;
  if (openpty(&ours, &theirs, nullptr, nullptr, &size) != 0) {
    throw std::system_error(errno, std::generic_category(), "openpty");
  }
  fcntl(ours, F_SETFD, FD_CLOEXEC);
  fcntl(theirs, F_SETFD, FD_CLOEXEC);
  const pid_t pid = Spawn(arguments, environment, keys.text.empty() ? -1 : theirs, theirs, theirs);
  close(theirs);
  RunResult result;
  result.out = ReadAll(ours, keys);
  result.exit_code = AwaitExit(pid);
  close(ours);
  return result;
}

}  // namespace profd::cli
