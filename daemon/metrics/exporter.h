// Exporter serves the daemon's metrics over HTTP:
//
//   /metrics   Prometheus text; 503 before Open() and after Close(). While a thread is stuck
//              (base/watchdog.h), only what needs no other thread
//   /healthz   200 while all threads make progress and the sockets are where they were, 503 with
//              the names of those that are stuck or gone: for what restarts profd
//   /readyz    200 between Open() and Close(), 503 with the reason otherwise
//
//   main ──tells──► Counters ─────────┐
//   TargetPort, CaptureStore, ... ◄───┴── read by each scrape ◄── HttpServer ◄── Prometheus
//
// Threads:   any.
// Ownership: what Sources refer to must live from Open() until Close() returned.
// Cost:      nothing between scrapes; kMostScrapes at once, the others are answered 503.
#ifndef PROFD_DAEMON_METRICS_EXPORTER_H_
#define PROFD_DAEMON_METRICS_EXPORTER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/base/watchdog.h"
#include "daemon/capture/ports.h"
#include "daemon/http/http_server.h"
#include "daemon/metrics/counters.h"
#include "daemon/metrics/node_metrics.h"
#include "daemon/metrics/socket_place.h"
#include "daemon/metrics/window_metrics.h"
#include "daemon/store/capture_store.h"

namespace profd::metrics {

class Exporter {
 public:
  static constexpr int kMostScrapes = 2;  // Fewer than the server's threads, for /healthz.

  struct Options {
    std::string listen;  // As HttpServer::Start(); empty: none are served.
    std::string node_name;
    std::string version;
    WindowMetrics::Options windows;
    Watchdog* watchdog = nullptr;  // Must outlive the exporter; nullptr: nothing is watched.
  };
  struct Sources {
    TargetPort& targets;
    store::CaptureStore& store;
    std::function<std::vector<CaptureRecord>()> live_captures;
    std::function<IngestNumbers()> ingest;
    std::function<AccessNumbers()> access;
    const quota::Ledger& quotas;
    std::vector<SocketPlace> sockets = {};
  };

  // Serves /healthz from when it returns. INVALID_ARGUMENT: not an address. FAILED_PRECONDITION: it
  // cannot be listened on, saying why. INTERNAL: no web server can be started.
  static absl::StatusOr<std::unique_ptr<Exporter>> Start(Options options, Clock& clock);
  ~Exporter();

  // The daemon serves its callers and targets.
  void Open(Sources sources);
  // It does no more. Waits for scrapes that run.
  void Close();

  Counters& counters() { return counters_; }
  // A capture ended: counts it, and its window is looked for.
  void CaptureEnded(const CaptureRecord& record);

  uint16_t port() const;  // 0: none are served.

  // The text of /metrics, and what a scraper is told. Public for tests.
  HttpServer::Answer AnswerTo(std::string_view path);

 private:
  enum class Phase { kStarting, kOpen, kClosed };
  struct Parts {
    Sources sources;
    WindowMetrics windows;
  };

  Exporter(Options options, Clock& clock);
  HttpServer::Answer Health();
  HttpServer::Answer Ready();
  HttpServer::Answer Scrape();
  std::vector<Watchdog::ThreadState> Threads() const;
  std::string Text(Parts& parts);
  bool NobodyScrapes() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return scrapes_ == 0; }

  const Options options_;
  Clock& clock_;
  const absl::Time start_;
  Counters counters_;

  absl::Mutex mu_;
  Phase phase_ ABSL_GUARDED_BY(mu_) = Phase::kStarting;
  int scrapes_ ABSL_GUARDED_BY(mu_) = 0;
  // While a scrape runs it is not replaced.
  std::unique_ptr<Parts> parts_ ABSL_GUARDED_BY(mu_);

  std::unique_ptr<HttpServer> server_;  // Last: its threads use all of the above.
};

}  // namespace profd::metrics

#endif  // PROFD_DAEMON_METRICS_EXPORTER_H_
