// The fuzz targets with a little generated input, so that every build runs them. The `fuzz`
// preset looks longer (tests/other/fuzz_test.sh).
#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "daemon/store/column_codec.h"
#include "gtest/gtest.h"

namespace profd {

void FuzzColumnCodec(std::span<const uint8_t> data);
void FuzzCaptureFile(std::span<const uint8_t> data);

namespace {

std::vector<uint8_t> Bytes(std::mt19937& random, size_t most) {
  std::vector<uint8_t> bytes(random() % (most + 1));
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

TEST(FuzzReplayTest, ColumnCodecSurvivesNoiseAndMutations) {
  std::mt19937 random(1);
  store::ColumnEncoder encoder;
  for (int round = 0; round < 5'000; ++round) {
    FuzzColumnCodec(Bytes(random, 200));
    std::vector<uint32_t> values(1 + random() % 300);
    for (uint32_t& value : values) value = static_cast<uint32_t>(random() >> (random() % 32));
    std::string column = {static_cast<char>(random() % 6), static_cast<char>(values.size()),
                          static_cast<char>(values.size() >> 8)};
    encoder.Encode(std::span<const uint32_t>(values),
                   static_cast<store::ColumnTransform>(random() % 2), column);
    for (size_t i = 0; i < random() % 4; ++i) {
      column[random() % column.size()] = static_cast<char>(random());
    }
    const auto* data = reinterpret_cast<const uint8_t*>(column.data());
    FuzzColumnCodec({data, column.size()});
  }
}

TEST(FuzzReplayTest, CaptureFileSurvivesPatches) {
  std::mt19937 random(2);
  for (int round = 0; round < 400; ++round) FuzzCaptureFile(Bytes(random, 60));
}

}  // namespace
}  // namespace profd
