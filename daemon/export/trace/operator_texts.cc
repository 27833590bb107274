#include "daemon/export/trace/operator_texts.h"

#include <cstdint>
#include <span>
#include <string>

#include "absl/functional/function_ref.h"
#include "daemon/base/text.h"

namespace profd::exporter {
namespace {

// In a list of inputs: an input's sizes, or a list of tensors with the sizes of each.
constexpr int kMostDepth = 3;
constexpr size_t kMostDigits = 19;

// An operator without inputs: torch.profiler says nothing of them.
constexpr std::string_view kNoInputs = "[]";

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsHexDigit(char c) { return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

// Takes one thing after the other off the front of a text. Each returns false, and what is left
// is of no use any more, if it is not there.
class JsonTaker {
 public:
  explicit JsonTaker(std::string_view text) : rest_(text) {}

  bool at_end() const { return rest_.empty(); }

  bool TakeList(absl::FunctionRef<bool()> take_item) {
    if (!Take('[')) return false;
    if (Take(']')) return true;
    do {
      if (!take_item()) return false;
    } while (Take(','));
    return Take(']');
  }

  bool TakeDims(int depth) {
    return TakeList([&] {
      SkipSpaces();
      return depth < kMostDepth && rest_.starts_with('[') ? TakeDims(depth + 1) : TakeInteger();
    });
  }

  bool TakeInteger() {
    SkipSpaces();
    if (rest_.starts_with('-')) rest_.remove_prefix(1);
    size_t digits = 0;
    while (digits < rest_.size() && IsDigit(rest_[digits])) ++digits;
    // JSON knows no 007.
    if (digits == 0 || digits > kMostDigits || (digits > 1 && rest_[0] == '0')) return false;
    rest_.remove_prefix(digits);
    return true;
  }

  bool TakeString() {
    if (!Take('"')) return false;
    while (!rest_.empty()) {
      const char c = rest_[0];
      rest_.remove_prefix(1);
      if (c == '"') return true;
      if (static_cast<unsigned char>(c) < 0x20) return false;
      if (c == '\\' && !TakeEscaped()) return false;
    }
    return false;
  }

 private:
  bool TakeEscaped() {
    if (rest_.empty()) return false;
    const char c = rest_[0];
    rest_.remove_prefix(1);
    if (c != 'u') return std::string_view("\"\\/bfnrt").find(c) != std::string_view::npos;
    // A character beyond U+FFFF is two halves. Readers disagree on one half without the other.
    switch (TakeUnit()) {
      case Unit::kNone:
      case Unit::kLowHalf:
        return false;
      case Unit::kCharacter:
        return true;
      case Unit::kHighHalf:
        if (!rest_.starts_with("\\u")) return false;
        rest_.remove_prefix(2);
        return TakeUnit() == Unit::kLowHalf;
    }
    return false;
  }

  // The four digits of an escape.
  enum class Unit : uint8_t { kNone, kCharacter, kHighHalf, kLowHalf };
  Unit TakeUnit() {
    if (rest_.size() < 4) return Unit::kNone;
    const std::string_view digits = rest_.substr(0, 4);
    for (const char digit : digits) {
      if (!IsHexDigit(digit)) return Unit::kNone;
    }
    rest_.remove_prefix(4);
    if ((digits[0] | 0x20) != 'd' || digits[1] < '8') return Unit::kCharacter;
    const char second = static_cast<char>(digits[1] | 0x20);
    return digits[1] <= '9' || second <= 'b' ? Unit::kHighHalf : Unit::kLowHalf;
  }

  bool Take(char c) {
    SkipSpaces();
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void SkipSpaces() {
    while (rest_.starts_with(' ')) rest_.remove_prefix(1);
  }

  std::string_view rest_;
};

bool MayBeShown(const OperatorInputs& inputs) {
  return inputs.dims.size() + inputs.types.size() + inputs.strides.size() <=
             OperatorTexts::kMostBytes &&
         IsDimsJson(inputs.dims) && IsStringsJson(inputs.types) &&
         (inputs.strides.empty() || IsDimsJson(inputs.strides));
}

}  // namespace

bool IsDimsJson(std::string_view untrusted) {
  JsonTaker taker(untrusted);
  // Each input has a list, at least an empty one.
  return taker.TakeList([&] { return taker.TakeDims(2); }) && taker.at_end();
}

bool IsStringsJson(std::string_view untrusted) {
  JsonTaker taker(untrusted);
  return taker.TakeList([&] { return taker.TakeString(); }) && taker.at_end() &&
         IsValidUtf8(untrusted);
}

OperatorTexts::OperatorTexts(const store::CaptureReader& reader) : reader_(reader) {
  for (const OperatorInputs& inputs : reader.inputs()) {
    inputs_.push_back(!inputs_.empty() && MayBeShown(inputs));  // The first is none.
    if (inputs_.size() > 1 && !inputs_.back()) ++left_out_;
  }
  for (const std::string& scalars : reader.scalars()) {
    scalars_.push_back(!scalars_.empty() && scalars.size() <= kMostBytes && IsStringsJson(scalars));
    if (scalars_.size() > 1 && !scalars_.back()) ++left_out_;
  }
}

const OperatorInputs* OperatorTexts::InputsAt(uint32_t index) const {
  if (index >= inputs_.size() || !inputs_[index]) return nullptr;
  const OperatorInputs& inputs = reader_.inputs()[index];
  return inputs.dims == kNoInputs ? nullptr : &inputs;
}

std::string_view OperatorTexts::ScalarsAt(uint32_t index) const {
  if (index >= scalars_.size() || !scalars_[index]) return {};
  const std::string_view scalars = reader_.scalars()[index];
  return scalars == kNoInputs ? std::string_view() : scalars;
}

}  // namespace profd::exporter
