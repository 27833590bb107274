// GetNode: what a daemon says about itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/rpc/rpc_harness.h"

namespace profd::rpc {
namespace {

using NodeTest = RpcTest;

TEST_F(NodeTest, StartAndUptimeOfTheNodeHoldWhenItsClockIsSet) {
  const auto node = [&] {
    v1::Node answer;
    EXPECT_THAT(Do(*me_->node, &v1::NodeService::Stub::GetNode, v1::GetNodeRequest(), &answer),
                Succeeds());
    return answer;
  };
  const v1::Node first = node();
  clock_.Advance(absl::Minutes(1));
  const v1::Node later = node();
  EXPECT_EQ(later.start_time().seconds(), first.start_time().seconds());
  EXPECT_EQ(later.start_time().nanos(), first.start_time().nanos());
  clock_.Set(absl::Hours(1000));
  const v1::Node set = node();
  EXPECT_GE(set.uptime().seconds(), 60);
  EXPECT_LT(set.uptime().seconds(), 3600);
  EXPECT_NEAR(set.start_time().seconds(), first.start_time().seconds() + 1000 * 3600, 2);
}

}  // namespace
}  // namespace profd::rpc
