// `profctl ops`: what it shows of one capture, of ranks side by side, and as torch.profiler prints
// it.
#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>

#include "cli/base/errors.h"
#include "cli/commands/command.h"
#include "daemon/report/ops/torch_table.h"
#include "daemon/report/reports.h"
#include "daemon/store/file/capture_reader.h"
#include "tests/cli/cli_fixture.h"

namespace profd::cli {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr std::string_view kHostile = "aten::mm\x1b[2J\xFF,\"\n";

// Two steps of 1 ms, each a product of 100 us that keeps an H100 busy for 10 us.
absl::Status WriteOpsCapture(const std::filesystem::path& directory, CaptureRecord& record) {
  store::CaptureFileWriter::Options options;
  options.directory = directory;
  ASSIGN_OR_RETURN(const auto writer,
                   store::CaptureFileWriter::Create(record, Clock::Real(), std::move(options)));
  RETURN_IF_ERROR(writer->AddName(1, "aten::mm"));
  RETURN_IF_ERROR(writer->AddName(2, "cudaLaunchKernel"));
  RETURN_IF_ERROR(writer->AddName(3, "_Z4gemmPf"));
  RETURN_IF_ERROR(writer->AddName(4, kHostile));
  RETURN_IF_ERROR(writer->AddThread({.index = 0, .os_thread = 77, .name = "main"}));
  RETURN_IF_ERROR(writer->AddInputs(
      1, {.dims = "[[1000,1000],[1000,1000]]", .types = R"(["float","float"])", .strides = ""}));
  for (int64_t step = 0; step < 2; ++step) {
    const int64_t at = step * 1'000'000;
    const auto correlation = static_cast<uint32_t>(step + 1);
    const std::vector<RangeRow> ranges = {
        {.start_ns = at, .duration_ns = 100'000, .name = 1, .depth = 0, .category = 1, .flags = 0},
        {.start_ns = at + 200'000,
         .duration_ns = 50,
         .name = 4,
         .depth = 0,
         .category = 0,
         .flags = 0}};
    RETURN_IF_ERROR(writer->Append(0, ranges));
    const OperatorRow op = {.start_ns = at, .depth = 0, .scope = 0, .sequence = -1, .inputs = 1};
    RETURN_IF_ERROR(writer->Append(0, op));
    ApiRow call = {};
    call.start_ns = at + 10;
    call.duration_ns = 20;
    call.name = 2;
    call.correlation = correlation;
    RETURN_IF_ERROR(writer->Append(0, call));
    GpuRow kernel = {};
    kernel.start_ns = at + 500'000;
    kernel.duration_ns = 10'000;
    kernel.kind = GpuRowKind::kKernel;
    kernel.name = 3;
    kernel.correlation = correlation;
    RETURN_IF_ERROR(writer->Append(kernel));
  }
  for (int64_t step = 0; step < 3; ++step) {
    const StepRow mark = {.time_ns = step * 1'000'000, .step = 7 + step};
    RETURN_IF_ERROR(writer->Append(0, mark));
  }
  record = store::FinishedRecord(
      record, {.start_ns = 0, .end_ns = 2'000'000, .first_step = 7, .end_step = 9});
  record.gpu = {.outcome = GpuOutcome::kRecorded};
  record.gpu.devices = {{.name = "NVIDIA H100 80GB HBM3"}};
  return writer->Finish(record, 0);
}

class OpsTest : public CliTest {
 protected:
  OpsTest() {
    CaptureRecord record = store::NewRecord(TestId(1));
    const absl::Status written = WriteOpsCapture(folder_.path(), record);
    EXPECT_TRUE(written.ok()) << written;
    file_ = Path(TestId(1) + ".profd");
    profd_.file_bytes = ReadFile(file_);
    profd_.file_sha256 = record.file_sha256;
    profd_.captures[TestId(1)] = ACapture(TestId(1));
    profd_.captures[TestId(1)].set_file_bytes(record.file_bytes);
    profd_.captures[TestId(1)].set_file_sha256(record.file_sha256);
  }
  nlohmann::json RowOf(const nlohmann::json& table, const std::string& name) const {
    for (const nlohmann::json& row : table["rows"]) {
      if (row["name"] == name) return row;
    }
    ADD_FAILURE() << "no row " << name << " in " << table;
    return {};
  }

  std::string file_;
};

TEST_F(OpsTest, JsonHasAllColumns) {
  const nlohmann::json table = RunJson({"ops", file_});
  EXPECT_EQ(table["step_count"], 2);
  EXPECT_EQ(table["busy_device_ns"], 20'000);
  const nlohmann::json row = RowOf(table, "aten::mm");
  EXPECT_EQ(row["calls"], 2);
  EXPECT_EQ(row["calls_per_step"], 1);
  EXPECT_EQ(row["p95_ns"], 100'000);
  EXPECT_EQ(row["average_ns"], 100'000);
  EXPECT_EQ(row["self_cpu_ns"], 199'960);
  EXPECT_EQ(row["busy_device_ns"], 20'000);
  EXPECT_EQ(row["share"], 1);
  EXPECT_EQ(row["flops"], 4e9);
  EXPECT_DOUBLE_EQ(row["flops_per_s"].get<double>(), 2e14);
  EXPECT_EQ(row["dtype"], "tf32");
  EXPECT_TRUE(row["step"].is_null());
  EXPECT_TRUE(RowOf(table, "cudaLaunchKernel")["flops"].is_null());
}

TEST_F(OpsTest, ADaemonMakesTheReportOfItsCapture) {
  EXPECT_EQ(Run({"ops", "01J", "--group-by", "thread", "--sort", "cuda_time", "--step", "7",
                 "--limit", "3"})
                .exit_code,
            0);
  const auto calls = profd_.report_calls();
  ASSERT_THAT(calls, SizeIs(1));
  EXPECT_EQ(calls[0].report(), "ops");
  const std::map<std::string, std::string> options(calls[0].options().begin(),
                                                   calls[0].options().end());
  EXPECT_EQ(
      options,
      (std::map<std::string, std::string>{
          {"group_by", "thread"}, {"sort", "device_average"}, {"step", "7"}, {"limit", "3"}}));
}

TEST_F(OpsTest, PeopleSeeTheColumnsOfWhatWasRecorded) {
  const RunResult result = Run({"ops", file_});
  EXPECT_THAT(result.out, AllOf(HasSubstr("Busy %"), HasSubstr("CPU p95"), HasSubstr("TFLOP/s"),
                                HasSubstr("Calls/step"), ContainsRegex("40.43% +tf32"),
                                Not(HasSubstr("CPU Mem"))));
  EXPECT_THAT(result.out, HasSubstr("CUDA busy: 20.000us"));
  EXPECT_THAT(result.out, Not(HasSubstr("\x1b")));
}

TEST_F(OpsTest, GroupsAndKeysAreAllTaken) {
  EXPECT_EQ(RowOf(RunJson({"ops", file_, "--group-by", "input_shape"}), "aten::mm")["dims"],
            "[[1000,1000],[1000,1000]]");
  EXPECT_EQ(RowOf(RunJson({"ops", file_, "--group-by", "thread"}), "aten::mm")["thread"],
            "77 main");
  EXPECT_EQ(RunJson({"ops", file_, "--group-by", "step", "--sort", "name"})["rows"][0]["step"], 7);
  EXPECT_EQ(RowOf(RunJson({"ops", file_, "--group-by", "rank"}), "aten::mm").count("rank"), 1);
  EXPECT_THAT(Run({"ops", file_, "--group-by", "module"}).err, HasSubstr("with_stack=True"));
  EXPECT_THAT(Run({"ops", file_, "--group-by", "arguments:batch"}).err,
              HasSubstr("a range with arguments named batch"));
  EXPECT_THAT(Run({"ops", file_, "--group-by", "arguments"}).err,
              HasSubstr("a range with arguments."));
  for (const char* const by : {"arguments:", "module:x", "stack:x", "stack:", "stack:0", ":", ""}) {
    EXPECT_EQ(Run({"ops", file_, "--group-by", by}).exit_code, 2) << by;
  }
  EXPECT_EQ(RunJson({"ops", file_, "--sort", "cuda_time_total", "--limit", "1"})["rows"].size(), 1);
  EXPECT_EQ(Run({"ops", file_, "--group-by", "size"}).exit_code, 2);
  EXPECT_EQ(Run({"ops", file_, "--sort", "size"}).exit_code, 2);
  EXPECT_EQ(Run({"ops", file_, "--step", "99"}).exit_code, 2);
}

TEST_F(OpsTest, CsvQuotesWhatIsInNames) {
  const RunResult result = Run({"ops", file_, "--csv", "--sort", "calls"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(
      result.out,
      StartsWith(
          "name,rank,module,source,stack,arguments,thread,step,dims,types,busy_device_ns,share,"));
  EXPECT_THAT(result.out, HasSubstr("\"aten::mm\\u001b[2J\xEF\xBF\xBD,\"\"\n\",,,,,,,,,,0,0,"));
  EXPECT_EQ(Run({"ops", file_, "--csv", "--json"}).exit_code, 2);
  const RunResult torch = Run({"ops", file_, "--csv", "--torch", "--sort", "name", "--limit", "1"});
  EXPECT_EQ(torch.exit_code, 0) << torch.err;
  EXPECT_THAT(torch.err, HasSubstr("Capture "));
  EXPECT_THAT(torch.out, StartsWith("name,shapes,is_device,is_annotation,calls,self_cpu_ns,"));
  EXPECT_THAT(torch.out, HasSubstr("\nProfilerStep*,,false,false,2,"));
  EXPECT_EQ(std::ranges::count(torch.out, '\n'), 2);
}

TEST_F(OpsTest, TorchsTableIsAllOfStdout) {
  const RunResult result = Run({"ops", file_, "--torch=2.6", "--sort", "self_cuda_time_total"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("Capture "));
  std::istringstream lines(result.out);
  std::vector<std::string> all;
  for (std::string line; std::getline(lines, line);) all.push_back(line);
  ASSERT_THAT(all, SizeIs(12)) << result.out;
  EXPECT_EQ(all[0], all[2]);
  EXPECT_THAT(all[1],
              AllOf(StartsWith("                Name    Self CPU %      Self CPU   CPU total %"),
                    HasSubstr("     Self CUDA   Self CUDA %    CUDA total  CUDA time avg  ")));
  EXPECT_THAT(all[4], AllOf(HasSubstr("gemm(float*)         0.00%       0.000us  "),
                            HasSubstr("20.000us       100.00%      20.000us      10.000us")));
  EXPECT_EQ(all[11], "Self CUDA time total: 20.000us");
}

table::Report TorchReportOf(const std::string& file, report::ReportRequest request) {
  absl::StatusOr<std::unique_ptr<store::CaptureReader>> reader = store::CaptureReader::Open(file);
  EXPECT_TRUE(reader.ok()) << reader.status();
  request.report = report::kTorchReport;
  absl::StatusOr<table::Report> report = report::MakeReport(**reader, request);
  EXPECT_TRUE(report.ok()) << report.status();
  return *std::move(report);
}

TEST_F(OpsTest, ADaemonMakesTorchsTableAndSendsNoEvents) {
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{"--sort", "self_cuda_time_total", "--limit", "2"},
        {"--group-by", "input_shape", "--json"},
        {"--sort", "self_cpu", "--csv", "--limit", "3"}}) {
    std::vector<std::string> of_file = {"ops", file_, "--torch=2.6"};
    std::vector<std::string> of_daemon = {"ops", "01J", "--torch=2.6"};
    of_file.insert(of_file.end(), flags.begin(), flags.end());
    of_daemon.insert(of_daemon.end(), flags.begin(), flags.end());
    EXPECT_EQ(Run(of_daemon).exit_code, 0);
    const v1::GetReportRequest asked = profd_.report_calls().back();
    profd_.Set(TorchReportOf(file_, {.options = {asked.options().begin(), asked.options().end()}}));
    const RunResult local = Run(of_file);
    const RunResult remote = Run(of_daemon);
    EXPECT_GT(local.out.size(), 100U) << local.err;
    if (flags.back() == "--json") {
      EXPECT_EQ(nlohmann::json::parse(remote.out)["rows"],
                nlohmann::json::parse(local.out)["rows"]);
    } else {
      EXPECT_EQ(remote.out, local.out);
    }
  }
  EXPECT_THAT(profd_.download_offsets(), IsEmpty());
  const auto first = profd_.report_calls().front();
  EXPECT_EQ(first.report(), report::kTorchReport);
  const std::map<std::string, std::string> options(first.options().begin(), first.options().end());
  EXPECT_EQ(options, (std::map<std::string, std::string>{
                         {"version", "2.6"}, {"sort", "self_device_us"}, {"limit", "0"}}))
      << "widths and totals of the text are of all rows";
}

TEST_F(OpsTest, TorchsTableOfWhatTheDaemonHasNoRoomForIsMadeHere) {
  profd_.on_report = {.code = absl::StatusCode::kResourceExhausted,
                      .reason = "REPORT_TOO_LARGE",
                      .message = "the report needs too much memory"};
  const RunResult remote = Run({"ops", "01J", "--torch=2.6"});
  EXPECT_EQ(remote.exit_code, 0) << remote.err;
  EXPECT_EQ(remote.out, Run({"ops", file_, "--torch=2.6"}).out);
  EXPECT_THAT(profd_.download_offsets(), Not(IsEmpty()));
}

TEST_F(OpsTest, AHostileTableOfTorchsPrintsNoControlCharacters) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  report::TorchTable torch = {.has_memory = true, .self_cpu_total_ns = INT64_MIN};
  torch.rows = {{.name = std::string(kHostile),
                 .shapes = "\x1b]0;x\x07[[\xFF",
                 .is_device = true,
                 .calls = -1,
                 .self_cpu_us = kInfinity,
                 .cpu_total_us = -kInfinity,
                 .self_device_us = std::numeric_limits<double>::max(),
                 .device_total_us = std::numeric_limits<double>::quiet_NaN(),
                 .cpu_memory_bytes = INT64_MIN,
                 .self_device_memory_bytes = INT64_MAX},
                {.name = std::string(100'000, '\x9b'), .shapes = std::string(100'000, '[')}};
  profd_.Set(report::ToReport(torch));
  const RunResult text = Run({"ops", "01J", "--torch"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_LT(text.out.size(), 20'000U);
  for (const char c : text.out) {
    const auto byte = static_cast<unsigned char>(c);
    EXPECT_TRUE(byte == '\n' || (byte >= ' ' && byte != 0x7f)) << int{byte};
  }
  // Figures that are not finite are null, against the schema: no daemon of ours sends them.
  const RunResult json = Run({"ops", "01J", "--torch", "--json"});
  EXPECT_EQ(nlohmann::json::parse(json.out)["rows"].size(), 2);
  EXPECT_EQ(Run({"ops", "01J", "--torch", "--csv"}).exit_code, 0);

  table::Report unknown = report::ToReport(torch);
  unknown.totals.cells[unknown.totals.Find("torch")] = std::vector<std::string>{"\x1b[2J"};
  profd_.Set(unknown);
  const RunResult refused = Run({"ops", "01J", "--torch"});
  EXPECT_EQ(refused.exit_code, kExitFailed);
  EXPECT_THAT(refused.err, HasSubstr("of no release of PyTorch"));
}

TEST_F(OpsTest, TorchsTableSaysWhatItDoesNotHave) {
  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{{"--torch=1.12"},
                                             {"--torch=9.9"},
                                             {"--torch=x"},
                                             {"--torch", "--sort", "p95"},
                                             {"--torch", "--step", "7"},
                                             {"--torch", "--group-by", "rank"},
                                             {"--torch", "--group-by", "module"}}) {
    std::vector<std::string> arguments = {"ops", file_};
    arguments.insert(arguments.end(), more.begin(), more.end());
    EXPECT_EQ(Run(arguments).exit_code, 2) << more[0];
  }
  EXPECT_EQ(RunJson({"ops", file_, "--torch=2.0"})["torch"], "2.0");
}

// What completion offers, each once: of a capture, and of two ranks.
TEST_F(OpsTest, EverySortKeyThatACommandOffersIsTaken) {
  const std::string other = Path("other.profd");
  CaptureRecord record = store::NewRecord(TestId(2));
  record.target.metadata["rank"] = "1";
  std::filesystem::create_directory(folder_ / "second");
  ASSERT_TRUE(WriteOpsCapture(folder_ / "second", record).ok());
  std::filesystem::rename(folder_ / "second" / (TestId(2) + ".profd"), other);
  size_t commands = 0;
  size_t keys = 0;
  for (const Command& command : Commands()) {
    const auto sort = std::ranges::find(command.flags, "sort", &Flag::name);
    if (sort == command.flags.end() || command.arguments.find("FILE") == std::string_view::npos) {
      continue;
    }
    ++commands;
    const bool takes_one = command.arguments.starts_with("ID");
    const bool takes_group = command.arguments.find("GROUP") != std::string_view::npos;
    for (const std::string_view key : sort->choices) {
      ++keys;
      const std::vector<std::string> words = {std::string(command.name), "--sort", std::string(key),
                                              file_};
      if (takes_one) {
        const RunResult result = Run(words);
        EXPECT_NE(result.exit_code, kExitUsage) << command.name << " of one: " << result.err;
        EXPECT_EQ(result.err.find("no column"), result.err.npos) << result.err;
      }
      if (!takes_group) continue;
      std::vector<std::string> of_group = words;
      of_group.insert(of_group.end(), {other, "--group"});
      const RunResult result = Run(of_group);
      EXPECT_NE(result.exit_code, kExitUsage) << command.name << " of a group: " << result.err;
      EXPECT_EQ(result.err.find("no column"), result.err.npos) << result.err;
    }
  }
  EXPECT_GE(commands, 11U);
  EXPECT_GE(keys, 100U);
}

TEST_F(OpsTest, RanksAreComparedByTheirDaemonsOrShownEach) {
  for (const int number : {1, 2}) {
    v1::Capture capture = profd_.captures[TestId(1)];
    capture.set_name("captures/" + TestId(number));
    capture.set_group("groups/" + TestId(7000));
    profd_.captures[TestId(number)] = capture;
  }
  const std::string group = "groups/" + TestId(7000);
  EXPECT_EQ(Run({"ops", group, "--group-by", "input_shape", "--sort", "cpu_total", "--step", "7"})
                .exit_code,
            0);
  const auto calls = profd_.report_calls();
  ASSERT_THAT(calls, SizeIs(2));
  const std::map<std::string, std::string> options(calls[0].options().begin(),
                                                   calls[0].options().end());
  EXPECT_EQ(options, (std::map<std::string, std::string>{
                         {"group_by", "input_shape"}, {"step", "7"}, {"sums_only", "1"}}))
      << "what is a small row of one rank may be a large one of all";
  const RunResult each = Run({"ops", group, "--sort", "p95"});
  EXPECT_EQ(each.exit_code, 0) << each.err;
  EXPECT_THAT(each.err, HasSubstr("Ranks are not compared by p95"));
  EXPECT_EQ(Run({"ops", group, "--sort", "p95", "--group-by", "input_shape"}).exit_code, 2);
  EXPECT_EQ(Run({"ops", group, "--group-by", "thread"}).exit_code, 2);
  EXPECT_EQ(Run({"ops", group, "--group-by", "arguments:batch"}).exit_code, 2);
  EXPECT_EQ(Run({"ops", group, "--torch"}).exit_code, 2);
  EXPECT_THAT(Run({"ops", group, "--csv"}).out,
              HasSubstr("name,step,dims,types,min,median,max,slowest,slowest_rank,member_count,"
                        "median_calls,calls_per_step\n"));
}

TEST_F(OpsTest, RanksInFilesAreShownEach) {
  CaptureRecord record = store::NewRecord(TestId(2));
  record.target.pid += 1;  // Of another rank.
  ASSERT_TRUE(WriteOpsCapture(folder_.path(), record).ok());
  const nlohmann::json table =
      RunJson({"ops", file_, Path(TestId(2) + ".profd"), "--group-by", "rank"});
  EXPECT_EQ(table["rows"].size(), 2 * RunJson({"ops", file_})["rows"].size());
  EXPECT_EQ(table["self_device_total_ns"], 40'000);
}

}  // namespace
}  // namespace profd::cli
