#include "daemon/rpc/services/answer_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "daemon/base/str_cat.h"
#include "profd/v1/reports.pb.h"

namespace profd::rpc {
namespace {

grpc::ByteBuffer AnswerOf(const std::string& text) {
  const grpc::Slice slice(text);
  return {&slice, 1};
}

std::string TextOf(const grpc::ByteBuffer& answer) {
  grpc::Slice slice;
  EXPECT_TRUE(answer.DumpToSingleSlice(&slice).ok());
  return {reinterpret_cast<const char*>(slice.begin()), slice.size()};
}

TEST(AnswerCacheTest, AnAnswerIsOfItsFileTableAndOptions) {
  v1::GetReportRequest request;
  request.set_report("ops");
  (*request.mutable_options())["limit"] = "3";
  const std::string key = AnswerCache::KeyOf("file", "GetReport", request);
  AnswerCache cache;
  EXPECT_FALSE(cache.Find(key).has_value());
  cache.Put(key, AnswerOf("rows"));
  ASSERT_TRUE(cache.Find(key).has_value());
  EXPECT_EQ(TextOf(*cache.Find(key)), "rows");
  EXPECT_FALSE(cache.Find(AnswerCache::KeyOf("other", "GetReport", request)).has_value());
  EXPECT_FALSE(cache.Find(AnswerCache::KeyOf("file", "Other", request)).has_value());
  (*request.mutable_options())["limit"] = "4";
  EXPECT_FALSE(cache.Find(AnswerCache::KeyOf("file", "GetReport", request)).has_value());
}

TEST(AnswerCacheTest, TheOrderOfOptionsDoesNotMatter) {
  v1::GetReportRequest up;
  v1::GetReportRequest down;
  for (int i = 0; i < 50; ++i) {
    (*up.mutable_options())[StrCat("option", i)] = "x";
    (*down.mutable_options())[StrCat("option", 49 - i)] = "x";
  }
  EXPECT_EQ(AnswerCache::KeyOf("f", "t", up), AnswerCache::KeyOf("f", "t", down));
}

TEST(AnswerCacheTest, TheLeastUsedGoFirstAndLargeAnswersAreNotKept) {
  AnswerCache cache;
  const std::string large(AnswerCache::kMostAnswerBytes / 2, 'x');
  const int fit = static_cast<int>(AnswerCache::kMostBytes / large.size()) - 1;
  for (int i = 0; i < fit; ++i) cache.Put(StrCat(i), AnswerOf(large));
  EXPECT_TRUE(cache.Find("0").has_value());  // Used again.
  cache.Put("new", AnswerOf(large));
  cache.Put("newer", AnswerOf(large));
  EXPECT_TRUE(cache.Find("0").has_value());
  EXPECT_FALSE(cache.Find("1").has_value());
  EXPECT_TRUE(cache.Find("newer").has_value());
  cache.Put("huge", AnswerOf(std::string(AnswerCache::kMostAnswerBytes, 'x')));
  EXPECT_FALSE(cache.Find("huge").has_value());
}

}  // namespace
}  // namespace profd::rpc
