#include "daemon/import/trace_set.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <unordered_map>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/capture/capture_types.h"
#include "daemon/import/exact_time.h"
#include "daemon/import/not_understood.h"
#include "daemon/import/trace_file.h"
#include "daemon/import/trace_header.h"
#include "daemon/import/trace_splitter.h"

namespace profd::importer {
namespace {

constexpr size_t kMaxShownPath = 300;

// Reads the members of a trace, and no event.
class HeaderReader : public TraceSplitter::Handler {
 public:
  explicit HeaderReader(const std::function<bool()>& is_cancelled) : is_cancelled_(is_cancelled) {}

  absl::Status OnMember(std::string_view key, std::string_view value, int64_t) override {
    NotUnderstood counted_by_the_import;
    if (key == "distributedInfo" || key == "profd") header_.Add(key, value, counted_by_the_import);
    return absl::OkStatus();
  }
  absl::Status OnEvents(std::string_view, int64_t) override {
    if (is_cancelled_ && is_cancelled_()) return absl::CancelledError();
    has_enough_ = Rank().has_value();
    return has_enough_ ? absl::AbortedError("the rest is not needed") : absl::OkStatus();
  }

  bool has_enough() const { return has_enough_; }
  std::optional<TraceRank> Rank() const {
    CaptureRecord record;
    header_.FillIn(record);
    const auto number = [&](const char* key) -> std::optional<int64_t> {
      const auto found = record.target.metadata.find(key);
      if (found == record.target.metadata.end()) return std::nullopt;
      return ParseInteger(found->second);
    };
    const std::optional<int64_t> rank = number("rank");
    const std::optional<int64_t> world_size = number("world_size");
    if (!rank.has_value() || !world_size.has_value()) return std::nullopt;
    return TraceRank{.rank = *rank, .world_size = *world_size};
  }

 private:
  const std::function<bool()>& is_cancelled_;
  TraceHeader header_;
  bool has_enough_ = false;
};

std::string Shown(const std::string& trace) { return ForDisplay(trace, kMaxShownPath); }

// Of the ranks of one job; empty: they are.
std::string ContradictionIn(std::span<const std::string> traces,
                            std::span<const std::optional<TraceRank>> ranks) {
  const auto known = std::ranges::find_if(ranks, [](const auto& rank) { return rank.has_value(); });
  if (known == ranks.end()) return "";
  const auto first = static_cast<size_t>(known - ranks.begin());
  std::unordered_map<int64_t, size_t> taken;
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (!ranks[i].has_value()) return StrCat(Shown(traces[i]), " does not say its rank");
    const auto [rank, world_size] = *ranks[i];
    if (world_size != ranks[first]->world_size) {
      return StrCat(Shown(traces[first]), " is of a job of ", ranks[first]->world_size,
                    " ranks, and ", Shown(traces[i]), " of one of ", world_size);
    }
    if (world_size == 1) continue;
    if (rank < 0 || rank >= world_size) {
      return StrCat(Shown(traces[i]), " claims to be rank ", rank, " of ", world_size);
    }
    const auto [other, is_new] = taken.emplace(rank, i);
    if (!is_new) {
      return StrCat(Shown(traces[other->second]), " and ", Shown(traces[i]), " are both of rank ",
                    rank);
    }
  }
  return "";
}

}  // namespace

absl::StatusOr<std::optional<TraceRank>> RankOfTrace(const std::filesystem::path& trace,
                                                     const std::function<bool()>& is_cancelled) {
  ASSIGN_OR_RETURN(const std::unique_ptr<TraceFile> file, TraceFile::Open(trace));
  HeaderReader reader(is_cancelled);
  absl::Status status = TraceSplitter(*file, reader).Run();
  if (!status.ok() && !reader.has_enough()) return status;
  return reader.Rank();
}

TraceSet SetOf(std::span<const std::string> traces,
               std::span<const std::optional<TraceRank>> ranks) {
  TraceSet set;
  if (traces.size() < 2) return set;
  set.contradiction = ContradictionIn(traces, ranks);
  if (!set.contradiction.empty() || !ranks[0].has_value() || ranks[0]->world_size < 2) return set;
  set.is_job = true;
  set.world_size = ranks[0]->world_size;
  set.absent_count = set.world_size - static_cast<int64_t>(ranks.size());
  std::vector<int64_t> present;
  for (const std::optional<TraceRank>& rank : ranks) present.push_back(rank->rank);
  std::ranges::sort(present);
  for (int64_t rank = 0, next = 0; rank < set.world_size; ++rank) {
    if (std::ssize(set.absent_ranks) == TraceSet::kMostNamed) break;
    if (next < std::ssize(present) && present[static_cast<size_t>(next)] == rank) {
      ++next;
    } else {
      set.absent_ranks.push_back(rank);
    }
  }
  return set;
}

}  // namespace profd::importer
