// The look at the program's Python objects (profd_torch_instances() in torch_api.h). In C++,
// because Python code may lose Python's lock between any two of its operations, and this must not.
#include <dlfcn.h>
#include <string.h>
#include <sys/types.h>

#include <algorithm>

#include "client_lib/include/profd/profd.h"
#include "client_lib/torch/torch_api.h"

namespace profd::client::torch {
namespace {

using Object = void*;

// Of Python's stable ABI: nothing of Python is needed to build this.
struct Functions {
  int (*has_lock)();
  Object (*call)(Object function, const char* format, ...);
  ssize_t (*list_size)(Object list);
  Object (*list_item)(Object list, ssize_t index);  // Borrowed.
  int (*append)(Object list, Object item);
  Object (*type_of)(Object object);
  void (*drop)(Object object);

  bool Find() {
    bool is_complete = true;
    const auto need = [&is_complete](const char* symbol, auto* function) {
      void* found = dlsym(RTLD_DEFAULT, symbol);
      memcpy(function, &found, sizeof(found));
      is_complete = is_complete && found != nullptr;
    };
    need("PyGILState_Check", &has_lock);
    need("PyObject_CallFunction", &call);
    need("PyList_Size", &list_size);
    need("PyList_GetItem", &list_item);
    need("PyList_Append", &append);
    need("PyObject_Type", &type_of);
    need("Py_DecRef", &drop);
    return is_complete;
  }
};

}  // namespace

extern "C" PROFD_API int profd_torch_instances(void* get_objects, void* const* classes,
                                               size_t count, void* found) {
  Functions python;
  if (!python.Find() || python.has_lock() == 0) return -1;
  // From here to the list's end no code of Python's runs, so that its lock stays with us.
  const Object objects = python.call(get_objects, nullptr);
  if (objects == nullptr) return -1;
  const ssize_t size = python.list_size(objects);
  int result = 0;
  Object last = nullptr;
  bool is_wanted = false;
  for (ssize_t index = 0; index < size && result == 0; ++index) {
    const Object object = python.list_item(objects, index);
    const Object type = python.type_of(object);
    if (type != last) {
      last = type;
      is_wanted = std::binary_search(classes, classes + count, type);
    }
    if (is_wanted) result = python.append(found, object);
    python.drop(type);  // Not the last reference: the object has one.
  }
  python.drop(objects);
  return result;
}

}  // namespace profd::client::torch
