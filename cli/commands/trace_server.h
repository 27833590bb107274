// TraceServer gives one file to the Perfetto page in a browser on this machine, once: that page may
// fetch from 127.0.0.1:9001 and nowhere else, and only it may read the answer (CORS).
//
// Other users of the machine can connect, too, so the path has a part that cannot be guessed; and
// requests that name another host, as a page that plays tricks with DNS would, are refused. Their
// connections do not keep the page out: of those that have not asked for the file, one without a
// request is closed after 2 s, and the oldest if there are more than 16.
//
// Threads:  those of HttpServer; calls are for one thread.
// Errors:   of HttpServer::Start(); NOT_FOUND, PERMISSION_DENIED: the file.
#ifndef PROFD_CLI_COMMANDS_TRACE_SERVER_H_
#define PROFD_CLI_COMMANDS_TRACE_SERVER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "daemon/base/cond_var.h"
#include "daemon/base/unique_fd.h"
#include "daemon/http/http_server.h"

namespace profd::cli {

inline constexpr int kPerfettoPort = 9001;
inline constexpr std::string_view kPerfettoOrigin = "https://ui.perfetto.dev";

class TraceServer {
 public:
  // Serves what is at `path` now, under a name that ends in `name`. Port 0 takes any.
  static absl::StatusOr<std::unique_ptr<TraceServer>> Start(const std::string& path,
                                                            std::string_view name, int port);

  int port() const { return server_->port(); }
  // "/3f2a.../01J9ZK.pftrace"
  const std::string& url_path() const { return url_path_; }

  // Until the file was given whole to a client, once, or Stop(); false: neither, within `timeout`.
  bool WaitUntilServed(absl::Duration timeout);
  // From any thread, also before it is waited for.
  void Stop();
  bool served() const;

 private:
  TraceServer(UniqueFd file, uint64_t size, std::string url_path)
      : file_(std::move(file)), size_(size), url_path_(std::move(url_path)) {}
  HttpServer::Answer AnswerTo(std::string_view path, std::string_view host) const;

  const UniqueFd file_;
  const uint64_t size_;
  const std::string url_path_;

  mutable absl::Mutex mu_;
  bool served_ ABSL_GUARDED_BY(mu_) = false;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  CondVar changed_;

  std::unique_ptr<HttpServer> server_;  // Last: its threads use all of the above.
};

}  // namespace profd::cli

#endif  // PROFD_CLI_COMMANDS_TRACE_SERVER_H_
