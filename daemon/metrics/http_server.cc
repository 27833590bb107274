#include "daemon/metrics/http_server.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/numbers.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "daemon/base/log.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/unique_fd.h"

namespace profd::metrics {
namespace {

constexpr unsigned kMaxConnections = 48;
constexpr unsigned kMaxConnectionsPerAddress = 16;
constexpr size_t kConnectionBytes = 16 << 10;  // Request line and headers.
constexpr size_t kStackBytes = 256 << 10;
constexpr int kBacklog = 64;

struct HostPort {
  std::string host;  // Empty: all addresses, which `*` asks for.
  std::string port;
};

absl::StatusOr<HostPort> ParseAddress(std::string_view text) {
  const auto wrong = [text] {
    return absl::InvalidArgumentError(StrCat(
        "'", ForDisplay(text, 80), "' is not a HOST:PORT, such as 127.0.0.1:9464 or [::1]:9464"));
  };
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0 || text.size() > 300) return wrong();
  HostPort parts = {.host = std::string(text.substr(0, colon)),
                    .port = std::string(text.substr(colon + 1))};
  int port = 0;
  if (!absl::SimpleAtoi(parts.port, &port) || port < 0 || port > 65535) return wrong();
  const bool bracketed = parts.host.starts_with('[') && parts.host.ends_with(']');
  if (bracketed) parts.host = parts.host.substr(1, parts.host.size() - 2);
  if (!bracketed && parts.host.find(':') != std::string::npos) return wrong();
  if (!IsPrintableUtf8(parts.host)) return wrong();
  if (parts.host == "*") parts.host.clear();
  return parts;
}

bool IsLoopback(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    return ntohl(v4.sin_addr.s_addr) >> 24 == 127;
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr);
}

