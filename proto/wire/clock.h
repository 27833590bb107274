// The clock of event records: which one a process uses, and how it is read. Targets and
// daemon share this file, so that both decide alike and read the very same counter.
//
// Threads: any.
// Errors:  none; where nothing better is known to be safe, CLOCK_MONOTONIC it is.
#ifndef PROFD_PROTO_WIRE_CLOCK_H_
#define PROFD_PROTO_WIRE_CLOCK_H_

#include <fcntl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

#include "proto/wire/frame.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

namespace profd::wire {

inline uint64_t ReadMonotonicNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

// The CPU's counter. Meaningful only where DetectClockKind() is not kMonotonicNs. Not
// serialising: it may be read some 10 ns early or late against the code around it.
inline uint64_t ReadCpuTicks() {
#if defined(__x86_64__)
  return __rdtsc();
#elif defined(__aarch64__)
  uint64_t ticks;
  __asm__ __volatile__("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
  return ReadMonotonicNs();
#endif
}

inline uint64_t ReadTicks(ClockKind kind) {
  return __builtin_expect(kind != ClockKind::kMonotonicNs, 1) ? ReadCpuTicks() : ReadMonotonicNs();
}

#if defined(__x86_64__)
// Whether the kernel itself keeps time by the TSC: it watches the counter at boot and
// leaves it when cores disagree, which no CPUID bit can say.
inline bool KernelTrustsTsc() {
  char name[64];
  const int fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource",
                      O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const ssize_t got = read(fd, name, sizeof(name) - 1);
  close(fd);
  if (got <= 0) return false;
  name[got] = '\0';
  name[strcspn(name, "\n")] = '\0';
  return strcmp(name, "tsc") == 0 || strcmp(name, "kvm-clock") == 0 ||
         strcmp(name, "hyperv_clocksource_tsc_page") == 0;
}

inline bool TscIsInvariant() {
  constexpr unsigned kInvariantTscBit = 1u << 8;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(0x80000007, &eax, &ebx, &ecx, &edx) != 0 && (edx & kInvariantTscBit) != 0;
}

// A process may have made rdtsc fault (PR_SET_TSC).
inline bool TscIsReadable() {
  int mode = 0;
  return prctl(PR_GET_TSC, &mode) == 0 && mode == PR_TSC_ENABLE;
}
#endif

// The best clock of this process. Opens a file: call it once, at start.
inline ClockKind DetectClockKind() {
#if defined(__x86_64__)
  return TscIsInvariant() && TscIsReadable() && KernelTrustsTsc() ? ClockKind::kTsc
                                                                  : ClockKind::kMonotonicNs;
#elif defined(__aarch64__)
  return ClockKind::kCntvct;
#else
  return ClockKind::kMonotonicNs;
#endif
}

}  // namespace profd::wire

#endif  // PROFD_PROTO_WIRE_CLOCK_H_
