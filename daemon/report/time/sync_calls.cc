#include "daemon/report/time/sync_calls.h"

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "daemon/base/table/description.h"
#include "daemon/report/index/first_ids.h"
#include "daemon/report/index/step_names.h"
#include "daemon/report/index/waiting_calls.h"

namespace profd::report {
namespace {

// An operator of a framework: "aten::item", "autograd::engine::evaluate_function: MulBackward0".
bool IsOperator(std::string_view name) {
  const size_t colons = name.find("::");
  if (colons == std::string_view::npos || colons == 0) return false;
  return std::all_of(name.begin(), name.begin() + static_cast<ptrdiff_t>(colons), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

// What is known of the ranges around a call.
struct Around {
  SyncCause cause = SyncCause::kExplicit;
  uint32_t op = 0;     // The outermost operator; 0: none.
  uint32_t where = 0;  // Around that; 0: none.
};

Around Look(const RangePaths& paths, uint32_t path, std::span<const std::string> names) {
  Around around;
  // From the innermost outward. Frameworks call operators in operators, so the outermost is named.
  // The cause is the most telling one on the way.
  for (; path != RangePaths::kNone; path = paths[path].parent) {
    const uint32_t name = paths[path].name;
    const std::string& text = names[name];
    if (!IsOperator(text)) {
      // The number of a step would make a row of each.
      if (around.where == 0 && !IsProfilerStep(text)) around.where = name;
      continue;
    }
    around.op = name;
    around.where = 0;
    if (text == "aten::item" || text == "aten::_local_scalar_dense" || text == "aten::is_nonzero") {
      around.cause = SyncCause::kItem;
    } else if (around.cause != SyncCause::kItem &&
               (text == "aten::copy_" || text == "aten::_to_copy" || text == "aten::to")) {
      around.cause = SyncCause::kCopy;
    } else if (around.cause == SyncCause::kExplicit) {
      around.cause = SyncCause::kOperator;
    }
  }
  return around;
}

struct SyncSum {
  int64_t count = 0;
  uint64_t total_ns = 0;
  int64_t max_ns = 0;
  int64_t in_steps = 0;
};

}  // namespace

std::string_view ToString(SyncCause cause) {
  switch (cause) {
    case SyncCause::kExplicit:
      return "explicit";
    case SyncCause::kItem:
      return "item";
    case SyncCause::kCopy:
      return "copy";
    case SyncCause::kOperator:
      return "operator";
    case SyncCause::kAllocator:
      return "allocator";
  }
  return "unknown";
}

bool FromString(std::string_view name, SyncCause& cause) {
  using enum SyncCause;
  return table::FindByName(name, {kExplicit, kItem, kCopy, kOperator, kAllocator}, cause);
}

SyncCalls SumSyncCalls(const GpuAttribution& attribution, std::span<const std::string> names,
                       const std::vector<bool>& blocking_copies) {
  SyncCalls result;
  result.steps.resize(attribution.steps().size());
  const std::vector<uint32_t> first_ids = FirstIds(names);
  std::vector<std::optional<bool>> is_sync(names.size());
  absl::flat_hash_map<uint32_t, Around> around_path;
  using Key = std::tuple<uint32_t, SyncCause, uint32_t, uint32_t>;
  absl::flat_hash_map<Key, SyncSum> sums;
  for (const GpuAttribution::Call& call : attribution.calls()) {
    std::optional<bool>& known = is_sync[call.name];
    if (!known.has_value()) known = IsSyncCall(names[call.name]);
    const bool is_copy = blocking_copies[static_cast<size_t>(&call - attribution.calls().data())];
    if (!*known && !is_copy) continue;
    const auto [at, inserted] = around_path.try_emplace(call.path);
    if (inserted) at->second = Look(attribution.paths(), call.path, names);
    const Around& around = at->second;
    SyncCause cause = IsAllocatorCall(names[call.name]) ? SyncCause::kAllocator : around.cause;
    if (is_copy && cause == SyncCause::kExplicit) cause = SyncCause::kCopy;
    SyncSum& sum =
        sums[{first_ids[call.name], cause, first_ids[around.op], first_ids[around.where]}];
    const auto duration_ns = static_cast<int64_t>(static_cast<uint64_t>(call.end_ns) -
                                                  static_cast<uint64_t>(call.start_ns));
    ++sum.count;
    sum.total_ns += static_cast<uint64_t>(duration_ns);
    sum.max_ns = std::max(sum.max_ns, duration_ns);
    if (call.step < 0) continue;
    ++sum.in_steps;
    SyncCalls::Step& step = result.steps[static_cast<size_t>(call.step)];
    ++step.count;
    step.total_ns = static_cast<int64_t>(static_cast<uint64_t>(step.total_ns) +
                                         static_cast<uint64_t>(duration_ns));
  }
  const auto steps = static_cast<double>(attribution.steps().size());
  for (const auto& [key, sum] : sums) {
    const auto& [call, cause, op, where] = key;
    result.rows.push_back({.call = names[call],
                           .cause = cause,
                           .op = names[op],
                           .where = names[where],
                           .count = sum.count,
                           .total_ns = static_cast<int64_t>(sum.total_ns),
                           .max_ns = sum.max_ns,
                           .per_step = steps > 0 ? static_cast<double>(sum.in_steps) / steps : 0});
  }
  std::sort(result.rows.begin(), result.rows.end(), [](const SyncCallRow& a, const SyncCallRow& b) {
    return std::tie(b.total_ns, a.call, a.cause, a.op, a.where) <
           std::tie(a.total_ns, b.call, b.cause, b.op, b.where);
  });
  return result;
}

}  // namespace profd::report
