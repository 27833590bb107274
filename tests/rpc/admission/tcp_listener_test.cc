// The port of remote callers: where it may be, and who is let in.
#include "daemon/rpc/admission/tcp_listener.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "daemon/base/reason.h"
#include "daemon/quota/ledger.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/status_matchers.h"

namespace profd::rpc {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr quota::Resource kRemoteConnections = quota::Resource::kRemoteConnections;

TEST(ListenTcpTest, PlaintextIsForLoopbackAlone) {
  for (const char* address : {"0.0.0.0:0", "*:0", "[::]:0"}) {
    const auto listener = ListenTcp(address, /*loopback_only=*/true);
    EXPECT_THAT(listener.status(), StatusIs(absl::StatusCode::kInvalidArgument)) << address;
    EXPECT_THAT(std::string(listener.status().message()), HasSubstr("from other machines"));
  }
  for (const char* address : {"127.0.0.1:0", "127.1.2.3:0", "localhost:0"}) {
    EXPECT_THAT(ListenTcp(address, /*loopback_only=*/true), IsOk()) << address;
  }
}

TEST(ListenTcpTest, AllAddressesAreAsked) {
  const auto listener = ListenTcp("*:0", /*loopback_only=*/false);
  ASSERT_THAT(listener, IsOk());
  EXPECT_THAT(LocalAddressOf(listener->get()),
              testing::AnyOf(StartsWith("[::]:"), StartsWith("0.0.0.0:")));
}

TEST(ListenTcpTest, WhatIsNoAddressIsRefused) {
  for (const char* address : {"", "7411", ":7411", "no.such.host.invalid:1", "127.0.0.1:x"}) {
    EXPECT_THAT(ListenTcp(address, /*loopback_only=*/false).status(),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << address;
  }
}

TEST(ListenTcpTest, ATakenPortIsNamed) {
  const auto first = ListenTcp("127.0.0.1:0", /*loopback_only=*/true);
  ASSERT_THAT(first, IsOk());
  const auto second = ListenTcp(LocalAddressOf(first->get()), /*loopback_only=*/true);
  EXPECT_THAT(second.status(), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("Choose another port"));
}

// A listener whose connections are kept, as gRPC would.
class TcpListenerTest : public testing::Test {
 protected:
  void Start(TcpListener::Limits limits) {
    auto socket = ListenTcp("127.0.0.1:0", /*loopback_only=*/true);
    ASSERT_THAT(socket, IsOk());
    auto listener = TcpListener::Create(*std::move(socket), std::move(limits));
    ASSERT_THAT(listener, IsOk());
    listener_ = *std::move(listener);
    listener_->Start([this](UniqueFd connection) {
      const absl::MutexLock lock(&mu_);
      admitted_.push_back(std::move(connection));
    });
  }

  UniqueFd Connect() const {
    const std::string address = listener_->address();
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
    return fd;
  }

  // The daemon's end of the next connection.
  UniqueFd Admitted() {
    const absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(
        +[](std::deque<UniqueFd>* waiting) { return !waiting->empty(); }, &admitted_));
    UniqueFd connection = std::move(admitted_.front());
    admitted_.pop_front();
    return connection;
  }

  // By the name that gRPC has for it: the caller's address.
  static std::string GrpcPeerOf(const UniqueFd& caller) {
    return "ipv4:" + LocalAddressOf(caller.get());
  }

  // Waits for the daemon to hang up.
  static bool IsHungUp(const UniqueFd& caller) {
    char byte = 0;
    return recv(caller.get(), &byte, 1, 0) <= 0;
  }

  static bool HasHungUp(const UniqueFd& caller) {
    pollfd waited{caller.get(), POLLIN, 0};
    return poll(&waited, 1, 0) == 1;
  }

  // As gRPC ends a connection.
  static void End(UniqueFd connection) { shutdown(connection.get(), SHUT_RDWR); }

  quota::Ledger ledger_{quota::Limits::ForMemory(int64_t{2} << 30), Clock::Real()};
  absl::Mutex mu_;
  std::deque<UniqueFd> admitted_;
  FakeClock clock_;
  std::unique_ptr<TcpListener> listener_;
};

TEST_F(TcpListenerTest, AtItsAddressesLimitANewConnectionReplacesTheOldestIdleOne) {
  Start({.max_connections = 10, .max_connections_per_address = 2});
  const UniqueFd first = Connect();
  const UniqueFd first_end = Admitted();
  const UniqueFd second = Connect();
  const UniqueFd second_end = Admitted();
  const UniqueFd third = Connect();
  const UniqueFd third_end = Admitted();
  EXPECT_TRUE(IsHungUp(first));
  pollfd open{.fd = second.get(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&open, 1, 0), 0);
}

TEST_F(TcpListenerTest, IdleConnectionsOfOneAddressLockNobodyOut) {
  Start({.ledger = &ledger_});
  std::vector<UniqueFd> held;
  for (int i = 0; i < 256; ++i) {
    held.push_back(Connect());
    held.push_back(Admitted());
  }
  // Callers from the same address get in and may call.
  for (int i = 0; i < 100; ++i) {
    held.push_back(Connect());
    const std::string peer = GrpcPeerOf(held.back());
    held.push_back(Admitted());
    ASSERT_THAT(listener_->Claim(peer, "cn:alice"), IsOk());
  }
}

TEST_F(TcpListenerTest, NewConnectionsThatMakeNoCallsAreLimitedPerSecond) {
  Start({.max_new_per_second = 2, .max_new_at_once = 3, .clock = &clock_});
  std::vector<UniqueFd> held;
  const auto is_admitted = [&] {
    held.push_back(Connect());
    held.push_back(Admitted());
    return !HasHungUp(held[held.size() - 2]);
  };
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(is_admitted());
  EXPECT_TRUE(IsHungUp(Connect()));
  // A caller is not counted once it calls.
  ASSERT_THAT(listener_->Claim(GrpcPeerOf(held[0]), "cn:alice"), IsOk());
  EXPECT_TRUE(is_admitted());
  EXPECT_TRUE(IsHungUp(Connect()));
  clock_.Advance(absl::Seconds(1));
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(is_admitted());
  EXPECT_TRUE(IsHungUp(Connect()));
  clock_.Advance(absl::Hours(1));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(is_admitted());
  EXPECT_TRUE(IsHungUp(Connect()));
  listener_->Stop();
}

TEST_F(TcpListenerTest, ConnectionsThatHaveMadeACallAreNotReplaced) {
  Start({.max_connections = 1, .max_connections_per_address = 10});
  const UniqueFd first = Connect();
  const UniqueFd first_end = Admitted();
  ASSERT_THAT(listener_->Claim(GrpcPeerOf(first), "cn:alice"), IsOk());
  EXPECT_TRUE(IsHungUp(Connect()));
}

TEST_F(TcpListenerTest, OverAllANewConnectionReplacesTheOldestIdleOne) {
  Start({.max_connections = 2, .max_connections_per_address = 10});
  const UniqueFd first = Connect();
  const UniqueFd first_end = Admitted();
  ASSERT_THAT(listener_->Claim(GrpcPeerOf(first), "cn:alice"), IsOk());
  const UniqueFd second = Connect();
  const UniqueFd second_end = Admitted();
  const UniqueFd third = Connect();
  const UniqueFd third_end = Admitted();
  EXPECT_TRUE(IsHungUp(second));
}

TEST_F(TcpListenerTest, APrincipalHasSoManyConnections) {
  ledger_.SetLimit(kRemoteConnections, {.capacity = 10, .per_principal = 1});
  Start({.ledger = &ledger_});
  const UniqueFd first = Connect();
  UniqueFd first_end = Admitted();
  const UniqueFd second = Connect();
  const UniqueFd second_end = Admitted();
  const quota::Principal alice = quota::RemotePrincipal("cn:alice");
  EXPECT_EQ(ledger_.TotalUse(kRemoteConnections), 0) << "nobody knows yet whose they are";
  EXPECT_THAT(listener_->Claim(GrpcPeerOf(first), "cn:alice"), IsOk());
  EXPECT_THAT(listener_->Claim(GrpcPeerOf(first), "cn:alice"), IsOk()) << "its next call";
  EXPECT_EQ(ledger_.Use(alice, kRemoteConnections), 1);
  const absl::Status refused = listener_->Claim(GrpcPeerOf(second), "cn:alice");
  EXPECT_EQ(ReasonOf(refused), quota::kQuotaExceeded);
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("quota 'remote connections' of cn:alice"),
                    HasSubstr("largest holder: cn:alice with 1")));
  EXPECT_THAT(listener_->Claim(GrpcPeerOf(second), "cn:bob"), IsOk());
  EXPECT_THAT(listener_->Claim("ipv4:192.0.2.1:1", "cn:alice"), IsOk()) << "one that ends just now";
  EXPECT_EQ(ledger_.TotalUse(kRemoteConnections), 2);
  End(std::move(first_end));
  while (ledger_.Use(alice, kRemoteConnections) > 0) std::this_thread::yield();
}

TEST_F(TcpListenerTest, NobodyIsAcceptedOnceItHasStopped) {
  Start({});
  listener_->Stop();
  const UniqueFd caller = Connect();  // The kernel answers for it.
  pollfd waiting{.fd = caller.get(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&waiting, 1, 0), 0);
  const absl::MutexLock lock(&mu_);
  EXPECT_TRUE(admitted_.empty());
}

}  // namespace
}  // namespace profd::rpc
