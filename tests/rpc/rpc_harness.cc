#include "tests/rpc/rpc_harness.h"

#include <grpcpp/create_channel_posix.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <random>
#include <utility>

#include "absl/time/clock.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/ulid.h"
#include "tests/fakes/status_matchers.h"

namespace profd::rpc {
namespace {

constexpr int64_t kEpochUnixNs = 1'800'000'000'000'000'000;
constexpr int64_t kStepNs = 10'000'000;

UniqueFd ConnectTo(const std::filesystem::path& socket_path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, socket_path.c_str(), sizeof address.sun_path - 1);
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return UniqueFd();
  }
  return fd;
}

void SendFd(int over, int fd) {
  char byte = 0;
  iovec part{.iov_base = &byte, .iov_len = 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof fd);
  std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  sendmsg(over, &message, 0);
}

UniqueFd ReceiveFd(int over) {
  char byte = 0;
  iovec part{.iov_base = &byte, .iov_len = 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (recvmsg(over, &message, MSG_CMSG_CLOEXEC) <= 0) return UniqueFd();
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) return UniqueFd();
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
  return UniqueFd(fd);
}

}  // namespace

TempFolder::TempFolder() {
  std::string name = std::filesystem::temp_directory_path() / "profd-rpc-XXXXXX";
  path_ = mkdtemp(name.data());
  chmod(path_.c_str(), 0755);
}
TempFolder::~TempFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

ForeignPeer::ForeignPeer(const std::filesystem::path& socket, const std::function<bool()>& change) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) return;
  const UniqueFd ours(pair[0]);
  const UniqueFd theirs(pair[1]);
  pid_ = fork();
  if (pid_ == 0) {
    // Nothing of gRPC's may run here: its threads were not forked.
    setpgid(0, 0);
    if (change()) {
      // After change(): it is cleared when a process changes its uid.
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      // A new pid namespace holds the next child only.
      const pid_t inner = fork();
      if (inner == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        const UniqueFd connection = ConnectTo(socket);
        if (connection.valid()) SendFd(theirs.get(), connection.get());
        shutdown(theirs.get(), SHUT_RDWR);
        while (true) pause();
      }
      waitpid(inner, nullptr, 0);
    }
    shutdown(theirs.get(), SHUT_RDWR);
    _exit(0);
  }
  shutdown(ours.get(), SHUT_WR);
  connection_ = ReceiveFd(ours.get());
}

