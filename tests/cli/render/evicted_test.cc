// The captures that were evicted for another one, as text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "cli/base/style.h"
#include "cli/render/capture.h"
#include "cli/render/group_view.h"

namespace profd::cli {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(EvictedTest, CapturesAreNamedInOneLine) {
  CaptureView view;
  EXPECT_THAT(RenderCapture(view, Style{}), Not(HasSubstr("To make room")));
  view.evicted_ids = {"01J00000000000000000000002", "01J00000000000000000000003"};
  view.evicted_count = 2;
  EXPECT_THAT(RenderCapture(view, Style{}),
              EndsWith("\nTo make room, the events of 2 older captures were removed: "
                       "01J00000000000000000000002, 01J00000000000000000000003 "
                       "(to keep the events of a capture: profctl pin ID)\n"));
  EXPECT_THAT(RenderGroup(std::vector<CaptureView>{CaptureView(), view}, Style{}),
              HasSubstr("events of 2 older captures were removed: 01J00000000000000000000002, "));
  view.evicted_count = 5;
  EXPECT_THAT(RenderCapture(view, Style{}),
              HasSubstr("01J00000000000000000000003, and 3 of other users (to"));
  view.evicted_ids.resize(16, "01J00000000000000000000003");
  view.evicted_count = 20;
  EXPECT_THAT(RenderCapture(view, Style{}),
              HasSubstr("01J00000000000000000000003, and 4 more (to"));
  view.evicted_ids.clear();
  view.evicted_count = 1;
  EXPECT_THAT(RenderCapture(view, Style{}),
              EndsWith("events of 1 older capture of other users were removed\n"));
}

}  // namespace
}  // namespace profd::cli
