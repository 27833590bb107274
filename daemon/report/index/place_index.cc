#include "daemon/report/index/place_index.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/report/index/end_of.h"
#include "daemon/report/index/range_arguments.h"
#include "daemon/report/index/stack_table.h"
#include "proto/wire/event.h"

namespace profd::report {
namespace {

constexpr auto kBackward = static_cast<uint8_t>(wire::OperatorScope::kBackwardFunction);

// A range with a place of its own.
struct PlacedRange {
  int64_t start_ns;
  int64_t end_ns;
  uint32_t place;
  // Its stack is that of the call of backward(), which says less than the place of the backward
  // operator around it, if there is one.
  bool is_engine = false;
  // A backward operator of a trace whose functions are ranges: `place` has the callers, too.
  bool is_whole = false;
};
struct OperatorPlace {
  uint32_t place = 0;
  bool is_engine = false;
};

// By start, of several the longest first.
bool IsBefore(const PlacedRange& a, const PlacedRange& b) {
  return a.start_ns != b.start_ns ? a.start_ns < b.start_ns : a.end_ns > b.end_ns;
}

// An operator, as its range names it.
struct OperatorKey {
  uint32_t thread;
  int64_t start_ns;
  uint16_t depth;

  friend bool operator==(const OperatorKey&, const OperatorKey&) = default;
  template <typename H>
  friend H AbslHashValue(H hash, const OperatorKey& key) {
    return H::combine(std::move(hash), key.thread, key.start_ns, key.depth);
  }
};

// Of one range, or of all that are around it.
class Arguments {
 public:
  bool Has(const std::string& key) const {
    return std::ranges::find(values_, key, &std::pair<std::string, std::string>::first) !=
           values_.end();
  }
  void Set(const std::string& key, const std::string& value) {
    const auto at = std::ranges::find(values_, key, &std::pair<std::string, std::string>::first);
    if (at == values_.end()) {
      if (values_.size() < RangeArguments::kMostOfRange) values_.emplace_back(key, value);
    } else {
      at->second = value;
    }
  }
  bool empty() const { return values_.empty(); }
  const std::vector<std::pair<std::string, std::string>>& values() const { return values_; }
  std::string ToText() const {
    std::string text;
    for (const auto& [key, value] : values_) {
      StrAppend(&text, text.empty() ? "" : ", ", key, "=", value);
    }
    return text;
  }

 private:
  std::vector<std::pair<std::string, std::string>> values_;
};

}  // namespace

class PlaceIndex::Builder {
 public:
  Builder(store::CaptureReader& reader, PlaceKind kind, const Options& options)
      : reader_(reader),
        kind_(kind),
        frames_(std::clamp<uint32_t>(options.frames, 1, kMaxFrames)),
        argument_(options.argument) {}

  absl::StatusOr<PlaceIndex> Build() {
    ranges_.resize(reader_.threads().size());
    if (kind_ == PlaceKind::kArguments) {
      RETURN_IF_ERROR(ReadArguments());
    } else {
      ASSIGN_OR_RETURN(stacks_, StackTable::Build(reader_));
      RETURN_IF_ERROR(stacks_.empty() ? ReadFunctions() : ReadOperators());
    }
    const bool is_empty = std::ranges::all_of(ranges_, [](const auto& of) { return of.empty(); });
    if (is_empty) return std::move(index_);
    JoinThreads();
    if (stacks_.empty()) RETURN_IF_ERROR(PlaceBackward());
    MakeChanges();
    return std::move(index_);
  }

 private:
  uint32_t PlaceOf(std::string text) {
    if (text.empty()) return 0;
    const auto next = static_cast<uint32_t>(index_.names_.size());
    const auto [at, inserted] = numbers_.try_emplace(text, next);
    if (inserted) index_.names_.push_back(std::move(text));
    return at->second;
  }

  // ---- from the stacks of operators ----

  uint32_t PlaceOfStack(uint32_t stack) {
    if (stack >= places_.size()) return 0;
    std::optional<uint32_t>& place = places_[stack];
    if (!place.has_value()) place = PlaceOf(TextOf(stack));
    return *place;
  }

  std::string TextOf(uint32_t stack) const {
    switch (kind_) {
      case PlaceKind::kModule:
        return stacks_.ModuleOf(stack);
      case PlaceKind::kSource:
        return stacks_.SourceOf(stack);
      case PlaceKind::kStack:
        return stacks_.TextOf(stack, frames_);
      case PlaceKind::kArguments:
        break;
    }
    return "";
  }

