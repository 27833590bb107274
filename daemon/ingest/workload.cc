#include "daemon/ingest/workload.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <system_error>

namespace profd {
namespace {

constexpr size_t kContainerIdLength = 64;
constexpr size_t kUuidLength = 36;
constexpr size_t kBareUuidLength = 32;
constexpr size_t kMaxJobDigits = 20;
constexpr int kMaxPods = 10'000;  // Far more than a node runs.

bool IsHex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }
bool AreHex(std::string_view text) { return std::ranges::all_of(text, IsHex); }

// "12345678-1234-1234-1234-123456789012", also with '_', as systemd's names have it; else empty.
std::string PodUidOf(std::string_view text) {
  const std::string_view bare = text.substr(0, kBareUuidLength);
  if (bare.size() == kBareUuidLength && AreHex(bare)) return std::string(bare);  // A static pod's.
  if (text.size() < kUuidLength) return {};
  std::string uid(text.substr(0, kUuidLength));
  for (size_t i = 0; i < uid.size(); ++i) {
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (dash && (uid[i] == '-' || uid[i] == '_')) {
      uid[i] = '-';
    } else if (dash || !IsHex(uid[i])) {
      return {};
    }
  }
  return uid;
}

// A part of the path: "kubepods-burstable-pod8c2a0e4e_....slice", "pod8c2a0e4e-...".
std::string PodUidIn(std::string_view part) {
  if (part.ends_with(".slice")) part.remove_suffix(std::string_view(".slice").size());
  const size_t pod = part.rfind("pod");
  if (pod == std::string_view::npos || (pod > 0 && part[pod - 1] != '-')) return {};
  const std::string_view rest = part.substr(pod + 3);
  std::string uid = PodUidOf(rest);
  return uid.size() == rest.size() ? uid : std::string();
}

// "cri-containerd-<64 hex>.scope", "docker-<64 hex>.scope", "<64 hex>"; else empty.
std::string ContainerIn(std::string_view part) {
  if (part.ends_with(".scope")) part.remove_suffix(std::string_view(".scope").size());
  if (part.size() < kContainerIdLength) return {};
  const std::string_view before = part.substr(0, part.size() - kContainerIdLength);
  const std::string_view id = part.substr(before.size());
  const bool starts = before.empty() || before.ends_with('-') || before.ends_with(':');
  return starts && AreHex(id) ? std::string(id) : std::string();
}

// slurmd's own folders: "slurm" or "slurm_NODE" over "uid_N" (version 1), "slurmstepd.scope" or
// "NODE_slurmstepd.scope" (version 2).
bool IsSlurms(std::string_view part, std::string_view parent) {
  if (part == "slurmstepd.scope" || part.ends_with("_slurmstepd.scope")) return true;
  return part.starts_with("uid_") && (parent == "slurm" || parent.starts_with("slurm_"));
}

std::string JobIn(std::string_view part) {
  constexpr std::string_view kPrefix = "job_";
  if (!part.starts_with(kPrefix)) return {};
  part.remove_prefix(kPrefix.size());
  const bool digits = !part.empty() && part.size() <= kMaxJobDigits &&
                      std::ranges::all_of(part, [](char c) { return c >= '0' && c <= '9'; });
  return digits ? std::string(part) : std::string();
}

void ReadPath(std::string_view path, Workload& workload) {
  std::string_view parent;
  std::string_view grandparent;
  while (!path.empty()) {
    const size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    path.remove_prefix(slash == std::string_view::npos ? path.size() : slash + 1);
    if (part.empty()) continue;
    // The outermost: whoever may make cgroups below one of these has no say in it.
    if (workload.slurm_job.empty() && IsSlurms(parent, grandparent)) {
      workload.slurm_job = JobIn(part);
    }
    if (workload.pod_uid.empty()) workload.pod_uid = PodUidIn(part);
    if (std::string id = ContainerIn(part); !id.empty()) workload.container_id = std::move(id);
    grandparent = parent;
    parent = part;
  }
}

}  // namespace

Workload WorkloadOf(std::string_view cgroup) {
  Workload workload;
  while (!cgroup.empty()) {
    const size_t end = cgroup.find('\n');
    const std::string_view line = cgroup.substr(0, end);
    cgroup.remove_prefix(end == std::string_view::npos ? cgroup.size() : end + 1);
    // "7:cpu,cpuacct:/path"; a path may hold colons.
    const size_t first = line.find(':');
    const size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    Workload of_line;
    ReadPath(line.substr(second + 1), of_line);
    if (workload.slurm_job.empty()) workload.slurm_job = of_line.slurm_job;
    if (workload.pod_uid.empty()) workload.pod_uid = of_line.pod_uid;
    if (workload.container_id.empty()) workload.container_id = of_line.container_id;
  }
  return workload;
}

void FindPodNames(const std::filesystem::path& pod_logs, Workload& workload) {
  if (workload.pod_uid.empty()) return;
  struct stat info {};
  if (stat(pod_logs.c_str(), &info) != 0 || (info.st_uid != 0 && info.st_uid != geteuid()) ||
      (info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return;
  }
  std::error_code error;
  std::filesystem::directory_iterator it(pod_logs, error);
  for (int i = 0; !error && i < kMaxPods && it != std::filesystem::directory_iterator(); ++i) {
    const std::string name = it->path().filename().string();
    // Neither namespaces nor names of pods can have a '_'.
    const size_t first = name.find('_');
    const size_t last = name.rfind('_');
    if (first != std::string::npos && first != last &&
        std::string_view(name).substr(last + 1) == workload.pod_uid) {
      workload.pod_namespace = name.substr(0, first);
      workload.pod_name = name.substr(first + 1, last - first - 1);
      return;
    }
    it.increment(error);
  }
}

bool AsksNotToBeCaptured(const std::map<std::string, std::string>& metadata) {
  const auto it = metadata.find("optout");
  return it != metadata.end() && !it->second.empty() && it->second != "0" && it->second != "false";
}

}  // namespace profd
