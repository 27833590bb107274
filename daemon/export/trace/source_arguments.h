// SourceArguments are the arguments of events as an imported trace had them, for its export:
// torch's numbers of events, modules, and Python's functions, and figures as they were recorded. An
// export writes what it makes of rows, unless a row has an argument of the same name here.
//
// Memory: 16 bytes per argument.
// Errors: the reader's; RESOURCE_EXHAUSTED for more than kMostArguments.
#ifndef PROFD_DAEMON_EXPORT_TRACE_SOURCE_ARGUMENTS_H_
#define PROFD_DAEMON_EXPORT_TRACE_SOURCE_ARGUMENTS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::exporter {

// The arguments that an export makes of rows, by their names.
enum class RowArgument : uint8_t {
  kSequence,
  kForwardThread,
  kCallStack,
  kScalars,
  kTypes,
  kStrides,
  kDims,
  kDevice,
  kContext,
  kStream,
  kCorrelation,
  kCbid,
  kQueued,
  kRegisters,
  kShared,
  kGrid,
  kBlock,
  kBytes,
  kAddress,
  kDeviceId,
  kDeviceType,
  kSyncKind,
  kWaitStream,
  kWaitCorrelation,
  kWaitEvent,
};
inline constexpr size_t kRowArgumentCount = static_cast<size_t>(RowArgument::kWaitEvent) + 1;

// Where an event has an argument, so that an export of a capture, imported, is exported as the same
// bytes: before those of its row, among them (figures of kernels and copies), or after them.
enum ArgumentPart : uint8_t { kFirstArguments = 1, kFigureArguments = 2, kLastArguments = 4 };

class SourceArguments {
 public:
  static constexpr size_t kMostArguments = 200'000'000;
  // What Put() writes at most of one event. Arguments that do not fit are left out.
  static constexpr size_t kMostLastBytes = size_t{16} << 10;
  static constexpr size_t kMostOtherBytes = size_t{1} << 10;
  static constexpr size_t kMostBytes = kMostLastBytes + 2 * kMostOtherBytes;

  static absl::StatusOr<SourceArguments> Read(store::CaptureReader& reader);

  // The capture has none: it was not imported, or by a profd that kept none. If it has any, events
  // without arguments here had none, so that exports make up no numbers.
  bool empty() const { return tables_.empty(); }

  struct Argument {
    int64_t value;
    uint32_t row;
    uint16_t key;  // Index into the keys.
    uint8_t type;  // ArgumentType
  };
  static_assert(sizeof(Argument) == 16);
  struct Row {
    std::span<const Argument> arguments;
    uint64_t has = 0;  // A bit for each RowArgument, and for each part.
  };
  // Those of a row; `of`, `thread`, and `row` as ArgumentRow has them. Fast if rows ascend.
  Row Of(uint8_t of, uint32_t thread, uint32_t row);
  bool Has(const Row& row, RowArgument argument) const {
    return (row.has >> static_cast<unsigned>(argument) & 1) != 0;
  }
  // All of a kind that has no thread, by row.
  std::span<const Argument> AllOf(uint8_t of) const;
  bool HasKind(uint8_t of) const { return HasKinds(of, of); }
  // Of the kinds from `first` to `last`.
  bool HasKinds(uint8_t first, uint8_t last) const;
  // The argument's key, as text.
  std::string_view NameOf(const Argument& argument) const { return keys_[argument.key].name; }
  // Its value if that is JSON that may be shown; else empty.
  std::string_view JsonOf(const Argument& argument) const;
  // The `tid` of a thread's events; nullopt: none of its own.
  std::optional<int64_t> TidOf(uint32_t thread);
  // When an imported trace began that has no date, or one before 1970; nullopt: the record says so.
  std::optional<int64_t> StartUnixNs() const;
  // `,"External id":7`, for each of these parts (ArgumentPart).
  char* Put(char* at, const Row& row, unsigned parts) const;
  // A value alone; at most kMostValueBytes. Absent ones: nothing.
  static constexpr size_t kMostValueBytes = 4096;
  char* PutValue(char* at, const Argument& argument) const;
  // The same of all but the first.
  char* PutRest(char* at, const Row& row) const {
    return Put(at, row, kFigureArguments | kLastArguments);
  }

 private:
  struct Table {
    std::vector<Argument> arguments;  // By row.
    size_t next = 0;
  };
  struct Key {
    std::string text;  // `,"External id":`
    std::string name;
    size_t rank = 0;  // Events have their arguments in this order, then by name.
    ArgumentPart part = kLastArguments;
    uint64_t has = 0;  // What Row::has has of it.
  };
  // More than an import makes: of known arguments, unknown ones, arrows, and labels.
  static constexpr uint16_t kMostKeys = 1000;
  static constexpr unsigned kPartShift = 60;
  static_assert(kRowArgumentCount <= kPartShift);

  explicit SourceArguments(std::span<const std::string> names) : names_(names) {}
  absl::Status Add(const ArgumentBatch& batch);
  uint16_t KeyOf(uint32_t name);
  bool MayBeShown(uint32_t name);
  void SortKeys();
  void Sort();

  std::span<const std::string> names_;
  std::vector<Key> keys_;
  std::vector<uint16_t> key_of_name_;  // By name; kMostKeys: not a key, or not yet.
  std::vector<uint8_t> may_be_shown_;  // By name: 0: not known, 1: yes, 2: no.
  std::map<std::pair<uint8_t, uint32_t>, Table> tables_;  // By kind and thread.
  size_t count_ = 0;
};

}  // namespace profd::exporter

#endif  // PROFD_DAEMON_EXPORT_TRACE_SOURCE_ARGUMENTS_H_
