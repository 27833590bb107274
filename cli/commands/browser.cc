#include "cli/commands/browser.h"

#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "cli/base/failed_writes.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/unique_fd.h"

extern char** environ;

namespace profd::cli {
namespace {

bool IsSet(const GetEnvironment& environment, const char* name) {
  const char* const value = environment(name);
  return value != nullptr && *value != '\0';
}

// The words of `command`, each %s of which is `url`.
std::vector<std::string> Expand(std::string_view command, const std::string& url) {
  std::vector<std::string> words;
  bool has_url = false;
  while (!command.empty()) {
    const size_t end = std::min(command.find(' '), command.size());
    std::string word(command.substr(0, end));
    command.remove_prefix(std::min(end + 1, command.size()));
    if (word.empty()) continue;
    if (const size_t at = word.find("%s"); at != std::string::npos) {
      word.replace(at, 2, url);
      has_url = true;
    }
    words.push_back(std::move(word));
  }
  if (!has_url && !words.empty()) words.push_back(url);
  return words;
}

std::string EscapeHtml(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out.push_back(c);
    }
  }
  return out;
}

std::string PercentEncodePath(std::string_view path) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : path) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '/' || c == '-' || c == '_' || c == '.' ||
                          c == '~';
    if (is_plain) {
      out.push_back(c);
      continue;
    }
    const auto byte = static_cast<uint8_t>(c);
    out.push_back('%');
    out.push_back(kHex[byte >> 4]);
    out.push_back(kHex[byte & 15]);
  }
  return out;
}

}  // namespace

bool IsSshSession(const GetEnvironment& environment) {
  return IsSet(environment, "SSH_CONNECTION") || IsSet(environment, "SSH_CLIENT") ||
         IsSet(environment, "SSH_TTY");
}

std::optional<std::vector<std::string>> BrowserCommand(const std::string& url,
                                                       const GetEnvironment& environment) {
  if (IsSshSession(environment)) return std::nullopt;
  if (IsSet(environment, "BROWSER")) {
    const std::string_view all = environment("BROWSER");
    std::vector<std::string> words = Expand(all.substr(0, all.find(':')), url);
    if (!words.empty()) return words;
  }
  if (!IsSet(environment, "DISPLAY") && !IsSet(environment, "WAYLAND_DISPLAY")) {
    return std::nullopt;
  }
  return std::vector<std::string>{"xdg-open", url};
}

absl::StatusOr<std::string> WriteRedirectPage(const std::filesystem::path& folder,
                                              std::string_view url) {
  const std::string path = std::filesystem::absolute(folder / "open.html").string();
  const std::string target = EscapeHtml(url);
  const std::string page = StrCat(
      "<!DOCTYPE html><meta charset=\"utf-8\"><meta name=\"referrer\" content=\"no-referrer\">"
      "<meta http-equiv=\"refresh\" content=\"0;url=",
      target, "\"><title>profctl open</title><a href=\"", target, "\">Open the trace</a>\n");
  const UniqueFd file(
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.valid() ||
      write(file.get(), page.data(), page.size()) != static_cast<ssize_t>(page.size())) {
    return absl::ErrnoToStatus(errno, StrCat("cannot write '", path, "'"));
  }
  return StrCat("file://", PercentEncodePath(path));
}

bool StartBrowser(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
  }
  // A group of its own: Ctrl-C is for us. We block signals that it should not.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  LetSignalsOfWritesEnd(attributes);
  pid_t pid = 0;
  const int error =
      posix_spawnp(&pid, arguments[0], &actions, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error == 0;
}

}  // namespace profd::cli
