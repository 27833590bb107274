// fetch, export, and reports over fetched files with no daemon.
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cstdlib>
#include <thread>

#include "cli/captures/capture_source.h"
#include "cli/captures/output_file.h"
#include "cli/captures/part_file.h"
#include "daemon/base/clock.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/unique_fd.h"
#include "daemon/report/findings/findings.h"
#include "daemon/report/memory/memory_report.h"
#include "daemon/report/time/time_report.h"
#include "proto/wire/event.h"
#include "tests/cli/cli_fixture.h"
#include "tests/fakes/status_matchers.h"

namespace profd::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

// A capture file as the daemon writes it; `record` gets its size and sha256. With a GPU, of a
// simulated one.
absl::Status WriteCapture(const std::filesystem::path& directory, CaptureRecord& record,
                          bool gpu = false) {
  store::CaptureFileWriter::Options options;
  options.directory = directory;
  ASSIGN_OR_RETURN(const auto writer,
                   store::CaptureFileWriter::Create(record, Clock::Real(), std::move(options)));
  store::StepPattern pattern(1);
  RETURN_IF_ERROR(store::IntroducePattern(pattern, 1, *writer));
  int64_t steps_at[3] = {0, 0, 0};
  for (int step = 0; step < 2; ++step) {
    RETURN_IF_ERROR(writer->Append(0, pattern.NextRanges()));
    RETURN_IF_ERROR(writer->Append(0, pattern.Memory()));
    steps_at[step + 1] = pattern.now_ns();
  }
  for (int64_t step = 0; step < 3; ++step) {
    const StepRow mark = {.time_ns = steps_at[step], .step = 7 + step};
    RETURN_IF_ERROR(writer->Append(0, mark));
  }
  if (gpu) {
    store::GpuPattern work(1);
    const std::vector<GpuRow>& rows = work.NextRows(1000);
    RETURN_IF_ERROR(writer->Append(rows));
    RETURN_IF_ERROR(writer->Append(0, work.ApiCalls()));
  }
  record = store::FinishedRecord(
      record, {.start_ns = 0, .end_ns = steps_at[2], .first_step = 7, .end_step = 9});
  if (gpu) record.gpu = {.outcome = GpuOutcome::kRecorded, .simulated = true};
  return writer->Finish(record, 0);
}

// The same of a rank that PyTorch Lightning trains: its step 8 is the global step 1008.
absl::Status WriteRank(const std::filesystem::path& directory, int rank) {
  CaptureRecord record = store::NewRecord(TestId(20 + rank));
  record.target.metadata["rank"] = StrCat(rank);
  store::CaptureFileWriter::Options options;
  options.directory = directory;
  ASSIGN_OR_RETURN(const auto writer,
                   store::CaptureFileWriter::Create(record, Clock::Real(), std::move(options)));
  store::StepPattern pattern(1);
  RETURN_IF_ERROR(store::IntroducePattern(pattern, 1, *writer));
  RETURN_IF_ERROR(writer->AddName(900, "global_step"));
  RETURN_IF_ERROR(writer->AddName(901, "step 8"));
  RETURN_IF_ERROR(writer->Append(0, pattern.NextRanges()));
  for (int64_t step = 0; step < 3; ++step) {
    const StepRow mark = {.time_ns = step * pattern.now_ns() / 2, .step = 7 + step};
    RETURN_IF_ERROR(writer->Append(0, mark));
  }
  const std::vector<NoteRow> notes = {{.time_ns = kNoNoteTime,
                                       .kind = static_cast<uint16_t>(wire::NoteKind::kStepLabel),
                                       .subject = 900,
                                       .text = 901,
                                       .value = 1008}};
  RETURN_IF_ERROR(writer->Append(0, notes));
  record = store::FinishedRecord(
      record, {.start_ns = 0, .end_ns = pattern.now_ns(), .first_step = 7, .end_step = 9});
  record.torch.note_count = 1;
  record.torch.step_source = StepSource::kOptimizer;
  return writer->Finish(record, 0);
}

class FilesTest : public CliTest {
 protected:
  // A report that is made here, of a copy.
  static std::vector<std::string> Page() { return {"report", "01J", "--html", "-"}; }

  FilesTest() {
    CaptureRecord record = store::NewRecord(TestId(1));
    const absl::Status written = WriteCapture(folder_.path(), record);
    EXPECT_TRUE(written.ok()) << written;
    whole_ = Path(TestId(1) + ".profd");
    profd_.file_bytes = ReadFile(whole_);
    profd_.file_sha256 = record.file_sha256;
    v1::Capture capture = ACapture(TestId(1));
    capture.set_file_bytes(record.file_bytes);
    capture.set_file_sha256(record.file_sha256);
    profd_.captures[TestId(1)] = capture;
  }
  std::string part() const { return Path("x.profd." + TestId(1) + ".part"); }
  // As a fetch that was cut off leaves it.
  void WritePart(std::string_view text) const {
    std::ofstream(part()) << text;
    EXPECT_EQ(chmod(part().c_str(), 0600), 0);
  }
  RunResult Fetch() const { return Run({"fetch", "01J", "-o", Path("x.profd")}); }
  // With no daemon in reach.
  RunResult Offline(const std::vector<std::string>& arguments) const {
    return RunProfctl(arguments, {{"PROFD_SOCKET_DIR", "/nonexistent"}});
  }
  nlohmann::json OfflineJson(std::vector<std::string> arguments) const {
    arguments.emplace_back("--json");
    const RunResult result = Offline(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return nlohmann::json::parse(result.out, nullptr, false);
  }

  std::string whole_;
};

// ---- fetch ----

TEST_F(FilesTest, FetchCopiesChecksAndPrintsThePath) {
  const RunResult result = Fetch();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, Path("x.profd") + "\n");
  EXPECT_EQ(ReadFile(Path("x.profd")), profd_.file_bytes);
  EXPECT_FALSE(std::filesystem::exists(part()));
  struct stat stat {};
  ASSERT_EQ(::stat(Path("x.profd").c_str(), &stat), 0);
  EXPECT_EQ(stat.st_mode & 0777, 0600U);
}

