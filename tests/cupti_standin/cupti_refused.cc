// CUPTI's functions for hardware counters: refused, as on most machines. Nothing of their
// parameters is read, so NVIDIA's headers, which not every machine has, are not needed here.
#include <cstdint>

namespace {

constexpr uint32_t kNotSupported = 27;
constexpr uint32_t kInsufficientPrivileges = 35;

}  // namespace

#define SGPU_REFUSE(name, result)                                         \
  extern "C" __attribute__((visibility("default"))) uint32_t name(void*); \
  extern "C" __attribute__((visibility("default"))) uint32_t name(void*) { return result; }

SGPU_REFUSE(cuptiPCSamplingEnable, kInsufficientPrivileges)
SGPU_REFUSE(cuptiPCSamplingDisable, kInsufficientPrivileges)
SGPU_REFUSE(cuptiPCSamplingGetData, kInsufficientPrivileges)
SGPU_REFUSE(cuptiPCSamplingStart, kInsufficientPrivileges)
SGPU_REFUSE(cuptiPCSamplingStop, kInsufficientPrivileges)
SGPU_REFUSE(cuptiPCSamplingSetConfigurationAttribute, kInsufficientPrivileges)
SGPU_REFUSE(cuptiPCSamplingGetConfigurationAttribute, kInsufficientPrivileges)
SGPU_REFUSE(cuptiPCSamplingGetNumStallReasons, kInsufficientPrivileges)
SGPU_REFUSE(cuptiPCSamplingGetStallReasons, kInsufficientPrivileges)
SGPU_REFUSE(cuptiPmSamplingEnable, kInsufficientPrivileges)
SGPU_REFUSE(cuptiPmSamplingDisable, kInsufficientPrivileges)
SGPU_REFUSE(cuptiPmSamplingSetConfig, kInsufficientPrivileges)
SGPU_REFUSE(cuptiPmSamplingStart, kInsufficientPrivileges)
SGPU_REFUSE(cuptiPmSamplingStop, kInsufficientPrivileges)
SGPU_REFUSE(cuptiPmSamplingDecodeData, kInsufficientPrivileges)
SGPU_REFUSE(cuptiProfilerHostInitialize, kNotSupported)
SGPU_REFUSE(cuptiProfilerHostDeinitialize, kNotSupported)
SGPU_REFUSE(cuptiRangeProfilerEnable, kNotSupported)
SGPU_REFUSE(cuptiRangeProfilerDisable, kNotSupported)
SGPU_REFUSE(cuptiSassMetricsEnable, kNotSupported)
SGPU_REFUSE(cuptiSassMetricsDisable, kNotSupported)

// An NVTX injection that hooks nothing: 1 is success there.
extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx(void*);
extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx(void*) { return 1; }
extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(void*);
extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(void*) { return 1; }
extern "C" __attribute__((visibility("default"))) uint32_t cuptiNvtxInitialize(void*);
extern "C" __attribute__((visibility("default"))) uint32_t cuptiNvtxInitialize(void*) { return 0; }
extern "C" __attribute__((visibility("default"))) uint32_t cuptiNvtxInitialize2(void*);
extern "C" __attribute__((visibility("default"))) uint32_t cuptiNvtxInitialize2(void*) { return 0; }
