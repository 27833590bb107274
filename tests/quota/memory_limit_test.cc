#include "daemon/quota/memory_limit.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <string_view>

namespace profd::quota {
namespace {

constexpr int64_t kMebibyte = 1 << 20;
namespace fs = std::filesystem;

class MemoryLimitTest : public ::testing::Test {
 protected:
  MemoryLimitTest() {
    std::string pattern = (fs::temp_directory_path() / "profd-quota-XXXXXX").string();
    root_ = mkdtemp(pattern.data());
    Write("meminfo", "MemTotal:       16777216 kB\nMemFree: 1 kB\n");
  }
  ~MemoryLimitTest() override {
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }

  void Write(std::string_view name, std::string_view text) {
    const fs::path path = root_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  MemoryLimit Find() const {
    return FindMemoryLimit({.own_cgroup = root_ / "cgroup",
                            .meminfo = root_ / "meminfo",
                            .cgroup2 = root_ / "v2",
                            .hybrid_cgroup2 = root_ / "v2/unified",
                            .cgroup1 = root_ / "v1"});
  }

  fs::path root_;
};

TEST_F(MemoryLimitTest, WithoutCgroupsItIsTheMachinesMemory) {
  EXPECT_EQ(Find().bytes, int64_t{16} << 30);
  EXPECT_EQ(Find().source, (root_ / "meminfo").string());
}

TEST_F(MemoryLimitTest, OfVersion2TheSmallestOnTheWayUpCounts) {
  Write("cgroup", "0::/system.slice/profd.service\n");
  Write("v2/system.slice/profd.service/memory.max", "max\n");
  Write("v2/system.slice/memory.max", "536870912\n");
  EXPECT_EQ(Find().bytes, 512 * kMebibyte);
  Write("v2/system.slice/profd.service/memory.max", "268435456\n");
  EXPECT_EQ(Find().bytes, 256 * kMebibyte);
  EXPECT_EQ(Find().source, (root_ / "v2/system.slice/profd.service/memory.max").string());
}

TEST_F(MemoryLimitTest, AContainerSeesItsOwnCgroupAsTheRoot) {
  Write("cgroup", "0::/\n");
  Write("v2/memory.max", "2147483648\n");
  EXPECT_EQ(Find().bytes, 2048 * kMebibyte);
}

TEST_F(MemoryLimitTest, APathOutsideOfWhatIsMountedLeavesTheRoot) {
  Write("cgroup", "0::/../../other.slice/x\n");
  Write("v2/memory.max", "1073741824\n");
  EXPECT_EQ(Find().bytes, 1024 * kMebibyte);
}

TEST_F(MemoryLimitTest, OfVersion1TheHugeNumberIsNoLimit) {
  Write("cgroup", "5:cpu:/a\n4:memory:/a/b:c\n0::/\n");
  Write("v1/a/b:c/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(Find().bytes, int64_t{16} << 30);
  Write("v1/a/memory.limit_in_bytes", "134217728\n");
  EXPECT_EQ(Find().bytes, 128 * kMebibyte);
}

TEST_F(MemoryLimitTest, ALimitAboveTheMachinesMemoryIsNone) {
  Write("cgroup", "0::/a\n");
  Write("v2/a/memory.max", "1099511627776\n");
  EXPECT_EQ(Find().source, (root_ / "meminfo").string());
}

TEST_F(MemoryLimitTest, NonsenseIsSkipped) {
  Write("cgroup", "\nno colons\n0::/a\n");
  Write("v2/a/memory.max", "-5\n");
  Write("v2/memory.max", "lots\n");
  Write("meminfo", "nothing\n");
  EXPECT_EQ(Find().bytes, 512 * kMebibyte);
  EXPECT_EQ(Find().source, "default");
}

}  // namespace
}  // namespace profd::quota
