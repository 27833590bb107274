// CuptiLibrary is the libcupti of this process: found, opened, its functions resolved and the
// sizes of its records asked of itself. Never linked, never closed.
//
// Where it is looked for, in this order:
//   1. PROFD_CUPTI_LIB, a path;
//   2. what the process has mapped already (PyTorch and JAX bring one): a second copy would
//      fight with it for the driver;
//   3. what is linked into the program itself;
//   4. by the name that goes with the driver, then by older ones;
//   5. the folders where wheels, conda and the toolkit put it.
//
// A libcupti of a later CUDA major than the driver's is not used. Nor is 13.2, unless the driver is
// as new: without a driver that it can work with, each of its functions calls itself until the
// stack ends. Later ones answer 999 then.
//
// Threads:   the GPU thread's. What was found is constant from then on.
// Ownership: the loader's, for ever.
// Errors:    FindCupti() gives the reason and the remedy.
#ifndef PROFD_CLIENT_LIB_CUPTI_CUPTI_LIBRARY_H_
#define PROFD_CLIENT_LIB_CUPTI_CUPTI_LIBRARY_H_

#include <cstddef>
#include <cstdint>

#include "client_lib/cupti/cupti_abi.h"
#include "client_lib/cupti/cupti_errors.h"

namespace profd::client {

struct CuptiLibrary : cupti::Functions {
  uint32_t version;
  uint32_t driver_version;
  bool simulated;  // It is the stand-in, whose GPU is software.
  // Bytes of a record of each kind; 0: the library does not know the kind.
  uint16_t record_bytes[cupti::kKindLimit];
};

// What we ask of libcuda. The first may be called before a context exists.
struct CudaDriver {
  int (*cuDriverGetVersion)(int* version);
  // Null where the driver is not a whole one.
  int (*cuCtxGetCurrent)(void** context);
  int (*cuDeviceGetCount)(int* count);
  int (*cuDeviceGet)(int* device, int ordinal);
  int (*cuDeviceGetName)(char* name, int bytes, int device);
  int (*cuDeviceGetAttribute)(int* value, int attribute, int device);
  int (*cuDeviceTotalMem)(size_t* bytes, int device);
  // Of contexts that exist (device_memory.h).
  int (*cuDevicePrimaryCtxGetState)(int device, unsigned* flags, int* is_active);
  int (*cuDevicePrimaryCtxRetain)(void** context, int device);
  int (*cuDevicePrimaryCtxRelease)(int device);
  int (*cuCtxPushCurrent)(void* context);
  int (*cuCtxPopCurrent)(void** context);
  int (*cuMemGetInfo)(size_t* free_bytes, size_t* total_bytes);
  uint32_t version;
};

// False: FindCudaDriver() would find none. Takes no lock that is held while a library is loaded.
bool IsCudaDriverLoaded();

// Whether this process uses CUDA: libcuda is mapped and was initialised. Loads nothing.
bool FindCudaDriver(CudaDriver* driver);

// Finds and loads libcupti. False: there is none that works now; `failure` says why:
//   kNoCupti    none is found, or it is too old or too new
//   kNoDriver   it finds no driver that it can work with
//   kCuptiBusy  another tool uses it
bool FindCupti(const CudaDriver& driver, CuptiLibrary* library, ArmFailure* failure);

// Asks `library` how large its records are. Returns its answer for kernels; kSuccess means that
// their size is known.
cupti::Result ProbeRecordSizes(CuptiLibrary* library);

}  // namespace profd::client

#endif  // PROFD_CLIENT_LIB_CUPTI_CUPTI_LIBRARY_H_
