// What the tests of client_lib/torch share: a stand-in for torch in a process of its own, and the
// probe that Python makes.
#ifndef PROFD_TESTS_CLIENT_LIB_TORCH_LIBTORCH_FIXTURE_H_
#define PROFD_TESTS_CLIENT_LIB_TORCH_LIBTORCH_FIXTURE_H_

#include <dlfcn.h>

#include <cstdint>
#include <string>
#include <vector>

#include "client_lib/torch/torch_api.h"
#include "tests/client_lib/child.h"
#include "tests/client_lib/torch/fake_torch/fake_torch.h"

namespace profd::testing {

inline std::string FakeTorchPath(const std::string& build) {
  const std::string folder = std::string(PROFD_TEST_BUILD_DIR) + "/tests/bin/fake_torch/" + build;
  if (build == "second") return folder + "/libtorch_cpu.so.2";
  return folder + (build == "hidden" ? "/libprogram.so" : "/libtorch_cpu.so");
}

// The stand-in, loaded, with `layout`. In a child.
inline const FakeTorch& LoadTorch(const std::string& build, const FakeLayout& layout,
                                  int scope = RTLD_LOCAL) {
  void* library = dlopen(FakeTorchPath(build).c_str(), RTLD_NOW | scope);
  CHILD_EXPECT(library != nullptr);
  const FakeTorch* torch = FakeTorchIn(library);
  CHILD_EXPECT(torch != nullptr);
  torch->use(layout);
  return *torch;
}

// Makes inputs of operators.
class Inputs {
 public:
  Inputs(const FakeTorch& torch, const FakeLayout& layout) : torch_(torch), layout_(layout) {}

  FakeIValue None() const { return {0, layout_.none_tag, 0}; }
  FakeIValue Int(int64_t value) const { return {static_cast<uint64_t>(value), layout_.int_tag, 0}; }
  FakeIValue Double(double value) const {
    FakeIValue result{0, layout_.double_tag, 0};
    __builtin_memcpy(&result.payload, &value, sizeof(value));
    return result;
  }
  // Only the lowest byte of a boolean's payload is its own.
  FakeIValue Bool(bool value) const { return {0x5a5a00u | uint64_t{value}, layout_.bool_tag, 0}; }
  FakeIValue Tuple() const { return {0x1000, layout_.tuple_tag, 0}; }
  FakeIValue String(const std::string& text) const { return torch_.make_string(text.c_str()); }
  FakeIValue List(const std::vector<FakeIValue>& items) const {
    return torch_.make_list(items.data(), items.size());
  }
  FakeTensor MakeTensor(const std::vector<int64_t>& sizes, int16_t dtype = kFakeFloat) const {
    return torch_.make_tensor(sizes.data(), sizes.size(), dtype, true);
  }
  FakeIValue Tensor(const void* impl) const {
    return {reinterpret_cast<uint64_t>(impl), layout_.tensor_tag, 0};
  }
  FakeIValue Tensor(const std::vector<int64_t>& sizes, int16_t dtype = kFakeFloat) const {
    return Tensor(MakeTensor(sizes, dtype).impl);
  }
  FakeIValue TensorWithoutStorage(const std::vector<int64_t>& sizes) const {
    return Tensor(torch_.make_tensor(sizes.data(), sizes.size(), kFakeFloat, false).impl);
  }

 private:
  const FakeTorch& torch_;
  const FakeLayout layout_;
};

// An operator for as long as the object lives, on the caller's stack as torch's are.
class Operator {
 public:
  Operator(const FakeTorch& torch, FakeCall call, const std::vector<FakeIValue>& inputs = {})
      : torch_(torch), inputs_(inputs) {
    call.inputs = inputs_.data();
    call.input_count = inputs_.size();
    torch_.begin_at(room_, call);
  }
  ~Operator() { torch_.end_at(room_); }
  Operator(const Operator&) = delete;
  Operator& operator=(const Operator&) = delete;

 private:
  const FakeTorch& torch_;
  const std::vector<FakeIValue> inputs_;
  alignas(64) unsigned char room_[kFakeOperatorBytes];
};

// The tensors of profd_torch_probe.
struct ProbeTensors {
  FakeTensor real, whole, deep;
};

inline ProbeTensors MakeProbeTensors(const Inputs& make) {
  return {make.MakeTensor({1237, 3, 5}), make.MakeTensor({1237, 3, 5}, kFakeLong),
          make.MakeTensor({3, 5, 1237, 1, 2, 1, 1})};
}

inline profd_torch_probe ProbeOf(const ProbeTensors& tensors) {
  return {sizeof(profd_torch_probe), 0,
          tensors.real.impl,         tensors.whole.impl,
          tensors.deep.impl,         tensors.real.data,
          tensors.whole.data,        tensors.deep.data};
}

// The operators that Python runs between probe_begin() and probe_end().
inline void RunProbedOperators(const FakeTorch& torch, const Inputs& make,
                               const ProbeTensors& tensors) {
  const FakeIValue a = make.Tensor(tensors.real.impl);
  const FakeIValue b = make.Tensor(tensors.whole.impl);
  {
    const Operator cat(torch, {.name = "aten::cat"}, {make.List({a, b}), make.Int(1)});
    // What cat is made of has its name, too.
    const Operator inner(torch, {.name = "aten::cat"}, {make.List({b}), make.Int(1)});
  }
  { const Operator clamp(torch, {.name = "aten::clamp"}, {a, make.Double(0.25), make.Int(7)}); }
  {
    const Operator sum(torch, {.name = "aten::sum"},
                       {a, make.List({make.Int(1)}), make.Bool(true), make.None()});
  }
  { const Operator div(torch, {.name = "aten::div"}, {a, b, make.String("floor")}); }
}

// Both calls of attaching. Returns the wire::TorchFeature that work.
inline uint32_t AttachAndProbe(const FakeTorch& torch, const FakeLayout& layout) {
  profd_torch_attach("2.6.0");
  const Inputs make(torch, layout);
  const ProbeTensors tensors = MakeProbeTensors(make);
  const profd_torch_probe probe = ProbeOf(tensors);
  if (profd_torch_probe_begin(&probe) == 0) return profd_torch_features();
  RunProbedOperators(torch, make, tensors);
  return profd_torch_probe_end();
}

}  // namespace profd::testing

#endif  // PROFD_TESTS_CLIENT_LIB_TORCH_LIBTORCH_FIXTURE_H_
