// Perfetto's protobuf trace (protos/perfetto/trace in its repository). Every thread is a
// packet sequence of its own, with its slices in the order of time, so that a packet needs
// neither a track nor a clock of its own and names are sent once per thread.
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/capture/event_kinds.h"
#include "daemon/capture/quality.h"
#include "daemon/export/perfetto/gpu.h"
#include "daemon/export/perfetto/operators.h"
#include "daemon/export/perfetto/packets.h"
#include "daemon/export/perfetto/proto_writer.h"
#include "daemon/export/trace/call_nesting.h"
#include "daemon/export/trace/gpu_plan.h"
#include "daemon/export/trace/layout.h"
#include "daemon/export/trace/note_text.h"
#include "daemon/export/trace/operator_plan.h"
#include "daemon/export/trace/shown_arguments.h"
#include "daemon/export/trace/slice_order.h"
#include "daemon/export/trace/writers.h"
#include "daemon/report/index/stack_table.h"
#include "daemon/report/memory/timeline.h"

namespace profd::exporter {
namespace {

// A single-byte-length packet is written in place; this is the most it may hold.
constexpr size_t kMostSmallPacketBytes = 127;

class PerfettoWriter {
 public:
  PerfettoWriter(store::CaptureReader& reader, const TraceLayout& layout, const GpuPlan& plan,
                 const CallNesting& nesting, const OperatorPlan& operators,
                 report::StackTable stacks, const ShownArguments& arguments,
                 std::string_view step_prefix, OutputBuffer& out)
      : reader_(reader),
        out_(out),
        layout_(layout),
        plan_(plan),
        nesting_(nesting),
        packets_(reader.record(), layout.place, out),
        gpu_(reader, plan, packets_, GpuSequence(layout), step_prefix),
        operators_(reader, operators, std::move(stacks), packets_),
        arguments_(arguments),
        step_prefix_(step_prefix) {
    sent_names_.resize(layout_.threads.size());
    for (size_t thread = 0; thread < layout_.threads.size(); ++thread) {
      calls_.push_back({plan.links().CallsOf(static_cast<uint32_t>(thread))});
    }
  }

  // Of the process, after it of its threads, after them of its GPUs.
  static uint64_t GpuSequence(const TraceLayout& layout) {
    return layout.place.first_sequence + 1 + layout.threads.size();
  }

  absl::Status Write() {
    RETURN_IF_ERROR(reader_.ForEach<RangeRow>(
        SliceOrder::kColumns, {}, [&](const RangeBatch& batch) { return order_.Learn(batch); }));
    // One says it for all captures of a trace.
    if (layout_.place.number == 0) WriteClocks();
    WriteTracks();
    WriteAbout();
    WriteSteps();
    RETURN_IF_ERROR(WriteRanges());
    WriteCallsLeft();
    if (!plan_.empty()) RETURN_IF_ERROR(gpu_.WriteEvents());
    RETURN_IF_ERROR(WriteInstants());
    RETURN_IF_ERROR(WriteNotes());
    RETURN_IF_ERROR(WriteCounters());
    RETURN_IF_ERROR(WriteMemory());
    return out_.status();
  }

 private:
  uint64_t ProcessSequence() const { return layout_.place.first_sequence; }
  uint64_t ThreadSequence(size_t thread) const { return layout_.place.first_sequence + 1 + thread; }
  uint64_t UnixTime(int64_t time_ns) const { return packets_.UnixTime(time_ns); }
  uint64_t Uuid(TrackKind kind, uint64_t id) const { return packets_.Uuid(kind, id); }
  uint64_t ProcessUuid() const { return packets_.ProcessUuid(); }
  uint64_t ThreadUuid(size_t thread) const {
    return Uuid(kThread, static_cast<uint64_t>(layout_.threads[thread].tid));
  }
  void WritePacket(const ProtoMessage& message) { packets_.WritePacket(message); }

  // Timestamps are wall time; as boot time the same is said for readers that know no other.
  void WriteClocks() {
    ProtoMessage snapshot;
    for (const uint64_t clock : {kBoottimeClock, kRealtimeClock}) {
      ProtoMessage message;
      message.Varint(clock_snapshot::kClockId, clock)
          .Varint(clock_snapshot::kClockTimestamp, packets_.start_unix_ns());
      snapshot.Message(clock_snapshot::kClocks, message);
    }
    snapshot.Varint(clock_snapshot::kPrimaryTraceClock, kRealtimeClock);
    ProtoMessage packet;
    packet.Message(packet::kClockSnapshot, snapshot).Varint(packet::kSequenceId, ProcessSequence());
    WritePacket(packet);
  }

