// What the names of CUDA's API functions, as CUPTI gives them, say: which calls are kept, which
// launch work on the GPU.
#ifndef PROFD_CLIENT_LIB_CUPTI_API_NAMES_H_
#define PROFD_CLIENT_LIB_CUPTI_API_NAMES_H_

#include <cstddef>
#include <cstdint>

namespace profd::client {

// Which API calls are kept.
enum class ApiFilter : uint8_t {
  kNone,  // None.
  kMost,  // The runtime's, and those of the driver that put work on the GPU or wait for it.
  kAll,   // All but those that only ask (cudaGetDevice and the like).
};

// Whether calls of `name` are kept.
bool KeepsApi(ApiFilter filter, bool is_driver, const char* name);

// The length of `name` without what CUPTI adds: "_v7000", "_ptsz". "cuMemcpyHtoD_v2" is the
// function's own name.
size_t ApiNameLength(const char* name);

// LaunchTracker's flags for calls of `name`; 0: it launches nothing that CUPTI records.
uint8_t LaunchesOf(const char* name);

// Whether calls of `name` have the GPU decompress memory.
bool IsDecompression(const char* name);

// Whether `name` begins (ends) the capture of a stream's launches into a graph.
bool BeginsGraphCapture(const char* name);
bool EndsGraphCapture(const char* name);

}  // namespace profd::client

#endif  // PROFD_CLIENT_LIB_CUPTI_API_NAMES_H_
