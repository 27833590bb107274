// Invocation is one run of profctl: its flags, its daemon, and what it prints.
#ifndef PROFD_CLI_CLIENT_INVOCATION_H_
#define PROFD_CLI_CLIENT_INVOCATION_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/base/flags.h"
#include "cli/base/style.h"
#include "cli/client/endpoints.h"

namespace profd::cli {

class DaemonClient;

// Threads: one.
class Invocation {
 public:
  explicit Invocation(ParsedFlags flags);
  ~Invocation();

  const ParsedFlags& flags() const { return flags_; }
  const std::vector<std::string>& arguments() const { return flags_.arguments(); }
  bool json() const { return flags_.Has("json"); }

  const Style& style() const { return style_; }              // of stdout
  const Style& error_style() const { return error_style_; }  // of stderr

  // Where to connect to, by --address, --context, the environment and the file of contexts.
  absl::StatusOr<ClientSettings> Settings() const;
  // "profctl", and the flags of this call that say where to connect to, for a command to go on
  // with.
  std::string NextProfctl() const;
  // The daemon; connects on the first call. Errors as DaemonClient::Connect, with what else
  // is wrong with --address.
  absl::StatusOr<DaemonClient*> Daemon();

  // stdout. After the first failure (a full disk, a closed pipe) nothing more is written;
  // WriteStatus() returns the error.
  void Print(std::string_view text);
  // stderr: hints and warnings.
  void Note(std::string_view text);
  // Flushes stdout. Any error of Print() so far.
  absl::Status WriteStatus();

 private:
  const ParsedFlags flags_;
  const Style style_;
  const Style error_style_;
  std::unique_ptr<DaemonClient> daemon_;
  bool write_failed_ = false;
  int write_errno_ = 0;
};

}  // namespace profd::cli

#endif  // PROFD_CLI_CLIENT_INVOCATION_H_
