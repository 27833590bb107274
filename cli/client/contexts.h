// Contexts: the daemons and node sources that a user has given names, with the certificates
// they need, in $XDG_CONFIG_HOME/profd/config (or ~/.config/profd/config):
//
//   current = prod
//
//   [prod]
//   nodes = gpu[001-128]:7411
//   tls-ca = /home/alice/.config/profd/ca.crt
//   tls-cert = /home/alice/.config/profd/alice.crt
//   tls-key = /home/alice/.config/profd/alice.key
//
//   [one]
//   address = gpu007:7411
//   tls-ca = ...
//   tls-server-name = gpu007.example
//
// One `name = value` a line, `#` at the beginning of a line starts a comment; paths are absolute.
// The file belongs to the user, and no other user may write it: it says whom to trust.
//
// Threads:    any.
// Durability: WriteContexts() replaces the file as a whole; a new one has mode 0600.
// Errors:     INVALID_ARGUMENT names the line and the remedy.
#ifndef PROFD_CLI_CLIENT_CONTEXTS_H_
#define PROFD_CLI_CLIENT_CONTEXTS_H_

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/client/endpoints.h"

namespace profd::cli {

struct Context {
  std::string name;     // Letters, digits, '.', '_', '-'; at most 64.
  std::string address;  // One daemon; or
  std::string nodes;    // a node source, as --nodes takes it.
  std::optional<ClientTls> tls;
};

struct ContextFile {
  std::string current;  // A name, of a context or not; empty: none.
  std::vector<Context> contexts;
};

const Context* FindContext(const ContextFile& file, std::string_view name);

bool IsContextName(std::string_view text);
// What a context must hold, whoever made it. The message begins with `where`.
absl::Status CheckContext(const Context& context, std::string_view where);

// `path` is for messages.
absl::StatusOr<ContextFile> ParseContexts(std::string_view text, std::string_view path);
// ParseContexts() gives back the same.
std::string FormatContexts(const ContextFile& file);

// Empty: neither XDG_CONFIG_HOME nor HOME says.
std::filesystem::path ContextsPath(const GetEnv& getenv);
// A file that is not there has no contexts. Errors have the reason LOCAL.
absl::StatusOr<ContextFile> ReadContexts(const std::filesystem::path& path);
// Writes to the file that `path` leads to: a link stays (exporter::OpenFileSink()).
absl::Status WriteContexts(const std::filesystem::path& path, const ContextFile& file);

}  // namespace profd::cli

#endif  // PROFD_CLI_CLIENT_CONTEXTS_H_
