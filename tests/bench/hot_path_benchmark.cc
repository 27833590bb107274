// What an annotation costs the program that makes it: idle, recorded back to back, and
// recorded around work; each beside what it is to be compared with, in the same run.
//
//   hot_path_benchmark [--benchmark_format=json]
//
// Variants of one benchmark are timed in turn, many short samples each, and the medians
// compared: a noisy minute hits all of them alike. Figures are ns per begin/end pair.
// A forked child plays the daemon and empties the capture memory once a millisecond.
#include <benchmark/benchmark.h>
#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "profd/profd.hpp"
#include "proto/wire/clock.h"
#include "tests/bench/nvtx_recorder.h"
#include "tests/fakes/fake_daemon.h"

namespace profd {
namespace {

constexpr int kPairsPerSample = 2'000;
constexpr int kSamples = 401;

// One sample: kPairsPerSample iterations of a variant.
using Variant = std::function<void()>;

double SampleNs(const Variant& variant) {
  const uint64_t start = wire::ReadMonotonicNs();
  variant();
  return static_cast<double>(wire::ReadMonotonicNs() - start) / kPairsPerSample;
}

// `prepare(i)` comes before each sample of variant i, and is not timed.
std::vector<double> MedianNs(
    const std::vector<Variant>& variants, int sample_count = kSamples,
    const std::function<void(size_t)>& prepare = [](size_t) {}) {
  std::vector<std::vector<double>> samples(variants.size());
  for (const Variant& variant : variants) SampleNs(variant);  // Warm.
  for (int sample = 0; sample < sample_count; ++sample) {
    for (size_t i = 0; i < variants.size(); ++i) {
      prepare(i);
      samples[i].push_back(SampleNs(variants[i]));
    }
  }
  std::vector<double> medians;
  for (auto& of_variant : samples) {
    std::nth_element(of_variant.begin(), of_variant.begin() + sample_count / 2, of_variant.end());
    medians.push_back(of_variant[static_cast<size_t>(sample_count / 2)]);
  }
  return medians;
}

// Keeps the compiler from seeing through the loop; costs nothing itself.
inline void Opaque() { __asm__ __volatile__("" ::: "memory"); }

template <typename Body>
Variant Loop(const Body& body) {
  return [body] {
    for (int i = 0; i < kPairsPerSample; ++i) body();
  };
}

constinit profd_name g_name = PROFD_NAME_INIT("benchmark");

Variant EmptyLoop() {
  return Loop([] { Opaque(); });
}
Variant CRange() {
  return Loop([] {
    profd_range_begin(&g_name);
    Opaque();
    profd_range_end();
  });
}
Variant ScopedRangeLoop() {
  return Loop([] {
    PROFD_RANGE("benchmark");
    Opaque();
  });
}
Variant TwoTimestamps() {
  return Loop([] {
    benchmark::DoNotOptimize(wire::ReadCpuTicks());
    Opaque();
    benchmark::DoNotOptimize(wire::ReadCpuTicks());
  });
}
Variant NvtxRange() {
  return Loop([] {
    bench::NvtxPush("benchmark");
    Opaque();
    bench::NvtxPop();
  });
}

// 65-95 ns of work of three kinds: one chain of multiplications; a dot product, as a small
// real kernel; and independent additions that leave no issue slot free, where whatever is
// added shows in full. Not inlined, so that all variants run the very same code.
[[gnu::noinline]] uint64_t ChainedWork(uint64_t value) {
#pragma GCC unroll 1
  for (int i = 0; i < 70; ++i) {
    value = value * 0x9e3779b97f4a7c15u + 1;
    __asm__ __volatile__("" : "+r"(value));
  }
  return value;
}

constexpr int kVectorFloats = 768;
float g_left[kVectorFloats];
float g_right[kVectorFloats];

[[gnu::noinline]] uint64_t DotProduct(uint64_t value) {
  float sums[4] = {};
  __asm__ __volatile__("" : : "r"(g_left), "r"(g_right) : "memory");
  for (int i = 0; i < kVectorFloats; i += 4) {
    for (int lane = 0; lane < 4; ++lane) sums[lane] += g_left[i + lane] * g_right[i + lane];
  }
  return value + static_cast<uint64_t>(sums[0] + sums[1] + sums[2] + sums[3]);
}

[[gnu::noinline]] uint64_t WideWork(uint64_t value) {
  uint64_t a = value, b = value + 1, c = value + 2, d = value + 3;
#pragma GCC unroll 1
  for (int i = 0; i < 160; ++i) {
    a ^= a << 7;
    b ^= b >> 9;
    c += c << 3;
    d -= d >> 5;
    __asm__ __volatile__("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d));
  }
  return a + b + c + d;
}

template <uint64_t (*kWork)(uint64_t)>
Variant BareWork() {
  return [] {
    uint64_t value = 1;
    for (int i = 0; i < kPairsPerSample; ++i) {
      value = kWork(value);
      Opaque();
    }
    benchmark::DoNotOptimize(value);
  };
}
template <uint64_t (*kWork)(uint64_t)>
Variant TimedWork() {
  return [] {
    uint64_t value = 1;
    for (int i = 0; i < kPairsPerSample; ++i) {
      benchmark::DoNotOptimize(wire::ReadCpuTicks());
      value = kWork(value);
      Opaque();
      benchmark::DoNotOptimize(wire::ReadCpuTicks());
    }
    benchmark::DoNotOptimize(value);
  };
}
template <uint64_t (*kWork)(uint64_t)>
Variant RangedWork() {
  return [] {
    uint64_t value = 1;
    for (int i = 0; i < kPairsPerSample; ++i) {
      profd_range_begin(&g_name);
      value = kWork(value);
      Opaque();
      profd_range_end();
    }
    benchmark::DoNotOptimize(value);
  };
}

void IdleRange(benchmark::State& state) {
  bench::SetNvtxRecording(false);
  std::vector<Variant> variants = {EmptyLoop(), CRange(), ScopedRangeLoop()};
  if (bench::HaveNvtx()) variants.push_back(NvtxRange());
  std::vector<double> ns;
  for (auto _ : state) ns = MedianNs(variants);
  state.counters["empty_ns"] = ns[0];
  state.counters["c_added_ns"] = ns[1] - ns[0];
  state.counters["scoped_added_ns"] = ns[2] - ns[0];
  if (bench::HaveNvtx()) state.counters["nvtx_added_ns"] = ns[3] - ns[0];
}

void RecordedRange(benchmark::State& state) {
  bench::SetNvtxRecording(true);
  std::vector<Variant> variants = {TwoTimestamps(), CRange(), ScopedRangeLoop()};
  if (bench::HaveNvtx()) variants.push_back(NvtxRange());
  std::vector<double> ns;
  for (auto _ : state) ns = MedianNs(variants);
  bench::SetNvtxRecording(false);
  state.counters["two_timestamps_ns"] = ns[0];
  state.counters["c_ns"] = ns[1];
  state.counters["scoped_ns"] = ns[2];
  state.counters["c_ratio"] = ns[1] / ns[0];
  state.counters["scoped_ratio"] = ns[2] / ns[0];
  if (bench::HaveNvtx()) state.counters["nvtx_ns"] = ns[3];
}

// What two bare timestamps add to the same work is the floor: no recorder can add less.
template <uint64_t (*kWork)(uint64_t)>
void RecordedRangeAroundWork(benchmark::State& state) {
  std::vector<double> ns;
  for (auto _ : state) ns = MedianNs({BareWork<kWork>(), TimedWork<kWork>(), RangedWork<kWork>()});
  state.counters["bare_ns"] = ns[0];
  state.counters["two_timestamps_added_ns"] = ns[1] - ns[0];
  state.counters["range_added_ns"] = ns[2] - ns[0];
}

// ---- Ranges that are paired by identity, while another thread has some on its stack that were
// closed elsewhere.

// A thread that opens ranges, which others close, and then does nothing.
class IdleOwner {
 public:
  ~IdleOwner() { Ask(kEnd); }

  // `count` ranges of it are closed here, and stay on its stack; those before are gone.
  void LeaveClosed(int count) {
    Ask(kCleanUp);
    if (count == 0) return;
    Ask(count);
    for (const uint64_t range : ranges_) profd_range_close(range);
  }

 private:
  static constexpr int kNothing = -1;
  static constexpr int kCleanUp = -2;
  static constexpr int kEnd = -3;

  void Ask(int what) {
    asked_.store(what);
    asked_.notify_one();
    if (what != kEnd) asked_.wait(what);
  }
  void Run() {
    for (;;) {
      asked_.wait(kNothing);
      const int what = asked_.load();
      if (what == kEnd) return;
      ranges_.clear();
      // Whatever a thread opens takes its closed ones off its stack first.
      if (what == kCleanUp) profd_range_close(profd_range_open_id(name_));
      for (int i = 0; i < what; ++i) ranges_.push_back(profd_range_open_id(name_));
      asked_.store(kNothing);
      asked_.notify_one();
    }
  }

  const uint32_t name_ = profd_intern("waiting", 7);
  std::vector<uint64_t> ranges_;
  std::atomic<int> asked_{kNothing};
  std::jthread thread_{[this] { Run(); }};
};

// Pairs inside of `depth` others, `waiting` of another thread's being closed and on its stack.
void RecordedIdentityRange(benchmark::State& state, int depth) {
  constexpr int kFewerSamples = 101;
  constexpr int kWaiting[] = {0, 1, 100};
  const uint32_t name = profd_intern("benchmark", 9);
  const Variant pairs = Loop([name] {
    const uint64_t range = profd_range_open_id(name);
    Opaque();
    profd_range_close(range);
  });
  std::vector<uint64_t> around;
  around.reserve(static_cast<size_t>(depth));
  for (int i = 0; i < depth; ++i) around.push_back(profd_range_open_id(name));
  IdleOwner owner;
  std::vector<double> ns;
  for (auto _ : state) {
    ns = MedianNs({pairs, pairs, pairs}, kFewerSamples,
                  [&](size_t i) { owner.LeaveClosed(kWaiting[i]); });
  }
  owner.LeaveClosed(0);
  for (; !around.empty(); around.pop_back()) profd_range_close(around.back());
  state.counters["none_waiting_ns"] = ns[0];
  state.counters["one_waiting_added_ns"] = ns[1] - ns[0];
  state.counters["hundred_waiting_added_ns"] = ns[2] - ns[0];
}
void RecordedOutermostIdentityRange(benchmark::State& state) { RecordedIdentityRange(state, 0); }
void RecordedNestedIdentityRange(benchmark::State& state) { RecordedIdentityRange(state, 4); }

// ---- NVTX with our library as its injection.

using NvtxPairs = void (*)(int count);

Variant Pairs(NvtxPairs pairs) {
  return [pairs] { pairs(kPairsPerSample); };
}

// The pairs of two objects with slots of their own: one without a tool, one with us.
struct NvtxObjects {
  NvtxPairs alone = nullptr;
  NvtxPairs attached = nullptr;
  NvtxPairs attached_registered = nullptr;
};

NvtxObjects LoadNvtxObjects() {
  if (!bench::HaveNvtx()) return {};
  const std::filesystem::path folder =
      std::filesystem::read_symlink("/proc/self/exe").parent_path();
  void* alone = dlopen((folder / "nvtx_pairs_alone.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  void* attached = dlopen((folder / "nvtx_pairs_attached.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (alone == nullptr || attached == nullptr) return {};
  const auto pairs_of = [](void* object, const char* name) {
    return reinterpret_cast<NvtxPairs>(dlsym(object, name));
  };
  NvtxObjects objects{pairs_of(alone, "profd_bench_nvtx_pairs"),
                      pairs_of(attached, "profd_bench_nvtx_pairs"),
                      pairs_of(attached, "profd_bench_nvtx_registered_pairs")};
  // The first call decides.
  unsetenv("NVTX_INJECTION64_PATH");
  objects.alone(1);
  Dl_info library{};
  dladdr(reinterpret_cast<void*>(&profd_init), &library);
  setenv("NVTX_INJECTION64_PATH", library.dli_fname, 1);
  objects.attached(1);
  objects.attached_registered(1);
  return objects;
}

NvtxObjects g_nvtx;

void IdleNvtx(benchmark::State& state) {
  std::vector<double> ns;
  for (auto _ : state) {
    ns = MedianNs({Pairs(g_nvtx.alone), Pairs(g_nvtx.attached), Pairs(g_nvtx.attached_registered)});
  }
  state.counters["alone_ns"] = ns[0];
  state.counters["attached_ns"] = ns[1];
  state.counters["attached_registered_ns"] = ns[2];
}

void RecordedNvtx(benchmark::State& state) {
  std::vector<double> ns;
  for (auto _ : state) {
    ns = MedianNs({CRange(), Pairs(g_nvtx.attached), Pairs(g_nvtx.attached_registered)});
  }
  state.counters["c_ns"] = ns[0];
  state.counters["push_pop_ns"] = ns[1];
  state.counters["registered_ns"] = ns[2];
}

// ---- The daemon, in a process of its own.

// Arms and fires when it is told to on `commands`; then recycles until the target is gone.
[[noreturn]] void PlayDaemon(const char* directory, int commands) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  testing::FakeDaemon daemon(directory);
  auto target = daemon.WaitTarget();
  char go;
  if (read(commands, &go, 1) != 1) _exit(0);
  auto capture = target->Arm(256u << 20);
  capture->Fire(testing::ByTime());
  for (;;) {
    capture->RecycleFullChunks(/*keep=*/false);
    const timespec pause{0, 1'000'000};
    nanosleep(&pause, nullptr);
  }
}

profd_status Status() {
  profd_status status{};
  status.size_bytes = sizeof(status);
  profd_get_status(&status);
  return status;
}

void PinTo(int cpu) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(cpu, &cpus);
  sched_setaffinity(0, sizeof(cpus), &cpus);
}

int Run(int argc, char** argv) {
  char directory[] = "/tmp/profd-bench-XXXXXX";
  int commands[2];
  if (mkdtemp(directory) == nullptr || pipe(commands) != 0) return 1;
  const pid_t daemon = fork();
  if (daemon == 0) PlayDaemon(directory, commands[0]);
  setenv("PROFD_SOCKET_DIR", directory, 1);
  profd_init();
  testing::WaitUntil("the connection", [] {
    profd_init();
    return Status().connected != 0;
  });
  PinTo(0);

  g_nvtx = LoadNvtxObjects();
  benchmark::RegisterBenchmark("IdleRange", IdleRange)->Iterations(1);
  if (g_nvtx.attached != nullptr) {
    benchmark::RegisterBenchmark("IdleNvtx", IdleNvtx)->Iterations(1);
  }
  const auto start_recording = [&](benchmark::State& state, void (*then)(benchmark::State&)) {
    if (Status().recording == 0) {
      if (write(commands[1], "g", 1) != 1) state.SkipWithError("no daemon");
      testing::WaitUntil("the capture", [] { return Status().recording != 0; });
    }
    then(state);
    state.counters["drops"] = static_cast<double>(Status().dropped_event_count);
  };
  std::vector<std::pair<const char*, void (*)(benchmark::State&)>> recorded = {
      {"RecordedRange", RecordedRange},
      {"RecordedRangeAroundWork/chained", RecordedRangeAroundWork<ChainedWork>},
      {"RecordedRangeAroundWork/dot_product", RecordedRangeAroundWork<DotProduct>},
      {"RecordedRangeAroundWork/wide", RecordedRangeAroundWork<WideWork>},
      {"RecordedIdentityRange/outermost", RecordedOutermostIdentityRange},
      {"RecordedIdentityRange/nested", RecordedNestedIdentityRange}};
  if (g_nvtx.attached != nullptr) recorded.emplace_back("RecordedNvtx", RecordedNvtx);
  for (const auto& [name, function] : recorded) {
    benchmark::RegisterBenchmark(name, [&, function = function](benchmark::State& state) {
      start_recording(state, function);
    })->Iterations(1);
  }
  if (!bench::HaveNvtx()) fprintf(stderr, "NVTX is left out: built without its headers.\n");
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  kill(daemon, SIGKILL);
  waitpid(daemon, nullptr, 0);
  return 0;
}

}  // namespace
}  // namespace profd

int main(int argc, char** argv) { return profd::Run(argc, argv); }
