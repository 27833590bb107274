// Whatever moment the daemon ended at, the next start leaves every capture whole, PARTIAL or
// FAILED, and nothing that was stored before is lost.
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "absl/synchronization/notification.h"
#include "daemon/base/reason.h"
#include "daemon/store/capture_recovery.h"
#include "daemon/store/file/files.h"
#include "daemon/store/file/reader.h"
#include "daemon/store/file/schema.h"
#include "tests/store/store_fixture.h"

namespace profd::store {
namespace {

using absl::StatusCode;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

class StoreRecoveryTest : public StoreFixture {
 protected:
  // A capture that runs, with two steps in its file but not finished; the daemon is stopped.
  CaptureRecord LeaveUnfinished(int number, bool in_catalog = true) {
    CaptureRecord record = NewRecord(IdOf(number));
    record.state = CaptureState::kRecording;
    if (in_catalog) {
      EXPECT_THAT(store_->InsertCapture(record), IsOk());
    }
    auto sink = store_->CreateFile(record);
    EXPECT_THAT(sink, IsOk());
    EXPECT_THAT(AppendTwoSteps(**sink), IsOk());
    return record;
  }
  void Overwrite(const std::filesystem::path& path, std::streamoff at, std::string_view bytes) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(at);
    file << bytes;
  }
};

TEST_F(StoreRecoveryTest, ARunningCaptureWithEventsBecomesPartial) {
  const CaptureRecord begun = LeaveUnfinished(1);
  EXPECT_TRUE(Exists(begun.id, ".part"));
  clock_.Advance(absl::Hours(1));
  Reopen();

  const CaptureRecord found = Get(begun.id);
  EXPECT_EQ(found.state, CaptureState::kPartial);
  EXPECT_EQ(found.ended_by, EndedBy::kDaemonStop);
  EXPECT_EQ(found.event_count, 5);
  EXPECT_EQ(found.covered_steps, 2);
  EXPECT_EQ(found.covered_ns, 2'000);
  EXPECT_EQ(found.step_during_ns, 1'000);
  EXPECT_EQ(found.end_time, clock_.Now());
  EXPECT_GT(found.start_unix_ns, 0);
  ASSERT_THAT(found.windows, SizeIs(1));
  EXPECT_EQ(found.windows[0].first_step, 10);
  EXPECT_EQ(found.windows[0].end_step, 12);
  EXPECT_FALSE(Exists(begun.id, ".part"));

  auto reader = store_->OpenReader(begun.id);
  ASSERT_THAT(reader, IsOk());
  ASSERT_THAT((*reader)->steps(), SizeIs(2));
  EXPECT_EQ((*reader)->steps()[1].index, 11);
  EXPECT_EQ((*reader)->record().state, CaptureState::kPartial);
  EXPECT_THAT(store_->GetSummaries(begun.id)->steps, SizeIs(1));
}

TEST_F(StoreRecoveryTest, ARunningCaptureWithoutEventsFails) {
  CaptureRecord record = NewRecord(IdOf(1));
  record.state = CaptureState::kArming;
  ASSERT_THAT(store_->InsertCapture(record), IsOk());
  { ASSERT_THAT(store_->CreateFile(record), IsOk()); }
  CaptureRecord without_file = NewRecord(IdOf(2));
  ASSERT_THAT(store_->InsertCapture(without_file), IsOk());
  Reopen();
  for (const std::string& id : {record.id, without_file.id}) {
    const CaptureRecord found = Get(id);
    EXPECT_EQ(found.state, CaptureState::kFailed);
    EXPECT_EQ(found.ended_by, EndedBy::kDaemonStop);
    EXPECT_EQ(found.error_reason, "DAEMON_STOPPED");
    EXPECT_NE(found.error_message, "");
  }
  EXPECT_FALSE(Exists(record.id, ".part"));
}

TEST_F(StoreRecoveryTest, AFinishedFileSpeaksForARecordThatWasNotUpdated) {
  CaptureRecord begun = NewRecord(IdOf(1));
  begun.state = CaptureState::kStoring;
  ASSERT_THAT(store_->InsertCapture(begun), IsOk());
  auto sink = store_->CreateFile(begun);
  ASSERT_THAT(sink, IsOk());
  ASSERT_THAT(AppendTwoSteps(**sink), IsOk());
  CaptureRecord record = FinishedRecord(begun, TwoSteps());
  ASSERT_THAT((*sink)->Finish(record, 0), IsOk());
  sink->reset();
  Reopen();
  const CaptureRecord found = Get(begun.id);
  EXPECT_EQ(found.state, CaptureState::kComplete);
  EXPECT_EQ(found.file_sha256, record.file_sha256);
  EXPECT_EQ(found.file_bytes, record.file_bytes);
}

TEST_F(StoreRecoveryTest, AFileThatWasSealedButNotRenamedIsPublished) {
  const CaptureRecord stored = StoreCapture(1);
  CaptureRecord storing = stored;
  storing.state = CaptureState::kStoring;
  ASSERT_THAT(store_->UpdateCapture(storing), IsOk());
  store_.reset();
  std::filesystem::rename(File(stored.id, ".profd"), File(stored.id, ".part"));
  Reopen();
  const CaptureRecord found = Get(stored.id);
  EXPECT_EQ(found.state, CaptureState::kComplete);
  EXPECT_EQ(found.file_sha256, stored.file_sha256);
  EXPECT_THAT(store_->OpenReader(stored.id), IsOk());
}

TEST_F(StoreRecoveryTest, FilesWithoutARowGetOne) {
  const CaptureRecord begun = LeaveUnfinished(1, /*in_catalog=*/false);
  Reopen();
  const CaptureRecord found = Get(begun.id);
  EXPECT_EQ(found.state, CaptureState::kPartial);
  EXPECT_EQ(found.target.pid, 4711);
  EXPECT_THAT(store_->OpenReader(begun.id), IsOk());
}

TEST_F(StoreRecoveryTest, ALostCatalogIsSaid) {
  testing::internal::CaptureStderr();
  Reopen();
  EXPECT_THAT(testing::internal::GetCapturedStderr(), Not(HasSubstr("catalog.db is not in")));
  StoreCapture(1);
  store_.reset();
  for (const char* const suffix : {"", "-wal", "-shm"}) {
    std::filesystem::remove(folder_ / "data" / StrCat("catalog.db", suffix));
  }
  testing::internal::CaptureStderr();
  Reopen();
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("catalog.db is not in"));
  EXPECT_EQ(Get(IdOf(1)).state, CaptureState::kComplete);
}

TEST_F(StoreRecoveryTest, FilesOfDeletedCapturesGo) {
  const CaptureRecord stored = StoreCapture(1);
  const auto copy = folder_ / "copy";
  std::filesystem::copy_file(File(stored.id, ".profd"), copy);
  ASSERT_THAT(store_->DeleteCapture(stored.id), IsOk());
  std::filesystem::copy_file(copy, File(stored.id, ".profd"));
  std::filesystem::copy_file(copy, File(stored.id, ".part"));
  Reopen();
  EXPECT_FALSE(Exists(stored.id, ".profd"));
  EXPECT_FALSE(Exists(stored.id, ".part"));
  EXPECT_TRUE(Get(stored.id).deleted);
}

TEST_F(StoreRecoveryTest, ARowWhoseFileIsGoneSaysSo) {
  const CaptureRecord stored = StoreCapture(1);
  std::filesystem::remove(File(stored.id, ".profd"));
  Reopen();
  EXPECT_FALSE(Get(stored.id).deleted);
  EXPECT_EQ(Get(stored.id).error_reason, "FILE_MISSING");
  const absl::Status status = store_->OpenReader(stored.id).status();
  EXPECT_THAT(status, StatusIs(StatusCode::kDataLoss, HasSubstr("its file was missing")));
  EXPECT_EQ(ReasonOf(status), "FILE_MISSING");
  EXPECT_EQ(store_->Usage()->capture_count, 0);
  EXPECT_EQ(store_->Usage()->evicted_capture_count, 0);
}

// As when their file system is mounted after profd has started.
TEST_F(StoreRecoveryTest, FilesThatComeBackAreTakenBack) {
  const CaptureRecord stored = StoreCapture(1);
  store_.reset();
  std::filesystem::rename(folder_ / "data/captures", folder_ / "unmounted");
  Reopen();
  EXPECT_EQ(Get(stored.id).file_bytes, 0);
  store_.reset();
  std::filesystem::remove(folder_ / "data/captures");
  std::filesystem::rename(folder_ / "unmounted", folder_ / "data/captures");
  Reopen();
  const CaptureRecord found = Get(stored.id);
  EXPECT_EQ(found.state, CaptureState::kComplete);
  EXPECT_EQ(found.error_reason, "");
  EXPECT_EQ(found.file_sha256, stored.file_sha256);
  EXPECT_THAT(store_->OpenReader(stored.id), IsOk());
}

TEST_F(StoreRecoveryTest, LeftoversAreRemovedAndStrangersLeftAlone) {
  store_.reset();
  std::ofstream(File(IdOf(1), ".reserve")) << "x";
  std::ofstream(File(IdOf(2), ".part-journal")) << "x";
  std::ofstream(File("notes", ".txt")) << "x";
  Reopen();
  EXPECT_FALSE(Exists(IdOf(1), ".reserve"));
  EXPECT_FALSE(Exists(IdOf(2), ".part-journal"));
  EXPECT_TRUE(Exists("notes", ".txt"));
}

TEST_F(StoreRecoveryTest, AnUnreadablePartIsSetAsideAndItsCaptureFails) {
  const CaptureRecord begun = LeaveUnfinished(1);
  const CaptureRecord earlier = StoreCapture(2);
  store_.reset();
  std::ofstream(File(begun.id, ".part"), std::ios::trunc) << std::string(50'000, 'x');
  Reopen();
  const CaptureRecord found = Get(begun.id);
  EXPECT_EQ(found.state, CaptureState::kFailed);
  EXPECT_THAT(found.error_message, HasSubstr(".damaged"));
  EXPECT_TRUE(Exists(begun.id, ".damaged"));
  EXPECT_THAT(store_->OpenReader(earlier.id), IsOk());
  Reopen();  // It is not looked at again.
}

TEST_F(StoreRecoveryTest, AnUnreadablePartThatCannotBeRenamedIsNamedWhereItIs) {
  const CaptureRecord begun = LeaveUnfinished(1);
  store_.reset();
  std::ofstream(File(begun.id, ".part"), std::ios::trunc) << std::string(50'000, 'x');
  std::filesystem::create_directory(File(begun.id, ".damaged"));
  Reopen();
  const CaptureRecord found = Get(begun.id);
  EXPECT_EQ(found.state, CaptureState::kFailed);
  EXPECT_THAT(found.error_message, HasSubstr(StrCat("kept as ", File(begun.id, ".part").string())));
  EXPECT_TRUE(Exists(begun.id, ".part"));
}

TEST_F(StoreRecoveryTest, AFileWithoutARowIsNoCapture) {
  const CaptureRecord armed = NewRecord(IdOf(1));
  ASSERT_THAT(store_->InsertCapture(armed), IsOk());
  { ASSERT_THAT(store_->CreateFile(armed), IsOk()); }
  // As if the daemon had died before it wrote the catalog.
  const CaptureRecord unknown = NewRecord(IdOf(2));
  { ASSERT_THAT(store_->CreateFile(unknown), IsOk()); }
  EXPECT_EQ(FileBytes(File(armed.id, ".part")).value_or(-1), 0);
  EXPECT_EQ(FileBytes(File(unknown.id, ".part")).value_or(-1), 0);
  Reopen();
  const CaptureRecord found = Get(armed.id);
  EXPECT_EQ(found.state, CaptureState::kFailed);
  EXPECT_EQ(found.error_reason, "DAEMON_STOPPED");
  EXPECT_THAT(found.error_message, HasSubstr("before any event was kept"));
  EXPECT_THAT(store_->GetCapture(unknown.id), StatusIs(StatusCode::kNotFound));
  for (const std::string& id : {armed.id, unknown.id}) {
    EXPECT_FALSE(Exists(id, ".part"));
    EXPECT_FALSE(Exists(id, ".damaged"));
    EXPECT_FALSE(Exists(id, ".attempts"));
  }
}

TEST_F(StoreRecoveryTest, AFileWithoutARecordIsNoCapture) {
  // As if the daemon had been killed while it wrote the empty tables, and before it committed the
  // record after them.
  store_.reset();
  const std::filesystem::path tables = File(IdOf(9), ".part");
  ASSERT_THAT(ReserveCaptureDatabase(tables), IsOk());
  ASSERT_THAT(MakeCaptureDatabase(tables), IsOk());
  std::ostringstream all;
  all << std::ifstream(tables).rdbuf();
  std::filesystem::remove(tables);
  ASSERT_GT(all.str().size(), 3 * 4096u);
  const size_t sizes[] = {1, 4096, 2 * 4096 + 1, all.str().size() - 1, all.str().size()};
  Reopen();
  int number = 0;
  for ([[maybe_unused]] const size_t size : sizes) {
    ASSERT_THAT(store_->InsertCapture(NewRecord(IdOf(++number))), IsOk());
  }
  store_.reset();
  number = 0;
  for (const size_t size : sizes) {
    const std::string id = IdOf(++number);
    std::ofstream(File(id, ".part")) << all.str().substr(0, size);
    std::ofstream(File(id, ".part-journal")) << "";
    EXPECT_FALSE(MayHoldEvents(File(id, ".part"))) << size;
  }
  Reopen();
  number = 0;
  for (const size_t size : sizes) {
    const std::string id = IdOf(++number);
    const CaptureRecord found = Get(id);
    EXPECT_EQ(found.state, CaptureState::kFailed) << size;
    EXPECT_EQ(found.error_reason, "DAEMON_STOPPED") << size;
    for (const char* suffix : {".part", ".part-journal", ".damaged", ".attempts"}) {
      EXPECT_FALSE(Exists(id, suffix)) << size << " " << suffix;
    }
  }
}

TEST_F(StoreRecoveryTest, AFileWhoseRecordWasBeingCommittedIsNoCapture) {
  const CaptureRecord record = NewRecord(IdOf(1));
  ASSERT_THAT(store_->InsertCapture(record), IsOk());
  store_.reset();
  const std::filesystem::path part = File(record.id, ".part");
  ASSERT_THAT(ReserveCaptureDatabase(part), IsOk());
  const pid_t child = fork();
  if (child == 0) {
    const auto db = MakeCaptureDatabase(part);
    // Too much for the cache: pages go into the file before the commit, and the journal is hot.
    if (!db.ok() || !(*db)->Exec("PRAGMA cache_size=1; BEGIN IMMEDIATE").ok()) _exit(1);
    if (!SetMetaText(**db, kMetaRecord, std::string(1 << 20, 'x')).ok()) _exit(1);
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  ASSERT_GT(FileBytes(part).value_or(0), 1 << 19);
  ASSERT_TRUE(Exists(record.id, ".part-journal"));
  Reopen();
  EXPECT_EQ(Get(record.id).state, CaptureState::kFailed);
  EXPECT_EQ(Get(record.id).error_reason, "DAEMON_STOPPED");
  for (const char* suffix : {".part", ".part-journal", ".damaged"}) {
    EXPECT_FALSE(Exists(record.id, suffix)) << suffix;
  }
}

TEST_F(StoreRecoveryTest, ACaptureBeginsWhenItsFileWasCreatedNotWithItsFirstRow) {
  const absl::Time created = clock_.Now();
  const CaptureRecord record = NewRecord(IdOf(1));
  ASSERT_THAT(store_->InsertCapture(record), IsOk());
  {
    auto sink = store_->CreateFile(record);
    ASSERT_THAT(sink, IsOk());
    clock_.Advance(absl::Minutes(5));
    ASSERT_THAT(AppendTwoSteps(**sink), IsOk());
  }
  Reopen();
  const CaptureRecord found = Get(record.id);
  ASSERT_EQ(found.state, CaptureState::kPartial);
  EXPECT_LT(absl::FromUnixNanos(found.start_unix_ns), created + absl::Minutes(1));
}

TEST_F(StoreRecoveryTest, AChunkThatDoesNotReadBackIsLeftOutAndCounted) {
  CaptureRecord record = NewRecord(IdOf(1));
  record.state = CaptureState::kRecording;
  ASSERT_THAT(store_->InsertCapture(record), IsOk());
  {
    auto sink = store_->CreateFile(record);
    ASSERT_THAT(sink, IsOk());
    ASSERT_THAT(AppendTwoSteps(**sink), IsOk());
  }
  store_.reset();
  // Finds the chunk of the two ranges by its first bytes ("PCHK", version, kind).
  std::ifstream file(File(record.id, ".part"), std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  const std::string mark("PCHK\1\0\1", 7);
  const size_t at = bytes.find(mark);
  ASSERT_NE(at, std::string::npos);
  Overwrite(File(record.id, ".part"), static_cast<std::streamoff>(at + 70), "!!!!");
  Reopen();
  const CaptureRecord found = Get(record.id);
  EXPECT_EQ(found.state, CaptureState::kPartial);
  EXPECT_EQ(found.event_count, 3);  // The marks.
  EXPECT_EQ(found.drops[static_cast<size_t>(DropReason::kDisk)], 2);
  auto reader = store_->OpenReader(record.id);
  ASSERT_THAT(reader, IsOk());
  EXPECT_THAT((*reader)->steps(), SizeIs(2));
}

// ---- files that end the daemon ----

TEST_F(StoreRecoveryTest, AFileThatEndedTheDaemonTwiceIsKeptWithoutItsSummaries) {
  int summaries = 0;
  summarize_ops_ = [&summaries](CaptureReader&) -> absl::StatusOr<std::vector<OpSummaryRow>> {
    ++summaries;
    return std::vector<OpSummaryRow>{{"op", 2, 500, 500, 200, 300}};
  };
  const CaptureRecord begun = LeaveUnfinished(1);
  store_.reset();
  std::ofstream(File(begun.id, ".attempts")) << "2";
  Reopen();
  const CaptureRecord found = Get(begun.id);
  EXPECT_EQ(found.state, CaptureState::kPartial);
  EXPECT_EQ(found.event_count, 5);
  EXPECT_EQ(summaries, 0);
  EXPECT_EQ(found.error_reason, "OVER_BUDGET");
  EXPECT_THAT(found.error_message, HasSubstr("left out: the summaries, because profd ended twice"));
  EXPECT_FALSE(Exists(begun.id, ".attempts"));
  EXPECT_THAT(store_->OpenReader(begun.id), IsOk());
}

TEST_F(StoreRecoveryTest, AFileThatEndedTheDaemonThreeTimesIsSetAside) {
  const CaptureRecord begun = LeaveUnfinished(1);
  store_.reset();
  std::ofstream(File(begun.id, ".attempts")) << "3";
  Reopen();
  const CaptureRecord found = Get(begun.id);
  EXPECT_EQ(found.state, CaptureState::kFailed);
  EXPECT_THAT(found.error_message, HasSubstr("profd ended 3 times"));
  EXPECT_TRUE(Exists(begun.id, ".damaged"));
  EXPECT_FALSE(Exists(begun.id, ".part"));
  EXPECT_FALSE(Exists(begun.id, ".attempts"));
  Reopen();
  EXPECT_EQ(Get(begun.id).error_message, found.error_message);
}

TEST_F(StoreRecoveryTest, AFileThatEndsTheDaemonAndCannotBeSetAsideIsNotReadAgain) {
  const CaptureRecord begun = LeaveUnfinished(1);
  store_.reset();
  std::ofstream(File(begun.id, ".attempts")) << "3";
  std::filesystem::create_directory(File(begun.id, ".damaged"));
  for (int start = 0; start < 2; ++start) {
    Reopen();
    const CaptureRecord found = Get(begun.id);
    EXPECT_EQ(found.state, CaptureState::kFailed);
    EXPECT_THAT(found.error_message, HasSubstr("profd ended 3 times"));
    EXPECT_TRUE(Exists(begun.id, ".part"));
    EXPECT_TRUE(Exists(begun.id, ".attempts"));
  }
}

// The store is opened in a process of its own, which the summary ends.
TEST_F(StoreRecoveryTest, ASummaryThatEndsTheDaemonDoesSoABoundedNumberOfTimes) {
  const CaptureRecord begun = LeaveUnfinished(1);
  store_.reset();
  summarize_ops_ = [](CaptureReader&) -> absl::StatusOr<std::vector<OpSummaryRow>> { _exit(9); };
  int deaths = 0;
  for (int start = 0; start < 10; ++start) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) _exit(TryOpen().ok() ? 0 : 1);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    if (WEXITSTATUS(status) == 0) break;
    ASSERT_EQ(WEXITSTATUS(status), 9);
    ++deaths;
  }
  EXPECT_EQ(deaths, 2);
  summarize_ops_ = nullptr;
  Reopen();
  const CaptureRecord found = Get(begun.id);
  EXPECT_EQ(found.state, CaptureState::kPartial);
  EXPECT_THAT(found.error_message, HasSubstr("left out: the summaries"));
  EXPECT_THAT(store_->OpenReader(begun.id), IsOk());
}

TEST_F(StoreRecoveryTest, SummariesThatTheEndOfTheDaemonCutShortAreMadeByTheNextDaemon) {
  const CaptureRecord begun = LeaveUnfinished(1);
  int requests = 0;
  summarize_ = [&](const std::filesystem::path&,
                   const SummaryRequest&) -> absl::StatusOr<EventSummaries> {
    // However often that happens.
    if (++requests < 10) return absl::CancelledError("profd ends");
    return EventSummaries{.ops = std::vector<OpSummaryRow>{{"op", 2, 500, 500, 200, 300}}};
  };
  for (int start = 1; start < 10; ++start) {
    Reopen();
    EXPECT_EQ(requests, start);
    EXPECT_TRUE(Exists(begun.id, ".attempts"));
    EXPECT_EQ(Get(begun.id).state, CaptureState::kPartial);
    EXPECT_EQ(Get(begun.id).error_message, "");
  }
  Reopen();
  EXPECT_EQ(store_->GetSummaries(begun.id)->ops.size(), 1u);
  EXPECT_FALSE(Exists(begun.id, ".attempts"));
  Reopen();
  EXPECT_EQ(requests, 10);
}

TEST_F(StoreRecoveryTest, AnAttemptThatEndsIsNotCounted) {
  const CaptureRecord begun = LeaveUnfinished(1);
  Reopen();
  EXPECT_FALSE(Exists(begun.id, ".attempts"));
  EXPECT_EQ(Get(begun.id).error_message, "");
}

// ---- in the background ----

TEST_F(StoreRecoveryTest, RowsAreFinalBeforeTheFilesAreRecovered) {
  const CaptureRecord begun = LeaveUnfinished(1);
  CaptureRecord armed = NewRecord(IdOf(2));
  armed.state = CaptureState::kArming;
  ASSERT_THAT(store_->InsertCapture(armed), IsOk());
  { ASSERT_THAT(store_->CreateFile(armed), IsOk()); }
  absl::Notification reached;
  absl::Notification proceed;
  summarize_ops_ = [&](CaptureReader&) -> absl::StatusOr<std::vector<OpSummaryRow>> {
    reached.Notify();
    proceed.WaitForNotification();
    return std::vector<OpSummaryRow>();
  };
  // The second file waits while the first is summarized.
  const CaptureRecord second = LeaveUnfinished(3);
  recover_in_background_ = true;
  Reopen();
  EXPECT_EQ(Get(begun.id).state, CaptureState::kPartial);
  EXPECT_EQ(Get(begun.id).ended_by, EndedBy::kDaemonStop);
  EXPECT_EQ(Get(armed.id).state, CaptureState::kFailed);
  reached.WaitForNotification();
  EXPECT_EQ(Get(second.id).state, CaptureState::kPartial);
  const absl::Status waiting = store_->OpenReader(second.id).status();
  EXPECT_THAT(waiting, StatusIs(StatusCode::kFailedPrecondition));
  EXPECT_EQ(ReasonOf(waiting), "RECOVERING");
  // A capture that is deleted meanwhile stays deleted.
  EXPECT_THAT(store_->DeleteCapture(second.id), IsOk());
  proceed.Notify();
  recover_in_background_ = false;
  summarize_ops_ = nullptr;
  Reopen();  // Waits for the thread; what it did not get to is done now.
  EXPECT_EQ(Get(begun.id).event_count, 5);
  EXPECT_THAT(store_->OpenReader(begun.id), IsOk());
  EXPECT_TRUE(Get(second.id).deleted);
  EXPECT_FALSE(Exists(second.id, ".part"));
  EXPECT_FALSE(Exists(second.id, ".profd"));
}

// ---- killed at any moment ----

// What a daemon does all day: one capture after the other. Writes a byte to `progress`
// after every step of it.
[[noreturn]] void RunUntilKilled(CaptureStore& store, int progress) {
  const auto step = [progress] {
    if (write(progress, "x", 1) != 1) _exit(1);
  };
  for (int number = 10; number < 1'000; ++number) {
    CaptureRecord record = NewRecord(IdOf(number));
    record.state = CaptureState::kRecording;
    if (!store.InsertCapture(record).ok()) _exit(1);
    step();
    auto sink = store.CreateFile(record);
    if (!sink.ok()) _exit(1);
    step();
    StepPattern pattern(static_cast<uint32_t>(number));
    if (!IntroducePattern(pattern, 2, **sink).ok()) _exit(1);
    for (int64_t mark = 0; mark < 60; ++mark) {
      const StepRow row = {pattern.now_ns(), mark};
      if (!(*sink)->Append(0, row).ok()) _exit(1);
      const uint32_t thread = mark % 3 == 0 ? 1 : 0;
      if (!(*sink)->Append(thread, pattern.NextRanges()).ok()) _exit(1);
      step();
    }
    record = FinishedRecord(record, {0, pattern.now_ns(), 0, 59});
    if (!(*sink)->Finish(record, 0).ok()) _exit(1);
    step();
    if (!store.UpdateCapture(record).ok()) _exit(1);
    step();
  }
  _exit(0);
}

// A FIFO without a writer would keep the start waiting for ever.
TEST_F(StoreRecoveryTest, ASpecialFileInTheFolderStopsNoStart) {
  const CaptureRecord stored = StoreCapture(1);
  const CaptureRecord unfinished = LeaveUnfinished(2);
  store_.reset();
  const auto make = [](const std::filesystem::path& path) {
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0) << path;
  };
  for (const char* suffix : {".profd", ".part", ".attempts", ".reserve", ".part-journal"}) {
    make(File(IdOf(10), suffix));
  }
  make(File(IdOf(11), ".profd"));
  make(File(unfinished.id, ".part-journal"));
  make(File(unfinished.id, ".attempts"));
  for (const char* name : {"catalog.reserve", "audit.reserve"}) {
    std::filesystem::remove(folder_ / "data" / name);
    make(folder_ / "data" / name);
  }
  Reopen();
  EXPECT_THAT(store_->OpenReader(stored.id), IsOk());
  EXPECT_THAT(store_->OpenReader(unfinished.id), IsOk());
  EXPECT_EQ(Get(unfinished.id).state, CaptureState::kPartial);
  EXPECT_FALSE(Exists(IdOf(10), ".part"));
  EXPECT_FALSE(Exists(IdOf(11), ".profd"));
  EXPECT_TRUE(Exists(IdOf(11), ".damaged"));
  EXPECT_TRUE(std::filesystem::is_regular_file(folder_ / "data/catalog.reserve"));
}

TEST_F(StoreRecoveryTest, ACatalogThatIsNoFileIsAnError) {
  store_.reset();
  for (const char* name : {"catalog.db-wal", "catalog.db"}) {
    const std::filesystem::path path = folder_ / "data" / name;
    std::filesystem::remove(path);
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    EXPECT_THAT(TryOpen(), StatusIs(StatusCode::kDataLoss, HasSubstr("not an ordinary file")));
    std::filesystem::remove(path);
  }
}

TEST_F(StoreRecoveryTest, AStoredFileThatBecameAFifoIsDamaged) {
  const CaptureRecord stored = StoreCapture(1);
  std::filesystem::remove(File(stored.id, ".profd"));
  ASSERT_EQ(mkfifo(File(stored.id, ".profd").c_str(), 0600), 0);
  EXPECT_THAT(store_->OpenReader(stored.id), StatusIs(StatusCode::kDataLoss));
  EXPECT_THAT(store_->OpenForDownload(stored.id), StatusIs(StatusCode::kDataLoss));
}

class StoreKilledTest : public StoreFixture, public testing::WithParamInterface<int> {
 protected:
  void KillAfter(int steps) {
    store_.reset();
    int pipe_ends[2];
    ASSERT_EQ(pipe(pipe_ends), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      close(pipe_ends[0]);
      auto store = TryOpen();
      if (!store.ok()) _exit(1);
      RunUntilKilled(**store, pipe_ends[1]);
    }
    close(pipe_ends[1]);
    char byte;
    for (int i = 0; i < steps; ++i) ASSERT_EQ(read(pipe_ends[0], &byte, 1), 1);
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status));
    close(pipe_ends[0]);
  }
};

TEST_P(StoreKilledTest, EveryCaptureIsWholeOrMarkedAndEarlierOnesAreIntact) {
  const CaptureRecord earlier = StoreCapture(1);
  KillAfter(GetParam());
  Reopen();

  const auto page = store_->ListCaptures({}, 1'000, "");
  ASSERT_THAT(page, IsOk());
  for (const CaptureRecord& record : page->captures) {
    EXPECT_TRUE(IsTerminal(record.state)) << record.id;
    if (record.state == CaptureState::kFailed) {
      EXPECT_EQ(record.file_bytes, 0);
      continue;
    }
    EXPECT_THAT(Sha256OfFile(File(record.id, ".profd")), IsOkAndHolds(record.file_sha256));
    auto reader = store_->OpenReader(record.id);
    ASSERT_THAT(reader, IsOk());
    EXPECT_THAT(ReadAll(**reader), IsOk());
    EXPECT_EQ((*reader)->record().state, record.state);
    EXPECT_FALSE((*reader)->steps().empty()) << record.event_count << " events without steps";
  }
  EXPECT_EQ(Get(earlier.id).file_sha256, earlier.file_sha256);
  EXPECT_EQ(Get(earlier.id).state, CaptureState::kComplete);
  StoreCapture(5'000);
  EXPECT_THAT(store_->OpenReader(IdOf(5'000)), IsOk());
}

// Around every edge of a capture's life, and in the middle of chunks being written.
INSTANTIATE_TEST_SUITE_P(AfterSteps, StoreKilledTest,
                         testing::Values(1, 2, 3, 20, 25, 33, 45, 50, 61, 62, 63, 64, 65, 66, 95,
                                         127, 128, 129));

}  // namespace
}  // namespace profd::store