  // The first packet of a sequence: its track, its defaults and its categories.
  void StartSequence(uint64_t sequence, uint64_t track_uuid, const ProtoMessage& descriptor) {
    ProtoMessage track_event_defaults;
    track_event_defaults.Varint(defaults::kTrackUuid, track_uuid);
    ProtoMessage packet_defaults;
    packet_defaults.Message(defaults::kTrackEventDefaults, track_event_defaults)
        .Varint(defaults::kTimestampClockId, kRealtimeClock);
    ProtoMessage interned_data;
    AddInterned(interned::kEventCategories, kUserCategory, "user_annotation", interned_data);
    AddInterned(interned::kEventCategories, kOperatorCategory, "cpu_op", interned_data);
    AddInterned(interned::kEventCategories, kInstantCategory, "cpu_instant_event", interned_data);
    if (!plan_.links().calls().empty()) {
      AddInterned(interned::kEventCategories, kRuntimeCategory, "cuda_runtime", interned_data);
      AddInterned(interned::kEventCategories, kDriverCategory, "cuda_driver", interned_data);
    }
    if (!operators_.empty()) operators_.AddNames(interned_data);
    ProtoMessage packet;
    packet.Varint(packet::kSequenceId, sequence)
        .Varint(packet::kSequenceFlags, kStateCleared)
        .Varint(packet::kFirstOnSequence, 1)
        .Message(packet::kDefaults, packet_defaults)
        .Message(packet::kInternedData, interned_data)
        .Message(packet::kTrackDescriptor, descriptor);
    WritePacket(packet);
  }

  static void AddInterned(uint32_t field, uint64_t iid, std::string_view name,
                          ProtoMessage& interned_data) {
    PerfettoPackets::AddInterned(field, iid, name, interned_data);
  }

  void WriteTracks() {
    const CaptureRecord& record = reader_.record();
    std::string name;
    if (layout_.rank.has_value() && !layout_.place.is_merged) {
      StrAppend(&name, "rank ", *layout_.rank, " ");
    }
    StrAppend(&name, layout_.process_name);
    ProtoMessage process;
    process.Signed(track::kProcessPid, layout_.pid).Bytes(track::kProcessName, name);
    if (!record.node.empty()) process.Bytes(track::kProcessLabels, TraceName(record.node));
    if (layout_.place.is_merged) {
      process.Bytes(track::kProcessLabels, StrCat("pid ", record.target.pid));
    }
    ProtoMessage descriptor;
    descriptor.Varint(track::kUuid, ProcessUuid()).Message(track::kProcess, process);
    StartSequence(ProcessSequence(), ProcessUuid(), descriptor);
    for (size_t i = 0; i < layout_.threads.size(); ++i) WriteThreadTrack(i);
    if (!plan_.empty()) gpu_.WriteTracks();
  }

  void WriteThreadTrack(size_t thread) {
    const TraceRow& row = layout_.threads[thread];
    ProtoMessage message;
    message.Signed(track::kThreadPid, layout_.pid)
        .Signed(track::kThreadTid, row.tid)
        .Bytes(track::kThreadName, row.label);
    const uint64_t uuid = ThreadUuid(thread);
    ProtoMessage descriptor;
    descriptor.Varint(track::kUuid, uuid)
        .Varint(track::kParentUuid, ProcessUuid())
        .Message(track::kThread, message);
    StartSequence(ThreadSequence(thread), uuid, descriptor);
  }

  void WriteDescriptor(const ProtoMessage& descriptor) {
    ProtoMessage packet;
    packet.Varint(packet::kSequenceId, ProcessSequence())
        .Message(packet::kTrackDescriptor, descriptor);
    WritePacket(packet);
  }

  void WriteProcessEvent(int64_t time_ns, const ProtoMessage& event) {
    packets_.WriteEvent(ProcessSequence(), time_ns, event);
  }

