// Who may register, what the daemon knows of them, and what it takes to be turned away.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <thread>
#include <vector>

#include "daemon/ingest/process_info.h"
#include "tests/ingest/server_fixture.h"
#include "tests/ingest/target_process.h"

namespace profd {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using wire::FrameType;

class RegistrationTest : public TargetServerTest {};

TEST_F(RegistrationTest, ATargetIsWhoTheKernelSays) {
  Start();
  FakeTarget target(dir_.path());
  FakeHello hello;
  hello.metadata = {"rank=3", "job=bert"};
  hello.step_mark_count = 12;
  const auto number = static_cast<TargetNumber>(target.Register(hello));
  const auto info = server_->Find(number);
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->pid, getpid());
  EXPECT_EQ(info->uid, getuid());
  EXPECT_EQ(info->gid, getgid());
  EXPECT_EQ(info->parent_pid, getppid());
  EXPECT_GT(info->process_start_ticks, 0);
  EXPECT_FALSE(info->foreign_namespace);
  EXPECT_THAT(info->command, HasSubstr("ingest_test"));
  EXPECT_EQ(info->library_version, "0.1.0-fake");
  EXPECT_EQ(info->protocol_version, 1);
  EXPECT_EQ(info->metadata.at("rank"), "3");
  EXPECT_EQ(info->state, TargetState::kRunning);
  EXPECT_EQ(info->step_mark_count, 12);
  EXPECT_EQ(info->current_step, 11);
}

TEST_F(RegistrationTest, AListSaysWhichTargetsASignalHasStopped) {
  Start();
  TargetProcess target(dir_.path());
  ASSERT_TRUE(Eventually([&] { return server_->List().size() == 1; }));
  EXPECT_EQ(server_->List()[0].state, TargetState::kRunning);
  target.Kill(SIGSTOP);
  EXPECT_TRUE(Eventually([&] { return server_->List()[0].state == TargetState::kStopped; }));
  const TargetInfo info = server_->List()[0];
  EXPECT_TRUE(IsStopped(info.pid, info.process_start_ticks));
  // Of a process that had the pid before, or of none, nothing is said.
  EXPECT_FALSE(IsStopped(info.pid, info.process_start_ticks + 1));
  EXPECT_FALSE(IsStopped(-1, info.process_start_ticks));
  target.Kill(SIGCONT);
  EXPECT_TRUE(Eventually([&] { return server_->List()[0].state == TargetState::kRunning; }));
}

// As cpulimit stops a process again and again: it is not the stop that was seen before.
TEST_F(RegistrationTest, AProcessThatRanBetweenTwoStopsHasUsedCpuTime) {
  Start();
  TargetProcess target(dir_.path());
  ASSERT_TRUE(Eventually([&] { return server_->List().size() == 1; }));
  const int64_t start_ticks = server_->List()[0].process_start_ticks;
  const auto look = [&] { return CpuTicksOfStopped(target.pid(), start_ticks); };
  EXPECT_EQ(look(), std::nullopt);
  target.Kill(SIGSTOP);
  ASSERT_TRUE(Eventually([&] { return look().has_value(); }));
  const std::optional<int64_t> first = look();
  EXPECT_EQ(look(), first);
  target.Kill(SIGCONT);
  target.Command("spin");
  target.Kill(SIGSTOP);
  ASSERT_TRUE(Eventually([&] { return look().has_value(); }));
  EXPECT_GT(look(), first);
  target.Kill(SIGCONT);
}

TEST_F(RegistrationTest, MetadataIsMergedByKey) {
  Start();
  FakeTarget target(dir_.path());
  FakeHello hello;
  hello.metadata = {"rank=3", "job=bert"};
  const auto number = static_cast<TargetNumber>(target.Register(hello));
  FrameBuilder metadata(FrameType::kMetadata);
  metadata.AddField(wire::FieldTag::kMetadata, "rank=4");
  metadata.AddField(wire::FieldTag::kMetadata, "phase=eval");
  ASSERT_TRUE(target.SendPacket(metadata.Finish()));
  ASSERT_TRUE(Eventually([&] { return server_->Find(number)->metadata.size() == 3; }));
  EXPECT_EQ(server_->Find(number)->metadata.at("rank"), "4");
}

