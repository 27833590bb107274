// TestClient is a CUPTI client for the tests of the stand-in: it loads one of its files, takes the
// functions from it by name as a profiler does, gives buffers and keeps what comes back.
#ifndef PROFD_TESTS_CUPTI_STANDIN_TEST_CLIENT_H_
#define PROFD_TESTS_CUPTI_STANDIN_TEST_CLIENT_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/cupti_standin/cupti_api.h"
#include "tests/cupti_standin/records.h"
#include "tests/cupti_standin/sgpu.h"

namespace sgpu {

// X(function, type)
#define SGPU_TEST_CUPTI_FUNCTIONS(X)                                                              \
  X(cuptiGetVersion, CUptiResult(uint32_t*))                                                      \
  X(cuptiGetTimestamp, CUptiResult(uint64_t*))                                                    \
  X(cuptiGetResultString, CUptiResult(CUptiResult, const char**))                                 \
  X(cuptiGetLastError, CUptiResult())                                                             \
  X(cuptiGetCallbackName, CUptiResult(CUpti_CallbackDomain, uint32_t, const char**))              \
  X(cuptiSubscribe, CUptiResult(CUpti_SubscriberHandle*, CUpti_CallbackFunc, void*))              \
  X(cuptiSubscribe_v2,                                                                            \
    CUptiResult(CUpti_SubscriberHandle*, CUpti_CallbackFunc, void*, CUpti_SubscriberParams*))     \
  X(cuptiUnsubscribe, CUptiResult(CUpti_SubscriberHandle))                                        \
  X(cuptiEnableCallback,                                                                          \
    CUptiResult(uint32_t, CUpti_SubscriberHandle, CUpti_CallbackDomain, CUpti_CallbackId))        \
  X(cuptiEnableDomain, CUptiResult(uint32_t, CUpti_SubscriberHandle, CUpti_CallbackDomain))       \
  X(cuptiActivityEnable, CUptiResult(CUpti_ActivityKind))                                         \
  X(cuptiActivityEnableAndDump, CUptiResult(CUpti_ActivityKind))                                  \
  X(cuptiActivityDisable, CUptiResult(CUpti_ActivityKind))                                        \
  X(cuptiActivityEnableRuntimeApi, CUptiResult(CUpti_CallbackId, uint8_t))                        \
  X(cuptiActivityEnableDriverApi, CUptiResult(CUpti_CallbackId, uint8_t))                         \
  X(cuptiActivityEnableLatencyTimestamps, CUptiResult(uint8_t))                                   \
  X(cuptiActivityEnableHWTrace, CUptiResult(uint8_t))                                             \
  X(cuptiActivityEnableAllSyncRecords, CUptiResult(uint8_t))                                      \
  X(cuptiActivityGetStructSize, CUptiResult(CUpti_ActivityKind, uint32_t, size_t*))               \
  X(cuptiActivityRegisterCallbacks,                                                               \
    CUptiResult(CUpti_BuffersCallbackRequestFunc, CUpti_BuffersCallbackCompleteFunc))             \
  X(cuptiActivityRegisterTimestampCallback, CUptiResult(CUpti_TimestampCallbackFunc))             \
  X(cuptiActivityGetNextRecord, CUptiResult(uint8_t*, size_t, CUpti_Activity**))                  \
  X(cuptiActivityGetNumDroppedRecords, CUptiResult(CUcontext, uint32_t, size_t*))                 \
  X(cuptiActivityFlushAll, CUptiResult(uint32_t))                                                 \
  X(cuptiActivityFlushPeriod, CUptiResult(uint32_t))                                              \
  X(cuptiActivityGetAttribute, CUptiResult(CUpti_ActivityAttribute, size_t*, void*))              \
  X(cuptiActivitySetAttribute, CUptiResult(CUpti_ActivityAttribute, size_t*, void*))              \
  X(cuptiActivityPushExternalCorrelationId, CUptiResult(CUpti_ExternalCorrelationKind, uint64_t)) \
  X(cuptiActivityPopExternalCorrelationId, CUptiResult(CUpti_ExternalCorrelationKind, uint64_t*)) \
  X(cuptiSetThreadIdType, CUptiResult(CUpti_ActivityThreadIdType))                                \
  X(cuptiGetDeviceId, CUptiResult(CUcontext, uint32_t*))                                          \
  X(cuptiGetStreamIdEx, CUptiResult(CUcontext, CUstream, uint8_t, uint32_t*))                     \
  X(cuptiFinalize, CUptiResult())

// clang-format finds no end to this.
// clang-format off
#define SGPU_TEST_SGPU_FUNCTIONS(X) \
  X(sgpu_version) X(sgpu_init) X(sgpu_shutdown) X(sgpu_ctx_create) X(sgpu_default_stream) \
  X(sgpu_stream_create) X(sgpu_stream_id) X(sgpu_launch) X(sgpu_kernel_attributes) \
  X(sgpu_memcpy) X(sgpu_memset) X(sgpu_host_function) X(sgpu_mem_decompress) X(sgpu_memcpy_peer) X(sgpu_malloc) X(sgpu_free) \
  X(sgpu_pool_trim) X(sgpu_event_record) X(sgpu_stream_wait_event) X(sgpu_event_sync) \
  X(sgpu_event_query) X(sgpu_stream_sync) X(sgpu_device_sync) X(sgpu_graph_begin) X(sgpu_graph_end) \
  X(sgpu_graph_instantiate) X(sgpu_graph_launch) X(sgpu_api_call) X(sgpu_module_load) \
  X(sgpu_function) X(sgpu_module_unload) X(sgpu_now_ns) X(sgpu_advance) X(sgpu_clock_step) \
  X(sgpu_fail) X(sgpu_set) X(sgpu_rival_subscribe) X(sgpu_rival_unsubscribe) \
  X(sgpu_rival_join) X(sgpu_rival_leave) \
  X(sgpu_rival_steal_callbacks) X(sgpu_return_lost_buffers) X(sgpu_settle) X(sgpu_truth) \
  X(sgpu_truth_clear) X(sgpu_stats)
// clang-format on

// The functions of one file of the stand-in; nullptr for those it does not have.
struct Standin {
#define SGPU_TEST_MEMBER(name, type) std::add_pointer_t<type> name = nullptr;
  SGPU_TEST_CUPTI_FUNCTIONS(SGPU_TEST_MEMBER)
#undef SGPU_TEST_MEMBER
#define SGPU_TEST_MEMBER(name) decltype(&::name) name = nullptr;
  SGPU_TEST_SGPU_FUNCTIONS(SGPU_TEST_MEMBER)
#undef SGPU_TEST_MEMBER

