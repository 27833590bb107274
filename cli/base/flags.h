// Flags of a command line: a table of what a command takes, and a parser over that table.
//
//   --flag=value, --flag value, -f value, -fvalue; booleans take no value; "--" ends flags.
//   Flags and arguments may stand in any order.
//
// The same table gives --help, shell completion and the man page, so that these cannot
// disagree with what is parsed.
//
// Errors: INVALID_ARGUMENT with the reason USAGE; the message names the flag and its range.
#ifndef PROFD_CLI_BASE_FLAGS_H_
#define PROFD_CLI_BASE_FLAGS_H_

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace profd::cli {

inline constexpr std::string_view kUsageReason = "USAGE";
absl::Status UsageError(const std::string& message);

// What a shell can offer for a value.
enum class Completes {
  kNothing,
  kFile,
  kCaptureFile,  // *.profd
  kCapture,      // the id of a capture, or a *.profd file
  kPid,          // of a target
  kSchedule,     // one of the choices, or the id of a schedule
  kContext,      // one of the choices, or a name of `profctl context`
  kChoice,       // one of Flag::choices
  kCommand,      // a command of profctl
  kProgram,      // a program, and files after it
};

struct Flag {
  std::string_view name = {};        // "steps"
  char letter = 0;                   // 'o'; 0: none
  std::string_view value_name = {};  // "N"; empty: a boolean
  // One sentence or two, without a full stop at the end.
  std::string_view help = {};
  // Which actions of the command take it ("create"), its first argument; empty: all.
  std::vector<std::string_view> actions = {};
  bool is_rare = false;  // --help names it only, --help-all explains it.
  bool repeated = false;
  Completes completes = Completes::kNothing;
  std::vector<std::string_view> choices = {};
  // Taken as well, but not offered by completion: only with some of the command's arguments.
  std::vector<std::string_view> unoffered = {};
  // The value may be left out, and is then empty; one that is given follows a "=".
  bool value_is_optional = false;
};

std::string JoinedActions(const Flag& flag);  // "apply, diff"
// Its help with its actions before it: "apply, diff: JSON file that declares schedules".
std::string HelpWithActions(const Flag& flag);

class ParsedFlags {
 public:
  bool Has(std::string_view flag) const { return values_.contains(flag); }
  // The last value given; nullopt: not given.
  std::optional<std::string> Get(std::string_view flag) const;
  std::vector<std::string> All(std::string_view flag) const;
  // As All(), with every value split at commas.
  std::vector<std::string> List(std::string_view flag) const;

  absl::StatusOr<std::optional<int64_t>> Int(
      std::string_view flag, int64_t min, int64_t max = std::numeric_limits<int64_t>::max()) const;
  // "250ms", "1m30s", "2h", "3d"; a bare number is seconds.
  absl::StatusOr<std::optional<absl::Duration>> Duration(std::string_view flag) const;
  // "65536", "64KiB", "64K", "1.5GiB"; units of 1024.
  absl::StatusOr<std::optional<int64_t>> Bytes(
      std::string_view flag, int64_t min = 0,
      int64_t max = std::numeric_limits<int64_t>::max()) const;

  const std::vector<std::string>& arguments() const { return arguments_; }

 private:
  friend absl::StatusOr<ParsedFlags> ParseFlags(std::span<const Flag>, std::span<const std::string>,
                                                bool);
  std::map<std::string, std::vector<std::string>, std::less<>> values_;
  std::vector<std::string> arguments_;
};

// Parses `words`. With `stop_at_argument`, the first word that is no flag and all after it
// become arguments. An unknown flag is answered with the nearest that exists.
absl::StatusOr<ParsedFlags> ParseFlags(std::span<const Flag> table,
                                       std::span<const std::string> words,
                                       bool stop_at_argument = false);

absl::StatusOr<int64_t> ParseInt(std::string_view text);
// "500ms", "1h30m": each number but 0 needs its unit.
absl::StatusOr<absl::Duration> ParseDuration(std::string_view text);
absl::StatusOr<int64_t> ParseBytes(std::string_view text);

// The candidate nearest to `word`; empty if none is near.
std::string_view NearestMatch(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace profd::cli

#endif  // PROFD_CLI_BASE_FLAGS_H_
