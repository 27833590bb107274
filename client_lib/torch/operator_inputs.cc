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

class Writer {
 public:
  Writer(const TensorLayout& layout, const InputOptions& options, wire::OperatorEvent* record)
      : layout_(layout),
        options_(options),
        start_(reinterpret_cast<uint8_t*>(record)),
        at_(start_ + sizeof(*record)),
        end_(start_ + wire::kMaxEventBytes) {}

  // False: no room; nothing was written.
  [[gnu::always_inline]] inline bool WriteInput(const IValue& input) {
    if (PROFD_LIKELY(input.tag == layout_.tensor_tag)) return WriteTensor(input.payload);
    if (input.tag == layout_.int_tag) return WriteScalar(InputKind::kInt, input.payload);
    if (input.tag == layout_.bool_tag) return WriteScalar(InputKind::kBool, input.payload & 0xff);
    if (input.tag == layout_.double_tag) return WriteScalar(InputKind::kDouble, input.payload);
    if (input.tag == layout_.none_tag) return WriteHead(InputKind::kNone);
    return WriteRarely(input);
  }

  uint32_t described_count() const { return described_count_; }
  void MarkCut() { outcome_.is_cut = true; }

  InputOutcome Finish() {
    outcome_.bytes = static_cast<uint32_t>(at_ - start_);
    return outcome_;
  }

 private:
  bool HasRoom(uint64_t bytes) const { return bytes <= static_cast<uint64_t>(end_ - at_); }

  [[gnu::always_inline]] inline void Put(uint64_t word) {
    memcpy(at_, &word, sizeof(word));
    at_ += sizeof(word);
  }

  [[gnu::always_inline]] inline bool WriteHead(InputKind kind) {
    if (PROFD_UNLIKELY(!HasRoom(8))) return false;
    Put(HeadOf(kind));
    ++described_count_;
    return true;
  }

  [[gnu::always_inline]] inline bool WriteScalar(InputKind kind, uint64_t value) {
    if (PROFD_UNLIKELY(!HasRoom(16))) return false;
    Put(HeadOf(kind));
    Put(value);
    ++described_count_;
    return true;
  }

  // A tensor that is none.
  PROFD_NOINLINE bool WriteOdd() {
    ++outcome_.odd_tensors;
    return WriteHead(InputKind::kOther);
  }

  [[gnu::always_inline]] inline bool WriteTensor(uint64_t tensor) {
    if (tensor == 0 || tensor == reinterpret_cast<uint64_t>(layout_.undefined_tensor)) {
      return WriteHead(InputKind::kNone);
    }
    if (PROFD_UNLIKELY(layout_.rank == kNowhere)) return WriteHead(InputKind::kOther);
    const uint64_t place = tensor + static_cast<uint64_t>(layout_.rank);
    const uint64_t rank = Load<uint64_t>(place);
    uint64_t sizes = place + 8;
    uint64_t strides = sizes + 8 * kInlineRank;
    if (PROFD_UNLIKELY(rank > kInlineRank)) {
      if (rank > wire::kMaxTensorRank) return WriteOdd();
      if (!layout_.knows_high_ranks) return WriteHead(InputKind::kOther);
      sizes = Load<uint64_t>(sizes);
      if (sizes == 0 || sizes % 8 != 0) return WriteOdd();
      strides = sizes + 8 * rank;
    }
    uint64_t storage = 0;
    if (options_.storages) {
      const uint64_t object = Load<uint64_t>(tensor + static_cast<uint64_t>(layout_.storage));
      if (object != 0) storage = Load<uint64_t>(object + static_cast<uint64_t>(layout_.data));
    }
    const uint64_t words = 1 + (storage != 0) + rank + (options_.strides ? rank : 0);
    if (PROFD_UNLIKELY(!HasRoom(8 * words))) return false;

    const int16_t type = layout_.dtype == kNowhere
                             ? int16_t{-1}
                             : Load<int16_t>(tensor + static_cast<uint64_t>(layout_.dtype));
    const auto dtype = static_cast<uint8_t>(type >= 0 && type <= INT8_MAX ? type : -1);
    const uint8_t flags = static_cast<uint8_t>((storage != 0 ? wire::kInputStorage : 0) |
                                               (options_.strides ? wire::kInputStrides : 0));
    uint8_t* const head = at_;
    Put(HeadOf(InputKind::kTensor, flags) | uint64_t{dtype} << 8 | rank << 16);
    if (storage != 0) Put(storage);
    uint64_t all_bits = 0;
    for (uint64_t i = 0; i < rank; ++i) {
      const auto size = Load<uint64_t>(sizes + 8 * i);
      all_bits |= size;
      Put(size);
    }
    // A size that is not a number but stands for one is negative.
    if (PROFD_UNLIKELY(static_cast<int64_t>(all_bits) < 0)) {
      at_ = head;
      return WriteOdd();
    }
    if (options_.strides) {
      for (uint64_t i = 0; i < rank; ++i) Put(Load<uint64_t>(strides + 8 * i));
    }
    ++described_count_;
    return true;
  }

