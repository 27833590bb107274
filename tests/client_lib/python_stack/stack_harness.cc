// What stacks_test.py and python_stack_bench.py call from any Python: operators of the stand-in for
// torch, and a daemon in a process of its own that captures them and writes what it got as text:
//
//   frame  THREAD ID PARENT FILE LINE NAME FIRST_LINE MODULE CLASS FLAGS DEPTH
//   op     THREAD ID NAME
//   module ADDRESS ROOT PATH CLASS
//   status WANTED RECORDED COUNT COUNT ...
//   missing FEATURE WHY
//
// with tabs between the words, frames and operators in the order of each thread.
//
// Threads: operators any, the rest one. Errors: what fails ends the process.
#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "tests/client_lib/torch/fake_torch/fake_torch.h"
#include "tests/fakes/fake_daemon.h"

#define HARNESS_API __attribute__((visibility("default")))

namespace profd {
namespace {

using testing::CaptureContents;
using testing::FakeTorch;

int g_to_daemon = -1;
int g_from_daemon = -1;
const FakeTorch* g_torch = nullptr;
void (*g_init)() = nullptr;
uint32_t (*g_attach)(const char* version) = nullptr;
void (*g_leave)() = nullptr;

[[noreturn]] void Fail(const char* what) {
  fprintf(stderr, "stack_harness: %s\n", what);
  exit(1);
}

struct Order {
  char what;  // 'a': arm; 'x': end, and write the contents; 'q': end
  uint8_t is_real_torch;
  uint8_t reserved[2];
  uint32_t flags;  // kArmTorch*
  uint32_t memory_mib;
  uint32_t keeps;  // Not 0: what full chunks had.
};

void WriteContents(const CaptureContents& contents, const std::string& path) {
  FILE* file = fopen(path.c_str(), "w");
  if (file == nullptr) _exit(1);
  for (const auto& frame : contents.stack_frames) {
    const wire::StackFrameEvent& event = frame.event;
    fprintf(file, "frame\t%u\t%u\t%u\t%s\t%u\t%s\t%u\t%llu\t%s\t%u\t%u\n", frame.thread_serial,
            event.stack_id, event.parent_id, frame.file.c_str(), event.line, frame.name.c_str(),
            event.first_line, static_cast<unsigned long long>(event.module),
            frame.class_name.c_str(), event.header.flags, event.depth);
  }
  std::map<std::tuple<uint32_t, uint64_t, uint32_t>, std::string> names;
  for (const auto& range : contents.ranges) {
    names[{range.thread_serial, range.start_ticks, range.depth}] = range.name;
  }
  for (const auto& op : contents.operators) {
    const auto name = names.find({op.thread_serial, op.event.start_ticks, op.event.depth});
    if (name == names.end()) continue;
    fprintf(file, "op\t%u\t%u\t%s\n", op.thread_serial, op.event.stack_id, name->second.c_str());
  }
  for (const auto& module : contents.modules) {
    fprintf(file, "module\t%llu\t%llu\t%s\t%s\n",
            static_cast<unsigned long long>(module.event.address),
            static_cast<unsigned long long>(module.event.root), module.path.c_str(),
            module.class_name.c_str());
  }
  for (const auto& note : contents.notes) {
    if (note.event.kind != static_cast<uint16_t>(wire::NoteKind::kMissing)) continue;
    fprintf(file, "missing\t%s\t%s\n", note.subject.c_str(), note.text.c_str());
  }
  const wire::TorchStatusEvent& status = contents.torch_status();
  fprintf(file, "status\t%u\t%u", status.wanted, status.recorded);
  for (const uint64_t count : status.counts) {
    fprintf(file, "\t%llu", static_cast<unsigned long long>(count));
  }
  fprintf(file, "\ndropped\t%llu\n", static_cast<unsigned long long>(contents.dropped()));
  fclose(file);
}

[[noreturn]] void PlayDaemon(const std::string& directory, int in, int out) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  testing::FakeDaemon daemon(directory);
  const char ready = 'r';
  if (write(out, &ready, 1) != 1) _exit(1);
  auto target = daemon.WaitTarget();
  std::unique_ptr<testing::FakeCapture> capture;
  bool keeps = false;
  for (;;) {
    pollfd waited{in, POLLIN, 0};
    if (poll(&waited, 1, 1) == 0) {
      if (capture != nullptr) capture->RecycleFullChunks(keeps);
      continue;
    }
    Order order{};
    if (read(in, &order, sizeof(order)) != sizeof(order)) _exit(0);
    if (order.what == 'a') {
      keeps = order.keeps != 0;
      capture =
          target->ArmTorch({static_cast<uint32_t>(wire::OperatorsMode::kNames), order.flags, 0, 0},
                           uint64_t{order.memory_mib} << 20);
      capture->Fire(testing::ByTime());
      capture->WaitPhase(wire::Phase::kRecording);
    } else if (order.what == 'x') {
      WriteContents(capture->Finish(), directory + "/contents");
      capture.reset();
    } else {
      capture->Stop();
      capture->Release();
      capture.reset();
    }
    if (write(out, &ready, 1) != 1) _exit(1);
  }
}

void Ask(const Order& order) {
  char answer;
  if (write(g_to_daemon, &order, sizeof(order)) != sizeof(order) ||
      read(g_from_daemon, &answer, 1) != 1) {
    Fail("the daemon is gone");
  }
}

uint64_t ThreadCpuNs() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

template <typename Function>
void Find(void* library, const char* symbol, Function* function) {
  void* found = dlsym(library, symbol);
  if (found == nullptr) Fail(symbol);
  memcpy(function, &found, sizeof(found));
}

}  // namespace
}  // namespace profd

