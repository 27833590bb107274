// What /proc says about one process: bounded text, numbers, and nothing interpreted but the start
// time. The helper and the daemon read it with the same code, so this uses libc only.
//
// Threads: any.
#ifndef PROFD_DAEMON_PRIVILEGE_PROC_FILES_H_
#define PROFD_DAEMON_PRIVILEGE_PROC_FILES_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace profd {

// Identity of a namespace; inode 0: not readable.
struct NamespaceId {
  uint64_t device = 0;
  uint64_t inode = 0;

  bool known() const { return inode != 0; }
  friend bool operator==(const NamespaceId&, const NamespaceId&) = default;
};

inline constexpr size_t kMaxProcStatusBytes = 16 * 1024;
inline constexpr size_t kMaxProcCommandBytes = 4 * 1024;
inline constexpr size_t kMaxProcCgroupBytes = 16 * 1024;

// Longer text is cut. Sent as it is between the helper and the daemon.
struct ProcFacts {
  int64_t start_ticks = 0;  // Field 22 of stat; with the pid, it identifies a process.
  NamespaceId user_namespace;
  NamespaceId pid_namespace;
  uint32_t status_bytes = 0;
  uint32_t command_bytes = 0;
  uint32_t cgroup_bytes = 0;
  uint32_t reserved = 0;
  char status[kMaxProcStatusBytes];    // Without the line of groups.
  char command[kMaxProcCommandBytes];  // cmdline: arguments, each followed by a NUL.
  char cgroup[kMaxProcCgroupBytes];

  std::string_view status_text() const { return {status, status_bytes}; }
  std::string_view command_text() const { return {command, command_bytes}; }
  std::string_view cgroup_text() const { return {cgroup, cgroup_bytes}; }
};
static_assert(std::is_trivially_copyable_v<ProcFacts>);

// Reads the files of the process whose folder in /proc is open as `process_folder`. Returns 0, or
// an errno if the process has ended or cannot be seen. Files that cannot be read stay empty.
int ReadProcFacts(int process_folder, ProcFacts& facts);

// The identities of the two namespaces of a process that decide whether it is outside.
NamespaceId ReadNamespaceId(int process_folder, const char* path);  // "ns/user", "ns/pid"

// Field 22 of the text of /proc/PID/stat, or -1. Field 2, the name, may hold anything, also ')'.
int64_t StartTicksIn(std::string_view stat);

// Opens the process of `pidfd` in /proc: returns a descriptor of its folder and sets `pid`, or
// returns minus an errno. As long as the process lives, neither can be of another one.
int OpenProcessOf(int pidfd, int64_t& pid);

// True once the process of `pidfd` has ended.
bool ProcessHasEnded(int pidfd);

}  // namespace profd

#endif  // PROFD_DAEMON_PRIVILEGE_PROC_FILES_H_
