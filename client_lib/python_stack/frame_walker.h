// The raw walk of the calling thread's own Python frames, innermost first.
//
// The thread is inside a call of C, so its frames do not change, whether it holds Python's lock or
// not, and each frame keeps its code alive. To see whether the stack has changed, every frame is
// compared: a function that is called again from another line has its frame at the same address.
// The walk itself costs a load that waits for the one before it, 1 to 2 ns a frame.
//
// A call of a module can be recognized, because Python makes a dict for it with a version that no
// other dict has. While the call lasts, all frames around it wait for it. So where the call is one
// of the last stack's, comparing and walking end: what lies below is known.
//
// An address does not identify a code object, because Python reuses the memory of freed ones. So
// each has a mark:
//
//   3.12 and later   co_version, which no two code objects share
//   before, or 0     addresses of name, file and lines, the first line, the ends of both texts, and
//                    four words of the lines. Code that agrees in all of these counts as the
//                    same, even where the rest of its file's name or of its lines differs.
//                    Code that we keep alive has no mark.
//
// Threads:  the thread whose frames they are.
// Hot path: loads only.
// Errors:   an invalid address ends the walk: kOdd. So does kMaxStackDepth: kCut.
#ifndef PROFD_CLIENT_LIB_PYTHON_STACK_FRAME_WALKER_H_
#define PROFD_CLIENT_LIB_PYTHON_STACK_FRAME_WALKER_H_

#include <cstdint>

#include "client_lib/core/hot_state.h"
#include "client_lib/python_stack/code_text.h"
#include "client_lib/python_stack/interpreter_layout.h"
#include "proto/wire/event.h"

namespace profd::client::python_stack {

// The code of torch.nn.Module's calls, which are kept alive for good. 0: there is none.
struct ModuleCalls {
  uint64_t outer;  // Called with each module as its first argument.
  uint64_t inner;  // The function that `outer` calls; 0: none.
  // Which local variable of `outer` is the dict of its keyword arguments; kNowhere: not known.
  // Python makes one for each call.
  int32_t keywords;
};

// What a capture wants of stacks.
enum class Wanted : uint8_t {
  kNothing = 0,
  kFrames = 1,   // Every frame.
  kModules = 2,  // The calls of modules.
  kBoth = 3,     // Every frame, and which module each of those calls is of.
};

struct WalkedFrame {
  uint64_t code;
  uint64_t instruction;  // As the frame has it: a pointer, or an index.
  uint64_t mark;
  uint64_t module;  // With kTurn; 0: not a call of a module.

  // Of a module's address: set in every second of calls that follow each other at the same place.
  static constexpr uint64_t kTurn = 1;
  uint64_t module_address() const { return module & ~kTurn; }
  bool has_turn() const { return (module & kTurn) != 0; }
  // Whatever the line, and the turn.
  [[gnu::always_inline]] bool IsSameFunction(const WalkedFrame& other) const {
    return code == other.code && mark == other.mark && module_address() == other.module_address();
  }

  friend bool operator==(const WalkedFrame&, const WalkedFrame&) = default;
};

// A frame that calls a module; all 0: another frame.
struct ModuleCall {
  uint64_t frame;
  uint64_t version;  // FrameWalker::CallOf()

  friend bool operator==(const ModuleCall&, const ModuleCall&) = default;
};

enum class WalkEnd { kWhole, kCut, kOdd };

class FrameWalker {
 public:
  // `calls`: of modules; 0: not known.
  FrameWalker(const InterpreterLayout& layout, const ModuleCalls& calls)
      : layout_(layout),
        module_call_(calls.outer),
        inner_call_(calls.inner),
        keywords_(calls.keywords == kNowhere || layout.dict_type == nullptr
                      ? kNowhere
                      : layout.frame_locals + calls.keywords * int32_t{sizeof(uint64_t)}) {}

  // The thread's innermost frame; 0: it has none.
  [[gnu::always_inline]] uint64_t FirstFrame() const {
    const auto thread = reinterpret_cast<uint64_t>(layout_.thread_state());
    if (thread == 0) return 0;
    const uint64_t frame = LoadAt<uint64_t>(thread, layout_.thread_frame);
    if (layout_.cframe_frame == kNowhere) return frame;
    return frame != 0 ? LoadAt<uint64_t>(frame, layout_.cframe_frame) : 0;
  }

  [[gnu::always_inline]] static bool IsAddress(uint64_t address) {
    return address % sizeof(uint64_t) == 0 && address != 0;
  }

  [[gnu::always_inline]] bool HasCode(uint64_t frame) const {
    return layout_.frame_owner == kNowhere ||
           LoadAt<uint8_t>(frame, layout_.frame_owner) < kFirstOwnerWithoutCode;
  }

  [[gnu::always_inline]] uint64_t CodeOf(uint64_t frame) const {
    return LoadAt<uint64_t>(frame, layout_.frame_code) & ~kReferenceTags;
  }

