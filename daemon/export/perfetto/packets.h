// The messages of Perfetto's traces that we write, by their numbers, and what all writers of
// packets share: the clock, the ids of tracks, the names.
#ifndef PROFD_DAEMON_EXPORT_PERFETTO_PACKETS_H_
#define PROFD_DAEMON_EXPORT_PERFETTO_PACKETS_H_

#include <cstdint>
#include <string_view>

#include "daemon/capture/capture_types.h"
#include "daemon/export/perfetto/proto_writer.h"
#include "daemon/export/sink/output_buffer.h"
#include "daemon/export/trace/clock.h"
#include "daemon/export/trace/layout.h"

namespace profd::exporter {

// Field numbers, by message.
namespace trace {
inline constexpr uint32_t kPacket = 1;
}
namespace packet {
inline constexpr uint32_t kClockSnapshot = 6;
inline constexpr uint32_t kTimestamp = 8;
inline constexpr uint32_t kSequenceId = 10;
inline constexpr uint32_t kTrackEvent = 11;
inline constexpr uint32_t kInternedData = 12;
inline constexpr uint32_t kSequenceFlags = 13;
inline constexpr uint32_t kDefaults = 59;
inline constexpr uint32_t kTrackDescriptor = 60;
inline constexpr uint32_t kFirstOnSequence = 87;
}  // namespace packet
namespace defaults {
inline constexpr uint32_t kTrackEventDefaults = 11;
inline constexpr uint32_t kTimestampClockId = 58;
inline constexpr uint32_t kTrackUuid = 11;  // Of TrackEventDefaults.
}  // namespace defaults
namespace clock_snapshot {
inline constexpr uint32_t kClocks = 1;
inline constexpr uint32_t kPrimaryTraceClock = 2;
inline constexpr uint32_t kClockId = 1;         // Of Clock.
inline constexpr uint32_t kClockTimestamp = 2;  // Of Clock.
}  // namespace clock_snapshot
namespace event {
inline constexpr uint32_t kCategoryIids = 3;
inline constexpr uint32_t kDebugAnnotations = 4;
inline constexpr uint32_t kType = 9;
inline constexpr uint32_t kNameIid = 10;
inline constexpr uint32_t kTrackUuid = 11;
inline constexpr uint32_t kName = 23;
inline constexpr uint32_t kCounterValue = 30;
inline constexpr uint32_t kDoubleCounterValue = 44;
inline constexpr uint32_t kFlowIds = 47;
inline constexpr uint32_t kTerminatingFlowIds = 48;
inline constexpr uint32_t kCallstackIid = 56;
}  // namespace event
namespace annotation {
inline constexpr uint32_t kNameIid = 1;
inline constexpr uint32_t kUintValue = 3;
inline constexpr uint32_t kIntValue = 4;
inline constexpr uint32_t kDoubleValue = 5;
inline constexpr uint32_t kStringValue = 6;
inline constexpr uint32_t kName = 10;
inline constexpr uint32_t kStringValueIid = 17;
}  // namespace annotation
namespace interned {
inline constexpr uint32_t kEventCategories = 1;
inline constexpr uint32_t kEventNames = 2;
inline constexpr uint32_t kAnnotationNames = 3;
inline constexpr uint32_t kFunctionNames = 5;
inline constexpr uint32_t kFrames = 6;
inline constexpr uint32_t kCallstacks = 7;
inline constexpr uint32_t kSourcePaths = 18;
inline constexpr uint32_t kAnnotationTexts = 29;
inline constexpr uint32_t kIid = 1;
inline constexpr uint32_t kName = 2;
}  // namespace interned
namespace frame {
inline constexpr uint32_t kFunctionName = 2;
inline constexpr uint32_t kSourcePath = 5;
inline constexpr uint32_t kLine = 6;
inline constexpr uint32_t kKind = 7;
inline constexpr uint64_t kInterpreted = 3;  // A kind.
}  // namespace frame
namespace callstack {
inline constexpr uint32_t kFrameIds = 2;
}  // namespace callstack
namespace track {
inline constexpr uint32_t kUuid = 1;
inline constexpr uint32_t kName = 2;
inline constexpr uint32_t kProcess = 3;
inline constexpr uint32_t kThread = 4;
inline constexpr uint32_t kParentUuid = 5;
inline constexpr uint32_t kCounter = 8;
inline constexpr uint32_t kChildOrdering = 11;
inline constexpr uint32_t kSiblingOrderRank = 12;
inline constexpr uint32_t kProcessPid = 1;
inline constexpr uint32_t kProcessName = 6;
inline constexpr uint32_t kProcessLabels = 8;
inline constexpr uint32_t kThreadPid = 1;
inline constexpr uint32_t kThreadTid = 2;
inline constexpr uint32_t kThreadName = 5;
inline constexpr uint32_t kCounterUnit = 3;
}  // namespace track

enum EventType : uint32_t { kSliceBegin = 1, kSliceEnd = 2, kInstant = 3, kCounter = 4 };
enum SequenceFlags : uint32_t { kStateCleared = 1, kNeedsState = 2 };
inline constexpr uint32_t kUnitBytes = 3;
inline constexpr uint32_t kExplicitOrder = 3;
inline constexpr uint64_t kRealtimeClock = 1;
inline constexpr uint64_t kBoottimeClock = 6;

inline constexpr uint64_t kUserCategory = 1;
inline constexpr uint64_t kOperatorCategory = 2;
inline constexpr uint64_t kInstantCategory = 3;
inline constexpr uint64_t kRuntimeCategory = 4;
inline constexpr uint64_t kDriverCategory = 5;

// What a track or a flow is made for; part of its uuid.
enum TrackKind : uint64_t {
  kProcess = 1,
  kThread = 2,
  kSteps = 3,
  kNamedCounter = 4,
  kMemory = 5,
  kGpuProcess = 6,
  kGpuRow = 7,
  kCalls = 8,
  kOperatorFlow = 9,  // No track: flows between operators.
};

inline uint64_t Mix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15ULL + (hash << 6) + (hash >> 2);
  hash ^= hash >> 30;
  hash *= 0xbf58476d1ce4e5b9ULL;
  hash ^= hash >> 27;
  hash *= 0x94d049bb133111ebULL;
  return hash ^ (hash >> 31);
}
inline uint64_t Mix(uint64_t hash, std::string_view text) {
  for (const char c : text) hash = Mix(hash, static_cast<uint8_t>(c));
  return hash;
}

