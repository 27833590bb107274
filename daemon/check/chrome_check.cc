#include "daemon/check/chrome_check.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_set.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/check/chrome_event.h"
#include "daemon/check/chrome_timeline.h"
#include "daemon/check/json_reader.h"

namespace profd::check {
namespace {

// What is remembered of a file is bounded: anybody may have written it.
constexpr size_t kMostNameBytes = 4096;
constexpr size_t kMostSteps = 100'000;
constexpr size_t kMostCategories = 32;
constexpr int64_t kWeekNs = int64_t{7} * 24 * 3600 * 1'000'000'000;
// Our own rows of devices whose number is a process's pid, and those of merged traces.
constexpr int64_t kFirstOwnPid = 5'000'000;
constexpr std::string_view kStepPrefix = "ProfilerStep#";
constexpr std::string_view kPhases = "XBEiInIbecstfTFPNODMCSpVvRar(),";

bool IsKnownCategory(std::string_view category) {
  static const auto& kKnown = *new std::set<std::string_view>{"cpu_op",
                                                              "user_annotation",
                                                              "gpu_user_annotation",
                                                              "cuda_runtime",
                                                              "cuda_driver",
                                                              "hip_runtime",
                                                              "kernel",
                                                              "gpu_memcpy",
                                                              "gpu_memset",
                                                              "cuda_sync",
                                                              "cuda_event",
                                                              "overhead",
                                                              "python_function",
                                                              "cpu_instant_event",
                                                              "hardware_counters",
                                                              "Trace"};
  return kKnown.contains(category);
}

bool IsOfTheCpu(std::string_view category) {
  return category == "cpu_op" || category == "user_annotation" || category == "cuda_runtime" ||
         category == "cuda_driver" || category == "hip_runtime" || category == "python_function";
}

// Calls that HTA takes for launches.
bool IsLaunch(std::string_view name) {
  return name == "cudaLaunchKernel" || name == "cudaLaunchKernelExC" || name == "cuLaunchKernel" ||
         name == "cuLaunchKernelEx" || name == "hipLaunchKernel" ||
         name == "hipExtModuleLaunchKernel";
}
bool IsLaunchWithSuffix(std::string_view name) {
  const size_t suffix = name.rfind('_');
  return suffix != std::string_view::npos &&
         (IsLaunch(name.substr(0, suffix)) || name.starts_with("cudaMemcpyAsync_") ||
          name.starts_with("cudaMemsetAsync_"));
}

// What stands after "ProfilerStep#", as TensorBoard's plugin reads it.
std::optional<int64_t> StepNumber(std::string_view name) {
  std::string_view digits = name.substr(kStepPrefix.size());
  digits = digits.substr(0, digits.find('#'));
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (digits.empty() || !std::all_of(digits.begin(), digits.end(), is_digit)) return std::nullopt;
  int64_t number = std::numeric_limits<int64_t>::max();  // Stays where there are too many digits.
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

class ChromeChecker {
 public:
  ChromeChecker(ByteSource& source, FindingLog& log, CheckReport& report)
      : json_(source, log), log_(log), report_(report), timeline_(log) {}

  absl::Status Check() {
    if (json_.Peek() == JsonReader::Kind::kArray) {
      log_.Add(Rule::kEventList, "the file is a bare list of events");
      has_events_ = true;
      ReadEvents();
    } else {
      ReadObject();
    }
    json_.ExpectEnd();
    if (!json_.error().empty()) log_.Add(Rule::kJsonSyntax, json_.error());
    RETURN_IF_ERROR(json_.status());
    if (json_.ok() && !has_events_) {
      return absl::InvalidArgumentError(
          "this is not a trace: its JSON has no list \"traceEvents\"");
    }
    if (json_.ok() && report_.event_count > 0 && objects_ == 0) {
      return absl::InvalidArgumentError(
          "this is not a trace: its list has something else than events");
    }
    JudgeWhole();
    return absl::OkStatus();
  }

 private:
  void ReadObject() {
    if (!json_.EnterObject()) return;
    std::string_view key;
    while (json_.NextKey(key)) {
      if (key == "traceEvents") {
        if (json_.Peek() == JsonReader::Kind::kArray) has_events_ = true;
        ReadEvents();
      } else if (key == "distributedInfo") {
        ReadDistributedInfo();
      } else {
        json_.Skip();
      }
    }
  }

  void ReadDistributedInfo() {
    if (!json_.EnterObject()) return;
    std::string_view key;
    while (json_.NextKey(key)) {
      if (key != "rank") {
        json_.Skip();
        continue;
      }
      has_rank_ = true;
      // HTA does not parse the file for its rank. It searches the text for the first "rank": N.
      if (!json_.space_before_value()) {
        log_.Add(Rule::kRank, "there is no white space after \"rank\": at byte ", json_.offset());
      } else if (json_.spaced_ranks() != 1) {
        log_.Add(Rule::kRank, "another \"rank\": N stands before that of distributedInfo, at byte ",
                 json_.offset());
      }
      json_.Skip();
    }
  }

  void ReadEvents() {
    if (!json_.EnterArray()) return;
    while (json_.NextItem()) {
      event_.number = report_.event_count;
      if (!ReadChromeEvent(json_, event_)) {
        if (!json_.ok()) return;
        log_.Add(Rule::kEvent, "event ", event_.number, " is not an object");
      } else {
        ++objects_;
        CheckEvent();
      }
      ++report_.event_count;
    }
  }

  void CheckEvent() {
    if (event_.phase == '\0' || kPhases.find(event_.phase) == std::string_view::npos) {
      log_.Add(Rule::kEvent, Describe(event_), " has no phase that is known");
      return;
    }
    CheckName();
    // Metadata describes processes and threads; it has no time of its own.
    if (event_.phase == 'M') return;
    const bool has_time = CheckTime();
    const bool has_row = CheckRow();
    CheckArguments();
    if (!has_time || !has_row) return;
    switch (event_.phase) {
      case 'X':
        return CheckSlice();
      case 'B':
      case 'E':
        return timeline_.AddHalf(event_);
      case 's':
      case 't':
      case 'f':
        return CheckFlow();
      default:
        return;
    }
  }

  void CheckName() {
    if (!event_.has_name) {
      log_.Add(Rule::kEventName, "event ", event_.number, " at byte ", event_.offset,
               " has no name");
    } else if (event_.name.empty() || !IsPrintableUtf8(event_.name)) {
      log_.Add(Rule::kNameText, "the name of ", Describe(event_),
               event_.name.empty() ? " is empty" : " has control characters");
    } else if (event_.name.size() > kMostNameBytes) {
      log_.Add(Rule::kNameLength, "the name of ", Describe(event_), " has ", event_.name.size(),
               " bytes");
    }
  }

  bool CheckTime() {
    if (event_.time.is_rounded) {
      log_.Add(Rule::kTimePrecision, "ts of ", Describe(event_), " is ", event_.time.ns / 1000,
               " us and a fraction");
    }
    if (event_.time.is_number && event_.time.ns >= 0) return true;
    log_.Add(Rule::kEventTime, Describe(event_),
             event_.time.is_number    ? " has a negative ts"
             : event_.time.is_present ? " has a ts that is not a number below 2^53"
                                      : " has no ts");
    return false;
  }

  // Only slices are on rows: instants and counters may be the process's, or everybody's.
  bool CheckRow() {
    const bool is_span = event_.category == "Trace";  // Kineto's own, of a row called "Spans".
    if (event_.pid.is_integer && event_.tid.is_integer) return true;
    if (event_.phase == 'X' && !is_span) {
      log_.Add(Rule::kEventRow, Describe(event_), " is of no row: its ",
               event_.pid.is_integer ? "tid" : "pid", " is not an integer");
    }
    return event_.pid.is_present;
  }

  void CheckArguments() {
    if (event_.name != "[memory]" || (event_.phase != 'i' && event_.phase != 'I')) return;
    if (event_.has_bytes && event_.has_device_type && event_.has_device_id) return;
    log_.Add(Rule::kMemoryArguments, Describe(event_), " has no ",
             !event_.has_bytes         ? "Bytes"
             : !event_.has_device_type ? "Device Type"
                                       : "Device Id");
  }

  void CheckFlow() {
    if (!event_.id.is_present) {
      log_.Add(Rule::kFlowId, Describe(event_), " has no id");
      return;
    }
    timeline_.AddFlow(event_);
  }

  void CheckSlice() {
    if (!event_.has_category) {
      log_.Add(Rule::kEventCategory, Describe(event_), " has no category");
    } else {
      CountCategory();
    }
    if (!event_.duration.is_number || event_.duration.ns < 0 || event_.duration.ns > kWeekNs) {
      log_.Add(Rule::kEventDuration, Describe(event_),
               !event_.duration.is_present  ? " has no dur"
               : !event_.duration.is_number ? " has a dur that is not a number"
               : event_.duration.ns < 0     ? " has a negative dur"
                                            : " lasts more than 7 days");
      return;
    }
    timeline_.AddSlice(event_);
    // Kineto's span of the whole recording. A trace with nothing else has nothing to show.
    if (event_.category == "Trace") return;
    ++slices_;
    if (event_.is_gpu_call()) CheckCall();
    if (event_.is_gpu_work()) CheckWork();
    if (event_.name.starts_with(kStepPrefix)) CheckStep();
    if (IsOfTheCpu(event_.category) && event_.stream.value_or(-1) >= 0 &&
        event_.correlation.value_or(-1) >= 0) {
      log_.Add(Rule::kCpuStream, Describe(event_), " has the stream ", *event_.stream);
    }
  }

  void CountCategory() {
    if (IsKnownCategory(event_.category)) return;
    const std::string category = ForDisplay(event_.category, 60);
    if (unknown_categories_.size() >= kMostCategories && !unknown_categories_.contains(category)) {
      ++unknown_categories_["others"];
    } else {
      ++unknown_categories_[category];
    }
  }

  void CheckCall() {
    // HTA takes the position of an event for its index, and the index 0 for `no launch`.
    if (event_.number == 0) {
      log_.Add(Rule::kLaunchFirst, Describe(event_), " is the first event");
    }
    ++calls_;
    if (IsLaunch(event_.name)) {
      ++known_launches_;
    } else if (IsLaunchWithSuffix(event_.name)) {
      log_.Add(Rule::kLaunchName, Describe(event_), " has a suffix");
    }
    timeline_.AddCall(event_);
  }

  void CheckWork() {
    const auto is_bad = [](const std::optional<int64_t>& value) { return value.value_or(-1) < 0; };
    if (is_bad(event_.stream) || is_bad(event_.correlation) || is_bad(event_.device)) {
      log_.Add(Rule::kGpuArguments, Describe(event_), " has no ",
               is_bad(event_.stream)        ? "stream"
               : is_bad(event_.correlation) ? "correlation"
                                            : "device");
      return;
    }
    if (event_.pid.value != *event_.device && event_.pid.value < kFirstOwnPid) {
      log_.Add(Rule::kGpuProcess, Describe(event_), " is of device ", *event_.device,
               " and stands in process ", event_.pid.value);
    }
    ++work_;
    if (event_.category == "kernel") ++kernels_;
    if (*event_.stream == 0 && work_on_stream_0_++ == 0) first_on_stream_0_ = Describe(event_);
    timeline_.AddWork(event_);
  }

  void CheckStep() {
    const bool is_annotation =
        event_.category == "user_annotation" || event_.category == "gpu_user_annotation";
    if (!is_annotation && event_.category != "cpu_op") return;
    const std::optional<int64_t> number = StepNumber(event_.name);
    if (!number.has_value()) {
      log_.Add(Rule::kStepName, Describe(event_), " has no number");
      return;
    }
    // Each stream of a GPU has those again that kept it busy.
    if (event_.category == "gpu_user_annotation" || steps_.size() >= kMostSteps) return;
    if (!steps_.insert({event_.pid.value, *number}).second) {
      log_.Add(Rule::kStepTwice, Describe(event_), " appears twice");
    }
  }

  void JudgeWhole() {
    timeline_.Judge();
    if (json_.ok() && slices_ == 0) {
      log_.Add(Rule::kNoSlices, StrCat("none of ", report_.event_count, " events is a slice"));
    }
    if (slices_ > 0) JudgeSteps();
    if (kernels_ > 0 && calls_ > 0 && known_launches_ == 0) {
      log_.Add(Rule::kLaunchUnknown, calls_, " calls, and none that it knows");
    }
    if (json_.ok() && !has_rank_) log_.Add(Rule::kNoRank, "there is no rank in distributedInfo");
    for (const auto& [category, count] : unknown_categories_) {
      log_.AddMany(Rule::kUnknownCategory, count,
                   StrCat(count, " slices of the category \"", category, "\""));
    }
    if (!timeline_.whole()) {
      report_.unchecked.push_back(StrCat(
          "arrows, launches, pairs of B and E, and a part of the nesting: they take more than ",
          kMostCheckBytes >> 20, " MiB"));
    }
    if (timeline_.has_several_callers() && work_ > 0) {
      report_.unchecked.push_back(
          "whether GPU work begins after its launch: several processes launch some, and number "
          "it each for itself");
    }
  }

  void JudgeSteps() {
    if (steps_.empty()) {
      log_.Add(Rule::kNoSteps, "no slice is called ", kStepPrefix, "N");
    } else if (steps_.size() == 1) {
      log_.Add(Rule::kOneStep, "there is one step, ", kStepPrefix, steps_.begin()->second);
    } else {
      // HTA assigns work on stream 0 to no step, which matters only where steps are compared.
      log_.AddMany(Rule::kStreamZero, work_on_stream_0_, first_on_stream_0_);
    }
  }

  JsonReader json_;
  FindingLog& log_;
  CheckReport& report_;
  ChromeTimeline timeline_;
  ChromeEvent event_;
  bool has_events_ = false;
  bool has_rank_ = false;
  int64_t objects_ = 0;
  int64_t slices_ = 0;
  int64_t calls_ = 0;
  int64_t known_launches_ = 0;
  int64_t kernels_ = 0;
  int64_t work_ = 0;
  int64_t work_on_stream_0_ = 0;
  std::string first_on_stream_0_;
  std::set<std::pair<int64_t, int64_t>> steps_;  // Of a process, by number.
  std::map<std::string, int64_t> unknown_categories_;
};

}  // namespace

absl::Status CheckChrome(ByteSource& source, FindingLog& log, CheckReport& report) {
  return ChromeChecker(source, log, report).Check();
}

}  // namespace profd::check
