// profd: the only file that builds the graph of objects. Read it top to bottom for the order
// of the start, and Daemon::Run()'s end for that of the shutdown.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/time/time.h"
#include "daemon/access/policy_file.h"
#include "daemon/base/clock.h"
#include "daemon/base/config.h"
#include "daemon/base/journal.h"
#include "daemon/base/lock_checks.h"
#include "daemon/base/log.h"
#include "daemon/base/reason.h"
#include "daemon/base/service_notifier.h"
#include "daemon/base/standard_files.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/unique_fd.h"
#include "daemon/base/watchdog.h"
#include "daemon/capture/capture_manager.h"
#include "daemon/ingest/agent_socket.h"
#include "daemon/ingest/target_server.h"
#include "daemon/metrics/exporter.h"
#include "daemon/privilege/helper_reader.h"
#include "daemon/privilege/root_start.h"
#include "daemon/quota/ledger.h"
#include "daemon/quota/limits.h"
#include "daemon/quota/memory_limit.h"
#include "daemon/rpc/admission/control_listener.h"
#include "daemon/rpc/control_server.h"
#include "daemon/rpc/services/target_events.h"
#include "daemon/schedule/schedule_runner.h"
#include "daemon/store/capture_store.h"
#include "daemon/store/data_dir.h"
#include "daemon/worker/report_process.h"
#include "daemon/worker/seal_pool.h"
#include "proto/wire/frame.h"

