// What every command prints with --json keeps to the schema that `profctl schema` prints.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>

#include "cli/commands/command.h"
#include "cli/render/audit.h"
#include "cli/render/findings.h"
#include "cli/render/lists.h"
#include "cli/render/memory.h"
#include "cli/render/report_tables.h"
#include "cli/render/schedules.h"
#include "daemon/base/str_cat.h"
#include "daemon/report/findings/findings.h"
#include "daemon/report/gpu/copy_table.h"
#include "daemon/report/gpu/idle_table.h"
#include "daemon/report/gpu/kernel_table.h"
#include "daemon/report/gpu/sync_table.h"
#include "daemon/report/index/step_table.h"
#include "daemon/report/memory/memory_report.h"
#include "daemon/report/ops/profile.h"
#include "daemon/report/ops/torch_table.h"
#include "daemon/report/ranks/collectives.h"
#include "daemon/report/reports.h"
#include "daemon/report/time/compile_report.h"
#include "daemon/report/time/time_report.h"
#include "daemon/rpc/convert/report.h"
#include "daemon/store/file/files.h"
#include "tests/cli/cli_fixture.h"

namespace profd::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

using Json = nlohmann::json;

Json Written(const std::function<void(JsonWriter&)>& write) {
  JsonWriter json;
  write(json);
  return Json::parse(json.TakeLine());
}

class SchemaTest : public CliTest {
 protected:
  SchemaTest() { profd_.captures[TestId(1)] = ACapture(TestId(1)); }
  Json SchemaOf(const std::string& report) const {
    const RunResult result = Run({"schema", report});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return Json::parse(result.out);
  }
  std::vector<std::string> ViolationsOf(const std::string& report) {
    return Violations(RunJson({report, "01J"}), SchemaOf(report), report);
  }
};

TEST_F(SchemaTest, TheReportsThatTheDaemonAnswersKeepToTheirSchema) {
  report::KernelTable kernels;
  kernels.rows = {{.name = "k", .occupancy = 0.5, .mean_queue_ns = 5}, {.name = "unknown"}};
  profd_.Set(report::ToReport(kernels));
  report::CopyTable copies;
  copies.rows = {{.name = "Memset (Device)", .bandwidth_gb_per_s = 2}};
  profd_.Set(report::ToReport(copies));
  report::SyncTable syncs;
  syncs.rows = {{.name = "Stream Sync"}};
  profd_.Set(report::ToReport(syncs));
  report::IdleTable idle;
  idle.rows = {{.step = -1}, {.step = 7}};
  idle.streams = {{.stream = 7}};
  profd_.Set(report::ToReport(idle));
  report::CompileReport compile = {.has_compiled = true};
  compile.regions = {{.id = "0/0"}};
  compile.recompiles = {{.where = "f", .compile_ns = -1}};
  compile.steps = {{.step = -1}};
  profd_.Set(report::ToReport(compile));
  report::StepTable steps;
  steps.rows = {{.index = 3, .vs_median = 1.5, .outlier = true}};
  steps.labels = {{.name = "epoch", .step = -1}};
  profd_.Set(report::ToReport(steps));
  report::OpProfile ops = {.self_cpu_total_ns = 5};
  ops.rows.resize(2);
  ops.rows[0].p50_ns = 5;
  profd_.Set(report::ToReport(ops));
  report::TimeReport time = {.device = -1};
  time.steps = {{.index = 3}};
  time.collectives = {{.bytes = -1}};
  profd_.Set(report::ToReport(time));
  for (const std::string report :
       {"ops", "kernels", "copies", "syncs", "idle", "compile", "steps", "time"}) {
    EXPECT_THAT(ViolationsOf(report), IsEmpty());
  }
  report::TorchTable torch;
  torch.rows = {{.name = "aten::mm", .calls = 2, .self_cpu_us = 0.5}};
  profd_.Set(report::ToReport(torch));
  EXPECT_THAT(Violations(RunJson({"ops", "01J", "--torch"}), SchemaOf("ops_torch"), "ops_torch"),
              IsEmpty());
  EXPECT_EQ(SchemaOf("ops_torch").at("title"), "profctl ops --torch --json");
}

