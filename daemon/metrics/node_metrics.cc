#include "daemon/metrics/node_metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string_view>
#include <utility>

#include "daemon/metrics/target_labels.h"

namespace profd::metrics {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;

MetricFamily OneGauge(std::string name, std::string help, double value) {
  MetricFamily family = Family(std::move(name), std::move(help), MetricType::Gauge);
  AddGauge(family, {}, value);
  return family;
}

MetricFamily OneCounter(std::string name, std::string help, double value) {
  MetricFamily family = Family(std::move(name), std::move(help), MetricType::Counter);
  AddCounter(family, {}, value);
  return family;
}

double Number(int64_t value) { return static_cast<double>(value); }

int64_t EntriesOf(const char* folder) {
  std::error_code error;
  const std::filesystem::directory_iterator entries(folder, error);
  return error ? 0 : std::distance(begin(entries), end(entries));
}

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

}  // namespace

std::vector<MetricFamily> BuildMetrics(const std::string& version) {
  MetricFamily info = Family("profd_build_info", "1, with the version of profd", MetricType::Gauge);
  AddGauge(info, {{"version", version}}, 1);
  return {std::move(info)};
}

std::vector<MetricFamily> TargetCounts(const std::vector<TargetInfo>& targets) {
  // All states are there from the start: a series that appears and disappears with its value breaks
  // sums and alerts.
  std::map<std::string_view, int64_t> counts = {{"running", 0}, {"capturing", 0}, {"stopped", 0}};
  for (const TargetInfo& target : targets) {
    if (target.state == TargetState::kRunning) ++counts["running"];
    if (target.state == TargetState::kCapturing) ++counts["capturing"];
    if (target.state == TargetState::kStopped) ++counts["stopped"];
  }
  MetricFamily family = Family("profd_targets", "Registered processes", MetricType::Gauge);
  for (const auto& [state, count] : counts) {
    AddGauge(family, {{"state", std::string(state)}}, Number(count));
  }
  return {std::move(family)};
}

std::vector<MetricFamily> LiveCaptures(const std::vector<CaptureRecord>& live) {
  MetricFamily family =
      Family("profd_captures_live", "Captures that have not ended", MetricType::Gauge);
  for (const CaptureState state :
       {CaptureState::kPending, CaptureState::kArming, CaptureState::kWaitingStep,
        CaptureState::kWarmup, CaptureState::kRecording, CaptureState::kDraining,
        CaptureState::kStoring}) {
    AddGauge(family, {{"state", std::string(ToString(state))}},
             Number(std::ranges::count(live, state, &CaptureRecord::state)));
  }
  return {std::move(family)};
}

std::vector<MetricFamily> StoreMetrics(const store::StoreUsage& usage) {
  return {
      OneGauge("profd_store_captures", "Captures whose events are stored",
               Number(usage.capture_count)),
      OneGauge("profd_store_capture_bytes", "Bytes of capture files", Number(usage.capture_bytes)),
      OneGauge("profd_store_capture_limit_bytes",
               "Bytes of capture files beyond which the oldest go first",
               Number(usage.max_total_bytes)),
      OneGauge("profd_store_catalog_bytes", "Bytes of the catalog", Number(usage.catalog_bytes)),
      OneGauge("profd_store_free_bytes", "Bytes free on the data directory's file system",
               Number(usage.disk.free_bytes)),
      OneCounter("profd_store_evicted_captures_total",
                 "Captures whose events were removed to make room, ever",
                 Number(usage.evicted_capture_count))};
}

std::vector<MetricFamily> IngestMetrics(const IngestNumbers& numbers) {
  return {OneGauge("profd_capture_memory_bytes", "Memory shared with targets by live captures",
                   Number(numbers.capture_memory_bytes)),
          OneGauge("profd_capture_memory_limit_bytes", "Most that may be shared at once",
                   Number(numbers.max_capture_memory_bytes)),
          OneCounter("profd_target_frames_skipped_total",
                     "Messages of targets that this profd does not know",
                     Number(numbers.skipped_frame_count)),
          OneCounter("profd_targets_refused_total", "Connections of targets that were turned away",
                     Number(numbers.refused_target_count))};
}

