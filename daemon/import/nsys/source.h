// NsysSource reads an Nsight Systems export: its tables, the strings that other tables refer to,
// and the process of each row.
//
// Threads: one.
// Memory:  kMaxTextBytes of strings; others are read from the file each time.
// Errors:  those of store::ForeignDatabase.
#ifndef PROFD_DAEMON_IMPORT_NSYS_SOURCE_H_
#define PROFD_DAEMON_IMPORT_NSYS_SOURCE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "daemon/base/unique_fd.h"
#include "daemon/store/file/foreign_database.h"

namespace profd::importer {

// A process of an export: `globalPid` or `globalTid` without the low 24 bits, which are the thread.
// Processes of different machines differ even if their PIDs are equal.
using ProcessKey = int64_t;
inline ProcessKey ProcessOf(int64_t global_id) { return global_id >> 24; }
inline int64_t PidOf(ProcessKey process) { return process & 0xFFFFFF; }
inline int64_t TidOf(int64_t global_tid) { return global_tid & 0xFFFFFF; }

class NsysSource {
 public:
  static constexpr size_t kMaxTextBytes = size_t{64} << 20;

  static absl::StatusOr<std::unique_ptr<NsysSource>> Open(UniqueFd file,
                                                          std::function<bool()> is_cancelled);

  store::ForeignDatabase& database() { return *database_; }

  // The string of StringIds with this `id`, at most 4 KiB of it; nullopt: none.
  absl::StatusOr<std::optional<std::string>> TextOf(int64_t id);

  // The name of a number in an ENUM_* table: "CUDA_MEMCPY_KIND_HTOD". Empty: unknown.
  absl::StatusOr<std::map<int64_t, std::string>> NamesOf(std::string_view enum_table);

  // The value of a name in META_DATA_EXPORT.
  absl::StatusOr<std::string> ExportNote(std::string_view name);

 private:
  NsysSource() = default;

  UniqueFd file_;
  std::unique_ptr<store::ForeignDatabase> database_;
  absl::flat_hash_map<int64_t, std::optional<std::string>> texts_;
  size_t text_bytes_ = 0;
};

}  // namespace profd::importer

#endif  // PROFD_DAEMON_IMPORT_NSYS_SOURCE_H_
