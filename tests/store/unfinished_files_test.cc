#include "daemon/store/unfinished_files.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "absl/time/clock.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/ulid.h"
#include "tests/fakes/status_matchers.h"
#include "tests/store/file/capture_file_builder.h"

namespace profd::store {
namespace {

class UnfinishedFilesTest : public testing::Test {
 protected:
  std::filesystem::path Make(std::string_view suffix, size_t bytes) {
    const std::filesystem::path path = folder_ / StrCat(NewUlid(absl::Now()), suffix);
    std::ofstream(path) << std::string(bytes, 'x');
    return path;
  }

  TemporaryFolder folder_;
  UnfinishedFiles files_;
};

TEST_F(UnfinishedFilesTest, CountsWhatWasAddedWhileItIsThere) {
  const std::filesystem::path first = Make(".part", 1000);
  const std::filesystem::path second = Make(".upload", 200);
  EXPECT_EQ(files_.Bytes(), 0);
  files_.Add(first);
  files_.Add(second);
  EXPECT_EQ(files_.Bytes(), 1200);
  std::filesystem::resize_file(first, 5000);
  EXPECT_EQ(files_.Bytes(), 5200);
  std::filesystem::remove(first);
  EXPECT_EQ(files_.Bytes(), 200);
  std::filesystem::remove(second);
  EXPECT_EQ(files_.Bytes(), 0);
}

TEST_F(UnfinishedFilesTest, KnowsWhatAnEarlierDaemonLeft) {
  Make(".part", 1000);
  Make(".upload", 200);
  Make(".profd", 70'000);
  EXPECT_THAT(files_.AddLeftovers(folder_.path()), IsOk());
  EXPECT_EQ(files_.Bytes(), 1200);
}

}  // namespace
}  // namespace profd::store
