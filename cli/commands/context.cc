#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

#include "cli/base/errors.h"
#include "cli/base/table.h"
#include "cli/client/contexts.h"
#include "cli/commands/command.h"
#include "cli/render/answers.h"
#include "daemon/base/json_writer.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/tls_material.h"

namespace profd::cli {
namespace {

constexpr std::string_view kNoContext = "none";

std::string AbsolutePath(const std::string& path) {
  if (path.empty()) return path;
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  return error ? path : absolute.lexically_normal().string();
}

absl::StatusOr<Context> ContextOfFlags(const std::string& name, const ParsedFlags& flags) {
  Context context{.name = name,
                  .address = flags.Get("address").value_or(""),
                  .nodes = flags.Get("nodes").value_or("")};
  ClientTls tls{.ca_file = AbsolutePath(flags.Get("tls-ca").value_or("")),
                .certificate_file = AbsolutePath(flags.Get("tls-cert").value_or("")),
                .key_file = AbsolutePath(flags.Get("tls-key").value_or("")),
                .server_name = flags.Get("tls-server-name").value_or("")};
  if (!tls.ca_file.empty() || !tls.certificate_file.empty() || !tls.key_file.empty() ||
      !tls.server_name.empty()) {
    context.tls = std::move(tls);
  }
  if (name == kNoContext) {
    return UsageError("'none' is not a name of a context: `profctl context use none` selects none");
  }
  if (!IsContextName(name)) {
    return UsageError(
        StrCat("'", ForDisplay(name, 80),
               "' is not a name of a context: letters, digits, '.', '_', '-', at most "
               "64"));
  }
  if (const absl::Status wrong = CheckContext(context, StrCat("context ", name)); !wrong.ok()) {
    return UsageError(std::string(wrong.message()));
  }
  for (const std::string* text : {&context.address, &context.nodes}) {
    if (!IsPrintableUtf8(*text)) return UsageError("an address is one line of printable text");
  }
  return context;
}

// What the file says of it now would fail later, in a moment less convenient.
absl::Status CheckFiles(const Context& context) {
  if (!context.tls.has_value()) return absl::OkStatus();
  return LocalFailure(ReadTlsMaterial({.certificate = context.tls->certificate_file,
                                       .key = context.tls->key_file,
                                       .authorities = context.tls->ca_file})
                          .status());
}

std::string WhereOf(const Context& context) {
  return context.address.empty() ? StrCat("nodes ", context.nodes) : context.address;
}

// What the commands share: the file, and who asks.
struct Contexts {
  Invocation& invocation;
  std::filesystem::path path;
  ContextFile file;

