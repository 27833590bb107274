// Who is let in: the kernel's word about a peer, the table of connections, the socket.
#include "daemon/rpc/admission/peer.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <barrier>
#include <cstring>
#include <fstream>
#include <optional>
#include <thread>
#include <vector>

#include "daemon/rpc/admission/control_listener.h"
#include "daemon/rpc/admission/peer_table.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/status_matchers.h"
#include "tests/rpc/rpc_harness.h"

namespace profd::rpc {
namespace {

using ::testing::HasSubstr;
using Code = absl::StatusCode;

const std::string kContainerA(64, 'a');
const std::string kContainerB(64, 'b');

// ---- containers ----

TEST(ContainerTest, RuntimesPutTheIdIntoThePath) {
  for (const std::string& text : {
           "0::/system.slice/docker-" + kContainerA + ".scope\n",
           "0::/docker/" + kContainerA + "\n",
           "12:cpu:/kubepods/besteffort/podx/" + kContainerA + "\n0::/init.scope\n",
           "0::/kubepods.slice/pod1.slice/cri-containerd-" + kContainerA + ".scope\n",
           "0::/kubepods.slice/crio-" + kContainerA + ".scope/container\n",
           "0::/machine.slice/libpod-" + kContainerA + ".scope",
           "0::/../" + kContainerA,
           std::string("0::/").append(kContainerB).append("/nested/").append(kContainerA),
       }) {
    EXPECT_EQ(ContainerOf(text), kContainerA) << text;
  }
}

TEST(ContainerTest, OtherPathsAreNoContainers) {
  for (const std::string& text :
       {std::string(), std::string("0::/\n"), std::string("0::/user.slice/user-1000.slice\n"),
        "0::/x" + kContainerA, "0::/" + kContainerA + "a", "0::/" + kContainerA + "x",
        "0::/" + kContainerA.substr(1)}) {
    EXPECT_EQ(ContainerOf(text), "") << text;
  }
}

// ---- who is outside ----

const ProcessPlace kHere{.user_namespace = "user:[1]", .pid_namespace = "pid:[2]", .container = ""};

TEST(OutsideTest, TheSamePlaceIsInside) {
  EXPECT_FALSE(IsOutside(0, 7, kHere, kHere));
  EXPECT_FALSE(IsOutside(1000, 7, kHere, kHere));
}

TEST(OutsideTest, AnotherNamespaceOrContainerIsOutside) {
  for (const int64_t uid : {0, 1000}) {
    ProcessPlace place = kHere;
    place.user_namespace = "user:[9]";
    EXPECT_TRUE(IsOutside(uid, 7, place, kHere));
    place = kHere;
    place.pid_namespace = "pid:[9]";
    EXPECT_TRUE(IsOutside(uid, 7, place, kHere));
    place = kHere;
    place.container = kContainerA;
    EXPECT_TRUE(IsOutside(uid, 7, place, kHere));
    EXPECT_TRUE(IsOutside(uid, 0, kHere, kHere)) << "no pid here: in another pid namespace";
  }
}

TEST(OutsideTest, ADaemonInAContainerServesThatContainer) {
  ProcessPlace ours = kHere;
  ours.container = kContainerA;
  EXPECT_FALSE(IsOutside(0, 7, ours, ours));
  EXPECT_TRUE(IsOutside(0, 7, kHere, ours));
}

TEST(OutsideTest, WhereNothingCanBeReadRootIsRefused) {
  EXPECT_TRUE(IsOutside(0, 7, ProcessPlace(), kHere));
  EXPECT_FALSE(IsOutside(1000, 7, ProcessPlace(), kHere));
}

// ---- the table ----

TEST(PeerTableTest, FindsAConnectionByGrpcsName) {
  PeerTable table(10, 10);
  ASSERT_TRUE(table.Reserve({.uid = 1000}));
  table.Add(4103, {.principal = {.uid = 1000, .gid = 100}, .pid = 7, .outside = false});
  const auto peer = table.Find("fd:4103");
  ASSERT_TRUE(peer.has_value());
  EXPECT_EQ(peer->principal.uid, 1000);
  for (const char* name : {"fd:4104", "fd:", "fd:4103x", "fd:-1", "unix:", "", "fd:99999999999"}) {
    EXPECT_FALSE(table.Find(name).has_value()) << name;
  }
}

TEST(PeerTableTest, ALateEndDoesNotRemoveTheNumbersNextOwner) {
  PeerTable table(10, 10);
  ASSERT_TRUE(table.Reserve({.uid = 1000}));
  const PeerTable::Ticket first = table.Add(4103, {.principal = {.uid = 1000}});
  ASSERT_TRUE(table.Reserve({.uid = 0}));
  table.Add(4103, {.principal = {.uid = 0}});
  table.Remove(first);
  const auto peer = table.Find("fd:4103");
  ASSERT_TRUE(peer.has_value());
  EXPECT_EQ(peer->principal.uid, 0);
  EXPECT_EQ(table.size(), 1);
}

TEST(PeerTableTest, ConnectionsAreCountedPerUidAndOverAll) {
  PeerTable table(3, 2);
  std::vector<PeerTable::Ticket> tickets;
  for (int fd = 10; fd < 12; ++fd) {
    ASSERT_TRUE(table.Reserve({.uid = 1000}));
    tickets.push_back(table.Add(fd, {.principal = {.uid = 1000}}));
  }
  EXPECT_FALSE(table.Reserve({.uid = 1000})) << "two are its limit";
  ASSERT_TRUE(table.Reserve({.uid = 0}));
  EXPECT_FALSE(table.Reserve({.uid = 5})) << "three are the limit";
  table.Release({.uid = 0});
  EXPECT_TRUE(table.Reserve({.uid = 5}));
  table.Remove(tickets[0]);
  table.Remove(tickets[0]);
  EXPECT_TRUE(table.Reserve({.uid = 1000}));
  EXPECT_FALSE(table.Reserve({.uid = 1000}));
}

TEST(PeerTableTest, TheLargestHolderGetsNoMoreConnectionsAndRootHasAReserve) {
  FakeClock clock;
  quota::Limits limits = quota::Limits::ForMemory(int64_t{512} << 20);
  limits.Set(quota::Resource::kConnections, {.capacity = 10, .reserve = 2});
  quota::Ledger ledger(limits, clock);
  PeerTable table(100, 100, &ledger);
  PeerTable::Ticket last;
  for (int fd = 10; fd < 18; ++fd) {
    ASSERT_TRUE(table.Reserve({.uid = 1000})) << "alone, it has all but the reserve";
    last = table.Add(fd, {.principal = {.uid = 1000}});
  }
  EXPECT_FALSE(table.Reserve({.uid = 1000}));
  EXPECT_TRUE(table.Reserve({.uid = 0})) << "the reserve is root's";
  EXPECT_FALSE(table.Reserve({.uid = 1001})) << "nothing is taken away";
  EXPECT_EQ(ledger.TotalUse(quota::Resource::kConnections), 9);

  table.Remove(last);
  EXPECT_FALSE(table.Reserve({.uid = 1000})) << "it has more than half";
  EXPECT_TRUE(table.Reserve({.uid = 1001}));
}

// ---- the socket ----

class ListenTest : public testing::Test {
 protected:
  std::filesystem::path path() const { return folder_.path() / "control.sock"; }
  TempFolder folder_;
};

TEST_F(ListenTest, MakesASocketEverybodyMayConnectTo) {
  const auto listener = ListenAt(folder_.path());
  ASSERT_THAT(listener, IsOk());
  struct stat info {};
  ASSERT_EQ(stat(path().c_str(), &info), 0);
  EXPECT_TRUE(S_ISSOCK(info.st_mode));
  EXPECT_EQ(info.st_mode & 0777, 0666u);
  EXPECT_THAT(CheckInheritedListener(listener->get()), IsOk());
}

TEST_F(ListenTest, ASocketThatNobodyAnswersOnIsReplaced) {
  { const auto dead = ListenAt(folder_.path()); }
  ASSERT_TRUE(std::filesystem::exists(path()));
  EXPECT_THAT(ListenAt(folder_.path()), IsOk());
}

TEST_F(ListenTest, ALiveDaemonIsLeftAlone) {
  const auto live = ListenAt(folder_.path());
  EXPECT_THAT(ListenAt(folder_.path()),
              StatusIs(Code::kFailedPrecondition, HasSubstr("another profd answers")));
  EXPECT_TRUE(std::filesystem::exists(path()));
}

TEST_F(ListenTest, OfDaemonsThatStartTogetherOneListens) {
  constexpr int kRounds = 200;
  for (int round = 0; round < kRounds; ++round) {
    std::array<std::optional<absl::StatusOr<UniqueFd>>, 4> sockets;
    std::barrier start(std::ssize(sockets));
    std::vector<std::thread> daemons;
    daemons.reserve(sockets.size());
    for (auto& socket : sockets) {
      daemons.emplace_back([this, &start, &socket] {
        start.arrive_and_wait();
        socket.emplace(ListenAt(folder_.path()));
      });
    }
    for (std::thread& daemon : daemons) daemon.join();
    int listening = 0;
    for (const auto& socket : sockets) {
      listening += socket->ok() ? 1 : 0;
      if (!socket->ok()) {
        EXPECT_THAT(socket->status(), StatusIs(Code::kFailedPrecondition));
      }
    }
    ASSERT_EQ(listening, 1) << "in round " << round;
  }
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / ".starting"));
}

