// What was imported and exported again imports as the same.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "daemon/export/trace_export.h"
#include "gmock/gmock.h"
#include "tests/export/string_sink.h"
#include "tests/import/import_fixture.h"
#include "tests/import/real_traces.h"

namespace profd::importer {
namespace {

class RoundTripTest : public ImportTest {
 protected:
  // Of the capture made of `trace`, the lines that its own export, imported, does not have, and
  // those that only that has.
  void ExpectSameAgain(const std::filesystem::path& trace) {
    const auto first = Import(trace);
    ASSERT_THAT(first, IsOk());
    const auto reader = Open(first->file);
    StringSink sink;
    ASSERT_THAT(exporter::ExportTrace(*reader, exporter::TraceFormat::kChrome, sink), IsOk());
    const auto second = ImportText(sink.text());
    ASSERT_THAT(second, IsOk());
    EXPECT_TRUE(second->record.imported.not_understood.empty())
        << second->record.imported.not_understood.begin()->first;
    EXPECT_EQ(second->record.imported.producer, "profd");
    EXPECT_EQ(second->record.start_unix_ns, first->record.start_unix_ns);
    EXPECT_EQ(second->record.event_count, first->record.event_count);
    EXPECT_EQ(second->record.target.pid, first->record.target.pid);
    EXPECT_EQ(second->record.target.command, first->record.target.command);
    EXPECT_EQ(second->record.target.metadata, first->record.target.metadata);
    EXPECT_EQ(second->record.gpu.orphan_count, first->record.gpu.orphan_count);
    const auto again = Open(second->file);
    const std::vector<std::string> before = LinesOf(*reader);
    const std::vector<std::string> after = LinesOf(*again);
    std::vector<std::string> lost;
    std::vector<std::string> made;
    std::ranges::set_difference(before, after, std::back_inserter(lost));
    std::ranges::set_difference(after, before, std::back_inserter(made));
    EXPECT_EQ(lost.size(), 0u) << lost.front();
    EXPECT_EQ(made.size(), 0u) << made.front();
  }
};

TEST_F(RoundTripTest, AKeptTrace) {
  ExpectSameAgain(std::filesystem::path(std::getenv("PROFD_SOURCE_DIR")) /
                  "tests/data/alexnet_train.json.gz");
}

class RealRoundTripTest : public RoundTripTest, public testing::WithParamInterface<const char*> {};

TEST_P(RealRoundTripTest, IsLossless) {
  const std::filesystem::path trace = RealTrace(GetParam());
  if (!std::filesystem::exists(trace)) GTEST_SKIP() << "no " << trace;
  ExpectSameAgain(trace);
}

INSTANTIATE_TEST_SUITE_P(Traces, RealRoundTripTest, testing::ValuesIn(kRealTraces), RealTraceName);

}  // namespace
}  // namespace profd::importer
