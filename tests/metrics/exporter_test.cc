// The pages that a scraper and a supervisor see, from the start of a daemon to its end.
#include "daemon/metrics/exporter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <thread>

#include "daemon/base/str_cat.h"
#include "daemon/base/unique_fd.h"
#include "tests/fakes/fake_target_port.h"
#include "tests/fakes/http_client.h"
#include "tests/fakes/status_matchers.h"
#include "tests/metrics/metrics_fixture.h"
#include "tests/store/store_fixture.h"

namespace profd::metrics {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class ExporterTest : public store::StoreFixture {
 protected:
  void SetUp() override {
    Reopen();
    auto exporter = Exporter::Start(
        {.listen = "127.0.0.1:0", .node_name = "node1", .version = "1.2.3"}, clock_);
    ASSERT_THAT(exporter, IsOk());
    exporter_ = *std::move(exporter);
  }
  void TearDown() override { exporter_.reset(); }
  void Open(std::function<std::vector<CaptureRecord>()> live) {
    exporter_->Open({.targets = targets_,
                     .store = *store_,
                     .live_captures = std::move(live),
                     .ingest = [] { return IngestNumbers{.refused_target_count = 3}; },
                     .access = [this] { return access_; },
                     .quotas = ledger_});
  }
  void Open() {
    Open([] { return std::vector<CaptureRecord>(); });
  }
  std::string Page(std::string_view path) { return profd::Get(exporter_->port(), path); }

