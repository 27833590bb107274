#include "cli/captures/one_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "tests/fakes/status_matchers.h"

namespace profd::cli {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kSecondNs = 1'000'000'000;
constexpr int64_t kDayNs = 86'400 * kSecondNs;

// A trace of a second, as `import` reads it.
CaptureRecord Rank(int64_t rank, int64_t start_ns = 0) {
  CaptureRecord record;
  record.imported.source = "trace.json";
  record.target.metadata = {{"rank", std::to_string(rank)}, {"world_size", "2"}};
  record.start_unix_ns = 1'790'000'000 * kSecondNs + start_ns;
  record.windows = {{.start_ns = 0, .end_ns = kSecondNs}};
  return record;
}

absl::Status Check(const std::vector<CaptureRecord>& records) {
  std::vector<const CaptureRecord*> captures;
  for (const CaptureRecord& record : records) captures.push_back(&record);
  return CheckOneRun(captures);
}

void ExpectRefused(std::string_view why, const absl::Status& status) {
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition)) << why;
  EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  EXPECT_THAT(std::string(status.message()), HasSubstr("--group"));
}

TEST(OneRunTest, RanksThatWereRecordedTogetherAreOneRun) {
  EXPECT_THAT(Check({Rank(0), Rank(1)}), IsOk());
  // Clocks of hosts differ; a step begins later on one rank than on another.
  EXPECT_THAT(Check({Rank(0), Rank(1, 9 * kSecondNs)}), IsOk());
  EXPECT_THAT(Check({Rank(0)}), IsOk());
  EXPECT_THAT(Check({}), IsOk());
}

TEST(OneRunTest, RunsRecordedFarApartAreTwo) {
  ExpectRefused("rank 1 was recorded 2591999 s after rank 0",
                Check({Rank(0), Rank(1, 30 * kDayNs)}));
  ExpectRefused("rank 0 was recorded 99 s after rank 1",
                Check({Rank(0, 100 * kSecondNs), Rank(1)}));
}

TEST(OneRunTest, JobsWorldSizesAndRanksMustFit) {
  CaptureRecord other = Rank(1);
  other.target.metadata["world_size"] = "4";
  ExpectRefused("world size '2'", Check({Rank(0), other}));
  CaptureRecord job = Rank(0);
  job.target.metadata["job"] = "7";
  other = Rank(1);
  other.target.metadata["job"] = "8";
  ExpectRefused("job '7'", Check({job, other}));
  ExpectRefused("two captures are of rank 1", Check({Rank(1), Rank(1)}));
}

TEST(OneRunTest, WhatADaemonRecordedAsAGroupIsOneRun) {
  std::vector<CaptureRecord> records = {Rank(0), Rank(1, kDayNs)};
  for (CaptureRecord& record : records) {
    record.imported = {};
    record.group_id = "01J9ZM";
  }
  EXPECT_THAT(Check(records), IsOk());
  records[1].group_id = "01J9ZN";
  ExpectRefused("was recorded", Check(records));
}

}  // namespace
}  // namespace profd::cli
