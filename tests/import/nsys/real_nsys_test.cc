// Exports of real jobs hold after import what plain SQL counts in them: every row of every table is
// in a capture or counted.
#include <zlib.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "gmock/gmock.h"
#include "tests/import/nsys/nsys_file.h"
#include "tests/import/real_traces.h"

namespace profd::importer {
namespace {

using testing::SizeIs;

// Process and what; how many and for how long.
struct Figures {
  int64_t count = 0;
  int64_t ns = 0;
  int64_t bytes = 0;
  friend bool operator==(const Figures& a, const Figures& b) {
    return std::tie(a.count, a.ns, a.bytes) == std::tie(b.count, b.ns, b.bytes);
  }
};
void PrintTo(const Figures& figures, std::ostream* out) {
  *out << figures.count << " of " << figures.ns << " ns, " << figures.bytes << " bytes";
}
using FiguresByWhat = std::map<std::string, Figures>;

struct RealExport {
  const char* name;
  size_t captures;
  int64_t kernels;  // What its publisher says of it.
  int64_t ranges;
};
void PrintTo(const RealExport& file, std::ostream* out) { *out << file.name; }

class RealNsysTest : public NsysImportTest, public testing::WithParamInterface<RealExport> {
 protected:
  // Empty: it is not there.
  std::filesystem::path Inflate() {
    const std::filesystem::path path =
        RealTrace("x").parent_path() / "other" / StrCat(GetParam().name, ".sqlite.gz");
    if (!std::filesystem::exists(path)) return {};
    std::ofstream out(folder_ / "real.sqlite", std::ios::binary);
    std::vector<char> buffer(1 << 20);
    gzFile file = gzopen(path.c_str(), "rb");
    int bytes = 0;
    while ((bytes = gzread(file, buffer.data(), static_cast<unsigned>(buffer.size()))) > 0) {
      out.write(buffer.data(), bytes);
    }
    gzclose(file);
    return folder_ / "real.sqlite";
  }
};

FiguresByWhat FiguresOfSql(TestDatabase& database, const std::vector<ImportedCapture>& captures) {
  FiguresByWhat figures;
  const auto add = [&](const std::string& sql) {
    for (const ImportedCapture& capture : captures) {
      const std::string pid = StrCat(capture.record.target.pid);
      std::string of_process = sql;
      of_process.replace(of_process.find("PID"), 3, pid);
      for (const std::vector<std::string>& row : database.Query(of_process)) {
        Figures& sum = figures[StrCat(pid, " ", row[0])];
        sum.count += std::stoll(row[1]);
        sum.ns += std::stoll(row[2]);
        sum.bytes += std::stoll(row[3]);
      }
    }
  };
  const std::string by_pid = " WHERE (globalPid >> 24) & 0xFFFFFF = PID GROUP BY 1";
  const std::string by_tid = " WHERE (globalTid >> 24) & 0xFFFFFF = PID GROUP BY 1";
  // Captures keep 4 KiB of a name.
  add("SELECT 'kernel ' || substr(value, 1, 4096), count(*), sum(end - start), 0 FROM "
      "CUPTI_ACTIVITY_KIND_KERNEL JOIN StringIds ON id = demangledName" +
      by_pid);
  add("SELECT 'copy ' || copyKind, count(*), sum(end - start), sum(bytes) FROM "
      "CUPTI_ACTIVITY_KIND_MEMCPY" +
      by_pid);
  add("SELECT 'memset', count(*), sum(end - start), sum(bytes) FROM CUPTI_ACTIVITY_KIND_MEMSET" +
      by_pid);
  add("SELECT 'sync', count(*), sum(end - start), 0 FROM CUPTI_ACTIVITY_KIND_SYNCHRONIZATION" +
      by_pid);
  add("SELECT 'call ' || eventClass, count(*), sum(end - start), 0 FROM "
      "CUPTI_ACTIVITY_KIND_RUNTIME" +
      by_tid);
  add("SELECT 'range ' || CASE instr(text, ', op_id = ') WHEN 0 THEN text ELSE substr(text, 1, "
      "instr(text, ', op_id = ') - 1) END, count(*), sum(end - start), 0 FROM NVTX_EVENTS" +
      by_tid);
  return figures;
}

FiguresByWhat FiguresOfCaptures(const std::vector<ImportedCapture>& captures) {
  FiguresByWhat figures;
  for (const ImportedCapture& capture : captures) {
    auto reader = store::CaptureReader::Open(capture.file);
    EXPECT_THAT(reader, IsOk());
    if (!reader.ok()) continue;
    const auto add = [&](const std::string& what, int64_t ns, uint64_t bytes) {
      Figures& sum = figures[StrCat(capture.record.target.pid, " ", what)];
      ++sum.count;
      sum.ns += ns;
      sum.bytes += static_cast<int64_t>(bytes);
    };
    const auto names = (*reader)->names();
    EXPECT_THAT((*reader)->ForEach<GpuRow>(
                    kGpuAllColumns, {},
                    [&](const GpuBatch& batch) {
                      for (size_t i = 0; i < batch.size; ++i) {
                        const auto kind = static_cast<GpuRowKind>(batch.kind[i]);
                        const std::string what =
                            kind == GpuRowKind::kKernel   ? StrCat("kernel ", names[batch.name[i]])
                            : kind == GpuRowKind::kMemcpy ? StrCat("copy ", int{batch.copy_kind[i]})
                                                          : "memset";
                        add(what, batch.duration_ns[i], batch.bytes[i]);
                      }
                      return absl::OkStatus();
                    }),
                IsOk());
    EXPECT_THAT((*reader)->ForEach<SyncRow>([&](const SyncBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) add("sync", batch.duration_ns[i], 0);
      return absl::OkStatus();
    }),
                IsOk());
    EXPECT_THAT((*reader)->ForEach<ApiRow>([&](const ApiBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i)
        add(StrCat("call ", int{batch.is_driver[i]}), batch.duration_ns[i], 0);
      return absl::OkStatus();
    }),
                IsOk());
    EXPECT_THAT((*reader)->ForEach<RangeRow>(kRangeAllColumns, {},
                                             [&](const RangeBatch& batch) {
                                               for (size_t i = 0; i < batch.size; ++i)
                                                 add(StrCat("range ", names[batch.name[i]]),
                                                     batch.duration_ns[i], 0);
                                               return absl::OkStatus();
                                             }),
                IsOk());
  }
  return figures;
}

