#include "daemon/import/gpu_words.h"

#include <string>

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

}  // namespace

CopyKinds CopyKindsOf(std::string_view name) {
  constexpr std::string_view kMemcpy = "Memcpy ";
  CopyKinds kinds;
  if (!name.starts_with(kMemcpy)) return kinds;
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
