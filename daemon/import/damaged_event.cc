#include "daemon/import/damaged_event.h"

#include <algorithm>
#include <array>

#include "daemon/import/json_skip.h"

namespace profd::importer {
namespace {

// Keys that an event begins with, and that no object inside of one does.
constexpr auto kFirstKeys = std::to_array<std::string_view>(
    {"ph", "cat", "name", "pid", "tid", "ts", "dur", "id", "args", "s", "bp"});

size_t SkipSpace(std::string_view text, size_t at) {
  while (at < text.size() && IsJsonSpace(text[at])) ++at;
  return at;
}

bool Take(std::string_view text, size_t& at, char c) {
  at = SkipSpace(text, at);
  if (at >= text.size() || text[at] != c) return false;
  ++at;
  return true;
}

// Whether `{"ph":` or the like is at `at`.
bool BeginsEvent(std::string_view text, size_t at) {
  if (!Take(text, at, '{') || !Take(text, at, '"')) return false;
  const size_t quote = text.find('"', at);
  if (quote == std::string_view::npos) return false;
  const std::string_view key = text.substr(at, quote - at);
  at = quote + 1;
  return std::ranges::find(kFirstKeys, key) != kFirstKeys.end() && Take(text, at, ':');
}

// Whether `],"traceName"` or `]}` is at `at`, or `]` and the end.
bool EndsArray(std::string_view text, size_t at) {
  if (!Take(text, at, ']')) return false;
  at = SkipSpace(text, at);
  if (at == text.size() || text[at] == '}') return true;
  return Take(text, at, ',') && Take(text, at, '"');
}

}  // namespace

size_t EndOfDamagedEvent(std::string_view text) {
  for (size_t at = text.find('}'); at != std::string_view::npos; at = text.find('}', at + 1)) {
    size_t behind = at + 1;
    if (EndsArray(text, behind)) return at + 1;
    if (Take(text, behind, ',') && BeginsEvent(text, behind)) return at + 1;
  }
  return std::string_view::npos;
}

}  // namespace profd::importer
