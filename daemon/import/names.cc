#include "daemon/import/names.h"

#include "daemon/base/status_macros.h"
#include "daemon/import/trace_event.h"
#include "proto/wire/long_names.h"

namespace profd::importer {
namespace {

static_assert(NameTable::kMaxNameBytes == wire::kMaxNameBytes);

}  // namespace

absl::StatusOr<uint32_t> NameTable::IdOfJson(std::string_view json) {
  if (const auto found = by_json_.find(json); found != by_json_.end()) {
    if (found->second == other_id_) ++other_count_;
    return found->second;
  }
  ASSIGN_OR_RETURN(const uint32_t id, IdOf(Unescape(json)));
  // What is not kept is looked up by its text each time, which must not be kept either. Names that
  // are "(other)" have no end.
  if (id != other_id_ && by_json_.size() < kMaxIds && bytes_ + json.size() <= kMaxBytes) {
    bytes_ += json.size();
    by_json_.emplace(kept_.emplace_back(json), id);
  }
  return id;
}

absl::StatusOr<uint32_t> NameTable::IdOf(std::string_view text) {
  std::string shortened;
  if (text.size() > kMaxNameBytes) {
    shortened.resize(kMaxNameBytes);
    shortened.resize(wire::ShortenName(text.data(), text.size(), shortened.data()));
    text = shortened;
  }
  if (const auto found = by_text_.find(text); found != by_text_.end()) return found->second;
  if (last_id_ + 1 < kMaxIds && bytes_ + text.size() <= kMaxBytes) return Add(text);
  ++other_count_;
  if (other_id_ != 0) return other_id_;
  ASSIGN_OR_RETURN(other_id_, Add("(other)"));
  return other_id_;
}

absl::StatusOr<uint32_t> NameTable::Add(std::string_view text) {
  const uint32_t id = last_id_ + 1;
  RETURN_IF_ERROR(sink_.AddName(id, text));
  last_id_ = id;
  bytes_ += text.size();
  by_text_.emplace(kept_.emplace_back(text), id);
  return id;
}

}  // namespace profd::importer
