// HttpServer answers GET and HEAD on a few fixed paths with small texts. It keeps no state, takes
// no body and knows no user.
//
// Threads:   Start() and the destructor by the owner; handlers run on its own threads, up to
//            kThreads at once. One more ("profd-http") ends late connections; it sleeps while
//            there are none.
// Limits:    connections, also of one address, and their memory. A connection is for one request,
//            which must arrive within kRequestTime; the answer must be taken within kAnswerTime.
//            A connection beyond a limit is closed.
// Shutdown:  the destructor waits for handlers that run.
#ifndef PROFD_DAEMON_METRICS_HTTP_SERVER_H_
#define PROFD_DAEMON_METRICS_HTTP_SERVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/base/watchdog.h"

namespace profd::metrics {

class HttpServer {
 public:
  static constexpr unsigned kThreads = 3;
  static constexpr absl::Duration kRequestTime = absl::Seconds(2);
  static constexpr absl::Duration kAnswerTime = absl::Seconds(10);

  struct Answer {
    int code = 200;
    std::string content_type = "text/plain; charset=utf-8";
    std::string body;
  };
  // For a path without its query ("/metrics").
  using Handler = std::function<Answer(std::string_view path)>;

  // Listens on `address`, "HOST:PORT" with a name or a number, "[::1]:9464", or "*:9464" for all
  // addresses; port 0: any. INVALID_ARGUMENT: not an address. FAILED_PRECONDITION: it cannot be
  // listened on, saying why.
  // `watchdog` watches "profd-http" and must outlive the server; nullptr: not watched.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const std::string& address,
                                                           Handler handler,
                                                           Watchdog* watchdog = nullptr);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  uint16_t port() const;
  bool is_loopback() const;  // Nobody outside this machine can reach it.

 private:
  class Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace profd::metrics

#endif  // PROFD_DAEMON_METRICS_HTTP_SERVER_H_
