#include "daemon/import/python_stacks.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/import/trace_event.h"
#include "daemon/report/index/place_index.h"

namespace profd::importer {
namespace {

// What a row or a frame takes with its place in a hash table.
constexpr size_t kRowBytes = 96;

// In by_frame_ the caller of an outermost frame whose callers were cut off.
constexpr uint32_t kCutOff = std::numeric_limits<uint32_t>::max();

// Of a longer text, exports may leave out frames.
constexpr size_t kMostRestoredBytes = size_t{16} << 10;

// Exports write these as they are.
bool IsPlain(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= 0x20 && c < 0x7F; });
}

// "train.py(112): step" in its parts; false: it is of another form.
bool SplitLine(std::string_view text, std::string_view& file, int64_t& line,
               std::string_view& function) {
  const size_t end = text.rfind("): ");
  const size_t begin = end == text.npos ? text.npos : text.rfind('(', end);
  if (begin == text.npos || begin == 0) return false;
  const std::string_view digits = text.substr(begin + 1, end - begin - 1);
  const std::optional<int64_t> number = ParseInteger(digits);
  if (!number.has_value() || !std::in_range<uint32_t>(*number)) return false;
  if (digits != StrCat(*number)) return false;  // "007", which would be written as 7.
  file = text.substr(0, begin);
  line = *number;
  function = text.substr(end + 3);
  return true;
}

}  // namespace

absl::StatusOr<PythonStacks::Stack> PythonStacks::Add(std::string_view json) {
  if (json.size() <= 2) return Stack();
  const auto found = by_json_.find(ToAbsl(json));
  if (found != by_json_.end()) return found->second;
  if (bytes_ + json.size() > kMaxBytes) {
    ++left_out_count_;
    return Stack{.id = 0, .is_restored = false};
  }
  bytes_ += json.size();
  ASSIGN_OR_RETURN(const Stack stack, Parse(Unescape(json)));
  by_json_.emplace(std::string(json), stack);
  return stack;
}

absl::StatusOr<PythonStacks::Stack> PythonStacks::Parse(std::string_view text) {
  bool is_restored = text.ends_with(';') && IsPlain(text) && text.size() <= kMostRestoredBytes;
  std::vector<std::string_view> frames;  // The innermost first.
  bool is_cut = false;
  while (!text.empty() && !is_cut) {
    const size_t end = std::min(text.find(';'), text.size());
    const std::string_view frame = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    is_restored &= !frame.empty();
    if (frame.empty()) continue;
    is_cut = frames.size() == kMostFrames;
    if (!is_cut) frames.push_back(frame);
  }
  if (is_cut) ++cut_count_;
  uint32_t stack = 0;
  // From the outermost frame, so that stacks share the rows of their common callers: the rows form
  // a tree.
  for (size_t i = frames.size(); i-- > 0;) {
    ASSIGN_OR_RETURN(const uint32_t frame, FrameOf(frames[i]));
    const auto next = static_cast<uint32_t>(rows_.size() + 1);
    const uint32_t caller = stack == 0 && is_cut ? kCutOff : stack;
    const auto [at, inserted] = by_frame_.try_emplace(std::pair(caller, frame), next);
    if (inserted) {
      bytes_ += kRowBytes;
      StackRow row = frames_[frame];
      row.caller = stack;
      row.is_cut = caller == kCutOff;
      rows_.push_back(row);
    }
    stack = at->second;
  }
  return Stack{.id = stack, .is_restored = is_restored && !is_cut};
}

absl::StatusOr<uint32_t> PythonStacks::FrameOf(std::string_view text) {
  const auto next = static_cast<uint32_t>(frames_.size());
  const auto [at, inserted] = by_text_.try_emplace(ToAbsl(text), next);
  if (!inserted) return at->second;
  bytes_ += text.size() + kRowBytes;
  StackRow row = {.caller = 0,
                  .file = 0,
                  .function = 0,
                  .line = 0,
                  .first_line = 0,
                  .module = 0,
                  .class_name = 0,
                  .is_cut = false};
  std::string_view file;
  std::string_view function = text;
  int64_t line = 0;
  if (text.starts_with(report::kModulePrefix)) {
    ASSIGN_OR_RETURN(row.class_name, names_.IdOf(text.substr(report::kModulePrefix.size())));
    row.module = row.class_name;  // Not an address, but one for each.
  } else if (SplitLine(text, file, line, function)) {
    ASSIGN_OR_RETURN(row.file, names_.IdOf(file));
    row.line = static_cast<uint32_t>(line);
  }
  ASSIGN_OR_RETURN(row.function, names_.IdOf(function));
  frames_.push_back(row);
  return next;
}

absl::Status PythonStacks::AddModule(std::string_view name_json, std::string_view place_json) {
  const std::string name = Unescape(name_json);
  if (place_json.size() <= 2 || !name.starts_with(report::kModulePrefix)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const uint32_t module,
                   names_.IdOf(std::string_view(name).substr(report::kModulePrefix.size())));
  if (places_.contains(module)) return absl::OkStatus();
  ASSIGN_OR_RETURN(places_[module], names_.IdOfJson(place_json));
  return absl::OkStatus();
}

absl::Status PythonStacks::Finish(CaptureSink& sink) {
  constexpr size_t kStackRowsPerBatch = 8192;
  for (size_t i = 0; i < rows_.size(); i += kStackRowsPerBatch) {
    const auto end =
        rows_.begin() + static_cast<ptrdiff_t>(std::min(rows_.size(), i + kStackRowsPerBatch));
    RETURN_IF_ERROR(sink.Append(std::vector(rows_.begin() + static_cast<ptrdiff_t>(i), end)));
  }
  std::vector<ModuleRow> modules;
  for (const auto& [module, place] : places_) {
    modules.push_back({.address = module, .root = 0, .path = place, .class_name = module});
  }
  return sink.Append(modules);
}

}  // namespace profd::importer
