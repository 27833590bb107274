#include "daemon/export/trace/json_text.h"

#include <nlohmann/json.hpp>

namespace profd::exporter {
namespace {

constexpr int kMostValueDepth = 16;

// Brackets in strings count, too: so few have many.
bool IsShallow(std::string_view json) {
  int depth = 0;
  for (const char c : json) {
    if ((c == '[' || c == '{') && ++depth > kMostValueDepth) return false;
    if (c == ']' || c == '}') --depth;
  }
  return true;
}

}  // namespace

bool IsPlainJson(std::string_view untrusted) {
  return IsShallow(untrusted) && IsValidUtf8(untrusted) && nlohmann::json::accept(untrusted);
}

}  // namespace profd::exporter
