#include "cli/captures/node_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include "cli/base/errors.h"
#include "cli/base/flags.h"
#include "daemon/base/reason.h"
#include "daemon/base/str_cat.h"
#include "tests/store/file/capture_file_builder.h"

namespace profd::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<NamedNode> Nodes(const std::string& text) {
  const auto nodes = ResolveNodes(text);
  EXPECT_TRUE(nodes.ok()) << text << ": " << nodes.status();
  return nodes.ok() ? *nodes : std::vector<NamedNode>();
}

void ExpectRefused(const std::string& text, const std::string& why) {
  const auto nodes = ResolveNodes(text);
  ASSERT_FALSE(nodes.ok()) << text;
  EXPECT_EQ(ReasonOf(nodes.status()), kUsageReason) << text;
  EXPECT_THAT(std::string(nodes.status().message()), HasSubstr(why)) << text;
}

TEST(NodeSourceTest, HostsHaveTheDefaultPortOrTheirOwn) {
  EXPECT_THAT(Nodes("gpu[1-2],login:7000"),
              ElementsAre(NamedNode{"gpu1", "gpu1:7411", ""}, NamedNode{"gpu2", "gpu2:7411", ""},
                          NamedNode{"login", "login:7000", ""}));
  EXPECT_THAT(Nodes("gpu[1-2]:99"),
              ElementsAre(NamedNode{"gpu1", "gpu1:99", ""}, NamedNode{"gpu2", "gpu2:99", ""}));
}

TEST(NodeSourceTest, WhereHostsRepeatThePortTellsThemApart) {
  EXPECT_THAT(Nodes("127.0.0.1:7001,127.0.0.1:7002,gpu1:7001"),
              ElementsAre(NamedNode{"127.0.0.1:7001", "127.0.0.1:7001", ""},
                          NamedNode{"127.0.0.1:7002", "127.0.0.1:7002", ""},
                          NamedNode{"gpu1", "gpu1:7001", ""}));
}

TEST(NodeSourceTest, AnAddressIsAskedOnce) {
  EXPECT_THAT(Nodes("gpu1,gpu[1-2],gpu1:7411"),
              ElementsAre(NamedNode{"gpu1", "gpu1:7411", ""}, NamedNode{"gpu2", "gpu2:7411", ""}));
}

TEST(NodeSourceTest, SocketsAndAddressesOfIpv6AreNodes) {
  EXPECT_THAT(Nodes("/run/a/control.sock,unix:/run/b,[fd00::7]:99,[::1]"),
              ElementsAre(NamedNode{"/run/a/control.sock", "unix:/run/a/control.sock", ""},
                          NamedNode{"/run/b", "unix:/run/b", ""},
                          NamedNode{"[fd00::7]", "[fd00::7]:99", ""},
                          NamedNode{"[::1]", "[::1]:7411", ""}));
}

TEST(NodeSourceTest, AnAddressCanBeGivenAName) {
  EXPECT_THAT(Nodes("gpu1=/tmp/a=b.sock,gpu2=127.0.0.1:7000"),
              ElementsAre(NamedNode{"gpu1", "unix:/tmp/a=b.sock", ""},
                          NamedNode{"gpu2", "127.0.0.1:7000", ""}));
  ExpectRefused("gpu1=/a,gpu1=/b", "two addresses");
  ExpectRefused("gpu[1-2]=/a", "one name");
  ExpectRefused("gpu1=n[1-2]", "one name");
  ExpectRefused("a=b=c", "one name");
}

TEST(NodeSourceTest, WhatNamesNothingIsRefused) {
  ExpectRefused("", "'': it names no node");
  ExpectRefused(" , ", "names no node");
  ExpectRefused(":7000", "names no host");
  ExpectRefused("gpu1:0", "port");
  ExpectRefused("gpu1:70000", "port");
  ExpectRefused("gpu1:x", "port");
  ExpectRefused("[fd00::7", "not closed");
  ExpectRefused("[fd00::zz]:1", "IPv6");
  ExpectRefused("unix:", "no path");
  ExpectRefused("gpu[1-16385]", "at most 16384");
}

TEST(NodeSourceTest, AFileHasListsOnItsLines) {
  store::TemporaryFolder folder;
  const std::string path = (folder / "nodes").string();
  std::ofstream(path) << "# the rack by the window\ngpu[1-2]  # and its login node\n\nlogin:7000";
  EXPECT_THAT(
      Nodes(StrCat("@", path, ",extra")),
      ElementsAre(NamedNode{"gpu1", "gpu1:7411", ""}, NamedNode{"gpu2", "gpu2:7411", ""},
                  NamedNode{"login", "login:7000", ""}, NamedNode{"extra", "extra:7411", ""}));
}

TEST(NodeSourceTest, AnErrorInAFileNamesItsLine) {
  store::TemporaryFolder folder;
  const std::string path = (folder / "nodes").string();
  std::ofstream(path) << "gpu1\ngpu[2-1]\n";
  ExpectRefused(StrCat("@", path), StrCat(path, ":2: "));
  std::ofstream(path) << "@" << path << "\n";
  ExpectRefused(StrCat("@", path), "names no other");
  std::ofstream(path) << std::string(2 << 20, 'a');
  ExpectRefused(StrCat("@", path), "at most");
}

