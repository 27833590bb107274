// FrameTree is the Python functions of a capture by how they called each other. A node is a
// function and the node of its caller, whatever lines they were at.
//
// Threads: any number, once built.
// Memory:  20 bytes per node, and the texts of each function once.
// Errors:  none.
#ifndef PROFD_DAEMON_REPORT_INDEX_FRAME_TREE_H_
#define PROFD_DAEMON_REPORT_INDEX_FRAME_TREE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace profd::report {

class FrameTree {
 public:
  static constexpr uint32_t kNone = 0;
  // Deeper nodes, which only a damaged file has, are their callers.
  static constexpr uint32_t kMaxDepth = 256;

  // A Python function, or the call of a torch.nn.Module.
  struct Function {
    std::string name;    // As torch.profiler has it: "train.py(112): step", "nn.Module: Linear_0"
    std::string module;  // Of a module: "blocks.0.mlp", or its class; empty: it is none.
    std::string class_name;  // Of a module: "Linear"; empty: not known.
    int64_t module_id = -1;  // Of a module, among those of its class; -1: not known.
  };
  struct Node {
    uint32_t parent = kNone;  // The caller; smaller than the node itself.
    uint32_t function = 0;
    uint32_t depth = 0;  // 1: outermost
    // The innermost module of the node and its callers; may be the node itself. kNone: none.
    uint32_t module = kNone;
  };

  uint32_t AddFunction(Function function) {
    functions_.push_back(std::move(function));
    return static_cast<uint32_t>(functions_.size() - 1);
  }
  // Adds one with the texts of another.
  uint32_t AddFunctionLike(uint32_t function) {
    return AddFunction(Function(functions_[function]));
  }
  // `parent` and `function` must be of this tree.
  uint32_t Child(uint32_t parent, uint32_t function);

  const Node& operator[](uint32_t node) const { return nodes_[node]; }
  const Function& FunctionOf(uint32_t node) const { return functions_[nodes_[node].function]; }
  // Nodes are smaller than this; kNone is none.
  size_t size() const { return nodes_.size(); }
  // The innermost node that both have; kNone: none.
  uint32_t CommonOf(uint32_t a, uint32_t b) const;

 private:
  std::vector<Function> functions_ = std::vector<Function>(1);
  std::vector<Node> nodes_ = std::vector<Node>(1);
  absl::flat_hash_map<uint64_t, uint32_t> children_;  // (parent, function)
};

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_INDEX_FRAME_TREE_H_
