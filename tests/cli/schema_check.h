// Holds what commands print with --json against the schemas that `profctl schema` shows.
#ifndef PROFD_TESTS_CLI_SCHEMA_CHECK_H_
#define PROFD_TESTS_CLI_SCHEMA_CHECK_H_

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace profd::cli {

// What of `value` does not keep to `schema`, which uses type, properties, required,
// additionalProperties (false, or the schema of every value), items, prefixItems (with as many
// items), minItems, and maxItems.
std::vector<std::string> Violations(const nlohmann::json& value, const nlohmann::json& schema,
                                    const std::string& at);

// The schemas of a command's --json, by their names for `profctl schema`. Empty: it has none.
const std::map<std::string, nlohmann::json>& SchemasOf(std::string_view command);

// The command among the words after profctl: "ps" of "--nodes a,b ps". Empty: there is none.
std::string CommandOf(const std::vector<std::string>& words);

// Fails the test unless what `profctl WORDS --json` printed keeps to a schema of its command.
void ExpectKeepsToASchema(const std::vector<std::string>& words, const nlohmann::json& printed);

}  // namespace profd::cli

#endif  // PROFD_TESTS_CLI_SCHEMA_CHECK_H_
