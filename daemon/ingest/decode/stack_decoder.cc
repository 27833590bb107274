#include "daemon/ingest/decode/stack_decoder.h"

#include "daemon/ingest/decode/untrusted_values.h"
#include "proto/wire/stack_flags.h"

namespace profd {
namespace {

// Python's lines are ints.
constexpr uint32_t kMaxLine = INT32_MAX;

// IDs rise in the order of definition, so a frame's caller has a smaller one, and no chain of
// callers can be a cycle.
bool IsPlausible(const wire::StackFrameEvent& event) {
  const bool is_outermost = event.parent_id == wire::kNoStackId;
  const bool is_cut = (event.header.flags & wire::kStackFlagCut) != 0;
  const bool is_again = (event.header.flags & wire::kStackFlagAgain) != 0;
  return event.stack_id != wire::kNoStackId && event.stack_id <= wire::kMaxStackId &&
         event.parent_id < event.stack_id && event.depth < wire::kMaxStackDepth &&
         event.line <= kMaxLine && event.first_line <= kMaxLine && (!is_cut || is_outermost) &&
         (event.module != 0 || (event.class_name_id == wire::kNoNameId && !is_again));
}

}  // namespace

bool StackDecoder::Decode(const std::byte* record, uint32_t size, ThreadStackIds& thread) {
  if (size < sizeof(wire::StackFrameEvent)) return false;
  const auto event = LoadUnaligned<wire::StackFrameEvent>(record);
  if (!IsPlausible(event)) return false;
  if (thread.by_wire_id_.contains(event.stack_id)) return false;
  const std::optional<uint32_t> caller = Find(thread, event.parent_id);
  if (!caller.has_value()) return false;
  const bool has_caller = event.parent_id != wire::kNoStackId;
  // The caller found no room, so that its depth is not known.
  const bool is_lost = has_caller && *caller == 0;
  const uint32_t depth = has_caller && !is_lost ? depths_[*caller - 1] + 1u : 0;
  // The sender's depth repeats what its caller implies. A difference means that one of the two is
  // damaged.
  if (!is_lost && event.depth != depth) return false;
  const uint32_t file = names_.Find(event.file_id);
  const uint32_t name = names_.Find(event.name_id);
  const uint32_t class_name =
      event.class_name_id != wire::kNoNameId ? names_.Find(event.class_name_id) : 0;
  if (file == NameTable::kNoName || name == NameTable::kNoName ||
      class_name == NameTable::kNoName) {
    return false;
  }
  if (definition_count_ == kMaxDefinitions) {
    ++full_count_;
    return true;
  }
  ++definition_count_;
  uint32_t& stack = thread.by_wire_id_[event.stack_id];
  stack = 0;
  if (!is_lost) {
    stack = Add({.caller = *caller,
                 .file = file,
                 .name = name,
                 .line = event.line,
                 .first_line = event.first_line,
                 .module = event.module,
                 .class_name = class_name,
                 .is_cut = (event.header.flags & wire::kStackFlagCut) != 0,
                 .is_again = (event.header.flags & wire::kStackFlagAgain) != 0},
                depth);
  }
  full_count_ += stack == 0;
  return true;
}

// 0: there is no room.
uint32_t StackDecoder::Add(const StackNode& node, uint32_t depth) {
  const auto known = ids_.find(node);
  if (known != ids_.end()) return known->second;
  if (node.is_again) {
    StackNode first = node;
    first.is_again = false;
    if (Add(first, depth) == 0) return 0;
  }
  if (depths_.size() == kMaxStacks) return 0;
  depths_.push_back(static_cast<uint16_t>(depth));
  const auto stack = static_cast<uint32_t>(depths_.size());
  ids_[node] = stack;
  sink_.AddStack(stack, node);
  return stack;
}

bool StackDecoder::DecodeModule(const std::byte* record, uint32_t size) {
  if (size < sizeof(wire::ModuleEvent)) return false;
  const auto event = LoadUnaligned<wire::ModuleEvent>(record);
  const bool is_root = event.address == event.root;
  if (event.address == 0 || event.root == 0 || is_root != (event.path_id == wire::kNoNameId)) {
    return false;
  }
  const uint32_t path = is_root ? 0 : names_.Find(event.path_id);
  const uint32_t class_name = names_.Find(event.class_name_id);
  if (path == NameTable::kNoName || class_name == NameTable::kNoName) return false;
  if (module_count_ == kMaxModules) {
    ++full_count_;
    return true;
  }
  ++module_count_;
  sink_.AddModule(
      {.address = event.address, .root = event.root, .path = path, .class_name = class_name});
  return true;
}

std::optional<uint32_t> StackDecoder::Find(const ThreadStackIds& thread, uint32_t wire_id) const {
  if (wire_id == wire::kNoStackId) return 0;
  const auto known = thread.by_wire_id_.find(wire_id);
  if (known != thread.by_wire_id_.end()) return known->second;
  // It may be one of those for which there was no room.
  if (definition_count_ == kMaxDefinitions && wire_id <= wire::kMaxStackId) return 0;
  return std::nullopt;
}

}  // namespace profd
