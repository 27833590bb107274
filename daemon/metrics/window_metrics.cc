#include "daemon/metrics/window_metrics.h"

#include <algorithm>
#include <utility>

#include "daemon/base/log.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"

namespace profd::metrics {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;

constexpr int64_t kCapturesAtOnce = 100;
constexpr int64_t kMostCaptures = 2000;  // Looked through for the last window of each target.

double Ratio(int64_t part, int64_t whole) {
  if (whole <= 0) return 0;
  return std::clamp(static_cast<double>(part) / static_cast<double>(whole), 0.0, 1.0);
}

Labels With(Labels labels, std::initializer_list<prometheus::ClientMetric::Label> more) {
  labels.insert(labels.end(), more);
  return labels;
}

// Of a GPU, by the number it has in the target.
Labels GpuLabels(const GpuRecord& gpu, int64_t number,
                 const std::map<std::string, GpuPlace>& places) {
  const auto device = std::ranges::find(gpu.devices, number, &GpuDevice::number);
  if (device == gpu.devices.end()) return {{"gpu", StrCat(number)}};
  const auto place = places.find(GpuPlaceKey(device->uuid));
  Labels labels = {{"UUID", LabelValue(device->uuid)}, {"modelName", LabelValue(device->name)}};
  // Without a UUID that the driver knows, the target's own number at least tells its GPUs apart.
  if (place == places.end()) {
    if (device->uuid.empty()) labels.push_back({"gpu", StrCat(number)});
    return labels;
  }
  labels.push_back({"gpu", LabelValue(place->second.gpu)});
  labels.push_back({"device", LabelValue(place->second.device)});
  labels.push_back({"pci_bus_id", LabelValue(place->second.pci_bus_id)});
  return labels;
}

}  // namespace

WindowMetrics::WindowMetrics(Options options, store::CaptureStore& store, Clock& clock)
    : options_(std::move(options)), store_(store), clock_(clock) {}

absl::Status WindowMetrics::Refresh(const ShownTargets& shown) {
  store::CaptureFilter filter;
  filter.states = {CaptureState::kComplete, CaptureState::kPartial};
  filter.since = clock_.Now() - options_.oldest;
  const store::SummaryParts records_only = {.steps = false, .devices = false, .ops = false};

  std::set<Process> missing;
  for (const ShownTarget& row : shown.targets) missing.insert(ProcessOf(row.target));
  // Before it is read: what ends meanwhile is for the next scrape.
  const bool stale = stale_.exchange(false, std::memory_order_acq_rel);
  // Nothing has ended and the same targets are there, so the last answer still holds. A scrape
  // every few seconds then costs the catalog nothing.
  if (!stale && missing == known_) return absl::OkStatus();
  known_ = missing;

  std::map<Process, store::SummarizedCapture> windows;
  std::string before_id;
  for (int64_t seen = 0; seen < kMostCaptures && !missing.empty(); seen += kCapturesAtOnce) {
    ASSIGN_OR_RETURN(std::vector<store::SummarizedCapture> page,
                     store_.ListSummaries(filter, records_only, kCapturesAtOnce, before_id));
    for (store::SummarizedCapture& capture : page) {
      const Process process = ProcessOf(capture.record.target);
      if (capture.record.schedule_id.empty() || missing.erase(process) == 0) continue;
      ASSIGN_OR_RETURN(capture.summaries, store_.GetSummaries(capture.record.id));
      windows.emplace(process, std::move(capture));
    }
    if (static_cast<int64_t>(page.size()) < kCapturesAtOnce) break;
    before_id = page.back().record.id;
  }
  windows_ = std::move(windows);
  return absl::OkStatus();
}

