#include "daemon/import/operator_texts.h"

#include "daemon/base/status_macros.h"
#include "daemon/import/json/skip.h"

namespace profd::importer {

OperatorTexts::Place OperatorTexts::PlaceOf(Ids& ids) {
  if (const auto found = ids.find(key_); found != ids.end()) return {.id = found->second};
  if (bytes_ + key_.size() > kMaxBytes || ids.size() >= kMaxOperatorInputs) {
    ++left_out_count_;
    return {};
  }
  bytes_ += key_.size();
  const auto id = static_cast<uint32_t>(ids.size() + 1);
  ids.emplace(key_, id);
  return {.id = id, .is_new = true};
}

absl::StatusOr<uint32_t> OperatorTexts::Inputs(std::string_view dims, std::string_view types,
                                               std::string_view strides) {
  if (dims.empty() && types.empty()) return 0;
  key_.assign(dims);
  // A byte that JSON text cannot hold unescaped, so the three texts cannot run into each other.
  key_.push_back('\0');
  key_.append(types);
  key_.push_back('\0');
  key_.append(strides);
  const Place place = PlaceOf(inputs_);
  if (place.is_new) {
    RETURN_IF_ERROR(sink_.AddInputs(place.id, {.dims = CompactJson(dims.empty() ? "[]" : dims),
                                               .types = CompactJson(types.empty() ? "[]" : types),
                                               .strides = CompactJson(strides)}));
  }
  return place.id;
}

absl::StatusOr<uint32_t> OperatorTexts::Scalars(std::string_view json) {
  if (json.empty()) return 0;
  key_.assign(json);
  const Place place = PlaceOf(scalars_);
  if (place.is_new) RETURN_IF_ERROR(sink_.AddScalars(place.id, CompactJson(json)));
  return place.id;
}

}  // namespace profd::importer
