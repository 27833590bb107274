#include "daemon/report/ops/flops.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daemon/report/ops/input_shapes.h"

namespace profd::report {
namespace {

using Sizes = std::vector<int64_t>;

// The texts of a JSON array of strings; escapes, which no scalar has, end it.
std::vector<std::string_view> Texts(std::string_view json) {
  std::vector<std::string_view> texts;
  size_t at = 0;
  while ((at = json.find('"', at)) != std::string_view::npos) {
    const size_t end = json.find_first_of("\"\\", at + 1);
    if (end == std::string_view::npos || json[end] == '\\') break;
    texts.push_back(json.substr(at + 1, end - at - 1));
    at = end + 1;
  }
  return texts;
}

// "[1, 1]" or "1"; nullopt: neither.
std::optional<Sizes> Integers(std::string_view text) {
  Sizes values;
  const bool is_list = text.starts_with('[') && text.ends_with(']') && text.size() >= 2;
  if (is_list) text = text.substr(1, text.size() - 2);
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    std::string_view one = text.substr(0, comma);
    while (one.starts_with(' ')) one.remove_prefix(1);
    int64_t value = 0;
    const auto [end, error] = std::from_chars(one.data(), one.data() + one.size(), value);
    if (error != std::errc() || end != one.data() + one.size()) return std::nullopt;
    values.push_back(value);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  if (!is_list && values.size() != 1) return std::nullopt;
  return values;
}

double Product(std::span<const int64_t> sizes) {
  double product = 1;
  for (const int64_t size : sizes) product *= static_cast<double>(size);
  return product;
}
double At(const Sizes& sizes, size_t i) { return static_cast<double>(sizes[i]); }

// One call: its inputs, and what is known of them.
struct OpCall {
  std::vector<Sizes> tensors;  // By input; empty: none.
  std::vector<std::string_view> scalars;

