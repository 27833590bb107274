// Devices that allocate memory besides CPUs and the GPUs of CUDA and ROCm, which torch counts as
// one kind: torch's numbers (c10::DeviceType) and names. Of traces of torch.profiler alone.
//
// Threads: pure functions.
#ifndef PROFD_DAEMON_REPORT_INDEX_ACCELERATORS_H_
#define PROFD_DAEMON_REPORT_INDEX_ACCELERATORS_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace profd::report {

struct Accelerator {
  uint8_t type;
  std::string_view name;  // "xpu"
};
// What a backend out of torch's tree calls itself is not in a trace.
inline constexpr std::array<Accelerator, 8> kAccelerators = {{{8, "maia"},
                                                              {9, "xla"},
                                                              {12, "xpu"},
                                                              {13, "mps"},
                                                              {15, "hpu"},
                                                              {18, "ipu"},
                                                              {19, "mtia"},
                                                              {20, "privateuseone"}}};

// Empty: none of them.
constexpr std::string_view AcceleratorName(int64_t type) {
  const auto* const found = std::ranges::find(kAccelerators, type, &Accelerator::type);
  return found == kAccelerators.end() ? std::string_view() : found->name;
}

constexpr std::optional<uint8_t> AcceleratorType(std::string_view name) {
  const auto* const found = std::ranges::find(kAccelerators, name, &Accelerator::name);
  return found == kAccelerators.end() ? std::nullopt : std::optional(found->type);
}

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_INDEX_ACCELERATORS_H_
