#include "daemon/ingest/decode/event_decoder.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/container/node_hash_map.h"
#include "daemon/base/text.h"
#include "daemon/ingest/decode/untrusted_values.h"

namespace profd {
namespace {

constexpr int64_t kJitterNs = 1000;
constexpr int64_t kLookBackNs = int64_t{3600} * 1'000'000'000;
// Between the target's counter and ours, on whatever cores they run.
constexpr int64_t kClockSkewNs = 1'000'000;
constexpr size_t kMaxThreadNameBytes = 63;
// The key of a thread that is only named in events, apart from the serials of threads.
constexpr uint64_t kOsThreadKey = uint64_t{1} << 32;

// Categories to come are shown as plain ranges.
uint8_t RangeCategoryOf(uint16_t category) {
  return category <= static_cast<uint16_t>(wire::RangeCategory::kOperator)
             ? static_cast<uint8_t>(category)
             : static_cast<uint8_t>(wire::RangeCategory::kUser);
}

void KeepMark(uint64_t ticks, std::vector<uint64_t>& marks) {
  constexpr size_t kMaxMarks = 1 << 16;
  if (!marks.empty() && ticks < marks.back()) return;  // Of another thread, and off by jitter.
  // Every second mark stays. FindUnended() then sees pairs of steps as one, and reports less, but
  // nothing wrong.
  if (marks.size() == kMaxMarks) {
    for (size_t i = 0; i < kMaxMarks / 2; ++i) marks[i] = marks[2 * i];
    marks.resize(kMaxMarks / 2);
  }
  marks.push_back(ticks);
}

}  // namespace

EventDecoder::EventDecoder(const TickLine& line, const NameReader& names,
                           std::span<const WindowTicks> windows, CaptureSink& sink,
                           GpuMode gpu_mode, const TorchSpec& torch)
    : line_(line),
      names_(names),
      windows_(windows),
      wants_gpu_(gpu_mode != GpuMode::kOff),
      jitter_ticks_(line.TicksOf(kJitterNs)),
      skew_ticks_(line.TicksOf(kClockSkewNs)),
      earliest_ticks_(line.epoch().ticks - std::min(line.epoch().ticks, line.TicksOf(kLookBackNs))),
      out_(sink, counts_),
      name_table_(names, out_),
      thread_rows_(out_),
      gpu_(gpu_mode, {.line = line_,
                      .windows = windows_,
                      .names = name_table_,
                      .threads = thread_rows_,
                      .sink = out_,
                      .earliest_ticks = earliest_ticks_}),
      torch_(
          torch,
          {.line = line_, .names = name_table_, .sink = out_, .earliest_ticks = earliest_ticks_}),
      arguments_(name_table_, out_) {
  end_steps_.fill(-1);
}

void EventDecoder::Decode(const ChunkView& chunk) {
  const auto serial =
      LoadUnaligned<uint32_t>(chunk.bytes + offsetof(wire::ChunkHeader, thread_serial));
  const auto os_thread =
      LoadUnaligned<uint32_t>(chunk.bytes + offsetof(wire::ChunkHeader, os_thread));
  const auto window = LoadUnaligned<uint32_t>(chunk.bytes + offsetof(wire::ChunkHeader, window));
  const auto depth = LoadUnaligned<uint32_t>(chunk.bytes + offsetof(wire::ChunkHeader, open_depth));
  Thread* thread = serial != 0 ? ThreadOf(serial, os_thread) : nullptr;
  const bool is_empty = chunk.record_bytes == 0 && depth == 0;
  if (thread == nullptr || !EnterChunk(*thread, window, is_empty)) return CountInvalidChunk();

  latest_ticks_ = chunk.copy_ticks + skew_ticks_;
  last_range_ = {};
  thread_ = thread;
  gpu_.EnterChunk(thread->os_thread, latest_ticks_);
  DecodeRecords(thread, chunk.bytes + wire::kChunkDataOffset, chunk.record_bytes);
  Flush();
  if (thread->writes_gpu) gpu_.Flush();
  TakeStack(*thread, chunk.bytes);
}

EventDecoder::Thread* EventDecoder::ThreadOf(uint64_t key, uint32_t os_thread) {
  const auto known = threads_by_key_.find(key);
  if (known != threads_by_key_.end()) return known->second;
  const std::optional<uint32_t> index = (key & kOsThreadKey) != 0
                                            ? thread_rows_.AddNamed(os_thread)
                                            : thread_rows_.AddOwner(os_thread);
  if (!index.has_value()) return nullptr;
  Thread* thread = threads_.emplace_back(std::make_unique<Thread>()).get();
  thread->index = *index;
  thread->os_thread = os_thread;
  threads_by_key_[key] = thread;
  return thread;
}

// False: a window that is not in the plan, or one that was over for this thread.
bool EventDecoder::EnterChunk(Thread& thread, uint32_t window, bool is_empty) {
  if (window >= windows_.size() || window < thread.window) return false;
  if (window > thread.window) {
    EmitOpen(thread);
    thread.window = window;
    thread.passed_start = false;
    thread.last_end_by_depth.clear();
  } else if (!is_empty) {
    // The thread moved on and took its stack with it. (Killed while it did so, its new
    // chunk is empty and the stack still stands in the old one.)
    open_places_ -= thread.open.size();
    thread.open.clear();
  }
  window_ = windows_[window];
  return true;
}

void EventDecoder::DecodeRecords(Thread* of_chunk, const std::byte* records, uint32_t bytes) {
  uint32_t at = 0;
  while (bytes - at >= sizeof(wire::EventHeader)) {
    const auto header = LoadUnaligned<wire::EventHeader>(records + at);
    const uint32_t size = header.size_bytes;
    if (size < wire::kMinEventBytes || size > wire::kMaxEventBytes || size % 8 != 0 ||
        size > bytes - at) {
      ++counts_.invalid_count;
      return;
    }
    if (GpuDecoder::IsGpuKind(header.kind) && wants_gpu_) {
      of_chunk->writes_gpu = true;
      counts_.invalid_count += !gpu_.Decode(header, records + at);
    } else if (header.thread == 0 && thread_ == of_chunk) [[likely]] {
      counts_.invalid_count += !DecodeRecord(header, records + at);
    } else {
      counts_.invalid_count +=
          !SelectThread(of_chunk, header.thread) || !DecodeRecord(header, records + at);
    }
    at += size;
  }
}

// Makes `os_thread` (0: the chunk's own) the thread that rows are for.
bool EventDecoder::SelectThread(Thread* of_chunk, uint32_t os_thread) {
  const bool own = os_thread == 0 || os_thread == of_chunk->os_thread;
  Thread* thread = own ? of_chunk : ThreadOf(kOsThreadKey | os_thread, os_thread);
  if (thread == nullptr) return false;
  if (thread == thread_) return true;
  Flush();
  thread_ = thread;
  return own || EnterChunk(*thread, of_chunk->window, /*is_empty=*/true);
}

bool EventDecoder::DecodeRecord(const wire::EventHeader& header, const std::byte* record) {
  switch (static_cast<wire::EventKind>(header.kind)) {
    case wire::EventKind::kPad:
      return true;
    case wire::EventKind::kRange:
      return header.size_bytes >= sizeof(wire::RangeEvent) && DecodeRange(record, header.flags);
    case wire::EventKind::kInstant:
      return header.size_bytes >= sizeof(wire::InstantEvent) && DecodeInstant(record);
    case wire::EventKind::kCounter:
      return header.size_bytes >= sizeof(wire::CounterEvent) && DecodeCounter(record);
    case wire::EventKind::kMemory:
      return header.size_bytes >= sizeof(wire::MemoryEvent) && DecodeMemory(record, header.flags);
    case wire::EventKind::kStep:
      return header.size_bytes >= sizeof(wire::StepEvent) && DecodeStep(record);
    case wire::EventKind::kThreadName:
      return header.size_bytes >= sizeof(wire::ThreadNameEvent) && DecodeThreadName(record);
    default:
      break;
  }
  if (header.kind == static_cast<uint8_t>(wire::EventKind::kOperator) &&
      RangeArguments::AreArguments(record, header.size_bytes)) {
    return DecodeArguments(record, header.size_bytes);
  }
  if (TorchDecoder::IsTorchKind(header.kind) && torch_.is_wanted()) {
    return DecodeTorch(header, record);
  }
  ++counts_.unknown_kind_count;
  return true;
}

bool EventDecoder::DecodeTorch(const wire::EventHeader& header, const std::byte* record) {
  const uint32_t size = header.size_bytes;
  switch (static_cast<wire::EventKind>(header.kind)) {
    case wire::EventKind::kOperator:
      return DecodeOperator(record, size);
    case wire::EventKind::kNote: {
      thread_->writes_behind = true;
      const int64_t unknown = torch_.unknown_kind_count();
      const bool valid = torch_.DecodeNote(record, size, latest_ticks_);
      counts_.unknown_kind_count += torch_.unknown_kind_count() - unknown;
      return valid;
    }
    case wire::EventKind::kBlock:
      thread_->writes_behind = true;
      return torch_.DecodeBlock(record, size);
    case wire::EventKind::kStackFrame:
      return torch_.DecodeStackFrame(record, size, thread_->operators);
    case wire::EventKind::kModule:
      thread_->writes_behind = true;
      return torch_.DecodeModule(record, size);
    default:
      thread_->writes_behind = true;
      return torch_.DecodeStatus(record, size);
  }
}

bool EventDecoder::DecodeOperator(const std::byte* record, uint32_t size) {
  if (size < sizeof(wire::OperatorEvent)) return false;
  uint64_t ticks = LoadUnaligned<uint64_t>(record + offsetof(wire::OperatorEvent, start_ticks));
  if (!AcceptTime(ticks)) return false;
  const bool in_window = PlaceOf(ticks, /*has_length=*/false) == Place::kInside;
  if (!torch_.DecodeOperator(record, size, ticks, in_window, thread_->operators)) return false;
  arguments_.DecodeOfTorch(record, size, thread_->index);
  return true;
}

bool EventDecoder::DecodeArguments(const std::byte* record, uint32_t size) {
  uint64_t ticks = LoadUnaligned<uint64_t>(record + offsetof(wire::OperatorEvent, start_ticks));
  return AcceptTime(ticks) && arguments_.Decode(record, size, thread_->index);
}

bool EventDecoder::DecodeRange(const std::byte* record, uint8_t flags) {
  const auto event = LoadUnaligned<wire::RangeEvent>(record);
  const uint32_t name = NameOf(event.name_id);
  uint64_t start = event.start_ticks;
  // Unsigned, so a hostile duration wraps, and `end < start` finds that.
  uint64_t end = start + event.duration_ticks;
  if (name == kNoName || event.depth >= wire::kMaxRangeDepth || end < start ||
      start < earliest_ticks_ || !AcceptTime(end) ||
      !AcceptSibling(*thread_, event.depth, end, start)) {
    return false;
  }
  last_range_ = {event.start_ticks, event.name_id, event.depth};
  const bool cut = (flags & wire::kEventFlagTruncated) != 0 || start < window_.start;
  const uint8_t unended = (flags & wire::kEventFlagUnended) != 0 ? kRangeUnended : 0;
  switch (PlaceOf(end, end > start)) {
    case Place::kWarmup:
      ++counts_.warmup_event_count;
      arguments_.Forget(event.start_ticks);
      break;
    case Place::kInside:
      AppendRange(event.start_ticks, start, end, name, event.depth, event.category,
                  (cut ? kRangeTruncated : 0) | unended);
      break;
    case Place::kPastEnd:
      if (start >= window_.end) {
        ++counts_.outside_event_count;
        arguments_.Forget(event.start_ticks);
        break;
      }
      AppendRange(event.start_ticks, start, window_.end, name, event.depth, event.category,
                  kRangeOpen | (cut ? kRangeTruncated : 0));
      break;
  }
  return true;
}

bool EventDecoder::DecodeInstant(const std::byte* record) {
  const auto event = LoadUnaligned<wire::InstantEvent>(record);
  const uint32_t name = NameOf(event.name_id);
  uint64_t ticks = event.time_ticks;
  if (name == kNoName || !AcceptTime(ticks)) return false;
  if (KeepPoint(ticks)) instants_.push_back({.time_ns = line_.ToNs(ticks), .name = name});
  return true;
}

bool EventDecoder::DecodeCounter(const std::byte* record) {
  const auto event = LoadUnaligned<wire::CounterEvent>(record);
  const uint32_t name = NameOf(event.name_id);
  uint64_t ticks = event.time_ticks;
  if (name == kNoName || !AcceptTime(ticks)) return false;
  if (KeepPoint(ticks)) {
    counters_.push_back({.time_ns = line_.ToNs(ticks), .value = event.value, .name = name});
  }
  return true;
}

bool EventDecoder::DecodeMemory(const std::byte* record, uint8_t flags) {
  const auto event = LoadUnaligned<wire::MemoryEvent>(record);
  uint64_t ticks = event.time_ticks;
  if (event.bytes < 0 || event.total_allocated_bytes < -1 || event.total_reserved_bytes < -1 ||
      event.device_type > static_cast<uint16_t>(wire::DeviceType::kCuda) ||
      event.device_index < 0 || !AcceptTime(ticks)) {
    return false;
  }
  if (!KeepPoint(ticks)) return true;
  // Categories to come count as unknown.
  const uint16_t category = event.category <= wire::kMaxMemoryCategory ? event.category : 0;
  memory_.push_back({.time_ns = line_.ToNs(ticks),
                     .address = event.address,
                     .bytes = event.bytes,
                     .total_allocated_bytes = event.total_allocated_bytes,
                     .total_reserved_bytes = event.total_reserved_bytes,
                     .device_type = static_cast<uint8_t>(event.device_type),
                     .device_index = event.device_index,
                     .category = static_cast<uint8_t>(category),
                     .is_free = (flags & wire::kEventFlagFree) != 0});
  return true;
}

bool EventDecoder::DecodeStep(const std::byte* record) {
  const auto event = LoadUnaligned<wire::StepEvent>(record);
  uint64_t ticks = event.time_ticks;
  const auto step = static_cast<int64_t>(event.step);
  if (event.step > kMaxUntrustedCount || step < last_step_ || !AcceptTime(ticks)) return false;
  thread_->marks_steps = true;
  if (window_.start != 0 && ticks >= window_.start) {
    thread_->passed_start = true;
    if (window_.end == 0 || ticks <= window_.end) end_steps_[thread_->window] = step;
  }
  // A mark between two windows stands in both.
  if (step != last_step_) {
    steps_.push_back({.time_ns = line_.ToNs(ticks), .step = step});
    KeepMark(ticks, step_marks_);
  }
  last_step_ = step;
  return true;
}

bool EventDecoder::DecodeThreadName(const std::byte* record) {
  const auto event = LoadUnaligned<wire::ThreadNameEvent>(record);
  std::string bytes;
  if (!names_.ReadName(event.name_id, bytes)) return false;
  thread_rows_.SetName(thread_->index, ForDisplay(bytes, kMaxThreadNameBytes));
  return true;
}

bool EventDecoder::AcceptTime(uint64_t& ticks) {
  if (ticks < thread_->last_end_ticks) {
    if (thread_->last_end_ticks - ticks >= jitter_ticks_) return false;
    ticks = thread_->last_end_ticks;
  }
  if (ticks < earliest_ticks_ || ticks > latest_ticks_) return false;
  thread_->last_end_ticks = ticks;
  return true;
}

bool EventDecoder::AcceptSibling(Thread& thread, uint32_t depth, uint64_t end_ticks,
                                 uint64_t& start_ticks) {
  std::vector<uint64_t>& last_ends = thread.last_end_by_depth;
  if (depth >= thread.depth_count) {
    const uint32_t more = depth + 1 - thread.depth_count;
    if (depth_places_ + more > kMostDepthPlaces) return false;
    depth_places_ += more;
    thread.depth_count = depth + 1;
  }
  if (depth >= last_ends.size()) last_ends.resize(depth + 1, 0);
  uint64_t& last_end = last_ends[depth];
  if (start_ticks < last_end) {
    if (last_end - start_ticks >= jitter_ticks_) return false;
    start_ticks = std::min(last_end, end_ticks);
  }
  last_end = end_ticks;
  return true;
}

EventDecoder::Place EventDecoder::PlaceOf(uint64_t ticks, bool has_length) const {
  if (window_.start == 0 || ticks < window_.start) return Place::kWarmup;
  if (ticks == window_.start) {
    const bool before = thread_->marks_steps ? !thread_->passed_start : has_length;
    return before ? Place::kWarmup : Place::kInside;
  }
  return window_.end != 0 && ticks > window_.end ? Place::kPastEnd : Place::kInside;
}

bool EventDecoder::KeepPoint(uint64_t ticks) {
  switch (PlaceOf(ticks, /*has_length=*/false)) {
    case Place::kWarmup:
      ++counts_.warmup_event_count;
      return false;
    case Place::kInside:
      return true;
    case Place::kPastEnd:
      ++counts_.outside_event_count;
      return false;
  }
  return false;
}

void EventDecoder::AppendRange(uint64_t begin_ticks, uint64_t start_ticks, uint64_t end_ticks,
                               uint32_t name, uint32_t depth, uint16_t category, uint8_t flags) {
  const int64_t start_ns = line_.ToNs(start_ticks);
  ranges_.push_back({.start_ns = start_ns,
                     .duration_ns = line_.ToNs(end_ticks) - start_ns,
                     .name = name,
                     .depth = static_cast<uint16_t>(depth),
                     .category = RangeCategoryOf(category),
                     .flags = flags});
  if (category == static_cast<uint16_t>(wire::RangeCategory::kOperator)) {
    torch_.KeepOperator(thread_->operators, depth, begin_ticks, start_ns);
  } else {
    arguments_.Keep(begin_ticks, {.thread = thread_->index, .row = thread_->kept_ranges},
                    /*is_lane=*/thread_->os_thread >= wire::kFirstLane);
  }
  ++thread_->kept_ranges;
  thread_->last_kept_ticks = end_ticks;
  open_in_ranges_ += (flags & kRangeOpen) != 0;
  truncated_in_ranges_ += (flags & kRangeTruncated) != 0;
}

void EventDecoder::TakeStack(Thread& thread, const std::byte* chunk) {
  auto depth = LoadUnaligned<uint32_t>(chunk + offsetof(wire::ChunkHeader, open_depth));
  if (depth == 0) return;
  if (depth > wire::kMaxRangeDepth) {
    ++counts_.invalid_count;
    return;
  }
  const std::byte* stack = chunk + offsetof(wire::ChunkHeader, open_ranges);
  const auto innermost =
      LoadUnaligned<wire::OpenRange>(stack + (depth - 1) * sizeof(wire::OpenRange));
  // A range's record is published before it leaves the stack.
  if (last_range_.depth == depth - 1 && last_range_.start_ticks == innermost.start_ticks &&
      last_range_.name_id == innermost.name_id) {
    --depth;
  }
  const size_t open_places = open_places_ - thread.open.size() + depth;
  if (open_places > kMostDepthPlaces) {
    ++counts_.invalid_count;
    return;
  }
  open_places_ = open_places;
  thread.open.resize(depth);
  memcpy(thread.open.data(), stack, depth * sizeof(wire::OpenRange));
}

// A range that is popped may well be open when the window ends, also over several steps. But where
// one step pushes it, and a later step pushes it again on the same stack before it is popped,
// steps do not pop it. Ranges that are paired by identity may overlap so, and operators always end.
// Names beyond the limit are one name, of ranges that may differ.
std::vector<uint8_t> EventDecoder::FindUnended(std::span<const wire::OpenRange> open,
                                               const WindowTicks& window) const {
  struct Pushes {
    size_t first_step;  // Its number, of those in step_marks_.
    size_t last_step;
  };
  const auto step_at = [&](uint64_t ticks) {
    const auto next = std::upper_bound(step_marks_.begin(), step_marks_.end(), ticks);
    return static_cast<size_t>(next - step_marks_.begin());
  };
  std::vector<uint8_t> flags(open.size(), 0);
  std::vector<std::pair<Pushes*, size_t>> pushes(open.size(), {nullptr, 0});
  absl::node_hash_map<uint64_t, Pushes> by_name;
  for (size_t i = 0; i < open.size(); ++i) {
    const wire::OpenRange& range = open[i];
    if (range.pairing == wire::kPairedByIdentity || range.name_id == wire::kNoNameId ||
        range.name_id == wire::kOtherNameId ||
        range.category != static_cast<uint16_t>(wire::RangeCategory::kUser) ||
        range.start_ticks < window.start || range.start_ticks >= window.end) {
      continue;
    }
    const size_t step = step_at(range.start_ticks);
    const uint64_t key = uint64_t{range.pairing} << 32 | range.name_id;
    Pushes& of_name = by_name.try_emplace(key, Pushes{step, step}).first->second;
    of_name.first_step = std::min(of_name.first_step, step);
    of_name.last_step = std::max(of_name.last_step, step);
    pushes[i] = {&of_name, step};
  }
  const size_t end_step = step_at(window.end);
  for (size_t i = 0; i < open.size(); ++i) {
    const auto& [of_name, step] = pushes[i];
    if (of_name == nullptr || of_name->first_step == of_name->last_step) continue;
    // The last push may still be popped in its own step.
    if (step < end_step) flags[i] = kRangeUnended;
  }
  return flags;
}

void EventDecoder::EmitOpen(Thread& thread) {
  const std::vector<wire::OpenRange> open = std::exchange(thread.open, {});
  open_places_ -= open.size();
  const WindowTicks window = windows_[thread.window];
  if (window.start == 0) return;
  thread_ = &thread;
  // A row that was kept before the window's end was known may lie after it.
  const uint64_t end = std::max(window.end, thread.last_kept_ticks);
  uint64_t inner_start = end;
  const std::vector<uint8_t> unended = FindUnended(open, window);
  // From the innermost outwards, as ends of nested ranges would come. No outer range may begin
  // after the one inside it.
  for (size_t depth = open.size(); depth-- > 0;) {
    const wire::OpenRange& range = open[depth];
    if (range.start_ticks >= window.end && range.start_ticks <= latest_ticks_) continue;
    const uint32_t name = NameOf(range.name_id);
    uint64_t start = range.start_ticks;
    if (name == kNoName || start < earliest_ticks_ || start > inner_start ||
        !AcceptSibling(thread, static_cast<uint32_t>(depth), end, start)) {
      ++counts_.invalid_count;
      continue;
    }
    inner_start = start;
    AppendRange(range.start_ticks, start, end, name, static_cast<uint32_t>(depth), range.category,
                kRangeOpen | (start < window.start ? kRangeTruncated : 0) | unended[depth]);
  }
  Flush();
}

void EventDecoder::Finish() {
  for (const std::unique_ptr<Thread>& thread : threads_) EmitOpen(*thread);
  arguments_.Finish([this](uint64_t start_ticks) {
    return std::ranges::any_of(windows_, [&](const WindowTicks& window) {
      return start_ticks >= window.start && start_ticks < window.end;
    });
  });
  if (wants_gpu_) gpu_.Finish();
}

void EventDecoder::Flush() {
  const bool has_rows = !ranges_.empty() || !instants_.empty() || !counters_.empty() ||
                        !memory_.empty() || !steps_.empty() || torch_.has_rows();
  const bool is_ours = thread_->writes_gpu || thread_->writes_behind;
  if (has_rows || !is_ours) sink_thread_ = thread_rows_.Announce(thread_->index);
  if (FlushRows(ranges_)) {
    counts_.open_range_count += open_in_ranges_;
    counts_.truncated_range_count += truncated_in_ranges_;
  }
  open_in_ranges_ = 0;
  truncated_in_ranges_ = 0;
  torch_.Flush(sink_thread_);
  arguments_.Flush([this](uint32_t thread) { return thread_rows_.Announce(thread); });
  FlushRows(instants_);
  FlushRows(counters_);
  FlushRows(memory_);
  const int64_t events = counts_.event_count;
  FlushRows(steps_);
  // Step marks are kept, but are no events that a capture counts.
  counts_.event_count = events;
}

template <typename Row>
bool EventDecoder::FlushRows(std::vector<Row>& rows) {
  if (rows.empty()) return false;
  const bool taken = out_.Append(static_cast<int64_t>(rows.size()), [&](CaptureSink& sink) {
    return sink.Append(sink_thread_, rows);
  });
  rows.clear();
  return taken;
}

}  // namespace profd
