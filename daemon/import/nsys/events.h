// NsysEvents adds the rows of one process of an export to a CaptureBuilder.
//
// Finds columns by name, because schemas differ. A missing or invalid value counts as unknown. A
// row without a time or without a device is counted by table.
//
// Threads: one.
// Memory:  a few bytes per thread, per distinct name, and per synchronizing call.
// Errors:  those of store::ForeignDatabase and of the builder.
#ifndef PROFD_DAEMON_IMPORT_NSYS_EVENTS_H_
#define PROFD_DAEMON_IMPORT_NSYS_EVENTS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/import/capture_builder.h"
#include "daemon/import/not_understood.h"
#include "daemon/import/nsys/source.h"
#include "daemon/store/file/foreign_database.h"

namespace profd::importer {

// Converts a row's values to the types of captures. Counts invalid values as details:
// "arg:TABLE.column".
class NsysFields {
 public:
  NsysFields(const store::ForeignDatabase::Row& row, std::string_view table,
             std::span<const std::string_view> columns, NotUnderstood& not_understood)
      : row_(row), table_(table), columns_(columns), not_understood_(not_understood) {}

  std::optional<int64_t> Int(size_t column) const {
    const std::optional<int64_t> value = row_.Int(column);
    if (!value.has_value() && !row_.IsNull(column)) CountDetail(column);
    return value;
  }
  std::optional<std::string_view> Text(size_t column) const {
    const std::optional<std::string_view> value = row_.Text(column);
    if (!value.has_value() && !row_.IsNull(column)) CountDetail(column);
    return value;
  }
  template <typename To>
  To As(size_t column, To otherwise) const {
    const std::optional<int64_t> value = Int(column);
    if (!value.has_value()) return otherwise;
    if (std::in_range<To>(*value)) return static_cast<To>(*value);
    CountDetail(column);
    return otherwise;
  }
  bool IsNull(size_t column) const { return row_.IsNull(column); }
  void CountDetail(size_t column) const;

 private:
  const store::ForeignDatabase::Row& row_;
  const std::string_view table_;
  const std::span<const std::string_view> columns_;
  NotUnderstood& not_understood_;
};

class NsysEvents {
 public:
  // All arguments must outlive it. `takes_unknown`: rows without a process belong to this process.
  // `on_table` is called before each table.
  NsysEvents(NsysSource& source, ProcessKey process, bool takes_unknown, CaptureBuilder& builder,
             NotUnderstood& not_understood, std::function<void(int done, int total)> on_table)
      : source_(source),
        process_(process),
        takes_unknown_(takes_unknown),
        builder_(builder),
        not_understood_(not_understood),
        on_table_(std::move(on_table)) {}

  absl::Status Run();

  int64_t open_range_count() const { return open_range_count_; }

 private:
  // The first three columns of all tables: process or thread, start, and end.
  static constexpr size_t kOwner = 0;
  static constexpr size_t kStart = 1;
  static constexpr size_t kEnd = 2;
  struct Times {
    int64_t start_ns;
    int64_t duration_ns;
  };
  using Fields = NsysFields;

  // events.cc
  absl::Status ForEach(std::string_view table, std::span<const std::string_view> columns,
                       absl::FunctionRef<absl::Status(const Fields&)> fn);
  std::optional<Times> TimesOf(const Fields& fields, std::string_view table);
  absl::Status Note(std::string_view table, const absl::StatusOr<bool>& added);
  void Count(std::string_view table, std::string_view why);
  std::optional<uint32_t> ThreadOf(const Fields& fields, std::string_view table);
  absl::StatusOr<uint32_t> NameOf(std::optional<int64_t> text_id);
  absl::Status NameThreads();

  // gpu_rows.cc
  absl::Status ReadKinds();
  absl::Status AddCalls(std::string_view table);
  absl::Status AddKernels();
  absl::Status AddCopies();
  absl::Status AddMemsets();
  absl::Status AddGraphs();
  absl::Status AddWork(std::string_view table, GpuRow row);
  absl::Status AddSyncs();
  absl::Status AddCudaEvents();
  absl::Status AddOverheads();
  absl::Status AddProfilerOverheads();
  absl::Status AddMemory();
  // The fields that all tables of GPU work have; nullopt: no time or no device.
  std::optional<GpuRow> WorkOf(const Fields& fields, std::string_view table, GpuRowKind kind);

  // nvtx_rows.cc
  absl::Status ReadDomains();
  absl::Status AddNvtx(bool open_ones);
  absl::StatusOr<std::string> NvtxName(const Fields& fields);
  static std::string PushKey(const Fields& fields, std::string_view name);
  absl::Status AddNvtxRange(uint32_t thread, const Times& times, uint8_t flags,
                            std::string_view name);

  NsysSource& source_;
  const ProcessKey process_;
  const bool takes_unknown_;
  CaptureBuilder& builder_;
  NotUnderstood& not_understood_;
  const std::function<void(int, int)> on_table_;

  absl::flat_hash_map<int64_t, uint32_t> threads_;  // By globalTid.
  absl::flat_hash_map<int64_t, uint32_t> names_;    // By id of a text.
  struct ApiName {
    uint32_t name = 0;
    uint32_t sync_kind = 0;  // For calls that wait; 0: the call does not wait.
  };
  absl::flat_hash_map<int64_t, ApiName> api_names_;
  absl::flat_hash_map<uint32_t, uint32_t> waiting_calls_;    // Their kinds, by correlation.
  absl::flat_hash_map<uint32_t, uint16_t> context_devices_;  // Of contexts with GPU work.
  std::map<int64_t, uint8_t> copy_kinds_, memory_kinds_;     // By the export's number, CUPTI's.
  std::map<int64_t, uint32_t> sync_kinds_, overhead_kinds_;
  std::map<int64_t, bool> frees_memory_;
  std::map<int64_t, std::string> domains_;
  int64_t open_range_count_ = 0;
  // Of pushes that nothing pops, by thread and name: the begin of the last one. The program began
  // the range again, so those before it are taken to be over; of a range inside one of the same
  // name that is not so. Of a file with more names, the rest count as cut off by the window.
  static constexpr size_t kMostOpenPushes = 65'536;
  absl::flat_hash_map<std::string, int64_t> last_open_push_ns_;
};

}  // namespace profd::importer

#endif  // PROFD_DAEMON_IMPORT_NSYS_EVENTS_H_
