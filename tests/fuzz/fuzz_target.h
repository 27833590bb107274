// A fuzz target is a function that must survive any bytes:
//
//   PROFD_FUZZ_TARGET(FuzzColumnCodec)(std::span<const uint8_t> data) { ... }
//
// Built by the `fuzz` preset it becomes libFuzzer's entry in a binary of its own; in every
// other build tests/fuzz/replay_test.cc calls it by name with generated input.
#ifndef PROFD_TESTS_FUZZ_FUZZ_TARGET_H_
#define PROFD_TESTS_FUZZ_FUZZ_TARGET_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace profd {

// A target's own claim about what it was given. Ends the process where it does not hold.
inline void Require(bool holds) {
  if (!holds) __builtin_trap();
}

}  // namespace profd

#ifdef PROFD_FUZZ
#define PROFD_FUZZ_TARGET(name)                                             \
  namespace profd {                                                         \
  void name(std::span<const uint8_t> data);                                 \
  }                                                                         \
  extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) { \
    profd::name({data, size});                                              \
    return 0;                                                               \
  }                                                                         \
  void profd::name
#else
#define PROFD_FUZZ_TARGET(name)             \
  namespace profd {                         \
  void name(std::span<const uint8_t> data); \
  }                                         \
  void profd::name
#endif

#endif  // PROFD_TESTS_FUZZ_FUZZ_TARGET_H_
