#include "daemon/report/ops/torch_tree.h"

#include <algorithm>
#include <limits>

namespace profd::report {
namespace {

constexpr uint32_t kNoNode = std::numeric_limits<uint32_t>::max();

uint64_t DurationOf(const TorchEvent& event) {
  return static_cast<uint64_t>(event.end_ns) - static_cast<uint64_t>(event.start_ns);
}

class Tree {
 public:
  Tree(const std::vector<TorchEvent>& events, const TorchClock& clock)
      : events_(events), clock_(clock), nodes_(events.size()) {
    for (uint32_t i = 0; i < nodes_.size(); ++i) {
      nodes_[i].self_device_ns = static_cast<uint64_t>(events[i].self_device_ns);
      nodes_[i].self_device_us = events[i].self_device_us;
    }
    FindParents();
    Fold();
    FindChildren();
  }

  void AddMemory(absl::FunctionRef<TorchMemory(const TorchEvent&)> memory_of) {
    for (uint32_t i = 0; i < nodes_.size(); ++i) nodes_[i].memory = memory_of(events_[i]);
  }

  // Those inside of an event come after it.
  void SumUp() {
    for (size_t i = nodes_.size(); i-- > 0;) {
      Node& node = nodes_[i];
      for (uint32_t at = node.first_child; at != kNoNode; at = nodes_[at].next_sibling) {
        const Node& child = nodes_[at];
        node.children_cpu_ns += DurationOf(events_[at]);
        node.children_cpu_us += DurationUs(events_[at]);
        node.children_device_ns += child.self_device_ns + child.children_device_ns;
        node.children_device_us += child.self_device_us + child.children_device_us;
        node.children_memory = node.children_memory + child.memory;
      }
    }
  }

  void Give(absl::FunctionRef<void(const TorchEvent&, const TorchMeasures&)> fn) const {
    for (uint32_t i = 0; i < nodes_.size(); ++i) {
      const Node& node = nodes_[i];
      if (node.folded_into != kNoNode) continue;
      const uint64_t duration_ns = DurationOf(events_[i]);
      const double total_device_us = node.self_device_us + node.children_device_us;
      fn(events_[i], {.total_cpu_ns = duration_ns,
                      .self_cpu_ns = static_cast<int64_t>(duration_ns - node.children_cpu_ns),
                      .total_device_ns = node.self_device_ns + node.children_device_ns,
                      .self_device_ns = node.self_device_ns,
                      .self_cpu_us = DurationUs(events_[i]) - node.children_cpu_us,
                      .total_device_us = total_device_us,
                      .self_device_us = total_device_us - node.children_device_us,
                      .total_memory = node.memory,
                      .self_memory = node.memory - node.children_memory,
                      .has_parent = node.parent != kNoNode});
    }
  }

 private:
  struct Node {
    uint32_t parent = kNoNode;
    uint32_t folded_into = kNoNode;
    uint32_t child_count = 0;
    uint32_t first_child = kNoNode;  // Of those that are not folded.
    uint32_t next_sibling = kNoNode;
    uint64_t self_device_ns = 0;
    uint64_t children_cpu_ns = 0;
    uint64_t children_device_ns = 0;
    double self_device_us = 0;
    double children_cpu_us = 0;
    double children_device_us = 0;
    TorchMemory memory;
    TorchMemory children_memory;
  };

  void FindParents() {
    std::vector<uint32_t> open;
    for (uint32_t i = 0; i < nodes_.size(); ++i) {
      const TorchEvent& event = events_[i];
      while (!open.empty()) {
        const TorchEvent& outer = events_[open.back()];
        if (event.start_ns < outer.end_ns && event.end_ns <= outer.end_ns) break;
        open.pop_back();
      }
      if (!open.empty()) {
        nodes_[i].parent = open.back();
        ++nodes_[open.back()].child_count;
      }
      open.push_back(i);
    }
  }

  // Outer ones first, so that one pass does it.
  void Fold() {
    for (uint32_t i = 0; i < nodes_.size(); ++i) {
      Node& node = nodes_[i];
      if (node.parent == kNoNode) continue;
      if (nodes_[node.parent].folded_into != kNoNode) {
        node.parent = nodes_[node.parent].folded_into;
      }
      Node& parent = nodes_[node.parent];
      if (events_[node.parent].name != events_[i].name || parent.child_count != 1) continue;
      // As torch's _remove_dup_nodes(): the outer event gets the children and the launches of the
      // inner one in place of its own.
      node.folded_into = node.parent;
      parent.child_count = node.child_count;
      parent.self_device_ns = node.self_device_ns;
      parent.self_device_us = node.self_device_us;
    }
  }

  // Last ones first, so that each is put before those that follow it.
  void FindChildren() {
    for (size_t i = nodes_.size(); i-- > 0;) {
      Node& node = nodes_[i];
      if (node.folded_into != kNoNode || node.parent == kNoNode) continue;
      node.next_sibling = nodes_[node.parent].first_child;
      nodes_[node.parent].first_child = static_cast<uint32_t>(i);
    }
  }

  double DurationUs(const TorchEvent& event) const {
    return clock_.DurationUs(event.start_ns, event.end_ns);
  }

  const std::vector<TorchEvent>& events_;
  const TorchClock& clock_;
  std::vector<Node> nodes_;  // Of the same positions.
};

}  // namespace

void SortForTorch(std::vector<TorchEvent>& events) {
  std::sort(events.begin(), events.end(), [](const TorchEvent& a, const TorchEvent& b) {
    if (a.start_ns != b.start_ns) return a.start_ns < b.start_ns;
    if (a.end_ns != b.end_ns) return a.end_ns > b.end_ns;
    return a.depth < b.depth;
  });
}

void MeasureAsTorch(const std::vector<TorchEvent>& events, const TorchClock& clock,
                    const absl::FunctionRef<TorchMemory(const TorchEvent&)>* memory_of,
                    absl::FunctionRef<void(const TorchEvent&, const TorchMeasures&)> fn) {
  Tree tree(events, clock);
  if (memory_of != nullptr) tree.AddMemory(*memory_of);
  tree.SumUp();
  tree.Give(fn);
}

}  // namespace profd::report
