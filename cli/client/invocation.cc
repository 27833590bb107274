#include "cli/client/invocation.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "absl/strings/ascii.h"
#include "cli/base/errors.h"
#include "cli/client/daemon_client.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"

namespace profd::cli {
namespace {

// As a shell takes it for one word.
std::string ShellWord(std::string_view text) {
  const bool is_plain = !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
           std::string_view("._-:/,@%+=").find(c) != std::string_view::npos;
  });
  if (is_plain) return std::string(text);
  std::string word = "'";
  for (const char c : text) {
    if (c == '\'') {
      word += "'\\''";
    } else {
      word.push_back(c);
    }
  }
  return word + "'";
}

}  // namespace

Invocation::Invocation(ParsedFlags flags)
    : flags_(std::move(flags)),
      style_(Style::Of(STDOUT_FILENO)),
      error_style_(Style::Of(STDERR_FILENO)) {}

Invocation::~Invocation() = default;

absl::StatusOr<ClientSettings> Invocation::Settings() const {
  return ReadClientSettings(flags_.Get("address"), flags_.Get("context"), &std::getenv);
}

std::string Invocation::NextProfctl() const {
  std::string words = "profctl";
  for (const std::string_view name : {"address", "context", "nodes"}) {
    for (const std::string& value : flags_.All(name)) {
      StrAppend(&words, " --", name, " ", ShellWord(value));
    }
  }
  return words;
}

absl::StatusOr<DaemonClient*> Invocation::Daemon() {
  if (daemon_ == nullptr) {
    ASSIGN_OR_RETURN(const ClientSettings settings, Settings());
    if (!settings.nodes.empty()) {
      return UsageError(StrCat(settings.from, " means the nodes ", ForDisplay(settings.nodes, 200),
                               ", and this asks one daemon: name it with --address"));
    }
    ASSIGN_OR_RETURN(const std::vector<Endpoint> endpoints,
                     CandidateEndpoints(settings, &std::getenv));
    ASSIGN_OR_RETURN(daemon_, DaemonClient::Connect(endpoints));
  }
  return daemon_.get();
}

void Invocation::Print(std::string_view text) {
  if (write_failed_) return;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) {
    write_failed_ = true;
    write_errno_ = errno;
  }
}

void Invocation::Note(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); }

absl::Status Invocation::WriteStatus() {
  if (!write_failed_ && std::fflush(stdout) != 0) {
    write_failed_ = true;
    write_errno_ = errno;
  }
  if (!write_failed_) return absl::OkStatus();
  return StdoutError(write_errno_);
}

}  // namespace profd::cli