TEST_P(RealNsysTest, HoldsWhatSqlCounts) {
  const std::filesystem::path path = Inflate();
  if (path.empty()) GTEST_SKIP() << "no " << GetParam().name;
  const auto captures = ImportFile(path, "01JDZ0000000000000000000AB");
  ASSERT_THAT(captures, IsOkAndHolds(SizeIs(GetParam().captures)));
  TestDatabase database(path);
  const FiguresByWhat figures = FiguresOfCaptures(*captures);
  EXPECT_EQ(figures, FiguresOfSql(database, *captures));
  int64_t kernels = 0;
  int64_t ranges = 0;
  for (const auto& [what, sum] : figures) {
    if (what.find(" kernel ") != std::string::npos) kernels += sum.count;
    if (what.find(" range ") != std::string::npos) ranges += sum.count;
  }
  EXPECT_EQ(kernels, GetParam().kernels);
  EXPECT_EQ(ranges, GetParam().ranges);
}

// Tables that describe others have no events.
constexpr std::string_view kEventTables =
    "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'ENUM%' AND name NOT "
    "LIKE 'TARGET_INFO%' AND name NOT LIKE 'META_DATA%' AND name NOT LIKE 'ANALYSIS%' AND name NOT "
    "LIKE 'NVTX_PAYLOAD%' AND name NOT IN ('StringIds', 'ThreadNames', 'PROCESSES', "
    "'ProcessStreams')";

TEST_P(RealNsysTest, EveryRowIsImportedOrCounted) {
  const std::filesystem::path path = Inflate();
  if (path.empty()) GTEST_SKIP() << "no " << GetParam().name;
  const auto captures = ImportFile(path);
  ASSERT_THAT(captures, IsOk());
  int64_t accounted = 0;
  for (const ImportedCapture& capture : *captures) {
    accounted += capture.record.event_count;
    for (const auto& [kind, count] : capture.record.imported.not_understood) {
      if (!kind.starts_with("arg:")) accounted += count;
      EXPECT_EQ(kind.find("more than"), std::string::npos) << kind;
    }
    EXPECT_EQ(capture.record.drops, DropCounts{});
  }
  TestDatabase database(path);
  int64_t rows = 0;
  for (const std::vector<std::string>& table : database.Query(std::string(kEventTables))) {
    rows += std::stoll(database.Query(StrCat("SELECT count(*) FROM \"", table[0], "\""))[0][0]);
  }
  EXPECT_EQ(accounted, rows);
}

INSTANTIATE_TEST_SUITE_P(Files, RealNsysTest,
                         testing::Values(RealExport{"nsys_h200_fuser", 1, 18, 13'513},
                                         RealExport{"nsys_h100_2gpu_1s", 2, 3442, 16'782}),
                         [](const auto& file) { return std::string(file.param.name); });

}  // namespace
}  // namespace profd::importer
