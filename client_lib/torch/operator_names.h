// From torch's name of an operator to the id that events carry: InternName() for names that come
// again and again.
//
// What was met before is found by its text, since many names are temporaries that never stand at
// the same place twice. The text and the id are in one or two cache lines.
//
// Threads:  any.
// Hot path: a name that was met before: no lock, no allocation, no call into the name table.
// Fork:     a child goes on using it.
// Errors:   names that find no place, and longer ones, are interned each time.
#ifndef PROFD_CLIENT_LIB_TORCH_OPERATOR_NAMES_H_
#define PROFD_CLIENT_LIB_TORCH_OPERATOR_NAMES_H_

#include <cstdint>

namespace profd::client::torch {

// The id of `name`, which ends with a zero byte.
uint32_t NameOf(const char* name);

}  // namespace profd::client::torch

#endif  // PROFD_CLIENT_LIB_TORCH_OPERATOR_NAMES_H_
