#include "tests/client_lib/cupti/gpu_process.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <thread>

#include "client_lib/include/profd/profd.h"
#include "client_lib/torch/torch_api.h"

namespace profd::testing {

constexpr uint32_t kMaxTruth = 100'000;
constexpr size_t kNameBytes = 96;

// Between the test and the process.
struct GpuProcess::Shared {
  char commands[1024];
  uint32_t truth_count;
  sgpu_truth_rec truth[kMaxTruth];
  char names[kMaxTruth][kNameBytes];
  sgpu_stats_rec stats;
};

namespace {

constexpr sgpu_dim3 kGrid = {64, 2, 1};
constexpr sgpu_dim3 kBlock = {128, 1, 1};
constexpr uint32_t kLaunchKernelEx = 652;

[[noreturn]] void Die(const std::string& what) {
  fprintf(stderr, "in the GPU process: %s\n", what.c_str());
  _exit(1);
}

// The stand-in's function, found at run time as CUDA's would be.
#define SGPU_CALL(function) Find<decltype(function)>(#function)

class Program {
 public:
  void Load(const std::string& path, bool virtual_time) {
    library_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) Die(dlerror());
    sgpu_opts options{};
    options.size = sizeof(options);
    options.time_mode = virtual_time ? SGPU_TIME_VIRTUAL : SGPU_TIME_REAL;
    Check(SGPU_CALL(sgpu_init)(&options), "init");
    Check(SGPU_CALL(sgpu_default_stream)(1, &stream_), "default_stream");
  }
  bool has_gpu() const { return library_ != nullptr; }

  void Run(const std::string& command);

  template <typename Function>
  Function* Find(const char* name) {
    void* found = dlsym(library_, name);
    if (found == nullptr) Die(std::string("the stand-in has no ") + name);
    return reinterpret_cast<Function*>(found);
  }

 private:
  template <typename Function>
  Function* Kineto(const char* name) {
    void* found = dlsym(kineto_, name);
    if (found == nullptr) Die(std::string("fake Kineto has no ") + name);
    return reinterpret_cast<Function*>(found);
  }
  static void Check(int result, const std::string& what) {
    if (result != 0) Die(what + " gave " + std::to_string(result));
  }
  void Launch(int64_t count, uint64_t us, const char* name, uint32_t cbid = 0,
              uint64_t api_ns = 0) {
    auto* launch = SGPU_CALL(sgpu_launch);
    for (int64_t i = 0; i < count; ++i) {
      Check(launch(stream_, name, kGrid, kBlock, us * 1000, api_ns, cbid), "launch");
    }
  }
  void MakeGraph(bool with_memset);
  void LaunchGraph(int64_t count);
  void Fork();