using namespace profd;  // NOLINT: the C functions stand outside.

extern "C" {

// Before anything of profd's is loaded.
HARNESS_API void harness_start_daemon(const char* directory) {
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

// `profd`, `torch`: handles of the two libraries; `torch` null: real torch. Under Python's lock.
// Returns the wire::TorchFeature that work.
HARNESS_API uint32_t harness_attach(void* profd, void* torch, const char* version) {
  Find(profd, "profd_init", &g_init);
  Find(profd, "profd_torch_attach", &g_attach);
  Find(profd, "profd_torch_leave", &g_leave);
  if (torch != nullptr) {
    g_torch = testing::FakeTorchIn(torch);
    g_torch->use(testing::LayoutOf26());
  }
  const uint32_t features = g_attach(version);
  g_init();
  return features;
}

HARNESS_API void harness_arm(uint32_t flags, uint32_t memory_mib, int keeps) {
  Order order{};
  order.what = 'a';
  order.flags = flags;
  order.memory_mib = memory_mib;
  order.keeps = keeps != 0;
  Ask(order);
}

// Ends the capture; with `writes`, its contents are in DIRECTORY/contents then.
HARNESS_API void harness_finish(int writes) {
  Order order{};
  order.what = writes != 0 ? 'x' : 'q';
  Ask(order);
}

HARNESS_API void harness_leave(void) { g_leave(); }

HARNESS_API void harness_op(const char* name) {
  alignas(64) unsigned char room[testing::kFakeOperatorBytes];
  g_torch->begin_at(room, {.name = name});
  g_torch->end_at(room);
}

// An operator in which `body` runs, and two more: one before and one after it.
HARNESS_API void harness_op_around(const char* name, void (*body)()) {
  alignas(64) unsigned char room[testing::kFakeOperatorBytes];
  const std::string inner = std::string(name) + ".inner";
  g_torch->begin_at(room, {.name = name});
  harness_op(inner.c_str());
  body();
  harness_op(inner.c_str());
  g_torch->end_at(room);
}

HARNESS_API void* harness_begin(const char* name) {
  void* room = aligned_alloc(64, testing::kFakeOperatorBytes);
  g_torch->begin_at(room, {.name = name});
  return room;
}

HARNESS_API void harness_end(void* room) {
  g_torch->end_at(room);
  free(room);
}

// CPU time of `count` operators, in ns each. `inner`: operators inside of each one.
HARNESS_API double harness_loop(int count, int inner) {
  const testing::FakeCall call{.name = "aten::copy_"};
  alignas(64) unsigned char room[testing::kFakeOperatorBytes];
  alignas(64) unsigned char inner_room[testing::kFakeOperatorBytes];
  const uint64_t start_ns = ThreadCpuNs();
  for (int i = 0; i < count; ++i) {
    g_torch->begin_at(room, call);
    for (int j = 0; j < inner; ++j) {
      g_torch->begin_at(inner_room, call);
      g_torch->end_at(inner_room);
    }
    g_torch->end_at(room);
  }
  return static_cast<double>(ThreadCpuNs() - start_ns) / count / (1 + inner);
}

HARNESS_API double harness_cpu_ns(void) { return static_cast<double>(ThreadCpuNs()); }

}  // extern "C"
