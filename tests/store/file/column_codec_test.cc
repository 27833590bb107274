// Columns come back as they went in, and nothing else is taken for a column.
#include "daemon/store/file/column_codec.h"

#include <cstring>
#include <limits>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/status_matchers.h"

namespace profd::store {
namespace {

using absl::StatusCode;

constexpr ColumnTransform kTransforms[] = {ColumnTransform::kOffset, ColumnTransform::kDelta};

template <typename T>
class ColumnCodecTest : public testing::Test {
 protected:
  void ExpectRoundTrip(const std::vector<T>& values) {
    for (const ColumnTransform transform : kTransforms) {
      std::string bytes = "before";
      encoder_.Encode(std::span<const T>(values), transform, bytes);
      ASSERT_TRUE(bytes.starts_with("before"));
      std::vector<T> back(values.size());
      const std::string_view column = std::string_view(bytes).substr(6);
      ASSERT_THAT(decoder_.Decode(column, std::span<T>(back)), IsOk());
      ASSERT_EQ(back, values);
      EXPECT_TRUE(ColumnDecoder::ChecksumIsRight(column));
    }
  }

  ColumnEncoder encoder_;
  ColumnDecoder decoder_;
  std::mt19937_64 random_{20261120};
};

using ColumnTypes = testing::Types<int64_t, uint64_t, uint32_t, uint16_t, int16_t, uint8_t>;
TYPED_TEST_SUITE(ColumnCodecTest, ColumnTypes);

TYPED_TEST(ColumnCodecTest, KeepsEdgeValues) {
  using Limits = std::numeric_limits<TypeParam>;
  const TypeParam low = Limits::min();
  const TypeParam high = Limits::max();
  const auto one = static_cast<TypeParam>(1);
  this->ExpectRoundTrip({});
  this->ExpectRoundTrip({low});
  this->ExpectRoundTrip({high});
  this->ExpectRoundTrip({low, high});
  this->ExpectRoundTrip({high, low, high, low});
  this->ExpectRoundTrip({low, 0, one, high, high, 0, low, low});
}

TYPED_TEST(ColumnCodecTest, KeepsConstantsInAFewBytes) {
  const std::vector<TypeParam> values(kMaxColumnValues, 42);
  this->ExpectRoundTrip(values);
  std::string bytes;
  this->encoder_.Encode(std::span<const TypeParam>(values), ColumnTransform::kOffset, bytes);
  EXPECT_LE(bytes.size(), 16u);
}

TYPED_TEST(ColumnCodecTest, KeepsRandomValuesOfEveryWidthAndLength) {
  for (const size_t size : {1, 2, 3, 15, 16, 17, 511, 512, 513, 4'000, 65'535, 65'536}) {
    for (size_t bits = 1; bits <= 8 * sizeof(TypeParam); bits += 3) {
      std::vector<TypeParam> values(size);
      for (TypeParam& value : values) {
        value = static_cast<TypeParam>(this->random_() >> (64 - bits));
      }
      this->ExpectRoundTrip(values);
    }
  }
}

TYPED_TEST(ColumnCodecTest, KeepsARareLargeValueAmongSmallOnes) {
  std::vector<TypeParam> values(kMaxColumnValues);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<TypeParam>(i % 1'000 == 999 ? this->random_() : this->random_() % 8);
  }
  this->ExpectRoundTrip(values);
}

TYPED_TEST(ColumnCodecTest, KeepsPlanesThatAreConstantBelowOthersThatAreNot) {
  std::vector<TypeParam> values(1'000);
  for (size_t i = 0; i < values.size(); ++i) {
    const int shift = static_cast<int>(8 * (sizeof(TypeParam) - 1));
    values[i] = static_cast<TypeParam>((this->random_() & 0x7f) << shift);
  }
  this->ExpectRoundTrip(values);
}

class ColumnCodecHostileTest : public testing::Test {
 protected:
  std::string Encode(size_t size) {
    std::mt19937_64 random(1);
    std::vector<int64_t> values(size);
    int64_t time = 0;
    for (int64_t& value : values) value = time += static_cast<int64_t>(random() % 3'000);
    std::string bytes;
    encoder_.Encode(std::span<const int64_t>(values), ColumnTransform::kDelta, bytes);
    return bytes;
  }
  absl::Status Decode(std::string_view bytes, size_t size) {
    std::vector<int64_t> values(size);
    return decoder_.Decode(bytes, std::span(values));
  }
  static void FixChecksum(std::string& bytes) {
    const uint32_t crc = Crc32(0, std::string_view(bytes).substr(4));
    std::memcpy(bytes.data(), &crc, sizeof(crc));
  }

  ColumnEncoder encoder_;
  ColumnDecoder decoder_;
};

TEST_F(ColumnCodecHostileTest, AnyFlippedBitIsNoticed) {
  const std::string good = Encode(200);
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    ASSERT_THAT(Decode(bad, 200), StatusIs(StatusCode::kDataLoss)) << "bit " << bit;
  }
}

TEST_F(ColumnCodecHostileTest, AnyTruncationIsNoticed) {
  const std::string good = Encode(200);
  for (size_t size = 0; size < good.size(); ++size) {
    ASSERT_THAT(Decode(std::string_view(good).substr(0, size), 200),
                StatusIs(StatusCode::kDataLoss));
  }
}

TEST_F(ColumnCodecHostileTest, MoreBytesOrOtherCountsAreNotTakenForIt) {
  std::string longer = Encode(200) + "x";
  EXPECT_THAT(Decode(longer, 200), StatusIs(StatusCode::kDataLoss));
  FixChecksum(longer);
  EXPECT_THAT(Decode(longer, 200), StatusIs(StatusCode::kDataLoss));
  EXPECT_THAT(Decode(Encode(200), 199), StatusIs(StatusCode::kDataLoss));
  EXPECT_THAT(Decode(Encode(200), 201), StatusIs(StatusCode::kDataLoss));
  std::vector<int64_t> too_many(kMaxColumnValues + 1);
  EXPECT_THAT(decoder_.Decode(Encode(200), std::span(too_many)), StatusIs(StatusCode::kDataLoss));
}

TEST_F(ColumnCodecHostileTest, ATypeNarrowerThanTheColumnIsRefused) {
  std::vector<uint8_t> narrow(200);
  EXPECT_THAT(decoder_.Decode(Encode(200), std::span(narrow)), StatusIs(StatusCode::kDataLoss));
}

// With the checksum made right, every byte is an attack on the decoder itself.
TEST_F(ColumnCodecHostileTest, LyingHeadersAndPlanesDoNoHarm) {
  const std::string good = Encode(300);
  std::mt19937_64 random(2);
  for (size_t position = 4; position < good.size(); ++position) {
    for (const int value : {0, 1, 2, 3, 8, 9, 0x7f, 0x80, 0xff}) {
      std::string bad = good;
      bad[position] = static_cast<char>(value);
      FixChecksum(bad);
      Decode(bad, 300).IgnoreError();
    }
  }
  for (int round = 0; round < 20'000; ++round) {
    std::string bad = good;
    const size_t changes = 1 + random() % 6;
    for (size_t i = 0; i < changes; ++i) {
      bad[4 + random() % (bad.size() - 4)] = static_cast<char>(random());
    }
    if (random() % 4 == 0) bad.resize(4 + random() % (bad.size() - 4));
    FixChecksum(bad);
    Decode(bad, random() % 400).IgnoreError();
  }
}

}  // namespace
}  // namespace profd::store