TEST_F(SchemaTest, AnAnswerThatDoesNotKeepToItIsFound) {
  Json kernels = RunJson({"kernels", "01J"});
  const Json schema = SchemaOf("kernels");
  EXPECT_THAT(Violations(kernels, schema, "kernels"), IsEmpty());
  kernels["rows"] = Json::array({{{"count", "many"}}});
  kernels["colour"] = "red";
  kernels.erase("busy_ns");
  EXPECT_GT(Violations(kernels, schema, "kernels").size(), 20U);
}

TEST_F(SchemaTest, EveryColumnSaysWhatItMeans) {
  const Json all = Json::parse(Run({"schema"}).out);
  const auto without_schema =
      std::ranges::count(report::ReportKinds(), "", &report::ReportKind::schema);
  EXPECT_EQ(std::ssize(all),
            std::ssize(report::ReportKinds()) + std::ssize(ListKinds()) - without_schema);
  for (const report::ReportKind& kind : report::ReportKinds()) {
    const table::Report shape = kind.shape();
    EXPECT_EQ(shape.name, kind.name);
    EXPECT_EQ(all.contains(kind.schema), !kind.schema.empty()) << kind.name;
    for (const table::Table& table : shape.tables) {
      std::set<std::string> titles;
      size_t flexible = 0;
      for (const table::Column& column : table.columns) {
        EXPECT_FALSE(column.title.empty()) << kind.name << " " << column.key;
        EXPECT_TRUE(titles.insert(column.title).second) << kind.name << " " << column.title;
        EXPECT_GT(column.doc.size(), 5U) << kind.name << " " << column.key;
        EXPECT_FALSE(column.doc.ends_with('.')) << kind.name << " " << column.key;
        flexible += column.flexible && column.max_width == 0 ? 1 : 0;
      }
      EXPECT_LE(flexible, 1U) << kind.name;
    }
  }
}

// Every field has a description that is a sentence without its full stop, and every object closes.
void ExpectDescribed(const Json& schema, const std::string& at) {
  if (schema.contains("properties")) {
    EXPECT_EQ(schema.at("additionalProperties"), false) << at;
    for (const auto& [key, member] : schema.at("properties").items()) {
      const std::string inner = StrCat(at, ".", key);
      const std::string doc = member.value("description", "");
      EXPECT_GT(doc.size(), 5U) << inner;
      EXPECT_FALSE(doc.ends_with('.')) << inner;
      ExpectDescribed(member, inner);
    }
  }
  if (schema.contains("items")) ExpectDescribed(schema.at("items"), at + "[]");
  if (schema.contains("prefixItems")) {
    for (const Json& item : schema.at("prefixItems")) {
      EXPECT_GT(item.value("description", "").size(), 5U) << at;
      EXPECT_FALSE(item.value("x-key", "").empty()) << at;
    }
  }
}

TEST_F(SchemaTest, EveryFieldOfANestedReportSaysWhatItMeans) {
  for (const report::ReportKind& kind : report::ReportKinds()) {
    if (kind.json != nullptr) {
      ExpectDescribed(SchemaOf(std::string(kind.command)), std::string(kind.command));
    }
  }
}

report::FindingsReport SomeReport() {
  report::FindingsReport findings = {.verdict = "Compile it.", .bound = report::BoundBy::kHost};
  findings.quality = {.grade = "B", .checks = {{.name = "loss", .grade = 'B', .value = 0.5}}};
  findings.findings = {{.rule = "HOST_BOUND",
                        .title = "The host is late",
                        .evidence = {{.name = "aten::mm", .count = 5, .start_ns = -7},
                                     {.kind = report::EvidenceKind::kStep, .step = 3}}},
                       {.rule = "CASTS"}};
  findings.skipped = {{.rule = "COPY_SLOW", .title = "Slow copies", .needs = "copies"}};
  findings.passed = {{.rule = "SYNC_API", .title = "Waits", .value = 0.25}};
  return findings;
}

