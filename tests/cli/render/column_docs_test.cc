// Every title of every table, as the sources spell it, is explained.
#include "cli/render/column_docs.h"

#include <cstdlib>
#include <filesystem>
#include <regex>
#include <set>

#include "absl/strings/str_split.h"
#include "cli/commands/command.h"
#include "daemon/base/str_cat.h"
#include "daemon/report/findings/rules.h"
#include "tests/cli/cli_fixture.h"

namespace profd::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(ColumnDocsTest, EveryTitleInTheSourcesHasADefinition) {
  const std::filesystem::path folder =
      std::filesystem::path(std::getenv("PROFD_SOURCE_DIR")) / "cli";
  // One that is followed by its documentation needs no other.
  const std::regex title("(?:\\.title = |Title\\()\"([^\"]+)\"(?!,\\s*\\.doc)");
  size_t seen = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".cc") continue;
    const std::string text = ReadFile(entry.path());
    for (auto at = std::sregex_iterator(text.begin(), text.end(), title);
         at != std::sregex_iterator(); ++at) {
      ++seen;
      EXPECT_FALSE(FindColumnDocs((*at)[1].str()).empty())
          << (*at)[1] << " of " << entry.path().filename()
          << " is not in column_docs_reports.cc or column_docs_lists.cc";
    }
  }
  EXPECT_GT(seen, 150);
}

TEST(ColumnDocsTest, EveryFindingIsExplained) {
  for (const std::string_view rule : report::RuleIds()) {
    EXPECT_THAT(FindColumnDocs(rule, "report"), ::testing::SizeIs(1)) << rule;
  }
  for (const ColumnDoc& doc : FindingDocs()) {
    const bool is_rule = doc.column.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") ==
                         std::string_view::npos;
    EXPECT_EQ(is_rule, report::IsRule(doc.column)) << doc.column;
  }
}

std::vector<std::string> Split(std::string_view text, char separator) {
  return absl::StrSplit(absl::string_view(text.data(), text.size()), separator);
}

TEST(ColumnDocsTest, EveryDefinitionIsOfOneColumnOfACommand) {
  std::set<std::string> seen;
  for (const std::span<const ColumnDoc> docs :
       {ReportColumnDocs(), ListColumnDocs(), FindingDocs()}) {
    for (const ColumnDoc& doc : docs) {
      EXPECT_FALSE(doc.definition.empty() || doc.definition.ends_with('.')) << doc.column;
      for (const std::string& table : Split(doc.tables, ' ')) {
        EXPECT_NE(FindCommand(table), nullptr) << table << ": " << doc.column;
        for (const std::string& column : Split(doc.column, '|')) {
          const std::string entry = StrCat(table, ": ", column, ": ", doc.definition);
          EXPECT_TRUE(seen.insert(entry).second) << entry;
        }
      }
    }
  }
  EXPECT_THAT(FindColumnDocs("busy %", "ops"), ::testing::SizeIs(1));
  EXPECT_THAT(FindColumnDocs("self cuda", "ops"), ::testing::SizeIs(2)) << "its own, and torch's";
  EXPECT_THAT(FindColumnDocs("self cuda", "idle"), IsEmpty());
}

// All keys of all objects that a schema describes.
void AddKeys(const nlohmann::json& schema, std::set<std::string>& keys) {
  if (schema.contains("properties")) {
    for (const auto& [key, member] : schema.at("properties").items()) {
      keys.insert(key);
      AddKeys(member, keys);
    }
  }
  if (schema.contains("items") && schema.at("items").is_object()) AddKeys(schema["items"], keys);
  if (!schema.contains("prefixItems")) return;
  for (const nlohmann::json& item : schema.at("prefixItems")) keys.insert(item.at("x-key"));
}

TEST(ColumnDocsTest, EveryKeyOfEverySchemaIsExplained) {
  const nlohmann::json schemas = nlohmann::json::parse(RunProfctl({"schema"}, {}).out);
  size_t seen = 0;
  for (const auto& [name, schema] : schemas.items()) {
    std::set<std::string> keys;
    AddKeys(schema, keys);
    seen += keys.size();
    // schedule_list is of schedule, and group_ops of ops; nodes and quotas are of node.
    std::string command = name.starts_with("group_") ? name.substr(6) : name;
    command = command.substr(0, command.find('_'));
    if (name == "nodes" || name == "quotas") command = "node";
    for (const std::string& key : keys) {
      EXPECT_FALSE(FindColumnDocs(key, command).empty()) << name << ": " << key;
    }
  }
  EXPECT_GT(seen, 500);
}

TEST(ExplainTest, AKeyOfJsonMayHaveThoseAroundIt) {
  const auto run = [](const std::string& term) { return RunProfctl({"explain", term}, {}); };
  EXPECT_THAT(run("kernel_time_ns").out, AllOf(HasSubstr("kernel_time_ns"), HasSubstr("(time)"),
                                               HasSubstr("not a sum of kernels")));
  EXPECT_THAT(run("steps.kernel_time_ns").out, HasSubstr("its duration on the host"));
  EXPECT_EQ(run("steps.kernel_tim_ns").exit_code, 2);
  EXPECT_THAT(run("kernel_tim_ns").err, HasSubstr("did you mean 'kernel_time_ns'?"));
}

TEST(ExplainTest, SaysDefinitionAndFormula) {
  const auto run = [](const std::vector<std::string>& arguments) {
    return RunProfctl(arguments, {});
  };
  EXPECT_THAT(run({"explain", "cuda busy"}).out,
              AllOf(HasSubstr("union over streams"), HasSubstr("  = ")));
  EXPECT_THAT(run({"explain"}).out, AllOf(HasSubstr("Self CPU"), HasSubstr("STEPS/S")));
  EXPECT_EQ(run({"explain", "CUDA bussy"}).exit_code, 2);
  EXPECT_THAT(run({"explain", "CUDA bussy"}).err, HasSubstr("CUDA busy"));
  EXPECT_EQ(run({"explain", "--table", "nonsense"}).exit_code, 2);
  EXPECT_TRUE(nlohmann::json::accept(run({"explain", "--json"}).out));
}

}  // namespace
}  // namespace profd::cli
