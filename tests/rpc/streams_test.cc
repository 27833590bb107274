// Every RPC with a stream of answers; and what many callers, and the end, do to the server.
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "daemon/rpc/admission/control_listener.h"
#include "daemon/rpc/services/download.h"
#include "daemon/store/file/files.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "tests/fakes/status_matchers.h"
#include "tests/rpc/rpc_harness.h"

namespace profd::rpc {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using ::testing::SizeIs;

// Their trace has some 35 MB: far more than gRPC takes for a caller that does not read.
constexpr int64_t kManyRanges = 300'000;

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

class StreamsTest : public RpcTest {
 protected:
  static std::string NameOf(const CaptureRecord& record) { return "captures/" + record.id; }

  std::string CreateLive(int64_t pid = 10) {
    v1::CreateCaptureRequest request;
    request.set_target("targets/" + std::to_string(targets_.Add(MyTarget(pid))));
    request.mutable_spec()->set_steps(1);
    request.mutable_spec()->set_warmup_steps(0);
    v1::Capture capture;
    EXPECT_THAT(Do(*me_->captures, &v1::CaptureService::Stub::CreateCapture, request, &capture),
                Succeeds());
    return capture.name();
  }

  struct Downloaded {
    std::string data;
    Outcome outcome;
    int64_t first_offset = -1;
    int64_t total_bytes = -1;
    std::string sha256;
    int messages = 0;
    size_t largest = 0;
  };
  Downloaded Download(const std::string& name, int64_t offset) {
    grpc::ClientContext context;
    v1::DownloadCaptureRequest request;
    request.set_name(name);
    request.set_offset(offset);
    const auto reader = me_->captures->DownloadCapture(&context, request);
    Downloaded got;
    v1::DownloadCaptureResponse piece;
    while (reader->Read(&piece)) {
      if (got.messages++ == 0) got.first_offset = piece.offset();
      EXPECT_EQ(piece.offset(), offset + std::ssize(got.data));
      got.data += piece.data();
      got.total_bytes = piece.total_bytes();
      got.sha256 = piece.sha256();
      got.largest = std::max(got.largest, piece.data().size());
    }
    got.outcome.status = reader->Finish();
    got.outcome.reason = rpc::ReasonOf(context);
    return got;
  }

  Outcome Export(const std::string& name, v1::ExportTraceRequest::Format format,
                 std::string* data) {
    grpc::ClientContext context;
    v1::ExportTraceRequest request;
    request.set_capture(name);
    request.set_format(format);
    const auto reader = me_->exports->ExportTrace(&context, request);
    v1::ExportTraceResponse piece;
    while (reader->Read(&piece)) {
      EXPECT_LE(piece.data().size(), 1u << 20);
      data->append(piece.data());
    }
    Outcome outcome;
    outcome.status = reader->Finish();
    outcome.reason = rpc::ReasonOf(context);
    return outcome;
  }

