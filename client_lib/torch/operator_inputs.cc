#include "client_lib/torch/operator_inputs.h"

#include <string.h>

#include "client_lib/core/hot_state.h"

namespace profd::client::torch {
namespace {

using wire::InputKind;

// Longer lists and strings are nothing that an operator takes: what says so is no list.
constexpr uint64_t kMostItems = 1 << 24;
constexpr uint64_t kMostStringBytes = 1 << 30;

template <typename Value>
[[gnu::always_inline]] inline Value Load(uint64_t address) {
  Value value;
  memcpy(&value, reinterpret_cast<const void*>(address), sizeof(value));
  return value;
}

// An OperatorInput as the word it is.
static_assert(offsetof(wire::OperatorInput, dtype) == 1 &&
              offsetof(wire::OperatorInput, rank) == 2);
static_assert(offsetof(wire::OperatorInput, flags) == 3 &&
              offsetof(wire::OperatorInput, count) == 4);
constexpr uint64_t HeadOf(InputKind kind, uint8_t flags = 0, uint64_t count = 0) {
  return static_cast<uint64_t>(kind) | uint64_t{flags} << 24 | count << 32;
}

[[gnu::always_inline]] inline uint8_t* Put(uint8_t* at, uint64_t word) {
  memcpy(at, &word, sizeof(word));
  return at + sizeof(word);
}

// Each Write...() gets where to write and returns where to go on, or null: no room, and nothing was
// written. The place is no member, which every store through it might change as far as the compiler
// can tell.
class Writer {
 public:
  Writer(const TensorLayout& layout, const InputOptions& options, const uint8_t* end)
      : layout_(layout), options_(options), end_(end) {}

  [[gnu::always_inline]] inline uint8_t* WriteInput(uint8_t* at, const IValue& input) {
    if (PROFD_LIKELY(input.tag == layout_.tensor_tag)) return WriteTensor(at, input.payload);
    if (input.tag == layout_.int_tag) return WriteScalar(at, InputKind::kInt, input.payload);
    if (input.tag == layout_.bool_tag) {
      return WriteScalar(at, InputKind::kBool, input.payload & 0xff);
    }
    if (input.tag == layout_.double_tag) return WriteScalar(at, InputKind::kDouble, input.payload);
    if (input.tag == layout_.none_tag) return WriteHead(at, InputKind::kNone);
    return WriteRarely(at, input);
  }

  bool is_cut() const { return is_cut_; }
  uint32_t odd_tensors() const { return odd_tensors_; }
  // Inputs described within lists.
  uint32_t item_count() const { return item_count_; }

 private:
  bool HasRoom(const uint8_t* at, uint64_t bytes) const {
    return bytes <= static_cast<uint64_t>(end_ - at);
  }

  [[gnu::always_inline]] inline uint8_t* WriteHead(uint8_t* at, InputKind kind) const {
    if (PROFD_UNLIKELY(!HasRoom(at, 8))) return nullptr;
    return Put(at, HeadOf(kind));
  }

  [[gnu::always_inline]] inline uint8_t* WriteScalar(uint8_t* at, InputKind kind,
                                                     uint64_t value) const {
    if (PROFD_UNLIKELY(!HasRoom(at, 16))) return nullptr;
    return Put(Put(at, HeadOf(kind)), value);
  }

  // An undefined tensor.
  PROFD_NOINLINE uint8_t* WriteOdd(uint8_t* at) {
    ++odd_tensors_;
    return WriteHead(at, InputKind::kOther);
  }

