// ObjectDescription describes one JSON object of --json (a target, a capture, a list of them): its
// columns, and its members that are objects, maps, or lists. It produces both the JSON and its JSON
// Schema (`profctl schema`).
//
//   const ObjectDescription<WindowRecord>& WindowObject() {
//     static const ObjectDescription<WindowRecord> object(
//         {{&WindowRecord::start_ns, {.key = "start_ns", .doc = "...", .unit = Unit::kNs}}});
//     return object;
//   }
//   ... ListOf<CaptureView>("windows", "The windows", &WindowObject,
//                           [](const CaptureView& view) { return view.record.windows; })
//
// How do I add a field?  Add a line to the description. tests/cli/commands/schema_test.cc checks
// the output of each command against its schema.
//
// Threads: any, once made. Errors: none.
#ifndef PROFD_DAEMON_BASE_TABLE_OBJECT_H_
#define PROFD_DAEMON_BASE_TABLE_OBJECT_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/base/json_writer.h"
#include "daemon/base/table/description.h"
#include "daemon/base/table/json.h"

namespace profd::table {

// The schema of an object whose struct is not known.
class AnyObject {
 public:
  virtual ~AnyObject() = default;
  // Writes what each field is into the object "properties" that is open.
  virtual void WriteProperties(JsonWriter& json) const = 0;
  // The fields that every such object has; only their keys matter.
  virtual std::vector<Column> Required() const = 0;

  // Writes type, properties, and required members into the open object. `or_null`: the value may
  // be null instead.
  void WriteSchema(JsonWriter& json, bool or_null = false) const {
    if (or_null) {
      json.Key("type").BeginArray().String("object").String("null").EndArray();
    } else {
      json.Field("type", "object");
    }
    json.Key("properties").BeginObject();
    WriteProperties(json);
    json.EndObject();
    WriteRequired(Required(), json);
    json.Field("additionalProperties", false);
  }
};

// A member of a row's object, or several: all fields of another object (FieldsOf(), ColumnsOf()).
template <typename Row>
struct Member {
  std::string key = {};                                     // Empty: those of `included`.
  std::string doc = {};                                     // A sentence without its full stop.
  std::function<void(const Row&, JsonWriter&)> write = {};  // The value; the fields of `included`.
  std::function<void(JsonWriter&)> write_schema = {};       // Into the object that is open.
  bool (*is_present)(const Row&) = nullptr;                 // nullptr: always.
  std::function<const AnyObject&()> included = {};
};

template <typename Row>
class ObjectDescription : public AnyObject {
 public:
  explicit ObjectDescription(Description<Row> columns, std::vector<Member<Row>> members = {})
      : columns_(std::move(columns)), members_(std::move(members)) {}

  const Description<Row>& columns() const { return columns_; }

  // Into the object that is open.
  void WriteFields(const Row& row, JsonWriter& json) const {
    table::WriteFields(columns_, row, json);
    for (const Member<Row>& member : members_) {
      if (member.is_present != nullptr && !member.is_present(row)) continue;
      if (!member.included) json.Key(member.key);
      member.write(row, json);
    }
  }
  void Write(const Row& row, JsonWriter& json) const {
    json.BeginObject();
    WriteFields(row, json);
    json.EndObject();
  }

  void WriteProperties(JsonWriter& json) const override {
    table::WriteProperties(columns_.columns(), json);
    for (const Member<Row>& member : members_) {
      if (member.included) {
        member.included().WriteProperties(json);
        continue;
      }
      json.Key(member.key).BeginObject().Field("description", member.doc);
      member.write_schema(json);
      json.EndObject();
    }
  }
  std::vector<Column> Required() const override {
    std::vector<Column> required = columns_.columns();
    for (const Member<Row>& member : members_) {
      if (member.is_present != nullptr) continue;
      if (member.included) {
        std::ranges::move(member.included().Required(), std::back_inserter(required));
      } else {
        required.push_back({.key = member.key});
      }
    }
    return required;
  }