void WindowMetrics::AddOperators(const ShownTarget& shown, const store::CaptureSummaries& summaries,
                                 bool on_gpu, MetricFamily& family) const {
  const auto time_of = [on_gpu](const store::OpSummaryRow& op) {
    return on_gpu ? op.self_device_ns : op.self_cpu_ns;
  };
  // Names that read the same are one: labels must differ.
  std::map<std::string, int64_t> by_name;
  int64_t whole = 0;
  for (const store::OpSummaryRow& op : summaries.ops) {
    whole += time_of(op);
    by_name[LabelValue(op.name)] += time_of(op);
  }
  std::vector<std::pair<int64_t, std::string>> largest;
  for (auto& [name, time_ns] : by_name) {
    if (time_ns > 0) largest.emplace_back(time_ns, name);
  }
  std::ranges::sort(largest, std::ranges::greater());
  if (largest.size() > static_cast<size_t>(options_.operators)) {
    largest.resize(static_cast<size_t>(options_.operators));
  }
  for (auto& [time_ns, name] : largest) {
    AddGauge(family,
             With(shown.labels, {{"operator", std::move(name)}, {"on", on_gpu ? "gpu" : "cpu"}}),
             Ratio(time_ns, whole));
  }
}

std::vector<MetricFamily> WindowMetrics::Collect(const ShownTargets& shown) {
  MetricFamily start = Family("profd_window_start_time_seconds",
                              "When the target's last sampled window began", MetricType::Gauge);
  MetricFamily step = Family("profd_window_step_seconds", "Mean length of a step in that window",
                             MetricType::Gauge);
  MetricFamily busy =
      Family("profd_window_gpu_busy_ratio",
             "Share of that window in which the GPU ran anything of the target", MetricType::Gauge);
  MetricFamily communication =
      Family("profd_window_gpu_communication_ratio",
             "Share of that window in which the GPU ran communication", MetricType::Gauge);
  MetricFamily exposed =
      Family("profd_window_gpu_exposed_communication_ratio",
             "Share of that window in which the GPU ran communication and computed nothing",
             MetricType::Gauge);
  MetricFamily operators =
      Family("profd_window_operator_ratio",
             "Share of the operators' self time in that window, of the largest operators",
             MetricType::Gauge);

  absl::MutexLock lock(&mu_);
  if (absl::Status status = Refresh(shown); !status.ok()) {
    LogWarning(StrCat("metrics are without windows: ", status.ToString()));
    // The flag was cleared before the read. Without this, the next scrape would take the failed
    // read for a current one.
    stale_.store(true, std::memory_order_release);
    return {};
  }
  std::map<std::string, GpuPlace> places;
  if (!windows_.empty()) places = ReadGpuPlaces(options_.gpus_folder);
  for (const ShownTarget& row : shown.targets) {
    const auto window = windows_.find(ProcessOf(row.target));
    if (window == windows_.end()) continue;
    const CaptureRecord& record = window->second.record;
    const store::CaptureSummaries& summaries = window->second.summaries;
    if (record.create_time < clock_.Now() - options_.oldest) continue;
    AddGauge(start, row.labels, static_cast<double>(record.start_unix_ns) / 1e9);
    if (record.covered_steps > 0) {
      AddGauge(
          step, row.labels,
          static_cast<double>(record.covered_ns) / 1e9 / static_cast<double>(record.covered_steps));
    }
    std::set<Labels> seen;
    for (const store::DeviceSummaryRow& device : summaries.devices) {
      Labels labels = row.labels;
      std::ranges::move(GpuLabels(record.gpu, device.device, places), std::back_inserter(labels));
      if (!seen.insert(labels).second) continue;  // What it says of its GPUs is hearsay.
      AddGauge(busy, labels, Ratio(device.busy_ns, device.duration_ns));
      AddGauge(communication, labels, Ratio(device.communication_ns, device.duration_ns));
      AddGauge(exposed, std::move(labels),
               Ratio(device.exposed_communication_ns, device.duration_ns));
    }
    for (const bool on_gpu : {false, true}) AddOperators(row, summaries, on_gpu, operators);
  }
  return {std::move(start),         std::move(step),    std::move(busy),
          std::move(communication), std::move(exposed), std::move(operators)};
}

}  // namespace profd::metrics
