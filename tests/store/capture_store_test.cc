// The store as the daemon uses it: captures in, listed, read, deleted and evicted.
#include "daemon/store/capture_store.h"

#include <linux/capability.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <thread>

#include "daemon/base/budget.h"
#include "daemon/base/reason.h"
#include "daemon/base/ulid.h"
#include "daemon/store/data_dir.h"
#include "daemon/store/file/files.h"
#include "tests/store/store_fixture.h"

namespace profd::store {
namespace {

using absl::StatusCode;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

class CaptureStoreTest : public StoreFixture {};

int ModeOf(const std::filesystem::path& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 ? static_cast<int>(info.st_mode & 0777) : -1;
}

constexpr auto kAny = [](const CaptureRecord&) { return true; };
constexpr auto kOf1000 = [](const CaptureRecord& record) { return record.target.uid == 1000; };

TEST_F(CaptureStoreTest, AStoredCaptureIsThereAfterARestart) {
  const CaptureRecord stored = StoreCapture(1);
  Reopen();
  const CaptureRecord found = Get(stored.id);
  EXPECT_EQ(found.state, CaptureState::kComplete);
  EXPECT_EQ(found.file_sha256, stored.file_sha256);
  EXPECT_EQ(found.event_count, 5);
  auto reader = store_->OpenReader(stored.id);
  ASSERT_THAT(reader, IsOk());
  EXPECT_THAT((*reader)->steps(), SizeIs(2));
}

// They would be most of a row of the catalog, and reports read them in the file.
TEST_F(CaptureStoreTest, SamplesOfCpuWaitsAreInTheFileAlone) {
  CaptureRecord record = NewRecord(IdOf(1));
  record.cpu = {.watched_ns = 9, .samples = {{.time_ns = 1}, {.time_ns = 2}}};
  StoreCapture(record);
  EXPECT_EQ(Get(record.id).cpu.watched_ns, 9);
  EXPECT_THAT(Get(record.id).cpu.samples, IsEmpty());
  auto reader = store_->OpenReader(record.id);
  ASSERT_THAT(reader, IsOk());
  EXPECT_THAT((*reader)->record().cpu.samples, SizeIs(2));
}

TEST_F(CaptureStoreTest, AnIdCanBeInsertedOnce) {
  ASSERT_THAT(store_->InsertCapture(NewRecord(IdOf(1))), IsOk());
  EXPECT_THAT(store_->InsertCapture(NewRecord(IdOf(1))), StatusIs(StatusCode::kFailedPrecondition));
}

TEST_F(CaptureStoreTest, UnknownCapturesAreNotFound) {
  EXPECT_THAT(store_->GetCapture(IdOf(1)), StatusIs(StatusCode::kNotFound));
  EXPECT_THAT(store_->UpdateCapture(NewRecord(IdOf(1))), StatusIs(StatusCode::kNotFound));
  EXPECT_THAT(store_->DeleteCapture(IdOf(1)), StatusIs(StatusCode::kNotFound));
  EXPECT_THAT(store_->OpenReader(IdOf(1)), StatusIs(StatusCode::kNotFound));
  EXPECT_THAT(store_->OpenForDownload(IdOf(1)), StatusIs(StatusCode::kNotFound));
  EXPECT_THAT(store_->GetSummaries(IdOf(1)), StatusIs(StatusCode::kNotFound));
}

TEST_F(CaptureStoreTest, FindRequestGivesTheWholeGroupOfThatCallerOldestFirst) {
  for (int i = 1; i <= 3; ++i) {
    CaptureRecord record = NewRecord(IdOf(i));
    record.request_id = "again";
    record.requested_by_uid = i == 3 ? 1 : 1000;
    ASSERT_THAT(store_->InsertCapture(record), IsOk());
  }
  ASSERT_THAT(store_->InsertCapture(NewRecord(IdOf(4))), IsOk());
  const auto found = store_->FindRequest("again", 1000);
  ASSERT_THAT(found, IsOk());
  ASSERT_THAT(*found, SizeIs(2));
  EXPECT_EQ((*found)[0].id, IdOf(1));
  EXPECT_EQ((*found)[1].id, IdOf(2));
  EXPECT_THAT(store_->FindRequest("", 1000), IsOkAndHolds(IsEmpty()));
}

TEST_F(CaptureStoreTest, EveryFileIsPrivate) {
  const CaptureRecord stored = StoreCapture(1);
  EXPECT_EQ(ModeOf(folder_ / "data"), 0700);
  EXPECT_EQ(ModeOf(folder_ / "data" / "captures"), 0700);
  EXPECT_EQ(ModeOf(folder_ / "data" / "catalog.db"), 0600);
  EXPECT_EQ(ModeOf(folder_ / "data" / "catalog.db-wal"), 0600);
  EXPECT_EQ(ModeOf(File(stored.id, ".profd")), 0600);
}

TEST_F(CaptureStoreTest, AFolderThatIsOpenToOthersIsClosed) {
  store_.reset();
  ASSERT_EQ(chmod((folder_ / "data").c_str(), 0755), 0);
  Reopen();
  EXPECT_EQ(ModeOf(folder_ / "data"), 0700);
}

TEST_F(CaptureStoreTest, ASecondDaemonIsRefusedByThePidOfTheFirst) {
  EXPECT_THAT(TryOpen(),
              StatusIs(StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr(StrCat("pid ", getpid())), HasSubstr("--data-dir"))));
}

class DataDirTest : public testing::Test {
 protected:
  absl::Status Claim(const std::filesystem::path& path) { return ClaimDataDir(path).status(); }

