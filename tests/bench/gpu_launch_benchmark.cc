// What a launch costs the thread that makes it, on the software GPU: with nobody watching,
// with the smallest client of CUPTI that records the same, and in a capture of ours. What ours
// adds is the difference to that client; the stand-in's own cost, which is not NVIDIA's, is in
// both.
//
//   gpu_launch_benchmark [LAUNCHES [SAMPLES]]
//
// Samples of all take turns; figures are CPU time of the launching thread, which a busy machine
// makes longer: the least of each is the fairest to compare. A forked child plays the daemon.
#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "client_lib/cupti/cupti_library.h"
#include "client_lib/cupti/record_decoder.h"
#include "client_lib/include/profd/profd.h"
#include "tests/cupti_standin/sgpu.h"
#include "tests/fakes/fake_daemon.h"

namespace profd {
namespace {

namespace cupti = client::cupti;

uint64_t ThreadCpuNs() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

// The daemon's process: arms and fires at 'a', ends the capture at 's', says 'd' to each.
[[noreturn]] void PlayDaemon(const std::string& directory, int in, int out) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  testing::FakeDaemon daemon(directory);
  const char ready = 'd';
  if (write(out, &ready, 1) != 1) _exit(1);
  auto target = daemon.WaitTarget();
  std::unique_ptr<testing::FakeCapture> capture;
  for (;;) {
    pollfd waited{in, POLLIN, 0};
    if (poll(&waited, 1, 1) == 0) {
      if (capture != nullptr) capture->RecycleFullChunks(/*keep=*/false);
      continue;
    }
    char message = 0;
    if (read(in, &message, 1) != 1) _exit(0);
    if (message == 'a') {
      wire::ArmBody arm = testing::GpuArm(wire::GpuMode::kDefault);
      arm.gpu_buffer_bytes = 256u << 20;
      capture = target->SendArm(arm);
      target->ExpectArmed(*capture);
      capture->Fire(testing::ByTime());
      capture->WaitPhase(wire::Phase::kRecording);
    } else {
      capture->Stop();
      capture->Release();
      capture.reset();
    }
    if (write(out, &message, 1) != 1) _exit(1);
  }
}

struct Pipes {
  int to_daemon;
  int from_daemon;
  void Ask(char message) const {
    char answer;
    if (write(to_daemon, &message, 1) != 1 || read(from_daemon, &answer, 1) != 1) exit(1);
  }
};

// The smallest client: buffers that are zero and there, taken back as they are.
constexpr size_t kBareBufferBytes = 2u << 20;
constexpr uint32_t kBareBuffers = 64;
std::vector<uint8_t> g_bare_memory;
std::atomic<uint32_t> g_bare_next{0};

void BareRequested(uint8_t** buffer, size_t* size, size_t* max_records) {
  *max_records = 0;
  *size = kBareBufferBytes;
  *buffer = g_bare_memory.data() +
            g_bare_next.fetch_add(1, std::memory_order_relaxed) % kBareBuffers * kBareBufferBytes;
}
void BareCompleted(void*, uint32_t, uint8_t*, size_t, size_t) {}
void BareCallback(void*, uint32_t, uint32_t, const void*) {}

class BareClient {
 public:
  explicit BareClient(const client::CuptiLibrary& library) : library_(library) {
    g_bare_memory.resize(kBareBuffers * kBareBufferBytes);
  }
  void Start() {
    uint8_t zeroed = 1;
    size_t size = 1;
    library_.Subscribe(&subscriber_, BareCallback, nullptr);
    library_.SetThreadIdType(cupti::kThreadIdSystem);
    library_.ActivitySetAttribute(cupti::kAttributeZeroedBuffers, &size, &zeroed);
    library_.ActivityRegisterCallbacks(BareRequested, BareCompleted);
    for (const cupti::Kind kind : kKinds) library_.ActivityEnable(kind);
    LeaveOutDriverCalls();
  }
  void Stop() {
    for (const cupti::Kind kind : kKinds) library_.ActivityDisable(kind);
    library_.ActivityFlushAll(1);
    library_.Unsubscribe(subscriber_);
  }

