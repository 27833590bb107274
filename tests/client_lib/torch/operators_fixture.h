// What the tests of captures of operators share: a program with the stand-in for torch, and what a
// capture holds of it.
#ifndef PROFD_TESTS_CLIENT_LIB_TORCH_OPERATORS_FIXTURE_H_
#define PROFD_TESTS_CLIENT_LIB_TORCH_OPERATORS_FIXTURE_H_

#include <functional>
#include <string>
#include <vector>

#include "client_lib/include/profd/profd.h"
#include "proto/wire/event.h"
#include "tests/client_lib/torch/libtorch_fixture.h"
#include "tests/fakes/fake_daemon.h"

namespace profd::testing {

inline constexpr uint8_t kBackward = static_cast<uint8_t>(wire::OperatorScope::kBackwardFunction);
inline constexpr uint8_t kUser = static_cast<uint8_t>(wire::OperatorScope::kUserScope);

inline constexpr wire::ArmTorchField Wanted(wire::OperatorsMode mode, uint32_t flags = 0) {
  return {static_cast<uint32_t>(mode), flags, 0, 0};
}
inline constexpr wire::ArmTorchField kShapes = Wanted(wire::OperatorsMode::kShapes);

// Callbacks that are always there, and enabled; and those that are while a capture is armed.
inline constexpr size_t kStepCallbacks = 1;
inline constexpr size_t kOperatorCallbacks = 1;

// The child's side: torch, attached and registered with the daemon.
struct Program {
  const FakeTorch& torch;
  const Inputs make;

  // Waits until operators are recorded, or no longer are.
  void WaitEnabled(bool enabled) const {
    WaitUntil("the callbacks", [&] { return ObservesOperators() == enabled; });
  }
  // Those of steps are always on.
  bool ObservesOperators() const { return torch.enabled_count() > kStepCallbacks; }
  // An operator that does nothing.
  void Run(const FakeCall& call, const std::vector<FakeIValue>& inputs = {}) const {
    const Operator op(torch, call, inputs);
  }
};

struct Setting {
  std::string build = "full";
  FakeLayout layout = LayoutOf26();
  wire::ArmTorchField wanted = kShapes;
  uint64_t memory_bytes = wire::kDefaultCaptureMemoryBytes;
  bool expects_callbacks = true;
};

inline Program StartProgram(const Setting& setting = {}) {
  const FakeTorch& torch = LoadTorch(setting.build, setting.layout);
  AttachAndProbe(torch, setting.layout);
  profd_init();
  WaitConnected();
  return {torch, Inputs(torch, setting.layout)};
}

// The daemon's side of a window by time: the child tells 'b' when it is ready for it, and 'd' when
// it has done all that is to be in it; it then goes on with 'x', which the caller tells it.
inline CaptureContents CaptureWindow(FakeTarget& target, Child& child,
                                     const wire::ArmTorchField& wanted = kShapes,
                                     uint64_t memory_bytes = wire::kDefaultCaptureMemoryBytes) {
  child.Await('b');
  auto capture = target.ArmTorch(wanted, memory_bytes);
  capture->Fire(ByTime());
  child.Await('d');
  return capture->Finish();
}

// Runs `body` inside of a window by time.
inline CaptureContents Capture(const Setting& setting,
                               const std::function<void(const Program&)>& body) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [&](Parent& parent) {
    const Program program = StartProgram(setting);
    CHILD_EXPECT(program.torch.enabled_count() <= kStepCallbacks);
    parent.Tell('b');
    WaitRecording();
    if (setting.expects_callbacks) program.WaitEnabled(true);
    body(program);
    parent.Tell('d');
    parent.Await('x');
    CHILD_EXPECT(program.torch.enabled_count() <= kStepCallbacks);
  });
  auto target = daemon.WaitTarget();
  CaptureContents contents = CaptureWindow(*target, child, setting.wanted, setting.memory_bytes);
  child.Tell('x');
  child.ExpectSuccess();
  return contents;
}

inline std::vector<std::string> NamesOf(const std::vector<CaptureContents::Range>& ranges) {
  std::vector<std::string> names;
  names.reserve(ranges.size());
  for (const auto& range : ranges) names.push_back(range.name);
  return names;
}

inline const CaptureContents::Range& RangeNamed(const CaptureContents& contents,
                                                const std::string& name) {
  for (const auto& range : contents.ranges) {
    if (range.name == name) return range;
  }
  FailTest("no range " + name);
}

inline const CaptureContents::Operator& OperatorNamed(const CaptureContents& contents,
                                                      const std::string& name) {
  return contents.OperatorOf(RangeNamed(contents, name));
}

}  // namespace profd::testing

#endif  // PROFD_TESTS_CLIENT_LIB_TORCH_OPERATORS_FIXTURE_H_
