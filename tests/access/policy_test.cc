// What the lines of a policy mean, and what is said of lines that mean nothing.
#include "daemon/access/policy.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace profd::access {
namespace {

using ::testing::HasSubstr;

const AccountNames kAccounts = {.user = [](const std::string& name) -> std::optional<int64_t> {
                                  if (name == "alice") return 1000;
                                  return std::nullopt;
                                },
                                .group = [](const std::string& name) -> std::optional<int64_t> {
                                  if (name == "ops") return 50;
                                  return std::nullopt;
                                }};

constexpr Principal Local(int64_t uid) { return {.uid = uid, .gid = 100}; }
Principal Cn(std::string name) { return {.common_name = std::move(name)}; }

std::shared_ptr<const AccessRules> RulesOf(std::string_view text) {
  const auto policy = ParsePolicy(text, "policy", kAccounts);
  EXPECT_TRUE(policy.ok()) << policy.status();
  return policy.ok() ? policy->rules : OwnerAndRootRules();
}

TEST(PolicyTest, WithoutRulesOwnersMayWhatIsTheirsAndRootAll) {
  const auto rules = RulesOf("# nothing\n\n");
  EXPECT_TRUE(rules->Allows(Local(1000), Verb::kCapture, {.uid = 1000}));
  EXPECT_FALSE(rules->Allows(Local(1000), Verb::kList, {.uid = 1001}));
  EXPECT_FALSE(rules->Allows(Local(1000), Verb::kAdmin, {.uid = 1000}));
  EXPECT_TRUE(rules->AllowsAll(Local(0), Verb::kAdmin));
  EXPECT_FALSE(rules->AllowsAny(Cn("alice"), Verb::kList));
  EXPECT_FALSE(rules->AllowsAny(Principal(), Verb::kList));
}

TEST(PolicyTest, TheFirstRuleThatMatchesDecides) {
  const auto rules = RulesOf(
      "deny  uid:7 delete all\n"
      "allow uid:7 all    all\n"
      "deny  any   all    namespace:payments\n"
      "allow any   list   all\n");
  EXPECT_FALSE(rules->Allows(Local(7), Verb::kDelete, {.uid = 7}));
  EXPECT_FALSE(rules->AllowsAny(Local(7), Verb::kDelete));
  EXPECT_TRUE(rules->AllowsAll(Local(7), Verb::kAdmin));
  EXPECT_TRUE(rules->Allows(Local(8), Verb::kList, {.uid = 9}));
  EXPECT_FALSE(rules->Allows(Local(8), Verb::kList, {.uid = 8, .pod_namespace = "payments"}));
  EXPECT_FALSE(rules->AllowsAll(Local(8), Verb::kList)) << "there is something it may not see";
}

TEST(PolicyTest, PrincipalsAreWhatKernelAndCertificatesSay) {
  const auto rules = RulesOf(
      "allow user:alice list  uid:1\n"
      "allow group:ops  list  uid:2\n"
      "allow \"cn:Bob B\" list uid:3\n"
      "allow dns:login* list  uid:4\n"
      "allow spiffe://c.local/ns/ops/* list uid:5\n"
      "allow unknown    list  uid:6\n");
  const auto may = [&](const Principal& who, int64_t uid) {
    return rules->Allows(who, Verb::kList, {.uid = uid});
  };
  EXPECT_TRUE(may(Local(1000), 1));
  EXPECT_FALSE(may(Local(1001), 1));
  EXPECT_TRUE(may({.uid = 9, .gid = 50}, 2));
  EXPECT_TRUE(may({.uid = 9, .gid = 1, .groups = {7, 50}}, 2));
  EXPECT_FALSE(may(Local(9), 2));
  EXPECT_TRUE(may(Cn("Bob B"), 3));
  EXPECT_FALSE(may(Cn("Bob"), 3));
  EXPECT_TRUE(may({.dns_names = {"x", "login1.site"}}, 4));
  EXPECT_TRUE(may({.spiffe_id = "spiffe://c.local/ns/ops/sa/x"}, 5));
  EXPECT_FALSE(may({.spiffe_id = "spiffe://c.local.evil/ns/ops/sa/x"}, 5));
  EXPECT_TRUE(may(Principal(), 6));
  EXPECT_FALSE(may(Cn("x"), 6));
  EXPECT_FALSE(may({.uid = 9, .common_name = "Bob B"}, 3)) << "a local caller has no certificate";
}

TEST(PolicyTest, AnyIsWhoeverIsKnown) {
  const auto rules = RulesOf("allow any list all\n");
  EXPECT_TRUE(rules->AllowsAny(Cn("x"), Verb::kList));
  EXPECT_FALSE(rules->AllowsAny(Principal(), Verb::kList));
}

TEST(PolicyTest, SelectorsAreOwnersJobsAndNamespaces) {
  const auto rules = RulesOf(
      "allow cn:ci capture,read job:88123\n"
      "allow cn:ci list         namespace:train\n"
      "allow cn:ci delete       own\n");
  EXPECT_TRUE(rules->Allows(Cn("ci"), Verb::kCapture, {.uid = 5, .job = "88123"}));
  EXPECT_FALSE(rules->Allows(Cn("ci"), Verb::kCapture, {.uid = 5, .job = "881234"}));
  EXPECT_FALSE(rules->Allows(Cn("ci"), Verb::kCapture, {.uid = 5}));
  EXPECT_TRUE(rules->Allows(Cn("ci"), Verb::kList, {.pod_namespace = "train"}));
  EXPECT_FALSE(rules->Allows(Cn("ci"), Verb::kDelete, {})) << "nothing is its own";
  EXPECT_FALSE(rules->AllowsAny(Cn("ci"), Verb::kDelete));
}

TEST(PolicyTest, AMappedCertificateIsThatUser) {
  const auto rules = RulesOf("map cn:alice uid:1000\nallow uid:1000 read uid:1001\n");
  EXPECT_TRUE(rules->Allows(Cn("alice"), Verb::kCapture, {.uid = 1000}));
  EXPECT_TRUE(rules->Allows(Cn("alice"), Verb::kRead, {.uid = 1001}));
  EXPECT_FALSE(rules->Allows(Cn("alice"), Verb::kAdmin, {.uid = 1000}));
  EXPECT_FALSE(rules->Allows(Cn("bob"), Verb::kCapture, {.uid = 1000}));
  EXPECT_TRUE(rules->AllowsAny(Cn("alice"), Verb::kList));
}

TEST(PolicyTest, ADenyAtTheEndTakesAwayTheDefaultsToo) {
  const auto rules = RulesOf("allow uid:0 admin all\ndeny any all all\n");
  EXPECT_FALSE(rules->Allows(Local(1000), Verb::kList, {.uid = 1000}));
  EXPECT_TRUE(rules->AllowsAll(Local(0), Verb::kAdmin));
  EXPECT_FALSE(rules->AllowsAny(Local(0), Verb::kCapture));
}

TEST(PolicyTest, WhatIsWrongIsNamedWithItsLineAndARemedy) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"permit any all all", "begins no rule"},
      {"allow any all", "a rule has four"},
      {"allow any all all all", "a rule has four"},
      {"allow root all all", "is not a principal"},
      {"allow uid:x all all", "no number"},
      {"allow uid:-1 all all", "no number"},
      {"allow uid:4294967295 all all", "no number"},
      {"allow user:nobody-here all all", "no user"},
      {"allow group:none all all", "no group"},
      {"allow cn: all all", "too wide"},
      {"allow cn:* all all", "too wide"},
      {"allow cn:a*b all all", "too wide"},
      {"allow spiffe://* all all", "trust domain"},
      {"allow spiffe://c.local* all all", "trust domain"},
      {"allow any list,fly all", "is not a verb"},
      {"allow any list, all", "is not a verb"},
      {"allow any all job:", "selects nothing"},
      {"allow any all pods:x", "selects nothing"},
      {"allow \"any all all", "not closed"},
      {"map uid:5 uid:6", "not what a certificate says"},
      {"map cn:alice alice", "not a user of this node"},
      {"allow any all all\x01", "save the file as UTF-8"},
  };
  for (const auto& [line, problem] : cases) {
    const auto policy = ParsePolicy("# one\n" + line + "\n", "/etc/policy", kAccounts);
    ASSERT_FALSE(policy.ok()) << line;
    EXPECT_THAT(std::string(policy.status().message()), HasSubstr("/etc/policy:2: ")) << line;
    EXPECT_THAT(std::string(policy.status().message()), HasSubstr(problem)) << line;
  }
}

TEST(PolicyTest, AFileHasBounds) {
  EXPECT_FALSE(ParsePolicy(std::string(kMaxPolicyBytes + 1, '\n'), "p", kAccounts).ok());
  std::string many;
  for (int64_t i = 0; i <= kMaxRules; ++i) many += "allow any list all\n";
  EXPECT_FALSE(ParsePolicy(many, "p", kAccounts).ok());
}

TEST(PolicyTest, LineEndsTabsAndCommentsDoNotMatter) {
  const auto policy = ParsePolicy("allow\tuid:5  all all # why\r\nmap cn:x uid:5", "p", kAccounts);
  ASSERT_TRUE(policy.ok()) << policy.status();
  EXPECT_EQ(policy->rule_count, 2);
  EXPECT_TRUE(policy->rules->AllowsAll(Local(5), Verb::kAdmin));
}

}  // namespace
}  // namespace profd::access
