#include "daemon/import/nsys/survey.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/import/nsys/tables.h"

namespace profd::importer {
namespace {

using Row = store::ForeignDatabase::Row;

constexpr size_t kMaxCountedProcesses = 100'000;
constexpr size_t kMaxShownTable = 60;

// Tables that describe the machine, the recording, or the numbers of other tables.
constexpr std::array<std::string_view, 8> kDescribing = {"StringIds",
                                                         "ThreadNames",
                                                         "PROCESSES",
                                                         "ProcessStreams",
                                                         "ANALYSIS_FILE",
                                                         "ANALYSIS_DETAILS",
                                                         "NVTX_PAYLOAD_SCHEMAS",
                                                         "NVTX_PAYLOAD_SCHEMA_ENTRIES"};
constexpr std::array<std::string_view, 6> kDescribingPrefixes = {
    "ENUM_", "META_DATA_", "TARGET_INFO_", "EXPORT_", "NVTX_PAYLOAD_ENUM", "sqlite_"};

bool IsDescribing(std::string_view table) {
  return std::find(kDescribing.begin(), kDescribing.end(), table) != kDescribing.end() ||
         std::any_of(kDescribingPrefixes.begin(), kDescribingPrefixes.end(),
                     [&](std::string_view prefix) { return table.starts_with(prefix); });
}

const ImportedTable* FindImported(std::string_view table) {
  const auto* const found =
      std::find_if(kImportedTables.begin(), kImportedTables.end(),
                   [&](const ImportedTable& one) { return one.name == WithoutVersion(table); });
  return found == kImportedTables.end() ? nullptr : found;
}

// Rows of a table by process; those of an unknown one apart.
struct RowCounts {
  std::map<ProcessKey, int64_t> by_process;
  std::map<ProcessKey, int64_t> ranges_by_process;  // Of NVTX_EVENTS.
  int64_t of_unknown = 0;

  int64_t Of(ProcessKey process) const {
    const auto found = by_process.find(process);
    return found == by_process.end() ? 0 : found->second;
  }
};

absl::StatusOr<RowCounts> CountByProcess(NsysSource& source, std::string_view table,
                                         std::string_view id_column) {
  RowCounts counts;
  const std::array<std::string_view, 2> columns = {id_column, "eventType"};
  const bool has_ranges = WithoutVersion(table) == kNvtxTable;
  const auto count = [](std::map<ProcessKey, int64_t>& by_process, ProcessKey process) {
    const auto found = by_process.find(process);
    if (found != by_process.end()) {
      ++found->second;
    } else if (by_process.size() < kMaxCountedProcesses) {
      by_process.emplace(process, 1);
    } else {
      return false;
    }
    return true;
  };
  RETURN_IF_ERROR(source.database().ForEach(
      table, std::span(columns).first(has_ranges ? 2 : 1), [&](const Row& row) {
        const std::optional<int64_t> id = row.Int(0);
        if (!id.has_value() || !count(counts.by_process, ProcessOf(*id))) {
          ++counts.of_unknown;
        } else if (has_ranges && IsNvtxEvent(row.Int(1).value_or(0))) {
          count(counts.ranges_by_process, ProcessOf(*id));
        }
        return absl::OkStatus();
      }));
  return counts;
}

class Survey {
 public:
  explicit Survey(NsysSource& source) : source_(source) {}

  absl::StatusOr<NsysSurvey> Run() {
    for (const auto& [table, columns] : source_.database().tables()) {
      if (IsDescribing(table)) continue;
      const ImportedTable* const imported = FindImported(table);
      RETURN_IF_ERROR(imported != nullptr ? CountImported(table, *imported) : CountOther(table));
    }
    RETURN_IF_ERROR(Choose());
    Distribute();
    return std::move(survey_);
  }

 private:
  // `name` may have a version after that of `table`.
  absl::Status CountImported(std::string_view name, const ImportedTable& table) {
    ASSIGN_OR_RETURN(RowCounts counts, CountByProcess(source_, name, table.id_column));
    for (const auto& [process, rows] : counts.by_process) {
      NsysProcess& known = processes_[process];
      known.key = process;
      known.row_count += rows;
      known.has_gpu_work |= table.is_gpu_work;
      if (table.name == kRuntimeTable) with_calls_.push_back(process);
    }
    for (const auto& [process, rows] : counts.ranges_by_process) with_ranges_.push_back(process);
    has_rows_ |= counts.of_unknown > 0;
    imported_.emplace_back(name, std::move(counts));
    return absl::OkStatus();
  }

