#include "client_lib/torch/memory.h"

#include <stdio.h>

#include <atomic>

#include "client_lib/core/recorder.h"
#include "client_lib/core/thread_state.h"
#include "client_lib/torch/got_slots.h"

namespace profd::client::torch {
namespace {

// c10::Device, passed by value.
struct Device {
  int8_t type;
  int8_t index;
};
constexpr int8_t kCpu = static_cast<int8_t>(wire::DeviceType::kCpu);
constexpr int8_t kCuda = static_cast<int8_t>(wire::DeviceType::kCuda);

// The totals are int64_t up to 1.13, size_t in later releases: the same to a caller.
using ReportFunction = void (*)(void* address, int64_t bytes, int64_t allocated, int64_t reserved,
                                Device device);
using ReportOomFunction = void (*)(int64_t bytes, int64_t allocated, int64_t reserved,
                                   Device device);
using EnabledFunction = bool (*)();

// Objects whose calls are taken, and the functions that they call.
constexpr char kCpuObjects[] = "libc10.";
constexpr char kCudaObjects[] = "libc10_cuda";
constexpr char kHipObjects[] = "libc10_hip";
constexpr char kReport[] = "_ZN3c1027reportMemoryUsageToProfilerEPvl";
constexpr char kReportOom[] = "_ZN3c1027reportOutOfMemoryToProfilerEl";
constexpr char kEnabled[] = "_ZN3c1022memoryProfilingEnabledEv";

// Set by AttachMemory(); then the agent's.
constinit GotSlots g_cpu_report;
constinit GotSlots g_enabled;
constinit GotSlots g_cuda_report;
constinit GotSlots g_cuda_oom;
constinit std::atomic<bool> g_is_taken{false};

constinit std::atomic<bool> g_has_cuda{false};
constinit std::atomic<uint32_t> g_features{0};  // That could be attached.
constinit std::atomic<uint32_t> g_failed{0};    // Of them, which another tool had at ARM.

constinit std::atomic<bool> g_is_on{false};
constinit std::atomic<uint64_t> g_missed{0};

// What the calls went to before; constant while they go through us.
constinit ReportFunction g_report = nullptr;
constinit ReportOomFunction g_report_oom = nullptr;
constinit EnabledFunction g_is_enabled = nullptr;

void Record(void* address, int64_t bytes, int64_t allocated, int64_t reserved, Device device) {
  if (device.type != kCpu && device.type != kCuda) return;
  const ThreadState* thread = CurrentThread();
  if (thread != nullptr && thread->busy.load(std::memory_order_relaxed) != 0) {
    g_missed.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  const bool is_free = bytes < 0;
  profd_memory_event event{};
  event.address = reinterpret_cast<uint64_t>(address);
  event.bytes = is_free ? -bytes : bytes;
  event.total_allocated_bytes = allocated < 0 ? -1 : allocated;
  event.total_reserved_bytes = reserved < 0 ? -1 : reserved;
  event.device_type = static_cast<uint8_t>(device.type);
  event.device_index = device.type == kCpu || device.index < 0 ? int16_t{0} : device.index;
  RecordMemory(event, is_free ? wire::kEventFlagFree : uint8_t{0});
}

bool OnEnabled() { return g_is_on.load(std::memory_order_relaxed) || g_is_enabled(); }

void OnReport(void* address, int64_t bytes, int64_t allocated, int64_t reserved, Device device) {
  if (g_is_on.load(std::memory_order_relaxed)) {
    Record(address, bytes, allocated, reserved, device);
    // The CPU's allocator calls only because we listen.
    if (device.type == kCpu && !g_is_enabled()) return;
  }
  g_report(address, bytes, allocated, reserved, device);
}

void OnReportOom(int64_t bytes, int64_t allocated, int64_t reserved, Device device) {
  if (g_is_on.load(std::memory_order_relaxed)) {
    char name[16];
    const int length =
        snprintf(name, sizeof(name), "%s:%d", device.type == kCuda ? "cuda" : "cpu", device.index);
    RecordNote(wire::NoteKind::kOutOfMemory, InternName(name, static_cast<size_t>(length)),
               wire::kNoNameId, bytes);
  }
  g_report_oom(bytes, allocated, reserved, device);
}

bool ReplaceAll(GotSlots* slots, void* replacement) {
  return slots->count() != 0 && slots->Replace(replacement) == slots->count();
}

void Take() {
  uint32_t failed = 0;
  // The CPU's allocator reports only if both are ours.
  if (!ReplaceAll(&g_cpu_report, reinterpret_cast<void*>(OnReport)) ||
      !ReplaceAll(&g_enabled, reinterpret_cast<void*>(OnEnabled))) {
    g_enabled.Restore();
    failed |= wire::kTorchCpuMemory;
  }
  if (!ReplaceAll(&g_cuda_report, reinterpret_cast<void*>(OnReport))) {
    failed |= wire::kTorchCudaMemory;
  }
  ReplaceAll(&g_cuda_oom, reinterpret_cast<void*>(OnReportOom));
  g_failed.store(failed, std::memory_order_relaxed);
  g_is_taken.store(true, std::memory_order_release);
}

void GiveBack() {
  if (!g_is_taken.exchange(false, std::memory_order_relaxed)) return;
  g_enabled.Restore();
  g_cpu_report.Restore();
  g_cuda_report.Restore();
  g_cuda_oom.Restore();
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
  g_cpu_report.Find(kCpuObjects, kReport);
  g_enabled.Find(kCpuObjects, kEnabled);
  const bool has_hip = IsObjectLoaded(kHipObjects);
  const char* cuda = has_hip ? kHipObjects : kCudaObjects;
  g_has_cuda.store(has_hip || IsObjectLoaded(kCudaObjects), std::memory_order_relaxed);
  g_cuda_report.Find(cuda, kReport);
  g_cuda_oom.Find(cuda, kReportOom);
  g_is_enabled = reinterpret_cast<EnabledFunction>(g_enabled.function());
  g_report_oom = reinterpret_cast<ReportOomFunction>(g_cuda_oom.function());
  void* report = g_cpu_report.count() != 0 ? g_cpu_report.function() : g_cuda_report.function();
  g_report = reinterpret_cast<ReportFunction>(report);
  uint32_t features = 0;
  if (g_cpu_report.count() != 0 && g_enabled.count() != 0) features |= wire::kTorchCpuMemory;
  if (g_cuda_report.count() != 0) features |= wire::kTorchCudaMemory;
  g_features.store(features, std::memory_order_relaxed);
}

bool HasCudaAllocator() { return g_has_cuda.load(std::memory_order_relaxed); }

}  // namespace profd::client::torch
