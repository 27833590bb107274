// The packaged libprotobuf is not built with ThreadSanitizer, with which this header of its adds
// two fields to each map: the generated messages would then have another layout than the library
// sees.
//
// Only in builds with -DPROFD_SANITIZE=thread, before the folder of the packaged one
// (CMakeLists.txt).
#ifndef PROFD_TESTS_TSAN_INCLUDE_GOOGLE_PROTOBUF_MAP_FIELD_H_
#define PROFD_TESTS_TSAN_INCLUDE_GOOGLE_PROTOBUF_MAP_FIELD_H_

#pragma GCC system_header  // For #include_next.

// The C++ library reads the macro with its first header.
#include <version>

#pragma push_macro("__SANITIZE_THREAD__")
#undef __SANITIZE_THREAD__
#include_next <google/protobuf/map_field.h>
#pragma pop_macro("__SANITIZE_THREAD__")

#endif  // PROFD_TESTS_TSAN_INCLUDE_GOOGLE_PROTOBUF_MAP_FIELD_H_
