// Text of renderers without its alignment, which is Table's business.
#ifndef PROFD_TESTS_CLI_RENDER_SQUEEZED_H_
#define PROFD_TESTS_CLI_RENDER_SQUEEZED_H_

#include <string>
#include <vector>

namespace profd::cli {

// Each line, with one space where it has several, and none at its begin.
inline std::vector<std::string> Squeezed(const std::string& text) {
  std::vector<std::string> lines(1);
  for (const char c : text) {
    if (c == '\n') {
      lines.emplace_back();
    } else if (c != ' ' || (!lines.back().empty() && lines.back().back() != ' ')) {
      lines.back().push_back(c);
    }
  }
  lines.pop_back();
  return lines;
}

}  // namespace profd::cli

#endif  // PROFD_TESTS_CLI_RENDER_SQUEEZED_H_