  Outcome GetNode(Stubs& stubs) {
    v1::Node node;
    return Do(*stubs.node, &v1::NodeService::Stub::GetNode, v1::GetNodeRequest(), &node);
  }
};

// ---- watching a capture ----

TEST_F(StreamsTest, AWatchShowsEveryStateUpToTheEnd) {
  v1::WatchCaptureRequest request;
  request.set_name(CreateLive());
  grpc::ClientContext context;
  const auto reader = me_->captures->WatchCapture(&context, request);
  std::vector<v1::Capture::State> states;
  v1::Capture capture;
  while (reader->Read(&capture)) {
    if (states.empty()) RunToTheEnd(targets_.LastArm().request.capture_id);
    if (states.empty() || states.back() != capture.state()) states.push_back(capture.state());
  }
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_THAT(states,
              ElementsAre(v1::Capture::ARMING, v1::Capture::WAITING_STEP, v1::Capture::RECORDING,
                          v1::Capture::DRAINING, v1::Capture::STORING, v1::Capture::COMPLETE));
  ASSERT_EQ(capture.steps_size(), 1) << "the last message carries the steps";
  EXPECT_EQ(capture.steps(0).index(), 102);
}

TEST_F(StreamsTest, AWatchOfWhatHasEndedIsOneMessage) {
  v1::WatchCaptureRequest request;
  request.set_name(NameOf(StoreCapture(uid_)));
  grpc::ClientContext context;
  const auto reader = me_->captures->WatchCapture(&context, request);
  v1::Capture capture;
  ASSERT_TRUE(reader->Read(&capture));
  EXPECT_EQ(capture.state(), v1::Capture::COMPLETE);
  EXPECT_EQ(capture.steps_size(), 1);
  EXPECT_FALSE(reader->Read(&capture));
  EXPECT_TRUE(reader->Finish().ok());
}

TEST_F(StreamsTest, AWatchOfNothingFails) {
  v1::WatchCaptureRequest request;
  request.set_name("captures/00000000000000000000000000");
  grpc::ClientContext context;
  const auto reader = me_->captures->WatchCapture(&context, request);
  v1::Capture capture;
  EXPECT_FALSE(reader->Read(&capture));
  EXPECT_EQ(reader->Finish().error_code(), grpc::NOT_FOUND);
}

TEST_F(StreamsTest, ACancelledWatchLeavesTheCaptureAlone) {
  const std::string name = CreateLive();
  {
    v1::WatchCaptureRequest request;
    request.set_name(name);
    grpc::ClientContext context;
    const auto reader = me_->captures->WatchCapture(&context, request);
    v1::Capture capture;
    ASSERT_TRUE(reader->Read(&capture));
    context.TryCancel();
    while (reader->Read(&capture)) {
    }
    EXPECT_EQ(reader->Finish().error_code(), grpc::CANCELLED);
  }
  EXPECT_THAT(manager_->Live(), SizeIs(1));
  RunToTheEnd(targets_.LastArm().request.capture_id);
  manager_->DrainForTesting();
  EXPECT_THAT(manager_->Live(), SizeIs(0));
}

// ---- watching targets ----

TEST_F(StreamsTest, ATargetWatchTellsOfComingGoingAndCapturing) {
  targets_.Add(MyTarget(10));
  grpc::ClientContext context;
  const auto reader = me_->targets->WatchTargets(&context, v1::WatchTargetsRequest());
  v1::WatchTargetsResponse response;
  ASSERT_TRUE(reader->Read(&response));
  ASSERT_EQ(response.targets_size(), 1);
  const TargetNumber second = targets_.Add(MyTarget(20));
  ASSERT_TRUE(reader->Read(&response));
  ASSERT_EQ(response.targets_size(), 2);
  CreateLive(30);
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.targets_size(), 3);
  targets_.Armed(targets_.LastArm().request.capture_id);
  // Its state and its arming may come as one message or two.
  while (response.targets(2).state() != v1::Target::CAPTURING) {
    ASSERT_TRUE(reader->Read(&response));
  }
  targets_.Remove(second);
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.targets_size(), 2);
  context.TryCancel();
  EXPECT_FALSE(reader->Read(&response));
  EXPECT_EQ(reader->Finish().error_code(), grpc::CANCELLED);
}

// ---- downloads ----

