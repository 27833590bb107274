// What the daemon and its store are at a scrape: gauges, and counts that others keep.
//
// Threads: any; waits for the disk and the capture manager.
#ifndef PROFD_DAEMON_METRICS_NODE_METRICS_H_
#define PROFD_DAEMON_METRICS_NODE_METRICS_H_

#include <prometheus/metric_family.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "daemon/base/watchdog.h"
#include "daemon/capture/capture_types.h"
#include "daemon/quota/ledger.h"
#include "daemon/store/capture_store.h"

namespace profd::metrics {

// Of targets' connections, as ingest counts them.
struct IngestNumbers {
  int64_t capture_memory_bytes = 0;
  int64_t max_capture_memory_bytes = 0;
  int64_t skipped_frame_count = 0;
  int64_t refused_target_count = 0;
};

// Whether callers and schedules are let in, and for how long.
struct AccessNumbers {
  std::optional<bool> captures_allowed;  // nullopt: the catalog does not say.
  std::optional<bool> policy_current;    // The rules in force are the file's; nullopt: no file.
  std::optional<absl::Time> certificate_end;  // nullopt: there is none.
  int64_t cut_off_connections = 0;            // Their callers sent too much.
};

std::vector<prometheus::MetricFamily> BuildMetrics(const std::string& version);
std::vector<prometheus::MetricFamily> TargetCounts(const std::vector<TargetInfo>& targets);
std::vector<prometheus::MetricFamily> LiveCaptures(const std::vector<CaptureRecord>& live);
std::vector<prometheus::MetricFamily> StoreMetrics(const store::StoreUsage& usage);
std::vector<prometheus::MetricFamily> IngestMetrics(const IngestNumbers& numbers);
std::vector<prometheus::MetricFamily> AccessMetrics(const AccessNumbers& numbers);
// How long each watched thread has gone without progress.
std::vector<prometheus::MetricFamily> WatchdogMetrics(
    const std::vector<Watchdog::ThreadState>& threads);
// By resource, not by principal: those who may scrape must not learn whose jobs run.
std::vector<prometheus::MetricFamily> QuotaMetrics(
    const std::vector<quota::Ledger::ResourceUse>& uses);
// This process, by the names that every Prometheus client gives them.
std::vector<prometheus::MetricFamily> ProcessMetrics(absl::Time start);

}  // namespace profd::metrics

#endif  // PROFD_DAEMON_METRICS_NODE_METRICS_H_