// A group of three; files of the first and the third can be written, that of the second cannot.
class FetchGroupTest : public FilesTest {
 protected:
  FetchGroupTest() {
    const v1::Capture one = profd_.captures[TestId(1)];
    for (int i = 1; i <= 3; ++i) {
      v1::Capture& member = profd_.captures[TestId(i)] = one;
      member.set_name(ACapture(TestId(i)).name());
      member.set_group(group_);
      member.mutable_target()->set_pid(4710 + i);
    }
    std::filesystem::create_directory(Path("x-4712.profd." + TestId(2) + ".part"));
  }
  const std::string group_ = "groups/" + TestId(7000);
};

TEST_F(FetchGroupTest, AMemberThatCannotBeFetchedIsARowAndTheOthersAreKept) {
  const nlohmann::json fetched = RunJson({"fetch", group_, "-o", Path("x.profd")}, 4);
  ASSERT_THAT(fetched["captures"], SizeIs(2));
  EXPECT_EQ(fetched["captures"][0]["path"], Path("x-4711.profd"));
  EXPECT_EQ(fetched["captures"][1]["path"], Path("x-4713.profd"));
  EXPECT_EQ(ReadFile(Path("x-4713.profd")), profd_.file_bytes);
  ASSERT_THAT(fetched["errors"], SizeIs(1));
  EXPECT_EQ(fetched["errors"][0]["id"], TestId(2));
  EXPECT_THAT(fetched["errors"][0]["message"].get<std::string>(), HasSubstr("x-4712.profd"));
  const RunResult result = Run({"fetch", group_, "-o", Path("x.profd")});
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_EQ(result.out, Path("x-4711.profd") + "\n" + Path("x-4713.profd") + "\n");
  EXPECT_THAT(result.err, HasSubstr("profctl: capture " + TestId(2) + ": "));
}

TEST_F(FetchGroupTest, AMemberWithoutEventsIsARow) {
  profd_.captures[TestId(3)].clear_file_bytes();
  const nlohmann::json fetched = RunJson({"fetch", group_, "-o", Path("x.profd")}, 4);
  EXPECT_THAT(fetched["captures"], SizeIs(1));
  ASSERT_THAT(fetched["errors"], SizeIs(2));
  EXPECT_THAT(fetched["errors"][1]["message"].get<std::string>(), HasSubstr("holds no events"));
}

TEST_F(FetchGroupTest, WithoutAnyFileTheCodeIsThatOfTheFirstFailure) {
  profd_.captures.erase(TestId(1));
  profd_.captures.erase(TestId(3));
  const nlohmann::json fetched = RunJson({"fetch", group_, "-o", Path("x.profd")}, 1);
  EXPECT_THAT(fetched["captures"], IsEmpty());
  EXPECT_THAT(fetched["errors"], SizeIs(1));
}

// ---- import ----

TEST_F(FilesTest, ATraceThatIsRefusedIsARowAndTheOthersAreImported) {
  std::ofstream(Path("a.json")) << R"({"traceEvents": [{"ph": "X", "name": "aten::mm",
      "cat": "cpu_op", "pid": 1, "tid": 1, "ts": 1, "dur": 2}]})";
  std::ofstream(Path("b.json")) << "{}";
  std::filesystem::copy(Path("a.json"), Path("c.json"));
  const nlohmann::json imported = RunJson(
      {"import", Path("a.json"), Path("b.json"), Path("c.json"), "--output-dir", Path("")}, 4);
  ASSERT_THAT(imported["captures"], SizeIs(2));
  EXPECT_EQ(imported["captures"][1]["source"], "c.json");
  ASSERT_THAT(imported["errors"], SizeIs(1));
  EXPECT_EQ(imported["errors"][0]["source"], Path("b.json"));
}

TEST_F(FilesTest, AFileWithoutAFolderIsOneOfTheCurrentFolder) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder_.path());  // profctl inherits it.
  const RunResult named = Run({"fetch", "01J", "-o", "x.profd"});
  std::filesystem::remove(whole_);
  const RunResult unnamed = Run({"fetch", "01J"});
  const RunResult exported = Offline({"export", "x.profd", "-o", "x.json"});
  std::filesystem::current_path(before);
  EXPECT_EQ(named.exit_code, 0) << named.err;
  EXPECT_EQ(named.out, "x.profd\n");
  EXPECT_EQ(ReadFile(Path("x.profd")), profd_.file_bytes);
  EXPECT_EQ(unnamed.exit_code, 0) << unnamed.err;
  EXPECT_EQ(unnamed.out, TestId(1) + ".profd\n");
  EXPECT_EQ(ReadFile(whole_), profd_.file_bytes);
  EXPECT_EQ(exported.exit_code, 0) << exported.err;
  EXPECT_EQ(exported.out, "x.json\n");
}