  FakeTargetPort targets_;
  AccessNumbers access_;
  quota::Ledger ledger_{quota::Limits::ForMemory(int64_t{2} << 30), clock_};
  std::unique_ptr<Exporter> exporter_;
};

TEST_F(ExporterTest, HealthIsTheProcessAndReadinessTheDaemon) {
  EXPECT_THAT(Page("/healthz"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(Page("/readyz"), AllOf(StartsWith("HTTP/1.1 503 "), EndsWith("starting\n")));
  EXPECT_THAT(Page("/metrics"), StartsWith("HTTP/1.1 503 "));
  Open();
  EXPECT_THAT(Page("/readyz"), AllOf(StartsWith("HTTP/1.1 200 "), EndsWith("ready\n")));
  exporter_->Close();
  EXPECT_THAT(Page("/readyz"), AllOf(StartsWith("HTTP/1.1 503 "), EndsWith("stopping\n")));
  EXPECT_THAT(Page("/healthz"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(Page("/metrics"), StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(Page("/other"), StartsWith("HTTP/1.1 404 "));
}

TEST_F(ExporterTest, AStuckThreadIsNamedByHealthAndMetrics) {
  Watchdog watchdog(clock_);
  auto exporter = Exporter::Start(
      {.listen = "127.0.0.1:0", .node_name = "node1", .version = "1.2.3", .watchdog = &watchdog},
      clock_);
  ASSERT_THAT(exporter, IsOk());
  exporter_ = *std::move(exporter);
  Open([]() -> std::vector<CaptureRecord> { return {}; });
  WatchedThread watched(&watchdog, "profd-store", Watchdog::Work::kDisk);
  watched.Works();
  EXPECT_THAT(Page("/healthz"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(Page("/metrics"),
              AllOf(HasSubstr("profd_thread_unfed_seconds{thread=\"profd-store\"} 0"),
                    HasSubstr("profd_targets")));
  clock_.Advance(absl::Minutes(10));
  EXPECT_THAT(Page("/healthz"),
              AllOf(StartsWith("HTTP/1.1 503 "),
                    EndsWith("thread profd-store has made no progress for 600 s\n")));
  // Nothing of what might wait for that thread.
  EXPECT_THAT(Page("/metrics"),
              AllOf(StartsWith("HTTP/1.1 200 "),
                    HasSubstr("profd_thread_unfed_seconds{thread=\"profd-store\"} 600"),
                    HasSubstr("process_threads"), Not(HasSubstr("profd_targets"))));
  watched.Waits();
  EXPECT_THAT(Page("/healthz"), StartsWith("HTTP/1.1 200 "));
  exporter_.reset();
}

TEST_F(ExporterTest, ASocketThatWasRemovedOrReplacedIsNamedByHealth) {
  const std::filesystem::path path = folder_ / "control.sock";
  const auto bind_there = [&path] {
    const UniqueFd socket_fd(socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un address = {.sun_family = AF_UNIX};
    path.string().copy(address.sun_path, sizeof(address.sun_path) - 1);
    ASSERT_EQ(bind(socket_fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  };
  bind_there();
  exporter_->Open({.targets = targets_,
                   .store = *store_,
                   .live_captures = [] { return std::vector<CaptureRecord>(); },
                   .ingest = [] { return IngestNumbers(); },
                   .access = [this] { return access_; },
                   .quotas = ledger_,
                   .sockets = {SocketPlace(path), SocketPlace(folder_ / "absent.sock")}});
  EXPECT_THAT(Page("/healthz"), EndsWith("ok\n"));
  // The inode of a file that is there cannot be given to another.
  std::filesystem::rename(path, folder_ / "moved.sock");
  EXPECT_THAT(Page("/healthz"),
              AllOf(StartsWith("HTTP/1.1 503 "),
                    HasSubstr("control.sock was removed: new callers cannot reach")));
  bind_there();
  EXPECT_THAT(Page("/healthz"), HasSubstr("control.sock was replaced"));
  std::filesystem::rename(folder_ / "moved.sock", path);
  EXPECT_THAT(Page("/healthz"), EndsWith("ok\n"));
}

TEST_F(ExporterTest, AScrapeHasEverySourceInPrometheusText) {
  targets_.Add({.pid = 7,
                .metadata = {{"job", "evil\"}\n# x\\"}, {"rank", "0"}},
                .state = TargetState::kRunning,
                .step_mark_count = 5,
                .current_step = 4,
                .steps_per_second = 2});
  CaptureRecord live;
  live.state = CaptureState::kRecording;
  Open([live] { return std::vector<CaptureRecord>{live}; });
  exporter_->CaptureEnded(StoreCapture(1));
  const std::string page = Page("/metrics");
  EXPECT_THAT(page, HasSubstr("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
  for (const char* line :
       {"profd_build_info{version=\"1.2.3\"} 1\n", "profd_targets{state=\"running\"} 1\n",
        "profd_targets{state=\"stopped\"} 0\n", "profd_captures_live{state=\"RECORDING\"} 1\n",
        "# TYPE profd_captures_total counter\n",
        "profd_captures_total{origin=\"request\",reason=\"steps\",state=\"COMPLETE\"} 1\n",
        "profd_targets_refused_total 3\n", "profd_store_captures 1\n", "process_threads ",
        "profd_series_left_out{of=\"targets\"} 0\n"}) {
    EXPECT_THAT(page, HasSubstr(line));
  }
  // A job's name cannot write lines of its own.
  EXPECT_THAT(page, HasSubstr("profd_target_step_seconds{Hostname=\"node1\",hpc_job=\"evil\\\"}?# "
                              "x\\\\\",rank=\"0\",pod=\"\",namespace=\"\"} 0.5\n"));
}

TEST_F(ExporterTest, WhoIsLetInIsToldWhereItIsKnown) {
  Open();
  const std::string nothing_known = Page("/metrics");
  for (const char* name : {"profd_captures_allowed", "profd_policy_current",
                           "profd_certificate_not_after_seconds", "profd_schedule_windows_total"}) {
    EXPECT_THAT(nothing_known, Not(HasSubstr(name)));
  }
  access_ = {.captures_allowed = true,
             .policy_current = false,
             .certificate_end = absl::FromUnixSeconds(1'800'000'000),
             .cut_off_connections = 3};
  exporter_->counters().WindowEnded("captured");
  exporter_->counters().WindowEnded("missed");
  exporter_->counters().WindowEnded("missed");
  const std::string page = Page("/metrics");
  for (const char* line :
       {"profd_captures_allowed 1\n", "profd_policy_current 0\n",
        "profd_certificate_not_after_seconds 1800000000\n", "profd_callers_cut_off_total 3\n",
        "profd_schedule_windows_total{outcome=\"captured\"} 1\n",
        "profd_schedule_windows_total{outcome=\"missed\"} 2\n"}) {
    EXPECT_THAT(page, HasSubstr(line));
  }
}

TEST_F(ExporterTest, ScrapesThatHangLeaveHealthAndAreWaitedForAtTheEnd) {
  std::mutex mutex;
  std::condition_variable changed;
  int inside = 0;
  bool go_on = false;
  Open([&] {
    std::unique_lock lock(mutex);
    ++inside;
    changed.notify_all();
    changed.wait(lock, [&] { return go_on; });
    return std::vector<CaptureRecord>();
  });
  std::vector<std::jthread> scrapers;
  scrapers.reserve(Exporter::kMostScrapes);
  for (int i = 0; i < Exporter::kMostScrapes; ++i) {
    scrapers.emplace_back([this] { EXPECT_EQ(exporter_->AnswerTo("/metrics").code, 200); });
  }
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return inside == Exporter::kMostScrapes; });
  }
  EXPECT_THAT(Page("/metrics"), AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("others scrape")));
  EXPECT_THAT(Page("/healthz"), StartsWith("HTTP/1.1 200 "));
  std::jthread closer([this] { exporter_->Close(); });
  {
    const std::scoped_lock lock(mutex);
    go_on = true;
  }
  changed.notify_all();
  closer.join();
  scrapers.clear();
  EXPECT_THAT(Page("/readyz"), EndsWith("stopping\n"));
}

TEST(ExporterStartTest, WithoutAnAddressNobodyIsServed) {
  store::ManualClock clock;
  auto exporter = Exporter::Start({.node_name = "n"}, clock);
  ASSERT_THAT(exporter, IsOk());
  EXPECT_EQ((*exporter)->port(), 0);
  (*exporter)->CaptureEnded(CaptureRecord());
}

}  // namespace
}  // namespace profd::metrics
