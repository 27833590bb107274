// StackDecoder turns definitions of Python stacks (wire::StackFrameEvent) into stacks of the
// capture, and passes on what its modules are called (wire::ModuleEvent). On the wire each thread
// numbers its own stacks; here equal stacks of all threads are one, numbered from 1 in the order in
// which they come.
//
// A thread defines a stack before it uses it, and its parent before it. So what comes in the order
// of a thread needs no second look.
//
// A module that is called again, with no other stack in between, has two stacks that are equal but
// for their numbers: the first is that of one call, the second that of the next, and so on in
// turns.
//
// Modules come when the window is over, in no order.
//
// Refused: records that are too short; ids, depths, and lines out of range; a parent that the
// thread has not defined; an id that it defines twice; names that are not there; a class, or
// another call, without a module; a cut above the outermost frame; a module without an address, and
// a path of its own root.
//
// Threads:   one at a time.
// Ownership: borrows all it is given.
// Memory:    kMaxStacks stacks, kMaxDefinitions ids of threads, and kMaxModules modules. What is
//            beyond them counts in full_count(); such a stack is 0.
#ifndef PROFD_DAEMON_INGEST_DECODE_STACK_DECODER_H_
#define PROFD_DAEMON_INGEST_DECODE_STACK_DECODER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/ingest/decode/decode_context.h"
#include "proto/wire/event.h"

namespace profd {

// A stack: a frame, and the stack of its caller.
struct StackNode {
  uint32_t caller = 0;  // 0: none; the outermost frame, or with `is_cut` the outermost one kept.
  uint32_t file = 0;    // Names, as the sink numbers them.
  uint32_t name = 0;
  uint32_t line = 0;  // 0: not known.
  uint32_t first_line = 0;
  uint64_t module = 0;      // Its address in the target; 0: the frame calls none.
  uint32_t class_name = 0;  // 0: not known.
  bool is_cut = false;
  bool is_again = false;  // Another call of the module than that of the stack that equals this one.

  friend bool operator==(const StackNode&, const StackNode&) = default;
  template <typename H>
  friend H AbslHashValue(H hash, const StackNode& node) {
    return H::combine(std::move(hash), node.caller, node.file, node.name, node.line,
                      node.first_line, node.module, node.class_name, node.is_cut, node.is_again);
  }
};

// What a module is called.
struct ModulePath {
  uint64_t address = 0;
  uint64_t root = 0;  // Of the outermost module that holds it.
  uint32_t path = 0;  // A name; 0: it is the root.
  uint32_t class_name = 0;
};

// Takes stacks, of which `stack` counts from 1 without gaps, and a caller comes first; and modules.
class StackSink {
 public:
  virtual ~StackSink() = default;
  virtual void AddStack(uint32_t stack, const StackNode& node) = 0;
  virtual void AddModule(const ModulePath& module) = 0;
};

// What one thread has defined: by its ids, those of the capture.
class ThreadStackIds {
 private:
  friend class StackDecoder;
  absl::flat_hash_map<uint32_t, uint32_t> by_wire_id_;
};

class StackDecoder {
 public:
  static constexpr uint32_t kMaxStacks = 1u << 18;
  static constexpr uint32_t kMaxDefinitions = 1u << 20;
  static constexpr uint32_t kMaxModules = 1u << 16;

  StackDecoder(NameTable& names, StackSink& sink) : names_(names), sink_(sink) {}

  // False for an invalid record. `size`: of the record.
  bool Decode(const std::byte* record, uint32_t size, ThreadStackIds& thread);

  bool DecodeModule(const std::byte* record, uint32_t size);

  // The stack that an operator of the thread names; 0: none. Nothing: it was not defined.
  std::optional<uint32_t> Find(const ThreadStackIds& thread, uint32_t wire_id) const;

  // Definitions and modules for which there was no room.
  int64_t full_count() const { return full_count_; }
  int64_t stack_count() const { return static_cast<int64_t>(depths_.size()); }

 private:
  uint32_t Add(const StackNode& node, uint32_t depth);

  NameTable& names_;
  StackSink& sink_;
  absl::flat_hash_map<StackNode, uint32_t> ids_;
  std::vector<uint16_t> depths_;  // Of stack 1 on: frames below its own.
  uint32_t definition_count_ = 0;
  uint32_t module_count_ = 0;
  int64_t full_count_ = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_INGEST_DECODE_STACK_DECODER_H_
