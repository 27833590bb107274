#include "cli/commands/trace_server.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"

namespace profd::cli {
namespace {

// Beyond this, the oldest connection that is not being given the file is closed.
constexpr size_t kMostConnections = 16;
// Those that are being closed count for libmicrohttpd until it has noticed, for each thread.
constexpr unsigned kMostOpenConnections = 4 * kMostConnections * HttpServer::kThreads;

absl::StatusOr<std::string> Token() {
  std::array<uint8_t, 16> bytes = {};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return absl::InternalError(StrCat("no random bytes: ", std::strerror(errno)));
  }
  std::string token;
  for (const uint8_t byte : bytes) StrAppend(&token, absl::Hex(byte, absl::kZeroPad2));
  return token;
}

// What stands for itself in a URL; the page shows it.
std::string UrlName(std::string_view untrusted) {
  constexpr size_t kLongest = 100;
  std::string name(untrusted.substr(untrusted.size() - std::min(untrusted.size(), kLongest)));
  for (char& c : name) {
    const bool is_plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                          (c >= 'A' && c <= 'Z') || c == '.' || c == '-' || c == '_';
    if (!is_plain) c = '_';
  }
  return name.empty() ? "trace" : name;
}

}  // namespace

// The host is 127.0.0.1 or localhost, with any port: ssh may have forwarded another one.
HttpServer::Answer TraceServer::AnswerTo(std::string_view path, std::string_view host) const {
  host = host.substr(0, host.find(':'));
  if (host != "127.0.0.1" && host != "localhost") {
    return {.code = 403, .body = "this is for 127.0.0.1 alone\n"};
  }
  if (path != url_path_) return {.code = 404, .body = "nothing here\n"};
  return {.content_type = "application/octet-stream", .file = file_.get(), .file_bytes = size_};
}

absl::StatusOr<std::unique_ptr<TraceServer>> TraceServer::Start(const std::string& path,
                                                                std::string_view name, int port) {
  const std::string shown = ForDisplay(path, 400);
  UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info = {};
  if (!file.valid() || fstat(file.get(), &info) != 0) {
    const int error = errno;
    const std::string message = StrCat("cannot read ", shown, ": ", std::strerror(error));
    return error == ENOENT   ? absl::NotFoundError(message)
           : error == EACCES ? absl::PermissionDeniedError(message)
                             : absl::InternalError(message);
  }
  if (!S_ISREG(info.st_mode)) return absl::InvalidArgumentError(StrCat(shown, " is not a file"));
  ASSIGN_OR_RETURN(const std::string token, Token());
  std::unique_ptr<TraceServer> server(new TraceServer(std::move(file),
                                                      static_cast<uint64_t>(info.st_size),
                                                      StrCat("/", token, "/", UrlName(name))));
  ASSIGN_OR_RETURN(
      server->server_,
      HttpServer::Start(StrCat("127.0.0.1:", port),
                        [self = server.get()](std::string_view url_path, std::string_view host) {
                          return self->AnswerTo(url_path, host);
                        },
                        {.max_connections = kMostOpenConnections,
                         .max_connections_per_address = 0,
                         .max_unanswered = kMostConnections,
                         .origin = std::string(kPerfettoOrigin),
                         .on_file_taken = [self = server.get()] {
                           const absl::MutexLock lock(&self->mu_);
                           self->served_ = true;
                           self->ended_ = true;
                           self->changed_.Signal();
                         }}));
  return server;
}

bool TraceServer::WaitUntilServed(absl::Duration timeout) {
  const absl::MutexLock lock(&mu_);
  return changed_.AwaitWithTimeout(&mu_, timeout,
                                   [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return ended_; });
}

void TraceServer::Stop() {
  const absl::MutexLock lock(&mu_);
  ended_ = true;
  changed_.Signal();
}

bool TraceServer::served() const {
  const absl::MutexLock lock(&mu_);
  return served_;
}

}  // namespace profd::cli
