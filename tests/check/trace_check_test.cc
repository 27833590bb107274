// Files: how they are packed, named and told apart.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <string_view>

#include "daemon/base/str_cat.h"
#include "daemon/check/check_rules.h"
#include "tests/check/checked.h"
#include "tests/store/file/capture_file_builder.h"

namespace profd::check {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::Pair;

constexpr std::string_view kTrace =
    R"({"traceEvents":[{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":2,"ts":3,"dur":4}]})";

std::string Gzip(std::string_view text) {
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

TEST(TraceCheckTest, GzipIsReadAsItsText) {
  const CheckReport report = Checked(Gzip(kTrace), "a.json.gz");
  EXPECT_THAT(Broken(report), IsEmpty());
  EXPECT_TRUE(report.compressed);
  EXPECT_EQ(report.event_count, 1);
  EXPECT_EQ(report.trace_bytes, kTrace.size());
  EXPECT_EQ(report.file_bytes, Gzip(kTrace).size());
}

TEST(TraceCheckTest, LargeTextsAreReadWhole) {
  std::string text(kTrace.substr(0, kTrace.size() - 2));
  for (int i = 0; i < 20'000; ++i) {
    StrAppend(&text, R"(,{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":2,"ts":)", 10 * i + 10,
              R"(,"dur":4})");
  }
  text += "]}";
  for (const std::string& bytes : {text, Gzip(text)}) {
    const CheckReport report = Checked(bytes);
    EXPECT_THAT(Broken(report), IsEmpty());
    EXPECT_EQ(report.event_count, 20'001);
    EXPECT_EQ(report.trace_bytes, text.size());
  }
}

TEST(TraceCheckTest, DamagedGzipIsAFindingWithTheByte) {
  const std::string packed = Gzip(kTrace);
  EXPECT_THAT(Broken(Checked(packed.substr(0, packed.size() - 12))),
              Contains(Pair("gzip-damaged", 1)));
  std::string flipped = packed;
  flipped[packed.size() - 6] ^= 1;  // Of the checksum.
  const CheckReport report = Checked(flipped);
  EXPECT_THAT(Broken(report), ElementsAre(Pair("gzip-damaged", 1)));
  EXPECT_THAT(ExampleOf(report, "gzip-damaged"), HasSubstr("incorrect data check"));
  EXPECT_THAT(ExampleOf(report, "gzip-damaged"), HasSubstr("of the file"));
}

TEST(TraceCheckTest, SeveralGzipStreamsAreAFindingAndReadOn) {
  const CheckReport report = Checked(Gzip(kTrace.substr(0, 30)) + Gzip(kTrace.substr(30)));
  EXPECT_THAT(Broken(report), ElementsAre(Pair("gzip-members", 1)));
  EXPECT_EQ(report.event_count, 1);
}

TEST(TraceCheckTest, WhatStandsBehindGzipIsAFindingUnlessItIsPadding) {
  EXPECT_THAT(Broken(Checked(Gzip(kTrace) + "garbage")), ElementsAre(Pair("gzip-trailing", 1)));
  EXPECT_THAT(Broken(Checked(Gzip(kTrace) + std::string(512, '\0'))), IsEmpty());
}

TEST(TraceCheckTest, NamesHaveToSayWhatIsInThem) {
  EXPECT_THAT(Broken(Checked(kTrace, "a.json.gz")), ElementsAre(Pair("file-name", 1)));
  EXPECT_THAT(Broken(Checked(Gzip(kTrace), "a.json")), ElementsAre(Pair("file-name", 1)));
  EXPECT_THAT(Broken(Checked(kTrace, "a.trace")), ElementsAre(Pair("file-name", 1)));
  EXPECT_THAT(Broken(Checked(kTrace, "")), IsEmpty());
}

TEST(TraceCheckTest, WhatIsNoTraceIsNoFinding) {
  for (const std::string& bytes :
       {std::string(), std::string("hello"), std::string("\x1f\x8b\x00garbage", 10), Gzip("hello"),
        Gzip(""), std::string(5000, '\n'), std::string("\x0a")}) {
    EXPECT_THAT(CheckTraceBytes(bytes, {}), StatusIs(absl::StatusCode::kInvalidArgument)) << bytes;
  }
}

TEST(TraceCheckTest, WhiteSpaceBeforeJsonIsNoPacket) {
  EXPECT_EQ(Checked(StrCat("\n", kTrace)).kind, TraceKind::kChrome);
  EXPECT_EQ(Checked(StrCat("\n\n  ", kTrace)).kind, TraceKind::kChrome);
  EXPECT_EQ(Checked("\n{\n\"traceEvents\": [{\"ph\":\"M\",\"name\":\"a\"}]}").kind,
            TraceKind::kChrome);
}

TEST(TraceCheckTest, FilesThatCannotBeReadAreErrors) {
  const store::TemporaryFolder folder;
  EXPECT_THAT(CheckTraceFile(folder / "none.json", {}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("none.json")));
  EXPECT_THAT(CheckTraceFile(folder.path(), {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("directory")));
}

TEST(TraceCheckTest, AFileIsReadAsItsBytesAndCanBeGivenUp) {
  const store::TemporaryFolder folder;
  const std::string path = folder / "a.json";
  std::ofstream(path) << kTrace;
  const auto report = CheckTraceFile(path, {.name = path, .on_progress = {}});
  ASSERT_THAT(report, IsOk());
  EXPECT_TRUE(report->clean());
  const auto given_up =
      CheckTraceFile(path, {.name = path, .on_progress = [](uint64_t) { return false; }});
  EXPECT_THAT(given_up, StatusIs(absl::StatusCode::kCancelled));
}

// Scripts go by the ids, and people by the rest.
TEST(TraceCheckTest, EachRuleHasAnIdOfItsOwnAndSaysWhatToDo) {
  std::set<std::string_view> ids;
  for (size_t i = 0; i < kRuleCount; ++i) {
    const CheckRule& rule = RuleOf(static_cast<Rule>(i));
    EXPECT_TRUE(ids.insert(rule.id).second) << rule.id;
    EXPECT_FALSE(rule.readers.empty() || rule.effect.empty() || rule.remedy.empty()) << rule.id;
  }
  EXPECT_EQ(RuleOf(Rule::kLargeFile).id, "large-file");
  EXPECT_EQ(RuleOf(Rule::kNesting).id, "nesting");
  EXPECT_EQ(RuleOf(Rule::kWireFormat).id, "wire-format");
}

}  // namespace
}  // namespace profd::check
