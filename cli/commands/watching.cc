#include "cli/commands/watching.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "cli/base/interrupts.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"

namespace profd::cli {
namespace {

constexpr absl::Duration kShortestInterval = absl::Milliseconds(100);
constexpr absl::Duration kLongestInterval = absl::Hours(24);
constexpr absl::Duration kUsualInterval = absl::Seconds(2);

constexpr std::string_view kClearScreen = "\x1b[2J";
constexpr std::string_view kHome = "\x1b[H";
constexpr std::string_view kClearLine = "\x1b[K";
constexpr std::string_view kClearBelow = "\x1b[J";

// Set once, by a signal's handler; waited for by the one that looks.
class Ending {
 public:
  void Set() {
    const absl::MutexLock lock(&mu_);
    set_ = true;
  }
  bool SetWithin(absl::Duration timeout) {
    const absl::MutexLock lock(&mu_);
    return mu_.AwaitWithTimeout(absl::Condition(&set_), timeout);
  }

 private:
  absl::Mutex mu_;
  bool set_ ABSL_GUARDED_BY(mu_) = false;
};

int RowsOfTerminal() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_row : 0;
}

void ShowLook(Invocation& invocation, const Look& look, bool is_first) {
  if (!invocation.json() && invocation.style().is_terminal) {
    if (is_first) invocation.Print(kClearScreen);
    invocation.Print(ScreenOf(StrCat(look.text, look.notes), RowsOfTerminal()));
    return;
  }
  if (!is_first && !invocation.json()) invocation.Print("\n");
  invocation.Print(look.text);
  invocation.Note(look.notes);
}

}  // namespace

Flag WatchFlag() {
  return {.name = "watch",
          .value_name = "EVERY",
          .help = "Repeat every EVERY (default: 2s) until Ctrl-C; with --json, one line each time",
          .value_is_optional = true};
}

absl::StatusOr<std::optional<absl::Duration>> WatchInterval(const ParsedFlags& flags) {
  const std::optional<std::string> text = flags.Get("watch");
  if (!text.has_value()) return std::nullopt;
  if (text->empty()) return kUsualInterval;
  ASSIGN_OR_RETURN(const std::optional<absl::Duration> every, flags.Duration("watch"));
  if (*every < kShortestInterval || *every > kLongestInterval) {
    return UsageError("--watch takes 100ms to 24h");
  }
  return every;
}

std::string ScreenOf(std::string_view text, int rows) {
  const auto all = static_cast<int>(std::ranges::count(text, '\n'));
  // The last row stays empty: that is where the cursor is.
  const int fitting = rows > 0 ? std::max(rows - 1, 1) : all;
  const int shown = all > fitting ? fitting - 1 : all;
  std::string screen(kHome);
  for (int line = 0; line < shown; ++line) {
    const size_t end = text.find('\n');
    StrAppend(&screen, text.substr(0, end), kClearLine, "\n");
    text.remove_prefix(end + 1);
  }
  if (shown < all) {
    StrAppend(&screen, "(", all - shown, " more lines: a taller window shows them)", kClearLine,
              "\n");
  }
  return StrCat(screen, kClearBelow);
}

absl::StatusOr<int> WatchUntilInterrupted(Invocation& invocation, absl::Duration interval,
                                          absl::FunctionRef<absl::StatusOr<Look>()> look) {
  Ending ending;
  Interrupts interrupts;
  interrupts.OnInterrupt([&ending] { ending.Set(); });
  int exit_code = 0;
  bool is_first = true;
  do {
    ASSIGN_OR_RETURN(const Look seen, look());
    ShowLook(invocation, seen, is_first);
    RETURN_IF_ERROR(invocation.WriteStatus());
    exit_code = seen.exit_code;
    is_first = false;
  } while (!ending.SetWithin(interval));
  interrupts.OnInterrupt(nullptr);
  return exit_code;
}

}  // namespace profd::cli
