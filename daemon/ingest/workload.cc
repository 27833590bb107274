#include "daemon/ingest/workload.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>
#include <vector>

#include "daemon/base/str_cat.h"

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

// "slurmstepd.scope" or "NODE_slurmstepd.scope": where slurmd of cgroup version 2 keeps its jobs.
bool IsSlurmScope(std::string_view part) {
  return part == "slurmstepd.scope" || part.ends_with("_slurmstepd.scope");
}

// "slurm" or "slurm_NODE": the same of version 1, at the root of a hierarchy, above "uid_N".
bool IsSlurmFolder(std::string_view part) { return part == "slurm" || part.starts_with("slurm_"); }

// Folders whose children only root creates. systemd nests slices in slices; a user's own manager,
// whose cgroup is delegated, starts at a service below user.slice. The others are the kubelet's.
bool HoldsOnlyRootsFolders(std::string_view part) {
  if (part.ends_with(".slice")) return part != "user.slice";
  return part == "kubepods" || part == "kubelet" || part == "burstable" || part == "besteffort" ||
         part == "guaranteed";
}

std::string JobIn(std::string_view part) {
  constexpr std::string_view kPrefix = "job_";
  if (!part.starts_with(kPrefix)) return {};
  part.remove_prefix(kPrefix.size());
  const bool digits = !part.empty() && part.size() <= kMaxJobDigits &&
                      std::ranges::all_of(part, [](char c) { return c >= '0' && c <= '9'; });
  return digits ? std::string(part) : std::string();
}

// The components of a cgroup path, and the bytes of the path up to the end of each.
struct CgroupPath {
  // The path begins with "..": our cgroup namespace's root is below the target's cgroup, and what
  // follows is relative to one of our own ancestors. Root created those, too.
  bool relative = false;
  std::vector<std::string_view> parts;
  std::vector<size_t> ends;
};

CgroupPath Split(std::string_view path) {
  CgroupPath split;
  for (size_t at = 0; at < path.size();) {
    const size_t slash = std::min(path.find('/', at), path.size());
    const std::string_view part = path.substr(at, slash - at);
    at = slash + 1;
    if (part.empty()) continue;
    if (part == ".." && split.parts.empty()) {
      split.relative = true;
      continue;
    }
    split.parts.push_back(part);
    split.ends.push_back(slash);
  }
  return split;
}

// What a path names, with the length of the path up to the folder that says so.
struct Named {
  std::string id;
  size_t end = 0;
};

// A user with a delegated cgroup may create any names in it. So both of these read the path from
// the root of the hierarchy and stop at the first folder that may be delegated.
Named PodOf(const CgroupPath& path) {
  for (size_t i = 0; i < path.parts.size(); ++i) {
    const std::string_view part = path.parts[i];
    // A cgroup below the root that is named like a pod's is the kubelet's only in its folders.
    const bool in_kubelets_folder = i > 0 || path.relative;
    const bool is_slice = part.find("kubepods") != std::string_view::npos;
    if (in_kubelets_folder && (is_slice || part.starts_with("pod"))) {
      if (std::string uid = PodUidIn(part); !uid.empty()) return {std::move(uid), path.ends[i]};
    }
    if (!HoldsOnlyRootsFolders(part)) break;
  }
  return {};
}

Named JobOf(const CgroupPath& path) {
  const auto& parts = path.parts;
  size_t scope = 0;
  if (parts.size() > 1 && IsSlurmFolder(parts[0]) && parts[1].starts_with("uid_")) {
    scope = 1;
  } else {
    while (scope < parts.size() && HoldsOnlyRootsFolders(parts[scope])) ++scope;
    if (scope == parts.size() || !IsSlurmScope(parts[scope])) return {};
  }
  if (scope + 1 >= parts.size()) return {};
  return {JobIn(parts[scope + 1]), path.ends[scope + 1]};
}

// The first container that the path names, in a folder that no user has by delegation: services and
// scopes may be delegated, and what is below user.slice is.
Named RootContainerIn(const CgroupPath& path) {
  for (size_t i = 0; i < path.parts.size(); ++i) {
    const std::string_view part = path.parts[i];
    if (std::string id = ContainerIn(part); !id.empty()) return {std::move(id), path.ends[i]};
    if (part == "user.slice" || part.ends_with(".service") || part.ends_with(".scope")) break;
  }
  return {};
}

bool IsMadeByRoot(const Named& named, const CgroupPath& path, std::string_view controllers,
                  std::string_view text, const CgroupFolders* folders) {
  return !named.id.empty() && (folders == nullptr || path.relative ||
                               folders->MadeByRoot(controllers, text.substr(0, named.end)));
}

void ReadPath(std::string_view controllers, std::string_view path, const CgroupFolders* folders,
              Workload& workload) {
  const CgroupPath split = Split(path);
  const auto made_by_root = [&](const Named& named) {
    return IsMadeByRoot(named, split, controllers, path, folders);
  };
  if (workload.slurm_job.empty()) {
    if (Named job = JobOf(split); made_by_root(job)) workload.slurm_job = std::move(job.id);
  }
  if (workload.pod_uid.empty()) {
    if (Named pod = PodOf(split); made_by_root(pod)) workload.pod_uid = std::move(pod.id);
  }
  if (!workload.container_id.empty()) return;
  for (const std::string_view part : split.parts) {
    if (std::string id = ContainerIn(part); !id.empty()) workload.container_id = std::move(id);
  }
}

// Calls fn(controllers, path) for each line "7:cpu,cpuacct:/path"; a path may hold colons.
template <typename Fn>
void ForEachHierarchy(std::string_view cgroup, Fn fn) {
  while (!cgroup.empty()) {
    const size_t end = cgroup.find('\n');
    const std::string_view line = cgroup.substr(0, end);
    cgroup.remove_prefix(end == std::string_view::npos ? cgroup.size() : end + 1);
    const size_t first = line.find(':');
    const size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    fn(line.substr(first + 1, second - first - 1), line.substr(second + 1));
  }
}

}  // namespace

bool CgroupFolders::MadeByRoot(std::string_view controllers, std::string_view path) const {
  if (controllers.starts_with("name=")) controllers.remove_prefix(std::string_view("name=").size());
  // Version 2 is mounted at the top, or next to version 1 at "unified".
  const std::string_view places[] = {controllers, controllers.empty() ? "unified" : controllers};
  for (const std::string_view place : places) {
    struct stat info {};
    const std::string folder = StrCat(mount_.string(), "/", place, "/", path);
    if (stat(folder.c_str(), &info) == 0) return info.st_uid == 0;
    // Who made a folder that is hidden from this process is not known; it may be its owner's doing.
    if (errno != ENOENT && errno != ENOTDIR) return false;
  }
  return true;
}

Workload WorkloadOf(std::string_view cgroup, const CgroupFolders* folders) {
  Workload workload;
  ForEachHierarchy(cgroup, [&](std::string_view controllers, std::string_view path) {
    ReadPath(controllers, path, folders, workload);
  });
  return workload;
}

std::string RootContainerOf(std::string_view cgroup, const CgroupFolders* folders) {
  std::string found;
  ForEachHierarchy(cgroup, [&](std::string_view controllers, std::string_view path) {
    if (!found.empty()) return;
    const CgroupPath split = Split(path);
    Named container = RootContainerIn(split);
    if (IsMadeByRoot(container, split, controllers, path, folders)) found = std::move(container.id);
  });
  return found;
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
