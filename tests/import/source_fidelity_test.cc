// An export has what its source had: every event of the categories that profd imports, with all
// arguments that profd knows, and nothing that it lacked.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/export/trace_export.h"
#include "daemon/import/kept_arguments.h"
#include "gmock/gmock.h"
#include "tests/export/report_capture.h"
#include "tests/export/sink/string_sink.h"
#include "tests/fakes/fake_capture_reader.h"
#include "tests/import/import_fixture.h"
#include "tests/import/real_traces.h"
#include "tests/import/unzip.h"

namespace profd::importer {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// 5.0 and 5 are the same number.
json Normal(const json& value) {
  if (value.is_number_float() && value.get<double>() == std::floor(value.get<double>())) {
    return static_cast<int64_t>(value.get<double>());
  }
  if (!value.is_structured()) return value;
  json normal = value;
  for (json& item : normal) item = Normal(item);
  return normal;
}

// One of Kineto's events as a line, but its row; nothing for what follows from others. Times are
// exact only where they are short.
std::string LineOf(const json& event, int64_t base_ns, bool with_times) {
  const std::string phase = event.value("ph", "");
  const std::string category = event.value("cat", "");
  const std::string mark = phase == "i" ? event.value("name", "") : "";
  const bool is_mark =
      mark == "[memory]" || mark == "Record Window End" || mark.starts_with("Iteration Start");
  if (!is_mark && phase != "X") return "";
  const json args = event.contains("args") ? Normal(event["args"]) : json::object();
  // Captures have at most 4 KiB of a name.
  const std::string name = event.value("name", "").substr(0, 4000);
  std::string line = category + " " + name + " " + args.dump();
  if (with_times) {
    line += StrCat(" at ", base_ns + std::llround(event["ts"].get<double>() * 1000), " for ",
                   std::llround(event.value("dur", 0.0) * 1000));
  }
  return line;
}

std::vector<std::string> EventsOf(const json& trace, bool with_times, bool with_annotations,
                                  bool with_end) {
  const int64_t base_ns = with_times ? trace.value("baseTimeNanoseconds", int64_t{0}) : 0;
  std::vector<std::string> lines;
  for (const json& event : trace["traceEvents"]) {
    if (!with_annotations && event.value("cat", "") == "gpu_user_annotation") continue;
    // profd's own, where the source has none.
    if (!with_end && event.value("name", "") == "Record Window End") continue;
    std::string line = LineOf(event, base_ns, with_times);
    if (!line.empty()) lines.push_back(std::move(line));
  }
  std::ranges::sort(lines);
  return lines;
}

// Labels of rows; the time that Kineto gives them says nothing.
std::vector<std::string> LabelsOf(const json& trace) {
  std::vector<std::string> lines;
  for (const json& event : trace["traceEvents"]) {
    if (event.value("ph", "") != "M") continue;
    json label = event;
    label.erase("ts");
    lines.push_back(label.dump());
  }
  std::ranges::sort(lines);
  return lines;
}

// Arrows but their rows and times, which are those of their events.
std::vector<std::string> FlowsOf(const json& trace) {
  std::vector<std::string> lines;
  for (const json& event : trace["traceEvents"]) {
    const std::string phase = event.value("ph", "");
    if (phase != "s" && phase != "t" && phase != "f") continue;
    json flow = event;
    for (const char* place : {"pid", "tid", "ts"}) flow.erase(place);
    lines.push_back(flow.dump());
  }
  std::ranges::sort(lines);
  return lines;
}

std::vector<std::string> Without(const std::vector<std::string>& lines,
                                 const std::vector<std::string>& others) {
  std::vector<std::string> rest;
  std::ranges::set_difference(lines, others, std::back_inserter(rest));
  return rest;
}

class SourceFidelityTest : public ImportTest {
 protected:
  std::string Export(const std::filesystem::path& trace) {
    const auto imported = Import(trace);
    EXPECT_THAT(imported, IsOk());
    if (!imported.ok()) return "{}";
    record_ = imported->record;
    StringSink sink;
    EXPECT_THAT(exporter::ExportTrace(*Open(imported->file), exporter::TraceFormat::kChrome, sink),
                IsOk());
    return sink.text();
  }

