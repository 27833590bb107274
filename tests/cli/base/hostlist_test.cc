#include "cli/base/hostlist.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "cli/base/flags.h"
#include "daemon/base/reason.h"

namespace profd::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> Expanded(std::string_view text) {
  const auto hosts = ExpandHostlist(text);
  EXPECT_TRUE(hosts.ok()) << text << ": " << hosts.status();
  return hosts.ok() ? *hosts : std::vector<std::string>();
}

bool IsRefused(std::string_view text) {
  const auto hosts = ExpandHostlist(text);
  return !hosts.ok() && ReasonOf(hosts.status()) == kUsageReason;
}

TEST(HostlistTest, NamesArePartedByCommasAndBlanks) {
  EXPECT_THAT(Expanded("a,b c\nd"), ElementsAre("a", "b", "c", "d"));
  EXPECT_THAT(Expanded(" a,,b, "), ElementsAre("a", "b"));
  EXPECT_THAT(Expanded(""), IsEmpty());
}

TEST(HostlistTest, ARangeIsAsWideAsItsFirstNumber) {
  EXPECT_THAT(Expanded("gpu[08-10]"), ElementsAre("gpu08", "gpu09", "gpu10"));
  EXPECT_THAT(Expanded("gpu[9-010]"), ElementsAre("gpu9", "gpu10"));
  EXPECT_THAT(Expanded("gpu[01-3]"), ElementsAre("gpu01", "gpu02", "gpu03"));
  EXPECT_THAT(Expanded("gpu[98-101]"), ElementsAre("gpu98", "gpu99", "gpu100", "gpu101"));
}

TEST(HostlistTest, ABracketHoldsSeveralRangesAndNames) {
  EXPECT_THAT(Expanded("gpu[1-2,7],login"), ElementsAre("gpu1", "gpu2", "gpu7", "login"));
}

TEST(HostlistTest, TheLastBracketTurnsFastest) {
  EXPECT_THAT(Expanded("r[1-2]n[1-2]-ib"), ElementsAre("r1n1-ib", "r1n2-ib", "r2n1-ib", "r2n2-ib"));
}

TEST(HostlistTest, WhatIsNamedTwiceIsThereTwice) {
  EXPECT_THAT(Expanded("a[1,1],a1"), ElementsAre("a1", "a1", "a1"));
}

TEST(HostlistTest, WhatIsMalformedIsRefused) {
  for (const std::string_view text :
       {"gpu[3-1]", "gpu[1-2", "gpu1]", "gpu[]", "gpu[a-b]", "gpu[1-2:2]", "gpu[1,]", "gpu[-3]",
        "gpu[1--3]", "gpu[[1-2]]", "a;b", "$(id)", "a/b", "gpu[0-65536]", "a[1-300]b[1-300]",
        "gpu[99999999999999999999]"}) {
    EXPECT_TRUE(IsRefused(text)) << text;
  }
  EXPECT_TRUE(IsRefused(std::string(300, 'a')));
}

TEST(HostlistTest, SixtyFiveThousandAreNotTooMany) {
  EXPECT_EQ(Expanded("gpu[00001-65536]").size(), kMaxHosts);
  EXPECT_TRUE(IsRefused("a,gpu[00001-65536]"));
}

std::string Compressed(const std::vector<std::string>& hosts) { return CompressHostlist(hosts); }

TEST(HostlistTest, ManyNamesBecomeOneWord) {
  EXPECT_EQ(Compressed({"gpu003", "gpu001", "gpu002", "gpu077"}), "gpu[001-003,077]");
  EXPECT_EQ(Compressed({"login", "gpu7"}), "login,gpu7");
  EXPECT_EQ(Compressed({"gpu1", "gpu1"}), "gpu1");
  EXPECT_EQ(Compressed({"n1-ib", "n2-ib", "n2"}), "n[1-2]-ib,n2");
  EXPECT_EQ(Compressed({}), "");
}

TEST(HostlistTest, WidthsAreKeptApart) {
  EXPECT_EQ(Compressed({"gpu9", "gpu10", "gpu11"}), "gpu[9-11]");
  EXPECT_EQ(Compressed({"gpu09", "gpu10", "gpu9"}), "gpu[09-10],gpu9");
  EXPECT_EQ(Compressed({"gpu", "gpu1"}), "gpu,gpu1");
}

TEST(HostlistTest, AddressesStandAsTheyAre) {
  EXPECT_EQ(Compressed({"/run/a1/control.sock", "[fd00::7]"}), "/run/a1/control.sock,[fd00::7]");
}

// Their numbers are no ranges, so that the one word is long.
TEST(HostlistTest, ALongWordOfManyNumbersExpandsAgain) {
  std::vector<std::string> hosts;
  for (int i = 0; i < 3'000; ++i) hosts.push_back("n" + std::to_string(100'007 + 10 * i) + "a");
  EXPECT_EQ(Expanded(Compressed(hosts)), hosts);
}

TEST(HostlistTest, WhatIsCompressedExpandsToTheSameNames) {
  std::mt19937 random(1);
  for (int round = 0; round < 2'000; ++round) {
    std::vector<std::string> hosts;
    for (size_t i = random() % 20; i > 0; --i) {
      std::string number = std::to_string(random() % 120);
      while (random() % 3 == 0 && number.size() < 4) number.insert(number.begin(), '0');
      hosts.push_back((random() % 2 != 0 ? "gpu" : "n") + number +
                      (random() % 4 == 0 ? "-ib" : ""));
    }
    const std::vector<std::string> again = Expanded(Compressed(hosts));
    EXPECT_EQ(std::set<std::string>(again.begin(), again.end()),
              std::set<std::string>(hosts.begin(), hosts.end()));
  }
}

}  // namespace
}  // namespace profd::cli
