#include "daemon/import/capture_builder.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/import/thinning.h"
#include "daemon/import/trace_category.h"
#include "daemon/report/index/collective_names.h"
#include "daemon/report/index/source_kinds.h"
#include "daemon/report/index/step_names.h"
#include "daemon/store/file/imported_record.h"
#include "proto/wire/event.h"

namespace profd::importer {
namespace {

constexpr size_t kBatchRows = 8192;
using report::IsProfilerStep;
using report::kProfilerStepPrefix;
constexpr int64_t kMostUnrecordedPart = 10;    // One in so many of a step.
constexpr int64_t kLongRangeNs = 100'000'000;  // Shorter ones span no hole that matters.
constexpr uint8_t kOperatorRange = static_cast<uint8_t>(wire::RangeCategory::kOperator);
constexpr uint8_t kUserRange = static_cast<uint8_t>(wire::RangeCategory::kUser);
constexpr uint8_t kPythonRange = static_cast<uint8_t>(wire::RangeCategory::kPython);
// Autograd's own frame around a node, which says again what the node says.
constexpr int64_t kLastStep = int64_t{1} << 53;
constexpr std::string_view kEngineFrame = "autograd::engine::evaluate_function: ";

// The integers in a text, of which long lists leave out some: "[0, 1, ..., 7]".
std::vector<int64_t> FirstIntegers(std::string_view text) {
  constexpr size_t kMost = 64;
  std::vector<int64_t> integers;
  while (!text.empty() && integers.size() < kMost && !text.starts_with("...")) {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc()) integers.push_back(value);
    const auto taken = static_cast<size_t>(end - text.data());
    text.remove_prefix(error == std::errc::invalid_argument ? 1 : std::max<size_t>(taken, 1));
  }
  return integers;
}

// As torch has it: -1 for ranks that do not follow each other evenly.
int64_t StrideOf(const std::vector<int64_t>& ranks) {
  if (ranks.size() < 2) return 1;
  int64_t stride = 0;
  for (size_t i = 1; i < ranks.size(); ++i) {
    int64_t difference = 0;
    if (__builtin_sub_overflow(ranks[i], ranks[i - 1], &difference)) return -1;
    if (i > 1 && difference != stride) return -1;
    stride = difference;
  }
  return stride;
}

// `group_names`: what the trace calls its groups, by torch's name.
std::string ScalarsOfMembers(const TraceEvent& event,
                             const std::map<std::string, std::string>& group_names) {
  const auto text = [&](Text which, std::string_view otherwise) {
    const std::string_view json = event.Get(which);
    return json.empty() ? std::string(otherwise) : Unescape(json);
  };
  const std::string group_id = text(Text::kGroupName, "");
  std::string group_name = text(Text::kGroupDescription, "");
  if (const auto known = group_names.find(group_id);
      group_name.empty() && known != group_names.end()) {
    group_name = known->second;
  }
  const std::string group = report::GroupText(group_id, group_name);
  report::ToldCollective unsaid;
  // Newer releases list the ranks instead. They tell groups of one size apart.
  const std::vector<int64_t> ranks = FirstIntegers(event.Get(Text::kGroupRanks));
  const std::string first = StrCat(ranks.empty() ? 0 : ranks.front());
  const std::string stride = StrCat(StrideOf(ranks));
  if (!ranks.empty()) unsaid.first_rank = first;
  if (!ranks.empty()) unsaid.rank_stride = stride;
  return report::ScalarsOfTold({.name = text(Text::kCollectiveName, unsaid.name),
                                .rank = text(Text::kRank, unsaid.rank),
                                .group_size = text(Text::kGroupSize, unsaid.group_size),
                                .first_rank = text(Text::kFirstRank, unsaid.first_rank),
                                .rank_stride = text(Text::kRankStride, unsaid.rank_stride),
                                .in_splits = text(Text::kInSplit, unsaid.in_splits),
                                .out_splits = text(Text::kOutSplit, unsaid.out_splits),
                                .group = group});
}

bool IsToldCollective(const TraceEvent& event) {
  return event.name == report::kCollectiveOperator && !event.Get(Text::kCollectiveName).empty();
}

RestoredArguments RestoredOfRange(const TraceEvent& event, uint8_t category) {
  if (category == kPythonRange) return RestoredArguments::kNone;
  if (category == kUserRange) return RestoredArguments::kAnnotation;
  if (IsToldCollective(event)) return RestoredArguments::kCollective;
  return event.name.starts_with(kEngineFrame) ? RestoredArguments::kAutogradFrame
                                              : RestoredArguments::kOperator;
}

}  // namespace

CaptureBuilder::CaptureBuilder(CaptureSink& sink, NotUnderstood& not_understood,
                               std::filesystem::path directory)
    : sink_(sink),
      not_understood_(not_understood),
      names_(sink),
      texts_(sink),
      stacks_(names_),
      arguments_(names_, not_understood, directory),
      gpu_(std::move(directory)) {}

