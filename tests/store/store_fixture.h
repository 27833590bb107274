// A CaptureStore in a temporary folder, with steps to make captures in it.
#ifndef PROFD_TESTS_STORE_STORE_FIXTURE_H_
#define PROFD_TESTS_STORE_STORE_FIXTURE_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/str_cat.h"
#include "daemon/store/capture_store.h"
#include "daemon/store/file/sqlite_db.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/status_matchers.h"
#include "tests/store/file/capture_file_builder.h"

namespace profd::store {

class StoreFixture : public testing::Test {
 protected:
  void SetUp() override { Reopen(); }

  absl::StatusOr<std::unique_ptr<CaptureStore>> TryOpen() {
    CaptureStore::Options options;
    options.data_dir = folder_ / "data";
    options.max_total_bytes = max_total_bytes_;
    options.min_free_percent = 5;
    options.on_audit = on_audit_;
    options.keep_records = keep_records_;
    options.max_records = max_records_;
    options.summarize = summarize_;
    if (summarize_ops_ || summarize_devices_ || summarize_ranks_) {
      options.summarize =
          SummarizerOf([this](CaptureReader& reader, const SummaryRequest& request) {
            EventSummaries made;
            if (summarize_ops_) made.ops = summarize_ops_(reader);
            if (summarize_devices_ && request.devices) made.devices = summarize_devices_(reader);
            if (summarize_ranks_ && request.ranks) made.ranks = summarize_ranks_(reader);
            return made;
          });
    }
    options.recover_in_background = recover_in_background_;
    options.ledger = &ledger_;
    options.measure_disk = [this](const std::filesystem::path&) { return disk_; };
    return CaptureStore::Open(std::move(options), clock_);
  }
  // As a daemon that was killed and started again does.
  void Reopen() {
    store_.reset();
    auto store = TryOpen();
    ASSERT_THAT(store, IsOk());
    store_ = *std::move(store);
  }

  // Two steps of one thread, from 0 to 2,000 ns.
  static absl::Status AppendTwoSteps(CaptureSink& sink) {
    const std::vector<StepRow> marks = {{0, 10}, {1'000, 11}, {2'000, 12}};
    const std::vector<RangeRow> ranges = {{100, 200, 1, 0, 0, 0}, {1'200, 300, 1, 0, 0, 0}};
    if (auto status = sink.AddName(1, "op"); !status.ok()) return status;
    if (auto status = sink.AddThread({0, 42, "main"}); !status.ok()) return status;
    if (auto status = sink.Append(0, ranges); !status.ok()) return status;
    return sink.Append(0, marks);
  }
  static WindowRecord TwoSteps() {
    return {.start_ns = 0, .end_ns = 2'000, .first_step = 10, .end_step = 12};
  }

  // A capture that is COMPLETE and stored. `pin`: while it runs.
  CaptureRecord StoreCapture(CaptureRecord record, bool pin = false) {
    EXPECT_THAT(store_->InsertCapture(record), IsOk());
    if (pin) {
      EXPECT_THAT(store_->SetPinned(record.id, true), IsOk());
    }
    auto sink = store_->CreateFile(record);
    EXPECT_THAT(sink, IsOk());
    EXPECT_THAT(AppendTwoSteps(**sink), IsOk());
    record = FinishedRecord(record, TwoSteps());
    record.event_count = 5;
    EXPECT_THAT((*sink)->Finish(record, 0), IsOk());
    EXPECT_THAT(store_->UpdateCapture(record), IsOk());
    return record;
  }
  CaptureRecord StoreCapture(int number) { return StoreCapture(NewRecord(IdOf(number))); }

  // From now on there is room for what is stored, and for `more_bytes`.
  void CapAt(int64_t more_bytes) {
    const auto usage = store_->Usage();
    ASSERT_THAT(usage, IsOk());
    auto catalog = Database::Open(folder_ / "data" / "catalog.db", Database::Mode::kReadWrite);
    ASSERT_THAT(catalog, IsOk());
    const auto pages = (*catalog)->QueryInt("PRAGMA page_count");
    const auto page_bytes = (*catalog)->QueryInt("PRAGMA page_size");
    ASSERT_THAT(pages, IsOk());
    ASSERT_THAT(page_bytes, IsOk());
    store_->SetLimits(usage->capture_bytes + *pages * *page_bytes + more_bytes, 5);
  }

  CaptureRecord Get(std::string_view id) {
    auto record = store_->GetCapture(id);
    EXPECT_THAT(record, IsOk());
    return record.ok() ? *std::move(record) : CaptureRecord();
  }
  std::filesystem::path File(std::string_view id, std::string_view suffix) {
    return folder_ / "data" / "captures" / StrCat(id, suffix);
  }
  bool Exists(std::string_view id, std::string_view suffix) {
    return std::filesystem::exists(File(id, suffix));
  }
  std::vector<std::string> ListIds(const CaptureFilter& filter) {
    std::vector<std::string> ids;
    auto page = store_->ListCaptures(filter, 0, "");
    EXPECT_THAT(page, IsOk());
    for (const CaptureRecord& record : page->captures) ids.push_back(record.id);
    return ids;
  }

  TemporaryFolder folder_;
  ManualClock clock_;
  quota::Ledger ledger_{quota::Limits::ForMemory(int64_t{2} << 30), clock_};
  EventSummarizer summarize_;
  // Each makes one summary, instead of `summarize_`.
  std::function<absl::StatusOr<std::vector<OpSummaryRow>>(CaptureReader&)> summarize_ops_;
  std::function<absl::StatusOr<std::vector<DeviceSummaryRow>>(CaptureReader&)> summarize_devices_;
  std::function<absl::StatusOr<std::string>(CaptureReader&)> summarize_ranks_;
  bool recover_in_background_ = false;
  int64_t max_total_bytes_ = int64_t{1} << 30;
  std::function<void(const AuditEntry&, bool, bool)> on_audit_;
  absl::Duration keep_records_;  // The ids of IdOf() are of long ago.
  int64_t max_records_ = 100'000;
  DiskSpace disk_ = {.total_bytes = int64_t{1} << 40, .free_bytes = int64_t{1} << 39};
  std::unique_ptr<CaptureStore> store_;
};

}  // namespace profd::store

#endif  // PROFD_TESTS_STORE_STORE_FIXTURE_H_