TEST_F(RegistrationTest, ATargetMayOptOutLater) {
  Start();
  FakeTarget target(dir_.path());
  const auto number = static_cast<TargetNumber>(target.Register(FakeHello()));
  EXPECT_FALSE(server_->Find(number)->opted_out);
  FrameBuilder metadata(FrameType::kMetadata);
  metadata.AddField(wire::FieldTag::kMetadata, "optout=1");
  ASSERT_TRUE(target.SendPacket(metadata.Finish()));
  observer_.WaitOptedOut(number);
  EXPECT_TRUE(server_->Find(number)->opted_out);
}

TEST_F(RegistrationTest, ThePageTellsStepsAndTheirRate) {
  Start();
  FakeTarget target(dir_.path());
  FakeHello hello;
  hello.clock = wire::ClockKind::kMonotonicNs;
  const auto number = static_cast<TargetNumber>(target.Register(hello));
  const uint64_t now = target.Now();
  for (uint64_t i = 0; i < 100; ++i) target.MarkStep(i, now - (100 - i) * 1'000'000);
  const auto info = server_->Find(number);
  EXPECT_EQ(info->current_step, 99);
  EXPECT_NEAR(info->steps_per_second, 1000, 1);
  EXPECT_EQ(server_->MedianStepNs(number, 50, 60), 1'000'000);
  EXPECT_EQ(server_->MedianStepNs(number, 0, 10), 0) << "no more in the ring";
  EXPECT_EQ(server_->MedianStepNs(number + 1, 50, 60), 0);
}

TEST_F(RegistrationTest, ThePageTellsHowLongTheLastStepsTook) {
  Start();
  FakeTarget target(dir_.path());
  FakeHello hello;
  hello.clock = wire::ClockKind::kMonotonicNs;
  const auto number = static_cast<TargetNumber>(target.Register(hello));
  const uint64_t now = target.Now();
  for (uint64_t i = 0; i < 100; ++i) target.MarkStep(i, now - (100 - i) * 1'000'000);
  target.page().step_source.store(static_cast<uint32_t>(wire::StepSource::kOptimizer));
  RecentSteps recent = server_->GetRecentSteps(number);
  EXPECT_EQ(recent.source, StepSource::kOptimizer);
  EXPECT_EQ(recent.current_step, 99);
  // The newest mark is 1 ms before `now`.
  EXPECT_GE(recent.since_current_ns, 1'000'000);
  EXPECT_LE(recent.since_current_ns, static_cast<int64_t>(target.Now() - now) + 1'000'000);
  ASSERT_EQ(recent.steps.size(), 63u);
  EXPECT_EQ(recent.steps.front().step, 36);
  EXPECT_EQ(recent.steps.back().step, 98);
  EXPECT_EQ(recent.steps.back().duration_ns, 1'000'000);
  // The steps before were batches.
  target.page().source_first_step.store(90);
  recent = server_->GetRecentSteps(number);
  ASSERT_EQ(recent.steps.size(), 9u);
  EXPECT_EQ(recent.steps.front().step, 90);
  EXPECT_EQ(server_->GetRecentSteps(number + 1).current_step, -1);
  EXPECT_EQ(server_->GetRecentSteps(number + 1).since_current_ns, -1);
}

