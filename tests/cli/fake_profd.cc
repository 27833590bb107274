#include "tests/cli/fake_profd.h"

#include <grpcpp/grpcpp.h>

#include <utility>

#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "daemon/base/str_cat.h"
#include "daemon/report/reports.h"
#include "daemon/rpc/convert/report.h"
#include "profd/v1/captures.grpc.pb.h"
#include "profd/v1/export.grpc.pb.h"
#include "profd/v1/node.grpc.pb.h"
#include "profd/v1/reports.grpc.pb.h"
#include "profd/v1/schedules.grpc.pb.h"
#include "profd/v1/targets.grpc.pb.h"

namespace profd::cli {
namespace {

grpc::Status Answer(grpc::ServerContext* context, const Refusal& refusal) {
  if (refusal.code == absl::StatusCode::kOk) return grpc::Status::OK;
  if (!refusal.reason.empty()) context->AddTrailingMetadata("profd-reason", refusal.reason);
  return {static_cast<grpc::StatusCode>(refusal.code), refusal.message};
}

std::string IdOf(const std::string& name) { return name.substr(name.find('/') + 1); }

}  // namespace

class FakeProfd::Services final : public v1::CaptureService::Service,
                                  public v1::TargetService::Service,
                                  public v1::ReportService::Service,
                                  public v1::ExportService::Service,
                                  public v1::ScheduleService::Service,
                                  public v1::NodeService::Service {
 public:
  explicit Services(FakeProfd& fake) : fake_(fake) {}

  void Start() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(fake_.address(), grpc::InsecureServerCredentials());
    builder.RegisterService(static_cast<v1::CaptureService::Service*>(this));
    builder.RegisterService(static_cast<v1::TargetService::Service*>(this));
    builder.RegisterService(static_cast<v1::ReportService::Service*>(this));
    builder.RegisterService(static_cast<v1::ExportService::Service*>(this));
    builder.RegisterService(static_cast<v1::ScheduleService::Service*>(this));
    builder.RegisterService(static_cast<v1::NodeService::Service*>(this));
    server_ = builder.BuildAndStart();
  }
  void Stop() {
    if (server_ == nullptr) return;
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
    server_.reset();
  }

  grpc::Status GetNode(grpc::ServerContext* context, const v1::GetNodeRequest*,
                       v1::Node* response) override {
    if (fake_.compresses) context->set_compression_algorithm(GRPC_COMPRESS_GZIP);
    *response = fake_.node;
    return grpc::Status::OK;
  }

  grpc::Status ListTargets(grpc::ServerContext*, const v1::ListTargetsRequest* request,
                           v1::ListTargetsResponse* response) override {
    // One a page: whoever does not turn pages sees one.
    const size_t index = request->page_token().empty() ? 0 : std::stoul(request->page_token());
    if (index < fake_.targets.size()) *response->add_targets() = fake_.targets[index];
    if (index + 1 < fake_.targets.size()) response->set_next_page_token(StrCat(index + 1));
    NeverEnd(*response);
    const absl::MutexLock lock(&mu_);
    ++target_pages;
    return grpc::Status::OK;
  }

  grpc::Status ResolveTargets(grpc::ServerContext* context,
                              const v1::ResolveTargetsRequest* request,
                              v1::ResolveTargetsResponse* response) override {
    if (fake_.on_resolve.code != absl::StatusCode::kOk) return Answer(context, fake_.on_resolve);
    for (const v1::Target& target : fake_.targets) {
      bool wanted = request->pids().empty();
      for (const int64_t pid : request->pids()) wanted = wanted || pid == target.pid();
      if (wanted) *response->add_targets() = target;
    }
    return grpc::Status::OK;
  }

  grpc::Status CreateCapture(grpc::ServerContext* context, const v1::CreateCaptureRequest* request,
                             v1::Capture* response) override {
    if (fake_.on_create.code != absl::StatusCode::kOk) return Answer(context, fake_.on_create);
    const absl::MutexLock lock(&mu_);
    creates.push_back(*request);
    *response = Create(request->target(), request->spec(), "");
    return grpc::Status::OK;
  }

