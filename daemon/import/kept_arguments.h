// KeptArguments keeps the arguments of events that a capture has no column for, so that an export
// has them again: torch's numbers of events, of modules and of Python's functions, figures as they
// were recorded, and what the profiler said of a collective.
//
// Exports write what they make of rows themselves unless an argument of the same name is kept. So
// those that rows restore are not kept, and those that an export would write and the event lacks
// are kept as absent.
//
// It also keeps the labels of rows, and arrows: with the event that they are at, which Kineto
// writes before them, or by themselves (daemon/report/index/source_kinds.h).
//
// Threads: one.
// Arguments that profd does not know are kept whole, of up to kMaxUnknownKeys names.
//
// Memory:  kMemoryBytes per name of an argument; what is beyond is in a file without a name. Texts:
//          kMaxTextBytes.
// Errors:  RowSpool's and the sink's.
#ifndef PROFD_DAEMON_IMPORT_KEPT_ARGUMENTS_H_
#define PROFD_DAEMON_IMPORT_KEPT_ARGUMENTS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/capture/event_kinds.h"
#include "daemon/capture/ports.h"
#include "daemon/import/names.h"
#include "daemon/import/not_understood.h"
#include "daemon/import/row_spool.h"
#include "daemon/import/trace_event.h"

namespace profd::importer {

// Which arguments the rows of an event restore.
enum class RestoredArguments : uint8_t {
  kNone,        // Of steps, and of Python's functions.
  kAnnotation,  // A range of the program.
  kOperator,
  kAutogradFrame,  // An operator without a number of its own.
  kCollective,     // An operator of which all is kept.
  kMemory,
  kForeignMemory,  // Of a device that torch numbers otherwise than profd.
  kCall,
  kKernel,
  kTransfer,
  kSync,  // A wait that is not for a CUDA event.
  kEventWait,
};

class KeptArguments {
 public:
  static constexpr size_t kMemoryBytes = size_t{2} << 20;
  static constexpr size_t kMaxTextBytes = size_t{8} << 20;
  static constexpr size_t kMaxTexts = 50'000;
  static constexpr size_t kMaxUnknownKeys = 64;
  static constexpr size_t kMaxFlowShapes = 64;
  // Exports write no longer names.
  static constexpr size_t kMaxKeyBytes = 80;

  // All must outlive it.
  KeptArguments(NameTable& names, NotUnderstood& not_understood, std::filesystem::path directory);

  // `of`: kArgumentOf*. `row`: the row's position, or a number that FinishRows() gives one for.
  // `restores_stack`: if the event has a Call stack, exports write the same of its row's stack.
  absl::Status Add(const TraceEvent& event, RestoredArguments restored, uint8_t of, uint32_t thread,
                   uint32_t row, bool restores_stack = true);

  // An arrow's end: at one of the events that were added last, if it has the same row and time.
  absl::Status AddFlow(const TraceEvent& flow);
  // An event of another kind: arrows that follow it are not those of the events before it.
  void ForgetEvents() { recent_[(next_recent_++) % kRecent].is_slice = false; }
  // A label of a row, or its place among rows.
  absl::Status AddLabel(const TraceEvent& label);

  bool empty() const { return !has_any_; }

  // The same of a number that profd found elsewhere.
  absl::Status AddNumber(std::string_view key, int64_t number, uint8_t of, uint32_t row);

  // The position of a row in the file; nothing: it is not in the file.
  using PositionOf =
      std::function<std::optional<uint32_t>(uint8_t of, uint32_t thread, uint32_t row)>;
  // Gives the sink all of them, by name. `start_ns`: of the capture, in the trace's time. Call
  // once, last.
  absl::Status Finish(const PositionOf& position_of, int64_t start_ns, CaptureSink& sink);

 private:
  struct Kept {
    int64_t value;
    uint32_t thread;
    uint32_t row;
    uint8_t of;
    ArgumentType type;
  };
  using Spool = RowSpool<Kept>;

  // An event that was added a short while ago.
  struct Recent {
    bool is_slice = false;
    std::string pid;
    std::string tid;
    int64_t start_ns = 0;
    uint8_t of = 0;
    uint32_t thread = 0;
    uint32_t row = 0;
    uint32_t flow_count = 0;
  };
  static constexpr size_t kRecent = 16;
  void Remember(const TraceEvent& event, const Kept& kept);
  // The last one with the row and the time of `flow`; nullptr: none.
  Recent* RecentAt(const TraceEvent& flow);
  absl::Status AddLooseFlow(const TraceEvent& flow);
  // An argument of a row that no event stands for.
  absl::Status AddOther(const TraceEvent& event, std::string_view key, std::string_view json,
                        uint8_t of, uint32_t row);

  // Nothing: there is no room for its text.
  absl::StatusOr<bool> Parse(const TraceEvent& event, const RawArgument& argument, Kept& kept);
  absl::Status Put(uint8_t id, std::string_view key, const Kept& kept);
  absl::Status PutUnknown(const TraceEvent& event, std::string_view key, const Kept& kept);
  absl::Status Drain(std::string_view key, Spool& spool, const PositionOf& position_of,
                     int64_t start_ns, CaptureSink& sink);

  NameTable& names_;
  NotUnderstood& not_understood_;
  const std::filesystem::path directory_;
  // By the key's ID; that of one that profd has from elsewhere is kMaxArgumentIds.
  struct OfKey {
    std::string key;
    std::unique_ptr<Spool> spool;
  };
  std::array<OfKey, kMaxArgumentIds + 1> of_keys_;
  using Spools = std::map<std::string, std::unique_ptr<Spool>, std::less<>>;
  // nullptr: `spools` has `most` keys, and not this one.
  Spool* SpoolOf(std::string_view key, size_t most, Spools& spools);
  Spools of_unknown_keys_;              // As written.
  Spools of_flows_;                     // By the key that exports read.
  std::array<Recent, kRecent> recent_;  // A ring.
  size_t next_recent_ = 0;
  uint32_t loose_flow_count_ = 0;
  uint32_t label_count_ = 0;
  absl::flat_hash_map<std::string, uint32_t> texts_;  // Names, by JSON.
  size_t text_bytes_ = 0;
  bool has_any_ = false;
};

}  // namespace profd::importer

#endif  // PROFD_DAEMON_IMPORT_KEPT_ARGUMENTS_H_
