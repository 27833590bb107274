#include "daemon/report/findings/idle_claims.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/base/str_cat.h"
#include "daemon/report/findings/rules.h"

namespace profd::report {
namespace {

using IdlePart = int64_t IdleParts::*;

enum class Tier { kCause, kUnplaced, kDoubtfulCause, kGaps, kOther, kAll };

// The parts that a rule's saving is of.
struct Claim {
  std::string_view rule;
  std::array<IdlePart, 2> parts = {};  // In the order in which they are drawn from.
  Tier tier = Tier::kCause;
  // False: in some of the saved time the GPU may work. Idle time does not limit the saving then,
  // and only what the parts hold is drawn.
  bool all_idle = true;
};
constexpr std::array kClaims = {
    Claim{"INPUT_BOUND", {&IdleParts::data_loader_ns}},
    Claim{"ALLOC_CHURN", {&IdleParts::allocator_ns}},
    Claim{"START_UP", {&IdleParts::allocator_ns}},
    Claim{"SYNC_API", {&IdleParts::waiting_calls_ns}},
    Claim{"RECOMPILES", {&IdleParts::compile_ns}, Tier::kCause, false},
    Claim{"RECOMPILE_LIMIT", {&IdleParts::dispatch_ns}},
    Claim{"COMM_BACKEND", {&IdleParts::collectives_ns}},
    Claim{"HOST_BOUND", {&IdleParts::outside_ns}},
    Claim{"IDLE_HOST_WAIT", {&IdleParts::dispatch_ns}},
    Claim{"SLOW_LAUNCH_CALLS", {&IdleParts::launch_call_ns}},
    Claim{"HOST_WORK", {&IdleParts::host_work_ns}},
    Claim{"SLOW_API_CALLS", {&IdleParts::long_call_ns}},
    Claim{"IDLE_KERNEL_WAIT", {&IdleParts::kernel_wait_ns}},
    Claim{"LATE_START", {&IdleParts::late_start_ns}},
    Claim{"SMALL_KERNELS", {&IdleParts::dispatch_ns, &IdleParts::kernel_wait_ns}},
    Claim{"TINY_KERNELS_OF_OP", {&IdleParts::dispatch_ns, &IdleParts::kernel_wait_ns}},
    Claim{"CUDA_GRAPH", {&IdleParts::dispatch_ns, &IdleParts::kernel_wait_ns}},
    Claim{"CPU_CONTENTION", {}, Tier::kUnplaced},
    Claim{"GPU_GAP", {}, Tier::kGaps},
    Claim{"IDLE_OTHER", {&IdleParts::other_ns}, Tier::kOther},
    Claim{"GPU_UNDERUSED", {}, Tier::kAll},
};
constexpr std::array kTiers = {Tier::kCause, Tier::kUnplaced, Tier::kDoubtfulCause,
                               Tier::kGaps,  Tier::kOther,    Tier::kAll};

const Claim* ClaimOf(const Finding& finding) {
  const auto* const found = std::ranges::find(kClaims, finding.rule, &Claim::rule);
  return found == kClaims.end() ? nullptr : found;
}

Tier TierOf(const Claim& claim, const Finding& finding) {
  return claim.tier == Tier::kCause && finding.confidence == Confidence::kLow ? Tier::kDoubtfulCause
                                                                              : claim.tier;
}

// What no finding counts yet of the idle time, summed over the steps that count.
class Ledger {
 public:
  explicit Ledger(const Facts& facts)
      : steps_(std::max<int64_t>(facts.scope.count, 1)),
        recorded_(facts.gaps.parts),
        recorded_gaps_ns_(facts.gaps.long_ns),
        unrecorded_idle_ns_(facts.unrecorded.known ? facts.unrecorded.idle_ns : -1),
        total_ns_(facts.unrecorded.known ? facts.unrecorded.idle_ns * steps_ : facts.sum.idle_ns),
        unrecorded_(facts.unrecorded.known ? recorded_.Without(recorded_.total_ns() - total_ns_)
                                           : recorded_),
        parts_(unrecorded_),
        gap_parts_(facts.gaps.long_parts.LoweredAs(recorded_, unrecorded_)),
        unrecorded_gaps_ns_(
            facts.unrecorded.known
                ? std::min(gap_parts_.total_ns() - gap_parts_.profiler_ns, recorded_gaps_ns_)
                : recorded_gaps_ns_),
        gaps_ns_(unrecorded_gaps_ns_) {
    // No change on the host or of this GPU's work saves these.
    total_ns_ = std::max<int64_t>(total_ns_ - parts_.other_gpus_ns, 0);
  }