TEST_F(RegistrationTest, AJobThatHangsMissesSteps) {
  Start();
  FakeTarget target(dir_.path());
  FakeHello hello;
  hello.clock = wire::ClockKind::kMonotonicNs;
  const auto number = static_cast<TargetNumber>(target.Register(hello));
  EXPECT_EQ(server_->Find(number)->since_last_step_ns, -1);
  EXPECT_FALSE(MissesSteps(*server_->Find(number)));
  constexpr uint64_t kStepNs = 10'000'000'000;
  const uint64_t now = target.Now();
  // The third step is overdue, not yet the fourth.
  target.MarkStep(0, now - 35 * kStepNs / 10);
  target.MarkStep(1, now - 25 * kStepNs / 10);
  TargetInfo info = *server_->Find(number);
  EXPECT_EQ(info.median_step_ns, static_cast<int64_t>(kStepNs));
  EXPECT_GE(info.since_last_step_ns, 25'000'000'000);
  EXPECT_TRUE(MissesSteps(info));
  info.since_last_step_ns = 19'999'999'999;
  EXPECT_FALSE(MissesSteps(info)) << "one missed step is no hang";
  info.median_step_ns = 1'000;
  info.since_last_step_ns = 900'000'000;
  EXPECT_FALSE(MissesSteps(info)) << "too short to read";
}

TEST_F(RegistrationTest, ThePageTellsWhereStepsComeFrom) {
  Start();
  FakeTarget target(dir_.path());
  const auto number = static_cast<TargetNumber>(target.Register());
  EXPECT_EQ(server_->Find(number)->step_source, StepSource::kNone);
  target.page().step_source.store(static_cast<uint32_t>(wire::StepSource::kDataLoader));
  target.page().batch_count.store(12);
  EXPECT_EQ(server_->Find(number)->step_source, StepSource::kDataLoader);
  EXPECT_EQ(server_->Find(number)->batch_count, 12);
}

TEST_F(RegistrationTest, AStaleRateIsNoRate) {
  Start();
  FakeTarget target(dir_.path());
  FakeHello hello;
  hello.clock = wire::ClockKind::kMonotonicNs;
  const auto number = static_cast<TargetNumber>(target.Register(hello));
  const uint64_t long_ago = target.Now() - 3'600'000'000'000;
  target.MarkStep(0, long_ago);
  target.MarkStep(1, long_ago + 1000);
  EXPECT_EQ(server_->Find(number)->steps_per_second, 0);
}

TEST_F(RegistrationTest, APageThatLiesIsOnlyWrong) {
  Start();
  FakeTarget target(dir_.path());
  const auto number = static_cast<TargetNumber>(target.Register());
  target.page().step_mark_count.store(UINT64_MAX);
  target.page().dropped_event_count.store(UINT64_MAX);
  target.page().step_source.store(wire::kMaxStepSource + 1);
  target.page().batch_count.store(UINT64_MAX);
  for (wire::StatusStep& step : target.page().steps) {
    step.step_plus_1.store(UINT64_MAX);
    step.ticks.store(UINT64_MAX);
  }
  const auto info = server_->Find(number);
  EXPECT_GT(info->step_mark_count, 0);
  EXPECT_EQ(info->current_step, info->step_mark_count - 1);
  EXPECT_EQ(info->steps_per_second, 0);
  EXPECT_EQ(info->step_source, StepSource::kNone);
  EXPECT_EQ(info->batch_count, int64_t{1} << 53);
  EXPECT_EQ(server_->MedianStepNs(number, 0, INT64_MAX), 0);
}

TEST_F(RegistrationTest, ASecondConnectionOfAProcessIsRefused) {
  options_.several_per_process_for_testing = false;
  Start();
  FakeTarget first(dir_.path());
  first.Register();
  FakeTarget second(dir_.path());
  second.SendHello();
  const ReceivedFrame refuse = second.Expect(FrameType::kRefuse);
  EXPECT_EQ(refuse.As<wire::RefuseBody>().reason,
            static_cast<uint32_t>(wire::RefuseReason::kNotAllowed));
  second.ExpectClosed();
  EXPECT_EQ(server_->List().size(), 1u);
}

TEST_F(RegistrationTest, AConnectionTakesTheDeadOnesPlace) {
  options_.several_per_process_for_testing = false;
  options_.hang_up_grace = absl::Hours(1);
  Start();
  FakeTarget first(dir_.path());
  const auto number = static_cast<TargetNumber>(first.Register());
  first.CloseSocket();
  FakeTarget second(dir_.path());
  EXPECT_NE(static_cast<TargetNumber>(second.Register()), number);
  observer_.WaitGone(number);
  EXPECT_EQ(server_->List().size(), 1u);
}

TEST_F(RegistrationTest, ALeavingLibraryIsGoneThoughItsProcessLives) {
  options_.hang_up_grace = absl::Milliseconds(10);
  Start();
  FakeTarget target(dir_.path());
  const auto number = static_cast<TargetNumber>(target.Register());
  target.CloseSocket();
  observer_.WaitGone(number);
  EXPECT_THAT(server_->List(), IsEmpty());
}

TEST_F(RegistrationTest, DisjointVersionsAreRefusedNamingBothRanges) {
  Start();
  FakeTarget target(dir_.path());
  FakeHello hello;
  hello.version_min = 7;
  hello.version_max = 9;
  target.SendHello(hello);
  const ReceivedFrame frame = target.Expect(FrameType::kRefuse);
  const auto refuse = frame.As<wire::RefuseBody>();
  EXPECT_EQ(refuse.reason, static_cast<uint32_t>(wire::RefuseReason::kVersion));
  EXPECT_EQ(refuse.version_min, wire::kProtocolVersionMin);
  EXPECT_EQ(refuse.version_max, wire::kProtocolVersionMax);
  const std::string text(reinterpret_cast<const char*>(frame.body.data()), frame.body.size());
  EXPECT_THAT(text, HasSubstr("7 to 9"));
  EXPECT_THAT(text, HasSubstr("1 to 1"));
  target.ExpectClosed();
}

TEST_F(RegistrationTest, NoMoreTargetsThanThereMayBe) {
  ledger_.SetLimit(quota::Resource::kTargets, {.capacity = 2});
  Start();
  FakeTarget first(dir_.path());
  FakeTarget second(dir_.path());
  first.Register();
  second.Register();
  FakeTarget third(dir_.path());
  third.SendHello();
  EXPECT_EQ(third.Expect(FrameType::kRefuse).As<wire::RefuseBody>().reason,
            static_cast<uint32_t>(wire::RefuseReason::kFull));
}

TEST_F(RegistrationTest, AnIdleServerSleeps) {
  Start();
  FakeTarget target(dir_.path());
  const auto number = static_cast<TargetNumber>(target.Register());
  target.MarkStep(0, target.Now());
  ASSERT_TRUE(server_->Find(number).has_value());
  const int64_t before = server_->counters().wakeups;
  absl::SleepFor(absl::Milliseconds(300));  // Nothing is waited for: nothing may happen.
  EXPECT_EQ(server_->counters().wakeups, before);
}

class RegistrationHostileTest : public RegistrationTest {
 protected:
  // The daemon still takes a new target.
  void ExpectAlive() {
    FakeTarget target(dir_.path());
    EXPECT_GT(target.Register(), 0u);
  }
  static std::vector<std::byte> Bytes(std::initializer_list<int> values) {
    std::vector<std::byte> bytes;
    for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
    return bytes;
  }
};

TEST_F(RegistrationHostileTest, PacketsThatAreNoFramesCloseTheConnection) {
  Start();
  for (const size_t size : {1, 15, 16, 100, 16 * 1024, 16 * 1024 + 1, 100 * 1024}) {
    FakeTarget target(dir_.path());
    ASSERT_TRUE(target.SendPacket(std::vector<std::byte>(size, std::byte{0x41})));
    target.ExpectClosed();
  }
  EXPECT_EQ(server_->counters().bad_frames, 7);
  ExpectAlive();
}

TEST_F(RegistrationHostileTest, AFrameThatLiesAboutItsLengthEndsARegisteredTarget) {
  Start();
  FakeTarget target(dir_.path());
  const auto number = static_cast<TargetNumber>(target.Register());
  wire::FrameHeader header{};
  header.magic = wire::kFrameMagic;
  header.type = 5;
  header.length_bytes = 4096;
  std::vector<std::byte> packet(sizeof(header));
  memcpy(packet.data(), &header, sizeof(header));
  target.SendPacket(packet);
  observer_.WaitGone(number);
  ExpectAlive();
}

TEST_F(RegistrationHostileTest, UnknownFramesAreSkippedAndCounted) {
  Start();
  FakeTarget target(dir_.path());
  const auto number = static_cast<TargetNumber>(target.Register());
  const uint64_t body = 0;
  target.SendBody(777, &body, sizeof(body));
  target.SendBody(static_cast<uint16_t>(FrameType::kArm), &body, sizeof(body));
  ASSERT_TRUE(Eventually([&] { return server_->counters().unknown_frames == 2; }));
  EXPECT_TRUE(server_->Find(number).has_value());
}

TEST_F(RegistrationHostileTest, AnswersToNothingAreCounted) {
  Start();
  FakeTarget target(dir_.path());
  const auto number = static_cast<TargetNumber>(target.Register());
  target.Send(FrameType::kArmed, wire::ArmedBody{99, 0});
  target.Send(FrameType::kArmFailed, wire::ArmFailedBody{99, 1, 0});
  target.Send(FrameType::kDrained, wire::DrainedBody{0, UINT32_MAX, 0});
  const uint8_t half = 0;
  target.SendBody(static_cast<uint16_t>(FrameType::kDrained), &half, 1);
  ASSERT_TRUE(Eventually([&] { return server_->counters().stray_frames == 4; }));
  EXPECT_TRUE(server_->Find(number).has_value());
}

TEST_F(RegistrationHostileTest, OtherFramesBeforeHelloAreRefused) {
  Start();
  FakeTarget target(dir_.path());
  target.Send(FrameType::kArmed, wire::ArmedBody{1, 0});
  EXPECT_EQ(target.Expect(FrameType::kRefuse).As<wire::RefuseBody>().reason,
            static_cast<uint32_t>(wire::RefuseReason::kBadHello));
}

TEST_F(RegistrationHostileTest, HelloTwiceEndsIt) {
  Start();
  FakeTarget target(dir_.path());
  const auto number = static_cast<TargetNumber>(target.Register());
  target.SendHello();
  observer_.WaitGone(number);
}

TEST_F(RegistrationHostileTest, ACutHelloOrAForeignClockIsRefused) {
  Start();
  FakeTarget cut(dir_.path());
  cut.Send(FrameType::kHello, uint64_t{1});
  EXPECT_EQ(cut.Expect(FrameType::kRefuse).As<wire::RefuseBody>().reason,
            static_cast<uint32_t>(wire::RefuseReason::kBadHello));
  FakeTarget foreign(dir_.path());
  FakeHello hello;
  hello.clock = static_cast<wire::ClockKind>(77);
  foreign.SendHello(hello);
  EXPECT_EQ(foreign.Expect(FrameType::kRefuse).As<wire::RefuseBody>().reason,
            static_cast<uint32_t>(wire::RefuseReason::kBadHello));
}

TEST_F(RegistrationHostileTest, AFloodOfFramesEndsIt) {
  Start();
  FakeTarget target(dir_.path());
  const auto number = static_cast<TargetNumber>(target.Register());
  FrameBuilder metadata(FrameType::kMetadata);
  const auto packet = metadata.Finish();
  for (int i = 0; i < 100'000 && target.SendPacket(packet); ++i) {
  }
  observer_.WaitGone(number);
  ExpectAlive();
}

int OpenDescriptors() {
  int count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    ++count;
  }
  return count;
}

