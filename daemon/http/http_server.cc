#include "daemon/http/http_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "daemon/base/clock.h"
#include "daemon/base/cond_var.h"
#include "daemon/base/host_port.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/unique_fd.h"

namespace profd {
namespace {

constexpr size_t kConnectionBytes = 16 << 10;  // Request line and headers.
constexpr size_t kStackBytes = 256 << 10;
constexpr int kBacklog = 64;

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
  const std::optional<HostPort> parts = SplitHostPort(text);
  if (!parts.has_value()) {
    return absl::InvalidArgumentError(StrCat(
        "'", ForDisplay(text, 80), "' is not a HOST:PORT, such as 127.0.0.1:9464 or [::1]:9464"));
  }
  const std::string host(parts->host);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  // For names: for numbers it would refuse 127.0.0.1 where only the loopback has IPv4.
  const bool is_number = host.find(':') != std::string::npos ||
                         host.find_first_not_of("0123456789.") == std::string::npos;
  hints.ai_flags = AI_PASSIVE | (is_number ? AI_NUMERICHOST : AI_ADDRCONFIG);
  addrinfo* found = nullptr;
  const int failure = getaddrinfo(host == "*" ? nullptr : host.c_str(), StrCat(parts->port).c_str(),
                                  &hints, &found);
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
  const absl::StatusCode code = why == EADDRINUSE ? absl::StatusCode::kResourceExhausted
                                : why == EACCES   ? absl::StatusCode::kPermissionDenied
                                                  : absl::StatusCode::kFailedPrecondition;
  return absl::Status(code,
                      StrCat("cannot listen on ", ForDisplay(text, 80), ": ", std::strerror(why)));
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
  // `most`: 0: any number of connections.
  Deadlines(Watchdog* watchdog, size_t most)
      : watchdog_(watchdog), most_(most), thread_([this] { Loop(); }) {}
  ~Deadlines() {
    absl::MutexLock lock(&mu_);
    ends_ = true;
    ending_.Signal();
  }

  // `fd` must stay open until Remove().
  void Set(int fd, absl::Duration within) {
    absl::MutexLock lock(&mu_);
    due_.erase(fd);
    if (most_ > 0 && due_.size() >= most_) {
      const auto first = std::ranges::min_element(
          due_, {}, [](const auto& connection) { return connection.second; });
      End(first->first);
      due_.erase(first);
    }
    due_[fd] = Clock::Real().Monotonic() + within;
  }
  void Remove(int fd) {
    absl::MutexLock lock(&mu_);
    due_.erase(fd);
  }

 private:
  // libmicrohttpd sees the end and closes it.
  static void End(int fd) { shutdown(fd, SHUT_RDWR); }
  bool IsBusy() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return ends_ || !due_.empty(); }

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
      if (!ends_) ending_.WaitWithTimeout(&mu_, kStep);
      if (ends_) return;
      watched.Works();
      const absl::Duration now = Clock::Real().Monotonic();
      std::erase_if(due_, [now](const auto& entry) {
        if (entry.second > now) return false;
        End(entry.first);
        return true;
      });
    }
  }

  Watchdog* const watchdog_;
  const size_t most_;
  absl::Mutex mu_;
  std::map<int, absl::Duration> due_ ABSL_GUARDED_BY(mu_);  // Monotonic.
  bool ends_ ABSL_GUARDED_BY(mu_) = false;
  CondVar ending_;
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
  Impl(Handler handler, Options options)
      : handler_(std::move(handler)),
        options_(std::move(options)),
        deadlines_(options_.watchdog, options_.max_unanswered) {}
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
  static void OnCompleted(void* self, MHD_Connection* connection, void** seen,
                          MHD_RequestTerminationCode how);
  static void OnConnection(void* self, MHD_Connection* connection, void** context,
                           MHD_ConnectionNotificationCode what);
  MHD_Result Send(MHD_Connection* connection, const Answer& answer) const;
  Answer AnswerTo(std::string_view method, std::string_view path, std::string_view host) const;

  const Handler handler_;
  const Options options_;
  Deadlines deadlines_;
  MHD_Daemon* daemon_ = nullptr;
  uint16_t port_ = 0;
  bool is_loopback_ = false;
};

