#include "daemon/check/perfetto_check.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/check/perfetto_flows.h"
#include "daemon/check/proto_reader.h"

namespace profd::check {
namespace {

constexpr size_t kMostPacketBytes = size_t{64} << 20;
constexpr size_t kMostInterned = 4'000'000;
constexpr size_t kMostTracks = 1'000'000;
constexpr size_t kMostSequences = 100'000;
constexpr uint64_t kFirstSequenceClock = 64;
constexpr uint64_t kLastSequenceClock = 127;

// Field numbers of the public schema (protos/perfetto/trace).
namespace packet_field {
constexpr uint32_t kClockSnapshot = 6, kTimestamp = 8, kSequence = 10, kTrackEvent = 11,
                   kInterned = 12, kFlags = 13, kClock = 58, kDefaults = 59, kTrack = 60;
}  // namespace packet_field
namespace event_field {
constexpr uint32_t kCategoryIid = 3, kAnnotation = 4, kLegacy = 6, kType = 9, kNameIid = 10,
                   kTrack = 11, kName = 23, kFlow = 47, kTerminatingFlow = 48;
}  // namespace event_field
enum EventType : uint64_t { kBegin = 1, kEnd = 2, kInstant = 3, kCounter = 4 };
enum SequenceFlags : uint64_t { kCleared = 1, kNeedsState = 2 };

// Of one sequence, what of a kind is interned: a hash of the name, by id.
using Interned = absl::flat_hash_map<uint64_t, size_t>;

struct SequenceClock {
  bool is_incremental = false;
  uint64_t unit_ns = 1;
  uint64_t now = 0;
};

struct Sequence {
  bool cleared = false;
  uint64_t default_track = 0;
  uint64_t default_clock = 0;
  Interned categories;
  Interned names;
  Interned annotation_names;
  Interned annotation_texts;
  absl::flat_hash_map<uint64_t, SequenceClock> clocks;
};

struct Track {
  bool is_described = false;
  bool is_counter = false;
  uint64_t parent = 0;
  std::string name;
  int64_t depth = 0;
  int64_t last_ns = 0;
  uint64_t last_clock = 0;
};

struct Packet {
  int64_t number = 0;
  uint64_t sequence = 0;
  uint64_t flags = 0;
  bool has_time = false;
  bool has_clock = false;
  uint64_t time = 0;
  uint64_t clock = 0;
  std::string_view event, interned, clocks, defaults, track;
  bool has_event = false;
};

struct Event {
  uint64_t type = 0;
  uint64_t track = 0;
  bool has_track = false;
  bool has_name = false;
  bool is_legacy = false;
  std::string_view name;
};

class PerfettoChecker {
 public:
  PerfettoChecker(FindingLog& log, CheckReport& report) : log_(log), report_(report) {}

  // False: the bytes are no packet.
  bool Check(std::string_view bytes) {
    Packet packet{.number = packets_++};
    ProtoReader fields(bytes);
    while (fields.Next()) ReadField(fields, packet);
    if (!fields.ok()) return false;
    if (packet.sequence == 0) {
      if (packet.has_event) log_.Add(Rule::kPacketSequence, "packet ", packet.number);
      return true;
    }
    if (sequences_.size() >= kMostSequences && !sequences_.contains(packet.sequence)) {
      ++left_out_;
      return true;
    }
    Sequence& sequence = sequences_[packet.sequence];
    // Whatever the sequence interned and defined before is forgotten, as readers forget it.
    if (packet.flags & kCleared) {
      sequence = Sequence();
      sequence.cleared = true;
    }
    return ReadDefaults(packet.defaults, sequence) && ReadInterned(packet, sequence) &&
           ReadClocks(packet, sequence) && ReadTrack(packet.track) &&
           (!packet.has_event || CheckEvent(packet, sequence));
  }

  void Judge() {
    if (left_out_ > 0) {
      report_.unchecked.push_back(StrCat(left_out_, " packets, of sequences after the first ",
                                         kMostSequences, ", and so slices, tracks and arrows"));
      return;
    }
    for (const auto& [uuid, track] : tracks_) {
      const std::string name = NameOf(uuid, track);
      if (track.depth > 0) {
        log_.AddMany(Rule::kSliceBalance, track.depth,
                     StrCat(track.depth, " slices of ", name, " have no end"));
      }
      if (track.parent != 0 && !IsDescribed(track.parent) && tracks_.size() < kMostTracks) {
        log_.Add(Rule::kTrack, "the parent of ", name, " is not described");
      }
    }
    if (flows_.whole()) {
      flows_.Judge(log_);
    } else {
      report_.unchecked.push_back("arrows: there are too many");
    }
    if (interned_ >= kMostInterned) {
      report_.unchecked.push_back(StrCat("names after the first ", kMostInterned));
    }
    if (tracks_.size() >= kMostTracks) {
      report_.unchecked.push_back(StrCat("tracks after the first ", kMostTracks));
    }
  }

