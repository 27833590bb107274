#include "daemon/metrics/exporter.h"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "daemon/base/log.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/metrics/target_labels.h"
#include "daemon/metrics/target_metrics.h"

namespace profd::metrics {
namespace {

using prometheus::MetricFamily;

constexpr int kServiceUnavailable = 503;
constexpr int kNotFound = 404;

void Append(std::vector<MetricFamily> more, std::vector<MetricFamily>& all) {
  // A family without samples would be a comment about nothing.
  std::erase_if(more, [](const MetricFamily& family) { return family.metric.empty(); });
  std::ranges::move(more, std::back_inserter(all));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Exporter>> Exporter::Start(Options options, Clock& clock) {
  std::unique_ptr<Exporter> exporter(new Exporter(std::move(options), clock));
  if (exporter->options_.listen.empty()) return exporter;
  const auto answer = [self = exporter.get()](std::string_view path, std::string_view /*host*/) {
    return self->AnswerTo(path);
  };
  auto server = HttpServer::Start(exporter->options_.listen, answer,
                                  {.watchdog = exporter->options_.watchdog});
  if (!server.ok() && !absl::IsInvalidArgument(server.status()) &&
      !absl::IsInternal(server.status())) {
    return absl::FailedPreconditionError(
        StrCat(FromAbsl(server.status().message()), "; choose another metrics-listen"));
  }
  ASSIGN_OR_RETURN(exporter->server_, std::move(server));
  LogInfo(StrCat("metrics on ", exporter->options_.listen, " port=", exporter->port()));
  if (!exporter->server_->is_loopback()) {
    LogInfo("anyone who reaches that port can read the metrics: job names, ranks, operators");
  }
  return exporter;
}

Exporter::Exporter(Options options, Clock& clock)
    : options_(std::move(options)), clock_(clock), start_(clock.Now()) {}

Exporter::~Exporter() { Close(); }

void Exporter::Open(Sources sources) {
  store::CaptureStore& store = sources.store;
  absl::MutexLock lock(&mu_);
  parts_ = std::unique_ptr<Parts>(
      new Parts{std::move(sources), WindowMetrics(options_.windows, store, clock_)});
  phase_ = Phase::kOpen;
}

void Exporter::Close() {
  absl::MutexLock lock(&mu_);
  phase_ = Phase::kClosed;
  mu_.Await(absl::Condition(this, &Exporter::NobodyScrapes));
  parts_.reset();
}

void Exporter::CaptureEnded(const CaptureRecord& record) {
  counters_.CaptureEnded(record);
  absl::MutexLock lock(&mu_);
  if (parts_ != nullptr) parts_->windows.CaptureEnded();
}

uint16_t Exporter::port() const { return server_ == nullptr ? 0 : server_->port(); }

HttpServer::Answer Exporter::AnswerTo(std::string_view path) {
  if (path == "/metrics") return Scrape();
  if (path == "/healthz") return Health();
  if (path == "/readyz") return Ready();
  if (path == "/") return {.body = "profd: /metrics /healthz /readyz\n"};
  return {.code = kNotFound, .body = "no such page: /metrics /healthz /readyz\n"};
}

std::vector<Watchdog::ThreadState> Exporter::Threads() const {
  if (options_.watchdog == nullptr) return {};
  return options_.watchdog->Threads();
}

HttpServer::Answer Exporter::Health() {
  std::string wrong;
  for (const Watchdog::ThreadState& thread : Threads()) {
    if (!thread.is_stuck) continue;
    StrAppend(&wrong, "thread ", thread.name, " has made no progress for ",
              absl::ToInt64Seconds(thread.unfed), " s\n");
  }
  {
    absl::MutexLock lock(&mu_);
    if (phase_ == Phase::kOpen) {
      for (const SocketPlace& place : parts_->sources.sockets) wrong += place.WhyGone();
    }
  }
  if (wrong.empty()) return {.body = "ok\n"};
  return {.code = kServiceUnavailable, .body = std::move(wrong)};
}

HttpServer::Answer Exporter::Ready() {
  absl::MutexLock lock(&mu_);
  switch (phase_) {
    case Phase::kStarting:
      return {.code = kServiceUnavailable, .body = "starting\n"};
    case Phase::kOpen:
      return {.body = "ready\n"};
    case Phase::kClosed:
      break;
  }
  return {.code = kServiceUnavailable, .body = "stopping\n"};
}

HttpServer::Answer Exporter::Scrape() {
  constexpr std::string_view kPrometheusText = "text/plain; version=0.0.4; charset=utf-8";
  const std::vector<Watchdog::ThreadState> threads = Threads();
  // A stuck thread may hold a lock that the other families need: the scrape would be stuck, too.
  if (std::ranges::any_of(threads, &Watchdog::ThreadState::is_stuck)) {
    std::vector<MetricFamily> few;
    Append(BuildMetrics(options_.version), few);
    Append(WatchdogMetrics(threads), few);
    Append(ProcessMetrics(start_), few);
    return {.content_type = std::string(kPrometheusText),
            .body = prometheus::TextSerializer().Serialize(few)};
  }
  Parts* parts = nullptr;
  {
    absl::MutexLock lock(&mu_);
    if (phase_ != Phase::kOpen) {
      return {.code = kServiceUnavailable, .body = "starting or stopping\n"};
    }
    if (scrapes_ == kMostScrapes) {
      return {.code = kServiceUnavailable, .body = "others scrape right now\n"};
    }
    ++scrapes_;
    parts = parts_.get();
  }
  // Without the lock, since it may take long: Close() waits until no scrape uses `parts`.
  HttpServer::Answer answer = {.content_type = std::string(kPrometheusText), .body = Text(*parts)};
  absl::MutexLock lock(&mu_);
  --scrapes_;
  return answer;
}

std::string Exporter::Text(Parts& parts) {
  const std::vector<TargetInfo> targets = parts.sources.targets.List();
  const ShownTargets shown = ShowTargets(targets, options_.node_name);
  std::vector<MetricFamily> all;
  Append(BuildMetrics(options_.version), all);
  Append(TargetCounts(targets), all);
  Append(LiveCaptures(parts.sources.live_captures()), all);
  Append(counters_.Collect(), all);
  Append(IngestMetrics(parts.sources.ingest()), all);
  Append(AccessMetrics(parts.sources.access()), all);
  Append(QuotaMetrics(parts.sources.quotas.Snapshot()), all);
  const absl::StatusOr<store::StoreUsage> usage = parts.sources.store.Usage();
  if (usage.ok() && !usage->is_outdated) {
    Append(StoreMetrics(*usage), all);
  } else if (usage.ok()) {
    LogWarning("metrics are without the store: the catalog is busy, or the disk does not answer");
  } else {
    LogWarning(StrCat("metrics are without the store: ", usage.status().ToString()));
  }
  Append(TargetMetrics(shown, parts.sources.targets), all);
  Append(parts.windows.Collect(shown), all);
  MetricFamily left_out =
      Family("profd_series_left_out", "What has no series of its own, because there are too many",
             prometheus::MetricType::Gauge);
  AddGauge(left_out, {{"of", "targets"}}, static_cast<double>(shown.left_out));
  Append({std::move(left_out)}, all);
  Append(WatchdogMetrics(Threads()), all);
  Append(ProcessMetrics(start_), all);
  return prometheus::TextSerializer().Serialize(all);
}

}  // namespace profd::metrics