  static std::string ExportOf(store::CaptureReader& reader) {
    StringSink sink;
    EXPECT_THAT(exporter::ExportTrace(reader, exporter::TraceFormat::kChrome, sink), IsOk());
    return sink.text();
  }

  // The export of `trace` has the same events. Derived annotations of streams are compared if the
  // source has any.
  void ExpectSameEvents(const std::filesystem::path& trace, bool with_times) {
    const json source = json::parse(Unzip(trace));
    const json exported = json::parse(Export(trace));
    const bool with_annotations = std::ranges::any_of(source["traceEvents"], [](const json& event) {
      return event.value("cat", "") == "gpu_user_annotation";
    });
    const bool with_end = std::ranges::any_of(source["traceEvents"], [](const json& event) {
      return event.value("name", "") == "Record Window End";
    });
    const auto before = EventsOf(source, with_times, with_annotations, with_end);
    const auto after = EventsOf(exported, with_times, with_annotations, with_end);
    EXPECT_FALSE(before.empty());
    std::vector<std::string> lost;
    std::vector<std::string> invented;
    std::ranges::set_difference(before, after, std::back_inserter(lost));
    std::ranges::set_difference(after, before, std::back_inserter(invented));
    EXPECT_EQ(lost.size(), 0u) << lost.front();
    EXPECT_EQ(invented.size(), 0u) << invented.front();
    const auto lost_labels = Without(LabelsOf(source), LabelsOf(exported));
    EXPECT_EQ(lost_labels.size(), 0u) << lost_labels.front();
    const auto flows = FlowsOf(source);
    const auto lost_flows = Without(flows, FlowsOf(exported));
    EXPECT_EQ(lost_flows.size(), 0u) << lost_flows.front();
    const auto invented_flows = Without(FlowsOf(exported), flows);
    EXPECT_TRUE(flows.empty() || invented_flows.empty()) << invented_flows.front();
    for (const auto& [key, value] : source.items()) {
      if (key == "traceEvents" || key == "baseTimeNanoseconds") continue;
      ASSERT_TRUE(exported.contains(key)) << key;
      EXPECT_EQ(exported[key], value) << key;
    }
    for (const auto& [key, value] : exported.items()) {
      if (key == "profd" || key == "baseTimeNanoseconds") continue;
      EXPECT_TRUE(source.contains(key)) << key;
    }
  }

