#include "daemon/import/nsys/torch_text.h"

#include <algorithm>
#include <charconv>

namespace profd::importer {
namespace {

constexpr std::string_view kSequence = ", seq = ";
constexpr std::string_view kOperator = ", op_id = ";
constexpr std::string_view kSizes = ", sizes = ";
constexpr std::string_view kInputs = ", input_op_ids = ";

bool TakeNumber(std::string_view prefix, std::string_view& text, int64_t& number) {
  if (!text.starts_with(prefix)) return false;
  const char* const from = text.data() + prefix.size();
  const char* const end = text.data() + text.size();
  const auto [behind, error] = std::from_chars(from, end, number);
  if (error != std::errc() || number < 0) return false;
  text.remove_prefix(static_cast<size_t>(behind - text.data()));
  return true;
}

// "[[2, 3], []]" at the start of `text`: nothing else may be in it, and every bracket has its
// other.
std::optional<std::string_view> TakeSizes(std::string_view& text) {
  constexpr int kMostDepth = 8;  // Lists of tensors are one deeper.
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '[' && ++depth > kMostDepth) return std::nullopt;
    if (c == ']') --depth;
    const bool is_known =
        (c >= '0' && c <= '9') || c == '[' || c == ']' || c == ',' || c == ' ' || c == '-';
    if (!is_known || depth < 0 || (i == 0 && c != '[')) return std::nullopt;
    if (depth > 0) continue;
    const std::string_view sizes = text.substr(0, i + 1);
    text.remove_prefix(i + 1);
    return sizes;
  }
  return std::nullopt;
}

}  // namespace

std::optional<TorchText> ParseTorchText(std::string_view text) {
  const size_t end = std::min(text.find(kSequence), text.find(kOperator));
  if (end == std::string_view::npos || end == 0) return std::nullopt;
  TorchText torch = {.name = text.substr(0, end)};
  std::string_view rest = text.substr(end);
  int64_t number = -1;
  if (TakeNumber(kSequence, rest, number)) torch.sequence = number;
  const bool has_operator = TakeNumber(kOperator, rest, number);
  if (torch.sequence < 0 && !has_operator) return std::nullopt;
  if (rest.starts_with(kSizes)) {
    rest.remove_prefix(kSizes.size());
    const std::optional<std::string_view> sizes = TakeSizes(rest);
    if (!sizes.has_value()) return std::nullopt;
    torch.dims = *sizes;
  }
  const bool ends_with_inputs = rest.starts_with(kInputs) && rest.ends_with(']');
  return rest.empty() || ends_with_inputs ? std::optional(torch) : std::nullopt;
}

}  // namespace profd::importer
