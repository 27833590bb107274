#include "cli/client/page_walk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/base/str_cat.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/status_matchers.h"

namespace profd::cli {
namespace {

using ::testing::HasSubstr;

class PageWalkTest : public ::testing::Test {
 protected:
  // A page of 10 bytes, with a token that no other page has.
  absl::Status NextPage() { return walk_.Advance(10, StrCat("page ", ++last_)); }
  void ExpectEnd(const absl::Status& status, std::string_view why) {
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(std::string(why)));
  }

  FakeClock clock_;
  PageWalk walk_{{.pages = 100, .bytes = 3 << 20, .time = absl::Minutes(1)}, clock_};
  int last_ = 0;
};

TEST_F(PageWalkTest, AListEndsAtItsMostPages) {
  for (int i = 0; i < 99; ++i) ASSERT_THAT(NextPage(), IsOk()) << i;
  ExpectEnd(NextPage(), "more than 100 pages");
}

TEST_F(PageWalkTest, EmptyPagesCountAsPages) {
  absl::Status status;
  int pages = 0;
  for (; status.ok(); ++pages) status = walk_.Advance(0, StrCat(pages));
  EXPECT_EQ(pages, 100);
}

TEST_F(PageWalkTest, ATokenThatAnyEarlierPageHadEndsTheList) {
  for (int i = 0; i < 5; ++i) ASSERT_THAT(NextPage(), IsOk());
  ExpectEnd(walk_.Advance(10, "page 2"), "a page token is repeated after 6 pages");
}

TEST_F(PageWalkTest, AListEndsAtItsMostBytes) {
  for (int i = 0; i < 3; ++i) ASSERT_THAT(walk_.Advance(1 << 20, StrCat(i)), IsOk());
  ExpectEnd(NextPage(), "larger than 3 MiB");
}

TEST_F(PageWalkTest, ADaemonThatSendsPagesSlowlyEndsTheList) {
  clock_.Advance(absl::Seconds(60));
  ASSERT_THAT(NextPage(), IsOk());
  clock_.Advance(absl::Seconds(1));
  ExpectEnd(NextPage(), "takes longer than 1m");
}

}  // namespace
}  // namespace profd::cli
