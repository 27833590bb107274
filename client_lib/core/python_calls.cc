#include "client_lib/core/python_calls.h"

#include <dlfcn.h>
#include <string.h>

#include "client_lib/core/hot_state.h"

namespace profd::client {
namespace {

using Object = void*;

// PyMethodDef, and below it functions, of Python's stable ABI: nothing of Python is needed to
// build this.
using OfOne = Object (*)(Object self, Object argument);
using OfMany = Object (*)(Object self, const Object* arguments, intptr_t count);
using OfAny = Object (*)(Object self, const Object* arguments, intptr_t count, Object names);
struct Method {
  const char* name;
  union {
    OfOne of_one;
    OfMany of_many;
    OfAny of_any;
  };
  int flags;
  const char* documentation;
};
constexpr int kTakesOneObject = 0x08;              // METH_O
constexpr int kTakesObjects = 0x80;                // METH_FASTCALL
constexpr int kTakesKeywords = kTakesObjects | 2;  // METH_FASTCALL | METH_KEYWORDS

// Written before the first function is made, and the same each time.
struct Functions {
  Object (*make)(Method* method, Object self, Object module);
  Object (*to_int)(unsigned long long value);
  unsigned long long (*from_int)(Object value);
  int (*bytes_of)(Object bytes, char** begin, intptr_t* size);
  Object (*new_dict)();
  Object (*find)(Object dict, Object key);  // Borrowed.
  int (*set)(Object dict, Object key, Object value);
  Object (*new_tuple)(intptr_t size);
  Object (*item)(Object tuple, intptr_t at);  // Borrowed.
  intptr_t (*size)(Object tuple);
  int (*put)(Object tuple, intptr_t at, Object value);  // Takes over the value.
  Object (*call)(Object function, Object arguments, Object keywords);
  Object (*call_with)(Object function, ...);  // Objects, then null.
  int (*set_member)(Object object, Object name, Object value);
  void (*forget_error)();
  void (*keep)(Object object);
  void (*release)(Object object);  // Not null.