TEST_F(FilesTest, StepsOfRanksHaveTheirFrameworksNumbers) {
  std::vector<std::string> files;
  for (int rank = 0; rank < 2; ++rank) {
    const absl::Status written = WriteRank(folder_.path(), rank);
    ASSERT_TRUE(written.ok()) << written;
    files.push_back(Path(TestId(20 + rank) + ".profd"));
  }
  const RunResult text = Offline({"steps", files[0], files[1], "--group"});
  EXPECT_THAT(text.out, HasSubstr("7 (global step 1007)")) << text.err;
  const nlohmann::json json = OfflineJson({"steps", files[0], files[1], "--group"});
  EXPECT_EQ(json["steps"][1]["step"], 8);
  EXPECT_EQ(json["steps"][1]["global_step"], 1008);
}

TEST_F(FilesTest, AFileWhereNoneIsTakenIsToldWhereItIs) {
  EXPECT_THAT(Run({"fetch", whole_}).err, HasSubstr("is a file, and this takes the id"));
  EXPECT_THAT(Run({"ops", "trace.json.gz"}).err, HasSubstr("`profctl import` makes a capture"));
  const RunResult imported = Run({"import", whole_});
  EXPECT_EQ(imported.exit_code, 2);
  EXPECT_THAT(imported.err, HasSubstr("is a capture already"));
}

TEST_F(FilesTest, ACutDownloadGoesOnWhereItStopped) {
  profd_.break_download_after = 3000;
  const RunResult cut = Fetch();
  EXPECT_EQ(cut.exit_code, 6);
  EXPECT_THAT(cut.err, HasSubstr("run the same again"));
  EXPECT_TRUE(std::filesystem::exists(part()));
  EXPECT_EQ(Fetch().exit_code, 0);
  EXPECT_EQ(ReadFile(Path("x.profd")), profd_.file_bytes);
  EXPECT_THAT(profd_.download_offsets(), ElementsAre(0, 3000));
}

TEST_F(FilesTest, APartOfSomethingElseIsFetchedAnew) {
  WritePart(std::string(2000, '?'));
  EXPECT_EQ(Fetch().exit_code, 0);
  EXPECT_EQ(ReadFile(Path("x.profd")), profd_.file_bytes);
  EXPECT_THAT(profd_.download_offsets(), ElementsAre(2000, 0));
}

TEST_F(FilesTest, APartLongerThanTheFileIsFetchedAnew) {
  WritePart(std::string(profd_.file_bytes.size() + 1, '?'));
  EXPECT_EQ(Fetch().exit_code, 0);
  EXPECT_THAT(profd_.download_offsets(), ElementsAre(0));
}

TEST_F(FilesTest, WhatDoesNotHashAsStatedGetsNoName) {
  profd_.file_bytes[100] ^= 1;
  const RunResult result = Fetch();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("sha256"));
  EXPECT_FALSE(std::filesystem::exists(Path("x.profd")));
  EXPECT_FALSE(std::filesystem::exists(part()));
}

