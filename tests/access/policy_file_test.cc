// A policy file that changes: the new rules hold once they are right, the last good ones until
// then.
#include "daemon/access/policy_file.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

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

}  // namespace
}  // namespace profd::access
