// Ranges of events that come in two: B and E, and b and e with an id.
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/capture/event_kinds.h"
#include "daemon/report/index/overlaps.h"
#include "daemon/report/ops/op_table.h"
#include "gmock/gmock.h"
#include "tests/import/import_fixture.h"

namespace profd::importer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::UnorderedElementsAre;

class PairedEventsTest : public ImportTest {
 protected:
  void Add(char phase, std::string_view name, int at_us, std::string_view more = "") {
    StrAppend(&events_, events_.empty() ? "" : ",", R"({"ph":")", std::string(1, phase),
              R"(","cat":"c","pid":7,"tid":9,"ts":)", at_us);
    if (!name.empty()) StrAppend(&events_, R"(,"name":")", name, "\"");
    StrAppend(&events_, more, "}");
  }
  std::unique_ptr<store::CaptureReader> ReadAll() { return ReadEvents(events_); }
  // "forward 10+30 depth 0 on THREAD", by end.
  static std::vector<std::string> RangesOf(store::CaptureReader& reader) {
    std::vector<std::string> ranges;
    EXPECT_THAT(reader.ForEach<RangeRow>([&](const RangeBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) {
        ranges.push_back(StrCat(reader.names()[batch.name[i]], " ", batch.start_ns[i] / 1000, "+",
                                batch.duration_ns[i] / 1000, " depth ", batch.depth[i], " on ",
                                reader.threads()[batch.thread].name,
                                (batch.flags[i] & kRangeOpen) != 0 ? ", open" : ""));
      }
      return absl::OkStatus();
    }),
                IsOk());
    return ranges;
  }
  std::string events_;
};

TEST_F(PairedEventsTest, BeginAndEndAreRangesThatNest) {
  Add('M', "thread_name", 0, R"(,"args":{"name":"main"})");
  Add('B', "forward", 10);
  Add('B', "matmul", 12);
  Add('E', "", 20);
  Add('B', "relu", 20);
  Add('E', "relu", 25);
  Add('E', "forward", 40);
  const auto reader = ReadAll();
  ASSERT_NE(reader, nullptr);
  EXPECT_THAT(RangesOf(*reader),
              ElementsAre("matmul 2+8 depth 1 on main", "relu 10+5 depth 1 on main",
                          "forward 0+30 depth 0 on main"));
  EXPECT_THAT(reader->record().imported.not_understood, testing::IsEmpty());
  EXPECT_EQ(reader->record().event_count, 3);
}

TEST_F(PairedEventsTest, AtOneTimeTheEndComesFirst) {
  Add('B', "forward", 10);
  Add('B', "matmul", 12);
  Add('B', "relu", 20);
  Add('E', "matmul", 20);
  Add('B', "mark", 25);
  Add('E', "mark", 25);
  Add('B', "relu", 30);
  Add('E', "relu", 30);
  Add('B', "relu", 30);
  Add('E', "relu", 35);
  Add('E', "relu", 38);
  Add('E', "forward", 40);
  const auto reader = ReadAll();
  ASSERT_NE(reader, nullptr);
  EXPECT_THAT(RangesOf(*reader),
              UnorderedElementsAre("forward 0+30 depth 0 on ", "matmul 2+8 depth 1 on ",
                                   "mark 15+0 depth 2 on ", "relu 10+18 depth 1 on ",
                                   "relu 20+0 depth 3 on ", "relu 20+5 depth 2 on "));
  EXPECT_THAT(reader->record().imported.not_understood, testing::IsEmpty());
}

TEST_F(PairedEventsTest, AnEndWithANameEndsTheRangeOfThatName) {
  Add('E', "before", 5);
  Add('B', "outer", 10);
  Add('B', "never ended", 20);
  Add('E', "unknown", 25);
  Add('E', "outer", 30);
  Add('B', "next", 40);
  Add('E', "next", 50);
  const auto reader = ReadAll();
  ASSERT_NE(reader, nullptr);
  EXPECT_THAT(RangesOf(*reader),
              UnorderedElementsAre("outer 0+20 depth 0 on ", "next 30+10 depth 0 on "));
  EXPECT_THAT(reader->record().imported.not_understood,
              UnorderedElementsAre(Pair("ph:E without ph:B", 2), Pair("ph:B without ph:E", 1)));
}

TEST_F(PairedEventsTest, TheFileNeedNotBeInOrder) {
  Add('E', "", 40);
  Add('B', "b", 20);
  Add('E', "", 30);
  Add('B', "a", 10);
  const auto reader = ReadAll();
  ASSERT_NE(reader, nullptr);
  EXPECT_THAT(RangesOf(*reader), ElementsAre("b 10+10 depth 1 on ", "a 0+30 depth 0 on "));
}

