#include "client_lib/python_stack/interpreter_proof.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include <initializer_list>

#include "client_lib/core/safe_memory.h"
#include "client_lib/python_stack/code_text.h"

namespace profd::client::python_stack {
namespace {

using Object = void*;

// What is called of Python, all of it in each version.
struct Functions {
  int (*has_lock)();
  Object (*get_frame)();  // Borrowed.
  Object (*frame_back)(Object frame);
  Object (*frame_code)(Object frame);
  int (*frame_line)(Object frame);
  Object (*attribute)(Object object, const char* name);
  Object (*item)(Object object, Object key);
  Object (*first_item)(Object sequence, ssize_t index);
  Object (*make_text)(const char* bytes, ssize_t length);
  Object (*make_dict)();
  long (*to_long)(Object object);
  Object (*modules)();  // Borrowed.
  void (*drop)(Object object);
  void (*clear_error)();
};

const char* FindFunctions(Functions* functions) {
  const char* missing = nullptr;
  const auto need = [&missing](const char* symbol, auto* function) {
    void* found = dlsym(RTLD_DEFAULT, symbol);
    memcpy(function, &found, sizeof(found));
    if (found == nullptr && missing == nullptr) missing = symbol;
  };
  need("PyGILState_Check", &functions->has_lock);
  need("PyEval_GetFrame", &functions->get_frame);
  need("PyFrame_GetBack", &functions->frame_back);
  need("PyFrame_GetCode", &functions->frame_code);
  need("PyFrame_GetLineNumber", &functions->frame_line);
  need("PyObject_GetAttrString", &functions->attribute);
  need("PyObject_GetItem", &functions->item);
  need("PySequence_GetItem", &functions->first_item);
  need("PyUnicode_FromStringAndSize", &functions->make_text);
  need("PyDict_New", &functions->make_dict);
  need("PyLong_AsLong", &functions->to_long);
  need("PyImport_GetModuleDict", &functions->modules);
  need("Py_DecRef", &functions->drop);
  need("PyErr_Clear", &functions->clear_error);
  return missing;
}

// An object that is ours until the end of the block. Null: Python's error is cleared.
class Held {
 public:
  Held(const Functions& python, Object object) : python_(python), object_(object) {
    if (object_ == nullptr) python_.clear_error();
  }
  ~Held() { python_.drop(object_); }  // Py_DecRef() takes null.
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

  Object get() const { return object_; }
  uint64_t address() const { return reinterpret_cast<uint64_t>(object_); }
  // Stays ours for good.
  Object Keep() {
    Object kept = object_;
    object_ = nullptr;
    return kept;
  }

 private:
  const Functions& python_;
  Object object_;
};

struct Frame {
  uint64_t address;
  uint64_t code;
  int64_t offset;
};

constexpr uint32_t kMostFrames = 64;

class Prover {
 public:
  Prover(const Functions& python, InterpreterLayout* layout, char* why, size_t why_bytes)
      : python_(python), layout_(*layout), why_(why), why_bytes_(why_bytes) {}

  bool Prove(Proof* proof) {
    if (!ProveTexts()) return Refuse("strings look different");
    if (!ReadFrames() || !ProveFrames(proof)) return false;
    ProveDictVersions();
    return true;
  }

 private:
  bool Refuse(const char* what) {
    snprintf(why_, why_bytes_, "this Python 3.%u is not laid out as others: %s", layout_.minor,
             what);
    return false;
  }

  bool IsText(const char* expected) {
    const Held text(python_, python_.make_text(expected, static_cast<ssize_t>(strlen(expected))));
    if (text.get() == nullptr) return false;
    char room[kMostTextBytes];
    const Text read = ReadText(layout_, text.address(), room);
    return read.length == strlen(expected) && memcmp(read.bytes, expected, read.length) == 0;
  }

  bool AreTexts() {
    return IsText("/usr/lib/profd.py") && IsText("caf\u00e9_cr\u00e8me") &&
           IsText("\u4e2d\u6587.<locals>.f") && IsText("\U0001f40d_snake");
  }

  // In some of 3.14, and later, the state of a string begins with 16 bits for the interned ones.
  // (Include/cpython/unicodeobject.h)
  bool ProveTexts() {
    constexpr uint8_t kWideShift = 16;
    if (AreTexts()) return true;
    layout_.kind_shift = kWideShift;
    return AreTexts();
  }

  template <typename Value>
  bool Read(uint64_t object, int32_t offset, Value* value) {
    return memory_.Read(object + static_cast<uint64_t>(offset), value, sizeof(*value));
  }

  bool FirstFrame(uint64_t* frame) {
    const auto thread = reinterpret_cast<uint64_t>(layout_.thread_state());
    if (!Read(thread, layout_.thread_frame, frame)) return false;
    return layout_.cframe_frame == kNowhere || Read(*frame, layout_.cframe_frame, frame);
  }

