// OpKinds numbers what the rows of the operator table are of: names or, by inputs, names with
// the sizes and types of their inputs.
//
// A kind below the number of names is that name, without inputs; those with inputs get numbers
// as they are met. Names that read the same, and inputs that differ in their strides only, are
// one.
//
// Threads: one at a time.
// Errors:  the reader's, when made.
#ifndef PROFD_DAEMON_REPORT_OP_KINDS_H_
#define PROFD_DAEMON_REPORT_OP_KINDS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "daemon/report/operator_index.h"
#include "daemon/store/capture_reader.h"

namespace profd::report {

class OpKinds {
 public:
  static absl::StatusOr<OpKinds> Build(store::CaptureReader& reader, bool by_inputs);

  // The columns that Of() reads.
  uint32_t columns() const;
  // The kind of each of the batch's ranges. Valid until the next call.
  std::span<const uint32_t> Of(const store::RangeBatch& batch);

  // Kinds so far are below it.
  size_t size() const { return kinds_.size(); }
  // Kinds with the same first one are one row.
  uint32_t FirstOf(uint32_t kind) const { return kinds_[kind].first; }
  uint32_t NameOf(uint32_t kind) const { return kinds_[kind].name; }      // Index into names().
  uint32_t InputsOf(uint32_t kind) const { return kinds_[kind].inputs; }  // Into inputs(); 0: none.

 private:
  struct Kind {
    uint32_t first;
    uint32_t name;
    uint32_t inputs;
  };

  OpKinds() = default;
  uint32_t KindOf(uint32_t name, uint32_t inputs);

  bool by_inputs_ = false;
  OperatorIndex operators_;
  std::vector<Kind> kinds_;
  std::vector<uint32_t> first_inputs_;                   // Of inputs(), those that differ.
  absl::flat_hash_map<uint64_t, uint32_t> with_inputs_;  // (first name, first inputs) -> kind
  std::vector<uint32_t> of_batch_;
};

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_OP_KINDS_H_
