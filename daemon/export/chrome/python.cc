#include "daemon/export/chrome/python.h"

#include <algorithm>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/export/trace/json_text.h"
#include "daemon/report/index/frame_tree.h"
#include "daemon/report/index/stack_table.h"

namespace profd::exporter {
namespace {

using report::FrameTree;
using report::HostSlice;
using report::StackTable;

constexpr std::string_view kCallStackKey = R"(,"Call stack":")";
constexpr size_t kMostFunctionBytes = 1024;  // Besides its name.

// A semicolon would end a frame.
std::string EscapedFrame(std::string text) {
  std::ranges::replace(text, ';', ',');
  std::string escaped;
  AppendJsonEscaped(TraceName(text), escaped);
  return escaped;
}

}  // namespace

absl::StatusOr<ChromePython> ChromePython::Make(store::CaptureReader& reader,
                                                const report::HostSlices::Options& options) {
  ChromePython python;
  ASSIGN_OR_RETURN(const StackTable stacks, StackTable::Build(reader));
  if (stacks.empty()) return python;
  // Traces of others say themselves how long functions lasted, if they say it.
  if (reader.record().imported.source.empty()) {
    ASSIGN_OR_RETURN(python.slices_, report::HostSlices::Build(reader, options));
  }
  python.ReadFrames(reader, stacks);
  return python;
}

void ChromePython::ReadFrames(store::CaptureReader& reader, const StackTable& stacks) {
  const std::span<const std::string> names = reader.names();
  frames_.resize(stacks.size());
  std::vector<size_t> bytes(stacks.size());
  for (uint32_t stack = 1; stack < stacks.size(); ++stack) {
    const StackTable::Stack& row = stacks[stack];
    std::string text;
    if (row.file == 0) {
      text = names[row.function];
    } else if (row.module != 0 && slices_.FrameOfStack(stack) != FrameTree::kNone) {
      text = slices_.frames().FunctionOf(slices_.FrameOfStack(stack)).name;
    } else {
      text = StrCat(names[row.file], "(", row.line, "): ", names[row.function]);
    }
    text = EscapedFrame(std::move(text)) + ";";
    if (const std::string_view source = stacks.GeneratedFrom(row); !source.empty()) {
      text.insert(0, EscapedFrame(std::string(source)) + ";");
    }
    frames_[stack] = {.text = std::move(text), .caller = row.caller};
    // A caller's number is lower, so its bytes are known.
    bytes[stack] = bytes[row.caller] + frames_[stack].text.size();
    if (bytes[stack] > kMostCallStackBytes) ++cut_stack_count_;
  }
}

char* ChromePython::PutCallStack(char* at, uint32_t stack) const {
  if (stack == 0 || stack >= frames_.size()) return at;
  at = PutText(at, kCallStackKey);
  size_t left = kMostCallStackBytes;
  for (; stack != 0 && frames_[stack].text.size() <= left; stack = frames_[stack].caller) {
    at = PutText(at, frames_[stack].text);
    left -= frames_[stack].text.size();
  }
  *at++ = '"';
  return at;
}

void ChromePython::WriteFunctions(const TraceLayout& layout, std::span<const std::string> rows,
                                  TraceClock clock, OutputBuffer& out) const {
  const FrameTree& tree = slices_.frames();
  std::vector<std::string> prefixes(tree.size());  // By node.
  std::vector<std::string> arguments(tree.size());
  int64_t id = 0;
  int64_t python_thread = 0;
  for (uint32_t row = 0; row < slices_.row_count(); ++row) {
    const std::span<const HostSlice> slices = slices_.SlicesOf(row);
    std::vector<int64_t> ids(slices.size());  // Of the innermost function around each slice.
    bool has_functions = false;
    for (size_t i = 0; i < slices.size(); ++i) {
      const HostSlice& slice = slices[i];
      const int64_t caller = slice.parent == HostSlice::kNone ? 0 : ids[slice.parent];
      ids[i] = caller;
      if (!slice.is_python) continue;
      has_functions = true;
      ids[i] = ++id;
      std::string& prefix = prefixes[slice.frame];
      if (prefix.empty()) {
        const FrameTree::Function& function = tree.FunctionOf(slice.frame);
        prefix = ",\n{\"ph\":\"X\",\"cat\":\"python_function\",\"name\":";
        AppendJsonString(TraceName(function.name), prefix);
        StrAppend(&prefix, ",\"pid\":", layout.pid, ",\"tid\":");
        std::string& more = arguments[slice.frame];
        if (!function.module.empty()) {
          StrAppend(&more, ",\"Python module id\":", function.module_id, ",\"Module\":");
          AppendJsonString(TraceName(function.module), more);
        }
      }
      const std::string& more = arguments[slice.frame];
      char* at = out.Reserve(prefix.size() + more.size() + kMostFunctionBytes);
      at = PutText(PutText(at, prefix), rows[slice.thread]);
      at = PutMicros(at, clock.At(slice.start_ns));
      at = PutText(at, R"(,"dur":)");
      at = PutMicros(
          at, clock.Duration(slice.start_ns, static_cast<uint64_t>(slice.end_ns - slice.start_ns)));
      at = PutInteger(PutText(at, R"(,"args":{"Python thread":)"), python_thread);
      if (caller != 0) at = PutInteger(PutText(at, R"(,"Python parent id":)"), caller);
      at = PutInteger(PutText(at, R"(,"Python id":)"), id);
      at = PutText(PutText(at, more), "}}");
      out.Commit(at);
    }
    if (has_functions) ++python_thread;
  }
}

}  // namespace profd::exporter
