// A libtorch_cpu.so of our own, for tests without torch: the functions by which operators are
// observed, with torch's names and rules, and tensors, lists and strings with nothing inside but
// what is looked at. Where its fields are is the test's choice, so that every release's layout,
// and some of none, can be had; see Layouts.
//
//   void* library = dlopen(".../full/libtorch_cpu.so", RTLD_NOW);
//   const FakeTorch& torch = *FakeTorchIn(library);
//   torch.use(LayoutOf26());                                  // first of all
//   void* op = torch.begin({.name = "aten::relu"});
//   torch.end(op);
//
// Builds of it (CMakeLists.txt): full, as torch up to some 2.x; variant_before, as 2.15, whose
// before() takes a variant; no_reenable, which lacks a function; hidden, under another file name.
//
// Threads: as torch: any, but for use().
#ifndef PROFD_TESTS_CLIENT_LIB_TORCH_FAKE_TORCH_FAKE_TORCH_H_
#define PROFD_TESTS_CLIENT_LIB_TORCH_FAKE_TORCH_FAKE_TORCH_H_

#include <dlfcn.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace profd::testing {

// Offsets and numbers; -1 for what there is none of.
struct FakeLayout {
  // RecordFunction
  int sequence;
  int second_sequence = -1;  // The same number once more.
  int scope;
  int thread;
  int inputs;
  int forward_thread;
  int handle;
  // IValue
  uint32_t none_tag = 0;
  uint32_t tensor_tag = 1;
  uint32_t double_tag = 3;
  uint32_t int_tag = 5;
  uint32_t bool_tag;
  uint32_t tuple_tag;
  uint32_t string_tag;
  uint32_t list_tag;
  // TensorImpl, StorageImpl
  int rank;
  int dtype;
  int storage;
  int data;
  // ListImpl, ConstantString
  int items;
  int text;
  bool has_old_strings = false;
};

inline FakeLayout LayoutOf113() {
  return {.sequence = 200,
          .scope = 96,
          .thread = 88,
          .inputs = 208,
          .forward_thread = 248,
          .handle = 256,
          .bool_tag = 8,
          .tuple_tag = 9,
          .string_tag = 10,
          .list_tag = 12,
          .rank = 72,
          .dtype = 176,
          .storage = 24,
          .data = 24,
          .items = 24,
          .text = 24};
}
inline FakeLayout LayoutOf26() {
  return {.sequence = 200,
          .scope = 96,
          .thread = 88,
          .inputs = 208,
          .forward_thread = 304,
          .handle = 312,
          .bool_tag = 9,
          .tuple_tag = 10,
          .string_tag = 11,
          .list_tag = 13,
          .rank = 64,
          .dtype = 168,
          .storage = 16,
          .data = 16,
          .items = 24,
          .text = 24};
}
inline FakeLayout LayoutOf215() {
  return {.sequence = 200,
          .scope = 96,
          .thread = 88,
          .inputs = 208,
          .forward_thread = 304,
          .handle = 312,
          .bool_tag = 10,
          .tuple_tag = 11,
          .string_tag = 12,
          .list_tag = 14,
          .rank = 56,
          .dtype = 160,
          .storage = 16,
          .data = 16,
          .items = 16,
          .text = 16};
}
// Wheels of before 2.7: libstdc++'s older strings.
inline FakeLayout LayoutOfOldAbi() {
  FakeLayout layout = LayoutOf26();
  layout.sequence = 176;
  layout.inputs = 184;
  layout.forward_thread = 280;
  layout.handle = 288;
  layout.has_old_strings = true;
  return layout;
}
// Of no release.
inline FakeLayout ShiftedLayout() {
  return {.sequence = 40,
          .scope = 31,
          .thread = 320,
          .inputs = 128,
          .forward_thread = 392,
          .handle = 400,
          .none_tag = 9,
          .tensor_tag = 4,
          .double_tag = 2,
          .int_tag = 7,
          .bool_tag = 1,
          .tuple_tag = 3,
          .string_tag = 6,
          .list_tag = 5,
          .rank = 96,
          .dtype = 202,
          .storage = 40,
          .data = 48,
          .items = 40,
          .text = 32};
}

struct FakeIValue {
  uint64_t payload;
  uint32_t tag;
  uint32_t unused;
};

struct FakeTensor {
  const void* impl;
  const void* data;
};

enum FakeType : int16_t { kFakeLong = 4, kFakeFloat = 6 };

struct FakeCall {
  const char* name;
  uint8_t scope = 0;
  int64_t sequence = -1;
  uint64_t forward_thread = 0;
  bool is_async = false;
  const FakeIValue* inputs = nullptr;
  size_t input_count = 0;
};

struct FakeTorch {
  void (*use)(const FakeLayout& layout);
  // Contiguous; kept for ever. `has_storage`: else it is one of those without.
  FakeTensor (*make_tensor)(const int64_t* sizes, size_t rank, int16_t dtype, bool has_storage);
  FakeIValue (*make_list)(const FakeIValue* items, size_t count);
  FakeIValue (*make_string)(const char* text);
  const void* (*undefined_tensor)();
  // The operator begins, on the calling thread. end() may be called on another.
  void* (*begin)(const FakeCall& call);
  void (*end)(void* operation);
  // Such calls nest in room that the caller has, as in torch: kFakeOperatorBytes, aligned to 64.
  void (*begin_at)(void* room, const FakeCall& call);
  void (*end_at)(void* room);
  // Registered callbacks, and those of them that are enabled.
  size_t (*callback_count)();
  size_t (*enabled_count)();
  // The next registration holds the lock for a while, and says when it does.
  void (*delay_registration)(std::atomic<bool>* has_begun);
};
inline constexpr size_t kFakeOperatorBytes = 1024;

inline const FakeTorch* FakeTorchIn(void* library) {
  const auto get = reinterpret_cast<const FakeTorch* (*)()>(dlsym(library, "fake_torch"));
  return get != nullptr ? get() : nullptr;
}

}  // namespace profd::testing

#endif  // PROFD_TESTS_CLIENT_LIB_TORCH_FAKE_TORCH_FAKE_TORCH_H_
