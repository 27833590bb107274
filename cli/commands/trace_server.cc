#include "cli/commands/trace_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/unique_fd.h"

namespace profd::cli {
namespace {

// Beyond this, the oldest connection that is not being given the file is closed.
constexpr size_t kMostConnections = 16;
// Those that are being closed count for libmicrohttpd until it has noticed.
constexpr unsigned kMostOpenConnections = 4 * kMostConnections;
constexpr unsigned kRequestSeconds = 2;   // Of silence, until the request for the file is there.
constexpr unsigned kSilenceSeconds = 60;  // Of its reader.

absl::StatusOr<UniqueFd> Listen(int port) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return absl::InternalError(StrCat("no socket: ", std::strerror(errno)));
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      listen(fd.get(), 16) == 0) {
    return fd;
  }
  const int error = errno;
  const std::string message =
      StrCat("cannot listen on 127.0.0.1:", port, ": ", std::strerror(error));
  if (error == EADDRINUSE) return absl::ResourceExhaustedError(message);
  return error == EACCES ? absl::PermissionDeniedError(message) : absl::InternalError(message);
}

int PortOf(int fd) {
  sockaddr_in address{};
  socklen_t length = sizeof address;
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(address.sin_port);
}

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

class TraceServer::Impl {
 public:
  Impl(UniqueFd file, uint64_t size, std::string url_path)
      : file_(std::move(file)), size_(size), url_path_(std::move(url_path)) {}
  ~Impl() {
    if (daemon_ != nullptr) MHD_stop_daemon(daemon_);
  }

  absl::Status Start(int port);
  int port() const { return port_; }
  const std::string& url_path() const { return url_path_; }

  bool WaitUntilServed(absl::Duration timeout) {
    const absl::MutexLock lock(&mu_);
    return mu_.AwaitWithTimeout(absl::Condition(&ended_), timeout);
  }
  void Stop() {
    const absl::MutexLock lock(&mu_);
    ended_ = true;
  }
  bool served() const {
    const absl::MutexLock lock(&mu_);
    return served_;
  }

 private:
  // Of a request: whether it is for the file, all of it.
  enum class Request : uintptr_t { kNone, kOther, kFile };

  static MHD_Result OnRequest(void* self, MHD_Connection* connection, const char* url,
                              const char* method, const char* version, const char* upload,
                              size_t* upload_bytes, void** request);
  static void OnCompleted(void* self, MHD_Connection* connection, void** request,
                          MHD_RequestTerminationCode how);
  static void OnConnection(void* self, MHD_Connection* connection, void** context,
                           MHD_ConnectionNotificationCode what);
  void MakeRoom();
  MHD_Result Answer(MHD_Connection* connection, std::string_view method, std::string_view url,
                    Request& request) const;
  static bool NamesThisHost(MHD_Connection* connection);
  static MHD_Result Send(MHD_Connection* connection, unsigned code, MHD_Response* response);
  static MHD_Result SendText(MHD_Connection* connection, unsigned code, std::string_view text);
  MHD_Result SendFile(MHD_Connection* connection) const;
  static int SocketOf(MHD_Connection* connection);

  const UniqueFd file_;
  const uint64_t size_;
  const std::string url_path_;
  MHD_Daemon* daemon_ = nullptr;
  int port_ = 0;
  std::vector<int> waiting_;  // Sockets without a request for the file, oldest first; its thread's.

  mutable absl::Mutex mu_;
  bool served_ ABSL_GUARDED_BY(mu_) = false;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
};

absl::Status TraceServer::Impl::Start(int port) {
  ASSIGN_OR_RETURN(UniqueFd listener, Listen(port));
  port_ = PortOf(listener.get());
  daemon_ = MHD_start_daemon(MHD_USE_POLL_INTERNAL_THREAD | MHD_USE_ITC, 0, nullptr, nullptr,
                             &OnRequest, this, MHD_OPTION_LISTEN_SOCKET,
                             static_cast<MHD_socket>(listener.get()), MHD_OPTION_CONNECTION_LIMIT,
                             kMostOpenConnections, MHD_OPTION_CONNECTION_TIMEOUT, kRequestSeconds,
                             MHD_OPTION_NOTIFY_COMPLETED, &OnCompleted, this,
                             MHD_OPTION_NOTIFY_CONNECTION, &OnConnection, this, MHD_OPTION_END);
  if (daemon_ == nullptr) return absl::InternalError("the web server cannot be started");
  (void)listener.Release();  // Closed by MHD_stop_daemon().
  return absl::OkStatus();
}

MHD_Result TraceServer::Impl::OnRequest(void* self, MHD_Connection* connection, const char* url,
                                        const char* method, const char* /*version*/,
                                        const char* /*upload*/, size_t* upload_bytes,
                                        void** request) {
  // The first call comes with the headers; the answer is for the one after them. It need not
  // send a body.
  if (*request == nullptr) {
    *request = reinterpret_cast<void*>(Request::kOther);
    return MHD_YES;
  }
  if (*upload_bytes > 0) return MHD_NO;
  Request what = Request::kOther;
  Impl& impl = *static_cast<Impl*>(self);
  const MHD_Result result = impl.Answer(connection, method, url, what);
  *request = reinterpret_cast<void*>(what);
  if (what == Request::kFile) {
    std::erase(impl.waiting_, SocketOf(connection));
    MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, kSilenceSeconds);
  }
  return result;
}

