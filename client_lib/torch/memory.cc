#include "client_lib/torch/memory.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <algorithm>
#include <atomic>

#include "client_lib/core/recorder.h"
#include "client_lib/core/thread_state.h"
#include "client_lib/torch/got_slots.h"
#include "client_lib/torch/live_blocks.h"

namespace profd::client::torch {
namespace {

// c10::Device, passed by value.
struct Device {
  int8_t type;
  int8_t index;
};
constexpr int8_t kCpu = static_cast<int8_t>(wire::DeviceType::kCpu);
constexpr int8_t kCuda = static_cast<int8_t>(wire::DeviceType::kCuda);

constexpr size_t kMostBytes = INT64_MAX;

// The totals are int64_t up to 1.13, size_t in later releases: the same to a caller.
using ReportFunction = void (*)(void* address, int64_t bytes, int64_t allocated, int64_t reserved,
                                Device device);
using ReportOomFunction = void (*)(int64_t bytes, int64_t allocated, int64_t reserved,
                                   Device device);
// Of c10::ProfiledCPUMemoryReporter.
using CpuNewFunction = void (*)(void* reporter, void* address, size_t bytes);
using CpuDeleteFunction = void (*)(void* reporter, void* address);
using CpuOomFunction = void (*)(void* reporter, size_t bytes);

// Objects whose calls are taken, and the functions that they call.
constexpr char kCpuObjects[] = "libc10.";
constexpr char kCpuNew[] = "_ZN3c1025ProfiledCPUMemoryReporter3NewEPvm";
constexpr char kCpuDelete[] = "_ZN3c1025ProfiledCPUMemoryReporter6DeleteEPv";
constexpr char kCpuOom[] = "_ZN3c1025ProfiledCPUMemoryReporter11OutOfMemoryEm";
constexpr char kGpuObjects[] = "libc10_cuda";
constexpr char kHipObjects[] = "libc10_hip";
constexpr char kGpuReport[] = "_ZN3c1027reportMemoryUsageToProfilerEPvl";
constexpr char kGpuOom[] = "_ZN3c1027reportOutOfMemoryToProfilerEl";

// Calls that are taken: where they stand, and what they went to before; that is constant while they
// go through us. Set by AttachMemory(); then the agent's.
template <typename Function>
struct TakenCalls {
  GotSlots slots;
  Function before = nullptr;