TEST_F(FilesTest, TwoAtOnceDoNotMix) {
  const UniqueFd other(open(part().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(flock(other.get(), LOCK_EX), 0);
  const RunResult result = Fetch();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("another profctl"));
}

// ---- reports on captures of daemons elsewhere ----

TEST_F(FilesTest, ReportsCopyACaptureOnce) {
  Environment kept = environment();
  kept["PROFD_CACHE_DIR"] = Path("cache");
  for (int i = 0; i < 3; ++i) {
    const RunResult result = RunProfctl(Page(), kept);
    EXPECT_EQ(result.exit_code, 0) << result.err;
  }
  EXPECT_THAT(profd_.download_offsets(), ElementsAre(0));
  // Neither a daemon on this machine nor one that wants none leaves a copy.
  EXPECT_EQ(Run(Page()).exit_code, 0);
  kept["PROFD_CACHE_DIR"] = "";
  EXPECT_EQ(RunProfctl(Page(), kept).exit_code, 0);
  EXPECT_THAT(profd_.download_offsets(), SizeIs(3));
}

TEST_F(FilesTest, FindingsTimeAndMemoryAreAnsweredByTheDaemon) {
  profd_.Set(report::ToReport(report::FindingsReport{.verdict = "The GPU waits for the program."}));
  profd_.Set(report::ToReport(
      report::TimeReport{.steps = {{.index = 7, .duration_ns = 400}, {.index = 8}}}));
  EXPECT_THAT(Run({"report", "01J"}).out, HasSubstr("The GPU waits for the program."));
  EXPECT_EQ(RunJson({"report", "01J"})["verdict"], "The GPU waits for the program.");
  EXPECT_THAT(Run({"time", "01J"}).out, HasSubstr("0.400us"));
  EXPECT_EQ(RunJson({"time", "01J"})["steps"][1]["index"], 8);
  EXPECT_THAT(Run({"time", "01J", "--csv"}).out, HasSubstr("index,duration_ns,"));
  report::MemoryReport memory;
  memory.devices.resize(1);
  memory.devices[0].memory.device = "cuda:0";
  memory.devices[0].memory.peak_bytes = 5 << 20;
  profd_.Set(report::ToReport(memory));
  EXPECT_THAT(Run({"memory", "01J"}).out, HasSubstr("5.00 MiB"));
  EXPECT_EQ(RunJson({"memory", "01J", "--max-points", "9"})["devices"][0]["device"], "cuda:0");
  EXPECT_EQ(profd_.report_calls().back().options().at("max_points"), "9");
  EXPECT_THAT(profd_.download_offsets(), IsEmpty());
  std::ofstream(Path("limits")) << "idle.host_wait_share = 0.5\n";
  EXPECT_EQ(Run({"report", "01J", "--thresholds", Path("limits")}).exit_code, 0);
  EXPECT_THAT(profd_.report_calls().back().options().at("thresholds"),
              "idle.host_wait_share = 0.5\n");
}

TEST_F(FilesTest, ALargeCaptureIsCopiedAndReportedOnHere) {
  profd_.captures[TestId(1)].set_file_bytes(kMostBytesForDaemon + 1);
  Run({"report", "01J"});
  EXPECT_THAT(profd_.download_offsets(), SizeIs(1));
  EXPECT_THAT(profd_.report_calls(), IsEmpty());
}

TEST_F(FilesTest, AReportGoesOnWhereItsCopyStopped) {
  Environment kept = environment();
  kept["PROFD_CACHE_DIR"] = Path("cache");
  profd_.break_download_after = 3000;
  EXPECT_EQ(RunProfctl(Page(), kept).exit_code, 6);
  EXPECT_EQ(RunProfctl(Page(), kept).exit_code, 0);
  EXPECT_THAT(profd_.download_offsets(), ElementsAre(0, 3000));
}

TEST_F(FilesTest, WhereNothingCanBeKeptReportsAreMadeAllTheSame) {
  std::ofstream(Path("file")) << "no folder";
  Environment kept = environment();
  kept["PROFD_CACHE_DIR"] = Path("file");
  EXPECT_EQ(RunProfctl(Page(), kept).exit_code, 0);
  // Another profctl copies it right now.
  kept["PROFD_CACHE_DIR"] = Path("cache");
  std::filesystem::create_directory(Path("cache"));
  ASSERT_EQ(chmod(Path("cache").c_str(), 0700), 0);
  const std::string part = StrCat(Path("cache"), "/", TestId(1), ".",
                                  profd_.file_sha256.substr(0, 16), ".profd.", TestId(1), ".part");
  const UniqueFd other(open(part.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(flock(other.get(), LOCK_EX), 0);
  EXPECT_EQ(RunProfctl(Page(), kept).exit_code, 0);
  EXPECT_THAT(profd_.download_offsets(), ElementsAre(0, 0));
}

TEST_F(FilesTest, ALinkInPlaceOfThePartIsNotFollowed) {
  std::ofstream(Path("victim")) << "precious";
  std::filesystem::create_symlink(Path("victim"), part());
  EXPECT_EQ(Fetch().exit_code, 1);
  EXPECT_EQ(ReadFile(Path("victim")), "precious");
}

TEST_F(FilesTest, ALinkOfTheUserStaysAndTheFileThatItLeadsToIsWritten) {
  std::filesystem::create_directory(Path("elsewhere"));
  std::filesystem::create_symlink("elsewhere/y.profd", Path("x.profd"));
  ASSERT_EQ(Fetch().exit_code, 0);
  EXPECT_TRUE(std::filesystem::is_symlink(Path("x.profd")));
  EXPECT_EQ(ReadFile(Path("elsewhere/y.profd")), profd_.file_bytes);
  std::ofstream(Path("a.json")) << R"({"traceEvents": [{"ph": "X", "name": "aten::mm",
      "cat": "cpu_op", "pid": 1, "tid": 1, "ts": 1, "dur": 2}]})";
  const RunResult imported = Run({"import", Path("a.json"), "-o", Path("x.profd")});
  EXPECT_EQ(imported.exit_code, 0) << imported.err;
  EXPECT_TRUE(std::filesystem::is_symlink(Path("x.profd")));
  EXPECT_NE(ReadFile(Path("elsewhere/y.profd")), profd_.file_bytes);
}

TEST_F(FilesTest, APartThatOthersMayReadOrHaveANameForIsNotUsed) {
  WritePart(profd_.file_bytes.substr(0, 100));
  ASSERT_EQ(chmod(part().c_str(), 0644), 0);
  EXPECT_THAT(Fetch().err, HasSubstr("is open to other users; remove it"));
  ASSERT_EQ(chmod(part().c_str(), 0600), 0);
  ASSERT_EQ(link(part().c_str(), Path("second").c_str()), 0);
  EXPECT_THAT(Fetch().err, HasSubstr("has a second name; remove it"));
  EXPECT_EQ(ReadFile(Path("second")), profd_.file_bytes.substr(0, 100));
  ASSERT_EQ(unlink(Path("second").c_str()), 0);
  EXPECT_EQ(Fetch().exit_code, 0);
}