  void Charge(const Claim& claim, Finding& finding) {
    const int64_t before_ns = finding.saving_ns_per_step;
    if (claim.all_idle) LeaveOutTheRecording(claim, finding);
    std::string others = NamesOf(drawn_);
    int64_t left_ns = total_ns_;
    bool of_total = true;
    if (claim.tier == Tier::kGaps && gaps_ns_ < left_ns) {
      left_ns = gaps_ns_;
      of_total = false;
    }
    // Of parts that no other finding counts, the finding's own figure is the better one.
    if (std::string same = NamesOfDrawers(claim); !same.empty() && LeftOf(claim) <= left_ns) {
      left_ns = LeftOf(claim);
      others = std::move(same);
      of_total = false;
    }
    const int64_t left_per_step_ns = std::max<int64_t>(left_ns, 0) / steps_;
    if (claim.all_idle && !others.empty() && left_per_step_ns < finding.saving_ns_per_step) {
      Lower(left_per_step_ns, others, of_total, finding);
    }
    if (before_ns > 0 && before_ns == unrecorded_idle_ns_ &&
        finding.saving_ns_per_step == before_ns) {
      StrAppend(&finding.measured, " Without the recording the GPU would be idle for about ",
                TimeText(unrecorded_idle_ns_), " a step, and no change saves more of it.");
    }
    int64_t taken_ns = std::min(finding.saving_ns_per_step, left_per_step_ns) * steps_;
    if (!claim.all_idle) taken_ns = std::min(taken_ns, LeftOf(claim));
    Take(claim, taken_ns, finding.rule);
  }

 private:
  struct Drawn {
    std::string_view rule;
    IdlePart part = nullptr;  // nullptr: of no certain part.
  };

  static int64_t SumOf(const Claim& claim, const IdleParts& parts) {
    int64_t sum_ns = 0;
    for (const IdlePart part : claim.parts) sum_ns += part == nullptr ? 0 : parts.*part;
    return sum_ns;
  }

  // Lowers the saving to what its parts hold without the recording.
  void LeaveOutTheRecording(const Claim& claim, Finding& finding) const {
    const bool of_gaps = claim.tier == Tier::kGaps;
    const int64_t recorded_ns = of_gaps ? recorded_gaps_ns_ : SumOf(claim, recorded_);
    const int64_t left_ns = of_gaps ? unrecorded_gaps_ns_ : SumOf(claim, unrecorded_);
    if (recorded_ns <= 0 || left_ns >= recorded_ns) return;
    // A finding's own figure can be larger than its parts: it shrinks as they do.
    const double most_ns = static_cast<double>(left_ns) *
                           std::max(1.0, static_cast<double>(finding.saving_ns_per_step * steps_) /
                                             static_cast<double>(recorded_ns));
    const auto saving_ns = static_cast<int64_t>(most_ns) / steps_;
    if (saving_ns >= finding.saving_ns_per_step) return;
    if (saving_ns > 0) {
      StrAppend(&finding.measured, " Without the recording, about ", TimeText(saving_ns),
                " a step of it is left.");
    } else {
      StrAppend(&finding.measured,
                " The recording may cause all of it, so no saving is counted here.");
    }
    finding.saving_ns_per_step = saving_ns;
  }

