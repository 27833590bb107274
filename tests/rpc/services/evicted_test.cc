// Which captures were evicted for another one, as its owner and others see it.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/rpc/rpc_harness.h"

namespace profd::rpc {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Captures = v1::CaptureService::Stub;

constexpr int64_t kSomeoneElse = 54321;

class EvictedTest : public RpcTest {
 protected:
  Outcome Get(Stubs& stubs, const std::string& name, v1::Capture* capture) {
    v1::GetCaptureRequest request;
    request.set_name(name);
    return Do(*stubs.captures, &Captures::GetCapture, request, capture);
  }
  static std::string NameOf(const CaptureRecord& record) { return "captures/" + record.id; }
};

TEST_F(EvictedTest, WhatACaptureEvictedIsNamedToItsOwner) {
  const CaptureRecord first = StoreCapture(uid_, /*ranges=*/50'000);
  const CaptureRecord others = StoreCapture(kSomeoneElse, /*ranges=*/100'000);
  // Both have to go: the caller's own, and one of the larger holder.
  store_->SetLimits(1 << 20, 0);
  const TargetNumber target = targets_.Add(MyTarget(10));
  v1::CreateCaptureRequest create;
  create.set_target("targets/" + std::to_string(target));
  create.mutable_spec()->set_steps(1);
  create.mutable_spec()->set_warmup_steps(0);
  v1::Capture created;
  ASSERT_THAT(Do(*me_->captures, &Captures::CreateCapture, create, &created), Succeeds());
  EXPECT_EQ(created.evicted_count(), 0) << "it may not be armed in the end";

  v1::WatchCaptureRequest request;
  request.set_name(created.name());
  grpc::ClientContext context;
  const auto watch = me_->captures->WatchCapture(&context, request);
  ASSERT_TRUE(targets_.WaitForArms(1));
  RunToTheEnd(targets_.LastArm().request.capture_id);
  v1::Capture last;
  while (watch->Read(&last)) continue;
  EXPECT_EQ(last.state(), v1::Capture::COMPLETE);
  EXPECT_THAT(last.evicted_captures(), ElementsAre(NameOf(first)));
  EXPECT_EQ(last.evicted_count(), uid_ == 0 ? 2 : 1);
  v1::Capture shown;
  ASSERT_THAT(Get(*me_, created.name(), &shown), Succeeds());
  EXPECT_THAT(shown.evicted_captures(), ElementsAre(NameOf(first)));
  v1::ListCapturesResponse list;
  ASSERT_THAT(Do(*me_->captures, &Captures::ListCaptures, v1::ListCapturesRequest(), &list),
              Succeeds());
  ASSERT_GT(list.captures_size(), 0);
  EXPECT_THAT(list.captures(0).evicted_captures(), ElementsAre(NameOf(first)));
  EXPECT_EQ(store_->GetCapture(others.id)->evicted, uid_ == 0);
  v1::Capture gone;
  ASSERT_THAT(Get(*me_, NameOf(first), &gone), Succeeds());
  EXPECT_TRUE(gone.deleted() && gone.evicted());
}

TEST_F(EvictedTest, WhatAnotherUsersCaptureEvictedIsCountedOnly) {
  if (uid_ != 0) GTEST_SKIP() << "only root sees captures of others";
  const CaptureRecord first = StoreCapture(kSomeoneElse, /*ranges=*/50'000);
  store_->SetLimits(1 << 20, 0);
  const CaptureRecord second = StoreCapture(kSomeoneElse, /*ranges=*/50'000);
  ASSERT_TRUE(store_->GetCapture(first.id)->deleted);
  v1::Capture shown;
  ASSERT_THAT(Get(*me_, NameOf(second), &shown), Succeeds());
  EXPECT_THAT(shown.evicted_captures(), IsEmpty());
  EXPECT_EQ(shown.evicted_count(), 1);
}

}  // namespace
}  // namespace profd::rpc
