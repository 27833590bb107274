// A fake profd in a folder of its own, and profctl beside it.
#ifndef PROFD_TESTS_CLI_CLI_FIXTURE_H_
#define PROFD_TESTS_CLI_CLI_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cli/fake_profd.h"
#include "tests/cli/profctl_process.h"
#include "tests/cli/schema_check.h"
#include "tests/store/file/capture_file_builder.h"

namespace profd::cli {

inline std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

class CliTest : public ::testing::Test {
 protected:
  Environment environment() const { return {{"PROFD_SOCKET_DIR", profd_.socket_dir()}}; }
  RunResult Run(const std::vector<std::string>& arguments) const {
    return RunProfctl(arguments, environment());
  }
  // Runs with --json; stdout must be one object on one line that keeps to a schema of the command.
  nlohmann::json RunJson(const std::vector<std::string>& arguments, int exit_code = 0) const {
    std::vector<std::string> with_json = arguments;
    with_json.emplace_back("--json");
    const RunResult result = Run(with_json);
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 1) << result.out;
    EXPECT_TRUE(nlohmann::json::accept(result.out)) << result.out;
    nlohmann::json json = nlohmann::json::parse(result.out, nullptr, /*allow_exceptions=*/false);
    ExpectKeepsToASchema(arguments, json);
    return json;
  }
  std::string Path(std::string_view name) const { return (folder_ / name).string(); }

  store::TemporaryFolder folder_;
  FakeProfd profd_{folder_.path()};
};

}  // namespace profd::cli

#endif  // PROFD_TESTS_CLI_CLI_FIXTURE_H_