TEST_F(FilesTest, APartOfAnotherUserIsNotUsed) {
  if (geteuid() != 0) GTEST_SKIP() << "SKIP: only root makes files of another user";
  WritePart("theirs");
  ASSERT_EQ(chown(part().c_str(), 4242, 4242), 0);
  const RunResult result = Fetch();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("belongs to another user; remove it"));
  EXPECT_EQ(ReadFile(part()), "theirs");
}

TEST_F(FilesTest, NoCommandWritesThroughALinkOfAnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "SKIP: only root makes files of another user";
  profd_.targets = {ATarget(4711)};
  profd_.ends_as = profd_.captures[TestId(1)];
  const std::string shared = Path("shared");
  std::filesystem::create_directory(shared);
  ASSERT_EQ(chmod(shared.c_str(), 01777), 0);
  std::ofstream(Path("victim")) << "precious";
  for (const std::string name : {"x.json", "x.csv", "x.html", "x.folded", "x.profd"}) {
    const std::string link = StrCat(shared, "/", name);
    std::filesystem::create_symlink(Path("victim"), link);
    ASSERT_EQ(lchown(link.c_str(), 4242, 4242), 0);
  }
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"export", whole_, "-o", shared + "/x.json"},
                                             {"export", whole_, "-o", shared + "/x.csv"},
                                             {"export", whole_, "-o", shared + "/x.html"},
                                             {"export", whole_, "-o", shared + "/x.folded"},
                                             {"report", whole_, "--html", shared + "/x.html"},
                                             {"trace", "--steps", "5", "-o", shared + "/x.json"},
                                             {"fetch", "01J", "-o", shared + "/x.profd"}}) {
    const RunResult result = Run(command);
    EXPECT_EQ(result.exit_code, 1) << command[0] << command.back();
    EXPECT_THAT(result.err, HasSubstr("is a link of uid 4242")) << command[0] << command.back();
  }
  EXPECT_EQ(ReadFile(Path("victim")), "precious");
  EXPECT_THAT(profd_.creates(), testing::IsEmpty());  // Refused before the capture.
}

TEST_F(FilesTest, ThereIsNothingToFetchOfACaptureWithoutAFile) {
  profd_.captures[TestId(1)].set_deleted(true);
  const RunResult result = Fetch();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("its events were deleted"));
  EXPECT_EQ(Run({"fetch", "01J", "-o", Path("x.json")}).exit_code, 2);
}

TEST_F(FilesTest, TraceFetchesTheCaptureItself) {
  profd_.targets = {ATarget(4711)};
  profd_.ends_as = profd_.captures[TestId(1)];
  const RunResult result = Run({"trace", "-o", Path("t.profd")});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(ReadFile(Path("t.profd")), profd_.file_bytes);
}

// ---- offline ----

TEST_F(FilesTest, EveryReportTakesAFileInPlaceOfAnId) {
  EXPECT_EQ(OfflineJson({"show", whole_})["id"], TestId(1));
  EXPECT_EQ(OfflineJson({"show", whole_})["steps"].size(), 2);
  EXPECT_EQ(OfflineJson({"steps", whole_})["steps"][1]["index"], 8);
  EXPECT_GT(OfflineJson({"ops", whole_})["rows"].size(), 100);
  EXPECT_EQ(OfflineJson({"ops", whole_, "--limit", "3"})["rows"].size(), 3);
  EXPECT_EQ(OfflineJson({"memory", whole_})["devices"].size(), 1);
  EXPECT_EQ(Offline({"ops", whole_, "--step", "99"}).exit_code, 2);
  for (const std::string report : {"show", "ops", "steps", "memory", "kernels", "copies", "syncs",
                                   "idle", "time", "compile", "report"}) {
    EXPECT_THAT(Offline({report, whole_}).out, HasSubstr("Quality A"));
  }
}

TEST_F(FilesTest, MemoryWithAllSamplesIsMadeHereOfACaptureInADaemon) {
  nlohmann::json file = OfflineJson({"memory", whole_});
  const nlohmann::json daemon = RunJson({"memory", "01J"});
  EXPECT_EQ(daemon["devices"], file["devices"]);
  EXPECT_FALSE(file["devices"][0]["samples"].empty());
  EXPECT_EQ(profd_.download_offsets().size(), 1U);
  EXPECT_LE(OfflineJson({"memory", whole_, "--max-points", "4"})["devices"][0]["samples"].size(),
            4U);
  EXPECT_EQ(Offline({"memory", whole_, "--max-points", "3"}).exit_code, 2);
}