  bool ReadFrame(uint64_t address, Frame* frame) {
    frame->address = address;
    if (!Read(address, layout_.frame_code, &frame->code)) return false;
    frame->code &= ~kReferenceTags;
    if (layout_.has_instruction_index) {
      int32_t index;
      if (!Read(address, layout_.frame_instruction, &index)) return false;
      frame->offset = index * (int64_t{1} << layout_.index_shift);
      return true;
    }
    uint64_t instruction;
    if (!Read(address, layout_.frame_instruction, &instruction)) return false;
    frame->offset = static_cast<int64_t>(instruction - frame->code -
                                         static_cast<uint64_t>(layout_.code_instructions));
    return true;
  }

  bool ReadFrames() {
    uint64_t address;
    if (layout_.thread_state() == nullptr || !FirstFrame(&address)) {
      return Refuse("the thread shows no frames");
    }
    while (address != 0 && count_ < kMostFrames) {
      uint8_t owner = 0;
      if (layout_.frame_owner != kNowhere && !Read(address, layout_.frame_owner, &owner)) {
        return Refuse("a frame's owner cannot be read");
      }
      if (owner < kFirstOwnerWithoutCode && !ReadFrame(address, &frames_[count_++])) {
        return Refuse("a frame cannot be read");
      }
      if (!Read(address, layout_.frame_previous, &address)) {
        return Refuse("a frame's caller cannot be read");
      }
    }
    return true;
  }

  bool IsAttribute(const Held& code, const char* name, int32_t offset) {
    const Held attribute(python_, python_.attribute(code.get(), name));
    return attribute.get() != nullptr &&
           LoadAt<uint64_t>(code.address(), offset) == attribute.address();
  }

  bool ProveCode(const Held& code) {
    const char* name = layout_.minor >= 11 ? "co_qualname" : "co_name";
    const char* lines = layout_.minor >= 10 ? "co_linetable" : "co_lnotab";
    const Held first_line(python_, python_.attribute(code.get(), "co_firstlineno"));
    return IsAttribute(code, "co_filename", layout_.code_file) &&
           IsAttribute(code, name, layout_.code_name) &&
           IsAttribute(code, lines, layout_.code_lines) && first_line.get() != nullptr &&
           python_.to_long(first_line.get()) ==
               LoadAt<int32_t>(code.address(), layout_.code_first_line) &&
           LoadAt<uint64_t>(code.address(), kObjectType) ==
               reinterpret_cast<uint64_t>(layout_.code_type);
  }

  // The frame's first argument, if it has one: 1 it is where we look, 0 it is not, -1 it has none.
  int ProveLocals(Object frame, const Held& code, uint64_t address) {
    const Held count(python_, python_.attribute(code.get(), "co_argcount"));
    if (count.get() == nullptr || python_.to_long(count.get()) < 1) return -1;
    const Held names(python_, python_.attribute(code.get(), "co_varnames"));
    const Held locals(python_, python_.attribute(frame, "f_locals"));
    if (names.get() == nullptr || locals.get() == nullptr) return -1;
    const Held name(python_, python_.first_item(names.get(), 0));
    const Held value(python_, python_.item(locals.get(), name.get()));
    uint64_t found;
    if (value.get() == nullptr || !Read(address, layout_.frame_locals, &found)) return -1;
    found &= ~kReferenceTags;
    if (found == value.address()) return 1;
    // A variable of an inner function, too: 3.11 and later keep its cell here, others elsewhere.
    uint64_t type;
    uint64_t inside;
    const bool is_cell = found != 0 && Read(found, kObjectType, &type) &&
                         type == reinterpret_cast<uint64_t>(layout_.cell_type);
    if (is_cell) return Read(found, kCellValue, &inside) && inside == value.address() ? 1 : 0;
    return found == 0 ? -1 : 0;
  }

  void ProveVersions() {
    if (layout_.code_version == kNowhere) return;
    uint32_t distinct = 0;
    for (uint32_t i = 0; i < count_; ++i) {
      const auto version = LoadAt<uint32_t>(frames_[i].code, layout_.code_version);
      bool is_odd = version == 0;
      bool is_new = true;
      for (uint32_t other = 0; other < i; ++other) {
        const bool is_same_code = frames_[other].code == frames_[i].code;
        is_new &= !is_same_code;
        is_odd |= is_same_code !=
                  (LoadAt<uint32_t>(frames_[other].code, layout_.code_version) == version);
      }
      distinct += is_new;
      if (is_odd) {
        layout_.code_version = kNowhere;
        return;
      }
    }
    constexpr uint32_t kEnough = 2;
    if (distinct < kEnough) layout_.code_version = kNowhere;
  }

  // Each new dict has a greater version than the one before, also at the same address.
  void ProveDictVersions() {
    constexpr int kDicts = 8;
    const void* type = dlsym(RTLD_DEFAULT, "PyDict_Type");
    if (type == nullptr) return;
    uint64_t last = 0;
    for (int i = 0; i < kDicts; ++i) {
      const Held dict(python_, python_.make_dict());
      const uint64_t address = dict.address();
      if (dict.get() == nullptr ||
          LoadAt<uint64_t>(address, kObjectType) != reinterpret_cast<uint64_t>(type) ||
          LoadAt<uint64_t>(address, kDictVersion) <= last) {
        return;
      }
      last = LoadAt<uint64_t>(address, kDictVersion);
    }
    layout_.dict_type = type;
  }