absl::Status CaptureBuilder::Add(const TraceEvent& event) {
  keeps_arguments_ = true;
  const bool is_flow = event.phase == 's' || event.phase == 't' || event.phase == 'f';
  if (event.phase != 'X' && !is_flow) arguments_.ForgetEvents();
  if (std::max(event.pid.size(), event.tid.size()) > kMaxIdBytes) {
    arguments_.ForgetEvents();
    not_understood_.Count(StrCat("events with a pid or tid of more than ", kMaxIdBytes, " bytes"));
    return absl::OkStatus();
  }
  if (const std::string_view why = WhyNotInKeptPart(event); !why.empty()) {
    arguments_.ForgetEvents();
    if (!is_flow) not_understood_.Count(why);
    return absl::OkStatus();
  }
  switch (event.phase) {
    case 'X':
      return AddSlice(event);
    case 'i':
    case 'I':
    case 'n':
      return AddInstant(event);
    case 'B':
    case 'E':
    case 'b':
    case 'e':
      return AddPaired(event);
    case 'C':
      return AddCounter(event);
    case 'M':
      return AddMetadata(event);
    case 's':
    case 't':
    case 'f':
      return arguments_.AddFlow(event);  // For exports only.
    default:
      not_understood_.Count(event.phase == 0 ? "no ph"
                                             : StrCat("ph:", std::string(1, event.phase)));
      return absl::OkStatus();
  }
}

void CaptureBuilder::AddUnknownArgument(const TraceEvent& event, std::string_view key) {
  // Ours has what the trace had that it was made of, where it was counted.
  if (is_ours_) return;
  not_understood_.Count(StrCat("arg:", event.category, ".", key));
}

void CaptureBuilder::CountNotUnderstood(const TraceEvent& event, std::string_view why) {
  not_understood_.Count(StrCat(event.category.empty() ? "ph:X" : event.category, why));
}

std::optional<CaptureBuilder::Span> CaptureBuilder::SpanOf(const TraceEvent& event,
                                                           bool needs_duration) {
  if (!event.start.has_value()) {
    CountNotUnderstood(event, " without ts");
    return std::nullopt;
  }
  if (needs_duration && !event.duration.has_value()) {
    CountNotUnderstood(event, " without dur");
    return std::nullopt;
  }
  int64_t duration_ns = needs_duration ? event.duration->ns : 0;
  const bool is_too_long = duration_ns > kMostDurationNs;
  if (is_too_long) duration_ns = 0;
  std::optional<Span> span = Place(event.start->ns, duration_ns);
  if (!span.has_value()) {
    CountNotUnderstood(event, " more than a year away");
    return std::nullopt;
  }
  if (BeganBeforeKeptPart(event)) {
    const int64_t begin_ns = BeginOfKeptPart();
    *span = {.start_ns = begin_ns, .duration_ns = std::max<int64_t>(span->end_ns() - begin_ns, 0)};
  }
  // Clocks that step make durations negative, or longer than any recording: it is known when, not
  // how long.
  if (is_too_long) CountNotUnderstood(event, " with a dur of more than 7 days, taken as 0");
  if (duration_ns < 0) CountNotUnderstood(event, " with a negative dur, taken as 0");
  contents_.whole_us &=
      event.start->is_whole_us && (!event.duration.has_value() || event.duration->is_whole_us);
  return span;
}

std::optional<CaptureBuilder::Span> CaptureBuilder::Place(int64_t start_ns, int64_t duration_ns) {
  // Times are kept relative to the first event. Those since 1970 would make sums of a start and a
  // duration overflow more easily, and columns pack worse.
  if (!epoch_ns_.has_value()) epoch_ns_ = start_ns;
  Span span = {.start_ns = 0, .duration_ns = std::max<int64_t>(duration_ns, 0)};
  const bool fits = !__builtin_sub_overflow(start_ns, *epoch_ns_, &span.start_ns) &&
                    span.start_ns >= -kMostReachNs && span.start_ns <= kMostReachNs &&
                    duration_ns <= kMostReachNs;
  return fits ? std::optional(span) : std::nullopt;
}

void CaptureBuilder::Cover(const Span& span, bool by_gpu) {
  SequenceEnd alone;
  Cover(span, alone, by_gpu);
  last_ns_ = std::max(last_ns_, alone.end_ns);
}

