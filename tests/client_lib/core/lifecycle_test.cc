// Starting, registering, being switched off, and staying out of the way.
#include <dirent.h>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "client_lib/torch/torch_api.h"
#include "proto/wire/clock.h"
#include "tests/client_lib/child.h"
#include "tests/fakes/fake_daemon.h"

namespace profd::testing {
namespace {

using ::testing::Contains;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;

std::string LibraryPath() {
  Dl_info info{};
  dladdr(reinterpret_cast<void*>(&profd_init), &info);
  return info.dli_fname;
}

std::string AgentDirectory() { return ThreadDirectory("profd"); }

std::string StatusLine(const std::string& directory, const std::string& key) {
  std::ifstream file(directory + "/status");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(key + ":", 0) == 0) return line.substr(key.size() + 1);
  }
  return "";
}

// Runs the probe with `environment` ("A=b ...") and returns what it printed.
std::string Probe(const std::string& environment, const std::string& arguments = "") {
  char self[4096];
  const ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
  const std::filesystem::path probe =
      std::filesystem::path(std::string(self, static_cast<size_t>(length))).parent_path() /
      "client_probe";
  const std::string command = "env " + environment + " " + probe.string() + " " + arguments;
  FILE* output = popen(command.c_str(), "r");
  std::string text;
  char buffer[256];
  while (fgets(buffer, sizeof(buffer), output) != nullptr) text += buffer;
  EXPECT_EQ(pclose(output), 0) << command;
  return text;
}

TEST(LifecycleTest, HelloSaysWhoWeAre) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent& parent) {
    setenv("RANK", "3", 1);
    setenv("LOCAL_RANK", "1", 1);
    setenv("WORLD_SIZE", "8", 1);
    setenv("SLURM_JOB_ID", "4711", 1);
    setenv("SLURM_PROCID", "", 1);
    CHILD_EXPECT(profd_set_metadata("job", "a=b c") == PROFD_OK);
    CHILD_EXPECT(profd_init() == PROFD_OK);
    parent.Await('x');
  });
  auto target = daemon.WaitTarget();
  EXPECT_EQ(target->hello().version_min, wire::kProtocolVersionMin);
  EXPECT_EQ(target->hello().version_max, wire::kProtocolVersionMax);
  EXPECT_EQ(target->hello().clock_kind, static_cast<uint32_t>(wire::DetectClockKind()));
  EXPECT_EQ(target->hello().own_pid, static_cast<uint32_t>(child.pid()));
  EXPECT_EQ(target->hello().parent_pid, 0u);
  EXPECT_EQ(target->library_version(), profd_version());
  EXPECT_THAT(target->metadata(), Contains(Pair("rank", "3")));
  EXPECT_THAT(target->metadata(), Contains(Pair("local_rank", "1")));
  EXPECT_THAT(target->metadata(), Contains(Pair("world_size", "8")));
  EXPECT_THAT(target->metadata(), Contains(Pair("slurm_job_id", "4711")));
  EXPECT_THAT(target->metadata(), Not(Contains(Key("slurm_procid"))));
  EXPECT_THAT(target->metadata(), Contains(Pair("job", "a=b c")));
  child.Tell('x');
  child.ExpectSuccess();
}