  [[gnu::always_inline]] inline uint8_t* WriteTensor(uint8_t* at, uint64_t tensor) {
    if (tensor == 0 || tensor == reinterpret_cast<uint64_t>(layout_.undefined_tensor)) {
      return WriteHead(at, InputKind::kNone);
    }
    if (PROFD_UNLIKELY(layout_.rank == kNowhere)) return WriteHead(at, InputKind::kOther);
    const uint64_t place = tensor + static_cast<uint64_t>(layout_.rank);
    const auto rank = Load<uint64_t>(place);
    uint64_t sizes = place + 8;
    uint64_t strides = sizes + 8 * kInlineRank;
    if (PROFD_UNLIKELY(rank > kInlineRank)) {
      if (rank > wire::kMaxTensorRank) return WriteOdd(at);
      if (!layout_.knows_high_ranks) return WriteHead(at, InputKind::kOther);
      sizes = Load<uint64_t>(sizes);
      if (sizes == 0 || sizes % 8 != 0) return WriteOdd(at);
      strides = sizes + 8 * rank;
    }
    uint64_t storage = 0;
    if (PROFD_UNLIKELY(options_.storages)) {
      const auto object = Load<uint64_t>(tensor + static_cast<uint64_t>(layout_.storage));
      if (object != 0) storage = Load<uint64_t>(object + static_cast<uint64_t>(layout_.data));
    }
    const bool with_strides = options_.strides;
    const uint64_t words = 1 + (storage != 0) + rank + (with_strides ? rank : 0);
    if (PROFD_UNLIKELY(!HasRoom(at, 8 * words))) return nullptr;

    const int16_t type = layout_.dtype == kNowhere
                             ? int16_t{-1}
                             : Load<int16_t>(tensor + static_cast<uint64_t>(layout_.dtype));
    const auto dtype = static_cast<uint8_t>(type >= 0 && type <= INT8_MAX ? type : -1);
    const auto flags = static_cast<uint8_t>((storage != 0 ? wire::kInputStorage : 0) |
                                            (with_strides ? wire::kInputStrides : 0));
    uint8_t* next = Put(at, HeadOf(InputKind::kTensor, flags) | uint64_t{dtype} << 8 | rank << 16);
    if (storage != 0) next = Put(next, storage);
    uint64_t all_bits = 0;
    for (uint64_t i = 0; i < rank; ++i) {
      const auto size = Load<uint64_t>(sizes + 8 * i);
      all_bits |= size;
      next = Put(next, size);
    }
    // A size that is not a number but stands for one is negative.
    if (PROFD_UNLIKELY(static_cast<int64_t>(all_bits) < 0)) return WriteOdd(at);
    if (with_strides) {
      for (uint64_t i = 0; i < rank; ++i) next = Put(next, Load<uint64_t>(strides + 8 * i));
    }
    return next;
  }

  PROFD_NOINLINE uint8_t* WriteRarely(uint8_t* at, const IValue& input) {
    if (input.tag == layout_.list_tag && layout_.items != kNowhere && input.payload != 0) {
      return WriteList(at, input.payload);
    }
    if (input.tag == layout_.string_tag && layout_.text != kNowhere && input.payload != 0) {
      return WriteString(at, input.payload);
    }
    return WriteHead(at, InputKind::kOther);
  }

  uint8_t* WriteString(uint8_t* at, uint64_t object) {
    const uint64_t place = object + static_cast<uint64_t>(layout_.text);
    const auto text = Load<uint64_t>(place);
    if (text == 0) return WriteHead(at, InputKind::kOther);
    // A string of GCC's ABI before C++11 is a pointer to its text, with the length 24 bytes before
    // that.
    const auto length = Load<uint64_t>(layout_.has_old_strings ? text - 24 : place + 8);
    if (length > kMostStringBytes) return WriteHead(at, InputKind::kOther);
    const bool is_cut = length > wire::kMaxInputStringBytes;
    const uint64_t bytes = is_cut ? wire::kMaxInputStringBytes : length;
    const uint64_t padded = (bytes + 7) / 8 * 8;
    if (!HasRoom(at, 8 + padded)) return nullptr;
    at = Put(at, HeadOf(InputKind::kString, is_cut ? wire::kInputCut : 0, bytes));
    memset(at, 0, padded);
    memcpy(at, reinterpret_cast<const void*>(text), bytes);
    is_cut_ |= is_cut;
    return at + padded;
  }

