// TraceEvent is one event of a Chrome trace as its text says, and EventParser what makes it of
// JSON.
//
// How do I read another argument?  A member of Number or Text, and a line in kArguments in
// trace_event.cc. Arguments that follow from others have a line without one. All that have no line
// are counted as not understood, and are kept for exports alone.
//
// Threads: one per parser.
// Memory:  four bytes per byte of the longest text.
#ifndef PROFD_DAEMON_IMPORT_TRACE_EVENT_H_
#define PROFD_DAEMON_IMPORT_TRACE_EVENT_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "daemon/import/exact_time.h"

namespace profd::importer {

// Arguments that are numbers.
enum class Number : uint8_t {
  kExternalId,
  kCorrelation,
  kDevice,
  kContext,
  kStream,
  kBytes,
  kSequence,
  kForwardThread,
  kCbid,
  kResult,
  kQueued,
  kRegisters,
  kSharedBytes,
  kGraph,
  kGraphNode,
  kFromDevice,
  kToDevice,
  kWaitStream,
  kWaitCorrelation,
  kWaitEvent,
  kEvent,
  kAddress,
  kTotalAllocated,
  kTotalReserved,
  kDeviceId,
  kDeviceType,
  kEventIndex,
  kValue,
  kCompileNs,
  kGuards,
  kEvents,
  kPythonId,
};
inline constexpr size_t kNumberCount = static_cast<size_t>(Number::kPythonId) + 1;

// Arguments whose JSON is kept as it is written: strings with their quotes.
enum class Text : uint8_t {
  kGrid,
  kBlock,
  kCluster,
  kDims,
  kTypes,
  kStrides,
  kScalars,
  kSyncKind,
  kName,
  kFinished,
  kBegan,
  kEnded,
  kLaunchedByDevice,
  kValue,
  kUnnamed,  // "": of counters of hardware
  kWhere,
  kReason,
  kCode,
  kFeature,
  kInsideOf,
  kDevice,
  kCollectiveName,
  kCollectiveType,
  kInElements,
  kOutElements,
  kInSplit,
  kOutSplit,
  kGroupName,
  kGroupDescription,
  kGroupRanks,
  kGroupSize,
  kRank,
  kFirstRank,
  kRankStride,
  kUnended,
  kCallStack,
  kModule,  // Where a module is in the model, in traces of profd.
};
inline constexpr size_t kTextCount = static_cast<size_t>(Text::kModule) + 1;

// An argument as the event has it.
struct RawArgument {
  std::string_view key;  // With its escapes.
  std::string_view json;
  uint8_t id = 0;  // Of the key: ArgumentId(); kUnknownArgument: profd does not know it.
};
// A number below kMaxArgumentIds for each key that profd knows; nullopt: it knows no such argument.
inline constexpr size_t kMaxArgumentIds = 128;
inline constexpr uint8_t kUnknownArgument = 255;
std::optional<uint8_t> ArgumentId(std::string_view key);

// Views end with the next event.
struct TraceEvent {
  char phase = 0;             // 0: none, or one of several letters.
  std::string_view category;  // As written, without its quotes.
  std::string_view name;      // Likewise, with its escapes.
  std::string_view pid;       // JSON: a number, or a string with its quotes.
  std::string_view tid;
  std::string_view flow;   // The `id` of flows.
  std::string_view binds;  // Their `bp`: JSON, likewise.
  std::string_view scope;  // The `s` of instants, without its quotes.
  std::optional<ExactTime> start;
  std::optional<ExactTime> duration;
  std::string_view stream;  // The JSON of a "stream" that is not a number.
  int64_t offset = 0;       // Where it begins in the text.

  bool Has(Number number) const { return (numbers_present & Bit(number)) != 0; }
  int64_t Get(Number number, int64_t otherwise) const {
    return Has(number) ? numbers[static_cast<size_t>(number)] : otherwise;
  }
  // Empty: it has none.
  std::string_view Get(Text text) const {
    return (texts_present & Bit(text)) != 0 ? texts[static_cast<size_t>(text)] : std::string_view();
  }

  template <typename Key>
  static constexpr uint64_t Bit(Key key) {
    return uint64_t{1} << static_cast<unsigned>(key);
  }
  uint64_t numbers_present = 0;
  uint64_t texts_present = 0;
  std::array<int64_t, kNumberCount> numbers;
  std::array<std::string_view, kTextCount> texts;
  std::span<const RawArgument> arguments;
};
static_assert(kNumberCount <= 64 && kTextCount <= 64);

class EventParser {
 public:
  EventParser();
  ~EventParser();

  using OnEvent = absl::FunctionRef<absl::Status(const TraceEvent& event)>;
  // Told the key of an argument that is not understood, as it is written.
  using OnUnknownArgument = absl::FunctionRef<void(const TraceEvent& event, std::string_view key)>;

  // Told the byte of an event that is no JSON, as that of an unescaped quote. Only that one is
  // lost.
  using OnDamage = absl::FunctionRef<void(int64_t byte)>;

  // `array` as TraceSplitter::Handler has it. Returns what `on_event` returns.
  absl::Status Parse(std::string_view array, int64_t offset, OnEvent on_event,
                     OnUnknownArgument on_unknown, OnDamage on_damage);

  // Bytes that were no UTF-8 so far, in whose place '?' was read.
  int64_t replaced_bytes() const;
  // Numbers that JSON does not have (NaN, inf) so far, in whose place null was read, and characters
  // that a JSON text must not have (a line break), in whose place a space was read.
  int64_t non_finite_numbers() const;
  int64_t control_characters() const;

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

// The text of a JSON string, whose quotes may be there or not; escapes that are wrong stay.
std::string Unescape(std::string_view json);

}  // namespace profd::importer

#endif  // PROFD_DAEMON_IMPORT_TRACE_EVENT_H_
