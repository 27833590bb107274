#include "daemon/export/trace/collective_text.h"

#include <optional>

#include "daemon/base/str_cat.h"
#include "daemon/report/index/collective_names.h"

namespace profd::exporter {
namespace {

// What kMostCollectiveBytes leaves for one of the lists.
constexpr size_t kMostSplitBytes = 256;
constexpr size_t kMostTypeBytes = 32;

bool AreShort(const report::CollectiveInputs& collective) {
  return collective.in_splits.size() <= kMostSplitBytes &&
         collective.out_splits.size() <= kMostSplitBytes;
}

// The first of the types, where an import may have made them.
std::string_view FirstType(std::string_view types) {
  constexpr std::string_view kBegin = "[\"";
  if (!types.starts_with(kBegin)) return "";
  types.remove_prefix(kBegin.size());
  types = types.substr(0, types.find('"'));
  return types.size() <= kMostTypeBytes && types.find('\\') == std::string_view::npos ? types : "";
}

bool IsMadeOfMembers(const report::CollectiveInputs& collective, std::string_view scalars,
                     const OperatorInputs* inputs) {
  if (!AreShort(collective) || !collective.first_rank.has_value()) return false;
  const std::string told = report::ScalarsOfTold({.name = collective.name,
                                                  .rank = StrCat(collective.rank),
                                                  .group_size = StrCat(collective.group_size),
                                                  .first_rank = StrCat(*collective.first_rank),
                                                  .rank_stride = StrCat(*collective.rank_stride),
                                                  .in_splits = collective.in_splits,
                                                  .out_splits = collective.out_splits,
                                                  .group = collective.group});
  if (told != scalars) return false;
  if (inputs == nullptr) return true;
  return collective.elements.has_value() &&
         *inputs == report::InputsOfTold(*collective.elements, FirstType(inputs->types));
}

}  // namespace

CollectiveText DescribeCollective(std::string_view scalars, const OperatorInputs* inputs) {
  CollectiveText text;
  const std::optional<report::CollectiveInputs> collective =
      report::ParseCollectiveInputs(scalars, inputs);
  if (!collective.has_value()) return text;
  std::string& members = text.members;
  StrAppend(&members, "\"Collective name\":\"", collective->name, "\",\"Rank\":", collective->rank,
            ",\"Group size\":", collective->group_size);
  if (collective->first_rank.has_value() && collective->rank_stride.has_value()) {
    StrAppend(&members, ",\"Global rank start\":", *collective->first_rank,
              ",\"Global rank stride\":", *collective->rank_stride);
  }
  if (AreShort(*collective)) {
    StrAppend(&members, ",\"In split size\":\"", collective->in_splits, "\",\"Out split size\":\"",
              collective->out_splits, "\"");
  }
  if (collective->elements.has_value()) {
    StrAppend(&members, ",\"In msg nelems\":", *collective->elements);
  }
  text.says_all = IsMadeOfMembers(*collective, scalars, inputs);
  const std::string_view type =
      text.says_all && inputs != nullptr ? FirstType(inputs->types) : std::string_view();
  if (!type.empty()) StrAppend(&members, ",\"dtype\":\"", type, "\"");
  return text;
}

}  // namespace profd::exporter