void ForeignPeer::End() {
  if (pid_ <= 0) return;
  kill(-pid_, SIGKILL);
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

ForeignPeer::~ForeignPeer() { End(); }

std::string ReasonOf(const grpc::ClientContext& context) {
  const auto& metadata = context.GetServerTrailingMetadata();
  const auto found = metadata.find("profd-reason");
  return found == metadata.end() ? std::string()
                                 : std::string(found->second.data(), found->second.size());
}

RpcTest::RpcTest() : uid_(geteuid()) {
  store::CaptureStore::Options store_options;
  store_options.data_dir = folder_.path() / "data";
  store_options.min_free_percent = 0;
  store_options.summarize = [this](const std::filesystem::path&,
                                   const store::SummaryRequest& request) {
    store::EventSummaries made = {.ops = op_summaries_};
    if (request.ranks) made.ranks = rank_summary_;
    return made;
  };
  auto store = store::CaptureStore::Open(std::move(store_options), clock_);
  EXPECT_THAT(store, IsOk());
  store_ = *std::move(store);
  manager_ = std::make_unique<CaptureManager>(
      CaptureManager::Options{.node_name = "node1", .ledger = &ledger_}, targets_, *store_, clock_);
  schedules_ = std::make_unique<ScheduleRunner>(ScheduleRunner::Options{.node_name = "node1"},
                                                *store_, *manager_, targets_, clock_);
  EXPECT_THAT(schedules_->Start(), IsOk());
  news_ = std::make_unique<TargetEvents>(*manager_);
  targets_.SetObserver(news_.get());
  options_.socket_dir = folder_.path();
  options_.node_name = "node1";
  options_.version = "1.2.3";
  options_.data_dir = folder_.path() / "data";
  options_.start_time = clock_.Now();
  options_.start_monotonic = clock_.Monotonic();
  options_.report_program = report_program_;
}

RpcTest::~RpcTest() = default;

void RpcTest::TearDown() {
  // What a test left live ends here, as ingest would end it.
  targets_.AnswerByItself(DrainResult());
  for (const CaptureRecord& record : manager_->Live()) targets_.Drained(record.id, DrainResult());
  me_.reset();
  server_.reset();
  manager_->Shutdown();
  targets_.SetObserver(nullptr);
}

void RpcTest::StartServer() {
  auto server = ControlServer::Start(std::move(options_), {.manager = *manager_,
                                                           .targets = targets_,
                                                           .store = *store_,
                                                           .schedules = *schedules_,
                                                           .target_events = *news_,
                                                           .ledger = ledger_,
                                                           .clock = clock_,
                                                           .node_facts =
                                                               [this] {
                                                                 return NodeFacts{
                                                                     .event_clock = "tsc",
                                                                     .ticks_per_second = 2e9,
                                                                     .capture_memory_bytes = 1,
                                                                     .max_capture_memory_bytes = 2,
                                                                     .unknown_frame_count = 3,
                                                                     .refused_target_count = 4,
                                                                     .policy_error = policy_error_};
                                                               },
                                                           .access_rules = access_rules_});
  ASSERT_THAT(server, IsOk());
  server_ = *std::move(server);
  me_ = std::make_unique<Stubs>(Connect());
}

std::shared_ptr<grpc::Channel> RpcTest::Connect() const {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // A connection of its own.
  arguments.SetMaxReceiveMessageSize(-1);
  return grpc::CreateCustomChannel("unix:" + socket_path().string(),
                                   grpc::InsecureChannelCredentials(), arguments);
}

std::shared_ptr<grpc::Channel> RpcTest::ChannelOver(UniqueFd connection) {
  return grpc::CreateInsecureChannelFromFd("peer", connection.Release());
}

TargetInfo RpcTest::TargetOf(int64_t pid, int64_t uid) const {
  return {.pid = pid,
          .uid = uid,
          .gid = uid,
          .process_start_ticks = 7,
          .command = "python train.py",
          .metadata = {{"rank", "3"}},
          .state = TargetState::kRunning,
          .step_mark_count = 101,
          .current_step = 100,
          .steps_per_second = 100};
}
TargetInfo RpcTest::MyTarget(int64_t pid) const { return TargetOf(pid, uid_); }

namespace {

void AppendGpu(CaptureSink& sink) {
  EXPECT_THAT(sink.AddName(2, "cudaLaunchKernel"), IsOk());
  EXPECT_THAT(sink.AddName(3, "_Z1kPf"), IsOk());
  const ApiRow call = {.start_ns = 1500, .duration_ns = 100, .name = 2, .correlation = 7};
  EXPECT_THAT(sink.Append(0, call), IsOk());
  const std::vector<GpuRow> rows = {{.start_ns = 2000,
                                     .duration_ns = 500,
                                     .kind = GpuRowKind::kKernel,
                                     .stream = 7,
                                     .correlation = 7,
                                     .name = 3,
                                     .queued_ns = kNoGpuTime,
                                     .submitted_ns = kNoGpuTime},
                                    {.start_ns = 2400,
                                     .duration_ns = 200,
                                     .kind = GpuRowKind::kMemcpy,
                                     .flags = kGpuOrphan,
                                     .stream = 8,
                                     .bytes = 4096,
                                     .copy_kind = 1,
                                     .source_kind = 1,
                                     .destination_kind = 3,
                                     .source_device = kNoGpuDevice,
                                     .destination_device = kNoGpuDevice}};
  EXPECT_THAT(sink.Append(rows), IsOk());
  const SyncRow sync = {.start_ns = 1520, .duration_ns = 50, .kind = 3, .correlation = 7};
  EXPECT_THAT(sink.Append(sync), IsOk());
}

}  // namespace

CaptureRecord RpcTest::StoreCapture(int64_t owner_uid, int64_t ranges, const CaptureSpec& spec,
                                    bool gpu, const std::string& group_id) {
  CaptureRecord record;
  record.id = NewUlid(clock_.Now());
  record.group_id = group_id;
  record.spec = spec;
  record.requested_by_uid = owner_uid;
  record.target = TargetOf(4000, owner_uid);
  record.node = "node1";
  record.create_time = clock_.Now();
  record.armed_time = absl::InfinitePast();
  record.end_time = absl::InfiniteFuture();
  EXPECT_THAT(store_->InsertCapture(record), IsOk());
  auto sink = store_->CreateFile(record);
  EXPECT_THAT(sink, IsOk());
  EXPECT_THAT((*sink)->AddThread({.index = 0, .os_thread = 4000, .name = "main"}), IsOk());
  EXPECT_THAT((*sink)->AddName(1, "op"), IsOk());
  std::vector<RangeRow> rows;
  std::mt19937_64 random(1);  // So that the file does not shrink to nothing.
  for (int64_t i = 0; i < ranges; ++i) {
    rows.push_back({.start_ns = 1000 + i * 10,
                    .duration_ns = 1000 + static_cast<int64_t>(random() % 1'000'000'000),
                    .name = 1});
  }
  EXPECT_THAT((*sink)->Append(0, rows), IsOk());
  const MemoryRow allocation{.time_ns = 2000,
                             .address = 0x1000,
                             .bytes = 4096,
                             .total_allocated_bytes = -1,
                             .total_reserved_bytes = -1,
                             .device_type = 1,
                             .device_index = 0,
                             .category = 0,
                             .is_free = false};
  EXPECT_THAT((*sink)->Append(0, allocation), IsOk());
  const std::vector<StepRow> marks = {{.time_ns = 0, .step = 100},
                                      {.time_ns = kStepNs, .step = 101}};
  EXPECT_THAT((*sink)->Append(0, marks), IsOk());
  if (gpu) {
    AppendGpu(**sink);
    record.gpu = {.outcome = GpuOutcome::kRecorded, .mode = GpuMode::kDefault, .simulated = true};
  }

  record.state = CaptureState::kComplete;
  record.ended_by = EndedBy::kSteps;
  record.end_time = clock_.Now();
  record.start_unix_ns = kEpochUnixNs;
  record.covered_ns = kStepNs;
  record.covered_steps = 1;
  record.windows = {{.start_ns = 0, .end_ns = kStepNs, .first_step = 100, .end_step = 101}};
  record.event_count = ranges + 3;
  record.slowdown = {.known = true, .low = -0.01, .high = 0.01};
  EXPECT_THAT((*sink)->Finish(record, 0), IsOk());
  EXPECT_THAT(store_->UpdateCapture(record), IsOk());
  return record;
}

CaptureRecord RpcTest::StoreFailedCapture(int64_t owner_uid) {
  CaptureRecord record;
  record.id = NewUlid(clock_.Now());
  record.spec.steps = 1;
  record.target = TargetOf(4000, owner_uid);
  record.create_time = clock_.Now();
  record.armed_time = absl::InfinitePast();
  record.end_time = clock_.Now();
  record.state = CaptureState::kFailed;
  record.ended_by = EndedBy::kArmTimeout;
  record.error_reason = "ARM_TIMEOUT";
  EXPECT_THAT(store_->InsertCapture(record), IsOk());
  return record;
}

bool RpcTest::AwaitEndOf(const std::string& method) const {
  const absl::Time give_up = absl::Now() + absl::Seconds(60);
  while (absl::Now() < give_up) {
    const auto page = store_->ListAudit({.method = method}, 1);
    if (page.ok() && !page->entries.empty()) return true;
    absl::SleepFor(absl::Milliseconds(5));
  }
  return false;
}

void RpcTest::RunToTheEnd(const std::string& capture_id) {
  const size_t fires = targets_.fires().size();
  const size_t stops = targets_.stops().size();
  targets_.Armed(capture_id);
  ASSERT_TRUE(targets_.WaitForFires(fires + 1));
  CaptureSink& sink = *targets_.LastArm().sink;
  const StepRow marks[] = {{.time_ns = 0, .step = 102}, {.time_ns = kStepNs, .step = 103}};
  ASSERT_THAT(sink.AddThread({.index = 0, .os_thread = 1, .name = "main"}), IsOk());
  ASSERT_THAT(sink.Append(0, marks), IsOk());
  targets_.Reached(capture_id, {.phase = RecordingPhase::kRecording, .current_step = 102});
  targets_.Reached(capture_id, {.phase = RecordingPhase::kEnded, .current_step = 103});
  ASSERT_TRUE(targets_.WaitForStops(stops + 1));
  DrainResult result;
  result.epoch_unix_ns = kEpochUnixNs;
  result.event_count = 2;
  result.windows = {
      {.start_ns = 0, .end_ns = kStepNs, .first_step = 102, .end_step = 103, .complete = true}};
  targets_.Drained(capture_id, result);
}

}  // namespace profd::rpc