  bool Find(const char* objects, const char* symbol) {
    slots.Find(objects, symbol);
    before = reinterpret_cast<Function>(slots.function());
    return slots.count() != 0;
  }
  // Whether all of them come here now.
  bool Take(Function replacement) {
    const uint32_t count = slots.count();
    return count != 0 && slots.Replace(reinterpret_cast<void*>(replacement)) == count;
  }
};
constinit TakenCalls<CpuNewFunction> g_cpu_new;
constinit TakenCalls<CpuDeleteFunction> g_cpu_delete;
constinit TakenCalls<CpuOomFunction> g_cpu_oom;
constinit TakenCalls<ReportFunction> g_gpu_report;
constinit TakenCalls<ReportOomFunction> g_gpu_oom;
constinit std::atomic<bool> g_is_taken{false};

constinit std::atomic<bool> g_has_cuda{false};
constinit std::atomic<uint32_t> g_features{0};  // That could be attached.
constinit std::atomic<uint32_t> g_failed{0};    // Of them, which another tool had at ARM.

constinit std::atomic<bool> g_is_on{false};
constinit std::atomic<uint64_t> g_missed{0};

// Of the CPU, since the calls go through us.
constinit LiveBlocks g_cpu_blocks;
constinit std::atomic<int64_t> g_cpu_allocated{0};

bool IsOn() { return g_is_on.load(std::memory_order_relaxed); }

void CountMissed() { g_missed.fetch_add(1, std::memory_order_relaxed); }

// Where the library itself uses memory, nothing can be written.
bool IsWithinWrite() {
  const ThreadState* thread = CurrentThread();
  return thread != nullptr && thread->busy.load(std::memory_order_relaxed) != 0;
}

// `bytes` < 0: a free.
void Record(void* address, int64_t bytes, int64_t allocated, int64_t reserved, Device device) {
  if (IsWithinWrite()) return CountMissed();
  const bool is_free = bytes < 0;
  profd_memory_event event{};
  event.address = reinterpret_cast<uint64_t>(address);
  event.bytes = is_free ? -bytes : bytes;
  event.total_allocated_bytes = allocated < 0 ? -1 : allocated;
  event.total_reserved_bytes = reserved < 0 ? -1 : reserved;
  event.device_type = static_cast<uint8_t>(device.type);
  event.device_index = device.index < 0 ? int16_t{0} : device.index;
  RecordMemory(event, is_free ? wire::kEventFlagFree : uint8_t{0});
}

// What changes the blocks is known while the capture is armed, recorded in its windows.
void OnCpuChange(void* address, int64_t bytes) {
  const int64_t allocated = g_cpu_allocated.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  if (IsOn()) Record(address, bytes, allocated, 0, {kCpu, 0});
}

void OnCpuNew(void* reporter, void* address, size_t bytes) {
  const auto size = static_cast<int64_t>(std::min(bytes, kMostBytes));
  if (size != 0) {
    // Its free will not be known for one.
    if (!g_cpu_blocks.Add(reinterpret_cast<uint64_t>(address), size)) CountMissed();
    OnCpuChange(address, size);
  }
  g_cpu_new.before(reporter, address, bytes);
}

void OnCpuDelete(void* reporter, void* address) {
  const int64_t bytes = g_cpu_blocks.Take(reinterpret_cast<uint64_t>(address));
  if (bytes != LiveBlocks::kUnknown) OnCpuChange(address, -bytes);
  g_cpu_delete.before(reporter, address);
}

void OnGpuReport(void* address, int64_t bytes, int64_t allocated, int64_t reserved, Device device) {
  if (IsOn() && device.type == kCuda) Record(address, bytes, allocated, reserved, device);
  g_gpu_report.before(address, bytes, allocated, reserved, device);
}

void RecordOutOfMemory(const char* device, int64_t bytes) {
  RecordNote(wire::NoteKind::kOutOfMemory, InternName(device, strlen(device)), wire::kNoNameId,
             bytes);
}

void OnCpuOom(void* reporter, size_t bytes) {
  if (IsOn()) RecordOutOfMemory("cpu:0", static_cast<int64_t>(std::min(bytes, kMostBytes)));
  g_cpu_oom.before(reporter, bytes);
}

void OnGpuOom(int64_t bytes, int64_t allocated, int64_t reserved, Device device) {
  if (IsOn()) {
    char name[16];
    snprintf(name, sizeof(name), "cuda:%d", device.index);
    RecordOutOfMemory(name, bytes);
  }
  g_gpu_oom.before(bytes, allocated, reserved, device);
}

void Take() {
  uint32_t failed = 0;
  g_cpu_blocks.Forget();
  g_cpu_allocated.store(0, std::memory_order_relaxed);
  // Frees without allocations would say little, and the other way round less.
  if (!g_cpu_new.Take(OnCpuNew) || !g_cpu_delete.Take(OnCpuDelete)) {
    g_cpu_new.slots.Restore();
    g_cpu_delete.slots.Restore();
    failed |= wire::kTorchCpuMemory;
  }
  if (!g_gpu_report.Take(OnGpuReport)) failed |= wire::kTorchCudaMemory;
  g_cpu_oom.Take(OnCpuOom);
  g_gpu_oom.Take(OnGpuOom);
  g_failed.store(failed, std::memory_order_relaxed);
  g_is_taken.store(true, std::memory_order_release);
}

void GiveBack() {
  if (!g_is_taken.exchange(false, std::memory_order_relaxed)) return;
  for (GotSlots* slots : {&g_cpu_new.slots, &g_cpu_delete.slots, &g_cpu_oom.slots,
                          &g_gpu_report.slots, &g_gpu_oom.slots}) {
    slots->Restore();
  }
}

uint32_t Features() {
  return g_features.load(std::memory_order_relaxed) & ~g_failed.load(std::memory_order_relaxed);
}

void OnArm(const wire::ArmTorchField& wanted) {
  g_missed.store(0, std::memory_order_relaxed);
  const bool wants_memory = (wanted.flags & wire::kArmTorchMemory) != 0;
  if (wants_memory && g_features.load(std::memory_order_relaxed) != 0) Take();
}

void SetRecording(bool on) {
  g_is_on.store(on && g_is_taken.load(std::memory_order_acquire), std::memory_order_relaxed);
}

void AddCounts(uint64_t* counts) {
  counts[wire::kTorchMissedMemory] += g_missed.load(std::memory_order_relaxed);
}

const char* WhyMissing(uint32_t feature) {
  if ((feature & (wire::kTorchCpuMemory | wire::kTorchCudaMemory)) == 0) return nullptr;
  const uint32_t attached = g_features.load(std::memory_order_relaxed);
  if ((attached & g_failed.load(std::memory_order_relaxed) & feature) != 0) {
    return "another tool has taken the allocator's reports; stop it and retry";
  }
  return "this torch's allocator makes no calls that can be taken";
}

void OnLeave() {
  GiveBack();
  g_failed.store(0, std::memory_order_relaxed);
}

void ResetInChild() {
  g_is_on.store(false, std::memory_order_relaxed);
  OnLeave();
}

}  // namespace

constinit const TorchSource kMemorySource = {.features = Features,
                                             .on_arm = OnArm,
                                             .set_recording = SetRecording,
                                             .add_counts = AddCounts,
                                             .why_missing = WhyMissing,
                                             .on_leave = OnLeave,
                                             .reset_in_child = ResetInChild};

void AttachMemory() {
  const bool has_hip = IsObjectLoaded(kHipObjects);
  const char* gpu_objects = has_hip ? kHipObjects : kGpuObjects;
  g_has_cuda.store(has_hip || IsObjectLoaded(kGpuObjects), std::memory_order_relaxed);
  const bool has_new = g_cpu_new.Find(kCpuObjects, kCpuNew);
  const bool has_delete = g_cpu_delete.Find(kCpuObjects, kCpuDelete);
  g_cpu_oom.Find(kCpuObjects, kCpuOom);
  const bool has_report = g_gpu_report.Find(gpu_objects, kGpuReport);
  g_gpu_oom.Find(gpu_objects, kGpuOom);
  g_features.store((has_new && has_delete ? uint32_t{wire::kTorchCpuMemory} : 0) |
                       (has_report ? uint32_t{wire::kTorchCudaMemory} : 0),
                   std::memory_order_relaxed);
}

bool HasCudaAllocator() { return g_has_cuda.load(std::memory_order_relaxed); }

}  // namespace profd::client::torch