TEST(LifecycleTest, MetadataIsCheckedAndSentWhenItChanges) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent& parent) {
    profd_init();
    WaitConnected();
    CHILD_EXPECT(profd_set_metadata("Job", "x") == PROFD_INVALID);
    CHILD_EXPECT(profd_set_metadata("", "x") == PROFD_INVALID);
    CHILD_EXPECT(profd_set_metadata("a b", "x") == PROFD_INVALID);
    CHILD_EXPECT(profd_set_metadata(nullptr, "x") == PROFD_INVALID);
    CHILD_EXPECT(profd_set_metadata("a", nullptr) == PROFD_INVALID);
    CHILD_EXPECT(profd_set_metadata(std::string(64, 'k').c_str(), "x") == PROFD_INVALID);
    CHILD_EXPECT(profd_set_metadata("a", std::string(256, 'v').c_str()) == PROFD_INVALID);
    CHILD_EXPECT(profd_set_metadata("epoch", "1") == PROFD_OK);
    parent.Await('n');
    CHILD_EXPECT(profd_set_metadata("epoch", "2") == PROFD_OK);
    parent.Await('n');
    int taken = 1;
    for (; taken < 40; ++taken) {
      const std::string key = "key." + std::to_string(taken);
      if (profd_set_metadata(key.c_str(), std::string(255, 'v').c_str()) != PROFD_OK) break;
    }
    CHILD_EXPECT(profd_set_metadata("one_more", "x") == PROFD_LIMIT);
    CHILD_EXPECT(profd_set_metadata("epoch", "3") == PROFD_OK);
    parent.Await('x');
  });
  auto target = daemon.WaitTarget();
  target->Expect(wire::FrameType::kMetadata);
  EXPECT_THAT(target->metadata(), Contains(Pair("epoch", "1")));
  child.Tell('n');
  target->Expect(wire::FrameType::kMetadata);
  EXPECT_THAT(target->metadata(), Contains(Pair("epoch", "2")));
  child.Tell('n');
  while (target->metadata().at("epoch") != "3") target->Expect(wire::FrameType::kMetadata);
  EXPECT_EQ(target->metadata().size(), wire::kMaxMetadataFields);
  child.Tell('x');
  child.ExpectSuccess();
}

TEST(LifecycleTest, InitIsIdempotent) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent& parent) {
    std::vector<std::thread> threads;
    threads.reserve(8);
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([] { CHILD_EXPECT(profd_init() == PROFD_OK); });
    }
    for (std::thread& thread : threads) thread.join();
    WaitConnected();
    CHILD_EXPECT(profd_init() == PROFD_OK);
    parent.Tell('d');
    parent.Await('x');
  });
  auto target = daemon.WaitTarget();
  child.Await('d');
  EXPECT_FALSE(daemon.HasCaller());
  child.Tell('x');
  child.ExpectSuccess();
}

TEST(LifecycleTest, WithoutADaemonEverythingIsANoOp) {
  Child child("/nonexistent", [](Parent&) {
    CHILD_EXPECT(profd_init() == PROFD_OK);
    for (int i = 0; i < 100; ++i) {
      profd_step();
      EmptyRange(&g_range);
      profd_instant(&g_range);
      profd_counter(&g_range, 1);
      profd_range_begin_id(profd_intern("x", 1));
      profd_range_end_id();
    }
    profd_status status = Status();
    CHILD_EXPECT(profd_get_status(&status) == PROFD_NO_DAEMON);
    CHILD_EXPECT(status.connected == 0 && status.recording == 0 && status.disabled == 0);
    CHILD_EXPECT(status.step_count == 100 && status.capture_count == 0);
  });
  child.ExpectSuccess();
}

TEST(LifecycleTest, AProgramThatOnlyAnnotatesIsNoTarget) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent&) {
    for (int i = 0; i < 100; ++i) EmptyRange(&g_range);
    profd_thread_name("a thread");
    profd_intern("name", 4);
    CHILD_EXPECT(AgentDirectory().empty());
  });
  child.ExpectSuccess();
  EXPECT_FALSE(daemon.HasCaller());
}

TEST(LifecycleTest, StatusFillsWhatTheCallerHasRoomFor) {
  Child child("/nonexistent", [](Parent&) {
    CHILD_EXPECT(profd_get_status(nullptr) == PROFD_INVALID);
    profd_status status{};
    CHILD_EXPECT(profd_get_status(&status) == PROFD_INVALID);
    profd_step();
    status.step_count = 77;
    status.size_bytes = offsetof(profd_status, step_count);
    CHILD_EXPECT(profd_get_status(&status) == PROFD_NO_DAEMON);
    CHILD_EXPECT(status.step_count == 77);
    struct {
      profd_status status;
      uint64_t later[4];
    } newer{};
    newer.later[0] = 5;
    newer.status.size_bytes = sizeof(newer);
    CHILD_EXPECT(profd_get_status(&newer.status) == PROFD_NO_DAEMON);
    CHILD_EXPECT(newer.status.step_count == 1 && newer.later[0] == 5);
  });
  child.ExpectSuccess();
}

