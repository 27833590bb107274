// What a hostile trace costs: all that the importer keeps for each distinct thing has a limit.
#include <malloc.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/str_cat.h"
#include "daemon/import/capture_builder.h"
#include "daemon/import/names.h"
#include "daemon/import/not_understood.h"
#include "daemon/import/paired_events.h"
#include "daemon/import/python_stacks.h"
#include "gmock/gmock.h"
#include "tests/fakes/sanitized.h"
#include "tests/fakes/status_matchers.h"
#include "tests/import/import_fixture.h"

namespace profd::importer {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

// Takes everything and keeps nothing.
class NullSink final : public CaptureSink {
 public:
  absl::Status AddName(uint32_t, std::string_view) override { return absl::OkStatus(); }
  absl::Status AddThread(const ThreadRow&) override { return absl::OkStatus(); }
  absl::Status AddInputs(uint32_t, const OperatorInputs&) override { return absl::OkStatus(); }
  absl::Status AddScalars(uint32_t, std::string_view) override { return absl::OkStatus(); }
  absl::Status AppendRows(const EventRows&) override { return absl::OkStatus(); }
  int64_t approx_bytes() const override { return 0; }
};

// What the allocator has given out; 0 under sanitizers, which have their own.
int64_t HeapBytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

class ImportLimitsTest : public ImportTest {
 protected:
  NullSink sink_;
  NotUnderstood not_understood_;
  CaptureBuilder builder_{sink_, not_understood_, folder_.path()};
};

TEST_F(ImportLimitsTest, NamesBeyondTheLastIdTakeNoMemory) {
  NameTable names(sink_);
  const auto name = [](uint32_t i) { return StrCat("n", i); };
  for (uint32_t i = 0; i <= NameTable::kMaxIds; ++i) {
    ASSERT_TRUE(names.IdOfJson(name(i)).ok());
  }
  const int64_t before = HeapBytes();
  constexpr uint32_t kMore = 1'000'000;
  const int64_t others = names.other_count();
  for (uint32_t i = 1; i <= kMore; ++i) {
    ASSERT_TRUE(names.IdOfJson(name(NameTable::kMaxIds + i)).ok());
  }
  EXPECT_LT(HeapBytes() - before, 1'000'000);
  EXPECT_EQ(names.other_count() - others, kMore);
}

TEST_F(ImportLimitsTest, StepsAndCudaEventsCountAsRowsThatAreHeld) {
  const std::optional<uint32_t> thread = builder_.AddThread(1, 1);
  ASSERT_TRUE(thread.has_value());
  constexpr int64_t kEach = 50'000;
  for (int64_t i = 0; i < CaptureBuilder::kMaxHeldRows - 2 * kEach; ++i) {
    ASSERT_TRUE(builder_.AddMark(*thread, i, "m").ok());
  }
  for (int64_t i = 0; i < kEach; ++i) {
    const std::string name = StrCat("ProfilerStep#", i);
    ASSERT_THAT(
        builder_.AddRangeEvent({.thread = *thread, .start_ns = i, .duration_ns = 1, .name = name}),
        IsOk());
    ASSERT_THAT(
        builder_.AddRow(CudaEventRow{
            .correlation = static_cast<uint32_t>(i), .context = 1, .stream = 7, .event_id = 1}),
        IsOk());
  }
  EXPECT_THAT(builder_.AddRangeEvent({.thread = *thread, .name = "ProfilerStep#1000000"}),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST_F(ImportLimitsTest, CallsHaveALimit) {
  const std::optional<uint32_t> thread = builder_.AddThread(1, 1);
  ASSERT_TRUE(thread.has_value());
  const auto call = [&](size_t correlation) {
    return builder_.AddRow(
        *thread, ApiRow{.duration_ns = 1, .correlation = static_cast<uint32_t>(correlation)});
  };
  for (size_t i = 1; i <= CaptureBuilder::kMaxCalls; ++i) ASSERT_TRUE(call(i).ok());
  ASSERT_THAT(call(1), IsOk());  // Not a further one.
  EXPECT_THAT(call(CaptureBuilder::kMaxCalls + 1),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("CUDA calls")));
}

TEST_F(ImportLimitsTest, StreamsHaveALimit) {
  const auto kernel = [&](size_t context) {
    return builder_.AddRow(
        GpuRow{.duration_ns = 1, .context = static_cast<uint32_t>(context), .stream = 7});
  };
  for (size_t i = 1; i <= CaptureBuilder::kMaxStreams; ++i) ASSERT_THAT(kernel(i), IsOk());
  ASSERT_THAT(kernel(1), IsOk());  // Not a further one.
  EXPECT_THAT(kernel(CaptureBuilder::kMaxStreams + 1),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("streams")));
}

// A range of two events is held once, not together with its events.
TEST_F(ImportLimitsTest, PairsAreHeldOnce) {
  constexpr int64_t kPairs = CaptureBuilder::kMaxHeldRows / 3 + 10'000;
  TraceEvent event;
  event.category = "c";
  event.pid = "1";
  event.tid = "1";
  event.name = "r";
  for (int64_t i = 0; i < kPairs; ++i) {
    for (const char phase : {'B', 'E'}) {
      event.phase = phase;
      event.start = ExactTime{.ns = 10 * i + (phase == 'E' ? 5 : 0)};
      ASSERT_TRUE(builder_.Add(event).ok());
    }
  }
  const auto contents = builder_.Finish();
  ASSERT_THAT(contents, IsOk());
  EXPECT_EQ(contents->event_count, kPairs);
}

TEST_F(ImportLimitsTest, LongIdsAreNotKept) {
  const std::string most(CaptureBuilder::kMaxIdBytes - 2, '7');
  const auto slice = [](std::string_view pid, std::string_view tid) {
    return StrCat(R"({"ph":"X","cat":"cpu_op","name":"a","pid":)", pid, R"(,"tid":)", tid,
                  R"(,"ts":1,"dur":2},)");
  };
  const auto reader = ReadEvents(
      StrCat(slice("1", "1"), slice(StrCat("\"", most, "\""), "2"),
             slice(StrCat("\"", most, "7\""), "3"), slice("1", StrCat("\"", most, "7\"")),
             R"({"ph":"b","cat":"c","name":"r","pid":1,"tid":1,"ts":1,"id":")", most, R"(7"},)",
             R"({"ph":"e","cat":"c","name":"r","pid":1,"tid":1,"ts":2,"id":")", most, R"(7"})"));
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(reader->record().torch.operator_count, 2);
  EXPECT_THAT(reader->record().imported.not_understood,
              ElementsAre(Pair("events with a pid or tid of more than 256 bytes", 2),
                          Pair("ph:b with an id or cat of more than 256 bytes", 1),
                          Pair("ph:e with an id or cat of more than 256 bytes", 1)));
}

TEST_F(ImportLimitsTest, DistinctIdsHaveALimit) {
  PairedEvents pairs;
  TraceEvent event;
  event.phase = 'b';
  constexpr size_t kIdBytes = 250;
  constexpr size_t kMost = PairedEvents::kMaxIdBytes / kIdBytes;
  for (size_t i = 0; i < kMost + 10; ++i) {
    std::string id = StrCat(i);
    id.resize(kIdBytes - 2, 'x');  // A line break each after the pid and the category.
    event.flow = id;
    pairs.Add(event, static_cast<int64_t>(i), 0, 1, not_understood_);
  }
  EXPECT_EQ(pairs.size(), kMost);
  EXPECT_THAT(not_understood_.counts(),
              Contains(Pair("ph:b with an id beyond the limit of memory", 10)));
}

// Short frames in many orders make many rows of little text.
TEST_F(ImportLimitsTest, RowsOfStacksHaveALimit) {
  NameTable names(sink_);
  PythonStacks stacks(names);
  uint64_t random = 1;
  while (stacks.left_out_count() == 0 && stacks.stack_count() < 2'000'000) {
    std::string stack = "\"";
    for (size_t i = 0; i < PythonStacks::kMostFrames; ++i) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      stack += static_cast<char>('a' + (random >> 60));
      stack += ';';
    }
    ASSERT_THAT(stacks.Add(stack + "\""), IsOk());
  }
  EXPECT_EQ(stacks.left_out_count(), 1);
  EXPECT_LT(stacks.stack_count(), int64_t{PythonStacks::kMaxBytes / 64});
}

