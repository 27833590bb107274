#include "daemon/ingest/cpu_watch.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/base/str_cat.h"
#include "daemon/base/unique_fd.h"

namespace profd {
namespace {

// A file of /proc, up to its first 4 KiB; empty: it cannot be read.
std::string ReadShortFile(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) return {};
  std::array<char, 4096> text;
  const ssize_t size = read(fd.get(), text.data(), text.size());
  return size <= 0 ? std::string() : std::string(text.data(), static_cast<size_t>(size));
}

// Takes a number and the blank after it off the front of `text`.
std::optional<int64_t> TakeNumber(std::string_view& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 0) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  if (!text.empty()) text.remove_prefix(1);
  return value;
}

// What a thread is called in its own PID namespace: the last of "NSpid:\t4711\t12".
int64_t OwnNumber(const std::string& task, int64_t thread) {
  const std::string status = ReadShortFile(StrCat(task, "/", thread, "/status"));
  const size_t line = status.find("\nNSpid:");
  if (line == std::string::npos) return thread;
  const std::string_view text =
      std::string_view(status).substr(line + 1, status.find('\n', line + 1) - line - 1);
  std::string_view last = text.substr(text.rfind('\t') + 1);
  return TakeNumber(last).value_or(thread);
}

}  // namespace

void CpuWatch::Begin(absl::Duration now) {
  if (is_open_ || pid_ <= 0) return;
  is_open_ = true;
  begin_time_ = now;
  threads_begin_ = ReadThreads();
  children_begin_ = ReadChildren();
  if (resident_begin_bytes_ < 0) resident_begin_bytes_ = ReadResidentBytes();
}

void CpuWatch::End(absl::Duration now) {
  if (!is_open_) return;
  is_open_ = false;
  resident_end_bytes_ = ReadResidentBytes();
  const ByNumber end = ReadThreads();
  if (end.empty()) return;
  AddDifferences(threads_begin_, end, threads_);
  AddDifferences(children_begin_, ReadChildren(), children_);
  watched_ns_ += absl::ToInt64Nanoseconds(now - begin_time_);
}

void CpuWatch::AddDifferences(const ByNumber& begin, const ByNumber& end, ByNumber& sums) {
  for (const auto& [number, before] : begin) {
    const auto found = end.find(number);
    if (found == end.end()) continue;
    const Times& after = found->second;
    // Another one has its number by now.
    if (after.ran_ns < before.ran_ns || after.waited_ns < before.waited_ns) continue;
    Times& sum = sums[number];
    sum.ran_ns += after.ran_ns - before.ran_ns;
    sum.waited_ns += after.waited_ns - before.waited_ns;
  }
}

CpuRecord CpuWatch::Take() const {
  CpuRecord record = {.threads = {},
                      .resident_begin_bytes = resident_begin_bytes_,
                      .resident_end_bytes = resident_end_bytes_};
  if (threads_.empty() || watched_ns_ <= 0) return record;
  record.watched_ns = watched_ns_;
  record.thread_count = static_cast<int64_t>(threads_.size());
  std::vector<std::pair<int64_t, Times>> threads(threads_.begin(), threads_.end());
  for (const auto& [thread, times] : threads) {
    record.ran_ns += times.ran_ns;
    record.waited_ns += times.waited_ns;
  }
  for (const auto& [child, times] : children_) {
    if (times.ran_ns + times.waited_ns < watched_ns_ / 100) continue;  // It slept.
    ++record.child_count;
    record.children_ran_ns += times.ran_ns;
    record.children_waited_ns += times.waited_ns;
  }
  std::ranges::stable_sort(threads, [](const auto& a, const auto& b) {
    return a.second.ran_ns + a.second.waited_ns > b.second.ran_ns + b.second.waited_ns;
  });
  if (threads.size() > kMostCpuThreads) threads.resize(kMostCpuThreads);
  const std::string task = StrCat("/proc/", pid_, "/task");
  for (const auto& [thread, times] : threads) {
    record.threads.push_back({.os_thread = OwnNumber(task, thread),
                              .ran_ns = times.ran_ns,
                              .waited_ns = times.waited_ns});
  }
  return record;
}

int64_t CpuWatch::ReadResidentBytes() const {
  const std::string text = ReadShortFile(StrCat("/proc/", pid_, "/statm"));
  std::string_view rest = text;
  if (!TakeNumber(rest).has_value()) return -1;  // Of the address space.
  const std::optional<int64_t> pages = TakeNumber(rest);
  int64_t bytes = 0;
  if (!pages.has_value() ||
      __builtin_mul_overflow(*pages, int64_t{sysconf(_SC_PAGESIZE)}, &bytes)) {
    return -1;
  }
  return bytes;
}

std::optional<CpuWatch::Times> CpuWatch::ReadTimes(const std::string& folder) {
  const std::string text = ReadShortFile(folder + "/schedstat");
  std::string_view rest = text;
  const std::optional<int64_t> ran_ns = TakeNumber(rest);
  const std::optional<int64_t> waited_ns = TakeNumber(rest);
  if (!ran_ns.has_value() || !waited_ns.has_value()) return std::nullopt;
  return Times{.ran_ns = *ran_ns, .waited_ns = *waited_ns};
}

CpuWatch::ByNumber CpuWatch::ReadThreads() const {
  ByNumber times;
  const std::string task = StrCat("/proc/", pid_, "/task");
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(task.c_str()), &closedir);
  if (folder == nullptr) return times;
  while (times.size() < kMostThreads) {
    const dirent* const entry = readdir(folder.get());
    if (entry == nullptr) break;
    std::string_view name = entry->d_name;
    const std::optional<int64_t> thread = TakeNumber(name);
    if (!thread.has_value()) continue;
    if (const auto read = ReadTimes(StrCat(task, "/", *thread))) times[*thread] = *read;
  }
  return times;
}

CpuWatch::ByNumber CpuWatch::ReadChildren() const {
  ByNumber times;
  // The first kMostChildren numbers take less than the 4 KiB that are read.
  const std::string text = ReadShortFile(StrCat("/proc/", pid_, "/task/", pid_, "/children"));
  std::string_view rest = text;
  while (times.size() < kMostChildren) {
    const std::optional<int64_t> child = TakeNumber(rest);
    if (!child.has_value()) break;
    if (const auto read = ReadTimes(StrCat("/proc/", *child))) times[*child] = *read;
  }
  return times;
}

}  // namespace profd
