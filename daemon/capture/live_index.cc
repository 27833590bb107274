#include "daemon/capture/live_index.h"

#include <iterator>
#include <utility>

namespace profd {

void LiveIndex::Put(const CaptureRecord& record) {
  const absl::MutexLock lock(&mu_);
  entries_.insert_or_assign(record.id, Entry{.id = record.id,
                                             .group_id = record.group_id,
                                             .requested_by = record.requested_by,
                                             .owner = OwnerOf(record)});
}

void LiveIndex::Remove(std::string_view id) {
  const absl::MutexLock lock(&mu_);
  if (const auto entry = entries_.find(id); entry != entries_.end()) entries_.erase(entry);
}

// Rules are asked without the lock: they may have to look whether the audit log can be written.
std::vector<LiveIndex::Entry> LiveIndex::Copy() const {
  const absl::MutexLock lock(&mu_);
  std::vector<Entry> entries;
  entries.reserve(entries_.size());
  for (const auto& [id, entry] : entries_) entries.push_back(entry);
  return entries;
}

int64_t LiveIndex::size() const {
  const absl::MutexLock lock(&mu_);
  return std::ssize(entries_);
}

std::vector<std::string> LiveIndex::ListAll() const {
  std::vector<std::string> ids;
  for (Entry& entry : Copy()) ids.push_back(std::move(entry.id));
  return ids;
}

std::vector<std::string> LiveIndex::ListCancellable(const Caller& caller,
                                                    std::string_view id) const {
  for (const Entry& entry : Copy()) {
    if (entry.id == id && caller.May(Verb::kCapture, entry.owner)) return {entry.id};
  }
  return {};
}

std::vector<std::string> LiveIndex::ListAbortable(const Caller& caller,
                                                  std::string_view group_id) const {
  std::vector<std::string> ids;
  for (const Entry& entry : Copy()) {
    if (entry.group_id != group_id) continue;
    const bool is_own = entry.requested_by == PrincipalName(caller.principal);
    if (!is_own && !caller.May(Verb::kCapture, entry.owner)) return {};
    ids.push_back(entry.id);
  }
  return ids;
}

}  // namespace profd
