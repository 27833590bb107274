// A capture file that a caller sends becomes a capture like any other, or leaves nothing behind.
#include <sqlite3.h>

#include <fstream>
#include <functional>
#include <sstream>

#include "daemon/base/reason.h"
#include "daemon/base/ulid.h"
#include "daemon/store/data_dir.h"
#include "daemon/store/file/check.h"
#include "daemon/store/file/files.h"
#include "daemon/store/file/reader.h"
#include "tests/fakes/sanitized.h"
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

absl::Status Wanted() { return absl::OkStatus(); }

class CaptureImportTest : public StoreFixture {
 protected:
  CaptureImportTest() {
    alice_ = {.uid = 1000, .gid = 100, .principal = "uid:1000", .node = "here"};
  }

  // What `profctl import` would have made, with the record as `change` leaves it.
  std::filesystem::path MakeFile(const std::function<void(CaptureRecord&)>& change = {}) {
    CaptureRecord record = NewRecord(NewUlid(clock_.Now()));
    const std::filesystem::path made = folder_ / StrCat("made-", ++made_);
    std::filesystem::create_directory(made);
    auto writer = CaptureFileWriter::Create(record, clock_, {.directory = made});
    EXPECT_THAT(writer, IsOk());
    EXPECT_THAT(AppendTwoSteps(**writer), IsOk());
    record = FinishedRecord(record, TwoSteps());
    record.imported = {.source = "trace.json", .producer = "torch.profiler"};
    record.event_count = 5;
    if (change) change(record);
    EXPECT_THAT((*writer)->Finish(record, 0), IsOk());
    return made / StrCat(record.id, ".profd");
  }

  static std::string Slurp(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

  absl::StatusOr<CaptureRecord> Import(std::string_view bytes) {
    absl::StatusOr<std::unique_ptr<IncomingCapture>> incoming =
        store_->BeginImport(static_cast<int64_t>(bytes.size()));
    if (!incoming.ok()) return incoming.status();
    for (size_t at = 0; at < bytes.size(); at += 10'000) {
      absl::Status status = (*incoming)->Append(bytes.substr(at, 10'000));
      if (!status.ok()) return status;
    }
    return store_->FinishImport(*std::move(incoming), alice_, Wanted);
  }
  absl::StatusOr<CaptureRecord> ImportFile(const std::filesystem::path& path) {
    return Import(Slurp(path));
  }
  absl::StatusOr<CaptureRecord> ImportWith(const std::function<void(CaptureRecord&)>& change) {
    return ImportFile(MakeFile(change));
  }
  // A file in which `sql` was run by its maker.
  std::filesystem::path MakeFileAfter(const std::string& sql) {
    const std::filesystem::path path = MakeFile();
    sqlite3* db = nullptr;
    EXPECT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
    char* message = nullptr;
    EXPECT_EQ(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, &message), SQLITE_OK) << message;
    sqlite3_close(db);
    return path;
  }
  absl::StatusOr<CaptureRecord> ImportAfter(const std::string& sql) {
    return ImportFile(MakeFileAfter(sql));
  }

  std::vector<std::string> FilesInStore() {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "data" / "captures")) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }

  Importer alice_;
  int made_ = 0;
};

TEST_F(CaptureImportTest, BecomesACaptureOfTheImporters) {
  const std::filesystem::path file = MakeFile([](CaptureRecord& record) {
    record.target.uid = 0;
    record.target.workload.slurm_job = "88123";
    record.requested_by = "uid:0";
    record.schedule_id = "01HZZZZZZZZZZZZZZZZZZZZZZA";
    record.target.metadata = {{"rank", "3"}};
    record.imported.not_understood = {{"ph:Q", 7}};
    record.imported.members = {{"with_stack", "1"}};
  });
  const auto made = CaptureReader::Open(file);
  ASSERT_THAT(made, IsOk());

  const auto record = ImportFile(file);
  ASSERT_THAT(record, IsOk());
  EXPECT_EQ(record->id, (*made)->record().id);
  EXPECT_EQ(record->target.uid, 1000);
  EXPECT_EQ(record->target.workload, Workload());
  EXPECT_EQ(record->requested_by, "uid:1000");
  EXPECT_EQ(record->schedule_id, "");
  EXPECT_EQ(record->node, "node-a");
  EXPECT_EQ(record->target.metadata.at("rank"), "3");
  EXPECT_EQ(record->imported.source, "trace.json");
  EXPECT_EQ(record->imported.not_understood.at("ph:Q"), 7);
  EXPECT_EQ(record->imported.members, (std::map<std::string, std::string>{{"with_stack", "1"}}));
  EXPECT_EQ(record->state, CaptureState::kComplete);
  EXPECT_EQ(record->covered_steps, 2);

  // Its file, its row and what can be downloaded agree.
  const auto reader = store_->OpenReader(record->id);
  ASSERT_THAT(reader, IsOk());
  EXPECT_EQ((*reader)->record().target.uid, 1000);
  EXPECT_EQ((*reader)->record().requested_by, "uid:1000");
  EXPECT_EQ((*reader)->steps().size(), 2u);
  const auto before = ReadAll(**made);
  const auto after = ReadAll(**reader);
  ASSERT_THAT(before, IsOk());
  ASSERT_THAT(after, IsOk());
  ASSERT_EQ(before->ranges.size(), after->ranges.size());
  ASSERT_EQ(before->ranges[0].size(), after->ranges[0].size());
  EXPECT_EQ(before->ranges[0][1].start_ns, after->ranges[0][1].start_ns);
  EXPECT_EQ((*made)->record().start_unix_ns, (*reader)->record().start_unix_ns);
  EXPECT_THAT(Sha256OfFile(File(record->id, ".profd")), IsOkAndHolds(record->file_sha256));
  EXPECT_THAT(ListIds({}), ElementsAre(record->id));
  EXPECT_THAT(FilesInStore(), ElementsAre(StrCat(record->id, ".profd")));
}