TEST_F(RegistrationHostileTest, DescriptorsThatPeersSendAreClosed) {
  options_.accept_passed_files_for_testing = true;
  Start();
  constexpr int kSpareMemory = 1;  // Made when the first target comes.
  const int before = OpenDescriptors() + kSpareMemory;
  {
    FakeTarget target(dir_.path());
    const auto number = static_cast<TargetNumber>(target.Register());
    const std::vector<int> fds(253, STDERR_FILENO);
    FrameBuilder metadata(FrameType::kMetadata);
    metadata.AddField(wire::FieldTag::kMetadata, "rank=8");
    ASSERT_TRUE(target.SendPacket(metadata.Finish(), fds));
    // No frame carries descriptors: the target is dropped.
    observer_.WaitGone(number);
  }
  EXPECT_TRUE(Eventually([&] { return OpenDescriptors() <= before; })) << OpenDescriptors();
  ExpectAlive();
}

// The last close() of such a socket waits for the peer, who never reads. `keep` holds the peer.
UniqueFd LingeringSocket(UniqueFd& keep) {
  const UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const name = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(bind(listener.get(), name, size), 0);
  EXPECT_EQ(listen(listener.get(), 1), 0);
  EXPECT_EQ(getsockname(listener.get(), name, &size), 0);
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(connect(fd.get(), name, size), 0);
  keep = UniqueFd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  const std::string block(1 << 16, 'x');
  while (send(fd.get(), block.data(), block.size(), MSG_DONTWAIT) > 0) {
  }
  const linger ten_minutes{.l_onoff = 1, .l_linger = 600};
  setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &ten_minutes, sizeof(ten_minutes));
  return fd;
}

