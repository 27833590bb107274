#include "tests/cli/schema_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "cli/commands/command.h"
#include "cli/render/lists.h"
#include "cli/render/schemas.h"
#include "daemon/base/json_writer.h"
#include "daemon/base/str_cat.h"
#include "daemon/report/reports.h"

namespace profd::cli {
namespace {

using Json = nlohmann::json;
using Schemas = std::map<std::string, Json>;

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

std::map<std::string, Schemas, std::less<>> SchemasByCommand() {
  std::map<std::string, Schemas, std::less<>> all;
  const auto add = [&all](std::string_view command, std::string_view name, JsonWriter& json) {
    all[std::string(command)][std::string(name)] = Json::parse(json.TakeLine());
  };
  for (const report::ReportKind& kind : report::ReportKinds()) {
    if (kind.schema.empty()) continue;
    JsonWriter json;
    WriteSchemaOf(kind, json);
    add(kind.command, kind.schema, json);
  }
  for (const ListKind& kind : ListKinds()) {
    JsonWriter json;
    WriteListSchema(kind, json);
    add(kind.command, kind.name, json);
  }
  return all;
}

}  // namespace

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

const Schemas& SchemasOf(std::string_view command) {
  static const std::map<std::string, Schemas, std::less<>> all = SchemasByCommand();
  static const Schemas none;
  const auto found = all.find(command);
  return found == all.end() ? none : found->second;
}

std::string CommandOf(const std::vector<std::string>& words) {
  const auto command = std::ranges::find_if(
      words, [](const std::string& word) { return FindCommand(word) != nullptr; });
  return command == words.end() ? "" : *command;
}

void ExpectKeepsToASchema(const std::vector<std::string>& words, const Json& printed) {
  const std::string command = CommandOf(words);
  std::optional<std::vector<std::string>> fewest;  // Of the schema that fits best.
  for (const auto& [name, schema] : SchemasOf(command)) {
    std::vector<std::string> violations = Violations(printed, schema, name);
    if (!fewest.has_value() || violations.size() < fewest->size()) fewest = std::move(violations);
  }
  ASSERT_TRUE(fewest.has_value()) << "`profctl " << command << " --json` has no schema; lists.h";
  EXPECT_THAT(*fewest, ::testing::IsEmpty()) << command;
}

}  // namespace profd::cli