// Threads: one. Ownership: borrows `out`.
class PerfettoPackets {
 public:
  PerfettoPackets(const CaptureRecord& record, const TracePlace& place, OutputBuffer& out)
      : out_(out),
        clock_{static_cast<uint64_t>(place.start_unix_ns), place.drift},
        // Files may say that two captures are of one process.
        identity_(
            Mix(Mix(Mix(1 + place.number, record.node), static_cast<uint64_t>(record.target.pid)),
                static_cast<uint64_t>(record.target.process_start_ticks))) {}

  OutputBuffer& out() { return out_; }
  uint64_t start_unix_ns() const { return clock_.offset_ns; }

  uint64_t UnixTime(int64_t time_ns) const { return clock_.At(time_ns); }

  // The same in all traces of a process, and in no other's.
  uint64_t Uuid(TrackKind kind, uint64_t id) const { return Mix(Mix(identity_, kind), id) | 1; }
  uint64_t ProcessUuid() const { return Uuid(kProcess, 0); }
  uint64_t FlowId(uint32_t correlation, uint32_t number) const {
    return Mix(Mix(identity_, correlation), number);
  }
  uint64_t OperatorFlowId(uint32_t number) const { return Uuid(kOperatorFlow, number); }

  void WritePacket(const ProtoMessage& message) {
    file_part_.Clear();
    file_part_.Message(trace::kPacket, message);
    out_.Append(file_part_.bytes());
  }

  // An event of a sequence whose defaults say which clock is meant.
  void WriteEvent(uint64_t sequence, int64_t time_ns, const ProtoMessage& event) {
    ProtoMessage packet;
    packet.Varint(packet::kTimestamp, UnixTime(time_ns))
        .Varint(packet::kSequenceId, sequence)
        .Varint(packet::kSequenceFlags, kNeedsState)
        .Message(packet::kTrackEvent, event);
    WritePacket(packet);
  }

  static void AddInterned(uint32_t field, uint64_t iid, std::string_view name,
                          ProtoMessage& interned_data) {
    ProtoMessage entry;
    entry.Varint(interned::kIid, iid).Bytes(interned::kName, name);
    interned_data.Message(field, entry);
  }

 private:
  OutputBuffer& out_;
  const TraceClock clock_;
  const uint64_t identity_;  // Of the process.
  ProtoMessage file_part_;
};

}  // namespace profd::exporter

#endif  // PROFD_DAEMON_EXPORT_PERFETTO_PACKETS_H_
