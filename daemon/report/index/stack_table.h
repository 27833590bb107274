// StackTable is all Python stacks of a capture, and where its modules are in the model.
//
// Torch names the line of the program that each line of Inductor's generated code comes from: such
// a frame has a source, which readers show as one more frame, called by the generated one.
//
// Threads: any number, once built.
// Memory:  40 bytes per stack, 40 per module, and while it is built 48 per stack that calls a
//          module; texts are made when asked for.
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
  // if all are, the innermost. For generated code, the line that it comes from.
  std::string SourceOf(uint32_t stack) const;
  // The innermost `frames` lines, the innermost first.
  std::string TextOf(uint32_t stack, size_t frames) const;

  // Whether a file, or a line as above, is in torch, in Python's own library, or in profd.
  // Functions without a file, which are not Python's, count as such.
  static bool IsLibrary(std::string_view file);

  // The parts of a line as above. Of another text, all is the function.
  struct Parts {
    std::string_view file;
    uint32_t line = 0;
    std::string_view function;
  };
  static Parts PartsOf(std::string_view line);

  // A line as above without the folder of its file: "train.py(112): log_metrics".
  static std::string_view ShortLine(std::string_view line);
  // The same for sentences: "train.py:112 log_metrics".
  static std::string ColonLine(std::string_view line);

  // A stack: its innermost frame, and the stack of the caller. File, function, and class are names.
  struct Stack {
    uint64_t module;  // That the frame calls; 0: none.
    uint32_t caller;  // Smaller than its own number; 0: none.
    uint32_t file;
    uint32_t function;
    uint32_t line;        // Of the call; 0: not known.
    uint32_t first_line;  // Of the function
    uint32_t class_name;
    // Of generated code: see GeneratedFrom(); 0: none.
    uint32_t source = 0;
    // Equals an earlier one: the module has been called again
    // (daemon/ingest/decode/stack_decoder.h).
    bool is_again = false;
  };
  // `stack` must be smaller than size().
  const Stack& operator[](uint32_t stack) const { return stacks_[stack]; }
  // The line that generated code comes from: "model.py(12): forward"; empty: it is not generated,
  // or torch does not say.
  std::string_view GeneratedFrom(const Stack& stack) const {
    return stack.source != 0 ? std::string_view(names_[stack.source]) : std::string_view();
  }
  // What ModuleOf() calls the module that the frame itself calls, which must be one.
  std::string NameOf(const Stack& stack) const;
  // The same of a module of an imported trace, which numbers them by class: "Linear_0". Empty: the
  // trace does not say.
  std::string NameOfNumbered(std::string_view class_and_number) const;

 private:
  struct Module {
    uint64_t root;
    uint32_t path;
    uint32_t class_name;
  };

  std::string LineOf(const Stack& stack) const;
  absl::Status FindSources(store::CaptureReader& reader);

  std::span<const std::string> names_;
  std::vector<Stack> stacks_;
  absl::flat_hash_map<uint64_t, Module> modules_;             // By address.
  absl::flat_hash_map<std::string_view, uint32_t> numbered_;  // Names, by class and number.
  bool has_several_models_ = false;
};

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_INDEX_STACK_TABLE_H_
