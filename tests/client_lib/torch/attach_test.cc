// What attaching finds in each kind of torch, and what it says of those it cannot use.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <thread>
#include <utility>

#include "client_lib/torch/record_function.h"
#include "client_lib/torch/tensor_layout.h"
#include "client_lib/torch/torch_library.h"
#include "proto/wire/event.h"
#include "tests/client_lib/torch/libtorch_fixture.h"

namespace profd::testing {
namespace {

using client::torch::CalibrateRecordFunction;
using client::torch::FindTorch;
using client::torch::kNoTag;
using client::torch::kNowhere;
using client::torch::RecordFunctionLayout;
using client::torch::TensorLayout;
using client::torch::TorchLibrary;
namespace tensor_probe = client::torch::tensor_probe;

constexpr uint32_t kFieldFeatures = wire::kTorchPresent | wire::kTorchOperators |
                                    wire::kTorchScopes | wire::kTorchSequences |
                                    wire::kTorchThreads | wire::kTorchForwardThreads;
constexpr uint32_t kInputFeatures = wire::kTorchInputs | wire::kTorchShapes | wire::kTorchStrides |
                                    wire::kTorchStorages | wire::kTorchLists | wire::kTorchScalars |
                                    wire::kTorchStrings;

void InChild(const std::function<void()>& body) {
  Child child("", [&](Parent&) { body(); });
  child.ExpectSuccess();
}

// What was found of a torch that is loaded.
struct Found {
  TorchLibrary library;
  RecordFunctionLayout fields;
  uint32_t features;
  std::string why;
};

Found Find() {
  Found found{};
  char why[1200] = "";
  if (FindTorch(&found.library, why, sizeof(why))) {
    found.features = CalibrateRecordFunction(found.library, &found.fields, why, sizeof(why));
  }
  found.why = why;
  return found;
}

struct Known {
  const char* name;
  const char* build;
  FakeLayout layout;

