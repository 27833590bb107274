#include "daemon/report/index/gpu_names.h"

#include <cxxabi.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <memory>
#include <span>

#include "absl/container/flat_hash_map.h"
#include "daemon/base/str_cat.h"
#include "proto/wire/sync_kinds.h"

namespace profd::report {
namespace {

using std::string_view_literals::operator""sv;

std::string WordOr(std::span<const std::string_view> words, uint32_t number,
                   std::string_view otherwise) {
  if (number < words.size()) return std::string(words[number]);
  return StrCat(otherwise, " ", number);
}

bool IsSequenceDigit(char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z'); }

// More than the demangled text of `mangled` can take. Each reference back ("S1_", "T_") may
// stand for all that was written before its first use: doubled a hundred times, a short
// name would fill any memory. What only looks like a reference counts too.
size_t ExpansionBound(std::string_view mangled, size_t limit) {
  constexpr size_t kTextPerByte = 24;  // "y" is "unsigned long long", "NSs" longer.
  absl::flat_hash_map<std::string_view, size_t> size_of;
  size_t size = 0;
  for (size_t i = 0; i < mangled.size() && size <= limit; ++i) {
    size += kTextPerByte;
    if (mangled[i] != 'S' && mangled[i] != 'T') continue;
    size_t end = i + 1;
    while (end < mangled.size() && IsSequenceDigit(mangled[end])) ++end;
    if (end == mangled.size() || mangled[end] != '_') continue;
    size += size_of.try_emplace(mangled.substr(i, end - i), size).first->second;
  }
  return size;
}

// At most `max_bytes` of `text`, which may be cut only between characters of UTF-8.
std::string Shortened(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return std::string(text);
  size_t end = max_bytes - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return StrCat(text.substr(0, end), "...");
}

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Shapes of matrix instructions, and words of the libraries that use them.
constexpr std::array kTensorCoreFamilies = {
    "s884"sv,
    "h884"sv,
    "d884"sv,
    "s1688"sv,
    "h1688"sv,
    "16816"sv,
    "i8816"sv,
    "i16832"sv,
    "s16832"sv,
    "16864"sv,
    "_16x8x"sv,
    "tensor16x8"sv,
    "tensor8x8"sv,
    "hmma"sv,
    "imma"sv,
    "bmma"sv,
    "dmma"sv,
    "qmma"sv,
    "gmma"sv,
    "umma"sv,
    "wmma"sv,
    "utcmma"sv,
    "tcgen05"sv,
    "tensorop"sv,
    "xmma"sv,
    "nvjet"sv,
    "enable_3x_kernel"sv,  // CUTLASS, from Hopper on
    "_mi16x16"sv,          // Tensile, on AMD's matrix cores
    "_mi32x32"sv,
    "_mi4x4"sv,
    "_xdl"sv,  // Composable Kernel, on the same
    "gemmxdl"sv,
    "ck_tile"sv,
    "flash_fwd"sv,
    "flash_bwd"sv,
    "flashattn"sv,
    "fmha"sv,
    "_sdpa_sm"sv,
    "_flash_sdpa"sv,
    "deep_gemm"sv,
    "marlin"sv,
    "first_layer_wgrad"sv,
    "first_layer_fwd"sv,
};
// The same libraries' kernels without: plain multiplications, or GPUs before tensor cores.
constexpr std::array kPlainFamilies = {
    "simt"sv, "ffma"sv, "_sm50"sv, "_sm60"sv, "_sm61"sv,
};

// Reductions over the threads of a block, which exchange nothing.
constexpr auto kOfOneBlock = std::to_array<std::string_view>(
    {"BlockAllReduce", "WarpAllReduce", "block_all_reduce", "warp_all_reduce"});
// Parts of the names of kernels that exchange data.
constexpr auto kCommunicationFamilies = std::to_array<std::string_view>({
    "ncclKernel",           // NCCL, until 2.18
    "rcclGenericKernel",    // RCCL
    "ncclDevKernel",        // from then on
    "mscclKernel",          // RCCL's with MSCCL
    "mscclpp",              // MSCCL++
    "nvshmemi_",            // NVSHMEM
    "rocshmem",             // ROC_SHMEM
    "symmetric_memory::",   // torch's symmetric memory, with its barriers
    "cross_device_reduce",  // vLLM, SGLang, AITER
    "multimem_",            // symmetric memory, through the switch
    "quickreduce",          // QuickReduce
    "deep_ep::",            // DeepEP: dispatch and combine
    "7deep_ep",             // the same, mangled
    "all2all",
    "pplx::",               // pplx-kernels: the same
    "mori::",               // AMD's: the same
    "userbuffers",          // Transformer Engine
    "lowPrecisionTwoShot",  // TensorRT-LLM
    "lowPrecisionOneShot",
    "moeA2ADispatch",  // the same, and FlashInfer
    "moeA2ACombine",
});
constexpr auto kCollectiveWords =
    std::to_array<std::array<std::string_view, 3>>({{"all", "reduce", ""},
                                                    {"all", "gather", ""},
                                                    {"reduce", "scatter", ""},
                                                    {"all", "to", "all"}});

// "void (anonymous namespace)::f<T>(int)" -> "(anonymous namespace)::f": no parameters.
std::string_view FunctionOf(std::string_view name) {
  constexpr std::string_view kAnonymous = "(anonymous namespace)";
  const size_t anonymous = name.find(kAnonymous);
  const size_t from = anonymous == std::string_view::npos ? 0 : anonymous + kAnonymous.size();
  return name.substr(0, name.find_first_of("<(", from));
}

bool IsLower(char c) { return c >= 'a' && c <= 'z'; }
bool IsUpper(char c) { return c >= 'A' && c <= 'Z'; }
char ToLower(char c) { return IsUpper(c) ? static_cast<char>(c - 'A' + 'a') : c; }

// Whether `word` begins at `at`, in any case.
bool IsWordAt(std::string_view name, size_t at, std::string_view word) {
  if (name.size() < at + word.size()) return false;
  for (size_t i = 0; i < word.size(); ++i) {
    if (ToLower(name[at + i]) != word[i]) return false;
  }
  return true;
}

// Whether these words follow each other: "all_reduce", "allreduce", "oneShotAllReduce", but not
// "small_reduce".
bool HasWords(std::string_view name, const std::array<std::string_view, 3>& words) {
  for (size_t begin = 0; begin < name.size(); ++begin) {
    const bool is_start = begin == 0 || IsUpper(name[begin]) ||
                          !(IsLower(name[begin - 1]) || IsUpper(name[begin - 1]));
    if (!is_start) continue;
    size_t at = begin;
    bool all = true;
    for (const std::string_view word : words) {
      if (word.empty()) break;
      if (at > begin && at < name.size() && (name[at] == '_' || name[at] == '-')) ++at;
      all = all && IsWordAt(name, at, word);
      at += word.size();
    }
    if (all) return true;
  }
  return false;
}

}  // namespace

std::string CopyKindName(uint32_t kind) {
  static constexpr std::array kWords = {"Unknown"sv, "HtoD"sv, "DtoH"sv, "HtoA"sv,
                                        "AtoH"sv,    "AtoA"sv, "AtoD"sv, "DtoA"sv,
                                        "DtoD"sv,    "HtoH"sv, "PtoP"sv};
  return WordOr(kWords, kind, "Kind");
}

std::string MemoryKindName(uint32_t kind) {
  if (kind == kHostMemory) return "Host";
  static constexpr std::array kWords = {"Unknown"sv,       "Pageable"sv,      "Pinned"sv,
                                        "Device"sv,        "Array"sv,         "Managed"sv,
                                        "Device Static"sv, "Managed Static"sv};
  return WordOr(kWords, kind, "Kind");
}

std::string CopyName(uint32_t copy_kind, uint32_t source_kind, uint32_t destination_kind) {
  return StrCat("Memcpy ", CopyKindName(copy_kind), " (", MemoryKindName(source_kind), " -> ",
                MemoryKindName(destination_kind), ")");
}

std::string MemsetName(uint32_t memory_kind) {
  return StrCat("Memset (", MemoryKindName(memory_kind), ")");
}

std::string WorkName(GpuRowKind kind, uint32_t copy_kind, uint32_t source_kind,
                     uint32_t destination_kind) {
  if (kind == GpuRowKind::kMemcpy) return CopyName(copy_kind, source_kind, destination_kind);
  if (kind == GpuRowKind::kMemset) return MemsetName(destination_kind);
  return std::string(GpuKindOf(kind).title);
}

std::string SyncName(uint32_t kind) {
  if (kind == wire::kSyncHostFunction) return "Host Function";
  if (kind == wire::kSyncGraphHostNode) return "Graph Host Node";
  static constexpr std::array kWords = {"Unknown Sync"sv, "Event Sync"sv, "Stream Wait Event"sv,
                                        "Stream Sync"sv, "Context Sync"sv};
  return WordOr(kWords, kind, "Sync");
}

std::string OverheadName(uint32_t kind) {
  // Those that CUPTI itself causes count in the upper half.
  static constexpr std::array kDriver = {"Unknown Overhead"sv, "Driver Compiler"sv};
  static constexpr std::array kCupti = {""sv,
                                        "Buffer Flush"sv,
                                        "Instrumentation"sv,
                                        "Resource"sv,
                                        "Runtime Triggered Module Loading"sv,
                                        "Lazy Function Loading"sv,
                                        "Command Buffer Full"sv,
                                        "Activity Buffer Request"sv,
                                        "UVM Activity Init"sv};
  const uint32_t upper = kind >> 16;
  if ((kind & 0xFFFF) == 0 && upper > 0 && upper < kCupti.size()) return std::string(kCupti[upper]);
  return WordOr(kDriver, kind, "Overhead");
}

std::string Demangler::Demangle(std::string_view name) {
  // Of one name: twelve references, each to all before it, stay below; real names have fewer.
  constexpr size_t kMostExpanded = size_t{16} << 20;
  if (!name.starts_with("_Z") || name.size() > kMaxMangledBytes || Contains(name, "\0"sv) ||
      left_bytes_ == 0 || ExpansionBound(name, kMostExpanded) > kMostExpanded) {
    return Shortened(name, kMaxDisplayBytes);
  }
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> demangled(
      abi::__cxa_demangle(std::string(name).c_str(), nullptr, nullptr, &status), &std::free);
  if (status != 0 || demangled == nullptr) return Shortened(name, kMaxDisplayBytes);
  const std::string_view text = demangled.get();
  left_bytes_ -= std::min(left_bytes_, text.size());
  return Shortened(text, kMaxDisplayBytes);
}

CommunicationSign CommunicationSignOf(std::string_view name) {
  using enum CommunicationSign;
  if (name.starts_with("_Z")) {
    // A mangled name is "_Z", the length of the name, and the name.
    name.remove_prefix(2);
    while (!name.empty() && name.front() >= '0' && name.front() <= '9') name.remove_prefix(1);
  } else {
    name = FunctionOf(name);
  }
  if (name.starts_with("nccl") || name.starts_with("nvshmem")) return kLibrary;
  // Inductor names a kernel after the operators that it fuses: "triton_poi_fused_all_reduce_0" is
  // the copy before one.
  if (name.starts_with("triton_") && Contains(name, "_fused_")) return kNone;
  const auto is_part = [&](std::string_view part) { return Contains(name, part); };
  if (std::ranges::any_of(kCommunicationFamilies, is_part)) {
    return Contains(name, "deep_ep::layout") ? kNone : kLibrary;
  }
  if (std::ranges::any_of(kOfOneBlock, is_part)) return kNone;
  const auto has_words = [&](const auto& words) { return HasWords(name, words); };
  return std::ranges::any_of(kCollectiveWords, has_words) ? kWords : kNone;
}

bool IsCopyCall(std::string_view call) {
  return Contains(call, "Memcpy") || Contains(call, "Memset");
}

bool IsDecompression(GpuRowKind kind) { return kind == GpuRowKind::kMemDecompress; }

bool IsDecompressionCall(std::string_view call) { return Contains(call, "MemBatchDecompress"); }

bool IsAsyncCopyCall(std::string_view call) {
  return (IsCopyCall(call) || IsDecompressionCall(call)) && Contains(call, "Async");
}

bool IsCopyKernel(std::string_view kernel) {
  return kernel.starts_with("__amd_rocclr_copy") || kernel.starts_with("__amd_rocclr_fill");
}

bool IsProductKernel(std::string_view kernel) {
  return std::ranges::any_of(
      std::to_array<std::string_view>(
          {"nvjet", "gemm", "Gemm", "GEMM", "cutlass", "cublas", "Cijk_", "ck_tile"}),
      [&](std::string_view part) { return Contains(kernel, part); });
}

bool LaunchesWork(std::string_view call) {
  return Contains(call, "LaunchKernel") || Contains(call, "LaunchCooperativeKernel") ||
         Contains(call, "EnqueueKernelLaunch") ||  // Of Intel's runtimes.
         LaunchesGraph(call);
}

bool CountsWorkItems(std::string_view call) {
  return call == "hipExtModuleLaunchKernel" || call == "hipHccModuleLaunchKernel";
}

std::array<uint32_t, 3> BlocksOfWorkItems(const std::array<uint32_t, 3>& work_items,
                                          const std::array<uint32_t, 3>& block) {
  std::array<uint32_t, 3> blocks = work_items;
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (block[i] > 1) blocks[i] = work_items[i] / block[i] + (work_items[i] % block[i] != 0);
  }
  return blocks;
}

bool LaunchesGraph(std::string_view call) { return Contains(call, "GraphLaunch"); }

bool UsesTensorCores(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto is_part = [&](std::string_view part) { return Contains(lower, part); };
  return std::any_of(kTensorCoreFamilies.begin(), kTensorCoreFamilies.end(), is_part) &&
         std::none_of(kPlainFamilies.begin(), kPlainFamilies.end(), is_part);
}

}  // namespace profd::report
