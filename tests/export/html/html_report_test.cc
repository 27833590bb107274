// The HTML report's page and its data. What a browser makes of them is tested in
// tests/other/html_report_test.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "daemon/base/str_cat.h"
#include "daemon/export/html/data.h"
#include "daemon/export/html/report.h"
#include "daemon/export/trace_export.h"
#include "daemon/store/file/sha256.h"
#include "tests/export/chrome/strict_json.h"
#include "tests/export/hostile_names.h"
#include "tests/export/report_capture.h"
#include "tests/export/sink/string_sink.h"
#include "tests/fakes/fake_capture_reader.h"
#include "tests/fakes/status_matchers.h"

namespace profd::exporter {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

std::string PageOf(store::CaptureReader& reader) {
  StringSink sink;
  EXPECT_THAT(ExportHtmlReport(reader, sink), IsOk());
  return sink.text();
}

// What stands between the two, from `from` on; `from` is then behind it.
std::string_view Between(std::string_view page, std::string_view begin, std::string_view end,
                         size_t& from) {
  const size_t start = page.find(begin, from);
  if (start == std::string_view::npos) return {};
  const size_t stop = page.find(end, start + begin.size());
  if (stop == std::string_view::npos) return {};
  from = stop + end.size();
  return page.substr(start + begin.size(), stop - start - begin.size());
}
std::string_view Between(std::string_view page, std::string_view begin, std::string_view end) {
  size_t from = 0;
  return Between(page, begin, end, from);
}

std::string_view DataText(std::string_view page) {
  return Between(page, R"(<script type="application/json" id="data">)", "</script>");
}

JsonValue DataOf(store::CaptureReader& reader) {
  const std::string page = PageOf(reader);
  const absl::StatusOr<JsonValue> data = ParseStrictJson(DataText(page));
  EXPECT_THAT(data, IsOk());
  return data.value_or(JsonValue{});
}

std::vector<std::string> Texts(const JsonValue& column) {
  std::vector<std::string> texts;
  for (const JsonValue& item : column.items) texts.push_back(item.text);
  return texts;
}

std::vector<std::string_view> Scripts(std::string_view page) {
  std::vector<std::string_view> scripts;
  size_t from = 0;
  while (true) {
    const std::string_view script = Between(page, "<script>", "</script>", from);
    if (script.empty()) return scripts;
    scripts.push_back(script);
  }
}

std::string HashSource(std::string_view text) {
  store::Sha256 hash;
  hash.Append(text);
  const std::string hex = hash.Finish().value();
  return StrCat("'sha256-", absl::Base64Escape(absl::HexStringToBytes(hex)), "'");
}

TEST(HtmlReportTest, ThePolicyLetsRunWhatThePageBringsAndNothingElse) {
  ReportCapture capture;
  const std::string page = PageOf(capture.reader());
  const std::string_view policy = Between(page, R"(Content-Security-Policy" content=")", "\"");
  std::string expected = "default-src 'none'; base-uri 'none'; form-action 'none'; script-src";
  ASSERT_THAT(Scripts(page), Not(IsEmpty()));
  for (const std::string_view script : Scripts(page)) StrAppend(&expected, " ", HashSource(script));
  StrAppend(&expected, "; style-src ", HashSource(Between(page, "<style>", "</style>")));
  EXPECT_EQ(policy, expected);
}

TEST(HtmlReportTest, NoPlaceholderIsLeftAndTheLibrarysLicenceIsIn) {
  ReportCapture capture;
  const std::string page = PageOf(capture.reader());
  for (const char* placeholder : {"@POLICY@", "@STYLE@", "@LICENCE@", "@DATA@", "@SCRIPTS@"}) {
    EXPECT_THAT(page, Not(HasSubstr(placeholder)));
  }
  const std::string licence(Between(page, R"(<template id="licence">)", "</template>"));
  EXPECT_THAT(licence, HasSubstr("Chart.js Contributors"));
  EXPECT_THAT(licence, HasSubstr("Permission is hereby granted"));
}

TEST(HtmlReportTest, TheMarkupNamesNothingOutsideThePage) {
  ReportCapture capture;
  const std::string page = PageOf(capture.reader());
  const std::string_view style = Between(page, "<style>", "</style>");
  EXPECT_EQ(style.find("url("), std::string_view::npos);
  EXPECT_EQ(style.find("@import"), std::string_view::npos);
  std::string markup(page.substr(0, page.find("<style>")));
  markup += Between(page, "</style>", R"(<script type="application/json")");
  EXPECT_THAT(markup, Not(HasSubstr("src=")));
  EXPECT_THAT(markup, Not(HasSubstr("<link")));
}

TEST(HtmlReportTest, NamesAreDataWhateverTheyHold) {
  FakeCaptureReader reader;
  const uint32_t main = reader.AddThread(1, "main");
  int64_t at = 0;
  for (const std::string& name : HostileNames()) {
    reader.Range(main, name, at, at + 10);
    at += 20;
  }
  reader.Range(main, "</SCRIPT >&amp;\xe2\x80\xa8\xe2\x80\xa9", at, at + 10);
  const std::string page = PageOf(reader);
  const std::string data(DataText(page));
  // Nothing that a parser of HTML, or of JavaScript before 2019, would stop at.
  for (const char* stop : {"<", ">", "&", "\xe2\x80\xa8", "\xe2\x80\xa9"}) {
    EXPECT_THAT(data, Not(HasSubstr(stop)));
  }
  const absl::StatusOr<JsonValue> parsed = ParseStrictJson(data);
  ASSERT_THAT(parsed, IsOk());
  const std::vector<std::string> names = Texts((*parsed)["ops"]["rows"]["name"]);
  EXPECT_THAT(names, Contains("</SCRIPT >&amp;??"));
  EXPECT_THAT(names, Contains("</script><b>&amp;"));
  for (const std::string& name : names) EXPECT_LE(name.size(), kMostNameBytes);
}

TEST(HtmlReportTest, TheScriptElementsEndIsEscapedAndOtherTextIsKept) {
  EXPECT_EQ(ForScriptElement("[\"a<b>&c\",\"\xe2\x82\xac\xe2\x80\xa8\"]"),
            "[\"a\\u003cb\\u003e\\u0026c\",\"\xe2\x82\xac\\u2028\"]");
  EXPECT_EQ(ForScriptElement(""), "");
  EXPECT_EQ(ForScriptElement("\xe2"), "\xe2");
}

TEST(HtmlReportTest, EveryPartOfTheCaptureIsInTheData) {
  ReportCapture capture;
  const JsonValue data = DataOf(capture.reader());
  EXPECT_EQ(data["capture"]["rank"].integer(), 3);
  EXPECT_TRUE(data["capture"]["gpu"]["simulated"].boolean);
  EXPECT_FALSE(data["verdict"].text.empty());
  ASSERT_THAT(data["time"].items, SizeIs(2));  // Devices.
  const JsonValue& steps = data["time"].items[0]["steps"];
  ASSERT_THAT(steps["duration_ns"].items, SizeIs(kReportSteps));
  EXPECT_EQ(steps["first"].items[0].integer(), kReportFirstStep);
  EXPECT_EQ(steps["duration_ns"].items[0].number(), kReportStepNs);
  EXPECT_THAT(Texts(data["kernels"]["rows"]["name"]), Contains("gemm(float*, int)"));
  EXPECT_THAT(Texts(data["kernels"]["rows"]["name"]), Contains(kMarkupName));
  EXPECT_THAT(Texts(data["ops_by_inputs"]["rows"]["dims"]), Contains("[[64,64],[64,64]]"));
  ASSERT_THAT(data["memory"].items, SizeIs(1));
  const JsonValue& memory = data["memory"].items[0];
  EXPECT_EQ(memory["device"].text, "cuda:0");
  EXPECT_GT(memory["samples"]["time_ns"].items.size(), 100u);
  EXPECT_THAT(data["step_marks"].items, SizeIs(kReportSteps));
}

TEST(HtmlReportTest, ModulesAreATree) {
  ReportCapture capture;
  const JsonValue data = DataOf(capture.reader());
  const JsonValue& rows = data["modules"]["rows"];
  EXPECT_THAT(Texts(rows["name"]), ElementsAre("Net", "head", "encoder", "(outside of modules)"));
  EXPECT_EQ(rows["depth"].items[1].integer(), 1);
  FakeCaptureReader without;
  without.Range(without.AddThread(1, "main"), "forward", 0, 10);
  EXPECT_EQ(DataOf(without).Find("modules"), nullptr);
}

// The time of each stack of a flame view, by its frames.
std::map<std::string, double> Flame(const JsonValue& data, const char* view) {
  const JsonValue& stacks = data["flame"][view]["stacks"];
  std::map<std::string, double> times;
  std::vector<std::string> paths;
  for (size_t i = 0; i < stacks["frame"].items.size(); ++i) {
    const auto frame = static_cast<size_t>(stacks["frame"].items[i].integer());
    const int64_t caller = stacks["caller"].items[i].integer();
    std::string path = data["flame"]["frames"].items[frame].text;
    if (caller >= 0) path = StrCat(paths[static_cast<size_t>(caller)], ";", path);
    times[path] = stacks["total_ns"].items[i].number();
    paths.push_back(std::move(path));
  }
  return times;
}

TEST(HtmlReportTest, FlameViewsHaveTheTimeOfEveryStack) {
  FakeCaptureReader reader;
  const uint32_t main = reader.AddThread(7, "main");
  const uint32_t train = reader.Stack(0, "train.py", 12, "train");
  reader.Operator(main, "aten::linear", 0, 100, {.stack = train})
      .Operator(main, "aten::mm", 20, 80, {.stack = train})
      .ApiCall(main, "cudaLaunchKernel", 40, 45, 1)
      .Kernel("gemm", 500, 900, 1);
  const JsonValue data = DataOf(reader);
  EXPECT_EQ(Flame(data, "host"), (std::map<std::string, double>{
                                     {"main", 100},
                                     {"main;train.py(12): train", 100},
                                     {"main;train.py(12): train;aten::linear", 100},
                                     {"main;train.py(12): train;aten::linear;aten::mm", 60}}));
  EXPECT_EQ(Flame(data, "device"),
            (std::map<std::string, double>{
                {"GPU 0", 400},
                {"GPU 0;train.py(12): train", 400},
                {"GPU 0;train.py(12): train;aten::linear", 400},
                {"GPU 0;train.py(12): train;aten::linear;aten::mm", 400},
                {"GPU 0;train.py(12): train;aten::linear;aten::mm;gemm", 400}}));
}

TEST(HtmlReportTest, StacksOfLeastTimeAreLeftOutAndCounted) {
  FakeCaptureReader reader;
  const uint32_t main = reader.AddThread(7, "main");
  constexpr auto kStacks = static_cast<int64_t>(kMostFlameStacks) + 10;
  for (int64_t i = 0; i < kStacks; ++i) {
    reader.Range(main, StrCat("op", i), i * 100, i * 100 + (i < 20 ? 1 : 2));
  }
  const JsonValue data = DataOf(reader);
  EXPECT_EQ(data["flame"]["host"]["stack_count"].integer(), kStacks + 1);
  const std::map<std::string, double> times = Flame(data, "host");
  EXPECT_EQ(times.size(), kMostFlameStacks);
  EXPECT_EQ(times.at("main"), 2 * kStacks - 20);
  EXPECT_TRUE(times.contains(StrCat("main;op", kStacks - 1)));
  EXPECT_FALSE(times.contains("main;op19"));
}

// Of a step, its parts make up its duration.
TEST(HtmlReportTest, ThePartsOfAStepAddUpToIt) {
  ReportCapture capture;
  const JsonValue data = DataOf(capture.reader());
  for (const JsonValue& device : data["time"].items) {
    const JsonValue& steps = device["steps"];
    for (size_t i = 0; i < steps["first"].items.size(); ++i) {
      double sum = 0;
      for (const char* part : {"compute_ns", "exposed_communication_ns", "exposed_copy_ns",
                               "host_wait_ns", "kernel_wait_ns", "other_ns"}) {
        sum += steps[part].items[i].number();
      }
      EXPECT_EQ(sum, steps["duration_ns"].items[i].number()) << "step " << i;
    }
  }
}

TEST(HtmlReportTest, StepsBeyondTheLimitAreMeansOfSeveral) {
  FakeCaptureReader reader;
  const uint32_t main = reader.AddThread(1, "main");
  constexpr int64_t kSteps = 1300;
  for (int64_t step = 0; step < kSteps; ++step) {
    // 100, 200, 300, 100, ...
    const int64_t duration = (step % 3 + 1) * 100;
    reader.Step(step, step * 1'000, duration);
  }
  reader.StepThread(main);
  const JsonValue data = DataOf(reader);
  const JsonValue& steps = data["time"].items[0]["steps"];
  EXPECT_EQ(data["time"].items[0]["step_count"].integer(), kSteps);
  ASSERT_THAT(steps["first"].items, SizeIs(434));  // Of three, the last of one.
  EXPECT_EQ(steps["first"].items[1].integer(), 3);
  EXPECT_EQ(steps["last"].items[1].integer(), 5);
  EXPECT_EQ(steps["duration_ns"].items[1].number(), 200);
  EXPECT_EQ(steps["longest"].items[1].integer(), 5);
  EXPECT_EQ(steps["longest_ns"].items[1].number(), 300);
  EXPECT_EQ(steps["duration_ns"].items[433].number(), 100);
  EXPECT_THAT(data["step_marks"].items, IsEmpty());
}

TEST(HtmlReportTest, RowsBeyondTheLimitAreCutAndCounted) {
  FakeCaptureReader reader;
  const uint32_t main = reader.AddThread(1, "main");
  for (int64_t i = 0; i < kMostTableRows + 5; ++i) {
    reader.Range(main, StrCat("op", i), i * 100, i * 100 + 10 + i % 80);
  }
  const JsonValue data = DataOf(reader);
  EXPECT_THAT(data["ops"]["rows"]["name"].items, SizeIs(kMostTableRows));
  EXPECT_EQ(data["ops"]["row_count"].integer(), kMostTableRows + 5);
}

TEST(HtmlReportTest, CurvesOfAllDevicesTogetherStayWithinTheirPoints) {
  FakeCaptureReader reader;
  const uint32_t main = reader.AddThread(1, "main");
  for (int16_t device = 0; device < 20; ++device) {
    const FakeMemory memory = {.device_type = 1, .device_index = device};
    for (int64_t i = 0; i < 1000; ++i) {
      const uint64_t address = 0x1000 * (static_cast<uint64_t>(i) + 1);
      reader.Allocate(main, i * 100, address, 64 + i + device, memory)
          .Free(main, i * 100 + 50, address, 64 + i + device, memory);
    }
  }
  const JsonValue data = DataOf(reader);
  EXPECT_EQ(data["memory_device_count"].integer(), 20);
  ASSERT_THAT(data["memory"].items, SizeIs(kMostDevices));
  // Those with most memory.
  EXPECT_EQ(data["memory"].items[0]["device"].text, "cuda:19");
  size_t points = 0;
  for (const JsonValue& device : data["memory"].items) {
    points += device["samples"]["time_ns"].items.size();
  }
  EXPECT_LE(points, static_cast<size_t>(kMostMemoryPoints));
}

TEST(HtmlReportTest, ACaptureWithoutAnythingIsAPage) {
  FakeCaptureReader reader;
  const JsonValue data = DataOf(reader);
  EXPECT_THAT(data["ops"]["rows"]["name"].items, IsEmpty());
  EXPECT_THAT(data["memory"].items, IsEmpty());
  EXPECT_FALSE(data["time"].items[0]["has_device"].boolean);
  EXPECT_EQ(data.Find("kernels"), nullptr);
}

TEST(HtmlReportTest, FindingsAreThoseThatTheCallerMade) {
  FakeCaptureReader reader;
  report::FindingsReport findings;
  findings.verdict = "Change </p> first.";
  findings.findings.push_back(
      {.rule = "COMM_EXPOSED",
       .title = "Communication",
       .saving_ns_per_step = 7,
       .evidence = {{.kind = report::EvidenceKind::kStep, .step = 107, .start_ns = 5}}});
  findings.skipped.push_back({.rule = "INPUT_BOUND", .title = "Input", .needs = "a loader"});
  StringSink sink;
  ASSERT_THAT(ExportHtmlReport(reader, findings, sink), IsOk());
  const absl::StatusOr<JsonValue> data = ParseStrictJson(DataText(sink.text()));
  ASSERT_THAT(data, IsOk());
  EXPECT_EQ((*data)["verdict"].text, "Change </p> first.");
  ASSERT_THAT((*data)["findings"].items, SizeIs(1));
  const JsonValue& finding = (*data)["findings"].items[0];
  EXPECT_EQ(finding["rule"].text, "COMM_EXPOSED");
  EXPECT_EQ(finding["evidence"].items[0]["step"].integer(), 107);
  EXPECT_EQ(finding["evidence"].items[0]["start_ns"].integer(), 5);
  EXPECT_EQ((*data)["skipped"].items[0]["needs"].text, "a loader");
}

TEST(HtmlReportTest, AnErrorOfTheReaderIsItsOwn) {
  ReportCapture capture;
  capture.reader().FailAfter(0, absl::DataLossError("bad chunk"));
  StringSink sink;
  EXPECT_THAT(ExportHtmlReport(capture.reader(), sink), StatusIs(absl::StatusCode::kDataLoss));
}

TEST(HtmlReportTest, IsAFormatByNameAndSuffixAndNoTrace) {
  EXPECT_EQ(TraceFormatFromName("html"), TraceFormat::kHtml);
  EXPECT_EQ(TraceFormatFromPath("a/report.html"), TraceFormat::kHtml);
  EXPECT_EQ(SuffixOf(TraceFormat::kHtml), ".html");
  EXPECT_FALSE(IsTrace(TraceFormat::kHtml));
  EXPECT_TRUE(IsTrace(TraceFormat::kChromeGz));
  FakeCaptureReader reader;
  store::CaptureReader* const readers[] = {&reader};
  report::ClockAlignment clocks;
  clocks.members.resize(1);
  StringSink sink;
  EXPECT_THAT(ExportMergedTrace(readers, clocks, "", TraceFormat::kHtml, sink),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace profd::exporter