TEST_F(SchemaTest, FindingsKeepToTheirSchema) {
  const auto written = [](const report::FindingsReport& findings) {
    return Written(
        [&](JsonWriter& json) { WriteFindingsJson(CaptureView(), findings, nullptr, json); });
  };
  const Json schema = SchemaOf("report");
  EXPECT_THAT(Violations(written({}), schema, "report"), IsEmpty());
  Json report = written(SomeReport());
  EXPECT_THAT(Violations(report, schema, "report"), IsEmpty());
  profd_.Set(report::ToReport(SomeReport()));
  EXPECT_THAT(ViolationsOf("report"), IsEmpty());
  Json& evidence = report["findings"][0]["evidence"];
  EXPECT_EQ(evidence[0]["start_ns"], -7);
  EXPECT_TRUE(evidence[1]["start_ns"].is_null());
  EXPECT_TRUE(evidence[1]["count"].is_null());
  EXPECT_TRUE(report["unrecorded_step_ns"].is_null());

  // Of a group, it says which member the rest is of.
  report["reported_member"] = 3;
  report["absent_ranks"] = Json::array({7});
  EXPECT_THAT(Violations(report, schema, "report"), IsEmpty());
  report["reported_member"] = "three";
  evidence[0]["count"] = "five";
  evidence[1].erase("bytes");
  report["passed"][0]["colour"] = "red";
  report.erase("verdict");
  EXPECT_THAT(Violations(report, schema, "report"), SizeIs(5));
}

report::MemoryReport FullMemory() {
  report::MemoryReport memory;
  report::DeviceMemoryReport& device = memory.devices.emplace_back();
  device.memory.device = "cuda:0";
  device.memory.peak_by_op = {{.name = "aten::mm", .bytes = 3, .blocks = 4}};
  device.memory.categories = {{.name = "input", .byte_seconds = 0.5}};
  device.samples = {{.time_ns = 1, .allocated_bytes = -2}, {.time_ns = 2, .reserved_bytes = 7}};
  device.peak_blocks = {{.bytes = 64, .stack = {"step", "aten::mm"}}};
  device.steps = {{.step = 3, .kept_bytes = -1}};
  device.growth = {.step_count = 4, .bytes_per_step = -2, .suspects_by_op = {{.name = "x"}}};
  memory.devices.emplace_back().memory.device = "cuda:1";
  memory.out_of_memory = {{.step = 3, .op = "aten::empty"}};
  return memory;
}

TEST_F(SchemaTest, MemoryKeepsToItsSchema) {
  const std::vector<report::MemoryReport> reports = {FullMemory(), {}};
  for (const report::MemoryReport& report : reports) {
    const Json memory =
        Written([&](JsonWriter& json) { WriteMemoryJson(CaptureView(), report, json); });
    EXPECT_THAT(Violations(memory, SchemaOf("memory"), "memory"), IsEmpty());
  }
  profd_.Set(report::ToReport(FullMemory()));
  EXPECT_THAT(
      Violations(RunJson({"memory", "01J", "--max-points", "4"}), SchemaOf("memory"), "memory"),
      IsEmpty());
  Json memory =
      Written([&](JsonWriter& json) { WriteMemoryJson(CaptureView(), FullMemory(), json); });
  Json& device = memory["devices"][0];
  device["samples"][0][1] = "two";
  device["samples"][1].erase(0);
  device["points"][0].push_back(7);
  device["peak_by_op"][0].erase("blocks");
  device["growth"]["colour"] = "red";
  EXPECT_THAT(Violations(memory, SchemaOf("memory"), "memory"), SizeIs(5));
}

TEST_F(SchemaTest, EveryFieldOfAListSaysWhatItMeans) {
  for (const ListKind& kind : ListKinds()) {
    ExpectDescribed(SchemaOf(std::string(kind.name)), std::string(kind.name));
  }
}