 private:
  static constexpr cupti::Kind kKinds[] = {
      cupti::kKindRuntime,  cupti::kKindDriver,          cupti::kKindSynchronization,
      cupti::kKindOverhead, cupti::kKindMemcpy,          cupti::kKindMemcpyPeer,
      cupti::kKindMemset,   cupti::kKindConcurrentKernel};
  void LeaveOutDriverCalls() {
    for (uint32_t cbid = 1; cbid < 1000; ++cbid) {
      const char* name = nullptr;
      if (library_.GetCallbackName(cupti::kDomainDriverApi, cbid, &name) == cupti::kSuccess &&
          name != nullptr && !client::KeepsApi(client::ApiFilter::kMost, true, name)) {
        library_.ActivityEnableDriverApi(cbid, 0);
      }
    }
  }
  const client::CuptiLibrary& library_;
  cupti::Subscriber subscriber_ = nullptr;
};

class Launcher {
 public:
  Launcher(void* standin, int launches) : launches_(launches) {
    const auto find = [&](const char* name, auto* function) {
      *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(dlsym(standin, name));
    };
    find("sgpu_launch", &launch_);
    find("sgpu_settle", &settle_);
    sgpu_default_stream_t* default_stream;
    find("sgpu_default_stream", &default_stream);
    default_stream(1, &stream_);
  }
  double SampleNs() {
    constexpr sgpu_dim3 kOne = {1, 1, 1};
    const uint64_t start_ns = ThreadCpuNs();
    for (int i = 0; i < launches_; ++i) launch_(stream_, "kernel", kOne, kOne, 1000, 0, 0);
    const double ns = static_cast<double>(ThreadCpuNs() - start_ns) / launches_;
    settle_();
    return ns;
  }

 private:
  using sgpu_default_stream_t = decltype(sgpu_default_stream);
  decltype(&sgpu_launch) launch_;
  decltype(&sgpu_settle) settle_;
  uint32_t stream_ = 0;
  const int launches_;
};

double Median(std::vector<double>* samples) {
  const auto middle = samples->begin() + static_cast<std::ptrdiff_t>(samples->size() / 2);
  std::nth_element(samples->begin(), middle, samples->end());
  return (*samples)[samples->size() / 2];
}

int Run(int launches, size_t samples) {
  char directory[] = "/tmp/profd-bench-XXXXXX";
  if (mkdtemp(directory) == nullptr) return 1;
  int down[2];
  int up[2];
  if (pipe(down) != 0 || pipe(up) != 0) return 1;
  const pid_t daemon = fork();
  if (daemon == 0) {
    close(down[1]);
    close(up[0]);
    PlayDaemon(directory, down[0], up[1]);
  }
  close(down[0]);
  close(up[1]);
  const Pipes pipes{down[1], up[0]};
  char ready;
  if (read(up[0], &ready, 1) != 1) return 1;

  setenv("PROFD_SOCKET_DIR", directory, 1);
  setenv("PROFD_CUPTI_LIB", PROFD_BENCH_STANDIN, 1);
  setenv("SGPU_TRUTH", "0", 1);
  client::CuptiLibrary library;
  client::ArmFailure failure;
  if (!client::FindCupti({.version = 13000}, &library, &failure)) {
    fprintf(stderr, "%s\n", failure.text);
    return 1;
  }
  void* standin = dlopen(PROFD_BENCH_STANDIN, RTLD_NOW);
  sgpu_opts options{};
  options.size = sizeof(options);
  options.time_mode = SGPU_TIME_VIRTUAL;
  reinterpret_cast<decltype(&sgpu_init)>(dlsym(standin, "sgpu_init"))(&options);
  Launcher launcher(standin, launches);
  BareClient bare(library);

  std::vector<double> without;
  without.reserve(samples);
  for (size_t i = 0; i < samples; ++i) without.push_back(launcher.SampleNs());
  profd_init();
  std::vector<double> idle;
  std::vector<double> with_bare;
  std::vector<double> with_ours;
  for (size_t i = 0; i < samples; ++i) {
    idle.push_back(launcher.SampleNs());
    bare.Start();
    with_bare.push_back(launcher.SampleNs());
    bare.Stop();
    pipes.Ask('a');
    with_ours.push_back(launcher.SampleNs());
    pipes.Ask('s');
  }
  close(down[1]);
  waitpid(daemon, nullptr, 0);
  std::string cleanup = std::string(directory) + "/agent";
  rmdir(cleanup.c_str());
  rmdir(directory);

  printf("ns of CPU time per launch on the launching thread, median (least) of %zu x %d launches\n",
         samples, launches);
  const auto print = [](const char* what, std::vector<double>* of) {
    const double least = *std::min_element(of->begin(), of->end());
    printf("%-30s %7.1f (%.1f)\n", what, Median(of), least);
    return least;
  };
  print("library not started", &without);
  print("library idle", &idle);
  const double least_bare = print("recorded by the bare client", &with_bare);
  const double least_ours = print("recorded by us", &with_ours);
  printf("%-30s %+7.1f, of the least\n", "added by us", least_ours - least_bare);
  return 0;
}

}  // namespace
}  // namespace profd

int main(int argc, char** argv) {
  const long launches = argc > 1 ? strtol(argv[1], nullptr, 10) : 20'000;
  const long samples = argc > 2 ? strtol(argv[2], nullptr, 10) : 21;
  return profd::Run(static_cast<int>(launches), static_cast<size_t>(samples));
}