  // What the capture is and how far to trust it, as an instant at its start.
  void WriteAbout() {
    const CaptureRecord& record = reader_.record();
    ProtoMessage event;
    event.Varint(event::kType, kInstant)
        .Varint(event::kCategoryIids, kInstantCategory)
        .Bytes(event::kName, "profd capture");
    AddAnnotation("capture", record.id, event);
    AddAnnotation("profd_version", PROFD_VERSION, event);
    AddAnnotation("state", ToString(record.state), event);
    AddAnnotation("ended_by", ToString(record.ended_by), event);
    AddAnnotation("quality_grade", QualityGrade(record), event);
    AddAnnotation("dropped_event_count", StrCat(TotalDrops(record.drops)), event);
    AddAnnotation("clock_error_ns", StrCat(record.clock_error_ns), event);
    if (!plan_.empty()) {
      AddAnnotation("gpu", ToString(record.gpu.outcome), event);
      AddAnnotation("gpu_clock_error_ns", StrCat(record.gpu.clock_error_ns), event);
    }
    if (HasTorch(record.torch)) {
      AddAnnotation("torch", ToString(record.torch.outcome), event);
      AddAnnotation("torch_version", record.torch.version, event);
    }
    if (record.gpu.simulated) AddAnnotation("simulated", "true", event);
    WriteProcessEvent(0, event);
  }

  // Steps have a track of their own: ranges may straddle them.
  void WriteSteps() {
    if (reader_.steps().empty()) return;
    const uint64_t uuid = Uuid(kSteps, 0);
    ProtoMessage descriptor;
    descriptor.Varint(track::kUuid, uuid)
        .Varint(track::kParentUuid, ProcessUuid())
        .Bytes(track::kName, "steps");
    WriteDescriptor(descriptor);
    for (const StepRecord& step : reader_.steps()) {
      ProtoMessage begin;
      begin.Varint(event::kType, kSliceBegin)
          .Varint(event::kTrackUuid, uuid)
          .Varint(event::kCategoryIids, kUserCategory)
          .Bytes(event::kName, StrCat(step_prefix_, step.index));
      WriteProcessEvent(step.start_ns, begin);
      ProtoMessage end;
      end.Varint(event::kType, kSliceEnd).Varint(event::kTrackUuid, uuid);
      WriteProcessEvent(static_cast<int64_t>(static_cast<uint64_t>(step.start_ns) +
                                             static_cast<uint64_t>(step.duration_ns)),
                        end);
    }
  }

  absl::Status WriteRanges() {
    return reader_.ForEach<RangeRow>(SliceOrder::kColumns, {}, [&](const RangeBatch& batch) {
      const uint64_t sequence = ThreadSequence(batch.thread);
      const bool has_calls = !calls_[batch.thread].calls.empty();
      for (const SliceEdge& edge : order_.Order(batch)) {
        if (has_calls) WriteCallsUntil(edge.time_ns, batch.thread);
        if (edge.is_begin) {
          WriteBegin(batch.thread, sequence, edge);
        } else {
          WriteEnd(sequence, edge.time_ns);
        }
      }
      return out_.status();
    });
  }

  // ---- API calls, among the ranges of their threads ----

  // What happened before an edge of a range: calls that end there end first, calls that begin
  // there begin after it.
  void WriteCallsUntil(int64_t time_ns, uint32_t thread) {
    ThreadCalls& calls = calls_[thread];
    while (true) {
      if (calls.end_ns.has_value()) {
        if (*calls.end_ns > time_ns) return;
        WriteEnd(ThreadSequence(thread), *calls.end_ns);
        calls.end_ns.reset();
      }
      if (calls.next == calls.calls.size()) return;
      const size_t call = plan_.links().PositionOf(calls.calls[calls.next]);
      const CallNesting::Place place = nesting_.PlaceOf(plan_.links(), call);
      if (place.sibling == 0) {
        if (place.start_ns >= time_ns) return;
        WriteCallBegin(thread, call, place.start_ns);
        calls.end_ns = place.end_ns;
      } else {
        calls_aside_.push_back(static_cast<uint32_t>(call));
      }
      ++calls.next;
    }
  }

  void WriteCallBegin(uint32_t thread, size_t position, int64_t start_ns) {
    const GpuLinks::Call& call = plan_.links().calls()[position];
    const uint64_t sequence = ThreadSequence(thread);
    ProtoMessage event;
    event.Varint(event::kType, kSliceBegin)
        .Varint(event::kCategoryIids, call.is_driver ? kDriverCategory : kRuntimeCategory)
        .Varint(event::kNameIid, NameIid(call.name));
    gpu_.DescribeCall(position, event);
    if (NameWasSent(thread, call.name)) {
      packets_.WriteEvent(sequence, start_ns, event);
    } else {
      WriteNamedEvent(sequence, start_ns, call.name, event);
    }
  }