  friend void PrintTo(const Known& known, std::ostream* out) { *out << known.name; }
};

class AttachTest : public ::testing::TestWithParam<Known> {};

TEST_P(AttachTest, EveryFieldIsFoundWhereItIs) {
  InChild([] {
    const FakeLayout& layout = GetParam().layout;
    LoadTorch(GetParam().build, layout);
    const Found found = Find();
    CHILD_EXPECT(found.why.empty());
    CHILD_EXPECT(found.features == kFieldFeatures);
    CHILD_EXPECT(found.fields.sequence == layout.sequence);
    CHILD_EXPECT(found.fields.scope == layout.scope);
    CHILD_EXPECT(found.fields.thread == layout.thread);
    CHILD_EXPECT(found.fields.forward_thread == layout.forward_thread);
  });
}

TEST_P(AttachTest, InputsAreFoundByTorchsOwnOperators) {
  InChild([] {
    const FakeLayout& layout = GetParam().layout;
    const FakeTorch& torch = LoadTorch(GetParam().build, layout);
    const Found found = Find();
    const Inputs make(torch, layout);
    const ProbeTensors tensors = MakeProbeTensors(make);
    CHILD_EXPECT(tensor_probe::Begin(found.library, found.fields, ProbeOf(tensors)));
    RunProbedOperators(torch, make, tensors);
    TensorLayout known;
    uint32_t features = 0;
    CHILD_EXPECT(tensor_probe::End(&known, &features));
    CHILD_EXPECT(features == kInputFeatures);
    CHILD_EXPECT(known.inputs == layout.inputs);
    CHILD_EXPECT(known.rank == layout.rank);
    CHILD_EXPECT(known.dtype == layout.dtype);
    CHILD_EXPECT(known.storage == layout.storage && known.data == layout.data);
    CHILD_EXPECT(known.knows_strides && known.knows_high_ranks);
    CHILD_EXPECT(known.items == layout.items && known.text == layout.text);
    CHILD_EXPECT(known.has_old_strings == layout.has_old_strings);
    CHILD_EXPECT(known.undefined_tensor == torch.undefined_tensor());
    CHILD_EXPECT(known.tensor_tag == layout.tensor_tag && known.none_tag == layout.none_tag);
    CHILD_EXPECT(known.int_tag == layout.int_tag && known.double_tag == layout.double_tag);
    CHILD_EXPECT(known.bool_tag == layout.bool_tag && known.list_tag == layout.list_tag);
    CHILD_EXPECT(known.string_tag == layout.string_tag);
  });
}

INSTANTIATE_TEST_SUITE_P(Layouts, AttachTest,
                         ::testing::Values(Known{"Torch113", "full", LayoutOf113()},
                                           Known{"Torch26", "full", LayoutOf26()},
                                           Known{"Torch215", "variant_before", LayoutOf215()},
                                           Known{"OldAbi", "full", LayoutOfOldAbi()},
                                           Known{"Shifted", "full", ShiftedLayout()}),
                         [](const auto& known) { return std::string(known.param.name); });

// ---- Torches that we cannot use, or not wholly.

TEST(AttachFailureTest, WithoutTorchItSaysWhatItLookedFor) {
  InChild([] {
    const Found found = Find();
    CHILD_EXPECT(found.features == 0);
    CHILD_EXPECT(found.why.find("no libtorch_cpu.so is loaded") != std::string::npos);
  });
}

TEST(AttachFailureTest, TwoTorchesAreRefusedByName) {
  InChild([] {
    LoadTorch("full", LayoutOf26());
    LoadTorch("second", LayoutOf26());
    const Found found = Find();
    CHILD_EXPECT(found.features == 0);
    CHILD_EXPECT(found.why.find(FakeTorchPath("full")) != std::string::npos);
    CHILD_EXPECT(found.why.find(FakeTorchPath("second")) != std::string::npos);
  });
}

TEST(AttachFailureTest, AFunctionThatIsNotThereIsNamed) {
  InChild([] {
    LoadTorch("no_reenable", LayoutOf26());
    const Found found = Find();
    CHILD_EXPECT(found.features == 0);
    CHILD_EXPECT(found.why.find("reenableCallback") != std::string::npos);
  });
}

TEST(AttachFailureTest, ATorchInsideTheProgramIsFoundIfItsFunctionsCanBeSeen) {
  InChild([] {
    LoadTorch("hidden", LayoutOf26(), RTLD_GLOBAL);
    const Found found = Find();
    CHILD_EXPECT(found.features == kFieldFeatures);
    CHILD_EXPECT(found.library.path[0] == '\0');
  });
}

TEST(AttachFailureTest, AFieldInTwoPlacesIsNotThere) {
  InChild([] {
    FakeLayout layout = LayoutOf26();
    layout.second_sequence = 16;
    LoadTorch("full", layout);
    const Found found = Find();
    CHILD_EXPECT(found.features == (kFieldFeatures & ~wire::kTorchSequences));
    CHILD_EXPECT(found.fields.sequence == kNowhere);
    CHILD_EXPECT(found.fields.scope == layout.scope);
  });
}

TEST(AttachFailureTest, AFieldInNoPlaceIsNotThere) {
  InChild([] {
    FakeLayout layout = LayoutOf26();
    layout.scope = -1;
    layout.thread = -1;
    layout.handle = -1;
    LoadTorch("full", layout);
    const Found found = Find();
    CHILD_EXPECT(found.features ==
                 (wire::kTorchPresent | wire::kTorchOperators | wire::kTorchSequences));
  });
}

TEST(AttachFailureTest, NothingIsLeftRegistered) {
  InChild([] {
    const FakeTorch& torch = LoadTorch("full", LayoutOf26());
    const Found found = Find();
    const Inputs make(torch, LayoutOf26());
    const ProbeTensors tensors = MakeProbeTensors(make);
    CHILD_EXPECT(tensor_probe::Begin(found.library, found.fields, ProbeOf(tensors)));
    CHILD_EXPECT(torch.callback_count() == 1);
    TensorLayout known;
    uint32_t features;
    CHILD_EXPECT(tensor_probe::End(&known, &features));
    CHILD_EXPECT(torch.callback_count() == 0);
  });
}

// What a probe finds if `change` has its way with it, and `run` says what Python runs.
using RunProbe = std::function<void(const FakeTorch&, const Inputs&, const ProbeTensors&)>;
std::pair<TensorLayout, uint32_t> Probe(const std::function<void(profd_torch_probe*)>& change,
                                        const RunProbe& run = RunProbedOperators) {
  const FakeLayout layout = LayoutOf26();
  const FakeTorch& torch = LoadTorch("full", layout);
  const Found found = Find();
  const Inputs make(torch, layout);
  const ProbeTensors tensors = MakeProbeTensors(make);
  profd_torch_probe probe = ProbeOf(tensors);
  change(&probe);
  std::pair<TensorLayout, uint32_t> result;
  CHILD_EXPECT(tensor_probe::Begin(found.library, found.fields, probe));
  run(torch, make, tensors);
  CHILD_EXPECT(tensor_probe::End(&result.first, &result.second));
  return result;
}

TEST(ProbeTest, TensorsAtAddressesThatAreNoneAreNotRead) {
  InChild([] {
    const auto [layout, features] = Probe([](profd_torch_probe* probe) {
      probe->float_tensor = reinterpret_cast<const void*>(8);
      probe->deep_tensor = nullptr;
    });
    CHILD_EXPECT(layout.rank == kNowhere && layout.dtype == kNowhere);
    CHILD_EXPECT(features == 0);  // No operator had that tensor.
  });
}

TEST(ProbeTest, ADeepTensorOfAnotherShapeLeavesHighRanksUnknown) {
  InChild([] {
    const auto [layout, features] =
        Probe([](profd_torch_probe* probe) { probe->deep_tensor = probe->float_tensor; });
    CHILD_EXPECT(!layout.knows_high_ranks);
    CHILD_EXPECT((features & wire::kTorchShapes) != 0);
  });
}

TEST(ProbeTest, DataOfAnotherTensorLeavesStoragesUnknown) {
  InChild([] {
    const auto [layout, features] =
        Probe([](profd_torch_probe* probe) { probe->long_data = probe->float_data; });
    CHILD_EXPECT(layout.storage == kNowhere);
    CHILD_EXPECT(features == (kInputFeatures & ~wire::kTorchStorages));
  });
}

TEST(ProbeTest, AnOperatorLeftOutLeavesItsKindsUnknown) {
  InChild([] {
    const auto [layout, features] = Probe(
        [](profd_torch_probe*) {},
        [](const FakeTorch& torch, const Inputs& make, const ProbeTensors& tensors) {
          const Operator clamp(torch, {.name = "aten::clamp"},
                               {make.Tensor(tensors.real.impl), make.Double(0.25), make.Int(7)});
        });
    CHILD_EXPECT(layout.tensor_tag == LayoutOf26().tensor_tag);
    CHILD_EXPECT(layout.bool_tag == kNoTag && layout.none_tag == kNoTag);
    CHILD_EXPECT(layout.list_tag == kNoTag && layout.string_tag == kNoTag);
    CHILD_EXPECT(features == (wire::kTorchInputs | wire::kTorchShapes | wire::kTorchStrides |
                              wire::kTorchStorages));
  });
}

TEST(ProbeTest, TagsThatContradictEachOtherAreNotBelieved) {
  InChild([] {
    const auto [layout, features] =
        Probe([](profd_torch_probe*) {},
              [](const FakeTorch& torch, const Inputs& make, const ProbeTensors& tensors) {
                RunProbedOperators(torch, make, tensors);
                FakeLayout other = LayoutOf26();
                other.int_tag = 77;
                const Inputs odd(torch, other);
                const Operator clamp(torch, {.name = "aten::clamp"},
                                     {odd.Tensor(tensors.real.impl), odd.Double(0.25), odd.Int(7)});
              });
    CHILD_EXPECT(layout.inputs == kNowhere);
    CHILD_EXPECT(features == 0);
  });
}

TEST(ProbeTest, OperatorsOfOtherThreadsPassBy) {
  InChild([] {
    const auto [layout, features] =
        Probe([](profd_torch_probe*) {},
              [](const FakeTorch& torch, const Inputs& make, const ProbeTensors& tensors) {
                std::thread([&] { RunProbedOperators(torch, make, tensors); }).join();
              });
    CHILD_EXPECT(layout.inputs == kNowhere);
    CHILD_EXPECT(features == 0);
  });
}

TEST(ProbeTest, AProbeOfAnotherVersionIsRefused) {
  InChild([] {
    const FakeTorch& torch = LoadTorch("full", LayoutOf26());
    const Found found = Find();
    profd_torch_probe probe = ProbeOf(MakeProbeTensors(Inputs(torch, LayoutOf26())));
    probe.size_bytes -= 8;
    CHILD_EXPECT(!tensor_probe::Begin(found.library, found.fields, probe));
    TensorLayout layout;
    uint32_t features;
    CHILD_EXPECT(!tensor_probe::End(&layout, &features));
    CHILD_EXPECT(torch.callback_count() == 0);
  });
}

}  // namespace
}  // namespace profd::testing
