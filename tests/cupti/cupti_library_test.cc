#include "client_lib/cupti/cupti_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>

#include "client_lib/cupti/record_decoder.h"
#include "tests/cupti/record_buffer.h"

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
  char why[256];
};

Found FindAt(const std::string& path) {
  setenv("PROFD_CUPTI_LIB", path.c_str(), 1);
  Found found{};
  found.is_found = FindCupti(kDriver13, &found.library, found.why, sizeof(found.why));
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
  EXPECT_THAT(found.why, HasSubstr("/nowhere/libcupti.so.13"));
}

TEST(CuptiLibraryTest, ALibraryThatIsNoCuptiIsRefusedWithWhatItLacks) {
  const Found found = FindAt("libpthread.so.0");
  EXPECT_FALSE(found.is_found);
  EXPECT_THAT(found.why, HasSubstr("has no cupti"));
}

class StandinLibraryTest : public ::testing::TestWithParam<const char*> {};

TEST_P(StandinLibraryTest, SaysHowLargeItsRecordsAreAndThatItIsSimulated) {
  const Found found = FindAt(StandinFile(GetParam()));
  ASSERT_TRUE(found.is_found) << found.why;
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
  ASSERT_TRUE(old.is_found) << old.why;
  EXPECT_EQ(old.library.ActivityEnableAndDump, nullptr);
  EXPECT_EQ(old.library.Subscribe_v2, nullptr);
  const Found recent = FindAt(StandinFile("13.0"));
  ASSERT_TRUE(recent.is_found) << recent.why;
  EXPECT_NE(recent.library.ActivityEnableAndDump, nullptr);
  EXPECT_NE(recent.library.Subscribe_v2, nullptr);
}

#ifdef PROFD_REAL_CUPTI_FILE

TEST(RealCuptiTest, ItsRecordsHaveTheSizesOfOurStructs) {
  g_has_real_cupti = true;
  const Found found = FindAt(PROFD_REAL_CUPTI_FILE);
  ASSERT_TRUE(found.is_found) << found.why;
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
  ASSERT_TRUE(found.is_found) << found.why;
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
  ASSERT_TRUE(found.is_found) << found.why;
  CudaDriver driver;
  if (FindCudaDriver(&driver)) GTEST_SKIP() << "this machine has a driver";
  cupti::Subscriber subscriber = nullptr;
  const cupti::Result result = found.library.Subscribe(
      &subscriber, [](void*, uint32_t, uint32_t, const void*) {}, nullptr);
  EXPECT_THAT(result, ::testing::AnyOf(cupti::kErrorNotInitialized, cupti::kErrorUnknown));
  EXPECT_NE(std::string(ResultName(found.library, result)), "");
}

#else

TEST(RealCuptiTest, ItsRecordsHaveTheSizesOfOurStructs) {
  GTEST_SKIP() << "no libcupti of CUDA 13 on this machine: nothing to compare with";
}

#endif

}  // namespace
}  // namespace profd::client
