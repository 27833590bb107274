// What others wrote: each finding below was looked at in the file, and is so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>

#include "daemon/base/str_cat.h"
#include "tests/check/checked.h"
#include "tests/fakes/test_data.h"

namespace profd::check {
namespace {

struct RealTrace {
  std::string name;
  int64_t events;
  std::map<std::string, int64_t> findings;
};

class RealTracesTest : public testing::TestWithParam<RealTrace> {};

TEST_P(RealTracesTest, HasItsFindingsAndNoOthers) {
  const std::filesystem::path path = TestData(StrCat("traces/", GetParam().name, ".json.gz"));
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "there is no " << path;
  const auto report = CheckTraceFile(path, {.name = path, .on_progress = {}});
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->event_count, GetParam().events);
  EXPECT_EQ(Broken(*report), GetParam().findings);
  EXPECT_THAT(report->unchecked, testing::IsEmpty());
}

// Slices that do not nest: waits that Kineto put on the row of the work they waited for; calls of
// Python that RecordFunction opened and did not close in order; kernels of one stream that ran at
// the same time.
INSTANTIATE_TEST_SUITE_P(All, RealTracesTest,
                         testing::Values(RealTrace{"alexnet_train", 1408, {{"nesting", 8}}},
                                         RealTrace{"b200_eager", 24656, {{"nesting", 42}}},
                                         RealTrace{"diff_control", 109123, {}},
                                         RealTrace{"diff_test", 105167, {{"nesting", 24}}},
                                         RealTrace{"h100_owlv2_large", 132152, {{"nesting", 7}}},
                                         RealTrace{"h100_qwen1.5_0.5b", 18221, {{"nesting", 1}}},
                                         RealTrace{"nccl_rank", 40573, {}},
                                         RealTrace{
                                             "sglang_graph_capture", 61713, {{"nesting", 2}}}),
                         [](const testing::TestParamInfo<RealTrace>& trace) {
                           std::string name = trace.param.name;
                           for (char& c : name) c = c == '.' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace profd::check