void CaptureBuilder::Cover(const Span& span, SequenceEnd& sequence, bool by_gpu) {
  ++contents_.event_count;
  int64_t end_ns = span.end_ns();
  if (kept_part_ != nullptr) {
    // Work that was launched before the end may run after it.
    if (span.start_ns > EndOfKeptPart()) return;
    end_ns = std::min(end_ns, EndOfKeptPart());
  }
  first_ns_ = std::min(first_ns_, span.start_ns);
  sequence.Add(span.start_ns, end_ns);
  coverage_.Add(span.start_ns, end_ns);
  if (!by_gpu) host_coverage_.Add(span.start_ns, end_ns);
}

std::optional<uint32_t> CaptureBuilder::ThreadAt(const TraceEvent& event, std::string_view tid,
                                                 bool is_python) {
  const std::optional<uint32_t> thread = threads_.IndexOf(event.pid, tid, is_python);
  if (!thread.has_value()) {
    CountNotUnderstood(event, " of too many threads");
  } else if (*thread >= rows_.size()) {
    rows_.resize(*thread + 1);
  }
  return thread;
}

absl::Status CaptureBuilder::Hold() {
  if (++held_rows_ <= kMaxHeldRows) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      StrCat("it has more than ", kMaxHeldRows,
             " operators, ranges, frames of Python, steps, and CUDA events; record fewer steps, or "
             "without stacks"));
}

absl::Status CaptureBuilder::AddMetadata(const TraceEvent& event) {
  const std::string_view name = event.Get(Text::kName);
  if (event.name == "process_name") {
    threads_.NameProcess(event.pid, Unescape(name));
  } else if (event.name == "thread_name") {
    threads_.NameThread(event.pid, event.tid, Unescape(name));
  } else if (event.name == "process_labels" && is_ours_) {
    for (const RawArgument& argument : event.arguments) {
      if (argument.key == "labels") threads_.LabelProcess(event.pid, Unescape(argument.json));
    }
  } else if (event.name != "process_labels" && event.name != "process_sort_index" &&
             event.name != "thread_sort_index") {
    not_understood_.Count(StrCat("metadata:", event.name));
  }
  return arguments_.AddLabel(event);  // For exports.
}

void CaptureBuilder::SetThreads(int64_t pid, std::span<const TraceHeader::Thread> threads) {
  for (const TraceHeader::Thread& thread : threads) {
    const std::optional<uint32_t> index =
        threads_.IndexOf(StrCat(pid), StrCat(thread.tid), thread.is_python);
    if (index.has_value() && *index >= rows_.size()) rows_.resize(*index + 1);
  }
}

absl::Status CaptureBuilder::AddSlice(const TraceEvent& event) {
  const Category category = CategoryOf(event.category);
  if (event.Get(Text::kCallStack).size() > 2 && category != Category::kOperator &&
      category != Category::kAnnotation && category != Category::kPython) {
    AddUnknownArgument(event, "Call stack");
  }
  switch (category) {
    case Category::kOperator:
      return AddRange(event, kOperatorRange);
    case Category::kAnnotation:
      return AddRange(event, kUserRange);
    case Category::kRuntime:
      return AddApiCall(event, /*is_driver=*/false);
    case Category::kDriver:
      return AddApiCall(event, /*is_driver=*/true);
    case Category::kKernel:
      return AddWork(event, GpuRowKind::kKernel);
    case Category::kMemcpy:
      return AddWork(event, GpuRowKind::kMemcpy);
    case Category::kMemset:
      return AddWork(event, GpuRowKind::kMemset);
    case Category::kSync:
      return AddSync(event);
    case Category::kCudaEvent:
      return AddCudaEvent(event);
    case Category::kOverhead:
      return AddOverhead(event);
    case Category::kGpuAnnotation:
      return AddGpuAnnotation(event);
    case Category::kDerived:
      if (event.category == "Trace") NoteProfilerEnd(event);
      other_events_.Add(event);
      return absl::OkStatus();
    case Category::kPython:
      return AddRange(event, kPythonRange);
    case Category::kUnknown:
      break;
  }
  unread_devices_.Count(event, not_understood_);
  return absl::OkStatus();
}

