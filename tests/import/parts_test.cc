// The parts of the importer, each by itself.
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/str_cat.h"
#include "daemon/import/exact_time.h"
#include "daemon/import/gpu_words.h"
#include "daemon/import/json/skip.h"
#include "daemon/import/not_understood.h"
#include "daemon/import/range_nesting.h"
#include "daemon/import/row_spool.h"
#include "daemon/import/thinning.h"
#include "daemon/import/trace_event.h"
#include "daemon/import/trace_threads.h"
#include "daemon/report/index/gpu_names.h"
#include "gmock/gmock.h"
#include "proto/wire/event.h"
#include "tests/fakes/status_matchers.h"
#include "tests/store/file/capture_file_builder.h"

namespace profd::importer {
namespace {

using testing::ElementsAre;
using testing::Optional;

TEST(ExactTimeTest, MicrosecondsAreTakenToTheNanosecond) {
  const auto ns = [](std::string_view text) { return ParseMicros(text)->ns; };
  EXPECT_EQ(ns("4458676522690.655"), 4'458'676'522'690'655);
  EXPECT_EQ(ns("1695835542514261"), 1'695'835'542'514'261'000);
  EXPECT_EQ(ns("0.1"), 100);
  EXPECT_EQ(ns("\"17.5\""), 17'500);  // Some programs write texts.
  EXPECT_EQ(ns("-0.001"), -1);
  EXPECT_EQ(ns("1.0006"), 1001);
  EXPECT_EQ(ns("1.36562786275E12"), 1'365'627'862'750'000);
}

TEST(ExactTimeTest, WholeMicrosecondsAreTold) {
  for (const char* text : {"17", "17.0", "17.000", "\"17.0\"", "-17.0", "1.7E1"}) {
    EXPECT_TRUE(ParseMicros(text)->is_whole_us) << text;
  }
  for (const char* text : {"17.5", "17.001", "-0.001", "1.75E1"}) {
    EXPECT_FALSE(ParseMicros(text)->is_whole_us) << text;
  }
}

TEST(ExactTimeTest, WhatIsNoTimeIsNone) {
  for (const char* text : {"", "-", "x", "1x", "\"17", "\"\"", "null", "NaN", "1e99",
                           "99999999999999999999", "9223372036854775.8079", "1.2.3"}) {
    EXPECT_FALSE(ParseMicros(text).has_value()) << text;
  }
}

TEST(ExactTimeTest, IntegersMayTakeAllBitsAndHaveQuotes) {
  EXPECT_EQ(ParseInteger("18446744073709551615"), -1);
  EXPECT_EQ(ParseInteger("\"12\""), 12);
  EXPECT_EQ(ParseInteger("1.5"), std::nullopt);
  EXPECT_EQ(ParseInteger(""), std::nullopt);
}

// Ends must be found whatever lies on the border of a block of 16 bytes.
TEST(JsonSkipTest, ValuesEndWhereTheyEnd) {
  for (size_t pad = 0; pad < 40; ++pad) {
    for (const std::string& value :
         {StrCat(R"({"a}":[{"b":")", std::string(pad, 'x'), R"(\\\"}"}]})"),
          StrCat("\"", std::string(pad, 'x'), "\\\"\""), std::string("[[],{}]"),
          std::string("17")}) {
      const std::string text = value + ",{";
      const char* const end = text.data() + text.size();
      EXPECT_EQ(SkipJsonValue(text.data(), end) - text.data(), std::ssize(value)) << text;
      for (size_t cut = 0; cut < value.size(); ++cut) {
        EXPECT_EQ(SkipJsonValue(text.data(), text.data() + cut), nullptr) << text.substr(0, cut);
      }
    }
  }
}

TEST(JsonSkipTest, SpaceBetweenTokensGoesAndThatInStringsStays) {
  EXPECT_EQ(CompactJson("[ [1, 2],\n \"a b\\\" c\" ]"), "[[1,2],\"a b\\\" c\"]");
  EXPECT_EQ(CompactJson("\"not ended "), "\"not ended ");
}

TEST(GpuWordsTest, WordsAreTheReportsOwn) {
  for (uint8_t kind = 1; kind < 8; ++kind) {
    EXPECT_EQ(MemsetKindOf(report::MemsetName(kind)), kind);
    const CopyKinds kinds = CopyKindsOf(report::CopyName(kind, kind, 3));
    EXPECT_EQ(kinds.copy, kind);
    EXPECT_EQ(kinds.source, kind);
    EXPECT_EQ(kinds.destination, 3);
  }
  for (uint32_t kind = 0; kind < 5; ++kind) {
    EXPECT_THAT(SyncKindOf(report::SyncName(kind)), Optional(kind));
  }
  for (const uint32_t kind : {1u, 1u << 16, 2u << 16, 7u << 16}) {
    EXPECT_THAT(OverheadKindOf(report::OverheadName(kind)), Optional(kind));
  }
}

TEST(GpuWordsTest, HostMemoryOfHipIsNotCalledPageable) {
  const CopyKinds kinds = CopyKindsOf("Memcpy HtoD (Host -> Device)");
  EXPECT_EQ(kinds.source, report::kHostMemory);
  EXPECT_EQ(report::CopyName(kinds.copy, kinds.source, kinds.destination),
            "Memcpy HtoD (Host -> Device)");
}

TEST(GpuWordsTest, OthersAreNotKnown) {
  EXPECT_EQ(CopyKindsOf("Memcpy").copy, 0);
  EXPECT_EQ(CopyKindsOf("").copy, 0);
  EXPECT_EQ(SyncKindOf("Tea Break"), std::nullopt);
  EXPECT_EQ(OverheadKindOf("Tea Break"), std::nullopt);
}

TEST(NotUnderstoodTest, OfTooManyKindsTheLaterOnesCountTogether) {
  NotUnderstood counts;
  for (int i = 0; i < 100; ++i) counts.Count(StrCat("kind ", i), 2);
  counts.Count("kind 0");
  EXPECT_EQ(counts.counts().size(), NotUnderstood::kMaxKinds);
  EXPECT_EQ(counts.counts().at("kind 0"), 3);
  EXPECT_EQ(counts.counts().at("(other)"), 2 * (100 - 63));
}

TEST(NotUnderstoodTest, KindsAreCleaned) {
  NotUnderstood counts;
  counts.Count("a\x1b[31m\xff");
  counts.Count(std::string(1000, 'x'));
  for (const auto& [kind, count] : counts.counts()) {
    EXPECT_LE(kind.size(), 80u);
    EXPECT_EQ(kind.find('\x1b'), std::string::npos);
  }
}

ImportedRange Range(int64_t start_ns, int64_t end_ns, uint32_t name, uint8_t category = 1) {
  return {.start_ns = start_ns,
          .duration_ns = end_ns - start_ns,
          .name = name,
          .op = 0,
          .order = name,
          .depth = 0,
          .category = category,
          .flags = 0};
}
using NameAndDepth = std::pair<uint32_t, int>;
std::vector<NameAndDepth> NamesAndDepths(const std::vector<ImportedRange>& ranges) {
  std::vector<NameAndDepth> pairs;
  pairs.reserve(ranges.size());
  for (const ImportedRange& range : ranges) pairs.emplace_back(range.name, range.depth);
  return pairs;
}

TEST(RangeNestingTest, RangesComeByTheirEndBehindAllTheyEnclose) {
  std::vector<ImportedRange> ranges = {Range(0, 100, 1), Range(10, 20, 2), Range(12, 20, 3),
                                       Range(30, 100, 4)};
  Nest(ranges);
  EXPECT_THAT(NamesAndDepths(ranges), ElementsAre(NameAndDepth(3, 2), NameAndDepth(2, 1),
                                                  NameAndDepth(4, 1), NameAndDepth(1, 0)));
}

// As torch.autograd.profiler_util builds its tree: what ends behind the range it began in is in the
// next one outside that holds it whole, and nothing more is in the range that it left.
TEST(RangeNestingTest, WhatOutlastsTheRangeItBeganInIsNotInIt) {
  std::vector<ImportedRange> ranges = {Range(0, 100, 1), Range(10, 20, 2), Range(15, 25, 3),
                                       Range(16, 18, 4)};
  Nest(ranges);
  EXPECT_THAT(NamesAndDepths(ranges), ElementsAre(NameAndDepth(4, 2), NameAndDepth(2, 1),
                                                  NameAndDepth(3, 1), NameAndDepth(1, 0)));
}

TEST(RangeNestingTest, OfEqualTimesTheFirstIsOutside) {
  std::vector<ImportedRange> ranges = {Range(0, 10, 1), Range(0, 10, 2), Range(0, 10, 3, 0)};
  Nest(ranges);
  EXPECT_THAT(NamesAndDepths(ranges),
              ElementsAre(NameAndDepth(2, 2), NameAndDepth(1, 1), NameAndDepth(3, 0)));
}

TEST(RangeNestingTest, WhatBeginsWhereAnotherEndsIsBesideIt) {
  std::vector<ImportedRange> ranges = {Range(0, 10, 1), Range(10, 10, 2), Range(10, 20, 3)};
  Nest(ranges);
  EXPECT_THAT(NamesAndDepths(ranges),
              ElementsAre(NameAndDepth(1, 0), NameAndDepth(2, 1), NameAndDepth(3, 0)));
}

TEST(RangeNestingTest, WhatIsTooDeepIsTakenOutAndCounted) {
  std::vector<ImportedRange> ranges;
  for (uint32_t i = 0; i < 130; ++i) ranges.push_back(Range(i, 1000 - i, i));
  const LostRanges lost = Nest(ranges);
  EXPECT_EQ(ranges.size(), 128u);
  EXPECT_EQ(lost.other_count, 2);
  EXPECT_EQ(lost.python_count, 0);
}

std::vector<int64_t> EveryNth(int64_t n, int64_t count) {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < count; ++i) ids.push_back(1'000 + i * n);
  return ids;
}

TEST(MissingIdsTest, ThinnedTracesLackMostNumbers) {
  EXPECT_THAT(MissingIds(EveryNth(1, 1'000)), Optional(0));
  // Counted from the first to the last percent.
  EXPECT_THAT(MissingIds(EveryNth(10, 1'000)), Optional(979 * 9));
  EXPECT_EQ(MissingIds(EveryNth(10, 99)), std::nullopt);
}

TEST(MissingIdsTest, AFewGapsAndDamagedNumbersAreNoThinning) {
  std::vector<int64_t> ids = EveryNth(1, 1'000);
  ids.erase(ids.begin() + 400, ids.begin() + 440);
  ids.push_back(INT64_MAX);
  ids.push_back(INT64_MIN);
  ids.insert(ids.end(), 500, 1'000);
  EXPECT_THAT(MissingIds(ids), Optional(0));
}

TEST(MissingIdsTest, OneJumpIsNoThinning) {
  std::vector<int64_t> ids = EveryNth(1, 1'000);
  for (size_t i = 700; i < ids.size(); ++i) ids[i] += 5'000;
  EXPECT_THAT(MissingIds(ids), Optional(0));
  // Next to gaps all over, it counts.
  ids = EveryNth(10, 1'000);
  for (size_t i = 700; i < ids.size(); ++i) ids[i] += 5'000;
  EXPECT_THAT(MissingIds(ids), Optional(979 * 9 + 5'000));
}

TEST(MissingIdsTest, AFewJumpsAreNoThinning) {
  std::vector<int64_t> ids;
  for (int64_t window = 0; window < 4; ++window) {
    for (int64_t i = 0; i < 60; ++i) ids.push_back(window * 560 + i);
  }
  EXPECT_THAT(MissingIds(ids), Optional(0));
}

TEST(MissingIdsTest, AnyNumbersAreSafe) {
  std::vector<int64_t> ids;
  for (uint64_t i = 0; i < 1'000; ++i) {
    ids.push_back(static_cast<int64_t>((uint64_t{1} << 63) + i * (UINT64_MAX / 1'000)));
  }
  EXPECT_THAT(MissingIds(ids), Optional(1'000'000'000'000));
}

TEST(RowSpoolTest, RowsComeBackInOrderWhereverTheyWere) {
  const store::TemporaryFolder folder;
  RowSpool<int64_t> spool(folder.path(), 2 * RowSpool<int64_t>::kBlockRows * sizeof(int64_t));
  constexpr int64_t kRows = 5 * RowSpool<int64_t>::kBlockRows + 17;
  for (int64_t i = 0; i < kRows; ++i) ASSERT_THAT(spool.Add(i), IsOk());
  EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "its file has a name";
  int64_t next = 0;
  ASSERT_THAT(spool.Drain([&](std::span<int64_t> rows) {
    for (const int64_t row : rows) EXPECT_EQ(row, next++);
    return absl::OkStatus();
  }),
              IsOk());
  EXPECT_EQ(next, kRows);
}

TEST(RowSpoolTest, AFolderThatIsNotThereIsAnError) {
  RowSpool<int64_t> spool("/nowhere/at/all", 0);
  absl::Status status;
  for (size_t i = 0; i <= RowSpool<int64_t>::kBlockRows && status.ok(); ++i) status = spool.Add(1);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInternal));
}

TEST(TraceThreadsTest, NamesAreThoseInTheLabel) {
  EXPECT_EQ(ThreadNameOf("thread 17 (data)"), "data");
  EXPECT_EQ(ThreadNameOf("thread 17 (a (b))"), "a (b)");
  EXPECT_EQ(ThreadNameOf("thread 17"), "");
  EXPECT_EQ(ThreadNameOf("stream 7 "), "");
  EXPECT_EQ(ThreadNameOf("thread )("), "");
  EXPECT_EQ(ThreadNameOf("autograd"), "autograd");
}

TEST(TraceThreadsTest, FunctionsOfPythonHaveARowBesideTheirThread) {
  TraceThreads threads;
  EXPECT_EQ(threads.IndexOf("1", "17", false), 0u);
  EXPECT_EQ(threads.IndexOf("1", "17", true), 1u);
  EXPECT_EQ(threads.IndexOf("1", "17", false), 0u);
  threads.NameThread("1", "17", "thread 17 (data)");
  const std::vector<ThreadRow> rows = threads.Rows();
  EXPECT_EQ(rows[0].os_thread, 17);
  EXPECT_EQ(rows[1].os_thread, 17);
  EXPECT_EQ(rows[0].name, "data");
  EXPECT_EQ(rows[1].name, "data, Python functions");
}

TEST(TraceThreadsTest, CallsOnARowOfTheirOwnAreThoseOfTheThreadInItsName) {
  TraceThreads threads;
  threads.NameThread("1", "17", "thread 17 (data)");
  threads.NameThread("1", "18", "thread 18");
  threads.NameThread("1", "10000002", "thread 17 (data) CUDA calls");
  threads.NameThread("1", "10000003", "thread 17 (data) CUDA calls (2)");
  threads.NameThread("1", "10000004", "thread 18 CUDA calls");
  threads.NameThread("2", "10000005", "thread 18 CUDA calls");
  threads.NameThread("1", "10000006", "thread 19 CUDA calls");
  EXPECT_EQ(threads.ThreadOfCalls("1", "10000002"), "17");
  EXPECT_EQ(threads.ThreadOfCalls("1", "10000003"), "17");
  EXPECT_EQ(threads.ThreadOfCalls("1", "10000004"), "18");
  EXPECT_EQ(threads.ThreadOfCalls("2", "10000005"), "10000005");  // Of another process.
  EXPECT_EQ(threads.ThreadOfCalls("1", "10000006"), "10000006");
  EXPECT_EQ(threads.ThreadOfCalls("1", "17"), "17");
  EXPECT_EQ(threads.ThreadOfCalls("1", "20"), "20");
}

TEST(TraceThreadsTest, NamesOfOneThreadHaveALimit) {
  TraceThreads threads;
  for (uint32_t i = 0; i < TraceThreads::kMaxThreads; ++i) {
    threads.NameThread("1", "7", StrCat("name ", i));
  }
  threads.NameThread("1", "7", "one more");
  threads.NameThread("1", "8", "name 0 CUDA calls");
  threads.NameThread("1", "9", "one more CUDA calls");
  EXPECT_EQ(threads.ThreadOfCalls("1", "8"), "7");
  EXPECT_EQ(threads.ThreadOfCalls("1", "9"), "9") << "not kept";
  EXPECT_EQ(threads.LabelOf("1", "7"), "one more");
}

TEST(UnescapeTest, EscapesAreRead) {
  EXPECT_EQ(Unescape(R"("a\"\\\u00e9")"), "a\"\\\xc3\xa9");
  EXPECT_EQ(Unescape("plain"), "plain");
  EXPECT_EQ(Unescape(R"(bad\q)"), R"(bad\q)");
}

}  // namespace
}  // namespace profd::importer
