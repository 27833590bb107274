#include "client_lib/cupti/cupti_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>

#include "client_lib/cupti/record_decoder.h"
#include "tests/client_lib/cupti/record_buffer.h"

#ifdef PROFD_REAL_CUPTI_FILE
// LeakSanitizer looks for pointers in the memory of every loaded library, and now and then stumbles
// over the real CUPTI's.
static constinit bool g_has_real_cupti = false;
extern "C" int __lsan_is_turned_off() { return g_has_real_cupti; }  // NOLINT: its name for it.
#endif

namespace profd::client {
namespace {

using ::testing::HasSubstr;

constexpr CudaDriver kDriver13 = {.version = 13000};

// The stand-in of `version`, without a process that uses it; "" if it is not built.
std::string StandinFile(const std::string& version) {
  const std::string folder = std::string(PROFD_TEST_BUILD_DIR) + "/lib/cupti_standin/" + version;
  if (!std::filesystem::exists(folder)) return "";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with("libcupti.so")) return entry.path();
  }
  return "";
}

struct Found {
  bool is_found;
  CuptiLibrary library;
  ArmFailure failure;
};

Found FindAt(const std::string& path, const CudaDriver& driver = kDriver13) {
  setenv("PROFD_CUPTI_LIB", path.c_str(), 1);
  Found found{};
  found.is_found = FindCupti(driver, &found.library, &found.failure);
  unsetenv("PROFD_CUPTI_LIB");
  return found;
}

TEST(CuptiLibraryTest, AProcessWithoutCudaIsOne) {
  CudaDriver driver;
  EXPECT_FALSE(FindCudaDriver(&driver));
}

TEST(CuptiLibraryTest, AFileThatIsNotThereIsNamed) {
  const Found found = FindAt("/nowhere/libcupti.so.13");
  EXPECT_FALSE(found.is_found);
  EXPECT_THAT(found.failure.text, HasSubstr("/nowhere/libcupti.so.13"));
}

TEST(CuptiLibraryTest, ALibraryThatIsNoCuptiIsRefusedWithWhatItLacks) {
  const Found found = FindAt("libpthread.so.0");
  EXPECT_FALSE(found.is_found);
  EXPECT_THAT(found.failure.text, HasSubstr("has no cupti"));
}

class StandinLibraryTest : public ::testing::TestWithParam<const char*> {};

TEST_P(StandinLibraryTest, SaysHowLargeItsRecordsAreAndThatItIsSimulated) {
  const Found found = FindAt(StandinFile(GetParam()));
  ASSERT_TRUE(found.is_found) << found.failure.text;
  EXPECT_TRUE(found.library.simulated);
  for (const cupti::Kind kind :
       {cupti::kKindConcurrentKernel, cupti::kKindMemcpy, cupti::kKindMemset, cupti::kKindRuntime,
        cupti::kKindDriver, cupti::kKindSynchronization, cupti::kKindOverhead, cupti::kKindDevice,
        cupti::kKindContext, cupti::kKindStream}) {
    EXPECT_TRUE(CanDecode(kind, found.library.record_bytes[kind])) << kind;
  }
}

