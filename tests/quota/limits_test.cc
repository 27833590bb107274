#include "daemon/quota/limits.h"

#include <gtest/gtest.h>

namespace profd::quota {
namespace {

constexpr int64_t kMiB = 1 << 20;

TEST(LimitsTest, TheTableInTheHeaderHolds) {
  const Limits small = Limits::ForMemory(512 * kMiB);
  const Limits shipped = Limits::ForMemory(2048 * kMiB);
  const auto expect = [&](Resource resource, int64_t at_512_mib, int64_t at_2_gib) {
    EXPECT_EQ(small.of(resource).capacity, at_512_mib) << InfoOf(resource).name;
    EXPECT_EQ(shipped.of(resource).capacity, at_2_gib) << InfoOf(resource).name;
  };
  expect(Resource::kTargets, 1024, 1024);
  expect(Resource::kCaptureMemory, 192 * kMiB, 576 * kMiB);
  expect(Resource::kLiveCaptures, 21, 80);
  expect(Resource::kCaptureRequests, 1200, 1200);
  expect(Resource::kSchedules, 256, 256);
  expect(Resource::kImports, 8, 8);
  expect(Resource::kWaitingCalls, 256, 1024);
  expect(Resource::kRequestMemory, 32 * kMiB, 128 * kMiB);
  expect(Resource::kAnswerMemory, 256 * kMiB, 512 * kMiB);
  expect(Resource::kReportMilliseconds, 600'000, 600'000);
  expect(Resource::kAuditRows, 200'000, 200'000);
  expect(Resource::kConnections, 1024, 1024);
  expect(Resource::kRemoteConnections, 1024, 1024);
}

TEST(LimitsTest, AnyAmountOfMemoryLeavesSomethingForRootAndForOthers) {
  for (const int64_t memory : {int64_t{1}, 64 * kMiB, 300 * kMiB, int64_t{1} << 40}) {
    const Limits limits = Limits::ForMemory(memory);
    for (const ResourceInfo& info : AllResources()) {
      const Limit& limit = limits.of(info.resource);
      const bool has_reserve = info.resource != Resource::kStoredBytes &&
                               info.resource != Resource::kAuditRows &&
                               info.resource != Resource::kRemoteConnections;
      EXPECT_EQ(limit.reserve > 0, has_reserve) << info.name << " at " << memory;
      EXPECT_GT(limit.capacity, limit.reserve) << info.name << " at " << memory;
    }
  }
}

TEST(LimitsTest, EightDefaultCapturesFitBesideRootsReserve) {
  const Limit limit = Limits::ForMemory(2048 * kMiB).of(Resource::kCaptureMemory);
  EXPECT_EQ(limit.capacity - limit.reserve, 8 * 64 * kMiB);
  EXPECT_EQ(limit.reserve, 64 * kMiB);
}

TEST(LimitsTest, AQuarterOfWhatMayBeHeldForHoursIsKeptForNewcomers) {
  const Limits limits = Limits::ForMemory(2048 * kMiB);
  EXPECT_EQ(limits.of(Resource::kTargets).floor, (1024 - 128) / 4);
  EXPECT_EQ(limits.of(Resource::kCaptureMemory).floor, 128 * kMiB);
  EXPECT_EQ(limits.of(Resource::kRequestMemory).floor, 28 * kMiB);
  EXPECT_EQ(limits.of(Resource::kAnswerMemory).floor, 112 * kMiB);
  EXPECT_EQ(limits.of(Resource::kImports).floor, 0);
}

TEST(LimitsTest, AnAccountIsLimitedWhereAPrincipalIs) {
  const Limits limits = Limits::ForMemory(2048 * kMiB);
  for (const ResourceInfo& info : AllResources()) {
    const Limit& limit = limits.of(info.resource);
    EXPECT_EQ(limit.per_account > 0, limit.per_principal > 0) << info.name;
    EXPECT_GE(limit.per_account, limit.per_principal) << info.name;
  }
  EXPECT_EQ(limits.of(Resource::kWaitingCalls).per_account, (1024 - 128) / 2);
}

TEST(LimitsTest, AnExplicitSettingWins) {
  Limits limits = Limits::ForMemory(512 * kMiB);
  limits.SetCapacity(Resource::kTargets, 5000);
  EXPECT_EQ(limits.of(Resource::kTargets).capacity, 5000);
  EXPECT_EQ(limits.of(Resource::kTargets).reserve, 625);
}

TEST(LimitsTest, EveryResourceIsFoundByItsName) {
  for (const ResourceInfo& info : AllResources()) {
    EXPECT_EQ(ResourceFromName(info.name), info.resource);
    EXPECT_EQ(&InfoOf(info.resource), &AllResources()[static_cast<size_t>(info.resource)]);
  }
  EXPECT_FALSE(ResourceFromName("memory").has_value());
}

TEST(LimitsTest, AmountsAreShownInTheirUnits) {
  EXPECT_EQ(FormatAmount(Resource::kCaptureMemory, 448 * kMiB), "448 MiB");
  EXPECT_EQ(FormatAmount(Resource::kStoredBytes, 3 * kMiB / 2), "1.5 MiB");
  EXPECT_EQ(FormatAmount(Resource::kStoredBytes, 10), "10 B");
  EXPECT_EQ(FormatAmount(Resource::kReportMilliseconds, 12'500), "12.5 s");
  EXPECT_EQ(FormatAmount(Resource::kTargets, 37), "37");
}

}  // namespace
}  // namespace profd::quota
