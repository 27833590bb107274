#include "daemon/quota/principal.h"

#include <gtest/gtest.h>

namespace profd::quota {
namespace {

TEST(PrincipalTest, AUidWithAJobOrAPodIsAPrincipalOfItsOwn) {
  EXPECT_EQ(LocalPrincipal(1000, 0).name, "uid:1000");
  EXPECT_EQ(LocalPrincipal(0, 0, {.job = "7", .pod = "p"}).name, "uid:0/job:7");
  EXPECT_EQ(LocalPrincipal(0, 0, {.pod = "p", .container = "c"}).name, "uid:0/pod:p");
  EXPECT_EQ(LocalPrincipal(0, 0, {.container = "c"}).name, "uid:0/container:c");
  EXPECT_EQ(LocalPrincipal(0, 0, {.job = "7"}).account, "uid:0");
}

TEST(PrincipalTest, OnlyRootAndTheDaemonsUserOutsideOfJobsAreOperators) {
  EXPECT_TRUE(LocalPrincipal(0, 990).is_operator);
  EXPECT_TRUE(LocalPrincipal(990, 990).is_operator);
  EXPECT_FALSE(LocalPrincipal(1000, 990).is_operator);
  EXPECT_FALSE(LocalPrincipal(0, 990, {.job = "7"}).is_operator);
  EXPECT_FALSE(LocalPrincipal(0, 990, {.pod = "p"}).is_operator);
  EXPECT_FALSE(LocalPrincipal(0, 990, {.container = "c"}).is_operator);
  EXPECT_FALSE(LocalPrincipal(0, 990, {.in_container = true}).is_operator);
}

TEST(PrincipalTest, ACertificateIsNeverTakenForAUid) {
  EXPECT_EQ(RemotePrincipal("cn:alice").name, "cn:alice");
  EXPECT_FALSE(RemotePrincipal("uid:0").is_operator);
  EXPECT_NE(RemotePrincipal("uid:0").account, LocalPrincipal(0, 0).account);
}

TEST(PrincipalTest, ANameIsReadBack) {
  for (const Principal& who :
       {LocalPrincipal(0, 990), LocalPrincipal(990, 990), LocalPrincipal(1000, 990),
        LocalPrincipal(0, 990, {.job = "7"}), LocalPrincipal(5, 990, {.pod = "p-q"}),
        RemotePrincipal("spiffe://a/b"), RemotePrincipal("unknown"), RemotePrincipal("uid:0")}) {
    EXPECT_EQ(PrincipalFromName(who.name, 990), who) << who.name;
  }
}

TEST(PrincipalTest, OthersLearnTheUidAndNotTheJob) {
  const Principal job = LocalPrincipal(1002, 0, {.job = "88123"});
  EXPECT_EQ(NameFor(LocalPrincipal(1000, 0), job), "uid 1002");
  EXPECT_EQ(NameFor(LocalPrincipal(1002, 0), job), "uid:1002/job:88123");
  EXPECT_EQ(NameFor(LocalPrincipal(0, 0), job), "uid:1002/job:88123");
  EXPECT_EQ(NameFor(LocalPrincipal(1000, 0), RemotePrincipal("cn:alice")), "a remote caller");
}

}  // namespace
}  // namespace profd::quota
