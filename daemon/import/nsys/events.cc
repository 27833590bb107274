#include "daemon/import/nsys/events.h"

#include <array>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/import/nsys/tables.h"

namespace profd::importer {
namespace {

constexpr std::string_view kUnnamed = "(unnamed)";

}  // namespace

void NsysFields::CountDetail(size_t column) const {
  not_understood_.Count(StrCat("arg:", table_, ".", columns_[column]));
}

absl::Status NsysEvents::Run() {
  const std::array steps = {
      +[](NsysEvents& self) { return self.NameThreads(); },
      +[](NsysEvents& self) { return self.ReadKinds(); },
      +[](NsysEvents& self) { return self.ReadDomains(); },
      +[](NsysEvents& self) { return self.AddCalls(kRuntimeTable); },
      +[](NsysEvents& self) { return self.AddCalls(kDriverTable); },
      +[](NsysEvents& self) { return self.AddKernels(); },
      +[](NsysEvents& self) { return self.AddCopies(); },
      +[](NsysEvents& self) { return self.AddMemsets(); },
      +[](NsysEvents& self) { return self.AddGraphs(); },
      // After the calls and the work, which say more of them than they do themselves.
      +[](NsysEvents& self) { return self.AddSyncs(); },
      +[](NsysEvents& self) { return self.AddCudaEvents(); },
      +[](NsysEvents& self) { return self.AddOverheads(); },
      +[](NsysEvents& self) { return self.AddProfilerOverheads(); },
      +[](NsysEvents& self) { return self.AddMemory(); },
      +[](NsysEvents& self) { return self.AddNvtx(/*open_ones=*/false); },
      // Last, because they run to the end.
      +[](NsysEvents& self) {
        return self.open_range_count_ > 0 ? self.AddNvtx(/*open_ones=*/true) : absl::OkStatus();
      }};
  int done = 0;
  for (const auto& step : steps) {
    if (on_table_) on_table_(done++, static_cast<int>(steps.size()));
    RETURN_IF_ERROR(step(*this));
  }
  return absl::OkStatus();
}

absl::Status NsysEvents::ForEach(std::string_view table, std::span<const std::string_view> columns,
                                 absl::FunctionRef<absl::Status(const Fields&)> fn) {
  const auto on_row = [&](const store::ForeignDatabase::Row& row) -> absl::Status {
    const std::optional<int64_t> owner = row.Int(kOwner);
    const bool is_ours = owner.has_value() ? ProcessOf(*owner) == process_ : takes_unknown_;
    if (!is_ours) return absl::OkStatus();
    return fn(Fields(row, table, columns, not_understood_));
  };
  for (const auto& [name, unused] : source_.database().tables()) {
    if (WithoutVersion(name) != table) continue;
    RETURN_IF_ERROR(source_.database().ForEach(name, columns, on_row));
  }
  return absl::OkStatus();
}

void NsysEvents::Count(std::string_view table, std::string_view why) {
  not_understood_.Count(StrCat(table, " ", why));
}

std::optional<NsysEvents::Times> NsysEvents::TimesOf(const Fields& fields, std::string_view table) {
  const std::optional<int64_t> start = fields.Int(kStart);
  const std::optional<int64_t> end = fields.Int(kEnd);
  if (!start.has_value() || !end.has_value()) {
    Count(table, "without start or end");
    return std::nullopt;
  }
  Times times = {.start_ns = *start, .duration_ns = 0};
  if (__builtin_sub_overflow(*end, *start, &times.duration_ns)) {
    Count(table, "more than a year away");
    return std::nullopt;
  }
  // As in other traces: it is known when, not how long.
  if (times.duration_ns < 0) {
    Count(table, "that ends before it starts, taken as 0");
    times.duration_ns = 0;
  }
  return times;
}

absl::Status NsysEvents::Note(std::string_view table, const absl::StatusOr<bool>& added) {
  RETURN_IF_ERROR(added.status());
  if (!*added) Count(table, "more than a year away");
  return absl::OkStatus();
}

std::optional<uint32_t> NsysEvents::ThreadOf(const Fields& fields, std::string_view table) {
  // Of a row that does not say its thread, the process may be known.
  const int64_t global_tid = fields.Int(kOwner).value_or(process_ * (int64_t{1} << 24));
  if (const auto found = threads_.find(global_tid); found != threads_.end()) return found->second;
  const std::optional<uint32_t> thread = builder_.AddThread(PidOf(process_), TidOf(global_tid));
  if (thread.has_value()) {
    threads_.emplace(global_tid, *thread);
  } else {
    Count(table, "of too many threads");
  }
  return thread;
}

absl::StatusOr<uint32_t> NsysEvents::NameOf(std::optional<int64_t> text_id) {
  if (!text_id.has_value()) return builder_.NameId(kUnnamed);
  if (const auto found = names_.find(*text_id); found != names_.end()) return found->second;
  ASSIGN_OR_RETURN(const std::optional<std::string> text, source_.TextOf(*text_id));
  ASSIGN_OR_RETURN(const uint32_t name,
                   builder_.NameId(text.has_value() ? std::string_view(*text) : kUnnamed));
  // Beyond the limit, a text is only looked up each time.
  if (names_.size() < NameTable::kMaxIds) names_.emplace(*text_id, name);
  return name;
}

absl::Status NsysEvents::NameThreads() {
  constexpr std::array<std::string_view, 2> kColumns = {"globalTid", "nameId"};
  return source_.database().ForEach(
      "ThreadNames", kColumns, [&](const store::ForeignDatabase::Row& row) -> absl::Status {
        const std::optional<int64_t> thread = row.Int(0);
        const std::optional<int64_t> name = row.Int(1);
        if (!thread.has_value() || !name.has_value() || ProcessOf(*thread) != process_) {
          return absl::OkStatus();
        }
        ASSIGN_OR_RETURN(const std::optional<std::string> text, source_.TextOf(*name));
        if (text.has_value()) builder_.NameThread(PidOf(process_), TidOf(*thread), *text);
        return absl::OkStatus();
      });
}

}  // namespace profd::importer