TEST_F(RegistrationHostileTest, LingeringSocketsThatPeersSendHoldNobodyUp) {
  options_.accept_passed_files_for_testing = true;
  Start();
  FakeTarget hostile(dir_.path());
  const auto number = static_cast<TargetNumber>(hostile.Register());
  FrameBuilder metadata(FrameType::kMetadata);
  metadata.AddField(wire::FieldTag::kMetadata, "rank=8");
  const auto packet = metadata.Finish();
  std::vector<UniqueFd> keep(20);
  for (UniqueFd& each : keep) {
    const UniqueFd lingering = LingeringSocket(each);
    const int fd = lingering.get();
    // The first drops it; the rest stay in the queue of its connection, which is closed, too.
    if (!hostile.SendPacket(packet, std::span(&fd, 1))) {
      const linger off{};  // This test has the last descriptor of it.
      setsockopt(fd, SOL_SOCKET, SO_LINGER, &off, sizeof(off));
      break;
    }
  }
  observer_.WaitGone(number);
  ExpectAlive();  // Ten minutes late, or twenty times that, if ingest closed them.
}

TEST_F(RegistrationHostileTest, TheKernelRefusesDescriptorsWhereItCan) {
  Start();
  FakeTarget target(dir_.path());
  const auto number = static_cast<TargetNumber>(target.Register());
  UniqueFd probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!RefusePassedFiles(probe.get())) {
    GTEST_SKIP() << "SKIP: this kernel has no SO_PASSRIGHTS (Linux 6.16 and later)";
  }
  FrameBuilder metadata(FrameType::kMetadata);
  metadata.AddField(wire::FieldTag::kMetadata, "rank=8");
  const int fd = STDERR_FILENO;
  EXPECT_FALSE(target.SendPacket(metadata.Finish(), std::span(&fd, 1)));
  EXPECT_TRUE(target.SendPacket(metadata.Finish())) << "the connection is as it was";
  ASSERT_TRUE(Eventually([&] { return server_->Find(number)->metadata.contains("rank"); }));
}

