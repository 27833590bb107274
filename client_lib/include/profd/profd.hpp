// profd.hpp: C++ scopes on top of profd.h. Header only; C++17.
//
//   void Forward() {
//     PROFD_RANGE("forward");            // until the end of the enclosing block
//     ...
//   }
//   static constinit profd::Name kLoss("loss");
//   profd::Counter(kLoss, loss);
//
// Costs, threads and errors are those of profd.h. Nothing here throws.
#ifndef PROFD_PROFD_HPP_
#define PROFD_PROFD_HPP_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "profd/profd.h"

namespace profd {

// A name with static storage: one per place, interned at its first use in a capture. The
// text must be a literal, or live as long.
class Name {
 public:
  template <size_t kSize>
  constexpr explicit Name(const char (&literal)[kSize]) noexcept
      : name_{literal, static_cast<uint32_t>(kSize - 1), 0} {}
  Name(const Name&) = delete;
  Name& operator=(const Name&) = delete;

  profd_name* get() noexcept { return &name_; }

 private:
  profd_name name_;
};

// A range from construction to destruction. Decides once, at its begin: a scope that began
// while nothing recorded writes nothing at its end.
//
// Threads: construct and destroy on one thread, innermost first.
class ScopedRange {
 public:
  explicit ScopedRange(Name& name) noexcept : begun_(profd_is_recording_() != 0) {
    if (begun_) profd_range_begin_slow(name.get());
  }
  ~ScopedRange() {
    if (__builtin_expect(begun_, 0)) profd_range_end_id();
  }
  ScopedRange(const ScopedRange&) = delete;
  ScopedRange& operator=(const ScopedRange&) = delete;

 private:
  const bool begun_;
};

// As ScopedRange, for names that are put together at run time: hashed and compared each
// time while a capture runs, not looked at otherwise.
class ScopedDynamicRange {
 public:
  explicit ScopedDynamicRange(std::string_view name) noexcept : begun_(profd_is_recording_() != 0) {
    if (begun_) profd_range_begin_id(profd_intern(name.data(), name.size()));
  }
  ~ScopedDynamicRange() {
    if (__builtin_expect(begun_, 0)) profd_range_end_id();
  }
  ScopedDynamicRange(const ScopedDynamicRange&) = delete;
  ScopedDynamicRange& operator=(const ScopedDynamicRange&) = delete;

 private:
  const bool begun_;
};

inline bool Init() noexcept { return profd_init() == PROFD_OK; }
inline void Step() noexcept { profd_step(); }
// Names the calling thread; first thing in a thread's function.
inline void ThreadName(const char* name) noexcept { profd_thread_name(name); }
inline void Instant(Name& name) noexcept { profd_instant(name.get()); }
inline void Counter(Name& name, double value) noexcept { profd_counter(name.get(), value); }

}  // namespace profd

#define PROFD_CONCAT_INNER_(a, b) a##b
#define PROFD_CONCAT_(a, b) PROFD_CONCAT_INNER_(a, b)
#if __cplusplus >= 202002L
#define PROFD_CONSTINIT_ constinit
#else
#define PROFD_CONSTINIT_
#endif

// A range named by a literal, until the end of the enclosing block.
#define PROFD_RANGE(literal)                                                           \
  static PROFD_CONSTINIT_ ::profd::Name PROFD_CONCAT_(profd_name_, __LINE__)(literal); \
  const ::profd::ScopedRange PROFD_CONCAT_(profd_range_,                               \
                                           __LINE__)(PROFD_CONCAT_(profd_name_, __LINE__))

#endif  // PROFD_PROFD_HPP_
