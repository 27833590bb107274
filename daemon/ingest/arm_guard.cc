#include "daemon/ingest/arm_guard.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "daemon/base/reason.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text_file.h"
#include "daemon/base/units.h"

namespace profd {
namespace {

constexpr std::string_view kAgentName = "profd";
constexpr int kMostThreads = 1024;
// More than a status with as many groups as the kernel allows (65,536).
constexpr size_t kMostProcBytes = 1 << 20;
constexpr int64_t kLeastLeftBytes = int64_t{1} << 30;
constexpr int64_t kLeastLeftShare = 4;  // A quarter of the limit.

// A file of /proc; empty: it cannot be read.
std::string ReadText(const std::filesystem::path& path) {
  return ReadUpTo(kMostProcBytes, path).value_or(std::string());
}

// The number after `label` and blanks; none: there is no such line, or no number in it.
std::optional<int64_t> NumberAfter(std::string_view text, std::string_view label) {
  const size_t at = text.find(label);
  if (at == std::string_view::npos) return std::nullopt;
  text.remove_prefix(at + label.size());
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  int64_t value = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end.ec != std::errc()) return std::nullopt;
  return value;
}

bool IsAgent(std::string_view status) {
  constexpr std::string_view kLabel = "Name:\t";
  if (!status.starts_with(kLabel)) return false;
  status.remove_prefix(kLabel.size());
  return status.substr(0, status.find('\n')) == kAgentName;
}

std::filesystem::path FolderOf(const std::filesystem::path& proc, int64_t pid) {
  return proc / StrCat(pid);
}

absl::Status CheckFilters(int64_t pid, const AgentThread& agent,
                          const std::filesystem::path& proc) {
  if (agent.tid == 0) return absl::OkStatus();
  const std::string status = ReadText(FolderOf(proc, pid) / "task" / StrCat(agent.tid) / "status");
  const std::optional<int64_t> count = NumberAfter(status, "\nSeccomp_filters:");
  // The kernel reuses thread IDs, so the name is looked at again. Filters are never removed, so a
  // larger count means that one was added.
  if (!IsAgent(status) || !count.has_value() || *count <= agent.filter_count) {
    return absl::OkStatus();
  }
  return WithReason(
      absl::FailedPreconditionError(
          StrCat("process ", pid,
                 " has set a seccomp filter for all its threads since it loaded profd's "
                 "library, and the filter may end the process at a system call of profd's; set the "
                 "filter before `import torch` or profd_init(), which then ask what it allows")),
      "SECCOMP_FILTER");
}

absl::Status CheckAddressSpace(int64_t pid, int64_t map_bytes, const std::filesystem::path& proc) {
  const std::filesystem::path folder = FolderOf(proc, pid);
  const std::optional<int64_t> limit =
      NumberAfter(ReadText(folder / "limits"), "Max address space");
  const std::optional<int64_t> pages = NumberAfter(ReadText(folder / "statm"), "");
  if (limit.value_or(-1) < 0 || !pages.has_value()) return absl::OkStatus();  // "unlimited"
  const int64_t used = *pages * sysconf(_SC_PAGESIZE);
  const int64_t kept = std::max(*limit / kLeastLeftShare, kLeastLeftBytes);
  if (*limit - used - map_bytes >= kept) return absl::OkStatus();
  return WithReason(
      absl::FailedPreconditionError(
          StrCat("process ", pid, " may have ", FormatBytes(*limit), " of address space and uses ",
                 FormatBytes(used), "; the capture would take ", FormatBytes(map_bytes),
                 " and must leave ", FormatBytes(kept),
                 " to the program: ask for less (--buffer), or raise the limit (ulimit -v)")),
      "ADDRESS_SPACE");
}

}  // namespace

AgentThread FindAgentThread(int64_t pid, const std::filesystem::path& proc) {
  std::error_code error;
  std::filesystem::directory_iterator threads(FolderOf(proc, pid) / "task", error);
  for (int i = 0; !error && threads != std::filesystem::directory_iterator() && i < kMostThreads;
       threads.increment(error), ++i) {
    const std::string status = ReadText(threads->path() / "status");
    if (!IsAgent(status)) continue;
    const std::optional<int64_t> count = NumberAfter(status, "\nSeccomp_filters:");
    const std::optional<int64_t> tid = NumberAfter(threads->path().filename().native(), "");
    if (count.has_value() && tid.has_value()) return {.tid = *tid, .filter_count = *count};
  }
  return {};
}

absl::Status MayBeArmed(int64_t pid, const AgentThread& agent, int64_t map_bytes,
                        const std::filesystem::path& proc) {
  RETURN_IF_ERROR(CheckFilters(pid, agent, proc));
  return CheckAddressSpace(pid, map_bytes, proc);
}

}  // namespace profd
