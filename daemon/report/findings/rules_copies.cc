#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_format.h"
#include "daemon/base/str_cat.h"
#include "daemon/report/findings/advice.h"
#include "daemon/report/findings/rule_list.h"

namespace profd::report {
namespace {

constexpr std::string_view kNeedsCopies = "copies between host and GPU";

RuleResult CopyShare(const Facts& facts, int64_t ns, double threshold) {
  RuleResult result;
  result.finding.value = facts.ShareOfSteps(ns);
  result.finding.threshold = threshold;
  result.fired = result.finding.value > threshold;
  return result;
}

// Where most of the time of copies and memsets is spent.
enum class CopyPlace { kHost, kWithinGpu, kBetweenGpus, kUnknown };
CopyPlace MostOf(const CopyFacts& copies) {
  const int64_t host_ns = copies.to_host_ns + copies.to_device_ns;
  const int64_t within_ns = copies.memory_work_ns - copies.decompression_ns - host_ns -
                            copies.between_gpus_ns - copies.unknown_copy_ns;
  const std::array<std::pair<int64_t, CopyPlace>, 4> places = {
      {{host_ns, CopyPlace::kHost},
       {within_ns, CopyPlace::kWithinGpu},
       {copies.between_gpus_ns, CopyPlace::kBetweenGpus},
       {copies.unknown_copy_ns, CopyPlace::kUnknown}}};
  return std::ranges::max_element(places, {}, [](const auto& place) { return place.first; })
      ->second;
}

std::string CopyAdvice(const Facts& facts, bool can_hide) {
  const CopyFacts& copies = facts.copies;
  const bool torch = KindOf(facts) != ProgramKind::kWithoutTorch;
  if (facts.ExposedCopiesAreDecompression()) {
    return can_hide ? "Decompress the next batch on a separate stream while the GPU computes this "
                      "one. Keep decompressed data that is used again on the GPU."
                    : "Keep decompressed data that is used again on the GPU, or decompress less: "
                      "only what the step uses.";
  }
  const bool to_host = copies.to_host_ns > copies.to_device_ns;
  switch (MostOf(copies)) {
    case CopyPlace::kWithinGpu:
      return StrCat("Avoid copies within the GPU", torch ? ": contiguous(), clone()," : "",
                    " and zero-filling of buffers that are overwritten anyway.");
    case CopyPlace::kBetweenGpus:
      return can_hide
                 ? "Send what another GPU needs on a separate stream while this one computes, "
                   "as soon as it is known."
                 : "Send less to other GPUs, or less often: lower precision, only what they use.";
    case CopyPlace::kUnknown:
      return "Find out what is copied, and where to: the capture does not say. Copies on a "
             "separate stream can run while the GPU computes.";
    case CopyPlace::kHost:
      break;
  }
  if (!can_hide) {
    return to_host ? "Keep results on the GPU, or reduce them there and copy less: metrics, "
                     "losses, lower precision, every N-th step."
                   : "Keep data that is used again on the GPU, or copy less: lower precision, "
                     "only what changed.";
  }
  const std::string_view how = torch ? "non_blocking=True" : "cudaMemcpyAsync()";
  return to_host
             ? StrCat("Copy to pinned memory with ", how,
                      " on a separate stream, and read the result later. Keep or reduce on the "
                      "GPU what the host does not need.")
             : StrCat("Copy the next batch while the GPU computes this one: use pinned memory, ",
                      how, ", and a separate stream. Keep data that is used again on the GPU.");
}

// For copies that the host waits for, if more of their time is to the host.
std::string KeepOnGpu(const Facts& facts) {
  return StrCat(
      "Keep results on the GPU, or reduce them there (a mean, an argmax) and copy less, or less "
      "often. What the host needs whole goes to pinned memory with ",
      KindOf(facts) == ProgramKind::kWithoutTorch ? "cudaMemcpyAsync()" : "non_blocking=True",
      ", and is read when that copy is done (after an event, or a step later).");
}

// Copies of pageable memory by what most of their time is: the direction, and whether the program
// waits for them or launched them as asynchronous.
struct PageableKind {
  bool to_host = false;
  bool waited = false;
};
PageableKind PageableKindOf(const CopyFacts& copies) {
  return {.to_host = 2 * copies.pageable_to_host_ns > copies.pageable_ns,
          .waited = 2 * copies.pageable_waited_ns > copies.pageable_ns};
}

std::string PageableAdvice(const Facts& facts, PageableKind kind) {
  const bool torch = KindOf(facts) != ProgramKind::kWithoutTorch;
  if (kind.to_host) {
    std::string advice = KeepOnGpu(facts);
    if (torch && !kind.waited) {
      StrAppend(&advice,
                " non_blocking=True alone does nothing: the memory that is copied to has to be "
                "pinned (torch.empty(..., pin_memory=True)).");
    }
    return advice;
  }
  if (!torch) {
    return "Pin the memory: cudaMallocHost(), or cudaHostRegister() for memory that exists.";
  }
  return kind.waited
             ? "Pin the memory, and do not wait: DataLoader(pin_memory=True) or "
               "tensor.pin_memory(), then .to(device, non_blocking=True)."
             : "Pin the memory: DataLoader(pin_memory=True) or tensor.pin_memory(). Without "
               "it, non_blocking=True has no effect.";
}

// Copies cost at most the time in which nothing overlapped them.
int64_t AtMostExposed(const Facts& facts, int64_t ns) {
  return facts.PerStep(std::min(ns, facts.sum.exposed_copy_ns));
}

// Of a step: the time in which copies that nothing waits for could run.
int64_t MostHidden(const Facts& facts) {
  const int64_t overlapped_ns = facts.sum.copy_ns - facts.sum.exposed_copy_ns;
  return facts.PerStep(std::max<int64_t>(facts.sum.compute_ns - overlapped_ns, 0) +
                       facts.sum.idle_ns);
}

}  // namespace

RuleResult CopyExposed(const Facts& facts, const FindingThresholds& thresholds) {
  if (!facts.has_gpu() || facts.sum.copy_ns == 0) return Needs("GPU copies or memsets");
  RuleResult result = CopyShare(facts, facts.sum.exposed_copy_ns, thresholds.exposed_copy_share);
  Finding& finding = result.finding;
  const CopyFacts& copies = facts.copies;
  if (facts.ExposedCopiesAreDecompression()) {
    finding.title = "Decompression is not overlapped by kernels";
  }
  finding.measured =
      StrCat(copies.decompression_ns == 0 ? "Copies and memsets run"
                                          : "Decompression, copies, and memsets run",
             " without compute for ", TimeText(facts.PerStep(facts.sum.exposed_copy_ns)),
             StepWords(facts), " (", PercentText(finding.value), ").");
  if (copies.decompression_ns > 0) {
    StrAppend(&finding.measured, " Decompression is ",
              PercentText(static_cast<double>(copies.decompression_ns) /
                          static_cast<double>(copies.memory_work_ns)),
              " of their time.");
  }
  // Copies within the GPU are to be avoided, which saves all of their time; others are to be
  // hidden.
  bool can_hide = true;
  if (!facts.ExposedCopiesAreDecompression() && MostOf(copies) == CopyPlace::kWithinGpu) {
    finding.saving_ns_per_step = facts.PerStep(facts.sum.exposed_copy_ns);
  } else {
    can_hide = CapByFreeCompute(facts, facts.sum.exposed_copy_ns,
                                facts.sum.copy_ns - facts.sum.exposed_copy_ns, finding);
  }
  finding.advice = CopyAdvice(facts, can_hide);
  finding.evidence = facts.ExposedCopiesAreDecompression() ? copies.decompression
                     : copies.pageable.empty()             ? copies.blocking
                                                           : copies.pageable;
  finding.confidence = Confidence::kMedium;
  finding.confidence_reason = facts.ExposedCopiesAreDecompression()
                                  ? "decompression that the next kernel waits for cannot be "
                                    "overlapped"
                                  : "a copy that the next kernel waits for cannot be overlapped";
  return result;
}

RuleResult MemcpyPageable(const Facts& facts, const FindingThresholds& thresholds) {
  if (!facts.has_gpu() || facts.copies.host_copy_count == 0) {
    return Needs(std::string(kNeedsCopies));
  }
  RuleResult result = CopyShare(facts, facts.copies.pageable_ns, thresholds.pageable_share);
  Finding& finding = result.finding;
  finding.saving_ns_per_step = AtMostExposed(facts, facts.copies.pageable_saving_ns);
  const PageableKind kind = PageableKindOf(facts.copies);
  const std::string_view where = kind.to_host ? "to pageable memory" : "from pageable memory";
  const std::string_view elsewhere = kind.to_host ? "from it" : "to it";
  const int64_t there_ns = kind.to_host
                               ? facts.copies.pageable_to_host_ns
                               : facts.copies.pageable_ns - facts.copies.pageable_to_host_ns;
  const int64_t rest_ns = facts.copies.pageable_ns - there_ns;
  const bool all_waited = facts.copies.pageable_waited_ns == facts.copies.pageable_ns;
  // Copies by operators such as aten::to, which wait unless non_blocking is set.
  const bool of_torch = KindOf(facts) != ProgramKind::kWithoutTorch &&
                        2 * facts.copies.pageable_waited_in_op_ns > facts.copies.pageable_ns;
  finding.title =
      kind.waited ? StrCat("The program waits for copies ", where)
      : facts.calls.call_count > 0
          ? StrCat("Asynchronous copies ", where, " are not asynchronous")
          : StrCat("Copies ", where,
                   " are slow");  // Without calls, it is unknown whether the program waits.
  finding.measured = StrCat(
      kind.waited || facts.calls.call_count == 0 ? "Copies "
                                                 : "Copies that are asynchronous calls ",
      where, " take ", TimeText(facts.PerStep(there_ns)),
      rest_ns > 0 ? StrCat(", and those ", elsewhere, " ", TimeText(facts.PerStep(rest_ns)), ",")
                  : std::string(),
      facts.scope.has_steps ? " a step (" : " (", PercentText(finding.value),
      rest_ns > 0 ? " together). " : "). ",
      kind.waited
          ? StrCat("The program waits for ", all_waited ? "each" : "most of them",
                   of_torch ? " (.to() or .cpu() without non_blocking=True)" : "",
                   ", and CUDA stages ", all_waited ? "it" : "them",
                   ", which is slower than with pinned memory.")
          : std::string(
                "CUDA stages them, which is slower than with pinned memory, and the call may "
                "wait for the copy."));
  finding.advice = PageableAdvice(facts, kind);
  finding.evidence = facts.copies.pageable;
  finding.confidence = Confidence::kMedium;
  finding.confidence_reason = facts.copies.link_gb_per_s > 0
                                  ? "the saving assumes 80% of the link bandwidth"
                                  : "the saving assumes 12 GB/s from pinned memory";
  return result;
}

RuleResult MemcpyBlocking(const Facts& facts, const FindingThresholds& thresholds) {
  if (!facts.has_gpu() || facts.copies.host_copy_count == 0) {
    return Needs(std::string(kNeedsCopies));
  }
  if (facts.calls.call_count == 0) {
    return Needs("CUDA API calls (profctl trace --gpu default)");
  }
  RuleResult result = CopyShare(facts, facts.copies.blocking_ns, thresholds.blocking_copy_share);
  Finding& finding = result.finding;
  finding.saving_ns_per_step = AtMostExposed(facts, facts.copies.blocking_ns);
  finding.measured =
      StrCat("The program waits in copies for ", TimeText(facts.PerStep(facts.copies.blocking_ns)),
             StepWords(facts), " (", PercentText(finding.value), ").");
  const bool to_host = 2 * facts.copies.blocking_to_host_ns > facts.copies.blocking_ns;
  const bool is_pinned = 2 * facts.copies.blocking_pinned_ns > facts.copies.blocking_ns;
  if (to_host) {
    finding.advice = KeepOnGpu(facts);
  } else if (const int64_t hidden_ns = MostHidden(facts);
             2 * hidden_ns < finding.saving_ns_per_step) {
    // A copy that nobody waits for still takes its time.
    finding.saving_ns_per_step = hidden_ns;
    finding.advice =
        "Keep data that is used again on the GPU, or copy less: lower precision, only what "
        "changed.";
    StrAppend(&finding.measured, " Asynchronous copies could hide at most ", TimeText(hidden_ns),
              StepWords(facts), " of them: no more compute and idle time is left.");
  } else {
    finding.saving_ns_per_step = std::min(finding.saving_ns_per_step, hidden_ns);
    finding.advice = StrCat("Use cudaMemcpyAsync", is_pinned ? "" : " from pinned memory",
                            " (non_blocking=True in PyTorch).");
  }
  finding.evidence = facts.copies.blocking;
  finding.confidence = Confidence::kMedium;
  finding.confidence_reason = "part of the wait may be for work before the copy";
  return result;
}

RuleResult LinkSlow(const Facts& facts, const FindingThresholds& thresholds) {
  if (!facts.has_gpu() || facts.copies.link_ns <= 0) {
    return Needs("copies of 1 MiB or more from or to pinned memory");
  }
  if (facts.copies.link_gb_per_s <= 0) {
    return Needs("the link bandwidth (copies.link_bandwidth in a thresholds file)");
  }
  const double reached = static_cast<double>(facts.copies.link_bytes) /
                         static_cast<double>(facts.copies.link_ns);  // bytes/ns = GB/s
  RuleResult result;
  Finding& finding = result.finding;
  finding.value = reached / facts.copies.link_gb_per_s;
  finding.threshold = thresholds.link_share;
  result.fired = finding.value < thresholds.link_share;
  const auto at_link_ns = static_cast<int64_t>(static_cast<double>(facts.copies.link_bytes) /
                                               facts.copies.link_gb_per_s);
  finding.saving_ns_per_step = AtMostExposed(facts, facts.copies.link_ns - at_link_ns);
  finding.measured = absl::StrFormat(
      "Large copies from or to pinned memory reach %.3g GB/s; the link has %.3g GB/s.", reached,
      facts.copies.link_gb_per_s);
  finding.advice =
      "Check the GPU's slot (`nvidia-smi topo -m`; link width and generation in `nvidia-smi -q`), "
      "and that the program runs on the CPUs of the same NUMA node (numactl).";
  finding.evidence = facts.copies.slow;
  finding.confidence = thresholds.link_gb_per_s > 0 ? Confidence::kHigh : Confidence::kLow;
  finding.confidence_reason = thresholds.link_gb_per_s > 0
                                  ? "the link bandwidth was given"
                                  : "the link bandwidth is assumed from the GPU's generation";
  return result;
}

}  // namespace profd::report