TEST_F(RegistrationHostileTest, ThousandConnectionsWithoutHelloDoNotHurt) {
  options_.hello_timeout = absl::Seconds(1);  // The others say it within that.
  Start();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  strcpy(address.sun_path, (dir_.path() / "agent/agent.sock").c_str());
  FakeTarget early(dir_.path());
  early.Register();
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 1000; ++i) {
    silent.emplace_back(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    ASSERT_EQ(connect(silent.back().get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)),
              0);
  }
  // All are turned away: most at once, the others when their time is up.
  for (const UniqueFd& fd : silent) {
    char byte[256];
    while (read(fd.get(), byte, sizeof(byte)) > 0) {
    }
  }
  EXPECT_GE(server_->counters().refused_connections, 1000 - options_.max_pending_per_uid * 2);
  ExpectAlive();
  EXPECT_EQ(server_->List().size(), 2u);
}

// Silent connections of several users. Who connects is the thread's effective user, so that one
// process can be several users.
class PendingPlacesTest : public RegistrationHostileTest {
 protected:
  static constexpr uid_t kMallory = 61001;
  static constexpr uid_t kMandy = 61002;

  void SetUp() override {
    RegistrationHostileTest::SetUp();
    if (geteuid() != 0) GTEST_SKIP() << "only root can connect as other users";
    std::filesystem::permissions(dir_.path(), std::filesystem::perms(0755));
    options_.max_pending = 8;
    options_.max_pending_per_uid = 5;
    options_.pending_reserve = 2;
    options_.hello_timeout = absl::Hours(1);
    Start();
  }

