#include "daemon/ingest/decode/decode_context.h"

#include <utility>

#include "proto/wire/event.h"

namespace profd {
namespace {

constexpr char kOtherName[] = "(other)";

}  // namespace

NameTable::NameTable(const NameReader& reader, RowSink& sink)
    : reader_(reader), sink_(sink), by_wire_id_(wire::kMaxNames, kNotAsked) {}

uint32_t NameTable::LookUp(uint32_t wire_id) {
  std::string bytes;
  // A name that is not there is remembered, too: a hostile target does not make the memory be read
  // for each of its events.
  uint32_t& slot = by_wire_id_[wire_id];
  slot = kNoName;
  if (wire_id == wire::kNoNameId) return slot;
  if (!reader_.ReadName(wire_id, bytes)) {
    if (wire_id != wire::kOtherNameId) return slot;
    bytes = kOtherName;
  }
  bool is_new = false;
  slot = IdOf(std::move(bytes), /*may_add=*/true, is_new);
  return slot;
}

uint32_t NameTable::IdOf(std::string&& text, bool may_add, bool& is_new) {
  if (!may_add) {
    const auto known = ids_.find(text);
    return known != ids_.end() ? known->second : 0;
  }
  const auto entry = ids_.try_emplace(std::move(text), static_cast<uint32_t>(ids_.size() + 1));
  const std::string& name = entry.first->first;
  const uint32_t id = entry.first->second;
  is_new = entry.second;
  if (is_new) sink_.Do([&](CaptureSink& sink) { return sink.AddName(id, name); });
  return id;
}

std::optional<uint32_t> ThreadRows::Add(uint32_t os_thread, std::string name) {
  if (rows_.size() >= kMaxThreads) return std::nullopt;
  const auto index = static_cast<uint32_t>(rows_.size());
  rows_.push_back({.row = {.index = kNoIndex, .os_thread = os_thread, .name = std::move(name)}});
  return index;
}

std::optional<uint32_t> ThreadRows::AddOwner(uint32_t os_thread) {
  const auto known = by_os_thread_.find(os_thread);
  if (known != by_os_thread_.end() && known->second.kind == Kind::kCaller) {
    known->second.kind = Kind::kOwner;
    return known->second.index;
  }
  const std::optional<uint32_t> index = Add(os_thread, "");
  if (index.has_value()) by_os_thread_[os_thread] = {*index, Kind::kOwner};
  return index;
}

std::optional<uint32_t> ThreadRows::AddNamed(uint32_t os_thread) {
  const std::optional<uint32_t> index = Add(os_thread, "");
  if (index.has_value()) by_os_thread_.try_emplace(os_thread, Known{*index, Kind::kNamed});
  return index;
}

std::optional<uint32_t> ThreadRows::AddUnknown(std::string name) {
  return Add(/*os_thread=*/0, std::move(name));
}

std::optional<uint32_t> ThreadRows::OfCaller(uint32_t os_thread) {
  const auto known = by_os_thread_.find(os_thread);
  if (known != by_os_thread_.end()) return known->second.index;
  const std::optional<uint32_t> index = Add(os_thread, "");
  if (index.has_value()) by_os_thread_[os_thread] = {*index, Kind::kCaller};
  return index;
}

void ThreadRows::SetName(uint32_t index, std::string name) {
  Row& row = rows_[index];
  if (name == row.row.name) return;
  row.row.name = std::move(name);
  row.announced = false;
}

uint32_t ThreadRows::Announce(uint32_t index) {
  Row& row = rows_[index];
  if (row.announced) return row.row.index;
  // Numbered when first announced, so that threads without rows leave no gap in the file.
  if (row.row.index == kNoIndex) row.row.index = announced_count_++;
  sink_.Do([&row](CaptureSink& sink) { return sink.AddThread(row.row); });
  row.announced = true;
  return row.row.index;
}

}  // namespace profd
