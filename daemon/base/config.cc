#include "daemon/base/config.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/numbers.h"
#include "daemon/base/host_port.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/text_file.h"

namespace profd {
namespace {

constexpr size_t kMaxConfigBytes = 1 << 20;

struct Setting {
  std::string_view name;
  std::string_view value;  // What stands for the value in --help; empty: a switch.
  std::string_view help;
  bool reloadable;
  // False: not a value of this setting. `allowed` says what is.
  bool (*set)(std::string_view value, Config& config);
  std::string_view allowed;
  // For comparing configurations.
  std::string (*get)(const Config& config);
};

bool SetPath(std::string_view value, std::filesystem::path& path) {
  // The system would read a path up to its first NUL byte: another one than we show.
  if (value.empty() || value[0] != '/' || value.find('\0') != std::string_view::npos) return false;
  path = std::filesystem::path(value).lexically_normal();
  return true;
}

bool SetBytes(std::string_view value, int64_t low, int64_t& bytes) {
  const std::optional<int64_t> parsed = ParseBytes(value);
  if (!parsed.has_value() || *parsed < low) return false;
  bytes = *parsed;
  return true;
}

bool SetNumber(std::string_view value, int64_t low, int64_t high, int64_t& number) {
  int64_t parsed = 0;
  if (!absl::SimpleAtoi(ToAbsl(value), &parsed) || parsed < low || parsed > high) return false;
  number = parsed;
  return true;
}

// Settings without which a limit follows from the memory that profd may use.
bool SetNumber(std::string_view value, int64_t low, int64_t high, std::optional<int64_t>& number) {
  int64_t parsed = 0;
  if (!SetNumber(value, low, high, parsed)) return false;
  number = parsed;
  return true;
}
bool SetBytes(std::string_view value, int64_t low, std::optional<int64_t>& bytes) {
  int64_t parsed = 0;
  if (!SetBytes(value, low, parsed)) return false;
  bytes = parsed;
  return true;
}
std::string ToText(const std::optional<int64_t>& number) {
  return number.has_value() ? StrCat(*number) : std::string();
}

bool SetDuration(std::string_view value, absl::Duration& duration) {
  absl::Duration parsed;
  if (!absl::ParseDuration(ToAbsl(value), &parsed)) return false;
  if (parsed <= absl::ZeroDuration() || parsed > absl::Hours(1)) return false;
  duration = parsed;
  return true;
}

// A host and a port, or nothing. Whether one can listen there shows when it is tried.
bool SetHostAndPort(std::string_view value, std::string& address) {
  if (!value.empty() && !SplitHostPort(value).has_value()) return false;
  address = std::string(value);
  return true;
}

bool SetBool(std::string_view value, bool& flag) {
  if (value != "true" && value != "false") return false;
  flag = value == "true";
  return true;
}

constexpr auto kSettings = std::to_array<Setting>({
    {"data-dir", "DIR", "keep the catalog and capture files here", false,
     [](std::string_view v, Config& c) { return SetPath(v, c.data_dir); }, "an absolute path",
     [](const Config& c) { return c.data_dir.string(); }},
    {"socket-dir", "DIR", "listen on DIR/control.sock and DIR/agent/agent.sock", false,
     [](std::string_view v, Config& c) { return SetPath(v, c.socket_dir); }, "an absolute path",
     [](const Config& c) { return c.socket_dir.string(); }},
    {"node-name", "NAME", "this machine's name in results (default: the host name)", false,
     [](std::string_view v, Config& c) {
       c.node_name = std::string(v);
       return !v.empty() && v.size() <= 255 && IsPrintableUtf8(v);
     },
     "1 to 255 printable bytes", [](const Config& c) { return c.node_name; }},
    {"log-level", "LEVEL", "error, warning, info or debug (default: info)", true,
     [](std::string_view v, Config& c) {
       const auto level = LogLevelFromString(v);
       c.log_level = level.value_or(c.log_level);
       return level.has_value();
     },
     "error, warning, info or debug",
     [](const Config& c) { return StrCat(static_cast<int>(c.log_level)); }},
    {"log-format", "FORMAT", "text, or json: an object per line (default: text)", true,
     [](std::string_view v, Config& c) {
       const auto format = LogFormatFromString(v);
       c.log_format = format.value_or(c.log_format);
       return format.has_value();
     },
     "text or json", [](const Config& c) { return StrCat(static_cast<int>(c.log_format)); }},
    {"max-storage", "BYTES", "cap on capture files and the catalog (default: 20GiB)", true,
     [](std::string_view v, Config& c) { return SetBytes(v, 1 << 20, c.max_storage_bytes); },
     "at least 1MiB", [](const Config& c) { return StrCat(c.max_storage_bytes); }},
    {"min-free-percent", "N", "leave this much of the file system free (default: 5)", true,
     [](std::string_view v, Config& c) { return SetNumber(v, 0, 99, c.min_free_percent); },
     "0 to 99", [](const Config& c) { return StrCat(c.min_free_percent); }},
    {"keep-days", "N", "remove records of captures after N days; 0: never (default: 180)", false,
     [](std::string_view v, Config& c) { return SetNumber(v, 0, 36'500, c.keep_days); },
     "0 to 36500", [](const Config& c) { return StrCat(c.keep_days); }},
    {"max-records", "N", "records of captures per principal; 0: no limit (default: 100000)", false,
     [](std::string_view v, Config& c) { return SetNumber(v, 0, 100'000'000, c.max_records); },
     "0 to 100000000", [](const Config& c) { return StrCat(c.max_records); }},
    {"audit-journal", "", "copy each row of the audit log to journald", false,
     [](std::string_view v, Config& c) { return SetBool(v, c.audit_journal); }, "true or false",
     [](const Config& c) { return std::string(c.audit_journal ? "true" : "false"); }},
    {"max-capture-memory", "BYTES",
     "cap on memory of all live captures (default: 1/4 of profd's memory, at most 512MiB; plus "
     "64MiB for root)",
     true,
     [](std::string_view v, Config& c) { return SetBytes(v, 1 << 20, c.max_capture_memory_bytes); },
     "at least 1MiB", [](const Config& c) { return ToText(c.max_capture_memory_bytes); }},
    {"max-live-captures", "N", "captures at once (default: by profd's memory, at most 80)", false,
     [](std::string_view v, Config& c) { return SetNumber(v, 1, 1024, c.max_live_captures); },
     "1 to 1024", [](const Config& c) { return ToText(c.max_live_captures); }},
    {"max-targets", "N", "processes registered at once (default: by profd's memory, at most 1024)",
     false, [](std::string_view v, Config& c) { return SetNumber(v, 1, 65536, c.max_targets); },
     "1 to 65536", [](const Config& c) { return ToText(c.max_targets); }},
    {"arm-timeout", "DURATION", "how long a target may take to arm (default: 30s)", false,
     [](std::string_view v, Config& c) { return SetDuration(v, c.arm_timeout); },
     "above 0 and at most 1h, like 30s",
     [](const Config& c) { return absl::FormatDuration(c.arm_timeout); }},
    {"policy-file", "FILE", "who may do what (default: owners what is theirs, root all)", false,
     [](std::string_view v, Config& c) { return SetPath(v, c.policy_file); }, "an absolute path",
     [](const Config& c) { return c.policy_file.string(); }},
    {"user", "NAME", "when started by root, run as this account (default: profd, if it exists)",
     false,
     [](std::string_view v, Config& c) {
       c.user = std::string(v);
       return !v.empty() && v.size() <= 32 && IsPrintableUtf8(v);
     },
     "the name of an account, or root", [](const Config& c) { return c.user; }},
    {"helper-socket", "FILE", "ask profd-helper here about other users' processes", false,
     [](std::string_view v, Config& c) { return SetPath(v, c.helper_socket); }, "an absolute path",
     [](const Config& c) { return c.helper_socket.string(); }},
    {"max-report-memory", "BYTES",
     "memory of one report, at most a third of the daemon's own limit (default: 1GiB)", false,
     [](std::string_view v, Config& c) { return SetBytes(v, 1 << 20, c.max_report_memory_bytes); },
     "at least 1MiB", [](const Config& c) { return StrCat(c.max_report_memory_bytes); }},
    {"max-report-time", "DURATION", "run time of one report or export (default: 5m)", false,
     [](std::string_view v, Config& c) { return SetDuration(v, c.max_report_time); },
     "above 0 and at most 1h, like 5m",
     [](const Config& c) { return absl::FormatDuration(c.max_report_time); }},
    {"report-program", "FILE", "the program that reads capture files (default: as installed)",
     false, [](std::string_view v, Config& c) { return SetPath(v, c.report_program); },
     "an absolute path", [](const Config& c) { return c.report_program.string(); }},
    {"reflection", "", "serve gRPC reflection, for tools like grpcurl", false,
     [](std::string_view v, Config& c) { return SetBool(v, c.reflection); }, "true or false",
     [](const Config& c) { return std::string(c.reflection ? "true" : "false"); }},
    {"listen", "HOST:PORT", "serve remote callers by mutual TLS; `*` is all addresses", false,
     [](std::string_view v, Config& c) { return SetHostAndPort(v, c.listen); },
     "HOST:PORT, like *:7411", [](const Config& c) { return c.listen; }},
    {"tls-cert", "FILE", "our certificate and its chain, PEM; read again when changed", false,
     [](std::string_view v, Config& c) { return SetPath(v, c.tls_cert); }, "an absolute path",
     [](const Config& c) { return c.tls_cert.string(); }},
    {"tls-key", "FILE", "its key, PEM; read again when changed", false,
     [](std::string_view v, Config& c) { return SetPath(v, c.tls_key); }, "an absolute path",
     [](const Config& c) { return c.tls_key.string(); }},
    {"tls-ca", "FILE", "who signs callers' certificates, PEM; read again when changed", false,
     [](std::string_view v, Config& c) { return SetPath(v, c.tls_ca); }, "an absolute path",
     [](const Config& c) { return c.tls_ca.string(); }},
    {"tls-reload", "DURATION", "how often to look for new certificates (default: 30s)", false,
     [](std::string_view v, Config& c) {
       return SetDuration(v, c.tls_reload) && c.tls_reload >= absl::Seconds(1);
     },
     "1s to 1h", [](const Config& c) { return absl::FormatDuration(c.tls_reload); }},
    {"max-connection-age", "DURATION", "remote callers reconnect after that (default: 1h)", false,
     [](std::string_view v, Config& c) { return SetDuration(v, c.max_connection_age); },
     "above 0 and at most 1h, like 30m",
     [](const Config& c) { return absl::FormatDuration(c.max_connection_age); }},
    {"max-connection-idle", "DURATION", "an idle remote connection ends (default: 10m)", false,
     [](std::string_view v, Config& c) { return SetDuration(v, c.max_connection_idle); },
     "above 0 and at most 1h, like 10m",
     [](const Config& c) { return absl::FormatDuration(c.max_connection_idle); }},
    {"max-connections", "N", "remote connections at once (default: 1024)", false,
     [](std::string_view v, Config& c) { return SetNumber(v, 1, 65536, c.max_connections); },
     "1 to 65536", [](const Config& c) { return StrCat(c.max_connections); }},
    {"plaintext-listen", "HOST:PORT", "serve callers without an identity; loopback only", false,
     [](std::string_view v, Config& c) { return SetHostAndPort(v, c.plaintext_listen); },
     "HOST:PORT of loopback, like 127.0.0.1:7412",
     [](const Config& c) { return c.plaintext_listen; }},
    {"metrics-listen", "HOST:PORT", "serve Prometheus metrics to anybody; `*` is all addresses",
     false, [](std::string_view v, Config& c) { return SetHostAndPort(v, c.metrics_listen); },
     "HOST:PORT, like 127.0.0.1:9464", [](const Config& c) { return c.metrics_listen; }},
    {"metrics-operators", "N", "operators of sampled windows in the metrics (default: 10)", false,
     [](std::string_view v, Config& c) { return SetNumber(v, 0, 50, c.metrics_operators); },
     "0 to 50", [](const Config& c) { return StrCat(c.metrics_operators); }},
});

const Setting* FindSetting(std::string_view name) {
  const auto it = std::ranges::find(kSettings, name, &Setting::name);
  return it == kSettings.end() ? nullptr : &*it;
}

std::string HostName() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "localhost";
  return ForDisplay(name.data(), 255);
}

// The first directory of a colon-separated list, as systemd gives them.
std::string FirstOf(const std::string& list) { return list.substr(0, list.find(':')); }

}  // namespace

std::optional<int64_t> ParseBytes(std::string_view text) {
  // "B" comes last: the others end with it.
  constexpr std::array<std::pair<std::string_view, int>, 5> kUnits = {
      {{"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}, {"B", 0}}};
  int shift = 0;
  for (const auto& [unit, unit_shift] : kUnits) {
    if (!text.ends_with(unit)) continue;
    text.remove_suffix(unit.size());
    shift = unit_shift;
    break;
  }
  while (text.ends_with(' ')) text.remove_suffix(1);
  int64_t number = 0;
  if (!absl::SimpleAtoi(ToAbsl(text), &number) || number < 0) return std::nullopt;
  if (number > (INT64_MAX >> shift)) return std::nullopt;
  return number << shift;
}

absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& arguments) {
  CommandLine command_line;
  for (size_t i = 0; i < arguments.size(); ++i) {
    std::string_view argument = arguments[i];
    if (argument == "--help" || argument == "-h") {
      command_line.action = CommandLineAction::kHelp;
      // Later arguments may be wrong: help is how to find out.
      return command_line;
    }
    if (argument == "--version") {
      command_line.action = CommandLineAction::kVersion;
      return command_line;
    }
    if (argument == "--prepare") {
      command_line.action = CommandLineAction::kPrepare;
      continue;
    }
    if (argument == "--check-config") {
      command_line.action = CommandLineAction::kCheckConfig;
      continue;
    }
    if (!argument.starts_with("--")) {
      return absl::InvalidArgumentError(
          StrCat("unexpected argument '", ForDisplay(argument, 80), "'; see profd --help"));
    }
    argument.remove_prefix(2);
    const size_t equals = argument.find('=');
    const std::string name(argument.substr(0, equals));
    const Setting* setting = FindSetting(name);
    if (setting == nullptr && name != "config") {
      return absl::InvalidArgumentError(
          StrCat("no flag --", ForDisplay(name, 80), "; see profd --help"));
    }
    std::string value;
    if (equals != std::string_view::npos) {
      value = std::string(argument.substr(equals + 1));
    } else if (setting != nullptr && setting->value.empty()) {
      // A switch never takes the next argument; --NAME=false turns it off.
      value = "true";
    } else if (i + 1 < arguments.size()) {
      value = arguments[++i];
    } else {
      return absl::InvalidArgumentError(StrCat("--", name, " needs a value; see profd --help"));
    }
    if (name == "config") {
      command_line.config_file = value;
    } else {
      command_line.settings.emplace_back(name, value);
    }
  }
  return command_line;
}

Config DefaultConfig(int64_t uid, const Getenv& getenv) {
  Config config;
  config.node_name = HostName();
  if (const auto dir = getenv("RUNTIME_DIRECTORY")) {
    config.socket_dir = FirstOf(*dir);
  } else if (uid == 0) {
    config.socket_dir = "/run/profd";
  } else if (const auto xdg = getenv("XDG_RUNTIME_DIR")) {
    config.socket_dir = std::filesystem::path(*xdg) / "profd";
  }
  if (const auto dir = getenv("STATE_DIRECTORY")) {
    config.data_dir = FirstOf(*dir);
  } else if (uid == 0) {
    config.data_dir = "/var/lib/profd";
  } else if (const auto xdg = getenv("XDG_STATE_HOME")) {
    config.data_dir = std::filesystem::path(*xdg) / "profd";
  } else if (const auto home = getenv("HOME")) {
    config.data_dir = std::filesystem::path(*home) / ".local/state/profd";
  }
  return config;
}

std::filesystem::path DefaultConfigFile(int64_t uid, const Getenv& getenv) {
  if (const auto dir = getenv("CONFIGURATION_DIRECTORY")) {
    return std::filesystem::path(FirstOf(*dir)) / "profd.conf";
  }
  if (uid == 0) return "/etc/profd/profd.conf";
  if (const auto xdg = getenv("XDG_CONFIG_HOME"))
    return std::filesystem::path(*xdg) / "profd/profd.conf";
  if (const auto home = getenv("HOME"))
    return std::filesystem::path(*home) / ".config/profd/profd.conf";
  return {};
}

absl::Status ApplySetting(std::string_view name, std::string_view value, Config& config) {
  const Setting* setting = FindSetting(name);
  if (setting == nullptr) {
    return absl::InvalidArgumentError(
        StrCat("no setting '", ForDisplay(name, 80), "'; see profd --help"));
  }
  // Setters may write before they refuse.
  Config changed = config;
  if (!setting->set(value, changed)) {
    return absl::InvalidArgumentError(
        StrCat(name, " is '", ForDisplay(value, 80), "'; it must be ", setting->allowed));
  }
  config = std::move(changed);
  return absl::OkStatus();
}

absl::Status ApplyConfigFile(const std::filesystem::path& path, Config& config) {
  const absl::StatusOr<std::string> text = ReadUpTo(kMaxConfigBytes + 1, path);
  RETURN_IF_ERROR(text.status());
  if (text->size() > kMaxConfigBytes) {
    return absl::InvalidArgumentError(StrCat(path.string(), " is larger than 1 MiB"));
  }
  // All or nothing: a file with one wrong line changes no setting on SIGHUP.
  Config changed = config;
  RETURN_IF_ERROR(ForEachLine(*text, StrCat(path.string(), ":"), Comments::kAnywhere,
                              [&changed](std::string_view line, int /*number*/) {
                                const auto setting = SplitSetting(line);
                                if (!setting.has_value()) {
                                  return absl::InvalidArgumentError("expected `name = value`");
                                }
                                return ApplySetting(setting->first, setting->second, changed);
                              }));
  config = std::move(changed);
  return absl::OkStatus();
}

absl::StatusOr<Config> LoadConfig(const CommandLine& command_line, int64_t uid,
                                  const Getenv& getenv) {
  Config config = DefaultConfig(uid, getenv);
  const std::filesystem::path path =
      command_line.config_file.value_or(DefaultConfigFile(uid, getenv));
  bool is_there = command_line.config_file.has_value();
  if (!is_there) {
    // Settings that cannot be read could forbid what defaults allow.
    const absl::StatusOr<bool> found = IsThere(path);
    if (!found.ok()) {
      return absl::Status(found.status().code(),
                          StrCat(FromAbsl(found.status().message()),
                                 "; let profd's user look into that folder, or name a --config"));
    }
    is_there = *found;
  }
  if (is_there) RETURN_IF_ERROR(ApplyConfigFile(path, config));
  for (const auto& [name, value] : command_line.settings) {
    RETURN_IF_ERROR(ApplySetting(name, value, config));
  }
  if (config.socket_dir.empty()) {
    return absl::InvalidArgumentError("XDG_RUNTIME_DIR is not set; name a --socket-dir");
  }
  if (config.data_dir.empty()) {
    return absl::InvalidArgumentError("HOME is not set; name a --data-dir");
  }
  return config;
}

std::vector<std::string> ChangedBeyondReload(const Config& from, const Config& to) {
  std::vector<std::string> names;
  for (const Setting& setting : kSettings) {
    if (!setting.reloadable && setting.get(from) != setting.get(to)) {
      names.emplace_back(setting.name);
    }
  }
  return names;
}

std::string HelpText() {
  std::string text =
      "profd: records GPU training processes on demand\n"
      "\n"
      "usage: profd [--NAME VALUE | --NAME=VALUE]...\n"
      "\n"
      "  --config FILE               read settings from FILE (default: /etc/profd/profd.conf as "
      "root,\n"
      "                              else ~/.config/profd/profd.conf, if it exists)\n";
  for (const Setting& setting : kSettings) {
    std::string head =
        StrCat("  --", setting.name, setting.value.empty() ? "" : " ", setting.value);
    head.resize(std::max<size_t>(head.size() + 1, 30), ' ');
    StrAppend(&text, head, setting.help, setting.reloadable ? " *" : "", "\n");
  }
  StrAppend(
      &text,
      "  --prepare                   as root: make the data directory for --user, or give root's "
      "to it,\n"
      "                              and exit\n"
      "  --check-config              read settings, the policy, and certificates, say what is "
      "wrong,\n"
      "                              and exit\n"
      "  --help                      print this\n"
      "  --version                   print the version\n"
      "\n"
      "Flags win over the file. * changes on SIGHUP, which reads the file again; the others\n"
      "need a restart. SIGTERM and SIGINT end profd; what live captures recorded is kept.\n"
      "Exit status: 0 ended as asked, 1 could not start or run, 2 wrong usage or settings.\n");
  return text;
}

}  // namespace profd
