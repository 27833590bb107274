// The file of contexts: what is written is read again, and what is wrong is named.
#include "cli/client/contexts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/base/reason.h"
#include "tests/cli/profctl_process.h"
#include "tests/fakes/status_matchers.h"

namespace profd::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::string_view kWhole = R"(# a comment
current = prod

[prod]
nodes = gpu[001-128]:7411
tls-ca = /etc/ca.crt
tls-cert = /home/a b/alice.crt
tls-key = /home/a b/alice.key
  tls-server-name   =   gpu

[here]
address=unix:/run/profd/control.sock
)";

TEST(ContextsTest, AFileIsNamesAndWhereTheyLead) {
  const auto file = ParseContexts(kWhole, "f");
  ASSERT_THAT(file, IsOk());
  EXPECT_EQ(file->current, "prod");
  ASSERT_EQ(file->contexts.size(), 2u);
  const Context& prod = file->contexts[0];
  EXPECT_EQ(prod.nodes, "gpu[001-128]:7411");
  ASSERT_TRUE(prod.tls.has_value());
  EXPECT_EQ(prod.tls->certificate_file, "/home/a b/alice.crt");
  EXPECT_EQ(prod.tls->server_name, "gpu");
  EXPECT_EQ(FindContext(*file, "here")->address, "unix:/run/profd/control.sock");
  EXPECT_FALSE(FindContext(*file, "here")->tls.has_value());
  EXPECT_EQ(FindContext(*file, "Prod"), nullptr);
}

TEST(ContextsTest, WhatIsWrittenIsReadAgain) {
  const auto file = ParseContexts(kWhole, "f");
  ASSERT_THAT(file, IsOk());
  const std::string text = FormatContexts(*file);
  const auto again = ParseContexts(text, "f");
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(FormatContexts(*again), text);
  EXPECT_EQ(again->contexts[0].tls->key_file, "/home/a b/alice.key");
}

TEST(ContextsTest, WhatIsWrongIsNamedWithItsLine) {
  const std::pair<std::string, std::string> kCases[] = {
      {"nonsense\n", "f:1: expected [NAME] or `name = value`"},
      {"\ncolour = red\n", "f:2: colour stands before the first [NAME]"},
      {"current = a\ncurrent = a\n", "f:2: a second `current`"},
      {"[a\n", "f:1: a context is [NAME]"},
      {"[]\n", "f:1: a context is [NAME]"},
      {"[a/b]\n", "f:1: a context is [NAME]"},
      {"[" + std::string(65, 'a') + "]\n", "f:1: a context is [NAME]"},
      {"[a]\naddress = localhost:1\n[a]\n", "f:3: a second context a"},
      {"[a]\ncolour = red\n", "f:2: no key 'colour'"},
      {"[a]\naddress = localhost:1\naddress = localhost:2\n", "f:3: a second address"},
      {"[a]\naddress =\n", "f:2: address must have 1 to 4096 printable bytes"},
      {"[a]\naddress = x\x01y:1\n", "f:2: address must have 1 to 4096 printable bytes"},
      {"[a]\nnodes = " + std::string(4097, 'a') + "\n", "f:2: nodes must have"},
      {"[a]\n", "f:1: context a: must have either an address or nodes"},
      {"[a]\naddress = localhost:1\nnodes = b\n", "must have either an address or nodes"},
      {"[a]\naddress = nonsense\n", "is not an address"},
      {"[a]\naddress = gpu:1\n", "needs certificates"},
      {"[a]\naddress = gpu:1\ntls-cert = /c\ntls-key = /k\n", "needs tls-ca"},
      {"[a]\naddress = gpu:1\ntls-ca = /ca\ntls-key = /k\n", "go together"},
      {"[a]\naddress = gpu:1\ntls-ca = ca.crt\n", "must be an absolute path"},
  };
  for (const auto& [text, message] : kCases) {
    const auto file = ParseContexts(text, "f");
    ASSERT_THAT(file.status(), StatusIs(absl::StatusCode::kInvalidArgument)) << text;
    EXPECT_THAT(std::string(file.status().message()), HasSubstr(message));
  }
}

class ContextFileTest : public testing::Test {
 protected:
  ContextFileTest() {
    std::string name = std::filesystem::temp_directory_path() / "profd-contexts-XXXXXX";
    folder_ = mkdtemp(name.data());
    path_ = folder_ / "a/b/config";
  }
  ~ContextFileTest() override { std::filesystem::remove_all(folder_); }

  mode_t Mode() const {
    struct stat info {};
    EXPECT_EQ(stat(path_.c_str(), &info), 0);
    return info.st_mode & 0777;
  }

  std::filesystem::path folder_;
  std::filesystem::path path_;
  const ContextFile one_ = {.current = "one",
                            .contexts = {{.name = "one", .address = "localhost:1"}}};
};

TEST_F(ContextFileTest, NoFileHasNoContexts) {
  const auto file = ReadContexts(path_);
  ASSERT_THAT(file, IsOk());
  EXPECT_TRUE(file->contexts.empty());
  EXPECT_THAT(ReadContexts(""), IsOk()) << "neither XDG_CONFIG_HOME nor HOME";
}

TEST_F(ContextFileTest, WritingMakesFoldersAndIsForTheUserAlone) {
  ASSERT_THAT(WriteContexts(path_, one_), IsOk());
  EXPECT_EQ(Mode(), 0600u);
  const auto file = ReadContexts(path_);
  ASSERT_THAT(file, IsOk());
  EXPECT_EQ(file->current, "one");
  // Nothing else is left beside it.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path_.parent_path()), {}), 1);
}

