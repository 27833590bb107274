// Traces that are of the ranks of one job, and those that only look so.
#include "daemon/import/trace_set.h"

#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "tests/import/import_fixture.h"

namespace profd::importer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::string_view kEvents =
    R"("traceEvents":[{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1,"dur":1},)"
    R"({"ph":"X","cat":"cpu_op","name":"b \"distributedInfo\": {\"rank\": 9}","pid":1,"tid":1,)"
    R"("ts":3,"dur":1}])";

class RankOfTraceTest : public ImportTest {
 protected:
  // "rank/world_size"; "none": it says none.
  std::string RankIn(std::string_view text) {
    const auto rank = RankOfTrace(Write("trace.json", text), nullptr);
    if (!rank.ok()) return rank.status().ToString();
    return rank->has_value() ? StrCat((*rank)->rank, "/", (*rank)->world_size) : "none";
  }
};

TEST_F(RankOfTraceTest, IsFoundBeforeAndBehindTheEvents) {
  constexpr std::string_view kInfo = R"("distributedInfo":{"rank":3,"world_size":8})";
  EXPECT_EQ(RankIn(StrCat("{", kInfo, ",", kEvents, "}")), "3/8");
  EXPECT_EQ(RankIn(StrCat("{", kEvents, ",", kInfo, "}")), "3/8");
}

TEST_F(RankOfTraceTest, NeedsBothNumbers) {
  EXPECT_EQ(RankIn(StrCat(R"({"distributedInfo":{"rank":0},)", kEvents, "}")), "none");
  EXPECT_EQ(RankIn(StrCat(R"({"distributedInfo":[],)", kEvents, "}")), "none");
  EXPECT_EQ(RankIn(StrCat("{", kEvents, "}")), "none");
}

TEST_F(RankOfTraceTest, TheRestOfAFileThatHasSaidItIsNotRead) {
  EXPECT_EQ(RankIn(StrCat(R"({"distributedInfo":{"rank":1,"world_size":2},)",
                          kEvents.substr(0, kEvents.size() - 1), ",{\"ph\"")),
            "1/2");
  EXPECT_THAT(RankIn(StrCat("{", kEvents.substr(0, kEvents.size() - 1))), HasSubstr("cut off"));
}

TEST_F(RankOfTraceTest, TheGroupIsInTheCapturesRecord) {
  const auto imported =
      Import(Write("trace.json", StrCat("{", kEvents, "}")), "01M80NYZHXQ07HPCA54KZXCH1S");
  ASSERT_THAT(imported, IsOk());
  EXPECT_EQ(Open(imported->file)->record().group_id, "01M80NYZHXQ07HPCA54KZXCH1S");
}

// Of traces "0.json", "1.json", ...; {-1, 0}: it says no rank.
TraceSet Set(const std::vector<TraceRank>& said) {
  std::vector<std::string> traces;
  std::vector<std::optional<TraceRank>> ranks;
  for (const TraceRank& rank : said) {
    traces.push_back(StrCat(traces.size(), ".json"));
    ranks.push_back(rank.world_size == 0 ? std::nullopt : std::optional(rank));
  }
  return SetOf(traces, ranks);
}
constexpr TraceRank kNone = {.rank = -1, .world_size = 0};

TEST(TraceSetTest, RanksOfOneJobInAnyOrder) {
  const TraceSet set = Set({{2, 3}, {0, 3}, {1, 3}});
  EXPECT_TRUE(set.is_job);
  EXPECT_EQ(set.world_size, 3);
  EXPECT_EQ(set.absent_count, 0);
  EXPECT_THAT(set.absent_ranks, IsEmpty());
  EXPECT_THAT(set.contradiction, IsEmpty());
}

TEST(TraceSetTest, RanksThatNobodyGaveAreNamed) {
  const TraceSet set = Set({{2, 5}, {0, 5}});
  EXPECT_TRUE(set.is_job);
  EXPECT_EQ(set.absent_count, 3);
  EXPECT_THAT(set.absent_ranks, ElementsAre(1, 3, 4));
}

TEST(TraceSetTest, OfAbsurdlyManyRanksAFewAreNamed) {
  const TraceSet set = Set({{1, int64_t{1} << 62}, {int64_t{1} << 61, int64_t{1} << 62}});
  EXPECT_TRUE(set.is_job);
  EXPECT_EQ(set.absent_count, (int64_t{1} << 62) - 2);
  EXPECT_THAT(set.absent_ranks, SizeIs(TraceSet::kMostNamed));
}

TEST(TraceSetTest, ContradictionsAreSaidAndMakeNoSet) {
  EXPECT_THAT(Set({{0, 2}, {0, 2}}).contradiction, HasSubstr("0.json and 1.json are both of rank"));
  EXPECT_THAT(Set({{0, 2}, {1, 4}}).contradiction, HasSubstr("of 2 ranks, and 1.json of one of 4"));
  EXPECT_THAT(Set({{0, 2}, {2, 2}}).contradiction, HasSubstr("1.json claims to be rank 2"));
  EXPECT_THAT(Set({{0, 2}, {-1, 2}}).contradiction, HasSubstr("1.json claims to be rank -1 of 2"));
  EXPECT_THAT(Set({{0, 2}, kNone}).contradiction, HasSubstr("1.json does not say its rank"));
  EXPECT_THAT(Set({kNone, {0, 2}}).contradiction, HasSubstr("0.json does not say its rank"));
  EXPECT_FALSE(Set({{0, 2}, {0, 2}}).is_job);
}

TEST(TraceSetTest, JobsOfOneRankAndTracesThatSayNoneAreNoSet) {
  for (const TraceSet& set : {Set({{0, 1}, {0, 1}}), Set({kNone, kNone}), Set({{0, 2}})}) {
    EXPECT_FALSE(set.is_job);
    EXPECT_THAT(set.contradiction, IsEmpty());
  }
}

}  // namespace
}  // namespace profd::importer
