#include "daemon/report/believed/impossible_calls.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "daemon/base/status_macros.h"
#include "daemon/report/index/wrapping_math.h"
#include "proto/wire/event.h"

namespace profd::report {
namespace {

// What a thread did after a call.
class AfterCalls {
 public:
  // Profilers convert the times of calls and of ranges in different ways. Real traces show
  // differences of some microseconds.
  static constexpr int64_t kOutlastsNs = 10'000'000;
  static constexpr int64_t kMostErrorNs = 5'000'000'000;  // That a capture's clock may have.
  static constexpr ptrdiff_t kFewestCalls = 3;

  struct Call {
    uint32_t thread;
    uint32_t name;
    uint32_t correlation;
    bool is_driver;
    int64_t start_ns;
    int64_t end_ns;
  };

  explicit AfterCalls(store::CaptureReader& reader)
      : reader_(reader),
        tolerance_ns_(kOutlastsNs +
                      std::clamp<int64_t>(reader.record().gpu.clock_error_ns, 0, kMostErrorNs)) {}

  absl::StatusOr<ImpossibleCalls> Find() {
    RETURN_IF_ERROR(ReadLongCalls());
    if (calls_.empty()) return std::move(found_);
    RETURN_IF_ERROR(ReadStarts());
    for (const Call& call : calls_) {
      const std::optional<int64_t> next_ns = NextOf(call);
      if (next_ns.has_value()) Note(call, Difference(*next_ns, call.start_ns));
    }
    return std::move(found_);
  }

 private:
  // Of one thread, sorted.
  struct Starts {
    bool is_wanted = false;
    std::vector<int64_t> ranges;
    std::array<std::vector<int64_t>, 2> calls;  // Of the runtime, and of the driver.
  };

  absl::Status ReadLongCalls() {
    return reader_.ForEach<ApiRow>([&](const ApiBatch& batch) {
      found_.call_count += static_cast<int64_t>(batch.size);
      for (size_t i = 0; i < batch.size; ++i) {
        if (batch.duration_ns[i] <= tolerance_ns_) continue;
        const int64_t end_ns = Sum(batch.start_ns[i], batch.duration_ns[i]);
        calls_.push_back({batch.thread, batch.name[i], batch.correlation[i],
                          batch.is_driver[i] != 0, batch.start_ns[i], end_ns});
        span_.begin_ns = std::min(span_.begin_ns, batch.start_ns[i]);
        span_.end_ns = std::max(span_.end_ns, end_ns);
        if (batch.thread >= starts_.size()) starts_.resize(batch.thread + size_t{1});
        starts_[batch.thread].is_wanted = true;
      }
      return absl::OkStatus();
    });
  }

  absl::Status ReadStarts() {
    constexpr uint32_t kColumns = kRangeStart | kRangeCategory | kRangeFlags;
    RETURN_IF_ERROR(reader_.ForEach<RangeRow>(kColumns, span_, [&](const RangeBatch& batch) {
      if (!IsWanted(batch.thread)) return absl::OkStatus();
      std::vector<int64_t>& starts = starts_[batch.thread].ranges;
      for (size_t i = 0; i < batch.size; ++i) {
        const bool is_python =
            batch.category[i] == static_cast<uint8_t>(wire::RangeCategory::kPython);
        // Where a range that began before the window began is not known.
        if (!is_python && (batch.flags[i] & kRangeTruncated) == 0) {
          starts.push_back(batch.start_ns[i]);
        }
      }
      return absl::OkStatus();
    }));
    RETURN_IF_ERROR(reader_.ForEach<ApiRow>(span_, [&](const ApiBatch& batch) {
      if (!IsWanted(batch.thread)) return absl::OkStatus();
      for (size_t i = 0; i < batch.size; ++i) {
        starts_[batch.thread].calls[batch.is_driver[i] != 0 ? 1 : 0].push_back(batch.start_ns[i]);
      }
      return absl::OkStatus();
    }));
    for (Starts& of : starts_) {
      std::ranges::sort(of.ranges);
      for (std::vector<int64_t>& calls : of.calls) std::ranges::sort(calls);
    }
    return absl::OkStatus();
  }

  bool IsWanted(uint32_t thread) const {
    return thread < starts_.size() && starts_[thread].is_wanted;
  }

  // When its thread did something else, at the latest; nullopt: not while it lasted.
  std::optional<int64_t> NextOf(const Call& call) const {
    const int64_t before_ns = Difference(call.end_ns, tolerance_ns_);
    const Starts& starts = starts_[call.thread];
    std::optional<int64_t> next_ns = NextIn(starts.ranges, 1, call.start_ns, before_ns);
    const std::optional<int64_t> next_call_ns =
        CallsItsOwnApi(call)
            ? std::nullopt
            : NextIn(starts.calls[call.is_driver ? 1 : 0], kFewestCalls, call.start_ns, before_ns);
    if (next_call_ns.has_value() && next_call_ns < next_ns.value_or(*next_call_ns + 1)) {
      next_ns = next_call_ns;
    }
    return next_ns;
  }

  // HIP is written in HIP.
  bool CallsItsOwnApi(const Call& call) const {
    return reader_.names()[call.name].starts_with("hip");
  }

  // The first after `start_ns` of at least `fewest` that are before `before_ns`.
  static std::optional<int64_t> NextIn(std::span<const int64_t> sorted, ptrdiff_t fewest,
                                       int64_t start_ns, int64_t before_ns) {
    const auto first = std::ranges::upper_bound(sorted, start_ns);
    if (sorted.end() - first < fewest || first[fewest - 1] >= before_ns) return std::nullopt;
    return *first;
  }

  void Note(const Call& call, int64_t possible_ns) {
    const int64_t recorded_ns = Difference(call.end_ns, call.start_ns);
    found_.possible_ns[{call.thread, call.start_ns, recorded_ns}] = possible_ns;
    if (call.correlation != 0) found_.over_ns[call.correlation] = Sum(call.start_ns, possible_ns);
    ++found_.overlong_count;
    if (recorded_ns - possible_ns <= found_.overlong_ns - found_.overlong_possible_ns) return;
    found_.overlong_name = call.name;
    found_.overlong_ns = recorded_ns;
    found_.overlong_possible_ns = possible_ns;
  }

  store::CaptureReader& reader_;
  const int64_t tolerance_ns_;
  std::vector<Call> calls_;  // Those of more than tolerance_ns_.
  store::TimeFilter span_ = {.begin_ns = std::numeric_limits<int64_t>::max(),
                             .end_ns = std::numeric_limits<int64_t>::min()};
  std::vector<Starts> starts_;  // By thread.
  ImpossibleCalls found_;
};

}  // namespace

absl::StatusOr<ImpossibleCalls> FindImpossibleCalls(store::CaptureReader& reader) {
  return AfterCalls(reader).Find();
}

}  // namespace profd::report
