// Speedscope files, held against the rules of its file-format-schema.json and of its importer:
// events in the order of time, closed as they were opened, within the profile's bounds.
#include "daemon/export/stacks/speedscope.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "daemon/base/str_cat.h"
#include "daemon/export/trace_export.h"
#include "tests/export/chrome/strict_json.h"
#include "tests/export/sink/string_sink.h"
#include "tests/fakes/fake_capture_reader.h"
#include "tests/fakes/status_matchers.h"

namespace profd::exporter {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SpeedscopeTest : public testing::Test {
 protected:
  SpeedscopeTest() : main_(reader_.AddThread(100, "main")) {}

  JsonValue Export() {
    StringSink sink;
    EXPECT_THAT(ExportTrace(reader_, TraceFormat::kSpeedscope, sink), IsOk());
    EXPECT_EQ(sink.finished(), 1);
    absl::StatusOr<JsonValue> root = ParseStrictJson(sink.text());
    EXPECT_THAT(root, IsOk());
    if (!root.ok()) return {};
    for (const JsonValue& profile : (*root)["profiles"].items) Check(*root, profile);
    return *std::move(root);
  }

  static std::string NameOf(const JsonValue& root, const JsonValue& frame) {
    const auto& frames = root["shared"]["frames"].items;
    EXPECT_LT(frame.integer(), static_cast<int64_t>(frames.size()));
    return frames[static_cast<size_t>(frame.integer())]["name"].text;
  }

  static void Check(const JsonValue& root, const JsonValue& profile) {
    EXPECT_EQ(profile["unit"].text, "nanoseconds");
    EXPECT_TRUE(profile["name"].is_string());
    if (profile["type"].text == "sampled") {
      EXPECT_EQ(profile["samples"].items.size(), profile["weights"].items.size());
      int64_t sum = 0;
      for (const JsonValue& weight : profile["weights"].items) sum += weight.integer();
      EXPECT_EQ(profile["endValue"].integer(), sum);
      return;
    }
    EXPECT_EQ(profile["type"].text, "evented");
    std::vector<int64_t> open;
    int64_t last = profile["startValue"].integer();
    for (const JsonValue& event : profile["events"].items) {
      EXPECT_GE(event["at"].integer(), last);
      last = event["at"].integer();
      const int64_t frame = event["frame"].integer();
      EXPECT_NE(NameOf(root, event["frame"]), "");
      if (event["type"].text == "O") {
        open.push_back(frame);
      } else {
        ASSERT_FALSE(open.empty());
        EXPECT_EQ(open.back(), frame);
        open.pop_back();
      }
    }
    EXPECT_TRUE(open.empty());
    EXPECT_LE(last, profile["endValue"].integer());
  }

  FakeCaptureReader reader_;
  const uint32_t main_;
};

TEST_F(SpeedscopeTest, AThreadIsAProfileOfEventsAndAGpuOneOfStacks) {
  const uint32_t train = reader_.Stack(0, "/home/me/train.py", 12, "train");
  reader_.Operator(main_, "aten::add", 1000, 1010, {.stack = train})
      .Operator(main_, "aten::mm", 1030, 1080, {.stack = train})
      .ApiCall(main_, "cudaLaunchKernel", 1040, 1045, 1)
      .Kernel("gemm", 1500, 1600, 1)
      .Kernel("gemm", 1600, 1650, 1, {.device = 1});
  const JsonValue root = Export();
  EXPECT_EQ(root["$schema"].text, "https://www.speedscope.app/file-format-schema.json");
  const auto& profiles = root["profiles"].items;
  ASSERT_EQ(profiles.size(), 3u);
  std::vector<std::string> events;
  for (const JsonValue& event : profiles[0]["events"].items) {
    events.push_back(
        StrCat(event["type"].text, " ", NameOf(root, event["frame"]), " ", event["at"].integer()));
  }
  EXPECT_THAT(events,
              ElementsAre("O /home/me/train.py(12): train 0", "O aten::add 0", "C aten::add 10",
                          "O aten::mm 30", "C aten::mm 80", "C /home/me/train.py(12): train 80"));
  const JsonValue& function =
      root["shared"]["frames"]
          .items[static_cast<size_t>(profiles[0]["events"].items[0]["frame"].integer())];
  EXPECT_EQ(function["file"].text, "/home/me/train.py");
  EXPECT_EQ(function["line"].integer(), 12);
  EXPECT_EQ(profiles[1]["name"].text, "GPU 0");
  std::vector<std::string> stack;
  for (const JsonValue& frame : profiles[1]["samples"].items[0].items) {
    stack.push_back(NameOf(root, frame));
  }
  EXPECT_THAT(stack, ElementsAre("GPU 0", "/home/me/train.py(12): train", "aten::mm", "gemm"));
  EXPECT_EQ(profiles[1]["weights"].items[0].integer(), 100);
  EXPECT_EQ(profiles[2]["weights"].items[0].integer(), 50);
}

TEST_F(SpeedscopeTest, RangesThatCannotNestAndHostileNamesMakeAValidFile) {
  for (int64_t i = 0; i < 500; ++i) {
    reader_.Range(main_, StrCat("a\"\\\x01;", i % 7), i, 1000 + i * 7 % 300);
  }
  Export();
}

TEST_F(SpeedscopeTest, ACaptureOfNothingSaysSo) {
  StringSink sink;
  EXPECT_THAT(ExportTrace(reader_, TraceFormat::kSpeedscope, sink),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("neither ranges")));
}

}  // namespace
}  // namespace profd::exporter