  [[gnu::always_inline]] uint64_t InstructionOf(uint64_t frame) const {
    if (layout_.has_instruction_index) {
      return static_cast<uint64_t>(int64_t{LoadAt<int32_t>(frame, layout_.frame_instruction)});
    }
    return LoadAt<uint64_t>(frame, layout_.frame_instruction);
  }

  [[gnu::always_inline]] uint64_t MarkOf(uint64_t code) const {
    if (PROFD_LIKELY(layout_.code_version != kNowhere)) {
      const uint32_t version = LoadAt<uint32_t>(code, layout_.code_version);
      if (PROFD_LIKELY(version != 0)) return version;
    } else if (code == module_call_ || code == inner_call_) {
      return 0;
    }
    return MarkOfContents(code);
  }

  // `frame` is one of calls of modules.
  [[gnu::always_inline]] uint64_t ModuleOf(uint64_t frame) const {
    const uint64_t first = LoadAt<uint64_t>(frame, layout_.frame_locals) & ~kReferenceTags;
    if (!IsAddress(first)) return 0;
    const uint64_t type = LoadAt<uint64_t>(first, kObjectType);
    if (PROFD_LIKELY(type != reinterpret_cast<uint64_t>(layout_.cell_type))) return first;
    return LoadAt<uint64_t>(first, kCellValue);
  }

  // `frame` is one of calls of modules. A number that no other call has: the version of the dict
  // of its keyword arguments, which is new in each call, while its address is not. 0: not known.
  [[gnu::always_inline]] uint64_t CallOf(uint64_t frame) const {
    if (PROFD_UNLIKELY(keywords_ == kNowhere)) return 0;
    const uint64_t keywords = LoadAt<uint64_t>(frame, keywords_) & ~kReferenceTags;
    if (PROFD_UNLIKELY(!IsAddress(keywords)) ||
        PROFD_UNLIKELY(LoadAt<uint64_t>(keywords, kObjectType) !=
                       reinterpret_cast<uint64_t>(layout_.dict_type))) {
      return 0;
    }
    return LoadAt<uint64_t>(keywords, kDictVersion);
  }

  uint64_t PreviousOf(uint64_t frame) const {
    return LoadAt<uint64_t>(frame, layout_.frame_previous);
  }

  // Bytes from the code's first instruction; negative: before it.
  int64_t OffsetOf(const WalkedFrame& walked) const {
    if (layout_.has_instruction_index) {
      return static_cast<int64_t>(walked.instruction) * (int64_t{1} << layout_.index_shift);
    }
    return static_cast<int64_t>(walked.instruction - walked.code -
                                static_cast<uint64_t>(layout_.code_instructions));
  }

  // Whether the stack from `frame` on is `known`: `depth` frames, the outermost one first, of which
  // `is_cut` says that more lay below. `call`: the innermost call of a module in it, at `call_at`
  // from the outermost frame. Its version is 0: there is none that can be recognized.
  template <Wanted kWanted>
  [[gnu::always_inline]] bool IsSame(uint64_t frame, const WalkedFrame* known, uint32_t depth,
                                     bool is_cut, const ModuleCall& call, uint32_t call_at) const {
    uint32_t at = depth;
    for (; frame != 0; frame = PreviousOf(frame)) {
      if (PROFD_UNLIKELY(frame % sizeof(uint64_t) != 0)) return false;
      if (!HasCode(frame)) continue;
      const uint64_t code = CodeOf(frame);
      if (kWanted == Wanted::kModules && code != module_call_) continue;
      if (PROFD_UNLIKELY(at == 0)) return is_cut;
      const WalkedFrame& expected = known[--at];
      if (code != expected.code) return false;
      if (kWanted != Wanted::kModules && InstructionOf(frame) != expected.instruction) return false;
      // Only with that code is there a dict of keyword arguments to look at.
      if (at == call_at && call.version != 0) {
        return frame == call.frame && CallOf(frame) == call.version;
      }
      if (kWanted != Wanted::kModules && MarkOf(code) != expected.mark) return false;
      if (kWanted != Wanted::kFrames && expected.module != 0 &&
          ModuleOf(frame) != expected.module_address()) {
        return false;
      }
    }
    return at == 0 && !is_cut;
  }

  struct Walked {
    WalkEnd end;
    uint32_t depth;  // How many frames were walked.
    // How many of the last stack's frames, from the outermost one on, lie below these. They have
    // not run since.
    uint32_t below;
  };

