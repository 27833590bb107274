// Rules about calls of the CUDA API that take long.
#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/base/str_cat.h"
#include "daemon/report/findings/contention.h"
#include "daemon/report/findings/rule_list.h"
#include "daemon/report/findings/rule_parts.h"

namespace profd::report {
namespace {

constexpr std::string_view kLoadEarlier =
    "Record after more warm-up steps. In the program, warm up each kernel and shape before they "
    "are needed, keep compile caches (TRITON_CACHE_DIR, MIOpen and cuDNN plans), or load code "
    "early (CUDA_MODULE_LOADING=EAGER).";

constexpr std::string_view kLoadOnce =
    "Code is loaded in most steps, so that more warm-up does not help. Load modules and libraries "
    "once, before the loop, and keep them. Where each step compiles kernels for new shapes, pad to "
    "a few shapes, or compile for any (torch.compile(dynamic=True)).";

constexpr std::string_view kFindContention =
    "Look for what holds the driver up: other threads that launch, allocate, or synchronize at the "
    "same time, page faults, or too few CPUs.";

// Of fewer, each may be warm-up.
constexpr int64_t kFewestSteps = 3;

bool HasAnyOf(std::string_view call, std::initializer_list<std::string_view> parts) {
  return std::ranges::any_of(
      parts, [&](std::string_view part) { return call.find(part) != std::string_view::npos; });
}

// What to do about `call`, in which most of the time is spent. `in_most_steps`: it is in more than
// half of three or more steps.
std::string AdviceFor(std::string_view call, bool in_most_steps) {
  if (in_most_steps &&
      HasAnyOf(call, {"Loading", "Compiler", "ModuleLoad", "LibraryLoad", "Link"})) {
    return std::string(kLoadOnce);
  }
  // These load code where they are called first, and only look something up afterwards.
  if (!in_most_steps &&
      HasAnyOf(call, {"Loading", "Compiler", "ModuleLoad", "LibraryLoad", "ModuleGet", "LibraryGet",
                      "FuncGet", "Link", "FuncSetAttribute", "FuncSetCache"})) {
    return std::string(kLoadEarlier);
  }
  if (HasAnyOf(call, {"GraphInstantiate", "GraphExecUpdate", "GraphUpload", "GraphExecDestroy",
                      "GraphDestroy", "StreamEndCapture", "GraphAdd"})) {
    return "Make each CUDA graph once, and replay it: one that is captured, instantiated, or "
           "updated in each step costs more than the launches that it saves. Copy new inputs into "
           "the tensors that the graph was captured with.";
  }
  if (HasAnyOf(call, {"MemGetInfo", "GetAttribute", "GetDevice", "Query"})) {
    return StrCat(
        "Call ", call,
        " less often: not in each step, and not in a loop that waits. Ask once and keep "
        "the answer; for memory, torch.cuda.memory_allocated() does not call the driver.");
  }
  // Every program calls these in each step, and they are short.
  if (HasAnyOf(call, {"EventRecord", "StreamWaitEvent", "SetDevice", "LaunchHostFunc"})) {
    return std::string(kFindContention);
  }
  if (HasAnyOf(call, {"Unload", "Destroy", "Close", "Reset"})) {
    return StrCat("Call ", call,
                  " after the loop, or less often: keep what it gives back (modules, streams, "
                  "events, handles, mappings) from step to step.");
  }
  return StrCat(
      "Call ", call,
      " once, before the loop, or less often: keep what it makes (streams, events, handles, "
      "mappings, communicators) from step to step.");
}

// Operators that copy a value to the host, for which they wait.
bool ReadsFromGpu(std::string_view op) {
  return op == "aten::item" || op == "aten::_local_scalar_dense" || op == "aten::is_nonzero" ||
         op == "aten::equal";
}

// ", 6.4 ms of it in aten::sort (4 gaps)": of `ns`, which like the evidence is a sum over steps.
std::string MostOf(const Facts& facts, int64_t ns, const Evidence& most, std::string_view where) {
  return StrCat(", ", TimeText(facts.PerStep(std::min(most.duration_ns, ns))), " of it in ",
                most.name, " (", CountText(most.count, where), ")");
}

}  // namespace

RuleResult SlowLaunchCalls(const Facts& facts, const FindingThresholds& thresholds) {
  if (!facts.has_gpu()) return Needs(std::string(kNeedsGpu));
  if (facts.calls.call_count == 0) return Needs(std::string(kNeedsCalls));
  if (facts.RecordsGraphs()) return Needs(std::string(kNeedsWork));
  const int64_t ns = facts.gaps.parts.launch_call_ns;
  RuleResult result = ShareOfSteps(facts, ns, thresholds.launch_call_share);
  Finding& finding = result.finding;
  finding.measured = StrCat("The GPU idles ", OfStep(facts, ns), " inside launch calls of ",
                            TimeText(kLongCallNs), " or more.");
  // Code is loaded, and kernels are compiled or chosen, when they are launched first.
  const bool first_use = 2 * facts.gaps.first_launch_ns >= ns;
  if (first_use) {
    StrAppend(&finding.measured, " ", TimeText(facts.PerStep(facts.gaps.first_launch_ns)),
              " of it are in the first launch of a kernel, which loads or compiles its code.");
  }
  finding.advice = first_use ? std::string(kLoadEarlier) : std::string(kFindContention);
  finding.evidence = facts.gaps.long_launches;
  SetConfidence(facts, Confidence::kHigh, finding);
  DoubtIfWithoutCpu(facts, thresholds, finding.saving_ns_per_step, finding);
  return result;
}

RuleResult HostWork(const Facts& facts, const FindingThresholds& thresholds) {
  if (!facts.has_gpu()) return Needs(std::string(kNeedsGpu));
  if (facts.calls.call_count == 0) return Needs(std::string(kNeedsCalls));
  if (facts.RecordsGraphs()) return Needs(std::string(kNeedsWork));
  const int64_t ns = facts.gaps.parts.host_work_ns;
  RuleResult result = ShareOfSteps(facts, ns, thresholds.host_work_share);
  Finding& finding = result.finding;
  finding.measured = StrCat("The GPU idles ", OfStep(facts, ns), " while the host is in ranges of ",
                            TimeText(kLongHostWorkNs), " or more that launch nothing");
  if (!facts.gaps.host_work.empty()) {
    const Evidence& most = facts.gaps.host_work.front();
    StrAppend(&finding.measured, MostOf(facts, ns, most, "gap"));
    finding.advice = ReadsFromGpu(most.name) ? StrCat("Read values back less often: ", most.name,
                                                      " waits for all that was launched before it.")
                                             : StrCat("Have the host do less in ", most.name,
                                                      ": move what it computes to the GPU, do it "
                                                      "in another thread or process while the "
                                                      "GPU works, or do it less often.");
  }
  StrAppend(&finding.measured, ".");
  finding.evidence = facts.gaps.host_work;
  SetConfidence(facts, Confidence::kHigh, finding);
  DoubtIfWithoutCpu(facts, thresholds, finding.saving_ns_per_step, finding);
  return result;
}

RuleResult SlowApiCalls(const Facts& facts, const FindingThresholds& thresholds) {
  if (!facts.has_gpu()) return Needs(std::string(kNeedsGpu));
  if (facts.calls.call_count == 0) return Needs(std::string(kNeedsCalls));
  if (facts.RecordsGraphs()) return Needs(std::string(kNeedsWork));
  const int64_t ns = facts.gaps.parts.long_call_ns;
  RuleResult result = ShareOfSteps(facts, ns, thresholds.api_call_share);
  Finding& finding = result.finding;
  finding.measured = StrCat("The GPU idles ", OfStep(facts, ns), " inside calls of ",
                            TimeText(kLongCallNs), " or more that launch nothing");
  if (!facts.gaps.long_calls.empty()) {
    const Evidence& most = facts.gaps.long_calls.front();
    StrAppend(&finding.measured, MostOf(facts, ns, most, "gap"));
    finding.advice =
        facts.calls.only_start_up
            ? "Capture later, when the program runs its steps: what is made first takes "
              "time once."
            : AdviceFor(most.name, facts.scope.has_steps && facts.scope.count >= kFewestSteps &&
                                       2 * most.step_count > facts.scope.count);
  }
  StrAppend(&finding.measured, ".");
  finding.evidence = facts.gaps.long_calls;
  SetConfidence(facts, Confidence::kHigh, finding);
  DoubtIfWithoutCpu(facts, thresholds, finding.saving_ns_per_step, finding);
  return result;
}

}  // namespace profd::report
