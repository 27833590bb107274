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

#include "daemon/base/clock.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text_file.h"
#include "daemon/base/unique_fd.h"

namespace profd {
namespace {

// Of samples, the interval is this many times what one takes.
constexpr int64_t kIntervalOfCost = 50;
constexpr int kGenerations = 3;
constexpr int64_t kNsPerSecond = 1'000'000'000;
// Of /proc/PID/stat, counted from the state, which follows the name.
constexpr int kUserTicksField = 11;
constexpr int kSystemTicksField = 12;
constexpr int kThreadCountField = 17;
// No thread has this number: the sum of those that have none of their own.
constexpr int64_t kOtherThreads = 0;
// Of client_lib, as the kernel shows their names.
constexpr auto kLibraryThreads =
    std::to_array<std::string_view>({"profd\n", "profd-helper\n", "profd-gpu\n"});

// More than a status with as many groups as the kernel allows (65,536), or 100,000 children.
constexpr size_t kMostListBytes = 1 << 20;

// A file of /proc of less than 4 KiB; empty: it cannot be read. Of one that may be longer, the rest
// would be missing.
std::string ReadShortFile(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) return {};
  std::array<char, 4096> text;
  const ssize_t size = read(fd.get(), text.data(), text.size());
  return size <= 0 ? std::string() : std::string(text.data(), static_cast<size_t>(size));
}

// The same for a file of any length.
std::string ReadLongFile(const std::string& path) {
  return ReadUpTo(kMostListBytes, path).value_or(std::string());
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
  const std::string status = ReadLongFile(StrCat(task, "/", thread, "/status"));
  const size_t line = status.find("\nNSpid:");
  if (line == std::string::npos) return thread;
  const std::string_view text =
      std::string_view(status).substr(line + 1, status.find('\n', line + 1) - line - 1);
  std::string_view last = text.substr(text.rfind('\t') + 1);
  return TakeNumber(last).value_or(thread);
}

}  // namespace

void CpuWatch::Expect(absl::Duration now) {
  if (is_open_ || pid_ <= 0) return;
  if (is_expected_ && now - reading_time_ < kIntervalOfCost * (reading_.end - reading_.begin))
    return;
  is_expected_ = true;
  reading_time_ = now;
  reading_ = Read();
}

void CpuWatch::Begin(absl::Duration now) {
  if (is_open_ || pid_ <= 0) return;
  if (!is_expected_) {
    reading_time_ = now;
    reading_ = Read();
  }
  is_expected_ = false;
  is_open_ = true;
  begin_time_ = reading_time_;
  ++window_count_;
  AddSample(begin_time_);
  if (resident_begin_bytes_ < 0) resident_begin_bytes_ = ReadResidentBytes();
}

void CpuWatch::Sample(absl::Duration now) {
  if (!is_open_) return;
  const absl::Duration interval =
      std::max(shortest_interval_, kIntervalOfCost * (reading_.end - reading_.begin));
  if (now - reading_time_ >= interval) Advance(now);
}

void CpuWatch::End(absl::Duration now) {
  if (!is_open_) return;
  is_open_ = false;
  resident_end_bytes_ = ReadResidentBytes();
  Advance(now);
  // A process that has ended was watched until the last sample.
  watched_ns_ += absl::ToInt64Nanoseconds(reading_time_ - begin_time_);
}

void CpuWatch::Advance(absl::Duration now) {
  Reading reading = Read();
  // The process has ended, or cannot be read any more: the earlier reading stays the last one.
  if (reading.threads.empty()) return;
  const absl::Duration apart = reading.end - reading_.begin;
  waited_ns_ += AddDifferences(reading_.threads, reading.threads, apart, threads_);
  children_waited_ns_ += AddDifferences(reading_.children, reading.children, apart, children_);
  CountUnwatched(reading);
  reading_ = std::move(reading);
  reading_time_ = now;
  AddSample(now);
}

