// What torch_op_benchmark.py calls: loops of operators, observers to compare ours with, and a
// daemon in a process of its own that arms, fires and empties captures.
//
// Threads: one. Errors: what fails ends the process.
#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "client_lib/include/profd/profd.h"
#include "client_lib/torch/torch_abi.h"
#include "tests/client_lib/torch/libtorch_fixture.h"
#include "tests/fakes/fake_daemon.h"

namespace profd {
namespace {

using client::torch::CallbackContext;
using client::torch::RecordFunctionCallback;
using wire::OperatorsMode;

int g_to_daemon = -1;
int g_from_daemon = -1;

[[noreturn]] void Fail(const char* what) {
  fprintf(stderr, "torch_op_loop: %s\n", what);
  exit(1);
}

uint64_t ThreadCpuNs() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

// 'n', 's': a capture of names, of shapes; 'x': its end. Each is said back when done, 'x' as 'x'
// or, where events were dropped, as 'd'.
[[noreturn]] void PlayDaemon(const std::string& directory, int in, int out) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  testing::FakeDaemon daemon(directory);
  const char ready = 'r';
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
    if (message == 'x') {
      capture->Stop();
      uint64_t drops = 0;
      for (const auto& count : capture->header().drops) drops += count.load();
      if (drops != 0) message = 'd';
      capture->Release();
      capture.reset();
    } else {
      const OperatorsMode mode = message == 'n' ? OperatorsMode::kNames : OperatorsMode::kShapes;
      capture = target->ArmTorch({static_cast<uint32_t>(mode), 0, 0, 0});
      capture->Fire(testing::ByTime());
      capture->WaitPhase(wire::Phase::kRecording);
    }
    if (write(out, &message, 1) != 1) _exit(1);
  }
}

// Observers that do nothing.
CallbackContext OnBegin(const void*) { return {}; }
void OnEnd(const void*, void*) {}

template <typename Function>
void Find(void* library, const char* symbol, Function* function) {
  void* found = dlsym(library, symbol);
  if (found == nullptr) Fail(symbol);
  __builtin_memcpy(function, &found, sizeof(found));
}

}  // namespace
}  // namespace profd

using namespace profd;  // NOLINT: the C functions stand outside.

extern "C" {

// Before anything of profd's has started.
PROFD_API void bench_start_daemon(const char* directory) {
  int down[2];
  int up[2];
  if (pipe(down) != 0 || pipe(up) != 0) Fail("pipe");
  if (fork() == 0) {
    close(down[1]);
    close(up[0]);
    PlayDaemon(directory, down[0], up[1]);
  }
  close(down[0]);
  close(up[1]);
  g_to_daemon = down[1];
  g_from_daemon = up[0];
  char ready;
  if (read(g_from_daemon, &ready, 1) != 1) Fail("no daemon");
  setenv("PROFD_SOCKET_DIR", directory, 1);
}

// See PlayDaemon(). Returns what was said back.
PROFD_API char bench_ask_daemon(char message) {
  if (write(g_to_daemon, &message, 1) != 1 || read(g_from_daemon, &message, 1) != 1) {
    Fail("the daemon is gone");
  }
  return message;
}

// Registers observers that do nothing, disabled; `library` is libtorch_cpu's handle.
PROFD_API uint64_t bench_add_empty(void* library, int needs_inputs) {
  uint64_t (*add)(RecordFunctionCallback);
  void (*disable)(uint64_t);
  Find(library, "_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE", &add);
  Find(library, "_ZN2at15disableCallbackEm", &disable);
  RecordFunctionCallback callback{OnBegin, OnEnd, 1.0, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 0, 0, 0};
  callback.needs_inputs = needs_inputs != 0;
  const uint64_t handle = add(callback);
  disable(handle);
  return handle;
}

PROFD_API void bench_enable(void* library, uint64_t handle, int on) {
  void (*function)(uint64_t);
  Find(library, on != 0 ? "_ZN2at16reenableCallbackEm" : "_ZN2at15disableCallbackEm", &function);
  function(handle);
}

// CPU time, in ns, of one Tensor::copy_() between two tensors, whose TensorImpl are at `to` and
// `from`, of `count`. Three inputs: two tensors and a boolean.
PROFD_API double bench_loop_copy(void* library, void* to, void* from, int count) {
  void* (*copy)(void** to, void* const* from, bool non_blocking);
  Find(library, "_ZN2at4_ops5copy_4callERNS_6TensorERKS2_b", &copy);
  const uint64_t start_ns = ThreadCpuNs();
  for (int i = 0; i < count; ++i) copy(&to, &from, false);
  return static_cast<double>(ThreadCpuNs() - start_ns) / count;
}

// The same of the stand-in's operator, which does nothing but announce itself.
PROFD_API double bench_loop_fake(void* library, int count) {
  const testing::FakeTorch& torch = *testing::FakeTorchIn(library);
  const testing::FakeLayout layout = testing::LayoutOf26();
  const int64_t sizes[] = {16, 64};
  const auto tensor = [&] {
    return reinterpret_cast<uint64_t>(torch.make_tensor(sizes, 2, testing::kFakeFloat, true).impl);
  };
  static const testing::FakeIValue inputs[] = {
      {tensor(), layout.tensor_tag, 0}, {tensor(), layout.tensor_tag, 0}, {0, layout.bool_tag, 0}};
  const testing::FakeCall call{.name = "aten::copy_", .inputs = inputs, .input_count = 3};
  alignas(64) unsigned char room[testing::kFakeOperatorBytes];
  const uint64_t start_ns = ThreadCpuNs();
  for (int i = 0; i < count; ++i) {
    torch.begin_at(room, call);
    torch.end_at(room);
  }
  return static_cast<double>(ThreadCpuNs() - start_ns) / count;
}

// Attaches to the stand-in. Returns the wire::TorchFeature that work.
PROFD_API uint32_t bench_attach_fake(void* library) {
  const testing::FakeTorch& torch = *testing::FakeTorchIn(library);
  torch.use(testing::LayoutOf26());
  return testing::AttachAndProbe(torch, testing::LayoutOf26());
}

}  // extern "C"