 private:
  Description<Row> columns_;
  std::vector<Member<Row>> members_;
};

// A member that is an object. `get(row)` is what `describe()` describes.
template <typename Row, typename Inner, typename Get>
Member<Row> ObjectOf(const std::string& key, const std::string& doc,
                     const ObjectDescription<Inner>& (*describe)(), Get get) {
  return {.key = key,
          .doc = doc,
          .write = [=](const Row& row, JsonWriter& json) { describe().Write(get(row), json); },
          .write_schema = [=](JsonWriter& json) { describe().WriteSchema(json); }};
}

// The same, or null: `get(row)` is a pointer; nullptr: null.
template <typename Row, typename Inner, typename Get>
Member<Row> ObjectOrNull(const std::string& key, const std::string& doc,
                         const ObjectDescription<Inner>& (*describe)(), Get get) {
  return {
      .key = key,
      .doc = doc,
      .write =
          [=](const Row& row, JsonWriter& json) {
            if (const Inner* const inner = get(row)) {
              describe().Write(*inner, json);
            } else {
              json.Null();
            }
          },
      .write_schema = [=](JsonWriter& json) { describe().WriteSchema(json, /*or_null=*/true); }};
}

// All fields of another object, among those of the row. `get(row)` is what `describe()` describes.
template <typename Row, typename Inner, typename Get>
Member<Row> FieldsOf(const ObjectDescription<Inner>& (*describe)(), Get get) {
  return {
      .write = [=](const Row& row, JsonWriter& json) { describe().WriteFields(get(row), json); },
      .included = [=]() -> const AnyObject& { return describe(); }};
}

// Columns that come after a member, or that only some rows have.
template <typename Row>
Member<Row> ColumnsOf(Description<Row> columns) {
  const auto object = std::make_shared<const ObjectDescription<Row>>(std::move(columns));
  return {.write = [object](const Row& row, JsonWriter& json) { object->WriteFields(row, json); },
          .included = [object]() -> const AnyObject& { return *object; }};
}

// A member that is a list of objects; `get(row)` is a range of them.
template <typename Row, typename Inner, typename Get>
Member<Row> ListOf(const std::string& key, const std::string& doc,
                   const ObjectDescription<Inner>& (*describe)(), Get get) {
  return {.key = key,
          .doc = doc,
          .write =
              [=](const Row& row, JsonWriter& json) {
                json.BeginArray();
                for (const Inner& item : get(row)) describe().Write(item, json);
                json.EndArray();
              },
          .write_schema =
              [=](JsonWriter& json) {
                json.Field("type", "array").Key("items").BeginObject();
                describe().WriteSchema(json);
                json.EndObject();
              }};
}

// A member that is a list of rows, each an array of its cells, in the order of the columns. Shorter
// than objects where there are many rows.
template <typename Row, typename Inner, typename Get>
Member<Row> ArraysOf(const std::string& key, const std::string& doc,
                     const Description<Inner>& (*columns)(), Get get) {
  return {.key = key,
          .doc = doc,
          .write =
              [=](const Row& row, JsonWriter& json) {
                constexpr size_t kRowsAtOnce = 1024;
                std::span<const Inner> rows = get(row);
                json.BeginArray();
                while (!rows.empty()) {
                  const std::span<const Inner> some =
                      rows.first(std::min(kRowsAtOnce, rows.size()));
                  WriteArrays(columns().ToTable("", some), json);
                  rows = rows.subspan(some.size());
                }
                json.EndArray();
              },
          .write_schema =
              [=](JsonWriter& json) {
                json.Field("type", "array").Key("items").BeginObject();
                WriteArraySchema(columns().columns(), json);
                json.EndObject();
              }};
}

// A member that is a list of the rows of a table, each an object.
template <typename Row, typename Inner, typename Get>
Member<Row> RowsOfTable(const std::string& key, const std::string& doc,
                        const Description<Inner>& (*columns)(), Get get) {
  return {.key = key,
          .doc = doc,
          .write = [=](const Row& row, JsonWriter& json) { WriteRows(get(row), json); },
          .write_schema =
              [=](JsonWriter& json) {
                json.Field("type", "array").Key("items").BeginObject();
                ObjectDescription<Inner>(columns()).WriteSchema(json);
                json.EndObject();
              }};
}

// A string member that only some rows have.
template <typename Row, typename Get>
Member<Row> TextOf(const std::string& key, const std::string& doc, Get get) {
  return {.key = key,
          .doc = doc,
          .write = [=](const Row& row, JsonWriter& json) { json.String(get(row)); },
          .write_schema = [](JsonWriter& json) { json.Field("type", "string"); }};
}

// The same of all rows: null where it is empty.
template <typename Row, typename Get>
Member<Row> TextOrNull(const std::string& key, const std::string& doc, Get get) {
  return {.key = key,
          .doc = doc,
          .write =
              [=](const Row& row, JsonWriter& json) {
                const std::string_view text = get(row);
                text.empty() ? json.Null() : json.String(text);
              },
          .write_schema =
              [](JsonWriter& json) {
                json.Key("type").BeginArray().String("string").String("null").EndArray();
              }};
}

// A member that is a list of strings; `get(row)` is a range of them.
template <typename Row, typename Get>
Member<Row> TextsOf(const std::string& key, const std::string& doc, Get get) {
  return {.key = key,
          .doc = doc,
          .write =
              [=](const Row& row, JsonWriter& json) {
                json.BeginArray();
                for (const std::string& text : get(row)) json.String(text);
                json.EndArray();
              },
          .write_schema =
              [](JsonWriter& json) {
                json.Field("type", "array").Key("items").BeginObject();
                json.Field("type", "string").EndObject();
              }};
}

// A member that is a list of int64_t.
template <typename Row, typename Get>
Member<Row> IntsOf(const std::string& key, const std::string& doc, Get get) {
  return {.key = key,
          .doc = doc,
          .write =
              [=](const Row& row, JsonWriter& json) {
                json.BeginArray();
                for (const int64_t number : get(row)) json.Int(number);
                json.EndArray();
              },
          .write_schema =
              [](JsonWriter& json) {
                json.Field("type", "array").Key("items").BeginObject();
                json.Field("type", "integer").EndObject();
              }};
}

// A member whose keys are not known in advance. `get(row)` maps them to strings ("string") or to
// int64_t ("integer").
template <typename Row, typename Get>
Member<Row> MapOf(const std::string& key, const std::string& doc, std::string_view value_type,
                  Get get) {
  return {.key = key,
          .doc = doc,
          .write =
              [=](const Row& row, JsonWriter& json) {
                json.BeginObject();
                for (const auto& [name, value] : get(row)) json.Field(name, value);
                json.EndObject();
              },
          .write_schema =
              [=](JsonWriter& json) {
                json.Field("type", "object").Key("additionalProperties").BeginObject();
                json.Field("type", value_type).EndObject();
              }};
}

// `member`, but only in rows for which `is_present` is true.
template <typename Row>
Member<Row> Optional(bool (*is_present)(const Row&), Member<Row> member) {
  member.is_present = is_present;
  return member;
}

}  // namespace profd::table

#endif  // PROFD_DAEMON_BASE_TABLE_OBJECT_H_