  CaptureRecord record_;
};

std::filesystem::path HandMade() {
  return std::filesystem::path(std::getenv("PROFD_SOURCE_DIR")) / "tests/data/every_argument.json";
}

TEST_F(SourceFidelityTest, AnExportHasEveryArgumentThatWasImported) {
  ExpectSameEvents(HandMade(), /*with_times=*/true);
  EXPECT_THAT(record_.imported.not_understood, IsEmpty());
}

TEST_F(SourceFidelityTest, AnExportOfAnExportIsTheSame) {
  const std::string once = Export(HandMade());
  EXPECT_EQ(Export(Write("once.json", once)), once);
}

// Steps, operators, memory, and two GPUs, as a daemon records them.
TEST_F(SourceFidelityTest, AnExportOfARecordedCaptureIsExportedAsTheSameBytes) {
  ReportCapture capture;
  const std::string once = ExportOf(capture.reader());
  EXPECT_EQ(Export(Write("once.json", once)), once);
}

TEST_F(SourceFidelityTest, AnExportOfACaptureWithStacksIsExportedAsTheSameBytes) {
  FakeCaptureReader reader;
  const uint32_t main = reader.AddThread(100, "main");
  const uint32_t loader = reader.AddThread(101, "loader");
  const uint32_t outer = reader.Stack(0, "train.py", 7, "main");
  reader.mutable_record().torch.outcome = TorchOutcome::kRecorded;
  reader.mutable_record().torch.stack_count = 2;
  reader.Operator(main, "aten::mm", 1'000, 2'000, {.stack = outer})
      .Operator(main, "aten::add", 3'000, 4'000, {.stack = reader.Stack(outer, "net.py", 3, "f")})
      .Operator(loader, "aten::stack", 3'000, 4'000, {.stack = outer});
  const std::string once = ExportOf(reader);
  EXPECT_THAT(once, HasSubstr("python_function"));
  EXPECT_EQ(Export(Write("once.json", once)), once);
}

// torch counts the CPU's memory from its profiler's start, others from the process's.
TEST_F(SourceFidelityTest, MemoryOfAProgramWithoutTorchIsCountedAsInItsCapture) {
  FakeCaptureReader reader;
  const uint32_t main = reader.AddThread(100, "main");
  reader.Range(main, "from the start on", 0, 3'000)
      .Allocate(main, 1'000, 0x1000, 512, {.total_allocated_bytes = 4096})
      .Free(main, 2'000, 0x1000, 512, {.total_allocated_bytes = 3584});
  const std::string once = ExportOf(reader);
  EXPECT_THAT(once, HasSubstr(R"(,"args":{"bytes":4096}})"));
  EXPECT_EQ(Export(Write("once.json", once)), once);
}

TEST_F(SourceFidelityTest, WhatACaptureLostIsLostInAnImportOfItsExport) {
  ReportCapture capture;
  DropCounts& drops = capture.reader().mutable_record().drops;
  drops[static_cast<size_t>(DropReason::kNoChunk)] = 12;
  drops[static_cast<size_t>(DropReason::kThinned)] = 3;
  Export(Write("once.json", ExportOf(capture.reader())));
  EXPECT_EQ(record_.drops, drops);
}

TEST_F(SourceFidelityTest, ArgumentsThatProfdDoesNotKnowAreKeptAndCounted) {
  const std::string text = Export(Write(
      "unknown.json",
      R"({"schemaVersion":1,"traceEvents":[{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,)"
      R"("ts":1,"dur":2,"args":{"num_warps":4,"kernel \"file\"":"/tmp/k.py","empty":"",)"
      R"("list":[1, {"a":null}]}},{"ph":"X","cat":"cuda_runtime","name":"hipFree","pid":1,"tid":1,)"
      R"("ts":5,"dur":2,"args":{"ptr":"0x7f00"}}]})"));
  for (const char* argument : {R"("num_warps":4)", R"("kernel \"file\"":"/tmp/k.py")",
                               R"("empty":"")", R"("list":[1,{"a":null}])", R"("ptr":"0x7f00")"}) {
    EXPECT_THAT(text, HasSubstr(argument));
  }
  EXPECT_EQ(record_.imported.not_understood.at("arg:cuda_runtime.ptr"), 1);
  EXPECT_EQ(Export(Write("once.json", text)), text);
  EXPECT_THAT(record_.imported.not_understood, IsEmpty());
}

// Pointers and handles; a double is another number, and two of them may be one.
TEST_F(SourceFidelityTest, IntegersBeyond63BitsStayThatNumber) {
  const std::string text = Export(Write(
      "wide.json",
      R"({"schemaVersion":1,"traceEvents":[)"
      R"({"ph":"X","cat":"kernel","name":"a","pid":0,"tid":7,"ts":1,"dur":2,"args":{"device":0,)"
      R"("context":18446744073709551613,"stream":18446744073709551615,"correlation":1}},)"
      R"({"ph":"X","cat":"kernel","name":"a","pid":0,"tid":8,"ts":4,"dur":2,"args":{"device":0,)"
      R"("context":1,"stream":18446744073709551614,"correlation":2}},)"
      R"({"ph":"X","cat":"cpu_op","name":"b","pid":1,"tid":1,"ts":5,"dur":2,"args":{)"
      R"("ptr":18446744073709551615,"less":-9223372036854775809,)"
      R"("longer":123456789012345678901234567890,"bytes":18446744073709551611}}]})"));
  for (const char* argument :
       {R"("context":18446744073709551613)", R"("stream":18446744073709551615)",
        R"("stream":18446744073709551614)", R"("ptr":18446744073709551615)",
        R"("less":-9223372036854775809)", R"("longer":123456789012345678901234567890)",
        R"("bytes":18446744073709551611)"}) {
    EXPECT_THAT(text, HasSubstr(argument));
  }
  EXPECT_EQ(Export(Write("once.json", text)), text);
}

std::string WaitOnEvent(std::string_view arguments) {
  return StrCat(
      R"({"ph":"X","cat":"cuda_sync","name":"Stream Wait Event","pid":0,"tid":7,"ts":11,"dur":1,)"
      R"("args":{"cuda_sync_kind":"Stream Wait Event","device":0,"context":1,"correlation":15)",
      arguments, "}}");
}

// As Kineto of torch 2.0 and 2.1 writes them.
TEST_F(SourceFidelityTest, AWaitThatDoesNotSayForWhichEventGetsNone) {
  const std::string text =
      Export(Write("waits.json", StrCat(R"({"schemaVersion":1,"traceEvents":[)",
                                        WaitOnEvent(R"(,"stream":7)"), "]}")));
  EXPECT_THAT(text, HasSubstr(R"("cuda_sync_kind":"Stream Wait Event")"));
  EXPECT_THAT(text, Not(HasSubstr("wait_on")));
  EXPECT_EQ(Export(Write("once.json", text)), text);
}

TEST_F(SourceFidelityTest, AWaitKeepsTheStreamThatItWaitsFor) {
  for (const std::string_view stream : {"140234234234", "-1", "3221225473", "9"}) {
    const std::string trace =
        StrCat(R"({"schemaVersion":1,"traceEvents":[)",
               WaitOnEvent(StrCat(R"(,"stream":7,"wait_on_cuda_event_id":3,"wait_on_stream":)",
                                  stream, R"(,"wait_on_cuda_event_record_corr_id":12)")),
               "]}");
    const std::string text = Export(Write("waits.json", trace));
    const auto event = [](const std::string& from) {
      const json parsed = json::parse(from);
      for (const json& found : parsed["traceEvents"]) {
        if (found.value("cat", "") == "cuda_sync") return found["args"];
      }
      return json();
    };
    ASSERT_TRUE(event(trace).is_object());
    EXPECT_EQ(event(text), event(trace)) << stream;
    EXPECT_EQ(Export(Write("once.json", text)), text) << stream;
  }
}

TEST_F(SourceFidelityTest, ACharacterBeyond16BitsKeepsItsOperatorsInputs) {
  const std::string text = Export(Write(
      "emoji.json",
      R"({"schemaVersion":1,"traceEvents":[{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,)"
      R"("ts":1,"dur":2,"args":{"Concrete Inputs":["\ud83d\ude00"],"Input type":["Scalar"],)"
      R"("Input Dims":[[]]}}]})"));
  EXPECT_THAT(text, HasSubstr(R"("Concrete Inputs":["\ud83d\ude00"])"));
}

// Without a date, a record has no start.
TEST_F(SourceFidelityTest, ATraceThatBeginsAtItsTime0OrBeforeKeepsItsTimes) {
  for (const int64_t start_us : {int64_t{0}, int64_t{-5}, int64_t{-8'000'000'000'000}}) {
    const std::string trace = StrCat(
        R"({"schemaVersion":1,"traceEvents":[{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,)"
        R"("ts":)",
        start_us, R"(,"dur":2}]})");
    const std::string text = Export(Write("zero.json", trace));
    EXPECT_EQ(record_.start_unix_ns, 1);
    const json exported = json::parse(text);
    for (const json& event : exported["traceEvents"]) {
      if (event.value("name", "") != "a") continue;
      EXPECT_GE(event["ts"].get<double>(), 0);
      EXPECT_EQ(exported["baseTimeNanoseconds"].get<int64_t>() +
                    std::llround(event["ts"].get<double>() * 1000),
                start_us * 1000);
    }
    EXPECT_EQ(Export(Write("once.json", text)), text) << start_us;
  }
}

TEST_F(SourceFidelityTest, EventsWithoutArgumentsGetNone) {
  const std::string text =
      Export(Write("bare.json", R"({"schemaVersion":1,"traceEvents":[{"ph":"X","cat":"cpu_op",)"
                                R"("name":"a","pid":1,"tid":1,"ts":1,"dur":2}]})"));
  EXPECT_THAT(text, Not(HasSubstr("External id")));
  EXPECT_THAT(text, Not(HasSubstr("Ev Idx")));
}

std::string TraceOf(std::string_view events) {
  return StrCat(R"({"schemaVersion":1,"traceEvents":[)", events, "]}");
}

constexpr std::string_view kCall =
    R"({"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":9,"tid":9,"ts":10,"dur":2,)"
    R"("args":{"correlation":7}})";
constexpr std::string_view kKernel =
    R"({"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":20,"dur":5,)"
    R"("args":{"device":0,"context":1,"stream":7,"correlation":7}})";

TEST_F(SourceFidelityTest, ArrowsKeepTheirNumbersCategoriesAndPlaces) {
  const std::string text = Export(Write(
      "arrows.json",
      TraceOf(StrCat(
          R"({"ph":"X","cat":"cpu_op","name":"a","pid":9,"tid":9,"ts":1,"dur":30},)",
          R"({"ph":"s","id":"0x5","pid":9,"tid":9,"ts":1,"cat":"fwd \"bwd\"","name":"x"},)", kCall,
          R"(,{"ph":"s","id":3,"pid":9,"tid":9,"ts":10,"cat":"async_cpu_to_gpu",)"
          R"("name":"async_gpu","bp":"e"},)",
          R"({"ph":"s","id":4,"pid":9,"tid":9,"ts":10,"cat":"async_cpu_to_gpu",)"
          R"("name":"async_gpu","bp":"e"},)",
          kKernel,
          R"(,{"ph":"f","id":3,"pid":0,"tid":7,"ts":20,"cat":"async_cpu_to_gpu",)"
          R"("name":"async_gpu","bp":"e"})"))));
  const std::string first = R"("ts":10.000,"cat":"async_cpu_to_gpu","name":"async_gpu","bp":"e"})";
  EXPECT_THAT(text, HasSubstr(StrCat(R"({"ph":"s","id":3,"pid":9,"tid":9,)", first)));
  EXPECT_THAT(text, HasSubstr(StrCat(R"({"ph":"s","id":4,"pid":9,"tid":9,)", first)));
  EXPECT_THAT(text, HasSubstr(R"({"ph":"s","id":"0x5","pid":9,"tid":9,"ts":1.000,)"
                              R"("cat":"fwd \"bwd\"","name":"x"})"));
  EXPECT_THAT(text, HasSubstr(R"({"ph":"f","id":3,"pid":0,"tid":7,"ts":20.000,)"
                              R"("cat":"async_cpu_to_gpu","name":"async_gpu","bp":"e"})"));
  EXPECT_THAT(text, Not(HasSubstr("ac2g"))) << "none is drawn";
  EXPECT_THAT(record_.imported.not_understood, IsEmpty());
  EXPECT_EQ(Export(Write("once.json", text)), text);
}

