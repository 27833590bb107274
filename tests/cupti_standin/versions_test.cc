// What each release has and how large its records are.
#include <dlfcn.h>

#include "gmock/gmock.h"
#include "tests/cupti_standin/test_client.h"

namespace sgpu {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

struct Release {
  const char* name;
  const char* file;
  uint32_t version;
  uint32_t kernel, memcpy, peer, memset, sync, event, graph, memory, pool, overhead, device,
      context;
  bool has_dump, has_error_message, has_api_filter, has_subscribe_v2;
};

constexpr Release kReleases[] = {
    {"Cupti11_2", "11.2/libcupti.so.11.2", 14, 168, 80, 88, 80, 40, 24, 0, 112, 64, 40, 152, 16,
     false, false, false, false},
    {"Cupti11_8", "11.8/libcupti.so.11.8", 18, 200, 88, 96, 88, 40, 24, 48, 120, 72, 40, 176, 16,
     true, false, false, false},
    {"Cupti12_4", "12.4/libcupti.so.12", 22, 208, 88, 96, 88, 40, 24, 56, 120, 72, 56, 184, 24,
     true, true, false, false},
    {"Cupti12_9", "12.9/libcupti.so.12", 27, 208, 96, 96, 88, 56, 56, 56, 128, 72, 56, 184, 32,
     true, true, true, false},
    {"Cupti13_0", "13.0/libcupti.so.13", 130001, 216, 96, 96, 88, 56, 56, 56, 128, 80, 56, 184, 32,
     true, true, true, true},
    {"Future", "future/libcupti.so.13", 130300, 232, 96, 96, 88, 56, 56, 56, 128, 80, 56, 192, 40,
     true, true, true, true},
};

void PrintTo(const Release& release, std::ostream* out) { *out << release.name; }

class VersionsTest : public TestClient, public ::testing::WithParamInterface<Release> {
 protected:
  VersionsTest() : TestClient(GetParam().file) {}
};

INSTANTIATE_TEST_SUITE_P(All, VersionsTest, ::testing::ValuesIn(kReleases),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(VersionsTest, SaysWhichItIs) {
  uint32_t version = 0;
  EXPECT_EQ(cupti_.cuptiGetVersion(&version), CUPTI_SUCCESS);
  EXPECT_EQ(version, GetParam().version);
  EXPECT_EQ(cupti_.cuptiGetVersion(nullptr), CUPTI_ERROR_INVALID_PARAMETER);
}

TEST_P(VersionsTest, RecordsHaveItsSizes) {
  const Release& release = GetParam();
  EXPECT_EQ(RecordSize(kKernel), release.kernel);
  EXPECT_EQ(RecordSize(kSerialKernel), release.kernel);
  EXPECT_EQ(RecordSize(kMemcpy), release.memcpy);
  EXPECT_EQ(RecordSize(kPeerCopy), release.peer);
  EXPECT_EQ(RecordSize(kMemset), release.memset);
  EXPECT_EQ(RecordSize(kRuntime), 40U);
  EXPECT_EQ(RecordSize(kDriver), 40U);
  EXPECT_EQ(RecordSize(kSynchronization), release.sync);
  EXPECT_EQ(RecordSize(kCudaEvent), release.event);
  EXPECT_EQ(RecordSize(kGraphTrace), release.graph);
  EXPECT_EQ(RecordSize(kMemory), release.memory);
  EXPECT_EQ(RecordSize(kMemoryPool), release.pool);
  EXPECT_EQ(RecordSize(kOverhead), release.overhead);
  EXPECT_EQ(RecordSize(kDevice), release.device);
  EXPECT_EQ(RecordSize(kContext), release.context);
  EXPECT_EQ(RecordSize(kStream), 24U);
  EXPECT_EQ(RecordSize(kExternalCorrelation), 24U);
}

TEST_P(VersionsTest, HasItsFunctionsAndNoOthers) {
  const Release& release = GetParam();
  void* const library = dlopen(Standin::PathOf(release.file).c_str(), RTLD_NOW);
  ASSERT_NE(library, nullptr);
  const auto has = [&](const char* name) { return dlsym(library, name) != nullptr; };
  EXPECT_TRUE(has("cuptiSubscribe"));
  EXPECT_TRUE(has("sgpu_version"));
  EXPECT_FALSE(has("_ZN4sgpu6tracerEv"));
  EXPECT_EQ(has("cuptiActivityEnableAndDump"), release.has_dump);
  EXPECT_EQ(has("cuptiPCSamplingEnable"), release.has_dump);
  EXPECT_EQ(has("cuptiGetErrorMessage"), release.has_error_message);
  EXPECT_EQ(has("cuptiActivityEnableRuntimeApi"), release.has_api_filter);
  EXPECT_EQ(has("cuptiActivityEnableHWTrace"), release.has_api_filter);
  EXPECT_EQ(has("cuptiSubscribe_v2"), release.has_subscribe_v2);
  EXPECT_EQ(has("cuptiGetTimestamp_v2"), release.version >= 130300);
}

TEST_P(VersionsTest, RefusesKindsItDoesNotHave) {
  EXPECT_EQ(Enable(6), CUPTI_ERROR_INVALID_KIND) << "taken out long ago";
  EXPECT_EQ(Enable(0), CUPTI_ERROR_INVALID_KIND);
  EXPECT_EQ(Enable(1000), CUPTI_ERROR_INVALID_KIND);
  EXPECT_EQ(Enable(kGraphTrace), GetParam().graph == 0 ? CUPTI_ERROR_INVALID_KIND : CUPTI_SUCCESS);
}

TEST_P(VersionsTest, TheWalkRefusesKindsItDoesNotKnow) {
  std::vector<uint64_t> buffer(64, 999);
  CUpti_Activity* record = nullptr;
  EXPECT_EQ(
      cupti_.cuptiActivityGetNextRecord(reinterpret_cast<uint8_t*>(buffer.data()), 512, &record),
      GetParam().version < 19 ? CUPTI_ERROR_UNKNOWN : CUPTI_ERROR_INVALID_KIND);
  EXPECT_EQ(record, nullptr);
}

// The same session in every release: what all have in common can be read from each.
TEST_P(VersionsTest, ASessionIsRecordedInItsLayout) {
  Trace({kRuntime, kDriver, kKernel, kMemcpy, kMemset, kSynchronization, kOverhead, kMemory});
  ASSERT_EQ(Launch("gemm", 5000), 0);
  ASSERT_EQ(cupti_.sgpu_memcpy(stream_, SGPU_HTOD, 4096, 1, 1), 0);
  ASSERT_EQ(cupti_.sgpu_memset(stream_, 0, 4096, 1), 0);
  uint64_t address = 0;
  ASSERT_EQ(cupti_.sgpu_malloc(stream_, 4096, 0, &address), 0);
  ASSERT_EQ(cupti_.sgpu_stream_sync(stream_), 0);
  ASSERT_EQ(cupti_.sgpu_settle(), 0);
  FlushAll();
  ASSERT_THAT(Records(kKernel), SizeIs(1));
  const auto kernel = Records(kKernel)[0].As<KernelRecord>();
  EXPECT_STREQ(kernel.name, "gemm");
  EXPECT_EQ(kernel.end - kernel.start, 5000U);
  ASSERT_THAT(Records(kMemcpy), SizeIs(1));
  EXPECT_EQ(Records(kMemcpy)[0].As<CopyRecord>().bytes, 4096U);
  EXPECT_THAT(Records(kMemset), SizeIs(1));
  EXPECT_THAT(Records(kSynchronization), SizeIs(1));
  ASSERT_THAT(Records(kMemory), SizeIs(1));
  EXPECT_EQ(Records(kMemory)[0].As<MemoryRecord>().address, address);
  EXPECT_THAT(Records(kRuntime), SizeIs(5));
}

class FutureTest : public TestClient {
 protected:
  FutureTest() : TestClient("future/libcupti.so.13") {}
};

TEST_F(FutureTest, RecordsOfAnUnknownKindStandBetweenTheOthers) {
  Set("unknown_kind", 2);
  Trace({kKernel});
  for (int i = 0; i < 6; ++i) ASSERT_EQ(Launch(), 0);
  ASSERT_EQ(cupti_.sgpu_settle(), 0);
  FlushAll();
  EXPECT_THAT(Records(kKernel), SizeIs(6));
  EXPECT_THAT(Records(kUnknown), SizeIs(3));
  EXPECT_EQ(RecordSize(kUnknown), 64U);
}

class NamesTest : public TestClient {};

TEST_F(NamesTest, CallsAndResultsHaveCuptisNames) {
  const char* name = nullptr;
  EXPECT_EQ(cupti_.cuptiGetCallbackName(CUPTI_CB_DOMAIN_RUNTIME_API, 211, &name), CUPTI_SUCCESS);
  EXPECT_STREQ(name, "cudaLaunchKernel_v7000");
  EXPECT_EQ(cupti_.cuptiGetCallbackName(CUPTI_CB_DOMAIN_DRIVER_API, 307, &name), CUPTI_SUCCESS);
  EXPECT_STREQ(name, "cuLaunchKernel");
  EXPECT_EQ(cupti_.cuptiGetCallbackName(CUPTI_CB_DOMAIN_RUNTIME_API, 9999, &name),
            CUPTI_ERROR_INVALID_PARAMETER);
  EXPECT_EQ(cupti_.cuptiGetResultString(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED, &name),
            CUPTI_SUCCESS);
  EXPECT_STREQ(name, "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED");
}

TEST_F(NamesTest, HardwareTracingIsNotSupportedAsOnMostGpus) {
  EXPECT_EQ(cupti_.cuptiActivityEnableHWTrace(1), CUPTI_ERROR_NOT_SUPPORTED);
}

}  // namespace
}  // namespace sgpu