// The most memory that this process has had since the last reset; nullopt: /proc does not say.
std::optional<int64_t> PeakKilobytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6));
  }
  return std::nullopt;
}
bool ResetPeak() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5" << std::flush;
  return file.good();
}

TEST_F(ImportLimitsTest, TheByteOfADamageIsFoundWithoutATreeOfTheEvent) {
  if (kSanitized) GTEST_SKIP() << "sanitizers need memory of their own";
  constexpr int64_t kEventBytes = int64_t{24} << 20;
  std::string list;
  while (std::ssize(list) < kEventBytes) list += "1,";
  const std::filesystem::path trace =
      Write("damaged.json",
            StrCat(R"({"traceEvents":[{"ph":"X","cat":"cpu_op","name":"a","pid":7,"tid":9,)"
                   R"("ts":1,"dur":40},{"ph":"X","args":{"a":[)",
                   list, R"(1],"x"}}]})"));
  list = {};
  malloc_trim(0);
  if (!ResetPeak()) GTEST_SKIP() << "the peak of memory cannot be reset here";
  const int64_t before = PeakKilobytes().value_or(0);
  const auto imported = Import(trace);
  ASSERT_THAT(imported, IsOk());
  EXPECT_THAT(imported->record.imported.not_understood,
              Contains(Pair(HasSubstr("event damaged at byte 25"), 1)));
  RecordProperty("bytes_per_byte",
                 static_cast<int>((PeakKilobytes().value_or(0) - before) * 1024 / kEventBytes));
  EXPECT_LT((PeakKilobytes().value_or(0) - before) * 1024, 14 * kEventBytes);
}

}  // namespace
}  // namespace profd::importer
