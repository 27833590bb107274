#include "daemon/privilege/root_start.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <spawn.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "daemon/base/str_cat.h"
#include "daemon/privilege/helper_protocol.h"

namespace profd {
namespace {

constexpr int kFirstPassedFd = 3;  // As sd_listen_fds(3) has it.

absl::Status Failed(std::string_view what) { return absl::ErrnoToStatus(errno, ToAbsl(what)); }

// What a child may never get back, whatever it executes. Without CAP_SETPCAP the kernel refuses;
// then no_new_privs alone keeps it so.
void DropBoundingSet() {
  for (int capability = 0; capability <= CAP_LAST_CAP; ++capability) {
    prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
  }
}

bool HasCapabilities() {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct sets[2] = {};
  return syscall(SYS_capget, &header, sets) != 0 || sets[0].permitted != 0 ||
         sets[1].permitted != 0;
}

std::filesystem::path OwnProgram() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error);
}

// Where systemd names them, so that the settings' defaults stay those of root.
void SetDefaultFolders() {
  setenv("CONFIGURATION_DIRECTORY", "/etc/profd", /*overwrite=*/0);
  setenv("RUNTIME_DIRECTORY", "/run/profd", /*overwrite=*/0);
  setenv("STATE_DIRECTORY", "/var/lib/profd", /*overwrite=*/0);
  setenv("HOME", "/", /*overwrite=*/1);
}

// Puts the descriptors where sd_listen_fds(3) looks, and closes all others but the standard ones.
absl::Status PassDescriptors(std::vector<PassedFd> passed) {
  const int count = static_cast<int>(passed.size());
  std::string names;
  for (PassedFd& each : passed) {
    StrAppend(&names, names.empty() ? "" : ":", each.name);
    // First out of the way of the numbers that they get.
    const int moved = fcntl(each.fd.get(), F_DUPFD_CLOEXEC, kFirstPassedFd + count);
    if (moved < 0) return Failed("F_DUPFD_CLOEXEC");
    each.fd.Reset(moved);
  }
  for (int i = 0; i < count; ++i) {
    if (dup2(passed[static_cast<size_t>(i)].fd.get(), kFirstPassedFd + i) < 0) {
      return Failed("dup2");
    }
  }
  for (PassedFd& each : passed) each.fd.Reset();
  syscall(SYS_close_range, static_cast<unsigned>(kFirstPassedFd + count), ~0U, 0);
  setenv("LISTEN_PID", StrCat(getpid()).c_str(), 1);
  setenv("LISTEN_FDS", StrCat(count).c_str(), 1);
  setenv("LISTEN_FDNAMES", names.c_str(), 1);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::optional<Account>> AccountFor(const std::string& user) {
  if (user == "root") return std::nullopt;
  const std::string name = user.empty() ? kDaemonAccount : user;
  errno = 0;
  const passwd* entry = getpwnam(name.c_str());
  if (entry == nullptr && user.empty()) return std::nullopt;
  if (entry == nullptr) {
    return absl::InvalidArgumentError(StrCat(
        "user: no account '", name, "'; create it (useradd --system --shell /usr/sbin/nologin ",
        name, ") or set user = root"));
  }
  if (entry->pw_uid == 0) return std::nullopt;
  return Account{.name = name, .uid = entry->pw_uid, .gid = entry->pw_gid};
}

std::filesystem::path FindHelper() {
  const std::filesystem::path folder = OwnProgram().parent_path();
  for (const std::filesystem::path& path :
       {folder / "profd-helper", folder.parent_path() / "libexec/profd/profd-helper"}) {
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return {};
}

absl::StatusOr<UniqueFd> StartHelper(const std::filesystem::path& program) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return Failed("socketpair");
  UniqueFd ours(ends[0]);
  // dup2() onto the same number would keep close-on-exec.
  const UniqueFd theirs(fcntl(ends[1], F_DUPFD_CLOEXEC, kHelperConnectionFd + 1));
  close(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, theirs.get(), kHelperConnectionFd);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // A session of its own: Ctrl-C in a terminal is for the daemon, whose end ends the helper.
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  std::string name = program.string();
  char* const arguments[] = {name.data(), nullptr};
  char* const environment[] = {nullptr};
  pid_t pid = 0;
  const int error = posix_spawn(&pid, name.c_str(), &actions, &attributes, arguments, environment);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    return absl::ErrnoToStatus(error, ToAbsl(StrCat("cannot start '", name, "'")));
  }
  return ours;
}

absl::Status BecomeUser(const Account& account) {
  const std::string remedy =
      StrCat("cannot become user '", account.name,
             "'; profd needs CAP_SETUID and CAP_SETGID to start as root, or user = root");
  DropBoundingSet();
  // Groups, then the group, then the user: after the user is changed, the process may change
  // neither.
  if (initgroups(account.name.c_str(), account.gid) != 0 ||
      setresgid(account.gid, account.gid, account.gid) != 0 ||
      setresuid(account.uid, account.uid, account.uid) != 0) {
    return absl::ErrnoToStatus(errno, ToAbsl(remedy));
  }
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return Failed("PR_SET_NO_NEW_PRIVS");
  // Checked and not assumed: a saved user ID or an inherited capability would give root's rights
  // back.
  if (setuid(0) == 0 || HasCapabilities()) {
    return absl::InternalError(StrCat("user '", account.name, "' still has root's privileges"));
  }
  return absl::OkStatus();
}

absl::Status StartAgain(const std::vector<std::string>& arguments, std::vector<PassedFd> passed) {
  if (absl::Status status = PassDescriptors(std::move(passed)); !status.ok()) return status;
  SetDefaultFolders();
  std::vector<std::string> words = {"profd"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  execv("/proc/self/exe", pointers.data());
  return Failed("cannot start profd again");
}

}  // namespace profd
