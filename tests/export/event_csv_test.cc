#include "daemon/export/event_csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/str_cat.h"
#include "daemon/export/trace_export.h"
#include "daemon/report/index/gpu_names.h"
#include "daemon/report/index/source_kinds.h"
#include "daemon/report/index/wide_streams.h"
#include "proto/wire/event.h"
#include "tests/export/sink/string_sink.h"
#include "tests/fakes/fake_capture_reader.h"
#include "tests/fakes/status_matchers.h"

namespace profd::exporter {
namespace {

using ::testing::SizeIs;

// RFC 4180, strictly: rows of cells; empty if it is anything else.
std::vector<std::vector<std::string>> ParseCsv(std::string_view text) {
  std::vector<std::vector<std::string>> rows(1, std::vector<std::string>(1));
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    std::string& cell = rows.back().back();
    if (quoted) {
      if (text[i] != '"') {
        cell.push_back(text[i]);
      } else if (i + 1 < text.size() && text[i + 1] == '"') {
        cell.push_back(text[++i]);
      } else {
        quoted = false;
      }
    } else if (text[i] == '"' && cell.empty()) {
      quoted = true;
    } else if (text[i] == ',') {
      rows.back().emplace_back();
    } else if (text.substr(i, 2) == "\r\n") {
      rows.emplace_back(1);
      ++i;
    } else if (text[i] == '"' || text[i] == '\n') {
      return {};
    } else {
      cell.push_back(text[i]);
    }
  }
  rows.pop_back();  // Behind the last line's end.
  return rows;
}

class EventCsvTest : public testing::Test {
 protected:
  EventCsvTest() : main_(reader_.AddThread(100, "main, \"the first\"")) {}

  using Row = std::map<std::string, std::string>;
  // Of each kind, its rows by the names of columns.
  std::map<std::string, std::vector<Row>> Export() {
    StringSink sink;
    EXPECT_THAT(ExportTrace(reader_, TraceFormat::kCsv, sink), IsOk());
    EXPECT_EQ(sink.finished(), 1);
    const auto lines = ParseCsv(sink.text());
    EXPECT_FALSE(lines.empty());
    std::map<std::string, std::vector<Row>> kinds;
    for (size_t line = 1; line < lines.size(); ++line) {
      EXPECT_EQ(lines[line].size(), lines[0].size());
      Row row;
      for (size_t i = 0; i < std::min(lines[line].size(), lines[0].size()); ++i) {
        row[lines[0][i]] = lines[line][i];
      }
      kinds[row["kind"]].push_back(row);
    }
    return kinds;
  }