TEST_F(CaptureImportTest, KeepsStepsThatItsMarksDoNotSay) {
  CaptureRecord record = NewRecord(NewUlid(clock_.Now()));
  const std::filesystem::path made = folder_ / "given";
  std::filesystem::create_directory(made);
  auto writer = CaptureFileWriter::Create(record, clock_, {.directory = made});
  ASSERT_THAT(writer, IsOk());
  ASSERT_THAT(AppendTwoSteps(**writer), IsOk());
  record = FinishedRecord(record, TwoSteps());
  record.imported.source = "trace.json";
  (*writer)->SetSteps({{.index = 10, .start_ns = 100, .duration_ns = 300}});
  ASSERT_THAT((*writer)->Finish(record, 0), IsOk());
  const auto imported = ImportFile(made / StrCat(record.id, ".profd"));
  ASSERT_THAT(imported, IsOk());
  EXPECT_EQ(imported->covered_steps, 1);
  const auto reader = store_->OpenReader(imported->id);
  ASSERT_THAT(reader, IsOk());
  ASSERT_EQ((*reader)->steps().size(), 1u);
  EXPECT_EQ((*reader)->steps()[0].start_ns, 100);
  EXPECT_EQ((*reader)->steps()[0].duration_ns, 300);
}

TEST_F(CaptureImportTest, HasSummariesAndCanBeDeleted) {
  summarize_ops_ = [](CaptureReader&) {
    return std::vector<OpSummaryRow>{{.name = "op", .calls = 2, .self_cpu_ns = 500}};
  };
  Reopen();
  const auto record = ImportWith({});
  ASSERT_THAT(record, IsOk());
  const auto summaries = store_->GetSummaries(record->id);
  ASSERT_THAT(summaries, IsOk());
  ASSERT_EQ(summaries->ops.size(), 1u);
  EXPECT_EQ(summaries->ops[0].name, "op");
  EXPECT_EQ(summaries->steps.size(), 1u);
  EXPECT_THAT(store_->DeleteCapture(record->id), IsOk());
  EXPECT_TRUE(Get(record->id).deleted);
  EXPECT_THAT(FilesInStore(), IsEmpty());
}

TEST_F(CaptureImportTest, SurvivesARestart) {
  const auto record = ImportWith({});
  ASSERT_THAT(record, IsOk());
  Reopen();
  EXPECT_EQ(Get(record->id).file_sha256, record->file_sha256);
  EXPECT_THAT(store_->OpenReader(record->id), IsOk());
}

TEST_F(CaptureImportTest, WithoutItsRowIsTakenOverAtTheNextStart) {
  const auto record = ImportWith({});
  ASSERT_THAT(record, IsOk());
  store_.reset();
  std::filesystem::remove(folder_ / "data" / "catalog.db");
  std::filesystem::remove(folder_ / "data" / "catalog.db-wal");
  Reopen();
  EXPECT_EQ(Get(record->id).requested_by, "uid:1000");
  EXPECT_EQ(Get(record->id).imported.source, "trace.json");
}

