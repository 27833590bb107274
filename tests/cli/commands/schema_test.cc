// Every report's --json keeps to the schema that `profctl schema` prints.
#include <algorithm>
#include <functional>
#include <set>

#include "cli/render/audit.h"
#include "cli/render/findings.h"
#include "cli/render/lists.h"
#include "cli/render/memory.h"
#include "cli/render/quotas.h"
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
#include "tests/cli/cli_fixture.h"

namespace profd::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using Json = nlohmann::json;

bool HasType(const Json& value, const std::string& type) {
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  if (type == "boolean") return value.is_boolean();
  if (type == "string") return value.is_string();
  if (type == "array") return value.is_array();
  if (type == "object") return value.is_object();
  return type == "null" && value.is_null();
}

bool HasOneOfTypes(const Json& value, const Json& types) {
  if (types.is_string()) return HasType(value, types);
  return std::any_of(types.begin(), types.end(),
                     [&](const Json& type) { return HasType(value, type); });
}

// What of `value` does not keep to `schema`, which uses type, properties, required,
// additionalProperties (false, or the schema of every value), items, prefixItems (with as many
// items), minItems, and maxItems.
std::vector<std::string> Violations(const Json& value, const Json& schema, const std::string& at) {
  std::vector<std::string> found;
  const auto add = [&](std::vector<std::string> more) {
    found.insert(found.end(), more.begin(), more.end());
  };
  if (!HasOneOfTypes(value, schema.at("type"))) {
    return {at + " is " + value.dump() + " and not of type " + schema.at("type").dump()};
  }
  const Json& more =
      schema.contains("additionalProperties") ? schema["additionalProperties"] : Json();
  if (value.is_object() && more.is_object()) {
    for (const auto& [key, member] : value.items())
      add(Violations(member, more, StrCat(at, ".", key)));
  } else if (value.is_object()) {
    for (const Json& key : schema.at("required")) {
      if (!value.contains(key)) found.push_back(StrCat(at, " lacks ", key.get<std::string>()));
    }
    for (const auto& [key, member] : value.items()) {
      if (schema.at("properties").contains(key)) {
        add(Violations(member, schema.at("properties").at(key), StrCat(at, ".", key)));
      } else if (more == false) {
        found.push_back(StrCat(at, " has ", key));
      }
    }
  }
  if (value.is_array()) {
    for (size_t i = 0; i < value.size(); ++i) {
      const bool has_prefix = schema.contains("prefixItems");
      if (has_prefix && i >= schema.at("prefixItems").size()) break;  // Too long: see below.
      add(Violations(value[i], has_prefix ? schema.at("prefixItems")[i] : schema.at("items"),
                     StrCat(at, "[", has_prefix ? StrCat(i) : "", "]")));
    }
    if (value.size() < schema.value("minItems", size_t{0})) found.push_back(at + " is too short");
    if (value.size() > schema.value("maxItems", value.size())) found.push_back(at + " is too long");
  }
  return found;
}

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
        flexible += column.flexible ? 1 : 0;
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

TEST_F(SchemaTest, TheListsOfADaemonKeepToTheirSchema) {
  profd_.targets = {ATarget(4711)};
  (*profd_.targets[0].mutable_metadata())["rank"] = "3";
  profd_.history.points = {{.node = "n"}};
  v1::Capture& capture = profd_.captures[TestId(1)];
  (*capture.mutable_spec()->mutable_labels())["k"] = "v";
  capture.mutable_gpu()->add_devices()->set_name("GPU");
  profd_.newest_first = {TestId(1)};
  EXPECT_THAT(Violations(RunJson({"ps"}), SchemaOf("ps"), "ps"), IsEmpty());
  EXPECT_THAT(Violations(RunJson({"captures"}), SchemaOf("captures"), "captures"), IsEmpty());
  EXPECT_THAT(Violations(RunJson({"show", "01J"}), SchemaOf("show"), "show"), IsEmpty());
  EXPECT_THAT(Violations(RunJson({"node"}), SchemaOf("node"), "node"), IsEmpty());
  EXPECT_THAT(Violations(RunJson({"history", "--step-time"}), SchemaOf("history"), "history"),
              IsEmpty());
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

TEST_F(SchemaTest, TheListsOfManyNodesKeepToTheirSchema) {
  profd_.targets = {ATarget(4711)};
  profd_.newest_first = {TestId(1)};
  const auto of_nodes = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"--nodes", StrCat("a=", profd_.socket_dir(), "/control.sock")});
    return RunJson(words);
  };
  EXPECT_THAT(Violations(of_nodes({"ps"}), SchemaOf("ps"), "ps"), IsEmpty());
  EXPECT_THAT(Violations(of_nodes({"captures"}), SchemaOf("captures"), "captures"), IsEmpty());
  EXPECT_THAT(Violations(of_nodes({"node"}), SchemaOf("nodes"), "nodes"), IsEmpty());
}

TEST_F(SchemaTest, QuotasKeepToTheirSchema) {
  const std::vector<QuotaView> quotas = {{.name = "targets", .holdings = {{"uid:7", 1, 2, true}}}};
  EXPECT_THAT(Violations(Written([&](JsonWriter& json) { WriteQuotasJson("n", quotas, json); }),
                         SchemaOf("quotas"), "quotas"),
              IsEmpty());
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

TEST_F(SchemaTest, AReportThatDoesNotExistHasNone) {
  const RunResult result = Run({"schema", "nonsense"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err,
              HasSubstr("there is one of: report, ops, ops_torch, modules, steps, kernels"));
}

}  // namespace
}  // namespace profd::cli
