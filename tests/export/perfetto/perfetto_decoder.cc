#include "tests/export/perfetto/perfetto_decoder.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"

namespace profd {
namespace {

struct Field {
  uint32_t number = 0;
  uint32_t wire_type = 0;
  uint64_t value = 0;      // Of wire types 0, 1 and 5.
  std::string_view bytes;  // Of wire type 2.
};

class Message {
 public:
  static absl::StatusOr<Message> Parse(std::string_view bytes) {
    Message message;
    while (!bytes.empty()) {
      Field field;
      ASSIGN_OR_RETURN(const uint64_t tag, TakeVarint(bytes));
      field.number = static_cast<uint32_t>(tag >> 3);
      field.wire_type = tag & 7;
      if (field.number == 0) return absl::InvalidArgumentError("field 0");
      if (field.wire_type == 0) {
        ASSIGN_OR_RETURN(field.value, TakeVarint(bytes));
      } else if (field.wire_type == 2) {
        ASSIGN_OR_RETURN(const uint64_t length, TakeVarint(bytes));
        if (length > bytes.size()) return absl::InvalidArgumentError("a length past the end");
        field.bytes = bytes.substr(0, length);
        bytes.remove_prefix(length);
      } else if (field.wire_type == 1 && bytes.size() >= 8) {
        std::memcpy(&field.value, bytes.data(), 8);
        bytes.remove_prefix(8);
      } else {
        return absl::InvalidArgumentError(StrCat("wire type ", field.wire_type));
      }
      message.fields_.push_back(field);
    }
    return message;
  }

  bool Has(uint32_t number) const { return Find(number) != nullptr; }
  std::optional<uint64_t> Varint(uint32_t number) const {
    const Field* const field = Find(number);
    if (field == nullptr || field->wire_type != 0) return std::nullopt;
    return field->value;
  }
  std::string Text(uint32_t number) const {
    const Field* const field = Find(number);
    return field == nullptr ? std::string() : std::string(field->bytes);
  }
  std::optional<double> Double(uint32_t number) const {
    const Field* const field = Find(number);
    if (field == nullptr || field->wire_type != 1) return std::nullopt;
    return std::bit_cast<double>(field->value);
  }
  absl::StatusOr<Message> Sub(uint32_t number) const { return Parse(Bytes(number)); }
  std::string_view Bytes(uint32_t number) const {
    const Field* const field = Find(number);
    return field == nullptr ? std::string_view() : field->bytes;
  }
  const std::vector<Field>& fields() const { return fields_; }

 private:
  static absl::StatusOr<uint64_t> TakeVarint(std::string_view& bytes) {
    uint64_t value = 0;
    for (size_t i = 0; i < 10 && i < bytes.size(); ++i) {
      const auto byte = static_cast<uint8_t>(bytes[i]);
      value |= uint64_t{byte & 0x7FU} << (7 * i);
      if (byte < 0x80) {
        bytes.remove_prefix(i + 1);
        return value;
      }
    }
    return absl::InvalidArgumentError("a varint without end");
  }
  // The last one counts, as protobuf has it.
  const Field* Find(uint32_t number) const {
    for (auto field = fields_.rbegin(); field != fields_.rend(); ++field) {
      if (field->number == number) return &*field;
    }
    return nullptr;
  }
  std::vector<Field> fields_;
};

struct Sequence {
  bool cleared = false;
  std::optional<uint64_t> default_track;
  uint64_t clock = 6;
  std::map<uint64_t, std::string> categories;
  std::map<uint64_t, std::string> names;
  std::map<uint64_t, std::string> annotation_names;
  std::map<uint64_t, std::string> annotation_texts;
  std::map<uint64_t, std::string> functions;
  std::map<uint64_t, std::string> files;
  std::map<uint64_t, std::string> frames;
  std::map<uint64_t, std::vector<std::string>> callstacks;
  std::map<uint64_t, int64_t> last_slice_ns;  // By track.
};

struct Event {
  int64_t time_ns;
  uint64_t track;
  uint64_t type;
  std::string name;
  std::string category;
  std::map<std::string, std::string> annotations;
  double value;
  std::vector<std::string> callstack = {};
  std::vector<uint64_t> flows_out = {};
  std::vector<uint64_t> flows_in = {};
};

class Decoder {
 public:
  absl::StatusOr<PerfettoTrace> Decode(std::string_view bytes) {
    ASSIGN_OR_RETURN(const Message file, Message::Parse(bytes));
    for (const Field& field : file.fields()) {
      if (field.number != 1 || field.wire_type != 2) return absl::InvalidArgumentError("no packet");
      ASSIGN_OR_RETURN(const Message packet, Message::Parse(field.bytes));
      RETURN_IF_ERROR(DecodePacket(packet));
    }
    CheckTracks();
    PairEvents();
    PairFlows();
    return std::move(trace_);
  }

