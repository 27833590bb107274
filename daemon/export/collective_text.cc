#include "daemon/export/collective_text.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/base/str_cat.h"

namespace profd::exporter {
namespace {

// The strings of a list, with their escapes.
std::vector<std::string_view> Strings(std::string_view json) {
  std::vector<std::string_view> strings;
  for (size_t i = 0; i < json.size(); ++i) {
    if (json[i] != '"') continue;
    const size_t begin = ++i;
    while (i < json.size() && json[i] != '"') i += json[i] == '\\' ? 2 : 1;
    if (i >= json.size()) break;
    strings.push_back(json.substr(begin, i - begin));
  }
  return strings;
}

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
// A name rather than a number, a list or a truth.
bool IsName(std::string_view text) {
  return !text.empty() && IsLetter(text[0]) && text != "True" && text != "False" &&
         text.find('\\') == std::string_view::npos;
}
bool IsList(std::string_view text) { return text.starts_with('[') && text.ends_with(']'); }

std::optional<int64_t> Integer(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// How many elements the tensors of the first input have; nullopt: it is none, or their number
// is not one.
std::optional<int64_t> ElementsOfFirst(const OperatorInputs& inputs) {
  const std::vector<std::string_view> types = Strings(inputs.types);
  if (types.empty() || types[0].empty() || types[0].starts_with("Scalar")) return std::nullopt;
  // Behind the list of inputs begins the first one's.
  std::string_view rest = inputs.dims;
  rest.remove_prefix(std::min(rest.find('[', 1), rest.size()));
  const bool is_list = types[0] == "TensorList";
  int64_t sum = 0;
  int64_t product = 1;
  int depth = 0;
  while (!rest.empty()) {
    int64_t size = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), size);
    if (error == std::errc::result_out_of_range) return std::nullopt;
    if (error == std::errc()) {
      if (__builtin_mul_overflow(product, size, &product)) return std::nullopt;
      rest.remove_prefix(static_cast<size_t>(end - rest.data()));
      continue;
    }
    if (rest[0] == '[') {
      ++depth;
      product = 1;
    } else if (rest[0] == ']') {
      // Of a tensor, rather than of the list that it is in.
      const bool ends_tensor = depth == (is_list ? 2 : 1);
      if (ends_tensor && __builtin_add_overflow(sum, product, &sum)) return std::nullopt;
      if (--depth == 0) return sum;
    }
    rest.remove_prefix(1);
  }
  return std::nullopt;
}

// What kMostCollectiveBytes leaves for one of the lists.
constexpr size_t kMostSplitBytes = 256;
constexpr size_t kMostNameBytes = 64;

}  // namespace

std::string CollectiveMembers(std::string_view scalars, const OperatorInputs* inputs) {
  const std::vector<std::string_view> items = Strings(scalars);
  const auto name = std::find_if(items.begin(), items.end(), IsName);
  if (name == items.begin() || items.end() - name < 4) return "";
  const std::optional<int64_t> rank = Integer(name[-1]);
  if (!rank.has_value() || !IsList(name[1]) || !IsList(name[2])) return "";
  if (name->size() > kMostNameBytes) return "";
  std::vector<int64_t> numbers;
  for (auto item = name + 3; item != items.end() && numbers.size() < 3; ++item) {
    const std::optional<int64_t> number = Integer(*item);
    if (!number.has_value()) break;
    numbers.push_back(*number);
  }
  if (numbers.empty() || numbers.size() == 2) return "";
  std::string members = StrCat("\"Collective name\":\"", *name, "\",\"Rank\":", *rank);
  StrAppend(&members, ",\"Group size\":", numbers.back());
  if (numbers.size() == 3) {
    StrAppend(&members, ",\"Global rank start\":", numbers[0],
              ",\"Global rank stride\":", numbers[1]);
  }
  if (name[1].size() <= kMostSplitBytes && name[2].size() <= kMostSplitBytes) {
    StrAppend(&members, ",\"In split size\":\"", name[1], "\",\"Out split size\":\"", name[2],
              "\"");
  }
  if (inputs != nullptr) {
    if (const std::optional<int64_t> elements = ElementsOfFirst(*inputs)) {
      StrAppend(&members, ",\"In msg nelems\":", *elements);
    }
  }
  return members;
}

}  // namespace profd::exporter