  // After the last range of each thread; then those that stand aside.
  void WriteCallsLeft() {
    constexpr int64_t kEndOfTime = std::numeric_limits<int64_t>::max();
    std::vector<uint64_t> thread_uuids;
    for (uint32_t thread = 0; thread < calls_.size(); ++thread) {
      WriteCallsUntil(kEndOfTime, thread);
      thread_uuids.push_back(ThreadUuid(thread));
    }
    if (!calls_aside_.empty()) gpu_.WriteCallsAside(nesting_, calls_aside_, thread_uuids);
  }

  // Puts a packet's tag, its length to be filled in, and all that its kind of packet shares.
  char* StartSmallPacket(uint64_t sequence, int64_t time_ns, char*& length) {
    char* at = out_.Reserve(kMostSmallPacketBytes + 2);
    *at++ = trace::kPacket << 3 | 2;
    length = at++;
    *at++ = packet::kTimestamp << 3;
    at = PutVarint(at, UnixTime(time_ns));
    *at++ = packet::kSequenceId << 3;
    at = PutVarint(at, sequence);
    *at++ = packet::kSequenceFlags << 3;
    *at++ = kNeedsState;
    return at;
  }
  void EndSmallPacket(char* at, char* length) {
    *length = static_cast<char>(at - length - 1);
    out_.Commit(at);
  }

  void WriteBegin(uint32_t thread, uint64_t sequence, const SliceEdge& edge) {
    const PlannedOperator* const op = operators_.empty() ? nullptr : operators_.Find(edge.range);
    const bool name_was_sent = NameWasSent(thread, edge.name);
    if (edge.flags != 0 || op != nullptr || !name_was_sent || arguments_.HasAny(edge.range)) {
      WriteLongBegin(thread, sequence, edge, op, name_was_sent);
      return;
    }
    char* length = nullptr;
    char* at = StartSmallPacket(sequence, edge.time_ns, length);
    *at++ = packet::kTrackEvent << 3 | 2;
    char* const event_length = at++;
    *at++ = event::kType << 3;
    *at++ = kSliceBegin;
    *at++ = event::kCategoryIids << 3;
    *at++ = static_cast<char>(CategoryIid(edge.category, nullptr));
    *at++ = event::kNameIid << 3;
    at = PutVarint(at, NameIid(edge.name));
    *event_length = static_cast<char>(at - event_length - 1);
    EndSmallPacket(at, length);
  }

  void WriteEnd(uint64_t sequence, int64_t time_ns) {
    char* length = nullptr;
    char* at = StartSmallPacket(sequence, time_ns, length);
    *at++ = packet::kTrackEvent << 3 | 2;
    *at++ = 2;
    *at++ = event::kType << 3;
    *at++ = kSliceEnd;
    EndSmallPacket(at, length);
  }

  // A begin that brings its name along, or has annotations.
  void WriteLongBegin(uint32_t thread, uint64_t sequence, const SliceEdge& edge,
                      const PlannedOperator* op, bool name_was_sent) {
    ProtoMessage event;
    event.Varint(event::kType, kSliceBegin)
        .Varint(event::kCategoryIids, CategoryIid(edge.category, op))
        .Varint(event::kNameIid, NameIid(edge.name));
    if (edge.flags & kRangeOpen) AddAnnotation("finished", "false", event);
    if (edge.flags & kRangeTruncated) AddAnnotation("began_before_window", "true", event);
    if (edge.flags & kRangeUnended) {
      const bool is_open = (edge.flags & kRangeOpen) != 0;
      AddAnnotation(is_open ? "never_ended" : "ended_with_thread", "true", event);
    }
    for (const ShownArguments::Shown& shown : arguments_.ShownOf(edge.range)) {
      AddArgument(shown.key, *shown.argument, event);
    }
    ProtoMessage interned_data;
    bool is_new = !name_was_sent;
    if (!name_was_sent) AddName(edge.name, interned_data);
    if (op != nullptr) is_new |= operators_.Describe(*op, thread, event, interned_data);
    if (is_new) {
      WriteEventWith(interned_data, sequence, edge.time_ns, event);
    } else {
      packets_.WriteEvent(sequence, edge.time_ns, event);
    }
  }

  static void AddAnnotation(std::string_view name, std::string_view value, ProtoMessage& event) {
    ProtoMessage message;
    message.Bytes(annotation::kName, name).Bytes(annotation::kStringValue, value);
    event.Message(event::kDebugAnnotations, message);
  }

