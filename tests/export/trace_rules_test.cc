#include "tests/export/trace_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/fakes/status_matchers.h"

namespace profd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::string_view kEnd =
    R"({"ph":"i","name":"Record Window End","pid":1,"tid":0,"ts":900.000})";

std::string TraceWith(const std::string& events, const std::string& info = "") {
  return R"({"schemaVersion": 1,"deviceProperties": [],"host_name": "h","trace_id": "t",)"
         R"("profd": {},)" +
         info + R"("displayTimeUnit": "ms","baseTimeNanoseconds": 5,"traceEvents": [)" + events +
         std::string(kEnd) + R"(],"traceName": "n"})";
}

std::vector<std::string> OffencesOf(const std::string& text) {
  const absl::StatusOr<JsonValue> root = ParseStrictJson(text);
  EXPECT_THAT(root, IsOk());
  return root.ok() ? TraceRuleOffences(text, *root) : std::vector<std::string>();
}

std::string X(const std::string& name, const std::string& ts, const std::string& dur,
              const std::string& tid = "2") {
  return R"({"ph":"X","cat":"cpu_op","name":")" + name + R"(","pid":1,"tid":)" + tid +
         ",\"ts\":" + ts + ",\"dur\":" + dur + "},";
}

TEST(TraceRulesTest, AGoodTraceHasNoOffence) {
  EXPECT_THAT(OffencesOf(TraceWith(X("a", "0.000", "10.000") + X("b", "0.000", "10.000") +
                                       X("c", "10.000", "0.000") + X("d", "5.000", "9.000", "3"),
                                   R"("distributedInfo": {"rank": 3},)")),
              IsEmpty());
}

TEST(TraceRulesTest, EachRuleFindsItsOffence) {
  const auto finds = [](const std::string& text, std::string_view what) {
    EXPECT_THAT(OffencesOf(text), ElementsAre(HasSubstr(std::string(what))));
  };
  finds(TraceWith(X("a", "0.000", "10.000") + X("b", "5.000", "10.000")), "overlaps");
  finds(TraceWith(X("ProfilerStep#1", "0.000", "10.000") + X("ProfilerStep#2", "11.000", "9.000")),
        "gap");
  finds(TraceWith(X("", "0.000", "1.000")), "empty");
  finds(TraceWith(X("a\\n", "0.000", "1.000")), "control");
  finds(TraceWith(X(std::string(4097, 'x'), "0.000", "1.000")), "too long");
  finds(TraceWith(X("a", "-1.000", "1.000")), "ts of a");
  finds(TraceWith(X("a", "1.0", "1.000")), "ts of a");
  finds(TraceWith(X("a", "1", "1.000")), "ts of a");
  finds(TraceWith(X("a", "9007199254740992.000", "1.000")), "ts of a");
  finds(TraceWith(X("a", "1.000", "-1.000")), "dur of a");
  finds(TraceWith(X("a", "1.000", "1.000", "\"2\"")), "integers");
  finds(TraceWith("", R"("distributedInfo": {"rank":3},)"), "rank");
  finds(TraceWith(X("a", "1.000", "1.000")).replace(1, 18, "\"schemaVersion\": 2"),
        "schemaVersion");
}

}  // namespace
}  // namespace profd
