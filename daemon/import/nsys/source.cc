#include "daemon/import/nsys/source.h"

#include <array>
#include <memory>
#include <utility>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"

namespace profd::importer {
namespace {

constexpr size_t kMaxText = 4096;
constexpr size_t kMaxEnumNames = 1000;

}  // namespace

absl::StatusOr<std::unique_ptr<NsysSource>> NsysSource::Open(UniqueFd file,
                                                             std::function<bool()> is_cancelled) {
  std::unique_ptr<NsysSource> source(new NsysSource);
  source->file_ = std::move(file);
  ASSIGN_OR_RETURN(source->database_,
                   store::ForeignDatabase::Open(source->file_.get(), std::move(is_cancelled)));
  return source;
}

absl::StatusOr<std::optional<std::string>> NsysSource::TextOf(int64_t id) {
  if (const auto found = texts_.find(id); found != texts_.end()) return found->second;
  std::optional<std::string> text;
  RETURN_IF_ERROR(database_->Find("StringIds", "id", "value", id,
                                  [&text](const store::ForeignDatabase::Row& row) {
                                    const auto value = row.Text(0);
                                    if (value.has_value()) text = value->substr(0, kMaxText);
                                  }));
  const size_t bytes = sizeof(std::pair<int64_t, std::string>) + (text ? text->size() : 0);
  if (text_bytes_ + bytes <= kMaxTextBytes) {
    text_bytes_ += bytes;
    texts_.emplace(id, text);
  }
  return text;
}

absl::StatusOr<std::map<int64_t, std::string>> NsysSource::NamesOf(std::string_view enum_table) {
  constexpr std::array<std::string_view, 2> kColumns = {"id", "name"};
  std::map<int64_t, std::string> names;
  RETURN_IF_ERROR(
      database_->ForEach(enum_table, kColumns, [&](const store::ForeignDatabase::Row& row) {
        const std::optional<int64_t> id = row.Int(0);
        const std::optional<std::string_view> name = row.Text(1);
        if (id.has_value() && name.has_value() && names.size() < kMaxEnumNames) {
          names.emplace(*id, name->substr(0, kMaxText));
        }
        return absl::OkStatus();
      }));
  return names;
}

absl::StatusOr<std::string> NsysSource::ExportNote(std::string_view name) {
  constexpr std::array<std::string_view, 2> kColumns = {"name", "value"};
  std::string note;
  RETURN_IF_ERROR(
      database_->ForEach("META_DATA_EXPORT", kColumns, [&](const store::ForeignDatabase::Row& row) {
        if (row.Text(0) == name) note = row.Text(1).value_or("").substr(0, kMaxText);
        return absl::OkStatus();
      }));
  return note;
}

}  // namespace profd::importer