  void AddArgument(std::string_view key, const ShownArguments::Argument& argument,
                   ProtoMessage& event) const {
    ProtoMessage message;
    message.Bytes(annotation::kName, key);
    if (argument.type == ArgumentType::kInteger) {
      message.Signed(annotation::kIntValue, argument.value);
    } else if (argument.type == ArgumentType::kReal) {
      message.Double(annotation::kDoubleValue, std::bit_cast<double>(argument.value));
    } else {
      const std::string json = arguments_.JsonOf(argument);
      const auto value = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
      message.Bytes(annotation::kStringValue,
                    value.is_string() ? value.get_ref<const std::string&>() : json);
    }
    event.Message(event::kDebugAnnotations, message);
  }

  void AddName(uint32_t name, ProtoMessage& interned_data) {
    AddInterned(interned::kEventNames, NameIid(name), TraceName(reader_.names()[name]),
                interned_data);
  }

  void WriteNamedEvent(uint64_t sequence, int64_t time_ns, uint32_t name,
                       const ProtoMessage& event) {
    ProtoMessage interned_data;
    AddName(name, interned_data);
    WriteEventWith(interned_data, sequence, time_ns, event);
  }

  void WriteEventWith(const ProtoMessage& interned_data, uint64_t sequence, int64_t time_ns,
                      const ProtoMessage& event) {
    ProtoMessage packet;
    packet.Varint(packet::kTimestamp, UnixTime(time_ns))
        .Varint(packet::kSequenceId, sequence)
        .Varint(packet::kSequenceFlags, kNeedsState)
        .Message(packet::kInternedData, interned_data)
        .Message(packet::kTrackEvent, event);
    WritePacket(packet);
  }

  static uint64_t CategoryIid(uint8_t category, const PlannedOperator* op) {
    return IsOperator(category, op) ? kOperatorCategory : kUserCategory;
  }
  static uint64_t NameIid(uint32_t name) { return uint64_t{name} + 1; }

  // True if this thread's sequence has the name; from now on it has.
  bool NameWasSent(uint32_t thread, uint32_t name) {
    std::vector<bool>& sent = sent_names_[thread];
    if (name >= sent.size()) sent.resize(name + 1);
    if (sent[name]) return true;
    sent[name] = true;
    return false;
  }

  absl::Status WriteInstants() {
    return reader_.ForEach<InstantRow>([&](const InstantBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) {
        ProtoMessage event;
        event.Varint(event::kType, kInstant)
            .Varint(event::kCategoryIids, kInstantCategory)
            .Varint(event::kNameIid, NameIid(batch.name[i]));
        WriteNamedEvent(ThreadSequence(batch.thread), batch.time_ns[i], batch.name[i], event);
      }
      return out_.status();
    });
  }

  absl::Status WriteNotes() {
    return reader_.ForEach<NoteRow>([&](const NoteBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) {
        if (!IsShown(batch, i)) continue;
        const TraceNote note = DescribeNote(batch, i, reader_.names());
        // What holds for the whole capture stands at its start, on the process.
        const bool is_timeless = batch.time_ns[i] == kNoNoteTime;
        ProtoMessage event;
        event.Varint(event::kType, kInstant)
            .Varint(event::kTrackUuid, is_timeless ? ProcessUuid() : ThreadUuid(batch.thread))
            .Varint(event::kCategoryIids, kInstantCategory)
            .Bytes(event::kName, note.name);
        for (const auto& [key, value] : note.texts) AddAnnotation(key, value, event);
        for (const auto& [key, value] : note.numbers) AddNumber(key, value, event);
        WriteProcessEvent(is_timeless ? 0 : batch.time_ns[i], event);
      }
      return out_.status();
    });
  }

  static void AddNumber(std::string_view name, int64_t value, ProtoMessage& event) {
    ProtoMessage message;
    message.Bytes(annotation::kName, name).Signed(annotation::kIntValue, value);
    event.Message(event::kDebugAnnotations, message);
  }

