// The real profd-report: what it answers, how it ends, and what it may not do.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "daemon/base/reason.h"
#include "daemon/base/str_cat.h"
#include "daemon/report/reports.h"
#include "daemon/worker/report_process.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "profd/v1/reports.pb.h"
#include "tests/fakes/sanitized.h"
#include "tests/fakes/status_matchers.h"
#include "tests/store/store_fixture.h"

namespace profd::worker {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

absl::Status IsWanted() { return absl::OkStatus(); }

std::filesystem::path Program() {
  return std::filesystem::path(std::getenv("PROFD_BUILD_DIR")) / "bin/profd-report";
}

class ReportProgramTest : public store::StoreFixture {
 protected:
  // A finished capture file with `allocations` blocks that are never freed.
  std::filesystem::path MakeCapture(int number, int64_t allocations) {
    CaptureRecord record = store::NewRecord(store::IdOf(number));
    EXPECT_THAT(store_->InsertCapture(record), IsOk());
    auto sink = store_->CreateFile(record);
    EXPECT_THAT(sink, IsOk());
    EXPECT_THAT((*sink)->AddThread({.index = 0, .os_thread = 1, .name = "main"}), IsOk());
    std::mt19937_64 random(1);
    std::vector<MemoryRow> rows;
    for (int64_t i = 0; i < allocations; ++i) {
      rows.push_back({.time_ns = i,
                      .address = random(),
                      .bytes = 64,
                      .total_allocated_bytes = -1,
                      .total_reserved_bytes = -1,
                      .device_type = 1,
                      .device_index = 0,
                      .category = 0,
                      .is_free = false});
    }
    EXPECT_THAT((*sink)->Append(0, rows), IsOk());
    record = store::FinishedRecord(record, {.start_ns = 0, .end_ns = allocations + 1});
    EXPECT_THAT((*sink)->Finish(record, 0), IsOk());
    return File(record.id, ".profd");
  }
  static UniqueFd OpenReadOnly(const std::filesystem::path& path) {
    return UniqueFd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  }
  // The answer to one request, and its status.
  absl::StatusOr<std::string> Ask(SpawnedProcess& process, std::string_view table,
                                  std::string_view options, int capture) {
    if (absl::Status status = process.EnsureStarted(IsWanted); !status.ok()) return status;
    absl::Status status = process.Send(
        {.table = std::string(table), .options = std::string(options), .capture = capture});
    if (!status.ok()) return status;
    std::string answer;
    while (true) {
      auto frame = process.Receive(absl::InfiniteDuration());
      if (!frame.ok()) return frame.status();
      if ((*frame)->kind == FrameKind::kEnd) {
        status = DecodeStatus((*frame)->payload);
        if (!status.ok()) return status;
        return answer;
      }
      answer += (*frame)->payload;
    }
  }

  Clock& real_clock_ = Clock::Real();
};

// GetReportRequest.report = "memory"
constexpr char kMemory[] = "\x12\x06memory";

// The value of a line of /proc/PID/status.
std::string StatusLine(pid_t pid, std::string_view name) {
  std::ifstream file(StrCat("/proc/", pid, "/status"));
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(StrCat(name, ":\t"))) return line.substr(name.size() + 2);
  }
  return "";
}

TEST_F(ReportProgramTest, ReadsACaptureThroughItsDescriptorAlsoAfterItsRemoval) {
  const std::filesystem::path path = MakeCapture(1, 100);
  const UniqueFd capture = OpenReadOnly(path);
  std::filesystem::remove(path);
  SpawnedProcess process({.program = Program()}, real_clock_);
  const auto answer = Ask(process, "GetReport", kMemory, capture.get());
  ASSERT_THAT(answer, IsOk());
  v1::Report response;
  ASSERT_TRUE(response.ParseFromString(*answer));
  ASSERT_EQ(response.tables(0).row_count(), 1) << "one device";
  const pid_t first = process.pid();
  EXPECT_THAT(Ask(process, "CheckImport", "", capture.get()), IsOk());
  EXPECT_EQ(process.pid(), first);
}

