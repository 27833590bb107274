// The exported functions: argument checks, the hand-over to an earlier copy, nothing else.
// Those of ranges are in ranges.cc.

#define PROFD_COLD  // Callers put their calls aside; here these are the hot paths.
#include <string.h>

#include "client_lib/core/agent.h"
#include "client_lib/core/handover.h"
#include "client_lib/core/hot_state.h"
#include "client_lib/core/lifecycle.h"
#include "client_lib/core/metadata.h"
#include "client_lib/core/recorder.h"
#include "client_lib/core/session.h"
#include "client_lib/core/status_page.h"
#include "client_lib/core/steps.h"
#include "client_lib/include/profd/profd.h"

namespace profd::client {
namespace {

bool MemoryEventIsValid(const profd_memory_event* event) {
  return event != nullptr && event->bytes >= 0 && event->total_allocated_bytes >= -1 &&
         event->total_reserved_bytes >= -1 &&
         event->device_type <= static_cast<uint16_t>(wire::DeviceType::kCuda) &&
         event->device_index >= 0 && event->category <= wire::kMaxMemoryCategory;
}

uint32_t FlagIsOn() {
  const uint32_t flag = g_hot.flag.load(std::memory_order_relaxed);
  return flag != kFlagOff && flag != kFlagForked;
}

}  // namespace
}  // namespace profd::client

using namespace profd::client;  // NOLINT: the C functions stand outside.
namespace wire = profd::wire;

extern "C" {

int profd_init(void) {
  if (const CopyTable* copy = EarlierCopy()) return copy->init();
  Load();
  return StartAndLookForDaemon() ? PROFD_OK : PROFD_DISABLED;
}

int profd_stop_threads(void) {
  if (const CopyTable* copy = EarlierCopy()) {
    return copy->size_bytes > offsetof(CopyTable, stop_threads) ? copy->stop_threads()
                                                                : PROFD_DISABLED;
  }
  return StopThreads() ? PROFD_OK : PROFD_DISABLED;
}

void profd_restart_threads(void) {
  const CopyTable* copy = EarlierCopy();
  if (copy == nullptr) return RestartThreads();
  if (copy->size_bytes > offsetof(CopyTable, restart_threads)) copy->restart_threads();
}

void profd_stay_stopped(void) {
  const CopyTable* copy = EarlierCopy();
  if (copy == nullptr) return StayStopped();
  if (copy->size_bytes > offsetof(CopyTable, stay_stopped)) copy->stay_stopped();
}

int profd_set_metadata(const char* key, const char* value) {
  if (const CopyTable* copy = EarlierCopy()) return copy->set_metadata(key, value);
  if (IsDisabled()) return PROFD_DISABLED;
  const profd_result result = SetMetadata(key, value);
  if (result == PROFD_OK) WakeAgent();
  return result;
}

void profd_step(void) {
  if (const CopyTable* copy = EarlierCopy()) return copy->step();
  if (!IsStarted() && !Start()) return;
  MarkStep(wire::StepSource::kMarks);
}

void profd_step_of_other_task(void) {
  if (const CopyTable* copy = EarlierCopy()) {
    if (copy->size_bytes > offsetof(CopyTable, step_of_other_task)) {
      return copy->step_of_other_task();
    }
    return copy->step();  // An older copy knows threads only.
  }
  if (IsStarted()) MarkForeignStep();
}

uint64_t profd_step_count(void) {
  if (const CopyTable* copy = EarlierCopy()) return copy->step_count();
  return StepMarkCount();
}

uint32_t profd_intern(const char* text, size_t length) {
  if (const CopyTable* copy = EarlierCopy()) return copy->intern(text, length);
  if (IsDisabled()) return wire::kOtherNameId;
  return InternName(text, length);
}

void profd_instant_id(uint32_t name_id) {
  if (const CopyTable* copy = EarlierCopy()) return copy->instant_id(name_id);
  RecordInstant(CheckedId(name_id));
}

void profd_counter_id(uint32_t name_id, double value) {
  if (const CopyTable* copy = EarlierCopy()) return copy->counter_id(name_id, value);
  RecordCounter(CheckedId(name_id), value);
}

void profd_alloc(const profd_memory_event* event) {
  if (const CopyTable* copy = EarlierCopy()) return copy->alloc(event);
  if (MemoryEventIsValid(event)) RecordMemory(*event, 0);
}

void profd_free(const profd_memory_event* event) {
  if (const CopyTable* copy = EarlierCopy()) return copy->free(event);
  if (MemoryEventIsValid(event)) RecordMemory(*event, wire::kEventFlagFree);
}

void profd_thread_name(const char* name) {
  if (const CopyTable* copy = EarlierCopy()) return copy->thread_name(name);
  if (!IsDisabled()) SetThreadName(name);
}

const char* profd_version(void) { return PROFD_LIBRARY_VERSION; }

int profd_get_status(profd_status* status) {
  if (const CopyTable* copy = EarlierCopy()) return copy->get_status(status);
  if (status == nullptr || status->size_bytes < sizeof(uint32_t)) return PROFD_INVALID;
  profd_status now{};
  now.size_bytes = status->size_bytes;
  now.connected = AgentIsConnected();
  now.recording = FlagIsOn();
  now.disabled = IsDisabled();
  now.step_count = StepMarkCount();
  now.dropped_event_count = ProcessDrops();
  now.capture_count = ArmedCaptureCount();
  memcpy(status, &now, now.size_bytes < sizeof(now) ? now.size_bytes : sizeof(now));
  return now.disabled != 0 ? PROFD_DISABLED : now.connected != 0 ? PROFD_OK : PROFD_NO_DAEMON;
}

const uint32_t* profd_recording_flag(void) {
  Load();
  if (const CopyTable* copy = EarlierCopy()) return copy->recording_flag();
  static_assert(sizeof(g_hot.flag) == sizeof(uint32_t));
  return reinterpret_cast<const uint32_t*>(&g_hot.flag);
}

void profd_instant_slow(profd_name* name) {
  if (const CopyTable* copy = EarlierCopy()) return copy->instant_slow(name);
  RecordInstant(IdOf(name));
}

void profd_counter_slow(profd_name* name, double value) {
  if (const CopyTable* copy = EarlierCopy()) return copy->counter_slow(name, value);
  RecordCounter(IdOf(name), value);
}

const CopyTable* profd_copy_table(void) {
  static constexpr CopyTable kTable = {sizeof(CopyTable),
                                       PROFD_ABI_VERSION,
                                       profd_init,
                                       profd_set_metadata,
                                       profd_step,
                                       profd_step_count,
                                       profd_intern,
                                       profd_range_begin_id,
                                       profd_range_end_id,
                                       profd_instant_id,
                                       profd_counter_id,
                                       profd_alloc,
                                       profd_free,
                                       profd_thread_name,
                                       profd_get_status,
                                       profd_recording_flag,
                                       profd_range_begin_slow,
                                       profd_instant_slow,
                                       profd_counter_slow,
                                       InitializeInjectionNvtx2,
                                       profd_torch_table,
                                       profd_stop_threads,
                                       profd_restart_threads,
                                       profd_range_open_id,
                                       profd_range_close,
                                       profd_range_open_with,
                                       profd_step_of_other_task,
                                       profd_stay_stopped};
  return &kTable;
}

}  // extern "C"
