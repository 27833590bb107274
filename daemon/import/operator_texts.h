// OperatorTexts gives inputs and scalars of operators their ids as a capture file has them, and
// tells the file of each once.
//
// Threads: one.
// Memory:  kMaxBytes of distinct ones; operators with further ones have none, and are counted.
#ifndef PROFD_DAEMON_IMPORT_OPERATOR_TEXTS_H_
#define PROFD_DAEMON_IMPORT_OPERATOR_TEXTS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "daemon/capture/ports.h"

namespace profd::importer {

class OperatorTexts {
 public:
  static constexpr size_t kMaxBytes = size_t{64} << 20;

  // Must outlive it.
  explicit OperatorTexts(CaptureSink& sink) : sink_(sink) {}

  // JSON as it stands in the trace; empty: not there. 0: nothing is there, or no room.
  absl::StatusOr<uint32_t> Inputs(std::string_view dims, std::string_view types,
                                  std::string_view strides);
  absl::StatusOr<uint32_t> Scalars(std::string_view json);

  bool has_inputs() const { return !inputs_.empty(); }
  int64_t left_out_count() const { return left_out_count_; }

 private:
  using Ids = absl::flat_hash_map<std::string, uint32_t>;
  // The id of what `key_` says: one that is there, 0 if there is no room, or a new one.
  struct Place {
    uint32_t id = 0;
    bool is_new = false;
  };
  Place PlaceOf(Ids& ids);

  CaptureSink& sink_;
  Ids inputs_;
  Ids scalars_;
  std::string key_;
  size_t bytes_ = 0;
  int64_t left_out_count_ = 0;
};

}  // namespace profd::importer

#endif  // PROFD_DAEMON_IMPORT_OPERATOR_TEXTS_H_
