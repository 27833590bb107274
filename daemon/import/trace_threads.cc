#include "daemon/import/trace_threads.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <utility>

#include "daemon/base/str_cat.h"
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

// Our exports give a second row of a thread another tid, and say whose it is:
// "thread 17 (data), row 401".
int64_t OsThreadOf(std::string_view label, int64_t otherwise) {
  constexpr std::string_view kThread = "thread ";
  if (!label.starts_with(kThread) || label.find(", row ") == std::string_view::npos) {
    return otherwise;
  }
  label.remove_prefix(kThread.size());
  return ParseInteger(label.substr(0, label.find_first_not_of("0123456789"))).value_or(otherwise);
}

// "thread 17" of "thread 17 CUDA calls" and "thread 17 CUDA calls (2)"; empty: another label.
std::string_view ThreadWithCalls(std::string_view label) {
  constexpr std::string_view kCalls = " CUDA calls";
  if (const size_t open = label.rfind(" ("); label.ends_with(')') && open != label.npos) {
    const std::string_view number = label.substr(open + 2, label.size() - open - 3);
    if (number.find_first_not_of("0123456789") == number.npos) label = label.substr(0, open);
  }
  if (!label.ends_with(kCalls)) return {};
  return label.substr(0, label.size() - kCalls.size());
}

}  // namespace

std::optional<uint32_t> TraceThreads::IndexOf(std::string_view pid, std::string_view tid,
                                              bool is_python) {
  SetKey(pid, tid, key_);
  if (is_python) key_ += kPythonRow;
  // Events of one thread mostly follow each other, so the last thread is tried before the table.
  if (last_ >= threads_.size() || threads_[last_].key != key_) {
    const auto found = by_key_.find(key_);
    if (found != by_key_.end()) {
      last_ = found->second;
    } else {
      if (threads_.size() >= kMaxThreads) return std::nullopt;
      last_ = static_cast<uint32_t>(threads_.size());
      by_key_.emplace(key_, last_);
      threads_.push_back(
          {.key = key_, .pid = std::string(pid), .os_thread = IdOf(tid), .is_python = is_python});
      // A name in place of a number.
      if (tid.starts_with('"')) thread_names_.emplace(key_, Unescape(tid));
    }
  }
  ++threads_[last_].event_count;
  return last_;
}

void TraceThreads::NameThread(std::string_view pid, std::string_view tid, std::string_view name) {
  if (thread_names_.size() >= kMaxThreads) return;
  const std::string label = ForDisplay(name, kMaxNameBytes);
  // A thread may be named again and again.
  if (labelled_tids_.size() < kMaxThreads) {
    SetKey(pid, label, key_);
    labelled_tids_.try_emplace(key_, tid);
  }
  SetKey(pid, tid, key_);
  thread_names_[key_] = label;
}

void TraceThreads::NameProcess(std::string_view pid, std::string_view name) {
  if (process_names_.size() >= kMaxThreads) return;
  process_names_[std::string(pid)] = ForDisplay(name, kMaxNameBytes);
}

void TraceThreads::LabelProcess(std::string_view pid, std::string_view label) {
  if (process_labels_.size() >= kMaxThreads) return;
  process_labels_[std::string(pid)] = ForDisplay(label, kMaxNameBytes);
}

std::string_view TraceThreads::LabelOf(std::string_view pid, std::string_view tid) {
  SetKey(pid, tid, key_);
  const auto found = thread_names_.find(key_);
  return found == thread_names_.end() ? std::string_view() : found->second;
}

std::string_view TraceThreads::ThreadOfCalls(std::string_view pid, std::string_view tid) {
  const std::string_view thread = ThreadWithCalls(LabelOf(pid, tid));
  if (thread.empty()) return tid;
  SetKey(pid, thread, key_);
  const auto found = labelled_tids_.find(key_);
  return found == labelled_tids_.end() ? tid : found->second;
}

std::string_view TraceThreads::LabelOf(std::string_view pid) const {
  const auto found = process_labels_.find(std::string(pid));
  return found == process_labels_.end() ? std::string_view() : found->second;
}

bool TraceThreads::HasThreadOf(std::string_view pid) const {
  return std::ranges::any_of(threads_, [&](const Thread& thread) { return thread.pid == pid; });
}

std::string_view TraceThreads::NameOf(std::string_view pid) const {
  const auto found = process_names_.find(std::string(pid));
  return found == process_names_.end() ? std::string_view() : found->second;
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

std::optional<int64_t> TraceThreads::SourceTid(size_t index) const {
  const Thread& thread = threads_[index];
  std::string_view tid = thread.key;
  tid.remove_prefix(thread.pid.size() + 1);
  if (thread.is_python) tid.remove_suffix(kPythonRow.size());
  const std::optional<int64_t> number = ParseInteger(tid);
  return thread.is_python || number.value_or(0) < 0 ? number : std::nullopt;
}

std::vector<ThreadRow> TraceThreads::Rows() const {
  std::vector<ThreadRow> rows;
  for (const Thread& thread : threads_) {
    std::string_view key = thread.key;
    if (thread.is_python) key.remove_suffix(kPythonRow.size());
    const auto label = thread_names_.find(std::string(key));
    const bool is_labelled = label != thread_names_.end();
    std::string name = is_labelled ? ThreadNameOf(label->second) : "";
    if (thread.is_python && !name.ends_with(kPythonRow)) {
      name = name.empty() ? std::string(kPythonRow) : StrCat(name, ", ", kPythonRow);
    }
    rows.push_back(
        {.index = static_cast<uint32_t>(rows.size()),
         .os_thread = is_labelled ? OsThreadOf(label->second, thread.os_thread) : thread.os_thread,
         .name = std::move(name)});
  }
  return rows;
}

std::optional<int64_t> NumberOfRow(std::string_view label, std::string_view kind) {
  if (!label.starts_with(kind)) return std::nullopt;
  label.remove_prefix(kind.size());
  return ParseInteger(label.substr(0, label.find_first_not_of("0123456789")));
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