TEST_F(FilesTest, MemoryAsCsvOfOneDevice) {
  const std::string device = OfflineJson({"memory", whole_})["devices"][0]["device"];
  const RunResult csv = Offline({"memory", whole_, "--csv", "--device", device});
  EXPECT_EQ(csv.exit_code, 0) << csv.err;
  EXPECT_THAT(csv.out, ::testing::StartsWith("device,time_ns,"));
  EXPECT_THAT(csv.out, HasSubstr("\n" + device + ","));
  EXPECT_EQ(Offline({"memory", whole_, "--csv", "--json"}).exit_code, 2);
  const RunResult other = Offline({"memory", whole_, "--device", "cuda:7"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.err, HasSubstr("there is that of " + device));
}

TEST_F(FilesTest, ReportsOnASimulatedGpuSaySo) {
  CaptureRecord record = store::NewRecord(TestId(2));
  ASSERT_TRUE(WriteCapture(folder_.path(), record, /*gpu=*/true).ok());
  const std::string file = Path(TestId(2) + ".profd");
  for (const std::string report : {"show", "ops", "steps", "memory", "kernels", "copies", "syncs",
                                   "idle", "time", "compile", "report"}) {
    EXPECT_THAT(Offline({report, file}).out, HasSubstr("simulated")) << report;
  }
  for (const std::string report : {"ops", "steps", "memory", "kernels", "copies", "syncs", "idle",
                                   "time", "compile", "report"}) {
    EXPECT_EQ(OfflineJson({report, file})["simulated"], true) << report;
    EXPECT_EQ(OfflineJson({report, whole_})["simulated"], false) << report;
  }
  const nlohmann::json kernels = OfflineJson({"kernels", file});
  const nlohmann::json copies = OfflineJson({"copies", file});
  int64_t ran = kernels["kernel_count"].get<int64_t>();
  for (const nlohmann::json& row : copies["rows"]) ran += row["count"].get<int64_t>();
  EXPECT_EQ(ran, 1000);
  EXPECT_GT(kernels["busy_ns"], 0);
  EXPECT_EQ(OfflineJson({"ops", file})["self_device_total_ns"].get<int64_t>(),
            kernels["total_ns"].get<int64_t>() + copies["total_ns"].get<int64_t>());
}

TEST_F(FilesTest, AReportHasAVerdictFindingsAndWhatWasSkipped) {
  CaptureRecord record = store::NewRecord(TestId(2));
  ASSERT_TRUE(WriteCapture(folder_.path(), record, /*gpu=*/true).ok());
  const nlohmann::json report = OfflineJson({"report", Path(TestId(2) + ".profd")});
  EXPECT_FALSE(report["verdict"].get<std::string>().empty());
  EXPECT_EQ(report["grade"], report["quality"]);
  for (const nlohmann::json& finding : report["findings"]) {
    for (const char* key : {"rule", "severity", "value", "threshold", "saving_ns_per_step"}) {
      EXPECT_TRUE(finding.contains(key)) << key;
    }
    EXPECT_TRUE(finding["evidence"].is_array());
  }
  ASSERT_GT(report["skipped"].size(), 0);
  EXPECT_FALSE(report["skipped"][0]["rule"].get<std::string>().empty());
  EXPECT_FALSE(report["skipped"][0]["needs"].get<std::string>().empty());
}

TEST_F(FilesTest, ThresholdsOfAReportComeFromAFile) {
  const RunResult printed = Offline({"report", "--print-thresholds"});
  EXPECT_EQ(printed.exit_code, 0) << printed.err;
  EXPECT_THAT(printed.out, HasSubstr("gpu.busy_share = 50%"));
  std::ofstream(Path("limits")) << printed.out << "disable = QUALITY_LOSS\n";
  const nlohmann::json report = OfflineJson({"report", whole_, "--thresholds", Path("limits")});
  bool disabled = false;
  for (const nlohmann::json& rule : report["skipped"]) {
    disabled |= rule["rule"] == "QUALITY_LOSS" &&
                rule["needs"].get<std::string>().find("disable") != std::string::npos;
  }
  EXPECT_TRUE(disabled);
}

TEST_F(FilesTest, ThresholdsThatAreNoneAreAUsageError) {
  std::ofstream(Path("limits")) << "gpu.bussy = 1\n";
  const RunResult unknown = Offline({"report", whole_, "--thresholds", Path("limits")});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("line 1: there is no threshold 'gpu.bussy'; is "
                                     "'gpu.busy_share' meant?"));
  EXPECT_EQ(Offline({"report", whole_, "--thresholds", Path("nowhere")}).exit_code, 2);
  EXPECT_EQ(Offline({"report", whole_, "--thresholds", folder_.path()}).exit_code, 2);
  EXPECT_EQ(Offline({"report"}).exit_code, 2);
}

TEST_F(FilesTest, ExportTakesAFileToo) {
  for (const std::string name : {"a.json", "a.json.gz", "a.pftrace", "a.html"}) {
    const RunResult result = Offline({"export", whole_, "-o", Path(name)});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.out, Path(name) + "\n");
  }
  const auto trace = nlohmann::json::parse(ReadFile(Path("a.json")), nullptr, false);
  EXPECT_GT(trace["traceEvents"].size(), 1000);
  EXPECT_EQ(ReadFile(Path("a.json.gz")).substr(0, 2), "\x1f\x8b");
  const std::string page = ReadFile(Path("a.html"));
  EXPECT_THAT(page, StartsWith("<!doctype html>"));
  EXPECT_THAT(page, EndsWith("</html>\n"));
}