void TraceServer::Impl::OnCompleted(void* self, MHD_Connection* /*connection*/, void** request,
                                    MHD_RequestTerminationCode how) {
  const bool is_file = *request == reinterpret_cast<void*>(Request::kFile);
  if (!is_file || how != MHD_REQUEST_TERMINATED_COMPLETED_OK) return;
  Impl& impl = *static_cast<Impl*>(self);
  const absl::MutexLock lock(&impl.mu_);
  impl.served_ = true;
  impl.ended_ = true;
}

int TraceServer::Impl::SocketOf(MHD_Connection* connection) {
  return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
}

void TraceServer::Impl::OnConnection(void* self, MHD_Connection* connection, void** /*context*/,
                                     MHD_ConnectionNotificationCode what) {
  Impl& impl = *static_cast<Impl*>(self);
  const int socket = SocketOf(connection);
  std::erase(impl.waiting_, socket);
  if (what != MHD_CONNECTION_NOTIFY_STARTED) return;
  impl.MakeRoom();
  impl.waiting_.push_back(socket);
}

// Other users can connect, too, and could hold all places.
void TraceServer::Impl::MakeRoom() {
  if (waiting_.size() < kMostConnections) return;
  shutdown(waiting_.front(), SHUT_RDWR);  // libmicrohttpd closes it.
  waiting_.erase(waiting_.begin());
}

// 127.0.0.1 or localhost, with any port: ssh may have forwarded another one.
bool TraceServer::Impl::NamesThisHost(MHD_Connection* connection) {
  const char* const header =
      MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
  if (header == nullptr) return false;
  const std::string_view host = std::string_view(header).substr(0, std::strcspn(header, ":"));
  return host == "127.0.0.1" || host == "localhost";
}

MHD_Result TraceServer::Impl::Answer(MHD_Connection* connection, std::string_view method,
                                     std::string_view url, Request& request) const {
  if (!NamesThisHost(connection)) {
    return SendText(connection, MHD_HTTP_FORBIDDEN, "this is for 127.0.0.1 alone\n");
  }
  if (url != url_path_) return SendText(connection, MHD_HTTP_NOT_FOUND, "nothing here\n");
  if (method == MHD_HTTP_METHOD_OPTIONS) return SendText(connection, MHD_HTTP_NO_CONTENT, "");
  if (method != MHD_HTTP_METHOD_GET && method != MHD_HTTP_METHOD_HEAD) {
    return SendText(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD\n");
  }
  if (method == MHD_HTTP_METHOD_GET) request = Request::kFile;
  return SendFile(connection);
}

MHD_Result TraceServer::Impl::Send(MHD_Connection* connection, unsigned code,
                                   MHD_Response* response) {
  if (response == nullptr) return MHD_NO;
  MHD_add_response_header(response, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_ORIGIN,
                          std::string(kPerfettoOrigin).c_str());
  // What browsers ask before a public page may fetch from this machine.
  MHD_add_response_header(response, "Access-Control-Allow-Methods", "GET, HEAD, OPTIONS");
  MHD_add_response_header(response, "Access-Control-Allow-Private-Network", "true");
  MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache");
  MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
  const MHD_Result sent = MHD_queue_response(connection, code, response);
  MHD_destroy_response(response);
  return sent;
}

MHD_Result TraceServer::Impl::SendText(MHD_Connection* connection, unsigned code,
                                       std::string_view text) {
  return Send(connection, code,
              MHD_create_response_from_buffer(text.size(), const_cast<char*>(text.data()),
                                              MHD_RESPMEM_MUST_COPY));
}

MHD_Result TraceServer::Impl::SendFile(MHD_Connection* connection) const {
  // The response closes its own.
  const int fd = fcntl(file_.get(), F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return MHD_NO;
  MHD_Response* const response = MHD_create_response_from_fd64(size_, fd);
  if (response == nullptr) {
    close(fd);
    return MHD_NO;
  }
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "application/octet-stream");
  return Send(connection, MHD_HTTP_OK, response);
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
  auto impl = std::make_unique<Impl>(std::move(file), static_cast<uint64_t>(info.st_size),
                                     StrCat("/", token, "/", UrlName(name)));
  RETURN_IF_ERROR(impl->Start(port));
  return std::unique_ptr<TraceServer>(new TraceServer(std::move(impl)));
}

TraceServer::TraceServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TraceServer::~TraceServer() = default;
int TraceServer::port() const { return impl_->port(); }
const std::string& TraceServer::url_path() const { return impl_->url_path(); }
bool TraceServer::WaitUntilServed(absl::Duration timeout) {
  return impl_->WaitUntilServed(timeout);
}
void TraceServer::Stop() { impl_->Stop(); }
bool TraceServer::served() const { return impl_->served(); }

}  // namespace profd::cli
