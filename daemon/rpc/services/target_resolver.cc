#include "daemon/rpc/services/target_resolver.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "daemon/base/reason.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"

namespace profd::rpc {
namespace {

// Deeper than any tree of processes, and an end to walking where pids were reused meanwhile.
constexpr int kMaxDepth = 256;
constexpr size_t kMaxNamed = 8;

// First the way that changes no code.
constexpr std::string_view kHowToLoad =
    "start the program as `profctl run -- CMD...`, which needs no change to one that uses PyTorch, "
    "CUDA, or NVTX; or call profd_init() (in Python: profd.init()) in it";

absl::Status OtherOwner(int64_t pid) {
  return WithReason(
      absl::PermissionDeniedError(StrCat("pid ", pid,
                                         " belongs to another user; profile your own processes, "
                                         "or ask root")),
      "OTHER_OWNER");
}

absl::Status NotInstrumented(int64_t pid) {
  return WithReason(
      absl::FailedPreconditionError(
          StrCat("pid ", pid,
                 " runs, but neither it nor a process below it has registered; those that have "
                 "loaded the profd library do so within 30 s after profd starts. Else, ",
                 kHowToLoad)),
      "NOT_INSTRUMENTED");
}

absl::Status NoSuchProcess(int64_t pid) {
  return WithReason(absl::NotFoundError(StrCat("no process has pid ", pid)), "NO_SUCH_PROCESS");
}

absl::Status HasEnded(int64_t pid) {
  return WithReason(absl::NotFoundError(
                        StrCat("pid ", pid, " has ended (a zombie: its parent has not reaped it)")),
                    "NO_SUCH_PROCESS");
}

std::string NamePids(const std::vector<TargetInfo>& targets) {
  std::string text;
  for (size_t i = 0; i < std::min(targets.size(), kMaxNamed); ++i) {
    StrAppend(&text, i == 0 ? "" : ", ", targets[i].pid);
  }
  if (targets.size() > kMaxNamed) StrAppend(&text, " and ", targets.size() - kMaxNamed, " more");
  return text;
}

class Resolver {
 public:
  Resolver(const Caller& caller, const std::vector<TargetInfo>& targets,
           const ProcessTable& processes)
      : caller_(caller), processes_(processes) {
    for (const TargetInfo& target : targets) {
      if (target.state == TargetState::kGone) continue;
      (caller.May(Verb::kList, OwnerOf(target)) ? mine_ : others_).push_back(&target);
    }
  }

  absl::StatusOr<std::vector<TargetInfo>> All() const {
    std::vector<TargetInfo> found = Sorted(mine_);
    if (found.empty()) return NoTargets();
    return found;
  }

  absl::StatusOr<std::vector<TargetInfo>> TheOnlyOne() const {
    std::vector<TargetInfo> found = Sorted(mine_);
    if (found.empty()) return NoTargets();
    if (found.size() > 1) {
      return WithReason(absl::FailedPreconditionError(
                            StrCat("there are ", found.size(), " targets (pids ", NamePids(found),
                                   "); say which with --pid, or all of them with --all")),
                        "SEVERAL_TARGETS");
    }
    return found;
  }

  absl::StatusOr<std::vector<TargetInfo>> Pids(const std::vector<int64_t>& pids) const {
    std::vector<const TargetInfo*> found;
    for (const int64_t pid : pids) {
      ASSIGN_OR_RETURN(const std::vector<const TargetInfo*> of_pid, OnePid(pid));
      found.insert(found.end(), of_pid.begin(), of_pid.end());
    }
    return Sorted(found);
  }

 private:
  using Found = std::vector<const TargetInfo*>;