TEST_F(CaptureImportTest, TakesAnotherIdWhereItsOwnIsTaken) {
  const std::string bytes = Slurp(MakeFile());
  const auto first = Import(bytes);
  const auto second = Import(bytes);
  ASSERT_THAT(first, IsOk());
  ASSERT_THAT(second, IsOk());
  EXPECT_NE(first->id, second->id);
  EXPECT_EQ((*store_->OpenReader(second->id))->record().id, second->id);

  ASSERT_THAT(store_->DeleteCapture(first->id), IsOk());
  const auto third = Import(bytes);  // Deleted ones stay in the catalog.
  ASSERT_THAT(third, IsOk());
  EXPECT_NE(third->id, first->id);
}

TEST_F(CaptureImportTest, TakesAnotherIdWhereItsOwnIsOfAnotherTime) {
  for (const absl::Duration off : {absl::Hours(24), -absl::Hours(24)}) {
    const absl::Time then = clock_.Now() + off;
    const std::string id = NewUlid(then);
    const std::filesystem::path made = folder_ / id;
    std::filesystem::create_directory(made);
    CaptureRecord record = NewRecord(id);
    auto writer = CaptureFileWriter::Create(record, clock_, {.directory = made});
    ASSERT_THAT(writer, IsOk());
    ASSERT_THAT(AppendTwoSteps(**writer), IsOk());
    record = FinishedRecord(record, TwoSteps());
    record.imported.source = "trace.json";
    ASSERT_THAT((*writer)->Finish(record, 0), IsOk());
    const auto imported = ImportFile(made / StrCat(id, ".profd"));
    ASSERT_THAT(imported, IsOk());
    EXPECT_NE(imported->id, id);
    EXPECT_EQ(imported->id.substr(0, 7), NewUlid(clock_.Now()).substr(0, 7));
  }
}

TEST_F(CaptureImportTest, JoinsAGroupOfItsImporterOnly) {
  const std::string group = NewUlid(clock_.Now());
  const auto in_group = [&](CaptureRecord& record) { record.group_id = group; };
  EXPECT_EQ(ImportWith(in_group)->group_id, group);
  EXPECT_EQ(ImportWith(in_group)->group_id, group);
  alice_.principal = "uid:1001";
  EXPECT_EQ(ImportWith(in_group)->group_id, "");

  GroupRecord recorded;
  recorded.id = NewUlid(clock_.Now());
  ASSERT_THAT(store_->PutGroup(recorded), IsOk());
  EXPECT_EQ(ImportWith([&](CaptureRecord& record) { record.group_id = recorded.id; })->group_id,
            "");
  EXPECT_EQ(ImportWith([](CaptureRecord& record) { record.group_id = "../../x"; })->group_id, "");
}

