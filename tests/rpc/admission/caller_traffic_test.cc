// What callers may send before gRPC sees it.
#include "daemon/rpc/admission/caller_traffic.h"

#include <errno.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string>

#include "daemon/base/str_cat.h"
#include "daemon/rpc/admission/http2_frames.h"
#include "daemon/rpc/admission/receive_hook.h"
#include "tests/fakes/fake_clock.h"
#include "tests/rpc/admission/http2.h"

namespace profd::rpc {
namespace {

using ::testing::HasSubstr;
using ::testing::Optional;

std::span<const std::byte> AsBytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// ---- frames ----

const std::string& Conversation() {
  static const std::string all =
      kPreface + FrameOf(kSettings, 12) + FrameOf(kSettings, 0, /*flags=*/1) +
      FrameOf(kHeaders, 70) + FrameOf(kContinuation, 10) + FrameOf(kData, 255) +
      FrameOf(kData, 256) + FrameOf(kData, 16384) + FrameOf(kWindowUpdate, 4) + FrameOf(kPing, 8) +
      FrameOf(kReset, 4) + FrameOf(250, 3) + FrameOf(kHeaders, 0);
  return all;
}
constexpr FrameCounts kOfConversation = {
    .headers = 2, .resets = 1, .control = 5, .small_data = 1, .settings_acks = 1};

TEST(FrameScannerTest, CountsFramesByType) {
  FrameScanner scanner;
  FrameCounts counts;
  scanner.Scan(AsBytes(Conversation()), counts);
  EXPECT_EQ(counts, kOfConversation);
}

TEST(FrameScannerTest, FramesMayBeCutAnywhere) {
  for (size_t size = 1; size < 40; ++size) {
    FrameScanner scanner;
    FrameCounts counts;
    const std::string_view all = Conversation();
    for (size_t at = 0; at < all.size(); at += size) {
      scanner.Scan(AsBytes(all.substr(at, size)), counts);
    }
    EXPECT_EQ(counts, kOfConversation) << size;
  }
}

// What is unfinished after `frames`, sent in pieces of `piece` bytes.
FrameScanner After(std::string_view frames, size_t piece) {
  FrameScanner scanner;
  FrameCounts counts;
  scanner.Scan(AsBytes(kPreface), counts);
  for (size_t at = 0; at < frames.size(); at += piece) {
    scanner.Scan(AsBytes(frames.substr(at, piece)), counts);
  }
  return scanner;
}

TEST(FrameScannerTest, AMessageIsUnfinishedUntilItsLastByte) {
  const std::string whole = MessageOf(300, 300);
  const std::string part = MessageOf(300, 200);
  const std::string padded = "\x07" + part + std::string(7, 'p');
  constexpr int64_t kPart = 205 + FrameScanner::kSliceBytes;
  struct Case {
    std::string what;
    std::string frames;
    int64_t bytes = 0;
    size_t count = 0;
  };
  const Case cases[] = {
      {"one whole message", FrameWith(kData, whole)},
      {"two in a frame, and a part", FrameWith(kData, whole + whole + part), kPart, 1},
      {"over two frames", FrameWith(kData, part) + FrameWith(kData, std::string(100, 'x'))},
      {"a part of the prefix", FrameWith(kData, whole + std::string(3, '\0')),
       3 + FrameScanner::kSliceBytes, 1},
      {"no bytes", FrameWith(kData, "")},
      {"an empty message", FrameWith(kData, MessageOf(0, 0))},
      {"of two streams",
       FrameWith(kData, part, 0, 1) + FrameWith(kData, part, 0, 3) +
           FrameWith(kData, std::string(100, 'x'), 0, 1),
       kPart, 1},
      {"two of them cost no more than what came since the first began",
       FrameWith(kData, part, 0, 1) + FrameWith(kData, part, 0, 3), kPart + 9 + 205, 2},
      {"the newer of two ends",
       FrameWith(kData, part, 0, 1) + FrameWith(kData, part, 0, 3) +
           FrameWith(kData, std::string(100, 'x'), 0, 3),
       kPart, 1},
      {"the call ends", FrameWith(kData, part, /*flags=*/1)},
      {"the call ends with trailers", FrameWith(kData, part) + FrameWith(kHeaders, "x", 1)},
      {"the call goes on with other headers", FrameWith(kData, part) + FrameWith(kHeaders, "x"),
       kPart, 1},
      {"the call is reset", FrameWith(kData, part) + FrameWith(kReset, "1234")},
      {"another call is reset", FrameWith(kData, part) + FrameWith(kReset, "1234", 0, 3), kPart, 1},
      {"padding is not part of it", FrameWith(kData, padded, /*flags=*/8), kPart, 1},
      {"padding after its end",
       FrameWith(kData, "\x07" + whole + std::string(7, 'p'), /*flags=*/8)},
      {"more padding than there is", FrameWith(kData, "\xff" + part, /*flags=*/8)},
  };
  for (const Case& one : cases) {
    for (const size_t piece : {size_t{1}, size_t{2}, size_t{7}, size_t{1000}}) {
      const FrameScanner scanner = After(one.frames, piece);
      EXPECT_EQ(scanner.unfinished_bytes(), one.bytes) << one.what << " in pieces of " << piece;
      EXPECT_EQ(scanner.unfinished_count(), one.count) << one.what << " in pieces of " << piece;
    }
  }
}

// ---- budgets ----

class CallerTrafficTest : public testing::Test {
 protected:
  FakeClock clock_;
  CallerTraffic traffic_{clock_};
};

TEST_F(CallerTrafficTest, ResetsAreLimitedPerCallerAndTheBudgetFillsAgain) {
  const FrameCounts resets = {.resets = 1000};
  EXPECT_EQ(traffic_.Take("a", resets), std::nullopt);
  EXPECT_THAT(traffic_.Take("a", {.resets = 1}), Optional(HasSubstr("500 resets")));
  EXPECT_EQ(traffic_.Take("b", resets), std::nullopt) << "another caller has its own";
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(traffic_.Take("a", {.resets = 500}), std::nullopt);
  EXPECT_NE(traffic_.Take("a", {.resets = 1}), std::nullopt);
}

TEST_F(CallerTrafficTest, EachKindHasItsLimit) {
  EXPECT_THAT(traffic_.Take("1", {.headers = 12'001}), Optional(HasSubstr("calls")));
  EXPECT_THAT(traffic_.Take("2", {.control = 1001}), Optional(HasSubstr("control frames")));
  EXPECT_THAT(traffic_.Take("3", {.small_data = 24'001}), Optional(HasSubstr("DATA")));
  for (int i = 0; i < 400; ++i) EXPECT_EQ(traffic_.TakeConnection("4"), std::nullopt);
  EXPECT_THAT(traffic_.TakeConnection("4"), Optional(HasSubstr("new connections")));
}

TEST_F(CallerTrafficTest, QuietCallersAreForgottenAndBusyOnesAreNot) {
  constexpr int kMost = CallerTraffic::kMaxBudgets;
  for (int i = 1; i < kMost; ++i) traffic_.Take(StrCat(i), {.resets = 1});
  clock_.Advance(absl::Seconds(11));
  EXPECT_EQ(traffic_.Take("busy", {.resets = 1000}), std::nullopt);
  traffic_.Take("one more", {.resets = 1});
  EXPECT_EQ(traffic_.budget_count(), 2U);
  EXPECT_NE(traffic_.Take("busy", {.resets = 1}), std::nullopt);
}

TEST_F(CallerTrafficTest, CallersForWhomThereIsNoRoomShareABudget) {
  constexpr int kMost = CallerTraffic::kMaxBudgets;
  for (int i = 0; i < kMost; ++i) traffic_.Take(StrCat(i), {.resets = 1});
  EXPECT_EQ(traffic_.Take("a", {.resets = 600}), std::nullopt);
  EXPECT_NE(traffic_.Take("b", {.resets = 600}), std::nullopt);
  EXPECT_EQ(traffic_.budget_count(), CallerTraffic::kMaxBudgets + 1);
  EXPECT_EQ(traffic_.Take("0", {.resets = 600}), std::nullopt) << "it has its own";
}

TEST_F(CallerTrafficTest, UnfinishedMessagesOfACallerAreLimited) {
  constexpr int64_t kMost = CallerTraffic::kMaxUnfinishedBytes;
  EXPECT_EQ(traffic_.AddUnfinished("a", kMost), std::nullopt);
  EXPECT_THAT(traffic_.AddUnfinished("a", 1), Optional(HasSubstr("messages without an end")));
  EXPECT_EQ(traffic_.AddUnfinished("b", kMost), std::nullopt) << "another caller has its own";
  EXPECT_EQ(traffic_.AddUnfinished("a", -1000), std::nullopt);
  EXPECT_EQ(traffic_.AddUnfinished("a", 999), std::nullopt);
  EXPECT_EQ(traffic_.AddUnfinished("a", -kMost), std::nullopt);
  EXPECT_EQ(traffic_.AddUnfinished("b", -kMost), std::nullopt);
  EXPECT_EQ(traffic_.unfinished_bytes(), 0);
}

TEST_F(CallerTrafficTest, WhereAllCallersHaveManyUnfinishedMessagesThoseWithFewAreSpared) {
  constexpr int64_t kMost = CallerTraffic::kMaxUnfinishedBytes;
  int callers = 0;
  while (traffic_.unfinished_bytes() <= CallerTraffic::kManyUnfinishedBytes - kMost) {
    ASSERT_EQ(traffic_.AddUnfinished(StrCat(callers++), kMost), std::nullopt);
  }
  EXPECT_NE(traffic_.AddUnfinished("one more", kMost), std::nullopt);
  EXPECT_NE(traffic_.AddUnfinished("0", 1), std::nullopt);
  EXPECT_EQ(traffic_.AddUnfinished("few", CallerTraffic::kFewUnfinishedBytes), std::nullopt);
  EXPECT_NE(traffic_.AddUnfinished("few", 1), std::nullopt);
}

// ---- connections, through recvmsg() as gRPC calls it ----

class CallerMeterTest : public testing::Test {
 protected:
  CallerMeterTest() {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    grpcs_ = UniqueFd(fds[0]);
    callers_ = UniqueFd(fds[1]);
    ObserveReceives(grpcs_.get(), std::make_shared<CallerMeter>(traffic_, "a", "a test", closer_));
  }
  ~CallerMeterTest() override { ObserveReceives(grpcs_.get(), nullptr); }

  void Send(std::string_view bytes) const {
    ASSERT_EQ(send(callers_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  // As gRPC reads: without room for control data.
  ssize_t Receive(std::string& bytes) const {
    char first[10];
    char second[8192];
    iovec parts[2] = {{.iov_base = first, .iov_len = sizeof first},
                      {.iov_base = second, .iov_len = sizeof second}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    const ssize_t got = recvmsg(grpcs_.get(), &message, 0);
    EXPECT_EQ(message.msg_control, nullptr);
    EXPECT_EQ(message.msg_controllen, 0U);
    if (got <= 0) return got;
    const auto size = static_cast<size_t>(got);
    bytes.append(first, std::min(size, sizeof first));
    if (size > sizeof first) bytes.append(second, size - sizeof first);
    return got;
  }

  FakeClock clock_;
  const std::shared_ptr<CallerTraffic> traffic_ = std::make_shared<CallerTraffic>(clock_);
  const std::shared_ptr<ForeignCloser> closer_ = std::make_shared<ForeignCloser>();
  UniqueFd grpcs_;
  UniqueFd callers_;
};

TEST_F(CallerMeterTest, TheHookIsWhatLibrariesCall) { EXPECT_TRUE(ReceiveHookIsInPlace()); }

TEST_F(CallerMeterTest, BytesComeThroughUnchanged) {
  Send(Conversation());
  std::string received;
  while (received.size() < Conversation().size()) ASSERT_GT(Receive(received), 0);
  EXPECT_EQ(received, Conversation());
}

TEST_F(CallerMeterTest, AFloodOfResetsEndsTheConnection) {
  Send(kPreface + FrameOf(kSettings, 0) + FrameOf(kSettings, 0, /*flags=*/1));
  std::string received;
  ASSERT_GT(Receive(received), 0);
  std::string flood;
  for (int i = 0; i < 100; ++i) flood += FrameOf(kHeaders, 5) + FrameOf(kReset, 4);
  int floods = 0;
  while (floods < 100) {
    Send(flood);
    if (Receive(received) < 0) break;
    ++floods;
  }
  EXPECT_EQ(floods, 10);
  EXPECT_EQ(errno, ECONNRESET);
  char byte;
  EXPECT_EQ(recv(callers_.get(), &byte, 1, 0), 0) << "the caller sees the end";
}

TEST_F(CallerMeterTest, CallsBeforeTheSettingsAreAcknowledgedAreFew) {
  std::string bytes = kPreface + FrameOf(kSettings, 0);
  for (int i = 0; i < 64; ++i) bytes += FrameOf(kHeaders, 5);
  Send(bytes);
  std::string received;
  EXPECT_GT(Receive(received), 0);
  Send(FrameOf(kHeaders, 5));
  EXPECT_EQ(Receive(received), -1);
}

TEST_F(CallerMeterTest, MessagesWithoutAnEndEndTheConnectionAndCountUntilThen) {
  Send(kPreface + FrameOf(kSettings, 0) + FrameOf(kSettings, 0, /*flags=*/1) +
       FrameWith(kData, MessageOf(1 << 30, 4096)));
  std::string received;
  ASSERT_GT(Receive(received), 0);
  EXPECT_EQ(traffic_->unfinished_bytes(), 4096 + 5 + FrameScanner::kSliceBytes);
  constexpr int64_t kOthers = CallerTraffic::kMaxUnfinishedBytes - FrameScanner::kSliceBytes - 8192;
  traffic_->AddUnfinished("a", kOthers);
  Send(FrameWith(kData, std::string(4000, 'x')));
  ASSERT_GT(Receive(received), 0);
  Send(FrameWith(kData, std::string(4000, 'x')));
  EXPECT_EQ(Receive(received), -1);
  EXPECT_EQ(errno, ECONNRESET);
  ObserveReceives(grpcs_.get(), nullptr);
  EXPECT_EQ(traffic_->unfinished_bytes(), kOthers);
}

// Its observer stays until the number is used again.
TEST_F(CallerMeterTest, AnEndedConnectionGivesBackItsMessagesWithoutAnEnd) {
  const auto meter = std::make_shared<CallerMeter>(traffic_, "a", "a test", closer_);
  ObserveReceives(grpcs_.get(), meter);
  Send(kPreface + FrameOf(kSettings, 0) + FrameOf(kSettings, 0, /*flags=*/1) +
       FrameWith(kData, MessageOf(1 << 30, 4096)));
  std::string received;
  ASSERT_GT(Receive(received), 0);
  EXPECT_GT(traffic_->unfinished_bytes(), 4096);
  meter->End();
  EXPECT_EQ(traffic_->unfinished_bytes(), 0);
  Send(FrameWith(kData, std::string(4000, 'x')));
  ASSERT_GT(Receive(received), 0);
  EXPECT_EQ(traffic_->unfinished_bytes(), 0);
}

TEST_F(CallerMeterTest, ManySmallMessagesWithoutAnEndEndTheConnection) {
  Send(kPreface + FrameOf(kSettings, 0) + FrameOf(kSettings, 0, /*flags=*/1));
  std::string received;
  ASSERT_GT(Receive(received), 0);
  std::string frames;
  for (int stream = 1; stream < 256; stream += 2) {
    frames += FrameWith(kData, std::string(1, '\0'), 0, stream);
  }
  Send(frames);
  ASSERT_GT(Receive(received), 0);
  std::string more;
  for (int stream = 0; stream < 256; stream += 2) {
    more += FrameWith(kData, std::string(1, '\0'), 0, stream);
  }
  Send(more);
  ASSERT_GT(Receive(received), 0) << "256 are let in";
  std::string next = FrameWith(kData, std::string(1, '\0'));
  next[7] = 1;  // Stream 257.
  Send(next);
  EXPECT_EQ(Receive(received), -1);
}

TEST_F(CallerMeterTest, PassedDescriptorsEndTheConnectionAndAreClosedElsewhere) {
  int pipe_ends[2];
  ASSERT_EQ(pipe2(pipe_ends, O_CLOEXEC), 0);
  UniqueFd reader(pipe_ends[0]);
  UniqueFd writer(pipe_ends[1]);
  char byte = 'x';
  iovec part{.iov_base = &byte, .iov_len = 1};
  const int fd = writer.get();
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* const rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof fd);
  std::memcpy(CMSG_DATA(rights), &fd, sizeof fd);
  ASSERT_EQ(sendmsg(callers_.get(), &message, MSG_NOSIGNAL), 1);
  writer.Reset();
  std::string received;
  EXPECT_EQ(Receive(received), -1);
  // The last descriptor of the pipe's writing end is closed: its reader sees the end.
  EXPECT_EQ(read(reader.get(), &byte, 1), 0);
}

}  // namespace
}  // namespace profd::rpc