// What libmicrohttpd keeps for us with a request: which of these.
constexpr char kHeadersSeen = 0;
constexpr char kGivesFile = 0;

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
      MHD_OPTION_THREAD_POOL_SIZE, kThreads, MHD_OPTION_CONNECTION_LIMIT, options_.max_connections,
      MHD_OPTION_PER_IP_CONNECTION_LIMIT, options_.max_connections_per_address,
      MHD_OPTION_NOTIFY_CONNECTION, &OnConnection, this, MHD_OPTION_NOTIFY_COMPLETED, &OnCompleted,
      this, MHD_OPTION_CONNECTION_TIMEOUT,
      static_cast<unsigned>(absl::ToInt64Seconds(kSilenceTime)), MHD_OPTION_CONNECTION_MEMORY_LIMIT,
      kConnectionBytes, MHD_OPTION_THREAD_STACK_SIZE, kStackBytes, MHD_OPTION_END);
  if (daemon_ == nullptr) return absl::InternalError("the web server cannot be started");
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
  if (*seen == nullptr) {
    *seen = const_cast<char*>(&kHeadersSeen);
    return MHD_YES;
  }
  if (*upload_bytes > 0) return MHD_NO;
  Impl& impl = *static_cast<Impl*>(self);
  const char* const host =
      MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
  const Answer answer = impl.AnswerTo(method, url, host == nullptr ? "" : host);
  if (answer.file >= 0) {
    impl.deadlines_.Remove(DescriptorOf(connection));
    if (std::string_view(method) == MHD_HTTP_METHOD_GET) {
      *seen = const_cast<char*>(&kGivesFile);
    }
  } else {
    impl.deadlines_.Set(DescriptorOf(connection), kAnswerTime);
  }
  return impl.Send(connection, answer);
}

void HttpServer::Impl::OnCompleted(void* self, MHD_Connection* /*connection*/, void** seen,
                                   MHD_RequestTerminationCode how) {
  const Options& options = static_cast<Impl*>(self)->options_;
  const bool taken = *seen == &kGivesFile && how == MHD_REQUEST_TERMINATED_COMPLETED_OK;
  if (taken && options.on_file_taken) options.on_file_taken();
}

HttpServer::Answer HttpServer::Impl::AnswerTo(std::string_view method, std::string_view path,
                                              std::string_view host) const {
  const bool asks_for_options = method == MHD_HTTP_METHOD_OPTIONS && !options_.origin.empty();
  if (method != MHD_HTTP_METHOD_GET && method != MHD_HTTP_METHOD_HEAD && !asks_for_options) {
    return {.code = MHD_HTTP_METHOD_NOT_ALLOWED, .body = "only GET and HEAD\n"};
  }
  Answer answer = handler_(path, host);
  if (asks_for_options && answer.code == MHD_HTTP_OK) return {.code = MHD_HTTP_NO_CONTENT};
  return answer;
}

MHD_Result HttpServer::Impl::Send(MHD_Connection* connection, const Answer& answer) const {
  MHD_Response* response = nullptr;
  if (answer.file >= 0) {
    const int file = fcntl(answer.file, F_DUPFD_CLOEXEC, 0);  // The response closes its own.
    if (file >= 0) response = MHD_create_response_from_fd64(answer.file_bytes, file);
    if (response == nullptr && file >= 0) close(file);
  } else {
    response = MHD_create_response_from_buffer(
        answer.body.size(), const_cast<char*>(answer.body.data()), MHD_RESPMEM_MUST_COPY);
  }
  if (response == nullptr) return MHD_NO;
  const auto add = [response](const char* name, const std::string& value) {
    MHD_add_response_header(response, name, value.c_str());
  };
  add(MHD_HTTP_HEADER_CONTENT_TYPE, answer.content_type);
  add(MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
  add("X-Content-Type-Options", "nosniff");
  add(MHD_HTTP_HEADER_CONNECTION, "close");
  if (answer.code == MHD_HTTP_METHOD_NOT_ALLOWED) add(MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
  if (!options_.origin.empty()) {
    add(MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_ORIGIN, options_.origin);
    // What browsers ask before a public page may fetch from this machine.
    add("Access-Control-Allow-Methods", "GET, HEAD, OPTIONS");
    add("Access-Control-Allow-Private-Network", "true");
  }
  const MHD_Result sent =
      MHD_queue_response(connection, static_cast<unsigned>(answer.code), response);
  MHD_destroy_response(response);
  return sent;
}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const std::string& address,
                                                              Handler handler, Options options) {
  auto impl = std::make_unique<Impl>(std::move(handler), std::move(options));
  RETURN_IF_ERROR(impl->Start(address));
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() = default;
uint16_t HttpServer::port() const { return impl_->port(); }
bool HttpServer::is_loopback() const { return impl_->is_loopback(); }

}  // namespace profd