  absl::Status ReadOperators() {
    places_.resize(stacks_.size());
    // Autograd runs backward on threads without Python; the forward operator has the same sequence
    // number on the thread that the backward operator names.
    absl::flat_hash_map<std::pair<uint64_t, int64_t>, uint32_t> forward;
    absl::flat_hash_set<uint32_t> engine_stacks;  // On which backward operators began.
    RETURN_IF_ERROR(reader_.ForEach<OperatorRow>([&](const OperatorBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) {
        if (batch.stack[i] == 0 || batch.sequence[i] < 0) continue;
        if (batch.scope[i] == kBackward) {
          engine_stacks.insert(batch.stack[i]);
        } else {
          forward[{batch.torch_thread[i], batch.sequence[i]}] = batch.stack[i];
        }
      }
      return absl::OkStatus();
    }));
    absl::flat_hash_map<OperatorKey, OperatorPlace> places;
    RETURN_IF_ERROR(reader_.ForEach<OperatorRow>([&](const OperatorBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) {
        uint32_t stack = batch.stack[i];
        bool is_engine = engine_stacks.contains(stack);
        if (batch.scope[i] == kBackward && batch.sequence[i] >= 0) {
          const auto at = forward.find({batch.forward_thread[i], batch.sequence[i]});
          if (at != forward.end()) {
            stack = at->second;
            is_engine = false;
          }
        }
        if (const uint32_t place = PlaceOfStack(stack); place != 0) {
          places[{batch.thread, batch.start_ns[i], batch.depth[i]}] = {place, is_engine};
        }
      }
      return absl::OkStatus();
    }));
    return reader_.ForEach<RangeRow>(
        kRangeStart | kRangeDuration | kRangeDepth, {}, [&](const RangeBatch& batch) {
          for (size_t i = 0; i < batch.size; ++i) {
            const auto at = places.find({batch.thread, batch.start_ns[i], batch.depth[i]});
            if (at == places.end()) continue;
            ranges_[batch.thread].push_back({batch.start_ns[i],
                                             EndOf(batch.start_ns[i], batch.duration_ns[i]),
                                             at->second.place, at->second.is_engine});
          }
          return absl::OkStatus();
        });
  }

  // ---- from Python functions as ranges ----

  // Whether a range of that name says where it is, and what.
  std::optional<std::string> TextOfFunction(std::string_view name, bool is_python) const {
    if (kind_ == PlaceKind::kModule) {
      if (!name.starts_with(kModulePrefix)) return std::nullopt;
      return std::string(name.substr(kModulePrefix.size()));
    }
    if (!is_python || name.starts_with(kModulePrefix) || name.find("): ") == name.npos) {
      return std::nullopt;
    }
    if (kind_ == PlaceKind::kSource && StackTable::IsLibrary(name)) return std::nullopt;
    return std::string(name);
  }

  absl::Status ReadFunctions() {
    std::vector<std::optional<uint32_t>> places(reader_.names().size());
    return reader_.ForEach<RangeRow>(
        kRangeStart | kRangeDuration | kRangeName | kRangeCategory, {},
        [&](const RangeBatch& batch) {
          for (size_t i = 0; i < batch.size; ++i) {
            const bool is_python =
                batch.category[i] == static_cast<uint8_t>(wire::RangeCategory::kPython);
            std::optional<uint32_t>& place = places[batch.name[i]];
            if (!place.has_value()) {
              place =
                  PlaceOf(TextOfFunction(reader_.names()[batch.name[i]], is_python).value_or(""));
            }
            if (*place == 0) continue;
            ranges_[batch.thread].push_back(
                {batch.start_ns[i], EndOf(batch.start_ns[i], batch.duration_ns[i]), *place});
          }
          return absl::OkStatus();
        });
  }

  // ---- from the arguments of ranges ----

  static std::string ValueOf(const RangeArguments& all, const RangeArguments::Argument& argument) {
    if (argument.type != ArgumentType::kJson) return RangeArguments::NumberText(argument);
    return ForDisplay(all.JsonOf(argument), kMostValueBytes);
  }

  absl::Status ReadArguments() {
    ASSIGN_OR_RETURN(const RangeArguments arguments, RangeArguments::Read(reader_));
    if (arguments.empty()) return absl::OkStatus();
    uint32_t range = 0;
    return reader_.ForEach<RangeRow>(
        kRangeStart | kRangeDuration, {}, [&](const RangeBatch& batch) {
          for (size_t i = 0; i < batch.size; ++i, ++range) {
            Arguments of_range;
            for (const RangeArguments::Argument& argument : arguments.Of(range)) {
              const std::string& key = arguments.KeyOf(argument);
              if (!argument_.empty() && key != argument_) continue;
              std::string shown_key = ForDisplay(key, kMostValueBytes);
              // Of a key given twice the first one counts, as in exports.
              if (of_range.Has(shown_key)) continue;
              of_range.Set(shown_key, ValueOf(arguments, argument));
            }
            if (of_range.empty()) continue;
            ranges_[batch.thread].push_back({batch.start_ns[i],
                                             EndOf(batch.start_ns[i], batch.duration_ns[i]),
                                             PlaceOfArguments(std::move(of_range))});
          }
          return absl::OkStatus();
        });
  }

  uint32_t PlaceOfArguments(Arguments arguments) {
    std::string text = arguments.ToText();
    const bool is_full =
        index_.names_.size() > kMostArgumentPlaces || argument_bytes_ > kMostArgumentBytes;
    if (is_full && !numbers_.contains(text)) {
      other_arguments_ = PlaceOf(std::string(kOtherArguments));
      return other_arguments_;
    }
    const size_t bytes = text.size();
    const uint32_t place = PlaceOf(std::move(text));
    if (place >= arguments_.size()) arguments_.resize(place + size_t{1});
    if (arguments_[place].empty()) {
      arguments_[place] = std::move(arguments);
      argument_bytes_ += bytes;
    }
    return place;
  }

  // Of a range with arguments inside of one that is at `outer`.
  uint32_t Merged(uint32_t outer, uint32_t inner) {
    if (outer == 0 || inner == other_arguments_) return inner;
    if (outer == other_arguments_) return outer;
    const auto [at, inserted] = merged_.try_emplace({outer, inner}, 0);
    if (inserted) {
      Arguments both = arguments_[outer];
      for (const auto& [key, value] : arguments_[inner].values()) both.Set(key, value);
      at->second = PlaceOfArguments(std::move(both));
    }
    return at->second;
  }

  // The engine of autograd runs backward operators inside of the function that called backward();
  // they are where their forward operators were.
  absl::Status PlaceBackward() {
    struct Forward {
      uint32_t thread;
      int64_t start_ns;
    };
    absl::flat_hash_map<std::pair<uint64_t, int64_t>, Forward> forward;
    RETURN_IF_ERROR(reader_.ForEach<OperatorRow>([&](const OperatorBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) {
        if (batch.sequence[i] < 0 || batch.scope[i] == kBackward) continue;
        // The last operator with a number made the node: rows come in the order of their ends.
        forward[{batch.torch_thread[i], batch.sequence[i]}] = {batch.thread, batch.start_ns[i]};
      }
      return absl::OkStatus();
    }));
    absl::flat_hash_map<OperatorKey, Forward> backward;
    if (!forward.empty()) {
      RETURN_IF_ERROR(reader_.ForEach<OperatorRow>([&](const OperatorBatch& batch) {
        for (size_t i = 0; i < batch.size; ++i) {
          if (batch.sequence[i] < 0 || batch.scope[i] != kBackward) continue;
          const auto at = forward.find({batch.forward_thread[i], batch.sequence[i]});
          if (at == forward.end()) continue;
          backward[{batch.thread, batch.start_ns[i], batch.depth[i]}] = at->second;
        }
        return absl::OkStatus();
      }));
    }
    if (backward.empty()) return absl::OkStatus();
    MakeChanges();
    std::vector<std::pair<uint32_t, PlacedRange>> found;
    RETURN_IF_ERROR(reader_.ForEach<RangeRow>(
        kRangeStart | kRangeDuration | kRangeDepth, {}, [&](const RangeBatch& batch) {
          for (size_t i = 0; i < batch.size; ++i) {
            const auto at = backward.find({batch.thread, batch.start_ns[i], batch.depth[i]});
            if (at == backward.end()) continue;
            const uint32_t place = index_.At(at->second.thread, at->second.start_ns);
            if (place == 0 && kind_ == PlaceKind::kArguments) continue;
            found.emplace_back(index_.row_of_[batch.thread],
                               PlacedRange{.start_ns = batch.start_ns[i],
                                           .end_ns = EndOf(batch.start_ns[i], batch.duration_ns[i]),
                                           .place = place,
                                           .is_whole = true});
          }
          return absl::OkStatus();
        }));
    for (const auto& [row, range] : found) ranges_[row].push_back(range);
    index_.threads_.clear();
    return absl::OkStatus();
  }

  // ---- both ----

  // Rows of one OS thread count as one.
  void JoinThreads() {
    absl::flat_hash_map<int64_t, uint32_t> first_rows;
    for (const store::ReaderThread& thread : reader_.threads()) {
      const auto row = static_cast<uint32_t>(index_.row_of_.size());
      const uint32_t first =
          thread.os_thread > 0 ? first_rows.try_emplace(thread.os_thread, row).first->second : row;
      index_.row_of_.push_back(first);
      if (first == row) continue;
      ranges_[first].insert(ranges_[first].end(), ranges_[row].begin(), ranges_[row].end());
      ranges_[row] = {};
    }
  }

  // The place of a function that is called inside of `open`.
  uint32_t Inside(const std::vector<PlacedRange>& open, uint32_t place) {
    const bool is_chain = kind_ == PlaceKind::kStack && stacks_.empty();
    if (!is_chain) return place;
    std::string text = index_.names_[place];
    size_t frame_count = 1;
    for (size_t i = open.size(); i > 0 && frame_count < frames_; --i) {
      if (open[i - 1].is_whole) continue;  // No function of Python.
      StrAppend(&text, kCallerSeparator, index_.names_[open[i - 1].place]);
      ++frame_count;
    }
    return PlaceOf(std::move(text));
  }

  void MakeChanges() {
    for (std::vector<PlacedRange>& of_thread : ranges_) {
      std::ranges::sort(of_thread, IsBefore);
      std::vector<Change>& changes = index_.threads_.emplace_back().changes;
      std::vector<PlacedRange> open;
      std::vector<uint32_t> shown;  // Of `open`.
      const auto close_until = [&](int64_t time_ns) {
        while (!open.empty() && open.back().end_ns <= time_ns) {
          const int64_t end_ns = open.back().end_ns;
          open.pop_back();
          shown.pop_back();
          changes.push_back({end_ns, shown.empty() ? 0 : shown.back()});
        }
      };
      for (const PlacedRange& range : of_thread) {
        close_until(range.start_ns);
        const bool is_inside = range.is_engine && !open.empty();
        uint32_t place = range.place;
        if (is_inside) {
          place = shown.back();
        } else if (!range.is_whole) {
          place = kind_ == PlaceKind::kArguments && !shown.empty()
                      ? Merged(shown.back(), range.place)
                      : Inside(open, range.place);
        }
        changes.push_back({range.start_ns, place});
        open.push_back(range);
        shown.push_back(place);
      }
      close_until(std::numeric_limits<int64_t>::max());
      // Ranges that cannot nest, of a hostile file.
      std::ranges::stable_sort(changes, std::less(), &Change::time_ns);
    }
  }

  store::CaptureReader& reader_;
  const PlaceKind kind_;
  const size_t frames_;
  const std::string argument_;
  StackTable stacks_;
  PlaceIndex index_;
  absl::flat_hash_map<std::string, uint32_t> numbers_;
  std::vector<std::optional<uint32_t>> places_;   // By stack.
  std::vector<std::vector<PlacedRange>> ranges_;  // By thread.
  size_t argument_bytes_ = 0;
  uint32_t other_arguments_ = 0;      // 0: there is no such place.
  std::vector<Arguments> arguments_;  // By place.
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, uint32_t> merged_;  // Outer, inner -> place.
};

absl::StatusOr<PlaceIndex> PlaceIndex::Build(store::CaptureReader& reader, PlaceKind kind,
                                             const Options& options) {
  return Builder(reader, kind, options).Build();
}

uint32_t PlaceIndex::At(uint32_t thread, int64_t time_ns) {
  if (thread >= row_of_.size() || threads_[row_of_[thread]].changes.empty()) return 0;
  OfThread& of = threads_[row_of_[thread]];
  const auto holds = [&](size_t at) {
    return of.changes[at].time_ns <= time_ns &&
           (at + 1 == of.changes.size() || time_ns < of.changes[at + 1].time_ns);
  };
  if (!holds(of.last)) {
    const auto behind =
        std::upper_bound(of.changes.begin(), of.changes.end(), time_ns,
                         [](int64_t time, const Change& change) { return time < change.time_ns; });
    if (behind == of.changes.begin()) return 0;
    of.last = static_cast<size_t>(behind - of.changes.begin()) - 1;
  }
  return of.changes[of.last].place;
}

}  // namespace profd::report