absl::Status CaptureBuilder::AddRange(const TraceEvent& event, uint8_t category) {
  std::optional<Span> span = SpanOf(event, /*needs_duration=*/true);
  if (!span.has_value()) return absl::OkStatus();
  const bool is_cut = kept_part_ != nullptr && span->end_ns() > EndOfKeptPart();
  if (is_cut) span->duration_ns = EndOfKeptPart() - span->start_ns;
  const std::optional<uint32_t> thread = ThreadOf(event, category == kPythonRange);
  if (!thread.has_value()) return absl::OkStatus();
  if (category != kPythonRange) NoteIds(event);
  // torch 1.8 and 1.9 call steps operators.
  const bool may_be_step = category != kPythonRange;
  const bool is_late = BeganBeforeKeptPart(event);
  if (may_be_step && (is_cut || is_late) && IsProfilerStep(event.name)) {
    not_understood_.Count(is_cut ? "steps after the last time that is complete"
                                 : "steps before the first time that is complete");
    return absl::OkStatus();
  }
  if (may_be_step && AddStep(event.name, *span, *thread)) {
    RETURN_IF_ERROR(Hold());
    return AddStepArguments(event);
  }
  const auto position = static_cast<uint32_t>(rows_[*thread].ranges.size());
  ImportedRange range = {.start_ns = span->start_ns,
                         .duration_ns = span->duration_ns,
                         .name = 0,
                         .op = 0,
                         .order = OrderOf(position, span->duration_ns, category),
                         .position = position,
                         .depth = 0,
                         .category = category,
                         .flags = 0};
  ASSIGN_OR_RETURN(range.name, names_.IdOfJson(event.name));
  const std::string_view finished = event.Get(Text::kFinished);
  if (is_cut || finished == "false" || finished == "\"false\"") range.flags |= kRangeOpen;
  if (is_late || !event.Get(Text::kBegan).empty()) range.flags |= kRangeTruncated;
  if (!event.Get(Text::kUnended).empty()) range.flags |= kRangeUnended;
  if (category == kPythonRange) {
    RETURN_IF_ERROR(stacks_.AddModule(event.name, event.Get(Text::kModule)));
    // Those of equal times are numbered from the outermost on.
    const int64_t id = event.Get(Number::kPythonId, -1);
    if (std::in_range<uint32_t>(id)) range.order = static_cast<uint32_t>(id);
  } else if (category == kOperatorRange) {
    ASSIGN_OR_RETURN(range.op, AddOperator(event, *thread));
  } else if (category == kUserRange) {
    ASSIGN_OR_RETURN(range.op, AddAnnotationInputs(event, *thread));
  }
  const bool restores_stack =
      range.op == 0 || rows_[*thread].operators[range.op - 1].restores_stack;
  RETURN_IF_ERROR(arguments_.Add(event, RestoredOfRange(event, category), kArgumentOfRange, *thread,
                                 position, restores_stack));
  return Keep(*thread, *span, range);
}

absl::Status CaptureBuilder::AddStepArguments(const TraceEvent& event) {
  const int64_t number =
      ParseInteger(event.name.substr(std::min(event.name.size(), kProfilerStepPrefix.size())))
          .value_or(-1);
  if (!std::in_range<uint32_t>(number)) return absl::OkStatus();
  return arguments_.Add(event, RestoredArguments::kNone, kArgumentOfStep, 0,
                        static_cast<uint32_t>(number), /*restores_stack=*/false);
}

absl::Status CaptureBuilder::Keep(uint32_t thread, const Span& span, const ImportedRange& range) {
  if (range.category == kOperatorRange || span.duration_ns < kLongRangeNs) {
    Cover(span);
  } else {
    // A frame that is open all the time, or an annotation around an epoch, says nothing about what
    // was recorded meanwhile, but for that the program went on.
    Cover({.start_ns = span.start_ns, .duration_ns = 0});
    Cover({.start_ns = span.end_ns(), .duration_ns = 0});
    --contents_.event_count;  // It is one event.
    long_ranges_.Add(span.start_ns, span.end_ns());
    host_coverage_.Add(span.start_ns, span.end_ns());
  }
  rows_[thread].ranges.push_back(range);
  return Hold();
}

// Exports of profd number operators anew.
void CaptureBuilder::NoteIds(const TraceEvent& event) {
  if (is_ours_) return;
  if (event.Has(Number::kExternalId)) {
    external_ids_.push_back(event.Get(Number::kExternalId, 0));
  }
  if (event.Has(Number::kEventIndex)) {
    event_indices_.push_back(event.Get(Number::kEventIndex, 0));
  }
}

void CaptureBuilder::CountMissingIds() {
  // Either number may jump in a complete trace. What was removed is missing in both.
  const std::optional<int64_t> by_external_id = MissingIds(std::move(external_ids_));
  const std::optional<int64_t> by_index = MissingIds(std::move(event_indices_));
  contents_.thinned_count = std::min(by_external_id.value_or(by_index.value_or(0)),
                                     by_index.value_or(by_external_id.value_or(0)));
}

// Of ranges with equal times torch writes the outer one first; profd, which writes all but Python's
// functions by their end, last. Those that take no time are in none of each other.
uint32_t CaptureBuilder::OrderOf(size_t position, int64_t duration_ns, uint8_t category) const {
  const auto order = static_cast<uint32_t>(position);
  const bool is_reversed = is_ours_ && duration_ns > 0 && category != kPythonRange;
  return is_reversed ? std::numeric_limits<uint32_t>::max() - order : order;
}