TEST(LifecycleTest, TheAgentIsNamedNiceAndTakesNoSignals) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent& parent) {
    const int niceness = getpriority(PRIO_PROCESS, 0);  // 0, unless the tests were started nice.
    profd_init();
    WaitConnected();
    const std::string agent = AgentDirectory();
    CHILD_EXPECT(!agent.empty());
    const unsigned long long blocked =
        std::stoull(StatusLine(agent, "SigBlk"), nullptr, /*base=*/16);
    for (const int number : {SIGTERM, SIGINT, SIGUSR1, SIGCHLD, SIGALRM, SIGPROF, SIGHUP}) {
      CHILD_EXPECT((blocked >> (number - 1) & 1) != 0);
    }
    sigset_t own;
    pthread_sigmask(SIG_SETMASK, nullptr, &own);
    CHILD_EXPECT(sigismember(&own, SIGTERM) == 0);
    const auto thread = static_cast<id_t>(std::stoul(std::filesystem::path(agent).filename()));
    CHILD_EXPECT(getpriority(PRIO_PROCESS, thread) == std::max(5, niceness));
    CHILD_EXPECT(getpriority(PRIO_PROCESS, 0) == niceness);
    parent.Await('x');
  });
  auto target = daemon.WaitTarget();
  child.Tell('x');
  child.ExpectSuccess();
}

TEST(LifecycleTest, StepsAndIdleRangesDoNotWakeTheAgent) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent& parent) {
    profd_init();
    WaitConnected();
    const std::string agent = AgentDirectory();
    WaitUntil("the agent asleep",
              [&] { return StatusLine(agent, "State").find('S') != std::string::npos; });
    const std::string before = StatusLine(agent, "voluntary_ctxt_switches");
    CHILD_EXPECT(!before.empty());
    for (int i = 0; i < 200'000; ++i) {
      profd_step();
      EmptyRange(&g_range);
    }
    CHILD_EXPECT(StatusLine(agent, "voluntary_ctxt_switches") == before);
    parent.Await('x');
  });
  auto target = daemon.WaitTarget();
  child.Tell('x');
  child.ExpectSuccess();
}

TEST(LifecycleTest, DisabledItDoesNothing) {
  FakeDaemon daemon;
  const std::string where = "PROFD_SOCKET_DIR=" + daemon.directory();
  EXPECT_EQ(Probe(where + " PROFD_DISABLE=1"),
            "init 1 metadata 1 status 1 disabled 1 connected 0 steps 0 agents 0 recording 0\n");
  EXPECT_FALSE(daemon.HasCaller());
}

TEST(LifecycleTest, DisabledItIsNobodysInjection) {
  EXPECT_EQ(Probe("PROFD_DISABLE=1", "inject"), "cuda 1 nvtx 0 slots 0 agents 0\n");
}

TEST(LifecycleTest, AskedToStartItStartsWithTheProgram) {
  const std::string where = "PROFD_SOCKET_DIR=/nonexistent";
  const int threads = std::stoi(Probe(where, "quiet"));
#if defined(__SANITIZE_THREAD__)
  constexpr int kStarted = 3;  // The sanitizer adds one of its own to the first.
#else
  constexpr int kStarted = 2;  // The agent and its helper.
#endif
  EXPECT_EQ(std::stoi(Probe(where + " PROFD_START=1", "quiet")), threads + kStarted);
  EXPECT_EQ(std::stoi(Probe(where + " PROFD_START=0", "quiet")), threads);
  EXPECT_EQ(std::stoi(Probe(where + " PROFD_START=1 PROFD_DISABLE=1", "quiet")), threads);
}

TEST(LifecycleTest, DisableZeroOrEmptyIsNotDisabled) {
  const std::string where = "PROFD_SOCKET_DIR=/nonexistent";
  const std::string enabled =
      "init 0 metadata 0 status 2 disabled 0 connected 0 steps 3 agents 1 recording 0\n";
  EXPECT_EQ(Probe(where + " PROFD_DISABLE=0"), enabled);
  EXPECT_EQ(Probe(where + " PROFD_DISABLE="), enabled);
}