  PROFD_NOINLINE bool WriteRarely(const IValue& input) {
    if (input.tag == layout_.list_tag && layout_.items != kNowhere && input.payload != 0) {
      return WriteList(input.payload);
    }
    if (input.tag == layout_.string_tag && layout_.text != kNowhere && input.payload != 0) {
      return WriteString(input.payload);
    }
    return WriteHead(InputKind::kOther);
  }

  bool WriteString(uint64_t object) {
    const uint64_t place = object + static_cast<uint64_t>(layout_.text);
    const auto text = Load<uint64_t>(place);
    const auto length = Load<uint64_t>(layout_.has_old_strings ? text - 24 : place + 8);
    if (text == 0 || length > kMostStringBytes) return WriteHead(InputKind::kOther);
    const bool is_cut = length > wire::kMaxInputStringBytes;
    const uint64_t bytes = is_cut ? wire::kMaxInputStringBytes : length;
    const uint64_t padded = (bytes + 7) / 8 * 8;
    if (!HasRoom(8 + padded)) return false;
    Put(HeadOf(InputKind::kString, is_cut ? wire::kInputCut : 0, bytes));
    memset(at_, 0, padded);
    memcpy(at_, reinterpret_cast<const void*>(text), bytes);
    at_ += padded;
    outcome_.is_cut |= is_cut;
    ++described_count_;
    return true;
  }

  bool WriteList(uint64_t object) {
    const uint64_t place = object + static_cast<uint64_t>(layout_.items);
    const auto first = Load<uint64_t>(place);
    const uint64_t bytes = Load<uint64_t>(place + 8) - first;
    const uint64_t length = bytes / sizeof(IValue);
    if (bytes % sizeof(IValue) != 0 || length > kMostItems) return WriteHead(InputKind::kOther);
    const auto* items = reinterpret_cast<const IValue*>(first);
    const uint64_t count = length < wire::kMaxListItems ? length : wire::kMaxListItems;
    const uint8_t flags = count < length ? wire::kInputCut : 0;
    bool is_written;
    if (count == 0) {
      is_written = WriteNumbers(InputKind::kIntList, flags, items, 0);
    } else if (IsTensorOrNone(items[0])) {
      is_written = WriteTensors(flags, items, count);
    } else if (items[0].tag == layout_.int_tag) {
      is_written = WriteNumbers(InputKind::kIntList, flags, items, count);
    } else if (items[0].tag == layout_.double_tag) {
      is_written = WriteNumbers(InputKind::kDoubleList, flags, items, count);
    } else if (items[0].tag == layout_.bool_tag) {
      is_written = WriteNumbers(InputKind::kBoolList, flags, items, count);
    } else {
      return WriteHead(InputKind::kOther);
    }
    outcome_.is_cut |= is_written && flags != 0;
    return is_written;
  }

  bool IsTensorOrNone(const IValue& item) const {
    return item.tag == layout_.tensor_tag || item.tag == layout_.none_tag;
  }

  bool WriteNumbers(InputKind kind, uint8_t flags, const IValue* items, uint64_t count) {
    for (uint64_t i = 1; i < count; ++i) {
      if (items[i].tag != items[0].tag) return WriteHead(InputKind::kOther);
    }
    if (!HasRoom(8 + 8 * count)) return false;
    Put(HeadOf(kind, flags, count));
    const uint64_t mask = kind == InputKind::kBoolList ? 0xff : ~uint64_t{0};
    for (uint64_t i = 0; i < count; ++i) Put(items[i].payload & mask);
    ++described_count_;
    return true;
  }

  // Its tensors follow the list. Those for which there is no room are left out.
  bool WriteTensors(uint8_t flags, const IValue* items, uint64_t count) {
    if (!HasRoom(8)) return false;
    Put(HeadOf(InputKind::kTensorList, flags, count));
    ++described_count_;
    for (uint64_t i = 0; i < count; ++i) {
      const bool is_written = items[i].tag == layout_.tensor_tag ? WriteTensor(items[i].payload)
                              : items[i].tag == layout_.none_tag ? WriteHead(InputKind::kNone)
                                                                 : WriteHead(InputKind::kOther);
      if (!is_written) return false;
    }
    return true;
  }

  const TensorLayout& layout_;
  const InputOptions options_;
  uint8_t* const start_;
  uint8_t* at_;
  uint8_t* const end_;
  uint32_t described_count_ = 0;
  InputOutcome outcome_{};
};

}  // namespace

InputOutcome DescribeInputs(const TensorLayout& layout, const InputOptions& options,
                            const IValue* inputs, uint64_t count, wire::OperatorEvent* record) {
  constexpr uint64_t kMostInputs = UINT8_MAX;
  Writer writer(layout, options, record);
  const uint64_t shown = count < kMostInputs ? count : kMostInputs;
  if (shown < count) writer.MarkCut();
  for (uint64_t i = 0; i < shown; ++i) {
    if (writer.WriteInput(inputs[i])) continue;
    writer.MarkCut();
    break;
  }
  record->input_count = static_cast<uint8_t>(shown);
  record->described_count = writer.described_count();
  return writer.Finish();
}

}  // namespace profd::client::torch