absl::StatusOr<uint32_t> CaptureBuilder::AddOperator(const TraceEvent& event, uint32_t thread) {
  ++contents_.operator_count;
  OperatorInfo op;
  if (!event.name.starts_with(kEngineFrame)) {
    op.sequence = std::max(event.Get(Number::kSequence, wire::kNoSequence), wire::kNoSequence);
    op.forward_thread = static_cast<uint64_t>(event.Get(Number::kForwardThread, 0));
    op.scope =
        static_cast<uint8_t>(op.forward_thread == 0 ? wire::OperatorScope::kFunction
                                                    : wire::OperatorScope::kBackwardFunction);
  }
  if (IsToldCollective(event)) {
    RETURN_IF_ERROR(AddCollective(event, op));
  } else {
    ASSIGN_OR_RETURN(op.inputs, texts_.Inputs(event.Get(Text::kDims), event.Get(Text::kTypes),
                                              event.Get(Text::kStrides)));
    ASSIGN_OR_RETURN(op.scalars, texts_.Scalars(event.Get(Text::kScalars)));
  }
  if (op.inputs != 0) ++contents_.input_count;
  RETURN_IF_ERROR(AddStack(event, op));
  rows_[thread].operators.push_back(op);
  return static_cast<uint32_t>(rows_[thread].operators.size());
}

absl::Status CaptureBuilder::AddStack(const TraceEvent& event, OperatorInfo& op) {
  ASSIGN_OR_RETURN(const PythonStacks::Stack stack, stacks_.Add(event.Get(Text::kCallStack)));
  op.stack = stack.id;
  op.restores_stack = stack.is_restored;
  return absl::OkStatus();
}

// The inputs of a record_function(), which NCCL's ranges have: they tell the size of a collective.
absl::StatusOr<uint32_t> CaptureBuilder::AddAnnotationInputs(const TraceEvent& event,
                                                             uint32_t thread) {
  OperatorInfo op;
  op.scope = static_cast<uint8_t>(wire::OperatorScope::kUserScope);
  ASSIGN_OR_RETURN(op.inputs, texts_.Inputs(event.Get(Text::kDims), event.Get(Text::kTypes),
                                            event.Get(Text::kStrides)));
  ASSIGN_OR_RETURN(op.scalars, texts_.Scalars(event.Get(Text::kScalars)));
  RETURN_IF_ERROR(AddStack(event, op));
  if (op.inputs == 0 && op.scalars == 0 && op.stack == 0) return 0;
  rows_[thread].operators.push_back(op);
  return static_cast<uint32_t>(rows_[thread].operators.size());
}

// Says what the trace tells of a collective in the words of its inputs, where captures have it
// (daemon/report/index/collective_names.h): traces leave out its name there, or all of them.
absl::Status CaptureBuilder::AddCollective(const TraceEvent& event, OperatorInfo& op) {
  std::string_view scalars = event.Get(Text::kScalars);
  std::string told;
  if (!report::ParseCollectiveInputs(scalars, nullptr).has_value()) {
    told = ScalarsOfMembers(event, group_names_);
    scalars = told;
  }
  ASSIGN_OR_RETURN(op.scalars, texts_.Scalars(scalars));
  const std::string_view dims = event.Get(Text::kDims);
  const std::optional<int64_t> elements = ParseInteger(event.Get(Text::kInElements));
  // Of a list of tensors, the inputs do not say the type, and so no size.
  const bool dims_say_size =
      report::SizeOfFirstInput(
          {.dims = std::string(dims), .types = std::string(event.Get(Text::kTypes)), .strides = ""})
          .bytes.has_value();
  if (!dims_say_size && elements.has_value() &&
      (dims.empty() || !event.Get(Text::kCollectiveType).empty())) {
    const OperatorInputs inputs =
        report::InputsOfTold(*elements, Unescape(event.Get(Text::kCollectiveType)));
    ASSIGN_OR_RETURN(op.inputs, texts_.Inputs(inputs.dims, inputs.types, inputs.strides));
  } else {
    ASSIGN_OR_RETURN(op.inputs,
                     texts_.Inputs(dims, event.Get(Text::kTypes), event.Get(Text::kStrides)));
  }
  return absl::OkStatus();
}

// Of steps that are numbered twice the first is kept.
bool CaptureBuilder::AddStep(std::string_view text, const Span& span, uint32_t thread) {
  if (!IsProfilerStep(text)) return false;
  text.remove_prefix(kProfilerStepPrefix.size());
  int64_t index = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  if (error == std::errc::result_out_of_range) {
    not_understood_.Count("ProfilerStep with a number beyond 64 bits");
  }
  if (error != std::errc() || end != text.data() + text.size() || index < 0) return false;
  if (index > kLastStep) {
    not_understood_.Count("ProfilerStep with a number beyond 2^53");
    return false;
  }
  const auto [at, inserted] =
      steps_.try_emplace(index, LoopStep{span.start_ns, span.end_ns(), thread});
  const bool is_same = at->second.start_ns == span.start_ns && at->second.end_ns == span.end_ns();
  if (!inserted && !is_same) {
    not_understood_.Count("ProfilerStep with the number of another");
    if (at->second.start_ns <= span.start_ns) return false;
    at->second = {span.start_ns, span.end_ns(), thread};
  }
  return true;
}

