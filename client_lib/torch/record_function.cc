#include "client_lib/torch/record_function.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <atomic>

#include "client_lib/core/safe_memory.h"
#include "proto/wire/event.h"

namespace profd::client::torch {
namespace {

constexpr char kSentinelName[] = "profd: where are the fields?";
constexpr uint64_t kMostHandles = 1 << 20;  // That other threads may make while we look.

// One RecordFunction of ours.
struct Sentinel {
  uint8_t scope;
  int64_t sequence;
};

// Values that nothing else in the object has; each scope and sequence with a different partner.
constexpr Sentinel kSentinels[] = {{7, 0x5eed0123456789ab}, {0, 0x5eed0123456789ab},
                                   {7, 0x1b2c3d4e5f60718},  {1, 0x7a6b5c4d3e2f1a0},
                                   {2, 0x1b2c3d4e5f60718},  {0, 0x3141592653589793},
                                   {9, 0x2718281828459045}};
constexpr size_t kSentinelCount = sizeof(kSentinels) / sizeof(kSentinels[0]);

struct Snapshot {
  uint8_t bytes[kRecordFunctionBytes];
};

// A RecordFunction is made where there is room for any.
struct alignas(64) Room {
  uint8_t bytes[4096];
};

// What the callback looks for, and what it has seen. Other threads' operators come by, too.
constinit std::atomic<const void*> g_awaited{nullptr};
constinit std::atomic<uint32_t> g_calls{0};
constinit Snapshot g_seen{};
constinit const char* g_seen_name = nullptr;
constinit const TorchLibrary* g_library = nullptr;

CallbackContext OnSentinel(const void* record_function) {
  if (record_function == g_awaited.load(std::memory_order_acquire)) {
    memcpy(&g_seen, record_function, sizeof(g_seen));
    g_seen_name = g_library->name(record_function);
    g_calls.fetch_add(1, std::memory_order_relaxed);
  }
  return {};
}

void OnSentinelEnd(const void*, void*) {}

// Makes a RecordFunction. False: torch did not announce it, or by another name.
bool Fire(const TorchLibrary& library, const Sentinel& sentinel, uint8_t filling,
          Snapshot* snapshot) {
  Room room;
  memset(&room, filling, sizeof(room));
  g_calls.store(0, std::memory_order_relaxed);
  g_awaited.store(&room, std::memory_order_release);
  library.construct(&room, sentinel.scope);
  if (library.before != nullptr) {
    library.before(&room, kSentinelName, sentinel.sequence);
  } else {
    library.before_variant(&room, {sizeof(kSentinelName) - 1, kSentinelName, 0}, sentinel.sequence);
  }
  SafeMemory memory;
  const bool named = g_calls.load(std::memory_order_relaxed) == 1 &&
                     memory.IsText(reinterpret_cast<uint64_t>(g_seen_name), kSentinelName);
  library.destroy(&room);
  g_awaited.store(nullptr, std::memory_order_release);
  *snapshot = g_seen;
  return named;
}

// The only offset at which `holds` is true; kNowhere if there is none, or more than one.
template <typename Holds>
int32_t OnlyOffset(size_t stride, size_t width, const Holds& holds) {
  int32_t found = kNowhere;
  for (size_t at = 0; at + width <= kRecordFunctionBytes; at += stride) {
    if (!holds(at)) continue;
    if (found != kNowhere) return kNowhere;
    found = static_cast<int32_t>(at);
  }
  return found;
}

// The same on a second thread: one sentinel, and what torch calls that thread.
struct OtherThread {
  const TorchLibrary* library;
  Snapshot snapshot;
  uint64_t number;
  bool seen;
};

void* FireOnOtherThread(void* argument) {
  auto* other = static_cast<OtherThread*>(argument);
  other->number = other->library->current_thread();
  other->seen = Fire(*other->library, kSentinels[0], 0x3c, &other->snapshot);
  return nullptr;
}

bool RunOnOtherThread(OtherThread* other) {
  pthread_t thread;
  if (pthread_create(&thread, nullptr, FireOnOtherThread, other) != 0) return false;
  pthread_join(thread, nullptr);
  return other->seen;
}

int32_t FindThread(const TorchLibrary& library, const Snapshot (&snapshots)[kSentinelCount]) {
  const uint64_t mine = library.current_thread();
  OtherThread other{&library, {}, 0, false};
  if (!RunOnOtherThread(&other) || other.number == mine) return kNowhere;
  return OnlyOffset(8, 8, [&](size_t at) {
    if (WordAt(other.snapshot.bytes, at) != other.number) return false;
    for (const Snapshot& snapshot : snapshots) {
      if (WordAt(snapshot.bytes, at) != mine) return false;
    }
    return true;
  });
}

int32_t FindForwardThread(const Snapshot (&snapshots)[kSentinelCount]) {
  const int32_t handle = OnlyOffset(8, 8, [&](size_t at) {
    uint64_t last = WordAt(snapshots[0].bytes, at);
    if (last == 0) return false;
    for (size_t i = 1; i < kSentinelCount; ++i) {
      const uint64_t next = WordAt(snapshots[i].bytes, at);
      if (next <= last || next - last > kMostHandles) return false;
      last = next;
    }
    return true;
  });
  if (handle < 8) return kNowhere;
  const int32_t before = handle - 8;
  for (const Snapshot& snapshot : snapshots) {
    if (WordAt(snapshot.bytes, static_cast<size_t>(before)) != 0) return kNowhere;
  }
  return before;
}

// at::RecordScope: KERNEL_FUNCTION_DTYPE, CUSTOM_CLASS, BUILD_FEATURE, LITE_INTERPRETER.
constexpr bool IsOfPhones(uint32_t scope) { return scope >= 3 && scope <= 6; }

}  // namespace

void AskForOperators(RecordFunctionCallback* callback) {
  for (uint32_t scope = 0; scope < kRecordScopes; ++scope) {
    const bool is_user = scope == static_cast<uint32_t>(wire::OperatorScope::kUserScope);
    callback->scopes[scope] = !is_user && !IsOfPhones(scope);
  }
}

uint32_t CalibrateRecordFunction(const TorchLibrary& library, RecordFunctionLayout* layout,
                                 char* why, size_t why_bytes) {
  *layout = {};
  g_library = &library;
  RecordFunctionCallback callback{};
  callback.start = OnSentinel;
  callback.end = OnSentinelEnd;
  callback.sampling_probability = 1.0;
  memset(callback.scopes, 1, sizeof(callback.scopes));
  callback.needs_ids = 1;
  const uint64_t handle = library.add_callback(callback);
  Snapshot snapshots[kSentinelCount];
  bool all_seen = true;
  for (size_t i = 0; i < kSentinelCount; ++i) {
    // Bytes that the constructor leaves alone differ between the snapshots, so that none of them
    // looks like a field.
    const uint8_t filling = i % 2 == 0 ? 0xa5 : 0x5a;
    all_seen = Fire(library, kSentinels[i], filling, &snapshots[i]) && all_seen;
  }
  if (all_seen) layout->thread = FindThread(library, snapshots);
  library.remove_callback(handle);
  if (!all_seen) {
    snprintf(why, why_bytes, "torch does not announce a RecordFunction of ours as it was made");
    return 0;
  }
  layout->sequence = OnlyOffset(8, 8, [&](size_t at) {
    for (size_t i = 0; i < kSentinelCount; ++i) {
      if (WordAt(snapshots[i].bytes, at) != static_cast<uint64_t>(kSentinels[i].sequence)) {
        return false;
      }
    }
    return true;
  });
  layout->scope = OnlyOffset(1, 1, [&](size_t at) {
    for (size_t i = 0; i < kSentinelCount; ++i) {
      if (snapshots[i].bytes[at] != kSentinels[i].scope) return false;
    }
    return true;
  });
  layout->forward_thread = FindForwardThread(snapshots);
  uint32_t features = wire::kTorchPresent | wire::kTorchOperators;
  if (layout->sequence != kNowhere) features |= wire::kTorchSequences;
  if (layout->scope != kNowhere) features |= wire::kTorchScopes;
  if (layout->thread != kNowhere) features |= wire::kTorchThreads;
  if (layout->forward_thread != kNowhere) features |= wire::kTorchForwardThreads;
  return features;
}

}  // namespace profd::client::torch
