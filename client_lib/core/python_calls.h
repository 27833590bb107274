// The functions of ranges as Python itself calls functions of C: without ctypes, whose conversions
// take four times as long as the range.
#ifndef PROFD_CLIENT_LIB_CORE_PYTHON_CALLS_H_
#define PROFD_CLIENT_LIB_CORE_PYTHON_CALLS_H_

#include <cstdint>

#include "client_lib/include/profd/profd.h"

extern "C" {

// Returns a new Python function: profd_range_open_id() for `which` 0, which takes and returns an
// int; profd_range_close() for 1, which takes that int; for 2, profd_range_open_with(), which takes
// (name_id, inputs, input_count, described_count), where inputs are bytes. Null, and no Python
// exception, if this Python does not export what they need. `none` is Python's None. With the GIL.
PROFD_API void* profd_python_range_function(void* none, uint32_t which);

// Returns a new Python function that is profd.annotate(), of the module that is called `module`.
// `parts` is the tuple (ranges, any_call, Block, "_shared", "_opened", None). A call with a name
// alone that is in the dict `ranges` returns ranges[name] while nothing records, and else a
// Block() whose `_shared` is that and whose `_opened` is None. Any other call is any_call(*args,
// **kwargs). So a call without keywords makes no dict, which a function of Python with **kwargs
// does. `documentation` is copied. Null as above, and after the first call: there is one such
// function in a process, which pickles by its name.
PROFD_API void* profd_python_annotate(void* parts, void* module, const char* documentation);

// Opens a range as profd_range_open_id() does, with arguments: what follows the event in
// proto/wire/range_arguments.h, `bytes` of it, a multiple of 8.
PROFD_API uint64_t profd_range_open_with(uint32_t name_id, const void* inputs, uint32_t bytes,
                                         uint32_t input_count, uint32_t described_count);

// Counts a mark that is no step, as profd_step() does on other threads: of an asyncio task other
// than the one whose marks are steps.
PROFD_API void profd_step_of_other_task(void);
}

#endif  // PROFD_CLIENT_LIB_CORE_PYTHON_CALLS_H_
