#include "daemon/import/trace_splitter.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/import/damaged_event.h"
#include "daemon/import/foreign_format.h"
#include "daemon/import/json/elements.h"
#include "daemon/import/json/skip.h"

namespace profd::importer {
namespace {

// In front of the window there is room for the bracket of an array.
constexpr size_t kFront = 1;
// After it, for the other bracket, and for what may be read there.
constexpr size_t kBack = 1 + TraceSplitter::kPaddingBytes;
constexpr size_t kSearchBytesAfterDamage = size_t{16} << 10;
constexpr size_t kSearchGrowth = 4;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

}  // namespace

TraceSplitter::TraceSplitter(TraceFile& file, Handler& handler)
    : file_(file),
      handler_(handler),
      window_(kFront + kWindowBytes + kBack),
      begin_(kFront),
      end_(kFront),
      window_offset_(-static_cast<int64_t>(kFront)) {}

int64_t TraceSplitter::Offset() const { return window_offset_ + static_cast<int64_t>(begin_); }

absl::Status TraceSplitter::Damaged(std::string_view what) const {
  return absl::DataLossError(StrCat("damaged at byte ", Offset(), ": ", what));
}

absl::Status TraceSplitter::Handler::OnCutOff(const CutOff& cut) {
  return absl::DataLossError(StrCat("cut off: it ends at byte ", cut.offset,
                                    ", before its end; is it still being written?"));
}

absl::Status TraceSplitter::EndTooEarly(CutPlace place) {
  const CutOff cut = {.place = place, .offset = window_offset_ + static_cast<int64_t>(end_)};
  RETURN_IF_ERROR(has_events_ ? handler_.OnCutOff(cut) : handler_.Handler::OnCutOff(cut));
  is_cut_off_ = true;
  return absl::AbortedError("the rest is missing");
}

absl::StatusOr<bool> TraceSplitter::Fill() {
  if (at_end_) return false;
  const size_t held = end_ - begin_;
  if (begin_ > kFront) {
    std::memmove(window_.data() + kFront, window_.data() + begin_, held);
    window_offset_ += static_cast<int64_t>(begin_ - kFront);
    begin_ = kFront;
    end_ = kFront + held;
  }
  if (held >= kMaxValueBytes) {
    return absl::DataLossError(StrCat("damaged at byte ", Offset(), ": a value of more than ",
                                      kMaxValueBytes >> 20, " MiB"));
  }
  // Doubling: a value of n bytes is copied O(n) times in all, however small the pieces are in which
  // it is read.
  if (end_ + kBack == window_.size()) window_.resize(window_.size() * 2);
  const size_t room = window_.size() - kBack - end_;
  ASSIGN_OR_RETURN(const size_t got, file_.Read(window_.data() + end_, room));
  at_end_ = got < room;
  end_ += got;
  return got > 0;
}

absl::StatusOr<char> TraceSplitter::Peek() {
  while (true) {
    while (begin_ < end_ && IsJsonSpace(window_[begin_])) ++begin_;
    if (begin_ < end_) return window_[begin_];
    ASSIGN_OR_RETURN(const bool more, Fill());
    if (!more) return '\0';
  }
}

absl::Status TraceSplitter::Expect(char expected, std::string_view what) {
  ASSIGN_OR_RETURN(const char c, Peek());
  if (c == expected) {
    ++begin_;
    return absl::OkStatus();
  }
  return begin_ == end_ ? EndTooEarly(CutPlace::kAfterEvents) : Damaged(what);
}

absl::StatusOr<std::string_view> TraceSplitter::Value() {
  RETURN_IF_ERROR(Peek().status());
  while (true) {
    const char* const begin = window_.data() + begin_;
    const char* const value_end = SkipJsonValue(begin, window_.data() + end_);
    if (value_end != nullptr) {
      begin_ += static_cast<size_t>(value_end - begin);
      return std::string_view(begin, static_cast<size_t>(value_end - begin));
    }
    ASSIGN_OR_RETURN(const bool more, Fill());
    if (!more) return EndTooEarly(CutPlace::kAfterEvents);
  }
}

absl::StatusOr<std::string_view> TraceSplitter::MemberValue() {
  RETURN_IF_ERROR(Peek().status());
  size_t size = 0;
  while (true) {
    const char* const begin = window_.data() + begin_;
    const char* const value_end = SkipJsonValue(begin, window_.data() + end_);
    size_t next = 0;
    if (value_end != nullptr) {
      size = static_cast<size_t>(value_end - begin);
      next = begin_ + size;
      while (next < end_ && IsJsonSpace(window_[next])) ++next;
    }
    if (value_end == nullptr || next == end_) {
      ASSIGN_OR_RETURN(const bool more, Fill());
      if (more) continue;
      if (value_end == nullptr) return EndTooEarly(CutPlace::kAfterEvents);
      break;
    }
    if (window_[next] == ',' || window_[next] == '}') break;
    const std::string_view text(window_.data() + begin_, end_ - begin_);
    const size_t damaged_size = EndOfDamagedMember(text, size, at_end_);
    if (damaged_size != std::string_view::npos) {
      size = damaged_size;
      break;
    }
    ASSIGN_OR_RETURN(const bool more, Fill());
    if (!more) return Damaged("',' or '}' must come here");
  }
  const std::string_view value(window_.data() + begin_, size);
  begin_ += size;
  return value;
}

absl::Status TraceSplitter::Run() {
  RETURN_IF_ERROR(Peek().status());
  if (std::string_view(window_.data() + begin_, end_ - begin_).starts_with(kByteOrderMark)) {
    begin_ += kByteOrderMark.size();
  }
  ASSIGN_OR_RETURN(const char first, Peek());
  if (first == '\0' && begin_ == end_) {
    if (file_.is_cut_off()) return absl::DataLossError("the gzip file is cut off");
    return absl::InvalidArgumentError("no trace: it is empty");
  }
  if (first != '{' && first != '[') {
    // A line break, as which some of those begin, was skipped.
    const std::string_view start(window_.data() + kFront, end_ - kFront);
    const std::string_view format = ForeignFormat(start);
    if (!format.empty())
      return absl::InvalidArgumentError(StrCat("no torch.profiler trace: ", format));
    return absl::InvalidArgumentError(StrCat("no trace: no JSON begins at byte ", Offset()));
  }
  is_bare_array_ = first == '[';
  absl::Status status = is_bare_array_ ? ReadEvents() : ReadMembers();
  if (is_cut_off_) return absl::OkStatus();
  RETURN_IF_ERROR(status);
  RETURN_IF_ERROR(Peek().status());
  if (begin_ < end_) return Damaged("text after the end of the trace");
  if (has_events_ && file_.is_cut_off()) {
    status = EndTooEarly(CutPlace::kAfterEvents);
    return is_cut_off_ ? absl::OkStatus() : status;
  }
  if (has_events_) return absl::OkStatus();
  return absl::InvalidArgumentError(
      StrCat("no trace: there is no \"traceEvents\" in its ", Offset(), " bytes"));
}

absl::Status TraceSplitter::ReadMembers() {
  ++begin_;
  ASSIGN_OR_RETURN(char c, Peek());
  while (c != '}') {
    if (c != '"') {
      return begin_ == end_ ? EndTooEarly(CutPlace::kAfterEvents) : Damaged("a key must come here");
    }
    ASSIGN_OR_RETURN(const std::string_view quoted, Value());
    const std::string key(quoted.substr(1, quoted.size() - 2));
    RETURN_IF_ERROR(Expect(':', "':' must come here"));
    ASSIGN_OR_RETURN(c, Peek());
    if (key == "traceEvents" && c == '[') {
      RETURN_IF_ERROR(ReadEvents());
    } else {
      const int64_t offset = Offset();
      ASSIGN_OR_RETURN(const std::string_view value, MemberValue());
      if (value.empty()) return Damaged("a value must come here");
      RETURN_IF_ERROR(handler_.OnMember(key, value, offset));
    }
    ASSIGN_OR_RETURN(c, Peek());
    if (c == '}') break;
    RETURN_IF_ERROR(Expect(',', "',' or '}' must come here"));
    ASSIGN_OR_RETURN(c, Peek());
  }
  ++begin_;
  return absl::OkStatus();
}

absl::Status TraceSplitter::ReadEvents() {
  ++begin_;
  while (true) {
    ASSIGN_OR_RETURN(const char c, Peek());
    if (c == ']') break;
    if (c == '\0' && begin_ == end_) {
      // Chrome's format lets an array end without its bracket.
      return EndTooEarly(is_bare_array_ && !file_.is_cut_off() ? CutPlace::kWithoutBracket
                                                               : CutPlace::kBetweenEvents);
    }
    if (c != '{') {
      if (has_events_ && SkipDamagedEvent()) continue;
      if (has_events_) return Damaged("an event must come here");
      return absl::InvalidArgumentError(
          StrCat("no trace: what stands at byte ", Offset(), " is not an event"));
    }
    if (const size_t whole = SizeOfEvents(); whole > 0) {
      ASSIGN_OR_RETURN(const size_t size, SoundSize(whole));
      has_events_ = true;
      if (size == 0 && SkipDamagedEvent()) continue;
      RETURN_IF_ERROR(GiveEvents(size));
      ASSIGN_OR_RETURN(const char behind, Peek());
      if (behind == ',') ++begin_;
    } else if (search_bytes_ < end_ - begin_) {
      search_bytes_ *= kSearchGrowth;
    } else {
      // No event is so long: its quotes or brackets do not match.
      if (end_ - begin_ >= kMaxValueBytes && SkipDamagedEvent()) continue;
      ASSIGN_OR_RETURN(const bool more, Fill());
      if (more || SkipDamagedEvent()) continue;
      return EndTooEarly(CutPlace::kInEvent);
    }
  }
  has_events_ = true;
  ++begin_;
  return absl::OkStatus();
}

size_t TraceSplitter::SizeOfEvents() const {
  const char* const begin = window_.data() + begin_;
  const char* const end = EndOfWholeElements(begin, begin + std::min(search_bytes_, end_ - begin_));
  return end == nullptr ? 0 : static_cast<size_t>(end - begin);
}

absl::StatusOr<size_t> TraceSplitter::SoundSize(size_t size) {
  // Where quotes do not match, texts count as brackets, and an end in the middle of an event as
  // that of an event. What follows an event shows it.
  size_t next = begin_ + size;
  while (true) {
    while (next < end_ && IsJsonSpace(window_[next])) ++next;
    if (next < end_) break;
    const size_t ahead = next - begin_;
    ASSIGN_OR_RETURN(const bool more, Fill());
    if (!more) return size;
    next = begin_ + ahead;
  }
  if (window_[begin_ + size - 1] == '}' && (window_[next] == ',' || window_[next] == ']')) {
    search_bytes_ = std::min(search_bytes_ * kSearchGrowth, kMaxValueBytes);
    return size;
  }
  while (true) {
    const std::string_view text(window_.data() + begin_, end_ - begin_);
    const size_t damaged = FindDamagedEvent(text);
    if (damaged == std::string_view::npos) return size;
    const size_t damaged_size = EndOfDamagedEvent(text.substr(damaged));
    if (damaged_size != std::string_view::npos) {
      search_bytes_ = kSearchBytesAfterDamage;
      return damaged;
    }
    if (text.size() >= kMaxValueBytes) return size;
    ASSIGN_OR_RETURN(const bool more, Fill());
    if (!more) return size;
  }
}

bool TraceSplitter::SkipDamagedEvent() {
  const size_t size = EndOfDamagedEvent(std::string_view(window_.data() + begin_, end_ - begin_));
  if (size == std::string_view::npos) return false;
  const std::string_view event(window_.data() + begin_, size);
  handler_.OnDamagedEvent(Offset() + static_cast<int64_t>(ByteOfDamage(event)));
  search_bytes_ = kSearchBytesAfterDamage;
  has_events_ = true;
  begin_ += size;
  while (begin_ < end_ && (IsJsonSpace(window_[begin_]) || window_[begin_] == ',')) ++begin_;
  return true;
}

absl::Status TraceSplitter::GiveEvents(size_t size) {
  char* const text = window_.data();
  const size_t end = begin_ + size;
  const int64_t offset = Offset();
  text[begin_ - 1] = '[';
  // The run is made an array in place, by a bracket before and one after it. The byte after it
  // belongs to what comes next and is put back.
  const char behind = text[end];
  text[end] = ']';
  absl::Status status =
      handler_.OnEvents(std::string_view(text + begin_ - 1, end + 2 - begin_), offset);
  text[end] = behind;
  begin_ = end;
  return status;
}

}  // namespace profd::importer
