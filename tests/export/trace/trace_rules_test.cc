#include "tests/export/trace/trace_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "daemon/base/str_cat.h"
#include "tests/fakes/status_matchers.h"

namespace profd {
namespace {

using ::testing::Contains;
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
    EXPECT_THAT(OffencesOf(text), Contains(HasSubstr(std::string(what))));
  };
  finds(TraceWith(X("a", "0.000", "10.000") + X("b", "5.000", "10.000")), "nesting");
  finds(TraceWith(X("ProfilerStep#1", "0.000", "10.000") + X("ProfilerStep#2", "11.000", "9.000")),
        "gap");
  finds(TraceWith(X("", "0.000", "1.000")), "empty");
  finds(TraceWith(X("a\\n", "0.000", "1.000")), "control");
  finds(TraceWith(X(std::string(4097, 'x'), "0.000", "1.000")), "too long");
  finds(TraceWith(X("a", "-1.000", "1.000")), "ts of a");
  finds(TraceWith(X("a", "1.0", "1.000")), "ts of a");
  finds(TraceWith(X("a", "1", "1.000")), "ts of a");
  finds(TraceWith(X("a", "9007199254740992.000", "1.000")), "event-time");
  finds(TraceWith(X("a", "1.000", "-1.000")), "dur of a");
  finds(TraceWith(X("a", "1.000", "1.000", "\"2\"")), "not an integer");
  finds(TraceWith("", R"("distributedInfo": {"rank":3},)"), "rank");
  finds(TraceWith(X("a", "1.000", "1.000")).replace(1, 18, "\"schemaVersion\": 2"),
        "schemaVersion");
}

// Of process 0, which is a GPU, with its rows named.
constexpr std::string_view kGpuRows =
    R"({"ph":"M","name":"process_labels","pid":0,"tid":0,"args":{"labels":"GPU 0"}},)"
    R"({"ph":"M","name":"thread_name","pid":0,"tid":7,"args":{"name":"stream 7 "}},)";

std::string Range(int64_t id = 1) {
  return StrCat(R"({"ph":"X","cat":"cpu_op","name":"op","pid":1,"tid":2,"ts":1.000,"dur":9.000,)",
                R"("args":{"External id":)", id, "}},");
}
std::string Launch(int64_t id = 1) {
  return StrCat(R"({"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":2,)",
                R"("ts":2.000,"dur":1.000,"args":{"cbid":211,"correlation":5,"External id":)", id,
                "}},");
}
std::string Kernel(std::string_view ts = "4.000", std::string_view stream = "7") {
  return StrCat(R"({"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":)", ts,
                R"(,"dur":1.000,"args":{"device":0,"context":1,"stream":)", stream,
                R"(,"correlation":5}},)");
}
std::string Flow(std::string_view phase, std::string_view ts) {
  return StrCat(R"({"ph":")", phase, R"(","id":5,"cat":"ac2g","name":"ac2g","ts":)", ts,
                phase == "s" ? R"(,"pid":1,"tid":2},)" : R"(,"pid":0,"tid":7,"bp":"e"},)");
}

TEST(TraceRulesTest, AGoodGpuTraceHasNoOffence) {
  EXPECT_THAT(OffencesOf(TraceWith(std::string(kGpuRows) + Range() + Launch() + Kernel() +
                                   Flow("s", "2.000") + Flow("f", "4.000"))),
              IsEmpty());
}

TEST(TraceRulesTest, EachRuleOfTheGpuFindsItsOffence) {
  const auto finds = [](const std::string& events, std::string_view what) {
    EXPECT_THAT(OffencesOf(TraceWith(events)), Contains(HasSubstr(std::string(what))));
  };
  const std::string rows(kGpuRows);
  finds(Kernel(), "no name");
  finds(Kernel(), "no label");
  finds(rows + Launch(), "first slice");
  finds(rows + Kernel("4.000", "\"7\""), "has no stream");
  finds(rows + Range() + Launch(2), "External id 2");
  finds(rows + Range() + Range(), "one External id");
  finds(rows + Range() + Launch() + Flow("s", "2.000"), "does not end");
  finds(rows + Kernel() + Flow("f", "4.000"), "does not begin");
  finds(rows + Range() + Launch() + Kernel() + Flow("s", "2.500") + Flow("f", "4.000"),
        "begins at no call");
  finds(rows + Range() + Launch() + Kernel() + Flow("s", "2.000") + Flow("f", "4.500"),
        "ends at no work");
  finds(rows + Range() + Launch() + Kernel("1.000") + Flow("s", "2.000") + Flow("f", "1.000"),
        "ends before it begins");
  finds(rows + R"({"ph":"M","name":"thread_name","pid":0,"tid":8,"args":{"name":"stream 7 "}},)" +
            Kernel(),
        "two rows are called");
  EXPECT_THAT(OffencesOf(TraceWith(rows + Kernel(), R"("simulated": true,)")),
              Contains(HasSubstr("where it came from")));
}

std::string Arrow(std::string_view phase, std::string_view ts, std::string_view more = "") {
  return StrCat(R"({"ph":")", phase, R"(","id":1,"pid":1,"tid":2,"ts":)", ts,
                R"(,"cat":"fwdbwd","name":"fwdbwd")", more, "},");
}
constexpr std::string_view kBinds = R"(,"bp":"e")";

TEST(TraceRulesTest, AGoodArrowFromForwardToBackwardHasNoOffence) {
  EXPECT_THAT(OffencesOf(TraceWith(X("a", "1.000", "1.000") + X("b", "5.000", "1.000") +
                                   Arrow("s", "1.000") + Arrow("f", "5.000", kBinds))),
              IsEmpty());
}

TEST(TraceRulesTest, EachRuleOfOperatorsFindsItsOffence) {
  const auto finds = [](const std::string& arrows, std::string_view what) {
    const std::string ranges = X("a", "1.000", "1.000") + X("b", "5.000", "1.000");
    EXPECT_THAT(OffencesOf(TraceWith(ranges + arrows)), Contains(HasSubstr(std::string(what))));
  };
  finds(Arrow("s", "1.000"), "does not end");
  finds(Arrow("f", "5.000", kBinds), "does not begin");
  finds(Arrow("s", "1.000") + Arrow("f", "5.000"), "binds to");
  finds(Arrow("s", "1.000") + Arrow("f", "4.000", kBinds), "ends at no operator");
  finds(Arrow("s", "2.000") + Arrow("f", "5.000", kBinds), "begins at no operator");
  finds(Arrow("s", "5.000") + Arrow("f", "1.000", kBinds), "ends before it begins");
  finds(Arrow("s", "1.000") + Arrow("s", "1.000") + Arrow("f", "5.000", kBinds), "begins twice");
  const auto with_arguments = [](std::string_view arguments) {
    return StrCat(R"({"ph":"X","cat":"cpu_op","name":"c","pid":1,"tid":2,"ts":7.000,"dur":1.000,)",
                  R"("args":{)", arguments, "}},");
  };
  finds(with_arguments(R"("Input Dims":[[1],[]],"Input type":["float"])"), "not as many");
  finds(with_arguments(R"("Input type":"float")"), "no list");
  finds(with_arguments(R"("Input Strides":["float"])"), "an item of Input Strides");
}

}  // namespace
}  // namespace profd