TEST_F(SourceFidelityTest, ArrowsThatAreAtNoEventStayWhereTheyWere) {
  const std::string text = Export(Write(
      "loose.json",
      TraceOf(StrCat(kCall, ",", kKernel,
                     R"(,{"ph":"s","id":3,"pid":9,"tid":9,"ts":10,"cat":"ac2g","name":"ac2g"},)",
                     R"({"ph":"t","pid":9,"tid":8,"ts":4.5,"cat":"other","name":"o"},)",
                     R"({"ph":"f","id":3,"pid":0,"tid":7,"ts":21,"cat":"ac2g","name":"ac2g"})"))));
  EXPECT_THAT(text, HasSubstr(R"({"ph":"s","id":3,"pid":9,"tid":9,"ts":10.000,"cat":"ac2g",)"));
  EXPECT_THAT(text, HasSubstr(R"({"ph":"t","pid":9,"tid":8,"ts":4.500,"cat":"other","name":"o"})"));
  EXPECT_THAT(text, HasSubstr(R"({"ph":"f","id":3,"pid":0,"tid":7,"ts":21.000,"cat":"ac2g",)"));
  EXPECT_EQ(Export(Write("once.json", text)), text);
}

// Its numbers are written out: 1e14 as 100000000000000.0. The lengths of the ids differ, so that
// some arrows are where a piece ends.
TEST_F(SourceFidelityTest, ArrowsThatGrowAreExportedWhole) {
  std::string bp = "[1e14";
  while (bp.size() < 4000) bp += ",1e14";
  bp += "]";
  std::string events(kCall);
  constexpr size_t kArrows = 1000;
  for (size_t i = 0; i < kArrows; ++i) {
    StrAppend(&events, R"(,{"ph":"t","pid":9,"tid":8,"ts":4.5,"cat":"other","name":"o","id":")",
              std::string(4000 - i / 57 * 37, 'i'), R"(","bp":)", bp, "}");
  }
  const json exported = json::parse(Export(Write("grow.json", TraceOf(events))));
  EXPECT_EQ(FlowsOf(exported).size(), kArrows);
  EXPECT_EQ(FlowsOf(exported), FlowsOf(json::parse(TraceOf(events))));
}