// A listening socket on the first of the host's addresses that can be had.
absl::StatusOr<UniqueFd> Listen(const std::string& text) {
  ASSIGN_OR_RETURN(const HostPort parts, ParseAddress(text));
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_ADDRCONFIG;
  addrinfo* found = nullptr;
  const int failure = getaddrinfo(parts.host.empty() ? nullptr : parts.host.c_str(),
                                  parts.port.c_str(), &hints, &found);
  if (failure != 0) {
    return absl::FailedPreconditionError(
        StrCat("cannot listen on ", ForDisplay(text, 80), ": ", gai_strerror(failure)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> all(found, &freeaddrinfo);
  int why = EADDRNOTAVAIL;
  for (const addrinfo* next = found; next != nullptr; next = next->ai_next) {
    UniqueFd fd(socket(next->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int on = 1;
    if (fd.valid() && setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        bind(fd.get(), next->ai_addr, next->ai_addrlen) == 0 && listen(fd.get(), kBacklog) == 0) {
      return fd;
    }
    why = errno;
  }
  return absl::FailedPreconditionError(StrCat("cannot listen on ", ForDisplay(text, 80), ": ",
                                              std::strerror(why),
                                              "; choose another metrics-listen"));
}

sockaddr_storage AddressOf(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  return address;
}

// Ends connections that take too long: libmicrohttpd only knows how long one is silent, and a
// byte every few seconds would hold one forever.
class Deadlines {
 public:
  explicit Deadlines(Watchdog* watchdog) : watchdog_(watchdog), thread_([this] { Loop(); }) {}
  ~Deadlines() {
    absl::MutexLock lock(&mu_);
    ends_ = true;
  }

  // `fd` must stay open until Remove().
  void Set(int fd, absl::Duration within) {
    absl::MutexLock lock(&mu_);
    due_[fd] = absl::Now() + within;
  }
  void Remove(int fd) {
    absl::MutexLock lock(&mu_);
    due_.erase(fd);
  }

 private:
  bool IsBusy() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return ends_ || !due_.empty(); }
  bool Ends() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return ends_; }

  void Loop() {
    // Late ones end this much later at the most: there is one timer for all.
    constexpr absl::Duration kStep = absl::Milliseconds(100);
    pthread_setname_np(pthread_self(), "profd-http");
    WatchedThread watched(watchdog_, "profd-http", Watchdog::Work::kNoDisk,
                          [this] { absl::MutexLock lock(&mu_); });
    absl::MutexLock lock(&mu_);
    const auto is_wanted = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return IsBusy() || watched.asked();
    };
    while (true) {
      watched.Waits();
      mu_.Await(absl::Condition(&is_wanted));
      watched.Works();
      if (!IsBusy()) continue;  // The watchdog asked.
      watched.Waits();
      if (mu_.AwaitWithTimeout(absl::Condition(this, &Deadlines::Ends), kStep)) return;
      watched.Works();
      const absl::Time now = absl::Now();
      std::erase_if(due_, [now](const auto& entry) {
        if (entry.second > now) return false;
        shutdown(entry.first, SHUT_RDWR);  // libmicrohttpd sees the end and closes it.
        return true;
      });
    }
  }

  Watchdog* const watchdog_;
  absl::Mutex mu_;
  std::map<int, absl::Time> due_ ABSL_GUARDED_BY(mu_);
  bool ends_ ABSL_GUARDED_BY(mu_) = false;
  std::jthread thread_;
};

int DescriptorOf(MHD_Connection* connection) {
  const MHD_ConnectionInfo* const info =
      MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  return info == nullptr ? -1 : info->connect_fd;
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(Handler handler, Watchdog* watchdog) : handler_(std::move(handler)), deadlines_(watchdog) {}
  ~Impl() {
    if (daemon_ != nullptr) MHD_stop_daemon(daemon_);
  }

  absl::Status Start(const std::string& address);

  uint16_t port() const { return port_; }
  bool is_loopback() const { return is_loopback_; }

 private:
  static MHD_Result OnRequest(void* self, MHD_Connection* connection, const char* url,
                              const char* method, const char* version, const char* upload,
                              size_t* upload_bytes, void** seen);
  static void OnConnection(void* self, MHD_Connection* connection, void** context,
                           MHD_ConnectionNotificationCode what);
  static MHD_Result Send(MHD_Connection* connection, const Answer& answer);
  Answer AnswerTo(std::string_view method, std::string_view path) const;

  const Handler handler_;
  Deadlines deadlines_;
  MHD_Daemon* daemon_ = nullptr;
  uint16_t port_ = 0;
  bool is_loopback_ = false;
};

absl::Status HttpServer::Impl::Start(const std::string& address) {
  ASSIGN_OR_RETURN(UniqueFd listener, Listen(address));
  const sockaddr_storage bound = AddressOf(listener.get());
  is_loopback_ = IsLoopback(bound);
  port_ =
      ntohs(bound.ss_family == AF_INET ? reinterpret_cast<const sockaddr_in&>(bound).sin_port
                                       : reinterpret_cast<const sockaddr_in6&>(bound).sin6_port);
  daemon_ = MHD_start_daemon(
      MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ITC, 0, nullptr, nullptr, &OnRequest, this,
      MHD_OPTION_LISTEN_SOCKET, static_cast<MHD_socket>(listener.get()),
      MHD_OPTION_THREAD_POOL_SIZE, kThreads, MHD_OPTION_CONNECTION_LIMIT, kMaxConnections,
      MHD_OPTION_PER_IP_CONNECTION_LIMIT, kMaxConnectionsPerAddress, MHD_OPTION_NOTIFY_CONNECTION,
      &OnConnection, this, MHD_OPTION_CONNECTION_MEMORY_LIMIT, kConnectionBytes,
      MHD_OPTION_THREAD_STACK_SIZE, kStackBytes, MHD_OPTION_END);
  if (daemon_ == nullptr) return absl::InternalError("the server of metrics cannot be started");
  (void)listener.Release();  // Closed by MHD_stop_daemon().
  return absl::OkStatus();
}

void HttpServer::Impl::OnConnection(void* self, MHD_Connection* connection, void** /*context*/,
                                    MHD_ConnectionNotificationCode what) {
  const int fd = DescriptorOf(connection);
  Deadlines& deadlines = static_cast<Impl*>(self)->deadlines_;
  if (what == MHD_CONNECTION_NOTIFY_STARTED) {
    deadlines.Set(fd, kRequestTime);
  } else {
    deadlines.Remove(fd);
  }
}

MHD_Result HttpServer::Impl::OnRequest(void* self, MHD_Connection* connection, const char* url,
                                       const char* method, const char* /*version*/,
                                       const char* /*upload*/, size_t* upload_bytes, void** seen) {
  // The first call comes with the headers; the answer is for the one after them. A body, which
  // is not needed, ends the connection.
  static char headers_seen;
  if (*seen == nullptr) {
    *seen = &headers_seen;
    return MHD_YES;
  }
  if (*upload_bytes > 0) return MHD_NO;
  static_cast<Impl*>(self)->deadlines_.Set(DescriptorOf(connection), kAnswerTime);
  return Send(connection, static_cast<Impl*>(self)->AnswerTo(method, url));
}

HttpServer::Answer HttpServer::Impl::AnswerTo(std::string_view method,
                                              std::string_view path) const {
  if (method != MHD_HTTP_METHOD_GET && method != MHD_HTTP_METHOD_HEAD) {
    return {.code = MHD_HTTP_METHOD_NOT_ALLOWED, .body = "only GET and HEAD\n"};
  }
  return handler_(path);
}

MHD_Result HttpServer::Impl::Send(MHD_Connection* connection, const Answer& answer) {
  MHD_Response* const response = MHD_create_response_from_buffer(
      answer.body.size(), const_cast<char*>(answer.body.data()), MHD_RESPMEM_MUST_COPY);
  if (response == nullptr) return MHD_NO;
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, answer.content_type.c_str());
  MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
  MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
  if (answer.code == MHD_HTTP_METHOD_NOT_ALLOWED) {
    MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
  }
  const MHD_Result sent =
      MHD_queue_response(connection, static_cast<unsigned>(answer.code), response);
  MHD_destroy_response(response);
  return sent;
}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const std::string& address,
                                                              Handler handler, Watchdog* watchdog) {
  auto impl = std::make_unique<Impl>(std::move(handler), watchdog);
  RETURN_IF_ERROR(impl->Start(address));
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() = default;
uint16_t HttpServer::port() const { return impl_->port(); }
bool HttpServer::is_loopback() const { return impl_->is_loopback(); }

}  // namespace profd::metrics
