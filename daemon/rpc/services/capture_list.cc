#include "daemon/rpc/services/capture_list.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/rpc/admission/names.h"
#include "daemon/rpc/convert/convert.h"
#include "daemon/rpc/services/capture_lookup.h"

namespace profd::rpc {
namespace {

using Filter = v1::ListCapturesRequest::Filter;

// Enough to fill a page where most rows do not match; then the caller asks on.
constexpr int kMaxRounds = 16;
constexpr int kMaxLabels = 32;
constexpr size_t kMaxTextBytes = 256;
constexpr int kMaxStates = 32;  // More than there are.

// The part that the store can look for. It does not know the state of a live capture, so asking
// for any live state asks it for all of them.
absl::StatusOr<store::CaptureFilter> ForStore(const Filter& filter, const Caller& caller) {
  store::CaptureFilter out;
  out.owner_uid = VisibleOwner(caller);
  bool any_live = false;
  if (filter.states_size() > kMaxStates) {
    return absl::InvalidArgumentError(StrCat("filter.states: at most ", kMaxStates));
  }
  for (const int state : filter.states()) {
    ASSIGN_OR_RETURN(const CaptureState wanted,
                     StateFromProto(static_cast<v1::Capture::State>(state)));
    any_live = any_live || !IsTerminal(wanted);
    out.states.push_back(wanted);
  }
  if (any_live) {
    for (int i = 1; !IsTerminal(static_cast<CaptureState>(i)); ++i) {
      const auto live = static_cast<CaptureState>(i);
      if (std::ranges::find(out.states, live) == out.states.end()) out.states.push_back(live);
    }
  }
  if (filter.pid() < 0) return absl::InvalidArgumentError("filter.pid: must not be negative");
  if (filter.pid() > 0) out.pid = filter.pid();
  if (filter.labels_size() > kMaxLabels) {
    return absl::InvalidArgumentError(StrCat("filter.labels: at most ", kMaxLabels));
  }
  for (const auto& [key, value] : filter.labels()) {
    RETURN_IF_ERROR(ValidateLabel(key, value));
    out.labels.emplace_back(key, value);
  }
  std::ranges::sort(out.labels);
  out.name = filter.display_name();
  if (filter.has_since()) {
    ASSIGN_OR_RETURN(out.since, TimeFromProto(filter.since(), "filter.since"));
  }
  if (filter.has_until()) {
    ASSIGN_OR_RETURN(out.until, TimeFromProto(filter.until(), "filter.until"));
  }
  if (!filter.group().empty()) {
    ASSIGN_OR_RETURN(out.group_id, ParseGroupName(filter.group()));
  }
  if (filter.job().size() > kMaxTextBytes || filter.requested_by().size() > kMaxTextBytes) {
    return absl::InvalidArgumentError(
        StrCat("filter.job and filter.requested_by: at most ", kMaxTextBytes, " bytes"));
  }
  return out;
}

// What is left to be looked at in each row, with the live state known.
bool Matches(const Filter& filter, std::string_view schedule_prefix, const CaptureRecord& record) {
  if (record.deleted && !filter.include_deleted()) return false;
  if (!filter.display_name().empty() && record.spec.display_name != filter.display_name()) {
    return false;
  }
  if (!record.schedule_id.starts_with(schedule_prefix)) return false;
  if (!filter.job().empty() && JobOf(record.target) != filter.job()) return false;
  if (!filter.requested_by().empty() && record.requested_by != filter.requested_by()) return false;
  return filter.states().empty() ||
         std::ranges::find(filter.states(), static_cast<int>(record.state)) !=
             filter.states().end();
}

// The same filter gives the same text, so that a page token can be held to it.
std::string TextOf(const Filter& filter, const Caller& caller) {
  std::vector<std::string> parts;
  for (const int state : filter.states()) parts.push_back(StrCat("state ", state));
  for (const auto& [key, value] : filter.labels()) parts.push_back(StrCat(key, "=", value));
  std::ranges::sort(parts);
  std::string text = StrCat(
      PrincipalName(caller.principal), "\n", filter.pid(), "\n", filter.display_name(), "\n",
      filter.since().seconds(), ".", filter.since().nanos(), "\n", filter.until().seconds(), ".",
      filter.until().nanos(), "\n", filter.group(), "\n", filter.include_deleted() ? 1 : 0, "\n",
      filter.schedule(), "\n", filter.job(), "\n", filter.requested_by());
  for (const std::string& part : parts) StrAppend(&text, "\n", part);
  return text;
}

}  // namespace

CaptureList::CaptureList(CaptureManager& manager, store::CaptureStore& store, const Caller& caller)
    : store_(store), caller_(caller) {
  for (CaptureRecord& record : manager.Live()) {
    std::string id = record.id;
    live_.emplace(std::move(id), std::move(record));
  }
}

void CaptureList::Overlay(std::vector<CaptureRecord>& records) const {
  for (CaptureRecord& record : records) {
    const auto live = live_.find(record.id);
    // It may have ended since the manager was asked: then the store is right.
    if (live != live_.end() && !IsTerminal(record.state)) record = live->second;
  }
}

absl::StatusOr<CaptureList::Page> CaptureList::GetPage(const v1::ListCapturesRequest& request) {
  const Filter& filter = request.filter();
  ASSIGN_OR_RETURN(const int32_t page_size, CheckPageSize(request.page_size()));
  const std::string filter_text = TextOf(filter, caller_);
  ASSIGN_OR_RETURN(std::string token, ParsePageToken(request.page_token(), filter_text));
  ASSIGN_OR_RETURN(const store::CaptureFilter store_filter, ForStore(filter, caller_));
  std::string schedule_prefix;
  if (!filter.schedule().empty()) {
    ASSIGN_OR_RETURN(schedule_prefix, ParseScheduleName(filter.schedule()));
  }

  Page page;
  // A part of the filter is applied here and not by the store, so a page of rows may contain few
  // matches, or none. The rounds bound the work of one call; the token tells where the next one
  // goes on.
  for (int round = 0; round < kMaxRounds; ++round) {
    const int64_t missing = page_size - std::ssize(page.captures);
    if (missing == 0) break;
    ASSIGN_OR_RETURN(store::CapturePage rows, store_.ListCaptures(store_filter, missing, token));
    Overlay(rows.captures);
    std::ranges::copy_if(rows.captures, std::back_inserter(page.captures),
                         [&](const CaptureRecord& record) {
                           return caller_.May(Verb::kList, OwnerOf(record)) &&
                                  Matches(filter, schedule_prefix, record);
                         });
    token = rows.next_page_token;
    if (token.empty()) return page;
  }
  page.next_page_token = MakePageToken(token, filter_text);
  return page;
}

absl::StatusOr<std::vector<CaptureRecord>> CaptureList::Group(std::string_view group_id) {
  store::CaptureFilter filter;
  filter.owner_uid = VisibleOwner(caller_);
  filter.group_id = std::string(group_id);
  ASSIGN_OR_RETURN(store::CapturePage page,
                   store_.ListCaptures(filter, store::CaptureStore::kMaxPageSize, ""));
  Overlay(page.captures);
  std::erase_if(page.captures, [&](const CaptureRecord& record) {
    return !caller_.May(Verb::kList, OwnerOf(record));
  });
  std::ranges::reverse(page.captures);
  return std::move(page.captures);
}

}  // namespace profd::rpc
