// The copies that reports on other machines' captures leave behind.
#include "cli/captures/capture_cache.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <map>
#include <string>

#include "daemon/base/str_cat.h"
#include "daemon/store/file/sha256.h"
#include "tests/store/file/capture_file_builder.h"

namespace profd::cli {
namespace {

constexpr int64_t kMaxBytes = 1000;

CaptureRecord RecordOf(int number, const std::string& bytes) {
  CaptureRecord record;
  record.id = StrCat("01J0000000000000000000000", number);
  record.file_bytes = static_cast<int64_t>(bytes.size());
  store::Sha256 hash;
  hash.Append(bytes);
  record.file_sha256 = *hash.Finish();
  return record;
}

class CaptureCacheTest : public ::testing::Test {
 protected:
  CaptureRecord Put(int number, size_t size, absl::Duration age = absl::ZeroDuration()) {
    const std::string bytes(size, static_cast<char>('a' + number));
    const CaptureRecord record = RecordOf(number, bytes);
    Write(cache_.PathOf(record), bytes, age);
    return record;
  }
  void Write(const std::filesystem::path& path, const std::string& bytes, absl::Duration age) {
    std::ofstream(path) << bytes;
    const timespec used = absl::ToTimespec(now_ - age);
    const timespec times[2] = {used, used};
    EXPECT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  }
  std::optional<CaptureCache> Find(bool remote) {
    return CaptureCache::Find(
        [this](const char* name) {
          const auto found = environment_.find(name);
          return found == environment_.end() ? nullptr : found->second.c_str();
        },
        remote);
  }
  static bool Exists(const std::filesystem::path& path) { return std::filesystem::exists(path); }

  const absl::Time now_ = absl::Now();
  std::map<std::string, std::string> environment_;
  store::TemporaryFolder folder_;
  const CaptureCache cache_{folder_.path(), kMaxBytes};
};

TEST_F(CaptureCacheTest, OfOtherMachinesUnlessAFolderIsNamed) {
  environment_["HOME"] = folder_.path() / "home";
  EXPECT_FALSE(Find(/*remote=*/false).has_value());
  ASSERT_TRUE(Find(/*remote=*/true).has_value());
  struct stat info {};
  const std::filesystem::path made = folder_.path() / "home/.cache/profd/captures";
  ASSERT_EQ(stat(made.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700U);

  environment_["XDG_CACHE_HOME"] = folder_.path() / "xdg";
  EXPECT_TRUE(Find(/*remote=*/true).has_value());
  EXPECT_TRUE(Exists(folder_.path() / "xdg/profd/captures"));

  environment_["PROFD_CACHE_DIR"] = folder_.path() / "named";
  EXPECT_TRUE(Find(/*remote=*/false).has_value());
  EXPECT_TRUE(Exists(folder_.path() / "named"));
  environment_["PROFD_CACHE_DIR"] = "";
  EXPECT_FALSE(Find(/*remote=*/true).has_value());
}

TEST_F(CaptureCacheTest, AFolderThatOthersMayWriteIsNotUsed) {
  const std::filesystem::path open = folder_.path() / "open";
  std::filesystem::create_directory(open);
  ASSERT_EQ(chmod(open.c_str(), 0777), 0);
  environment_["PROFD_CACHE_DIR"] = open;
  EXPECT_FALSE(Find(true).has_value());
  std::filesystem::create_directory_symlink("/tmp", folder_.path() / "link");
  environment_["PROFD_CACHE_DIR"] = folder_.path() / "link";
  EXPECT_FALSE(Find(true).has_value());
  std::ofstream(folder_.path() / "file") << "";
  environment_["PROFD_CACHE_DIR"] = folder_.path() / "file";
  EXPECT_FALSE(Find(true).has_value());
}

TEST_F(CaptureCacheTest, WithoutAHomeThereIsNone) {
  EXPECT_FALSE(Find(true).has_value());
  environment_["XDG_CACHE_HOME"] = "relative";
  EXPECT_FALSE(Find(true).has_value());
}

TEST_F(CaptureCacheTest, WhatIsWholeIsFoundAndWhatIsNotIsRemoved) {
  const CaptureRecord record = Put(1, 100);
  EXPECT_TRUE(cache_.Has(record));
  std::ofstream(cache_.PathOf(record), std::ios::in | std::ios::out) << "!";
  EXPECT_FALSE(cache_.Has(record)) << "a byte is another";
  EXPECT_FALSE(Exists(cache_.PathOf(record)));
  Write(cache_.PathOf(record), "short", absl::ZeroDuration());
  EXPECT_FALSE(cache_.Has(record));
  EXPECT_FALSE(Exists(cache_.PathOf(record)));
  EXPECT_FALSE(cache_.Has(record));
}

TEST_F(CaptureCacheTest, NamesThatADaemonMadeUpDoNotLeaveTheFolder) {
  CaptureRecord record = RecordOf(1, "abc");
  EXPECT_TRUE(cache_.Takes(record));
  record.id = "../../../../../etc/passwd";
  EXPECT_FALSE(cache_.Takes(record));
  record = RecordOf(1, "abc");
  record.file_sha256 = "../../../../../../tmp/x";
  EXPECT_FALSE(cache_.Takes(record));
  record = RecordOf(1, "");
  EXPECT_FALSE(cache_.Takes(record)) << "it has no file";
  EXPECT_FALSE(cache_.Takes(RecordOf(1, std::string(kMaxBytes / 2 + 1, 'x')))) << "too large";
}

TEST_F(CaptureCacheTest, WhatWasNotUsedLongestGoesFirst) {
  const CaptureRecord old = Put(1, 400, absl::Hours(3));
  const CaptureRecord used = Put(2, 400, absl::Hours(4));
  const CaptureRecord young = Put(3, 400, absl::Hours(1));
  EXPECT_TRUE(cache_.Has(used));  // Now.
  cache_.Trim(cache_.PathOf(young), now_);
  EXPECT_FALSE(Exists(cache_.PathOf(old)));
  EXPECT_TRUE(Exists(cache_.PathOf(used)));
  EXPECT_TRUE(Exists(cache_.PathOf(young)));
}

TEST_F(CaptureCacheTest, WhatIsInUseStaysHoweverOld) {
  const CaptureRecord kept = Put(1, 500, absl::Hours(9));
  const CaptureRecord other = Put(2, 400, absl::Hours(1));
  const CaptureRecord third = Put(3, 400, absl::Hours(2));
  cache_.Trim(cache_.PathOf(kept), now_);
  EXPECT_TRUE(Exists(cache_.PathOf(kept)));
  EXPECT_TRUE(Exists(cache_.PathOf(other)));
  EXPECT_FALSE(Exists(cache_.PathOf(third)));
}

TEST_F(CaptureCacheTest, AbandonedPartsGoAndStrangersFilesStay) {
  const std::filesystem::path abandoned = folder_.path() / "x.profd.01J.part";
  const std::filesystem::path growing = folder_.path() / "y.profd.01J.part";
  const std::filesystem::path stranger = folder_.path() / "notes.txt";
  Write(abandoned, "x", CaptureCache::kMaxPartAge + absl::Minutes(1));
  Write(growing, "y", absl::Seconds(1));
  Write(stranger, std::string(5000, 'z'), absl::Hours(1000));
  cache_.Trim("", now_);
  EXPECT_FALSE(Exists(abandoned));
  EXPECT_TRUE(Exists(growing));
  EXPECT_TRUE(Exists(stranger));
}

}  // namespace
}  // namespace profd::cli
