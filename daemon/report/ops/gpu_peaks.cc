#include "daemon/report/ops/gpu_peaks.h"

#include <array>

namespace profd::report {
namespace {

struct Named {
  std::string_view part;   // Of the name.
  std::string_view other;  // Likewise; empty: nothing more.
  GpuPeaks peaks;          // fp64, fp32, tf32, half, eight
};

// From the makers' data sheets and architecture white papers; dense figures, halved where a sheet
// gives only those with sparsity. The first that fits holds: special models stand before others.
constexpr std::array<Named, 29> kPeaks = {{
    // Blackwell: DGX B200 and GB200 NVL72 data sheets (figures per GPU).
    {"GB200", "", {40, 80, 1250, 2500, 5000}},
    {"B200", "", {37, 75, 1125, 2250, 4500}},
    {"RTX 5090", "", {1.6, 104.8, 104.8, 209.5, 419}},
    // Hopper: H100, H200 data sheets.
    {"H200 NVL", "", {60, 60, 417.5, 835.5, 1670.5}},
    {"H200", "", {66.9, 66.9, 494.7, 989.4, 1978.9}},
    {"GH200", "", {66.9, 66.9, 494.7, 989.4, 1978.9}},
    {"H100 PCIe", "", {51.2, 51.2, 378, 756, 1513}},
    {"H100 NVL", "", {60, 60, 417.5, 835.5, 1670.5}},
    {"H100", "", {66.9, 66.9, 494.7, 989.4, 1978.9}},
    {"H800", "", {1, 66.9, 494.7, 989.4, 1978.9}},
    {"H20", "", {1, 44, 74, 148, 296}},
    // Ada: L40S, L40, L4, RTX 4090 data sheets and the Ada white paper.
    {"L40S", "", {1.4, 91.6, 183, 362, 733}},
    {"L40", "", {1.4, 90.5, 90.5, 181, 362}},
    {"L4", "", {0.5, 30.3, 60, 121, 242}},
    {"RTX 6000 Ada", "", {1.4, 91.1, 182.1, 364.2, 728.5}},
    {"RTX 4090", "", {1.3, 82.6, 82.6, 165.2, 330.3}},
    // Ampere: A100, A30, A40, A10 data sheets and the GA102 white paper.
    {"A100", "", {19.5, 19.5, 156, 312, 624}},
    {"A800", "", {19.5, 19.5, 156, 312, 624}},
    {"A30", "", {10.3, 10.3, 82, 165, 330}},
    {"A40", "", {0.6, 37.4, 74.8, 149.7, 299.3}},
    {"RTX A6000", "", {0.6, 38.7, 77.4, 154.8, 309.7}},
    {"A10", "", {0.5, 31.2, 62.5, 125, 250}},
    {"RTX 3090", "", {0.6, 35.6, 35.6, 71, 284}},
    // Turing and Volta: T4, V100 data sheets. No bf16.
    {"T4", "", {0.25, 8.1, 0, 65, 130}},
    {"V100", "PCIE", {7, 14, 0, 112, 0}},
    {"V100", "", {7.8, 15.7, 0, 125, 0}},
    // CDNA 3: MI300X, MI325X data sheets (matrix figures).
    {"MI300X", "", {163.4, 163.4, 653.7, 1307.4, 2614.9}},
    {"MI325X", "", {163.4, 163.4, 653.7, 1307.4, 2614.9}},
    {"MI250X", "", {95.7, 95.7, 0, 383, 383}},
}};

bool IsWordCharacter(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

// As whole words: "A100-SXM4" has "A100", "A1000" has not.
bool HasWords(std::string_view name, std::string_view words) {
  for (size_t at = name.find(words); at != std::string_view::npos; at = name.find(words, at + 1)) {
    const size_t end = at + words.size();
    if ((at == 0 || !IsWordCharacter(name[at - 1])) &&
        (end == name.size() || !IsWordCharacter(name[end]))) {
      return true;
    }
  }
  return false;
}

}  // namespace

double GpuPeaks::Of(NumberType type) const {
  switch (type) {
    case NumberType::kUnknown:
      return 0;
    case NumberType::kFp64:
      return fp64;
    case NumberType::kFp32:
      return fp32;
    case NumberType::kBf16:
    case NumberType::kFp16:
      return half;
    case NumberType::kFp8:
    case NumberType::kInt8:
      return eight;
  }
  return 0;
}

std::optional<GpuPeaks> PeaksOf(std::string_view device_name) {
  for (const Named& named : kPeaks) {
    if (!HasWords(device_name, named.part)) continue;
    if (!named.other.empty() && device_name.find(named.other) == std::string_view::npos) continue;
    return named.peaks;
  }
  return std::nullopt;
}

}  // namespace profd::report
