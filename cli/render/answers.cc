#include "cli/render/answers.h"

namespace profd::cli {
namespace {

const ObjectDescription<ProgramVersion>& ProfctlVersionObject() {
  using Row = ProgramVersion;
  static const ObjectDescription<Row> object(
      {{&Row::version, {.key = "version", .doc = "Version of the program"}},
       {&Row::api_version, {.key = "api_version", .doc = "Version of the gRPC API"}}});
  return object;
}

const ObjectDescription<ProgramVersion>& ProfdVersionObject() {
  using Row = ProgramVersion;
  static const ObjectDescription<Row> object(
      {}, {FieldsOf<Row>(
               &ProfctlVersionObject, [](const Row& row) -> const auto& { return row; }),
           ColumnsOf<Row>({{&Row::address, {.key = "address", .doc = "Address of the daemon"}}})});
  return object;
}

// A text of the context's certificates; empty: it has none.
template <auto kMember>
std::string OfTls(const ContextView& row) {
  return row.context.tls.has_value() ? (*row.context.tls).*kMember : std::string();
}

const ObjectDescription<Flag>& FlagObject() {
  static const ObjectDescription<Flag> object(
      {{[](const Flag& row) { return std::string(row.name); },
        {.key = "name", .doc = "Name without the dashes"}},
       {[](const Flag& row) { return std::string(row.value_name); },
        {.key = "value", .doc = "Placeholder of the value; empty: the flag takes none"}},
       {[](const Flag& row) { return HelpWithActions(row); },
        {.key = "help", .doc = "What it does, after the actions that take it"}}});
  return object;
}

const ObjectDescription<CommandHelpRow>& CommandHelpObject() {
  using Row = CommandHelpRow;
  static const ObjectDescription<Row> object(
      {{&Row::name, {.key = "name", .doc = "Name of the command"}},
       {&Row::summary, {.key = "summary", .doc = "What it does, in a line"}},
       {&Row::usage, {.key = "usage", .doc = "Its usage line"}}},
      {ListOf<Row>(
          "flags", "Flags of the command", &FlagObject,
          [](const Row& row) -> const auto& { return row.flags; })});
  return object;
}

const ObjectDescription<ColumnDoc>& ColumnDocObject() {
  using Row = ColumnDoc;
  static const ObjectDescription<Row> object(
      {{[](const Row& row) { return Listed(row.column, '|'); },
        {.key = "column", .doc = "Column, key, finding, or grade; several of one meaning: a list"}},
       {[](const Row& row) { return Listed(row.tables, ' '); },
        {.key = "tables", .doc = "Commands that show it"}},
       {[](const Row& row) { return std::string(row.definition); },
        {.key = "definition", .doc = "What it means"}},
       {[](const Row& row) { return std::string(row.formula); },
        {.key = "formula", .doc = "How it is computed; empty: it is as it was recorded"}}});
  return object;
}

}  // namespace

const ObjectDescription<VersionAnswer>& VersionObject() {
  using Row = VersionAnswer;
  static const ObjectDescription<Row> object(
      {}, {ObjectOf<Row>(
               "profctl", "This program", &ProfctlVersionObject,
               [](const Row& row) -> const auto& { return row.profctl; }),
           ObjectOrNull<Row>(
               "profd", "The daemon; null: none answers", &ProfdVersionObject,
               [](const Row& row) { return row.profd.has_value() ? &*row.profd : nullptr; }),
           Optional<Row>([](const Row& row) { return !row.profd.has_value(); },
                         TextOf<Row>("profd_error", "Why there is no daemon",
                                     [](const Row& row) { return row.profd_error; }))});
  return object;
}

const ObjectDescription<ContextView>& ContextObject() {
  using Row = ContextView;
  static const ObjectDescription<Row> object(
      {{[](const Row& row) { return row.context.name; },
        {.key = "name", .doc = "Name of the context; empty: none is in effect"}},
       {&Row::is_current, {.key = "current", .doc = "Whether it is the current context"}},
       {[](const Row& row) { return row.context.address; },
        {.key = "address", .doc = "Address of the daemon; empty: see nodes"}},
       {[](const Row& row) { return row.context.nodes; },
        {.key = "nodes", .doc = "Nodes, as --nodes has them; empty: one daemon"}},
       {&OfTls<&ClientTls::ca_file>,
        {.key = "tls_ca", .doc = "File with the daemons' authorities; empty: none"}},
       {&OfTls<&ClientTls::certificate_file>,
        {.key = "tls_cert", .doc = "File with the client certificate; empty: none"}},
       {&OfTls<&ClientTls::key_file>, {.key = "tls_key", .doc = "File with its key; empty: none"}},
       {&OfTls<&ClientTls::server_name>,
        {.key = "tls_server_name",
         .doc = "Name in the daemon's certificate; empty: the host of the address"}}});
  return object;
}

const ObjectDescription<ContextListAnswer>& ContextListObject() {
  using Row = ContextListAnswer;
  static const ObjectDescription<Row> object(
      {{&Row::path,
        {.key = "file", .doc = "File with the contexts; empty: no home folder is known"}},
       {[](const Row& row) { return row.file.current; },
        {.key = "current", .doc = "Name of the current context; empty: none"}}},
      {ListOf<Row>("contexts", "Contexts in the order of the file", &ContextObject,
                   [](const Row& row) {
                     std::vector<ContextView> views;
                     for (const Context& context : row.file.contexts) {
                       views.push_back({context, context.name == row.file.current});
                     }
                     return views;
                   })});
  return object;
}

const ObjectDescription<OpenAnswer>& OpenObject() {
  using Row = OpenAnswer;
  static const ObjectDescription<Row> object(
      {{&Row::url, {.key = "url", .doc = "Link to the Perfetto page, which fetches the trace"}},
       {&Row::port, {.key = "port", .doc = "Port on 127.0.0.1 that serves the trace"}},
       {&Row::path, {.key = "path", .doc = "Path of the trace on that port"}},
       {&Row::ssh_session, {.key = "ssh_session", .doc = "Whether profctl runs in an ssh session"}},
       {&Row::browser_started,
        {.key = "browser_started", .doc = "Whether a browser was started with the link"}}});
  return object;
}

const ObjectDescription<HelpAnswer>& HelpObject() {
  using Row = HelpAnswer;
  static const ObjectDescription<Row> object(
      {}, {ListOf<Row>(
              "commands", "Commands, as `profctl help` lists them", &CommandHelpObject,
              [](const Row& row) -> const auto& { return row.commands; })});
  return object;
}

const ObjectDescription<ExplainAnswer>& ExplainObject() {
  using Row = ExplainAnswer;
  static const ObjectDescription<Row> object(
      {}, {ListOf<Row>("columns", "Columns, keys, findings, and grades", &ColumnDocObject,
                       [](const Row& row) {
                         std::vector<ColumnDoc> docs;
                         for (const ColumnDoc* const doc : row.docs) docs.push_back(*doc);
                         return docs;
                       })});
  return object;
}

}  // namespace profd::cli