  absl::Status CountOther(std::string_view table) {
    for (const std::string_view column : {"globalTid", "globalPid"}) {
      if (!source_.database().HasColumn(table, column)) continue;
      ASSIGN_OR_RETURN(RowCounts counts, CountByProcess(source_, table, column));
      others_.emplace_back(table, std::move(counts));
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const int64_t rows, source_.database().CountRows(table));
    others_.emplace_back(table,
                         RowCounts{.by_process = {}, .ranges_by_process = {}, .of_unknown = rows});
    return absl::OkStatus();
  }

  absl::Status Choose() {
    std::vector<ProcessKey> chosen = with_ranges_;
    for (const auto& [key, process] : processes_) {
      if (process.has_gpu_work) chosen.push_back(key);
    }
    if (chosen.empty()) chosen = with_calls_;
    // In an old export no row may say whose it is.
    if (chosen.empty() && processes_.empty() && has_rows_) chosen.push_back(0);
    std::sort(chosen.begin(), chosen.end(), [](ProcessKey a, ProcessKey b) {
      return std::pair(PidOf(a), a) < std::pair(PidOf(b), b);
    });
    chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
    if (chosen.empty()) return NothingToImport();
    if (chosen.size() > NsysSurvey::kMaxCaptures) {
      return absl::ResourceExhaustedError(StrCat("it has GPU work or NVTX ranges of ",
                                                 chosen.size(), " processes, more than ",
                                                 NsysSurvey::kMaxCaptures));
    }
    for (const ProcessKey key : chosen) {
      processes_[key].key = key;
      survey_.captured.push_back(processes_[key]);
    }
    const auto most = std::max_element(
        survey_.captured.begin(), survey_.captured.end(),
        [](const NsysProcess& a, const NsysProcess& b) { return a.row_count < b.row_count; });
    survey_.main = static_cast<size_t>(most - survey_.captured.begin());
    survey_.is_single_process = processes_.size() == 1;
    return absl::OkStatus();
  }

  absl::Status NothingToImport() const {
    if (!source_.database().tables().contains("StringIds")) {
      return absl::InvalidArgumentError(
          "it is an SQLite database, but not an export of Nsight Systems: it has no table "
          "StringIds");
    }
    std::string text = "there is no event of CUDA or NVTX in it";
    const auto most = std::max_element(
        others_.begin(), others_.end(),
        [](const auto& a, const auto& b) { return Rows(a.second) < Rows(b.second); });
    if (most != others_.end() && Rows(most->second) > 0) {
      StrAppend(&text, "; most of its rows, ", Rows(most->second), ", are in ",
                ForDisplay(most->first, kMaxShownTable));
    }
    return absl::InvalidArgumentError(text);
  }

  static int64_t Rows(const RowCounts& counts) {
    int64_t rows = counts.of_unknown;
    for (const auto& [process, count] : counts.by_process) rows += count;
    return rows;
  }

  // Says in which capture each row that gets into none is counted.
  void Distribute() {
    for (const auto& [table, counts] : imported_) {
      int64_t of_others = Rows(counts) - counts.of_unknown;
      for (const NsysProcess& process : survey_.captured) of_others -= counts.Of(process.key);
      Count(survey_.left_out, StrCat(table, " of a process without GPU work or NVTX"), of_others);
      if (survey_.is_single_process) continue;
      Count(survey_.left_out, StrCat(table, " of an unknown process"), counts.of_unknown);
    }
    for (const auto& [table, counts] : others_) {
      // Stacks of events that are there.
      const std::string kind =
          StrCat(table.ends_with("CALLCHAINS") ? "arg:" : "", ForDisplay(table, kMaxShownTable));
      int64_t of_others = Rows(counts);
      for (NsysProcess& process : survey_.captured) {
        of_others -= counts.Of(process.key);
        Count(process.left_out, kind, counts.Of(process.key));
      }
      Count(survey_.left_out, kind, of_others);
    }
  }

  static void Count(std::map<std::string, int64_t>& counts, const std::string& kind, int64_t rows) {
    if (rows > 0) counts[kind] += rows;
  }

  NsysSource& source_;
  NsysSurvey survey_;
  std::map<ProcessKey, NsysProcess> processes_;
  std::vector<ProcessKey> with_ranges_;
  std::vector<ProcessKey> with_calls_;
  bool has_rows_ = false;
  std::vector<std::pair<std::string, RowCounts>> imported_;
  std::vector<std::pair<std::string, RowCounts>> others_;
};

}  // namespace

absl::StatusOr<NsysSurvey> SurveyNsys(NsysSource& source) { return Survey(source).Run(); }

}  // namespace profd::importer
