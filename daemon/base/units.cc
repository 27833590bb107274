#include "daemon/base/units.h"

#include "absl/strings/str_format.h"
#include "daemon/base/str_cat.h"

namespace profd {

std::string FormatNs(int64_t ns) {
  const double us = static_cast<double>(ns) / 1e3;
  const double size = us < 0 ? -us : us;
  if (size >= 1e6) return absl::StrFormat("%.3fs", us / 1e6);
  if (size >= 1e3) return absl::StrFormat("%.3fms", us / 1e3);
  return absl::StrFormat("%.3fus", us);
}

std::string FormatNsIfKnown(int64_t ns) { return ns < 0 ? "-" : FormatNs(ns); }

std::string FormatBytes(int64_t bytes) {
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes);
  const double sign = value < 0 ? -1 : 1;
  value *= sign;
  if (value < 1024) return StrCat(bytes, " B");
  int unit = -1;
  // 1023.995 would be written as 1024.00.
  while (value >= 1023.995 && unit < 5) {
    value /= 1024;
    ++unit;
  }
  if (unit < 0) {
    value /= 1024;
    unit = 0;
  }
  const int decimals = value < 10 ? 2 : value < 100 ? 1 : 0;
  return absl::StrFormat("%.*f %s", decimals, sign * value, kUnits[unit]);
}

std::string FormatCount(int64_t count) {
  const std::string digits = StrCat(count);
  const size_t first = digits[0] == '-' ? 1 : 0;
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > first && (digits.size() - i) % 3 == 0) out.push_back(',');
    out.push_back(digits[i]);
  }
  return out;
}

std::string FormatCountOf(int64_t count, std::string_view one, std::string_view many) {
  return StrCat(FormatCount(count), " ", count == 1 ? one : many);
}

std::string FormatPercent(int64_t part, int64_t whole) {
  if (whole == 0) return "-";
  return absl::StrFormat("%.2f%%", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

}  // namespace profd