// Where the profiler says that it stopped, if it does.
void CaptureBuilder::NoteProfilerEnd(const TraceEvent& event) {
  if (!event.start.has_value()) return;
  const int64_t duration_ns = event.duration.has_value() ? event.duration->ns : 0;
  const std::optional<Span> span = Place(event.start->ns, duration_ns);
  if (span.has_value()) profiler_end_ns_ = std::max(profiler_end_ns_, span->end_ns());
}

// A step that goes on when the profiler has stopped is not recorded to its end, and its length says
// nothing about the program.
void CaptureBuilder::CoverSteps() {
  for (auto at = steps_.begin(); at != steps_.end();) {
    const Span span = {.start_ns = at->second.start_ns,
                       .duration_ns = at->second.end_ns - at->second.start_ns};
    const bool is_known = profiler_end_ns_ > span.start_ns;
    if (is_known && span.end_ns() - profiler_end_ns_ > span.duration_ns / kMostUnrecordedPart) {
      not_understood_.Count("ProfilerStep that ends after the recording");
      steps_.erase(at++);
      continue;
    }
    Cover(span);
    ++at;
  }
  KeepStepsOfOneLoop(steps_, not_understood_);
}

// torch's number of a thread stands where a node of autograd says on whose thread its forward
// operator ran: of the threads with an operator of its sequence number, the one most say.
void CaptureBuilder::FindTorchThreads() {
  torch_threads_.assign(rows_.size(), 0);
  absl::flat_hash_map<int64_t, uint32_t> forward;  // Thread, by sequence number.
  for (uint32_t thread = 0; thread < rows_.size(); ++thread) {
    for (const OperatorInfo& op : rows_[thread].operators) {
      if (op.sequence >= 0 && op.forward_thread == 0) forward.try_emplace(op.sequence, thread);
    }
  }
  std::map<std::pair<uint32_t, uint64_t>, int64_t> votes;
  for (const ThreadRows& rows : rows_) {
    for (const OperatorInfo& op : rows.operators) {
      if (op.sequence < 0 || op.forward_thread == 0) continue;
      const auto found = forward.find(op.sequence);
      if (found != forward.end()) ++votes[{found->second, op.forward_thread}];
    }
  }
  std::vector<int64_t> most(rows_.size());
  for (const auto& [who, count] : votes) {
    if (count <= most[who.first] || !std::in_range<uint32_t>(who.second)) continue;
    most[who.first] = count;
    torch_threads_[who.first] = static_cast<uint32_t>(who.second);
  }
}

absl::Status CaptureBuilder::FinishRanges(uint32_t thread, ThreadRows& rows) {
  const LostRanges lost = Nest(rows.ranges);
  contents_.event_count -= lost.other_count + lost.python_count;
  contents_.too_deep_count += lost.other_count;
  // Nothing of the program's time is lost by a frame of Python.
  if (lost.python_count > 0) {
    not_understood_.Count("python_function nested too deep", lost.python_count);
  }
  if (keeps_arguments_) {
    rows.range_places.resize(
        rows.ranges.size() + static_cast<size_t>(lost.other_count + lost.python_count), kLeftOut);
    for (size_t i = 0; i < rows.ranges.size(); ++i) {
      rows.range_places[rows.ranges[i].position] = static_cast<uint32_t>(i);
    }
  }
  std::vector<RangeRow> batch;
  for (size_t i = 0; i < rows.ranges.size(); ++i) {
    const ImportedRange& range = rows.ranges[i];
    batch.push_back({.start_ns = range.start_ns,
                     .duration_ns = range.duration_ns,
                     .name = range.name,
                     .depth = range.depth,
                     .category = range.category,
                     .flags = range.flags});
    if (batch.size() < kBatchRows && i + 1 < rows.ranges.size()) continue;
    RETURN_IF_ERROR(sink_.Append(thread, batch));
    batch.clear();
  }
  return FinishOperators(thread, rows);
}

absl::Status CaptureBuilder::FinishOperators(uint32_t thread, const ThreadRows& rows) {
  std::vector<OperatorRow> batch;
  for (const ImportedRange& range : rows.ranges) {
    if (range.op == 0) continue;
    const OperatorInfo& op = rows.operators[range.op - 1];
    batch.push_back({.start_ns = range.start_ns,
                     .depth = range.depth,
                     .scope = op.scope,
                     .sequence = op.sequence,
                     .forward_thread = op.forward_thread,
                     .torch_thread = torch_threads_[thread],
                     .inputs = op.inputs,
                     .scalars = op.scalars,
                     .stack = op.stack});
    if (batch.size() < kBatchRows) continue;
    RETURN_IF_ERROR(sink_.Append(thread, batch));
    batch.clear();
  }
  return sink_.Append(thread, batch);
}