TEST_F(CaptureImportTest, CleansWhatTheRecordSays) {
  const auto record = ImportWith([](CaptureRecord& untrusted) {
    untrusted.imported.source = "\x1b[2Jtrace.json";
    untrusted.target.command = "a\nb";
    untrusted.gpu.devices = {{.name = "\x1b]0;x\x07"}};
    untrusted.node = std::string(10'000, 'n');
    untrusted.event_count = int64_t{1} << 60;
    untrusted.request_id = "theirs";
  });
  ASSERT_THAT(record, IsOk());
  EXPECT_EQ(record->imported.source, "?[2Jtrace.json");
  EXPECT_EQ(record->target.command, "a?b");
  EXPECT_EQ(record->gpu.devices[0].name, "?]0;x?");
  EXPECT_LE(record->node.size(), 255u);
  EXPECT_EQ(record->event_count, 5);  // As many as there are.
  EXPECT_EQ(record->request_id, "");
}

TEST_F(CaptureImportTest, RefusesRecordsThatNoImporterWrites) {
  const auto refused = [&](const std::function<void(CaptureRecord&)>& change) {
    EXPECT_THAT(ImportWith(change), StatusIs(StatusCode::kInvalidArgument));
  };
  refused([](CaptureRecord& record) { record.imported.source.clear(); });
  refused([](CaptureRecord& record) { record.state = CaptureState::kFailed; });
  refused([](CaptureRecord& record) { record.state = CaptureState::kRecording; });
  refused([](CaptureRecord& record) { record.windows.clear(); });
  refused([](CaptureRecord& record) { record.windows[0].end_ns = -1; });
  refused([](CaptureRecord& record) { record.windows[0].end_step = 3; });
  refused([](CaptureRecord& record) { record.start_unix_ns = 0; });
  refused([](CaptureRecord& record) { record.event_count = -1; });
  refused([](CaptureRecord& record) { record.drops[0] = -1; });
  refused([](CaptureRecord& record) { record.imported.time_unit_ns = 0; });
  refused([](CaptureRecord& record) { record.spec.labels = {{"NOT A KEY", "x"}}; });
  refused([](CaptureRecord& record) { record.spec.display_name = "a\nb"; });
  EXPECT_THAT(ListIds({}), IsEmpty());
  EXPECT_THAT(FilesInStore(), IsEmpty());
}

TEST_F(CaptureImportTest, RefusesWhatIsNoCapture) {
  const auto no_capture =
      AllOf(StatusIs(StatusCode::kInvalidArgument),
            testing::ResultOf([](const auto& result) { return ReasonOf(result.status()); },
                              "NOT_A_CAPTURE"));
  const std::string bytes = Slurp(MakeFile());
  EXPECT_THAT(Import("hello"), no_capture);
  EXPECT_THAT(Import(std::string_view(bytes).substr(0, bytes.size() - 1)), no_capture);
  EXPECT_THAT(Import(bytes + "x"), no_capture);
  EXPECT_THAT(ImportAfter("CREATE TRIGGER t AFTER INSERT ON meta BEGIN SELECT 1; END"), no_capture);
  EXPECT_THAT(ImportAfter("CREATE TABLE more(x)"), no_capture);
  EXPECT_THAT(ImportAfter("CREATE VIEW v AS SELECT 1"), no_capture);
  EXPECT_THAT(ImportAfter("UPDATE meta SET value=0 WHERE key='sealed'"), no_capture);
  EXPECT_THAT(ImportAfter("UPDATE strings SET value='other'"), no_capture);  // Not its checksum.
  EXPECT_THAT(ImportAfter("UPDATE chunks SET data=zeroblob(100)"), no_capture);
  EXPECT_THAT(ImportAfter("DELETE FROM chunks"), no_capture);
  EXPECT_THAT(FilesInStore(), IsEmpty());
}

TEST_F(CaptureImportTest, RefusesMoreThanItWouldReadForAnybody) {
  const auto too_large = StatusIs(StatusCode::kInvalidArgument, HasSubstr("are taken"));
  EXPECT_THAT(ImportAfter("WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i+1 FROM n WHERE "
                          "i<70000) INSERT INTO threads SELECT i,1,1,'' FROM n"),
              too_large);
  EXPECT_THAT(ImportAfter("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE "
                          "i<1100000) INSERT INTO steps SELECT 9,i,i,1 FROM n"),
              too_large);
  EXPECT_THAT(ImportAfter("WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i+1 FROM n WHERE i<6) "
                          "INSERT INTO strings SELECT i, zeroblob(40000000) FROM n"),
              too_large);
}

// Bytes of a real file, changed here and there: it is refused, or all of it can be read.
TEST_F(CaptureImportTest, HoldsAgainstDamageAnywhere) {
  const std::string good = Slurp(MakeFile());
  std::mt19937 random(1);
  constexpr int kRounds = kSanitized ? 60 : 150;
  int kept = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::string bytes = good;
    for (int i = 0; i <= round % 4; ++i) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    const auto record = Import(bytes);
    if (!record.ok()) continue;
    ++kept;
    const auto reader = store_->OpenReader(record->id);
    ASSERT_THAT(reader, IsOk());
    EXPECT_THAT(ReadAll(**reader), IsOk());
  }
  // Most bytes of a file this small are in no use.
  EXPECT_GT(kept, 0);
  EXPECT_LT(kept, kRounds);
  EXPECT_EQ(FilesInStore().size(), static_cast<size_t>(kept));
}

