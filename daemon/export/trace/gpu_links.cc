#include "daemon/export/trace/gpu_links.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "daemon/base/status_macros.h"
#include "daemon/capture/event_kinds.h"
#include "proto/wire/event.h"

namespace profd::exporter {
namespace {

// What a call launched: a row of a stream.
struct Work {
  int64_t start_ns;
  int64_t end_ns;
  uint32_t call;
  uint32_t track;
};
static_assert(sizeof(Work) == 24);

// How long a stream was busy for something.
struct Busy {
  int64_t start_ns;
  int64_t end_ns;
  uint32_t track;
};

// Makes one entry per stream of those from `first` on.
void MergeStreams(size_t first, std::vector<Busy>& busy) {
  if (busy.size() - first < 2) return;
  const auto begin = busy.begin() + static_cast<ptrdiff_t>(first);
  std::sort(begin, busy.end(), [](const Busy& a, const Busy& b) { return a.track < b.track; });
  auto last = begin;
  for (auto next = begin + 1; next != busy.end(); ++next) {
    if (next->track == last->track) {
      last->start_ns = std::min(last->start_ns, next->start_ns);
      last->end_ns = std::max(last->end_ns, next->end_ns);
    } else {
      *++last = *next;
    }
  }
  busy.erase(last + 1, busy.end());
}

// Ranges of one thread that have ended, as long as others may be around them.
struct ThreadSweep {
  struct Ended {
    int64_t start_ns;
    size_t first_busy;  // From here to the next one's: what it kept busy.
  };
  explicit ThreadSweep(std::span<const GpuLinks::Call> of_thread) : calls(of_thread) {}

  report::CallSweep calls;
  std::vector<Ended> ended;
  std::vector<Busy> busy;
};

}  // namespace

class GpuLinksBuilder {
 public:
  GpuLinksBuilder(store::CaptureReader& reader, GpuTracks& tracks, GpuLinks& links)
      : reader_(reader), tracks_(tracks), links_(links) {}

  absl::Status Build() {
    links_.flow_counts_.resize(links_.calls().size());
    links_.call_ids_.resize(links_.calls().size());
    RETURN_IF_ERROR(ReadWork());
    RETURN_IF_ERROR(ReadSyncs());
    if (links_.calls().empty()) return TakeRecordedAnnotations();
    std::sort(work_.begin(), work_.end(),
              [](const Work& a, const Work& b) { return a.call < b.call; });
    RETURN_IF_ERROR(SweepRanges());
    AnnotateSteps();
    return TakeRecordedAnnotations();
  }

 private:
  absl::Status ReadWork() {
    constexpr uint32_t kColumns = kGpuTime | kGpuWhere | kGpuCause;
    return reader_.ForEach<GpuRow>(kColumns, {}, [&](const GpuBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) {
        const GpuTrackKey key = {GpuTrackKind::kWork, batch.device[i], batch.context[i],
                                 batch.stream[i]};
        ASSIGN_OR_RETURN(const uint32_t track, tracks_.Add(key));
        const std::optional<uint32_t> call = CountFlow(batch.correlation[i], batch.start_ns[i]);
        if (!call.has_value()) continue;
        work_.push_back(
            {batch.start_ns[i], batch.start_ns[i] + batch.duration_ns[i], *call, track});
      }
      return absl::OkStatus();
    });
  }

