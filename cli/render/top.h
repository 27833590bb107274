// What `profctl top` shows: the steps of each target as they go by, and the captures that run.
//
// Threads: one.
#ifndef PROFD_CLI_RENDER_TOP_H_
#define PROFD_CLI_RENDER_TOP_H_

#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "absl/time/time.h"
#include "cli/base/object.h"
#include "cli/base/style.h"
#include "cli/client/capture_view.h"
#include "cli/render/history.h"
#include "cli/render/targets.h"

namespace profd::cli {

// What was seen at one moment.
struct TopLook {
  absl::Time time;
  std::vector<NodeTargets> nodes;     // One with an empty name: no other node was asked.
  std::vector<CaptureView> captures;  // Those that have not ended.
};

// A look as one line of --json: the answer of `ps`, and "captures".
struct TopAnswer {
  const TopLook& look;
  const std::vector<NodeOutcome>* outcomes = nullptr;  // nullptr: one daemon was asked.
};
const ObjectDescription<TopAnswer>& TopAnswerObject();

// Collects looks. The line of step times comes from the targets' step counts: steps between two
// looks have their mean. What the process did before the first look is not known, so a line starts
// empty.
class TopView {
 public:
  // As far back as a line goes.
  static constexpr absl::Duration kShown = absl::Minutes(1);

  // Looks come in the order of their time.
  void Add(const TopLook& look);
  // The last look.
  std::string Render(const Style& style) const;

 private:
  // A process: its node, PID, and start.
  using Key = std::tuple<std::string, int64_t, int64_t>;
  struct Track {
    int64_t steps = -1;                                // At the last look.
    absl::Time last_step_time = absl::InfinitePast();  // Of the look that saw the last step.
    std::deque<TimedValue> step_times;
  };

  void Follow(const TargetInfo& target, absl::Time now, Track& track) const;
  std::vector<std::string> Cells(const std::string& node, const TargetInfo& target,
                                 const Style& style) const;

  TopLook last_;
  std::map<Key, Track> tracks_;
};

}  // namespace profd::cli

#endif  // PROFD_CLI_RENDER_TOP_H_