  const Sizes& Tensor(size_t i) const {
    static const Sizes none;
    return i < tensors.size() ? tensors[i] : none;
  }
  // As many as there are dimensions; one stands for all.
  std::optional<Sizes> Scalars(size_t i, size_t dimensions) const {
    if (i >= scalars.size()) return std::nullopt;
    std::optional<Sizes> values = Integers(scalars[i]);
    if (!values.has_value()) return std::nullopt;
    if (values->size() == 1) values->resize(dimensions, values->front());
    return values->size() == dimensions ? values : std::nullopt;
  }
  bool IsTrue(size_t i) const {
    return i < scalars.size() && (scalars[i] == "True" || scalars[i] == "1");
  }
  // A flag, or the kind of a mask: 1 is causal from the top left, 2 from the bottom right.
  bool IsCausal(size_t i) const { return IsTrue(i) || (i < scalars.size() && scalars[i] == "2"); }
};

// ---- matrix products ----

double Mm(const Sizes& a, const Sizes& b) {
  if (a.size() != 2 || b.size() != 2 || a[1] != b[0]) return 0;
  return 2 * At(a, 0) * At(a, 1) * At(b, 1);
}

double Bmm(const Sizes& a, const Sizes& b) {
  if (a.size() != 3 || b.size() != 3 || a[0] != b[0] || a[2] != b[1]) return 0;
  return 2 * Product(a) * At(b, 2);
}

// As torch.matmul broadcasts.
double Matmul(const Sizes& a, const Sizes& b) {
  if (a.empty() || b.empty()) return 0;
  const int64_t inner = a.back();
  const int64_t inner_b = b.size() == 1 ? b[0] : b[b.size() - 2];
  if (inner != inner_b) return 0;
  const double rows = a.size() == 1 ? 1 : At(a, a.size() - 2);
  const double columns = b.size() == 1 ? 1 : At(b, b.size() - 1);
  double batches = 1;
  const size_t a_batches = a.size() > 2 ? a.size() - 2 : 0;
  const size_t b_batches = b.size() > 2 ? b.size() - 2 : 0;
  for (size_t i = 0; i < std::max(a_batches, b_batches); ++i) {
    const int64_t of_a = i < a_batches ? a[a_batches - 1 - i] : 1;
    const int64_t of_b = i < b_batches ? b[b_batches - 1 - i] : 1;
    if (of_a != of_b && of_a != 1 && of_b != 1) return 0;
    batches *= static_cast<double>(std::max(of_a, of_b));
  }
  return 2 * batches * rows * static_cast<double>(inner) * columns;
}

double Linear(const Sizes& input, const Sizes& weight) {
  if (input.empty() || weight.empty() || weight.size() > 2 || input.back() != weight.back()) {
    return 0;
  }
  return 2 * Product(input) * (weight.size() == 2 ? At(weight, 0) : 1);
}

double MmOf(const OpCall& call) { return Mm(call.Tensor(0), call.Tensor(1)); }
double AddmmOf(const OpCall& call) { return Mm(call.Tensor(1), call.Tensor(2)); }
double BmmOf(const OpCall& call) { return Bmm(call.Tensor(0), call.Tensor(1)); }
double BaddbmmOf(const OpCall& call) { return Bmm(call.Tensor(1), call.Tensor(2)); }
double MatmulOf(const OpCall& call) { return Matmul(call.Tensor(0), call.Tensor(1)); }
double LinearOf(const OpCall& call) { return Linear(call.Tensor(0), call.Tensor(1)); }

// ---- convolutions ----

// Where a convolution's scalars are among its inputs.
struct ConvolutionForm {
  size_t stride;
  size_t padding;
  size_t dilation;
  size_t transposed;  // kNever, kAlways, or where.
};
constexpr size_t kNever = SIZE_MAX;
constexpr size_t kAlways = SIZE_MAX - 1;

// Per output, or of a transposed one per input: the weights that meet it. `weight` without groups.
double Convolved(double batch, std::span<const int64_t> positions, const Sizes& weight) {
  return 2 * batch * Product(positions) * Product(weight);
}

std::optional<Sizes> OutputSizes(const OpCall& call, const ConvolutionForm& form,
                                 const Sizes& input, const Sizes& weight) {
  const size_t dimensions = input.size() - 2;
  const std::optional<Sizes> stride = call.Scalars(form.stride, dimensions);
  const std::optional<Sizes> dilation = call.Scalars(form.dilation, dimensions);
  std::optional<Sizes> padding = call.Scalars(form.padding, dimensions);
  const bool is_same = form.padding < call.scalars.size() && call.scalars[form.padding] == "same";
  if (form.padding < call.scalars.size() && call.scalars[form.padding] == "valid") {
    padding.emplace(dimensions, 0);
  }
  if (!stride.has_value() || !dilation.has_value() || (!padding.has_value() && !is_same)) {
    return std::nullopt;
  }
  Sizes output;
  for (size_t i = 0; i < dimensions; ++i) {
    constexpr int64_t kMost = int64_t{1} << 40;  // Nothing can overflow below it.
    const auto is_sane = [](int64_t value) { return value >= 0 && value < kMost; };
    if (is_same) {
      output.push_back(input[i + 2]);
      continue;
    }
    const int64_t kernel = weight[i + 2];
    if (!is_sane(input[i + 2]) || !is_sane((*padding)[i]) || !is_sane((*dilation)[i]) ||
        kernel < 1 || kernel >= (int64_t{1} << 20) || (*dilation)[i] >= (int64_t{1} << 20) ||
        (*stride)[i] < 1) {
      return std::nullopt;
    }
    // torch's formula: (input + 2 padding - dilation (kernel - 1) - 1) / stride + 1, rounded down.
    const int64_t room = input[i + 2] + 2 * (*padding)[i] - (*dilation)[i] * (kernel - 1) - 1;
    if (room < 0) return std::nullopt;
    output.push_back(room / (*stride)[i] + 1);
  }
  return output;
}

double Convolution(const OpCall& call, const ConvolutionForm& form) {
  Sizes input = call.Tensor(0);
  const Sizes& weight = call.Tensor(1);
  if (weight.size() < 3) return 0;
  if (input.size() + 1 == weight.size()) input.insert(input.begin(), 1);  // No batch.
  if (input.size() != weight.size()) return 0;
  const bool is_transposed =
      form.transposed == kAlways || (form.transposed != kNever && call.IsTrue(form.transposed));
  if (is_transposed) return Convolved(At(input, 0), std::span(input).subspan(2), weight);
  const std::optional<Sizes> output = OutputSizes(call, form, input, weight);
  return output.has_value() ? Convolved(At(input, 0), *output, weight) : 0;
}

// convolution_backward(grad_output, input, weight, bias_sizes, stride, padding, dilation,
// transposed, output_padding, groups, output_mask)
double ConvolutionBackward(const OpCall& call) {
  const Sizes& gradient = call.Tensor(0);
  const Sizes& input = call.Tensor(1);
  const Sizes& weight = call.Tensor(2);
  if (weight.size() < 3 || gradient.size() != weight.size() || input.size() != weight.size() ||
      call.scalars.size() < 11) {
    return 0;
  }
  const bool is_transposed = call.IsTrue(7);
  const std::span<const int64_t> positions = std::span(is_transposed ? input : gradient).subspan(2);
  // "[True, True, False]": the gradients of input, weight and bias.
  const std::string_view mask = call.scalars[10];
  double gradients = 0;
  size_t at = 0;
  for (int i = 0; i < 2 && at != std::string_view::npos; ++i) {
    const size_t comma = mask.find(',', at);
    const std::string_view one = mask.substr(at, comma - at);
    if (one.find("True") != std::string_view::npos || one.find('1') != std::string_view::npos) {
      ++gradients;
    }
    at = comma == std::string_view::npos ? comma : comma + 1;
  }
  return gradients * Convolved(At(input, 0), positions, weight);
}

double ConvNdOf(const OpCall& call) { return Convolution(call, {3, 4, 5, kNever}); }
double ConvTransposeOf(const OpCall& call) { return Convolution(call, {3, 4, 7, kAlways}); }
double ConvolutionOf(const OpCall& call) { return Convolution(call, {3, 4, 5, 6}); }
double CudnnConvolutionOf(const OpCall& call) { return Convolution(call, {3, 2, 4, kNever}); }
double OneDnnConvolutionOf(const OpCall& call) { return Convolution(call, {4, 3, 5, kNever}); }

// ---- attention ----

struct Attention {
  double scores = 0;  // b h q k
  double size = 0;    // d
  double value_size = 0;
};

// `first`: the position of the query; `heads` and `length`: dimensions of these.
Attention AttentionOf(const OpCall& call, size_t first, size_t heads, size_t length) {
  const Sizes& query = call.Tensor(first);
  const Sizes& key = call.Tensor(first + 1);
  const Sizes& value = call.Tensor(first + 2);
  if (query.size() != 4 || key.size() != 4 || value.size() != 4) return {};
  if (query[0] != key[0] || query[3] != key[3] || key[length] != value[length]) return {};
  return {At(query, 0) * At(query, heads) * At(query, length) * At(key, length), At(query, 3),
          At(value, 3)};
}
// Two products: queries with keys (d), and probabilities with values (dv).
double Forward(const Attention& of) { return 2 * of.scores * (of.size + of.value_size); }
// Five: the scores again, gradients of queries and of keys (d), of probabilities and of values
// (dv).
double Backward(const Attention& of) { return 2 * of.scores * (3 * of.size + 2 * of.value_size); }

double SdpaOf(const OpCall& call) { return Forward(AttentionOf(call, 0, 1, 2)); }
double SdpaBackwardOf(const OpCall& call) { return Backward(AttentionOf(call, 1, 1, 2)); }
// Heads after the length, and without a batch where lengths differ: that is not known then.
double FlashOf(const OpCall& call) { return Forward(AttentionOf(call, 0, 2, 1)); }
double FlashBackwardOf(const OpCall& call) { return Backward(AttentionOf(call, 1, 2, 1)); }

struct Known {
  std::string_view name;
  double (*flops)(const OpCall&);
  size_t typed_input;  // Whose type is that of the arithmetic.
  size_t causal = 0;   // The input that says that the mask is causal; 0: none.
};
constexpr std::array<Known, 40> kKnown = {{
    {"aten::mm", MmOf, 0},
    {"aten::mv", MatmulOf, 0},
    {"aten::dot", MatmulOf, 0},
    {"aten::addmm", AddmmOf, 1},
    {"aten::addmm_", AddmmOf, 1},
    {"aten::_addmm_activation", AddmmOf, 1},
    {"aten::_scaled_mm", MmOf, 0},
    {"aten::_int_mm", MmOf, 0},
    {"aten::bmm", BmmOf, 0},
    {"aten::baddbmm", BaddbmmOf, 1},
    {"aten::baddbmm_", BaddbmmOf, 1},
    {"aten::matmul", MatmulOf, 0},
    {"aten::linear", LinearOf, 0},
    {"aten::mkldnn_linear", LinearOf, 0},
    {"aten::conv1d", ConvNdOf, 0},
    {"aten::conv2d", ConvNdOf, 0},
    {"aten::conv3d", ConvNdOf, 0},
    {"aten::conv_transpose1d", ConvTransposeOf, 0},
    {"aten::conv_transpose2d", ConvTransposeOf, 0},
    {"aten::conv_transpose3d", ConvTransposeOf, 0},
    {"aten::convolution", ConvolutionOf, 0},
    {"aten::_convolution", ConvolutionOf, 0},
    {"aten::convolution_overrideable", ConvolutionOf, 0},
    {"aten::cudnn_convolution", CudnnConvolutionOf, 0},
    {"aten::miopen_convolution", OneDnnConvolutionOf, 0},
    {"aten::mkldnn_convolution", OneDnnConvolutionOf, 0},
    {"aten::convolution_backward", ConvolutionBackward, 0},
    {"aten::scaled_dot_product_attention", SdpaOf, 0, 5},
    {"aten::_scaled_dot_product_flash_attention", SdpaOf, 0, 4},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", SdpaOf, 0, 4},
    {"aten::_scaled_dot_product_efficient_attention", SdpaOf, 0, 6},
    {"aten::_scaled_dot_product_cudnn_attention", SdpaOf, 0, 6},
    {"aten::_scaled_dot_product_flash_attention_backward", SdpaBackwardOf, 0, 11},
    {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", SdpaBackwardOf, 0, 7},
    {"aten::_scaled_dot_product_efficient_attention_backward", SdpaBackwardOf, 0, 11},
    {"aten::_scaled_dot_product_cudnn_attention_backward", SdpaBackwardOf, 0, 14},
    {"aten::_flash_attention_forward", FlashOf, 0, 8},
    {"aten::_efficient_attention_forward", FlashOf, 0, 9},
    {"aten::_flash_attention_backward", FlashBackwardOf, 0, 11},
    {"aten::_efficient_attention_backward", FlashBackwardOf, 0, 14},
}};

const Known* FindKnown(std::string_view name) {
  const auto* const found = std::find_if(kKnown.begin(), kKnown.end(),
                                         [&](const Known& known) { return known.name == name; });
  return found == kKnown.end() ? nullptr : found;
}

NumberType TypeOf(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, NumberType>, 10> kTypes = {{
      {"double", NumberType::kFp64},
      {"float", NumberType::kFp32},
      {"c10::BFloat16", NumberType::kBf16},
      {"c10::Half", NumberType::kFp16},
      {"c10::Float8_e4m3fn", NumberType::kFp8},
      {"c10::Float8_e5m2", NumberType::kFp8},
      {"c10::Float8_e4m3fnuz", NumberType::kFp8},
      {"c10::Float8_e5m2fnuz", NumberType::kFp8},
      {"signed char", NumberType::kInt8},
      {"unsigned char", NumberType::kInt8},
  }};
  for (const auto& [name, type] : kTypes) {
    if (name == text) return type;
  }
  return NumberType::kUnknown;
}

}  // namespace

std::string_view ToString(NumberType type) {
  constexpr std::array<std::string_view, 7> kNames = {"",     "fp64", "fp32", "bf16",
                                                      "fp16", "fp8",  "int8"};
  return kNames[static_cast<size_t>(type)];
}

bool MayHaveFlops(std::string_view name) { return FindKnown(name) != nullptr; }

OpFlops FlopsOf(std::string_view name, const OperatorInputs& inputs, std::string_view scalars) {
  const Known* const known = FindKnown(name);
  if (known == nullptr) return {};
  std::optional<std::vector<InputShape>> shapes = ParseInputShapes(inputs.dims);
  if (!shapes.has_value()) return {};
  OpCall call;
  for (InputShape& shape : *shapes) call.tensors.push_back(std::move(shape.sizes));
  call.scalars = Texts(scalars);
  const std::vector<std::string_view> types = Texts(inputs.types);
  OpFlops flops = {.count = known->flops(call)};
  if (known->causal != 0 && call.IsCausal(known->causal)) flops.count /= 2;
  if (known->typed_input < types.size()) flops.type = TypeOf(types[known->typed_input]);
  return flops;
}

}  // namespace profd::report
