#include "client_lib/core/python_calls.h"

#include <dlfcn.h>
#include <string.h>

namespace profd::client {
namespace {

using Object = void*;

// PyMethodDef, and below it functions, of Python's stable ABI: nothing of Python is needed to
// build this.
struct Method {
  const char* name;
  Object (*function)(Object self, Object argument);
  int flags;
  const char* documentation;
};
constexpr int kTakesOneObject = 8;  // METH_O

// Written before the first function is made, and the same each time.
struct Functions {
  Object (*make)(Method* method, Object self, Object module);
  Object (*to_int)(unsigned long long value);
  unsigned long long (*from_int)(Object value);
  void (*keep)(Object object);

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
    need("Py_IncRef", &keep);
    return is_complete;
  }
};
constinit Functions g_python{};

Object Open(Object, Object name_id) {
  return g_python.to_int(profd_range_open_id(static_cast<uint32_t>(g_python.from_int(name_id))));
}

Object Close(Object none, Object range) {
  profd_range_close(g_python.from_int(range));
  g_python.keep(none);
  return none;
}

// Python points to these for as long as the process lives.
constinit Method g_methods[] = {{"range_open", &Open, kTakesOneObject, nullptr},
                                {"range_close", &Close, kTakesOneObject, nullptr}};

}  // namespace

extern "C" PROFD_API void* profd_python_range_function(void* none, uint32_t which) {
  if (which >= sizeof(g_methods) / sizeof(g_methods[0])) return nullptr;
  Functions found{};
  if (!found.Find()) return nullptr;
  g_python = found;
  return g_python.make(&g_methods[which], none, nullptr);
}

}  // namespace profd::client