  grpc::Status CreateCaptureGroup(grpc::ServerContext* context,
                                  const v1::CreateCaptureGroupRequest* request,
                                  v1::CaptureGroup* response) override {
    if (fake_.on_create.code != absl::StatusCode::kOk) return Answer(context, fake_.on_create);
    const absl::MutexLock lock(&mu_);
    group_creates.push_back(*request);
    response->set_name(StrCat("groups/", TestId(9000)));
    for (const std::string& target : request->targets()) {
      *response->add_captures() = Create(target, request->spec(), response->name());
    }
    return grpc::Status::OK;
  }

  grpc::Status GetCapture(grpc::ServerContext*, const v1::GetCaptureRequest* request,
                          v1::Capture* response) override {
    const absl::MutexLock lock(&mu_);
    return Find(request->name(), response);
  }

  grpc::Status GetCaptureGroup(grpc::ServerContext*, const v1::GetCaptureGroupRequest* request,
                               v1::CaptureGroup* response) override {
    const absl::MutexLock lock(&mu_);
    for (const auto& [id, capture] : fake_.captures) {
      if (capture.group() == request->name()) *response->add_captures() = capture;
    }
    if (response->captures().empty()) return {grpc::StatusCode::NOT_FOUND, "no such group"};
    response->set_name(fake_.group_name.empty() ? request->name() : fake_.group_name);
    return grpc::Status::OK;
  }

  grpc::Status ListCaptures(grpc::ServerContext*, const v1::ListCapturesRequest* request,
                            v1::ListCapturesResponse* response) override {
    const absl::MutexLock lock(&mu_);
    lists.push_back(*request);
    // Two a page, whatever was asked for.
    size_t index = request->page_token().empty() ? 0 : std::stoul(request->page_token());
    for (int i = 0; i < 2 && index < fake_.newest_first.size(); ++i, ++index) {
      v1::Capture capture = fake_.captures[fake_.newest_first[index]];
      capture.clear_steps();
      *response->add_captures() = capture;
    }
    if (index < fake_.newest_first.size()) response->set_next_page_token(StrCat(index));
    NeverEnd(*response);
    return grpc::Status::OK;
  }

  grpc::Status WatchCapture(grpc::ServerContext* context, const v1::WatchCaptureRequest* request,
                            grpc::ServerWriter<v1::Capture>* writer) override {
    const std::string id = IdOf(request->name());
    v1::Capture capture;
    {
      const absl::MutexLock lock(&mu_);
      if (const grpc::Status status = Find(request->name(), &capture); !status.ok()) return status;
    }
    for (const auto state : {v1::Capture::ARMING, v1::Capture::RECORDING}) {
      capture.set_state(state);
      capture.set_current_step(11);
      writer->Write(capture);
    }
    const absl::MutexLock lock(&mu_);
    ++watchers;
    while (fake_.runs_until_cancelled && !Ended(id) && !context->IsCancelled()) {
      changed_.WaitWithTimeout(&mu_, absl::Milliseconds(20));
    }
    if (context->IsCancelled()) return {grpc::StatusCode::UNAVAILABLE, "profd is stopping"};
    End(id, fake_.runs_until_cancelled);
    writer->Write(fake_.captures[id]);
    return grpc::Status::OK;
  }

  grpc::Status CancelCapture(grpc::ServerContext*, const v1::CancelCaptureRequest* request,
                             v1::Capture* response) override {
    const absl::MutexLock lock(&mu_);
    cancelled = true;
    changed_.SignalAll();
    if (const grpc::Status status = Find(request->name(), response); !status.ok()) return status;
    const std::string id = IdOf(response->name());
    if (!fake_.ignores_cancel && created_.contains(id)) End(id, true);
    *response = fake_.captures[id];
    return grpc::Status::OK;
  }

  grpc::Status DeleteCapture(grpc::ServerContext* context, const v1::DeleteCaptureRequest* request,
                             v1::Capture* response) override {
    if (fake_.on_delete.code != absl::StatusCode::kOk) return Answer(context, fake_.on_delete);
    const absl::MutexLock lock(&mu_);
    if (const grpc::Status status = Find(request->name(), response); !status.ok()) return status;
    response->set_deleted(true);
    fake_.captures[IdOf(response->name())] = *response;
    return grpc::Status::OK;
  }

