#include "cli/command.h"
#include "cli/each_capture.h"

namespace profd::cli {
namespace {

absl::StatusOr<int> Run(Invocation& invocation) {
  return ForEachCapture(
      invocation, [](DaemonClient& daemon, const std::string& id) -> absl::StatusOr<CaptureView> {
        absl::StatusOr<CaptureView> view = daemon.CancelCapture(id);
        if (!view.ok() || IsTerminal(view->record.state)) return view;
        const auto ended = daemon.WatchCaptures(
            {id}, [](size_t, const CaptureView&) {}, [] {});
        if (!ended.ok()) return ended.status();
        return ended->front();
      });
}

}  // namespace

Command CancelCommand() {
  return {.name = "cancel",
          .summary = "End a running capture; what it has recorded is kept",
          .arguments = "ID...",
          .description =
              "Asks live captures to end, and waits until they have. They become "
              "CANCELLED, and what was recorded by then is kept and can be read. One "
              "that has ended already stays as it is.",
          .examples = {{"profctl cancel 01J9ZK", "Stop it now"}},
          .min_arguments = 1,
          .max_arguments = 1000,
          .completes = Completes::kCapture,
          .run = &Run};
}

}  // namespace profd::cli