 private:
  template <typename... Parts>
  void Offend(const Parts&... parts) {
    if (trace_.offences.size() < 20) trace_.offences.push_back(StrCat(parts...));
  }

  absl::Status DecodePacket(const Message& packet) {
    const uint64_t sequence_id = packet.Varint(10).value_or(0);
    if (sequence_id == 0) Offend("a packet without sequence");
    Sequence& sequence = sequences_[sequence_id];
    const uint64_t flags = packet.Varint(13).value_or(0);
    if (flags & 1) {
      sequence = Sequence();
      sequence.cleared = true;
    }
    if ((flags & 2) && !sequence.cleared) Offend("a packet needs state that was never set");
    if (packet.Has(59)) RETURN_IF_ERROR(DecodeDefaults(packet, sequence));
    if (packet.Has(12)) RETURN_IF_ERROR(DecodeInterned(packet, sequence));
    if (packet.Has(6)) RETURN_IF_ERROR(DecodeClocks(packet));
    if (packet.Has(60)) RETURN_IF_ERROR(DecodeTrack(packet));
    if (packet.Has(11)) RETURN_IF_ERROR(DecodeEvent(packet, flags, sequence));
    return absl::OkStatus();
  }

  static absl::Status DecodeDefaults(const Message& packet, Sequence& sequence) {
    ASSIGN_OR_RETURN(const Message defaults, packet.Sub(59));
    ASSIGN_OR_RETURN(const Message track_event, defaults.Sub(11));
    sequence.default_track = track_event.Varint(11);
    sequence.clock = defaults.Varint(58).value_or(6);
    return absl::OkStatus();
  }

  absl::Status DecodeInterned(const Message& packet, Sequence& sequence) {
    ASSIGN_OR_RETURN(const Message interned, packet.Sub(12));
    for (const Field& field : interned.fields()) {
      ASSIGN_OR_RETURN(const Message entry, Message::Parse(field.bytes));
      const uint64_t iid = entry.Varint(1).value_or(0);
      if (iid == 0) Offend("an interned entry without id");
      if (field.number == 6 || field.number == 7) {
        DecodeStacks(field.number == 6, iid, entry, sequence);
        continue;
      }
      std::string name = entry.Text(2);
      const bool is_text = field.number == 29;  // Of an annotation; any text.
      if (name.empty() || name.size() > (is_text ? size_t{24} << 10 : 4096) ||
          !(is_text ? IsValidUtf8(name) : IsPrintableUtf8(name))) {
        Offend("an interned name is empty, too long or not printable UTF-8");
      }
      std::map<uint64_t, std::string>& table = field.number == 1    ? sequence.categories
                                               : field.number == 2  ? sequence.names
                                               : field.number == 5  ? sequence.functions
                                               : field.number == 18 ? sequence.files
                                               : is_text            ? sequence.annotation_texts
                                                                    : sequence.annotation_names;
      const auto [at, inserted] = table.emplace(iid, name);
      if (!inserted && at->second != name) Offend("id ", iid, " was given to two names");
    }
    return absl::OkStatus();
  }

  // Frames and callstacks; what they refer to comes before them.
  void DecodeStacks(bool is_frame, uint64_t iid, const Message& entry, Sequence& sequence) {
    if (is_frame) {
      std::string text = Lookup(sequence.functions, entry.Varint(2).value_or(0));
      if (const auto file = entry.Varint(5)) {
        StrAppend(&text, " ", Lookup(sequence.files, *file), ":", entry.Varint(6).value_or(0));
      }
      if (!sequence.frames.emplace(iid, text).second) Offend("frame ", iid, " was given twice");
      return;
    }
    std::vector<std::string> frames;
    for (const Field& field : entry.fields()) {
      if (field.number == 2) frames.push_back(Lookup(sequence.frames, field.value));
    }
    if (frames.empty()) Offend("an empty callstack");
    if (!sequence.callstacks.emplace(iid, frames).second) Offend("callstack ", iid, " given twice");
  }

