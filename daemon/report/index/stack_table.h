// StackTable is all Python stacks of a capture, and where its modules are in the model.
//
// Threads: any number, once built.
// Memory:  40 bytes per stack, and per module; texts are made when asked for.
// Errors:  the reader's.
#ifndef PROFD_DAEMON_REPORT_INDEX_STACK_TABLE_H_
#define PROFD_DAEMON_REPORT_INDEX_STACK_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

// Between a line and that of its caller.
inline constexpr std::string_view kCallerSeparator = " < ";

class StackTable {
 public:
  StackTable() = default;
  // `reader` must outlive it, for its names.
  static absl::StatusOr<StackTable> Build(store::CaptureReader& reader);

  // No operator has a stack.
  bool empty() const { return stacks_.size() <= 1; }
  // Stacks are smaller than this; 0 is none.
  size_t size() const { return stacks_.size(); }

  // Each is empty where nothing is known. `stack` may be any number.
  //
  // The innermost module: "blocks.0.mlp"; with several models "Generator: blocks.0.mlp"; the class
  // of a module whose place is not known, and of the model itself.
  std::string ModuleOf(uint32_t stack) const;
  // The innermost line that is not in a library, see IsLibrary(): "train.py(112): log_metrics";
  // if all are, the innermost.
  std::string SourceOf(uint32_t stack) const;
  // The innermost `frames` lines, the innermost first.
  std::string TextOf(uint32_t stack, size_t frames) const;

  // Whether a file, or a line as above, is in torch, in Python's own library, or in profd.
  static bool IsLibrary(std::string_view file);

 private:
  struct Stack {
    uint64_t module;
    uint32_t caller;  // Smaller than its own number; 0: none.
    uint32_t file;
    uint32_t function;
    uint32_t line;
    uint32_t class_name;
  };
  struct Module {
    uint64_t root;
    uint32_t path;
    uint32_t class_name;
  };

  std::string LineOf(const Stack& stack) const;
  std::string NameOf(const Stack& stack) const;

  std::span<const std::string> names_;
  std::vector<Stack> stacks_;
  absl::flat_hash_map<uint64_t, Module> modules_;  // By address.
  bool has_several_models_ = false;
};

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_INDEX_STACK_TABLE_H_
