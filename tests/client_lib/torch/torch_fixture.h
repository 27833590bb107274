// A child process with a torch that is a few function pointers, and the tests' way to drive it: a
// letter each, see TorchTest.
#ifndef PROFD_TESTS_CLIENT_LIB_TORCH_TORCH_FIXTURE_H_
#define PROFD_TESTS_CLIENT_LIB_TORCH_TORCH_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "client_lib/torch/torch_library.h"
#include "tests/client_lib/child.h"
#include "tests/fakes/fake_daemon.h"

namespace profd::testing {

// In a child: the torch whose callbacks RunUserScope() calls, in the order of registration.
const client::torch::TorchLibrary& FakeTorch();
void RunUserScope(
    const char* name, const std::function<void()>& body = [] {});

// How many are registered.
size_t CallbackCount();

// As torch runs Optimizer.step() of `optimizer`, an Adam: its range, and the hooks within.
void RunHookedStep(
    uint64_t optimizer, const std::function<void()>& body = [] {});

// A forward pass: autograd makes so many nodes.
void MakeNodes(uint64_t count);

// Attaches as client_lib/torch does, without operators, and joins core as `version`.
void AttachFakeTorch(const char* version = "2.6.0");

// The functions of a libc10 and libc10_cuda that were loaded by LoadC10().
struct FakeC10 {
  void (*cpu_allocate)(void* address, size_t bytes);
  void (*cpu_free)(void* address);
  void (*cpu_oom)(size_t bytes);
  void (*profiler_turn)(bool on);
  uint64_t (*profiler_reports)();
  uint64_t (*profiler_oom_reports)();
  // Null without libc10_cuda.
  void (*cuda_report)(void* address, int64_t bytes, int64_t allocated, int64_t reserved,
                      int8_t device);
  void (*cuda_oom)(int64_t bytes, int8_t device);
};
// In a child. `how`: "bound" or "lazy".
FakeC10 LoadC10(const std::string& how, bool with_cuda);

// A child that answers each letter when it has done what it stands for:
//   A  Optimizer.step() of an Adam              S  of an SGD
//   B  the next batch of a DataLoader           P  a step of torch.profiler's
//   s  profd_step()                             w  range "work"
//   a, b  as A and B, on another thread
// and whatever a test adds.
class TorchTest : public ::testing::Test {
 protected:
  using Extra = std::function<void(char letter, Parent& parent)>;

  // `set_up` runs first, in the child; by default it attaches. Letters that are not above go to
  // `extra`.
  void StartChild(
      const std::function<void()>& set_up = [] { AttachFakeTorch(); },
      const Extra& extra = [](char, Parent&) {});

  void Do(const std::string& letters);

  // What StepSource the child's page shows.
  wire::StepSource source() { return SourceOf(*target_); }
  static wire::StepSource SourceOf(FakeTarget& target) {
    return static_cast<wire::StepSource>(target.status_page().step_source.load());
  }
  uint64_t steps() { return target_->status_page().step_mark_count.load(); }

  FakeDaemon daemon_;
  std::unique_ptr<Child> child_;
  std::unique_ptr<FakeTarget> target_;
};

// ARM's field for torch.
wire::ArmTorchField Wants(wire::OperatorsMode operators, uint32_t flags = 0,
                          wire::StepSource step_source = wire::StepSource::kNone);

// The texts of the notes that say what is missing, by subject.
std::map<std::string, std::string> MissingOf(const CaptureContents& contents);

}  // namespace profd::testing

#endif  // PROFD_TESTS_CLIENT_LIB_TORCH_TORCH_FIXTURE_H_