  void* library_ = nullptr;
  void* kineto_ = nullptr;
  uint32_t stream_ = 0;
  uint32_t graph_ = 0;
  sgpu_module* module_ = nullptr;
};

void Program::MakeGraph(bool with_memset) {
  uint32_t graph;
  Check(SGPU_CALL(sgpu_graph_begin)(stream_), "graph_begin");
  Launch(3, 2, "node");
  if (with_memset) Check(SGPU_CALL(sgpu_memset)(stream_, 0, 4096, 1), "memset");
  Check(SGPU_CALL(sgpu_graph_end)(stream_, &graph), "graph_end");
  Check(SGPU_CALL(sgpu_graph_instantiate)(graph, &graph_), "graph_instantiate");
}

void Program::LaunchGraph(int64_t count) {
  if (graph_ == 0) MakeGraph(false);
  for (int64_t i = 0; i < count; ++i) {
    Check(SGPU_CALL(sgpu_graph_launch)(graph_, stream_, 0), "graph_launch");
  }
}

void Program::Fork() {
  const pid_t child = fork();
  if (child == 0) {
    // CUDA is of no use to it, as is CUPTI; what it may do is what data loaders do.
    profd_range_begin_id(profd_intern("in the child", 12));
    profd_range_end_id();
    _exit(0);
  }
  if (WaitForExit(child) != 0) Die("the forked child did not end well");
}

// The end of the process, with exit code 7 where there is one.
[[noreturn]] void Exit(const std::string& how) {
  constexpr int kExitCode = 7;
  if (how == "thread") std::thread([] { exit(kExitCode); }).join();
  if (how == "quick_exit") quick_exit(kExitCode);
  if (how == "_exit") _exit(kExitCode);
  if (how == "SIGTERM") raise(SIGTERM);
  exit(kExitCode);
}

void Program::Run(const std::string& command) {
  std::istringstream words(command);
  std::string what;
  std::string text;
  std::string value;
  int64_t number = 1;
  int64_t second = 1;
  words >> what;
  if (what == "launch") {
    words >> number >> second;
    if (!(words >> text)) text = "kernel";
    Launch(number, static_cast<uint64_t>(second), text.c_str());
  } else if (what == "paced-launch") {
    words >> number >> second >> text;
    const auto us = static_cast<uint64_t>(second);
    Launch(number, us, text.c_str(), 0, us * 1000);
  } else if (what == "driver-launch") {
    words >> number;
    if (!(words >> second >> text)) text = "driver_kernel";
    Launch(number, static_cast<uint64_t>(second), text.c_str(), SGPU_DRIVER_CBID | kLaunchKernelEx);
  } else if (what == "paced-driver-launch") {
    words >> number >> second >> text;
    const auto us = static_cast<uint64_t>(second);
    Launch(number, us, text.c_str(), SGPU_DRIVER_CBID | kLaunchKernelEx, us * 1000);
  } else if (what == "noise") {
    words >> number;
    for (int64_t i = 0; i < number; ++i) {
      Check(SGPU_CALL(sgpu_api_call)(SGPU_DOMAIN_RUNTIME, 17, 0, 0), what);
      Check(SGPU_CALL(sgpu_api_call)(SGPU_DOMAIN_DRIVER, 304, 0, 0), what);
    }
  } else if (what == "copy") {
    words >> number;
    Check(SGPU_CALL(sgpu_memcpy)(stream_, SGPU_HTOD, static_cast<uint64_t>(number), 1, 1), what);
  } else if (what == "host-function") {
    words >> number;
    Check(SGPU_CALL(sgpu_host_function)(stream_, static_cast<uint64_t>(number) * 1000), what);
  } else if (what == "decompress") {
    words >> number;
    if (!(words >> second)) second = 1;
    for (int64_t i = 0; i < second; ++i) {
      Check(SGPU_CALL(sgpu_mem_decompress)(stream_, 4, static_cast<uint64_t>(number)), what);
    }
  } else if (what == "memset") {
    words >> number;
    Check(SGPU_CALL(sgpu_memset)(stream_, 0, static_cast<uint64_t>(number), 1), what);
  } else if (what == "sync") {
    Check(SGPU_CALL(sgpu_stream_sync)(stream_), what);
  } else if (what == "events") {
    uint32_t event = 0;
    Check(SGPU_CALL(sgpu_event_record)(stream_, &event), what);
    Check(SGPU_CALL(sgpu_event_sync)(event), what);
  } else if (what == "queries") {
    words >> number;
    uint32_t event = 0;
    Check(SGPU_CALL(sgpu_event_record)(stream_, &event), what);
    for (int64_t i = 0; i < number; ++i) SGPU_CALL(sgpu_event_query)(event);
  } else if (what == "attribute") {
    words >> number >> second;
    // Little-endian: the low bytes are an attribute of fewer bytes.
    size_t bytes = sizeof(second);
    auto* set = Find<int(uint32_t, size_t*, void*)>("cuptiActivitySetAttribute");
    Check(set(static_cast<uint32_t>(number), &bytes, &second), command);
  } else if (what == "make-graph") {
    MakeGraph(true);
  } else if (what == "graph") {
    words >> number;
    LaunchGraph(number);
  } else if (what == "memory") {
    uint64_t address = 0;
    Check(SGPU_CALL(sgpu_malloc)(stream_, 4096, 0, &address), what);
    Check(SGPU_CALL(sgpu_free)(stream_, address, 0), what);
    Check(SGPU_CALL(sgpu_malloc)(stream_, 8192, 1, &address), what);
    Check(SGPU_CALL(sgpu_free)(stream_, address, 1), what);
  } else if (what == "step") {
    words >> number;
    for (int64_t i = 0; i < number; ++i) profd_step();
  } else if (what == "range") {
    words >> text >> number;
    profd_range_begin_id(profd_intern(text.data(), text.size()));
    Launch(number, 1, "kernel");
    profd_range_end_id();
  } else if (what == "threads") {
    words >> number >> second;
    std::vector<std::thread> threads;
    for (int64_t i = 0; i < number; ++i) threads.emplace_back([&] { Launch(second, 0, "kernel"); });
    for (std::thread& thread : threads) thread.join();
  } else if (what == "flood") {
    words >> number;
    std::thread([&] { Launch(number, 0, "flood"); }).join();
  } else if (what == "load") {
    words >> text;
    const char* const names[] = {text.c_str()};
    Check(SGPU_CALL(sgpu_module_load)(names, 1, &module_), what);
  } else if (what == "run") {
    words >> number;
    Launch(number, 1, SGPU_CALL(sgpu_function)(module_, 0));
  } else if (what == "unload") {
    words >> number;
    Check(SGPU_CALL(sgpu_module_unload)(module_, static_cast<uint32_t>(number)), what);
  } else if (what == "set") {
    words >> text >> value;
    Check(SGPU_CALL(sgpu_set)(text.c_str(), value.c_str()), command);
  } else if (what == "fail") {
    words >> text;
    Check(SGPU_CALL(sgpu_fail)(text.c_str()), command);
  } else if (what == "rival") {
    words >> text;
    Check(SGPU_CALL(sgpu_rival_subscribe)(text.c_str()), what);
  } else if (what == "rival-gone") {
    Check(SGPU_CALL(sgpu_rival_unsubscribe)(), what);
  } else if (what == "join") {
    words >> text;
    Check(SGPU_CALL(sgpu_rival_join)(text.c_str()), what);
  } else if (what == "leave") {
    Check(SGPU_CALL(sgpu_rival_leave)(), what);
  } else if (what == "steal") {
    Check(SGPU_CALL(sgpu_rival_steal_callbacks)(), what);
  } else if (what == "enable") {
    words >> number;
    Check(Find<int(uint32_t)>("cuptiActivityEnable")(static_cast<uint32_t>(number)), command);
  } else if (what == "kineto-load") {
    kineto_ = dlopen(getenv("FAKE_KINETO"), RTLD_NOW | RTLD_LOCAL);
    if (kineto_ == nullptr) Die(dlerror());
  } else if (what == "kineto-use") {
    words >> number;
    if (Kineto<bool(void*)>("fake_kineto_use")(library_) != (number != 0)) Die(command);
  } else if (what == "kineto-prepare") {
    profd_torch_profiler(1);
  } else if (what == "kineto-leave") {
    profd_torch_profiler(0);
  } else if (what == "kineto-start") {
    Kineto<void()>("fake_kineto_start")();
  } else if (what == "kineto-stop") {
    words >> text;
    const std::string count = std::to_string(Kineto<uint64_t()>("fake_kineto_stop")());
    if (text != "any" && text != count) Die(command + ": it recorded " + count);
  } else if (what == "clock-step") {
    words >> number;
    SGPU_CALL(sgpu_clock_step)(number);
  } else if (what == "settle") {
    Check(SGPU_CALL(sgpu_settle)(), what);
  } else if (what == "return-lost") {
    SGPU_CALL(sgpu_return_lost_buffers)();
  } else if (what == "truth-clear") {
    SGPU_CALL(sgpu_truth_clear)();
  } else if (what == "load-cuda") {
    const std::string driver =
        std::filesystem::path(StandinPath("13.0")).parent_path().parent_path();
    void* loaded = dlopen((driver + "/libcuda.so.1").c_str(), RTLD_NOW);
    if (loaded == nullptr) Die(dlerror());
    auto* init = reinterpret_cast<int (*)(unsigned)>(dlsym(loaded, "cuInit"));
    Check(init(0), what);
  } else if (what == "contexts") {
    void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    for (const char* count : {"sgpu_context_references", "sgpu_contexts_pushed"}) {
      if (reinterpret_cast<int (*)()>(dlsym(driver, count))() != 0) Die(count);
    }
  } else if (what == "fork") {
    Fork();
  } else if (what == "print") {
    words >> text >> value;
    if (freopen(text.c_str(), "w", stdout) == nullptr) Die("freopen");
    printf("%s", value.c_str());
  } else if (what == "exit") {
    words >> text;
    Exit(text);
  } else {
    Die("no command " + command);
  }
}

void RunCommands(Program& program, const char* commands) {
  std::istringstream parts(commands);
  std::string command;
  while (std::getline(parts, command, ';')) {
    if (command.find_first_not_of(' ') != std::string::npos) program.Run(command);
  }
}

}  // namespace

