// profd.hpp: C++ scopes and types on top of profd.h. Header only; C++17.
//
//   void Forward() {
//     PROFD_RANGE("forward");            // until the end of the enclosing block
//     ...
//   }
//   static constinit profd::Name kLoss("loss");
//   profd::Counter(kLoss, loss);
//
// Costs, threads, and errors are those of profd.h. Nothing here throws.
//
// With PROFD_DISABLE_ANNOTATIONS defined, everything here is empty: it costs nothing, and the
// library is not needed to link. Files with and without it may be linked together.
#ifndef PROFD_PROFD_HPP_
#define PROFD_PROFD_HPP_

#if !defined(__cplusplus) || __cplusplus < 201703L
#error "profd.hpp needs C++17 or later (-std=c++17). Older C++ and C include profd/profd.h."
#endif

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#ifndef PROFD_DISABLE_ANNOTATIONS
#include "profd/profd.h"
#endif

namespace profd {

enum class DeviceType : uint16_t { kCpu = 0, kCuda = 1 };

enum class MemoryCategory : uint16_t {
  kUnknown = 0,
  kParameter = 1,
  kGradient = 2,
  kOptimizerState = 3,
  kActivation = 4,
  kInput = 5,
  kTemporary = 6,
  kBuffer = 7,  // Of a module: kept like a parameter, not trained.
};

// A block of memory at the moment it is allocated or freed.
struct MemoryBlock {
  const void* address = nullptr;  // Identifies the block until it is freed.
  int64_t bytes = 0;              // >= 0; Free() may pass 0 for "not known".
  DeviceType device_type = DeviceType::kCpu;
  int16_t device_index = 0;
  MemoryCategory category = MemoryCategory::kUnknown;
  int64_t total_allocated_bytes = -1;  // On this device after this event; -1: not known.
  int64_t total_reserved_bytes = -1;   // Held by the allocator; -1: not known.
};

namespace internal {

template <typename T>
inline constexpr bool kIsLiteral = std::is_array_v<std::remove_reference_t<T>>&&
    std::is_same_v<std::remove_extent_t<std::remove_reference_t<T>>, const char>;

}  // namespace internal

#ifndef PROFD_DISABLE_ANNOTATIONS
inline namespace annotations_on {

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

// A name that was put together at run time. Interned when it is made, once for each text, for
// the life of the process: keep it where it is used often. Limits: profd_intern().
class InternedName {
 public:
  explicit InternedName(std::string_view text) noexcept
      : id_(profd_intern(text.data(), text.size())) {}
  uint32_t id() const noexcept { return id_; }

 private:
  uint32_t id_;
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
  explicit ScopedRange(InternedName name) noexcept : begun_(profd_is_recording_() != 0) {
    if (begun_) profd_range_begin_id(name.id());
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

// False: the library is off (PROFD_DISABLE), or could not set itself up.
inline bool Init() noexcept { return profd_init() == PROFD_OK; }
inline void Step() noexcept { profd_step(); }
// Steps of the present source of steps; profd_step_count() has the rules.
inline uint64_t StepCount() noexcept { return profd_step_count(); }
// What reports show and group by: "job", "rank". False: refused; profd_set_metadata() has the
// rules.
inline bool SetMetadata(const char* key, const char* value) noexcept {
  return profd_set_metadata(key, value) == PROFD_OK;
}
// Names the calling thread; first thing in a thread's function.
inline void ThreadName(const char* name) noexcept { profd_thread_name(name); }

inline void Instant(Name& name) noexcept { profd_instant(name.get()); }
inline void Instant(InternedName name) noexcept {
  if (profd_is_recording_()) profd_instant_id(name.id());
}
inline void Counter(Name& name, double value) noexcept { profd_counter(name.get(), value); }
inline void Counter(InternedName name, double value) noexcept {
  if (profd_is_recording_()) profd_counter_id(name.id(), value);
}

inline profd_memory_event ToMemoryEvent_(const MemoryBlock& block) noexcept {
  return {reinterpret_cast<uintptr_t>(block.address),
          block.bytes,
          block.total_allocated_bytes,
          block.total_reserved_bytes,
          static_cast<uint16_t>(block.device_type),
          block.device_index,
          static_cast<uint16_t>(block.category),
          0};
}

// The block was allocated, or freed, just now.
inline void Alloc(const MemoryBlock& block) noexcept {
  if (!profd_is_recording_()) return;
  const profd_memory_event event = ToMemoryEvent_(block);
  profd_alloc(&event);
}
inline void Free(const MemoryBlock& block) noexcept {
  if (!profd_is_recording_()) return;
  const profd_memory_event event = ToMemoryEvent_(block);
  profd_free(&event);
}

}  // namespace annotations_on

#else  // PROFD_DISABLE_ANNOTATIONS
inline namespace annotations_off {

class Name {
 public:
  template <size_t kSize>
  constexpr explicit Name(const char (&)[kSize]) noexcept {}
  Name(const Name&) = delete;
  Name& operator=(const Name&) = delete;
};
class InternedName {
 public:
  explicit InternedName(std::string_view) noexcept {}
};
class ScopedRange {
 public:
  explicit ScopedRange(Name&) noexcept {}
  explicit ScopedRange(InternedName) noexcept {}
  ~ScopedRange() {}  // Not trivial, so that no compiler calls a range unused.
  ScopedRange(const ScopedRange&) = delete;
  ScopedRange& operator=(const ScopedRange&) = delete;
};
class ScopedDynamicRange {
 public:
  explicit ScopedDynamicRange(std::string_view) noexcept {}
  ~ScopedDynamicRange() {}
  ScopedDynamicRange(const ScopedDynamicRange&) = delete;
  ScopedDynamicRange& operator=(const ScopedDynamicRange&) = delete;
};

inline bool Init() noexcept { return false; }
inline void Step() noexcept {}
inline uint64_t StepCount() noexcept { return 0; }
inline bool SetMetadata(const char*, const char*) noexcept { return false; }
inline void ThreadName(const char*) noexcept {}
inline void Instant(Name&) noexcept {}
inline void Instant(InternedName) noexcept {}
inline void Counter(Name&, double) noexcept {}
inline void Counter(InternedName, double) noexcept {}
inline void Alloc(const MemoryBlock&) noexcept {}
inline void Free(const MemoryBlock&) noexcept {}

}  // namespace annotations_off
#endif

}  // namespace profd

#define PROFD_CONCAT_INNER_(a, b) a##b
#define PROFD_CONCAT_(a, b) PROFD_CONCAT_INNER_(a, b)
#if __cplusplus >= 202002L
#define PROFD_CONSTINIT_ constinit
#else
#define PROFD_CONSTINIT_
#endif

#ifndef PROFD_DISABLE_ANNOTATIONS

// A range named by a literal, until the end of the enclosing block. One declaration, so that it
// may stand wherever a statement may, several times on a line.
#define PROFD_RANGE(literal)                                                               \
  const ::profd::ScopedRange PROFD_CONCAT_(profd_range_,                                   \
                                           __COUNTER__)([]() noexcept -> ::profd::Name& {  \
    static_assert(::profd::internal::kIsLiteral<decltype(literal)>,                        \
                  "PROFD_RANGE takes a string literal. For a name that is made at run "    \
                  "time, use PROFD_DYNAMIC_RANGE, or a profd::InternedName that is kept"); \
    static PROFD_CONSTINIT_ ::profd::Name profd_range_name_(literal);                      \
    return profd_range_name_;                                                              \
  }())

// The same for a name that is made at run time, anything that is a std::string_view.
#define PROFD_DYNAMIC_RANGE(name) \
  const ::profd::ScopedDynamicRange PROFD_CONCAT_(profd_range_, __COUNTER__)(name)

#else

#define PROFD_RANGE(literal) static_cast<void>(0)
#define PROFD_DYNAMIC_RANGE(name) static_cast<void>(0)

#endif

#endif  // PROFD_PROFD_HPP_