  uint8_t* WriteList(uint8_t* at, uint64_t object) {
    const uint64_t place = object + static_cast<uint64_t>(layout_.items);
    const auto first = Load<uint64_t>(place);
    const uint64_t bytes = Load<uint64_t>(place + 8) - first;
    const uint64_t length = bytes / sizeof(IValue);
    if (bytes % sizeof(IValue) != 0 || length > kMostItems) return WriteHead(at, InputKind::kOther);
    const auto* items = reinterpret_cast<const IValue*>(first);
    const uint64_t count = length < wire::kMaxListItems ? length : wire::kMaxListItems;
    const uint8_t flags = count < length ? wire::kInputCut : 0;
    if (count != 0 && IsTensorOrNone(items[0])) return WriteTensors(at, flags, items, count);
    InputKind kind;
    if (count == 0 || items[0].tag == layout_.int_tag) {
      kind = InputKind::kIntList;
    } else if (items[0].tag == layout_.double_tag) {
      kind = InputKind::kDoubleList;
    } else if (items[0].tag == layout_.bool_tag) {
      kind = InputKind::kBoolList;
    } else {
      return WriteHead(at, InputKind::kOther);
    }
    return WriteNumbers(at, kind, flags, items, count);
  }

  bool IsTensorOrNone(const IValue& item) const {
    return item.tag == layout_.tensor_tag || item.tag == layout_.none_tag;
  }

  uint8_t* WriteNumbers(uint8_t* at, InputKind kind, uint8_t flags, const IValue* items,
                        uint64_t count) {
    for (uint64_t i = 1; i < count; ++i) {
      if (items[i].tag != items[0].tag) return WriteHead(at, InputKind::kOther);
    }
    if (!HasRoom(at, 8 + 8 * count)) return nullptr;
    at = Put(at, HeadOf(kind, flags, count));
    const uint64_t mask = kind == InputKind::kBoolList ? 0xff : ~uint64_t{0};
    for (uint64_t i = 0; i < count; ++i) at = Put(at, items[i].payload & mask);
    is_cut_ |= flags != 0;
    return at;
  }

  // Its tensors follow the list. From the first on for which there is no room they are left out,
  // as is all that would follow them.
  uint8_t* WriteTensors(uint8_t* at, uint8_t flags, const IValue* items, uint64_t count) {
    if (!HasRoom(at, 8)) return nullptr;
    at = Put(at, HeadOf(InputKind::kTensorList, flags, count));
    is_cut_ |= flags != 0;
    for (uint64_t i = 0; i < count; ++i) {
      uint8_t* next = items[i].tag == layout_.tensor_tag ? WriteTensor(at, items[i].payload)
                      : items[i].tag == layout_.none_tag ? WriteHead(at, InputKind::kNone)
                                                         : WriteHead(at, InputKind::kOther);
      if (next == nullptr) {
        end_ = at;
        is_cut_ = true;
        return at;
      }
      at = next;
      ++item_count_;
    }
    return at;
  }

  const TensorLayout& layout_;
  const InputOptions options_;
  const uint8_t* end_;
  bool is_cut_ = false;
  uint32_t odd_tensors_ = 0;
  uint32_t item_count_ = 0;
};

PROFD_NOINLINE void Count(bool is_cut, uint32_t odd_tensors, InputCounts* counts) {
  if (is_cut) counts->cut.fetch_add(1, std::memory_order_relaxed);
  counts->odd_tensors.fetch_add(odd_tensors, std::memory_order_relaxed);
}

}  // namespace

uint32_t DescribeInputs(const TensorLayout& layout, const InputOptions& options,
                        const IValue* inputs, uint64_t count, wire::OperatorEvent* record,
                        InputCounts* counts) {
  constexpr uint64_t kMostInputs = UINT8_MAX;
  auto* const start = reinterpret_cast<uint8_t*>(record);
  uint8_t* at = start + sizeof(*record);
  Writer writer(layout, options, start + wire::kMaxEventBytes);
  const uint64_t shown = count < kMostInputs ? count : kMostInputs;
  uint64_t described = 0;
  for (; described < shown; ++described) {
    uint8_t* next = writer.WriteInput(at, inputs[described]);
    if (PROFD_UNLIKELY(next == nullptr)) break;
    at = next;
  }
  record->input_count = static_cast<uint8_t>(shown);
  record->described_count = static_cast<uint32_t>(described) + writer.item_count();
  const bool is_cut = writer.is_cut() || described < count;
  if (PROFD_UNLIKELY(is_cut || writer.odd_tensors() != 0)) {
    Count(is_cut, writer.odd_tensors(), counts);
  }
  return static_cast<uint32_t>(at - start);
}

}  // namespace profd::client::torch
