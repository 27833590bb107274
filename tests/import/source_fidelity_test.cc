// An export has what its source had: every event of the categories that profd imports, with all
// arguments that profd knows, and nothing that it lacked.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/export/trace_export.h"
#include "gmock/gmock.h"
#include "tests/export/sink/string_sink.h"
#include "tests/import/import_fixture.h"
#include "tests/import/real_traces.h"
#include "tests/import/unzip.h"

namespace profd::importer {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// Arguments that no table of profd has: they are counted as not understood.
const std::set<std::string, std::less<>> kNotRead = {"kernel_backend",
                                                     "kernel_file",
                                                     "kernel_hash",
                                                     "kernel_kwargs",
                                                     "kernel_name",
                                                     "num_stages",
                                                     "num_warps",
                                                     "kernel",
                                                     "kind",
                                                     "ptr",
                                                     "src",
                                                     "dst",
                                                     "Module Hierarchy",
                                                     "Process Group ID"};

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
  const bool is_memory = phase == "i" && event.value("name", "") == "[memory]";
  if (!is_memory && (phase != "X" || category == "Trace")) return "";
  json args = event.contains("args") ? Normal(event["args"]) : json::object();
  for (const std::string& key : kNotRead) args.erase(key);
  // Captures have at most 4 KiB of a name.
  const std::string name = event.value("name", "").substr(0, 4000);
  std::string line = category + " " + name + " " + args.dump();
  if (with_times) {
    line += StrCat(" at ", base_ns + std::llround(event["ts"].get<double>() * 1000), " for ",
                   std::llround(event.value("dur", 0.0) * 1000));
  }
  return line;
}

std::vector<std::string> EventsOf(const json& trace, bool with_times, bool with_annotations) {
  const int64_t base_ns = with_times ? trace.value("baseTimeNanoseconds", int64_t{0}) : 0;
  std::vector<std::string> lines;
  for (const json& event : trace["traceEvents"]) {
    if (!with_annotations && event.value("cat", "") == "gpu_user_annotation") continue;
    std::string line = LineOf(event, base_ns, with_times);
    if (!line.empty()) lines.push_back(std::move(line));
  }
  std::ranges::sort(lines);
  return lines;
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

  // The export of `trace` has the same events. Derived annotations of streams are compared if the
  // source has any.
  void ExpectSameEvents(const std::filesystem::path& trace, bool with_times) {
    const json source = json::parse(Unzip(trace));
    const json exported = json::parse(Export(trace));
    const bool with_annotations = std::ranges::any_of(source["traceEvents"], [](const json& event) {
      return event.value("cat", "") == "gpu_user_annotation";
    });
    const auto before = EventsOf(source, with_times, with_annotations);
    const auto after = EventsOf(exported, with_times, with_annotations);
    EXPECT_FALSE(before.empty());
    std::vector<std::string> lost;
    std::vector<std::string> invented;
    std::ranges::set_difference(before, after, std::back_inserter(lost));
    std::ranges::set_difference(after, before, std::back_inserter(invented));
    EXPECT_EQ(lost.size(), 0u) << lost.front();
    EXPECT_EQ(invented.size(), 0u) << invented.front();
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
  const std::string twice = Export(Write("once.json", once));
  const auto events = [](const std::string& text) {
    return EventsOf(json::parse(text), /*with_times=*/true, /*with_annotations=*/true);
  };
  EXPECT_EQ(events(twice), events(once));
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

INSTANTIATE_TEST_SUITE_P(Traces, RealFidelityTest,
                         testing::Values("alexnet_train", "b200_eager", "diff_control", "diff_test",
                                         "h100_owlv2_large", "h100_qwen1.5_0.5b",
                                         "h100_timesformer", "nccl_rank", "ns_resolution",
                                         "queue_rank0", "sampled_rank0", "sampled_rank1",
                                         "sglang_graph_capture", "vllm_graph"),
                         RealTraceName);

}  // namespace
}  // namespace profd::importer
