#include "daemon/store/catalog/eviction.h"

#include <algorithm>
#include <utility>

namespace profd::store {
namespace {

constexpr std::string_view kRootPrincipal = "uid:0";

// A holder and how many of its files are planned to go.
struct Candidate {
  StorageHolder holder;
  size_t taken = 0;

  bool HasMore() const { return taken < holder.files.size(); }
};

bool MayTakeFrom(const EvictionRequest& request, const Candidate& candidate, int64_t own_bytes) {
  if (!candidate.HasMore()) return false;
  if (request.by_operator) return true;
  if (candidate.holder.principal == request.principal) return true;
  if (request.principal == kRootPrincipal) return true;
  return candidate.holder.principal != kRootPrincipal && candidate.holder.file_bytes > own_bytes;
}

// True if `a` gives before `b`.
bool GivesFirst(const EvictionRequest& request, const Candidate& a, const Candidate& b) {
  if (request.by_operator) {
    const bool a_is_root = a.holder.principal == kRootPrincipal;
    const bool b_is_root = b.holder.principal == kRootPrincipal;
    if (a_is_root != b_is_root) return b_is_root;
  } else {
    const bool a_is_own = a.holder.principal == request.principal;
    const bool b_is_own = b.holder.principal == request.principal;
    if (a_is_own != b_is_own) return a_is_own;
  }
  // Each round takes one file of the largest holder, so the largest holders shrink to the same size
  // before any other loses a file.
  return a.holder.file_bytes > b.holder.file_bytes;
}

}  // namespace

std::optional<std::vector<EvictableFile>> PlanEviction(const EvictionRequest& request,
                                                       std::vector<StorageHolder> holders) {
  std::vector<Candidate> candidates;
  candidates.reserve(holders.size());
  for (StorageHolder& holder : holders) candidates.push_back({.holder = std::move(holder)});
  std::vector<EvictableFile> plan;
  int64_t freed = 0;
  while (freed < request.bytes) {
    // Taken anew for each file: the plan may already have taken from the requester, who may then
    // take less from others.
    int64_t own_bytes = 0;
    for (const Candidate& candidate : candidates) {
      if (candidate.holder.principal == request.principal) own_bytes = candidate.holder.file_bytes;
    }
    Candidate* next = nullptr;
    for (Candidate& candidate : candidates) {
      if (!MayTakeFrom(request, candidate, own_bytes)) continue;
      if (next == nullptr || GivesFirst(request, candidate, *next)) next = &candidate;
    }
    if (next == nullptr) {
      if (request.by_operator) return plan;
      return std::nullopt;
    }
    const EvictableFile& file = next->holder.files[next->taken++];
    next->holder.file_bytes -= file.bytes;
    freed += file.bytes;
    plan.push_back(file);
  }
  return plan;
}

}  // namespace profd::store
