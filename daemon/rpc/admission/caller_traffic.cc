#include "daemon/rpc/admission/caller_traffic.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "daemon/base/str_cat.h"

namespace profd::rpc {
namespace {

struct KindLimit {
  double per_second;
  double burst;
  std::string_view name;
};
// In the order of the amounts below; the header has the table.
constexpr std::array<KindLimit, 5> kLimits = {{{200, 400, "new connections"},
                                               {2500, 12'000, "calls"},
                                               {500, 1000, "resets of calls"},
                                               {500, 1000, "HTTP/2 control frames"},
                                               {5000, 24'000, "small DATA frames"}}};

}  // namespace

std::optional<std::string> CallerTraffic::Take(const std::string& caller,
                                               const FrameCounts& counts) {
  return TakeAmounts(caller, {0, counts.headers, counts.resets, counts.control, counts.small_data});
}

std::optional<std::string> CallerTraffic::TakeConnection(const std::string& caller) {
  return TakeAmounts(caller, {1, 0, 0, 0, 0});
}

std::optional<std::string> CallerTraffic::TakeAmounts(const std::string& caller,
                                                      const std::array<int64_t, kKinds>& amounts) {
  const absl::Duration now = clock_.Monotonic();
  absl::MutexLock lock(&mu_);
  // The number of budgets is bounded, because a caller that makes certificates can have as many
  // names as it likes.
  const bool has_room =
      budgets_.size() < kMaxBudgets || budgets_.contains(caller) || ForgetTheQuiet(now);
  // Those for whom there is no room have one together.
  const auto [it, is_new] = budgets_.try_emplace(has_room ? caller : std::string());
  Budget& budget = it->second;
  if (is_new) {
    for (size_t i = 0; i < kKinds; ++i) budget.tokens[i] = kLimits[i].burst;
    budget.filled = now;
  }
  const double seconds = absl::ToDoubleSeconds(now - budget.filled);
  budget.filled = now;
  std::optional<std::string> exceeded;
  for (size_t i = 0; i < kKinds; ++i) {
    double& tokens = budget.tokens[i];
    tokens = std::min(kLimits[i].burst, tokens + seconds * kLimits[i].per_second);
    const auto amount = static_cast<double>(amounts[i]);
    if (amount > tokens) {
      exceeded = StrCat("more than ", static_cast<int64_t>(kLimits[i].per_second), " ",
                        kLimits[i].name, " per second");
    }
    // Does not get into debt: a budget is never used up for longer than it takes to fill.
    tokens = std::max(0.0, tokens - amount);
  }
  return exceeded;
}

bool CallerTraffic::ForgetTheQuiet(absl::Duration now) {
  if (now < next_look_) return false;
  next_look_ = now + absl::Seconds(1);
  // After so long a quiet caller has a full budget.
  std::erase_if(budgets_,
                [now](const auto& entry) { return now - entry.second.filled > absl::Seconds(10); });
  return budgets_.size() < kMaxBudgets;
}

size_t CallerTraffic::budget_count() const {
  const absl::MutexLock lock(&mu_);
  return budgets_.size();
}

void CallerTraffic::NoteEnd(std::string_view connection, std::string_view why) {
  ended_count_.fetch_add(1, std::memory_order_relaxed);
  if (const auto more = log_limiter_.Allow()) {
    LogWarning(StrCat(connection, ": connection ended: ", why, " (", *more, " more)"));
  }
}

std::optional<std::string> CallerTraffic::AddUnfinished(const std::string& caller, int64_t bytes) {
  const absl::MutexLock lock(&mu_);
  all_unfinished_ += bytes;
  const auto it = unfinished_.try_emplace(caller).first;
  const int64_t of_caller = it->second += bytes;
  if (of_caller == 0) unfinished_.erase(it);
  if (bytes <= 0) return std::nullopt;
  if (of_caller > kMaxUnfinishedBytes) {
    return StrCat("more than ", kMaxUnfinishedBytes >> 20, " MiB of messages without an end");
  }
  if (all_unfinished_ > kManyUnfinishedBytes && of_caller > kFewUnfinishedBytes) {
    return StrCat("more than ", kManyUnfinishedBytes >> 20,
                  " MiB of messages without an end, of all callers together");
  }
  return std::nullopt;
}

int64_t CallerTraffic::unfinished_bytes() const {
  const absl::MutexLock lock(&mu_);
  return all_unfinished_;
}

CallerMeter::~CallerMeter() { End(); }

void CallerMeter::End() {
  int64_t given_back = 0;
  {
    const absl::MutexLock lock(&mu_);
    has_ended_ = true;
    given_back = std::exchange(unfinished_bytes_, 0);
  }
  if (given_back != 0) traffic_->AddUnfinished(caller_, -given_back);
}

bool CallerMeter::OnReceived(std::span<const std::byte> bytes) {
  FrameCounts counts;
  std::optional<std::string> exceeded;
  int64_t more_unfinished = 0;
  {
    const absl::MutexLock lock(&mu_);
    if (has_ended_) return true;
    scanner_.Scan(bytes, counts);
    exceeded = Judge(counts, more_unfinished);
  }
  if (more_unfinished != 0) {
    const std::optional<std::string> why = traffic_->AddUnfinished(caller_, more_unfinished);
    if (!exceeded.has_value()) exceeded = why;
  }
  if (!exceeded.has_value() && counts != FrameCounts{}) exceeded = traffic_->Take(caller_, counts);
  if (!exceeded.has_value()) return true;
  traffic_->NoteEnd(connection_, *exceeded);
  return false;
}

std::optional<std::string> CallerMeter::Judge(const FrameCounts& counts, int64_t& more_unfinished) {
  // Only the change is passed on, so the sum over all callers is kept without walking over their
  // connections.
  more_unfinished = scanner_.unfinished_bytes() - unfinished_bytes_;
  unfinished_bytes_ = scanner_.unfinished_bytes();
  if (scanner_.unfinished_count() > CallerTraffic::kMaxUnfinishedMessages) {
    return "too many messages without an end";
  }
  if (settings_acknowledged_) return std::nullopt;
  settings_acknowledged_ = counts.settings_acks > 0;
  calls_before_settings_ += counts.headers;
  if (settings_acknowledged_ || calls_before_settings_ <= CallerTraffic::kMaxCallsBeforeSettings) {
    return std::nullopt;
  }
  return "too many calls before the settings were acknowledged";
}

void CallerMeter::OnFiles(std::vector<UniqueFd> files) {
  traffic_->NoteEnd(connection_, "it passed file descriptors");
  if (closer_ != nullptr) closer_->ClosePassed(std::move(files));
}

}  // namespace profd::rpc