TEST(LifecycleTest, ItIsSilentUnlessAsked) {
  const std::string where = "PROFD_SOCKET_DIR=" + std::string(200, 'd');  // Too long: an error.
  EXPECT_EQ(Probe(where, "2>&1").find("profd["), std::string::npos);
  EXPECT_EQ(Probe(where + " PROFD_LOG=nonsense", "2>&1").find("profd["), std::string::npos);
  EXPECT_NE(Probe(where + " PROFD_LOG=error", "2>&1").find("too long for a socket"),
            std::string::npos);
}

// The agent has no descriptor of the program's; the program's position in the file stays right.
TEST(LifecycleTest, TheAgentsLinesGoToStandardErrorOfTheProgram) {
  FakeDaemon daemon;
  const std::string file = daemon.directory() + "/stderr";
  Child child(daemon.directory(), [&](Parent&) { Probe("PROFD_LOG=info", "connect 2>" + file); });
  auto target = daemon.WaitTarget();
  child.ExpectSuccess();
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  EXPECT_THAT(text.str(), ::testing::HasSubstr("registered as target 1\n"));
  std::filesystem::remove(file);
}

// ---- More than one copy of the library in a process.

// A second copy, under another path.
class CopiesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    copy_ = daemon_.directory() + "/libother_name.so";
    std::filesystem::copy_file(LibraryPath(), copy_);
  }
  void TearDown() override { std::filesystem::remove(copy_); }

  FakeDaemon daemon_;
  std::string copy_;
};

