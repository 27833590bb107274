#include "daemon/quota/memory_limit.h"

#include <cstdio>
#include <fstream>
#include <limits>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "daemon/base/str_cat.h"

namespace profd::quota {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kWithoutAnyFile = int64_t{512} << 20;
constexpr int kMaxDepth = 64;

// "max", and version 1's huge number, are no limit: they stay above every other.
int64_t ReadLimit(const fs::path& file) {
  constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  std::ifstream stream(file);
  std::string line;
  if (!stream || !std::getline(stream, line)) return kNone;
  int64_t bytes = 0;
  const bool is_number = absl::SimpleAtoi(absl::StripAsciiWhitespace(line), &bytes);
  return is_number && bytes > 0 ? bytes : kNone;
}

// Takes the smallest limit from `path` in the hierarchy mounted at `mount` up to its root. A
// path that is not there (a container that sees its own cgroup as the root) leaves the root.
void WalkUp(const fs::path& mount, std::string_view path, std::string_view name,
            MemoryLimit& smallest) {
  fs::path relative = fs::path(path).lexically_normal().relative_path();
  for (int depth = 0; depth < kMaxDepth; ++depth) {
    const fs::path file = mount / relative / name;
    if (const int64_t bytes = ReadLimit(file); bytes < smallest.bytes) {
      smallest = {.bytes = bytes, .source = file.string()};
    }
    if (relative.empty()) return;
    relative = relative.parent_path();
  }
}

bool HasController(std::string_view controllers, std::string_view wanted) {
  while (!controllers.empty()) {
    const size_t comma = controllers.find(',');
    if (controllers.substr(0, comma) == wanted) return true;
    controllers.remove_prefix(comma == std::string_view::npos ? controllers.size() : comma + 1);
  }
  return false;
}

MemoryLimit MachineMemory(const fs::path& meminfo) {
  std::ifstream stream(meminfo);
  std::string line;
  while (stream && std::getline(stream, line)) {
    int64_t kib = 0;
    char unit = 0;
    if (sscanf(line.c_str(), "MemTotal: %ld %c", &kib, &unit) == 2 && kib > 0) {
      return {.bytes = kib << 10, .source = meminfo.string()};
    }
  }
  return {.bytes = kWithoutAnyFile, .source = "default"};
}

}  // namespace

MemoryLimit FindMemoryLimit(const MemoryFiles& files) {
  MemoryLimit smallest = MachineMemory(files.meminfo);
  std::ifstream stream(files.own_cgroup);
  std::string line;
  while (stream && std::getline(stream, line)) {
    // "4:memory:/path", and "0::/path" of the unified hierarchy; a path may hold colons.
    const std::string_view text = line;
    const size_t first = text.find(':');
    const size_t second = first == std::string_view::npos ? first : text.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = text.substr(first + 1, second - first - 1);
    const std::string_view path = text.substr(second + 1);
    if (controllers.empty()) {
      // Systems with both versions mount version 2 at "unified"; the one that is not there gives no
      // limit.
      WalkUp(files.cgroup2, path, "memory.max", smallest);
      WalkUp(files.hybrid_cgroup2, path, "memory.max", smallest);
    } else if (HasController(controllers, "memory")) {
      WalkUp(files.cgroup1, path, "memory.limit_in_bytes", smallest);
    }
  }
  return smallest;
}

}  // namespace profd::quota