TEST_F(SourceFidelityTest, MoreArrowsThanAnEventCanHaveAreKeptByThemselves) {
  std::string events(kCall);
  for (int id = 1; id <= 20; ++id) {
    StrAppend(&events, R"(,{"ph":"s","id":)", id,
              R"(,"pid":9,"tid":9,"ts":10,"cat":"ac2g","name":"ac2g"})");
  }
  const json exported = json::parse(Export(Write("many.json", TraceOf(events))));
  EXPECT_EQ(FlowsOf(exported), FlowsOf(json::parse(TraceOf(events))));
}

TEST_F(SourceFidelityTest, ATraceWithoutArrowsGetsThoseThatFollowFromItsNumbers) {
  const std::string text = Export(Write("none.json", TraceOf(StrCat(kCall, ",", kKernel))));
  EXPECT_THAT(text, HasSubstr(R"({"ph":"s","id":7,"pid":9,"tid":9,"ts":10.000,"cat":"ac2g")"));
  EXPECT_THAT(text, HasSubstr(R"({"ph":"f","id":7,"pid":0,"tid":7,"ts":20.000,"cat":"ac2g")"));
  EXPECT_EQ(Export(Write("once.json", text)), text);
}

TEST_F(SourceFidelityTest, ArrowsAtRangesThatAreNestedTooDeepAreCounted) {
  std::string events;
  constexpr int kRanges = 200;
  for (int i = 0; i < kRanges; ++i) {
    StrAppend(&events, i > 0 ? "," : "",
              R"({"ph":"X","cat":"user_annotation","name":"r","pid":9,"tid":9,"ts":)", i,
              R"(,"dur":)", 1000 - 2 * i, R"(},{"ph":"s","id":)", i, R"(,"pid":9,"tid":9,"ts":)", i,
              R"(,"cat":"c","name":"n"})");
  }
  const json exported = json::parse(Export(Write("deep.json", TraceOf(events))));
  const auto kept = static_cast<int64_t>(FlowsOf(exported).size());
  EXPECT_GT(kept, 0);
  EXPECT_LT(kept, kRanges);
  EXPECT_EQ(record_.imported.not_understood.at("flow at a range nested too deep"), kRanges - kept);
}

