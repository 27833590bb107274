#include "daemon/rpc/admission/process_table.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <charconv>

#include "daemon/base/str_cat.h"
#include "daemon/base/unique_fd.h"

namespace profd::rpc {
namespace {

// The number that follows `label` at the start of a line.
std::optional<int64_t> NumberAfter(std::string_view text, std::string_view label) {
  size_t at = text.starts_with(label) ? 0 : text.find(StrCat("\n", label));
  if (at == std::string_view::npos) return std::nullopt;
  at = text.find_first_of("0123456789", at);
  if (at == std::string_view::npos) return std::nullopt;
  int64_t number = 0;
  const auto [rest, error] = std::from_chars(text.data() + at, text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  return number;
}

class ProcFs final : public ProcessTable {
 public:
  std::optional<ProcessFacts> Find(int64_t pid) const override {
    if (pid <= 0) return std::nullopt;
    const UniqueFd fd(open(StrCat("/proc/", pid, "/status").c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd.valid()) return std::nullopt;
    std::array<char, 4096> text;
    // State, PPid and Uid are among the first lines, well within the first 4 KiB.
    const ssize_t length = read(fd.get(), text.data(), text.size());
    if (length <= 0) return std::nullopt;  // It ended meanwhile.
    return ParseProcessStatus({text.data(), static_cast<size_t>(length)});
  }
};

}  // namespace

std::optional<ProcessFacts> ParseProcessStatus(std::string_view status) {
  const std::optional<int64_t> parent = NumberAfter(status, "PPid:");
  const std::optional<int64_t> uid = NumberAfter(status, "Uid:");
  if (!parent.has_value() || !uid.has_value()) return std::nullopt;
  // After pthread_exit() in main(), the main thread is a zombie, and the process goes on.
  const bool has_ended =
      status.find("\nState:\tZ") != status.npos && NumberAfter(status, "Threads:") == 1;
  return ProcessFacts{.parent_pid = *parent, .uid = *uid, .has_ended = has_ended};
}

const ProcessTable& ProcessTable::Real() {
  static const ProcFs proc_fs;
  return proc_fs;
}

}  // namespace profd::rpc
