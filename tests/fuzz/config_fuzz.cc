// Bytes as profd's settings. The first byte chooses how they arrive:
//   0 (mod 3)  a configuration file
//   1          a command line: arguments, each ended by a NUL byte
//   2          a size, like "64MiB"
// Accepted settings are in range, a refusal changes nothing and is one printable line, and a flag
// means the same as the line of a file with its value.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "absl/strings/ascii.h"
#include "daemon/base/config.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "tests/fuzz/fuzz_target.h"

namespace profd {
namespace {

constexpr int64_t kMiB = 1 << 20;

void RequireIn(int64_t value, int64_t low, int64_t high) { Require(low <= value && value <= high); }

void RequireIn(const absl::Duration& value, const absl::Duration& low) {
  Require(low <= value && value > absl::ZeroDuration() && value <= absl::Hours(1));
}

// A path that the kernel reads as it is written here; empty if unset.
void RequirePath(const std::filesystem::path& path) {
  Require(path.empty() || path.is_absolute());
  Require(path.native().find('\0') == std::string::npos);
}

void RequireAddress(std::string_view address) {
  if (address.empty()) return;
  Require(address.size() <= 255 && IsPrintableUtf8(address));
  const size_t colon = address.rfind(':');
  Require(colon != std::string_view::npos && colon > 0 && colon + 1 < address.size());
}

void CheckConfig(const Config& config) {
  // Members of which any value is right (bools) are left out. Members() shows new ones.
  for (const std::filesystem::path* path :
       {&config.data_dir, &config.socket_dir, &config.report_program, &config.helper_socket,
        &config.policy_file, &config.tls_cert, &config.tls_key, &config.tls_ca}) {
    RequirePath(*path);
  }
  for (const std::string* address :
       {&config.listen, &config.plaintext_listen, &config.metrics_listen}) {
    RequireAddress(*address);
  }
  Require(!config.node_name.empty() && config.node_name.size() <= 255 &&
          IsPrintableUtf8(config.node_name));
  Require(config.user.size() <= 32 && IsPrintableUtf8(config.user));
  RequireIn(static_cast<int64_t>(config.log_level), static_cast<int64_t>(LogLevel::kError),
            static_cast<int64_t>(LogLevel::kDebug));
  RequireIn(static_cast<int64_t>(config.log_format), static_cast<int64_t>(LogFormat::kText),
            static_cast<int64_t>(LogFormat::kJson));
  RequireIn(config.max_storage_bytes, kMiB, INT64_MAX);
  RequireIn(config.min_free_percent, 0, 99);
  RequireIn(config.keep_days, 0, 36'500);
  RequireIn(config.max_records, 0, 100'000'000);
  RequireIn(config.max_capture_memory_bytes.value_or(kMiB), kMiB, INT64_MAX);
  RequireIn(config.max_live_captures.value_or(1), 1, 1024);
  RequireIn(config.max_targets.value_or(1), 1, 65'536);
  RequireIn(config.max_report_memory_bytes, kMiB, INT64_MAX);
  RequireIn(config.max_connections, 1, 65'536);
  RequireIn(config.metrics_operators, 0, 50);
  for (const absl::Duration* duration : {&config.arm_timeout, &config.max_report_time,
                                         &config.max_connection_age, &config.max_connection_idle}) {
    RequireIn(*duration, absl::ZeroDuration());
  }
  RequireIn(config.tls_reload, absl::Seconds(1));
}

// A new member of Config does not compile until it is here; CheckConfig() may need it, too.
auto Members(const Config& config) {
  const auto& [data_dir, socket_dir, node_name, log_level, log_format, max_storage_bytes,
               min_free_percent, keep_days, max_records, audit_journal, max_capture_memory_bytes,
               max_live_captures, max_targets, arm_timeout, report_program, max_report_memory_bytes,
               max_report_time, reflection, user, helper_socket, policy_file, listen,
               plaintext_listen, tls_cert, tls_key, tls_ca, tls_reload, max_connection_age,
               max_connection_idle, max_connections, metrics_listen, metrics_operators] = config;
  return std::tie(data_dir, socket_dir, node_name, log_level, log_format, max_storage_bytes,
                  min_free_percent, keep_days, max_records, audit_journal, max_capture_memory_bytes,
                  max_live_captures, max_targets, arm_timeout, report_program,
                  max_report_memory_bytes, max_report_time, reflection, user, helper_socket,
                  policy_file, listen, plaintext_listen, tls_cert, tls_key, tls_ca, tls_reload,
                  max_connection_age, max_connection_idle, max_connections, metrics_listen,
                  metrics_operators);
}

// A file with `content`, always the same, in memory.
std::filesystem::path FileOf(std::string_view content) {
  static const int fd = memfd_create("config-fuzz", MFD_CLOEXEC);
  Require(fd >= 0 && ftruncate(fd, 0) == 0);
  Require(pwrite(fd, content.data(), content.size(), 0) == static_cast<ssize_t>(content.size()));
  return StrCat("/proc/self/fd/", fd);
}

std::optional<std::string> NoEnvironment(const char* /*name*/) { return std::nullopt; }

Config DefaultsOfRoot() { return DefaultConfig(0, NoEnvironment); }

void RequireRefusal(const absl::Status& status) {
  Require(status.code() == absl::StatusCode::kInvalidArgument);
  Require(IsPrintableUtf8(FromAbsl(status.message())));
}

void TryFile(std::string_view text) {
  const Config before = DefaultsOfRoot();
  Config config = before;
  const absl::Status status = ApplyConfigFile(FileOf(text), config);
  if (!status.ok()) {
    RequireRefusal(status);
    Require(Members(config) == Members(before));
    return;
  }
  CheckConfig(config);
  Require(ChangedBeyondReload(config, config).empty());
}

std::vector<std::string> Arguments(std::string_view text) {
  std::vector<std::string> arguments;
  while (!text.empty()) {
    const size_t end = text.find('\0');
    arguments.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return arguments;
}

// The same settings as lines of a file; nullopt: a value that no line can hold.
std::optional<std::string> AsFile(const CommandLine& command_line) {
  std::string file;
  for (const auto& [name, value] : command_line.settings) {
    if (value.find_first_of("#\n") != std::string::npos) return std::nullopt;
    if (absl::StripAsciiWhitespace(value) != absl::string_view(value)) return std::nullopt;
    StrAppend(&file, name, " = ", value, "\n");
  }
  return file;
}

void TryCommandLine(std::string_view text) {
  auto command_line = ParseCommandLine(Arguments(text));
  if (!command_line.ok()) return RequireRefusal(command_line.status());
  command_line->config_file = FileOf("");  // No other file: reading one may block.
  const auto config = LoadConfig(*command_line, 0, NoEnvironment);
  const std::optional<std::string> file = AsFile(*command_line);
  if (config.ok()) {
    CheckConfig(*config);
    Require(!config->data_dir.empty() && !config->socket_dir.empty());
  } else {
    RequireRefusal(config.status());
  }
  if (!file.has_value()) return;
  Config from_file = DefaultsOfRoot();
  const absl::Status status = ApplyConfigFile(FileOf(*file), from_file);
  Require(status.ok() == config.ok());
  if (config.ok()) Require(Members(from_file) == Members(*config));
}

void TryBytes(std::string_view text) {
  const std::optional<int64_t> bytes = ParseBytes(text);
  if (!bytes.has_value()) return;
  Require(*bytes >= 0);
  Require(ParseBytes(StrCat(*bytes)) == bytes);
  Require(ParseBytes(StrCat(*bytes, " B")) == bytes);
}

}  // namespace
}  // namespace profd

PROFD_FUZZ_TARGET(FuzzConfig)(std::span<const uint8_t> data) {
  if (data.empty()) return;
  const std::string_view text(reinterpret_cast<const char*>(data.data()) + 1, data.size() - 1);
  switch (data[0] % 3) {
    case 0:
      return TryFile(text);
    case 1:
      return TryCommandLine(text);
    default:
      return TryBytes(text);
  }
}