  TemporaryFolder folder_;
};

TEST_F(DataDirTest, AFolderWithOtherFilesKeepsItsModeAndGetsNoFile) {
  const std::filesystem::path foreign = folder_ / "foreign";
  std::filesystem::create_directory(foreign);
  std::ofstream(foreign / "somebody's file") << "x";
  ASSERT_EQ(chmod(foreign.c_str(), 0777), 0);
  const absl::Status status = Claim(foreign);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("--data-dir")));
  EXPECT_EQ(ModeOf(foreign), 0777);
  EXPECT_FALSE(std::filesystem::exists(foreign / "profd.lock"));
  EXPECT_FALSE(std::filesystem::exists(foreign / "captures"));
}

TEST_F(DataDirTest, AnEmptyFolderOfOursIsTaken) {
  const std::filesystem::path empty = folder_ / "empty";
  std::filesystem::create_directory(empty);
  ASSERT_EQ(chmod(empty.c_str(), 0755), 0);
  std::filesystem::create_directory(empty / "lost+found");  // A fresh file system has one.
  EXPECT_THAT(Claim(empty), IsOk());
  EXPECT_EQ(ModeOf(empty), 0700);
}

TEST_F(DataDirTest, SymbolicLinksAreNotFollowed) {
  const std::filesystem::path real = folder_ / "real";
  std::filesystem::create_directory(real);
  ASSERT_EQ(chmod(real.c_str(), 0755), 0);
  std::filesystem::create_directory_symlink(real, folder_ / "link");
  EXPECT_THAT(Claim(folder_ / "link"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("symbolic link")));
  EXPECT_EQ(ModeOf(real), 0755);
  EXPECT_TRUE(std::filesystem::is_empty(real));

  // A lock that is a link would have profd write to the file behind it.
  std::ofstream(folder_ / "precious") << "content";
  std::filesystem::create_symlink(folder_ / "precious", real / "profd.lock");
  EXPECT_THAT(Claim(real), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(std::filesystem::file_size(folder_ / "precious"), 7U);

  ASSERT_THAT(Claim(folder_ / "data"), IsOk());
  std::filesystem::remove(folder_ / "data" / "captures");
  std::filesystem::create_directory_symlink(real, folder_ / "data" / "captures");
  EXPECT_FALSE(Claim(folder_ / "data").ok());
  EXPECT_EQ(ModeOf(real), 0755);
}

TEST_F(DataDirTest, AFolderOfAnotherUserIsRefusedAndKeepsItsOwner) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to give a folder to another user";
  const std::filesystem::path others = folder_ / "others";
  std::filesystem::create_directory(others);
  ASSERT_EQ(chown(others.c_str(), 65534, 65534), 0);
  EXPECT_THAT(Claim(others),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("uid 65534")));
  EXPECT_TRUE(std::filesystem::is_empty(others));
}

class GiveDataDirTest : public DataDirTest {
 protected:
  static constexpr uid_t kUser = 65534;

  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root, to give files to another user";
    data_ = folder_ / "data";
    ASSERT_THAT(Claim(data_), IsOk());
    for (const char* name : {"catalog.db", "captures/one.profd"})
      std::ofstream(data_ / name) << name;
  }

  static uid_t OwnerOf(const std::filesystem::path& path) {
    struct stat info;
    return lstat(path.c_str(), &info) == 0 ? info.st_uid : static_cast<uid_t>(-1);
  }

  std::filesystem::path data_;
};

TEST_F(GiveDataDirTest, RootsDataDirectoryGoesToTheUserOnceAndWhole) {
  for (int i = 0; i < 2; ++i) {
    ASSERT_THAT(GiveDataDir(data_, kUser, kUser), IsOk());
    for (const char* name : {"", "profd.lock", "catalog.db", "captures", "captures/one.profd"}) {
      EXPECT_EQ(OwnerOf(data_ / name), kUser) << name;
    }
    EXPECT_EQ(ModeOf(data_), 0700);
  }
}