void CpuWatch::CountUnwatched(const Reading& reading) {
  longest_reading_ =
      std::max({longest_reading_, reading_.end - reading_.begin, reading.end - reading.begin});
  unread_threads_ = std::max({unread_threads_, reading_.unread_threads, reading.unread_threads});
  unread_children_ =
      std::max({unread_children_, reading_.unread_children, reading.unread_children});
  if (reading_.process_ran_ns >= 0 && reading.process_ran_ns >= reading_.process_ran_ns) {
    const int64_t ran_ns = reading.process_ran_ns - reading_.process_ran_ns;
    const int64_t library_ns = reading.library_ran_ns - reading_.library_ran_ns;
    process_ran_ns_ += std::max<int64_t>(0, ran_ns - std::max<int64_t>(0, library_ns));
    knows_process_ran_ = true;
  }
  const auto count_ended = [this](const ByThread& before, const ByThread& after) {
    ended_threads_ += std::ranges::count_if(
        before, [&](const auto& thread) { return !after.contains(thread.first); });
  };
  // Where some are not read, one that is missing may be one of those.
  if (reading.unread_threads == 0) count_ended(reading_.threads, reading.threads);
  if (reading.unread_children == 0) count_ended(reading_.children, reading.children);
}

int64_t CpuWatch::UnwatchedRan(int64_t ran_ns) const {
  if (!knows_process_ran_) return -1;
  const int64_t ticks = sysconf(_SC_CLK_TCK);
  // Two numbers of whole ticks are read where a window begins and where it ends, and after those of
  // the threads, which may run meanwhile.
  const int64_t ticks_ns = ticks <= 0 ? 0 : 2 * kNsPerSecond / ticks;
  const int64_t running = std::clamp<int64_t>(sysconf(_SC_NPROCESSORS_ONLN), 1, kMostThreads);
  const int64_t inexact_ns =
      window_count_ * (ticks_ns + running * absl::ToInt64Nanoseconds(longest_reading_));
  return std::max<int64_t>(0, process_ran_ns_ - ran_ns - inexact_ns);
}

void CpuWatch::AddSample(absl::Duration now) {
  if (samples_.size() == kMostCpuSamples) {
    // Every other one goes. The sums go on, so that nothing is lost but resolution.
    for (size_t i = 0; 2 * i < samples_.size(); ++i) samples_[i] = samples_[2 * i];
    samples_.resize(samples_.size() / 2);
    const absl::Duration covered = now - absl::Nanoseconds(samples_.front().time_ns);
    shortest_interval_ = covered / static_cast<int64_t>(samples_.size());
  }
  samples_.push_back({.time_ns = absl::ToInt64Nanoseconds(now),
                      .waited_ns = waited_ns_,
                      .children_waited_ns = children_waited_ns_});
}

int64_t CpuWatch::AddDifferences(const ByThread& before, const ByThread& after,
                                 absl::Duration apart, ByThread& sums) {
  int64_t waited_ns = 0;
  for (const auto& [number, times] : after) {
    Times more = times;
    const auto found = before.find(number);
    // With less than before, it is another one that has the number now.
    if (found != before.end() && times.ran_ns >= found->second.ran_ns &&
        times.waited_ns >= found->second.waited_ns) {
      more.ran_ns -= found->second.ran_ns;
      more.waited_ns -= found->second.waited_ns;
    } else if (times.ran_ns + times.waited_ns > absl::ToInt64Nanoseconds(apart)) {
      continue;  // It is older, and was not looked at before.
    }
    const bool has_own = sums.size() < kMostSums || sums.contains(number);
    Times& sum = sums[has_own ? number : kOtherThreads];
    sum.process = has_own ? times.process : 0;
    sum.ran_ns += more.ran_ns;
    sum.waited_ns += more.waited_ns;
    waited_ns += more.waited_ns;
  }
  return waited_ns;
}

