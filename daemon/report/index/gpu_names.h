// Words for CUPTI's numbers of kinds, in reports and in traces: those that other tools' traces use.
// An unknown number is shown as a number, so that records of a newer CUPTI do not disappear in
// "other".
//
// How do I add one?  Its number from cupti_activity.h and its word in gpu_names.cc.
#ifndef PROFD_DAEMON_REPORT_INDEX_GPU_NAMES_H_
#define PROFD_DAEMON_REPORT_INDEX_GPU_NAMES_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "daemon/capture/event_kinds.h"

namespace profd::report {

// CUpti_ActivityMemcpyKind: "HtoD"; "Kind 42".
std::string CopyKindName(uint32_t kind);
// HIP's "Host", which may be pageable or pinned; CUPTI has no such kind.
inline constexpr uint32_t kHostMemory = 15;
// CUpti_ActivityMemoryKind, or the above: "Pageable", "Device"; "Kind 42".
std::string MemoryKindName(uint32_t kind);
// "Memcpy HtoD (Pageable -> Device)"
std::string CopyName(uint32_t copy_kind, uint32_t source_kind, uint32_t destination_kind);
// "Memset (Device)"
std::string MemsetName(uint32_t memory_kind);
// The name of GPU work that is not a kernel: one of the above, or "CUDA graph".
std::string WorkName(GpuRowKind kind, uint32_t copy_kind, uint32_t source_kind,
                     uint32_t destination_kind);

// CUpti_ActivitySynchronizationType: "Stream Sync"; "Sync 42". And those of wire/sync_kinds.h:
// "Host Function".
std::string SyncName(uint32_t kind);
inline constexpr uint32_t kEventSync = 1;
inline constexpr uint32_t kStreamWaitEvent = 2;  // A stream waits; the host does not.
inline constexpr uint32_t kStreamSync = 3;
inline constexpr uint32_t kContextSync = 4;

// CUpti_ActivityOverheadKind: "Buffer Flush"; "Overhead 42".
std::string OverheadName(uint32_t kind);

// Demangler makes kernels' names readable: "_Z3addPfi" as "add(float*, int)".
//
// A name that is no C++ symbol stays as it is, and so does one that a few bytes make so long
// that it would fill the memory: a reference back may stand for all that was written before, and
// be doubled again. What all of one report's or trace's names may take together is limited, too:
// then they stay mangled.
//
// Threads: one at a time. Errors: none; any bytes are safe.
class Demangler {
 public:
  static constexpr size_t kMaxMangledBytes = 4096;
  static constexpr size_t kMaxDisplayBytes = 4096;

  // At most kMaxDisplayBytes, cut at a character, with "..." for the rest.
  std::string Demangle(std::string_view name);

 private:
  size_t left_bytes_ = size_t{64} << 20;  // Of text, cut or not.
};

// What the name of a kernel, mangled or not, says about whether it exchanges data with other GPUs.
// CommunicationKernels (kernel_purpose.h) also goes by the operator that launched it.
enum class CommunicationSign : uint8_t {
  kNone,
  kWords,  // It is named after a collective, as another kernel may be.
  // Of NCCL, RCCL, MSCCL, NVSHMEM, Transformer Engine; on symmetric memory; of an inference engine
  // (vLLM, SGLang, TensorRT-LLM, DeepEP, QuickReduce).
  kLibrary,
};
CommunicationSign CommunicationSignOf(std::string_view name);

// A call that copies or fills memory: "cudaMemcpyAsync", "hipMemset". On ROCm, kernels do it.
bool IsCopyCall(std::string_view call);
// Work of the engine that decompresses memory, and a call that launches it.
bool IsDecompression(GpuRowKind kind);
bool IsDecompressionCall(std::string_view call);
// A call that copies, fills, or decompresses memory, and returns before that is done.
bool IsAsyncCopyCall(std::string_view call);
// A kernel that ROCm launches for such calls.
bool IsCopyKernel(std::string_view kernel);

// A kernel that multiplies matrices, or finishes a product, by its library's word in its name.
bool IsProductKernel(std::string_view kernel);

// A call that launches a kernel or a graph: "cudaLaunchKernel", "cuLaunchKernelEx",
// "hipModuleLaunchKernel", "cudaGraphLaunch".
bool LaunchesWork(std::string_view call);

// Of those, one of HIP whose grid counts work-items, not blocks: "hipExtModuleLaunchKernel".
bool CountsWorkItems(std::string_view call);

// The blocks along each side of a grid of work-items; unchanged if `block` is unknown (0).
std::array<uint32_t, 3> BlocksOfWorkItems(const std::array<uint32_t, 3>& work_items,
                                          const std::array<uint32_t, 3>& block);

// Of those, one that launches a graph: "cudaGraphLaunch", "hipGraphLaunch".
bool LaunchesGraph(std::string_view call);

// A kernel that runs on tensor cores, by the families of names known up to sm_100. By name
// only: one that is hidden behind a name of its own is not found.
bool UsesTensorCores(std::string_view name);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_INDEX_GPU_NAMES_H_