  bool ProveFrames(Proof* proof) {
    int locals = -1;
    Object frame = python_.get_frame();
    if (frame == nullptr) return Refuse("no Python code is running");
    uint32_t at = 0;
    // PyEval_GetFrame() only lends its frame; the ones after are ours.
    Object owned = nullptr;
    const char* problem = nullptr;
    for (; frame != nullptr && at < count_ && problem == nullptr; ++at) {
      const Held code(python_, python_.frame_code(frame));
      const Frame& mine = frames_[at];
      if (code.address() != mine.code) {
        problem = "frames have other code";
      } else if (!ProveCode(code)) {
        problem = "code objects look different";
      } else if (static_cast<int>(LineAt(layout_, mine.code, mine.offset)) !=
                 python_.frame_line(frame)) {
        problem = "lines differ";
      } else if (locals < 0) {
        locals = ProveLocals(frame, code, mine.address);
        if (locals == 0) problem = "local variables are elsewhere";
      }
      Object back = python_.frame_back(frame);
      python_.drop(owned);
      frame = owned = back;
    }
    const bool is_longer = frame != nullptr && count_ < kMostFrames;
    python_.drop(owned);
    if (problem != nullptr) return Refuse(problem);
    if (at != count_ || is_longer) return Refuse("stacks have another depth");
    ProveVersions();
    proof->has_locals = locals == 1;
    return true;
  }

  const Functions& python_;
  InterpreterLayout& layout_;
  char* const why_;
  const size_t why_bytes_;
  SafeMemory memory_;
  Frame frames_[kMostFrames];
  uint32_t count_ = 0;
};

}  // namespace

bool ProveLayout(InterpreterLayout* layout, Proof* proof, char* why, size_t why_bytes) {
  Functions python;
  if (const char* missing = FindFunctions(&python)) {
    snprintf(why, why_bytes, "this Python has no %s", missing);
    return false;
  }
  if (layout->thread_state() == nullptr || python.has_lock() == 0) {
    snprintf(why, why_bytes, "the library was attached outside of Python");
    return false;
  }
  return Prover(python, layout, why, why_bytes).Prove(proof);
}

namespace {

// Which local variable of the code is `**kwargs`: they follow the other parameters.
int32_t FindKeywords(const Functions& python, Object code) {
  constexpr long kHasMoreArguments = 0x4;  // CO_VARARGS
  constexpr long kHasKeywords = 0x8;       // CO_VARKEYWORDS
  constexpr long kMostParameters = 255;
  const auto number_of = [&](const char* name) -> long {
    const Held number(python, python.attribute(code, name));
    return number.get() != nullptr ? python.to_long(number.get()) : -1;
  };
  const long flags = number_of("co_flags");
  const long arguments = number_of("co_argcount");
  const long keyword_only = number_of("co_kwonlyargcount");
  if (flags < 0 || arguments < 0 || keyword_only < 0 || (flags & kHasKeywords) == 0 ||
      arguments + keyword_only > kMostParameters) {
    return kNowhere;
  }
  return static_cast<int32_t>(arguments + keyword_only + ((flags & kHasMoreArguments) != 0));
}

}  // namespace

ModuleCalls FindModuleCalls(char* why, size_t why_bytes) {
  constexpr char kModuleName[] = "torch.nn.modules.module";
  Functions python;
  if (const char* missing = FindFunctions(&python)) {
    snprintf(why, why_bytes, "this Python has no %s", missing);
    return {};
  }
  const Held name(python, python.make_text(kModuleName, sizeof(kModuleName) - 1));
  const Held module(python, python.item(python.modules(), name.get()));
  if (module.get() == nullptr) {
    snprintf(why, why_bytes, "%s has not been imported", kModuleName);
    return {};
  }
  const Held type(python, python.attribute(module.get(), "Module"));
  const auto code_of = [&](const char* function_name) -> uint64_t {
    if (type.get() == nullptr) return 0;
    const Held function(python, python.attribute(type.get(), function_name));
    if (function.get() == nullptr) return 0;
    Held code(python, python.attribute(function.get(), "__code__"));
    return reinterpret_cast<uint64_t>(code.Keep());
  };
  // Module.__call__: from torch 2.0 on the first, which calls the second; before, the second.
  const uint64_t outer = code_of("_wrapped_call_impl");
  const uint64_t inner = code_of("_call_impl");
  if (outer == 0 && inner == 0) {
    snprintf(why, why_bytes, "torch.nn.Module has no _call_impl()");
    return {.outer = 0, .inner = 0, .keywords = kNowhere};
  }
  const uint64_t called = outer != 0 ? outer : inner;
  return {.outer = called,
          .inner = outer != 0 ? inner : 0,
          .keywords = FindKeywords(python, reinterpret_cast<Object>(called))};
}

}  // namespace profd::client::python_stack