TEST_F(SchemaTest, AHistoryOfRanksKeepsToItsSchema) {
  report::CollectiveTable table = {.communicators = {{.size = 2}}};
  table.rows = {{.duration_ns = 9, .exposed_ns = 9, .sequence = 1, .step = 3}};
  table.steps = {{.step = 3, .duration_ns = 90, .exposed_ns = 9}};
  for (int i = 0; i < 4; ++i) {
    v1::RankSummary& summary = *profd_.rank_summaries.add_summaries();
    *summary.mutable_capture() = ACapture(TestId(i));
    summary.mutable_capture()->set_group("groups/" + TestId(9'000));
    (*summary.mutable_capture()->mutable_target()->mutable_metadata())["rank"] = StrCat(i);
    if (i < 3) rpc::ReportToProto(report::ToReport(table), *summary.mutable_collectives());
  }
  const Json schema = SchemaOf("history_stragglers");
  Json json = RunJson({"history", "--stragglers"});
  EXPECT_THAT(Violations(json, schema, "history"), IsEmpty());
  ASSERT_EQ(json["windows"][0]["ranks"].size(), 3U);
  EXPECT_EQ(json["windows"][0]["not_compared"].size(), 1U);
  EXPECT_TRUE(json["ranks"][0]["score"].is_null()) << "one step gives no verdict";
  json["windows"][0]["ranks"][0]["score"] = "high";
  json["windows"][0].erase("verdict");
  EXPECT_THAT(Violations(json, schema, "history"), SizeIs(2));
}

// Three ranks on one daemon, which have all of the fake's reports.
class GroupSchemaTest : public SchemaTest {
 protected:
  GroupSchemaTest() {
    for (int rank = 0; rank < 3; ++rank) {
      v1::Capture capture = ACapture(TestId(10 + rank));
      capture.set_group(group_);
      capture.mutable_target()->set_pid(100 + rank);
      (*capture.mutable_target()->mutable_metadata())["rank"] = StrCat(rank);
      profd_.captures[TestId(10 + rank)] = capture;
    }
    report::CollectiveTable table = {.communicators = {{.size = 3}}};
    for (int64_t step = 0; step < 4; ++step) {
      table.rows.push_back({.start_ns = 100 * step,
                            .duration_ns = 9,
                            .exposed_ns = 9,
                            .sequence = step,
                            .step = step,
                            .kind = report::CollectiveKind::kAllReduce});
      table.steps.push_back({.step = step, .duration_ns = 100 + 10 * step, .exposed_ns = 9});
    }
    profd_.Set(report::ToReport(table));
    report::OpProfile ops = {.self_cpu_total_ns = 5};
    ops.rows.resize(2);
    ops.rows[0].name = "aten::mm";
    ops.rows[0].self_cpu_ns = 7;
    ops.rows[1].name = "aten::add";
    profd_.Set(report::ToReport(ops));
  }
  const std::string group_ = "groups/" + TestId(7'000);
};

TEST_F(GroupSchemaTest, ComparedRanksKeepToTheirSchema) {
  Json stragglers = RunJson({"stragglers", group_});
  EXPECT_THAT(Violations(stragglers, SchemaOf("stragglers"), "stragglers"), IsEmpty());
  EXPECT_EQ(stragglers["verdict"], "none");
  EXPECT_EQ(stragglers["matched_count"], 4);
  EXPECT_EQ(stragglers["ranks"].size(), 3U);
  EXPECT_EQ(stragglers["collectives"].size(), 4U);
  EXPECT_EQ(stragglers["clock"]["members"].size(), 3U);
  const Json steps = RunJson({"steps", group_});
  EXPECT_THAT(Violations(steps, SchemaOf("group_steps"), "steps"), IsEmpty());
  EXPECT_EQ(steps["steps"].size(), 4U);
  EXPECT_EQ(steps["by_member"][2][3]["duration_ns"], 130);
  const Json ops = RunJson({"ops", group_});
  EXPECT_THAT(Violations(ops, SchemaOf("group_ops"), "ops"), IsEmpty());
  EXPECT_EQ(ops["rows"][0]["by_member"], Json::array({7, 7, 7}));
  EXPECT_EQ(ops["rows"][0]["slowest_rank"], "0");

  stragglers["ranks"][0]["score"] = "high";
  stragglers["collectives"][0]["waits"][0].erase("member");
  stragglers.erase("clock");
  EXPECT_THAT(Violations(stragglers, SchemaOf("stragglers"), "stragglers"), SizeIs(3));
}

TEST_F(GroupSchemaTest, TablesOfAGroupAreSortedAndPrintedAsCsv) {
  const Json by_rank = RunJson({"stragglers", group_, "--sort", "pid", "--limit", "2"});
  ASSERT_EQ(by_rank["ranks"].size(), 2U);
  EXPECT_EQ(by_rank["ranks"][0]["rank"], 2);
  EXPECT_EQ(by_rank["ranks"][1]["rank"], 1);
  const RunResult csv = Run({"stragglers", group_, "--csv", "--sort", "rank"});
  EXPECT_THAT(csv.out,
              HasSubstr("member,rank,node,pid,step_count,duration_ns,own_ns,more_own_ns,"));
  EXPECT_EQ(std::count(csv.out.begin(), csv.out.end(), '\n'), 4);
  EXPECT_THAT(csv.err, HasSubstr("3 of 3 ranks")) << "the header does not disturb a spreadsheet";

  EXPECT_EQ(RunJson({"steps", group_, "--sort", "max"})["steps"][0]["step"], 3);
  EXPECT_THAT(Run({"steps", group_, "--csv"}).out, HasSubstr("step,member_count,min_ns,"));
  for (const std::string command : {"stragglers", "steps"}) {
    EXPECT_EQ(Run({command, group_, "--sort", "colour"}).exit_code, 2);
    EXPECT_EQ(Run({command, group_, "--csv", "--json"}).exit_code, 2);
  }
  EXPECT_EQ(Run({"steps", group_, "--sort", "vs_median"}).exit_code, 2)
      << "a column of one capture";
}

TEST_F(GroupSchemaTest, ExplainKnowsTheColumnsOfGroups) {
  EXPECT_THAT(Run({"explain", "Caused", "--table", "stragglers"}).out, HasSubstr("waited for"));
  EXPECT_THAT(Run({"explain", "Max/median", "--table", "ops"}).out, HasSubstr("Max / Median"));
  EXPECT_THAT(Run({"explain", "Waited", "--table", "steps"}).out, HasSubstr("longest"));
  EXPECT_THAT(Run({"explain", "Slow", "--table", "history"}).out, HasSubstr("straggler"));
}

TEST_F(SchemaTest, SchedulesAndCallsKeepToTheirSchema) {
  const std::vector<NodeOutcome> outcomes = {{"n", absl::UnavailableError("down")}};
  const std::vector<AuditRow> calls = {{"n", {.principal = "uid:7", .method = "ListTargets"}}};
  for (const std::vector<NodeOutcome>* asked : {&outcomes, decltype(&outcomes)(nullptr)}) {
    EXPECT_THAT(Violations(Written([&](JsonWriter& json) { WriteAuditJson(calls, asked, json); }),
                           SchemaOf("audit"), "audit"),
                IsEmpty());
    std::vector<ScheduleView> schedules(2);
    schedules[0].spec.nodes = {"n", "m"};
    schedules[1].next_window = absl::FromUnixSeconds(7);
    const std::vector<ScheduleDrift> drift = {{"01J", "n", "is missing"}};
    const std::vector<WindowView> windows(1);
    const std::vector<DeclarationOutcome> declarations = {{.id = "01J", .change = "refused"}};
    const std::vector<ScheduleStatus> statuses = {{.id = "01J", .behind = "missing: n"}};
    const ScheduleAnswer answer = {.id = "01J",
                                   .schedules = schedules,
                                   .drift = drift,
                                   .windows = windows,
                                   .declarations = declarations,
                                   .statuses = statuses,
                                   .outcomes = asked};
    const auto written = [&](void (*write)(const ScheduleAnswer&, JsonWriter&)) {
      return Written([&](JsonWriter& json) { write(answer, json); });
    };
    const Json list = written(&WriteScheduleListJson);
    EXPECT_THAT(Violations(list, SchemaOf("schedule_list"), "list"), IsEmpty());
    EXPECT_EQ(list["schedules"][0]["next_window_unix_ns"], nullptr);
    EXPECT_EQ(list["schedules"][1]["next_window_unix_ns"], 7'000'000'000);
    EXPECT_THAT(Violations(written(&WriteOneScheduleJson), SchemaOf("schedule_show"), "show"),
                IsEmpty());
    EXPECT_THAT(Violations(written(&WriteDeclarationsJson), SchemaOf("schedule_apply"), "apply"),
                IsEmpty());
    EXPECT_THAT(
        Violations(written(&WriteScheduleStatusJson), SchemaOf("schedule_status"), "status"),
        IsEmpty());
    EXPECT_THAT(Violations(written(&WriteWindowListJson), SchemaOf("schedule_history"), "history"),
                IsEmpty());
  }
}

// ---- every command ----

struct Example {
  std::string schema;  // Its name for `profctl schema`.
  std::vector<std::string> words;
  int exit_code = 0;
};

class EverySchemaTest : public GroupSchemaTest {
 protected:
  EverySchemaTest() {
    profd_.targets = {ATarget(4711), ATarget(4712)};
    (*profd_.targets[0].mutable_metadata())["rank"] = "3";
    v1::Capture& capture = profd_.captures[TestId(1)];
    (*capture.mutable_spec()->mutable_labels())["k"] = "v";
    capture.mutable_gpu()->add_devices()->set_name("GPU");
    profd_.newest_first = {TestId(1)};
    profd_.captures[TestId(2)] = ACapture(TestId(2));
    v1::Schedule& schedule = profd_.schedules[schedule_];
    schedule.set_name(StrCat("schedules/", schedule_));
    schedule.set_state(v1::Schedule::ACTIVE);
    profd_.windows.emplace_back();
    profd_.applies_schedules = true;
    profd_.audit.add_entries()->set_method("ListTargets");
    v1::Quotas::Resource& quota = *profd_.quotas.add_resources();
    quota.set_name("targets");
    quota.add_holdings()->set_principal("uid:7");
    profd_.history.points = {{.node = "n"}};
    *profd_.rank_summaries.add_summaries()->mutable_capture() = profd_.captures[TestId(10)];
    report::TimeReport time;
    for (int64_t i = 0; i < 5; ++i) {
      time.steps.push_back({.index = i, .duration_ns = 1'000'000 + i});
    }
    profd_.Set(report::ToReport(time));
    WriteFiles();
  }

  void WriteFiles() {
    for (const std::string rank : {"0", "1"}) {
      std::ofstream(Path(StrCat("r", rank, ".json")))
          << R"({"traceEvents": [{"ph": "X", "name": "aten::mm", "cat": "cpu_op", "pid": 1,)"
          << R"("tid": 1, "ts": 1, "dur": 2}, {"ph": "X", "name": "x", "cat": "new", "ts": 1}],)"
          << R"("distributedInfo": {"rank": )" << rank << R"(, "world_size": 3}})";
    }
    for (const std::string folder : {"files", "again", "third"}) {
      std::filesystem::create_directory(Path(folder));
    }
    std::ofstream(Path("none.json")) << "hello";
    std::ofstream(Path("bad.json")) << R"({"traceEvents":[{"ph":"X","cat":"cpu_op","name":"a",)"
                                    << R"("pid":1,"tid":2,"ts":0,"dur":-5}]})";
    std::ofstream(Path("schedules.json"))
        << R"({"schedules": [{"name": "schedules/)" << schedule_
        << R"(", "version": 1, "spec": {"every": "60s", "capture": {"steps": 1}}}]})";
    const RunResult imported =
        Run({"import", Path("r0.json"), Path("r1.json"), "--output-dir", Path("files")});
    EXPECT_EQ(imported.exit_code, 0) << imported.err;
    profd_.file_bytes = ReadFile(Path("files/r0.profd"));
    const auto sha256 = store::Sha256OfFile(Path("files/r0.profd"));
    EXPECT_TRUE(sha256.ok()) << sha256.status();
    profd_.file_sha256 = sha256.value_or("");
    for (auto& [id, capture] : profd_.captures) {
      capture.set_file_bytes(static_cast<int64_t>(profd_.file_bytes.size()));
      capture.set_file_sha256(profd_.file_sha256);
    }
    EXPECT_EQ(Run({"context", "add", "lab", "--address", profd_.address()}).exit_code, 0);
  }

  RunResult Run(const std::vector<std::string>& words) const {
    return RunProfctl(words, {{"PROFD_SOCKET_DIR", profd_.socket_dir()},
                              {"XDG_CONFIG_HOME", folder_.path().string()}});
  }

  // At least one command line for each schema, whose output has what the schema describes.
  std::vector<Example> Examples() const {
    const std::string one = TestId(1);
    const std::string node = StrCat("a=", profd_.socket_dir(), "/control.sock");
    const std::string r0 = Path("files/r0.profd");
    const std::string r1 = Path("files/r1.profd");
    std::vector<Example> examples = {
        {"ops_torch", {"ops", one, "--torch"}},
        {"ps", {"ps"}},
        {"ps", {"ps", "--nodes", node}},
        {"trace", {"trace", "--pid", "4711", "--steps", "5"}},
        {"group_trace", {"trace", "--all", "--steps", "5"}},
        {"trace_nodes", {"trace", "--all", "--duration", "1s", "--nodes", node}},
        {"captures", {"captures"}},
        {"captures", {"captures", "--nodes", node}},
        {"show", {"show", one}},
        {"group_show", {"show", group_}},
        {"group_show", {"show", group_, "--nodes", node}},
        {"group_cancel", {"cancel", group_}},
        {"purge", {"purge", "--older-than", "30d"}},
        {"purge", {"purge", "--older-than", "30d", "--nodes", node}},
        {"export", {"export", one, "-o", Path("one.json")}},
        {"group_export", {"export", r0, r1, "--group", "-o", Path("two.json")}},
        {"fetch", {"fetch", one, "-o", Path("one.profd")}},
        {"group_fetch", {"fetch", group_, "-o", Path("g.profd")}},
        {"group_fetch", {"fetch", group_, "-o", Path("h.profd"), "--nodes", node}},
        {"import", {"import", Path("r0.json"), Path("r1.json"), "--output-dir", Path("again")}},
        {"import",
         {"import", Path("r0.json"), Path("none.json"), "--output-dir", Path("third")},
         4},
        {"check", {"check", Path("r0.json"), Path("bad.json"), Path("none.json")}, 1},
        {"open", {"open", Path("r0.json"), "--port", "0", "--timeout", "1ms", "--no-browser"}, 1},
        {"node", {"node"}},
        {"nodes", {"node", "--nodes", node}},
        {"quotas", {"node", "--quotas"}},
        {"schedule_list", {"schedule", "list"}},
        {"schedule_list", {"schedule", "list", "--nodes", node}},
        {"schedule_show", {"schedule", "show", schedule_}},
        {"schedule_apply", {"schedule", "apply", "-f", Path("schedules.json")}},
        {"schedule_status", {"schedule", "status"}},
        {"schedule_history", {"schedule", "history", schedule_}},
        {"audit", {"audit"}},
        {"history", {"history", "--step-time"}},
        {"history_stragglers", {"history", "--stragglers"}},
        {"diff", {"diff", one, TestId(2)}},
        {"stragglers", {"stragglers", group_}},
        {"group_ops", {"ops", group_}},
        {"group_ops_by_rank", {"ops", group_, "--group-by", "rank"}},
        {"group_steps", {"steps", group_}},
        {"context_list", {"context", "list"}},
        {"context_show", {"context", "show", "lab"}},
        {"version", {"version"}},
        {"version", {"version", "--address", "unix:/nowhere/control.sock"}},
        {"help", {"help"}},
        {"explain", {"explain"}}};
    for (const std::string command :
         {"report", "ops", "modules", "steps", "kernels", "copies", "syncs", "idle", "memory",
          "time", "collectives", "compile"}) {
      examples.push_back({command, {command, one}});
    }
    for (const std::string command :
         {"kernels", "copies", "syncs", "idle", "compile", "modules", "time", "memory"}) {
      examples.push_back({StrCat("group_", command), {command, r0, r1, "--group"}});
      examples.push_back({StrCat("group_", command, "_by_rank"),
                          {command, r0, r1, "--group", "--group-by", "rank"}});
    }
    for (const std::string command : {"cancel", "pin", "unpin", "delete"}) {
      examples.push_back({command, {command, TestId(2)}});
      examples.push_back({command, {command, TestId(2), TestId(99), "--nodes", node}, 1});
    }
    return examples;
  }

  // A look of `top`, which ends only by an interrupt.
  std::string OneLook(const std::vector<std::string>& words) {
    std::vector<std::string> top = {"top", "--every=100ms", "--json"};
    top.insert(top.end(), words.begin(), words.end());
    const int pages = profd_.target_pages();
    ProfctlProcess process(top, environment());
    profd_.AwaitTargetPages(pages + 4);  // At least two looks: the first one is printed.
    process.Signal(SIGINT);
    const RunResult result = process.Wait();
    return result.out.substr(0, result.out.find('\n'));
  }

  const std::string schedule_ = "01HZZZZZZZZZZZZZZZZZZZZZZA";
};

