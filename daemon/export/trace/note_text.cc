#include "daemon/export/trace/note_text.h"

#include <charconv>
#include <optional>

#include "daemon/base/str_cat.h"
#include "daemon/export/trace/layout.h"
#include "daemon/report/index/accelerators.h"
#include "proto/wire/event.h"

namespace profd::exporter {
namespace {

struct Device {
  int64_t type;  // As torch numbers them.
  int64_t index;
};
// Of "cpu", "cuda:0", and "xpu:0".
std::optional<Device> DeviceFromName(std::string_view name) {
  if (name == "cpu") return Device{static_cast<int64_t>(wire::DeviceType::kCpu), -1};
  const size_t colon = name.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const std::optional<uint8_t> type = name.substr(0, colon) == "cuda"
                                          ? static_cast<uint8_t>(wire::DeviceType::kCuda)
                                          : report::AcceleratorType(name.substr(0, colon));
  if (!type.has_value()) return std::nullopt;
  name.remove_prefix(colon + 1);
  int16_t index = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), index);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return Device{*type, index};
}

}  // namespace

bool IsShown(const NoteBatch& batch, size_t i) {
  return batch.kind[i] != static_cast<uint16_t>(wire::NoteKind::kGeneratedCode);
}

TraceNote DescribeNote(const NoteBatch& batch, size_t i, std::span<const std::string> names) {
  const std::string& subject = names[batch.subject[i]];
  const int64_t value = batch.value[i];
  TraceNote note;
  const auto say = [&](std::string_view key, uint32_t name) {
    if (name != 0) note.texts.emplace_back(key, TraceName(names[name]));
  };
  const auto say_both = [&](std::string_view subject_key, std::string_view text_key) {
    say(subject_key, batch.subject[i]);
    say(text_key, batch.text[i]);
  };
  switch (static_cast<wire::NoteKind>(batch.kind[i])) {
    case wire::NoteKind::kGraphBreak:
      note.name = "Graph Break";
      say_both("where", "reason");
      return note;
    case wire::NoteKind::kRecompile:
      note.name = "Recompile";
      say_both("where", "reason");
      if (value >= 0) note.numbers.emplace_back("compile_ns", value);
      return note;
    case wire::NoteKind::kCompiledRegion:
      note.name = TraceName(StrCat("Compiled Region: ", subject));
      say("code", batch.text[i]);
      note.numbers.emplace_back("guards", value);
      return note;
    case wire::NoteKind::kOutOfMemory:
      note.name = "[OutOfMemory]";  // As Kineto calls it, whose loaders count these.
      note.numbers.emplace_back("Bytes", value);
      if (const std::optional<Device> device = DeviceFromName(subject)) {
        note.numbers.emplace_back("Device Id", device->index);
        note.numbers.emplace_back("Device Type", device->type);
      } else {
        say("device", batch.subject[i]);
      }
      return note;
    case wire::NoteKind::kStepLabel:
      note.name = TraceName(StrCat(subject, " ", value));
      say("behind", batch.text[i]);
      return note;
    case wire::NoteKind::kMissing:
      note.name = "Not Recorded";
      say_both("feature", "reason");
      return note;
    case wire::NoteKind::kFolded:
      note.name = "Left Out";
      say_both("inside_of", "reason");
      note.numbers.emplace_back("events", value);
      return note;
    case wire::NoteKind::kGeneratedCode:
      break;  // Not shown.
  }
  note.name = StrCat("Note ", batch.kind[i]);
  say_both("subject", "text");
  note.numbers.emplace_back("value", value);
  return note;
}

}  // namespace profd::exporter