TEST_F(ReportProgramTest, EveryTableAndFormatIsMadeInsideTheSandbox) {
  const UniqueFd capture = OpenReadOnly(MakeCapture(1, 100));
  SpawnedProcess process({.program = Program()}, real_clock_);
  for (const report::ReportKind& kind : report::ReportKinds()) {
    v1::GetReportRequest request;
    request.set_report(std::string(kind.name));
    const auto answer = Ask(process, "GetReport", request.SerializeAsString(), capture.get());
    ASSERT_THAT(answer, IsOk()) << kind.name;
    v1::Report report;
    ASSERT_TRUE(report.ParseFromString(*answer));
    EXPECT_EQ(report.name(), kind.name);
  }
  for (const char format : {1, 2, 3}) {
    const std::string options = {0x10, format};  // ExportTraceRequest.format
    EXPECT_THAT(Ask(process, "ExportTrace", options, capture.get()), IsOk()) << int{format};
  }
  for (const char format : {0, 99}) {
    const std::string options = {0x10, format};
    EXPECT_THAT(Ask(process, "ExportTrace", options, capture.get()),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr("format")))
        << int{format};
  }
  EXPECT_THAT(Ask(process, "CheckImport", "", capture.get()), IsOk());
}

TEST_F(ReportProgramTest, HostileFilesAreRefusedAndTheProgramLives) {
  const std::filesystem::path path = MakeCapture(1, 2'000);
  SpawnedProcess process({.program = Program()}, real_clock_);
  ASSERT_THAT(process.EnsureStarted(IsWanted), IsOk());
  const pid_t pid = process.pid();
  std::mt19937 random(7);
  for (int i = 0; i < 10; ++i) {
    const std::filesystem::path copy = path.string() + ".bad";
    std::filesystem::copy_file(path, copy, std::filesystem::copy_options::overwrite_existing);
    std::fstream file(copy, std::ios::in | std::ios::out | std::ios::binary);
    const auto size = static_cast<unsigned>(std::filesystem::file_size(copy));
    for (int j = 0; j < 20; ++j) {
      file.seekp(random() % size);
      file.put(static_cast<char>(random()));
    }
    file.close();
    const UniqueFd capture = OpenReadOnly(copy);
    for (const char* table : {"GetReport", "CheckImport"}) {
      const absl::Status status = Ask(process, table, kMemory, capture.get()).status();
      EXPECT_NE(ReasonOf(status), kCrashed) << status;
    }
  }
  EXPECT_EQ(process.pid(), pid);
  const UniqueFd nothing = OpenReadOnly("/dev/null");
  EXPECT_THAT(Ask(process, "GetReport", kMemory, nothing.get()), StatusIs(StatusCode::kDataLoss));
}

TEST_F(ReportProgramTest, AReportThatNeedsTooMuchMemorySaysSo) {
  if (kSanitized) GTEST_SKIP() << "sanitizers map more than any limit on the address space";
  const UniqueFd capture = OpenReadOnly(MakeCapture(1, 300'000));
  SpawnedProcess process({.program = Program(), .max_memory_bytes = 6 << 20}, real_clock_);
  const absl::Status status = Ask(process, "GetReport", kMemory, capture.get()).status();
  EXPECT_THAT(status, StatusIs(StatusCode::kResourceExhausted, HasSubstr("6 MiB")));
  EXPECT_EQ(ReasonOf(status), kTooLarge);
  // The next request gets another program.
  const UniqueFd small = OpenReadOnly(MakeCapture(2, 10));
  EXPECT_THAT(Ask(process, "GetReport", kMemory, small.get()), IsOk());
}

TEST_F(ReportProgramTest, AProgramThatIsKilledEndsItsRequestOnly) {
  const UniqueFd capture = OpenReadOnly(MakeCapture(1, 10));
  SpawnedProcess process({.program = Program()}, real_clock_);
  ASSERT_THAT(process.EnsureStarted(IsWanted), IsOk());
  process.Pause();
  ASSERT_THAT(process.Send({.table = "GetReport", .options = kMemory, .capture = capture.get()}),
              IsOk());
  kill(process.pid(), SIGKILL);
  const absl::Status status = process.Receive(absl::InfiniteDuration()).status();
  EXPECT_THAT(status, StatusIs(StatusCode::kUnavailable));
  EXPECT_EQ(ReasonOf(status), kKilled);
  EXPECT_THAT(Ask(process, "GetReport", kMemory, capture.get()), IsOk());
  // So does one that died while it had nothing to do.
  kill(process.pid(), SIGKILL);
  waitid(P_PID, static_cast<id_t>(process.pid()), nullptr, WEXITED | WNOWAIT);
  EXPECT_THAT(Ask(process, "GetReport", kMemory, capture.get()), IsOk());
}

TEST_F(ReportProgramTest, ACancelEndsARequestEarly) {
  const UniqueFd capture = OpenReadOnly(MakeCapture(1, 10));
  SpawnedProcess process({.program = Program()}, real_clock_);
  ASSERT_THAT(process.EnsureStarted(IsWanted), IsOk());
  process.Pause();
  ASSERT_THAT(process.Send({.table = "GetReport", .options = kMemory, .capture = capture.get()}),
              IsOk());
  process.RequestCancel();
  process.Resume();
  auto frame = process.Receive(absl::InfiniteDuration());
  ASSERT_THAT(frame, IsOk());
  EXPECT_EQ((*frame)->kind, FrameKind::kEnd);
  EXPECT_THAT(DecodeStatus((*frame)->payload), StatusIs(StatusCode::kCancelled));
  EXPECT_THAT(Ask(process, "GetReport", kMemory, capture.get()), IsOk());
}

TEST_F(ReportProgramTest, HasNoRights) {
  SpawnedProcess process({.program = Program()}, real_clock_);
  ASSERT_THAT(process.EnsureStarted(IsWanted), IsOk());
  EXPECT_EQ(StatusLine(process.pid(), "NoNewPrivs"), "1");
  EXPECT_EQ(StatusLine(process.pid(), "CapEff"), "0000000000000000");
  EXPECT_EQ(StatusLine(process.pid(), "CapPrm"), "0000000000000000");
  if (kSanitized) GTEST_SKIP() << "sanitizer builds have no seccomp filter";
  EXPECT_EQ(StatusLine(process.pid(), "Seccomp"), "2");
}

TEST_F(ReportProgramTest, AStartThatNobodyWantsAnyMoreEndsAtOnceAndIsNoFailure) {
  const std::filesystem::path silent = folder_.path() / "silent";
  std::ofstream(silent) << "#!/bin/sh\nexec sleep 3600\n";
  std::filesystem::permissions(silent, std::filesystem::perms::owner_all);
  SpawnedProcess process({.program = silent}, real_clock_);
  for (int round = 0; round < 2; ++round) {  // The second one is not held back.
    int asked = 0;
    pid_t pid = -1;
    EXPECT_THAT(process.EnsureStarted([&] {
      if (process.pid() >= 0) pid = process.pid();
      return ++asked < 3 ? absl::OkStatus() : absl::CancelledError("stop");
    }),
                StatusIs(StatusCode::kCancelled, "stop"));
    EXPECT_GT(pid, 0);
    EXPECT_EQ(process.pid(), -1);
    EXPECT_EQ(kill(pid, 0), -1);
  }
}

TEST_F(ReportProgramTest, AMissingProgramIsNamedAndNotTriedAgainAtOnce) {
  SpawnedProcess process({.program = "/nonexistent/profd-report"}, real_clock_);
  EXPECT_THAT(process.EnsureStarted(IsWanted),
              StatusIs(StatusCode::kUnavailable, HasSubstr("/nonexistent/profd-report")));
  EXPECT_THAT(process.EnsureStarted(IsWanted), StatusIs(StatusCode::kUnavailable));
  SpawnedProcess other({.program = "/bin/true"}, real_clock_);
  EXPECT_THAT(other.EnsureStarted(IsWanted), StatusIs(StatusCode::kUnavailable));
}

}  // namespace
}  // namespace profd::worker