std::vector<MetricFamily> AccessMetrics(const AccessNumbers& numbers) {
  std::vector<MetricFamily> families;
  if (numbers.captures_allowed.has_value()) {
    families.push_back(OneGauge("profd_captures_allowed", "0 while an operator forbids captures",
                                *numbers.captures_allowed ? 1 : 0));
  }
  if (numbers.policy_current.has_value()) {
    families.push_back(OneGauge("profd_policy_current",
                                "0 while the policy file is not taken, and older rules hold",
                                *numbers.policy_current ? 1 : 0));
  }
  if (numbers.certificate_end.has_value()) {
    families.push_back(OneGauge(
        "profd_certificate_not_after_seconds", "When the certificate in use ends, in Unix time",
        absl::ToDoubleSeconds(*numbers.certificate_end - absl::UnixEpoch())));
  }
  families.push_back(OneCounter("profd_callers_cut_off_total",
                                "Connections, local and remote, ended because their callers sent "
                                "too many calls, HTTP/2 frames, or messages without an end, or "
                                "file descriptors",
                                Number(numbers.cut_off_connections)));
  return families;
}

std::vector<MetricFamily> QuotaMetrics(const std::vector<quota::Ledger::ResourceUse>& uses) {
  MetricFamily used = Family("profd_quota_used", "Use by all principals, in the resource's unit",
                             MetricType::Gauge);
  MetricFamily limit =
      Family("profd_quota_limit", "Most that all principals together may use", MetricType::Gauge);
  MetricFamily largest =
      Family("profd_quota_largest_holding", "Use by the principal that uses most, root aside",
             MetricType::Gauge);
  MetricFamily refused = Family("profd_quota_refused_total",
                                "Requests that exceeded a quota or a share", MetricType::Counter);
  for (const quota::Ledger::ResourceUse& use : uses) {
    const prometheus::ClientMetric::Label label = {"resource",
                                                   std::string(quota::InfoOf(use.resource).name)};
    const auto holding = std::ranges::find(use.holdings, false,
                                           [](const auto& each) { return each.who.is_operator; });
    AddGauge(used, {label}, Number(use.used));
    AddGauge(limit, {label}, Number(use.limit.capacity));
    AddGauge(largest, {label}, holding == use.holdings.end() ? 0 : Number(holding->amount));
    AddCounter(refused, {label}, Number(use.refused_count));
  }
  return {std::move(used), std::move(limit), std::move(largest), std::move(refused)};
}

std::vector<MetricFamily> WatchdogMetrics(const std::vector<Watchdog::ThreadState>& threads) {
  MetricFamily unfed =
      Family("profd_thread_unfed_seconds",
             "How long a thread of profd has gone without progress; 0 while it waits for work",
             MetricType::Gauge);
  for (const Watchdog::ThreadState& thread : threads) {
    AddGauge(unfed, {{"thread", thread.name}}, absl::ToDoubleSeconds(thread.unfed));
  }
  return {std::move(unfed)};
}

std::vector<MetricFamily> ProcessMetrics(absl::Time start) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::ifstream statm("/proc/self/statm");
  int64_t total_pages = 0;
  int64_t resident_pages = 0;
  statm >> total_pages >> resident_pages;
  return {OneCounter("process_cpu_seconds_total", "Processor time used by profd",
                     Seconds(usage.ru_utime) + Seconds(usage.ru_stime)),
          OneGauge("process_resident_memory_bytes", "Resident memory of profd",
                   Number(resident_pages * sysconf(_SC_PAGESIZE))),
          OneGauge("process_open_fds", "File descriptors that profd has open",
                   Number(EntriesOf("/proc/self/fd"))),
          OneGauge("process_threads", "Threads of profd", Number(EntriesOf("/proc/self/task"))),
          OneGauge("process_start_time_seconds", "When profd was started, in Unix time",
                   absl::ToDoubleSeconds(start - absl::UnixEpoch()))};
}

}  // namespace profd::metrics
