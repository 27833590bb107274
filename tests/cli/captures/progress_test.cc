#include "cli/captures/progress.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "daemon/base/unique_fd.h"

namespace profd::cli {
namespace {

CaptureView In(CaptureState state, int64_t current_step = 10) {
  CaptureView view;
  view.record.state = state;
  view.record.spec.steps = 5;
  view.record.current_step = current_step;
  return view;
}

// What is written to stderr goes to a file meanwhile.
class StderrFile {
 public:
  StderrFile() {
    std::fflush(stderr);
    dup2(file_.get(), STDERR_FILENO);
  }
  ~StderrFile() {
    std::fflush(stderr);
    dup2(saved_.get(), STDERR_FILENO);
  }
  std::string Text() const {
    std::string text(4096, '\0');
    text.resize(
        static_cast<size_t>(std::max<ssize_t>(0, pread(file_.get(), text.data(), 4096, 0))));
    return text;
  }

 private:
  const UniqueFd file_{memfd_create("stderr", MFD_CLOEXEC)};
  const UniqueFd saved_{fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3)};
};

TEST(WorkingLineTest, SaysHowLongWorkTakesAndIsGoneAfterwards) {
  const Style terminal = {.is_terminal = true, .width = 80};
  StderrFile written;
  {
    WorkingLine line(terminal, "memory of 5 events", absl::ZeroDuration());
    while (written.Text().empty()) absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_THAT(written.Text(), ::testing::StartsWith("\r\033[Kmemory of 5 events: 0s\r\033[K"));
}

TEST(WorkingLineTest, ShortWorkAndWhatIsNoTerminalHaveNoLine) {
  StderrFile written;
  {
    const Style terminal = {.is_terminal = true, .width = 80};
    WorkingLine line(terminal, "memory of 5 events");
  }
  {
    const Style no_terminal;
    WorkingLine line(no_terminal, "memory of 5 events", absl::ZeroDuration());
  }
  EXPECT_EQ(written.Text(), "");
}

const absl::Time kNow = absl::FromUnixSeconds(1'790'000'000);

TEST(CaptureProgressTest, SaysWhereInItsLifeACaptureIs) {
  CaptureProgress progress(1);
  const auto text = [&](const CaptureView& view) {
    progress.OnChange(0, view, kNow);
    return progress.Text(kNow);
  };
  EXPECT_EQ(text(In(CaptureState::kArming)), "arming");
  CaptureView busy = In(CaptureState::kArming);
  busy.record.activity = "attaching to CUPTI, 3 s";
  EXPECT_EQ(text(busy), "arming: attaching to CUPTI, 3 s");
  EXPECT_EQ(text(In(CaptureState::kWaitingStep, -1)), "waiting for a step");
  EXPECT_EQ(text(In(CaptureState::kWaitingStep)), "waiting for a step (at 10)");
  EXPECT_EQ(text(In(CaptureState::kWarmup)), "warm-up, step 10");
  EXPECT_EQ(text(In(CaptureState::kRecording, 11)), "recording step 1/5");
  EXPECT_EQ(text(In(CaptureState::kRecording, 12)), "recording step 2/5");
  EXPECT_EQ(text(In(CaptureState::kRecording, 99)), "recording step 5/5");
  EXPECT_EQ(text(In(CaptureState::kDraining)), "draining");
  EXPECT_EQ(text(In(CaptureState::kStoring)), "storing");
}

TEST(CaptureProgressTest, TheWindowsFirstStepCountsEvenIfItsMessageWasMissed) {
  CaptureProgress progress(1);
  CaptureView view = In(CaptureState::kRecording, 13);
  view.record.windows.push_back({.start_ns = 0, .end_ns = 0, .first_step = 11, .end_step = -1});
  progress.OnChange(0, view, kNow);
  EXPECT_EQ(progress.Text(kNow), "recording step 3/5");
}

TEST(CaptureProgressTest, SeveralWindowsAreNumbered) {
  CaptureProgress progress(1);
  CaptureView view = In(CaptureState::kRecording, 30);
  view.record.spec.repeat = 3;
  view.record.current_window = 1;
  progress.OnChange(0, view, kNow);
  EXPECT_EQ(progress.Text(kNow), "recording, window 2/3 step 1/5");
}

TEST(CaptureProgressTest, ADurationRunsWithTheClockAndNoFurther) {
  CaptureProgress progress(1);
  CaptureView view = In(CaptureState::kRecording, -1);
  view.record.spec.steps = 0;
  view.record.spec.duration = absl::Seconds(3);
  progress.OnChange(0, view, kNow);
  EXPECT_EQ(progress.Text(kNow + absl::Milliseconds(1200)), "recording 1.200s of 3.000s");
  EXPECT_EQ(progress.Text(kNow + absl::Seconds(9)), "recording 3.000s of 3.000s");
}

TEST(CaptureProgressTest, OfSeveralTargetsItCountsWhoIsWhere) {
  CaptureProgress progress(3);
  progress.OnChange(0, In(CaptureState::kArming), kNow);
  progress.OnChange(1, In(CaptureState::kRecording, 11), kNow);
  progress.OnChange(2, In(CaptureState::kRecording, 21), kNow);
  EXPECT_EQ(progress.Text(kNow), "3 targets: 1 arming; 2 recording step 1/5");
}

}  // namespace
}  // namespace profd::cli