  absl::StatusOr<Context*> Named(const std::string& name) {
    const auto found = std::ranges::find(file.contexts, name, &Context::name);
    if (found != file.contexts.end()) return &*found;
    return LocalFailure(absl::NotFoundError(StrCat("there is no context '", ForDisplay(name, 80),
                                                   "'; `profctl context list` lists them")));
  }
  absl::StatusOr<int> Save(const std::string& message) {
    RETURN_IF_ERROR(WriteContexts(path, file));
    invocation.Note(StrCat(message, "\n"));
    return kExitDone;
  }
};

absl::StatusOr<int> AddContext(Contexts& contexts, const std::string& name) {
  const ParsedFlags& flags = contexts.invocation.flags();
  ASSIGN_OR_RETURN(Context context, ContextOfFlags(name, flags));
  RETURN_IF_ERROR(CheckFiles(context));
  const std::string message = StrCat("context ", name, ": ", ForDisplay(WhereOf(context), 200));
  const auto found = std::ranges::find(contexts.file.contexts, name, &Context::name);
  if (found == contexts.file.contexts.end()) {
    contexts.file.contexts.push_back(std::move(context));
  } else if (flags.Has("replace")) {
    *found = std::move(context);
  } else {
    return UsageError(StrCat("there is a context ", name, " already; --replace replaces it"));
  }
  const bool use = flags.Has("use") || contexts.file.contexts.size() == 1;
  if (use) contexts.file.current = name;
  return contexts.Save(StrCat(message, use ? " (current)" : ""));
}

absl::StatusOr<int> UseContext(Contexts& contexts, const std::string& name) {
  if (name == kNoContext) {
    contexts.file.current.clear();
    return contexts.Save("no current context: profctl talks to this machine's daemon");
  }
  ASSIGN_OR_RETURN(const Context* const context, contexts.Named(name));
  contexts.file.current = name;
  return contexts.Save(StrCat("current context ", name, ": ", ForDisplay(WhereOf(*context), 200)));
}

absl::StatusOr<int> RemoveContext(Contexts& contexts, const std::string& name) {
  RETURN_IF_ERROR(contexts.Named(name).status());
  std::erase_if(contexts.file.contexts,
                [&](const Context& context) { return context.name == name; });
  if (contexts.file.current == name) contexts.file.current.clear();
  return contexts.Save(StrCat("removed context ", name));
}

absl::StatusOr<int> ListContexts(Contexts& contexts) {
  Invocation& invocation = contexts.invocation;
  const ContextFile& file = contexts.file;
  if (invocation.json()) {
    JsonWriter json;
    ContextListObject().Write({contexts.path.string(), file}, json);
    invocation.Print(json.TakeLine());
    return kExitDone;
  }
  if (file.contexts.empty()) {
    const std::string where =
        contexts.path.empty() ? "no contexts: neither XDG_CONFIG_HOME nor HOME is an absolute path"
                              : StrCat("no contexts in ", contexts.path.string());
    invocation.Note(StrCat(where, "; `profctl context add --help` says how to make one\n"));
    return kExitDone;
  }
  Table table({{.title = "CURRENT", .right = false},
               {.title = "NAME", .right = false},
               {.title = "WHERE", .right = false, .flexible = true},
               {.title = "CERTIFICATE", .right = false, .drop_order = 1}});
  for (const Context& context : file.contexts) {
    table.AddRow({context.name == file.current ? "*" : "", context.name, WhereOf(context),
                  context.tls.has_value() ? context.tls->certificate_file : "-"});
  }
  invocation.Print(table.Render(invocation.style()));
  return kExitDone;
}

// One context by name, or all that holds now, whoever says it.
absl::StatusOr<int> ShowContext(Contexts& contexts, const std::string& name) {
  Invocation& invocation = contexts.invocation;
  Context context;
  std::string from = StrCat("context ", name);
  if (!name.empty()) {
    ASSIGN_OR_RETURN(const Context* const found, contexts.Named(name));
    context = *found;
  } else {
    ASSIGN_OR_RETURN(const ClientSettings settings,
                     ReadClientSettings(std::nullopt, std::nullopt, &std::getenv));
    context = {.name = settings.context,
               .address = settings.address,
               .nodes = settings.nodes,
               .tls = settings.tls};
    from = settings.from.empty() || (settings.address.empty() && settings.nodes.empty())
               ? "no context: this machine's daemon"
               : settings.from;
  }
  if (invocation.json()) {
    JsonWriter json;
    ContextObject().Write({context, context.name == contexts.file.current}, json);
    invocation.Print(json.TakeLine());
    return kExitDone;
  }
  const ClientTls tls = context.tls.value_or(ClientTls());
  std::string text = StrCat(ForDisplay(from, 200), "\n");
  const auto line = [&](std::string_view key, const std::string& value) {
    if (!value.empty()) StrAppend(&text, "  ", key, ": ", ForDisplay(value, 4096), "\n");
  };
  line("address", context.address);
  line("nodes", context.nodes);
  line("authorities", tls.ca_file);
  line("certificate", tls.certificate_file);
  line("key", tls.key_file);
  line("server name", tls.server_name);
  invocation.Print(text);
  return kExitDone;
}

absl::StatusOr<int> RunContext(Invocation& invocation) {
  const std::vector<std::string>& words = invocation.arguments();
  const std::string& verb = words[0];
  const std::string name = words.size() > 1 ? words[1] : "";
  Contexts contexts{.invocation = invocation, .path = ContextsPath(&std::getenv)};
  ASSIGN_OR_RETURN(contexts.file, ReadContexts(contexts.path));
  if (verb == "list" && name.empty()) return ListContexts(contexts);
  if (verb == "show") return ShowContext(contexts, name);
  if (verb == "add" || verb == "use" || verb == "remove") {
    if (name.empty()) return UsageError(StrCat("context ", verb, " needs a name"));
    if (verb == "add") return AddContext(contexts, name);
    return verb == "use" ? UseContext(contexts, name) : RemoveContext(contexts, name);
  }
  return UsageError(StrCat("there is no `context ", ForDisplay(verb, 80),
                           "`: add NAME, use NAME, list, show [NAME] and remove NAME are"));
}

}  // namespace

Command ContextCommand() {
  return {
      .name = "context",
      .summary = "Give daemons elsewhere, and their certificates, a name",
      .arguments = "add|use|list|show|remove [NAME]",
      .description =
          "A context names a daemon (--address) or several (--nodes), with the certificates to "
          "use. `add` creates one, `use` makes it current (`use none` clears it), `show` prints "
          "what is in effect, `list` and `remove` list and remove. Other commands use the current "
          "context; --context NAME and PROFD_CONTEXT override it.\n\nContexts are stored in "
          "$XDG_CONFIG_HOME/profd/config or ~/.config/profd/config, which may be a link to another "
          "file; a new file has mode 0600. The format: a line `current = NAME`, then per context a "
          "line `[NAME]` and lines `key = value` with the keys address, "
          "nodes, tls-ca, tls-cert, tls-key, and tls-server-name. Files are PEM, with absolute "
          "paths. Lines that begin with # are comments.\n\nThe environment overrides the current "
          "context: PROFD_ADDRESS names a daemon; PROFD_TLS_CA, PROFD_TLS_CERT, PROFD_TLS_KEY, and "
          "PROFD_TLS_SERVER_NAME name the certificates.",
      .flags = {{.name = "address",
                 .value_name = "ADDRESS",
                 .help = "add: one daemon, HOST:PORT or unix:PATH"},
                {.name = "nodes",
                 .value_name = "LIST",
                 .help = "add: many daemons, as --nodes of other commands takes them"},
                {.name = "tls-ca",
                 .value_name = "FILE",
                 .help = "add: who signs the daemons' certificates, PEM",
                 .completes = Completes::kFile},
                {.name = "tls-cert",
                 .value_name = "FILE",
                 .help = "add: our certificate, PEM",
                 .completes = Completes::kFile},
                {.name = "tls-key",
                 .value_name = "FILE",
                 .help = "add: its key, PEM",
                 .completes = Completes::kFile},
                {.name = "tls-server-name",
                 .value_name = "NAME",
                 .help = "add: the name in the daemon's certificate, where it is not the host "
                         "of the address"},
                {.name = "use", .help = "add: make it the current one"},
                {.name = "replace", .help = "add: also if there is one of that name"}},
      .examples = {{"profctl context add prod --nodes 'gpu[001-128]' --tls-ca ca.crt --use",
                    "The nodes of a cluster, from now on; --tls-cert and --tls-key say who we are"},
                   {"profctl --context lab ps", "Another one, once"},
                   {"profctl context use none", "Back to the daemon of this machine"}},
      .min_arguments = 1,
      .max_arguments = 2,
      .completes = Completes::kContext,
      .choices = {"add", "use", "list", "show", "remove"},
      .uses_daemon = false,
      .run = &RunContext};
}

}  // namespace profd::cli
