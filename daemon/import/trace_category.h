// What the categories of events mean, in the words of old and new releases, CUDA and others.
//
// Threads: pure functions.
#ifndef PROFD_DAEMON_IMPORT_TRACE_CATEGORY_H_
#define PROFD_DAEMON_IMPORT_TRACE_CATEGORY_H_

#include <string_view>

namespace profd::importer {

enum class Category {
  kUnknown,
  kOperator,
  kAnnotation,
  kPython,
  kRuntime,
  kDriver,
  kKernel,
  kMemcpy,
  kMemset,
  kSync,
  kCudaEvent,
  kOverhead,
  kGpuAnnotation,
  kDerived,  // Follows from others.
};
Category CategoryOf(std::string_view text);

}  // namespace profd::importer

#endif  // PROFD_DAEMON_IMPORT_TRACE_CATEGORY_H_
