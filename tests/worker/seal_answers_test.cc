// The answers of profd-report to a seal: what is written is read, and what a program that was taken
// over might write is refused.
#include "daemon/worker/seal_answers.h"

#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "daemon/base/budget.h"
#include "daemon/base/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/status_matchers.h"

namespace profd::worker {
namespace {

using absl::StatusCode;
using testing::HasSubstr;
using testing::SizeIs;

EventChecks SomeChecks() {
  return {.gpu_row_count = 100,
          .orphan_count = 20,
          .earlier_work_count = 10,
          .unknown_gpu_ns = 5,
          .launch_count = 90,
          .silent_launch_count = 4,
          .failed_launch_count = 8,
          .failed_result = 700,
          .graph_launch_count = 3,
          .silent_graph_count = 2,
          .captures_graphs = true,
          .inversion_count = 7,
          .worst_inversion_ns = 1'000,
          .overlong_count = 6,
          .overlong_name = "gemm",
          .overlong_ns = 900,
          .overlong_possible_ns = 800,
          .detached_count = 1,
          .detached_ns = 70,
          .range_count = 60,
          .cut_range_count = 50,
          .spanning_range_count = 40,
          .unended_range_count = 30,
          .left_open_count = 20,
          .unended_range_name = std::string("a\0\xff", 3)};
}

store::EventSummaries SomeSummaries() {
  store::EventSummaries summaries;
  summaries.ops = std::vector<store::OpSummaryRow>{{"small", 1, 2, 3, 4, 5, 6},
                                                   {"large", 10, 20, 30, 40, 50, 60}};
  summaries.devices = std::vector<store::DeviceSummaryRow>{{0, 1, 2, 3, 4}, {7, 10, 9, 8, 7}};
  summaries.ranks = std::string("r\0nks", 5);
  return summaries;
}

int64_t NumberAt(std::string_view answer, size_t position) {
  int64_t number = 0;
  std::memcpy(&number, answer.data() + position, sizeof(number));
  return number;
}
std::string WithNumberAt(std::string answer, size_t position, int64_t number) {
  std::memcpy(answer.data() + position, &number, sizeof(number));
  return answer;
}

TEST(SealAnswersTest, ChecksArriveAsTheyWere) {
  const EventChecks sent = SomeChecks();
  const auto got = DecodeEventChecks(EncodeEventChecks(sent));
  ASSERT_THAT(got, IsOk());
  EXPECT_EQ(got->gpu_row_count, sent.gpu_row_count);
  EXPECT_EQ(got->silent_graph_count, sent.silent_graph_count);
  EXPECT_EQ(got->left_open_count, sent.left_open_count);
  EXPECT_TRUE(got->captures_graphs);
  EXPECT_EQ(got->overlong_name, sent.overlong_name);
  EXPECT_EQ(got->unended_range_name, sent.unended_range_name);
  EXPECT_EQ(EncodeEventChecks(*got), EncodeEventChecks(sent)) << "every field";
}

TEST(SealAnswersTest, SummariesArriveAsTheCatalogKeepsThem) {
  const auto got = DecodeEventSummaries(EncodeEventSummaries(SomeSummaries()));
  ASSERT_THAT(got, IsOk());
  ASSERT_THAT(got->ops, IsOk());
  ASSERT_THAT(*got->ops, SizeIs(2));
  EXPECT_EQ((*got->ops)[0].name, "large");
  EXPECT_EQ((*got->ops)[0].self_device_ns, 60);
  EXPECT_EQ((*got->ops)[1].calls, 1);
  ASSERT_THAT(got->devices, IsOk());
  ASSERT_THAT(*got->devices, SizeIs(2));
  EXPECT_EQ((*got->devices)[1].exposed_communication_ns, 7);
  EXPECT_THAT(got->ranks, IsOkAndHolds(std::string("r\0nks", 5)));
}

TEST(SealAnswersTest, APartThatFailedFailsAlone) {
  store::EventSummaries sent = SomeSummaries();
  sent.ops = OverBudget("the operators", 17, 16, "rows");
  sent.ranks = WithReason(absl::UnavailableError("ended"), "REPORT_KILLED");
  const auto got = DecodeEventSummaries(EncodeEventSummaries(sent));
  ASSERT_THAT(got, IsOk());
  EXPECT_TRUE(IsOverBudget(got->ops.status())) << got->ops.status();
  EXPECT_THAT(got->ops.status().message(), HasSubstr("needs 17 rows, the budget is 16 rows"));
  EXPECT_THAT(got->devices, IsOk());
  EXPECT_THAT(got->ranks, StatusIs(StatusCode::kUnavailable));
  EXPECT_EQ(ReasonOf(got->ranks.status()), "") << "this reason is not the program's to give";
}

TEST(SealAnswersTest, RequestsSayWhatIsWanted) {
  for (const bool devices : {false, true}) {
    for (const bool ranks : {false, true}) {
      const store::SummaryRequest sent = {.devices = devices, .ranks = ranks};
      EXPECT_THAT(DecodeSummaryRequest(EncodeSummaryRequest(sent)), IsOkAndHolds(sent));
    }
  }
  EXPECT_THAT(DecodeSummaryRequest(""), StatusIs(StatusCode::kInternal));
  EXPECT_THAT(DecodeSummaryRequest(std::string(17, '\0')), StatusIs(StatusCode::kInternal));
}

TEST(SealAnswersTest, WhatIsCutOffOrTooLongIsRefused) {
  const std::string checks = EncodeEventChecks(SomeChecks());
  const std::string summaries = EncodeEventSummaries(SomeSummaries());
  for (size_t size = 0; size < checks.size(); ++size) {
    EXPECT_THAT(DecodeEventChecks(checks.substr(0, size)), StatusIs(StatusCode::kInternal)) << size;
  }
  for (size_t size = 0; size < summaries.size(); ++size) {
    EXPECT_THAT(DecodeEventSummaries(summaries.substr(0, size)), StatusIs(StatusCode::kInternal))
        << size;
  }
  EXPECT_THAT(DecodeEventChecks(checks + "x"), StatusIs(StatusCode::kInternal));
  EXPECT_THAT(DecodeEventSummaries(summaries + "x"), StatusIs(StatusCode::kInternal));
}

TEST(SealAnswersTest, NumbersThatCannotBeAreRefused) {
  const std::string checks = EncodeEventChecks(SomeChecks());
  // The first numbers: rows of the GPU, and orphans among them.
  ASSERT_EQ(NumberAt(checks, 0), 100);
  ASSERT_EQ(NumberAt(checks, 8), 20);
  EXPECT_THAT(DecodeEventChecks(WithNumberAt(checks, 0, -1)),
              StatusIs(StatusCode::kInternal, HasSubstr("below 0")));
  EXPECT_THAT(DecodeEventChecks(WithNumberAt(checks, 8, 101)),
              StatusIs(StatusCode::kInternal, HasSubstr("larger than its whole")));

  // Rows whose times are impossible, of two kinds, whose sum must not overflow.
  EventChecks impossible = SomeChecks();
  impossible.overlong_count = 100;
  EXPECT_THAT(DecodeEventChecks(EncodeEventChecks(impossible)),
              StatusIs(StatusCode::kInternal, HasSubstr("larger than its whole")));
  impossible.overlong_count = std::numeric_limits<int64_t>::max();
  impossible.detached_count = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(DecodeEventChecks(EncodeEventChecks(impossible)), StatusIs(StatusCode::kInternal));

  // An empty status, the number of operators, the length of the first name.
  const std::string summaries = EncodeEventSummaries(SomeSummaries());
  ASSERT_EQ(NumberAt(summaries, 8), 2);
  ASSERT_EQ(NumberAt(summaries, 16), 5);
  for (const int64_t count : {int64_t{3}, int64_t{201}, int64_t{1} << 62, int64_t{-1}}) {
    EXPECT_THAT(DecodeEventSummaries(WithNumberAt(summaries, 8, count)),
                StatusIs(StatusCode::kInternal))
        << count;
  }
  for (const int64_t length : {int64_t{32769}, int64_t{1} << 62, int64_t{-1}}) {
    EXPECT_THAT(DecodeEventSummaries(WithNumberAt(summaries, 16, length)),
                StatusIs(StatusCode::kInternal))
        << length;
  }
}

TEST(SealAnswersTest, NoMoreOperatorsAreSentThanTheCatalogKeeps) {
  store::EventSummaries sent;
  sent.ops = std::vector<store::OpSummaryRow>(500, {.name = std::string(100, 'x'), .calls = 1});
  auto got = DecodeEventSummaries(EncodeEventSummaries(sent));
  ASSERT_THAT(got, IsOk());
  EXPECT_THAT(*got->ops, SizeIs(200));
  sent.ops = std::vector<store::OpSummaryRow>(20, {.name = std::string(4096, 'x'), .calls = 1});
  got = DecodeEventSummaries(EncodeEventSummaries(sent));
  ASSERT_THAT(got, IsOk());
  EXPECT_THAT(*got->ops, SizeIs(8));
}

TEST(SealAnswersTest, BytesByChanceAreHarmless) {
  std::mt19937 random(7);
  const std::string checks = EncodeEventChecks(SomeChecks());
  const std::string summaries = EncodeEventSummaries(SomeSummaries());
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = i % 2 == 0 ? checks : summaries;
    for (int j = 0; j < 3; ++j) bytes[random() % bytes.size()] = static_cast<char>(random());
    if (const auto got = DecodeEventSummaries(bytes); got.ok() && got->ops.ok()) {
      EXPECT_LE(got->ops->size(), store::kMaxCatalogOps);
    }
    if (const auto got = DecodeEventChecks(bytes); got.ok()) {
      EXPECT_LE(got->orphan_count, got->gpu_row_count);
    }
  }
}

}  // namespace
}  // namespace profd::worker