std::string StandinPath(const std::string& version) {
  const char* build = getenv("PROFD_BUILD_DIR");
  const std::string folder = std::string(build != nullptr ? build : PROFD_TEST_BUILD_DIR) +
                             "/lib/cupti_standin/" + version;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with("libcupti.so")) return entry.path();
  }
  FailTest("no stand-in of CUPTI in " + folder);
}

GpuProcess::GpuProcess(const Options& options) {
  void* mapped = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) FailTest("mapping memory to share with a GPU process");
  shared_ = static_cast<Shared*>(mapped);
  child_ = std::make_unique<Child>(daemon_.directory(), [&, shared = shared_](Parent& parent) {
    for (const auto& [name, value] : options.environment) setenv(name.c_str(), value.c_str(), 1);
    Program program;
    if (!options.version.empty()) program.Load(StandinPath(options.version), options.virtual_time);
    profd_init();
    for (;;) {
      switch (parent.Next()) {
        case 'c':
          RunCommands(program, shared->commands);
          break;
        case 't': {
          auto* get = program.Find<decltype(sgpu_truth)>("sgpu_truth");
          const uint32_t count = get(shared->truth, kMaxTruth);
          shared->truth_count = count < kMaxTruth ? count : kMaxTruth;
          for (uint32_t i = 0; i < shared->truth_count; ++i) {
            const char* name = shared->truth[i].name;
            snprintf(shared->names[i], kNameBytes, "%s", name != nullptr ? name : "");
          }
          break;
        }
        case 's':
          shared->stats.size = sizeof(shared->stats);
          program.Find<decltype(sgpu_stats)>("sgpu_stats")(&shared->stats);
          break;
        default:
          Die("a message that is none");
      }
      parent.Tell('d');
    }
  });
  target_ = daemon_.WaitTarget();
}

