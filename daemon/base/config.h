// profd's settings: from the command line, else the configuration file, else defaults.
//
// The file has one `name = value` a line (text_file.h), at most 1 MiB; names are those of the
// flags without the dashes. SIGHUP reads it again; settings marked reloadable change at
// once, changes of others are logged and wait for a restart.
//
// How do I add a setting?  A member in Config and a row in kSettings (config.cc). --help,
// the file and the flag follow from the row.
#ifndef PROFD_DAEMON_BASE_CONFIG_H_
#define PROFD_DAEMON_BASE_CONFIG_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/base/log.h"

namespace profd {

struct Config {
  std::filesystem::path data_dir;
  std::filesystem::path socket_dir;
  std::string node_name;
  LogLevel log_level = LogLevel::kInfo;
  LogFormat log_format = LogFormat::kText;
  int64_t max_storage_bytes = int64_t{20} << 30;
  int64_t min_free_percent = 5;
  int64_t keep_days = 180;        // Of records and what belongs to them; 0: for good.
  int64_t max_records = 100'000;  // Of one principal; 0: no limit.
  bool audit_journal = false;     // A copy of each audit row goes to journald.
  // nullopt: as much as profd's memory allows (daemon/quota/limits.h).
  std::optional<int64_t> max_capture_memory_bytes;
  std::optional<int64_t> max_live_captures;
  std::optional<int64_t> max_targets;
  absl::Duration arm_timeout = absl::Seconds(30);
  std::filesystem::path report_program;  // Empty: next to profd, or in ../libexec/profd.
  int64_t max_report_memory_bytes = int64_t{1} << 30;
  absl::Duration max_report_time = absl::Minutes(5);
  bool reflection = false;
  // Started by root: the account to run as. Empty: profd if there is one, else root.
  std::string user;
  std::filesystem::path helper_socket;  // Of profd-helper's unit; empty: none.
  std::filesystem::path policy_file;    // Empty: an owner's and root's rules.
  // Callers on other machines: "HOST:PORT", empty: none.
  std::string listen;
  std::string plaintext_listen;
  std::filesystem::path tls_cert;
  std::filesystem::path tls_key;
  std::filesystem::path tls_ca;
  absl::Duration tls_reload = absl::Seconds(30);
  absl::Duration max_connection_age = absl::Hours(1);
  absl::Duration max_connection_idle = absl::Minutes(10);
  int64_t max_connections = 1024;
  std::string metrics_listen;  // "HOST:PORT"; empty: none are served.
  int64_t metrics_operators = 10;
};

using Getenv = std::function<std::optional<std::string>(const char* name)>;

// What the command line asks for: to run, to prepare the data directory, to check settings, --help
// or --version.
enum class CommandLineAction { kRun, kPrepare, kCheckConfig, kHelp, kVersion };

struct CommandLine {
  CommandLineAction action = CommandLineAction::kRun;
  // As given, in order, for ApplySetting. Unknown names were refused.
  std::vector<std::pair<std::string, std::string>> settings;
  std::optional<std::filesystem::path> config_file;  // --config
};

// INVALID_ARGUMENT naming the argument and the remedy.
absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& arguments);

// Defaults for this user: for root /run/profd and /var/lib/profd; for others
// $XDG_RUNTIME_DIR/profd and $XDG_STATE_HOME/profd (or ~/.local/state/profd). systemd's
// RUNTIME_DIRECTORY and STATE_DIRECTORY come first. Paths that cannot be told stay empty.
Config DefaultConfig(int64_t uid, const Getenv& getenv);
// Where the configuration file is looked for when none is named; it need not exist.
std::filesystem::path DefaultConfigFile(int64_t uid, const Getenv& getenv);

// Sets one setting by name. INVALID_ARGUMENT: unknown name or a value out of range.
absl::Status ApplySetting(std::string_view name, std::string_view value, Config& config);

// Reads a configuration file into `config`; on error `config` is unchanged.
// INVALID_ARGUMENT: a wrong line, which it names, or more than 1 MiB. NOT_FOUND, PERMISSION_DENIED,
// FAILED_PRECONDITION (a folder), or what else reading it gave.
absl::Status ApplyConfigFile(const std::filesystem::path& path, Config& config);

// Defaults, file, flags: in that order. INVALID_ARGUMENT also when a path is missing. A default
// file that cannot be looked for or read is an error; a missing one is not.
absl::StatusOr<Config> LoadConfig(const CommandLine& command_line, int64_t uid,
                                  const Getenv& getenv);

// Names of settings that differ and need a restart.
std::vector<std::string> ChangedBeyondReload(const Config& from, const Config& to);

std::string HelpText();

// "64MiB", "20 GiB", "1048576". nullopt: not a size.
std::optional<int64_t> ParseBytes(std::string_view text);

}  // namespace profd

#endif  // PROFD_DAEMON_BASE_CONFIG_H_
