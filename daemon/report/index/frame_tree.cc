#include "daemon/report/index/frame_tree.h"

namespace profd::report {

uint32_t FrameTree::Child(uint32_t parent, uint32_t function) {
  if (nodes_[parent].depth >= kMaxDepth) return parent;
  const auto next = static_cast<uint32_t>(nodes_.size());
  const auto [at, inserted] =
      children_.try_emplace(uint64_t{parent} << 32 | uint64_t{function}, next);
  if (inserted) {
    nodes_.push_back(
        {.parent = parent,
         .function = function,
         .depth = nodes_[parent].depth + 1,
         .module = functions_[function].module.empty() ? nodes_[parent].module : next});
  }
  return at->second;
}

uint32_t FrameTree::CommonOf(uint32_t a, uint32_t b) const {
  while (a != b) {
    if (nodes_[a].depth >= nodes_[b].depth) {
      a = nodes_[a].parent;
    } else {
      b = nodes_[b].parent;
    }
  }
  return a;
}

}  // namespace profd::report