TEST(NodeSourceTest, AFileThatIsNotThereIsSaid) {
  const auto nodes = ResolveNodes("@/no/such/file");
  EXPECT_EQ(ReasonOf(nodes.status()), kLocalReason);
  EXPECT_THAT(std::string(nodes.status().message()), HasSubstr("/no/such/file"));
}

TEST(NodeSourceTest, EveryAddressOfADnsNameIsANode) {
  const std::vector<NamedNode> nodes = Nodes("dns:localhost:7000");
  ASSERT_FALSE(nodes.empty());
  for (const NamedNode& node : nodes) {
    EXPECT_EQ(node.server_name, "localhost");
    EXPECT_EQ(node.address, StrCat(node.name, ":7000"));
  }
  ExpectRefused("dns:", "one name");
  ExpectRefused("dns:a[1-2]", "one name");
  const auto unknown = ResolveNodes("dns:no-such-name.invalid");
  EXPECT_EQ(ReasonOf(unknown.status()), kLocalReason);
}

TEST(NodeSourceTest, WhatHasToBeLookedUpIsNoPlainList) {
  EXPECT_FALSE(ParseNodes("@/etc/hosts").ok());
  EXPECT_FALSE(ParseNodes("dns:localhost").ok());
  EXPECT_TRUE(ParseNodes("gpu[1-3]").ok());
}

// A squeue that says what a test wants, in front of any other.
class SlurmTest : public ::testing::Test {
 protected:
  SlurmTest() : path_(std::getenv("PATH")) {}
  ~SlurmTest() override { setenv("PATH", path_.c_str(), 1); }

  void SqueueDoes(const std::string& script) {
    const std::string program = (folder_ / "squeue").string();
    std::ofstream(program) << "#!/bin/sh\n" << script << "\n";
    chmod(program.c_str(), 0755);
    setenv("PATH", StrCat(folder_.path().string(), ":", path_).c_str(), 1);
  }
  std::string Failure(const std::string& job) {
    const auto nodes = NodesOfSlurmJob(job);
    EXPECT_FALSE(nodes.ok());
    return std::string(nodes.status().message());
  }

  const std::string path_;
  store::TemporaryFolder folder_;
};

TEST_F(SlurmTest, TheNodesOfAJobAreThoseItRunsOn) {
  SqueueDoes("echo \"$@\" >\"" + (folder_ / "asked").string() +
             "\"\necho 'RUNNING gpu[001-002],login'");
  const auto nodes = NodesOfSlurmJob("88123");
  ASSERT_TRUE(nodes.ok()) << nodes.status();
  EXPECT_THAT(*nodes, ElementsAre(NamedNode{"gpu001", "gpu001:7411", ""},
                                  NamedNode{"gpu002", "gpu002:7411", ""},
                                  NamedNode{"login", "login:7411", ""}));
  std::ifstream asked(folder_ / "asked");
  std::string words;
  std::getline(asked, words);
  EXPECT_EQ(words, "--noheader --jobs=88123 --format=%T %N");
}

TEST_F(SlurmTest, AnArrayRunsWhereItsTasksDo) {
  SqueueDoes("echo 'RUNNING gpu1'; echo 'PENDING '; echo 'RUNNING gpu2'");
  const auto nodes = NodesOfSlurmJob("88123");
  ASSERT_TRUE(nodes.ok()) << nodes.status();
  EXPECT_EQ(nodes->size(), 2U);
}

TEST_F(SlurmTest, AJobThatDoesNotRunIsSaid) {
  SqueueDoes("echo 'PENDING '");
  EXPECT_THAT(Failure("88123"), HasSubstr("runs nowhere: PENDING"));
}

TEST_F(SlurmTest, WhatSlurmSaysIsPassedOnCleaned) {
  SqueueDoes("printf 'slurm_load_jobs error: Invalid job id\\033[2J specified' >&2; exit 1");
  EXPECT_THAT(Failure("88123"), HasSubstr("Invalid job id?[2J specified"));
}

TEST_F(SlurmTest, WhatIsNoHostlistIsRefused) {
  SqueueDoes("echo 'RUNNING gpu[1-'");
  EXPECT_FALSE(NodesOfSlurmJob("88123").ok());
}

// More than a pipe holds, after which nothing is read any more.
TEST_F(SlurmTest, ASqueueThatNeverStopsWritingIsNotWaitedFor) {
  SqueueDoes("while :; do echo 'RUNNING gpu1,gpu2,gpu3,gpu4,gpu5,gpu6,gpu7,gpu8'; done");
  EXPECT_THAT(Failure("88123"), AllOf(HasSubstr("writes more than"), HasSubstr("--nodes")));
}

TEST_F(SlurmTest, WithoutSlurmTheRemedyIsNamed) {
  setenv("PATH", folder_.path().c_str(), 1);
  EXPECT_THAT(Failure("88123"), HasSubstr("--nodes"));
}

TEST_F(SlurmTest, WhatIsNoJobIsNotAsked) {
  SqueueDoes("touch \"" + (folder_ / "asked").string() + "\"");
  for (const std::string job : {"", "mine", "1;id", "--help", "8 8"}) {
    const auto nodes = NodesOfSlurmJob(job);
    EXPECT_EQ(ReasonOf(nodes.status()), kUsageReason) << job;
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "asked"));
}

}  // namespace
}  // namespace profd::cli
