#include "daemon/export/chrome/labels.h"

#include <nlohmann/json.hpp>

#include "daemon/base/str_cat.h"
#include "daemon/export/trace/json_text.h"
#include "daemon/report/index/source_kinds.h"

namespace profd::exporter {
namespace {

std::string RowKey(std::string_view name, std::string_view pid, std::string_view tid) {
  return StrCat(name, " ", pid, " ", tid);
}

}  // namespace

ChromeLabels::ChromeLabels(const SourceArguments& source, const TracePlace& place,
                           OutputBuffer& out)
    : out_(out), is_first_(place.number == 0) {
  if (place.is_merged) return;
  for (const SourceArguments::Argument& argument : source.AllOf(report::kArgumentOfLabel)) {
    const std::string_view json = source.JsonOf(argument);
    const auto label = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
    if (!label.is_object()) continue;
    const auto text = [&](const char* key) {
      const auto found = label.find(key);
      return found == label.end() ? std::string() : found->dump();
    };
    if (text("ph") != "\"M\"") continue;
    const auto name = label.find("name");
    if (name == label.end() || !name->is_string()) continue;
    rows_.insert(RowKey(name->get<std::string>(), text("pid"), text("tid")));
    source_.emplace_back(json);
  }
}

void ChromeLabels::WriteSource() {
  for (const std::string& label : source_) Append(label);
}

void ChromeLabels::WriteText(std::string_view name, int64_t pid, int64_t tid, std::string_view key,
                             std::string_view untrusted) {
  std::string json;
  AppendJsonString(untrusted, json);
  Write(name, pid, tid, key, json);
}

void ChromeLabels::WriteNumber(std::string_view name, int64_t pid, int64_t tid,
                               std::string_view key, int64_t value) {
  Write(name, pid, tid, key, StrCat(value));
}

void ChromeLabels::Write(std::string_view name, int64_t pid, int64_t tid, std::string_view key,
                         std::string_view json) {
  // Labels of an imported trace stay as they are.
  if (rows_.contains(RowKey(name, StrCat(pid), StrCat(tid)))) return;
  Append(StrCat("{\"ph\":\"M\",\"name\":\"", name, "\",\"pid\":", pid, ",\"tid\":", tid,
                ",\"args\":{\"", key, "\":", json, "}}"));
}

void ChromeLabels::Append(std::string_view event) {
  out_.Append(is_first_ ? std::string_view() : std::string_view(",\n"));
  out_.Append(event);
  is_first_ = false;
}

}  // namespace profd::exporter
