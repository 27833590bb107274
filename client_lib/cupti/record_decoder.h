// RecordDecoder turns buffers of CUPTI records into our own events.
//
// It walks a buffer by the sizes that the loaded library gave (CuptiLibrary::record_bytes),
// reads no field that a record of that size does not have, and writes each event straight to
// where it stays (EventSink). It calls nothing of CUPTI but for the name of an API function
// that it has not met.
//
// What is not kept is counted, by cause (wire::GpuCount): every record is an event, or in one
// of counts() but kGpuRecords and kGpuUnfinished, or an answer to EnableAndDump.
//
// Names of kernels lie in the modules that they came from, and go with them. So a name is
// copied when a batch first shows its pointer; within a batch the pointer stands for the name.
// Pages are read by way of the operating system, which refuses where there is nothing left to
// read, and each once in a batch.
//
// The window is the time between set_window()'s bounds. A launch before it is kept back, and
// written only if its work runs in the window, so that this work has a launch in the capture. Work
// that a call after the window launched is left out after set_leaves_out_later_work().
//
// Correlation IDs rise with the time of the call, over all threads. So the window's launches are an
// interval of IDs: from the lowest to the highest ID of a record with host time (call, wait,
// overhead) that began in the window. Work with such an ID belongs to the window, also if the
// record of its call is missing. Without such records (GpuMode::kLight) work belongs to the window
// if it begins in it.
//
// CUPTI records queries of events and streams that find the work done as short waits. A record of
// the call of a query is never kept, so a short wait is held back until its call comes, and counts
// as kGpuFilteredApi if none does.
//
// Driver calls inside runtime calls have the same correlation id. The driver call ends first,
// so the last one of each thread is held back until what follows shows whether it was inside.
//
// Threads:   the GPU thread's.
// Hot path:  about 10 ns a record; a page of names is a system call in each batch.
//            (tests/bench/cupti_decode_benchmark.cc)
// Errors:    a buffer that does not hold what it should costs its rest: kGpuCorrupt.
#ifndef PROFD_CLIENT_LIB_CUPTI_RECORD_DECODER_H_
#define PROFD_CLIENT_LIB_CUPTI_RECORD_DECODER_H_

#include <cstddef>
#include <cstdint>

#include "client_lib/cupti/api_names.h"
#include "client_lib/cupti/cupti_abi.h"
#include "client_lib/cupti/gpu_clock.h"
#include "client_lib/cupti/launch_tracker.h"
#include "proto/wire/event.h"

namespace profd::client {

// Where events go.
struct EventSink {
  std::byte* at;  // The next event's place; what is before it is written.
  std::byte* end;
  // Makes room for `bytes` at `at`. False: there is none, the event is lost.
  bool (*make_room)(EventSink* sink, uint32_t bytes);
  // The id that an event may carry for a name.
  uint32_t (*intern)(EventSink* sink, const char* text, size_t length);
};

// How many records are in the `bytes` at `buffer`, by the sizes `record_bytes`. What cannot be
// read counts as one.
uint64_t CountRecords(const uint16_t* record_bytes, const std::byte* buffer, uint64_t bytes);

// Whether records of `kind` can be read if they are of `bytes`.
bool CanDecode(cupti::Kind kind, uint16_t bytes);

class RecordDecoder {
 public:
  struct Setup {
    const uint16_t* record_bytes;  // kKindLimit of them.
    GpuClock* clock;
    cupti::Result (*callback_name)(uint32_t domain, uint32_t cbid, const char** name);
    ApiFilter api_filter;
    uint64_t max_records;  // Events beyond are kGpuOverCap; 0: no limit.
    uint64_t begin_ticks;  // What ended before is of an earlier capture: kGpuStale.
  };

  void Begin(const Setup& setup);

  // A new batch: names are read again.
  void BeginBatch() { ++batch_; }

  // What ends before `start_ticks` is kGpuBeforeWindow, and no loss. UINT64_MAX: no window yet. And
  // for `end_ticks`: it has not ended.
  void set_window(uint64_t start_ticks, uint64_t end_ticks) {
    window_start_ticks_ = start_ticks;
    window_end_ticks_ = end_ticks;
  }

  // Every record of the window's calls has been decoded. From now on, work that begins after the
  // window counts as kGpuLaterLaunch unless the window launched it.
  void set_leaves_out_later_work() { leaves_out_later_work_ = true; }

  // CUPTI has been asked to hand over unfinished work, too. From now on, work without times is work
  // that had not begun; SettleUntimed() counts it by its launch.
  void set_is_last_flush() { is_last_flush_ = true; }