  absl::StatusOr<Found> OnePid(int64_t pid) const {
    // A PID of this machine goes before the same number inside a container.
    for (const TargetInfo* target : mine_) {
      if (target->pid == pid) return ItOrItsRanks(target);
    }
    for (const TargetInfo* target : others_) {
      if (target->pid == pid) return OtherOwner(pid);
    }
    const std::optional<ProcessFacts> process = processes_.Find(pid);
    if (process.has_value()) {
      if (Found below = Below(pid, mine_); !below.empty()) return below;
    }
    if (Found inside = InContainers(pid); inside.size() == 1) {
      return inside;
    } else if (inside.size() > 1) {
      return Ambiguous(pid, inside);
    }
    if (!process.has_value()) return NoSuchProcess(pid);
    // A caller who may not see the process learns only that it belongs to another user.
    if (!caller_.May(Verb::kList, {.uid = process->uid}) || !Below(pid, others_).empty())
      return OtherOwner(pid);
    return process->has_ended ? HasEnded(pid) : NotInstrumented(pid);
  }

  // A launcher that has loaded what its ranks use (torchrun, multiprocessing's parent) is a target,
  // too, though not the one that is meant.
  Found ItOrItsRanks(const TargetInfo* target) const {
    if (target->step_mark_count > 0) return {target};
    Found ranks = Below(target->pid, mine_);
    std::erase_if(ranks, [target](const TargetInfo* rank) {
      return rank == target || rank->step_mark_count == 0;
    });
    return ranks.empty() ? Found{target} : ranks;
  }

  // Walking up from the targets, of which there are few, costs less than down from `pid`.
  Found Below(int64_t pid, const Found& candidates) const {
    Found below;
    for (const TargetInfo* target : candidates) {
      int64_t at = target->pid;
      for (int depth = 0; depth < kMaxDepth && at > 1 && at != pid; ++depth) {
        const std::optional<ProcessFacts> process = processes_.Find(at);
        at = process.has_value() ? process->parent_pid : 0;
      }
      if (at == pid) below.push_back(target);
    }
    return below;
  }

  Found InContainers(int64_t pid) const {
    Found inside;
    for (const TargetInfo* target : mine_) {
      if (target->foreign_namespace && target->namespace_pid == pid) inside.push_back(target);
    }
    return inside;
  }

  static absl::Status Ambiguous(int64_t pid, const Found& inside) {
    return WithReason(
        absl::FailedPreconditionError(StrCat("pid ", pid, " is a target in ", inside.size(),
                                             " containers; on this machine they are pids ",
                                             NamePids(Sorted(inside)), ": use one of those")),
        "AMBIGUOUS_PID");
  }

  absl::Status NoTargets() const {
    return WithReason(
        absl::FailedPreconditionError(StrCat(
            caller_.MayAll(Verb::kList) ? "no process on this machine" : "none of your processes",
            " has loaded the profd library; ", kHowToLoad)),
        "NO_TARGETS");
  }

  static std::vector<TargetInfo> Sorted(Found found) {
    const auto key = [](const TargetInfo* t) { return std::tuple(t->pid, t->number); };
    std::sort(found.begin(), found.end(),
              [&](const TargetInfo* a, const TargetInfo* b) { return key(a) < key(b); });
    // A rank and its launcher may both be named: that is one target.
    found.erase(std::unique(found.begin(), found.end()), found.end());
    std::vector<TargetInfo> targets;
    for (const TargetInfo* target : found) targets.push_back(*target);
    return targets;
  }

  const Caller caller_;
  const ProcessTable& processes_;
  Found mine_;
  Found others_;
};

}  // namespace

absl::StatusOr<std::vector<TargetInfo>> ResolveTargets(const Caller& caller,
                                                       const std::vector<int64_t>& pids, bool all,
                                                       const std::vector<TargetInfo>& targets,
                                                       const ProcessTable& processes) {
  if (std::ssize(pids) > kMaxResolvePids) {
    return absl::InvalidArgumentError(
        StrCat("pids: ", pids.size(), " given, at most ", kMaxResolvePids));
  }
  if (all && !pids.empty()) return absl::InvalidArgumentError("give pids or all, not both");
  for (const int64_t pid : pids) {
    if (pid < 1) return absl::InvalidArgumentError(StrCat("pids: ", pid, " is not a pid"));
  }
  const Resolver resolver(caller, targets, processes);
  if (all) return resolver.All();
  return pids.empty() ? resolver.TheOnlyOne() : resolver.Pids(pids);
}

}  // namespace profd::rpc