  grpc::Status SetCapturePinned(grpc::ServerContext*, const v1::SetCapturePinnedRequest* request,
                                v1::Capture* response) override {
    const absl::MutexLock lock(&mu_);
    if (const grpc::Status status = Find(request->name(), response); !status.ok()) return status;
    response->set_pinned(request->pinned());
    fake_.captures[IdOf(response->name())] = *response;
    return grpc::Status::OK;
  }

  grpc::Status PurgeCaptures(grpc::ServerContext*, const v1::PurgeCapturesRequest*,
                             v1::PurgeCapturesResponse* response) override {
    const absl::MutexLock lock(&mu_);
    response->set_capture_count(static_cast<int64_t>(fake_.captures.size()));
    return grpc::Status::OK;
  }

  grpc::Status PrepareGroup(grpc::ServerContext* context, const v1::PrepareGroupRequest* request,
                            grpc::ServerWriter<v1::GroupPreparation>* writer) override {
    v1::GroupPreparation preparation;
    preparation.set_settled(true);
    {
      const absl::MutexLock lock(&mu_);
      for (const std::string& target : request->targets()) {
        v1::PreparedMember& member = *preparation.add_members();
        member.set_target(target);
        *member.mutable_capture() = Create(target, request->spec(), request->group());
        member.set_prepared(true);
      }
    }
    writer->Write(preparation);
    const absl::MutexLock lock(&mu_);
    while (!context->IsCancelled()) changed_.WaitWithTimeout(&mu_, absl::Milliseconds(20));
    return grpc::Status::OK;
  }

  grpc::Status CommitGroup(grpc::ServerContext*, const v1::CommitGroupRequest* request,
                           v1::CommitGroupResponse* response) override {
    const absl::MutexLock lock(&mu_);
    for (const auto& [id, capture] : fake_.captures) {
      if (capture.group() != request->group()) continue;
      v1::CommitGroupResponse::Outcome& outcome = *response->add_outcomes();
      outcome.set_capture(capture.name());
      outcome.set_started(true);
    }
    return grpc::Status::OK;
  }

  grpc::Status CloseGroup(grpc::ServerContext*, const v1::CloseGroupRequest* request,
                          v1::CaptureGroup* response) override {
    response->set_name(request->group());
    return grpc::Status::OK;
  }

  grpc::Status GetClock(grpc::ServerContext*, const v1::GetClockRequest*,
                        v1::Node::Clock* response) override {
    response->set_unix_ns(absl::ToUnixNanos(absl::Now()));
    return grpc::Status::OK;
  }

  grpc::Status GetQuotas(grpc::ServerContext*, const v1::GetQuotasRequest*,
                         v1::Quotas* response) override {
    *response = fake_.quotas;
    return grpc::Status::OK;
  }

  grpc::Status DownloadCapture(grpc::ServerContext*, const v1::DownloadCaptureRequest* request,
                               grpc::ServerWriter<v1::DownloadCaptureResponse>* writer) override {
    int64_t break_after;
    {
      const absl::MutexLock lock(&mu_);
      offsets.push_back(request->offset());
      break_after = std::exchange(fake_.break_download_after, -1);
    }
    const auto total = static_cast<int64_t>(fake_.file_bytes.size());
    if (request->offset() > total) return {grpc::StatusCode::OUT_OF_RANGE, "beyond the file"};
    int64_t sent = 0;
    for (int64_t at = request->offset(); at < total; at += fake_.piece_bytes) {
      if (break_after >= 0 && sent >= break_after) return {grpc::StatusCode::UNAVAILABLE, "gone"};
      v1::DownloadCaptureResponse piece;
      piece.set_data(
          fake_.file_bytes.substr(static_cast<size_t>(at), static_cast<size_t>(fake_.piece_bytes)));
      piece.set_offset(at);
      piece.set_total_bytes(total);
      piece.set_sha256(fake_.file_sha256);
      writer->Write(piece);
      sent += fake_.piece_bytes;
    }
    return grpc::Status::OK;
  }

