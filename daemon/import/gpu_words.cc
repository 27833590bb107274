#include "daemon/import/gpu_words.h"

#include <array>
#include <string>
#include <utility>

#include "daemon/report/index/gpu_names.h"

namespace profd::importer {
namespace {

constexpr uint32_t kMostCopyKinds = 16;
constexpr uint32_t kMostMemoryKinds = 16;
constexpr uint32_t kMostSyncKinds = 8;
constexpr uint32_t kMostDriverOverheads = 2;
constexpr uint32_t kMostCuptiOverheads = 16;

// The number below `count` whose name is `word`; 0 is "not known".
template <typename NameOf>
uint32_t NumberOf(std::string_view word, uint32_t count, NameOf name_of) {
  for (uint32_t number = 1; number < count; ++number) {
    if (name_of(number) == word) return number;
  }
  return 0;
}

uint8_t MemoryKindOf(std::string_view word) {
  return static_cast<uint8_t>(NumberOf(word, kMostMemoryKinds, report::MemoryKindName));
}

std::string_view Between(std::string_view text, std::string_view before, std::string_view behind) {
  const size_t begin = text.find(before);
  if (begin == std::string_view::npos) return {};
  text.remove_prefix(begin + before.size());
  return text.substr(0, text.find(behind));
}

// CUpti_ActivityMemcpyKind of names that other profilers give: "CopyHostToDevice" (roctracer),
// "MEMORY_COPY_DEVICE_TO_HOST" (rocprofiler), "Memcpy-HtoD". 0: it does not say.
uint8_t SpelledOutCopy(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, uint8_t>, 10> kDirections = {{
      {"hosttodevice", 1},
      {"devicetohost", 2},
      {"devicetodevice", 8},
      {"hosttohost", 9},
      {"peertopeer", 10},
      {"htod", 1},
      {"dtoh", 2},
      {"dtod", 8},
      {"htoh", 9},
      {"ptop", 10},
  }};
  std::string letters;
  for (const char c : name) {
    if (c == '(') break;
    const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    if (lower >= 'a' && lower <= 'z') letters += lower;
  }
  for (const auto& [word, kind] : kDirections) {
    if (letters.ends_with(word)) return kind;
  }
  return 0;
}

}  // namespace

CopyKinds CopyKindsOf(std::string_view name) {
  constexpr std::string_view kMemcpy = "Memcpy ";
  CopyKinds kinds;
  if (!name.starts_with(kMemcpy)) {
    kinds.copy = SpelledOutCopy(name);
    return kinds;
  }
  kinds.copy = static_cast<uint8_t>(
      NumberOf(Between(name, kMemcpy, " "), kMostCopyKinds, report::CopyKindName));
  kinds.source = MemoryKindOf(Between(name, "(", " -> "));
  kinds.destination = MemoryKindOf(Between(name, " -> ", ")"));
  return kinds;
}

uint8_t MemsetKindOf(std::string_view name) { return MemoryKindOf(Between(name, "(", ")")); }

std::optional<uint32_t> SyncKindOf(std::string_view name) {
  const uint32_t kind = NumberOf(name, kMostSyncKinds, report::SyncName);
  if (kind == 0 && name != report::SyncName(0)) return std::nullopt;
  return kind;
}

std::optional<uint32_t> OverheadKindOf(std::string_view name) {
  for (uint32_t kind = 0; kind < kMostDriverOverheads; ++kind) {
    if (report::OverheadName(kind) == name) return kind;
  }
  for (uint32_t upper = 1; upper < kMostCuptiOverheads; ++upper) {
    if (report::OverheadName(upper << 16) == name) return upper << 16;
  }
  return std::nullopt;
}

}  // namespace profd::importer