TEST_F(GiveDataDirTest, AnInterruptedOneIsFinished) {
  ASSERT_EQ(chown((data_ / "profd.lock").c_str(), kUser, kUser), 0);
  ASSERT_THAT(GiveDataDir(data_, kUser, kUser), IsOk());
  EXPECT_EQ(OwnerOf(data_ / "catalog.db"), kUser);
  EXPECT_EQ(OwnerOf(data_), kUser);
}

TEST_F(GiveDataDirTest, FilesThatProfdDidNotMakeKeepTheirOwner) {
  std::ofstream(folder_ / "outside") << "x";
  std::ofstream(folder_ / "linked") << "x";
  std::filesystem::create_symlink(folder_ / "outside", data_ / "link");
  std::filesystem::create_hard_link(folder_ / "linked", data_ / "captures" / "hard");
  std::ofstream(data_ / "foreign") << "x";
  ASSERT_EQ(chown((data_ / "foreign").c_str(), 12345, 12345), 0);
  ASSERT_THAT(GiveDataDir(data_, kUser, kUser), IsOk());
  EXPECT_EQ(OwnerOf(folder_ / "outside"), 0U);
  EXPECT_EQ(OwnerOf(folder_ / "linked"), 0U);
  EXPECT_EQ(OwnerOf(data_ / "foreign"), 12345U);
  EXPECT_EQ(OwnerOf(data_), kUser);
}

TEST_F(GiveDataDirTest, OnlyADataDirectoryThatNoDaemonUsesIsGiven) {
  {
    const auto lock = ClaimDataDir(data_);
    ASSERT_THAT(lock, IsOk());
    EXPECT_THAT(GiveDataDir(data_, kUser, kUser), StatusIs(StatusCode::kFailedPrecondition));
  }
  std::filesystem::remove(data_ / "profd.lock");
  EXPECT_THAT(GiveDataDir(data_, kUser, kUser), StatusIs(StatusCode::kFailedPrecondition));
  std::filesystem::create_directory_symlink(data_, folder_ / "link");
  EXPECT_THAT(GiveDataDir(folder_ / "link", kUser, kUser),
              StatusIs(StatusCode::kFailedPrecondition));
  EXPECT_EQ(OwnerOf(data_ / "catalog.db"), 0U);
  ASSERT_THAT(GiveDataDir(folder_ / "new", kUser, kUser), IsOk());
  EXPECT_EQ(OwnerOf(folder_ / "new"), kUser);
}

