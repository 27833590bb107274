// A training loop that knows nothing of profd: NVTX ranges, of the real headers where they
// are (PROFD_HAVE_NVTX), else of the few lines below, which find the injection as those do.
//
//   nvtx_program [SECONDS]     until then, or SIGTERM (exit code 0 either way)
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <thread>

#ifdef PROFD_HAVE_NVTX
#include <nvtx3/nvToolsExt.h>
#else
#include <dlfcn.h>

#include "tests/fakes/fake_nvtx.h"

namespace {

using Nvtx = profd::testing::FakeNvtx<0>;

void FindInjection() {
  static const bool once = [] {
    const char* path = getenv("NVTX_INJECTION64_PATH");
    void* library = path == nullptr ? nullptr : dlopen(path, RTLD_LAZY);
    if (library == nullptr) return false;
    return Nvtx::Attach(reinterpret_cast<int (*)(profd::client::nvtx::GetExportTable)>(
        dlsym(library, "InitializeInjectionNvtx2")));
  }();
  static_cast<void>(once);
}
void nvtxRangePushA(const char* text) {
  FindInjection();
  Nvtx::PushA(text);
}
void nvtxRangePop() { Nvtx::Pop(); }
uint64_t nvtxRangeStartA(const char* text) { return Nvtx::StartA(text); }
void nvtxRangeEnd(uint64_t id) { Nvtx::End(id); }
void nvtxMarkA(const char* text) { Nvtx::MarkA(text); }

}  // namespace
#endif

namespace {

volatile sig_atomic_t g_stopped = 0;

void Work() {
  const timespec work{0, 500'000};
  nanosleep(&work, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  signal(SIGTERM, [](int) { g_stopped = 1; });
  const time_t end = time(nullptr) + (argc > 1 ? strtol(argv[1], nullptr, 10) : 60);
  puts("training");
  fflush(stdout);
  while (g_stopped == 0 && time(nullptr) < end) {
    nvtxRangePushA("iteration");
    const auto load = nvtxRangeStartA("load");
    std::thread loader([load] {
      Work();
      nvtxRangeEnd(load);
    });
    nvtxRangePushA("forward");
    Work();
    nvtxRangePop();
    nvtxMarkA("loss is known");
    nvtxRangePushA("backward");
    Work();
    nvtxRangePop();
    loader.join();
    nvtxRangePop();
  }
  puts("done");
  return 0;
}