TEST_F(CaptureImportTest, RefusesWhatDoesNotFitBeforeItComes) {
  EXPECT_THAT(store_->BeginImport(0), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(store_->BeginImport(-1), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(store_->BeginImport(CaptureStore::kMaxImportBytes + 1),
              StatusIs(StatusCode::kResourceExhausted));
  EXPECT_THAT(store_->BeginImport(max_total_bytes_ + 1), StatusIs(StatusCode::kResourceExhausted));

  // 50 GiB are kept free of 1 TiB.
  disk_.free_bytes = disk_.total_bytes / 100 * 5 + (100 << 20);
  const auto first = store_->BeginImport(60 << 20);
  ASSERT_THAT(first, IsOk());
  EXPECT_THAT(store_->BeginImport(60 << 20),
              StatusIs(StatusCode::kResourceExhausted, HasSubstr("no room")));
  EXPECT_THAT(store_->BeginImport(30 << 20), IsOk());
}

TEST_F(CaptureImportTest, WhatIsOnItsWayCountsUntilItIsGone) {
  disk_.free_bytes = disk_.total_bytes / 100 * 5 + (100 << 20);
  { ASSERT_THAT(store_->BeginImport(80 << 20), IsOk()); }
  EXPECT_THAT(store_->BeginImport(80 << 20), IsOk());
}

TEST_F(CaptureImportTest, RefusesMoreOrLessThanWasAnnounced) {
  auto incoming = store_->BeginImport(10);
  ASSERT_THAT(incoming, IsOk());
  EXPECT_THAT((*incoming)->Append("12345678901"), StatusIs(StatusCode::kOutOfRange));
  EXPECT_THAT((*incoming)->Append("12345"), IsOk());
  EXPECT_THAT(store_->FinishImport(*std::move(incoming), alice_, Wanted),
              StatusIs(StatusCode::kDataLoss));
  EXPECT_THAT(FilesInStore(), IsEmpty());
}

// Two calls may have sent it at once, neither of which saw the other's capture when it began.
TEST_F(CaptureImportTest, ARequestThatCameTwiceIsKeptOnce) {
  const std::string bytes = Slurp(MakeFile());
  alice_.request_id = "once";
  const auto first = Import(bytes);
  ASSERT_THAT(first, IsOk());
  const auto second = Import(bytes);
  ASSERT_THAT(second, IsOk());
  EXPECT_EQ(second->id, first->id);
  // Another caller's request is another one, and so is one without an id.
  alice_.principal = "uid:1002";
  const auto others = Import(bytes);
  ASSERT_THAT(others, IsOk());
  EXPECT_NE(others->id, first->id);
  alice_.request_id.clear();
  ASSERT_THAT(Import(bytes), IsOk());
  EXPECT_THAT(ListIds({}), SizeIs(3));
  EXPECT_THAT(FilesInStore(), SizeIs(3));
}

TEST_F(CaptureImportTest, EndsWhereNobodyWantsItAnyMore) {
  const std::string bytes = Slurp(MakeFile());
  auto incoming = store_->BeginImport(static_cast<int64_t>(bytes.size()));
  ASSERT_THAT(incoming, IsOk());
  ASSERT_THAT((*incoming)->Append(bytes), IsOk());
  EXPECT_THAT(store_->FinishImport(*std::move(incoming), alice_,
                                   [] { return absl::CancelledError("gone"); }),
              StatusIs(StatusCode::kCancelled));
  EXPECT_THAT(ListIds({}), IsEmpty());
  EXPECT_THAT(FilesInStore(), IsEmpty());
}

// Also while checksums are compared, which takes longest for a large file.
TEST_F(CaptureImportTest, NobodyWantingItEndsTheSearchForDamage) {
  const std::string bytes = Slurp(MakeFileAfter("UPDATE chunks SET data=zeroblob(100)"));
  auto incoming = store_->BeginImport(static_cast<int64_t>(bytes.size()));
  ASSERT_THAT(incoming, IsOk());
  ASSERT_THAT((*incoming)->Append(bytes), IsOk());
  int asked = 0;
  const auto once = [&asked] {
    return ++asked == 1 ? absl::OkStatus() : absl::CancelledError("gone");
  };
  EXPECT_THAT(store_->FinishImport(*std::move(incoming), alice_, once),
              StatusIs(StatusCode::kCancelled));
  EXPECT_EQ(asked, 2);
}

TEST_F(CaptureImportTest, WhatADeadDaemonReceivedIsRemoved) {
  auto incoming = store_->BeginImport(10);
  ASSERT_THAT(incoming, IsOk());
  ASSERT_THAT((*incoming)->Append("12345"), IsOk());
  const std::filesystem::path path = (*incoming)->path();
  const std::filesystem::path copy = folder_ / "copy";
  std::filesystem::copy(path, copy);
  incoming->reset();
  std::filesystem::copy(copy, path);
  std::filesystem::copy(copy, path.string() + "-journal");
  Reopen();
  EXPECT_THAT(FilesInStore(), IsEmpty());
}

TEST_F(CaptureImportTest, MakesRoomOnlyOnceItIsOne) {
  const CaptureRecord old = StoreCapture(1);
  CapAt(1);
  EXPECT_THAT(Import("hello"), Not(IsOk()));
  EXPECT_FALSE(Get(old.id).deleted);
  ASSERT_THAT(ImportWith({}), IsOk());
  EXPECT_TRUE(Get(old.id).deleted);
}

TEST_F(CaptureImportTest, MessagesDoNotTellWhereFilesAre) {
  EXPECT_THAT(std::string(Import("hello").status().message()),
              Not(HasSubstr(folder_.path().string())));
}

}  // namespace
}  // namespace profd::store
