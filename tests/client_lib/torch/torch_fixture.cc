#include "tests/client_lib/torch/torch_fixture.h"

#include <dlfcn.h>

#include <mutex>
#include <thread>
#include <vector>

#include "client_lib/torch/memory.h"
#include "client_lib/torch/steps.h"
#include "client_lib/torch/torch_part.h"

namespace profd::testing {
namespace {

using client::torch::RecordFunctionCallback;
using client::torch::TorchLibrary;

constexpr size_t kUserScope = 7;

struct Registered {
  uint64_t handle;
  RecordFunctionCallback callback;
};
std::mutex g_callbacks_mutex;  // The library's helper changes them, too.
std::vector<Registered> g_callbacks;
uint64_t g_last_handle = 0;
uint64_t g_nodes = 0;

uint64_t AddCallback(RecordFunctionCallback callback) {
  const std::lock_guard lock(g_callbacks_mutex);
  g_callbacks.push_back({++g_last_handle, callback});
  return g_last_handle;
}

void RemoveCallback(uint64_t handle) {
  const std::lock_guard lock(g_callbacks_mutex);
  std::erase_if(g_callbacks, [&](const Registered& entry) { return entry.handle == handle; });
}

std::vector<Registered> Callbacks() {
  const std::lock_guard lock(g_callbacks_mutex);
  return g_callbacks;
}

// A RecordFunction is its name.
const char* NameOf(const void* record_function) {
  return *static_cast<const char* const*>(record_function);
}

profd_name g_work = PROFD_NAME_INIT("work");

void DoLetter(char letter) {
  switch (letter) {
    case 'A':
      return RunUserScope("Optimizer.step#Adam.step");
    case 'S':
      return RunUserScope("Optimizer.step#SGD.step");
    case 'B':
      return RunUserScope("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__");
    case 'P':
      return RunUserScope("ProfilerStep#3");
    case 'a':
      return std::thread(DoLetter, 'A').join();
    case 'b':
      return std::thread(DoLetter, 'B').join();
    case 's':
      return profd_step();
    default:
      return EmptyRange(&g_work);
  }
}

}  // namespace

const TorchLibrary& FakeTorch() {
  static const TorchLibrary library = [] {
    TorchLibrary made{};
    made.add_callback = AddCallback;
    made.remove_callback = RemoveCallback;
    made.name = NameOf;
    made.autograd_nodes = [] { return g_nodes; };
    return made;
  }();
  return library;
}

void RunUserScope(const char* name, const std::function<void()>& body) {
  // As torch does: those registered at the begin get the end too.
  const std::vector<Registered> callbacks = Callbacks();
  for (const Registered& entry : callbacks) {
    if (entry.callback.scopes[kUserScope] != 0) entry.callback.start(&name);
  }
  body();
  for (const Registered& entry : callbacks) {
    if (entry.callback.scopes[kUserScope] != 0) entry.callback.end(&name, nullptr);
  }
}

size_t CallbackCount() { return Callbacks().size(); }

void RunHookedStep(uint64_t optimizer, const std::function<void()>& body) {
  constexpr uint64_t kAdam = 0x1000;
  RunUserScope("Optimizer.step#Adam.step", [&] {
    client::torch::OnOptimizerHook(kAdam, optimizer, true);
    body();
    client::torch::OnOptimizerHook(kAdam, optimizer, false);
  });
}

void MakeNodes(uint64_t count) { g_nodes += count; }

void AttachFakeTorch(const char* version) {
  client::torch::ObserveSteps(FakeTorch());
  client::torch::AttachMemory();
  client::torch::JoinCore(version);
}

FakeC10 LoadC10(const std::string& how, bool with_cuda) {
  const std::string directory = std::string(PROFD_TEST_C10_DIR) + "/" + how;
  const int mode = (how == "lazy" ? RTLD_LAZY : RTLD_NOW) | RTLD_LOCAL;
  void* c10 = dlopen((directory + "/libc10.so").c_str(), mode);
  CHILD_EXPECT(c10 != nullptr);
  void* cuda = with_cuda ? dlopen((directory + "/libc10_cuda.so").c_str(), mode) : nullptr;
  CHILD_EXPECT(!with_cuda || cuda != nullptr);
  FakeC10 functions{};
  const auto find = [](void* object, const char* name, auto* function) {
    if (object == nullptr) return;
    *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(dlsym(object, name));
    CHILD_EXPECT(*function != nullptr);
  };
  find(c10, "fake_cpu_allocate", &functions.cpu_allocate);
  find(c10, "fake_cpu_free", &functions.cpu_free);
  find(c10, "fake_cpu_oom", &functions.cpu_oom);
  find(c10, "fake_profiler_turn", &functions.profiler_turn);
  find(c10, "fake_profiler_reports", &functions.profiler_reports);
  find(c10, "fake_profiler_oom_reports", &functions.profiler_oom_reports);
  find(cuda, "fake_cuda_report", &functions.cuda_report);
  find(cuda, "fake_cuda_oom", &functions.cuda_oom);
  return functions;
}

void TorchTest::StartChild(const std::function<void()>& set_up, const Extra& extra) {
  child_ = std::make_unique<Child>(daemon_.directory(), [=](Parent& parent) {
    profd_init();
    set_up();
    WaitConnected();
    parent.Tell('c');
    for (;;) {
      const char letter = parent.Next();
      if (std::string("ASBPabsw").find(letter) != std::string::npos) {
        DoLetter(letter);
      } else {
        extra(letter, parent);
      }
      parent.Tell(letter);
    }
  });
  target_ = daemon_.WaitTarget();
  child_->Await('c');
}

void TorchTest::Do(const std::string& letters) {
  for (const char letter : letters) {
    child_->Tell(letter);
    child_->Await(letter);
  }
}

wire::ArmTorchField Wants(wire::OperatorsMode operators, uint32_t flags,
                          wire::StepSource step_source) {
  return {static_cast<uint32_t>(operators), flags, static_cast<uint32_t>(step_source), 0};
}

std::map<std::string, std::string> MissingOf(const CaptureContents& contents) {
  std::map<std::string, std::string> missing;
  for (const auto& note : contents.notes) {
    if (note.event.kind == static_cast<uint16_t>(wire::NoteKind::kMissing)) {
      missing[note.subject] = note.text;
    }
  }
  return missing;
}

}  // namespace profd::testing
