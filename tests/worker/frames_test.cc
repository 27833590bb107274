// Frames: what crosses the socket pair, also from a peer that breaks the protocol.
#include "daemon/worker/frames.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "daemon/base/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/status_matchers.h"

namespace profd::worker {
namespace {

using absl::StatusCode;

class FramesTest : public testing::Test {
 protected:
  FramesTest() {
    std::array<int, 2> ends{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    ours_.Reset(ends[0]);
    theirs_.Reset(ends[1]);
  }
  void SendRaw(std::array<uint32_t, 2> header) {
    ASSERT_EQ(write(theirs_.get(), header.data(), sizeof(header)), ssize_t{sizeof(header)});
  }

  UniqueFd ours_;
  UniqueFd theirs_;
};

TEST_F(FramesTest, ARequestCarriesItsTextAndOneDescriptor) {
  std::array<int, 2> pipe_ends{};
  ASSERT_EQ(pipe2(pipe_ends.data(), O_CLOEXEC), 0);
  const UniqueFd read_end(pipe_ends[0]);
  UniqueFd write_end(pipe_ends[1]);
  ASSERT_THAT(SendRequestFrame(ours_.get(), EncodeRequest("GetSteps", std::string("\0x", 2)),
                               write_end.get()),
              IsOk());
  write_end.Reset();
  auto frame = ReceiveRequestFrame(theirs_.get(), kMaxRequestBytes);
  ASSERT_THAT(frame, IsOk());
  const auto request = DecodeRequest(frame->payload);
  ASSERT_THAT(request, IsOk());
  EXPECT_EQ(request->table, "GetSteps");
  EXPECT_EQ(request->options, std::string("\0x", 2));
  ASSERT_TRUE(frame->file.valid());
  ASSERT_EQ(write(frame->file.get(), "!", 1), 1);
  char got = 0;
  EXPECT_EQ(read(read_end.get(), &got, 1), 1);
}

TEST_F(FramesTest, AFrameMayComeInPieces) {
  FrameReader reader(ours_.get(), kMaxDataBytes);
  SendRaw({static_cast<uint32_t>(FrameKind::kData), 4});
  ASSERT_EQ(write(theirs_.get(), "ab", 2), 2);
  auto frame = reader.Next(absl::ZeroDuration());
  ASSERT_THAT(frame, IsOk());
  EXPECT_FALSE(frame->has_value());
  ASSERT_EQ(write(theirs_.get(), "cd", 2), 2);
  frame = reader.Next(absl::InfiniteDuration());
  ASSERT_THAT(frame, IsOk());
  ASSERT_TRUE(frame->has_value());
  EXPECT_EQ((*frame)->payload, "abcd");
}

TEST_F(FramesTest, LargeAndEmptyPayloadsArrive) {
  const std::string large(kMaxDataBytes, 'x');
  std::jthread sender([&] {
    EXPECT_THAT(SendFrame(theirs_.get(), FrameKind::kData, large), IsOk());
    EXPECT_THAT(SendFrame(theirs_.get(), FrameKind::kCancel, {}), IsOk());
  });
  FrameReader reader(ours_.get(), kMaxDataBytes);
  auto frame = reader.Next(absl::InfiniteDuration());
  ASSERT_THAT(frame, IsOk());
  EXPECT_EQ((*frame)->payload, large);
  frame = reader.Next(absl::InfiniteDuration());
  ASSERT_THAT(frame, IsOk());
  EXPECT_EQ((*frame)->kind, FrameKind::kCancel);
}

TEST_F(FramesTest, AFrameThatIsTooLargeOrUnknownIsRefusedUnread) {
  {
    FrameReader reader(ours_.get(), kMaxDataBytes);
    SendRaw({static_cast<uint32_t>(FrameKind::kData), uint32_t{kMaxDataBytes} + 1});
    EXPECT_THAT(reader.Next(absl::InfiniteDuration()), StatusIs(StatusCode::kInternal));
  }
  FrameReader reader(ours_.get(), kMaxDataBytes);
  SendRaw({77, 0});
  EXPECT_THAT(reader.Next(absl::InfiniteDuration()), StatusIs(StatusCode::kInternal));
}

TEST_F(FramesTest, TheEndOfTheOtherSideIsUnavailable) {
  FrameReader reader(ours_.get(), kMaxDataBytes);
  SendRaw({static_cast<uint32_t>(FrameKind::kData), 4});
  theirs_.Reset();
  EXPECT_THAT(reader.Next(absl::InfiniteDuration()), StatusIs(StatusCode::kUnavailable));
  EXPECT_THAT(SendFrame(ours_.get(), FrameKind::kData, "x"), StatusIs(StatusCode::kUnavailable));
}

TEST_F(FramesTest, ACancelIsSeenBeforeItIsReceived) {
  EXPECT_FALSE(CancelIsNext(theirs_.get()));
  ASSERT_THAT(SendFrame(ours_.get(), FrameKind::kCancel, {}), IsOk());
  EXPECT_TRUE(CancelIsNext(theirs_.get()));
  EXPECT_TRUE(CancelIsNext(theirs_.get()));
  EXPECT_THAT(ReceiveRequestFrame(theirs_.get(), 0), IsOk());
  EXPECT_FALSE(CancelIsNext(theirs_.get()));
  ours_.Reset();
  EXPECT_TRUE(CancelIsNext(theirs_.get()));
}

TEST(StatusPayloadTest, KeepsCodeReasonAndMessage) {
  const absl::Status status =
      WithReason(absl::ResourceExhaustedError("too much, \"7\""), "OVER_BUDGET");
  const absl::Status got = DecodeStatus(EncodeStatus(status));
  EXPECT_EQ(got.code(), status.code());
  EXPECT_EQ(got.message(), status.message());
  EXPECT_EQ(ReasonOf(got), "OVER_BUDGET");
  EXPECT_THAT(DecodeStatus(EncodeStatus(absl::OkStatus())), IsOk());
  EXPECT_THAT(DecodeStatus("abc"), StatusIs(StatusCode::kInternal));
}

}  // namespace
}  // namespace profd::worker
