#include "cli/commands/watching.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "cli/base/errors.h"
#include "cli/base/interrupts.h"
#include "daemon/base/clock.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/unique_fd.h"

namespace profd::cli {
namespace {

constexpr std::string_view kHome = "\x1b[H";
constexpr std::string_view kClearLine = "\x1b[K";
constexpr std::string_view kClearBelow = "\x1b[J";

// A screen that leaves no trace in the window's history, without a cursor.
constexpr std::string_view kEnterScreen = "\x1b[?1049h\x1b[?25l";
constexpr std::string_view kLeaveScreen = "\x1b[?25h\x1b[?1049l";

enum class Ending { kNone, kInterrupt, kQuitKey };

// What ends a watch: a signal, or, where `keys` is a terminal, the key q.
class Endings {
 public:
  explicit Endings(int keys) : signal_(eventfd(0, EFD_CLOEXEC)), keys_(keys) {}

  // From a signal's thread.
  void Interrupt() {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(signal_.get(), &one, sizeof one);
  }

  Ending Await(absl::Duration timeout) {
    const absl::Duration end = Clock::Real().Monotonic() + timeout;
    while (true) {
      const int64_t left_ms = absl::ToInt64Milliseconds(end - Clock::Real().Monotonic()) + 1;
      pollfd fds[] = {{signal_.get(), POLLIN, 0}, {keys_, POLLIN, 0}};
      const int ready =
          poll(fds, keys_ < 0 ? 1 : 2, static_cast<int>(std::max<int64_t>(left_ms, 0)));
      if (ready < 0 && errno != EINTR) return Ending::kInterrupt;
      if (ready == 0) return Ending::kNone;
      if (fds[0].revents != 0) return Ending::kInterrupt;
      if (ready > 0 && keys_ >= 0 && fds[1].revents != 0 && QuitKeyPressed()) {
        return Ending::kQuitKey;
      }
    }
  }

 private:
  bool QuitKeyPressed() {
    char keys[64];
    const ssize_t got = read(keys_, keys, sizeof keys);
    if (got <= 0) keys_ = -1;  // The terminal was closed.
    return got > 0 && std::string_view(keys, static_cast<size_t>(got)).find_first_of("qQ") !=
                          std::string_view::npos;
  }

  const UniqueFd signal_;
  int keys_;
};

// The whole terminal, until it goes.
class FullScreen {
 public:
  FullScreen() {
    has_keys_ = isatty(STDIN_FILENO) == 1 && tcgetattr(STDIN_FILENO, &before_) == 0;
    if (has_keys_) {
      termios raw = before_;
      raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);  // Reads single keys, without echo.
      tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    }
    Put(kEnterScreen);
  }
  ~FullScreen() { Leave(); }
  FullScreen(const FullScreen&) = delete;
  FullScreen& operator=(const FullScreen&) = delete;

  // Also from a signal's thread, before a second signal may end the program.
  void Leave() {
    if (left_.exchange(true)) return;
    Put(kLeaveScreen);
    if (has_keys_) tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  bool has_keys() const { return has_keys_; }

 private:
  static void Put(std::string_view text) {
    [[maybe_unused]] const ssize_t written = write(STDOUT_FILENO, text.data(), text.size());
  }

  termios before_{};
  bool has_keys_ = false;
  std::atomic<bool> left_ = false;
};

int RowsOfTerminal() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_row : 0;
}

}  // namespace

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

namespace {

// `screen`: nullptr: there is none, and each look follows the one before.
absl::StatusOr<int> Watch(Invocation& invocation, absl::Duration interval, FullScreen* screen,
                          absl::FunctionRef<absl::StatusOr<Look>()> look) {
  Endings endings(screen != nullptr && screen->has_keys() ? STDIN_FILENO : -1);
  Interrupts interrupts;
  interrupts.OnInterrupt([&] {
    if (screen != nullptr) screen->Leave();
    endings.Interrupt();
  });
  while (true) {
    ASSIGN_OR_RETURN(const Look seen, look());
    if (screen == nullptr) {
      invocation.Print(seen.text);
      invocation.Note(seen.notes);
    } else if (!interrupts.interrupted()) {
      invocation.Print(ScreenOf(StrCat(seen.text, seen.notes), RowsOfTerminal()));
    }
    RETURN_IF_ERROR(invocation.WriteStatus());
    const Ending ending = endings.Await(interval);
    if (ending == Ending::kNone) continue;
    interrupts.OnInterrupt(nullptr);
    return ending == Ending::kInterrupt ? kExitInterrupted : seen.exit_code;
  }
}

}  // namespace

absl::StatusOr<int> WatchUntilInterrupted(Invocation& invocation, absl::Duration interval,
                                          absl::FunctionRef<absl::StatusOr<Look>()> look) {
  return Watch(invocation, interval, nullptr, look);
}

absl::StatusOr<int> WatchFullScreen(Invocation& invocation, absl::Duration interval,
                                    absl::FunctionRef<absl::StatusOr<Look>()> look) {
  FullScreen screen;
  return Watch(invocation, interval, &screen, look);
}

}  // namespace profd::cli