  // `file` as README.md has it: "13.0/libcupti.so.13".
  static const Standin& Load(const std::string& file);
  static std::string PathOf(const std::string& file);
};

constexpr char kCupti13[] = "13.0/libcupti.so.13";

// A record, and whence it came.
struct Seen {
  uint32_t kind;
  std::vector<uint8_t> bytes;
  size_t buffer;  // Buffers are numbered as they were completed.
  size_t offset;

  // The record as `Record` has it, zeros where this version's is shorter.
  template <typename Record>
  Record As() const {
    Record record{};
    std::memcpy(&record, bytes.data(), std::min(bytes.size(), sizeof(record)));
    return record;
  }
};

struct CompletedBuffer {
  std::vector<uint8_t> bytes;  // The valid ones, or all if that is more than there are.
  size_t size = 0;
  size_t valid_size = 0;
  uint32_t thread_id = 0;
};

// The calling thread's number, as the kernel counts.
uint32_t ThreadId();

// One client at a time: CUPTI's buffer callbacks know no user data.
class TestClient : public ::testing::Test {
 protected:
  explicit TestClient(const std::string& file = kCupti13, sgpu_time_mode mode = SGPU_TIME_VIRTUAL);
  ~TestClient() override;

  // Registers the buffer callbacks and enables `kinds`.
  void Trace(const std::vector<uint32_t>& kinds);
  void Disable(const std::vector<uint32_t>& kinds);
  CUptiResult Enable(uint32_t kind) {
    return cupti_.cuptiActivityEnable(static_cast<CUpti_ActivityKind>(kind));
  }
  void Set(const std::string& key, int64_t value);
  void SetAttribute(uint32_t attribute, uint64_t value, size_t bytes);
  int Launch(const char* kernel = "kernel", uint64_t device_ns = 1000, uint32_t cbid = 0) {
    return cupti_.sgpu_launch(stream_, kernel, {8, 4, 2}, {128, 2, 1}, device_ns, 100, cbid);
  }
  // A forced flush, and all records delivered so far.
  std::vector<Seen> FlushAll();
  std::vector<Seen> Records();
  std::vector<Seen> Records(uint32_t kind);
  std::vector<sgpu_truth_rec> Truth();
  std::vector<sgpu_truth_rec> Truth(uint32_t kind);
  sgpu_stats_rec Stats();
  std::vector<CompletedBuffer> Completed();
  size_t OutstandingBuffers();
  size_t RecordSize(uint32_t kind);
  // Waits until `done()`, polling: for what another thread of the stand-in does.
  static void WaitUntil(const std::function<bool()>& done);

  const Standin& cupti_;
  uint32_t stream_ = 0;  // The default stream of context 1.

  // What the next buffers are like.
  size_t buffer_bytes_ = 64 << 10;
  size_t buffer_offset_ = 0;  // From an aligned address.
  size_t max_records_ = 0;
  bool give_null_ = false;
  uint8_t fill_ = 0;
  // Called in the callbacks, when set.
  std::function<void()> on_request_;
  std::function<void()> on_complete_;
  std::vector<uint32_t> request_threads_;  // gettid() of each request.

 private:
  static void Requested(uint8_t** buffer, size_t* size, size_t* max_records);
  static void Done(CUcontext context, uint32_t stream, uint8_t* buffer, size_t size,
                   size_t valid_size);

  std::mutex mu_;
  std::map<uint8_t*, std::vector<uint8_t>> given_;  // Guarded by mu_, as all below.
  std::vector<std::vector<uint8_t>> retired_;       // Not freed before the test ends.
  std::vector<CompletedBuffer> completed_;
};

}  // namespace sgpu

#endif  // PROFD_TESTS_CUPTI_STANDIN_TEST_CLIENT_H_
