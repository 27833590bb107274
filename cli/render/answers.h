// What commands answer with --json that are not about captures: version, context, open, help, and
// explain.
//
// What an answer refers to must outlive it.
//
// Threads: any. Errors: none.
#ifndef PROFD_CLI_RENDER_ANSWERS_H_
#define PROFD_CLI_RENDER_ANSWERS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/base/flags.h"
#include "cli/base/object.h"
#include "cli/client/contexts.h"
#include "cli/render/column_docs.h"

namespace profd::cli {

// ---- version ----

struct ProgramVersion {
  std::string version;
  int64_t api_version = 0;
  std::string address;  // Of profd.
};
struct VersionAnswer {
  ProgramVersion profctl;
  std::optional<ProgramVersion> profd;
  std::string profd_error;  // Why there is none.
};
const ObjectDescription<VersionAnswer>& VersionObject();

// ---- context ----

struct ContextView {
  const Context& context;
  bool is_current = false;
};
const ObjectDescription<ContextView>& ContextObject();

struct ContextListAnswer {
  std::string path;
  const ContextFile& file;
};
const ObjectDescription<ContextListAnswer>& ContextListObject();

// ---- open ----

struct OpenAnswer {
  std::string url;
  int64_t port = 0;
  std::string path;
  bool ssh_session = false;
  bool browser_started = false;
};
const ObjectDescription<OpenAnswer>& OpenObject();

// ---- help ----

struct CommandHelpRow {
  std::string name;
  std::string summary;
  std::string usage;
  std::vector<Flag> flags;
};
struct HelpAnswer {
  std::vector<CommandHelpRow> commands;
};
const ObjectDescription<HelpAnswer>& HelpObject();

// ---- explain ----

struct ExplainAnswer {
  const std::vector<const ColumnDoc*>& docs;
};
const ObjectDescription<ExplainAnswer>& ExplainObject();

}  // namespace profd::cli

#endif  // PROFD_CLI_RENDER_ANSWERS_H_
