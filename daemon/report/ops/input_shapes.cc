#include "daemon/report/ops/input_shapes.h"

#include <charconv>
#include <utility>

#include "daemon/base/str_cat.h"

namespace profd::report {
namespace {

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  std::optional<std::vector<InputShape>> Inputs() {
    std::vector<InputShape> inputs;
    const bool ok = Array([&] {
      InputShape input;
      if (!Input(input)) return false;
      inputs.push_back(std::move(input));
      return true;
    });
    SkipBlanks();
    if (!ok || !text_.empty()) return std::nullopt;
    return inputs;
  }

 private:
  // An array of sizes, or of arrays of them.
  bool Input(InputShape& input) {
    return Array([&] {
      SkipBlanks();
      if (!text_.starts_with('[')) return input.items.empty() && Size(input.sizes);
      std::vector<int64_t> item;
      if (!input.sizes.empty() || !Array([&] { return Size(item); })) return false;
      input.items.push_back(std::move(item));
      return true;
    });
  }

  bool Size(std::vector<int64_t>& sizes) {
    SkipBlanks();
    int64_t size = 0;
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), size);
    if (error != std::errc() || size < 0) return false;
    text_.remove_prefix(static_cast<size_t>(end - text_.data()));
    sizes.push_back(size);
    return true;
  }

  template <typename Item>
  bool Array(Item item) {
    if (!Take('[')) return false;
    if (Take(']')) return true;
    do {
      if (!item()) return false;
    } while (Take(','));
    return Take(']');
  }

  bool Take(char c) {
    SkipBlanks();
    if (!text_.starts_with(c)) return false;
    text_.remove_prefix(1);
    return true;
  }

  void SkipBlanks() {
    while (!text_.empty() && (text_.front() == ' ' || text_.front() == '\n')) {
      text_.remove_prefix(1);
    }
  }

  std::string_view text_;
};

}  // namespace

std::optional<std::vector<InputShape>> ParseInputShapes(std::string_view dims) {
  return Reader(dims).Inputs();
}

std::string InputShapesText(const std::vector<InputShape>& shapes) {
  std::string text = "[";
  for (const InputShape& shape : shapes) {
    StrAppend(&text, text.size() > 1 ? ", [" : "[");
    for (size_t i = 0; i < shape.sizes.size(); ++i) {
      StrAppend(&text, i > 0 ? ", " : "", shape.sizes[i]);
    }
    StrAppend(&text, "]");
  }
  StrAppend(&text, "]");
  return text;
}

}  // namespace profd::report