  // After the last record: work without times is kGpuStillRunning if the window launched it, else
  // kGpuLaterLaunch.
  void SettleUntimed();

  // After SettleUntimed() and Flush(). True: at least 1 % of the window's work has no call,
  // although calls are recorded. Then work above the window's interval counts as kGpuStillRunning
  // if no later call shows that it is not the window's.
  bool SettleCalls();

  // Whether CUPTI has had the buffers that follow since an earlier capture. Work without an end is
  // of that capture, then, unless it began in this one.
  void set_is_kept_buffer(bool is_kept) { is_kept_buffer_ = is_kept; }

  // Whether CUPTI records decompression by the GPU. Otherwise such calls launch nothing that a
  // record could come of. Call before the first Decode(); false after Begin().
  void set_records_decompression(bool records) { records_decompression_ = records; }

  // Decodes the `bytes` of records at `buffer`, which is 8-aligned.
  void Decode(const std::byte* buffer, uint64_t bytes, EventSink* sink);

  // Writes the driver calls that are held back, and drops waits without a call.
  void Flush(EventSink* sink);

  uint64_t* counts() { return counts_; }
  uint64_t event_count() const { return event_count_; }
  bool over_cap() const { return setup_.max_records != 0 && event_count_ >= setup_.max_records; }
  bool has_device() const { return devices_seen_ != 0; }
  // Launches of the window, as far as their calls have been decoded, whose work has not come; and
  // work up to the end of the window that has no call.
  LaunchTracker::Missing MissingWork();

  // Before the window is known: the newest launch so far, by its ID, and how many of the launches
  // up to `last` have work that has not ended yet. 0: none.
  uint32_t LastEarlyLaunch() const;
  uint32_t CountEarlyLaunchesWithoutWork(uint32_t last) const;

  // Whether records of calls say what the window launched.
  bool knows_calls() const { return setup_.api_filter != ApiFilter::kNone; }
  // Whether a launch of the window may have more records of work than the first: nodes of a graph.
  bool may_miss_nodes() const { return has_nodes_; }
  // Records of work so far, without work of later launches.
  uint64_t work_count() const { return work_count_; }

  // The settings of this decoder, for a replay of the same buffers.
  struct Settings {
    uint64_t window_start_ticks;
    uint64_t window_end_ticks;
    uint32_t leaves_out_later_work;
    uint32_t is_last_flush;
    uint32_t is_kept_buffer;
    uint32_t records_decompression;
  };
  Settings settings() const {
    return {window_start_ticks_, window_end_ticks_, leaves_out_later_work_,
            is_last_flush_,      is_kept_buffer_,   records_decompression_};
  }

  // Bit n: device n is described, and another description of it makes no event.
  uint64_t devices_seen() const { return devices_seen_; }
  void set_devices_seen(uint64_t devices) { devices_seen_ = devices; }

  // Writes the event of a device that CUPTI did not describe. False: it was already.
  bool WriteDevice(const wire::DeviceEvent& device, EventSink* sink);

 private:
  static constexpr char kNoName[] = "(no name)";
  static constexpr uint32_t kKernelSlots = 8192;
  static constexpr uint32_t kApiSlots = 2048;
  static constexpr uint32_t kHeldSlots = 256;
  static constexpr uint32_t kPageSlots = 64;
  // The driver queues about a thousand launches.
  static constexpr uint32_t kEarlySlots = 8192;
  static constexpr uint32_t kUntimedSlots = 65'536;
  static constexpr uint32_t kWaitSlots = 1024;
  static constexpr uint32_t kCapturingThreads = 16;

  struct KernelName {
    const char* text;
    uint32_t batch;
    uint32_t name_id;
  };
  struct ApiName {
    uint32_t name_id;  // 0: not met yet.
    bool is_kept;
    uint8_t launches;  // LaunchTracker's flags for a call of this name; 0: it launches nothing.
    bool begins_capture;
    bool ends_capture;
  };
  struct HeldCall {
    cupti::ApiRecord record;
    uint32_t last_runtime_correlation;
    bool is_held;
  };
  struct Span {
    uint64_t start_ticks;
    uint64_t duration_ticks;
    uint8_t flags;
  };

