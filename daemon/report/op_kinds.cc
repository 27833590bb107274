#include "daemon/report/op_kinds.h"

#include <string_view>
#include <utility>

#include "daemon/base/status_macros.h"
#include "daemon/report/first_ids.h"

namespace profd::report {
namespace {

// For each inputs the first with the same sizes and types; 0 for those that say nothing.
std::vector<uint32_t> FirstInputs(std::span<const OperatorInputs> inputs) {
  absl::flat_hash_map<std::pair<std::string_view, std::string_view>, uint32_t> first_of = {
      {{"", ""}, 0}};
  std::vector<uint32_t> first;
  first.reserve(inputs.size());
  for (const OperatorInputs& of : inputs) {
    const auto id = static_cast<uint32_t>(first.size());
    first.push_back(first_of.try_emplace({of.dims, of.types}, id).first->second);
  }
  return first;
}

}  // namespace

absl::StatusOr<OpKinds> OpKinds::Build(store::CaptureReader& reader, bool by_inputs) {
  OpKinds kinds;
  const std::vector<uint32_t> first_names = FirstIds(reader.names());
  kinds.kinds_.reserve(first_names.size());
  for (uint32_t name = 0; name < first_names.size(); ++name) {
    kinds.kinds_.push_back({first_names[name], name, 0});
  }
  if (by_inputs) {
    ASSIGN_OR_RETURN(kinds.operators_, OperatorIndex::Build(reader));
    kinds.first_inputs_ = FirstInputs(reader.inputs());
    kinds.by_inputs_ = !kinds.first_inputs_.empty();
  }
  return kinds;
}

uint32_t OpKinds::columns() const {
  return by_inputs_ ? store::kRangeName | store::kRangeStart | store::kRangeDepth
                    : store::kRangeName;
}

std::span<const uint32_t> OpKinds::Of(const store::RangeBatch& batch) {
  if (!by_inputs_) return batch.name;
  of_batch_.clear();
  for (size_t i = 0; i < batch.size; ++i) {
    const OperatorIndex::Entry* op =
        operators_.Find(batch.thread, batch.start_ns[i], batch.depth[i]);
    of_batch_.push_back(op == nullptr ? batch.name[i] : KindOf(batch.name[i], op->inputs));
  }
  return of_batch_;
}

uint32_t OpKinds::KindOf(uint32_t name, uint32_t inputs) {
  const uint32_t first_inputs = first_inputs_[inputs];
  if (first_inputs == 0) return name;
  const uint32_t first_name = kinds_[name].first;
  const auto next = static_cast<uint32_t>(kinds_.size());
  const auto [at, inserted] =
      with_inputs_.try_emplace(uint64_t{first_name} << 32 | first_inputs, next);
  if (inserted) kinds_.push_back({next, first_name, first_inputs});
  return at->second;
}

}  // namespace profd::report
