// What tests can ask of the stand-in beyond CUPTI's own interface: settings (README.md says what
// each does) and failures.
//
// How do I add a setting?  A line in SGPU_SETTINGS, its use, a line in README.md, and a test.
#ifndef PROFD_TESTS_CUPTI_STANDIN_SETTINGS_H_
#define PROFD_TESTS_CUPTI_STANDIN_SETTINGS_H_

#include <atomic>
#include <cstdint>

#include "tests/cupti_standin/cupti_api.h"

namespace sgpu {

#define SGPU_SETTINGS(X)   \
  X(cupti_version, 0)      \
  X(no_driver, 0)          \
  X(v2_in_use, 0)          \
  X(second_copy, 0)        \
  X(shared_graph_trace, 0) \
  X(subscribe_ms, 0)       \
  X(resubscribe_ms, 0)     \
  X(hold_subscribe, 0)     \
  X(enable_ms, 0)          \
  X(each_enable_ms, 0)     \
  X(flush_ms, 0)           \
  X(hold_flush, 0)         \
  X(stall_api, 0)          \
  X(delay_min_us, 1000)    \
  X(delay_max_us, 5000)    \
  X(late_ms, 0)            \
  X(lock_strict, 0)        \
  X(reserve, 1)            \
  X(lose_buffers, 0)       \
  X(corrupt, 0)            \
  X(unknown_kind, 0)       \
  X(check_zeroed, 0)       \
  X(poison, 0)             \
  X(jitter_ns, 0)          \
  X(drift_ppm, 0)          \
  X(unsettled_ns, 0)       \
  X(grow_us, 0)            \
  X(opaque_graphs, 0)      \
  X(poisoned_finalize, 0)  \
  X(finalize_hang_ms, 0)   \
  X(always_correlate, 0)   \
  X(silent_driver, 0)      \
  X(lose_threads, 0)       \
  X(hidden_devices, 0)     \
  X(call_tax_ns, 0)        \
  X(record_tax_ns, 0)      \
  X(allocation_us, 0)      \
  X(keep_file, 0)          \
  X(keep_buffers, 0)       \
  X(teardown_ms, 0)        \
  X(truth, 1)

struct Settings {
#define SGPU_SETTING(name, value) std::atomic<int64_t> name{value};
  SGPU_SETTINGS(SGPU_SETTING)
#undef SGPU_SETTING
};

// The settings of this process, the environment's to begin with.
Settings& settings();

// False: no such key, or `value` is not a number.
bool ChangeSetting(const char* key, const char* value);

// All settings as they were at first, and no failures.
void ResetSettings();

// Replaces the failures to come; false: `spec` cannot be read, and nothing changed.
bool SetFailures(const char* spec);

constexpr uint32_t kNoArgument = 0xffffffff;

// What a call of `function` is to fail with; CUPTI_SUCCESS for none. Counts the call.
CUptiResult FailureOf(const char* function, uint32_t argument = kNoArgument);

}  // namespace sgpu

#endif  // PROFD_TESTS_CUPTI_STANDIN_SETTINGS_H_