  absl::Status DecodeClocks(const Message& packet) {
    ASSIGN_OR_RETURN(const Message snapshot, packet.Sub(6));
    for (const Field& field : snapshot.fields()) {
      if (field.number != 1) continue;
      ASSIGN_OR_RETURN(const Message clock, Message::Parse(field.bytes));
      clocks_[clock.Varint(1).value_or(0)] = clock.Varint(2).value_or(0);
    }
    return absl::OkStatus();
  }

  absl::Status DecodeTrack(const Message& packet) {
    ASSIGN_OR_RETURN(const Message descriptor, packet.Sub(60));
    const uint64_t uuid = descriptor.Varint(1).value_or(0);
    if (uuid == 0) Offend("a track without uuid");
    PerfettoTrack track;
    track.parent = descriptor.Varint(5).value_or(0);
    track.name = descriptor.Text(2);
    track.rank = descriptor.Varint(12).value_or(0);
    if (descriptor.Has(3)) {
      ASSIGN_OR_RETURN(const Message process, descriptor.Sub(3));
      track.pid = static_cast<int64_t>(process.Varint(1).value_or(0));
      track.name = process.Text(6);
    }
    if (descriptor.Has(4)) {
      ASSIGN_OR_RETURN(const Message thread, descriptor.Sub(4));
      track.pid = static_cast<int64_t>(thread.Varint(1).value_or(0));
      track.tid = static_cast<int64_t>(thread.Varint(2).value_or(0));
      track.name = thread.Text(5);
      if (!threads_.emplace(track.pid, track.tid).second) Offend("two tracks of one thread");
    }
    if (descriptor.Has(8)) {
      ASSIGN_OR_RETURN(const Message counter, descriptor.Sub(8));
      track.is_counter = true;
      track.unit = counter.Varint(3).value_or(0);
    }
    if (track.parent != 0 && !trace_.tracks.contains(track.parent)) {
      Offend("track ", track.name, " comes before its parent");
    }
    if (!trace_.tracks.emplace(uuid, track).second) Offend("two tracks have one uuid");
    return absl::OkStatus();
  }

  absl::Status DecodeEvent(const Message& packet, uint64_t flags, Sequence& sequence) {
    ASSIGN_OR_RETURN(const Message event, packet.Sub(11));
    const std::optional<uint64_t> time_ns = packet.Varint(8);
    if (!time_ns.has_value()) Offend("an event without time");
    if (!(flags & 2)) Offend("an event uses state without saying so");
    CheckClock(packet.Varint(58).value_or(sequence.clock));
    const std::optional<uint64_t> track = event.Has(11) ? event.Varint(11) : sequence.default_track;
    if (!track.has_value()) Offend("an event without track");
    Event decoded = {.time_ns = static_cast<int64_t>(time_ns.value_or(0)),
                     .track = track.value_or(0),
                     .type = event.Varint(9).value_or(0),
                     .name = event.Text(23),
                     .category = "",
                     .annotations = {},
                     .value = 0};
    if (const auto iid = event.Varint(56)) {
      const auto found = sequence.callstacks.find(*iid);
      if (found != sequence.callstacks.end()) decoded.callstack = found->second;
      if (found == sequence.callstacks.end()) Offend("callstack ", *iid, " was not interned");
    }
    if (const auto iid = event.Varint(10)) decoded.name = Lookup(sequence.names, *iid);
    if (const auto iid = event.Varint(3)) decoded.category = Lookup(sequence.categories, *iid);
    if (event.Has(30)) decoded.value = static_cast<double>(static_cast<int64_t>(*event.Varint(30)));
    if (const auto value = event.Double(44)) decoded.value = *value;
    RETURN_IF_ERROR(DecodeAnnotations(event, sequence, decoded));
    DecodeFlows(event, decoded);
    if (decoded.type == 1 || decoded.type == 2) {
      const auto [last, first] = sequence.last_slice_ns.emplace(decoded.track, decoded.time_ns);
      if (!first && decoded.time_ns < last->second) Offend("slices go back in time");
      last->second = decoded.time_ns;
    }
    events_.push_back(std::move(decoded));
    return absl::OkStatus();
  }

  absl::Status DecodeAnnotations(const Message& event, const Sequence& sequence, Event& decoded) {
    for (const Field& field : event.fields()) {
      if (field.number != 4) continue;
      ASSIGN_OR_RETURN(const Message annotation, Message::Parse(field.bytes));
      const auto iid = annotation.Varint(1);
      const std::string name =
          iid.has_value() ? Lookup(sequence.annotation_names, *iid) : annotation.Text(10);
      std::string value = annotation.Text(6);
      if (const auto text = annotation.Varint(17)) value = Lookup(sequence.annotation_texts, *text);
      if (const auto number = annotation.Varint(3)) value = StrCat(*number);
      if (const auto number = annotation.Varint(4)) value = StrCat(static_cast<int64_t>(*number));
      if (const auto number = annotation.Double(5)) value = StrCat(*number);
      if (name.empty() || !decoded.annotations.emplace(name, value).second) {
        Offend("an annotation without name, or twice: ", name);
      }
    }
    return absl::OkStatus();
  }