  grpc::Status GetReport(grpc::ServerContext* context, const v1::GetReportRequest* request,
                         v1::Report* response) override {
    {
      const absl::MutexLock lock(&mu_);
      report_calls.push_back(*request);
    }
    const auto found = fake_.reports.find(request->report());
    const report::ReportKind* const kind = report::FindReportKind(request->report());
    if (found == fake_.reports.end() && kind == nullptr) {
      return {grpc::StatusCode::INVALID_ARGUMENT, "no such report"};
    }
    rpc::ReportToProto(found != fake_.reports.end() ? found->second : kind->shape(), *response);
    return Answer(context, fake_.on_report);
  }
  grpc::Status GetHistory(grpc::ServerContext* context, const v1::GetHistoryRequest* request,
                          v1::Report* response) override {
    {
      const absl::MutexLock lock(&mu_);
      history_calls.push_back(*request);
    }
    rpc::ReportToProto(report::ToReport(fake_.history), *response);
    return Answer(context, fake_.on_report);
  }
  grpc::Status ListRankSummaries(grpc::ServerContext* context,
                                 const v1::ListRankSummariesRequest* request,
                                 v1::ListRankSummariesResponse* response) override {
    {
      const absl::MutexLock lock(&mu_);
      rank_calls.push_back(*request);
    }
    *response = fake_.rank_summaries;
    NeverEnd(*response);
    return Answer(context, fake_.on_report);
  }
  grpc::Status ListSchedules(grpc::ServerContext*, const v1::ListSchedulesRequest* request,
                             v1::ListSchedulesResponse* response) override {
    const absl::MutexLock lock(&mu_);
    for (const auto& [id, schedule] : fake_.schedules) {
      if (schedule.state() == v1::Schedule::DELETED && !request->include_deleted()) continue;
      *response->add_schedules() = schedule;
    }
    NeverEnd(*response);
    return grpc::Status::OK;
  }
  grpc::Status ListScheduleWindows(grpc::ServerContext*, const v1::ListScheduleWindowsRequest*,
                                   v1::ListScheduleWindowsResponse* response) override {
    for (const v1::ScheduleWindow& window : fake_.windows) *response->add_windows() = window;
    NeverEnd(*response);
    return grpc::Status::OK;
  }
  grpc::Status ListAudit(grpc::ServerContext*, const v1::ListAuditRequest*,
                         v1::ListAuditResponse* response) override {
    *response = fake_.audit;
    NeverEnd(*response);
    return grpc::Status::OK;
  }
  grpc::Status GetSchedule(grpc::ServerContext*, const v1::GetScheduleRequest* request,
                           v1::Schedule* response) override {
    const absl::MutexLock lock(&mu_);
    const auto found = fake_.schedules.find(IdOf(request->name()));
    if (found == fake_.schedules.end()) return {grpc::StatusCode::NOT_FOUND, "no such schedule"};
    *response = found->second;
    return grpc::Status::OK;
  }
  grpc::Status ApplySchedule(grpc::ServerContext*, const v1::ApplyScheduleRequest* request,
                             v1::ApplyScheduleResponse* response) override {
    if (!fake_.applies_schedules) return {grpc::StatusCode::UNIMPLEMENTED, ""};
    response->mutable_schedule()->set_name(request->declaration().name());
    response->mutable_schedule()->set_version(request->declaration().version());
    response->set_change(v1::ApplyScheduleResponse::CREATED);
    return grpc::Status::OK;
  }
  grpc::Status DeleteSchedule(grpc::ServerContext*, const v1::DeleteScheduleRequest* request,
                              v1::Schedule* response) override {
    const absl::MutexLock lock(&mu_);
    const auto found = fake_.schedules.find(IdOf(request->name()));
    if (found == fake_.schedules.end()) return {grpc::StatusCode::NOT_FOUND, "no such schedule"};
    found->second.set_state(v1::Schedule::DELETED);
    *response = found->second;
    return grpc::Status::OK;
  }
  grpc::Status ExportTrace(grpc::ServerContext*, const v1::ExportTraceRequest* request,
                           grpc::ServerWriter<v1::ExportTraceResponse>* writer) override {
    {
      const absl::MutexLock lock(&mu_);
      exports.push_back(*request);
    }
    v1::ExportTraceResponse piece;
    const size_t half = fake_.trace_bytes.size() / 2;
    piece.set_data(fake_.trace_bytes.substr(0, half));
    writer->Write(piece);
    piece.set_data(fake_.trace_bytes.substr(half));
    writer->Write(piece);
    return grpc::Status::OK;
  }

