// A policy file that changes: the new rules hold once they are right, the last good ones until
// then.
#include "daemon/access/policy_file.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace profd::access {
namespace {

using ::testing::HasSubstr;

class PolicyFileTest : public ::testing::Test {
 protected:
  PolicyFileTest() {
    std::string name = ::testing::TempDir() + "profd_policy_XXXXXX";
    folder_ = mkdtemp(name.data());
    path_ = folder_ / "policy";
  }
  ~PolicyFileTest() override { std::filesystem::remove_all(folder_); }

  void Write(const std::string& text) {
    const std::filesystem::path fresh = folder_ / "policy.new";
    std::ofstream(fresh) << text;
    chmod(fresh.c_str(), 0600);
    std::filesystem::rename(fresh, path_);
  }
  bool SevenMayListAll(PolicyFile& file) {
    return file.rules()->AllowsAll({.uid = 7}, Verb::kList);
  }

  std::filesystem::path folder_;
  std::filesystem::path path_;
};

TEST_F(PolicyFileTest, WithoutAGoodFileNothingStarts) {
  EXPECT_FALSE(PolicyFile::Open(path_, Clock::Real()).ok());
  Write("permit everything\n");
  const auto file = PolicyFile::Open(path_, Clock::Real());
  ASSERT_FALSE(file.ok());
  EXPECT_THAT(std::string(file.status().message()), HasSubstr("policy:1: "));
}

TEST_F(PolicyFileTest, AFileThatOthersMayWriteIsNotBelieved) {
  Write("allow any all all\n");
  chmod(path_.c_str(), 0666);
  const auto file = PolicyFile::Open(path_, Clock::Real());
  ASSERT_FALSE(file.ok());
  EXPECT_THAT(std::string(file.status().message()), HasSubstr("chmod"));
}

TEST_F(PolicyFileTest, ANewFileHoldsAndAWrongOneLeavesTheLastGood) {
  Write("# nobody\n");
  const auto file = PolicyFile::Open(path_, Clock::Real());
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_FALSE(SevenMayListAll(**file));

  Write("allow uid:7 list all\n");
  (*file)->Reload();
  EXPECT_TRUE(SevenMayListAll(**file));
  EXPECT_EQ((*file)->state().error, "");

  Write("allow uid:7 lizt all\n");
  (*file)->Reload();
  EXPECT_TRUE(SevenMayListAll(**file));
  EXPECT_THAT((*file)->state().error, HasSubstr("lizt"));

  std::filesystem::remove(path_);
  (*file)->Reload();
  EXPECT_TRUE(SevenMayListAll(**file));
  EXPECT_NE((*file)->state().error, "");

  Write("deny uid:7 list all\n");
  (*file)->Reload();
  EXPECT_FALSE(SevenMayListAll(**file));
  EXPECT_EQ((*file)->state().error, "");
}

// Of what inotify says nothing.
TEST_F(PolicyFileTest, ChangesOutsideOfTheFolderAreSeenAtTheNextLook) {
  const std::filesystem::path elsewhere = folder_ / "elsewhere";
  const std::filesystem::path linked = folder_ / "etc";
  std::filesystem::create_directory(elsewhere);
  std::filesystem::create_directory(linked);
  const auto await = [&](PolicyFile& file, bool may) {
    while (SevenMayListAll(file) != may) absl::SleepFor(absl::Milliseconds(1));
  };
  Write("allow uid:7 list all\n");
  std::filesystem::rename(path_, elsewhere / "policy");
  std::filesystem::create_symlink(elsewhere / "policy", linked / "policy");
  const auto file =
      PolicyFile::Open(linked / "policy", Clock::Real(), /*look_interval=*/absl::Milliseconds(1));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(SevenMayListAll(**file));
  // The file that the link leads to.
  Write("deny uid:7 list all\n");
  std::filesystem::rename(path_, elsewhere / "policy");
  await(**file, false);
  // The folder of the link.
  std::filesystem::rename(linked, folder_ / "old");
  std::filesystem::create_directory(linked);
  Write("allow uid:7 list all\n");
  std::filesystem::rename(path_, linked / "policy");
  await(**file, true);
  EXPECT_EQ((*file)->state().error, "");
}

}  // namespace
}  // namespace profd::access