 private:
  static void ReadField(const ProtoReader& field, Packet& packet) {
    switch (field.number()) {
      case packet_field::kSequence:
        packet.sequence = field.value();
        break;
      case packet_field::kFlags:
        packet.flags = field.value();
        break;
      case packet_field::kTimestamp:
        packet.has_time = true;
        packet.time = field.value();
        break;
      case packet_field::kClock:
        packet.has_clock = true;
        packet.clock = field.value();
        break;
      case packet_field::kTrackEvent:
        packet.has_event = true;
        packet.event = field.bytes();
        break;
      case packet_field::kInterned:
        packet.interned = field.bytes();
        break;
      case packet_field::kClockSnapshot:
        packet.clocks = field.bytes();
        break;
      case packet_field::kDefaults:
        packet.defaults = field.bytes();
        break;
      case packet_field::kTrack:
        packet.track = field.bytes();
        break;
      default:
        break;
    }
  }

  static bool ReadDefaults(std::string_view bytes, Sequence& sequence) {
    ProtoReader fields(bytes);
    while (fields.Next()) {
      if (fields.number() == packet_field::kClock) sequence.default_clock = fields.value();
      if (fields.number() != packet_field::kTrackEvent) continue;
      ProtoReader event(fields.bytes());
      while (event.Next()) {
        if (event.number() == event_field::kTrack) sequence.default_track = event.value();
      }
      if (!event.ok()) return false;
    }
    return fields.ok();
  }

  bool ReadInterned(const Packet& packet, Sequence& sequence) {
    ProtoReader fields(packet.interned);
    while (fields.Next()) {
      Interned* const table = fields.number() == 1    ? &sequence.categories
                              : fields.number() == 2  ? &sequence.names
                              : fields.number() == 3  ? &sequence.annotation_names
                              : fields.number() == 29 ? &sequence.annotation_texts
                                                      : nullptr;
      if (table != nullptr && !Intern(fields.bytes(), packet, *table)) return false;
    }
    return fields.ok();
  }

  bool Intern(std::string_view bytes, const Packet& packet, Interned& table) {
    uint64_t iid = 0;
    std::string_view name;
    ProtoReader fields(bytes);
    while (fields.Next()) {
      if (fields.number() == 1 && fields.is_varint()) iid = fields.value();
      if (fields.number() == 2) name = fields.bytes();
    }
    if (!fields.ok()) return false;
    if (iid == 0) {
      log_.Add(Rule::kInterning, "packet ", packet.number, " interns a name without an id");
      return true;
    }
    if (interned_ >= kMostInterned) return true;
    ++interned_;
    const size_t hash = std::hash<std::string_view>()(name);
    // A sequence may give an ID again with the same name. Only another name is a breach.
    const auto [at, is_new] = table.emplace(iid, hash);
    if (!is_new && at->second != hash) {
      log_.Add(Rule::kInterning, "packet ", packet.number, " gives the id ", iid,
               " another name: ", ForDisplay(name, 80));
    }
    return true;
  }

  static bool ReadClocks(const Packet& packet, Sequence& sequence) {
    ProtoReader fields(packet.clocks);
    while (fields.Next()) {
      if (fields.number() != 1) continue;
      SequenceClock clock;
      uint64_t id = 0;
      ProtoReader of_clock(fields.bytes());
      while (of_clock.Next()) {
        if (of_clock.number() == 1) id = of_clock.value();
        if (of_clock.number() == 2) clock.now = of_clock.value();
        if (of_clock.number() == 3) clock.is_incremental = of_clock.value() != 0;
        if (of_clock.number() == 4) clock.unit_ns = of_clock.value();
      }
      if (!of_clock.ok()) return false;
      if (id >= kFirstSequenceClock && id <= kLastSequenceClock) sequence.clocks[id] = clock;
    }
    return fields.ok();
  }

  bool ReadTrack(std::string_view bytes) {
    if (bytes.empty()) return true;
    uint64_t uuid = 0;
    Track described{.is_described = true};
    ProtoReader fields(bytes);
    while (fields.Next()) {
      if (fields.number() == 1) uuid = fields.value();
      if (fields.number() == 2) described.name = ForDisplay(fields.bytes(), 80);
      if (fields.number() == 5) described.parent = fields.value();
      if (fields.number() == 8) described.is_counter = true;
    }
    if (!fields.ok()) return false;
    if (uuid == 0) {
      log_.Add(Rule::kTrack, "a track has no uuid: ", described.name);
      return true;
    }
    if (Track* const track = FindTrack(uuid)) {
      track->is_described = true;
      track->is_counter = described.is_counter;
      track->parent = described.parent;
      track->name = std::move(described.name);
    }
    return true;
  }