TEST_F(StreamsTest, ADownloadIsTheFile) {
  const CaptureRecord record = StoreCapture(uid_, 300'000);
  const std::filesystem::path path = folder_.path() / "data/captures" / (record.id + ".profd");
  const std::string file = ReadFile(path);
  const Downloaded got = Download(NameOf(record), 0);
  EXPECT_THAT(got.outcome, Succeeds());
  EXPECT_EQ(got.data, file);
  EXPECT_EQ(got.total_bytes, std::ssize(file));
  EXPECT_EQ(got.sha256, *store::Sha256OfFile(path));
  EXPECT_LE(got.largest, 1u << 20);
}

TEST_F(StreamsTest, ADownloadResumesAtAnyOffset) {
  const CaptureRecord record = StoreCapture(uid_, 300'000);
  const std::string file = ReadFile(folder_.path() / "data/captures" / (record.id + ".profd"));
  const auto size = std::ssize(file);
  constexpr int64_t kPiece = 512 << 10;
  ASSERT_GT(size, 2 * kPiece);
  for (const int64_t offset :
       {int64_t{0}, int64_t{1}, kPiece - 1, kPiece, kPiece + 1, size / 2, size - 1, size}) {
    if (offset > size) continue;
    const Downloaded got = Download(NameOf(record), offset);
    EXPECT_THAT(got.outcome, Succeeds()) << offset;
    EXPECT_EQ(got.first_offset, offset) << "also the empty rest says where it is";
    EXPECT_EQ(got.total_bytes, size);
    EXPECT_EQ(got.data, file.substr(static_cast<size_t>(offset))) << offset;
  }
}

TEST_F(StreamsTest, ADownloadSaysWhyNot) {
  const CaptureRecord record = StoreCapture(uid_);
  EXPECT_THAT(Download(NameOf(record), -1).outcome, Fails(grpc::OUT_OF_RANGE));
  EXPECT_THAT(Download(NameOf(record), record.file_bytes + 1).outcome, Fails(grpc::OUT_OF_RANGE));
  EXPECT_THAT(Download("captures/00000000000000000000000000", 0).outcome, Fails(grpc::NOT_FOUND));
  EXPECT_THAT(Download(NameOf(StoreFailedCapture(uid_)), 0).outcome,
              Fails(grpc::NOT_FOUND, "NO_EVENTS"));
  EXPECT_THAT(Download(CreateLive(), 0).outcome, Fails(grpc::FAILED_PRECONDITION, "CAPTURE_LIVE"));
}

TEST_F(StreamsTest, AFileThatIsNotTheOneStoredIsDataLoss) {
  const CaptureRecord record = StoreCapture(uid_);
  const std::filesystem::path file = folder_.path() / "data/captures" / (record.id + ".profd");
  std::filesystem::resize_file(file, std::filesystem::file_size(file) + 4096);
  EXPECT_THAT(Download(NameOf(record), 0).outcome, Fails(grpc::DATA_LOSS));
}

TEST_F(StreamsTest, ACancelledDownloadEnds) {
  const CaptureRecord record = StoreCapture(uid_, 300'000);
  grpc::ClientContext context;
  v1::DownloadCaptureRequest request;
  request.set_name(NameOf(record));
  const auto reader = me_->captures->DownloadCapture(&context, request);
  v1::DownloadCaptureResponse piece;
  ASSERT_TRUE(reader->Read(&piece));
  context.TryCancel();
  while (reader->Read(&piece)) {
  }
  const grpc::Status status = reader->Finish();
  EXPECT_TRUE(status.ok() || status.error_code() == grpc::CANCELLED)
      << status.error_code() << ": " << status.error_message();
  EXPECT_THAT(GetNode(*me_), Succeeds());
}

// ---- exports ----

TEST_F(StreamsTest, ExportsAreWholeFiles) {
  const std::string name = NameOf(StoreCapture(uid_, 1000));
  std::string chrome;
  ASSERT_THAT(Export(name, v1::ExportTraceRequest::CHROME, &chrome), Succeeds());
  EXPECT_THAT(chrome, AllOf(HasSubstr("traceEvents"), HasSubstr("ProfilerStep#100")));
  EXPECT_EQ(chrome.front(), '{');
  std::string gzip;
  ASSERT_THAT(Export(name, v1::ExportTraceRequest::CHROME_GZ, &gzip), Succeeds());
  EXPECT_EQ(gzip.substr(0, 2), "\x1f\x8b");
  std::string perfetto;
  ASSERT_THAT(Export(name, v1::ExportTraceRequest::PERFETTO, &perfetto), Succeeds());
  EXPECT_EQ(perfetto.front(), '\x0a') << "a TracePacket";
}

TEST_F(StreamsTest, ExportsSayWhyThereIsNone) {
  std::string data;
  EXPECT_THAT(Export("captures/00000000000000000000000000", v1::ExportTraceRequest::CHROME, &data),
              Fails(grpc::NOT_FOUND));
  EXPECT_THAT(Export(NameOf(StoreCapture(uid_)), v1::ExportTraceRequest::FORMAT_UNSPECIFIED, &data),
              Fails(grpc::INVALID_ARGUMENT));
  EXPECT_THAT(Export(CreateLive(), v1::ExportTraceRequest::CHROME, &data),
              Fails(grpc::FAILED_PRECONDITION, "CAPTURE_LIVE"));
  EXPECT_THAT(Export(NameOf(StoreFailedCapture(uid_)), v1::ExportTraceRequest::CHROME, &data),
              Fails(grpc::NOT_FOUND, "NO_EVENTS"));
}

TEST_F(StreamsTest, ACancelledExportFreesTheReportThread) {
  const std::string name = NameOf(StoreCapture(uid_, kManyRanges));
  {
    grpc::ClientContext context;
    v1::ExportTraceRequest request;
    request.set_capture(name);
    request.set_format(v1::ExportTraceRequest::CHROME);
    const auto reader = me_->exports->ExportTrace(&context, request);
    v1::ExportTraceResponse piece;
    ASSERT_TRUE(reader->Read(&piece));
    context.TryCancel();
    while (reader->Read(&piece)) {
    }
    EXPECT_EQ(reader->Finish().error_code(), grpc::CANCELLED);
  }
  std::string data;
  EXPECT_THAT(Export(name, v1::ExportTraceRequest::CHROME_GZ, &data), Succeeds());
}

class StalledReaderTest : public StreamsTest {
 protected:
  void SetUp() override {
    options_.stalled_reader_timeout = absl::Milliseconds(200);
    StartServer();
  }
};

TEST_F(StalledReaderTest, AReaderThatTakesNothingLosesItsExport) {
  const std::string name = NameOf(StoreCapture(uid_, 300'000));
  grpc::ClientContext context;
  v1::ExportTraceRequest request;
  request.set_capture(name);
  request.set_format(v1::ExportTraceRequest::CHROME);
  const auto stalled = me_->exports->ExportTrace(&context, request);
  v1::ExportTraceResponse piece;
  ASSERT_TRUE(stalled->Read(&piece));

  // Other reports do not wait for it.
  v1::GetReportRequest steps;
  steps.set_capture(name);
  steps.set_report("steps");
  v1::Report table;
  EXPECT_THAT(Do(*me_->reports, &v1::ReportService::Stub::GetReport, steps, &table), Succeeds());
  ASSERT_TRUE(AwaitEndOf("ExportTrace"));  // The daemon has given it up.
  while (stalled->Read(&piece)) {
  }
  EXPECT_EQ(stalled->Finish().error_code(), grpc::CANCELLED);
}

class SmallQueueTest : public StreamsTest {
 protected:
  void SetUp() override {
    options_.max_queued_reports_per_principal = 1;
    options_.max_calls_per_principal = 6;
    StartServer();
  }
};

TEST_F(SmallQueueTest, TooManyReportsAreRefused) {
  const std::string name = NameOf(StoreCapture(uid_, kManyRanges));
  v1::ExportTraceRequest request;
  request.set_capture(name);
  request.set_format(v1::ExportTraceRequest::CHROME);
  grpc::ClientContext holding;
  const auto holder = me_->exports->ExportTrace(&holding, request);
  v1::ExportTraceResponse piece;
  ASSERT_TRUE(holder->Read(&piece)) << "it has begun";
  // Its reader takes nothing more, so a second one begins.
  grpc::ClientContext second_holding;
  const auto second = me_->exports->ExportTrace(&second_holding, request);
  ASSERT_TRUE(second->Read(&piece));
  // One may wait; of two, one is refused at once.
  grpc::ClientContext contexts[2];
  std::unique_ptr<grpc::ClientReader<v1::ExportTraceResponse>> readers[2];
  for (int i = 0; i < 2; ++i) readers[i] = me_->exports->ExportTrace(&contexts[i], request);
  std::vector<grpc::StatusCode> codes;
  absl::Notification refused;
  std::thread waiter[2];
  absl::Mutex mu;
  for (int i = 0; i < 2; ++i) {
    waiter[i] = std::thread([&, i] {
      v1::ExportTraceResponse waiting_piece;
      while (readers[i]->Read(&waiting_piece)) {
      }
      const grpc::StatusCode code = readers[i]->Finish().error_code();
      absl::MutexLock lock(&mu);
      codes.push_back(code);
      if (codes.size() == 1) refused.Notify();
    });
  }
  refused.WaitForNotification();
  holding.TryCancel();
  for (std::thread& thread : waiter) thread.join();
  EXPECT_THAT(codes, ElementsAre(grpc::RESOURCE_EXHAUSTED, grpc::OK));
  while (holder->Read(&piece)) {
  }
  holder->Finish();
  second_holding.TryCancel();
  while (second->Read(&piece)) {
  }
  second->Finish();
}

TEST_F(SmallQueueTest, TooManyStreamsOfOneUidAreRefused) {
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::WatchTargetsResponse>>> readers;
  v1::WatchTargetsResponse response;
  for (int i = 0; i < 6; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    readers.push_back(me_->targets->WatchTargets(contexts.back().get(), {}));
    ASSERT_TRUE(readers.back()->Read(&response));
  }
  EXPECT_THAT(GetNode(*me_), Fails(grpc::RESOURCE_EXHAUSTED));
  for (int i = 0; i < 6; ++i) {
    contexts[i]->TryCancel();
    while (readers[i]->Read(&response)) {
    }
    readers[i]->Finish();
  }
  // The server hears of a cancellation a moment after the caller.
  Outcome outcome = GetNode(*me_);
  const absl::Time give_up = absl::Now() + absl::Seconds(60);
  while (!outcome.status.ok() && absl::Now() < give_up) outcome = GetNode(*me_);
  EXPECT_THAT(outcome, Succeeds());
}

// ---- the memory of requests and answers ----

class KeptRequestTest : public StreamsTest {
 protected:
  static constexpr auto kMemory = quota::Resource::kRequestMemory;
  static constexpr auto kAnswers = quota::Resource::kAnswerMemory;
  KeptRequestTest() { ledger_.SetLimit(kMemory, {.capacity = 512 << 10}); }

  template <typename Request>
  static Request Filled(size_t bytes) {
    Request request;
    request.GetReflection()->MutableUnknownFields(&request)->AddLengthDelimited(
        1000, std::string(bytes, 'x'));
    return request;
  }
  // Which the server gives back once it hears of a call's end.
  void AwaitNoUse(quota::Resource resource = kMemory) const {
    const absl::Time give_up = absl::Now() + absl::Seconds(60);
    while (ledger_.TotalUse(resource) > 0 && absl::Now() < give_up) std::this_thread::yield();
    EXPECT_EQ(ledger_.TotalUse(resource), 0);
  }
};

TEST_F(KeptRequestTest, OfAStreamIsChargedWhileItIsOpen) {
  const auto request = Filled<v1::WatchTargetsRequest>(200 << 10);
  v1::WatchTargetsResponse response;
  grpc::ClientContext context;
  const auto reader = me_->targets->WatchTargets(&context, request);
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_GE(ledger_.TotalUse(kMemory), 2 * (200 << 10)) << "the handler may have a copy";

  grpc::ClientContext second_context;
  const auto second = me_->targets->WatchTargets(&second_context, request);
  EXPECT_FALSE(second->Read(&response));
  EXPECT_EQ(second->Finish().error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ReasonOf(second_context), quota::kQuotaExceeded);

  grpc::ClientContext small_context;
  const auto small = me_->targets->WatchTargets(&small_context, {});
  EXPECT_TRUE(small->Read(&response)) << "small requests are not charged";
  small_context.TryCancel();
  small->Finish();
  context.TryCancel();
  reader->Finish();
  AwaitNoUse();
}

TEST_F(KeptRequestTest, OfACallIsGivenBackWithItsAnswer) {
  v1::Node node;
  for (int i = 0; i < 10; ++i) {
    EXPECT_THAT(Do(*me_->node, &v1::NodeService::Stub::GetNode,
                   Filled<v1::GetNodeRequest>(200 << 10), &node),
                Succeeds());
    AwaitNoUse();
  }
  const Outcome refused =
      Do(*me_->node, &v1::NodeService::Stub::GetNode, Filled<v1::GetNodeRequest>(600 << 10), &node);
  EXPECT_THAT(refused, Fails(grpc::RESOURCE_EXHAUSTED));
  EXPECT_EQ(refused.reason, quota::kQuotaExceeded);
  AwaitNoUse();
}

TEST_F(KeptRequestTest, AnAnswerIsChargedToo) {
  for (int i = 0; i < 200; ++i) StoreFailedCapture(uid_);
  v1::ListCapturesRequest request;
  request.set_page_size(200);
  v1::ListCapturesResponse response;
  ASSERT_THAT(Do(*me_->captures, &v1::CaptureService::Stub::ListCaptures, request, &response),
              Succeeds());
  const auto bytes = static_cast<int64_t>(response.ByteSizeLong());
  ASSERT_GT(bytes, 16 << 10);
  ledger_.SetLimit(kAnswers, {.capacity = bytes - 1});
  const Outcome refused =
      Do(*me_->captures, &v1::CaptureService::Stub::ListCaptures, request, &response);
  EXPECT_THAT(refused, Fails(grpc::RESOURCE_EXHAUSTED));
  EXPECT_EQ(refused.reason, quota::kQuotaExceeded);
  ledger_.SetLimit(kAnswers, {.capacity = bytes});
  AwaitNoUse(kAnswers);
  EXPECT_THAT(Do(*me_->captures, &v1::CaptureService::Stub::ListCaptures, request, &response),
              Succeeds());
}

TEST_F(KeptRequestTest, AFilterNamesNoMoreStatesThanThereMayBe) {
  v1::ListCapturesRequest request;
  for (int i = 0; i < 32; ++i) request.mutable_filter()->add_states(v1::Capture::COMPLETE);
  v1::ListCapturesResponse response;
  EXPECT_THAT(Do(*me_->captures, &v1::CaptureService::Stub::ListCaptures, request, &response),
              Succeeds());
  request.mutable_filter()->add_states(v1::Capture::COMPLETE);
  EXPECT_THAT(Do(*me_->captures, &v1::CaptureService::Stub::ListCaptures, request, &response),
              Fails(grpc::INVALID_ARGUMENT));
}

TEST_F(KeptRequestTest, PiecesOfAnExportAreCharged) {
  const CaptureRecord record = StoreCapture(uid_, kManyRanges);
  ledger_.SetLimit(kAnswers, {.capacity = 100 << 10});
  std::string data;
  const Outcome refused = Export(NameOf(record), v1::ExportTraceRequest::CHROME, &data);
  EXPECT_THAT(refused, Fails(grpc::RESOURCE_EXHAUSTED));
  EXPECT_EQ(refused.reason, quota::kQuotaExceeded);
  AwaitNoUse(kAnswers);
}

TEST_F(KeptRequestTest, PiecesOfADownloadAreCharged) {
  const CaptureRecord record = StoreCapture(uid_, kManyRanges);
  ledger_.SetLimit(kAnswers, {.capacity = kDownloadPieceBytes + (16 << 10) - 1});
  const Downloaded refused = Download(NameOf(record), 0);
  EXPECT_THAT(refused.outcome, Fails(grpc::RESOURCE_EXHAUSTED));
  EXPECT_EQ(refused.outcome.reason, quota::kQuotaExceeded);
  AwaitNoUse(kAnswers);
  ledger_.SetLimit(kAnswers, {.capacity = 2 * kDownloadPieceBytes + (64 << 10)});
  EXPECT_THAT(Download(NameOf(record), 0).outcome, Succeeds());
  AwaitNoUse(kAnswers);
}

// The message on its way is charged; without memory for it, the stream ends.
TEST_F(KeptRequestTest, AMessageOfAStreamThatThereIsNoMemoryForEndsIt) {
  for (int64_t pid = 1; pid <= 1000; ++pid) targets_.Add(TargetOf(pid, uid_));
  ledger_.SetLimit(kAnswers, {.capacity = 17 << 10});
  grpc::ClientContext context;
  v1::WatchTargetsResponse response;
  const auto reader = me_->targets->WatchTargets(&context, {});
  if (reader->Read(&response)) context.TryCancel();
  EXPECT_EQ(reader->Finish().error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ReasonOf(context), quota::kQuotaExceeded);
  AwaitNoUse(kAnswers);
}

TEST_F(KeptRequestTest, OfACallThatIsNotGuardedIsRefused) {
  grpc::ClientContext context;
  ::grpc::health::v1::HealthCheckResponse response;
  const auto health = ::grpc::health::v1::Health::NewStub(Connect());
  const grpc::Status status =
      health->Check(&context, Filled<::grpc::health::v1::HealthCheckRequest>(200 << 10), &response);
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
}

// ---- many callers ----

TEST_F(StreamsTest, TwoHundredConnectionsAreServedAtOnce) {
  std::vector<std::unique_ptr<Stubs>> stubs;
  stubs.reserve(200);
  for (int i = 0; i < 200; ++i) stubs.push_back(std::make_unique<Stubs>(Connect()));
  for (const auto& stub : stubs) EXPECT_THAT(GetNode(*stub), Succeeds());
  for (const auto& stub : stubs) EXPECT_THAT(GetNode(*stub), Succeeds()) << "the second time, too";
}

TEST_F(StreamsTest, NumbersThatComeBackBelongToTheNewConnection) {
  if (uid_ != 0) GTEST_SKIP() << "only root can call as somebody else";
  // Far more connections than the limit of one uid: those that ended must not count, and
  // each caller is who it is, whoever had its number before.
  for (int i = 0; i < 300; ++i) {
    const bool as_nobody = i % 60 == 30;
    if (as_nobody) {
      ForeignPeer nobody(socket_path(), [] { return setuid(kNobody) == 0; });
      ASSERT_TRUE(nobody.connected());
      Stubs stubs(ChannelOver(nobody.TakeConnection()));
      v1::Node node;
      ASSERT_THAT(Do(*stubs.node, &v1::NodeService::Stub::GetNode, v1::GetNodeRequest(), &node),
                  Succeeds());
      EXPECT_EQ(node.storage().data_dir(), "") << i;
    } else {
      Stubs stubs(Connect());
      v1::Node node;
      ASSERT_THAT(Do(*stubs.node, &v1::NodeService::Stub::GetNode, v1::GetNodeRequest(), &node),
                  Succeeds())
          << i;
      EXPECT_NE(node.storage().data_dir(), "") << i;
    }
  }
}

TEST_F(StreamsTest, ConnectionsThatEndedLeaveNoDescriptors) {
  const auto descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                         std::filesystem::directory_iterator());
  };
  EXPECT_THAT(GetNode(*me_), Succeeds());
  const auto before = descriptors();
  constexpr int kConnections = 20;
  {
    std::vector<std::unique_ptr<Stubs>> stubs;
    for (int i = 0; i < kConnections; ++i) {
      stubs.push_back(std::make_unique<Stubs>(Connect()));
      EXPECT_THAT(GetNode(*stubs.back()), Succeeds());
    }
    EXPECT_GE(descriptors(), before + 2 * kConnections);
  }
  // Neither side is told when the other has closed its last descriptor. gRPC's threads open some of
  // their own when there is much to do, and keep them, so that a few more are no leak.
  const auto most = before + kConnections / 4;
  const absl::Time give_up = absl::Now() + absl::Seconds(60);
  while (descriptors() > most && absl::Now() < give_up) std::this_thread::yield();
  EXPECT_LE(descriptors(), most);
}

class FewConnectionsTest : public StreamsTest {
 protected:
  void SetUp() override {
    options_.max_connections_per_uid = 2;
    StartServer();
  }
};

TEST_F(FewConnectionsTest, TooManyConnectionsOfOneUidAreClosed) {
  Stubs second(Connect());
  EXPECT_THAT(GetNode(*me_), Succeeds());
  EXPECT_THAT(GetNode(second), Succeeds());
  {
    Stubs third(Connect());
    EXPECT_THAT(GetNode(third), Fails(grpc::UNAVAILABLE));
  }
  EXPECT_THAT(GetNode(*me_), Succeeds()) << "those that are in stay";
}

TEST_F(StreamsTest, BytesThatAreNotHttp2EndOnlyTheirConnection) {
  ForeignPeer peer(socket_path(), [] { return true; });
  ASSERT_TRUE(peer.connected());
  const UniqueFd connection = peer.TakeConnection();
  const std::string garbage(100'000, '\xff');
  ASSERT_GT(send(connection.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL | MSG_DONTWAIT), 0);
  char byte = 0;
  while (recv(connection.get(), &byte, 1, 0) > 0) {
  }
  EXPECT_THAT(GetNode(*me_), Succeeds());
}

// ---- the end ----

TEST_F(StreamsTest, AtTheEndOpenStreamsAreTold) {
  v1::WatchTargetsResponse targets;
  grpc::ClientContext targets_context;
  const auto target_watch = me_->targets->WatchTargets(&targets_context, {});
  ASSERT_TRUE(target_watch->Read(&targets));

  using ::grpc::health::v1::HealthCheckResponse;
  const auto health = ::grpc::health::v1::Health::NewStub(Connect());
  grpc::ClientContext health_context;
  const auto health_watch = health->Watch(&health_context, {});
  HealthCheckResponse status;
  ASSERT_TRUE(health_watch->Read(&status));
  EXPECT_EQ(status.status(), HealthCheckResponse::SERVING);

  v1::WatchCaptureRequest watch;
  watch.set_name(CreateLive());
  ASSERT_TRUE(target_watch->Read(&targets)) << "it came";
  grpc::ClientContext watch_context;
  const auto capture_watch = me_->captures->WatchCapture(&watch_context, watch);
  v1::Capture capture;
  ASSERT_TRUE(capture_watch->Read(&capture));

  targets_.AnswerByItself(DrainResult());  // The manager's Stop() is answered at once.
  manager_->Shutdown();
  server_->Shutdown(absl::Seconds(60));

  while (target_watch->Read(&targets)) {
  }
  EXPECT_EQ(target_watch->Finish().error_code(), grpc::UNAVAILABLE);
  while (health_watch->Read(&status)) {
  }
  EXPECT_EQ(status.status(), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(health_watch->Finish().error_code(), grpc::UNAVAILABLE);
  while (capture_watch->Read(&capture)) {
  }
  EXPECT_TRUE(capture_watch->Finish().ok());
  EXPECT_EQ(capture.state(), v1::Capture::FAILED);
  EXPECT_EQ(capture.ended_by(), "daemon_stop");
  EXPECT_FALSE(std::filesystem::exists(socket_path()));
}

TEST_F(StreamsTest, AtTheEndAStalledExportIsCutOff) {
  const std::string name = NameOf(StoreCapture(uid_, kManyRanges));
  grpc::ClientContext context;
  v1::ExportTraceRequest request;
  request.set_capture(name);
  request.set_format(v1::ExportTraceRequest::CHROME);
  const auto reader = me_->exports->ExportTrace(&context, request);
  v1::ExportTraceResponse piece;
  ASSERT_TRUE(reader->Read(&piece));
  server_->Shutdown(absl::Milliseconds(50));  // Returns: that is the test.
  while (reader->Read(&piece)) {
  }
  EXPECT_FALSE(reader->Finish().ok());
}

TEST_F(StreamsTest, ANewDaemonMayListenWhileTheOldOneEnds) {
  server_->Shutdown(absl::ZeroDuration());
  auto listener = ListenAt(folder_.path());
  ASSERT_THAT(listener, IsOk());
  server_.reset();
  EXPECT_TRUE(std::filesystem::exists(socket_path()))
      << "the new one's socket is not the old one's";
}

TEST_F(StreamsTest, ASecondServerOnTheSameSocketIsRefused) {
  ControlServerOptions options;
  options.socket_dir = folder_.path();
  const auto second = ControlServer::Start(std::move(options), {.manager = *manager_,
                                                                .targets = targets_,
                                                                .store = *store_,
                                                                .schedules = *schedules_,
                                                                .target_events = *news_,
                                                                .ledger = ledger_,
                                                                .clock = clock_,
                                                                .node_facts = {}});
  EXPECT_THAT(second, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("another profd")));
  EXPECT_THAT(GetNode(*me_), Succeeds());
}

class InheritedSocketTest : public StreamsTest {
 protected:
  void SetUp() override {
    auto listener = ListenAt(folder_.path());
    ASSERT_THAT(listener, IsOk());
    options_.inherited_listener = *std::move(listener);
    options_.socket_dir = "/nonexistent";
    StartServer();
  }
};

TEST_F(InheritedSocketTest, IsServedAndLeftInPlace) {
  EXPECT_THAT(GetNode(*me_), Succeeds());
  server_->Shutdown(absl::ZeroDuration());
  EXPECT_TRUE(std::filesystem::exists(socket_path())) << "it is systemd's";
}

class ReflectionTest : public StreamsTest {
 protected:
  void SetUp() override {
    options_.reflection = true;
    StartServer();
  }
};

TEST_F(ReflectionTest, IsThereWhenAskedFor) {
  EXPECT_THAT(GetNode(*me_), Succeeds());
  // Without the packaged client stubs: an empty stream that the service takes.
  grpc::GenericStub stub(Connect());
  grpc::CompletionQueue completions;
  grpc::ClientContext context;
  auto call = stub.PrepareCall(
      &context, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &completions);
  void* tag = nullptr;
  bool ok = false;
  grpc::Status status(grpc::UNKNOWN, "");
  call->StartCall(&call);
  ASSERT_TRUE(completions.Next(&tag, &ok));
  call->WritesDone(&call);
  ASSERT_TRUE(completions.Next(&tag, &ok));
  call->Finish(&status, &call);
  ASSERT_TRUE(completions.Next(&tag, &ok));
  EXPECT_TRUE(status.ok()) << status.error_code() << " " << status.error_message();
}

}  // namespace
}  // namespace profd::rpc