  FakeCaptureReader reader_;
  const uint32_t main_;
};

TEST_F(EventCsvTest, AnEmptyCaptureHasOnlyItsHeader) { EXPECT_THAT(Export(), SizeIs(0)); }

// As recorded around an await: open ranges of other tasks count in the depth of what follows.
TEST_F(EventCsvTest, DepthsAreThoseOfTheRowAlsoAfterAnAwait) {
  const uint32_t lane = reader_.AddThread((1 << 30) | 3, "overlapping ranges of 100");
  const uint32_t other = reader_.AddThread(200, "other");
  reader_.BatchRows(2)
      .Range(lane, "request", 0, 60)
      .Range(main_, "after request", 10, 50, {.depth = 1})
      .Range(main_, "inside", 20, 30, {.depth = 2})
      .Range(main_, "empty", 30, 30, {.depth = 2})
      .Range(main_, "at the end", 50, 50, {.depth = 2})
      .Range(main_, "next", 50, 70, {.depth = 1})
      .Range(main_, "last", 80, 90, {.depth = 0})
      .Range(other, "below a lost one", 0, 10, {.depth = 1});
  std::map<std::string, std::string> depths;
  auto kinds = Export();
  for (Row& row : kinds["range"]) depths[row["name"]] = row["depth"];
  EXPECT_EQ(depths, (std::map<std::string, std::string>{{"request", "0"},
                                                        {"after request", "0"},
                                                        {"inside", "1"},
                                                        {"empty", "1"},
                                                        {"at the end", "1"},
                                                        {"next", "0"},
                                                        {"last", "0"},
                                                        {"below a lost one", "1"}}));
}

TEST_F(EventCsvTest, StreamsOfImportedTracesHaveTheirOwnNumbers) {
  constexpr int64_t kHip = 140'234'234'234;
  reader_.mutable_record().imported.source = "trace.json";
  reader_.Argument({.of = report::kArgumentOfWideStream,
                    .of_thread = 0,
                    .row = 0,
                    .key = reader_.Name(report::kWideStreamKey),
                    .type = ArgumentType::kInteger,
                    .value = kHip});
  reader_.Kernel("wide", 10, 20, 1, {.stream = report::kFirstWideStream})
      .Kernel("short", 30, 40, 2, {.stream = 7})
      .Sync(report::kStreamSync, 50, 60, 3, {.stream = report::kFirstWideStream});
  auto kinds = Export();
  ASSERT_THAT(kinds["kernel"], SizeIs(2));
  EXPECT_EQ(kinds["kernel"][0]["stream"], StrCat(kHip));
  EXPECT_EQ(kinds["kernel"][1]["stream"], "7");
  EXPECT_EQ(kinds["sync"].at(0)["stream"], StrCat(kHip));
}

TEST_F(EventCsvTest, EveryKindOfEventHasItsRows) {
  reader_.Step(7, 0, 1000)
      .Range(main_, "forward", 0, 100)
      .Operator(main_, "aten::mm", 10, 50)
      .Instant(main_, "mark", 5)
      .Counter(main_, "loss", 6, 0.1)
      .Note(main_, 8, static_cast<uint16_t>(wire::NoteKind::kGraphBreak), "train.py:1", "print", 0)
      .Allocate(main_, 20, 0xA0, 64,
                {.total_allocated_bytes = 640, .device_type = 1, .category = 4})
      .Free(main_, 30, 0xA0, 64)
      .ApiCall(main_, "cudaLaunchKernel", 20, 25, 1)
      .Kernel("gemm", 500, 600, 1, {.device = 2, .stream = 9})
      .Copy(700, 710, 3, {.bytes = 4096, .copy_kind = 1, .source_kind = 1, .destination_kind = 3})
      .Memset(720, 721, 4, {.bytes = 8, .destination_kind = 3})
      .GraphLaunch(730, 740, 5)
      .GpuWork(GpuRowKind::kMemDecompress, 742, 748, 7, {.bytes = 512})
      .Sync(3, 750, 760, 6)
      .Overhead(1, 770, 780, 4711);
  auto kinds = Export();
  EXPECT_THAT(kinds, SizeIs(16));
  for (auto& [kind, rows] : kinds) EXPECT_THAT(rows, SizeIs(1)) << kind;
  EXPECT_EQ(kinds["step"][0]["value"], "7");
  EXPECT_EQ(kinds["range"][0]["name"], "forward");
  EXPECT_EQ(kinds["range"][0]["thread"], "100");
  EXPECT_EQ(kinds["range"][0]["thread_name"], "main, \"the first\"");
  EXPECT_EQ(kinds["operator"][0]["depth"], "1");
  EXPECT_EQ(kinds["operator"][0]["duration_ns"], "40");
  EXPECT_EQ(kinds["counter"][0]["value"], "0.1");
  EXPECT_EQ(kinds["note"][0]["name"], "train.py:1: print");
  EXPECT_EQ(kinds["allocation"][0]["device"], "cuda:0");
  EXPECT_EQ(kinds["allocation"][0]["category"], "activation");
  EXPECT_EQ(kinds["allocation"][0]["total_allocated_bytes"], "640");
  EXPECT_EQ(kinds["allocation"][0]["total_reserved_bytes"], "");
  EXPECT_EQ(kinds["free"][0]["address"], "160");
  EXPECT_EQ(kinds["api_call"][0]["correlation"], "1");
  EXPECT_EQ(kinds["kernel"][0]["device"], "2");
  EXPECT_EQ(kinds["kernel"][0]["stream"], "9");
  EXPECT_EQ(kinds["kernel"][0]["bytes"], "");
  EXPECT_EQ(kinds["memcpy"][0]["name"], "Memcpy HtoD (Pageable -> Device)");
  EXPECT_EQ(kinds["memcpy"][0]["bytes"], "4096");
  EXPECT_EQ(kinds["graph_launch"][0]["name"], "");
  EXPECT_EQ(kinds["mem_decompress"][0]["name"], "Memcpy Decompress");
  EXPECT_EQ(kinds["mem_decompress"][0]["bytes"], "512");
  EXPECT_EQ(kinds["sync"][0]["name"], "Stream Sync");
  EXPECT_EQ(kinds["sync"][0]["stream"], "");
  EXPECT_EQ(kinds["overhead"][0]["thread"], "4711");
}

TEST_F(EventCsvTest, HostileNamesStayInTheirCell) {
  const std::string name = "a,b\r\n\"c\"";
  reader_.Range(main_, name, 0, 100).Range(main_, "bad \xff utf-8", 200, 300);
  auto kinds = Export();
  ASSERT_THAT(kinds["range"], SizeIs(2));
  EXPECT_EQ(kinds["range"][0]["name"], name);
  EXPECT_EQ(kinds["range"][1]["name"], "bad \xEF\xBF\xBD utf-8");
}

TEST_F(EventCsvTest, ANoteOfNoMomentHasNoTime) {
  reader_.Note(main_, kNoNoteTime, static_cast<uint16_t>(wire::NoteKind::kMissing), "gpu", "", 0);
  EXPECT_EQ(Export()["note"][0]["start_ns"], "");
}

TEST_F(EventCsvTest, AReaderOrASinkThatFailsEndsIt) {
  reader_.Range(main_, "forward", 0, 100);
  StringSink sink;
  sink.fail_after_bytes = 3;
  EXPECT_THAT(ExportTrace(reader_, TraceFormat::kCsv, sink),
              StatusIs(absl::StatusCode::kCancelled));
  reader_.FailAfter(0, absl::DataLossError("chunk 1 is damaged"));
  StringSink other;
  EXPECT_THAT(ExportTrace(reader_, TraceFormat::kCsv, other),
              StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_EQ(other.finished(), 0);
}

}  // namespace
}  // namespace profd::exporter
