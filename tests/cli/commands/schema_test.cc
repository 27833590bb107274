// Every report's --json keeps to the schema that `profctl schema` prints.
#include <set>

#include "cli/render/report_tables.h"
#include "daemon/report/gpu/copy_table.h"
#include "daemon/report/gpu/idle_table.h"
#include "daemon/report/gpu/kernel_table.h"
#include "daemon/report/gpu/sync_table.h"
#include "daemon/report/index/step_table.h"
#include "daemon/report/ops/profile.h"
#include "daemon/report/reports.h"
#include "daemon/report/time/compile_report.h"
#include "tests/cli/cli_fixture.h"

namespace profd::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

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
// additionalProperties, items, minItems, and maxItems.
std::vector<std::string> Violations(const Json& value, const Json& schema, const std::string& at) {
  std::vector<std::string> found;
  const auto add = [&](std::vector<std::string> more) {
    found.insert(found.end(), more.begin(), more.end());
  };
  if (!HasOneOfTypes(value, schema.at("type"))) {
    return {at + " is " + value.dump() + " and not of type " + schema.at("type").dump()};
  }
  if (value.is_object()) {
    for (const Json& key : schema.at("required")) {
      if (!value.contains(key)) found.push_back(at + " lacks " + key.get<std::string>());
    }
    for (const auto& [key, member] : value.items()) {
      if (schema.at("properties").contains(key)) {
        add(Violations(member, schema.at("properties").at(key), at + "." + key));
      } else if (schema.at("additionalProperties") == false) {
        found.push_back(at + " has " + key);
      }
    }
  }
  if (value.is_array()) {
    for (const Json& item : value) add(Violations(item, schema.at("items"), at + "[]"));
    if (value.size() < schema.value("minItems", size_t{0})) found.push_back(at + " is too short");
    if (value.size() > schema.value("maxItems", value.size())) found.push_back(at + " is too long");
  }
  return found;
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
  for (const std::string report :
       {"ops", "kernels", "copies", "syncs", "idle", "compile", "steps"}) {
    EXPECT_THAT(ViolationsOf(report), IsEmpty());
  }
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
  EXPECT_EQ(all.size(), report::ReportKinds().size());
  for (const report::ReportKind& kind : report::ReportKinds()) {
    const table::Report shape = kind.shape();
    EXPECT_EQ(shape.name, kind.name);
    EXPECT_TRUE(all.contains(kind.name));
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

TEST_F(SchemaTest, AReportThatDoesNotExistHasNone) {
  const RunResult result = Run({"schema", "nonsense"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("there is one of: ops, steps, kernels"));
}

}  // namespace
}  // namespace profd::cli
