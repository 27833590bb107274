#include "cli/base/folded_errors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "daemon/base/str_cat.h"

namespace profd::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

TEST(FoldErrorsTest, TextsThatDifferInTheirNodesOnlyAreOne) {
  const std::vector<FoldedError> folded = FoldErrors(std::vector<NodeError>{
      {"gpu001", "no profd answers at gpu001:7411: refused"},
      {"gpu002", "bob may not capture"},
      {"gpu003", "no profd answers at gpu003:7499: refused"},
      {"gpu004.example.org", "no profd answers at gpu004.example.org:7411: refused"}});
  ASSERT_THAT(folded, SizeIs(2));
  EXPECT_THAT(folded[0].of, ElementsAre(0, 2, 3));
  EXPECT_EQ(folded[0].text, "no profd answers at gpu001:7411: refused");
  EXPECT_THAT(folded[1].of, ElementsAre(1));
}

TEST(FoldErrorsTest, WordsThatContainANodesNameStay) {
  EXPECT_THAT(FoldErrors(std::vector<NodeError>{{"a", "a bad day"}, {"b", "b aad day"}}),
              SizeIs(2));
  EXPECT_THAT(FoldErrors(std::vector<NodeError>{{"n1", "n12 is gone"}, {"n2", "n22 is gone"}}),
              SizeIs(2));
  EXPECT_THAT(FoldErrors(std::vector<NodeError>{{"", "gone"}, {"", "gone"}}), SizeIs(1));
}

TEST(FoldErrorsTest, OtherNumbersAreOtherErrors) {
  EXPECT_THAT(
      FoldErrors(std::vector<NodeError>{{"a", "a: 5 of 8 ready"}, {"b", "b: 6 of 8 ready"}}),
      SizeIs(2));
}

TEST(FirstOfTest, NamesThreeAndCountsTheRest) {
  std::vector<std::string> names = {"rank 0"};
  EXPECT_EQ(FirstOf(names), "rank 0");
  for (int i = 1; i < 8; ++i) names.push_back(StrCat("rank ", i));
  EXPECT_EQ(FirstOf(names), "rank 0, rank 1, rank 2, and 5 more");
}

}  // namespace
}  // namespace profd::cli
