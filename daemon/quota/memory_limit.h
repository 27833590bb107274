// How much memory profd may use: the smallest limit of its cgroup and the cgroups above it, else
// the machine's memory.
//
// Threads: any.
#ifndef PROFD_DAEMON_QUOTA_MEMORY_LIMIT_H_
#define PROFD_DAEMON_QUOTA_MEMORY_LIMIT_H_

#include <cstdint>
#include <filesystem>
#include <string>

namespace profd::quota {

struct MemoryLimit {
  int64_t bytes = 0;
  std::string source;  // The file that says so: "/sys/fs/cgroup/system.slice/memory.max".
};

// Where the kernel's files are; others than these are for tests.
struct MemoryFiles {
  std::filesystem::path own_cgroup = "/proc/self/cgroup";
  std::filesystem::path meminfo = "/proc/meminfo";
  // The unified hierarchy (memory.max): alone, or next to those of version 1.
  std::filesystem::path cgroup2 = "/sys/fs/cgroup";
  std::filesystem::path hybrid_cgroup2 = "/sys/fs/cgroup/unified";
  std::filesystem::path cgroup1 = "/sys/fs/cgroup/memory";  // memory.limit_in_bytes
};

// Never fails: without any readable file it says 512 MiB, source "default".
MemoryLimit FindMemoryLimit(const MemoryFiles& files = {});

}  // namespace profd::quota

#endif  // PROFD_DAEMON_QUOTA_MEMORY_LIMIT_H_
