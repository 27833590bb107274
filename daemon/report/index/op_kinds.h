// OpKinds assigns numbers to the rows of the operator table. A kind is a name; by inputs, a name
// with the sizes and types of its inputs; in groups, also the thread or place that it ran in.
//
// A kind below the number of names is that name without inputs and group. Other kinds get the next
// number at their first use. Equal texts are one name, and so are the steps of torch.profiler,
// "ProfilerStep#N"; inputs that differ only in strides are equal.
//
// Threads: one at a time.
// Errors:  the reader's, in Build().
#ifndef PROFD_DAEMON_REPORT_INDEX_OP_KINDS_H_
#define PROFD_DAEMON_REPORT_INDEX_OP_KINDS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "daemon/report/index/operator_index.h"
#include "daemon/report/index/place_index.h"
#include "daemon/report/index/step_names.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

class OpKinds {
 public:
  enum class Group { kNone, kThread, kPlace };
  struct Options {
    bool by_inputs = false;
    Group group = Group::kNone;
    PlaceKind place = PlaceKind::kModule;  // With kPlace.
    PlaceIndex::Options detail;
  };

  static absl::StatusOr<OpKinds> Build(store::CaptureReader& reader, const Options& options);

  // The columns that Of() reads.
  uint32_t columns() const;
  // Returns the kind of each range of the batch. Valid until the next call.
  std::span<const uint32_t> Of(const RangeBatch& batch);

  // Returns the kind of an API call.
  uint32_t OfCall(uint32_t name, uint32_t thread, int64_t start_ns);

  // All kinds so far are smaller.
  size_t size() const { return kinds_.size(); }
  // Kinds with the same first kind share a row.
  uint32_t FirstOf(uint32_t kind) const { return kinds_[kind].first; }
  uint32_t NameOf(uint32_t kind) const { return kinds_[kind].name; }  // Index into names().
  bool HaveSameName(uint32_t a, uint32_t b) const {
    return a == b || NameOf(FirstOf(a)) == NameOf(FirstOf(b));
  }
  // What the rows of that name are called.
  static std::string_view TextOf(std::string_view name);
  uint32_t InputsOf(uint32_t kind) const { return kinds_[kind].inputs; }  // Into inputs(); 0: none.
  // Index into threads(), or of places(); 0 without groups.
  uint32_t GroupOf(uint32_t kind) const { return kinds_[kind].group; }
  const PlaceIndex& places() const { return places_; }

 private:
  struct Kind {
    uint32_t first;
    uint32_t name;
    uint32_t inputs;
    uint32_t group;
  };

  OpKinds() = default;
  uint32_t KindOf(uint32_t name, uint32_t first_inputs, uint32_t group);
  uint32_t GroupAt(uint32_t thread, int64_t start_ns);

  bool by_inputs_ = false;
  Group group_ = Group::kNone;
  PlaceIndex places_;
  OperatorIndex operators_;
  std::vector<Kind> kinds_;
  std::vector<uint32_t> first_inputs_;  // For each of inputs(), the first equal one.
  // (first name, first inputs, group) -> kind
  absl::flat_hash_map<std::tuple<uint32_t, uint32_t, uint32_t>, uint32_t> composed_;
  std::vector<uint32_t> of_batch_;
};

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_INDEX_OP_KINDS_H_
