#include "daemon/report/findings/verdict.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_format.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/report/findings/contention.h"
#include "daemon/report/findings/rules.h"
#include "daemon/report/index/recorded_time.h"
#include "daemon/report/ops/flops.h"

namespace profd::report {
namespace {

constexpr double kBusy = 0.80;  // Of a step. Below it, what leaves the GPU idle limits the program.
// A GPU that is busy with something else than computing for so long is not compute-bound.
constexpr double kMuchElse = 0.25;
// Of kernel time: an operator that stands out.
constexpr double kHot = 0.25;
constexpr double kMostOfStep = 0.5;  // Of a step.
constexpr size_t kLongestInputs = 80;
// Operators of a round that a capture can count (PeriodDetector::kKept / kRepeats).
constexpr int64_t kLongestCountedRound = 8192 / 3;

// After "the program is"; empty: not known.
std::string_view WordsFor(BoundBy bound) {
  switch (bound) {
    case BoundBy::kHost:
      return "host-bound: the GPU waits for launches";
    case BoundBy::kCompute:
      return "compute-bound";
    case BoundBy::kCommunication:
      return "bound by exposed communication";
    case BoundBy::kInput:
      return "input-bound: it waits for data";
    case BoundBy::kCopies:
      return "bound by exposed copies";
    case BoundBy::kSynchronization:
      return "bound by synchronization: it waits for the GPU instead of launching ahead";
    case BoundBy::kAllocation:
      return "bound by memory allocation: the GPU waits for calls that allocate or free";
    case BoundBy::kStartUp:
      return "starting up: the GPU waits for calls that load the driver and its code";
    case BoundBy::kCompilation:
      return "bound by compilation";
    case BoundBy::kProfiler:
      return "held up by its recording: the profiler itself takes more of the GPU's idle time than "
             "anything else";
    case BoundBy::kHostWork:
      return "host-bound: the GPU waits for work on the host that launches nothing";
    case BoundBy::kApiCalls:
      return "host-bound: the GPU waits for calls of the CUDA API that launch nothing";
    case BoundBy::kLateStart:
      return "held up on the GPU: launched work does not start, because the GPU is blocked or does "
             "work that is not in the capture";
    case BoundBy::kOtherGpus:
      return "bound by GPUs that take turns: this one is idle while another one of the program "
             "works";
    case BoundBy::kUnknown:
    case BoundBy::kCpuOnly:
      break;
  }
  return {};
}

// "; [[64, 64], [64, 64]] takes most of it, at 31 TFLOP/s, 3.1% of the GPU's bf16 peak"; empty: the
// inputs are not known.
std::string HottestInputs(const KernelFacts& kernels) {
  if (kernels.hottest_inputs.empty()) return {};
  std::string text =
      StrCat("; ", ForDisplay(kernels.hottest_inputs, kLongestInputs), " takes most of it");
  if (kernels.hottest_flops_per_s <= 0) return text;
  StrAppend(&text, ", at ", absl::StrFormat("%.3g", kernels.hottest_flops_per_s / 1e12),
            " TFLOP/s");
  if (kernels.hottest_peak_share > 0) {
    StrAppend(&text, ", ", PercentText(kernels.hottest_peak_share), " of the GPU's ",
              kernels.hottest_type, " peak");
  }
  return text;
}

// ", most of all by aten::mm (62% of kernel time) and in layers.*.mlp (71%)"; empty: none stands
// out.
std::string HottestOp(const Facts& facts) {
  if (facts.kernels.hottest_op.empty() || facts.kernels.total_ns <= 0) return {};
  const double share = static_cast<double>(facts.kernels.hottest_op_ns) /
                       static_cast<double>(facts.kernels.total_ns);
  if (share < kHot) return {};
  std::string text = StrCat(", most of all by ", facts.kernels.hottest_op, " (", PercentText(share),
                            " of kernel time", HottestInputs(facts.kernels), ")");
  if (facts.kernels.hottest_module_share >= kHot) {
    StrAppend(&text, ", and in the modules ",
              ForDisplay(facts.kernels.hottest_module, kLongestInputs), " (",
              PercentText(facts.kernels.hottest_module_share), " of GPU work)");
  }
  return text;
}

// " Most of the time is in collectives: ..."; empty: it is not. Collectives of the CPU also compute
// in them, and how much of their time that takes is not recorded.
std::string WhatCollectivesDo(const Facts& facts, const FindingThresholds& thresholds) {
  const HostFacts& host = facts.host;
  if (!host.needs.empty() || facts.ShareOfSteps(host.split.collectives_ns) < kMostOfStep) return {};
  // Without these waits, it would not be most of the time.
  const int64_t waited_ns = ThreadWaitsThatExplain(
      facts, thresholds, facts.PerStep(host.split.collectives_ns),
      static_cast<int64_t>(kMostOfStep * static_cast<double>(facts.StepNs())));
  std::string text = " Most of the time is in collectives";
  if (waited_ns > 0) {
    StrAppend(&text, ", and the threads of the program together wait for a CPU for ",
              TimeText(waited_ns), " of ", facts.scope.has_steps ? "each step" : "the capture",
              ", which can explain it", ContentionNote(facts, thresholds), ".");
  } else if (KnowsThreadWaits(facts)) {
    StrAppend(&text,
              ": the program waits for other ranks or for the network, or reduces on the CPU.");
  } else {
    StrAppend(
        &text,
        ": the program waits for other ranks, for the network, or for a CPU, or reduces on the "
        "CPU.");
  }
  const std::string& group = facts.record->group_id;
  return StrCat(text,
                group.empty() ? " A capture of all ranks (`profctl trace --all`)"
                              : StrCat(" `profctl stragglers ", group, "`"),
                " shows whether it waits for another rank, and for which one.");
}

// " Of the time in operators and ranges, aten::sort itself takes 63% (train.py(12): step)." Or
// nothing.
std::string HottestOnHost(const HostFacts& host) {
  if (host.hottest.empty()) return "";
  return StrCat(" Of the time in operators and ranges, ", ForDisplay(host.hottest, kLongestInputs),
                " itself takes ", PercentText(host.hottest_share),
                host.hottest_source.empty()
                    ? ""
                    : StrCat(" (", ForDisplay(host.hottest_source, kLongestInputs), ")"),
                ".");
}

std::string WhatLimits(const Facts& facts, const FindingThresholds& thresholds, BoundBy bound) {
  if (facts.gpu_withheld) return StrCat(facts.gpu_doubt, ": what the GPU did is unknown.");
  if (facts.RecordsGraphs()) {
    return "The program captures CUDA graphs, and meanwhile no kernels run: what limits it is "
           "unknown.";
  }
  if (bound == BoundBy::kCpuOnly) {
    return StrCat("No GPU work was recorded.", HottestOnHost(facts.host),
                  WhatCollectivesDo(facts, thresholds));
  }
  const std::string_view words = bound == BoundBy::kCopies && facts.ExposedCopiesAreDecompression()
                                     ? "bound by exposed decompression on the GPU"
                                     : WordsFor(bound);
  if (words.empty()) return "The data does not show what limits the program.";
  if (bound == BoundBy::kCompute) return StrCat("The program is ", words, HottestOp(facts), ".");
  return StrCat("With the GPU busy for ", facts.LooksIdlerThanItIs() ? "about " : "",
                PercentText(facts.BusyShare()),
                facts.LooksIdlerThanItIs() ? " of an unrecorded step" : "", ", the program is ",
                words, ".");
}

// ": 2% in operators, 98% on the host outside operators"; empty: unknown.
std::string WhereTheHostTimeGoes(const Facts& facts) {
  const HostFacts& host = facts.host;
  if (!host.needs.empty() || host.split.total_ns() <= 0) return {};
  const std::string in = StrCat("in ", host.Parts());
  const std::string outside = StrCat("on the host outside ", host.Parts());
  const std::array<std::pair<int64_t, std::string_view>, 7> parts = {
      {{host.split.operators_ns, in},
       {host.split.collectives_ns, "in collectives"},
       {host.split.data_loader_ns, "loading data"},
       {host.split.compile_ns, "compiling"},
       {host.split.gpu_wait_ns, "waiting for the GPU"},
       {host.split.outside_ns, outside},
       {host.split.other_ns, "in the profiler"}}};
  std::string text;
  for (const auto& [ns, name] : parts) {
    if (ns <= 0) continue;
    StrAppend(&text, text.empty() ? ": " : ", ", PercentText(facts.ShareOfSteps(ns)), " ", name);
  }
  return text;
}

// "; 2 steps that only filled the launch queue left out"; empty for none.
std::string LeftOut(int64_t count, std::string_view which) {
  return count == 0 ? std::string()
                    : StrCat("; ", CountText(count, "step"), " ", which, " left out");
}

// "; for 14.2 ms of them the GPU did what was launched before the capture"; empty: for little of
// them, or such steps were left out.
std::string EarlierWork(const Facts& facts) {
  constexpr double kLittle = 0.05;
  const int64_t earlier_ns = facts.scope.earlier_work_ns;
  // Of a capture that lost much, launches are missing, too.
  if (facts.quality.shares == ShareTrust::kWithheld || facts.ShareOfSteps(earlier_ns) < kLittle) {
    return {};
  }
  return StrCat("; for ", TimeText(earlier_ns), facts.scope.count > 1 ? " of them" : " of it",
                " the GPU did what was launched before the capture");
}

// ", in which 22 operators repeat 34 times, every 58 ms (...)"; empty: they do not, or are not
// known to.
std::string Rounds(const Facts& facts) {
  const OperatorRounds& rounds = facts.time.rounds;
  if (rounds.count == 0) return {};
  std::string text = StrCat(
      ", in which ", rounds.operators, " operators repeat",
      facts.time.rounds_of_last_operators ? std::string() : StrCat(" ", rounds.count, " times"),
      ", every ", TimeText(rounds.median_ns));
  // Of other profilers' traces and of programs that have steps, there is nothing to ask for.
  const CaptureRecord& record = *facts.record;
  if (record.imported.source.empty() && record.torch.step_source == StepSource::kNone &&
      record.spec.torch.step_source == StepSource::kNone &&
      rounds.operators <= kLongestCountedRound) {
    StrAppend(&text,
              " (`profctl trace --steps N --step-source periodicity` records such rounds as "
              "steps)");
  }
  return text;
}

// "; 653 marks of steps by other threads or tasks are left out", or nothing.
std::string OtherLoops(const Facts& facts) {
  if (!HasOtherLoops(*facts.record)) return "";
  return StrCat("; ", CountText(facts.record->foreign_step_mark_count, "mark"),
                " of steps by other threads or tasks are left out");
}

// What a step is where the ranges that mark them overlap, or nothing.
std::string OverlappingMarks(const Facts& facts) {
  if (facts.program.marked_at_once < 2) return "";
  return StrCat("; up to ", facts.program.marked_at_once,
                " ranges of --step-marker are open at once, so that a step is the time from the "
                "start of one to the start of the next");
}

std::string WhereTheTimeGoes(const Facts& facts) {
  std::string text;
  if (facts.scope.has_steps) {
    text = StrCat("A step takes ", TimeText(facts.scope.mean_ns), " (mean of ",
                  CountText(facts.scope.count, "step"),
                  facts.scope.by_device ? ", from the GPU's work: the host runs ahead" : "",
                  LeftOut(facts.scope.edge_count, "at an edge of the recording"),
                  LeftOut(facts.scope.queue_filling_count, "that only filled the launch queue"),
                  LeftOut(facts.scope.earlier_work_count,
                          "in which the GPU did what was launched before the capture"),
                  EarlierWork(facts), OtherLoops(facts), OverlappingMarks(facts), ")");
  } else {
    text = StrCat("The capture has no steps; its ", facts.has_gpu() ? "GPU work" : "window",
                  " spans ", TimeText(facts.scope.total_ns), Rounds(facts));
  }
  if (const int64_t windows = std::ssize(facts.record->windows); windows > 1) {
    StrAppend(&text, "; nothing is known of the ",
              TimeText(static_cast<int64_t>(HolesOf(*facts.record).total_ns())),
              " between the capture's ", windows, " windows");
  }
  if (facts.quality.shares == ShareTrust::kWithheld) return text + ".";
  if (!facts.has_gpu()) return StrCat(text, WhereTheHostTimeGoes(facts), ".");
  const auto percent = [&](int64_t ns) { return PercentText(facts.ShareOfSteps(ns)); };
  StrAppend(&text, ". GPU ", facts.time.device);
  if (const size_t gpus = facts.time.devices.size(); gpus > 1) {
    StrAppend(&text, " (of ", gpus, " that worked)");
  }
  StrAppend(&text, " computes for ", percent(facts.sum.compute_ns), " of it");
  if (facts.sum.communication_ns > 0) {
    StrAppend(&text, ", has exposed communication for ",
              percent(facts.sum.exposed_communication_ns));
  }
  if (facts.sum.exposed_copy_ns > 0) {
    StrAppend(&text, ", has exposed copies ",
              facts.copies.decompression_ns > 0 ? "and decompression for " : "for ",
              percent(facts.sum.exposed_copy_ns));
  }
  StrAppend(&text, ", and is idle for ", percent(facts.sum.idle_ns), ".");
  if (facts.calls.decompression_count > 0 && facts.copies.decompression_ns == 0 &&
      facts.record->gpu.mode != GpuMode::kFull) {
    StrAppend(&text,
              " It also decompresses memory, which is not recorded here, and looks idle meanwhile "
              "(`profctl trace --gpu full` records it).");
  }
  if (facts.LooksIdlerThanItIs()) {
    StrAppend(&text, " Recording made steps ", PercentText(facts.unrecorded.slowdown),
              " longer: without it a step takes about ", TimeText(facts.unrecorded.step_ns),
              ", and the GPU is idle for about ", PercentText(facts.unrecorded.IdleShare()),
              " of it.");
  }
  return text;
}

// " The 83 steps around the capture took 4.05 ms on average." Or what recording certainly does. Or
// nothing.
std::string WhatStepsTakeUnrecorded(const Facts& facts) {
  if (facts.UnrecordedPart() >= 1) return "";
  const SlowdownRecord& slowdown = facts.record->slowdown;
  if (slowdown.known) {
    return StrCat(" Recording made steps ", PercentText(slowdown.estimate),
                  " longer: without it a step takes about ", TimeText(facts.StepNs()), ".");
  }
  return StrCat(" The ", facts.record->around_step_count, " steps around the capture took ",
                TimeText(facts.record->around_step_mean_ns), " on average.");
}

// " The 83 steps around the capture took 25.1 ms on average: the capture lacks slow steps (...)."
// Or nothing.
std::string WhatTheWindowLacks(const Facts& facts, const FindingsReport& report) {
  const auto lacks_slow_steps = [](const Finding& finding) {
    return finding.rule == "QUALITY_WINDOW" && finding.confidence > Confidence::kLow;
  };
  if (std::ranges::none_of(report.findings, lacks_slow_steps)) return "";
  return StrCat(" The ", facts.record->around_step_count, " steps around the capture took ",
                TimeText(facts.record->around_step_mean_ns),
                " on average: the capture lacks slow steps (QUALITY_WINDOW).");
}

std::string FirstSentence(std::string_view text) {
  const size_t end = text.find(". ");
  return std::string(end == std::string_view::npos ? text : text.substr(0, end + 1));
}

// Whether the rule is about what the verdict names, where another one could save more by its
// figure: the saving of these is capped by the compute that is left to overlap with.
bool IsAbout(BoundBy bound, std::string_view rule) {
  if (bound == BoundBy::kCommunication) return rule == "COMM_EXPOSED" || rule == "COMM_BACKEND";
  return bound == BoundBy::kCopies &&
         (rule == "COPY_EXPOSED" || rule == "MEMCPY_PAGEABLE_ASYNC" || rule == "MEMCPY_SYNC");
}

bool IsWorthATry(const Finding& finding) { return finding.saving_ns_per_step > 0; }

// What the list has before the first change, and what could save more but is not sure. Empty: there
// is nothing, so the first change is the first finding.
std::string WhatElse(const FindingsReport& report, std::vector<Finding>::const_iterator first) {
  std::string text;
  for (auto each = report.findings.begin(); each != first; ++each) {
    if (each->severity == Severity::kCritical) continue;  // The verdict begins with it.
    StrAppend(&text, " ", each->rule, " is listed before it, as it may end the run.");
  }
  if (!IsWorthATry(*first) || first->confidence == Confidence::kLow) return text;
  const auto doubtful = std::find_if(first + 1, report.findings.end(), [&](const Finding& finding) {
    return finding.confidence == Confidence::kLow &&
           finding.saving_ns_per_step > first->saving_ns_per_step;
  });
  if (doubtful == report.findings.end()) return text;
  StrAppend(&text, " ", doubtful->rule, " could save more (up to ",
            TimeText(doubtful->saving_ns_per_step), report.step_count > 0 ? " a step" : "",
            "), but only with low confidence: ", doubtful->confidence_reason, ".");
  return text;
}

// " But aten::fill_ itself takes about 37.9 ms of each step: look at it first.", where that is far
// more than `first` can save. Products and convolutions are what a model is for. Or nothing.
std::string WhatTakesFarMore(const Facts& facts, const Finding& first) {
  constexpr double kFarMore = 3;
  const HostFacts& host = facts.host;
  if (IsDebugMode(first) || !host.hottest.starts_with("aten::") || MayHaveFlops(host.hottest)) {
    return "";
  }
  if (host.hottest_of_time > 1) return "";  // Of several threads: not how long a step takes.
  const double takes_ns = host.hottest_of_time * static_cast<double>(facts.scope.mean_ns);
  if (takes_ns < kFarMore * static_cast<double>(first.saving_ns_per_step)) return "";
  return StrCat(" But ", ForDisplay(host.hottest, kLongestInputs), " itself takes about ",
                TimeText(static_cast<int64_t>(takes_ns)), " of ",
                facts.scope.has_steps ? "each step" : "the capture", ": look at it first.");
}

std::string WhatToChange(const Facts& facts, const FindingsReport& report) {
  const auto first = FirstChange(report.findings, report.bound);
  std::string text;
  for (const Finding& finding : report.findings) {
    if (finding.severity == Severity::kCritical && EndsTheRun(finding)) {
      StrAppend(&text, finding.measured, " ");
    }
  }
  if (first == report.findings.end()) {
    if (facts.quality.shares == ShareTrust::kWithheld) {
      return StrCat(text, "Too few events were kept to recommend a change.");
    }
    // Only a rule that was checked can have found nothing.
    return text + (facts.gpu_withheld || facts.RecordsGraphs()
                       ? std::string("No rule that could be checked found a way to "
                                     "save time.")
                   : facts.host.needs.empty()
                       ? std::string("No rule found a way to save time.")
                       : StrCat("No rule that could be checked found a way to save time; where the "
                                "host's time went is unknown without ",
                                facts.host.needs, "."));
  }
  StrAppend(&text, "First change (", first->rule, "): ", first->title, ". ",
            FirstSentence(first->advice));
  if (IsWorthATry(*first)) {
    const int64_t step_ns = facts.StepOfSavings(first->rule);
    const bool is_unrecorded =
        facts.LooksIdlerThanItIs() || (facts.UnrecordedPart() < 1 && step_ns == facts.StepNs());
    StrAppend(&text, IsDebugMode(*first) ? " Worth at least " : " Worth up to ",
              TimeText(first->saving_ns_per_step), facts.scope.has_steps ? " a step (" : " (",
              PercentText(static_cast<double>(first->saving_ns_per_step) /
                          static_cast<double>(std::max<int64_t>(step_ns, 1))),
              is_unrecorded ? " of an unrecorded step" : "", "), with ",
              ToString(first->confidence), " confidence.", WhatTakesFarMore(facts, *first));
  }
  return StrCat(text, WhatElse(report, first));
}

std::string WhetherToTrust(const Quality& quality) {
  std::string text =
      StrCat("Quality ", quality.grade, quality.stored ? "" : " (not stored in the file)");
  const QualityCheck* worst = nullptr;
  for (const QualityCheck& check : quality.checks) {
    // That a trace does not tell its losses is true of all imports: any other reason says more.
    const bool is_more_telling = worst != nullptr && check.grade == worst->grade &&
                                 worst->name == "loss" && worst->value == 0;
    if (check.failed() && (worst == nullptr || check.grade > worst->grade || is_more_telling)) {
      worst = &check;
    }
  }
  if (worst == nullptr) return text + ": no data-quality issues found.";
  StrAppend(&text, ": ", worst->sentence, ".");
  if (quality.shares == ShareTrust::kMarked) {
    StrAppend(&text, " Percentages refer to the events that were kept.");
  } else if (quality.shares == ShareTrust::kWithheld) {
    StrAppend(&text, " Too many events are missing to show percentages.");
  }
  return text;
}

}  // namespace

BoundBy BoundOf(const Facts& facts) {
  if (facts.gpu_withheld) return BoundBy::kUnknown;
  if (!facts.has_gpu()) return BoundBy::kCpuOnly;
  if (facts.scope.total_ns <= 0 || facts.quality.shares == ShareTrust::kWithheld ||
      facts.RecordsGraphs()) {
    return BoundBy::kUnknown;
  }
  const double most_else =
      facts.ShareOfSteps(std::max(facts.sum.exposed_communication_ns, facts.sum.exposed_copy_ns));
  if (facts.BusyShare() >= kBusy && most_else < kMuchElse) return BoundBy::kCompute;
  const IdleParts& idle = facts.gaps.parts;
  const bool start_up = facts.calls.only_start_up;
  // Recording makes calls and operators longer, so what it adds is part of the host's.
  const int64_t added_ns =
      facts.unrecorded.known
          ? facts.sum.idle_ns - facts.unrecorded.idle_ns * std::max<int64_t>(facts.scope.count, 1)
          : 0;
  const int64_t host_ns = idle.host_ns() + idle.kernel_wait_ns;
  const std::array<std::pair<int64_t, BoundBy>, 14> losses = {
      {{facts.sum.exposed_communication_ns, BoundBy::kCommunication},
       {facts.sum.exposed_copy_ns, BoundBy::kCopies},
       {std::max<int64_t>(host_ns - added_ns, 0), BoundBy::kHost},
       {idle.data_loader_ns, BoundBy::kInput},
       {idle.waiting_calls_ns, BoundBy::kSynchronization},
       {idle.allocator_ns, start_up ? BoundBy::kStartUp : BoundBy::kAllocation},
       {idle.compile_ns, BoundBy::kCompilation},
       {idle.collectives_ns, BoundBy::kCommunication},
       {idle.host_work_ns, BoundBy::kHostWork},
       {idle.long_call_ns, BoundBy::kApiCalls},
       {idle.late_start_ns, BoundBy::kLateStart},
       {idle.other_gpus_ns, BoundBy::kOtherGpus},
       {idle.other_ns, BoundBy::kUnknown},
       {idle.profiler_ns, BoundBy::kProfiler}}};
  return std::max_element(losses.begin(), losses.end(),
                          [](const auto& a, const auto& b) { return a.first < b.first; })
      ->second;
}

std::vector<Finding>::const_iterator FirstChange(const std::vector<Finding>& findings,
                                                 BoundBy bound) {
  const auto names_a_cause = [](const Finding& finding) {
    return IsWorthATry(finding) && finding.confidence > Confidence::kLow &&
           !IsSymptom(finding.rule);
  };
  if (!findings.empty() && EndsTheRun(findings.front()) &&
      findings.front().severity == Severity::kCritical) {
    return findings.begin();
  }
  const auto debug_mode = std::ranges::find_if(findings, &IsDebugMode);
  if (debug_mode != findings.end()) return debug_mode;
  const auto of_bound = std::ranges::find_if(findings, [&](const Finding& finding) {
    return IsAbout(bound, finding.rule) && finding.confidence > Confidence::kLow;
  });
  if (of_bound != findings.end()) return of_bound;
  const auto cause = std::find_if(findings.begin(), findings.end(), names_a_cause);
  const auto gaps = std::find_if(findings.begin(), findings.end(), [](const Finding& finding) {
    return IsWorthATry(finding) && finding.rule == "GPU_GAP";
  });
  if (gaps != findings.end()) {
    const double explained_ns =
        cause == findings.end() ? 0 : static_cast<double>(cause->saving_ns_per_step);
    if (explained_ns < kExplainedSymptom * static_cast<double>(gaps->saving_ns_per_step))
      return gaps;
  }
  if (cause != findings.end()) return cause;
  return std::find_if(findings.begin(), findings.end(), IsWorthATry);
}

std::string WriteVerdict(const Facts& facts, const FindingThresholds& thresholds,
                         const FindingsReport& report) {
  if (report.quality.grade == "-") return "Nothing was recorded.";
  return StrCat(WhereTheTimeGoes(facts), WhatStepsTakeUnrecorded(facts),
                WhatTheWindowLacks(facts, report), " ", WhatLimits(facts, thresholds, report.bound),
                " ", WhatToChange(facts, report), " ", WhetherToTrust(report.quality));
}

}  // namespace profd::report
