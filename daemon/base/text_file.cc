#include "daemon/base/text_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "absl/strings/ascii.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/unique_fd.h"

namespace profd {

absl::StatusOr<std::string> ReadUpTo(size_t most_bytes, const std::filesystem::path& path, int fd) {
  const auto failed = [&path] {
    return absl::ErrnoToStatus(errno, StrCat("cannot read ", ForDisplay(path.string(), 1000)));
  };
  const UniqueFd opened(fd >= 0 ? -1 : open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd < 0) fd = opened.get();
  if (fd < 0) return failed();
  std::string text;
  std::array<char, 16384> buffer;
  while (text.size() < most_bytes) {
    const ssize_t got = read(fd, buffer.data(), std::min(buffer.size(), most_bytes - text.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed();
    if (got == 0) break;
    text.append(buffer.data(), static_cast<size_t>(got));
  }
  return text;
}

absl::StatusOr<bool> IsThere(const std::filesystem::path& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR) return false;
  return absl::ErrnoToStatus(errno, StrCat("cannot look for ", ForDisplay(path.string(), 1000)));
}

std::string_view Trimmed(std::string_view text) {
  return FromAbsl(absl::StripAsciiWhitespace(ToAbsl(text)));
}

absl::Status ForEachLine(std::string_view text, std::string_view where, Comments comments,
                         absl::FunctionRef<absl::Status(std::string_view line, int number)> take) {
  for (int number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (comments == Comments::kAnywhere) line = line.substr(0, line.find('#'));
    line = Trimmed(line);
    if (line.empty() || (comments != Comments::kKept && line.front() == '#')) continue;
    if (const absl::Status status = take(line, number); !status.ok()) {
      return absl::Status(status.code(), StrCat(where, number, ": ", FromAbsl(status.message())));
    }
  }
  return absl::OkStatus();
}

std::optional<std::pair<std::string_view, std::string_view>> SplitSetting(std::string_view line) {
  const size_t equals = line.find('=');
  if (equals == std::string_view::npos) return std::nullopt;
  return std::pair(Trimmed(line.substr(0, equals)), Trimmed(line.substr(equals + 1)));
}

}  // namespace profd