  absl::Status WriteCounters() {
    return reader_.ForEach<CounterRow>([&](const CounterBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) {
        const std::string name = TraceName(reader_.names()[batch.name[i]]);
        if (std::isfinite(batch.value[i])) {
          WriteCounter(batch.time_ns[i], CounterTrack(kNamedCounter, name, 0), batch.value[i]);
        } else {
          WriteNonFinite(batch.thread, batch.time_ns[i], NonFiniteLabel(name, batch.value[i]));
        }
      }
      return out_.status();
    });
  }

  // The track of this name, described at its first use. `unit` 0: none.
  uint64_t CounterTrack(TrackKind kind, std::string_view name, uint32_t unit) {
    const uint64_t uuid = Mix(Uuid(kind, 0), name) | 1;
    if (!counter_tracks_.try_emplace(uuid).second) return uuid;
    ProtoMessage counter;
    if (unit != 0) counter.Varint(track::kCounterUnit, unit);
    ProtoMessage descriptor;
    descriptor.Varint(track::kUuid, uuid)
        .Varint(track::kParentUuid, ProcessUuid())
        .Bytes(track::kName, name)
        .Message(track::kCounter, counter);
    WriteDescriptor(descriptor);
    return uuid;
  }

  void WriteCounter(int64_t time_ns, uint64_t track_uuid, double value) {
    ProtoMessage event;
    event.Varint(event::kType, kCounter)
        .Varint(event::kTrackUuid, track_uuid)
        .Double(event::kDoubleCounterValue, value);
    WriteProcessEvent(time_ns, event);
  }

  void WriteNonFinite(uint32_t thread, int64_t time_ns, std::string_view label) {
    ProtoMessage event;
    event.Varint(event::kType, kInstant)
        .Varint(event::kTrackUuid, ThreadUuid(thread))
        .Varint(event::kCategoryIids, kInstantCategory)
        .Bytes(event::kName, label);
    WriteProcessEvent(time_ns, event);
  }

  absl::Status WriteMemory() {
    ASSIGN_OR_RETURN(
        const report::MemoryTimeline timeline,
        report::SummarizeMemory(reader_, {.max_points = kMemoryCurvePoints, .peak_by_op = false}));
    for (const report::DeviceMemory& device : timeline.devices) {
      const uint64_t uuid = CounterTrack(kMemory, MemoryCurveName(device), kUnitBytes);
      for (const report::MemoryPoint& point : device.points) {
        ProtoMessage event;
        event.Varint(event::kType, kCounter)
            .Varint(event::kTrackUuid, uuid)
            .Signed(event::kCounterValue, point.allocated_bytes);
        WriteProcessEvent(point.time_ns, event);
      }
    }
    return out_.status();
  }

  store::CaptureReader& reader_;
  OutputBuffer& out_;
  const TraceLayout& layout_;
  const GpuPlan& plan_;
  const CallNesting& nesting_;
  PerfettoPackets packets_;
  PerfettoGpu gpu_;
  PerfettoOperators operators_;
  const ShownArguments& arguments_;
  const std::string_view step_prefix_;
  struct ThreadCalls {
    std::span<const GpuLinks::Call> calls;
    size_t next = 0;
    std::optional<int64_t> end_ns;  // Of the one that has begun.
  };
  std::vector<ThreadCalls> calls_;     // By thread.
  std::vector<uint32_t> calls_aside_;  // By position.
  SliceOrder order_;
  std::vector<std::vector<bool>> sent_names_;  // By thread and name.
  absl::flat_hash_map<uint64_t, bool> counter_tracks_;
};

}  // namespace

absl::StatusOr<uint64_t> WritePerfettoTrace(store::CaptureReader& reader, const TracePlace& place,
                                            OutputBuffer& out) {
  const TraceLayout layout = MakeLayout(reader, place);
  ASSIGN_OR_RETURN(const GpuPlan plan, GpuPlan::Make(reader, layout));
  ASSIGN_OR_RETURN(const CallNesting nesting,
                   CallNesting::Make(reader, plan.links(),
                                     {.clock_error_ns = ClockErrorOfCalls(reader.record())}));
  ASSIGN_OR_RETURN(const OperatorPlan operators, OperatorPlan::Make(reader));
  ASSIGN_OR_RETURN(report::StackTable stacks, report::StackTable::Build(reader));
  ASSIGN_OR_RETURN(report::RangeArguments of_ranges, report::RangeArguments::Read(reader));
  const ShownArguments arguments(std::move(of_ranges));
  ASSIGN_OR_RETURN(const std::string_view step_prefix, StepPrefix(reader));
  RETURN_IF_ERROR(PerfettoWriter(reader, layout, plan, nesting, operators, std::move(stacks),
                                 arguments, step_prefix, out)
                      .Write());
  return PerfettoWriter::GpuSequence(layout) + 1;
}

}  // namespace profd::exporter