  absl::Status ReadSyncs() {
    return reader_.ForEach<SyncRow>([&](const SyncBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) CountFlow(batch.correlation[i], batch.start_ns[i]);
      return absl::OkStatus();
    });
  }

  // The position of the call that has this correlation, if there is one.
  std::optional<uint32_t> CountFlow(uint32_t correlation, int64_t start_ns) {
    if (correlation == 0) return std::nullopt;
    const GpuLinks::Call* const call = links_.attribution_.Find(correlation);
    if (call == nullptr) return std::nullopt;
    const size_t position = links_.PositionOf(*call);
    if (start_ns >= call->start_ns) ++links_.flow_counts_[position];
    return static_cast<uint32_t>(position);
  }

  absl::Status SweepRanges() {
    constexpr uint32_t kColumns =
        kRangeStart | kRangeDuration | kRangeName | kRangeDepth | kRangeCategory;
    std::vector<ThreadSweep> threads;
    for (uint32_t thread = 0; thread < reader_.threads().size(); ++thread) {
      threads.emplace_back(links_.CallsOf(thread));
    }
    return reader_.ForEach<RangeRow>(kColumns, {}, [&](const RangeBatch& batch) {
      const std::span<const GpuLinks::Call> calls = links_.CallsOf(batch.thread);
      if (calls.empty()) {
        range_ += batch.size;
        return absl::OkStatus();
      }
      const size_t first_call = links_.PositionOf(calls.front());
      for (size_t i = 0; i < batch.size; ++i) EndRange(batch, i, first_call, threads[batch.thread]);
      return absl::OkStatus();
    });
  }

  // A range has ended: what it holds directly is its own, what those in it launched is its too.
  void EndRange(const RangeBatch& batch, size_t i, size_t first_call, ThreadSweep& thread) {
    const int64_t start_ns = batch.start_ns[i];
    const int64_t id = links_.RangeId(static_cast<uint32_t>(range_));
    // Ids end where neither a call nor a list of ranges can hold them.
    const bool has_id = range_ <= std::numeric_limits<uint32_t>::max() &&
                        id <= int64_t{std::numeric_limits<uint32_t>::max()};
    bool is_referred_to = false;

    size_t first_busy = thread.busy.size();
    // Ranges come by their ends. Those that ended before and began in this one are inside it, and
    // what they kept busy is this one's as well.
    while (!thread.ended.empty() && thread.ended.back().start_ns >= start_ns) {
      first_busy = thread.ended.back().first_busy;
      thread.ended.pop_back();
    }
    thread.calls.EndRange(start_ns, start_ns + batch.duration_ns[i], [&](size_t call) {
      const size_t position = first_call + call;
      if (has_id) links_.call_ids_[position] = static_cast<uint32_t>(id);
      is_referred_to = true;
      AddWorkOf(position, thread.busy);
    });
    MergeStreams(first_busy, thread.busy);
    if (batch.category[i] != static_cast<uint8_t>(wire::RangeCategory::kOperator)) {
      for (size_t busy = first_busy; busy < thread.busy.size(); ++busy) {
        const Busy& stream = thread.busy[busy];
        links_.annotations_.push_back({.start_ns = stream.start_ns,
                                       .end_ns = stream.end_ns,
                                       .track = stream.track,
                                       .name = batch.name[i],
                                       .external_id = has_id ? id : 0});
        is_referred_to = true;
      }
    }
    if (is_referred_to && has_id) links_.ranges_with_id_.push_back(static_cast<uint32_t>(range_));
    if (batch.depth[i] == 0) {
      thread.calls.EndOutermost();
      thread.ended.clear();
      thread.busy.clear();
    } else if (thread.busy.size() > first_busy) {
      thread.ended.push_back({start_ns, first_busy});
    }
    ++range_;
  }

  void AddWorkOf(size_t call, std::vector<Busy>& busy) const {
    const auto first = std::lower_bound(work_.begin(), work_.end(), call,
                                        [](const Work& a, size_t b) { return a.call < b; });
    for (auto work = first; work != work_.end() && work->call == call; ++work) {
      busy.push_back({work->start_ns, work->end_ns, work->track});
    }
  }

  // A step's are those of the calls that began in it, on any thread.
  void AnnotateSteps() {
    absl::flat_hash_map<std::pair<int32_t, uint32_t>, Busy> busy;  // By step and stream.
    for (const Work& work : work_) {
      const int32_t step = links_.calls()[work.call].step;
      if (step < 0) continue;
      const auto [at, inserted] =
          busy.try_emplace({step, work.track}, Busy{work.start_ns, work.end_ns, work.track});
      if (inserted) continue;
      at->second.start_ns = std::min(at->second.start_ns, work.start_ns);
      at->second.end_ns = std::max(at->second.end_ns, work.end_ns);
    }
    for (const auto& [key, stream] : busy) {
      const auto step = static_cast<uint32_t>(key.first);
      links_.annotations_.push_back({.start_ns = stream.start_ns,
                                     .end_ns = stream.end_ns,
                                     .track = stream.track,
                                     .name = step,
                                     .external_id = GpuLinks::StepId(step),
                                     .is_step = true});
    }
  }

  // A trace that had annotations keeps them, and only them.
  absl::Status TakeRecordedAnnotations() {
    absl::flat_hash_map<std::pair<uint16_t, uint32_t>, uint32_t> streams;
    for (uint32_t track = 0; track < tracks_.tracks().size(); ++track) {
      const GpuTrackKey& key = tracks_[track].key;
      if (key.kind == GpuTrackKind::kWork) streams.try_emplace({key.device, key.stream}, track);
    }
    bool is_first = true;
    return reader_.ForEach<GpuAnnotationRow>([&](const GpuAnnotationBatch& batch) {
      if (std::exchange(is_first, false)) links_.annotations_.clear();
      for (size_t i = 0; i < batch.size; ++i) {
        const std::pair stream(batch.device[i], batch.stream[i]);
        if (!streams.contains(stream)) {
          ASSIGN_OR_RETURN(const uint32_t track, tracks_.Add({.kind = GpuTrackKind::kWork,
                                                              .device = batch.device[i],
                                                              .stream = batch.stream[i]}));
          streams.emplace(stream, track);
        }
        links_.annotations_.push_back({.start_ns = batch.start_ns[i],
                                       .end_ns = batch.start_ns[i] + batch.duration_ns[i],
                                       .track = streams[stream],
                                       .name = batch.name[i],
                                       .external_id = batch.external_id[i],
                                       .is_recorded = true});
      }
      return absl::OkStatus();
    });
  }

  store::CaptureReader& reader_;
  GpuTracks& tracks_;
  GpuLinks& links_;
  std::vector<Work> work_;
  size_t range_ = 0;  // How many have been read.
};

absl::StatusOr<GpuLinks> GpuLinks::Make(store::CaptureReader& reader, GpuTracks& tracks) {
  ASSIGN_OR_RETURN(report::GpuAttribution attribution, report::GpuAttribution::Build(reader));
  GpuLinks links(std::move(attribution));
  RETURN_IF_ERROR(GpuLinksBuilder(reader, tracks, links).Build());
  return links;
}

GpuLinks::Cause GpuLinks::CauseOf(uint32_t correlation, int64_t start_ns) const {
  Cause cause;
  const Call* const call = correlation == 0 ? nullptr : attribution_.Find(correlation);
  if (call == nullptr) return cause;
  const size_t position = PositionOf(*call);
  cause.external_id = call_ids_[position];
  if (start_ns >= call->start_ns) cause.flow_from = position;
  return cause;
}

}  // namespace profd::exporter
