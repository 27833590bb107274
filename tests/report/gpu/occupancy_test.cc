#include "daemon/report/gpu/occupancy.h"

#include <gtest/gtest.h>

#include <limits>

namespace profd::report {
namespace {

// Limits of the CUDA programming guide's table of compute capabilities.
GpuDevice Volta() {
  return {.compute_major = 7,
          .compute_minor = 0,
          .sm_count = 80,
          .warp_threads = 32,
          .max_threads_per_sm = 2048,
          .max_blocks_per_sm = 32,
          .registers_per_sm = 65536,
          .shared_bytes_per_sm = 96 << 10};
}
GpuDevice Hopper() {
  GpuDevice device = Volta();
  device.compute_major = 9;
  device.sm_count = 132;
  device.shared_bytes_per_sm = 228 << 10;
  return device;
}

struct Expected {
  double fraction;
  std::string_view limit;
  int64_t blocks_per_sm;
};
void ExpectOccupancy(const LaunchShape& launch, const GpuDevice& device, const Expected& expected) {
  const std::optional<Occupancy> occupancy = EstimateOccupancy(launch, device);
  ASSERT_TRUE(occupancy.has_value());
  EXPECT_DOUBLE_EQ(occupancy->fraction, expected.fraction);
  EXPECT_EQ(occupancy->limit, expected.limit);
  EXPECT_EQ(occupancy->blocks_per_sm, expected.blocks_per_sm);
}
constexpr std::array<uint32_t, 3> kManyBlocks = {100'000, 1, 1};

TEST(OccupancyTest, SmallKernelsFillTheMultiprocessor) {
  // 8 warps a block: 64 / 8 blocks, and 8 warps of 32 x 32 registers fill all 65,536.
  ExpectOccupancy({.grid = kManyBlocks, .block = {256, 1, 1}, .registers_per_thread = 32}, Hopper(),
                  {1.0, "threads", 8});
}

TEST(OccupancyTest, BlocksThatATraceDoesNotTellFollowFromTheComputeCapability) {
  GpuDevice device = Hopper();
  device.max_blocks_per_sm = 0;
  ExpectOccupancy({.grid = kManyBlocks, .block = {32, 1, 1}}, device, {0.5, "blocks", 32});
  device.compute_major = 8;
  device.compute_minor = 9;
  ExpectOccupancy({.grid = kManyBlocks, .block = {32, 1, 1}}, device, {24.0 / 64, "blocks", 24});
  device.compute_major = 99;
  EXPECT_EQ(EstimateOccupancy({.grid = kManyBlocks, .block = {32, 1, 1}}, device), std::nullopt);
  device = Hopper();
  device.max_blocks_per_sm = 0;
  device.warp_threads = 64;  // Another vendor's.
  EXPECT_EQ(EstimateOccupancy({.grid = kManyBlocks, .block = {64, 1, 1}}, device), std::nullopt);
}

TEST(OccupancyTest, RegistersLimit) {
  // 128 x 32 = 4096 registers a warp: 4 in each of 4 parts of 16,384; 16 warps are 2 blocks.
  ExpectOccupancy({.grid = kManyBlocks, .block = {256, 1, 1}, .registers_per_thread = 128},
                  Hopper(), {16.0 / 64, "registers", 2});
}

TEST(OccupancyTest, RegistersAreGivenToWarpsInUnitsOf256) {
  // 33 x 32 = 1056, rounded up to 1280: 12 warps in each part, 48 in all, 6 blocks.
  ExpectOccupancy({.grid = kManyBlocks, .block = {16, 16, 1}, .registers_per_thread = 33}, Hopper(),
                  {48.0 / 64, "registers", 6});
}

TEST(OccupancyTest, AWarpsRegistersLieInOnePartOfTheMultiprocessor) {
  // 88 x 32 = 2816: 5 in each part of 16,384, 20 in all, though 65,536 would hold 23.
  ExpectOccupancy({.grid = kManyBlocks, .block = {32, 1, 1}, .registers_per_thread = 88}, Hopper(),
                  {20.0 / 64, "registers", 20});
  // On GP100 there are two parts, of 32,768: 11 in each.
  GpuDevice pascal = Volta();
  pascal.compute_major = 6;
  ExpectOccupancy({.grid = kManyBlocks, .block = {32, 1, 1}, .registers_per_thread = 88}, pascal,
                  {22.0 / 64, "registers", 22});
}

TEST(OccupancyTest, SharedMemoryLimitsWithWhatTheDriverReserves) {
  // 100 KiB and 1 KiB of the driver's: two fit 228 KiB, one fits 164 KiB.
  const LaunchShape launch = {.grid = kManyBlocks,
                              .block = {256, 1, 1},
                              .registers_per_thread = 32,
                              .static_shared_bytes = 2 << 10,
                              .dynamic_shared_bytes = 98 << 10};
  ExpectOccupancy(launch, Hopper(), {16.0 / 64, "shared memory", 2});
  GpuDevice ampere = Hopper();
  ampere.compute_major = 8;
  ampere.shared_bytes_per_sm = 164 << 10;
  ExpectOccupancy(launch, ampere, {8.0 / 64, "shared memory", 1});
}

TEST(OccupancyTest, BeforeAmpereTheDriverReservesNone) {
  // Two times 48 KiB are all of 96 KiB.
  ExpectOccupancy({.grid = kManyBlocks,
                   .block = {512, 1, 1},
                   .registers_per_thread = 16,
                   .static_shared_bytes = 48 << 10},
                  Volta(), {32.0 / 64, "shared memory", 2});
}

TEST(OccupancyTest, SharedMemoryIsGivenInUnits) {
  // 12,200 + 1,024 = 13,224, rounded up to 13,312 = 104 x 128: 17 blocks in 233,472.
  ExpectOccupancy({.grid = kManyBlocks,
                   .block = {32, 1, 1},
                   .registers_per_thread = 16,
                   .dynamic_shared_bytes = 12'200},
                  Hopper(), {17.0 / 64, "shared memory", 17});
}

TEST(OccupancyTest, TheNumberOfBlocksLimits) {
  ExpectOccupancy({.grid = kManyBlocks, .block = {32, 1, 1}, .registers_per_thread = 16}, Hopper(),
                  {32.0 / 64, "blocks", 32});
}

TEST(OccupancyTest, ThreadsLimitWhereBlocksDoNotDivideThem) {
  GpuDevice consumer = Hopper();
  consumer.compute_major = 8;
  consumer.compute_minor = 6;
  consumer.max_threads_per_sm = 1536;
  consumer.max_blocks_per_sm = 16;
  ExpectOccupancy({.grid = kManyBlocks, .block = {1024, 1, 1}, .registers_per_thread = 32},
                  consumer, {32.0 / 48, "threads", 1});
}

TEST(OccupancyTest, AHalfFilledWarpIsAWarp) {
  ExpectOccupancy({.grid = kManyBlocks, .block = {48, 1, 1}, .registers_per_thread = 16}, Hopper(),
                  {1.0, "threads", 32});
}

TEST(OccupancyTest, AGridTooSmallForTheDeviceLimits) {
  // 66 blocks of 8 warps on 132 multiprocessors.
  ExpectOccupancy({.grid = {66, 1, 1}, .block = {256, 1, 1}, .registers_per_thread = 32}, Hopper(),
                  {0.5 * 8 / 64, "grid", 8});
}

TEST(OccupancyTest, WhatIsNotKnownIsNotEstimated) {
  EXPECT_EQ(EstimateOccupancy({.grid = {1, 1, 1}, .block = {1, 1, 1}}, {}), std::nullopt);
  EXPECT_EQ(EstimateOccupancy({.grid = {1, 1, 1}, .block = {0, 1, 1}}, Hopper()), std::nullopt);
}

TEST(OccupancyTest, AnyNumbersAreSafe) {
  constexpr uint32_t kMax = std::numeric_limits<uint32_t>::max();
  EXPECT_EQ(EstimateOccupancy({.grid = {kMax, kMax, kMax}, .block = {kMax, kMax, kMax}}, Hopper()),
            std::nullopt);
  // More than a multiprocessor has; but it ran, so one block fits.
  ExpectOccupancy({.grid = {kMax, kMax, kMax},
                   .block = {1024, 1, 1},
                   .registers_per_thread = kMax,
                   .static_shared_bytes = kMax,
                   .dynamic_shared_bytes = kMax},
                  Hopper(), {32.0 / 64, "registers", 1});
  GpuDevice strange = Hopper();
  strange.registers_per_sm = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(EstimateOccupancy({.grid = {1, 1, 1}, .block = {1, 1, 1}}, strange), std::nullopt);
  strange = Hopper();
  strange.warp_threads = 4096;  // More than a multiprocessor's threads.
  EXPECT_EQ(EstimateOccupancy({.grid = {1, 1, 1}, .block = {1, 1, 1}}, strange), std::nullopt);
}

}  // namespace
}  // namespace profd::report