  bool Find() {
    bool is_complete = true;
    const auto need = [&is_complete](const char* symbol, auto* function) {
      void* found = dlsym(RTLD_DEFAULT, symbol);
      memcpy(function, &found, sizeof(found));
      is_complete = is_complete && found != nullptr;
    };
    need("PyCFunction_NewEx", &make);
    need("PyLong_FromUnsignedLongLong", &to_int);
    need("PyLong_AsUnsignedLongLongMask", &from_int);
    need("PyBytes_AsStringAndSize", &bytes_of);
    need("PyDict_New", &new_dict);
    need("PyDict_GetItemWithError", &find);
    need("PyDict_SetItem", &set);
    need("PyTuple_New", &new_tuple);
    need("PyTuple_GetItem", &item);
    need("PyTuple_Size", &size);
    need("PyTuple_SetItem", &put);
    need("PyObject_Call", &call);
    need("PyObject_CallFunctionObjArgs", &call_with);
    need("PyObject_SetAttr", &set_member);
    need("PyErr_Clear", &forget_error);
    need("Py_IncRef", &keep);
    need("Py_DecRef", &release);
    return is_complete;
  }
};
constinit Functions g_python{};
constinit const uint32_t* g_recording_flag = nullptr;

// What annotate() works with. A static, not the function's `self`: Python pickles a function of C
// by its name only if that is null or a module. Of whichever copy of the package came first.
constinit Object g_annotate_parts = nullptr;
enum Part : intptr_t { kRanges, kAnyCall, kBlockType, kSharedMember, kOpenedMember, kNone };

uint32_t IntOf(Object value) { return static_cast<uint32_t>(g_python.from_int(value)); }

Object Open(Object, Object name_id) { return g_python.to_int(profd_range_open_id(IntOf(name_id))); }

Object Close(Object none, Object range) {
  profd_range_close(g_python.from_int(range));
  g_python.keep(none);
  return none;
}

// (name_id, inputs, input_count, described_count). Null, with an exception: `inputs` are not bytes.
Object OpenWith(Object, const Object* arguments, intptr_t count) {
  char* inputs = nullptr;
  intptr_t bytes = 0;
  if (count != 4) return g_python.to_int(0);
  if (g_python.bytes_of(arguments[1], &inputs, &bytes) != 0) return nullptr;
  return g_python.to_int(profd_range_open_with(IntOf(arguments[0]), inputs,
                                               static_cast<uint32_t>(bytes), IntOf(arguments[2]),
                                               IntOf(arguments[3])));
}

// Calls `function` with what Annotate() was called with.
Object CallWithAll(Object function, const Object* arguments, intptr_t count, Object names) {
  Object result = nullptr;
  Object keywords = g_python.new_dict();
  Object positional = keywords != nullptr ? g_python.new_tuple(count) : nullptr;
  bool is_ready = positional != nullptr;
  for (intptr_t i = 0; is_ready && i < count; ++i) {
    g_python.keep(arguments[i]);
    is_ready = g_python.put(positional, i, arguments[i]) == 0;
  }
  const intptr_t named = names != nullptr ? g_python.size(names) : 0;
  for (intptr_t i = 0; is_ready && i < named; ++i) {
    is_ready = g_python.set(keywords, g_python.item(names, i), arguments[count + i]) == 0;
  }
  if (is_ready) result = g_python.call(function, positional, keywords);
  if (positional != nullptr) g_python.release(positional);
  if (keywords != nullptr) g_python.release(keywords);
  return result;
}

// A new block of the range `shared`.
Object Block(Object shared) {
  Object parts = g_annotate_parts;
  Object block = g_python.call_with(g_python.item(parts, kBlockType), nullptr);
  if (block == nullptr) return nullptr;
  if (g_python.set_member(block, g_python.item(parts, kSharedMember), shared) == 0 &&
      g_python.set_member(block, g_python.item(parts, kOpenedMember),
                          g_python.item(parts, kNone)) == 0) {
    return block;
  }
  g_python.release(block);
  return nullptr;
}

Object Annotate(Object, const Object* arguments, intptr_t count, Object names) {
  Object parts = g_annotate_parts;
  if (PROFD_LIKELY(count == 1 && names == nullptr)) {
    Object shared = g_python.find(g_python.item(parts, kRanges), arguments[0]);
    if (PROFD_LIKELY(shared != nullptr)) {
      g_python.keep(shared);
      if (PROFD_LIKELY(__atomic_load_n(g_recording_flag, __ATOMIC_RELAXED) == 0)) return shared;
      Object block = Block(shared);
      g_python.release(shared);
      return block;
    }
    g_python.forget_error();  // Not hashable: what is called next says so.
  }
  return CallWithAll(g_python.item(parts, kAnyCall), arguments, count, names);
}

// Python points to these for as long as the process lives.
constinit Method g_methods[] = {
    {"range_open", {.of_one = &Open}, kTakesOneObject, nullptr},
    {"range_close", {.of_one = &Close}, kTakesOneObject, nullptr},
    {"range_open_with", {.of_many = &OpenWith}, kTakesObjects, nullptr}};
constinit Method g_annotate = {"annotate", {.of_any = &Annotate}, kTakesKeywords, nullptr};

bool FindPython() {
  Functions found{};
  if (!found.Find()) return false;
  g_python = found;
  g_recording_flag = profd_recording_flag();
  return true;
}

}  // namespace

extern "C" {

PROFD_API void* profd_python_range_function(void* none, uint32_t which) {
  if (which >= sizeof(g_methods) / sizeof(g_methods[0]) || !FindPython()) return nullptr;
  return g_python.make(&g_methods[which], none, nullptr);
}

PROFD_API void* profd_python_annotate(void* parts, void* module, const char* documentation) {
  // Another interpreter's objects are none of this one's.
  if (g_annotate_parts != nullptr || !FindPython()) return nullptr;
  g_python.keep(parts);
  g_annotate_parts = parts;
  g_annotate.documentation = strdup(documentation);  // For good, like the function.
  return g_python.make(&g_annotate, nullptr, module);
}

}  // extern "C"

}  // namespace profd::client