  absl::Mutex mu_;
  int watchers = 0;
  int target_pages = 0;
  bool cancelled = false;
  std::vector<int64_t> offsets;
  std::vector<v1::CreateCaptureRequest> creates;
  std::vector<v1::CreateCaptureGroupRequest> group_creates;
  std::vector<v1::ListCapturesRequest> lists;
  std::vector<v1::GetReportRequest> report_calls;
  std::vector<v1::ExportTraceRequest> exports;
  std::vector<v1::GetHistoryRequest> history_calls;
  std::vector<v1::ListRankSummariesRequest> rank_calls;

 private:
  template <typename Response>
  void NeverEnd(Response& response) const {
    if (fake_.never_ends_lists) response.set_next_page_token("0");
  }

  v1::Capture Create(const std::string& target_name, const v1::CaptureSpec& spec,
                     const std::string& group) {
    v1::Capture capture;
    const std::string id = TestId(next_id_++);
    capture.set_name(StrCat("captures/", id));
    capture.set_group(group);
    capture.set_state(v1::Capture::PENDING);
    *capture.mutable_spec() = spec;
    for (const v1::Target& target : fake_.targets) {
      if (target.name() == target_name) *capture.mutable_target() = target;
    }
    fake_.captures[id] = capture;
    created_[id] = capture;
    return capture;
  }

  bool Ended(const std::string& id) const { return fake_.captures.at(id).has_end_time(); }