absl::Status CaptureBuilder::FinishMemory(uint32_t thread, std::vector<MemoryRow>& rows) {
  std::vector<uint32_t> order(rows.size());
  std::iota(order.begin(), order.end(), 0);
  // A permutation is sorted instead of the rows: arguments that were kept refer to rows by their
  // position in the trace.
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return rows[a].time_ns < rows[b].time_ns; });
  std::vector<MemoryRow> batch;
  if (keeps_arguments_) rows_[thread].memory_places.resize(rows.size());
  for (size_t i = 0; i < order.size(); ++i) {
    if (keeps_arguments_) rows_[thread].memory_places[order[i]] = static_cast<uint32_t>(i);
    batch.push_back(rows[order[i]]);
    if (batch.size() < kBatchRows && i + 1 < order.size()) continue;
    RETURN_IF_ERROR(sink_.Append(thread, batch));
    batch.clear();
  }
  return absl::OkStatus();
}

absl::Status CaptureBuilder::FinishArguments() {
  int64_t start_ns = 0;
  // Too far away for any arrow, then.
  if (__builtin_add_overflow(contents_.epoch_ns, contents_.start_ns, &start_ns)) start_ns = 0;
  int64_t start_unix_ns = 0;
  if (keeps_arguments_ && !__builtin_add_overflow(base_unix_ns_, start_ns, &start_unix_ns) &&
      start_unix_ns <= 0) {
    RETURN_IF_ERROR(
        arguments_.AddNumber(report::kStartKey, start_unix_ns, report::kArgumentOfStart, 0));
  }
  // Of no thread: says that events without arguments had none.
  if (keeps_arguments_ && arguments_.empty()) {
    RETURN_IF_ERROR(arguments_.AddNumber("tid", 0, kArgumentOfThread, kLeftOut));
  }
  // Sorted, so that the same trace always gives the same file.
  const std::map<int64_t, uint32_t> wide_streams(wide_streams_.begin(), wide_streams_.end());
  for (const auto& [number, index] : wide_streams) {
    RETURN_IF_ERROR(
        arguments_.AddNumber(report::kWideStreamKey, number, report::kArgumentOfWideStream, index));
  }
  for (uint32_t thread = 0; keeps_arguments_ && thread < rows_.size(); ++thread) {
    const std::optional<int64_t> tid = threads_.SourceTid(thread);
    if (!tid.has_value()) continue;
    RETURN_IF_ERROR(arguments_.AddNumber("tid", *tid, kArgumentOfThread, thread));
  }
  return arguments_.Finish(
      [this](uint8_t of, uint32_t thread, uint32_t row) -> std::optional<uint32_t> {
        const bool is_of_range =
            of == kArgumentOfRange || of == kArgumentOfRange + report::kFlowsOf;
        if (!is_of_range && of != kArgumentOfMemory) return row;
        const ThreadRows& rows = rows_[thread];
        const uint32_t place = is_of_range ? rows.range_places[row] : rows.memory_places[row];
        return place == kLeftOut ? std::nullopt : std::optional(place);
      },
      start_ns, sink_);
}

absl::Status CaptureBuilder::FinishThread(uint32_t thread, ThreadRows& rows) {
  const auto by_time = [](const auto& a, const auto& b) { return a.time_ns < b.time_ns; };
  RETURN_IF_ERROR(FinishRanges(thread, rows));
  std::stable_sort(rows.instants.begin(), rows.instants.end(), by_time);
  std::stable_sort(rows.counters.begin(), rows.counters.end(), by_time);
  RETURN_IF_ERROR(FinishMemory(thread, rows.memory));
  RETURN_IF_ERROR(sink_.Append(thread, rows.instants));
  RETURN_IF_ERROR(sink_.Append(thread, rows.counters));
  // The rows are in the sink now. Their memory is given back before the next thread's are made; the
  // places are needed once more, for arguments.
  rows = {.range_places = std::move(rows.range_places),
          .memory_places = std::move(rows.memory_places)};
  return absl::OkStatus();
}

absl::Status CaptureBuilder::FinishSteps() {
  if (steps_.empty()) return absl::OkStatus();
  for (const auto& [index, step] : steps_) {
    contents_.steps.push_back({.index = index,
                               .window = 0,
                               .start_ns = step.start_ns - contents_.start_ns,
                               .duration_ns = step.end_ns - step.start_ns});
  }
  std::sort(contents_.steps.begin(), contents_.steps.end(),
            [](const StepRecord& a, const StepRecord& b) { return a.index < b.index; });
  // Marks say whose the steps are; when each ended, the steps themselves do.
  std::vector<StepRow> marks;
  for (const StepRecord& step : contents_.steps) {
    marks.push_back({.time_ns = step.start_ns + contents_.start_ns, .step = step.index});
  }
  return sink_.Append(steps_.at(contents_.steps.front().index).thread, marks);
}

