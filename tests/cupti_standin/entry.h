// The way into the CUPTI functions that need a driver.
#ifndef PROFD_TESTS_CUPTI_STANDIN_ENTRY_H_
#define PROFD_TESTS_CUPTI_STANDIN_ENTRY_H_

#include <cstdint>

#include "tests/cupti_standin/cupti_api.h"
#include "tests/cupti_standin/settings.h"
#include "tests/cupti_standin/tracer.h"

namespace sgpu {

// From 13.2 on, each function first asks the driver for its implementation. Without a driver, 13.2
// crashes then, and later ones answer 999. While another tool uses the interface for several
// subscribers (the setting v2_in_use), functions of the first interface answer 14.
CUptiResult Dispatch(const char* function);

// Counts the call, and knows whether it is to fail whatever it asks for: in a forked child, without
// a driver, or because a test said so.
class Entry {
 public:
  explicit Entry(const char* function, uint32_t argument = kNoArgument);

  bool is_refused() const { return result_ != CUPTI_SUCCESS; }
  // What to return: why it is refused, or `result`. Kept for cuptiGetLastError().
  CUptiResult Return(CUptiResult result = CUPTI_SUCCESS) const;

  static uint64_t calls();
  // The calls, and the calling thread's last error.
  static void ForgetCalls();
  // The calling thread's, which is forgotten with this.
  static CUptiResult TakeLastError();

 private:
  static CUptiResult Refusal(const char* function, uint32_t argument);

  // Before the lock: a child must not wait for one that its parent held.
  const CUptiResult result_;
  const StrictLock strict_;
};

}  // namespace sgpu

#endif  // PROFD_TESTS_CUPTI_STANDIN_ENTRY_H_
