#include "daemon/base/host_port.h"

#include <charconv>
#include <system_error>

#include "daemon/base/text.h"

namespace profd {

std::optional<HostPort> SplitHostPort(std::string_view text) {
  constexpr size_t kMaxBytes = 255;
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || text.size() > kMaxBytes) return std::nullopt;
  HostPort parts = {.host = text.substr(0, colon)};
  const std::string_view port = text.substr(colon + 1);
  // Of an unsigned type, from_chars() takes digits only.
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), parts.port);
  if (error != std::errc() || end != port.data() + port.size()) return std::nullopt;
  const bool is_bracketed =
      parts.host.size() > 2 && parts.host.starts_with('[') && parts.host.ends_with(']');
  if (is_bracketed) parts.host = parts.host.substr(1, parts.host.size() - 2);
  const bool has_colon = parts.host.find(':') != std::string_view::npos;
  if (parts.host.empty() || has_colon != is_bracketed ||
      parts.host.find_first_of(" []") != std::string_view::npos || !IsPrintableUtf8(parts.host)) {
    return std::nullopt;
  }
  return parts;
}

}  // namespace profd