CpuRecord CpuWatch::Take() const {
  CpuRecord record = {.threads = {},
                      .resident_begin_bytes = resident_begin_bytes_,
                      .resident_end_bytes = resident_end_bytes_};
  // Of a window that did not end, because the target did: up to the last sample.
  const int64_t watched_ns =
      watched_ns_ + (is_open_ ? absl::ToInt64Nanoseconds(reading_time_ - begin_time_) : 0);
  if (threads_.empty() || watched_ns <= 0) return record;
  record.watched_ns = watched_ns;
  record.thread_count = static_cast<int64_t>(threads_.size());
  for (const auto& [thread, times] : threads_) {
    record.ran_ns += times.ran_ns;
    record.waited_ns += times.waited_ns;
  }
  ByThread children;  // By process.
  for (const auto& [thread, times] : children_) {
    Times& sum = children[times.process];
    sum.ran_ns += times.ran_ns;
    sum.waited_ns += times.waited_ns;
  }
  for (const auto& [child, times] : children) {
    record.children_ran_ns += times.ran_ns;
    record.children_waited_ns += times.waited_ns;
    if (times.ran_ns + times.waited_ns >= watched_ns / 100) ++record.child_count;
  }
  record.samples = samples_;
  record.unread_thread_count = unread_threads_;
  record.unread_child_count = unread_children_;
  record.ended_thread_count = ended_threads_;
  record.unwatched_ran_ns = UnwatchedRan(record.ran_ns);
  const std::string task = StrCat(proc_, "/", pid_, "/task");
  for (const auto& [thread, times] : LongestThreads()) {
    record.threads.push_back({.os_thread = OwnNumber(task, thread),
                              .ran_ns = times.ran_ns,
                              .waited_ns = times.waited_ns});
  }
  return record;
}

std::vector<CpuWatch::ThreadTimes> CpuWatch::LongestThreads() const {
  std::vector<ThreadTimes> threads(threads_.begin(), threads_.end());
  std::erase_if(threads, [](const ThreadTimes& thread) { return thread.first == kOtherThreads; });
  std::ranges::stable_sort(threads, [](const ThreadTimes& a, const ThreadTimes& b) {
    return a.second.ran_ns + a.second.waited_ns > b.second.ran_ns + b.second.waited_ns;
  });
  if (threads.size() > kMostCpuThreads) threads.resize(kMostCpuThreads);
  return threads;
}

CpuTimesReader CpuWatch::TimesReader() const {
  std::vector<std::string> folders;
  for (const ThreadTimes& thread : LongestThreads()) {
    folders.push_back(StrCat(proc_, "/", pid_, "/task/", thread.first));
  }
  if (folders.empty()) return nullptr;
  return [folders = std::move(folders)] {
    std::vector<CpuTimes> read;
    read.reserve(folders.size());
    for (const std::string& folder : folders) {
      const std::optional<Times> times = ReadTimes(folder);
      read.push_back(times.has_value()
                         ? CpuTimes{.ran_ns = times->ran_ns, .waited_ns = times->waited_ns}
                         : CpuTimes());
    }
    return read;
  };
}

