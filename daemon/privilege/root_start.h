// The start of a profd that root started outside of systemd: what needs root is done once, then the
// process gives root up for good and starts itself again as an ordinary user.
//
//   profd (root)   makes and owns both sockets, calls listen(), prepares the data directory
//     |-- profd-helper     keeps two capabilities; ends when profd ends
//     `-- exec profd       as user profd, without capabilities; sockets and helper are passed in
//
// The second profd finds everything as systemd passes it: LISTEN_FDS with the names control, agent,
// and helper. So there is one way to run, and nothing of the first remains in memory.
//
// Threads: before the first thread.
#ifndef PROFD_DAEMON_PRIVILEGE_ROOT_START_H_
#define PROFD_DAEMON_PRIVILEGE_ROOT_START_H_

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/base/unique_fd.h"

namespace profd {

inline constexpr char kDaemonAccount[] = "profd";
// Names of passed descriptors (sd_listen_fds_with_names(3)).
inline constexpr std::string_view kControlSocketFdName = "control";
inline constexpr std::string_view kAgentSocketFdName = "agent";
inline constexpr std::string_view kHelperFdName = "helper";

struct Account {
  std::string name;
  uid_t uid = 0;
  gid_t gid = 0;
};

// The account that a daemon started by root runs as. `user` is the setting: empty means profd if
// that account exists, and else nullopt: stay root. "root" is nullopt. INVALID_ARGUMENT with the
// remedy: there is no such account.
absl::StatusOr<std::optional<Account>> AccountFor(const std::string& user);

// Starts profd-helper and returns its connection. `program`: its path. NOT_FOUND: it is not there.
absl::StatusOr<UniqueFd> StartHelper(const std::filesystem::path& program);
// Next to this program, or in the libexec folder of its installation; empty: in neither.
std::filesystem::path FindHelper();

struct PassedFd {
  UniqueFd fd;
  std::string_view name;
};

// Becomes `account` for good: groups, ids, no capabilities, no_new_privs.
absl::Status BecomeUser(const Account& account);
// Replaces this process by the same program with the same arguments. Returns only if that fails.
absl::Status StartAgain(const std::vector<std::string>& arguments, std::vector<PassedFd> passed);

}  // namespace profd

#endif  // PROFD_DAEMON_PRIVILEGE_ROOT_START_H_