TEST_F(SourceFidelityTest, ArrowsThatAreTooFarAwayAreCounted) {
  const json exported = json::parse(Export(Write(
      "far.json",
      TraceOf(StrCat(kCall, R"(,{"ph":"s","id":3,"pid":9,"tid":9,"ts":40000000000000,"cat":"c"})",
                     R"(,{"ph":"f","id":3,"pid":9,"tid":9,"ts":50,"cat":"c"})")))));
  EXPECT_EQ(FlowsOf(exported).size(), 1u);
  EXPECT_EQ(record_.imported.not_understood.at("flow over a year away"), 1);
}

TEST_F(SourceFidelityTest, AnArrowWithoutATimeIsCounted) {
  Export(Write("timeless.json",
               TraceOf(StrCat(kCall, R"(,{"ph":"s","id":3,"pid":9,"tid":9,"cat":"ac2g"})"))));
  EXPECT_EQ(record_.imported.not_understood.at("ph:s without ts"), 1);
}

TEST_F(SourceFidelityTest, RowsKeepTheirNamesAndTheirOrder) {
  const std::vector<std::string> labels = {
      R"x({"ph":"M","name":"process_name","pid":9,"tid":0,"args":{"name":"a \"trainer\""}})x",
      R"x({"ph":"M","name":"process_labels","pid":9,"tid":0,"args":{"labels":"CPU"}})x",
      R"x({"ph":"M","name":"process_sort_index","pid":9,"tid":0,"args":{"sort_index":167}})x",
      R"x({"ph":"M","name":"process_labels","pid":5,"tid":0,"args":{"labels":"GPU 5"}})x",
      R"x({"ph":"M","name":"thread_name","pid":9,"tid":9,"args":{"name":"thread 9 (loop)"}})x"};
  std::string events;
  for (const std::string& label : labels) StrAppend(&events, label, ",");
  const std::string text =
      Export(Write("labels.json", TraceOf(StrCat(events, kCall, ",", kKernel))));
  for (const std::string& label : labels) EXPECT_THAT(text, HasSubstr(label));
  // Of rows that the trace did not name, they are profd's.
  EXPECT_THAT(text, HasSubstr(R"({"ph":"M","name":"process_labels","pid":0,"tid":0,)"
                              R"("args":{"labels":"GPU 0"}})"));
  EXPECT_THAT(text, HasSubstr(R"({"ph":"M","name":"thread_sort_index","pid":9,"tid":9,)"));
  const json exported = json::parse(text);
  EXPECT_EQ(std::ranges::count_if(exported["traceEvents"],
                                  [](const json& event) {
                                    return event.value("name", "") == "process_sort_index" &&
                                           event["pid"] == 9;
                                  }),
            1);
  EXPECT_EQ(Export(Write("once.json", text)), text);
}