  // Walks from `frame` on: `into` and `calls` get the frames, the innermost one first. At most
  // wire::kMaxStackDepth. No frame has a turn. `last_calls`: those of the last stack's `last_depth`
  // frames, the outermost one first.
  template <Wanted kWanted>
  Walked Walk(uint64_t frame, WalkedFrame* into, ModuleCall* calls, const ModuleCall* last_calls,
              uint32_t last_depth) const {
    // The walk of modules passes many frames that it does not keep.
    constexpr uint32_t kMostPassed = 64 * 1024;
    uint32_t passed = 0;
    uint32_t depth = 0;
    uint32_t last = last_depth;
    for (; frame != 0; frame = PreviousOf(frame)) {
      if (!IsAddress(frame) || ++passed > kMostPassed) return {WalkEnd::kOdd, 0, 0};
      if (!HasCode(frame)) continue;
      const uint64_t code = CodeOf(frame);
      if (!IsAddress(code)) return {WalkEnd::kOdd, 0, 0};
      if (kWanted == Wanted::kModules && code != module_call_) continue;
      if (depth == wire::kMaxStackDepth) return {WalkEnd::kCut, depth, 0};
      WalkedFrame& walked = into[depth];
      ModuleCall& call = calls[depth++];
      walked = {.code = code, .instruction = 0, .mark = 0, .module = 0};
      call = {.frame = 0, .version = 0};
      if (kWanted != Wanted::kModules) {
        if (LoadAt<uint64_t>(code, kObjectType) != reinterpret_cast<uint64_t>(layout_.code_type)) {
          return {WalkEnd::kOdd, 0, 0};
        }
        walked.instruction = InstructionOf(frame);
        walked.mark = MarkOf(code);
      }
      if (code != module_call_) continue;
      call = {.frame = frame, .version = CallOf(frame)};
      if (kWanted != Wanted::kFrames) walked.module = ModuleOf(frame) & ~WalkedFrame::kTurn;
      if (call.version == 0) continue;
      // A call around another one has the older dict.
      while (last > 0 &&
             !(last_calls[last - 1].version != 0 && last_calls[last - 1].version <= call.version)) {
        --last;
      }
      if (last == 0 || last_calls[last - 1] != call) continue;
      if (depth + last - 1 <= wire::kMaxStackDepth) return {WalkEnd::kWhole, depth, last - 1};
      last = 0;  // The walk decides where the stack is cut.
    }
    return {WalkEnd::kWhole, depth, 0};
  }

  const InterpreterLayout& layout() const { return layout_; }

 private:
  // The last bytes of a text; of one that is not ASCII, bytes that depend on them.
  [[gnu::always_inline]] uint64_t EndOf(uint64_t text, uint64_t length, uint64_t back) const {
    const uint64_t data = text + static_cast<uint64_t>(layout_.ascii_bytes);
    return LoadAt<uint64_t>(data + (length >= back ? length - back : 0), 0);
  }

  // Each word has a multiplier of its own, so that none waits for another.
  [[gnu::always_inline]] uint64_t MarkOfContents(uint64_t code) const {
    const uint64_t file = LoadAt<uint64_t>(code, layout_.code_file);
    const uint64_t name = LoadAt<uint64_t>(code, layout_.code_name);
    const uint64_t lines = LoadAt<uint64_t>(code, layout_.code_lines);
    const uint64_t first_line = LoadAt<uint32_t>(code, layout_.code_first_line);
    const uint64_t place = file ^ name << 20 ^ lines << 40 ^ first_line;
    if (PROFD_UNLIKELY(!IsAddress(file) || !IsAddress(name) || !IsAddress(lines))) return place;
    const uint64_t file_length = LoadAt<uint64_t>(file, kTextLength);
    const uint64_t name_length = LoadAt<uint64_t>(name, kTextLength);
    const uint64_t lines_length = LoadAt<uint64_t>(lines, kBytesLength);
    // PyBytesObject ends with a zero byte, and its memory with a whole word.
    const uint64_t last = lines_length >= sizeof(uint64_t) ? lines_length - sizeof(uint64_t) : 0;
    const uint64_t lengths = file_length ^ name_length << 20 ^ lines_length << 40;
    return (place ^ lengths) * 0x9e3779b97f4a7c15 +
           EndOf(file, file_length, 8) * 0xbf58476d1ce4e5b9 +
           EndOf(file, file_length, 16) * 0x94d049bb133111eb +
           EndOf(name, name_length, 8) * 0x9fb21c651e98df25 +
           LoadAt<uint64_t>(lines, kBytesData) * 0xd6e8feb86659fd93 +
           LoadAt<uint64_t>(lines + last / 3, kBytesData) * 0xa24baed4963ee407 +
           LoadAt<uint64_t>(lines + last * 2 / 3, kBytesData) * 0xc2b2ae3d27d4eb4f +
           LoadAt<uint64_t>(lines + last, kBytesData) * 0x165667b19e3779f9;
  }

  const InterpreterLayout layout_;
  const uint64_t module_call_;
  const uint64_t inner_call_;
  const int32_t keywords_;  // In a frame of module_call_; kNowhere: not known.
};

}  // namespace profd::client::python_stack

#endif  // PROFD_CLIENT_LIB_PYTHON_STACK_FRAME_WALKER_H_
