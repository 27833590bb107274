#include "client_lib/python_stack/thread_stacks.h"

#include <string.h>
#include <sys/mman.h>

#include "client_lib/core/direct_calls.h"
#include "client_lib/core/session.h"
#include "proto/wire/stack_flags.h"

namespace profd::client::python_stack {
namespace {

// Longer class names are cut.
constexpr size_t kMostClassBytes = 256;

uint32_t SlotOf(const WalkedFrame& frame, uint32_t parent, uint32_t slot_count) {
  constexpr uint64_t kMultiplier = 0x9fb21c651e98df25;
  uint64_t hash = parent;
  for (const uint64_t word : {frame.code, frame.instruction, frame.mark, frame.module}) {
    hash = (hash ^ word) * kMultiplier;
    hash ^= hash >> 29;
  }
  return static_cast<uint32_t>(hash >> 32) % slot_count;
}

uint32_t NameOfText(const Text& text) { return InternName(text.bytes, text.length); }

// The module's class, by the name that its type has.
uint32_t ClassNameOf(uint64_t module) {
  const uint64_t type = LoadAt<uint64_t>(module, kObjectType);
  if (!FrameWalker::IsAddress(type)) return wire::kNoNameId;
  const auto name = LoadAt<const char*>(type, kTypeName);
  return name != nullptr ? InternName(name, strnlen(name, kMostClassBytes)) : wire::kNoNameId;
}

}  // namespace

ThreadStacks* ThreadStacks::Of(ThreadState* thread) {
  if (PROFD_LIKELY(thread->python_stacks != nullptr)) {
    return static_cast<ThreadStacks*>(thread->python_stacks);
  }
  void* memory = direct::Map(sizeof(ThreadStacks), MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
  if (memory == MAP_FAILED) return nullptr;
  thread->python_stacks = memory;
  return static_cast<ThreadStacks*>(memory);
}

void ThreadStacks::Enter(const ThreadState& thread, Wanted wanted) {
  constexpr uint32_t kMostKept = wire::kMaxStackId / 2;
  const bool is_foreign = entered_ >> 32 != thread.serial || wanted_ != wanted;
  if (is_foreign || node_count_ > kMostKept) {
    if (node_count_ != 0) memset(slots_, 0, sizeof(slots_));
    node_count_ = 0;
  }
  entered_ = KeyOf(thread);
  wanted_ = wanted;
  ForgetLast();
}

void ThreadStacks::ForgetLast() {
  last_of_ = 0;
  is_base_new_ = false;
  base_ticks_ = 0;
  depth_ = 0;
  is_cut_ = false;
  innermost_call_ = {.frame = 0, .version = 0};
}

template <Wanted kWanted>
PROFD_NOINLINE uint32_t ThreadStacks::IdOfNew(const FrameWalker& walker, uint64_t frame,
                                              OperatorBegin* begin, StackCounts* counts) {
  const uint64_t key = KeyOf(*begin->thread);
  if (entered_ != key) Enter(*begin->thread, kWanted);
  is_base_new_ = false;
  base_ticks_ = 0;
  // Nothing is known of what lies below a cut.
  const FrameWalker::Walked walked =
      walker.Walk<kWanted>(frame, next_frames_, next_calls_, calls_, is_cut_ ? 0 : depth_);
  if (walked.end == WalkEnd::kOdd) {
    counts->odd_frames.fetch_add(1, std::memory_order_relaxed);
    ForgetLast();
    return wire::kNoStackId;
  }
  const uint32_t id = Intern<kWanted>(walker, walked, counts);
  if ((depth_ != 0 && id == wire::kNoStackId) || !Publish(begin)) {
    ForgetLast();
    return wire::kNoStackId;
  }
  last_of_ = key;
  return Remember(walker, frame, begin, id);
}

template uint32_t ThreadStacks::IdOfNew<Wanted::kFrames>(const FrameWalker&, uint64_t,
                                                         OperatorBegin*, StackCounts*);
template uint32_t ThreadStacks::IdOfNew<Wanted::kModules>(const FrameWalker&, uint64_t,
                                                          OperatorBegin*, StackCounts*);
template uint32_t ThreadStacks::IdOfNew<Wanted::kBoth>(const FrameWalker&, uint64_t, OperatorBegin*,
                                                       StackCounts*);

// Distinguishes calls of one module that follow each other: sets the turns of next_frames_, of
// which the first `common` from the outermost one on are those of the last stack, and the first
// `below` were not walked, because they are. Returns how many are in the same calls, too.
//
// Both stacks are followed as long as they are in the same functions. Lines do not matter: f(f(x))
// calls f from two places of one function. As long as a call lasts, so do those around it, so that
// one look says that all are the same.
uint32_t ThreadStacks::SetTurns(uint32_t depth, uint32_t below, bool has_turns, uint32_t common) {
  const auto next_at = [&](uint32_t at) -> WalkedFrame& { return next_frames_[depth - 1 - at]; };
  const auto is_call_of_last = [&](uint32_t at) {
    return next_calls_[depth - 1 - at].version == calls_[at].version;
  };
  uint32_t aligned = common;
  while (has_turns && aligned < depth && aligned < depth_ &&
         next_at(aligned).IsSameFunction(frames_[aligned])) {
    ++aligned;
  }
  uint32_t kept = aligned;
  uint32_t look = aligned;
  while (look > below && next_at(look - 1).module == 0) --look;
  const bool is_called_again = look > below && !is_call_of_last(look - 1);
  if (PROFD_UNLIKELY(is_called_again)) {
    kept = below;
    while (next_at(kept).module == 0 || is_call_of_last(kept)) ++kept;
    for (uint32_t at = kept; at < common; ++at) next_at(at).module = next_at(at).module_address();
    if (has_turns) next_at(kept).module = frames_[kept].module ^ WalkedFrame::kTurn;
  }
  for (uint32_t at = common; at < kept; ++at) next_at(at).module = frames_[at].module;
  return kept < common ? kept : common;
}

// What was walked, on top of what lies below it, becomes the last stack. kNoStackId: no room, which
// is counted; the last stack is then to be forgotten.
template <Wanted kWanted>
uint32_t ThreadStacks::Intern(const FrameWalker& walker, const FrameWalker::Walked& walked,
                              StackCounts* counts) {
  const uint32_t depth = walked.below + walked.depth;
  const bool is_cut = walked.end == WalkEnd::kCut;
  uint32_t common = walked.below;
  if (is_cut == is_cut_) {
    while (common < depth && common < depth_) {
      WalkedFrame& next = next_frames_[depth - 1 - common];
      const WalkedFrame& last = frames_[common];
      if (next.instruction != last.instruction || !next.IsSameFunction(last)) break;
      next.module = last.module;
      ++common;
    }
  }
  if (kWanted != Wanted::kFrames) {
    common = SetTurns(depth, walked.below, !is_cut && !is_cut_, common);
  }
  depth_ = depth;
  is_cut_ = is_cut;
  uint32_t id = is_cut ? kBelowCut : wire::kNoStackId;
  if (common != 0) id = ids_[common - 1];
  for (uint32_t at = common; at < depth; ++at) {
    const WalkedFrame& frame = next_frames_[depth - 1 - at];
    id = FindOrAdd(walker, frame, id, at);
    if (id == wire::kNoStackId) {
      counts->full.fetch_add(1, std::memory_order_relaxed);
      return wire::kNoStackId;
    }
    frames_[at] = frame;
    ids_[at] = id;
  }
  for (uint32_t at = walked.below; at < depth; ++at) calls_[at] = next_calls_[depth - 1 - at];
  innermost_at_ = depth;
  while (innermost_at_ > 0 && calls_[--innermost_at_].version == 0) {
  }
  innermost_call_ = depth != 0 ? calls_[innermost_at_] : ModuleCall{};
  id_ = depth != 0 ? id : wire::kNoStackId;
  return id_;
}

uint32_t ThreadStacks::FindOrAdd(const FrameWalker& walker, const WalkedFrame& frame,
                                 uint32_t parent, uint32_t depth) {
  uint32_t slot = SlotOf(frame, parent, kSlots);
  for (; slots_[slot] != 0; slot = (slot + 1) % kSlots) {
    const Node& node = nodes_[slots_[slot]];
    if (node.parent == parent && node.frame == frame) return slots_[slot];
  }
  if (node_count_ == wire::kMaxStackId) return wire::kNoStackId;
  const uint32_t id = ++node_count_;
  Node& node = nodes_[id];
  node.frame = frame;
  node.parent = parent;
  node.session_serial = 0;
  node.depth = depth;
  Describe(walker, &node);
  slots_[slot] = id;
  return id;
}

// While the frame keeps its code, and with it these texts. The names are interned for good.
void ThreadStacks::Describe(const FrameWalker& walker, Node* node) {
  const InterpreterLayout& layout = walker.layout();
  const uint64_t code = node->frame.code;
  char room[kMostTextBytes];
  node->file_id = NameOfText(ReadText(layout, LoadAt<uint64_t>(code, layout.code_file), room));
  node->name_id = NameOfText(ReadText(layout, LoadAt<uint64_t>(code, layout.code_name), room));
  const auto first_line = LoadAt<int32_t>(code, layout.code_first_line);
  node->first_line = first_line > 0 ? static_cast<uint32_t>(first_line) : 0;
  // A capture of modules alone does not ask where in _call_impl() its frames are.
  node->line = node->frame.instruction != 0 ? LineAt(layout, code, walker.OffsetOf(node->frame))
                                            : node->first_line;
  node->class_name_id =
      node->frame.module != 0 ? ClassNameOf(node->frame.module_address()) : wire::kNoNameId;
}

// What the capture has not been given of the last stack, callers first. False: there was no room.
bool ThreadStacks::Publish(OperatorBegin* begin) {
  const uint32_t serial = begin->thread->session_serial;
  uint32_t known = depth_;
  while (known > 0 && nodes_[ids_[known - 1]].session_serial != serial) --known;
  if (known == depth_) return true;
  Session* session = SessionOf(*begin);
  if (session == nullptr) return false;
  for (uint32_t at = known; at < depth_; ++at) {
    if (!WriteNode(session, begin, ids_[at])) return false;
  }
  return true;
}

bool ThreadStacks::WriteNode(Session* session, OperatorBegin* begin, uint32_t id) {
  Node& node = nodes_[id];
  const bool is_cut = node.parent == kBelowCut;
  wire::StackFrameEvent event{};
  event.header = {sizeof(event), static_cast<uint8_t>(wire::EventKind::kStackFrame),
                  static_cast<uint8_t>((is_cut ? wire::kStackFlagCut : 0) |
                                       (node.frame.has_turn() ? wire::kStackFlagAgain : 0)),
                  0};
  event.module = node.frame.module_address();
  event.stack_id = id;
  event.parent_id = is_cut ? wire::kNoStackId : node.parent;
  event.file_id = session->EventNameId(node.file_id);
  event.name_id = session->EventNameId(node.name_id);
  event.line = node.line;
  event.first_line = node.first_line;
  event.class_name_id = node.class_name_id != wire::kNoNameId
                            ? session->EventNameId(node.class_name_id)
                            : wire::kNoNameId;
  event.depth = node.depth;
  if (!WriteBeforeOperator(begin, &event, sizeof(event))) return false;
  node.session_serial = session->serial;
  return true;
}

}  // namespace profd::client::python_stack
