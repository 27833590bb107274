#include <string>
#include <utility>

#include "daemon/report/diff/capture_diff.h"

namespace profd::report {
namespace {

using table::Column;
using table::Description;
using table::NsColumn;
using table::PlainColumn;
using table::Unit;

Column SignedNs(std::string key, std::string title, std::string doc) {
  Column column = NsColumn(std::move(key), std::move(title), std::move(doc));
  column.formula = "after - before";
  column.nullable = true;
  column.may_be_negative = true;
  return column;
}

Column Change(std::string key, std::string doc) {
  return {.key = std::move(key),
          .doc = std::move(doc),
          .unit = Unit::kRatio,
          .nullable = true,
          .may_be_negative = true};
}

Description<DiffName> NameColumns(const std::string& title, const std::string& time) {
  return {
      {&DiffName::name, {.key = "name", .title = title, .doc = "Its name", .flexible = true}},
      {&DiffName::before_calls,
       {.key = "before_calls",
        .title = "Calls before",
        .doc = "Calls per step before; of captures without steps, per second",
        .priority = 2}},
      {&DiffName::after_calls,
       {.key = "after_calls", .title = "after", .doc = "The same after", .priority = 2}},
      {&DiffName::before_ns, NsColumn("before_ns", "Time before", time + " per step before")},
      {&DiffName::after_ns, NsColumn("after_ns", "Time after", "The same after")},
      {[](const DiffName& row) { return row.change_ns(); },
       SignedNs("change_ns", "Change", "Change of the mean: after minus before")},
      {&DiffName::why,
       {.key = "why",
        .title = "Why",
        .doc = "new, gone, or whether its calls are more or fewer, longer or shorter (by more than "
               "10 %); empty: neither",
        .priority = 1,
        .unknown_text = ""}}};
}

}  // namespace

const Description<CaptureDiff>& DiffColumns() {
  static const Description<CaptureDiff> columns = {
      {&CaptureDiff::before,
       PlainColumn("before", "", "IDs of the captures before, with commas between them")},
      {&CaptureDiff::after, PlainColumn("after", "", "IDs of the captures after")},
      {[](const CaptureDiff& diff) { return diff.steps.verdict; },
       PlainColumn("verdict", "",
                   "slower, faster, same (they do not differ beyond noise), or unknown: of the "
                   "steps after")},
      {[](const CaptureDiff& diff) { return diff.steps.change; },
       Change("step_change", "How much longer steps take after, estimated; null: not known")},
      {[](const CaptureDiff& diff) { return diff.steps.low; },
       Change("step_change_low", "The low end of the interval of 95 %; null: too few steps")},
      {[](const CaptureDiff& diff) { return diff.steps.high; },
       Change("step_change_high", "The high end")},
      {[](const CaptureDiff& diff) { return diff.steps.waits_can_explain; },
       PlainColumn("waits_can_explain", "", "Whether waits for a CPU are why the verdict is same")},
      {[](const CaptureDiff& diff) { return diff.steps.before_median_ns; },
       NsColumn("before_step_ns", "",
                "Median step before (of several captures, the median of theirs); 0: no steps")},
      {[](const CaptureDiff& diff) { return diff.steps.after_median_ns; },
       NsColumn("after_step_ns", "", "Median step after; 0: no steps")},
      {[](const CaptureDiff& diff) { return diff.steps.before_count; },
       table::CountColumn("before_steps", "", "Steps before")},
      {[](const CaptureDiff& diff) { return diff.steps.after_count; },
       table::CountColumn("after_steps", "", "Steps after")},
      {[](const CaptureDiff& diff) { return diff.steps.before_captures; },
       table::CountColumn("before_captures", "", "Captures before that have steps")},
      {[](const CaptureDiff& diff) { return diff.steps.after_captures; },
       table::CountColumn("after_captures", "", "Captures after that have steps")},
      {&CaptureDiff::sentence, PlainColumn("sentence", "", "The verdict in a sentence")},
      {&CaptureDiff::why,
       PlainColumn("why", "", "The part that changed most, in a sentence; empty: none stands out")},
      {&CaptureDiff::other_work,
       PlainColumn("other_work", "",
                   "Which of the facts alone make times differ: rank, ranks, GPU, GFLOP per step; "
                   "empty: none")},
      {&CaptureDiff::not_compared,
       PlainColumn("not_compared", "",
                   "Why parts, operators, and kernels are not compared, in a sentence: a capture "
                   "lost much of its events; empty: they are")},
      {&CaptureDiff::per_step,
       PlainColumn("per_step", "", "Whether times and calls are per step; else per second")},
      {&CaptureDiff::by_device,
       PlainColumn("by_device", "",
                   "Whether steps are timed by the GPU's work, because the host runs ahead of it; "
                   "parts are not compared then")},
      {&CaptureDiff::operators_on_device,
       PlainColumn("operators_on_device", "",
                   "Whether the times of operators are of GPUs; else of CPUs")}};
  return columns;
}

const Description<DiffFact>& DiffFactColumns() {
  static const Description<DiffFact> columns = {
      {&DiffFact::what, PlainColumn("what", "Differs", "What differs, besides times")},
      {&DiffFact::before,
       {.key = "before", .title = "Before", .doc = "In the captures before", .flexible = true}},
      {&DiffFact::after, PlainColumn("after", "After", "In the captures after")}};
  return columns;
}

const Description<DiffPart>& DiffPartColumns() {
  static const Description<DiffPart> columns = {
      {&DiffPart::side,
       PlainColumn("side", "Side", "gpu or host; the parts of either add up to the step")},
      {&DiffPart::name, PlainColumn("name", "Part", "The part, as in `profctl time`")},
      {&DiffPart::before_ns, NsColumn("before_ns", "Before", "Mean per step before")},
      {&DiffPart::after_ns, NsColumn("after_ns", "After", "Mean per step after")},
      {[](const DiffPart& row) { return row.change_ns(); },
       SignedNs("change_ns", "Change", "Change of the mean: after minus before")}};
  return columns;
}

const Description<DiffName>& DiffOperatorColumns() {
  static const Description<DiffName> columns =
      NameColumns("Operator", "Self time (of GPUs, where both captures have them; else of CPUs)");
  return columns;
}

const Description<DiffName>& DiffKernelColumns() {
  static const Description<DiffName> columns = NameColumns("Kernel", "Time");
  return columns;
}

}  // namespace profd::report
