// A framework's events, as client_lib/torch writes them, or not.
#ifndef PROFD_TESTS_INGEST_TORCH_EVENTS_H_
#define PROFD_TESTS_INGEST_TORCH_EVENTS_H_

#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "proto/wire/event.h"
#include "tests/ingest/ingest_testing.h"

namespace profd {

// An OperatorEvent, input by input:
//
//   OperatorBuilder(start).Tensor(kFloat, {2, 3}).Int(1).AddTo(chunk);
class OperatorBuilder {
 public:
  static constexpr int8_t kLong = 4;
  static constexpr int8_t kFloat = 6;

  explicit OperatorBuilder(uint64_t start_ticks, uint16_t depth = 0) {
    event_.start_ticks = start_ticks;
    event_.depth = depth;
    event_.sequence = wire::kNoSequence;
  }
  wire::OperatorEvent& event() { return event_; }

  OperatorBuilder& Tensor(int8_t dtype, const std::vector<int64_t>& sizes,
                          const std::vector<int64_t>& strides = {},
                          std::optional<uint64_t> storage = std::nullopt) {
    uint8_t flags = 0;
    if (!strides.empty()) flags |= wire::kInputStrides;
    if (storage.has_value()) flags |= wire::kInputStorage;
    Input(wire::InputKind::kTensor, flags, 0, dtype, static_cast<uint8_t>(sizes.size()));
    if (storage.has_value()) Word(*storage);
    for (const int64_t size : sizes) Word(size);
    for (const int64_t stride : strides) Word(stride);
    return *this;
  }
  // The next `count` are its tensors.
  OperatorBuilder& TensorList(uint32_t count) {
    Input(wire::InputKind::kTensorList, 0, count);
    list_left_ = count;
    return *this;
  }
  OperatorBuilder& None() { return Input(wire::InputKind::kNone); }
  OperatorBuilder& Other() { return Input(wire::InputKind::kOther); }
  OperatorBuilder& Int(int64_t value) { return Input(wire::InputKind::kInt).Word(value); }
  OperatorBuilder& Double(double value) { return Input(wire::InputKind::kDouble).Word(value); }
  OperatorBuilder& Bool(bool value) { return Input(wire::InputKind::kBool).Word(int64_t{value}); }
  OperatorBuilder& String(std::string_view text, uint8_t flags = 0) {
    Input(wire::InputKind::kString, flags, static_cast<uint32_t>(text.size()));
    bytes_.insert(bytes_.end(), text.begin(), text.end());
    bytes_.resize((bytes_.size() + 7) / 8 * 8);
    return *this;
  }
  template <typename T>
  OperatorBuilder& List(wire::InputKind kind, const std::vector<T>& values, uint8_t flags = 0) {
    Input(kind, flags, static_cast<uint32_t>(values.size()));
    for (const T value : values) Word(value);
    return *this;
  }
  OperatorBuilder& Input(wire::InputKind kind, uint8_t flags = 0, uint32_t count = 0,
                         int8_t dtype = -1, uint8_t rank = 0) {
    const wire::OperatorInput input{static_cast<uint8_t>(kind), dtype, rank, flags, count};
    Append(&input, sizeof(input));
    ++event_.described_count;
    // Those of a list of tensors are no inputs of their own.
    if (list_left_ > 0) {
      --list_left_;
    } else {
      ++event_.input_count;
    }
    return *this;
  }
  template <typename T>
  OperatorBuilder& Word(T value) {
    static_assert(sizeof(value) == 8);
    Append(&value, sizeof(value));
    return *this;
  }

  std::vector<char> Record() const {
    wire::OperatorEvent event = event_;
    const auto size = static_cast<uint16_t>(sizeof(event) + bytes_.size());
    event.header = {size, static_cast<uint8_t>(wire::EventKind::kOperator), 0, 0};
    std::vector<char> record(sizeof(event));
    memcpy(record.data(), &event, sizeof(event));
    record.insert(record.end(), bytes_.begin(), bytes_.end());
    return record;
  }
  void AddTo(ChunkBuilder& chunk) const {
    const std::vector<char> record = Record();
    chunk.AddBytes(record.data(), record.size());
  }
  // Without the event itself.
  std::span<const std::byte> inputs() const {
    return std::as_bytes(std::span(bytes_.data(), bytes_.size()));
  }

 private:
  void Append(const void* data, size_t size) {
    const auto* bytes = static_cast<const char*>(data);
    bytes_.insert(bytes_.end(), bytes, bytes + size);
  }

  wire::OperatorEvent event_{};
  std::vector<char> bytes_;
  uint32_t list_left_ = 0;
};

// The RangeEvent at an operator's end.
inline wire::RangeEvent OperatorRange(uint64_t start, uint64_t end, uint32_t name,
                                      uint16_t depth = 0) {
  wire::RangeEvent event{};
  event.start_ticks = start;
  event.duration_ticks = end - start;
  event.name_id = name;
  event.depth = depth;
  event.category = static_cast<uint16_t>(wire::RangeCategory::kOperator);
  return event;
}

inline wire::NoteEvent Note(wire::NoteKind kind, uint64_t time_ticks, uint32_t subject,
                            uint32_t text, int64_t value) {
  wire::NoteEvent event{};
  event.time_ticks = time_ticks;
  event.subject_id = subject;
  event.text_id = text;
  event.value = value;
  event.kind = static_cast<uint16_t>(kind);
  return event;
}

}  // namespace profd

#endif  // PROFD_TESTS_INGEST_TORCH_EVENTS_H_