  void DecodeFlows(const Message& event, Event& decoded) {
    for (const Field& field : event.fields()) {
      if (field.number != 47 && field.number != 48) continue;
      if (field.wire_type != 1) Offend("a flow id that is not fixed64");
      if (decoded.type != 1) Offend("a flow at no slice's begin");
      (field.number == 47 ? decoded.flows_out : decoded.flows_in).push_back(field.value);
    }
  }

  void CheckClock(uint64_t clock) {
    if (clock != 1) Offend("a time that is not wall time");
    if (!clocks_.contains(1) || !clocks_.contains(6) || clocks_[1] != clocks_[6]) {
      Offend("no clock snapshot that makes wall time the trace's");
    }
  }

  std::string Lookup(const std::map<uint64_t, std::string>& table, uint64_t iid) {
    const auto found = table.find(iid);
    if (found != table.end()) return found->second;
    Offend("id ", iid, " was not interned");
    return "";
  }

  void CheckTracks() {
    for (const Event& event : events_) {
      const auto track = trace_.tracks.find(event.track);
      if (track == trace_.tracks.end()) {
        Offend("an event on an unknown track");
      } else if (track->second.is_counter != (event.type == 4)) {
        Offend("an event of type ", event.type, " on track ", track->second.name);
      }
    }
  }

  void PairEvents() {
    std::stable_sort(events_.begin(), events_.end(),
                     [](const Event& a, const Event& b) { return a.time_ns < b.time_ns; });
    std::map<uint64_t, std::vector<size_t>> open;  // Positions in slices, by track.
    for (const Event& event : events_) {
      if (event.type == 1) {
        std::vector<size_t>& stack = open[event.track];
        if (event.name.empty()) Offend("a slice without name");
        stack.push_back(trace_.slices.size());
        trace_.slices.push_back({event.track, event.name, event.category, event.time_ns, -1,
                                 stack.size() - 1, event.annotations, event.callstack,
                                 event.flows_out, event.flows_in});
      } else if (event.type == 2) {
        std::vector<size_t>& stack = open[event.track];
        if (stack.empty()) {
          Offend("an end without begin");
          continue;
        }
        trace_.slices[stack.back()].end_ns = event.time_ns;
        stack.pop_back();
      } else if (event.type == 3) {
        trace_.instants.push_back({event.track, event.name, event.time_ns, event.annotations});
      } else if (event.type == 4) {
        trace_.samples.push_back({event.track, event.time_ns, event.value});
      } else {
        Offend("an event of type ", event.type);
      }
    }
    for (const auto& [track, stack] : open) {
      if (!stack.empty()) Offend(stack.size(), " slices without end");
    }
  }

  // In the order of time, as the trace processor draws them: a flow begins, then it ends.
  void PairFlows() {
    std::map<uint64_t, size_t> begun;
    for (size_t i = 0; i < trace_.slices.size(); ++i) {
      for (const uint64_t flow : trace_.slices[i].flows_out) {
        if (!begun.emplace(flow, i).second) Offend("a flow begins twice");
      }
      for (const uint64_t flow : trace_.slices[i].flows_in) {
        const auto from = begun.find(flow);
        if (from == begun.end()) {
          Offend("a flow ends that has not begun, or twice");
          continue;
        }
        trace_.flows.push_back({from->second, i});
        begun.erase(from);
      }
    }
    if (!begun.empty()) Offend(begun.size(), " flows without end");
  }

  std::map<uint64_t, Sequence> sequences_;
  std::map<uint64_t, uint64_t> clocks_;
  std::set<std::pair<int64_t, int64_t>> threads_;
  std::vector<Event> events_;
  PerfettoTrace trace_;
};

}  // namespace

const PerfettoTrack* PerfettoTrace::TrackNamed(std::string_view name) const {
  for (const auto& [uuid, track] : tracks) {
    if (track.name == name) return &track;
  }
  return nullptr;
}

absl::StatusOr<PerfettoTrace> DecodePerfetto(std::string_view bytes) {
  return Decoder().Decode(bytes);
}

}  // namespace profd
