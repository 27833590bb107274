// The inputs of operators, from the bytes after an OperatorEvent (proto/wire/event.h) to the JSON
// that a capture keeps of them, in two steps: every operator's are checked and put into a short
// key; only a key that was not seen before becomes text. So what recurs costs one look-up.
//
// The text is spelt as torch.profiler spells it, but for what that leaves out: strings, and lists
// of more than 30 scalars, are there. A list that was cut ends in "...".
//
// Threads: one at a time.
// Memory:  kMaxBytes of keys and text in a capture, and kMaxOperatorInputs of each. What is beyond
//          them is 0, and its operator counts as one whose inputs are not all there.
#ifndef PROFD_DAEMON_INGEST_DECODE_OPERATOR_INPUTS_H_
#define PROFD_DAEMON_INGEST_DECODE_OPERATOR_INPUTS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/ingest/decode/decode_context.h"
#include "proto/wire/event.h"

namespace profd {

// The inputs of one operator, checked.
struct InputKeys {
  struct Tensor {
    uint64_t storage_address;
    uint8_t input;  // Index, from 0; tensors of a list share one. 255: that or higher.
  };
  std::string shapes;
  std::string scalars;
  std::vector<Tensor> tensors;  // Those whose storage is known.
  bool is_cut = false;          // Not all inputs are there, or not all of one.

  bool empty() const { return shapes.empty(); }
  // Keeps the memory.
  void Clear();
};

// Sets `keys` from what stands after an OperatorEvent of which `untrusted_input_count` and
// `untrusted_described_count` came. False: that is no list of inputs.
bool ReadInputs(std::span<const std::byte> untrusted, uint32_t untrusted_input_count,
                uint32_t untrusted_described_count, InputKeys& keys);

// What `shapes` and `scalars` of InputKeys stand for; `with_strides`: also where there are none.
OperatorInputs ShapesText(std::string_view key, bool with_strides);
std::string ScalarsText(std::string_view key);

class InputTable {
 public:
  static constexpr size_t kMaxBytes = 64u << 20;

  struct Ids {
    uint32_t inputs = 0;
    uint32_t scalars = 0;
    bool is_full = false;  // They are 0 for want of room.
  };

  InputTable(bool with_strides, RowSink& sink) : with_strides_(with_strides), sink_(sink) {}

  // The sink's ids; what is new is given to it first.
  Ids Find(const InputKeys& keys);

 private:
  using IdsByKey = absl::flat_hash_map<std::string, uint32_t>;
  // 0: there is no room.
  template <typename Give>
  uint32_t FindIn(IdsByKey& ids, const std::string& key, Give give);

  const bool with_strides_;
  RowSink& sink_;
  size_t bytes_ = 0;
  IdsByKey shapes_;
  IdsByKey scalars_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_INGEST_DECODE_OPERATOR_INPUTS_H_