int64_t CpuWatch::ReadResidentBytes() const {
  const std::string text = ReadShortFile(StrCat(proc_, "/", pid_, "/statm"));
  std::string_view rest = text;
  if (!TakeNumber(rest).has_value()) return -1;  // Of the address space.
  const std::optional<int64_t> resident = TakeNumber(rest);
  const std::optional<int64_t> shared = TakeNumber(rest);
  int64_t bytes = 0;
  if (!resident.has_value() || !shared.has_value() || *resident < *shared ||
      __builtin_mul_overflow(*resident - *shared, int64_t{sysconf(_SC_PAGESIZE)}, &bytes)) {
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

std::optional<CpuWatch::ProcessStat> CpuWatch::ReadStat() const {
  const std::string text = ReadShortFile(StrCat(proc_, "/", pid_, "/stat"));
  // The name is the program's choice and may hold blanks and parentheses. The last one ends it.
  const size_t name_end = text.rfind(") ");
  if (name_end == std::string::npos) return std::nullopt;
  std::string_view rest = std::string_view(text).substr(name_end + 2);
  int64_t ticks_sum = 0;
  for (int field = 0; field <= kThreadCountField; ++field) {
    std::string_view word = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    if (field != kUserTicksField && field != kSystemTicksField && field != kThreadCountField) {
      continue;
    }
    const std::optional<int64_t> value = TakeNumber(word);
    if (!value.has_value()) return std::nullopt;
    if (field != kThreadCountField) {
      if (__builtin_add_overflow(ticks_sum, *value, &ticks_sum)) return std::nullopt;
      continue;
    }
    const int64_t ticks = sysconf(_SC_CLK_TCK);
    ProcessStat stat = {.thread_count = *value};
    if (ticks <= 0 || __builtin_mul_overflow(ticks_sum, kNsPerSecond / ticks, &stat.ran_ns)) {
      return std::nullopt;
    }
    return stat;
  }
  return std::nullopt;
}

CpuWatch::ReadThreads CpuWatch::ReadProcess(int64_t pid, size_t most, ByThread& times,
                                            std::vector<int64_t>& children,
                                            int64_t& unread_children) const {
  const std::string task = StrCat(proc_, "/", pid, "/task");
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(task.c_str()), &closedir);
  if (folder == nullptr) return {};
  size_t count = 0;
  while (const dirent* const entry = readdir(folder.get())) {
    std::string_view name = entry->d_name;
    const std::optional<int64_t> thread = TakeNumber(name);
    if (!thread.has_value()) continue;
    if (count == most) return {.count = count, .is_all = false};
    ++count;
    const std::string thread_folder = StrCat(task, "/", *thread);
    if (std::optional<Times> read = ReadTimes(thread_folder)) {
      read->process = pid;
      times[*thread] = *read;
    }
    const std::string text = ReadLongFile(thread_folder + "/children");
    std::string_view rest = text;
    while (const std::optional<int64_t> child = TakeNumber(rest)) {
      if (children.size() < kMostChildren) {
        children.push_back(*child);
      } else {
        ++unread_children;
      }
    }
  }
  return {.count = count};
}

void CpuWatch::LeaveOutLibrary(Reading& reading) {
  if (!library_threads_.has_value()) {
    library_threads_.emplace();
    for (const auto& [thread, times] : reading.threads) {
      const std::string name = ReadShortFile(StrCat(proc_, "/", pid_, "/task/", thread, "/comm"));
      if (std::ranges::find(kLibraryThreads, name) != kLibraryThreads.end()) {
        library_threads_->push_back(thread);
      }
    }
  }
  for (const int64_t thread : *library_threads_) {
    const auto found = reading.threads.find(thread);
    if (found == reading.threads.end()) continue;
    reading.library_ran_ns += found->second.ran_ns;
    reading.threads.erase(found);
  }
}

CpuWatch::Reading CpuWatch::Read() {
  Reading reading;
  reading.begin = Clock::Real().Monotonic();
  std::vector<int64_t> processes;
  const ReadThreads own =
      ReadProcess(pid_, kMostThreads, reading.threads, processes, reading.unread_children);
  LeaveOutLibrary(reading);
  const std::optional<ProcessStat> stat = ReadStat();
  if (stat.has_value()) reading.process_ran_ns = stat->ran_ns;
  if (!own.is_all) {
    const int64_t all = stat.has_value() ? stat->thread_count : 0;
    reading.unread_threads = std::max<int64_t>(1, all - static_cast<int64_t>(own.count));
  }
  size_t thread_count = own.count;
  size_t process_count = 0;
  // Workers may have children of their own, and are children of a process that forks them, where
  // the target does not.
  for (int generation = 0; generation < kGenerations; ++generation) {
    std::vector<int64_t> children;
    for (const int64_t process : processes) {
      if (process_count == kMostChildren || thread_count >= kMostReadThreads) {
        ++reading.unread_children;
        continue;
      }
      ++process_count;
      const ReadThreads read = ReadProcess(process, kMostReadThreads - thread_count,
                                           reading.children, children, reading.unread_children);
      thread_count += read.count;
      if (!read.is_all) ++reading.unread_children;
    }
    processes = std::move(children);
  }
  reading.end = Clock::Real().Monotonic();
  return reading;
}

}  // namespace profd
