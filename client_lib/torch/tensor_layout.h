// TensorLayout is where torch keeps what an operator's inputs look like: the list of inputs in a
// RecordFunction, the numbers of IValue's tags, and the fields of tensors, storages, lists and
// strings. TensorProbe finds it, from two kinds of things whose contents are known:
//
//   tensors that Python made and told us of     sizes, strides, type, storage
//   operators that Python runs on them          inputs, tags, lists, strings
//
//   cat([a, b], 1)         list of tensors, int        clamp(a, 0.25, 7)   tensor, double, int
//   sum(a, 1, True)        list, bool, None            div(a, b, "floor")  string
//
// Inside torch:
//
//   RecordFunction ── inputs {first, count} ──► IValue {payload, tag}, ...
//   TensorImpl     ── storage ──► StorageImpl ── data; size_count, then five sizes and strides,
//                     or a pointer to them; numel; type
//   ListImpl       ── {first, last} ──► IValue, ...
//   ConstantString ── std::string of either of libstdc++'s layouts
//
// What is not proved is not there: its offset is kNowhere, its tag kNoTag. Everything is read by
// the kernel (safe_memory.h) until it is proved.
//
// Threads: Begin() and End() one after the other, on one thread; the operators between them on the
//          same. Other threads' operators pass by.
#ifndef PROFD_CLIENT_LIB_TORCH_TENSOR_LAYOUT_H_
#define PROFD_CLIENT_LIB_TORCH_TENSOR_LAYOUT_H_

#include <cstdint>

#include "client_lib/torch/record_function.h"
#include "client_lib/torch/torch_api.h"
#include "client_lib/torch/torch_library.h"

namespace profd::client::torch {

inline constexpr uint32_t kNoTag = UINT32_MAX;
// Sizes and strides of tensors with more dimensions are elsewhere.
inline constexpr uint32_t kInlineRank = 5;

struct TensorLayout {
  // In a RecordFunction.
  int32_t inputs = kNowhere;
  // IValue.tag.
  uint32_t tensor_tag = kNoTag;
  uint32_t double_tag = kNoTag;
  uint32_t int_tag = kNoTag;
  uint32_t bool_tag = kNoTag;
  uint32_t none_tag = kNoTag;
  uint32_t list_tag = kNoTag;
  uint32_t string_tag = kNoTag;
  // In a TensorImpl.
  int32_t rank = kNowhere;  // Sizes follow it, and strides, if they are known, follow those.
  bool knows_strides = false;
  bool knows_high_ranks = false;
  int32_t dtype = kNowhere;
  int32_t storage = kNowhere;
  // In a StorageImpl.
  int32_t data = kNowhere;
  // In a ListImpl: its first item's address, then that after its last.
  int32_t items = kNowhere;
  // In a ConstantString: the text's address. Its length is behind that, or 24 bytes before the text
  // (libstdc++'s strings of before 2015).
  int32_t text = kNowhere;
  bool has_old_strings = false;
  // Stands for no tensor; null: not known.
  const void* undefined_tensor = nullptr;
};

namespace tensor_probe {

// Looks at the tensors, and at this thread's operators from now on. False: `probe` is of another
// version of the Python package, or a probe is under way.
bool Begin(const TorchLibrary& library, const RecordFunctionLayout& record_function,
           const profd_torch_probe& probe);

// What was found, and the wire::TorchFeature of inputs that work. False: no probe is under way on
// this thread.
bool End(TensorLayout* layout, uint32_t* features);

}  // namespace tensor_probe
}  // namespace profd::client::torch

#endif  // PROFD_CLIENT_LIB_TORCH_TENSOR_LAYOUT_H_