GpuProcess::~GpuProcess() {
  child_.reset();
  munmap(shared_, sizeof(Shared));
}

void GpuProcess::Begin(const std::string& commands) {
  snprintf(shared_->commands, sizeof(shared_->commands), "%s", commands.c_str());
  child_->Tell('c');
}

void GpuProcess::Wait() { child_->Await('d'); }

void GpuProcess::Run(const std::string& commands) {
  Begin(commands);
  Wait();
}

void GpuProcess::Reconnect() {
  target_.reset();
  target_ = daemon_.WaitTarget();
}

std::vector<Truth> GpuProcess::AllTruth() {
  child_->Tell('t');
  Wait();
  std::vector<Truth> all;
  for (uint32_t i = 0; i < shared_->truth_count; ++i) {
    all.push_back({shared_->truth[i], shared_->names[i]});
    all.back().record.name = nullptr;
  }
  return all;
}

std::vector<Truth> GpuProcess::TruthOf(uint32_t kind) {
  std::vector<Truth> found;
  for (Truth& truth : AllTruth()) {
    if (truth.record.kind == kind) found.push_back(std::move(truth));
  }
  return found;
}

sgpu_stats_rec GpuProcess::Stats() {
  child_->Tell('s');
  Wait();
  return shared_->stats;
}

std::vector<int> GpuProcess::NicenessOf(const std::string& name) {
  std::vector<int> found;
  const std::string tasks = "/proc/" + std::to_string(child_->pid()) + "/task";
  for (const auto& entry : std::filesystem::directory_iterator(tasks)) {
    std::string comm;
    std::ifstream(entry.path() / "comm") >> comm;
    if (comm != name) continue;
    found.push_back(
        getpriority(PRIO_PROCESS, static_cast<id_t>(std::stoul(entry.path().filename()))));
  }
  return found;
}

int GpuProcess::CountThreads(const std::string& name) {
  int count = 0;
  const std::string tasks = "/proc/" + std::to_string(child_->pid()) + "/task";
  for (const auto& entry : std::filesystem::directory_iterator(tasks)) {
    std::string comm;
    std::ifstream(entry.path() / "comm") >> comm;
    count += comm == name ? 1 : 0;
  }
  return count;
}

Refusal ArmThatFails(GpuProcess& process, wire::ArmBody arm) {
  auto capture = process.target().SendArm(arm);
  const Frame frame = process.target().Expect(wire::FrameType::kArmFailed);
  const auto body = frame.As<wire::ArmFailedBody>();
  EXPECT_EQ(body.capture_number, capture->number());
  Refusal refusal{static_cast<wire::ArmFailedReason>(body.reason), ""};
  for (const auto& [tag, text] : frame.Fields(sizeof(body))) refusal.text = text;
  return refusal;
}

std::unique_ptr<FakeCapture> StartRecording(GpuProcess& process, wire::GpuMode mode,
                                            uint32_t flags) {
  auto capture = process.target().ArmGpu(mode, flags);
  capture->Fire(ByTime());
  capture->WaitPhase(wire::Phase::kRecording);
  return capture;
}

void ExpectGoesOn(GpuProcess& process) {
  auto capture = process.target().Arm();
  capture->Fire(ByTime());
  capture->WaitPhase(wire::Phase::kRecording);
  process.Run("step 3");
  EXPECT_EQ(capture->Finish().steps.size(), 3u);
}

}  // namespace profd::testing