  template <typename Work>
  static void RunAs(uid_t uid, const Work& work) {
    std::thread([&] {
      // The system call changes this thread alone, the function of libc all threads.
      ASSERT_EQ(syscall(SYS_setresuid, -1, uid, -1), 0);
      work();
    }).join();
  }

  std::vector<UniqueFd> ConnectSilently(uid_t uid, int count) {
    std::vector<UniqueFd> silent;
    RunAs(uid, [&] {
      sockaddr_un address{};
      address.sun_family = AF_UNIX;
      strcpy(address.sun_path, (dir_.path() / "agent/agent.sock").c_str());
      for (int i = 0; i < count; ++i) {
        silent.emplace_back(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
        ASSERT_EQ(
            connect(silent.back().get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)),
            0);
      }
    });
    return silent;
  }

  // How many were turned away. The kernel keeps the order of connections, so whoever registers now
  // comes after them.
  int64_t TurnedAway(const std::vector<UniqueFd>& silent) {
    ExpectAlive();
    return std::ranges::count_if(silent, [](const UniqueFd& fd) {
      pollfd waited{.fd = fd.get(), .events = POLLIN, .revents = 0};
      return poll(&waited, 1, 0) == 1;
    });
  }
};

TEST_F(PendingPlacesTest, OthersCannotTakeThePlacesOfRoot) {
  const std::vector<UniqueFd> first = ConnectSilently(kMallory, 5);
  const std::vector<UniqueFd> second = ConnectSilently(kMandy, 5);
  const int64_t before = TurnedAway(first) + TurnedAway(second);
  EXPECT_EQ(before, 4) << "6 of 8 places are not reserved";
  const std::vector<UniqueFd> of_root = ConnectSilently(0, 2);
  EXPECT_EQ(TurnedAway(of_root), 0);
  EXPECT_EQ(TurnedAway(first) + TurnedAway(second), before + 1)
      << "what TurnedAway() registers needs a third place for a moment";
}

TEST_F(PendingPlacesTest, TheUserWithTheMostGivesWay) {
  const std::vector<UniqueFd> many = ConnectSilently(kMallory, 5);
  const std::vector<UniqueFd> one = ConnectSilently(kMandy, 1);
  EXPECT_EQ(TurnedAway(many), 0);
  RunAs(kMandy, [&] { ExpectAlive(); });
  EXPECT_EQ(TurnedAway(many), 1);
  EXPECT_EQ(TurnedAway(one), 0);
}

TEST_F(PendingPlacesTest, AtItsLimitAUserDisplacesItsOwnOldest) {
  const std::vector<UniqueFd> many = ConnectSilently(kMallory, 5);
  RunAs(kMallory, [&] { ExpectAlive(); });
  EXPECT_EQ(TurnedAway(many), 1);
}

class TargetProcessTest : public TargetServerTest {
 protected:
  void SetUp() override {
    TargetServerTest::SetUp();
    options_.several_per_process_for_testing = false;
  }
};

TEST_F(TargetProcessTest, DeathIsSeenAtOnce) {
  options_.hang_up_grace = absl::Hours(1);
  Start();
  TargetProcess process(dir_.path());
  const TargetInfo info = OnlyTarget();
  EXPECT_EQ(info.pid, process.pid());
  EXPECT_EQ(info.parent_pid, getpid());
  process.Kill(SIGKILL);
  observer_.WaitGone(info.number);
}

TEST_F(TargetProcessTest, ExecIsANewTargetOfTheSameProcess) {
  Start();
  TargetProcess process(dir_.path());
  const TargetInfo before = OnlyTarget();
  process.Command("exec");
  observer_.WaitGone(before.number);
  const TargetInfo after = OnlyTarget();
  EXPECT_NE(after.number, before.number);
  EXPECT_EQ(after.pid, before.pid);
  EXPECT_EQ(after.process_start_ticks, before.process_start_ticks);
}

TEST_F(TargetProcessTest, AProcessThatEndsBeforeItSaysHelloIsNobody) {
  Start();
  { FakeTarget target(dir_.path()); }
  FakeTarget alive(dir_.path());
  alive.Register();
  EXPECT_EQ(server_->List().size(), 1u);
}

}  // namespace
}  // namespace profd
