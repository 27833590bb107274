#include "daemon/base/folder_lock.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>

#include "daemon/base/str_cat.h"

namespace profd {
namespace {

class FolderLockTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / StrCat("folder_lock_", getpid());
};

TEST_F(FolderLockTest, AHolderIsWaitedForButNotForEver) {
  std::optional<absl::StatusOr<FolderLock>> first(FolderLock::Take(folder_));
  ASSERT_TRUE(first->ok()) << first->status();
  const auto second = FolderLock::Take(folder_, absl::Milliseconds(50));
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(std::string(second.status().message()).find(folder_.string()), std::string::npos);
  EXPECT_FALSE(std::filesystem::is_empty(folder_));
  first.reset();
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
  EXPECT_TRUE(FolderLock::Take(folder_, absl::ZeroDuration()).ok());
}

TEST_F(FolderLockTest, ALinkIsNotFollowed) {
  std::filesystem::create_symlink(folder_ / "elsewhere", folder_ / ".starting");
  EXPECT_FALSE(FolderLock::Take(folder_).ok());
  EXPECT_FALSE(std::filesystem::exists(folder_ / "elsewhere"));
  EXPECT_FALSE(FolderLock::Take(folder_ / "missing").ok());
}

}  // namespace
}  // namespace profd
