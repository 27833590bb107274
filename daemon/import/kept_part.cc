#include "daemon/import/kept_part.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/import/exact_time.h"
#include "daemon/import/trace_category.h"
#include "daemon/import/trace_event.h"
#include "daemon/import/trace_splitter.h"
#include "daemon/report/index/gpu_names.h"

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
    // Kineto writes the host's operators first and GPU activities after them. A file that ends
    // among these lacks the calls after the last one that it has.
    if (is_last_of_gpu_ && !calls_.empty()) {
      const int64_t last_call_ns = std::ranges::max_element(calls_, {}, &Call::start_ns)->start_ns;
      part.end_ns = std::min(part.end_ns, last_call_ns);
    }
    LeaveOutLastLaunches(part);
    for (const Call& call : calls_) {
      if (call.start_ns <= part.end_ns) part.launches.insert(call.correlation);
    }
    return part;
  }

 private:
  struct Call {
    int64_t start_ns;
    uint32_t correlation;
    bool is_launch;
  };

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
    if (is_work && is_linked) worked_.insert(static_cast<uint32_t>(correlation));
    if (is_call && is_linked) {
      calls_.push_back({.start_ns = event.start->ns,
                        .correlation = static_cast<uint32_t>(correlation),
                        .is_launch = report::LaunchesWork(event.name)});
    }
    if (std::max(calls_.size(), worked_.size()) <= KeptPart::kMaxCalls) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        StrCat("it is cut off, and has more than ", KeptPart::kMaxCalls, " calls"));
  }

  // Of a file without any work, nothing is known of the GPU, and the end says nothing.
  void LeaveOutLastLaunches(KeptPart& part) {
    int64_t last_with_work_ns = std::numeric_limits<int64_t>::min();
    for (const Call& call : calls_) {
      if (call.start_ns > part.end_ns || !call.is_launch || !worked_.contains(call.correlation)) {
        continue;
      }
      last_with_work_ns = std::max(last_with_work_ns, call.start_ns);
    }
    if (last_with_work_ns == std::numeric_limits<int64_t>::min()) return;
    for (const Call& call : calls_) {
      if (!call.is_launch || call.start_ns <= last_with_work_ns) continue;
      part.end_ns = std::min(part.end_ns, call.start_ns - 1);  // No overflow: a call came before.
    }
  }

  const std::function<bool()>& is_cancelled_;
  EventParser parser_;
  bool has_all_events_ = false;
  bool is_last_of_gpu_ = false;
  std::optional<int64_t> first_start_ns_;
  std::optional<int64_t> last_start_ns_;
  std::vector<Call> calls_;
  absl::flat_hash_set<uint32_t> worked_;
};

}  // namespace

absl::StatusOr<std::optional<KeptPart>> FindKeptPart(TraceFile& file,
                                                     const std::function<bool()>& is_cancelled) {
  KeptPartSearch search(is_cancelled);
  RETURN_IF_ERROR(TraceSplitter(file, search).Run());
  return search.Result();
}

}  // namespace profd::importer
