#include "daemon/import/kept_part.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/import/complete_range.h"
#include "daemon/import/exact_time.h"
#include "daemon/import/trace_category.h"
#include "daemon/import/trace_event.h"
#include "daemon/import/trace_splitter.h"
#include "daemon/report/index/gpu_names.h"
#include "daemon/report/index/step_names.h"

namespace profd::importer {
namespace {

class KeptPartSearch : public TraceSplitter::Handler {
 public:
  explicit KeptPartSearch(const std::function<bool()>& is_cancelled)
      : is_cancelled_(is_cancelled) {}

  absl::Status OnMember(std::string_view, std::string_view, int64_t) override {
    return absl::OkStatus();
  }
  absl::Status OnCutOff(const TraceSplitter::CutOff&) override { return absl::OkStatus(); }
  absl::Status OnEvents(std::string_view array, int64_t offset) override {
    if (is_cancelled_ && is_cancelled_()) return absl::CancelledError();
    return parser_.Parse(
        array, offset, [this](const TraceEvent& event) { return Add(event); },
        [](const TraceEvent&, std::string_view) {}, [](int64_t) {});
  }

  std::optional<KeptPart> Result() {
    if (has_all_events_ || !last_start_ns_.has_value()) return std::nullopt;
    KeptPart part = {.end_ns = *last_start_ns_, .launches = {}};
    if (!has_gpu_) return part;
    // Kineto writes what the host did before all of the GPU's: a file with calls has all of that.
    const bool has_whole_host = is_last_of_gpu_ && !has_host_after_gpu_;
    if (has_whole_host) part.end_ns = last_host_ns_.value_or(part.end_ns);
    const std::optional<CompleteRange> range = FindCompleteRange(events_);
    part.has_gpu = range.has_value() && range->begin_ns < part.end_ns;
    if (!part.has_gpu) return part;
    part.begin_ns = range->begin_ns;
    part.end_ns = has_whole_host ? range->end_ns : std::min(part.end_ns, range->end_ns);
    if (!range->has_step) return part;
    for (const CompleteRangeInput::Call& call : events_.calls) {
      if (call.start_ns <= part.end_ns) part.launches.insert(call.correlation);
    }
    return part;
  }

 private:
  absl::Status Add(const TraceEvent& event) {
    if (event.phase == 'i' && event.name == "Record Window End") has_all_events_ = true;
    const bool is_event = event.phase == 'X' || event.phase == 'i' || event.phase == 'I' ||
                          event.phase == 'B' || event.phase == 'E' || event.phase == 'C';
    if (!is_event || !event.start.has_value()) return absl::OkStatus();
    // What is out of reach of the others is damaged: nothing ends there.
    if (!first_start_ns_.has_value()) first_start_ns_ = event.start->ns;
    int64_t since_first_ns = 0;
    if (__builtin_sub_overflow(event.start->ns, *first_start_ns_, &since_first_ns) ||
        since_first_ns < -kMostReachNs || since_first_ns > kMostReachNs) {
      return absl::OkStatus();
    }
    const Category category = CategoryOf(event.category);
    // They follow from others, or are of no order.
    if (category == Category::kGpuAnnotation || category == Category::kDerived ||
        category == Category::kOverhead || category == Category::kCudaEvent) {
      return absl::OkStatus();
    }
    if (event.name.starts_with("Iteration Start")) return absl::OkStatus();
    last_start_ns_ = event.start->ns;
    const int64_t correlation = event.Get(Number::kCorrelation, 0);
    const bool is_linked = correlation != 0 && std::in_range<uint32_t>(correlation);
    const bool is_call = category == Category::kRuntime || category == Category::kDriver;
    const bool is_work = category == Category::kKernel || category == Category::kMemcpy ||
                         category == Category::kMemset;
    is_last_of_gpu_ = is_call || is_work || category == Category::kSync;
    if (is_last_of_gpu_) {
      has_gpu_ = true;
    } else {
      has_host_after_gpu_ |= has_gpu_;
      last_host_ns_ = std::max(last_host_ns_.value_or(event.start->ns), event.start->ns);
      AddStep(event, category);
    }
    if (is_work && is_linked) AddWork(event, static_cast<uint32_t>(correlation));
    if (is_call && is_linked) AddCall(event, static_cast<uint32_t>(correlation));
    const size_t most = std::max({events_.calls.size(), events_.work.size(), events_.steps.size()});
    if (most <= KeptPart::kMaxCalls) return absl::OkStatus();
    return absl::ResourceExhaustedError(StrCat("it is cut off, and has more than ",
                                               KeptPart::kMaxCalls,
                                               " calls, GPU activities, or steps"));
  }

  void AddStep(const TraceEvent& event, Category category) {
    const bool may_be_step = category == Category::kAnnotation || category == Category::kOperator;
    int64_t end_ns = 0;
    if (!may_be_step || event.phase != 'X' || !report::IsProfilerStep(event.name) ||
        !event.duration.has_value() ||
        __builtin_add_overflow(event.start->ns, event.duration->ns, &end_ns)) {
      return;
    }
    events_.steps.push_back({.start_ns = event.start->ns, .end_ns = end_ns});
  }

  void AddCall(const TraceEvent& event, uint32_t correlation) {
    using enum CompleteRangeInput::CallKind;
    const bool is_copy = event.name.find("Memcpy") != std::string_view::npos;
    const bool is_memset = event.name.find("Memset") != std::string_view::npos;
    events_.calls.push_back({.start_ns = event.start->ns,
                             .correlation = correlation,
                             .kind = report::LaunchesWork(event.name) ? kLaunch
                                     : is_copy                        ? kCopy
                                     : is_memset                      ? kMemset
                                                                      : kOther});
  }

  void AddWork(const TraceEvent& event, uint32_t correlation) {
    const std::pair stream(event.Get(Number::kDevice, 0), event.Get(Number::kStream, 0));
    const auto index =
        streams_.try_emplace(stream, static_cast<uint32_t>(streams_.size())).first->second;
    const int64_t graph = event.Get(Number::kGraph, 0);
    events_.work.push_back(
        {.start_ns = event.start->ns,
         .correlation = correlation,
         .graph = std::in_range<uint32_t>(graph) ? static_cast<uint32_t>(graph) : 0,
         .stream = index,
         .duration_ns = static_cast<uint32_t>(
             std::clamp<int64_t>(event.duration.has_value() ? event.duration->ns : 0, 0,
                                 std::numeric_limits<uint32_t>::max()))});
  }

  const std::function<bool()>& is_cancelled_;
  EventParser parser_;
  bool has_all_events_ = false;
  bool has_gpu_ = false;
  bool is_last_of_gpu_ = false;
  bool has_host_after_gpu_ = false;
  std::optional<int64_t> first_start_ns_;
  std::optional<int64_t> last_start_ns_;
  std::optional<int64_t> last_host_ns_;
  CompleteRangeInput events_;
  std::map<std::pair<int64_t, int64_t>, uint32_t> streams_;
};

}  // namespace

absl::StatusOr<std::optional<KeptPart>> FindKeptPart(TraceFile& file,
                                                     const std::function<bool()>& is_cancelled) {
  KeptPartSearch search(is_cancelled);
  RETURN_IF_ERROR(TraceSplitter(file, search).Run());
  return search.Result();
}

}  // namespace profd::importer
