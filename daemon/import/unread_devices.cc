#include "daemon/import/unread_devices.h"

#include <algorithm>
#include <array>

#include "daemon/base/str_cat.h"
#include "daemon/capture/quality.h"

namespace profd::importer {
namespace {

constexpr std::string_view kWithoutCategory = "ph:X without cat";

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

bool HasWord(std::string_view text, std::string_view word) {
  for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || !IsLetter(text[at - 1])) && (end == text.size() || !IsLetter(text[end]))) {
      return true;
    }
  }
  return false;
}

}  // namespace

bool IsNameOfDevice(std::string_view process) {
  constexpr std::array<std::string_view, 9> kKinds = {"GPU", "NPU", "TPU",  "HPU",     "MLU",
                                                      "XPU", "GCU", "MUSA", "Hardware"};
  constexpr std::string_view kDevice = "/device:";
  if (process.starts_with(kDevice)) return !process.substr(kDevice.size()).starts_with("CPU");
  return std::ranges::any_of(kKinds, [&](std::string_view kind) { return HasWord(process, kind); });
}

void UnreadDevices::Count(const TraceEvent& event, NotUnderstood& not_understood) {
  if (!event.category.empty()) {
    not_understood.Count(StrCat("cat:", event.category));
  } else if (const auto found = counts_.find(event.pid); found != counts_.end()) {
    ++found->second;
  } else if (counts_.size() < kMaxPids) {
    counts_.emplace(event.pid, 1);
  } else {
    ++other_count_;
  }
}

void UnreadDevices::CountIn(NotUnderstood& not_understood, const TraceThreads& threads) const {
  if (other_count_ > 0) not_understood.Count(kWithoutCategory, other_count_);
  for (const auto& [pid, count] : counts_) {
    const std::string_view name = threads.NameOf(pid);
    // A program may be called "train_GPU.py".
    const bool is_device = IsNameOfDevice(name) && !threads.HasThreadOf(pid);
    not_understood.Count(
        is_device ? StrCat(kUnreadDeviceKind, name) : std::string(kWithoutCategory), count);
  }
}

}  // namespace profd::importer
