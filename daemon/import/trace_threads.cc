#include "daemon/import/trace_threads.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <utility>

#include "daemon/base/text.h"
#include "daemon/import/exact_time.h"
#include "daemon/import/trace_event.h"

namespace profd::importer {
namespace {

constexpr size_t kMaxNameBytes = 255;

void SetKey(std::string_view pid, std::string_view tid, std::string& key) {
  key.assign(pid);
  key.push_back('\0');
  key.append(tid);
}

// Kineto's ids of threads may be negative: it cuts pthread's to 32 bits.
int64_t IdOf(std::string_view json) {
  const int64_t id = ParseInteger(json).value_or(0);
  return id == std::numeric_limits<int64_t>::min() ? 0 : std::abs(id);
}

}  // namespace

std::optional<uint32_t> TraceThreads::IndexOf(std::string_view pid, std::string_view tid) {
  SetKey(pid, tid, key_);
  if (last_ >= threads_.size() || threads_[last_].key != key_) {
    const auto found = by_key_.find(key_);
    if (found != by_key_.end()) {
      last_ = found->second;
    } else {
      if (threads_.size() >= kMaxThreads) return std::nullopt;
      last_ = static_cast<uint32_t>(threads_.size());
      by_key_.emplace(key_, last_);
      threads_.push_back({.key = key_, .pid = std::string(pid), .os_thread = IdOf(tid)});
      // A name in place of a number.
      if (tid.starts_with('"')) thread_names_.emplace(key_, Unescape(tid));
    }
  }
  ++threads_[last_].event_count;
  return last_;
}

void TraceThreads::NameThread(std::string_view pid, std::string_view tid, std::string name) {
  if (thread_names_.size() >= kMaxThreads) return;
  SetKey(pid, tid, key_);
  thread_names_[key_] = ForDisplay(name, kMaxNameBytes);
}

void TraceThreads::NameProcess(std::string_view pid, std::string name) {
  if (process_names_.size() >= kMaxThreads) return;
  process_names_[std::string(pid)] = ForDisplay(name, kMaxNameBytes);
}

TraceThreads::Process TraceThreads::MainProcess() const {
  std::map<std::string_view, int64_t> events;
  for (const Thread& thread : threads_) events[thread.pid] += thread.event_count;
  Process process;
  if (events.empty()) return process;
  const auto most =
      std::max_element(events.begin(), events.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  process.pid = IdOf(most->first);
  process.others = static_cast<int64_t>(events.size()) - 1;
  const auto name = process_names_.find(std::string(most->first));
  if (name != process_names_.end()) process.name = name->second;
  return process;
}

std::vector<ThreadRow> TraceThreads::Rows() const {
  std::vector<ThreadRow> rows;
  for (const Thread& thread : threads_) {
    const auto name = thread_names_.find(thread.key);
    rows.push_back({.index = static_cast<uint32_t>(rows.size()),
                    .os_thread = thread.os_thread,
                    .name = name == thread_names_.end() ? "" : ThreadNameOf(name->second)});
  }
  return rows;
}

std::string ThreadNameOf(std::string_view label) {
  constexpr std::string_view kThread = "thread ";
  if (label.starts_with("stream ")) return "";
  if (!label.starts_with(kThread)) return std::string(label);
  const size_t open = label.find('(');
  const size_t close = label.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return "";
  return std::string(label.substr(open + 1, close - open - 1));
}

}  // namespace profd::importer
