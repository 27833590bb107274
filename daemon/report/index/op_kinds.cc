#include "daemon/report/index/op_kinds.h"

#include <optional>
#include <string_view>
#include <utility>

#include "daemon/base/status_macros.h"
#include "daemon/report/index/first_ids.h"

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

absl::StatusOr<OpKinds> OpKinds::Build(store::CaptureReader& reader, const Options& options) {
  OpKinds kinds;
  kinds.group_ = options.group;
  std::vector<uint32_t> first_names = FirstIds(reader.names());
  std::optional<uint32_t> first_step;
  for (uint32_t name = 0; name < first_names.size(); ++name) {
    if (!IsProfilerStep(reader.names()[name])) continue;
    if (!first_step.has_value()) first_step = name;
    first_names[name] = *first_step;
  }
  kinds.kinds_.reserve(first_names.size());
  for (uint32_t name = 0; name < first_names.size(); ++name) {
    kinds.kinds_.push_back({first_names[name], name, 0, 0});
  }
  if (options.by_inputs) {
    ASSIGN_OR_RETURN(kinds.operators_, OperatorIndex::Build(reader));
    kinds.first_inputs_ = FirstInputs(reader.inputs());
    kinds.by_inputs_ = !kinds.first_inputs_.empty();
  }
  if (options.group == Group::kPlace) {
    ASSIGN_OR_RETURN(kinds.places_, PlaceIndex::Build(reader, options.place, options.detail));
  }
  return kinds;
}

std::string_view OpKinds::TextOf(std::string_view name) {
  return IsProfilerStep(name) ? kStepRow : name;
}

uint32_t OpKinds::columns() const {
  uint32_t columns = kRangeName;
  if (by_inputs_) columns |= kRangeStart | kRangeDepth;
  if (group_ == Group::kPlace) columns |= kRangeStart;
  return columns;
}

std::span<const uint32_t> OpKinds::Of(const RangeBatch& batch) {
  if (!by_inputs_ && group_ == Group::kNone) return batch.name;
  of_batch_.clear();
  for (size_t i = 0; i < batch.size; ++i) {
    const OperatorIndex::Entry* op =
        by_inputs_ ? operators_.Find(batch.thread, batch.start_ns[i], batch.depth[i]) : nullptr;
    const int64_t start_ns = group_ == Group::kPlace ? batch.start_ns[i] : 0;
    of_batch_.push_back(KindOf(batch.name[i], op == nullptr ? 0 : first_inputs_[op->inputs],
                               GroupAt(batch.thread, start_ns)));
  }
  return of_batch_;
}

uint32_t OpKinds::OfCall(uint32_t name, uint32_t thread, int64_t start_ns) {
  return KindOf(name, 0, GroupAt(thread, start_ns));
}

uint32_t OpKinds::GroupAt(uint32_t thread, int64_t start_ns) {
  switch (group_) {
    case Group::kNone:
      return 0;
    case Group::kThread:
      return thread;
    case Group::kPlace:
      return places_.At(thread, start_ns);
  }
  return 0;
}

uint32_t OpKinds::KindOf(uint32_t name, uint32_t first_inputs, uint32_t group) {
  if (first_inputs == 0 && group == 0) return name;
  const uint32_t first_name = kinds_[name].first;
  const auto next = static_cast<uint32_t>(kinds_.size());
  const auto [at, inserted] =
      composed_.try_emplace(std::tuple(first_name, first_inputs, group), next);
  if (inserted) kinds_.push_back({next, first_name, first_inputs, group});
  return at->second;
}

}  // namespace profd::report