  // Null where there are too many.
  Track* FindTrack(uint64_t uuid) {
    const auto found = tracks_.find(uuid);
    if (found != tracks_.end()) return &found->second;
    return tracks_.size() < kMostTracks ? &tracks_[uuid] : nullptr;
  }
  bool IsDescribed(uint64_t uuid) const {
    const auto found = tracks_.find(uuid);
    return found != tracks_.end() && found->second.is_described;
  }
  static std::string NameOf(uint64_t uuid, const Track& track) {
    return track.name.empty() ? StrCat("track ", uuid) : StrCat("track \"", track.name, "\"");
  }

  bool CheckEvent(const Packet& packet, Sequence& sequence) {
    ++report_.event_count;
    if ((packet.flags & kNeedsState) && !sequence.cleared) {
      log_.Add(Rule::kPacketState, "packet ", packet.number, " of sequence ", packet.sequence);
    }
    const uint64_t clock = packet.has_clock ? packet.clock : sequence.default_clock;
    if (!packet.has_time)
      log_.Add(Rule::kPacketTime, "packet ", packet.number, " has no timestamp");
    const int64_t time_ns = TimeOf(packet, clock, sequence);
    Event event{.track = sequence.default_track};
    ProtoReader fields(packet.event);
    while (fields.Next()) {
      if (!ReadEventField(fields, packet, sequence, event)) return false;
      const bool terminates = fields.number() == event_field::kTerminatingFlow;
      if (terminates || fields.number() == event_field::kFlow) {
        flows_.Add({fields.value(), time_ns, packet.number, terminates, ClockKey(packet, clock)});
      }
    }
    if (!fields.ok()) return false;
    if (!event.is_legacy) CheckOnTrack(packet, event, time_ns, ClockKey(packet, clock));
    return true;
  }

  // Clocks of a sequence are comparable in it alone.
  static uint64_t ClockKey(const Packet& packet, uint64_t clock) {
    const bool is_own = clock >= kFirstSequenceClock && clock <= kLastSequenceClock;
    return is_own ? packet.sequence << 8 | clock : clock;
  }

  static int64_t TimeOf(const Packet& packet, uint64_t clock_id, Sequence& sequence) {
    const auto found = sequence.clocks.find(clock_id);
    if (found == sequence.clocks.end()) return static_cast<int64_t>(packet.time);
    SequenceClock& clock = found->second;
    if (!clock.is_incremental) return static_cast<int64_t>(packet.time * clock.unit_ns);
    // Of an incremental clock the packet has the difference to the sequence's packet before it.
    clock.now += packet.time;
    return static_cast<int64_t>(clock.now * clock.unit_ns);
  }

  bool ReadEventField(const ProtoReader& field, const Packet& packet, const Sequence& sequence,
                      Event& event) {
    switch (field.number()) {
      case event_field::kType:
        event.type = field.value();
        return true;
      case event_field::kTrack:
        event.track = field.value();
        return true;
      case event_field::kName:
        event.has_name = true;
        event.name = field.bytes();
        return true;
      case event_field::kNameIid:
        event.has_name = true;
        LookUp(sequence.names, field.value(), packet, "name");
        return true;
      case event_field::kLegacy:
        event.is_legacy = true;
        return true;
      case event_field::kCategoryIid:
        return LookUpCategories(field, packet, sequence);
      case event_field::kAnnotation:
        return LookUpAnnotation(field.bytes(), packet, sequence);
      default:
        return true;
    }
  }

  void LookUp(const Interned& table, uint64_t iid, const Packet& packet, std::string_view what) {
    if (table.contains(iid) || interned_ >= kMostInterned) return;
    log_.Add(Rule::kInterning, "packet ", packet.number, " uses the ", what, " ", iid,
             ", which its sequence does not know");
  }

  // One, or several in one field.
  bool LookUpCategories(const ProtoReader& field, const Packet& packet, const Sequence& sequence) {
    if (field.is_varint()) {
      LookUp(sequence.categories, field.value(), packet, "category");
      return true;
    }
    std::string_view packed = field.bytes();
    while (!packed.empty()) {
      const auto iid = TakeVarint(packed);
      if (!iid.has_value()) return false;
      LookUp(sequence.categories, *iid, packet, "category");
    }
    return true;
  }

  bool LookUpAnnotation(std::string_view bytes, const Packet& packet, const Sequence& sequence) {
    ProtoReader fields(bytes);
    while (fields.Next()) {
      if (fields.number() == 1) {
        LookUp(sequence.annotation_names, fields.value(), packet, "annotation");
      } else if (fields.number() == 17) {
        LookUp(sequence.annotation_texts, fields.value(), packet, "annotation's text");
      }
    }
    return fields.ok();
  }

