#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "daemon/archive/s3/credentials.h"
#include "daemon/archive/s3/s3_url.h"
#include "daemon/archive/s3/xml.h"
#include "tests/fakes/status_matchers.h"

namespace profd::archive {
namespace {

using testing::HasSubstr;

TEST(S3UrlTest, NamesABucketAndAKey) {
  const auto url = ParseS3Url("s3://traces/profd/cluster-1/");
  ASSERT_THAT(url, IsOk());
  EXPECT_EQ(url->bucket, "traces");
  EXPECT_EQ(url->key, "profd/cluster-1");
  EXPECT_EQ(ParseS3Url("s3://traces")->key, "");
}

TEST(S3UrlTest, WhatIsNotOneIsRefusedWithAnExample) {
  for (const char* text :
       {"", "traces/profd", "http://traces/x", "s3://", "s3://UPPER/x", "s3://ab", "s3://a..b/x",
        "s3://traces/a//b", "s3://traces/../x", "s3://traces/./x", "s3://traces/\n"}) {
    EXPECT_THAT(ParseS3Url(text),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("s3://BUCKET/PREFIX")))
        << text;
  }
}

TEST(S3UrlTest, PartsOfKeysNeverContainSeparatorsAndStayDifferent) {
  EXPECT_EQ(KeyPart("job-1_a.b"), "job-1_a.b");
  EXPECT_EQ(KeyPart("a/b"), "a%2Fb");
  EXPECT_EQ(KeyPart("a%2Fb"), "a%252Fb");
  EXPECT_EQ(KeyPart(".."), "%2E%2E");
  EXPECT_EQ(KeyPart(""), "none");
}

TEST(CredentialsFileTest, GivesTheKeysOfTheProfile) {
  const char* text =
      "# comment\n[other]\naws_access_key_id = no\naws_secret_access_key = no\n"
      "[default]\naws_access_key_id=AKIA\n aws_secret_access_key = a/b+c= \r\n"
      "aws_session_token = t\nregion = eu-west-1\n";
  const auto found = ParseCredentialsFile(text, "default");
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ(found->access_key, "AKIA");
  EXPECT_EQ(found->secret_key, "a/b+c=");
  EXPECT_EQ(found->session_token, "t");
  EXPECT_THAT(
      ParseCredentialsFile("[profile x]\naws_access_key_id=a\naws_secret_access_key=b", "x"),
      IsOk());
}

TEST(CredentialsFileTest, WhatIsMissingIsNamedAndNoSecretIsShown) {
  EXPECT_THAT(ParseCredentialsFile("[default]\n", "x"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'x'")));
  EXPECT_THAT(ParseCredentialsFile("[default]\naws_access_key_id=a\n", "default"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("aws_secret_access_key")));
  const auto bad = ParseCredentialsFile(
      "[default]\naws_access_key_id=a\naws_secret_access_key=hush hush", "default");
  ASSERT_THAT(bad, StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(std::string(bad.status().message()), testing::Not(HasSubstr("hush")));
}

TEST(XmlTest, GivesElementsWithoutNamespacesAndTextWithoutEscapes) {
  const auto root = ParseXml(
      "<?xml version='1.0'?><R xmlns='http://x/'><K>a&amp;b</K><K>c</K><x:N "
      "xmlns:x='u'>1</x:N></R>");
  ASSERT_THAT(root, IsOk());
  EXPECT_EQ(root->name, "R");
  EXPECT_EQ(root->child_text("K"), "a&b");
  EXPECT_EQ(root->children.size(), 3u);
  EXPECT_EQ(root->child("missing"), nullptr);
}

TEST(XmlTest, HostileTextIsRefused) {
  std::string deep;
  for (int i = 0; i <= kMaxXmlDepth; ++i) deep += "<a>";
  std::string many = "<a>";
  for (int i = 0; i <= kMaxXmlElements; ++i) many += "<b/>";
  many += "</a>";
  for (const std::string& text :
       {std::string(), std::string("<a>"), std::string("not xml"), std::string("<a>\xff</a>"),
        std::string("<!DOCTYPE a [<!ENTITY e 'x'>]><a>&e;</a>"), deep, many}) {
    EXPECT_THAT(ParseXml(text), StatusIs(absl::StatusCode::kDataLoss)) << text.substr(0, 40);
  }
}

}  // namespace
}  // namespace profd::archive
