// The functions of ranges as Python itself calls functions of C: without ctypes, whose conversions
// take four times as long as the range.
#ifndef PROFD_CLIENT_LIB_CORE_PYTHON_CALLS_H_
#define PROFD_CLIENT_LIB_CORE_PYTHON_CALLS_H_

#include <cstdint>

#include "client_lib/include/profd/profd.h"

extern "C" {

// Returns a new Python function: profd_range_open_id() for `which` 0, which takes and returns an
// int, and profd_range_close() for 1, which takes that int. Null, and no Python exception, if this
// Python does not export what they need. `none` is Python's None. With the GIL.
PROFD_API void* profd_python_range_function(void* none, uint32_t which);
}

#endif  // PROFD_CLIENT_LIB_CORE_PYTHON_CALLS_H_