// A window in which the host did nothing was not recorded: its GPU work has times that cannot be
// true (daemon/report/believed/impossible_times.h). Without it, the capture begins and ends
// elsewhere.
void CaptureBuilder::FinishWindows() {
  std::vector<std::pair<int64_t, int64_t>>& windows = contents_.windows;
  windows = coverage_.Windows(contents_.steps, contents_.start_ns, last_ns_, is_continuous_,
                              long_ranges_);
  if (windows.size() < 2 || host_coverage_.empty()) {
    return JoinNearest(store::kMaxImportedWindows, windows);
  }
  std::erase_if(windows, [this](const std::pair<int64_t, int64_t>& window) {
    return !host_coverage_.Touches(window.first, window.second);
  });
  if (const int64_t count = LeaveOutStrayMoments(contents_.steps, contents_.start_ns, windows);
      count > 0) {
    not_understood_.Count("a moment hours from all others, which is not in the capture", count);
  }
  for (StepRecord& step : contents_.steps) {
    step.start_ns -= windows.front().first - contents_.start_ns;
  }
  contents_.start_ns = windows.front().first;
  contents_.end_ns = windows.back().second;
  JoinNearest(store::kMaxImportedWindows, windows);
}

// By calls alone: they need not have the process's number that operators have, as in a container.
std::set<std::string> CaptureBuilder::RecordedPids() const {
  std::set<std::string> pids;
  for (size_t thread = 0; thread < rows_.size(); ++thread) {
    if (rows_[thread].call_count > 0) pids.insert(std::string(threads_.PidOf(thread)));
  }
  return pids;
}

absl::StatusOr<CaptureBuilder::Contents> CaptureBuilder::Finish() {
  RETURN_IF_ERROR(FinishPaired());
  unread_devices_.CountIn(not_understood_, threads_);
  CoverSteps();
  for (const auto& [stream, work] : streams_) last_ns_ = std::max(last_ns_, work.end_ns);
  for (const ThreadRows& rows : rows_) {
    last_ns_ = std::max({last_ns_, rows.calls.end_ns, rows.driver_calls.end_ns});
  }
  if (calls_.empty()) last_ns_ = std::max(last_ns_, syncs_end_ns_);  // Else they are in calls.
  // Events without a time, such as those of cudaEventRecord(), are no capture alone.
  if (!epoch_ns_.has_value() || last_ns_ < first_ns_) contents_.event_count = 0;
  if (contents_.event_count == 0) return std::move(contents_);
  contents_.epoch_ns = *epoch_ns_;
  contents_.start_ns = std::min(first_ns_, last_ns_);
  contents_.end_ns = last_ns_;
  for (const ThreadRow& thread : threads_.Rows()) RETURN_IF_ERROR(sink_.AddThread(thread));
  FindTorchThreads();
  contents_.recorded_pids = RecordedPids();
  for (size_t thread = 0; thread < rows_.size(); ++thread) {
    RETURN_IF_ERROR(FinishThread(static_cast<uint32_t>(thread), rows_[thread]));
  }
  RETURN_IF_ERROR(FinishGpu());
  RETURN_IF_ERROR(FinishSteps());
  FinishWindows();
  RETURN_IF_ERROR(FinishArguments());
  RETURN_IF_ERROR(stacks_.Finish(sink_));
  if (stacks_.left_out_count() > 0) {
    not_understood_.Count("Call stack beyond the limit of memory", stacks_.left_out_count());
  }
  contents_.stack_count = stacks_.stack_count();
  contents_.cut_stack_count = stacks_.cut_count();
  for (const auto& [key, work] : streams_) {
    const auto& [device, context, stream] = key;
    if (contents_.streams.size() == store::kMaxImportedStreams) {
      not_understood_.Count("GPU stream beyond the first 4,096, which is not in the list",
                            static_cast<int64_t>(streams_.size() - contents_.streams.size()));
      break;
    }
    contents_.streams.push_back({.context = context, .stream = stream, .device = device});
  }
  CountMissingIds();
  contents_.other_name_count = names_.other_count();
  contents_.cut_input_count = texts_.left_out_count();
  contents_.process = threads_.MainProcess();
  int64_t start_ns = 0;
  if (!__builtin_add_overflow(contents_.epoch_ns, contents_.start_ns, &start_ns)) {
    contents_.other_events = other_events_.Take(start_ns);
  }
  return std::move(contents_);
}

}  // namespace profd::importer