TEST_F(FilesTest, AReportIsAPageWithTheThresholdsOfTheCaller) {
  std::ofstream(Path("limits")) << "disable = STEP_OUTLIER\n";
  const RunResult result =
      Offline({"report", whole_, "--html", Path("r.html"), "--thresholds", Path("limits")});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, Path("r.html") + "\n");
  EXPECT_THAT(ReadFile(Path("r.html")), StartsWith("<!doctype html>"));
  EXPECT_THAT(Offline({"report", whole_, "--html", "-"}).out, StartsWith("<!doctype html>"));
  EXPECT_EQ(Offline({"report", whole_, "--html", Path("r.html"), "--json"}).exit_code, 2);
  EXPECT_EQ(Offline({"report", whole_, "--html", "/nonexistent/r.html"}).exit_code, 2);
}

TEST_F(FilesTest, AReportIsOfOneCapture) {
  CaptureRecord other = store::NewRecord(TestId(2));
  other.target.pid += 1;  // Of another rank.
  ASSERT_TRUE(WriteCapture(folder_.path(), other).ok());
  const RunResult result =
      Offline({"export", whole_, Path(TestId(2) + ".profd"), "-o", Path("a.html")});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("html is of one capture"));
  EXPECT_FALSE(std::filesystem::exists(Path("a.html")));
}

TEST_F(FilesTest, EveryExportPassesTheCheck) {
  CaptureRecord record = store::NewRecord(TestId(2));
  ASSERT_TRUE(WriteCapture(folder_.path(), record, /*gpu=*/true).ok());
  for (const std::string& capture : {whole_, Path(TestId(2) + ".profd")}) {
    for (const std::string name : {"a.pt.trace.json", "a.json.gz", "a.pftrace"}) {
      ASSERT_EQ(Offline({"export", capture, "-o", Path(name)}).exit_code, 0);
      const RunResult checked = Offline({"check", Path(name)});
      EXPECT_EQ(checked.exit_code, 0) << checked.out;
    }
  }
}

// By a limit on the size of files, which fails as a full disk does in the middle of a file.
TEST_F(FilesTest, AFullDiskLeavesTheOldFileAndNoOther) {
  const auto full = [&](const std::string& name) {
    const std::string command =
        StrCat("ulimit -f 8; exec ", getenv("PROFD_BUILD_DIR"), "/bin/profctl export ", whole_,
               " -o ", Path(name), " 2>", Path("err"));
    const int status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  };
  std::ofstream(Path("old.json")) << "old";
  for (const std::string name : {"old.json", "new.json", "new.json.gz", "new.pftrace"}) {
    EXPECT_EQ(full(name), 1) << name;
    EXPECT_THAT(ReadFile(Path("err")), HasSubstr("ulimit")) << name;
  }
  EXPECT_EQ(ReadFile(Path("old.json")), "old");
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    EXPECT_THAT(entry.path().filename().string(), testing::Not(HasSubstr("new"))) << entry.path();
    EXPECT_THAT(entry.path().filename().string(), testing::Not(HasSubstr("tmp"))) << entry.path();
  }
  const RunResult device = Offline({"export", whole_, "--format", "chrome", "-o", "/dev/full"});
  EXPECT_EQ(device.exit_code, 1);
  EXPECT_THAT(device.err, HasSubstr("make room there"));
}

TEST_F(FilesTest, AClosedPipeEndsAnExport) {
  const auto export_to = [&](const std::string& before, const std::string& reader) {
    const std::string command =
        StrCat(before, getenv("PROFD_BUILD_DIR"), "/bin/profctl export ", whole_,
               " --format chrome -o - 2>", Path("err"), " | ", reader, " >", Path("out"));
    EXPECT_EQ(std::system(command.c_str()), 0);
  };
  export_to("", "head -c 10");
  EXPECT_EQ(ReadFile(Path("out")).size(), 10);
  EXPECT_EQ(ReadFile(Path("err")), "");
  // Where whoever started it ignores the signal, the error is told.
  export_to("trap '' PIPE; ", "head -c 10");
  EXPECT_THAT(ReadFile(Path("err")), HasSubstr("cannot write to stdout: Broken pipe"));
}

// Reads nothing of what comes through `read_end`, and returns once it is full.
void FillPipe(int read_end) {
  int waiting = 0;
  while (waiting < 4096) {
    ASSERT_EQ(ioctl(read_end, FIONREAD, &waiting), 0);
    std::this_thread::yield();
  }
}

TEST_F(FilesTest, AReaderThatStopsDoesNotKeepAnExportFromItsEnd) {
  const std::string fifo = Path("x.json");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const UniqueFd reader(open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  ASSERT_EQ(fcntl(reader.get(), F_SETPIPE_SZ, 4096), 4096);
  ProfctlProcess process({"export", whole_, "-o", fifo}, {{"PROFD_SOCKET_DIR", "/nonexistent"}});
  FillPipe(reader.get());
  process.Signal(SIGTERM);
  EXPECT_EQ(process.Wait().exit_code, 130);
}

TEST_F(FilesTest, AReaderThatClosesItsFifoIsNoInterruption) {
  const std::string fifo = Path("x.json");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  UniqueFd reader(open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  ASSERT_EQ(fcntl(reader.get(), F_SETPIPE_SZ, 4096), 4096);
  ProfctlProcess process({"export", whole_, "-o", fifo}, {{"PROFD_SOCKET_DIR", "/nonexistent"}});
  FillPipe(reader.get());
  reader.Reset();
  const RunResult result = process.Wait();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("Broken pipe (its reader has closed it)"));
}

TEST_F(FilesTest, AFifoThatNobodyReadsIsAnError) {
  const std::string fifo = Path("x.json");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const RunResult result = Offline({"export", whole_, "-o", fifo});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("no process reads the FIFO"));
  const RunResult check = Offline({"check", fifo});
  EXPECT_EQ(check.exit_code, 1);
  EXPECT_THAT(check.err, HasSubstr("is a pipe or a device"));
}