  void End(const std::string& id, bool as_cancelled) {
    if (Ended(id)) return;
    v1::Capture ended = fake_.ends_as;
    const auto own = fake_.ends_as_for_pid.find(created_[id].target().pid());
    if (own != fake_.ends_as_for_pid.end()) ended = own->second;
    ended.set_name(created_[id].name());
    ended.set_group(created_[id].group());
    *ended.mutable_spec() = created_[id].spec();
    *ended.mutable_target() = created_[id].target();
    ended.mutable_end_time()->set_seconds(1'790'000'020);
    if (as_cancelled) {
      ended.set_state(v1::Capture::CANCELLED);
      ended.set_ended_by("cancel");
    }
    fake_.captures[id] = ended;
  }

  // By name or a unique start of it.
  grpc::Status Find(const std::string& name, v1::Capture* found) {
    int matches = 0;
    for (const auto& [id, capture] : fake_.captures) {
      if (!id.starts_with(IdOf(name))) continue;
      ++matches;
      *found = capture;
    }
    if (matches == 1) return grpc::Status::OK;
    if (matches > 1) return {grpc::StatusCode::INVALID_ARGUMENT, "several captures begin so"};
    return {grpc::StatusCode::NOT_FOUND, StrCat("no capture ", IdOf(name))};
  }

  FakeProfd& fake_;
  absl::CondVar changed_;
  int next_id_ = 1000;
  std::map<std::string, v1::Capture> created_;
  std::unique_ptr<grpc::Server> server_;
};

FakeProfd::FakeProfd(std::filesystem::path directory) : directory_(std::move(directory)) {
  std::filesystem::create_directories(directory_);
  node.set_name("node-a");
  node.set_version("0.1.0");
  node.set_api_version(1);
  node.set_pid(99);
  node.mutable_start_time()->set_seconds(1'790'000'000);
  node.mutable_uptime()->set_seconds(3725);
  node.mutable_clock()->set_event_clock("tsc");
  node.mutable_clock()->set_unix_ns(1'790'003'725'000'000'123);
  node.mutable_storage()->set_max_bytes(int64_t{20} << 30);
  ends_as = ACapture(TestId(0));
  services_ = std::make_unique<Services>(*this);
  services_->Start();
}

FakeProfd::~FakeProfd() { services_->Stop(); }
void FakeProfd::Kill() { services_->Stop(); }
void FakeProfd::Start() { services_->Start(); }

void FakeProfd::AwaitWatchers(int count) {
  const absl::MutexLock lock(&services_->mu_);
  const auto enough = [&] { return services_->watchers >= count; };
  services_->mu_.Await(absl::Condition(&enough));
}

void FakeProfd::AwaitTargetPages(int count) {
  const absl::MutexLock lock(&services_->mu_);
  const auto enough = [&] { return services_->target_pages >= count; };
  services_->mu_.Await(absl::Condition(&enough));
}

int FakeProfd::target_pages() {
  const absl::MutexLock lock(&services_->mu_);
  return services_->target_pages;
}

void FakeProfd::AwaitCancel() {
  const absl::MutexLock lock(&services_->mu_);
  services_->mu_.Await(absl::Condition(&services_->cancelled));
}

std::vector<int64_t> FakeProfd::download_offsets() {
  const absl::MutexLock lock(&services_->mu_);
  return services_->offsets;
}
std::vector<v1::CreateCaptureRequest> FakeProfd::creates() {
  const absl::MutexLock lock(&services_->mu_);
  return services_->creates;
}
std::vector<v1::CreateCaptureGroupRequest> FakeProfd::group_creates() {
  const absl::MutexLock lock(&services_->mu_);
  return services_->group_creates;
}
std::vector<v1::ListCapturesRequest> FakeProfd::lists() {
  const absl::MutexLock lock(&services_->mu_);
  return services_->lists;
}
std::vector<v1::GetReportRequest> FakeProfd::report_calls() {
  const absl::MutexLock lock(&services_->mu_);
  return services_->report_calls;
}
std::vector<v1::ExportTraceRequest> FakeProfd::exports() {
  const absl::MutexLock lock(&services_->mu_);
  return services_->exports;
}
std::vector<v1::GetHistoryRequest> FakeProfd::history_calls() {
  const absl::MutexLock lock(&services_->mu_);
  return services_->history_calls;
}
std::vector<v1::ListRankSummariesRequest> FakeProfd::rank_calls() {
  const absl::MutexLock lock(&services_->mu_);
  return services_->rank_calls;
}

std::string TestId(int number) { return absl::StrFormat("01J0000000000000000000%04d", number); }

v1::Target ATarget(int64_t pid) {
  v1::Target target;
  target.set_name(StrCat("targets/", pid * 10));
  target.set_pid(pid);
  target.set_uid(1000);
  target.set_gid(1000);
  target.set_parent_pid(1);
  target.set_command("python3 train.py");
  target.set_state(v1::Target::RUNNING);
  target.set_step_mark_count(43);
  target.set_current_step(42);
  target.set_steps_per_second(12.5);
  target.mutable_register_time()->set_seconds(1'790'000'000);
  return target;
}

v1::Capture ACapture(const std::string& id) {
  v1::Capture capture;
  capture.set_name(StrCat("captures/", id));
  capture.set_state(v1::Capture::COMPLETE);
  capture.set_ended_by("steps");
  capture.mutable_spec()->set_steps(5);
  *capture.mutable_target() = ATarget(4711);
  capture.mutable_create_time()->set_seconds(1'790'000'000);
  capture.mutable_end_time()->set_seconds(1'790'000'010);
  capture.set_start_unix_ns(1'790'000'001'000'000'123);
  capture.set_covered_ns(50'000'000);
  capture.set_covered_steps(5);
  v1::Window* window = capture.add_windows();
  window->set_end_ns(50'000'000);
  window->set_first_step(11);
  window->set_end_step(16);
  for (int64_t i = 0; i < 5; ++i) {
    v1::Step* step = capture.add_steps();
    step->set_index(11 + i);
    step->set_start_ns(i * 10'000'000);
    step->set_duration_ns(10'000'000);
  }
  capture.set_event_count(1234567);
  capture.set_quality("A");
  capture.set_file_bytes(4096);
  capture.set_file_sha256("00");
  capture.set_clock_error_ns(50);
  return capture;
}

}  // namespace profd::cli