TEST_F(ListenTest, WhatIsNoSocketIsNotRemoved) {
  std::ofstream(path()) << "precious";
  EXPECT_THAT(ListenAt(folder_.path()),
              StatusIs(Code::kFailedPrecondition, HasSubstr("not a socket")));
  EXPECT_TRUE(std::filesystem::exists(path()));
}

TEST_F(ListenTest, AFolderOthersCanWriteToIsRefused) {
  for (const mode_t mode : {0777, 01777, 0775}) {
    chmod(folder_.path().c_str(), mode);
    EXPECT_THAT(ListenAt(folder_.path()),
                StatusIs(Code::kFailedPrecondition, HasSubstr("writable only by its owner")));
  }
  EXPECT_THAT(ListenAt(folder_.path() / "missing"), StatusIs(Code::kNotFound));
}

TEST_F(ListenTest, APathTooLongForASocketIsNamed) {
  const std::filesystem::path deep = folder_.path() / std::string(100, 'd');
  std::filesystem::create_directory(deep);
  chmod(deep.c_str(), 0755);
  EXPECT_THAT(ListenAt(deep), StatusIs(Code::kInvalidArgument, HasSubstr("--socket-dir")));
}

TEST_F(ListenTest, OnlyAListeningStreamSocketIsInherited) {
  int pair[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  const UniqueFd a(pair[0]);
  const UniqueFd b(pair[1]);
  EXPECT_THAT(CheckInheritedListener(a.get()), StatusIs(Code::kInvalidArgument));
  EXPECT_THAT(CheckInheritedListener(STDIN_FILENO), StatusIs(Code::kInvalidArgument));
}

// ---- the kernel's word ----

// Accepts one connection of a child that did `change` first.
// Who connected may be a child of the child, which is killed but not ours to wait for.
void AwaitEndOfPeer(int connection) {
  constexpr int kSoPeerPidfd = 77;
  int pidfd = -1;
  socklen_t size = sizeof pidfd;
  if (getsockopt(connection, SOL_SOCKET, kSoPeerPidfd, &pidfd, &size) != 0) return;
  const UniqueFd owned(pidfd);
  pollfd ended{.fd = pidfd, .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&ended, 1, 30'000), 1);
}

class IdentifyTest : public ListenTest {
 protected:
  // nullopt: the child could not do it.
  std::optional<Peer> PeerThat(const std::function<bool()>& change, bool end_first = false) {
    auto listener = ListenAt(folder_.path());
    EXPECT_THAT(listener, IsOk());
    ForeignPeer child(path(), change);
    if (!child.connected()) return std::nullopt;
    if (end_first) child.End();
    const UniqueFd connection(accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (end_first) AwaitEndOfPeer(connection.get());
    const auto peer = IdentifyPeer(connection.get());
    EXPECT_THAT(peer, IsOk());
    return *peer;
  }
};

TEST(IdentifyWithoutDescriptorsTest, NoPeerIsTakenForAnother) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd ours(ends[0]);
  const UniqueFd theirs(ends[1]);
  EXPECT_THAT(IdentifyPeer(ours.get()), IsOk());
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = fcntl(ours.get(), F_DUPFD_CLOEXEC, 0);
  close(next);
  for (const int left : {0, 1, 3}) {
    rlimit few = before;
    few.rlim_cur = static_cast<rlim_t>(next + left);
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    const auto peer = IdentifyPeer(ours.get());
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_THAT(peer, StatusIs(absl::StatusCode::kResourceExhausted));
  }
}

TEST_F(IdentifyTest, AChildIsItsUid) {
  const auto peer = PeerThat([] { return true; });
  ASSERT_TRUE(peer.has_value());
  EXPECT_EQ(peer->principal.uid, static_cast<int64_t>(geteuid()));
  EXPECT_GT(peer->pid, 0);
  EXPECT_FALSE(peer->outside);
}

TEST_F(IdentifyTest, AChildThatBecameNobodyIsNobody) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become nobody";
  const auto peer = PeerThat([] { return setgid(kNobody) == 0 && setuid(kNobody) == 0; });
  ASSERT_TRUE(peer.has_value());
  EXPECT_EQ(peer->principal.uid, kNobody);
  EXPECT_FALSE(peer->outside);
}

TEST_F(IdentifyTest, AChildInANewUserNamespaceIsOutside) {
  const auto peer = PeerThat([] { return unshare(CLONE_NEWUSER) == 0; });
  if (!peer.has_value()) GTEST_SKIP() << "this machine does not let us make user namespaces";
  EXPECT_TRUE(peer->outside);
}

TEST_F(IdentifyTest, AChildInANewPidNamespaceIsOutside) {
  const auto peer = PeerThat([] { return unshare(CLONE_NEWPID) == 0; });
  if (!peer.has_value()) GTEST_SKIP() << "this machine does not let us make pid namespaces";
  EXPECT_TRUE(peer->outside);
}

TEST_F(IdentifyTest, APeerThatHasEndedIsOutside) {
  const auto peer = PeerThat([] { return true; }, /*end_first=*/true);
  ASSERT_TRUE(peer.has_value());
  EXPECT_TRUE(peer->outside);
}

}  // namespace
}  // namespace profd::rpc
