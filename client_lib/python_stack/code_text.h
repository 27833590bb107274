// What a code object says of itself, read from memory: texts and lines. No function of Python's is
// called, so that none takes its lock.
//
// Threads: any thread on whose stack the code runs, which keeps the code alive.
// Hot path: no lock, no allocation, no system call. For code that is seen for the first time.
// Errors:  a text that does not look like one is empty; a line that is not there is 0.
#ifndef PROFD_CLIENT_LIB_PYTHON_STACK_CODE_TEXT_H_
#define PROFD_CLIENT_LIB_PYTHON_STACK_CODE_TEXT_H_

#include <cstddef>
#include <cstdint>

#include "client_lib/python_stack/interpreter_layout.h"

namespace profd::client::python_stack {

// Longer texts keep their last bytes: of a path, what tells it from others.
inline constexpr size_t kMostTextBytes = 1024;

struct Text {
  const char* bytes;
  size_t length;
};

template <typename Value>
[[gnu::always_inline]] inline Value LoadAt(uint64_t object, int32_t offset) {
  Value value;
  __builtin_memcpy(&value, reinterpret_cast<const char*>(object) + offset, sizeof(value));
  return value;
}

// The str at `object` as UTF-8: in place, or in `room`.
Text ReadText(const InterpreterLayout& layout, uint64_t object, char (&room)[kMostTextBytes]);

// The line of the instruction at `offset` bytes; 0: it has none.
uint32_t LineAt(const InterpreterLayout& layout, uint64_t code, int64_t offset);

// The walks of the three tables, for tests. `first_line` is the code's.
uint32_t LineOfDeltas(const uint8_t* table, size_t bytes, int64_t first_line, int64_t offset);
uint32_t LineOfRanges(const uint8_t* table, size_t bytes, int64_t first_line, int64_t offset);
uint32_t LineOfLocations(const uint8_t* table, size_t bytes, int64_t first_line, int64_t offset);

}  // namespace profd::client::python_stack

#endif  // PROFD_CLIENT_LIB_PYTHON_STACK_CODE_TEXT_H_
