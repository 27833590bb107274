// The real profctl, run by a test.
#ifndef PROFD_TESTS_CLI_PROFCTL_PROCESS_H_
#define PROFD_TESTS_CLI_PROFCTL_PROCESS_H_

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

namespace profd::cli {

struct RunResult {
  int exit_code = -1;  // 128 + the signal that ended it.
  std::string out;
  std::string err;
};

using Environment = std::map<std::string, std::string>;

// Runs until Wait(). Its environment holds nothing of profctl's but what is given. `launcher`: the
// program that starts it, and the arguments of that before profctl and its own.
class ProfctlProcess {
 public:
  ProfctlProcess(const std::vector<std::string>& arguments, const Environment& environment,
                 const std::vector<std::string>& launcher = {});
  ~ProfctlProcess();
  ProfctlProcess(const ProfctlProcess&) = delete;
  ProfctlProcess& operator=(const ProfctlProcess&) = delete;

  void Signal(int signal) const;
  RunResult Wait();

 private:
  pid_t pid_ = -1;
  int out_ = -1;  // Unlinked files: no pipe that can fill up.
  int err_ = -1;
};

RunResult RunProfctl(const std::vector<std::string>& arguments, const Environment& environment,
                     const std::vector<std::string>& launcher = {});

// What is typed, once the terminal shows `after`.
struct Keys {
  std::string after;
  std::string text;
};

// With stdout and stderr on one terminal of that many columns; all that came is in `out`. With
// `keys`, stdin is the terminal, too; else it is /dev/null.
RunResult RunOnTerminal(const std::vector<std::string>& arguments, Environment environment,
                        int columns, const Keys& keys = {});

}  // namespace profd::cli

#endif  // PROFD_TESTS_CLI_PROFCTL_PROCESS_H_
