#include "cli/captures/local_store.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <set>
#include <utility>

#include "cli/base/errors.h"
#include "cli/base/flags.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/base/reason.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/report/catalog_summaries.h"
#include "daemon/report/findings/quality.h"
#include "daemon/store/file/files.h"

namespace profd::cli {
namespace {

constexpr size_t kImportPieceBytes = 1 << 20;
constexpr size_t kMaxShownPath = 400;

std::optional<std::string> FromEnvironment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

// What a profd of this user would be run with, with another data directory if `data_dir` says so.
absl::StatusOr<Config> ConfigOf(const std::optional<std::string>& data_dir) {
  CommandLine command_line;
  // Of no use here; a user who is not logged in has no default for it.
  command_line.settings.emplace_back("socket-dir", "/run/profd");
  if (data_dir.has_value()) {
    if (data_dir->empty()) return UsageError("--data-dir: name a folder");
    command_line.settings.emplace_back("data-dir", std::filesystem::absolute(*data_dir).string());
  }
  absl::StatusOr<Config> config = LoadConfig(command_line, geteuid(), FromEnvironment);
  if (!config.ok()) return LocalFailure(config.status());
  return config;
}

bool IsStore(const std::filesystem::path& data_dir) {
  std::error_code error;
  return std::filesystem::exists(data_dir / "catalog.db", error);
}

absl::Status CheckFlags(const Invocation& invocation) {
  for (const std::string_view flag : {"address", "context", "nodes", "job"}) {
    if (!invocation.flags().Has(flag)) continue;
    return UsageError(StrCat("--data-dir reads captures without a daemon, and --", flag,
                             " names one: leave one of them out"));
  }
  return absl::OkStatus();
}

// Whether it was not said which daemon to ask, and none answers where one would be looked for.
bool HasNoDaemon(Invocation& invocation) {
  for (const std::string_view flag : {"nodes", "job"}) {
    if (invocation.flags().Has(flag)) return false;
  }
  const absl::StatusOr<ClientSettings> settings = invocation.Settings();
  if (!settings.ok() || !settings->from.empty()) return false;
  return ReasonOf(invocation.Daemon().status()) == kNoDaemonReason;
}

store::CaptureFilter ForStore(const CaptureFilter& filter) {
  store::CaptureFilter out;
  out.states = filter.states;
  out.labels.assign(filter.labels.begin(), filter.labels.end());
  if (filter.pid > 0) out.pid = filter.pid;
  out.name = filter.display_name;
  out.group_id = filter.group;
  if (filter.since > absl::InfinitePast()) out.since = filter.since;
  if (filter.until < absl::InfiniteFuture()) out.until = filter.until;
  out.include_deleted = filter.include_deleted;
  return out;
}

// What the store cannot look for.
bool Matches(const CaptureFilter& filter, const CaptureRecord& record) {
  return record.schedule_id.starts_with(filter.schedule) &&
         (filter.job.empty() || JobOf(record.target) == filter.job) &&
         (filter.requested_by.empty() || record.requested_by == filter.requested_by);
}

GroupMember GroupMemberOf(const CaptureRecord& record) {
  return {.node = record.node,
          .capture_id = record.id,
          .pid = record.target.pid,
          .rank = RankOf(record.target),
          .state = record.state,
          .error = record.error_message};
}

}  // namespace

LocalStore::LocalStore(Config config, std::unique_ptr<store::CaptureStore> store)
    : config_(std::move(config)), store_(std::move(store)) {}

absl::StatusOr<std::unique_ptr<LocalStore>> LocalStore::Open(Config config, bool make) {
  const std::string shown = ForDisplay(config.data_dir.string(), kMaxShownPath);
  if (!make && !IsStore(config.data_dir)) {
    return LocalFailure(absl::NotFoundError(
        StrCat(shown, " holds no captures: there is no catalog.db that this user can see in it")));
  }
  // What the store does on the side is a daemon's to tell.
  SetLogLevel(LogLevel::kError);
  store::CaptureStore::Options options;
  options.data_dir = config.data_dir;
  options.max_total_bytes = config.max_storage_bytes;
  options.min_free_percent = config.min_free_percent;
  options.check_events = store::CheckerOf(report::CheckEventsForSeal);
  options.summarize = store::SummarizerOf(report::SummarizeForCatalog);
  options.owner = store::StoreOwner::kTool;
  absl::StatusOr<std::unique_ptr<store::CaptureStore>> store =
      store::CaptureStore::Open(std::move(options), Clock::Real());
  if (!store.ok()) return LocalFailure(store.status());
  return std::unique_ptr<LocalStore>(new LocalStore(std::move(config), *std::move(store)));
}

absl::StatusOr<std::unique_ptr<LocalStore>> LocalStore::FindAny(Invocation& invocation, bool make) {
  const std::optional<std::string> data_dir = invocation.flags().Get("data-dir");
  if (data_dir.has_value()) {
    RETURN_IF_ERROR(CheckFlags(invocation));
    ASSIGN_OR_RETURN(Config config, ConfigOf(data_dir));
    return Open(std::move(config), make);
  }
  if (!HasNoDaemon(invocation)) return nullptr;
  absl::StatusOr<Config> config = ConfigOf(std::nullopt);
  // Then it is the daemon that is missing.
  if (!config.ok() || !(make || IsStore(config->data_dir))) return nullptr;
  const std::string shown = ForDisplay(config->data_dir.string(), kMaxShownPath);
  ASSIGN_OR_RETURN(std::unique_ptr<LocalStore> store, Open(*std::move(config), make));
  invocation.Note(make ? StrCat("No profd answers: it goes into ", shown, ".\n")
                       : StrCat("No profd answers: this is what ", shown, " holds.\n"));
  return store;
}

absl::StatusOr<std::unique_ptr<LocalStore>> LocalStore::Find(Invocation& invocation) {
  return FindAny(invocation, /*make=*/false);
}

absl::StatusOr<std::unique_ptr<LocalStore>> LocalStore::FindOrMake(Invocation& invocation) {
  return FindAny(invocation, /*make=*/true);
}

absl::StatusOr<std::vector<CaptureView>> LocalStore::ListCaptures(const CaptureFilter& filter,
                                                                  int64_t limit) {
  ASSIGN_OR_RETURN(const std::set<std::string> pinned, store_->ListPinned());
  std::vector<CaptureView> views;
  std::string token;
  do {
    ASSIGN_OR_RETURN(
        store::CapturePage page,
        store_->ListCaptures(ForStore(filter), store::CaptureStore::kMaxPageSize, token));
    for (CaptureRecord& record : page.captures) {
      if (!Matches(filter, record)) continue;
      views.push_back(ViewOf(std::move(record), {}));
      views.back().pinned = pinned.contains(views.back().record.id);
      if (std::ssize(views) == limit) return views;
    }
    token = std::move(page.next_page_token);
  } while (!token.empty());
  return views;
}

absl::StatusOr<CaptureView> LocalStore::GetCapture(const std::string& id) {
  ASSIGN_OR_RETURN(CaptureRecord record,
                   store_->ResolvePrefix(id, [](const CaptureRecord&) { return true; }));
  CaptureView view = ViewOf(std::move(record), {});
  if (!view.HasEvents()) return view;
  ASSIGN_OR_RETURN(view.pinned, store_->IsPinned(view.record.id));
  ASSIGN_OR_RETURN(const auto reader, store_->OpenReader(view.record.id));
  view.steps.assign(reader->steps().begin(), reader->steps().end());
  return view;
}

absl::StatusOr<GroupView> LocalStore::GetCaptureGroup(const std::string& id) {
  CaptureFilter filter;
  filter.group = id;
  filter.include_deleted = true;
  GroupView group;
  ASSIGN_OR_RETURN(group.captures, ListCaptures(filter, 0));
  if (group.captures.empty()) return absl::NotFoundError(StrCat("no group ", id));
  std::ranges::reverse(group.captures);  // As they were begun.
  absl::StatusOr<GroupRecord> record = store_->GetGroup(id);
  if (record.ok()) {
    group.record = *std::move(record);
    return group;
  }
  if (!absl::IsNotFound(record.status())) return record.status();
  group.record.id = id;
  group.record.requested_by = group.captures.front().record.requested_by;
  for (const CaptureView& view : group.captures) {
    group.record.members.push_back(GroupMemberOf(view.record));
  }
  return group;
}

absl::StatusOr<CaptureView> LocalStore::DeleteCapture(const std::string& id) {
  ASSIGN_OR_RETURN(const CaptureView view, GetCapture(id));
  RETURN_IF_ERROR(store_->DeleteCapture(view.record.id));
  ASSIGN_OR_RETURN(CaptureRecord record, store_->GetCapture(view.record.id));
  return ViewOf(std::move(record), {});
}

absl::StatusOr<CaptureView> LocalStore::SetPinned(const std::string& id, bool pinned) {
  ASSIGN_OR_RETURN(const CaptureView view, GetCapture(id));
  RETURN_IF_ERROR(store_->SetPinned(view.record.id, pinned));
  return GetCapture(id);
}

std::unique_ptr<CaptureSource> LocalStore::OpenSource(CaptureView view) {
  absl::StatusOr<std::unique_ptr<store::CaptureReader>> reader = store_->OpenReader(view.record.id);
  const std::filesystem::path path =
      config_.data_dir / "captures" / StrCat(view.record.id, ".profd");
  return NewStoredSource(std::move(view), path.string(), std::move(reader));
}

absl::StatusOr<CaptureView> LocalStore::Import(const std::string& path,
                                               absl::FunctionRef<void(int64_t, int64_t)> on_bytes) {
  const absl::StatusOr<int64_t> total = store::FileBytes(path);
  if (!total.ok()) return LocalFailure(total.status());
  ASSIGN_OR_RETURN(std::unique_ptr<store::IncomingCapture> incoming, store_->BeginImport(*total));
  std::ifstream file(path, std::ios::binary);
  std::string piece(kImportPieceBytes, '\0');
  while (file.read(piece.data(), static_cast<std::streamsize>(piece.size())) || file.gcount() > 0) {
    RETURN_IF_ERROR(
        incoming->Append(std::string_view(piece).substr(0, static_cast<size_t>(file.gcount()))));
    on_bytes(incoming->received_bytes(), *total);
  }
  const store::Importer importer = {.uid = geteuid(),
                                    .gid = getegid(),
                                    .principal = StrCat("uid:", geteuid()),
                                    .node = config_.node_name};
  ASSIGN_OR_RETURN(CaptureRecord record, store_->FinishImport(std::move(incoming), importer,
                                                              [] { return absl::OkStatus(); }));
  return ViewOf(std::move(record), {});
}

}  // namespace profd::cli