namespace profd {
namespace {

constexpr int kExitOk = 0;
constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;

// How long calls in flight may take once everything else has ended.
constexpr absl::Duration kGrace = absl::Seconds(2);
// How long captures that end with profd may take until their events have been analyzed. A GPU may
// need 14 s of it to give its last records. systemd waits for 30 s (deploy/systemd).
constexpr absl::Duration kSealGrace = absl::Seconds(24);

std::optional<std::string> FromEnvironment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

// The descriptors that systemd, or profd as root, opened for us, by their names.
struct InheritedSockets {
  UniqueFd control;
  UniqueFd agent;
  UniqueFd helper;
};

InheritedSockets TakeInheritedSockets() {
  InheritedSockets sockets;
  char** names = nullptr;
  const int count = sd_listen_fds_with_names(/*unset_environment=*/1, &names);
  for (int i = 0; i < count; ++i) {
    UniqueFd fd(SD_LISTEN_FDS_START + i);
    const std::string_view name = names[i];
    if (name == kControlSocketFdName) {
      sockets.control = std::move(fd);
    } else if (name == kAgentSocketFdName) {
      sockets.agent = std::move(fd);
    } else if (name == kHelperFdName) {
      sockets.helper = std::move(fd);
    }
    free(names[i]);
  }
  free(names);
  return sockets;
}

absl::Status MakeSocketDir(const std::filesystem::path& directory) {
  std::error_code error;
  const bool created = std::filesystem::create_directories(directory, error);
  // Everybody's targets and callers must reach the sockets in it.
  if (created) std::filesystem::permissions(directory, std::filesystem::perms(0755), error);
  if (!error) return absl::OkStatus();
  return absl::PermissionDeniedError(
      StrCat("cannot make ", directory.string(), ": ", error.message(), "; name a --socket-dir"));
}

// What signals ask for. They are blocked in every thread and taken here, one by one.
sigset_t HandledSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  return signals;
}

std::string_view NameOf(wire::ClockKind kind) {
  switch (kind) {
    case wire::ClockKind::kMonotonicNs:
      return "monotonic";
    case wire::ClockKind::kTsc:
      return "tsc";
    case wire::ClockKind::kCntvct:
      return "cntvct";
  }
  return "unknown";
}

// --prepare: only what needs CAP_CHOWN, so that the daemon itself can be started without it.
absl::Status Prepare(const Config& config) {
  ASSIGN_OR_RETURN(const std::optional<Account> account, AccountFor(config.user));
  if (geteuid() != 0) return absl::FailedPreconditionError("--prepare: run it as root");
  if (!account.has_value()) return absl::OkStatus();
  return store::GiveDataDir(config.data_dir, account->uid, account->gid);
}

// Started by root: does what needs root and goes on as the daemon's user. Returns OK if the daemon
// is to run as whoever started it; does not return if it became another user's.
absl::Status GiveUpRoot(const Config& config, const std::vector<std::string>& arguments) {
  if (geteuid() != 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::optional<Account> account, AccountFor(config.user));
  if (!account.has_value()) {
    if (config.user.empty()) {
      LogWarning(StrCat("profd runs as root, because there is no account '", kDaemonAccount,
                        "': create it (useradd --system --shell /usr/sbin/nologin ", kDaemonAccount,
                        "), or set user = root to confirm"));
    }
    return absl::OkStatus();
  }
  const std::filesystem::path helper = FindHelper();
  if (helper.empty()) {
    return absl::NotFoundError(
        "profd-helper is not next to profd and not in ../libexec/profd: install it, or set user = "
        "root");
  }
  RETURN_IF_ERROR(store::GiveDataDir(config.data_dir, account->uid, account->gid));
  InheritedSockets sockets = TakeInheritedSockets();
  if (!sockets.control.valid() || !sockets.agent.valid()) {
    RETURN_IF_ERROR(MakeSocketDir(config.socket_dir));
  }
  // Libraries trust only sockets of root, so root makes them and calls listen().
  if (!sockets.control.valid()) {
    ASSIGN_OR_RETURN(sockets.control, rpc::ListenAt(config.socket_dir));
  }
  if (!sockets.agent.valid()) {
    ASSIGN_OR_RETURN(AgentSocket agent, AgentSocket::Listen(config.socket_dir));
    sockets.agent = std::move(agent).TakeFd();
  }
  ASSIGN_OR_RETURN(sockets.helper, StartHelper(helper));
  RETURN_IF_ERROR(BecomeUser(*account));
  LogInfo(StrCat("profd goes on as user ", account->name, " (uid ", account->uid, ")"));
  std::vector<PassedFd> passed;
  passed.push_back({std::move(sockets.control), kControlSocketFdName});
  passed.push_back({std::move(sockets.agent), kAgentSocketFdName});
  passed.push_back({std::move(sockets.helper), kHelperFdName});
  return StartAgain(arguments, std::move(passed));
}

// WatchdogSec= of the unit that runs us.
absl::Duration WatchdogPeriod() {
  uint64_t period_us = 0;
  const bool is_set = sd_watchdog_enabled(/*unset_environment=*/0, &period_us) > 0;
  return is_set ? absl::Microseconds(period_us) : Watchdog::kDefaultPeriod;
}

rpc::RemoteOptions RemoteOptionsOf(const Config& config) {
  rpc::RemoteOptions options;
  options.listen = config.listen;
  options.tls = {
      .certificate = config.tls_cert, .key = config.tls_key, .authorities = config.tls_ca};
  options.tls_reload = config.tls_reload;
  options.plaintext_listen = config.plaintext_listen;
  options.connections.max_connections = config.max_connections;
  options.max_connection_age = config.max_connection_age;
  options.max_connection_idle = config.max_connection_idle;
  return options;
}

// --check-config: what else than settings, which were read, keeps profd from starting.
absl::Status CheckFiles(const Config& config) {
  if (geteuid() == 0) RETURN_IF_ERROR(AccountFor(config.user).status());
  if (!config.policy_file.empty()) {
    RETURN_IF_ERROR(access::PolicyFile::Open(config.policy_file, Clock::Real()).status());
  }
  return rpc::ControlServer::CheckFiles(RemoteOptionsOf(config));
}

// Settings win over what the memory allows.
quota::Limits LimitsOf(const Config& config, const quota::MemoryLimit& memory) {
  using quota::Resource;
  quota::Limits limits = quota::Limits::ForMemory(memory.bytes);
  limits.SetCapacity(Resource::kStoredBytes, config.max_storage_bytes);
  if (const auto& bytes = config.max_capture_memory_bytes) {
    limits.SetCapacity(Resource::kCaptureMemory, *bytes);
  }
  if (const auto& captures = config.max_live_captures) {
    limits.SetCapacity(Resource::kLiveCaptures, *captures);
  }
  limits.SetCapacity(Resource::kRemoteConnections, config.max_connections);
  if (const auto& targets = config.max_targets) limits.SetCapacity(Resource::kTargets, *targets);
  return limits;
}

class Daemon {
 public:
  Daemon(Config config, CommandLine command_line)
      : config_(std::move(config)), command_line_(std::move(command_line)) {}

  // Starts everything, serves until SIGTERM or SIGINT, ends everything.
  absl::Status Run();

