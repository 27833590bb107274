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
};
inline constexpr size_t kRowArgumentCount = static_cast<size_t>(RowArgument::kSyncKind) + 1;

class SourceArguments {
 public:
  static constexpr size_t kMostArguments = 200'000'000;
  // What Put() writes at most. Arguments that do not fit are left out.
  static constexpr size_t kMostBytes = size_t{16} << 10;

  static absl::StatusOr<SourceArguments> Read(store::CaptureReader& reader);

  // The capture has none: it was not imported, or by a profd that kept none. If it has any, events
  // without arguments here had none, so that exports make up no numbers.
  bool empty() const { return tables_.empty(); }

  struct Argument {
    int64_t value;
    uint32_t row;
    uint8_t key;   // Index into the keys.
    uint8_t type;  // ArgumentType
  };
  static_assert(sizeof(Argument) == 16);
  struct Row {
    std::span<const Argument> arguments;
    uint64_t keys = 0;  // A bit for each.
  };
  // Those of a row; `of`, `thread`, and `row` as ArgumentRow has them. Fast if rows ascend.
  Row Of(uint8_t of, uint32_t thread, uint32_t row);
  bool Has(const Row& row, RowArgument argument) const {
    return (row.keys & bits_[static_cast<size_t>(argument)]) != 0;
  }
  // The `tid` of a thread's events; nullopt: none of its own.
  std::optional<int64_t> TidOf(uint32_t thread);
  // `,"External id":7`, for each.
  char* Put(char* at, const Row& row) const;

 private:
  struct Table {
    std::vector<Argument> arguments;  // By row.
    size_t next = 0;
  };
  static constexpr size_t kMostKeys = 64;

  explicit SourceArguments(std::span<const std::string> names) : names_(names) {}
  absl::Status Add(const ArgumentBatch& batch);
  uint8_t KeyOf(uint32_t name);
  bool MayBeShown(uint32_t name);
  void Sort();

  std::span<const std::string> names_;
  std::vector<std::string> keys_;      // `,"External id":`
  std::vector<uint8_t> key_of_name_;   // By name; kMostKeys: not a key, or not yet.
  std::vector<uint8_t> may_be_shown_;  // By name: 0: not known, 1: yes, 2: no.
  std::array<uint64_t, kRowArgumentCount> bits_{};
  std::map<std::pair<uint8_t, uint32_t>, Table> tables_;  // By kind and thread.
  size_t count_ = 0;
};

}  // namespace profd::exporter

#endif  // PROFD_DAEMON_EXPORT_TRACE_SOURCE_ARGUMENTS_H_