TEST_F(SourceFidelityTest, OfArgumentsThatProfdDoesNotKnowFewNamesAreKept) {
  std::string args;
  for (size_t i = 0; i <= KeptArguments::kMaxUnknownKeys; ++i) {
    StrAppend(&args, i == 0 ? "" : ",", "\"key", i, "\":", i);
  }
  const std::string text =
      Export(Write("many.json", StrCat(R"({"schemaVersion":1,"traceEvents":[{"ph":"X","name":"a",)",
                                       R"("cat":"cpu_op","pid":1,"tid":1,"ts":1,"dur":2,"args":{)",
                                       args, "}}]}")));
  EXPECT_THAT(text, HasSubstr("\"key63\":63"));
  EXPECT_THAT(text, Not(HasSubstr("\"key64\"")));
}

TEST_F(SourceFidelityTest, LoadersFindTheRankInALineOfItsOwn) {
  EXPECT_THAT(Export(HandMade()),
              HasSubstr("\n\"distributedInfo\": {\"rank\": 3, \"world_size\": 8, "));
}

TEST_F(SourceFidelityTest, NumbersInQuotesAndNoNumbersStayThat) {
  const std::string text = Export(HandMade());
  EXPECT_THAT(text, HasSubstr(R"("External id":"907")"));
  EXPECT_THAT(text, HasSubstr(R"("Python parent id":null)"));
  EXPECT_THAT(text, HasSubstr(R"("blocks per SM":0.006757)"));
}

