#include "client_lib/python_stack/interpreter_layout.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <initializer_list>

#include "client_lib/core/safe_memory.h"

namespace profd::client::python_stack {
namespace {

constexpr uint32_t kOldestMinor = 9;
constexpr uint32_t kFirstPublishedMinor = 13;
constexpr uint32_t kNewestMinor = 14;

// x86-64 and aarch64 lay these structs out alike.
constexpr InterpreterLayout kKnown[] = {
    // 3.9: Include/cpython/pystate.h, frameobject.h, code.h, unicodeobject.h
    {.minor = 9,
     .thread_state = nullptr,
     .code_type = nullptr,
     .cell_type = nullptr,
     .dict_type = nullptr,
     .thread_frame = 24,
     .cframe_frame = kNowhere,
     .frame_previous = 24,
     .frame_code = 32,
     .frame_instruction = 104,
     .frame_owner = kNowhere,
     .frame_locals = 360,
     .has_instruction_index = true,
     .index_shift = 0,
     .code_file = 104,
     .code_name = 112,
     .code_first_line = 40,
     .code_lines = 120,
     .code_instructions = kNowhere,
     .code_version = kNowhere,
     .lines = LineTable::kDeltas,
     .ascii_bytes = 48,
     .compact_bytes = 72,
     .kind_shift = 2},
    // 3.10: the same files. f_lasti counts instructions from here on.
    {.minor = 10,
     .thread_state = nullptr,
     .code_type = nullptr,
     .cell_type = nullptr,
     .dict_type = nullptr,
     .thread_frame = 24,
     .cframe_frame = kNowhere,
     .frame_previous = 24,
     .frame_code = 32,
     .frame_instruction = 96,
     .frame_owner = kNowhere,
     .frame_locals = 352,
     .has_instruction_index = true,
     .index_shift = 1,
     .code_file = 104,
     .code_name = 112,
     .code_first_line = 40,
     .code_lines = 120,
     .code_instructions = kNowhere,
     .code_version = kNowhere,
     .lines = LineTable::kRanges,
     .ascii_bytes = 48,
     .compact_bytes = 72,
     .kind_shift = 2},
    // 3.11: Include/internal/pycore_frame.h, Include/cpython/pystate.h, code.h
    {.minor = 11,
     .thread_state = nullptr,
     .code_type = nullptr,
     .cell_type = nullptr,
     .dict_type = nullptr,
     .thread_frame = 56,
     .cframe_frame = 8,
     .frame_previous = 48,
     .frame_code = 32,
     .frame_instruction = 56,
     .frame_owner = kNowhere,  // It has one, and no frames without code.
     .frame_locals = 72,
     .has_instruction_index = false,
     .index_shift = 0,
     .code_file = 112,
     .code_name = 128,
     .code_first_line = 72,
     .code_lines = 136,
     .code_instructions = 184,
     .code_version = kNowhere,
     .lines = LineTable::kLocations,
     .ascii_bytes = 48,
     .compact_bytes = 72,
     .kind_shift = 2},
    // 3.12: the same files. Frames have their own order, and the entry frame of the C stack.
    {.minor = 12,
     .thread_state = nullptr,
     .code_type = nullptr,
     .cell_type = nullptr,
     .dict_type = nullptr,
     .thread_frame = 56,
     .cframe_frame = 0,
     .frame_previous = 8,
     .frame_code = 0,
     .frame_instruction = 56,
     .frame_owner = 70,
     .frame_locals = 72,
     .has_instruction_index = false,
     .index_shift = 0,
     .code_file = 112,
     .code_name = 128,
     .code_first_line = 68,
     .code_lines = 136,
     .code_instructions = 192,
     .code_version = 92,
     .lines = LineTable::kLocations,
     .ascii_bytes = 40,
     .compact_bytes = 56,
     .kind_shift = 2},
};

template <typename Function>
bool Resolve(const char* symbol, Function* function) {
  void* found = dlsym(RTLD_DEFAULT, symbol);
  memcpy(function, &found, sizeof(found));
  return found != nullptr;
}

// _Py_DebugOffsets, at the begin of _PyRuntime: words, in the order of
// Include/internal/pycore_runtime.h (3.13) and pycore_debug_offsets.h (3.14).
struct PublishedWords {
  size_t thread_frame;
  size_t frame;  // size previous executable instr_ptr localsplus owner
  size_t code;   // size filename name qualname linetable firstlineno ... co_code_adaptive
};
constexpr PublishedWords kPublished13 = {.thread_frame = 23, .frame = 28, .code = 34};
constexpr PublishedWords kPublished14 = {.thread_frame = 26, .frame = 31, .code = 39};
constexpr size_t kCookieWord = 0;
constexpr size_t kVersionWord = 1;
constexpr size_t kFreeThreadedWord = 2;
constexpr size_t kInstructionsWord = 9;  // Of code.
constexpr size_t kMostWords = 64;
constexpr char kCookie[] = "xdebugpy";

// co_version follows co_firstlineno by six ints in 3.13 and 3.14; proved before it is used.
constexpr int32_t kVersionAfterFirstLine = 24;

// No real offset is larger.
constexpr uint64_t kMostOffset = 1u << 16;

bool ReadPublished(uint32_t minor, InterpreterLayout* layout, char* why, size_t why_bytes) {
  const void* runtime = dlsym(RTLD_DEFAULT, "_PyRuntime");
  uint64_t words[kMostWords];
  SafeMemory memory;
  if (runtime == nullptr || !memory.Read(runtime, words, sizeof(words)) ||
      memcmp(&words[kCookieWord], kCookie, sizeof(uint64_t)) != 0) {
    snprintf(why, why_bytes, "Python 3.%u does not publish its offsets", minor);
    return false;
  }
  if (words[kVersionWord] >> 16 != (3u << 8 | minor)) {
    snprintf(why, why_bytes, "Python 3.%u publishes the offsets of version %llx", minor,
             static_cast<unsigned long long>(words[kVersionWord]));
    return false;
  }
  if (words[kFreeThreadedWord] != 0) {
    snprintf(why, why_bytes, "this Python is free-threaded, which has not been tested");
    return false;
  }
  const PublishedWords& at = minor == 13 ? kPublished13 : kPublished14;
  const uint64_t* frame = &words[at.frame];
  const uint64_t* code = &words[at.code];
  for (const uint64_t offset : {words[at.thread_frame], frame[1], frame[2], frame[3], frame[4],
                                frame[5], code[kInstructionsWord]}) {
    if (offset >= kMostOffset) {
      snprintf(why, why_bytes, "Python 3.%u publishes an offset of %llu", minor,
               static_cast<unsigned long long>(offset));
      return false;
    }
  }
  for (size_t i = 1; i <= 5; ++i) {
    if (code[i] > static_cast<uint64_t>(kCodeBytes) - sizeof(uint64_t)) {
      snprintf(why, why_bytes, "Python 3.%u publishes code of another size", minor);
      return false;
    }
  }
  *layout = kKnown[12 - kOldestMinor];
  layout->minor = minor;
  layout->thread_frame = static_cast<int32_t>(words[at.thread_frame]);
  layout->cframe_frame = kNowhere;
  layout->frame_previous = static_cast<int32_t>(frame[1]);
  layout->frame_code = static_cast<int32_t>(frame[2]);
  layout->frame_instruction = static_cast<int32_t>(frame[3]);
  layout->frame_locals = static_cast<int32_t>(frame[4]);
  layout->frame_owner = static_cast<int32_t>(frame[5]);
  layout->code_file = static_cast<int32_t>(code[1]);
  layout->code_name = static_cast<int32_t>(code[3]);
  layout->code_lines = static_cast<int32_t>(code[4]);
  layout->code_first_line = static_cast<int32_t>(code[5]);
  layout->code_version = layout->code_first_line + kVersionAfterFirstLine;
  layout->code_instructions = static_cast<int32_t>(code[kInstructionsWord]);
  return true;
}

}  // namespace

bool FindLayout(InterpreterLayout* layout, char* why, size_t why_bytes) {
  const char* (*get_version)();
  if (!Resolve("Py_GetVersion", &get_version)) {
    snprintf(why, why_bytes, "the process shows no Python");
    return false;
  }
  const char* version = get_version();
  const auto minor =
      strncmp(version, "3.", 2) == 0 ? static_cast<uint32_t>(strtoul(version + 2, nullptr, 10)) : 0;
  if (minor < kOldestMinor || minor > kNewestMinor) {
    snprintf(why, why_bytes, "Python %.20s is not one of 3.%u to 3.%u", version, kOldestMinor,
             kNewestMinor);
    return false;
  }
  if (strstr(version, "free-threading") != nullptr) {
    snprintf(why, why_bytes, "this Python is free-threaded, which has not been tested");
    return false;
  }
  if (minor < kFirstPublishedMinor) {
    *layout = kKnown[minor - kOldestMinor];
  } else if (!ReadPublished(minor, layout, why, why_bytes)) {
    return false;
  }
  if (Resolve("PyGILState_GetThisThreadState", &layout->thread_state) &&
      Resolve("PyCode_Type", &layout->code_type) && Resolve("PyCell_Type", &layout->cell_type)) {
    return true;
  }
  snprintf(why, why_bytes, "%s", dlerror());
  return false;
}

}  // namespace profd::client::python_stack
