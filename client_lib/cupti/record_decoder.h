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

#include "client_lib/cupti/cupti_abi.h"
#include "client_lib/cupti/gpu_clock.h"
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

// Which API calls are kept.
enum class ApiFilter : uint8_t {
  kNone,  // None.
  kMost,  // The runtime's, and those of the driver that put work on the GPU or wait for it.
  kAll,   // All but those that only ask (cudaGetDevice and the like).
};

// How many records are in the `bytes` at `buffer`, by the sizes `record_bytes`. What cannot be
// read counts as one.
uint64_t CountRecords(const uint16_t* record_bytes, const std::byte* buffer, uint64_t bytes);

// Whether records of `kind` can be read if they are of `bytes`.
bool CanDecode(cupti::Kind kind, uint16_t bytes);

// Whether calls of `name`, CUPTI's name of an API function, are kept.
bool KeepsApi(ApiFilter filter, bool is_driver, const char* name);

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

  // What ends before `ticks` is kGpuBeforeWindow, and no loss. UINT64_MAX: no window yet.
  void set_window_start(uint64_t ticks) { window_start_ticks_ = ticks; }

  // Decodes the `bytes` of records at `buffer`, which is 8-aligned.
  void Decode(const std::byte* buffer, uint64_t bytes, EventSink* sink);

  // Writes the driver calls that are held back.
  void Flush(EventSink* sink);

  uint64_t* counts() { return counts_; }
  uint64_t event_count() const { return event_count_; }
  bool over_cap() const { return setup_.max_records != 0 && event_count_ >= setup_.max_records; }
  bool has_device() const { return devices_seen_ != 0; }
  // Whether kernels are to come of launches that were seen. A guess: it knows launches one by
  // one, not of graphs.
  bool has_work_in_flight() const { return launch_count_ > kernel_count_; }

  // Writes the event of a device that CUPTI did not describe. False: it was already.
  bool WriteDevice(const wire::DeviceEvent& device, EventSink* sink);

 private:
  static constexpr uint32_t kKernelSlots = 8192;
  static constexpr uint32_t kApiSlots = 2048;
  static constexpr uint32_t kHeldSlots = 256;
  static constexpr uint32_t kPageSlots = 64;

  struct KernelName {
    const char* text;
    uint32_t batch;
    uint32_t name_id;
  };
  struct ApiName {
    uint32_t name_id;  // 0: not met yet.
    bool is_kept;
    bool is_launch;
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
  bool IsInTime(uint64_t end_ticks);
  void DecodeOne(const std::byte* record, uint32_t bytes, EventSink* sink);
  void DecodeKernel(const cupti::KernelRecord& record, uint32_t bytes, EventSink* sink);
  void DecodeMemcpy(const cupti::MemcpyRecord& record, uint32_t bytes, EventSink* sink);
  void DecodeMemcpyPeer(const cupti::MemcpyPeerRecord& record, uint32_t bytes, EventSink* sink);
  void DecodeMemset(const cupti::MemsetRecord& record, uint32_t bytes, EventSink* sink);
  void DecodeApi(const cupti::ApiRecord& record, EventSink* sink);
  void HoldDriverCall(const cupti::ApiRecord& record, EventSink* sink);
  void WriteApi(const cupti::ApiRecord& record, EventSink* sink);
  void DecodeSync(const cupti::SynchronizationRecord& record, EventSink* sink);
  void DecodeCudaEvent(const cupti::CudaEventRecord& record, uint32_t bytes, EventSink* sink);
  void DecodeGraph(const cupti::GraphTraceRecord& record, EventSink* sink);
  void DecodeOverhead(const cupti::OverheadRecord& record, uint32_t bytes, EventSink* sink);
  void DecodeMemory(const cupti::MemoryRecord& record, EventSink* sink);
  void DecodePool(const cupti::MemoryPoolRecord& record, uint32_t bytes, EventSink* sink);
  void DecodeDevice(const cupti::DeviceRecord& record, EventSink* sink);
  void DecodeContext(const cupti::ContextRecord& record, EventSink* sink);
  void DecodeStream(const cupti::StreamRecord& record, EventSink* sink);

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
  uint32_t KernelNameId(const char* text, EventSink* sink);
  uint32_t ReadKernelName(KernelName* entry, const char* text, EventSink* sink);
  const ApiName& ApiNameOf(const cupti::ApiRecord& record, EventSink* sink);
  void ReadApiName(const cupti::ApiRecord& record, ApiName* name, EventSink* sink);

  Setup setup_;
  uint64_t window_start_ticks_;
  uint64_t event_count_;
  uint64_t devices_seen_;  // Bit n: device n is described.
  uint64_t launch_count_;
  uint64_t kernel_count_;
  uint32_t batch_;
  bool is_known_[cupti::kKindLimit];
  uint64_t counts_[wire::kGpuCountCount];
  KernelName kernels_[kKernelSlots];
  ApiName apis_[2][kApiSlots];  // Runtime, driver; by cbid.
  HeldCall held_[kHeldSlots];   // By thread.
  PageCopy pages_[kPageSlots];  // By address.
};

}  // namespace profd::client

#endif  // PROFD_CLIENT_LIB_CUPTI_RECORD_DECODER_H_
