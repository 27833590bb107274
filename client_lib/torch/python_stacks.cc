#include "client_lib/torch/python_stacks.h"

#include "client_lib/python_stack/stacks.h"

namespace profd::client::torch {
namespace {

constexpr uint32_t kFeatures = wire::kTorchStacks | wire::kTorchModules;

void OnArm(const wire::ArmTorchField& wanted) {
  python_stack::Want((wanted.flags & wire::kArmTorchStacks) != 0,
                     (wanted.flags & wire::kArmTorchModules) != 0);
}

void AddCounts(uint64_t* counts) {
  counts[wire::kTorchOddFrames] += python_stack::odd_frame_count();
  counts[wire::kTorchFullStacks] += python_stack::full_count();
}

const char* WhyMissing(uint32_t feature) {
  const bool is_missing = (feature & kFeatures & ~python_stack::features()) != 0;
  return is_missing ? python_stack::why_not(feature) : nullptr;
}

void OnLeave() { python_stack::Want(false, false); }

}  // namespace

constinit const TorchSource kStackSource = {.features = python_stack::features,
                                            .on_arm = OnArm,
                                            .add_counts = AddCounts,
                                            .why_missing = WhyMissing,
                                            .on_leave = OnLeave};

}  // namespace profd::client::torch
