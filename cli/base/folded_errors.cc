#include "cli/base/folded_errors.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "daemon/base/str_cat.h"

namespace profd::cli {
namespace {

constexpr size_t kMostNamed = 3;

bool IsOfName(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
}

// Replaces each mention of the node, and a port that follows it, with a NUL, which no text has.
std::string WithoutNode(std::string_view text, std::string_view node) {
  std::string out;
  if (node.empty()) return std::string(text);
  while (true) {
    const size_t at = text.find(node);
    if (at == text.npos) break;
    const size_t end = at + node.size();
    const bool is_whole = (at == 0 || !IsOfName(text[at - 1])) &&
                          (end == text.size() || !IsOfName(text[end]) || text[end] == '.');
    out += text.substr(0, is_whole ? at : end);
    text.remove_prefix(end);
    if (!is_whole) continue;
    out.push_back('\0');
    size_t digits = 1;
    while (digits < text.size() && std::isdigit(static_cast<unsigned char>(text[digits])) != 0) {
      ++digits;
    }
    if (text.starts_with(':') && digits > 1) text.remove_prefix(digits);
  }
  out += text;
  return out;
}

}  // namespace

std::vector<FoldedError> FoldErrors(std::span<const NodeError> errors) {
  std::vector<FoldedError> folded;
  absl::flat_hash_map<std::string, size_t> position;
  for (size_t i = 0; i < errors.size(); ++i) {
    const auto [at, inserted] =
        position.try_emplace(WithoutNode(errors[i].text, errors[i].node), folded.size());
    if (inserted) folded.push_back({.of = {}, .text = errors[i].text});
    folded[at->second].of.push_back(i);
  }
  return folded;
}

std::string FirstOf(std::span<const std::string> names) {
  std::string text;
  for (const std::string& name : names.subspan(0, std::min(names.size(), kMostNamed))) {
    StrAppend(&text, text.empty() ? "" : ", ", name);
  }
  if (names.size() > kMostNamed) StrAppend(&text, ", and ", names.size() - kMostNamed, " more");
  return text;
}

}  // namespace profd::cli
