// ImportCapture: what a caller sends becomes a capture of its own, or nothing is left of it.
#include <fstream>
#include <sstream>
#include <thread>

#include "daemon/base/str_cat.h"
#include "daemon/base/ulid.h"
#include "daemon/store/file/sha256.h"
#include "daemon/store/file/writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/report_messages.h"
#include "tests/fakes/status_matchers.h"
#include "tests/rpc/rpc_harness.h"

namespace profd::rpc {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr size_t kPieceBytes = 100'000;

std::string Sha256Of(std::string_view bytes) {
  store::Sha256 hash;
  hash.Append(bytes);
  return *hash.Finish();
}

class ImportTest : public RpcTest {
 protected:
  // What `profctl import` would make, of `ranges` ranges.
  std::string MakeFile(int64_t ranges = 100) {
    CaptureRecord record;
    record.id = NewUlid(clock_.Now());
    record.target = TargetOf(4000, /*uid=*/12345);
    record.create_time = clock_.Now();
    record.end_time = absl::InfiniteFuture();
    const std::filesystem::path made = folder_.path() / record.id;
    std::filesystem::create_directory(made);
    auto writer = store::CaptureFileWriter::Create(record, clock_, {.directory = made});
    EXPECT_THAT(writer, IsOk());
    EXPECT_THAT((*writer)->AddThread({.index = 0, .os_thread = 4000, .name = "main"}), IsOk());
    EXPECT_THAT((*writer)->AddName(1, "aten::mm"), IsOk());
    std::vector<RangeRow> rows;
    for (int64_t i = 0; i < ranges; ++i) {
      rows.push_back({.start_ns = 1000 + i * 100, .duration_ns = 50 + i * i % 37, .name = 1});
    }
    EXPECT_THAT((*writer)->Append(0, rows), IsOk());
    record.state = CaptureState::kComplete;
    record.ended_by = EndedBy::kDuration;
    record.start_unix_ns = 1'800'000'000'000'000'000;
    record.windows = {{.start_ns = 0, .end_ns = 1'000'000}};
    record.event_count = ranges;
    record.imported.source = "trace.json";
    (*writer)->SetSteps({{.index = 3, .start_ns = 0, .duration_ns = 500'000}});
    EXPECT_THAT((*writer)->Finish(record, 0), IsOk());
    std::ifstream file(made / StrCat(record.id, ".profd"), std::ios::binary);
    std::stringstream bytes;
    bytes << file.rdbuf();
    return bytes.str();
  }

  static v1::ImportCaptureRequest FirstMessage(std::string_view bytes) {
    v1::ImportCaptureRequest first;
    first.set_total_bytes(static_cast<int64_t>(bytes.size()));
    first.set_sha256(Sha256Of(bytes));
    return first;
  }

  // One import while it goes on.
  struct Upload {
    explicit Upload(Stubs& stubs) : writer(stubs.captures->ImportCapture(&context, &response)) {}
    bool Send(const v1::ImportCaptureRequest& message) { return writer->Write(message); }
    bool SendBytes(std::string_view bytes) {
      v1::ImportCaptureRequest message;
      for (size_t at = 0; at < bytes.size(); at += kPieceBytes) {
        message.set_data(std::string(bytes.substr(at, kPieceBytes)));
        if (!writer->Write(message)) return false;
      }
      return true;
    }
    Outcome Finish() {
      writer->WritesDone();
      Outcome outcome;
      outcome.status = writer->Finish();
      outcome.reason = rpc::ReasonOf(context);
      return outcome;
    }

    grpc::ClientContext context;
    v1::Capture response;
    std::unique_ptr<grpc::ClientWriter<v1::ImportCaptureRequest>> writer;
  };

  Outcome Import(Stubs& stubs, std::string_view bytes, v1::Capture* capture = nullptr,
                 const std::string& request_id = "") {
    Upload upload(stubs);
    v1::ImportCaptureRequest first = FirstMessage(bytes);
    first.set_request_id(request_id);
    if (upload.Send(first)) upload.SendBytes(bytes);
    const Outcome outcome = upload.Finish();
    if (capture != nullptr) *capture = upload.response;
    return outcome;
  }

  std::vector<std::string> FilesInStore() const {
    std::vector<std::string> names;
    for (const auto& entry :
         std::filesystem::directory_iterator(folder_.path() / "data" / "captures")) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }
  std::vector<CaptureRecord> Stored() {
    const auto page = store_->ListCaptures({}, 0, "");
    EXPECT_THAT(page, IsOk());
    return page->captures;
  }
};

TEST_F(ImportTest, IsACaptureOfTheCallersLikeAnyOther) {
  const std::string bytes = MakeFile();
  v1::Capture capture;
  ASSERT_THAT(Import(*me_, bytes, &capture), Succeeds());
  EXPECT_EQ(capture.state(), v1::Capture::COMPLETE);
  EXPECT_EQ(capture.imported().source(), "trace.json");
  EXPECT_EQ(capture.target().uid(), uid_);
  EXPECT_EQ(capture.requested_by_uid(), uid_);
  EXPECT_EQ(capture.event_count(), 100);

  v1::GetReportRequest ops;
  ops.set_capture(capture.name());
  ops.set_report("ops");
  v1::Report table;
  EXPECT_THAT(Do(*me_->reports, &v1::ReportService::Stub::GetReport, ops, &table), Succeeds());
  EXPECT_EQ(table.tables(0).row_count(), 1);
  v1::DeleteCaptureRequest remove;
  remove.set_name(capture.name());
  v1::Capture removed;
  EXPECT_THAT(Do(*me_->captures, &v1::CaptureService::Stub::DeleteCapture, remove, &removed),
              Succeeds());
  EXPECT_THAT(FilesInStore(), IsEmpty());
}

TEST_F(ImportTest, IsNoPartOfTheHistoryOfThisNode) {
  v1::Capture capture;
  ASSERT_THAT(Import(*me_, MakeFile(), &capture), Succeeds());
  EXPECT_EQ(capture.covered_steps(), 1);
  v1::GetHistoryRequest request;
  request.set_step_time(true);
  v1::Report response;
  ASSERT_THAT(Do(*me_->reports, &v1::ReportService::Stub::GetHistory, request, &response),
              Succeeds());
  EXPECT_THAT(IntsOf(TableOf(response, "points"), "pid"), IsEmpty());
  StoreCapture(uid_);
  ASSERT_THAT(Do(*me_->reports, &v1::ReportService::Stub::GetHistory, request, &response),
              Succeeds());
  EXPECT_THAT(IntsOf(TableOf(response, "points"), "pid"), SizeIs(1));
}

TEST_F(ImportTest, IsWrittenDown) {
  const std::string bytes = MakeFile();
  v1::Capture capture;
  ASSERT_THAT(Import(*me_, bytes, &capture), Succeeds());
  EXPECT_THAT(Import(*me_, "hello"), Fails(grpc::INVALID_ARGUMENT, "NOT_A_CAPTURE"));
  server_->Shutdown(absl::ZeroDuration());
  const auto log = store_->ListAudit({.method = "ImportCapture"}, 10);
  ASSERT_THAT(log, IsOk());
  ASSERT_THAT(log->entries, SizeIs(2));
  EXPECT_EQ(log->entries[1].outcome, "OK");
  EXPECT_EQ(log->entries[1].resource, capture.name());
  EXPECT_EQ(log->entries[1].principal, StrCat("uid:", uid_));
  EXPECT_GE(log->entries[1].bytes, static_cast<int64_t>(bytes.size()));
  EXPECT_EQ(log->entries[0].outcome, "INVALID_ARGUMENT");
  EXPECT_EQ(log->entries[0].reason, "NOT_A_CAPTURE");
}

TEST_F(ImportTest, RepeatedWithItsRequestIdGivesTheFirst) {
  const std::string bytes = MakeFile();
  v1::Capture first;
  v1::Capture second;
  ASSERT_THAT(Import(*me_, bytes, &first, "r1"), Succeeds());
  ASSERT_THAT(Import(*me_, bytes, &second, "r1"), Succeeds());
  EXPECT_EQ(first.name(), second.name());
  EXPECT_THAT(FilesInStore(), SizeIs(1));
}

TEST_F(ImportTest, WhatIsNotAsAnnouncedIsRefused) {
  const std::string bytes = MakeFile();
  const auto announced = [&](auto change) {
    Upload upload(*me_);
    v1::ImportCaptureRequest first = FirstMessage(bytes);
    change(first);
    if (upload.Send(first)) upload.SendBytes(bytes);
    return upload.Finish();
  };
  const std::string other(64, '0');
  EXPECT_THAT(announced([&](auto& first) { first.set_sha256(other); }), Fails(grpc::DATA_LOSS));
  EXPECT_THAT(announced([](auto& first) { first.set_sha256("ABC"); }),
              Fails(grpc::INVALID_ARGUMENT));
  EXPECT_THAT(announced([](auto& first) { first.set_total_bytes(first.total_bytes() - 1); }),
              Fails(grpc::DATA_LOSS));
  EXPECT_THAT(announced([](auto& first) { first.set_total_bytes(first.total_bytes() + 1); }),
              Fails(grpc::DATA_LOSS));
  EXPECT_THAT(announced([](auto& first) { first.set_total_bytes(-5); }),
              Fails(grpc::INVALID_ARGUMENT));
  EXPECT_THAT(announced([](auto& first) { first.set_total_bytes(int64_t{1} << 50); }),
              Fails(grpc::RESOURCE_EXHAUSTED, "TOO_LARGE"));
  EXPECT_THAT(announced([](auto& first) { first.set_request_id("a\nb"); }),
              Fails(grpc::INVALID_ARGUMENT));
  EXPECT_THAT(announced([](auto& first) { first.set_data(std::string(600 << 10, 'x')); }),
              Fails(grpc::INVALID_ARGUMENT));
  Upload nothing(*me_);
  EXPECT_THAT(nothing.Finish(), Fails(grpc::INVALID_ARGUMENT));
  EXPECT_THAT(Stored(), IsEmpty());
  EXPECT_THAT(FilesInStore(), IsEmpty());
}

TEST_F(ImportTest, ACutConnectionLeavesNothing) {
  const std::string bytes = MakeFile(100'000);
  {
    Upload upload(*me_);
    ASSERT_TRUE(upload.Send(FirstMessage(bytes)));
    ASSERT_TRUE(upload.SendBytes(std::string_view(bytes).substr(0, bytes.size() / 2)));
    upload.context.TryCancel();
    EXPECT_FALSE(upload.writer->Finish().ok());
  }
  // Once its line is in the audit log, the call is over.
  server_->Shutdown(absl::ZeroDuration());
  EXPECT_THAT(Stored(), IsEmpty());
  EXPECT_THAT(FilesInStore(), IsEmpty());
}

TEST_F(ImportTest, AnEndBeforeTheEndLeavesNothing) {
  const std::string bytes = MakeFile();
  Upload upload(*me_);
  ASSERT_TRUE(upload.Send(FirstMessage(bytes)));
  ASSERT_TRUE(upload.SendBytes(std::string_view(bytes).substr(0, bytes.size() / 2)));
  EXPECT_THAT(upload.Finish(), Fails(grpc::DATA_LOSS));
  EXPECT_THAT(Stored(), IsEmpty());
  EXPECT_THAT(FilesInStore(), IsEmpty());
}

TEST_F(ImportTest, TwoAtOnceBothCome) {
  const std::string bytes = MakeFile(200'000);
  v1::Capture captures[2];
  Outcome outcomes[2];
  {
    std::vector<std::jthread> callers;
    for (int i = 0; i < 2; ++i) {
      callers.emplace_back([&, i] {
        Stubs stubs(Connect());
        outcomes[i] = Import(stubs, bytes, &captures[i]);
      });
    }
  }
  EXPECT_THAT(outcomes[0], Succeeds());
  EXPECT_THAT(outcomes[1], Succeeds());
  EXPECT_NE(captures[0].name(), captures[1].name());
  EXPECT_THAT(FilesInStore(), SizeIs(2));
}

TEST_F(ImportTest, OnlyFewAtOnce) {
  ledger_.SetLimit(quota::Resource::kImports, {.capacity = 4});
  const std::string bytes = MakeFile();
  std::vector<std::unique_ptr<Upload>> open;
  for (int i = 0; i < 4; ++i) {
    open.push_back(std::make_unique<Upload>(*me_));
    ASSERT_TRUE(open.back()->Send(FirstMessage(bytes)));
  }
  // They have their places when they have their files.
  while (FilesInStore().size() < open.size()) std::this_thread::yield();
  EXPECT_THAT(Import(*me_, bytes), Fails(grpc::RESOURCE_EXHAUSTED, "QUOTA_EXCEEDED"));
  ASSERT_TRUE(open.front()->SendBytes(bytes));
  EXPECT_THAT(open.front()->Finish(), Succeeds());
  EXPECT_THAT(Import(*me_, bytes), Succeeds());
  for (auto& upload : open) upload->context.TryCancel();
}

TEST_F(ImportTest, EndsWhenTheDaemonDoes) {
  const std::string bytes = MakeFile();
  Upload upload(*me_);
  ASSERT_TRUE(upload.Send(FirstMessage(bytes)));
  server_->Shutdown(absl::ZeroDuration());
  EXPECT_FALSE(upload.Finish().status.ok());
  EXPECT_THAT(FilesInStore(), IsEmpty());
}

TEST_F(ImportTest, ATrickleEndsAndItsPlaceIsFree) {
  const std::string bytes = MakeFile();
  Upload upload(*me_);
  ASSERT_TRUE(upload.Send(FirstMessage(bytes)));
  while (FilesInStore().empty()) std::this_thread::yield();
  EXPECT_EQ(ledger_.TotalUse(quota::Resource::kImports), 1);
  clock_.Advance(absl::Minutes(5));
  v1::ImportCaptureRequest one_byte;
  one_byte.set_data(bytes.substr(0, 1));
  upload.Send(one_byte);
  EXPECT_THAT(upload.Finish(), Fails(grpc::DEADLINE_EXCEEDED, "IMPORT_TOO_SLOW"));
  EXPECT_EQ(ledger_.TotalUse(quota::Resource::kImports), 0);
  EXPECT_THAT(FilesInStore(), IsEmpty());
}

class ImportOfASlowSenderTest : public ImportTest {
 protected:
  void SetUp() override {
    options_.stalled_sender_timeout = absl::Milliseconds(50);
    StartServer();
  }
};

TEST_F(ImportOfASlowSenderTest, LosesItsPlace) {
  const std::string bytes = MakeFile();
  Upload upload(*me_);
  upload.Send(FirstMessage(bytes));  // Fails if this machine is slower than that.
  EXPECT_THAT(Outcome{.status = upload.writer->Finish()}, Fails(grpc::CANCELLED));
  server_->Shutdown(absl::ZeroDuration());
  EXPECT_THAT(FilesInStore(), IsEmpty());
}

class ImportByRulesTest : public ImportTest {
 protected:
  // Lets everybody do everything with what is of uid 7, and nothing else.
  class OfUidSeven final : public AccessRules {
   public:
    bool Allows(const Principal&, Verb, const Ownership& owner) const override {
      return owner.uid == 7;
    }
    bool AllowsAny(const Principal&, Verb) const override { return true; }
    bool AllowsAll(const Principal&, Verb) const override { return false; }
  };
  ImportByRulesTest() {
    access_rules_ = [] { return std::make_shared<OfUidSeven>(); };
  }
};

TEST_F(ImportByRulesTest, NeedsTheRightToCaptureWhatIsItsOwn) {
  EXPECT_THAT(Import(*me_, MakeFile()), Fails(grpc::PERMISSION_DENIED, "NOT_ALLOWED"));
  EXPECT_THAT(FilesInStore(), IsEmpty());
}

}  // namespace
}  // namespace profd::rpc
