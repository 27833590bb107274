#include "daemon/metrics/target_labels.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"

namespace profd::metrics {
namespace {

Labels LabelsOf(const TargetInfo& target, std::string_view node_name) {
  const std::string job = JobOf(target);
  const int64_t rank = RankOf(target);
  Labels labels = {{"Hostname", LabelValue(node_name)},
                   {"hpc_job", LabelValue(job)},
                   {"rank", rank < 0 ? std::string() : StrCat(rank)},
                   {"pod", LabelValue(target.workload.pod_name)},
                   {"namespace", LabelValue(target.workload.pod_namespace)}};
  // A rank of a job keeps its series when its process is started again.
  if (job.empty() || rank < 0) labels.push_back({"pid", StrCat(target.pid)});
  return labels;
}

// Whose series has these labels: any process may say that it is a rank of a job. It is the user's
// whose job is known by the cgroup, else that of the process that came first. `targets`: the newest
// first.
std::map<Labels, int64_t> UsersOf(const std::vector<TargetInfo>& targets,
                                  std::string_view node_name) {
  std::map<Labels, int64_t> users;
  for (const bool is_known : {false, true}) {
    for (const TargetInfo& target : targets) {
      if (target.state == TargetState::kGone) continue;
      if (is_known && target.workload.slurm_job.empty()) continue;
      users[LabelsOf(target, node_name)] = target.uid;
    }
  }
  return users;
}

}  // namespace

ShownTargets ShowTargets(std::vector<TargetInfo> targets, std::string_view node_name) {
  // Numbers count registrations.
  // The newest first: of two processes with the same labels, such as a rank that was started again,
  // the newest is the one to show.
  std::ranges::sort(targets, std::ranges::greater(), &TargetInfo::number);
  const std::map<Labels, int64_t> users = UsersOf(targets, node_name);
  ShownTargets shown;
  std::set<Labels> seen;
  for (TargetInfo& target : targets) {
    if (target.state == TargetState::kGone) continue;
    Labels labels = LabelsOf(target, node_name);
    if (users.at(labels) != target.uid) labels.push_back({"pid", StrCat(target.pid)});
    if (!seen.insert(labels).second) continue;
    if (shown.targets.size() == kMaxShownTargets) {
      ++shown.left_out;
      continue;
    }
    shown.targets.push_back({.target = std::move(target), .labels = std::move(labels)});
  }
  return shown;
}

std::string LabelValue(std::string_view untrusted) { return ForDisplay(untrusted, kMaxLabelBytes); }

prometheus::MetricFamily Family(std::string name, std::string help, prometheus::MetricType type) {
  prometheus::MetricFamily family;
  family.name = std::move(name);
  family.help = std::move(help);
  family.type = type;
  return family;
}

void AddGauge(prometheus::MetricFamily& family, Labels labels, double value) {
  prometheus::ClientMetric& metric = family.metric.emplace_back();
  metric.label = std::move(labels);
  metric.gauge.value = value;
}

void AddCounter(prometheus::MetricFamily& family, Labels labels, double value) {
  prometheus::ClientMetric& metric = family.metric.emplace_back();
  metric.label = std::move(labels);
  metric.counter.value = value;
}

}  // namespace profd::metrics
