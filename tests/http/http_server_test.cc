// The HTTP server with the limits of metrics: what it answers, and what strangers cannot do to it.
// Files, and the limits of profctl open: tests/cli/commands/open_test.cc.
#include "daemon/http/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <thread>

#include "absl/time/clock.h"
#include "daemon/base/str_cat.h"
#include "tests/fakes/http_client.h"
#include "tests/fakes/status_matchers.h"

namespace profd {
namespace {

using absl::StatusCode;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class HttpServerTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto handler = [](std::string_view path, std::string_view /*host*/) {
      return path == "/here" ? HttpServer::Answer{.body = "body\n"}
                             : HttpServer::Answer{.code = 404, .body = "none\n"};
    };
    auto server = HttpServer::Start("127.0.0.1:0", handler, {});
    ASSERT_THAT(server, IsOk());
    server_ = *std::move(server);
  }
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, APathIsAnsweredWithItsText) {
  const std::string answer = Get(server_->port(), "/here?x=1");
  EXPECT_THAT(answer, AllOf(StartsWith("HTTP/1.1 200 "), EndsWith("\r\n\r\nbody\n"),
                            HasSubstr("Content-Type: text/plain; charset=utf-8\r\n")));
  EXPECT_THAT(Get(server_->port(), "/nowhere"), StartsWith("HTTP/1.1 404 "));
  EXPECT_TRUE(server_->is_loopback());
}

TEST_F(HttpServerTest, HeadHasNoBodyAndOtherMethodsAreRefused) {
  const auto ask = [this](std::string_view method) {
    return Ask(server_->port(),
               StrCat(method, " /here HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
  };
  EXPECT_THAT(ask("HEAD"), AllOf(StartsWith("HTTP/1.1 200 "), Not(HasSubstr("body\n"))));
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS"}) {
    EXPECT_THAT(ask(method), AllOf(StartsWith("HTTP/1.1 405 "), HasSubstr("Allow: GET, HEAD")));
  }
}

TEST_F(HttpServerTest, WhatIsNoRequestOrTooLongDisturbsNobodyElse) {
  using std::string_view_literals::operator""sv;
  const UniqueFd rubbish = ConnectTo(server_->port());
  Send(rubbish.get(), "\0\1\2\3 rubbish\r\n\r\n"sv);
  Ask(server_->port(), StrCat("GET /here HTTP/1.1\r\nHost: x\r\nX: ", std::string(200'000, 'a')));
  const std::string body = std::string(100'000, 'b');
  const std::string with_body =
      Ask(server_->port(), StrCat("POST /here HTTP/1.1\r\nHost: x\r\nContent-Length: ", body.size(),
                                  "\r\nConnection: close\r\n\r\n", body));
  EXPECT_THAT(with_body, Not(HasSubstr("HTTP/1.1 200 ")));
  const UniqueFd silent = ConnectTo(server_->port());
  EXPECT_THAT(Get(server_->port(), "/here"), StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpServerTest, OneAddressGetsSoManyConnectionsAndNoMore) {
  std::vector<UniqueFd> held(40);
  for (UniqueFd& connection : held) connection = ConnectTo(server_->port());
  // Those beyond the limit are closed, without an answer; the others are held, silent.
  EXPECT_THAT(Get(server_->port(), "/here"), Not(StartsWith("HTTP/1.1 200 ")));
  held.clear();
  std::string answer;
  while (!answer.starts_with("HTTP/1.1 200 ")) answer = Get(server_->port(), "/here");
  EXPECT_THAT(answer, EndsWith("body\n"));
}

TEST_F(HttpServerTest, ARequestThatComesByteByByteIsCutOff) {
  const UniqueFd slow = ConnectTo(server_->port());
  Send(slow.get(), "GET /here HTTP/1.1\r\nX: ");
  const absl::Time start = absl::Now();
  // Never silent for long; the server ends it all the same.
  char byte = 0;
  ssize_t got = -1;
  while (got != 0) {
    Send(slow.get(), "a");
    pollfd ended{.fd = slow.get(), .events = POLLIN, .revents = 0};
    if (poll(&ended, 1, 50) == 1) got = std::max<ssize_t>(0, recv(slow.get(), &byte, 1, 0));
  }
  EXPECT_GE(absl::Now() - start, HttpServer::kRequestTime - absl::Milliseconds(100));
  EXPECT_THAT(Get(server_->port(), "/here"), StartsWith("HTTP/1.1 200 "));
}

TEST(HttpServerStartTest, AnAddressThatCannotBeIsRefusedWithTheReason) {
  const auto handler = [](std::string_view, std::string_view) { return HttpServer::Answer(); };
  for (const char* text :
       {"", ":9464", "9464", "host:port", "127.0.0.1:99999", "::1:9464", "x:-1"}) {
    EXPECT_THAT(HttpServer::Start(text, handler, {}),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr("HOST:PORT")))
        << text;
  }
  auto first = HttpServer::Start("127.0.0.1:0", handler, {});
  ASSERT_THAT(first, IsOk());
  EXPECT_THAT(HttpServer::Start(StrCat("127.0.0.1:", (*first)->port()), handler, {}),
              StatusIs(StatusCode::kResourceExhausted, HasSubstr("in use")));
  auto everywhere = HttpServer::Start("*:0", handler, {});
  ASSERT_THAT(everywhere, IsOk());
  EXPECT_FALSE((*everywhere)->is_loopback());
}

}  // namespace
}  // namespace profd
