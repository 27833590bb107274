#include "daemon/check/perfetto_flows.h"

#include <algorithm>
#include <tuple>

namespace profd::check {

void PerfettoFlows::Add(const End& end) {
  whole_ = ends_.size() < kMostCheckBytes / sizeof(End);
  if (whole_) ends_.push_back(end);
}

void PerfettoFlows::Judge(FindingLog& log) {
  std::sort(ends_.begin(), ends_.end(), [](const End& a, const End& b) {
    return std::tuple(a.flow, a.time_ns, a.terminates, a.packet) <
           std::tuple(b.flow, b.time_ns, b.terminates, b.packet);
  });
  for (auto first = ends_.cbegin(); first != ends_.cend();) {
    const auto last =
        std::find_if(first, ends_.cend(), [&](const End& end) { return end.flow != first->flow; });
    JudgeFlow(first, last, log);
    first = last;
  }
}

// A flow goes from slice to slice until one terminates it; then its id may be another's.
void PerfettoFlows::JudgeFlow(const Iterator& first, const Iterator& last, FindingLog& log) {
  const bool comparable =
      std::all_of(first, last, [&](const End& end) { return end.clock == first->clock; });
  if (!comparable) return;
  const End* begun = nullptr;
  for (auto end = first; end != last; ++end) {
    if (!end->terminates) {
      begun = end == first || begun == nullptr ? &*end : begun;
    } else if (begun == nullptr) {
      log.Add(Rule::kPacketFlow, "packet ", end->packet, " ends the flow ", end->flow,
              ", which does not begin before it");
    } else {
      begun = nullptr;
    }
  }
  if (begun != nullptr && begun == &*std::prev(last)) {
    log.Add(Rule::kPacketFlow, "packet ", begun->packet, " begins the flow ", begun->flow,
            ", which goes nowhere");
  }
}

}  // namespace profd::check
