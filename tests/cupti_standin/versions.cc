#include "tests/cupti_standin/versions.h"

#include <algorithm>
#include <array>

#include "tests/cupti_standin/records.h"
#include "tests/cupti_standin/settings.h"

namespace sgpu {
namespace {

using Sizes = std::array<uint16_t, kKinds>;

struct KindSize {
  uint32_t kind;
  uint16_t bytes;
};

// Of 13.0 update 1, as its cuptiActivityGetNextRecord() strides.
constexpr KindSize kSizes13_0[] = {
    {1, 96},   {2, 88},  {3, 216}, {4, 40},   {5, 40},   {8, 184},  {9, 32},   {10, 216},
    {11, 32},  {12, 56}, {13, 40}, {17, 56},  {18, 144}, {19, 40},  {20, 40},  {22, 96},
    {25, 104}, {26, 32}, {27, 24}, {28, 24},  {33, 152}, {34, 152}, {35, 120}, {36, 56},
    {37, 24},  {38, 56}, {39, 24}, {40, 136}, {45, 80},  {46, 168}, {47, 40},  {48, 40},
    {49, 128}, {50, 80}, {51, 56}, {52, 72},  {53, 56},  {54, 64},  {55, 32},
};

// Each step back: what was smaller in the release before; 0: what it did not have.
constexpr KindSize kFrom13_0To12_9[] = {{3, 208}, {10, 208}, {13, 32}, {50, 72}};
constexpr KindSize kFrom12_9To12_4[] = {{1, 88},   {9, 24}, {25, 64}, {36, 24}, {38, 40},
                                        {49, 120}, {53, 0}, {54, 0},  {55, 0}};
constexpr KindSize kFrom12_4To11_8[] = {{3, 200}, {8, 176}, {9, 16}, {10, 200},
                                        {17, 40}, {51, 48}, {52, 64}};
constexpr KindSize kFrom11_8To11_2[] = {{1, 80},  {2, 80},   {3, 168}, {8, 152}, {10, 168},
                                        {22, 88}, {49, 112}, {50, 64}, {51, 0},  {52, 0}};
// And one forward.
constexpr KindSize kFrom13_0ToFuture[] = {{3, sizeof(KernelRecord)},
                                          {8, sizeof(DeviceRecord)},
                                          {9, sizeof(ContextRecord)},
                                          {10, sizeof(KernelRecord)},
                                          {56, 56},
                                          {kHostLaunch, sizeof(HostLaunchRecord)},
                                          {kUnknown, sizeof(UnknownRecord)}};

template <size_t N>
void Apply(const KindSize (&changes)[N], Sizes& sizes) {
  for (const KindSize& change : changes) sizes[change.kind] = change.bytes;
}

Sizes SizesOf(uint32_t version) {
  Sizes sizes{};
  Apply(kSizes13_0, sizes);
  if (version > kCupti13_0) Apply(kFrom13_0ToFuture, sizes);
  if (version < 130000) Apply(kFrom13_0To12_9, sizes);
  if (version < 26) Apply(kFrom12_9To12_4, sizes);
  if (version < 19) Apply(kFrom12_4To11_8, sizes);
  if (version < 17) Apply(kFrom11_8To11_2, sizes);
  return sizes;
}

struct Emulated {
  Emulated()
      : version(settings().cupti_version != 0
                    ? static_cast<uint32_t>(settings().cupti_version.load())
                    : kDefaultVersion),
        sizes(SizesOf(version)) {}
  const uint32_t version;
  const Sizes sizes;
};

// Settled when first asked for: a library does not change its version while it runs.
const Emulated& emulated() {
  static const Emulated* const emulated = new Emulated;
  return *emulated;
}

}  // namespace

uint32_t Version() { return emulated().version; }

bool VersionIsAtLeast(uint32_t version) { return Version() >= version; }

uint32_t RecordSize(uint32_t kind) { return kind < kKinds ? emulated().sizes[kind] : 0; }

uint32_t LargestRecordSize() {
  return *std::max_element(emulated().sizes.begin(), emulated().sizes.end());
}

}  // namespace sgpu
