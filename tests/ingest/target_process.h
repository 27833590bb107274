// TargetProcess is a FakeTarget in a process of its own, for tests in which processes end,
// stop, or become others. It is this test's binary, run with --fake-target.
//
//   TargetProcess target(socket_dir);    // registered by now
//   target.Command("ranges 100");        // after it was armed and fired
//   target.Kill(SIGKILL);
#ifndef PROFD_TESTS_INGEST_TARGET_PROCESS_H_
#define PROFD_TESTS_INGEST_TARGET_PROCESS_H_

#include <sys/types.h>

#include <filesystem>
#include <string>

#include "daemon/base/unique_fd.h"

namespace profd {

class TargetProcess {
 public:
  explicit TargetProcess(const std::filesystem::path& socket_dir);
  ~TargetProcess();  // Kills it.
  TargetProcess(const TargetProcess&) = delete;
  TargetProcess& operator=(const TargetProcess&) = delete;

  pid_t pid() const { return pid_; }

  // Has the process carry out one line; returns once it has.
  //   window           opens window 0 at step 3, recording
  //   ranges N         writes N ranges "work" on thread 1
  //   open NAME        begins a range on thread 1 and leaves it open
  //   spin             uses 50 ms of CPU time
  //   exec             becomes a new image of itself, which registers anew
  //   leave            closes its connection and lives on
  void Command(const std::string& line);
  void Kill(int signal);

 private:
  void WaitReady();

  pid_t pid_ = -1;
  UniqueFd to_child_;
  UniqueFd from_child_;
};

// main() of the child.
int RunTargetProcess(const std::filesystem::path& socket_dir);

}  // namespace profd

#endif  // PROFD_TESTS_INGEST_TARGET_PROCESS_H_
