// HttpServer answers GET and HEAD with small texts, or with a file. It takes no body and knows no
// user. profd serves its metrics with it, and `profctl open` a trace to the browser.
//
// Threads:   Start() and the destructor by the owner; handlers run on its own threads, up to
//            kThreads at once. One more ("profd-http") ends late connections; it sleeps while
//            there are none.
// Limits:    connections, also of one address, and their memory. A connection is for one request,
//            which must arrive within kRequestTime. A text must be taken within kAnswerTime; the
//            reader of a file is not silent for kSilenceTime. A connection beyond a limit is
//            closed.
// Shutdown:  the destructor waits for handlers that run.
#ifndef PROFD_DAEMON_HTTP_HTTP_SERVER_H_
#define PROFD_DAEMON_HTTP_HTTP_SERVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/base/watchdog.h"

namespace profd {

class HttpServer {
 public:
  static constexpr unsigned kThreads = 3;
  static constexpr absl::Duration kRequestTime = absl::Seconds(2);
  static constexpr absl::Duration kAnswerTime = absl::Seconds(10);
  static constexpr absl::Duration kSilenceTime = absl::Seconds(60);

  struct Answer {
    int code = 200;
    std::string content_type = "text/plain; charset=utf-8";
    std::string body;
    // Instead of the body: `file_bytes` of an open file, from its start. The server does not close
    // it.
    int file = -1;
    uint64_t file_bytes = 0;
  };
  // For a path without its query ("/metrics"), and the Host header; "" if there is none.
  using Handler = std::function<Answer(std::string_view path, std::string_view host)>;

  struct Options {
    unsigned max_connections = 48;              // kThreads share them.
    unsigned max_connections_per_address = 16;  // 0: no limit of its own.
    // Beyond it, the connection is closed whose time is over first, files' excepted; 0: no limit of
    // its own. One client then cannot keep out another that asks at once.
    size_t max_unanswered = 0;
    // Only pages of this origin may read the answers (CORS); it then answers OPTIONS, too.
    std::string origin;
    // A GET was answered with a file, and all of it was taken. Runs on the server's threads.
    std::function<void()> on_file_taken;
    Watchdog* watchdog = nullptr;  // Watches "profd-http"; must outlive the server.
  };

  // Listens on `address`, "HOST:PORT" with a name or a number, "[::1]:9464", or "*:9464" for all
  // addresses; port 0: any. INVALID_ARGUMENT: not an address. RESOURCE_EXHAUSTED: in use.
  // PERMISSION_DENIED, FAILED_PRECONDITION: it cannot be listened on, saying why.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const std::string& address,
                                                           Handler handler, Options options);
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

}  // namespace profd

#endif  // PROFD_DAEMON_HTTP_HTTP_SERVER_H_
