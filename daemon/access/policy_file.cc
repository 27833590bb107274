#include "daemon/access/policy_file.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "daemon/base/log.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text_file.h"

namespace profd::access {
namespace {

// All ways in which a file comes to be another: written, renamed or linked into place, given away.
constexpr uint32_t kChanges =
    IN_CLOSE_WRITE | IN_MOVED_TO | IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_ATTRIB;

absl::Status CheckTrusted(int fd, const std::filesystem::path& path) {
  struct stat info {};
  if (fstat(fd, &info) != 0) {
    return absl::ErrnoToStatus(errno, ToAbsl(StrCat("stat ", path.string())));
  }
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(StrCat(path.string(), " is not a regular file"));
  }
  const bool ours = info.st_uid == 0 || info.st_uid == geteuid();
  if (ours && (info.st_mode & (S_IWGRP | S_IWOTH)) == 0) return absl::OkStatus();
  return absl::PermissionDeniedError(
      StrCat(path.string(),
             " must belong to root or to profd's user and be writable by nobody "
             "else: chmod 0644, or others decide who may do what"));
}

absl::StatusOr<std::string> ReadTrusted(const std::filesystem::path& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) {
    return absl::ErrnoToStatus(errno, ToAbsl(StrCat("cannot read the policy ", path.string())));
  }
  RETURN_IF_ERROR(CheckTrusted(fd.get(), path));
  return ReadUpTo(kMaxPolicyBytes + 1, path, fd.get());
}

}  // namespace

absl::StatusOr<std::unique_ptr<PolicyFile>> PolicyFile::Open(std::filesystem::path path,
                                                             Clock& clock,
                                                             absl::Duration look_interval) {
  // Watched before it is read: no change falls in between.
  UniqueFd watch(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  UniqueFd stop_event(eventfd(0, EFD_CLOEXEC));
  if (!watch.valid() || !stop_event.valid()) {
    return absl::ErrnoToStatus(errno, "inotify or eventfd for the policy file");
  }
  if (inotify_add_watch(watch.get(), path.parent_path().c_str(), kChanges) < 0) {
    return absl::ErrnoToStatus(errno, ToAbsl(StrCat("cannot watch ", path.parent_path().string())));
  }
  ASSIGN_OR_RETURN(std::string text, ReadTrusted(path));
  ASSIGN_OR_RETURN(Policy policy, ParsePolicy(text, path.string(), AccountNames::OfThisMachine()));
  return std::unique_ptr<PolicyFile>(new PolicyFile(std::move(path), clock, look_interval,
                                                    std::move(policy), std::move(text),
                                                    std::move(watch), std::move(stop_event)));
}

PolicyFile::PolicyFile(std::filesystem::path path, Clock& clock, absl::Duration look_interval,
                       Policy policy, std::string text, UniqueFd watch, UniqueFd stop_event)
    : path_(std::move(path)),
      clock_(clock),
      look_interval_(look_interval),
      watch_(std::move(watch)),
      stop_event_(std::move(stop_event)),
      policy_(std::move(policy)),
      state_{.path = path_, .rule_count = policy_.rule_count, .loaded_time = clock.Now()},
      text_(std::move(text)),
      thread_([this] { Loop(); }) {}

PolicyFile::~PolicyFile() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(stop_event_.get(), &one, sizeof one);
}

std::shared_ptr<const AccessRules> PolicyFile::rules() const {
  absl::MutexLock lock(&mu_);
  return policy_.rules;
}

PolicyFile::State PolicyFile::state() const {
  absl::MutexLock lock(&mu_);
  return state_;
}

void PolicyFile::Reload() {
  absl::MutexLock reload_lock(&reload_mu_);
  absl::StatusOr<std::string> text = ReadTrusted(path_);
  absl::StatusOr<Policy> policy =
      text.ok() ? ParsePolicy(*text, path_.string(), AccountNames::OfThisMachine())
                : absl::StatusOr<Policy>(text.status());
  absl::MutexLock lock(&mu_);
  const std::string error = policy.ok() ? "" : std::string(policy.status().message());
  // Nothing changed, or other files of the folder did, or the same text was written once more.
  std::string read = text.ok() ? *std::move(text) : std::string();
  if (read == text_ && error == state_.error) return;
  text_ = std::move(read);
  state_.error = error;
  if (!error.empty()) {
    LogError(StrCat("the policy stays as it was read at ",
                    FromAbsl(absl::FormatTime(state_.loaded_time)), ": ", error));
    return;
  }
  policy_ = *std::move(policy);
  state_.rule_count = policy_.rule_count;
  state_.loaded_time = clock_.Now();
  LogInfo(StrCat("policy ", path_.string(), " read: ", policy_.rule_count, " rules"));
}

void PolicyFile::LookAgain() {
  const absl::StatusOr<std::string> text = ReadTrusted(path_);
  {
    absl::MutexLock lock(&mu_);
    const bool is_same =
        text.ok() ? *text == text_ : text_.empty() && text.status().message() == state_.error;
    if (is_same) return;
  }
  Reload();
}

void PolicyFile::Loop() {
  pthread_setname_np(pthread_self(), "profd-policy");
  std::array<pollfd, 2> waits = {{{.fd = watch_.get(), .events = POLLIN, .revents = 0},
                                  {.fd = stop_event_.get(), .events = POLLIN, .revents = 0}}};
  while (true) {
    const auto wait_ms = static_cast<int>(absl::ToInt64Milliseconds(look_interval_));
    const int ready = poll(waits.data(), waits.size(), wait_ms);
    if (ready < 0 && errno != EINTR) return;
    if (waits[1].revents != 0) return;
    if (ready == 0) {
      LookAgain();
      continue;
    }
    // What changed does not matter: the file is looked at anyway.
    alignas(inotify_event) std::array<char, 4096> events;
    while (read(watch_.get(), events.data(), events.size()) > 0) {
    }
    Reload();
  }
}

}  // namespace profd::access
