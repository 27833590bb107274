// Kineto's words for what CUPTI numbers: the other way round than daemon/report/index/gpu_names.h.
//
// Threads: pure functions.
#ifndef PROFD_DAEMON_IMPORT_GPU_WORDS_H_
#define PROFD_DAEMON_IMPORT_GPU_WORDS_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace profd::importer {

struct CopyKinds {
  uint8_t copy = 0;  // CUpti_ActivityMemcpyKind; 0: not known
  uint8_t source = 0;
  uint8_t destination = 0;
};
// Of "Memcpy HtoD (Pageable -> Device)"; also of HIP's "Memcpy HtoD (Host -> Device)".
CopyKinds CopyKindsOf(std::string_view name);
// Of "Memset (Device)".
uint8_t MemsetKindOf(std::string_view name);

// CUpti_ActivitySynchronizationType of "Stream Wait Event".
std::optional<uint32_t> SyncKindOf(std::string_view name);
// CUpti_ActivityOverheadKind of "Buffer Flush".
std::optional<uint32_t> OverheadKindOf(std::string_view name);

}  // namespace profd::importer

#endif  // PROFD_DAEMON_IMPORT_GPU_WORDS_H_