TEST_F(EverySchemaTest, HoldsAgainstWhatItsCommandPrints) {
  std::set<std::string> seen;
  const auto check = [&](const std::string& name, const std::string& command,
                         const std::string& printed) {
    const auto schema = SchemasOf(command).find(name);
    ASSERT_NE(schema, SchemasOf(command).end()) << name << " is not of " << command;
    const Json json = Json::parse(printed, nullptr, /*allow_exceptions=*/false);
    EXPECT_THAT(Violations(json, schema->second, name), IsEmpty()) << printed.substr(0, 2000);
    seen.insert(name);
  };
  const std::string node = StrCat("a=", profd_.socket_dir(), "/control.sock");
  profd_.captures[TestId(1)].set_state(v1::Capture::RECORDING);
  check("top", "top", OneLook({}));
  check("top", "top", OneLook({"--nodes", node}));
  profd_.captures[TestId(1)].set_state(v1::Capture::COMPLETE);
  for (const Example& example : Examples()) {
    std::vector<std::string> words = example.words;
    words.emplace_back("--json");
    const RunResult result = Run(words);
    EXPECT_EQ(result.exit_code, example.exit_code) << example.schema << ": " << result.err;
    check(example.schema, CommandOf(example.words), result.out);
  }
  const Json all = Json::parse(Run({"schema"}).out);
  for (const auto& [name, schema] : all.items()) {
    EXPECT_TRUE(seen.contains(name)) << "no example of the output that has the schema " << name;
  }
}

TEST_F(EverySchemaTest, ThereIsOneForEveryCommand) {
  for (const Command& command : Commands()) {
    const bool takes_json = std::ranges::count(OwnFlags(command), "json", &Flag::name) > 0;
    // Schemas are JSON themselves, and completion scripts are not.
    if (!takes_json || command.name == "schema" || command.name == "completion") continue;
    EXPECT_THAT(SchemasOf(command.name), Not(IsEmpty()))
        << "`profctl " << command.name << " --json` has no schema; see cli/render/lists.h";
  }
}

TEST_F(SchemaTest, AReportThatDoesNotExistHasNone) {
  const RunResult result = Run({"schema", "nonsense"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err,
              HasSubstr("there is one of: report, ops, ops_torch, modules, steps, kernels"));
}

}  // namespace
}  // namespace profd::cli