TEST_F(PairedEventsTest, EventsWithoutPartnerAreCountedAndMakeNoRange) {
  Add('E', "", 5);
  Add('B', "never ended", 10);
  Add('B', "a", 20);
  Add('E', "", 30);
  Add('b', "no id", 30);
  Add('e', "x", 31, R"(,"id":"0x1")");
  Add('b', "y", 32, R"(,"id":2)");
  const auto reader = ReadAll();
  ASSERT_NE(reader, nullptr);
  EXPECT_THAT(RangesOf(*reader), ElementsAre("a 0+10 depth 0 on "));
  EXPECT_THAT(reader->record().imported.not_understood,
              UnorderedElementsAre(Pair("ph:E without ph:B", 1), Pair("ph:B without ph:E", 1),
                                   Pair("ph:b without id", 1), Pair("ph:e without ph:b", 1),
                                   Pair("ph:b without ph:e", 1)));
}

TEST_F(PairedEventsTest, AsynchronousOnesAreOnLanesByTheirId) {
  Add('b', "request 1", 10, R"(,"id":"0x1")");
  Add('b', "request 2", 20, R"(,"id":"0x2")");
  Add('n', "first token", 25, R"(,"id":"0x2")");
  Add('e', "request 1", 40, R"(,"id":"0x1")");
  Add('b', "request 3", 45, R"(,"id":"0x1")");
  Add('e', "request 2", 60, R"(,"id":"0x2")");
  Add('e', "request 3", 70, R"(,"id":"0x1")");
  // The same id of another category is another range.
  Add('B', "loop", 10);
  Add('E', "loop", 80);
  const auto reader = ReadAll();
  ASSERT_NE(reader, nullptr);
  EXPECT_THAT(RangesOf(*reader),
              UnorderedElementsAre("loop 0+70 depth 0 on ",
                                   "request 1 0+30 depth 0 on overlapping ranges of 9",
                                   "request 3 35+25 depth 0 on overlapping ranges of 9",
                                   "request 2 10+40 depth 0 on overlapping ranges of 9"));
  EXPECT_EQ(reader->record().event_count, 5);
}

TEST_F(PairedEventsTest, TimeInLanesIsSelfTimeOnce) {
  Add('B', "loop", 0);
  Add('b', "request 1", 10, R"(,"id":1)");
  Add('b', "request 2", 20, R"(,"id":2)");
  Add('e', "request 1", 40, R"(,"id":1)");
  Add('e', "request 2", 60, R"(,"id":2)");
  Add('E', "loop", 100);
  const auto reader = ReadAll();
  ASSERT_NE(reader, nullptr);
  EXPECT_THAT(report::OverlapGroups(reader->threads()), ElementsAre(0, 0, 0));
  const auto ops = report::SummarizeOps(*reader, {});
  ASSERT_THAT(ops, IsOk());
  std::map<std::string, int64_t> self_us;
  for (const report::OpRow& row : ops->rows) self_us[row.name] = row.self_cpu_ns / 1000;
  EXPECT_THAT(self_us,
              UnorderedElementsAre(Pair("loop", 50), Pair("request 1", 10), Pair("request 2", 40)));
}

TEST_F(PairedEventsTest, OfATraceThatIsCutOffTheyAreOpenUntilItsEnd) {
  Add('B', "forward", 10);
  Add('B', "matmul", 12);
  Add('E', "", 20);
  Add('B', "relu", 30);
  const auto imported =
      ImportText(StrCat(R"({"traceEvents":[)", events_, R"(,{"ph":"E","pid":7,)"));
  ASSERT_THAT(imported, IsOk());
  const auto reader = Open(imported->file);
  ASSERT_NE(reader, nullptr);
  EXPECT_THAT(RangesOf(*reader),
              ElementsAre("matmul 2+8 depth 1 on ", "forward 0+20 depth 0 on , open",
                          "relu 20+0 depth 0 on , open"));
}

TEST_F(PairedEventsTest, OneThreadsEndDoesNotEndAnothersRange) {
  Add('B', "a", 10);
  events_ += R"(,{"ph":"E","pid":7,"tid":10,"ts":15})";
  Add('E', "", 20);
  const auto reader = ReadAll();
  ASSERT_NE(reader, nullptr);
  EXPECT_THAT(RangesOf(*reader), ElementsAre("a 0+10 depth 0 on "));
  EXPECT_THAT(reader->record().imported.not_understood, ElementsAre(Pair("ph:E without ph:B", 1)));
}

}  // namespace
}  // namespace profd::importer
