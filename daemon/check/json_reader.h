// JsonReader reads JSON of any size from a ByteSource, value by value, and forgives nothing without
// saying so: what strict readers refuse but one can read past (a control character in a string, a
// number that is "inf", bytes that are not UTF-8) goes to the log and is read past; anything else
// ends it, with error() and the byte.
//
//   reader.EnterObject();
//   while (reader.NextKey(key)) {
//     if (key == "ts") ts = reader.Token(); else reader.Skip();
//   }
//
// After NextKey() or NextItem() was true, exactly one value has to be taken: by Enter...(),
// String(), Token() or Skip(). What those return is valid until the next call.
//
// Threads: one.
// Errors:  after the first, everything is false or empty: ok() tells. status(): the source's.
// Memory:  one string of at most kMostStringBytes, and 8 bytes per key of the objects it is in.
#ifndef PROFD_DAEMON_CHECK_JSON_READER_H_
#define PROFD_DAEMON_CHECK_JSON_READER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "daemon/check/byte_source.h"
#include "daemon/check/check_rules.h"

namespace profd::check {

class JsonReader {
 public:
  static constexpr size_t kMostStringBytes = size_t{64} << 10;  // Longer ones are cut, and checked.
  static constexpr size_t kMostDepth = 128;
  // Of one object; keys after are not held against each other.
  static constexpr size_t kMostComparedKeys = 128;

  enum class Kind { kNothing, kObject, kArray, kString, kNumber, kWord };

  JsonReader(ByteSource& source, FindingLog& log) : source_(source), log_(log) {}

  // Of the value that comes next; kNothing at the end of the text, or after an error.
  Kind Peek();

  // Each false if the next value is something else, which is skipped.
  bool EnterObject() { return Enter('{'); }
  bool EnterArray() { return Enter('['); }
  bool NextKey(std::string_view& key);
  bool NextItem();

  std::string_view String();  // Empty if the value is no string; it is skipped.
  std::string_view Token();   // A number as it stands there, likewise.
  void Skip();

  // That nothing but white space follows.
  void ExpectEnd();

  // Whether white space stood between the last key's colon and its value.
  bool space_before_value() const { return space_before_value_; }
  // How many keys "rank" have come with white space before a digit: HTA looks for the first.
  int64_t spaced_ranks() const { return spaced_ranks_; }

  bool ok() const { return error_.empty() && status_.ok(); }
  const std::string& error() const { return error_; }
  const absl::Status& status() const { return status_; }
  uint64_t offset() const { return piece_offset_ + at_; }  // In the uncompressed text.

 private:
  struct Level {
    char bracket;
    bool is_first;
    size_t first_key;  // Into keys_.
  };

  bool Refill();
  bool More() { return at_ < piece_.size() || Refill(); }
  char Front() { return More() ? piece_[at_] : '\0'; }
  bool SkipSpace();
  bool Fail(std::string_view what);
  bool Enter(char bracket);
  bool Leave();
  bool Comma();
  std::string_view ReadString();
  std::string_view TakePlain();
  void ReadEscape();
  void ReadUnicodeEscape();
  int32_t ReadHex();
  void ReadUtf8();
  void Put(std::string_view text);
  std::string_view ReadBareWord();
  void NoteKey(std::string_view key);

  ByteSource& source_;
  FindingLog& log_;
  absl::Status status_;
  std::string error_;
  std::string_view piece_;
  size_t at_ = 0;
  uint64_t piece_offset_ = 0;
  std::vector<Level> levels_;
  std::vector<uint64_t> keys_;  // Hashes, of all levels.
  std::string text_;
  std::string key_;
  bool space_before_value_ = false;
  int64_t spaced_ranks_ = 0;
};

}  // namespace profd::check

#endif  // PROFD_DAEMON_CHECK_JSON_READER_H_