 private:
  absl::Status StartMetrics();
  void StartSeals();
  std::filesystem::path ReportProgram() const;  // For reports and seals.
  metrics::IngestNumbers IngestNumbersNow();
  metrics::AccessNumbers AccessNumbersNow();
  rpc::NodeFacts NodeFactsNow();
  void Audit(const ScheduledAttempt& attempt);
  void CopyToJournal(const store::AuditEntry& entry) const;
  // Where the control server asks for the rules; unset: it has its own.
  std::function<std::shared_ptr<const AccessRules>()> RulesNow();
  void WaitForEnd();
  void FeedWatchdog();
  void Reload();

  Config config_;
  const CommandLine command_line_;
  Clock& clock_ = Clock::Real();
  const quota::MemoryLimit memory_ = quota::FindMemoryLimit();
  quota::Ledger ledger_{LimitsOf(config_, memory_), clock_};

  ServiceNotifier service_manager_{FromEnvironment("NOTIFY_SOCKET").value_or("")};
  Watchdog watchdog_{clock_, WatchdogPeriod()};
  const Journal journal_;
  // In the order of their start; destroyed in reverse.
  std::unique_ptr<HelperReader> helper_;  // nullptr: what this process may see itself.
  std::unique_ptr<metrics::Exporter> exporter_;
  std::unique_ptr<access::PolicyFile> policy_;  // nullptr: none was named.
  std::unique_ptr<worker::SealPool> seals_;     // Outlives the store, whose threads wait for it.
  std::unique_ptr<store::CaptureStore> store_;
  std::unique_ptr<TargetServer> targets_;
  std::unique_ptr<CaptureManager> manager_;
  std::unique_ptr<ScheduleRunner> schedules_;
  std::unique_ptr<rpc::TargetEvents> news_;
  std::unique_ptr<rpc::ControlServer> server_;
};

absl::Status Daemon::Run() {
  InheritedSockets inherited = TakeInheritedSockets();
  if (!inherited.control.valid() || !inherited.agent.valid()) {
    RETURN_IF_ERROR(MakeSocketDir(config_.socket_dir));
  }
  if (inherited.helper.valid()) {
    helper_ = std::make_unique<HelperReader>(std::move(inherited.helper));
  } else if (!config_.helper_socket.empty()) {
    helper_ = std::make_unique<HelperReader>(config_.helper_socket);
  }
  // First, so that whoever watches hears of a start that takes long.
  RETURN_IF_ERROR(StartMetrics());

  // Without the rules it was told to keep, it serves nobody.
  if (!config_.policy_file.empty()) {
    ASSIGN_OR_RETURN(policy_, access::PolicyFile::Open(config_.policy_file, clock_));
  }
  // Opening the store gives captures that an earlier daemon left their final state, before callers
  // can ask for it. Their files are recovered meanwhile.
  store::CaptureStore::Options store_options;
  store_options.data_dir = config_.data_dir;
  store_options.max_total_bytes = config_.max_storage_bytes;
  store_options.min_free_percent = config_.min_free_percent;
  store_options.keep_records = absl::Hours(24 * config_.keep_days);
  store_options.max_records = config_.max_records;
  store_options.on_audit = [this](const store::AuditEntry& entry, bool written, bool repeated) {
    // What the log could not take is worth the journal in any case.
    if (!written || (config_.audit_journal && !repeated)) CopyToJournal(entry);
  };
  StartSeals();
  // Also where something that follows fails, while files are recovered.
  const absl::Cleanup no_more_seals = [this] { seals_->CancelAfter(absl::ZeroDuration()); };
  store_options.check_events = [this](const std::filesystem::path& file) {
    return seals_->CheckEvents(file);
  };
  store_options.summarize = [this](const std::filesystem::path& file,
                                   const store::SummaryRequest& request) {
    return seals_->Summarize(file, request);
  };
  store_options.recover_in_background = true;
  store_options.ledger = &ledger_;
  ASSIGN_OR_RETURN(store_, store::CaptureStore::Open(std::move(store_options), clock_));

  TargetServer::Options target_options;
  target_options.processes = helper_.get();
  target_options.watchdog = &watchdog_;
  target_options.capture.watchdog = &watchdog_;
  if (inherited.agent.valid()) {
    ASSIGN_OR_RETURN(targets_, TargetServer::CreateFromSocket(std::move(inherited.agent),
                                                              target_options, ledger_, clock_));
  } else {
    ASSIGN_OR_RETURN(targets_,
                     TargetServer::Create(config_.socket_dir, target_options, ledger_, clock_));
  }

  CaptureManager::Options manager_options;
  manager_options.node_name = config_.node_name;
  manager_options.arm_timeout = config_.arm_timeout;
  manager_options.ledger = &ledger_;
  manager_options.watchdog = &watchdog_;
  ASSIGN_OR_RETURN(manager_options.captures_forbidden, store_->CapturesForbidden());
  manager_options.on_end = [this](const CaptureRecord& record) { exporter_->CaptureEnded(record); };
  manager_ =
      std::make_unique<CaptureManager>(std::move(manager_options), *targets_, *store_, clock_);
  ScheduleRunner::Options schedule_options;
  schedule_options.node_name = config_.node_name;
  schedule_options.rules = RulesNow();
  schedule_options.watchdog = &watchdog_;
  schedule_options.ledger = &ledger_;
  schedule_options.on_attempt = [this](const ScheduledAttempt& attempt) { Audit(attempt); };
  schedule_options.on_window = [this](const ScheduleWindow& window) {
    exporter_->counters().WindowEnded(ToString(window.outcome));
  };
  schedules_ = std::make_unique<ScheduleRunner>(std::move(schedule_options), *store_, *manager_,
                                                *targets_, clock_);
  RETURN_IF_ERROR(schedules_->Start());
  news_ = std::make_unique<rpc::TargetEvents>(*manager_);

  rpc::ControlServerOptions server_options;
  server_options.socket_dir = config_.socket_dir;
  server_options.inherited_listener = std::move(inherited.control);
  server_options.processes = helper_.get();
  server_options.node_name = config_.node_name;
  server_options.version = PROFD_VERSION;
  server_options.data_dir = config_.data_dir;
  server_options.start_time = clock_.Now();
  server_options.start_monotonic = clock_.Monotonic();
  server_options.reflection = config_.reflection;
  server_options.remote = RemoteOptionsOf(config_);
  server_options.report_program = ReportProgram();
  server_options.max_report_memory_bytes =
      std::min(config_.max_report_memory_bytes, memory_.bytes / 3);
  server_options.max_report_time = config_.max_report_time;
  ASSIGN_OR_RETURN(server_,
                   rpc::ControlServer::Start(std::move(server_options),
                                             rpc::ControlServer::Parts{
                                                 .manager = *manager_,
                                                 .targets = *targets_,
                                                 .store = *store_,
                                                 .schedules = *schedules_,
                                                 .target_events = *news_,
                                                 .ledger = ledger_,
                                                 .clock = clock_,
                                                 .node_facts = [this] { return NodeFactsNow(); },
                                                 .on_call =
                                                     [this](const rpc::CallStats& end) {
                                                       exporter_->counters().CallEnded(
                                                           end.method, end.code, end.reason,
                                                           end.took, end.sent_bytes);
                                                     },
                                                 .access_rules = RulesNow(),
                                                 .watchdog = &watchdog_,
                                             }));
  // Targets last: whoever registers can be captured from then on.
  targets_->Start(*news_);

  LogInfo(StrCat("profd ", PROFD_VERSION, " node=", config_.node_name, " socket_dir=",
                 config_.socket_dir.string(), " data_dir=", config_.data_dir.string(),
                 " memory_limit=", memory_.bytes >> 20, "MiB (", memory_.source, ")"));
  exporter_->Open({.targets = *targets_,
                   .store = *store_,
                   .live_captures = [this] { return manager_->Live(); },
                   .ingest = [this] { return IngestNumbersNow(); },
                   .access = [this] { return AccessNumbersNow(); },
                   .quotas = ledger_,
                   .sockets = {metrics::SocketPlace(config_.socket_dir / rpc::kControlSocketName),
                               metrics::SocketPlace(AgentSocket::PathIn(config_.socket_dir))}});
  service_manager_.Notify("READY=1");
  WaitForEnd();
  service_manager_.Notify("STOPPING=1");
  exporter_->Close();

  // Captures end and are stored while callers can still see it; then the callers; then the
  // targets, which go on training and look for the next daemon.
  seals_->CancelAfter(kSealGrace);
  manager_->Shutdown();
  // Those of imports and of recovered files: the next start makes them.
  seals_->CancelAfter(absl::ZeroDuration());
  schedules_->Stop();
  server_->Shutdown(kGrace);
  targets_->Shutdown();
  LogInfo("profd ended");
  return absl::OkStatus();
}

std::filesystem::path Daemon::ReportProgram() const {
  return config_.report_program.empty() ? worker::FindReportProgram() : config_.report_program;
}

void Daemon::StartSeals() {
  worker::SealPool::Options options;
  options.max_duration = std::min(options.max_duration, config_.max_report_time);
  options.watchdog = &watchdog_;
  seals_ = std::make_unique<worker::SealPool>(options, clock_, [this] {
    return std::make_unique<worker::SpawnedProcess>(
        worker::SpawnOptions{
            .program = ReportProgram(),
            .max_memory_bytes = std::min(worker::SealPool::kMaxMemoryBytes, memory_.bytes / 3),
            .memory_setting = "",
            .yields_to_training = false},
        clock_);
  });
}

absl::Status Daemon::StartMetrics() {
  metrics::Exporter::Options options;
  options.listen = config_.metrics_listen;
  options.node_name = config_.node_name;
  options.version = PROFD_VERSION;
  options.windows.operators = config_.metrics_operators;
  options.watchdog = &watchdog_;
  ASSIGN_OR_RETURN(exporter_, metrics::Exporter::Start(std::move(options), clock_));
  return absl::OkStatus();
}

metrics::IngestNumbers Daemon::IngestNumbersNow() {
  const TargetRegistry::MemoryUse memory = targets_->memory_use();
  return {.capture_memory_bytes = memory.reserved_bytes,
          .max_capture_memory_bytes = memory.cap_bytes,
          .skipped_frame_count = targets_->counters().unknown_frames,
          .refused_target_count = targets_->counters().refused_connections};
}

metrics::AccessNumbers Daemon::AccessNumbersNow() {
  metrics::AccessNumbers numbers;
  if (const auto forbidden = store_->CapturesForbidden(); forbidden.ok()) {
    numbers.captures_allowed = !forbidden->has_value();
  }
  if (policy_ != nullptr) numbers.policy_current = policy_->state().error.empty();
  numbers.certificate_end = server_->certificate_end();
  numbers.cut_off_connections = server_->cut_off_connections();
  return numbers;
}

rpc::NodeFacts Daemon::NodeFactsNow() {
  TickClock& clock = targets_->clock();
  const TargetRegistry::MemoryUse memory = targets_->memory_use();
  return {.event_clock = std::string(NameOf(clock.kind())),
          .ticks_per_second = 1e9 / clock.NsPerTick(),
          .capture_memory_bytes = memory.reserved_bytes,
          .max_capture_memory_bytes = memory.cap_bytes,
          .unknown_frame_count = targets_->counters().unknown_frames,
          .refused_target_count = targets_->counters().refused_connections,
          .policy_error = policy_ == nullptr ? "" : policy_->state().error};
}

// Who asks for these captures is not at admission, where all other calls are written down.
void Daemon::Audit(const ScheduledAttempt& attempt) {
  store::AuditEntry entry;
  entry.time = clock_.Now();
  entry.principal = StrCat("schedule:", attempt.schedule_id);
  entry.method = "CreateCapture";
  entry.resource = attempt.result.ok() ? StrCat("captures/", attempt.result->id)
                                       : StrCat("pid ", attempt.target.pid);
  entry.outcome = absl::StatusCodeToString(attempt.result.status().code());
  entry.reason = ReasonOf(attempt.result.status());
  if (absl::Status status = store_->AppendAudit(entry); !status.ok()) {
    LogError(StrCat("the audit log cannot be written: ", FromAbsl(status.message())));
  }
}

void Daemon::CopyToJournal(const store::AuditEntry& entry) const {
  const std::string& result = entry.reason.empty() ? entry.outcome : entry.reason;
  const Journal::Field fields[] = {
      {"MESSAGE",
       StrCat("audit: ", entry.principal, " ", entry.method, " ", entry.resource, ": ", result)},
      {"PRIORITY", "5"},
      {"SYSLOG_IDENTIFIER", "profd-audit"},
      {"PROFD_PRINCIPAL", entry.principal},
      {"PROFD_PEER", entry.peer},
      {"PROFD_METHOD", entry.method},
      {"PROFD_RESOURCE", entry.resource},
      {"PROFD_OUTCOME", entry.outcome},
      {"PROFD_REASON", entry.reason},
  };
  journal_.Send(fields);
}

std::function<std::shared_ptr<const AccessRules>()> Daemon::RulesNow() {
  if (policy_ == nullptr) return nullptr;
  return [this] { return policy_->rules(); };
}

void Daemon::WaitForEnd() {
  const sigset_t signals = HandledSignals();
  const timespec interval = absl::ToTimespec(watchdog_.check_interval());
  for (;;) {
    siginfo_t info{};
    const int signal = sigtimedwait(&signals, &info, &interval);
    if (signal > 0 && signal != SIGHUP) {
      // No thread is asked anything any more: what an answer would need is about to go.
      LogInfo(StrCat("signal ", signal, " from pid ", info.si_pid, ": ending"));
      return;
    }
    // Also after SIGHUP: signals that keep coming must not keep it from being fed.
    FeedWatchdog();
    if (signal == SIGHUP) Reload();
  }
}

// A main thread that is stuck feeds it no more.
void Daemon::FeedWatchdog() {
  service_manager_.Retry();
  if (watchdog_.Check()) service_manager_.Notify("WATCHDOG=1");
}

void Daemon::Reload() {
  service_manager_.Notify("RELOADING=1");
  if (policy_ != nullptr) policy_->Reload();
  absl::StatusOr<Config> read = LoadConfig(command_line_, geteuid(), FromEnvironment);
  if (!read.ok()) {
    LogError(StrCat("settings unchanged: ", FromAbsl(read.status().message())));
  } else {
    for (const std::string& name : ChangedBeyondReload(config_, *read)) {
      LogWarning(StrCat(name, " has changed; it takes effect when profd is restarted"));
    }
    config_.log_level = read->log_level;
    config_.log_format = read->log_format;
    config_.max_storage_bytes = read->max_storage_bytes;
    config_.min_free_percent = read->min_free_percent;
    config_.max_capture_memory_bytes = read->max_capture_memory_bytes;
    SetLogLevel(config_.log_level);
    SetLogFormat(config_.log_format);
    store_->SetLimits(config_.max_storage_bytes, config_.min_free_percent);
    store_->TrimSoon();
    const quota::Limits limits = LimitsOf(config_, memory_);
    for (const auto resource : {quota::Resource::kStoredBytes, quota::Resource::kCaptureMemory}) {
      ledger_.SetLimit(resource, limits.of(resource));
    }
    server_->CheckCertificates();
    LogInfo("settings read again");
  }
  service_manager_.Notify("READY=1");
}

int Main(const std::vector<std::string>& arguments) {
  absl::StatusOr<CommandLine> command_line = ParseCommandLine(arguments);
  const auto usage_error = [](const absl::Status& status) {
    std::fprintf(stderr, "profd: %s\n", std::string(status.message()).c_str());
    return kExitUsage;
  };
  if (!command_line.ok()) return usage_error(command_line.status());
  if (command_line->action == CommandLineAction::kHelp) {
    std::fputs(HelpText().c_str(), stdout);
    return kExitOk;
  }
  if (command_line->action == CommandLineAction::kVersion) {
    std::puts("profd " PROFD_VERSION);
    return kExitOk;
  }
  absl::StatusOr<Config> config = LoadConfig(*command_line, geteuid(), FromEnvironment);
  if (!config.ok()) return usage_error(config.status());
  if (command_line->action == CommandLineAction::kCheckConfig) {
    const absl::Status checked = CheckFiles(*config);
    if (!checked.ok()) return usage_error(checked);
    std::printf("profd: right: settings%s%s\n", config->policy_file.empty() ? "" : ", policy",
                config->listen.empty() ? "" : ", certificates");
    return kExitOk;
  }
  SetLogLevel(config->log_level);
  SetLogFormat(config->log_format);
  // Started again, its name would be that of /proc/self/exe.
  prctl(PR_SET_NAME, "profd");
  const bool prepare = command_line->action == CommandLineAction::kPrepare;
  const absl::Status started = prepare ? Prepare(*config) : GiveUpRoot(*config, arguments);
  if (!started.ok()) {
    LogError(StrCat("profd cannot start: ", FromAbsl(started.message())));
    return absl::IsInvalidArgument(started) ? kExitUsage : kExitFailed;
  }
  if (prepare) return kExitOk;

  // Before the first thread, so that all inherit it.
  const sigset_t signals = HandledSignals();
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  // A reader that went away and a file size limit are errors of the call, not of the process.
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  umask(S_IRWXG | S_IRWXO);

  // From here on no thread waits for the reader of stderr.
  const LogThread log_thread(STDERR_FILENO);
  const absl::Status status = Daemon(*std::move(config), *std::move(command_line)).Run();
  if (status.ok()) return kExitOk;
  LogError(StrCat("profd cannot run: ", FromAbsl(status.message())));
  return kExitFailed;
}

}  // namespace
}  // namespace profd

int main(int argc, char** argv) {
  profd::KeepStandardFilesApart();
  profd::SkipLockChecks();
  return profd::Main(std::vector<std::string>(argv + 1, argv + argc));
}