  void CheckOnTrack(const Packet& packet, const Event& event, int64_t time_ns, uint64_t clock) {
    // Without one, an event stands on its thread's: of that nothing is known here.
    if (event.track == 0) return;
    Track* const track = FindTrack(event.track);
    if (track == nullptr) return;
    if (!track->is_described) {
      log_.Add(Rule::kTrack, "packet ", packet.number, " is on ", NameOf(event.track, *track),
               ", which is not described");
    } else if (track->is_counter != (event.type == kCounter)) {
      log_.Add(Rule::kTrack, "packet ", packet.number, " is a ",
               track->is_counter ? "slice on a counter" : "counter on a slice",
               " track: ", NameOf(event.track, *track));
    }
    if (event.type != kBegin && event.type != kEnd) return;
    if (track->last_clock == clock && time_ns < track->last_ns) {
      // Unsigned, because hostile times may be further apart than 2^63 ns.
      const uint64_t early_ns =
          static_cast<uint64_t>(track->last_ns) - static_cast<uint64_t>(time_ns);
      log_.Add(Rule::kSliceOrder, "packet ", packet.number, " is ", early_ns,
               " ns before the one before it on ", NameOf(event.track, *track));
    }
    track->last_ns = time_ns;
    track->last_clock = clock;
    if (event.type == kBegin) {
      ++track->depth;
      if (!event.has_name) {
        log_.Add(Rule::kInterning, "packet ", packet.number, " begins a slice without a name");
      }
    } else if (track->depth == 0) {
      log_.Add(Rule::kSliceBalance, "packet ", packet.number, " ends a slice of ",
               NameOf(event.track, *track), " that did not begin");
    } else {
      --track->depth;
    }
  }

  FindingLog& log_;
  CheckReport& report_;
  int64_t packets_ = 0;
  int64_t left_out_ = 0;  // Packets, of too many sequences.
  size_t interned_ = 0;
  absl::flat_hash_map<uint64_t, Sequence> sequences_;
  absl::flat_hash_map<uint64_t, Track> tracks_;
  PerfettoFlows flows_;
};

// Cuts the file into packets.
class PacketSplitter {
 public:
  explicit PacketSplitter(ByteSource& source) : source_(source) {}

  // Empty at the end; nothing where there is no packet. `offset` is its first byte's.
  absl::StatusOr<std::optional<std::string_view>> Next(uint64_t& offset) {
    RETURN_IF_ERROR(Fill(kMostHeaderBytes));
    offset = offset_;
    std::string_view rest = Rest();
    if (rest.empty()) return std::string_view();
    const size_t before = rest.size();
    // A trace is one message, Trace, with packets in its field 1: each begins with that field's tag
    // for length-delimited data, 0x0a.
    if (rest.front() != '\x0a') return std::nullopt;
    rest.remove_prefix(1);
    const std::optional<uint64_t> length = TakeVarint(rest);
    if (!length.has_value() || *length > kMostPacketBytes || *length == 0) return std::nullopt;
    const size_t header = before - rest.size();
    RETURN_IF_ERROR(Fill(header + *length));
    if (Rest().size() < header + *length) return std::nullopt;
    const std::string_view packet = Rest().substr(header, *length);
    at_ += header + *length;
    offset_ += header + *length;
    return packet;
  }

 private:
  static constexpr size_t kMostHeaderBytes = 11;

  std::string_view Rest() const { return std::string_view(buffer_).substr(at_); }

  absl::Status Fill(size_t wanted) {
    if (buffer_.size() - at_ >= wanted) return absl::OkStatus();
    buffer_.erase(0, std::exchange(at_, 0));
    while (buffer_.size() < wanted) {
      ASSIGN_OR_RETURN(const std::string_view piece, source_.Next());
      if (piece.empty()) break;
      buffer_.append(piece);
    }
    return absl::OkStatus();
  }

  ByteSource& source_;
  std::string buffer_;
  size_t at_ = 0;
  uint64_t offset_ = 0;
};

}  // namespace

absl::Status CheckPerfetto(ByteSource& source, FindingLog& log, CheckReport& report) {
  PerfettoChecker checker(log, report);
  PacketSplitter packets(source);
  while (true) {
    uint64_t offset = 0;
    ASSIGN_OR_RETURN(const auto packet, packets.Next(offset));
    if (packet.has_value() && packet->empty()) break;
    if (!packet.has_value() || !checker.Check(*packet)) {
      // Slices and arrows may have ended after it: they are not judged.
      log.Add(Rule::kWireFormat, "what stands at byte ", offset, " is not a whole packet");
      return absl::OkStatus();
    }
  }
  checker.Judge();
  return absl::OkStatus();
}

}  // namespace profd::check