template <typename Function>
Function* Symbol(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

TEST_F(CopiesTest, WhatPythonCallsForTorchIsHandedOverToo) {
  Child child(daemon_.directory(), [&](Parent& parent) {
    static void* copy;
    copy = dlopen(copy_.c_str(), RTLD_NOW | RTLD_LOCAL);
    // All there is of a torch.
    CHILD_EXPECT(dlopen(PROFD_TEST_C10_DIR "/bound/libc10.so", RTLD_NOW) != nullptr);
    CHILD_EXPECT(profd_init() == PROFD_OK);
    const uint32_t attached = Symbol<uint32_t(const char*)>(copy, "profd_torch_attach")("2.6.0");
    CHILD_EXPECT((attached & wire::kTorchCpuMemory) != 0);
    std::thread collector([&] {
      uint32_t wanted = 0;
      const auto wait = Symbol<int(uint32_t*)>(copy, "profd_torch_wait");
      CHILD_EXPECT(wait(&wanted) == PROFD_TORCH_ARMED);
      CHILD_EXPECT((wanted & wire::kTorchBlocks) != 0);
      parent.Tell('a');
      CHILD_EXPECT(wait(&wanted) == PROFD_TORCH_COLLECT);
      Symbol<decltype(profd_torch_block)>(copy, "profd_torch_block")(1, 2, 0, 0, 1, "weight");
      Symbol<decltype(profd_torch_note)>(copy, "profd_torch_note")(1, "f", "why", 3);
      Symbol<decltype(profd_torch_done)>(copy, "profd_torch_done")();
      CHILD_EXPECT(wait(&wanted) == PROFD_TORCH_IDLE);
    });
    const auto features = Symbol<uint32_t()>(copy, "profd_torch_features");
    while ((features() & wire::kTorchBlocks) == 0) PauseForPoll();
    CHILD_EXPECT(features() == profd_torch_features());
    parent.Tell('w');
    collector.join();
  });
  auto target = daemon_.WaitTarget();
  child.Await('w');
  const wire::ArmTorchField wanted{0, wire::kArmTorchMemory, 0, 0};
  auto capture = target->ArmTorch(wanted);
  child.Await('a');  // Who is asked to collect at once need not hear that it is armed.
  const CaptureContents contents = capture->Finish();
  ASSERT_EQ(contents.blocks.size(), 1u);
  EXPECT_EQ(contents.blocks[0].name, "weight");
  const auto& note = contents.notes.front();
  EXPECT_EQ(note.subject + " " + note.text, "f why");
  child.ExpectSuccess();
}

TEST_F(CopiesTest, ALaterCopyHandsOverToTheFirst) {
  Child child(daemon_.directory(), [&](Parent& parent) {
    void* copy = dlopen(copy_.c_str(), RTLD_NOW | RTLD_LOCAL);
    CHILD_EXPECT(copy != nullptr);
    const auto init = Symbol<int()>(copy, "profd_init");
    CHILD_EXPECT(init != nullptr && init != &profd_init);
    CHILD_EXPECT(Symbol<const uint32_t*()>(copy, "profd_recording_flag")() ==
                 profd_recording_flag());
    CHILD_EXPECT(init() == PROFD_OK);
    WaitConnected();
    CHILD_EXPECT(profd_init() == PROFD_OK);
    CHILD_EXPECT(Symbol<int(const char*, const char*)>(copy, "profd_set_metadata")(
                     "from", "copy") == PROFD_OK);
    CHILD_EXPECT(Symbol<uint32_t(const char*, size_t)>(copy, "profd_intern")("same", 4) ==
                 profd_intern("same", 4));
    Symbol<void()>(copy, "profd_step")();
    CHILD_EXPECT(profd_step_count() == 1);
    parent.Tell('s');
    WaitRecording();
    static profd_name name = PROFD_NAME_INIT("through the copy");
    const profd_memory_event event{1, 2, 3, 4, 0, 0, 0, 0};
    Symbol<void(const char*)>(copy, "profd_thread_name")("named by the copy");
    Symbol<void(profd_name*)>(copy, "profd_range_begin_slow")(&name);
    profd_range_begin(&g_range);
    Symbol<void()>(copy, "profd_range_end_id")();
    profd_range_end();
    Symbol<void(uint32_t)>(copy, "profd_range_begin_id")(profd_intern("by id", 5));
    profd_range_end();
    Symbol<void(profd_name*)>(copy, "profd_instant_slow")(&name);
    Symbol<void(uint32_t)>(copy, "profd_instant_id")(name.id);
    Symbol<void(profd_name*, double)>(copy, "profd_counter_slow")(&name, 2.0);
    Symbol<void(uint32_t, double)>(copy, "profd_counter_id")(name.id, 3.0);
    Symbol<void(const profd_memory_event*)>(copy, "profd_alloc")(&event);
    Symbol<void(const profd_memory_event*)>(copy, "profd_free")(&event);
    profd_status status = Status();
    CHILD_EXPECT(Symbol<int(profd_status*)>(copy, "profd_get_status")(&status) == PROFD_OK);
    CHILD_EXPECT(status.recording == 1);
    CHILD_EXPECT(Symbol<uint64_t()>(copy, "profd_step_count")() == 1);
    parent.Tell('d');
    parent.Await('x');
  });
  auto target = daemon_.WaitTarget();
  child.Await('s');
  auto capture = target->Arm();
  capture->Fire(ByTime());
  child.Await('d');
  const CaptureContents contents = capture->Finish();
  EXPECT_EQ(contents.CountRanges("through the copy"), 1u);
  EXPECT_EQ(contents.CountRanges("range"), 1u);
  EXPECT_EQ(contents.CountRanges("by id"), 1u);
  EXPECT_EQ(contents.instants.size(), 2u);
  EXPECT_EQ(contents.counters.size(), 2u);
  EXPECT_EQ(contents.memory.size(), 2u);
  EXPECT_EQ(contents.thread_names.begin()->second.front(), "named by the copy");
  EXPECT_FALSE(daemon_.HasCaller());
  child.Tell('x');
  child.ExpectSuccess();
}

TEST_F(CopiesTest, ACopyThatIsPreloadedAndALinkedOneAreOneTarget) {
#ifdef PROFD_SANITIZED
  GTEST_SKIP() << "a sanitizer's runtime must be the first library that is loaded";
#endif
  Child child(daemon_.directory(), [&](Parent&) {
    const std::string output = Probe("LD_PRELOAD=" + copy_, "connect");
    CHILD_EXPECT(output ==
                 "init 0 metadata 0 status 0 disabled 0 connected 1 steps 3 agents 1 "
                 "recording 0\n");
  });
  auto target = daemon_.WaitTarget();
  child.ExpectSuccess();
  EXPECT_FALSE(daemon_.HasCaller());
}

}  // namespace
}  // namespace profd::testing