  template <typename Event>
  Event* NewEvent(EventSink* sink, wire::EventKind kind, uint8_t flags, uint32_t thread);
  bool TakeSpan(uint64_t start_ns, uint64_t end_ns, Span* span);
  // The same for work of the GPU that call `correlation` launched.
  bool TakeWork(uint32_t correlation, uint64_t start_ns, uint64_t end_ns, Span* span,
                EventSink* sink);
  bool TakeOtherWork(uint32_t correlation, uint8_t* launch, Span* span, EventSink* sink);
  void TakeUntimedWork(uint32_t correlation);
  bool NoteCall(const cupti::ApiRecord& record, uint8_t launches, uint64_t start_ticks);
  void NoteHostTime(uint32_t correlation, uint64_t start_ticks);
  bool IsOfWindow(uint32_t correlation) const;
  LaunchTracker::Missing CountMissing() const;
  void NoteEarlyCall(const cupti::ApiRecord& record, bool launches, EventSink* sink);
  void NoteEarlyWork(uint32_t correlation);
  bool IsEarlyLaunch(const cupti::ApiRecord& held) const;
  void WriteEarlyLaunch(const cupti::ApiRecord& record, EventSink* sink);
  void NoteGraphCapture(const ApiName& name, uint32_t thread);
  bool IsCapturing(uint32_t thread) const;
  bool IsInTime(uint64_t end_ticks);
  void DecodeOne(const std::byte* record, uint32_t bytes, EventSink* sink);
  // One for each type of PROFD_RECORDS, in the .cc file. `bytes`: the record's size in this CUPTI.
  template <typename Record>
  void DecodeRecord(const Record& record, uint32_t bytes, EventSink* sink);
  void WriteUnnamedNode(const cupti::KernelRecord& record, const Span& span, EventSink* sink);
  void HoldDriverCall(const cupti::ApiRecord& record, EventSink* sink);
  void WriteApi(const cupti::ApiRecord& record, EventSink* sink);
  bool HoldWait(const cupti::SynchronizationRecord& record);
  void WriteHeldWait(uint32_t correlation, EventSink* sink);
  void WriteSync(const cupti::SynchronizationRecord& record, EventSink* sink);
  template <typename Record>
  void DecodeHostFunction(const Record& record, uint32_t sync_kind, EventSink* sink);

  // A page of the process as it was when a batch first asked for it.
  struct PageCopy {
    uintptr_t address;
    uint32_t batch;
    uint32_t byte_count;  // 0: there is nothing to read.
    char bytes[4096];
  };

  const PageCopy& PageAt(uintptr_t address);
  // Copies up to `capacity` bytes of the string at `text`, which may not be there at all.
  // Returns how many; -1: nothing can be read.
  ptrdiff_t CopyText(const char* text, char* into, size_t capacity);
  ptrdiff_t EndLongName(const char* text, char* name);
  uint32_t KernelNameId(const char* text, EventSink* sink);
  uint32_t ReadKernelName(KernelName* entry, const char* text, EventSink* sink);
  const ApiName& ApiNameOf(const cupti::ApiRecord& record, EventSink* sink);
  void ReadApiName(const cupti::ApiRecord& record, ApiName* name, EventSink* sink);

  Setup setup_;
  uint64_t window_start_ticks_;
  uint64_t window_end_ticks_;
  uint64_t work_count_;
  uint64_t unsure_count_;   // Of kGpuLaterLaunch: before the first call after the window.
  uint32_t first_call_id_;  // The lowest ID of a call; 0: none yet.
  // The interval of the window, and the lowest ID of a host record after it; 0: none yet.
  uint32_t window_first_id_;
  uint32_t window_last_id_;
  uint32_t next_id_;
  bool has_nodes_;
  bool leaves_out_later_work_;
  bool is_last_flush_;
  bool is_kept_buffer_;
  bool records_decompression_;
  bool copies_tell_launcher_;  // MemcpyRecord.is_device_launched
  uint64_t event_count_;
  uint64_t devices_seen_;  // Bit n: device n is described.
  uint32_t batch_;
  uint32_t untimed_count_;
  uint32_t capturing_count_;
  uint32_t capturing_threads_[kCapturingThreads];
  bool is_known_[cupti::kKindLimit];
  uint64_t counts_[wire::kGpuCountCount];
  KernelName kernels_[kKernelSlots];
  ApiName apis_[2][kApiSlots];  // Runtime, driver; by cbid.
  HeldCall held_[kHeldSlots];   // By thread.
  PageCopy pages_[kPageSlots];  // By address.
  LaunchTracker launches_;
  cupti::ApiRecord early_[kEarlySlots];             // kCallIsHeld; by correlation.
  uint32_t early_work_[kEarlySlots];                // Work before the window, likewise. 0: none.
  uint32_t untimed_[kUntimedSlots];                 // Correlation IDs of work without times.
  cupti::SynchronizationRecord waits_[kWaitSlots];  // kWaitIsHeld; by correlation. Kind 0: none.
};

}  // namespace profd::client

#endif  // PROFD_CLIENT_LIB_CUPTI_RECORD_DECODER_H_
