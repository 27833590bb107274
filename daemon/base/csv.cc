#include "daemon/base/csv.h"

#include "daemon/base/text.h"

namespace profd {

std::string CsvCell(std::string_view untrusted) {
  std::string text = ToValidUtf8(untrusted);
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted.push_back('"');
    quoted.push_back(c);
  }
  quoted.push_back('"');
  return quoted;
}

}  // namespace profd