TEST_F(SourceFidelityTest, CopiesOfHipAreFromTheHostAndNotPageable) {
  EXPECT_THAT(Export(HandMade()), Not(HasSubstr("Pageable")));
}

TEST_F(SourceFidelityTest, AMemberThatIsTooLargeIsLeftOutAndCounted) {
  const std::string large(70'000, 'x');
  const std::string text = Export(
      Write("large.json",
            StrCat(R"({"schemaVersion":1,"large":")", large, R"(","small":1,"traceEvents":[)",
                   R"({"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1,"dur":2}]})")));
  EXPECT_THAT(text, Not(HasSubstr("xxx")));
  EXPECT_THAT(text, HasSubstr(R"("small": 1)"));
  EXPECT_EQ(record_.imported.not_understood.at("member:large is too long"), 1);
}

TEST_F(SourceFidelityTest, AnArgumentThatIsTooLongIsLeftOutAndCounted) {
  const std::string text = Export(Write(
      "long.json",
      StrCat(R"({"schemaVersion":1,"traceEvents":[{"ph":"X","cat":"python_function","name":"a",)",
             R"("pid":1,"tid":1,"ts":1,"dur":2,"args":{"Python id":1,"Python thread":")",
             std::string(5000, 'x'), R"("}}]})")));
  EXPECT_THAT(text, Not(HasSubstr("xxx")));
  EXPECT_THAT(text, HasSubstr(R"("Python id":1)"));
  EXPECT_EQ(record_.imported.not_understood.at("arg:python_function.Python thread is too long"), 1);
}

class RealFidelityTest : public SourceFidelityTest,
                         public testing::WithParamInterface<const char*> {};

TEST_P(RealFidelityTest, NothingIsLostOrInvented) {
  const std::filesystem::path trace = RealTrace(GetParam());
  if (!std::filesystem::exists(trace)) {
    GTEST_SKIP() << trace << " is not there; set PROFD_TEST_DATA";
  }
  ExpectSameEvents(trace, /*with_times=*/false);
}

TEST_P(RealFidelityTest, AnExportIsExportedAsTheSameBytes) {
  const std::filesystem::path trace = RealTrace(GetParam());
  if (!std::filesystem::exists(trace)) {
    GTEST_SKIP() << trace << " is not there; set PROFD_TEST_DATA";
  }
  const std::string once = Export(trace);
  const std::string twice = Export(Write("once.json", once));
  // A failure would print both.
  EXPECT_TRUE(twice == once) << "from byte "
                             << std::ranges::mismatch(once, twice).in1 - once.begin() << " on";
}

INSTANTIATE_TEST_SUITE_P(Traces, RealFidelityTest,
                         testing::Values("alexnet_train", "b200_eager", "diff_control", "diff_test",
                                         "h100_owlv2_large", "h100_qwen1.5_0.5b",
                                         "h100_timesformer", "nccl_rank", "ns_resolution",
                                         "queue_rank0", "sampled_rank0", "sampled_rank1",
                                         "sglang_graph_capture", "vllm_graph"),
                         RealTraceName);

}  // namespace
}  // namespace profd::importer
