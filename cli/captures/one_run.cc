#include "cli/captures/one_run.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"

namespace profd::cli {
namespace {

// For captures that were recorded together and whose clocks were not changed.
constexpr uint64_t kMostApartNs = 10'000'000'000;

std::string NameOfCapture(const CaptureRecord& capture) {
  if (const int64_t rank = RankOf(capture.target); rank >= 0) return StrCat("rank ", rank);
  return StrCat("capture ", capture.id);
}

std::string_view MetadataOf(const CaptureRecord& capture, const char* key) {
  const auto found = capture.target.metadata.find(key);
  return found == capture.target.metadata.end() ? std::string_view() : found->second;
}

std::string DifferenceIn(const CaptureRecord& a, const CaptureRecord& b) {
  const auto differ = [&](std::string_view what, std::string_view of_a, std::string_view of_b) {
    if (of_a.empty() || of_b.empty() || of_a == of_b) return std::string();
    return StrCat(NameOfCapture(a), " is of ", what, " '", ForDisplay(of_a, 100), "', ",
                  NameOfCapture(b), " of '", ForDisplay(of_b, 100), "'");
  };
  std::string why = differ("job", JobOf(a.target), JobOf(b.target));
  if (why.empty()) {
    why = differ("world size", MetadataOf(a, "world_size"), MetadataOf(b, "world_size"));
  }
  if (why.empty()) why = differ("backend", MetadataOf(a, "backend"), MetadataOf(b, "backend"));
  return why;
}

int64_t EndOfRecording(const CaptureRecord& capture) {
  int64_t end_ns = capture.start_unix_ns;
  for (const WindowRecord& window : capture.windows) {
    int64_t window_end_ns = 0;
    if (__builtin_add_overflow(capture.start_unix_ns, window.end_ns, &window_end_ns)) continue;
    end_ns = std::max(end_ns, window_end_ns);
  }
  return end_ns;
}

// Between the end of one and the start of another; empty: they were recorded together.
std::string GapBetween(std::span<const CaptureRecord* const> captures) {
  const CaptureRecord* first = nullptr;  // To end.
  const CaptureRecord* last = nullptr;   // To start.
  for (const CaptureRecord* const capture : captures) {
    if (capture->start_unix_ns == 0) continue;
    if (first == nullptr || EndOfRecording(*capture) < EndOfRecording(*first)) first = capture;
    if (last == nullptr || capture->start_unix_ns > last->start_unix_ns) last = capture;
  }
  if (first == nullptr || last->start_unix_ns <= EndOfRecording(*first)) return "";
  const uint64_t apart_ns =
      static_cast<uint64_t>(last->start_unix_ns) - static_cast<uint64_t>(EndOfRecording(*first));
  if (apart_ns <= kMostApartNs) return "";
  return StrCat(NameOfCapture(*last), " was recorded ", apart_ns / 1'000'000'000, " s after ",
                NameOfCapture(*first));
}

bool IsOneRecordedGroup(std::span<const CaptureRecord* const> captures) {
  return std::all_of(captures.begin(), captures.end(), [&](const CaptureRecord* capture) {
    return capture->imported.source.empty() && !capture->group_id.empty() &&
           capture->group_id == captures.front()->group_id;
  });
}

// The first pair that cannot be of one run; empty: there is none.
std::string ContradictionIn(std::span<const CaptureRecord* const> captures) {
  std::map<int64_t, const CaptureRecord*> ranks;
  std::map<std::pair<std::string, int64_t>, const CaptureRecord*> processes;
  for (const CaptureRecord* const capture : captures) {
    if (std::string why = DifferenceIn(*captures.front(), *capture); !why.empty()) return why;
    if (const int64_t rank = RankOf(capture->target); rank >= 0) {
      if (!ranks.try_emplace(rank, capture).second) {
        return StrCat("two captures are of rank ", rank);
      }
    } else if (!capture->node.empty() && capture->target.pid > 0) {
      const std::pair<std::string, int64_t> process(capture->node, capture->target.pid);
      if (!processes.try_emplace(process, capture).second) {
        return StrCat("two captures are of process ", capture->target.pid);
      }
    }
  }
  return GapBetween(captures);
}

}  // namespace

absl::Status CheckOneRun(std::span<const CaptureRecord* const> captures) {
  if (captures.size() < 2 || IsOneRecordedGroup(captures)) return absl::OkStatus();
  const std::string why = ContradictionIn(captures);
  if (why.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      StrCat("the captures are not of one run: ", why, "; --group compares them anyway"));
}

Flag ForceGroupFlag() {
  return {.name = "group", .help = "Compare captures even if they are not of one run"};
}

}  // namespace profd::cli