// A lock that is there but cannot be opened may be one that a daemon holds.
TEST_F(GiveDataDirTest, ALockThatCannotBeOpenedKeepsTheDirectoryRoots) {
  ASSERT_EQ(chmod((data_ / "profd.lock").c_str(), 0400), 0);
  const pid_t child = fork();
  if (child == 0) {
    // The rights of a root that modes of files bind.
    __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    __user_cap_data_struct rights[2] = {};
    if (syscall(SYS_capget, &header, rights) != 0) _exit(2);
    rights[0].effective &= ~(1U << CAP_DAC_OVERRIDE);
    if (syscall(SYS_capset, &header, rights) != 0) _exit(3);
    _exit(absl::IsPermissionDenied(GiveDataDir(data_, kUser, kUser)) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(OwnerOf(data_), 0U);
}

TEST(CheckFileSystemTypeTest, RefusesNetworkFileSystemsWithAdvice) {
  for (const int64_t type : {0x6969L, 0xff534d42L, 0x65735546L, 0x0bd00bd0L, 0x47504653L}) {
    EXPECT_THAT(CheckFileSystemType(type, "/data"),
                StatusIs(StatusCode::kFailedPrecondition, HasSubstr("--data-dir")));
  }
  constexpr int64_t kExt4 = 0xef53;
  constexpr int64_t kTmpfs = 0x01021994;
  EXPECT_THAT(CheckFileSystemType(kExt4, "/data"), IsOk());
  EXPECT_THAT(CheckFileSystemType(kTmpfs, "/data"), IsOk());
}

// ---- listing ----

TEST_F(CaptureStoreTest, PagesAreNewestFirstAndStableWhileCapturesArrive) {
  for (int i = 1; i <= 25; ++i) ASSERT_THAT(store_->InsertCapture(NewRecord(IdOf(i))), IsOk());
  std::vector<std::string> ids;
  std::string token;
  do {
    const auto page = store_->ListCaptures({}, 10, token);
    ASSERT_THAT(page, IsOk());
    for (const CaptureRecord& record : page->captures) ids.push_back(record.id);
    token = page->next_page_token;
    const int newcomer = 100 + static_cast<int>(ids.size());
    ASSERT_THAT(store_->InsertCapture(NewRecord(IdOf(newcomer))), IsOk());
  } while (!token.empty());
  ASSERT_THAT(ids, SizeIs(25));
  for (int i = 0; i < 25; ++i) EXPECT_EQ(ids[static_cast<size_t>(i)], IdOf(25 - i));
}

TEST_F(CaptureStoreTest, APageThatEndsTheListHasNoToken) {
  for (int i = 1; i <= 10; ++i) ASSERT_THAT(store_->InsertCapture(NewRecord(IdOf(i))), IsOk());
  const auto page = store_->ListCaptures({}, 10, "");
  ASSERT_THAT(page, IsOk());
  EXPECT_THAT(page->captures, SizeIs(10));
  EXPECT_EQ(page->next_page_token, "");
}

TEST_F(CaptureStoreTest, TokensOfAnotherFilterAndSizesOutOfRangeAreRefused) {
  for (int i = 1; i <= 3; ++i) ASSERT_THAT(store_->InsertCapture(NewRecord(IdOf(i))), IsOk());
  const std::string token = store_->ListCaptures({}, 1, "")->next_page_token;
  ASSERT_NE(token, "");
  CaptureFilter other;
  other.pid = 4711;
  EXPECT_THAT(store_->ListCaptures(other, 1, token), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(store_->ListCaptures({}, 1, "nonsense"), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(store_->ListCaptures({}, 1, token + "0"), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(store_->ListCaptures({}, -1, ""), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(store_->ListCaptures({}, 1001, ""), StatusIs(StatusCode::kInvalidArgument));
}

TEST_F(CaptureStoreTest, EveryFilterNarrowsTheList) {
  CaptureRecord a = NewRecord(IdOf(1));
  a.spec.labels = {{"run", "7"}, {"team", "vision"}};
  a.spec.display_name = "slow";
  a.target.pid = 11;
  ASSERT_THAT(store_->InsertCapture(a), IsOk());
  CaptureRecord b = NewRecord(IdOf(2));
  b.spec.labels = {{"run", "7"}};
  b.state = CaptureState::kFailed;
  b.target.uid = 77;
  b.group_id = IdOf(900);
  b.create_time = a.create_time + absl::Hours(1);
  ASSERT_THAT(store_->InsertCapture(b), IsOk());

  EXPECT_THAT(ListIds({}), ElementsAre(b.id, a.id));
  EXPECT_THAT(ListIds({.states = {CaptureState::kFailed}}), ElementsAre(b.id));
  EXPECT_THAT(ListIds({.labels = {{"run", "7"}}}), ElementsAre(b.id, a.id));
  EXPECT_THAT(ListIds({.labels = {{"run", "7"}, {"team", "vision"}}}), ElementsAre(a.id));
  EXPECT_THAT(ListIds({.labels = {{"run", "8"}}}), IsEmpty());
  EXPECT_THAT(ListIds({.pid = 11}), ElementsAre(a.id));
  EXPECT_THAT(ListIds({.owner_uid = 77}), ElementsAre(b.id));
  EXPECT_THAT(ListIds({.name = "slow"}), ElementsAre(a.id));
  EXPECT_THAT(ListIds({.group_id = IdOf(900)}), ElementsAre(b.id));
  EXPECT_THAT(ListIds({.id_prefix = IdOf(1)}), ElementsAre(a.id));
  EXPECT_THAT(ListIds({.since = b.create_time}), ElementsAre(b.id));
  EXPECT_THAT(ListIds({.name = "' OR 1=1 --"}), IsEmpty());
}

TEST_F(CaptureStoreTest, DeletedCapturesCanBeLeftOut) {
  const CaptureRecord kept = StoreCapture(1);
  const CaptureRecord deleted = StoreCapture(2);
  ASSERT_THAT(store_->DeleteCapture(deleted.id), IsOk());
  EXPECT_THAT(ListIds({}), ElementsAre(deleted.id, kept.id));
  EXPECT_THAT(ListIds({.include_deleted = false}), ElementsAre(kept.id));
}

TEST_F(CaptureStoreTest, APrefixResolvesToTheOneCaptureOfItsOwner) {
  CaptureRecord mine = NewRecord(IdOf(12));
  CaptureRecord other = NewRecord(IdOf(13));
  other.target.uid = 5;
  ASSERT_THAT(store_->InsertCapture(mine), IsOk());
  ASSERT_THAT(store_->InsertCapture(other), IsOk());
  const std::string shared = mine.id.substr(0, 25);

  const auto exact = store_->ResolvePrefix(mine.id, kAny);
  ASSERT_THAT(exact, IsOk());
  EXPECT_EQ(exact->id, mine.id);
  const auto folded = store_->ResolvePrefix("01j0000000000000000000001", kOf1000);
  ASSERT_THAT(folded, IsOk());
  EXPECT_EQ(folded->id, mine.id);
  EXPECT_THAT(
      store_->ResolvePrefix(shared, kAny),
      StatusIs(StatusCode::kInvalidArgument, AllOf(HasSubstr(mine.id), HasSubstr(other.id))));
  EXPECT_THAT(store_->ResolvePrefix("02", kAny), StatusIs(StatusCode::kNotFound));
  EXPECT_THAT(store_->ResolvePrefix(other.id, kOf1000), StatusIs(StatusCode::kNotFound));
  EXPECT_THAT(store_->ResolvePrefix("", kAny), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(store_->ResolvePrefix("01%", kAny), StatusIs(StatusCode::kInvalidArgument));
}

TEST_F(CaptureStoreTest, AnAmbiguousPrefixNamesAFewCandidates) {
  for (int i = 10; i < 20; ++i) ASSERT_THAT(store_->InsertCapture(NewRecord(IdOf(i))), IsOk());
  const absl::Status status = store_->ResolvePrefix("01J", kAny).status();
  EXPECT_THAT(status, StatusIs(StatusCode::kInvalidArgument, HasSubstr("...")));
  EXPECT_EQ(ReasonOf(status), "AMBIGUOUS_ID");
}

// ---- reading and downloading ----

TEST_F(CaptureStoreTest, ADownloadIsTheFileWithItsHash) {
  const CaptureRecord stored = StoreCapture(1);
  const auto download = store_->OpenForDownload(stored.id);
  ASSERT_THAT(download, IsOk());
  EXPECT_EQ(download->size_bytes, stored.file_bytes);
  EXPECT_THAT(Sha256OfFile(File(stored.id, ".profd")), IsOkAndHolds(download->sha256));
  // Deleted meanwhile, it can still be read to the end.
  ASSERT_THAT(store_->DeleteCapture(stored.id), IsOk());
  std::vector<char> bytes(static_cast<size_t>(stored.file_bytes));
  EXPECT_EQ(pread(download->file.get(), bytes.data(), bytes.size(), 0), stored.file_bytes);
}

TEST_F(CaptureStoreTest, WhatHasNoEventsSaysWhy) {
  CaptureRecord running = NewRecord(IdOf(1));
  running.state = CaptureState::kRecording;
  ASSERT_THAT(store_->InsertCapture(running), IsOk());
  CaptureRecord failed = NewRecord(IdOf(2));
  failed.state = CaptureState::kFailed;
  ASSERT_THAT(store_->InsertCapture(failed), IsOk());
  const CaptureRecord deleted = StoreCapture(3);
  ASSERT_THAT(store_->DeleteCapture(deleted.id), IsOk());

  const auto reason = [this](std::string_view id) {
    const absl::Status status = store_->OpenReader(id).status();
    EXPECT_THAT(status, StatusIs(StatusCode::kFailedPrecondition));
    EXPECT_THAT(store_->OpenForDownload(id), StatusIs(StatusCode::kFailedPrecondition));
    return ReasonOf(status);
  };
  EXPECT_EQ(reason(running.id), "CAPTURE_RUNNING");
  EXPECT_EQ(reason(failed.id), "NO_EVENTS");
  EXPECT_EQ(reason(deleted.id), "CAPTURE_DELETED");
}

TEST_F(CaptureStoreTest, AFileThatAnotherProgramRemovedIsMissingAndNotDeleted) {
  const CaptureRecord stored = StoreCapture(1);
  std::filesystem::rename(folder_ / "data/captures", folder_ / "moved");
  for (const absl::Status& status :
       {store_->OpenReader(stored.id).status(), store_->OpenForDownload(stored.id).status()}) {
    EXPECT_THAT(status, StatusIs(StatusCode::kDataLoss, HasSubstr("another program removed")));
    EXPECT_EQ(ReasonOf(status), "FILE_MISSING");
  }
  std::filesystem::rename(folder_ / "moved", folder_ / "data/captures");
  EXPECT_THAT(store_->OpenReader(stored.id), IsOk());
}

TEST_F(CaptureStoreTest, DeletingRemovesTheFileAndKeepsRecordAndSummaries) {
  summarize_ops_ = [](CaptureReader&) -> absl::StatusOr<std::vector<OpSummaryRow>> {
    return std::vector<OpSummaryRow>{{"small", 1, 5, 5, 5, 5}, {"large", 2, 500, 600, 1, 9}};
  };
  Reopen();
  const CaptureRecord stored = StoreCapture(1);
  ASSERT_THAT(store_->DeleteCapture(stored.id), IsOk());
  EXPECT_FALSE(Exists(stored.id, ".profd"));
  EXPECT_THAT(store_->DeleteCapture(stored.id), IsOk());

  Reopen();
  const CaptureRecord found = Get(stored.id);
  EXPECT_TRUE(found.deleted);
  EXPECT_EQ(found.file_bytes, 0);
  EXPECT_EQ(found.file_sha256, "");
  EXPECT_EQ(found.event_count, 5);
  const auto summaries = store_->GetSummaries(stored.id);
  ASSERT_THAT(summaries, IsOk());
  ASSERT_THAT(summaries->ops, SizeIs(2));
  EXPECT_EQ(summaries->ops[0].name, "large");
  EXPECT_EQ(summaries->ops[0].cpu_total_ns, 600);
  ASSERT_THAT(summaries->steps, SizeIs(1));
  EXPECT_EQ(summaries->steps[0].steps, 2);
  EXPECT_EQ(summaries->steps[0].median_ns, 1'000);
}

// ---- summaries ----

TEST_F(CaptureStoreTest, SummariesAreListedNewestFirstWithinATime) {
  summarize_ops_ = [](CaptureReader& reader) -> absl::StatusOr<std::vector<OpSummaryRow>> {
    return std::vector<OpSummaryRow>{{"cpu", 1, 50, 50, 5, 5},
                                     {"both", 1, 1, 1, 1, 1, 900},
                                     {reader.record().id, 1, 20, 20, 2, 2}};
  };
  Reopen();
  std::vector<CaptureRecord> stored;
  for (int number = 1; number <= 4; ++number) {
    CaptureRecord record = NewRecord(IdOf(number));
    record.create_time = absl::FromUnixSeconds(100 * number);
    stored.push_back(StoreCapture(record));
  }
  ASSERT_THAT(store_->DeleteCapture(stored[1].id), IsOk());
  const CaptureFilter middle = {.since = absl::FromUnixSeconds(200),
                                .until = absl::FromUnixSeconds(400)};
  auto found = store_->ListSummaries(middle, SummaryParts(), 10, "");
  ASSERT_THAT(found, IsOk());
  ASSERT_THAT(*found, SizeIs(2));
  EXPECT_EQ((*found)[0].record.id, stored[2].id);
  EXPECT_EQ((*found)[1].record.id, stored[1].id);
  EXPECT_TRUE((*found)[1].record.deleted);
  ASSERT_THAT((*found)[1].summaries.ops, SizeIs(3));
  EXPECT_EQ((*found)[1].summaries.ops[0].name, "both") << "GPU time counts as CPU time does";
  EXPECT_EQ((*found)[1].summaries.ops[0].self_device_ns, 900);
  EXPECT_THAT((*found)[1].summaries.steps, SizeIs(1));

  // The operator asked for, and the largest; and from behind the one given.
  found = store_->ListSummaries(
      {}, {.steps = false, .devices = false, .ops = false, .operator_name = stored[0].id}, 2,
      stored[2].id);
  ASSERT_THAT(found, IsOk());
  ASSERT_THAT(*found, SizeIs(2));
  EXPECT_EQ((*found)[0].record.id, stored[1].id);
  EXPECT_THAT((*found)[0].summaries.ops, SizeIs(1));
  EXPECT_THAT((*found)[1].summaries.ops, SizeIs(2));
  EXPECT_THAT((*found)[1].summaries.steps, IsEmpty());
}

TEST_F(CaptureStoreTest, WhatGpusDidIsSummarizedWhereTheyWereRecorded) {
  int calls = 0;
  summarize_devices_ = [&calls](CaptureReader&) -> absl::StatusOr<std::vector<DeviceSummaryRow>> {
    if (++calls == 2) return absl::InternalError("no");
    return std::vector<DeviceSummaryRow>{{3, 2'000, 1'500, 400, 100}};
  };
  Reopen();
  const CaptureRecord without = StoreCapture(1);
  EXPECT_EQ(calls, 0);
  CaptureRecord record = NewRecord(IdOf(2));
  record.gpu.record_count = 7;
  const CaptureRecord with = StoreCapture(record);
  record.id = IdOf(3);
  const CaptureRecord failing = StoreCapture(record);

  EXPECT_THAT(store_->GetSummaries(without.id)->devices, IsEmpty());
  EXPECT_THAT(store_->GetSummaries(failing.id)->devices, IsEmpty());
  EXPECT_THAT(store_->OpenReader(failing.id), IsOk());
  const auto summaries = store_->GetSummaries(with.id);
  ASSERT_THAT(summaries, IsOk());
  ASSERT_THAT(summaries->devices, SizeIs(1));
  EXPECT_EQ(summaries->devices[0].device, 3);
  EXPECT_EQ(summaries->devices[0].busy_ns, 1'500);
  EXPECT_EQ(summaries->devices[0].exposed_communication_ns, 100);
}

TEST_F(CaptureStoreTest, WhatComparesRanksIsKeptOfGroupsAndOutlivesTheEvents) {
  int calls = 0;
  summarize_ranks_ = [&calls](CaptureReader&) -> absl::StatusOr<std::string> {
    if (++calls == 2) return OverBudget("the ranks", 17, 16, "collectives");
    return std::string("r\0nks", 5);
  };
  Reopen();
  const CaptureRecord alone = StoreCapture(1);
  EXPECT_EQ(calls, 0);
  CaptureRecord record = NewRecord(IdOf(2));
  record.group_id = IdOf(100);
  const CaptureRecord in_group = StoreCapture(record);
  record.id = IdOf(3);
  const CaptureRecord too_large = StoreCapture(record);

  const SummaryParts parts = {.steps = false, .devices = false, .ops = false, .ranks = true};
  ASSERT_THAT(store_->DeleteCapture(in_group.id), IsOk());
  Reopen();
  const auto kept = [&] {
    std::map<std::string, std::string> ranks;
    auto found = store_->ListSummaries({}, parts, 10, "");
    EXPECT_THAT(found, IsOk());
    for (const SummarizedCapture& capture : *found) {
      ranks[capture.record.id] = capture.summaries.ranks;
    }
    return ranks;
  };
  EXPECT_EQ(kept(),
            (std::map<std::string, std::string>{
                {alone.id, ""}, {in_group.id, std::string("r\0nks", 5)}, {too_large.id, ""}}));
  EXPECT_EQ(Get(too_large.id).error_message,
            "left out: the ranks needs 17 collectives, the budget is 16 collectives");
  // Who does not ask for it does not read it.
  EXPECT_EQ(store_->GetSummaries(in_group.id)->ranks, "");

  // It goes with its record.
  ASSERT_THAT(store_->PurgeCaptures(absl::InfiniteFuture(), false,
                                    [](const CaptureRecord&) { return true; }),
              IsOk());
  auto catalog = Database::Open(folder_ / "data" / "catalog.db", Database::Mode::kReadWrite);
  ASSERT_THAT(catalog, IsOk());
  EXPECT_THAT((*catalog)->QueryInt("SELECT count(*) FROM rank_summary"), IsOkAndHolds(0));
}

TEST_F(CaptureStoreTest, ASummaryOverItsBudgetIsLeftOutAndNamed) {
  summarize_ops_ = [](CaptureReader&) -> absl::StatusOr<std::vector<OpSummaryRow>> {
    return OverBudget("the summary", 17, 16, "rows");
  };
  Reopen();
  const CaptureRecord stored = StoreCapture(1);
  const CaptureRecord found = Get(stored.id);
  EXPECT_EQ(found.state, CaptureState::kComplete);
  EXPECT_EQ(found.error_reason, "OVER_BUDGET");
  EXPECT_EQ(found.error_message, "left out: the summary needs 17 rows, the budget is 16 rows");
  EXPECT_THAT(store_->GetSummaries(stored.id)->ops, IsEmpty());
  EXPECT_THAT(store_->GetSummaries(stored.id)->steps, SizeIs(1));
  // The file was finished before, and says nothing of it.
  EXPECT_THAT(Sha256OfFile(File(stored.id, ".profd")), IsOkAndHolds(found.file_sha256));
}

TEST_F(CaptureStoreTest, ASummarySeesTheFileAsItStays) {
  std::string sha256;
  summarize_ops_ = [&](CaptureReader& reader) -> absl::StatusOr<std::vector<OpSummaryRow>> {
    sha256 = *Sha256OfFile(File(reader.record().id, ".profd"));
    // A daemon that dies now has stored the capture.
    EXPECT_EQ(Get(reader.record().id).state, CaptureState::kComplete);
    return std::vector<OpSummaryRow>();
  };
  Reopen();
  const CaptureRecord stored = StoreCapture(1);
  EXPECT_EQ(sha256, stored.file_sha256);
}

TEST_F(CaptureStoreTest, ARecordWrittenBackLateDoesNotUndelete) {
  const CaptureRecord stored = StoreCapture(1);
  ASSERT_THAT(store_->DeleteCapture(stored.id), IsOk());
  CaptureRecord late = stored;
  late.step_after_ns = 123;
  ASSERT_THAT(store_->UpdateCapture(late), IsOk());
  const CaptureRecord found = Get(stored.id);
  EXPECT_TRUE(found.deleted);
  EXPECT_EQ(found.file_bytes, 0);
  EXPECT_EQ(found.step_after_ns, 123);
}

TEST_F(CaptureStoreTest, ACaptureThatRunsIsNotDeleted) {
  ASSERT_THAT(store_->InsertCapture(NewRecord(IdOf(1))), IsOk());
  EXPECT_THAT(store_->DeleteCapture(IdOf(1)), StatusIs(StatusCode::kFailedPrecondition));
}

TEST_F(CaptureStoreTest, AFailingSummaryDoesNotCostTheCaptureAndIsNamed) {
  absl::Status status = absl::InternalError("/secret");
  summarize_ops_ = [&](CaptureReader&) -> absl::StatusOr<std::vector<OpSummaryRow>> {
    return status;
  };
  Reopen();
  const CaptureRecord first = StoreCapture(1);
  EXPECT_THAT(store_->OpenReader(first.id), IsOk());
  EXPECT_THAT(store_->GetSummaries(first.id)->ops, IsEmpty());
  EXPECT_EQ(Get(first.id).state, CaptureState::kComplete);
  EXPECT_EQ(Get(first.id).error_reason, "NOT_ANALYZED");
  EXPECT_EQ(Get(first.id).error_message,
            "left out: the summary of its operators; the log of profd says why");

  status = WithReason(absl::UnavailableError("the report process was killed"), "REPORT_KILLED");
  const CaptureRecord second = StoreCapture(2);
  EXPECT_EQ(Get(second.id).state, CaptureState::kComplete);
  EXPECT_EQ(Get(second.id).error_reason, "REPORT_KILLED");
  EXPECT_EQ(Get(second.id).error_message,
            "left out: the summary of its operators: the report process was killed");
}

TEST_F(CaptureStoreTest, UsageCountsFilesBeingWritten) {
  auto sink = store_->CreateFile(NewRecord(IdOf(1)));
  ASSERT_THAT(sink, IsOk());
  const auto usage = store_->Usage();
  ASSERT_THAT(usage, IsOk());
  EXPECT_GT(usage->capture_bytes, 0);
  EXPECT_EQ(usage->capture_count, 0);
}

TEST_F(CaptureStoreTest, MeasureDiskAgreesWithTheSystem) {
  const auto disk = MeasureDisk(folder_.path());
  ASSERT_THAT(disk, IsOk());
  EXPECT_GT(disk->total_bytes, 0);
  EXPECT_LE(disk->free_bytes, disk->total_bytes);
  EXPECT_THAT(MeasureDisk(folder_ / "none"), StatusIs(StatusCode::kNotFound));
}

// ---- the rest ----

TEST_F(CaptureStoreTest, ThatCapturesAreForbiddenOutlivesTheDaemon) {
  EXPECT_THAT(store_->CapturesForbidden(), IsOkAndHolds(std::nullopt));
  ASSERT_THAT(store_->ForbidCaptures("a benchmark runs"), IsOk());
  ASSERT_THAT(store_->ForbidCaptures("two benchmarks run"), IsOk());
  Reopen();
  EXPECT_THAT(store_->CapturesForbidden(), IsOkAndHolds("two benchmarks run"));
  ASSERT_THAT(store_->ForbidCaptures(std::nullopt), IsOk());
  ASSERT_THAT(store_->ForbidCaptures(std::nullopt), IsOk());
  EXPECT_THAT(store_->CapturesForbidden(), IsOkAndHolds(std::nullopt));
}

// A writer outside holds the catalog up, as a disk that hangs does.
TEST_F(CaptureStoreTest, ItsUseIsKnownWhileTheCatalogCannotBeWritten) {
  StoreCapture(1);
  ASSERT_THAT(store_->ForbidCaptures("a benchmark runs"), IsOk());
  const absl::StatusOr<StoreUsage> before = store_->Usage();
  ASSERT_THAT(before, IsOk());
  EXPECT_FALSE(before->is_outdated);
  auto other = Database::Open(folder_ / "data" / "catalog.db", Database::Mode::kReadWrite);
  ASSERT_THAT(other, IsOk());
  ASSERT_THAT((*other)->Exec("BEGIN IMMEDIATE"), IsOk());
  std::thread writer([&] { EXPECT_THAT(store_->InsertCapture(NewRecord(IdOf(2))), IsOk()); });
  absl::StatusOr<StoreUsage> during = before;
  while (during.ok() && !during->is_outdated) during = store_->Usage();
  EXPECT_THAT(during, IsOk());
  EXPECT_THAT(store_->CapturesForbidden(), IsOkAndHolds("a benchmark runs"));
  EXPECT_THAT((*other)->Exec("COMMIT"), IsOk());
  writer.join();
  ASSERT_THAT(during, IsOk());
  EXPECT_EQ(during->capture_count, 1);
  EXPECT_EQ(during->capture_bytes, before->capture_bytes);
  const absl::StatusOr<StoreUsage> after = store_->Usage();
  ASSERT_THAT(after, IsOk());
  EXPECT_FALSE(after->is_outdated);
}

TEST_F(CaptureStoreTest, CapturesCanBeWrittenListedAndDeletedAtTheSameTime) {
  constexpr int kThreads = 4;
  constexpr int kCapturesEach = 8;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, t] {
      for (int i = 0; i < kCapturesEach; ++i) {
        const CaptureRecord stored = StoreCapture(t * 100 + i);
        EXPECT_THAT(store_->OpenReader(stored.id), IsOk());
        EXPECT_THAT(store_->ListCaptures({}, 5, ""), IsOk());
        EXPECT_THAT(store_->CheckRoom("uid:1000", IdOf(999)), IsOk());
        if (i % 2 == 1) {
          EXPECT_THAT(store_->DeleteCapture(stored.id), IsOk());
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto usage = store_->Usage();
  ASSERT_THAT(usage, IsOk());
  EXPECT_EQ(usage->capture_count, kThreads * kCapturesEach / 2);
}

}  // namespace
}  // namespace profd::store
