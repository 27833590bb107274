// Keys of --json, read from the schemas that `profctl schema` prints, so that both say the same.
#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/render/column_docs.h"
#include "cli/render/lists.h"
#include "cli/render/schemas.h"
#include "daemon/base/json_writer.h"
#include "daemon/base/str_cat.h"
#include "daemon/check/byte_source.h"
#include "daemon/check/check_rules.h"
#include "daemon/check/json_reader.h"
#include "daemon/report/reports.h"

namespace profd::cli {
namespace {

// Its texts are what a ColumnDoc refers to.
struct KeyDoc {
  std::string tables;
  std::string names;  // "busy_ns|steps.busy_ns": the key, and where it is within others.
  std::string key;
  std::string definition;
  std::string formula;
};

// Adds `item` to a list whose items are separated by `separator`, once.
void AddItem(std::string_view item, char separator, std::string& list) {
  const std::string whole = StrCat(std::string(1, separator), list, std::string(1, separator));
  if (whole.find(StrCat(std::string(1, separator), item, std::string(1, separator))) !=
      std::string::npos) {
    return;
  }
  if (!list.empty()) list.push_back(separator);
  list += item;
}

class SchemaKeys {
 public:
  // `schema`: as a writer of this program wrote it.
  void Add(std::string_view command, std::string_view schema) {
    const auto source = check::ByteSource::OfBytes(schema);
    if (!source.ok()) return;
    check::FindingLog log;
    check::JsonReader reader(**source, log);
    command_ = command;
    AddObject("", reader);
  }
  std::vector<KeyDoc> Take() && { return std::move(docs_); }

 private:
  // The schema of a value, which is an object or has some inside.
  void AddObject(const std::string& path, check::JsonReader& reader) {
    KeyDoc own;
    AddValue(path, reader, own);
  }

  // `own` is what the value says of itself.
  void AddValue(const std::string& path, check::JsonReader& reader, KeyDoc& own) {
    if (reader.Peek() != check::JsonReader::Kind::kObject) return reader.Skip();
    reader.EnterObject();
    std::string_view next;
    while (reader.NextKey(next)) {
      const std::string key(next);
      if (key == "description") {
        own.definition = reader.String();
      } else if (key == "x-formula") {
        own.formula = reader.String();
      } else if (key == "x-key") {
        own.key = reader.String();
      } else if (key == "properties" && reader.Peek() == check::JsonReader::Kind::kObject) {
        AddProperties(path, reader);
      } else if (key == "items") {
        AddObject(path, reader);
      } else if (key == "prefixItems" && reader.EnterArray()) {
        while (reader.NextItem()) {
          KeyDoc item;
          AddValue(path, reader, item);
          Keep(path, std::move(item));
        }
      } else {
        reader.Skip();
      }
    }
  }

  void AddProperties(const std::string& path, check::JsonReader& reader) {
    reader.EnterObject();
    std::string_view next;
    while (reader.NextKey(next)) {
      KeyDoc own = {.key = std::string(next)};
      AddValue(StrCat(path, path.empty() ? "" : ".", own.key), reader, own);
      Keep(path, std::move(own));
    }
  }

  void Keep(const std::string& path, KeyDoc doc) {
    if (doc.definition.empty())
      doc.definition = "A list or an object, whose keys are explained apart";
    const auto same = std::ranges::find_if(docs_, [&](const KeyDoc& other) {
      return other.key == doc.key && other.definition == doc.definition &&
             other.formula == doc.formula;
    });
    KeyDoc& kept = same == docs_.end() ? docs_.emplace_back(std::move(doc)) : *same;
    AddItem(kept.key, '|', kept.names);
    if (!path.empty()) AddItem(StrCat(path, ".", kept.key), '|', kept.names);
    AddItem(command_, ' ', kept.tables);
  }

  std::string_view command_;
  std::vector<KeyDoc> docs_;
};

std::vector<KeyDoc> ReadKeys() {
  SchemaKeys keys;
  for (const report::ReportKind& kind : report::ReportKinds()) {
    if (kind.command.empty()) continue;
    JsonWriter json;
    WriteSchemaOf(kind, json);
    keys.Add(kind.command, json.TakeLine());
  }
  for (const ListKind& kind : ListKinds()) {
    JsonWriter json;
    WriteListSchema(kind, json);
    keys.Add(kind.command, json.TakeLine());
  }
  return std::move(keys).Take();
}

}  // namespace

std::span<const ColumnDoc> KeyDocs() {
  static const std::vector<KeyDoc> keys = ReadKeys();
  static const std::vector<ColumnDoc> docs = [] {
    std::vector<ColumnDoc> all;
    all.reserve(keys.size());
    for (const KeyDoc& key : keys) {
      all.push_back({key.tables, key.names, key.definition, key.formula});
    }
    return all;
  }();
  return docs;
}

}  // namespace profd::cli
