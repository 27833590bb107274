#include "cli/captures/progress.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <system_error>
#include <utility>

#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/units.h"

namespace profd::cli {

void ProgressLine::Show(std::string_view text) {
  if (!style_.is_terminal || text == shown_) return;
  shown_ = std::string(text);
  // One column less: a full line would wrap, and \r clears only its last row.
  const auto width = static_cast<size_t>(std::max(2, style_.width) - 1);
  const std::string line = StrCat("\r\033[K", CutToWidth(ForDisplay(text, 1000), width));
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
}

void ProgressLine::Clear() {
  if (shown_.empty()) return;
  shown_.clear();
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
}

WorkingLine::WorkingLine(const Style& error_style, std::string what, absl::Duration a_while) {
  if (!error_style.is_terminal) return;
  try {
    thread_ = std::thread([this, &error_style, what = std::move(what), a_while] {
      ShowUntilOver(error_style, what, a_while);
    });
  } catch (const std::system_error&) {
    // The user may have no more threads; the work needs none.
  }
}

WorkingLine::~WorkingLine() {
  {
    const absl::MutexLock lock(&mu_);
    is_over_ = true;
    changed_.Signal();
  }
  if (thread_.joinable()) thread_.join();
}

void WorkingLine::ShowUntilOver(const Style& error_style, const std::string& what,
                                absl::Duration a_while) {
  constexpr absl::Duration kUpdate = absl::Seconds(1);
  ProgressLine line(error_style);
  const auto is_over = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return is_over_; };
  absl::Duration elapsed = a_while;
  absl::Duration until_next = a_while;
  const absl::MutexLock lock(&mu_);
  while (!changed_.AwaitWithTimeout(&mu_, until_next, is_over)) {
    line.Show(StrCat(what, ": ", absl::ToInt64Seconds(elapsed), "s"));
    elapsed += kUpdate;
    until_next = kUpdate;
  }
}

void CaptureProgress::OnChange(size_t index, const CaptureView& view, absl::Time now) {
  Member& member = members_[index];
  const CaptureRecord& record = view.record;
  if (record.state == CaptureState::kRecording) {
    const bool is_new = member.view.record.state != CaptureState::kRecording ||
                        member.window != record.current_window;
    if (is_new) {
      member.recording_since = now;
      member.window = record.current_window;
      member.first_step = record.current_step;
    }
    // The first step that we saw may be a later one: between two updates several steps may pass.
    const auto window = static_cast<size_t>(std::max<int64_t>(0, record.current_window));
    if (window < record.windows.size() && record.windows[window].first_step >= 0) {
      member.first_step = record.windows[window].first_step;
    }
  }
  member.view = view;
}

std::string CaptureProgress::Describe(const Member& member, absl::Time now) {
  const CaptureRecord& record = member.view.record;
  const CaptureSpec& spec = record.spec;
  std::string window;
  if (spec.repeat > 1) window = StrCat(", window ", record.current_window + 1, "/", spec.repeat);
  switch (record.state) {
    case CaptureState::kPending:
    case CaptureState::kArming:
      return record.activity.empty() ? "arming" : StrCat("arming: ", record.activity);
    case CaptureState::kWaitingStep:
      if (record.current_step < 0) return StrCat("waiting for a step", window);
      return StrCat("waiting for a step", window, " (at ", record.current_step, ")");
    case CaptureState::kWarmup:
      return StrCat("warm-up", window, ", step ", record.current_step);
    case CaptureState::kRecording: {
      if (spec.steps == 0) {
        const absl::Duration elapsed =
            std::clamp(now - member.recording_since, absl::ZeroDuration(), spec.duration);
        return StrCat("recording ", FormatNs(absl::ToInt64Milliseconds(elapsed) * 1'000'000),
                      " of ", FormatNs(absl::ToInt64Nanoseconds(spec.duration)));
      }
      const int64_t step = std::clamp<int64_t>(record.current_step - member.first_step + 1, 1,
                                               std::max<int64_t>(1, spec.steps));
      return StrCat("recording", window, " step ", step, "/", spec.steps);
    }
    case CaptureState::kDraining:
      return "draining";
    case CaptureState::kStoring:
      return "storing";
    default:
      return "done";
  }
}

std::string CaptureProgress::Text(absl::Time now) const {
  if (members_.size() == 1) return Describe(members_.front(), now);
  std::map<std::string, int> counts;
  for (const Member& member : members_) ++counts[Describe(member, now)];
  std::string text = StrCat(members_.size(), " targets: ");
  bool first = true;
  for (const auto& [what, count] : counts) {
    StrAppend(&text, first ? "" : "; ", count, " ", what);
    first = false;
  }
  return text;
}

std::string TransferProgress(std::string_view what, int64_t done_bytes, int64_t total_bytes) {
  std::string text = StrCat(what, " ", FormatBytes(done_bytes));
  if (total_bytes > 0) {
    StrAppend(&text, " of ", FormatBytes(total_bytes), " (", FormatPercent(done_bytes, total_bytes),
              ")");
  }
  return text;
}

std::string LastWordsOfTrace(std::string_view profctl, std::string_view what, std::string_view id) {
  return StrCat("profctl: exits before ", what, " ", id, " has ended. Go on with: ", profctl,
                " show ", id, " | report ", id, "\n");
}

}  // namespace profd::cli