TEST_F(FilesTest, AFileMovesToAnotherFileSystem) {
  struct stat here {};
  struct stat there {};
  const std::string target = StrCat("/dev/shm/profd_files_test.", getpid());
  if (stat(folder_.path().c_str(), &here) != 0 || stat("/dev/shm", &there) != 0 ||
      here.st_dev == there.st_dev) {
    GTEST_SKIP() << "there is no other file system";
  }
  for (const std::string content : {"first", "second"}) {
    std::ofstream(Path("from")) << content;
    EXPECT_TRUE(MoveToFile(Path("from"), target).ok());
    EXPECT_EQ(ReadFile(target), content);
    EXPECT_FALSE(std::filesystem::exists(Path("from"))) << "it was moved";
  }
  std::filesystem::remove(target);
}

TEST_F(FilesTest, StdoutIsAFileLikeAnyOther) {
  const RunResult result = Offline({"export", whole_, "--format", "chrome", "-o", "-"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_TRUE(nlohmann::json::accept(result.out));
  EXPECT_EQ(Offline({"export", whole_, "-o", "-"}).exit_code, 2);
  EXPECT_EQ(Offline({"export", whole_, "-o", "-", "--format", "chrome", "--json"}).exit_code, 2);
}

TEST_F(FilesTest, ExportSaysWhatItMade) {
  const auto made = RunJson({"export", "01J", "--format", "chrome", "-o", Path("t.gz")});
  EXPECT_EQ(made["format"], "chrome-gz");
  EXPECT_EQ(made["path"], Path("t.gz"));
  EXPECT_EQ(made["bytes"], profd_.trace_bytes.size());
  ASSERT_THAT(profd_.exports(), SizeIs(1));
  EXPECT_EQ(profd_.exports()[0].format(), v1::ExportTraceRequest::CHROME_GZ);
  EXPECT_EQ(Run({"export", "01J"}).exit_code, 2);
  EXPECT_EQ(Run({"export", "01J", "-o", Path("t.txt")}).exit_code, 2);
  EXPECT_EQ(Run({"export", "01J", "-o", Path("t.profd")}).exit_code, 2);
}

TEST_F(FilesTest, WhatIsNoCaptureFailsAndSaysSo) {
  std::ofstream(Path("text.profd")) << "not a capture";
  std::ofstream(Path("empty.profd")) << "";
  std::string damaged = profd_.file_bytes;
  damaged.resize(damaged.size() / 2);
  std::ofstream(Path("cut.profd")) << damaged;
  for (const std::string& file : {Path("text.profd"), Path("empty.profd"), Path("cut.profd"),
                                  Path("none.profd"), folder_.path().string()}) {
    for (const std::string report : {"show", "ops", "steps", "memory", "kernels", "copies", "syncs",
                                     "idle", "time", "compile", "report"}) {
      const RunResult result = Offline({report, file, "--json"});
      EXPECT_EQ(result.exit_code, 1) << report << " " << file;
      EXPECT_EQ(result.out, "");
      EXPECT_THAT(result.err, HasSubstr("profctl: "));
    }
  }
}

TEST_F(FilesTest, AnOldFileStaysUntilTheNewOneIsWhole) {
  std::ofstream(Path("old.json")) << "old";
  std::ofstream(Path("cut.profd")) << profd_.file_bytes.substr(0, 5000);
  EXPECT_EQ(Offline({"export", Path("cut.profd"), "-o", Path("old.json")}).exit_code, 1);
  EXPECT_EQ(ReadFile(Path("old.json")), "old");
}

// Between the opening of a part and its lock, another profctl may publish it. Then it is a finished
// file.
TEST_F(FilesTest, APublishedFileIsNotTakenForAPart) {
  constexpr int kFiles = 100;
  constexpr size_t kBytes = 1000;
  const auto publish = [this](char letter) {
    for (int i = 0; i < kFiles;) {
      const auto part = PartFile::Open(Path("x.part"));
      if (!part.ok()) {
        EXPECT_THAT(part, StatusIs(absl::StatusCode::kFailedPrecondition));
        continue;  // The other one writes it.
      }
      EXPECT_EQ((*part)->size(), 0);
      EXPECT_THAT((*part)->Append(std::string(kBytes, letter)), IsOk());
      EXPECT_THAT((*part)->Finish(), IsOk());
      EXPECT_THAT((*part)->Publish(Path(StrCat(std::string(1, letter), i))), IsOk());
      ++i;
    }
  };
  std::jthread other([&] { publish('b'); });
  publish('a');
  other.join();
  for (const char letter : {'a', 'b'}) {
    for (int i = 0; i < kFiles; ++i) {
      EXPECT_EQ(ReadFile(Path(StrCat(std::string(1, letter), i))), std::string(kBytes, letter));
    }
  }
}

}  // namespace
}  // namespace profd::cli
