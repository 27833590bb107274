// Names that have broken other profilers' traces.
#ifndef PROFD_TESTS_EXPORT_HOSTILE_NAMES_H_
#define PROFD_TESTS_EXPORT_HOSTILE_NAMES_H_

#include <string>
#include <vector>

namespace profd {

inline std::vector<std::string> HostileNames() {
  std::string every_byte;
  for (int byte = 0; byte < 256; ++byte) every_byte.push_back(static_cast<char>(byte));
  std::string quotes(4096, '"');
  std::string not_utf8(4096, '\xFF');
  std::string controls(4096, '\x01');
  std::string wide;
  while (wide.size() + 4 <= 4096) wide += "\xF0\x9F\x94\xA5";
  return {"",
          "\"",
          "\\",
          "\\\"",
          "a\"b\\c/d",
          "line\nline\r\ttab",
          std::string("nul\0nul", 7),
          "\x7F\xC2\x85",
          "\xED\xA0\x80",
          "cut \xE2\x82",
          "</script><b>&amp;",
          "\"rank\": 7",
          "\\u0000",
          "\"}]}",
          "ProfilerStep#x",
          "e\xCC\x81 \xE2\x80\xAE\xE2\x80\xA8",
          every_byte,
          quotes,
          not_utf8,
          controls,
          wide,
          "x" + wide};
}

}  // namespace profd

#endif  // PROFD_TESTS_EXPORT_HOSTILE_NAMES_H_