  static std::string NamesOf(std::span<const Drawn> drawn) {
    std::string names;
    std::string_view last;
    for (const Drawn& each : drawn) {
      if (each.rule != last) StrAppend(&names, names.empty() ? "" : ", ", each.rule);
      last = each.rule;
    }
    return names;
  }

  std::string NamesOfDrawers(const Claim& claim) const {
    std::vector<Drawn> drawers;
    std::ranges::copy_if(drawn_, std::back_inserter(drawers), [&](const Drawn& each) {
      return each.part != nullptr && std::ranges::find(claim.parts, each.part) != claim.parts.end();
    });
    return NamesOf(drawers);
  }

  int64_t LeftOf(const Claim& claim) const { return SumOf(claim, parts_); }

  void Take(const Claim& claim, int64_t ns, std::string_view rule) {
    if (ns <= 0) return;
    total_ns_ -= ns;
    if (claim.tier == Tier::kGaps) {
      // The causes have theirs: what nothing explains is left for this one.
      const int64_t other_ns = std::clamp<int64_t>(gap_parts_.other_ns, 0, ns);
      parts_.other_ns -= other_ns;
      drawn_.push_back({rule, &IdleParts::other_ns});
      return;
    }
    if (claim.parts[0] == nullptr) {
      gaps_ns_ -= ns;
      drawn_.push_back({rule});
      return;
    }
    for (const IdlePart part : claim.parts) {
      if (part == nullptr) continue;
      const int64_t taken_ns = std::clamp<int64_t>(parts_.*part, 0, ns);
      const int64_t in_gaps_ns = std::clamp<int64_t>(gap_parts_.*part, 0, taken_ns);
      parts_.*part -= taken_ns;
      gap_parts_.*part -= in_gaps_ns;
      gaps_ns_ -= in_gaps_ns;
      ns -= taken_ns;
      drawn_.push_back({rule, part});
    }
  }

  // `of_total`: it would be more than all idle time, not more than its own part.
  void Lower(int64_t saving_ns, std::string_view others, bool of_total, Finding& finding) const {
    const std::string_view rest =
        saving_ns > 0 ? "; the saving here is the rest." : ", so no saving is left here.";
    if (of_total && unrecorded_idle_ns_ >= 0) {
      StrAppend(&finding.measured, " Of the ", TimeText(unrecorded_idle_ns_),
                " in which the GPU would be idle without the recording, ",
                TimeText(unrecorded_idle_ns_ - saving_ns), " are counted by ", others, rest);
    } else {
      StrAppend(&finding.measured, " Up to ", TimeText(finding.saving_ns_per_step - saving_ns),
                " of it is also counted by ", others, rest);
    }
    finding.saving_ns_per_step = saving_ns;
    finding.counted_elsewhere = saving_ns == 0;
  }

  const int64_t steps_;
  const IdleParts recorded_;
  const int64_t recorded_gaps_ns_;
  const int64_t unrecorded_idle_ns_;  // Per step; -1: not known.
  int64_t total_ns_;
  const IdleParts unrecorded_;  // As recorded if that is not known.
  IdleParts parts_;             // Of these, what is left.
  IdleParts gap_parts_;         // Of it, in long gaps.
  const int64_t unrecorded_gaps_ns_;
  int64_t gaps_ns_;
  std::vector<Drawn> drawn_;  // By finding, in the order of their claims.
};

}  // namespace

void PromiseIdleTimeOnce(const Facts& facts, std::vector<Finding>& findings) {
  if (!facts.has_gpu()) return;
  Ledger ledger(facts);
  for (const Tier tier : kTiers) {
    for (Finding& finding : findings) {
      const Claim* const claim = ClaimOf(finding);
      if (claim == nullptr || TierOf(*claim, finding) != tier) continue;
      ledger.Charge(*claim, finding);
    }
  }
}

}  // namespace profd::report
