// InterpreterLayout is where CPython keeps what a stack is made of, in this process: the frames of
// a thread, their code, and the code's names and lines. CPython 3.9 to 3.14; from 3.13 on the
// interpreter publishes most offsets itself (_Py_DebugOffsets), before that a table has them.
//
//   thread state ─[cframe]─► frame ─previous─► frame ─► ... ─► null
//                              │ code, instruction, locals
//                              └─► code ─► file name, qualified name, first line, line table
//
// No offset is used before interpreter_proof.h has compared what it leads to with what Python's own
// functions say of the same frames. Nothing of Python is linked: its functions are found by name.
//
// Threads: FindLayout() any, once. What it found is constant.
// Errors:  an interpreter that is not known is refused, and `why` says so.
#ifndef PROFD_CLIENT_LIB_PYTHON_STACK_INTERPRETER_LAYOUT_H_
#define PROFD_CLIENT_LIB_PYTHON_STACK_INTERPRETER_LAYOUT_H_

#include <cstddef>
#include <cstdint>

namespace profd::client::python_stack {

inline constexpr int32_t kNowhere = -1;

// The table by which an instruction leads to a line.
enum class LineTable : uint8_t {
  kDeltas,     // 3.9: co_lnotab
  kRanges,     // 3.10: co_linetable
  kLocations,  // 3.11 and later: co_linetable
};

// Offsets in bytes; kNowhere: this version has none.
struct InterpreterLayout {
  uint32_t minor;  // Of version 3.
  // The calling thread's state, also without Python's lock; null: Python does not know the thread.
  void* (*thread_state)();
  const void* code_type;
  const void* cell_type;
  // Null: dicts have no version that is theirs alone (3.14), or it has not been proved.
  const void* dict_type;

  int32_t thread_frame;  // In the thread state: the innermost frame, or what leads to it.
  int32_t cframe_frame;  // In what leads to it.
  int32_t frame_previous;
  int32_t frame_code;
  int32_t frame_instruction;
  int32_t frame_owner;
  int32_t frame_locals;
  bool has_instruction_index;  // `frame_instruction` is an int, not a pointer into the code.
  uint8_t index_shift;         // From that index to bytes.

  int32_t code_file;
  int32_t code_name;  // Qualified, if there is such a name.
  int32_t code_first_line;
  int32_t code_lines;
  int32_t code_instructions;
  int32_t code_version;  // A number that no two code objects share.
  LineTable lines;

  int32_t ascii_bytes;    // sizeof(PyASCIIObject)
  int32_t compact_bytes;  // sizeof(PyCompactUnicodeObject)
  uint8_t kind_shift;     // Of the kind in PyASCIIObject.state.
};

// The same in every version.
inline constexpr int32_t kObjectType = 8;    // PyObject.ob_type
inline constexpr int32_t kBytesLength = 16;  // PyVarObject.ob_size
inline constexpr int32_t kBytesData = 32;    // PyBytesObject.ob_sval
inline constexpr int32_t kTextLength = 16;   // PyASCIIObject.length
inline constexpr int32_t kTextState = 32;    // PyASCIIObject.state
inline constexpr int32_t kCellValue = 16;    // PyCellObject.ob_ref
inline constexpr int32_t kTypeName = 24;     // PyTypeObject.tp_name
inline constexpr int32_t kDictVersion = 24;  // PyDictObject.ma_version_tag, up to 3.13
inline constexpr int32_t kCodeBytes = 168;   // No field above but instructions is behind this.

// Frames of the interpreter's own, which run no Python code: FRAME_OWNED_BY_CSTACK of 3.12 and
// 3.13; FRAME_OWNED_BY_INTERPRETER and FRAME_OWNED_BY_CSTACK of 3.14. (pycore_frame.h,
// pycore_interpframe_structs.h)
inline constexpr uint8_t kFirstOwnerWithoutCode = 3;

// Low bits of a reference that hold tags, not address bits: _PyStackRef of 3.14; 0 before.
inline constexpr uint64_t kReferenceTags = 3;

// Finds the interpreter of this process and what is known of its version. False: `why` says why
// not.
bool FindLayout(InterpreterLayout* layout, char* why, size_t why_bytes);

}  // namespace profd::client::python_stack

#endif  // PROFD_CLIENT_LIB_PYTHON_STACK_INTERPRETER_LAYOUT_H_
