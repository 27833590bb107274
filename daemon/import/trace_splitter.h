// TraceSplitter takes the text of a Chrome trace apart as it is read: into runs of whole events,
// and the members besides them. It knows where values end, and no more: that they are JSON, with a
// comma between every two, is for the handler to find out. Of an event whose quotes or brackets do
// not match, it guesses the end (damaged_event.h).
//
//   {"schemaVersion": 1, "deviceProperties": [...], "traceEvents": [ {...}, {...}, ... ], ... }
//     OnMember             OnMember                                OnEvents  OnEvents      OnMember
//
// A file that is an array of events, without the object around it, is taken too. So are the whole
// events of a file that ends too early, if the handler takes those.
//
// Threads: one.
// Memory:  a window of kWindowBytes; more only for a longer value, up to kMaxValueBytes.
// Errors:  those of the file and the handler; DATA_LOSS where it ends too early or what must come
//          is not there; INVALID_ARGUMENT for what is no trace. They say at which byte.
#ifndef PROFD_DAEMON_IMPORT_TRACE_SPLITTER_H_
#define PROFD_DAEMON_IMPORT_TRACE_SPLITTER_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/import/trace_file.h"

namespace profd::importer {

class TraceSplitter {
 public:
  static constexpr size_t kWindowBytes = size_t{1} << 20;
  static constexpr size_t kMaxValueBytes = size_t{64} << 20;
  // After what the handler is given there are this many bytes that may be read.
  static constexpr size_t kPaddingBytes = 64;

  enum class CutPlace {
    kInEvent,
    kBetweenEvents,   // Of "traceEvents", whose closing bracket is missing.
    kWithoutBracket,  // Of a bare array, which may end without one: events may be missing.
    kAfterEvents,     // No event is missing.
  };
  struct CutOff {
    CutPlace place = CutPlace::kInEvent;
    int64_t offset = 0;  // Where the text ends.
  };

  class Handler {
   public:
    virtual ~Handler() = default;
    // `array` is "[{...},{...}]"; its first event begins at `offset` of the text, one byte after
    // its own begin.
    virtual absl::Status OnEvents(std::string_view array, int64_t offset) = 0;
    // An event whose end is not where its brackets say was skipped; it stops being JSON at
    // `offset`.
    virtual void OnDamagedEvent(int64_t /*offset*/) {}
    // The file ends too early, and nothing more comes. What it returns, Run() returns: the default
    // is DATA_LOSS.
    virtual absl::Status OnCutOff(const CutOff& cut);
    // `key` as it is written, without its quotes. `value` is no JSON where its quotes do not match.
    virtual absl::Status OnMember(std::string_view key, std::string_view value, int64_t offset) = 0;
  };

  // Both must outlive it.
  TraceSplitter(TraceFile& file, Handler& handler);

  absl::Status Run();

 private:
  int64_t Offset() const;
  absl::Status Damaged(std::string_view what) const;
  // Once called, Run() is over.
  absl::Status EndTooEarly(CutPlace place);

  // Reads more after what is there; makes room, in a larger window if need be. False: there is no
  // more.
  absl::StatusOr<bool> Fill();
  // The next character that is no white space, which stays; 0: the end.
  absl::StatusOr<char> Peek();
  absl::Status Expect(char expected, std::string_view what);
  // A whole value, which is taken. Valid until more is read.
  absl::StatusOr<std::string_view> Value();
  // The same of a member: what it is followed by shows whether its quotes match. Where they do not,
  // all up to the next member, or to the end of the object.
  absl::StatusOr<std::string_view> MemberValue();

  absl::Status ReadMembers();
  absl::Status ReadEvents();
  // The size of the whole events from begin_ on, as far as they are searched for; 0: there is none.
  size_t SizeOfEvents() const;
  // The size of as many of these events as are what they seem to be, with what is between them and
  // the next; 0: the first one is not, and its end is known.
  absl::StatusOr<size_t> SoundSize(size_t size);
  absl::Status GiveEvents(size_t size);
  // Skips to the next event, or to the end of the array; false: there is none in the window.
  bool SkipDamagedEvent();

  TraceFile& file_;
  Handler& handler_;
  std::vector<char> window_;
  size_t begin_;  // Where the part begins that is not used yet.
  size_t end_;
  int64_t window_offset_ = 0;  // Of window_[0] in the text.
  // How far whole events are searched for. All that was read, but close to damage less, because
  // what is found there may have to be found again.
  size_t search_bytes_ = kMaxValueBytes;
  bool at_end_ = false;
  bool has_events_ = false;
  bool is_bare_array_ = false;
  bool is_cut_off_ = false;
};

}  // namespace profd::importer

#endif  // PROFD_DAEMON_IMPORT_TRACE_SPLITTER_H_
