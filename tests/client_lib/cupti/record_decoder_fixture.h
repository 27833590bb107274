// The fixture of RecordDecoder's tests: records whose times are easy to reckon with.
#ifndef PROFD_TESTS_CLIENT_LIB_CUPTI_RECORD_DECODER_FIXTURE_H_
#define PROFD_TESTS_CLIENT_LIB_CUPTI_RECORD_DECODER_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>

#include "client_lib/cupti/record_decoder.h"
#include "tests/client_lib/cupti/record_buffer.h"

namespace profd::client::decoder_test {

using testing::EventList;
using testing::RecordBuffer;
using testing::RecordSizes;
using testing::SizesOf13;

// CUPTI's time 1,000,000 + n is tick 5,000,000 + 2 n.
constexpr uint64_t kOriginNs = 1'000'000;
constexpr uint64_t kOriginTicks = 5'000'000;
constexpr uint64_t Ticks(uint64_t ns) { return kOriginTicks + 2 * (ns - kOriginNs); }

constexpr uint32_t kLaunchCbid = 211;
constexpr uint32_t kBeginCaptureCbid = 317;

// As CUPTI 13.0 names the few that these tests use.
inline cupti::Result CallbackName(uint32_t domain, uint32_t cbid, const char** name) {
  *name = nullptr;
  if (domain == cupti::kDomainRuntimeApi) {
    if (cbid == kLaunchCbid) *name = "cudaLaunchKernel_v7000";
    if (cbid == 214) *name = "cudaLaunchKernel_ptsz_v7000";
    if (cbid == kBeginCaptureCbid) *name = "cudaStreamBeginCapture_v10000";
    if (cbid == 17) *name = "cudaGetDevice_v3020";
    if (cbid == 410) *name = "cudaStreamGetCaptureInfo_v2_ptsz_v11030";
  } else {
    if (cbid == 307) *name = "cuLaunchKernel";
    if (cbid == 277) *name = "cuMemcpyHtoDAsync_v2";
    if (cbid == 304) *name = "cuCtxGetCurrent";
    if (cbid == 20) *name = "cuCtxCreate";
    if (cbid == 761) *name = "cuMemBatchDecompressAsync";
  }
  return *name != nullptr ? cupti::kSuccess : cupti::kErrorInvalidParameter;
}

inline cupti::KernelRecord Kernel(const char* name, uint32_t correlation, uint64_t start,
                                  uint64_t end) {
  cupti::KernelRecord record{};
  record.kind = cupti::kKindConcurrentKernel;
  record.name = name;
  record.correlation = correlation;
  record.start_ns = start;
  record.end_ns = end;
  return record;
}

inline cupti::ApiRecord Call(cupti::Kind kind, uint32_t cbid, uint32_t thread, uint32_t correlation,
                             uint64_t start = kOriginNs + 10, uint64_t end = kOriginNs + 20) {
  cupti::ApiRecord record{};
  record.kind = kind;
  record.cbid = cbid;
  record.thread = thread;
  record.correlation = correlation;
  record.start_ns = start;
  record.end_ns = end;
  return record;
}
inline cupti::ApiRecord Runtime(uint32_t cbid, uint32_t thread, uint32_t correlation) {
  return Call(cupti::kKindRuntime, cbid, thread, correlation);
}
inline cupti::ApiRecord Driver(uint32_t cbid, uint32_t thread, uint32_t correlation) {
  return Call(cupti::kKindDriver, cbid, thread, correlation);
}

class RecordDecoderTest : public ::testing::Test {
 protected:
  RecordDecoderTest() {
    clock_->Add({kOriginNs, kOriginNs, kOriginTicks, 0});
    clock_->Add({kOriginNs + 1'000'000, kOriginNs + 1'000'000, Ticks(kOriginNs + 1'000'000), 0});
    Begin(SizesOf13());
  }

  void Begin(const RecordSizes& sizes, uint64_t max_records = 0,
             ApiFilter filter = ApiFilter::kMost) {
    sizes_ = sizes;
    decoder_->Begin({.record_bytes = sizes_.data(),
                     .clock = clock_.get(),
                     .callback_name = CallbackName,
                     .api_filter = filter,
                     .max_records = max_records,
                     .begin_ticks = Ticks(kOriginNs)});
    decoder_->BeginBatch();
    decoder_->set_window(0, UINT64_MAX);
  }
  RecordBuffer Buffer() const { return RecordBuffer(sizes_); }
  void Decode(const RecordBuffer& buffer) {
    decoder_->Decode(buffer.data(), buffer.size(), &events_);
  }
  uint64_t Count(wire::GpuCount cause) { return decoder_->counts()[cause]; }

  // What was delivered is written, or counted under one cause.
  void ExpectEveryRecordAccountedFor() {
    uint64_t lost = 0;
    for (const auto cause :
         {wire::kGpuStale, wire::kGpuUntimed, wire::kGpuCorrupt, wire::kGpuUnknownKind,
          wire::kGpuOverCap, wire::kGpuNoChunk, wire::kGpuBeforeWindow, wire::kGpuFilteredApi,
          wire::kGpuStillRunning, wire::kGpuLaterLaunch}) {
      lost += Count(cause);
    }
    EXPECT_EQ(Count(wire::kGpuRecords), lost + events_.count());
  }

  RecordSizes sizes_{};
  std::unique_ptr<GpuClock> clock_ = std::make_unique<GpuClock>();
  std::unique_ptr<RecordDecoder> decoder_ = std::make_unique<RecordDecoder>();
  EventList events_;
};

}  // namespace profd::client::decoder_test

#endif  // PROFD_TESTS_CLIENT_LIB_CUPTI_RECORD_DECODER_FIXTURE_H_