INSTANTIATE_TEST_SUITE_P(Versions, StandinLibraryTest,
                         ::testing::Values("11.2", "11.8", "12.4", "12.9", "13.0", "future"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

TEST(StandinFunctionsTest, WhatAVersionDoesNotHaveIsNull) {
  const Found old = FindAt(StandinFile("11.2"));
  ASSERT_TRUE(old.is_found) << old.failure.text;
  EXPECT_EQ(old.library.ActivityEnableAndDump, nullptr);
  EXPECT_EQ(old.library.Subscribe_v2, nullptr);
  const Found recent = FindAt(StandinFile("13.0"));
  ASSERT_TRUE(recent.is_found) << recent.failure.text;
  EXPECT_NE(recent.library.ActivityEnableAndDump, nullptr);
  EXPECT_NE(recent.library.Subscribe_v2, nullptr);
}

// ---- Versions

TEST(CuptiVersionTest, SizesAreThoseThatTheLibraryStates) {
  const Found found = FindAt(StandinFile("future"));
  ASSERT_TRUE(found.is_found) << found.failure.text;
  ASSERT_NE(found.library.ActivityGetStructSize, nullptr);
  CuptiLibrary walked = found.library;
  walked.ActivityGetStructSize = nullptr;
  EXPECT_EQ(ProbeRecordSizes(&walked), cupti::kSuccess);
  for (cupti::Kind kind = 0; kind < cupti::kKindLimit; ++kind) {
    EXPECT_EQ(found.library.record_bytes[kind], walked.record_bytes[kind]) << kind;
  }
}

TEST(CuptiVersionTest, ALibraryOfALaterMajorThanTheDriversIsRefusedWithThePackageThatFits) {
  const Found found = FindAt(StandinFile("13.0"), {.version = 12080});
  EXPECT_FALSE(found.is_found);
  EXPECT_EQ(found.failure.reason, wire::ArmFailedReason::kNoDriver);
  EXPECT_THAT(found.failure.text, HasSubstr("libcupti is of CUDA 13, and the driver of CUDA 12"));
  EXPECT_THAT(found.failure.text, HasSubstr("nvidia-cuda-cupti-cu12"));
}

TEST(CuptiVersionTest, ItIsRefusedUnderAnyFileName) {
  const std::filesystem::path link =
      std::filesystem::path(::testing::TempDir()) / "cupti_of_another_name.so";
  std::filesystem::remove(link);
  std::filesystem::create_symlink(StandinFile("13.0"), link);
  const Found found = FindAt(link, {.version = 12080});
  EXPECT_FALSE(found.is_found);
  EXPECT_THAT(found.failure.text, HasSubstr("nvidia-cuda-cupti-cu12"));
}

TEST(CuptiVersionTest, AnEarlierMajorThanTheDriversIsUsed) {
  EXPECT_TRUE(FindAt(StandinFile("12.4")).is_found);
  EXPECT_TRUE(FindAt(StandinFile("11.8")).is_found);
}

// Without a driver that it can work with, 13.2 crashes in its first function, whichever that is.
TEST(CuptiVersionTest, ThirteenTwoIsNotCalledUnlessTheDriverIsAsNew) {
  setenv("SGPU_NO_DRIVER", "1", 1);  // The stand-in aborts then.
  for (const CudaDriver& driver : {kDriver13, CudaDriver{.version = 13020}}) {
    const Found found = FindAt(StandinFile("13.2"), driver);
    EXPECT_FALSE(found.is_found);
    EXPECT_EQ(found.failure.reason, wire::ArmFailedReason::kNoDriver);
    EXPECT_THAT(found.failure.text, HasSubstr("nvidia-cuda-cupti 13.3 or later"));
  }
  unsetenv("SGPU_NO_DRIVER");
}

TEST(CuptiVersionTest, ResultsHaveNamesWithoutAskingTheLibrary) {
  EXPECT_STREQ(ResultName(cupti::kErrorMultipleSubscribers),
               "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED");
  EXPECT_STREQ(ResultName(12345), "an unknown result");
}

#ifdef PROFD_REAL_CUPTI_FILE

TEST(RealCuptiTest, ItsRecordsHaveTheSizesOfOurStructs) {
  g_has_real_cupti = true;
  const Found found = FindAt(PROFD_REAL_CUPTI_FILE);
  ASSERT_TRUE(found.is_found) << found.failure.text;
  EXPECT_FALSE(found.library.simulated);
  EXPECT_GE(found.library.version, 130000u);
  const testing::RecordSizes expected = testing::SizesOf13();
  for (cupti::Kind kind = 0; kind < cupti::kKindLimit; ++kind) {
    if (expected[kind] != 0) {
      EXPECT_EQ(found.library.record_bytes[kind], expected[kind]) << kind;
    }
  }
}

TEST(RealCuptiTest, ItWalksABufferAsWeDo) {
  g_has_real_cupti = true;
  const Found found = FindAt(PROFD_REAL_CUPTI_FILE);
  ASSERT_TRUE(found.is_found) << found.failure.text;
  testing::RecordSizes sizes{};
  memcpy(sizes.data(), found.library.record_bytes, sizeof(found.library.record_bytes));
  testing::RecordBuffer buffer(sizes);
  for (int i = 0; i < 50; ++i) {
    buffer.Add(cupti::ApiRecord{.kind = cupti::kKindRuntime})
        .Add(cupti::KernelRecord{.kind = cupti::kKindConcurrentKernel})
        .Add(cupti::MemcpyRecord{.kind = cupti::kKindMemcpy});
  }
  alignas(8) std::byte copy[50 * 1024];
  ASSERT_LE(buffer.size(), sizeof(copy));
  memcpy(copy, buffer.data(), buffer.size());
  uint64_t records = 0;
  cupti::Activity* record = nullptr;
  while (found.library.ActivityGetNextRecord(reinterpret_cast<uint8_t*>(copy), buffer.size(),
                                             &record) == cupti::kSuccess) {
    ++records;
  }
  EXPECT_EQ(CountRecords(sizes.data(), buffer.data(), buffer.size()), records);
}

TEST(RealCuptiTest, WithoutADriverItRefusesToBeSubscribedTo) {
  const Found found = FindAt(PROFD_REAL_CUPTI_FILE);
  ASSERT_TRUE(found.is_found) << found.failure.text;
  CudaDriver driver;
  if (FindCudaDriver(&driver)) GTEST_SKIP() << "this machine has a driver";
  cupti::Subscriber subscriber = nullptr;
  const cupti::Result result = found.library.Subscribe(
      &subscriber, [](void*, uint32_t, uint32_t, const void*) {}, nullptr);
  EXPECT_THAT(result, ::testing::AnyOf(cupti::kErrorNotInitialized, cupti::kErrorUnknown));
}

#else

TEST(RealCuptiTest, ItsRecordsHaveTheSizesOfOurStructs) {
  GTEST_SKIP() << "no libcupti of CUDA 13 on this machine: nothing to compare with";
}

#endif

}  // namespace
}  // namespace profd::client