TEST_F(ContextFileTest, WritingReplacesTheFileAsAWhole) {
  ASSERT_THAT(WriteContexts(path_, one_), IsOk());
  std::ifstream reader(path_);  // Of the file as it was.
  ASSERT_THAT(WriteContexts(path_, ContextFile()), IsOk());
  std::stringstream text;
  text << reader.rdbuf();
  EXPECT_EQ(text.str(), FormatContexts(one_));
  EXPECT_TRUE(ReadContexts(path_)->contexts.empty());
}

// As in a repository of the user's settings.
TEST_F(ContextFileTest, ALinkStaysAndTheFileThatItLeadsToIsWritten) {
  std::filesystem::create_directories(path_.parent_path());
  const std::filesystem::path repository = folder_ / "dotfiles";
  std::filesystem::create_directory(repository);
  std::ofstream(repository / "profd") << "current = old\n";
  ASSERT_EQ(chmod((repository / "profd").c_str(), 0644), 0);
  std::filesystem::create_symlink("../../dotfiles/profd", path_.parent_path() / "hop");
  std::filesystem::create_symlink("hop", path_);
  ASSERT_THAT(WriteContexts(path_, one_), IsOk());
  EXPECT_EQ(std::filesystem::read_symlink(path_), "hop");
  EXPECT_TRUE(std::filesystem::is_symlink(path_.parent_path() / "hop"));
  EXPECT_EQ(ReadContexts(repository / "profd")->current, "one");
  EXPECT_EQ(Mode(), 0644u) << "the mode is the user's choice";
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(repository), {}), 1);
}

TEST_F(ContextFileTest, ALinkToAFileThatIsNotThereMakesIt) {
  std::filesystem::create_directories(path_.parent_path());
  std::filesystem::create_symlink(folder_ / "later", path_);
  ASSERT_THAT(WriteContexts(path_, one_), IsOk());
  EXPECT_TRUE(std::filesystem::is_symlink(path_));
  EXPECT_EQ(ReadContexts(folder_ / "later")->current, "one");
}

TEST_F(ContextFileTest, AFileThatOthersMayWriteIsNotBelieved) {
  ASSERT_THAT(WriteContexts(path_, one_), IsOk());
  for (const mode_t mode : {0620, 0602, 0666}) {
    ASSERT_EQ(chmod(path_.c_str(), mode), 0);
    const auto file = ReadContexts(path_);
    EXPECT_THAT(file.status(), StatusIs(absl::StatusCode::kFailedPrecondition)) << mode;
    EXPECT_EQ(ReasonOf(file.status()), "LOCAL");
  }
  ASSERT_EQ(chmod(path_.c_str(), 0644), 0);
  EXPECT_THAT(ReadContexts(path_), IsOk()) << "to read it is no harm";
}

// Absent is what ENOENT and ENOTDIR say, and nothing else.
TEST_F(ContextFileTest, AFileThatCannotBeLookedForIsNotAbsent) {
  std::filesystem::create_symlink("loop", folder_ / "loop");
  EXPECT_EQ(ReasonOf(ReadContexts(folder_ / "loop/profd/config").status()), "LOCAL");
  if (geteuid() == 0) return;  // No folder is closed to root.
  ASSERT_THAT(WriteContexts(path_, one_), IsOk());
  ASSERT_EQ(chmod(path_.parent_path().c_str(), 0), 0);
  EXPECT_EQ(ReasonOf(ReadContexts(path_).status()), "LOCAL");
  ASSERT_EQ(chmod(path_.parent_path().c_str(), 0700), 0);
}

TEST_F(ContextFileTest, AFileThatCannotBeOneIsRefused) {
  std::filesystem::create_directories(path_.parent_path());
  std::ofstream(path_) << std::string((1 << 20) + 1, '#');
  EXPECT_THAT(ReadContexts(path_).status(), StatusIs(absl::StatusCode::kInvalidArgument));
  std::filesystem::remove(path_);
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THAT(ReadContexts(path_).status(), StatusIs(absl::StatusCode::kFailedPrecondition))
      << "and nobody waits for who writes into it";
}

TEST(ContextCommandTest, AnErrorNamesItsContextOnce) {
  for (const std::string& address :
       std::vector<std::string>{"host:1", "nonsense", "unix:/" + std::string(200, 'x')}) {
    const RunResult result = RunProfctl({"context", "add", "lab", "--address", address}, {});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, StartsWith("profctl: context lab"));
    EXPECT_EQ(result.err.find("context lab", 15), std::string::npos) << result.err;
  }
}

TEST(ContextCommandTest, WithoutAHomeThereIsNoFile) {
  const RunResult result =
      RunProfctl({"context", "list"}, {}, {"/usr/bin/env", "-u", "XDG_CONFIG_HOME", "HOME="});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err,
              StartsWith("no contexts: neither XDG_CONFIG_HOME nor HOME is an absolute"));
}

TEST(ContextsPathTest, TheConfigurationFolderComesBeforeTheHome) {
  const auto path = [](std::map<std::string, std::string> variables) {
    return ContextsPath([&](const char* name) -> const char* {
      const auto found = variables.find(name);
      return found == variables.end() ? nullptr : found->second.c_str();
    });
  };
  EXPECT_EQ(path({{"XDG_CONFIG_HOME", "/c"}, {"HOME", "/h"}}), "/c/profd/config");
  EXPECT_EQ(path({{"HOME", "/h"}}), "/h/.config/profd/config");
  EXPECT_EQ(path({{"XDG_CONFIG_HOME", "relative"}}), "") << "as the specification has it";
}

}  // namespace
}  // namespace profd::cli
