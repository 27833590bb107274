#include "daemon/export/collective_text.h"

#include <optional>

#include "daemon/base/str_cat.h"
#include "daemon/report/collective_names.h"

namespace profd::exporter {
namespace {

// What kMostCollectiveBytes leaves for one of the lists.
constexpr size_t kMostSplitBytes = 256;

}  // namespace

std::string CollectiveMembers(std::string_view scalars, const OperatorInputs* inputs) {
  const std::optional<report::CollectiveInputs> collective =
      report::ParseCollectiveInputs(scalars, inputs);
  if (!collective.has_value()) return "";
  std::string members =
      StrCat("\"Collective name\":\"", collective->name, "\",\"Rank\":", collective->rank);
  StrAppend(&members, ",\"Group size\":", collective->group_size);
  if (collective->first_rank.has_value() && collective->rank_stride.has_value()) {
    StrAppend(&members, ",\"Global rank start\":", *collective->first_rank,
              ",\"Global rank stride\":", *collective->rank_stride);
  }
  if (collective->in_splits.size() <= kMostSplitBytes &&
      collective->out_splits.size() <= kMostSplitBytes) {
    StrAppend(&members, ",\"In split size\":\"", collective->in_splits, "\",\"Out split size\":\"",
              collective->out_splits, "\"");
  }
  if (collective->elements.has_value()) {
    StrAppend(&members, ",\"In msg nelems\":", *collective->elements);
  }
  return members;
}

}  // namespace profd::exporter
