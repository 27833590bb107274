#include "daemon/check/json_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "daemon/base/str_cat.h"
#include "tests/fakes/status_matchers.h"

namespace profd::check {
namespace {

using ::testing::HasSubstr;

// Gives a text in pieces of a few bytes, so that everything lies across two of them.
class SmallPieces final : public ByteSource {
 public:
  SmallPieces(std::string text, size_t piece) : text_(std::move(text)), piece_(piece) {}
  absl::StatusOr<std::string_view> Next() override {
    // As buffers are, what was given before is gone.
    given_ = text_.substr(std::min(at_, text_.size()), piece_);
    at_ += given_.size();
    return std::string_view(given_);
  }
  absl::StatusOr<std::string_view> Peek() override { return absl::UnimplementedError(""); }

 private:
  const std::string text_;
  const size_t piece_;
  size_t at_ = 0;
  std::string given_;
};

struct Read {
  std::string text;  // Of all values, written again.
  std::string error;
  int64_t logged = 0;
};

void Write(JsonReader& json, std::string& out) {
  std::string_view key;
  switch (json.Peek()) {
    case JsonReader::Kind::kObject:
      json.EnterObject();
      out += '{';
      while (json.NextKey(key)) {
        StrAppend(&out, key, json.space_before_value() ? ": " : ":");
        Write(json, out);
        out += ',';
      }
      out += '}';
      return;
    case JsonReader::Kind::kArray:
      json.EnterArray();
      out += '[';
      while (json.NextItem()) {
        Write(json, out);
        out += ',';
      }
      out += ']';
      return;
    case JsonReader::Kind::kString:
      StrAppend(&out, "'", json.String(), "'");
      return;
    case JsonReader::Kind::kNumber:
      StrAppend(&out, json.Token());
      return;
    default:
      json.Skip();
      out += '.';
  }
}

Read ReadAll(const std::string& text, size_t piece = 1000) {
  SmallPieces source(text, piece);
  FindingLog log;
  JsonReader json(source, log);
  Read read;
  Write(json, read.text);
  json.ExpectEnd();
  read.error = json.error();
  CheckReport report;
  log.Fill(report);
  for (const Finding& finding : report.findings) read.logged += finding.count;
  return read;
}

TEST(JsonReaderTest, ValuesAreTheSameHoweverTheTextIsCut) {
  const std::string text =
      " {\"a\" : [1, -2.5e+3 ,true,null,\"x\\n\\u00e9\\ud83d\\ude00\u00e9\"],\"b\":{},\"\":[ ] } ";
  const Read whole = ReadAll(text);
  EXPECT_EQ(whole.error, "");
  EXPECT_EQ(whole.logged, 0);
  EXPECT_EQ(whole.text, "{a: [1,-2.5e+3,.,.,'x\n\u00e9\U0001F600\u00e9',],b:{},:[],}");
  for (size_t piece = 1; piece <= 12; ++piece) {
    const Read cut = ReadAll(text, piece);
    EXPECT_EQ(cut.text, whole.text) << piece;
    EXPECT_EQ(cut.error, "") << piece;
  }
}

TEST(JsonReaderTest, WhatIsNoJsonEndsAtItsByte) {
  const auto error = [](const std::string& text) {
    for (const size_t piece : {1, 2, 3, 1000}) {
      EXPECT_EQ(ReadAll(text, piece).error, ReadAll(text).error) << text;
    }
    return ReadAll(text).error;
  };
  EXPECT_EQ(error("[1,2"), "the text breaks off at byte 4");
  EXPECT_EQ(error("[1 2]"), "a comma or the closing bracket is missing at byte 3");
  EXPECT_EQ(error("{\"a\" 1}"), "a colon is missing at byte 5");
  EXPECT_EQ(error("{a:1}"), "a key is missing at byte 1");
  EXPECT_EQ(error("{\"a"), "the text breaks off in a string at byte 3");
  EXPECT_EQ(error("[1]]"), "something follows the end of the trace at byte 3");
  EXPECT_EQ(error("[,]"), "something that is not a value at byte 1");
  EXPECT_EQ(error("[1,]"), "something that is not a value at byte 3");
  EXPECT_EQ(error(""), "the text ends where a value is due at byte 0");
}

TEST(JsonReaderTest, DepthAndLengthsAreBounded) {
  EXPECT_EQ(ReadAll(std::string(128, '[') + std::string(128, ']')).error, "");
  EXPECT_THAT(ReadAll(std::string(129, '[')).error, HasSubstr("too deep"));
  EXPECT_THAT(ReadAll(std::string(100'000, '[')).error, HasSubstr("too deep"));
  const Read read = ReadAll(StrCat("[\"", std::string(1 << 20, 'x'), "\"]"));
  EXPECT_EQ(read.error, "");
  EXPECT_EQ(read.text.size(), JsonReader::kMostStringBytes + 5);
  EXPECT_THAT(ReadAll("[" + std::string(1 << 20, '1') + "]").error, HasSubstr("not a value"));
}

TEST(JsonReaderTest, WhatCanBeReadPastIsLoggedOnceAndReadPast) {
  for (const size_t piece : {1, 2, 3, 1000}) {
    const auto logs = [&](const std::string& text) {
      const Read read = ReadAll(text, piece);
      EXPECT_EQ(read.error, "") << text;
      return read.logged;
    };
    EXPECT_EQ(logs("[\"a\tb\",1]"), 1) << piece;
    EXPECT_EQ(logs("[\"\xc3\x28\",1]"), 1) << piece;
    EXPECT_EQ(logs("[\"\xed\xa0\x80\"]"), 1) << piece;
    EXPECT_EQ(logs("[\"\\ud83d x\"]"), 1) << piece;
    EXPECT_EQ(logs("[\"\\ud83d\\n\"]"), 1) << piece;
    EXPECT_EQ(logs("[\"\\u12\"]"), 1) << piece;
    EXPECT_EQ(logs("[NaN,Infinity,-Infinity,inf,nan,01,1.,.5,+1]"), 9) << piece;
    EXPECT_EQ(logs(R"({"a":1,"b":2,"a":3})"), 1) << piece;
  }
}

}  // namespace
}  // namespace profd::check
