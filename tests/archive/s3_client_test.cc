#include "daemon/archive/s3/s3_client.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "daemon/base/clock.h"
#include "daemon/base/reason.h"
#include "daemon/base/str_cat.h"
#include "tests/archive/s3_server.h"
#include "tests/fakes/status_matchers.h"
#include "tests/store/file/capture_file_builder.h"

namespace profd::archive {
namespace {

using store::TemporaryFolder;
using testing::AllOf;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class S3ClientTest : public testing::Test {
 protected:
  S3ClientTest() : client_(OptionsFor(server_), credentials_, Clock::Real()) {}

  // A file of `bytes` patterned bytes, open for reading.
  UniqueFd FileOf(int64_t bytes) {
    content_.resize(static_cast<size_t>(bytes));
    for (size_t i = 0; i < content_.size(); ++i) content_[i] = static_cast<char>(i * 31 >> 3);
    std::ofstream(folder_.path() / "file", std::ios::binary) << content_;
    return UniqueFd(open((folder_.path() / "file").c_str(), O_RDONLY | O_CLOEXEC));
  }

  TemporaryFolder folder_;
  S3Server server_{folder_.path() / "s3"};
  CredentialSource credentials_{ServerCredentials(), Clock::Real()};
  S3Client client_;
  std::string content_;
};

TEST_F(S3ClientTest, ObjectsComeBackAsTheyWerePutUnderAnyKey) {
  for (const std::string& key : {std::string("a/b.profd"), std::string("with space+plus=equal&x"),
                                 std::string("über/%41%2F~")}) {
    ASSERT_THAT(client_.Put(key, "hello", {.sha256 = "abc"}), IsOk()) << key;
    EXPECT_THAT(client_.Get(key, 1, 3), IsOkAndHolds("ell")) << key;
    const auto head = client_.Head(key);
    ASSERT_THAT(head, IsOk()) << key;
    EXPECT_EQ(head->bytes, 5);
    EXPECT_EQ(head->sha256, "abc");
    const auto page = client_.List(key);
    ASSERT_THAT(page, IsOk());
    EXPECT_THAT(page->objects, ElementsAre(Field(&ObjectInfo::key, key)));
  }
}

TEST_F(S3ClientTest, DeletingIsIdempotentAndWhatIsMissingIsNotFound) {
  ASSERT_THAT(client_.Put("x", "1", {}), IsOk());
  EXPECT_THAT(client_.Delete("x"), IsOk());
  EXPECT_THAT(client_.Delete("x"), IsOk());
  EXPECT_THAT(client_.Head("x"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(client_.Get("x", 0, 1), StatusIs(absl::StatusCode::kNotFound, HasSubstr("'x'")));
}

TEST_F(S3ClientTest, AFileInPartsIsTheSameObject) {
  const UniqueFd file = FileOf(200'000);
  const auto id = client_.BeginUpload("big", {.sha256 = "whole"});
  ASSERT_THAT(id, IsOk());
  for (int number : {2, 1}) {
    const int64_t offset = number == 1 ? 0 : 150'000;
    ASSERT_THAT(
        client_.PutPart(
            "big", *id, number,
            {.descriptor = file.get(), .offset = offset, .bytes = number == 1 ? 150'000 : 50'000}),
        IsOk());
  }
  const auto parts = client_.ListParts("big", *id);
  ASSERT_THAT(parts, IsOk());
  EXPECT_THAT(*parts, ElementsAre(AllOf(Field(&UploadedPart::number, 1),
                                        Field(&UploadedPart::bytes, 150'000)),
                                  Field(&UploadedPart::number, 2)));
  EXPECT_THAT(client_.Head("big"), StatusIs(absl::StatusCode::kNotFound));
  ASSERT_THAT(client_.FinishUpload("big", *id, *parts), IsOk());
  EXPECT_THAT(client_.Get("big", 0, 1 << 20), IsOkAndHolds(content_));
  EXPECT_EQ(client_.Head("big")->sha256, "whole");
  EXPECT_THAT(*client_.ListUploads(""), IsEmpty());
}

TEST_F(S3ClientTest, AnUploadWhoseLastAnswerIsLostIsFinished) {
  const auto finish = [this](std::string_view key) {
    const UniqueFd file = FileOf(200'000);
    const auto id = client_.BeginUpload(key, {});
    EXPECT_THAT(id, IsOk());
    EXPECT_THAT(
        client_.PutPart(key, *id, 1, {.descriptor = file.get(), .offset = 0, .bytes = 200'000}),
        IsOk());
    const auto parts = client_.ListParts(key, *id);
    EXPECT_THAT(parts, IsOk());
    server_.Fail(R"({"cut_answer": 3, "count": 1, "method": "POST"})");
    return client_.FinishUpload(key, *id, *parts);
  };
  EXPECT_THAT(finish("big"), IsOk());
  EXPECT_THAT(client_.Get("big", 0, 1 << 20), IsOkAndHolds(content_));
  EXPECT_THAT(server_.Log(), HasSubstr("404"));
  // An upload that never was is not finished by an object of another size.
  ASSERT_THAT(client_.Put("other", "1", {}), IsOk());
  EXPECT_THAT(client_.FinishUpload("other", "0123456789", {{.number = 1, .bytes = 2, .etag = "e"}}),
              StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(S3ClientTest, UnfinishedUploadsAreListedAndAborted) {
  const auto mine = client_.BeginUpload("node1/a", {});
  ASSERT_THAT(mine, IsOk());
  ASSERT_THAT(client_.BeginUpload("node2/b", {}), IsOk());
  const auto found = client_.ListUploads("node1/");
  ASSERT_THAT(found, IsOk());
  EXPECT_THAT(*found, ElementsAre(AllOf(Field(&UnfinishedUpload::key, "node1/a"),
                                        Field(&UnfinishedUpload::upload_id, *mine))));
  EXPECT_THAT(client_.AbortUpload("node1/a", *mine), IsOk());
  EXPECT_THAT(client_.AbortUpload("node1/a", *mine), IsOk());
  EXPECT_THAT(*client_.ListUploads(""), SizeIs(1));
}

TEST_F(S3ClientTest, WhatFailsForAMomentIsTriedAgain) {
  server_.Fail(R"({"status": 503, "code": "SlowDown", "count": 2})");
  EXPECT_THAT(client_.Put("x", "1", {}), IsOk());
  server_.Fail(R"({"cut": 10, "count": 1, "method": "PUT"})");
  EXPECT_THAT(client_.Put("y", std::string(1000, 'y'), {}), IsOk());
  server_.Fail(R"({"cut_answer": 3, "count": 1, "method": "GET"})");
  EXPECT_THAT(client_.Get("y", 0, 1000), IsOkAndHolds(std::string(1000, 'y')));
}

TEST_F(S3ClientTest, BytesThatChangeOnTheirWayAreRefusedByTheServerAndSentAgain) {
  server_.Fail(R"({"corrupt": true, "count": 1})");
  const UniqueFd file = FileOf(100'000);
  ASSERT_THAT(client_.Put("x", {.descriptor = file.get(), .offset = 0, .bytes = 100'000}, {}),
              IsOk());
  EXPECT_THAT(client_.Get("x", 0, 100'000), IsOkAndHolds(content_));
  EXPECT_THAT(server_.Log(), HasSubstr("400"));
}

TEST_F(S3ClientTest, GivesUpAfterItsAttemptsAndSaysThatTheServerIsBusy) {
  server_.Fail(R"({"status": 500, "count": 1000})");
  const absl::Status status = client_.Put("x", "1", {});
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("busy or failed")));
  EXPECT_EQ(ReasonOf(status), kBusy);
}

TEST_F(S3ClientTest, AServerThatIsNotThereIsUnreachable) {
  S3Client::Options options = OptionsFor(server_);
  options.endpoint = "http://127.0.0.1:1";
  S3Client client(options, credentials_, Clock::Real());
  const absl::Status status = client.Head("x").status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("127.0.0.1:1")));
  EXPECT_EQ(ReasonOf(status), kUnreachable);
}

TEST_F(S3ClientTest, AWrongSecretIsNamedAndNotTriedAgain) {
  CredentialSource wrong(ServerCredentials("other"), Clock::Real());
  S3Client client(OptionsFor(server_), wrong, Clock::Real());
  const absl::Status status = client.Put("x", "1", {});
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("SignatureDoesNotMatch")));
  EXPECT_EQ(ReasonOf(status), kBadCredentials);
}

TEST_F(S3ClientTest, AWrongClockIsNamedWithItsError) {
  server_.Fail(R"({"skew": 7200})");
  const absl::Status status = client_.Put("x", "1", {});
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition,
                               AllOf(HasSubstr("clock"), HasSubstr("differs by "))));
  EXPECT_EQ(ReasonOf(status), kClockSkew);
}

TEST_F(S3ClientTest, ABucketThatIsNotThereIsNamed) {
  S3Client::Options options = OptionsFor(server_);
  options.bucket = "other";
  S3Client client(options, credentials_, Clock::Real());
  const absl::Status status = client.Put("x", "1", {});
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kNotFound, HasSubstr("'other'")));
  EXPECT_EQ(ReasonOf(status), kNoBucket);
}

TEST_F(S3ClientTest, StopsWhenAskedTo) {
  S3Client::Options options = OptionsFor(server_);
  options.stop = [] { return true; };
  S3Client client(options, credentials_, Clock::Real());
  EXPECT_THAT(client.Put("x", "1", {}), StatusIs(absl::StatusCode::kCancelled));
}

TEST_F(S3ClientTest, FollowsTheServersPages) {
  TemporaryFolder folder;
  S3Server server(folder.path(), {"--page-size", "2"});
  S3Client client(OptionsFor(server), credentials_, Clock::Real());
  for (const char* key : {"a", "b", "c", "d", "e"}) ASSERT_THAT(client.Put(key, key, {}), IsOk());
  std::vector<std::string> keys;
  std::string next;
  do {
    const auto page = client.List("", next);
    ASSERT_THAT(page, IsOk());
    for (const ObjectInfo& object : page->objects) keys.push_back(object.key);
    next = page->next;
  } while (!next.empty());
  EXPECT_THAT(keys, ElementsAre("a", "b", "c", "d", "e"));
  const UniqueFd file = FileOf(5);
  const auto id = client.BeginUpload("parts", {});
  ASSERT_THAT(id, IsOk());
  for (int number = 1; number <= 5; ++number) {
    ASSERT_THAT(client.PutPart("parts", *id, number,
                               {.descriptor = file.get(), .offset = number - 1, .bytes = 1}),
                IsOk());
  }
  EXPECT_THAT(*client.ListParts("parts", *id), SizeIs(5));
}

// A page that is followed by another one, with these elements.
std::string TruncatedPage(std::string_view elements) {
  return StrCat(R"({"count": 100, "body": "<List><IsTruncated>true</IsTruncated>)", elements,
                R"(</List>"})");
}

size_t RequestCount(const S3Server& server) {
  const std::string log = server.Log();
  size_t count = 0;
  for (size_t at = log.find("\"method\""); at != std::string::npos;
       at = log.find("\"method\"", at + 1)) {
    ++count;
  }
  return count;
}

TEST_F(S3ClientTest, AListOfObjectsThatDoesNotSayHowItGoesOnIsNotComplete) {
  server_.Fail(TruncatedPage("<Contents><Key>a</Key><Size>1</Size></Contents>"));
  EXPECT_THAT(client_.List("").status(), StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(S3ClientTest, AListThatDoesNotMoveOnIsNotReadForEver) {
  server_.Fail(TruncatedPage("<NextContinuationToken>t</NextContinuationToken>"));
  const auto first = client_.List("");
  ASSERT_THAT(first, IsOk());
  EXPECT_THAT(client_.List("", first->next).status(), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_EQ(RequestCount(server_), 2U);
  server_.Fail(R"({"heal": true})");

  server_.Fail(
      TruncatedPage("<NextKeyMarker>k</NextKeyMarker><NextUploadIdMarker>u</NextUploadIdMarker>"
                    "<Upload><Key>k</Key><UploadId>u</UploadId></Upload>"));
  EXPECT_THAT(client_.ListUploads("").status(), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_EQ(RequestCount(server_), 4U);
  server_.Fail(R"({"heal": true})");

  for (const char* marker : {"3", "-1", "10000"}) {
    server_.Fail(TruncatedPage(StrCat("<NextPartNumberMarker>", marker, "</NextPartNumberMarker>",
                                      "<Part><PartNumber>3</PartNumber><Size>1</Size><ETag>e</ETag>"
                                      "</Part>")));
    EXPECT_THAT(client_.ListParts("k", "u").status(), StatusIs(absl::StatusCode::kDataLoss));
    server_.Fail(R"({"heal": true})");
  }
  EXPECT_EQ(RequestCount(server_), 8U);
}

TEST_F(S3ClientTest, AListOfMoreUploadsOfOneKeyMovesOn) {
  for (const char* upload : {"u1", "u2"}) {
    server_.Fail(StrCat(R"({"count": 1, "body": "<List><IsTruncated>true</IsTruncated>)",
                        "<NextKeyMarker>k</NextKeyMarker><NextUploadIdMarker>", upload,
                        "</NextUploadIdMarker><Upload><Key>k</Key><UploadId>", upload,
                        R"(</UploadId></Upload></List>"})"));
  }
  EXPECT_THAT(client_.ListUploads(""), IsOkAndHolds(SizeIs(2)));  // The third page is the last one.
}

TEST_F(S3ClientTest, CredentialsOfAnInstanceRoleAreUsedWithTheirToken) {
  CredentialSource role({.file = {},
                         .getenv = [this](const char* name) -> std::optional<std::string> {
                           if (std::string_view(name) == "AWS_EC2_METADATA_SERVICE_ENDPOINT") {
                             return server_.endpoint();
                           }
                           return std::nullopt;
                         }},
                        Clock::Real());
  const auto credentials = role.Get();
  ASSERT_THAT(credentials, IsOk());
  EXPECT_EQ(credentials->session_token, "profd-session-token");
  S3Client client(OptionsFor(server_), role, Clock::Real());
  ASSERT_THAT(client.Put("x", "1", {}), IsOk());
  ASSERT_THAT(client.Put("y", "1", {}), IsOk());
  // Asked for once.
  const std::string log = server_.Log();
  const std::string_view token = "/latest/api/token";
  EXPECT_EQ(log.find(token, log.find(token) + 1), std::string::npos);
  // They expired early: others are asked for, once.
  server_.Fail(
      R"({"status": 403, "code": "ExpiredToken", "count": 1, "method": "PUT", "match": "late"})");
  EXPECT_THAT(client.Put("late", "1", {}), IsOk());
  server_.Fail(
      R"({"status": 403, "code": "ExpiredToken", "count": 9, "method": "PUT", "match": "never"})");
  const absl::Status status = client.Put("never", "1", {});
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("ExpiredToken")));
  EXPECT_EQ(ReasonOf(status), kBadCredentials);
  int asked = 0;
  const std::string all = server_.Log();
  for (size_t at = all.find(token); at != std::string::npos; at = all.find(token, at + 1)) ++asked;
  EXPECT_EQ(asked, 3);
}

TEST_F(S3ClientTest, WithoutAnyCredentialsTheAdviceNamesTheWaysToGiveSome) {
  CredentialSource none({.file = {},
                         .getenv = [](const char* name) -> std::optional<std::string> {
                           if (std::string_view(name) == "AWS_EC2_METADATA_DISABLED") return "true";
                           return std::nullopt;
                         }},
                        Clock::Real());
  S3Client client(OptionsFor(server_), none, Clock::Real());
  EXPECT_THAT(client.Put("x", "1", {}),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("archive-credentials"), HasSubstr("AWS_ACCESS_KEY_ID"))));
}

TEST_F(S3ClientTest, TlsNeedsAnAuthorityThatIsKnown) {
  const std::string pem = folder_.path() / "cert.pem";
  const std::string key = folder_.path() / "key.pem";
  const std::string command = StrCat(
      "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
      "-subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1 -out ",
      pem, " -keyout ", key, " 2>/dev/null");
  ASSERT_EQ(std::system(command.c_str()), 0);
  S3Server server(folder_.path() / "tls", {"--tls-cert", pem, "--tls-key", key});
  S3Client::Options options = OptionsFor(server);
  options.attempts = 1;
  {
    S3Client distrusts(options, credentials_, Clock::Real());
    EXPECT_THAT(distrusts.Put("x", "1", {}),
                StatusIs(absl::StatusCode::kUnavailable, HasSubstr("certificate")));
  }
  options.authorities = pem;
  S3Client trusts(options, credentials_, Clock::Real());
  EXPECT_THAT(trusts.Put("x", "1", {}), IsOk());
}

}  // namespace
}  // namespace profd::archive
