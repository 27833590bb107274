#include "daemon/report/index/host_slices.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/report/index/end_of.h"
#include "daemon/report/index/place_index.h"
#include "daemon/report/index/stack_table.h"
#include "proto/wire/event.h"

namespace profd::report {
namespace {

// Deeper ones, which only a damaged file has, are next to each other.
constexpr size_t kMostOpen = 1024;
constexpr uint32_t kNoSlice = HostSlice::kNone;
// Which functions are around is not known, unlike FrameTree::kNone: there are none.
constexpr uint32_t kUnknownFrame = std::numeric_limits<uint32_t>::max();

// A slice while rows are put together. Python functions of equal times go by `level`.
struct ThreadSpan {
  HostSlice slice;
  uint32_t level = 0;
  bool is_sampled = false;  // Its `frame` is the stack that was read at its begin.
};

bool IsOuterOrEarlier(const ThreadSpan& a, const ThreadSpan& b) {
  if (a.slice.start_ns != b.slice.start_ns) return a.slice.start_ns < b.slice.start_ns;
  if (a.slice.end_ns != b.slice.end_ns) return a.slice.end_ns > b.slice.end_ns;
  return a.level < b.level;
}

// Sets the parents of spans in the order of IsOuterOrEarlier().
void NestSpans(std::vector<ThreadSpan>& spans) {
  std::vector<uint32_t> open;
  for (uint32_t i = 0; i < spans.size(); ++i) {
    HostSlice& slice = spans[i].slice;
    while (!open.empty()) {
      const HostSlice& around = spans[open.back()].slice;
      const bool is_inside = slice.end_ns <= around.end_ns && slice.start_ns < around.end_ns;
      // Without length, at the end of another one of that kind.
      const bool is_empty = around.start_ns == around.end_ns && slice.start_ns == around.start_ns;
      if (is_inside || is_empty) break;
      open.pop_back();
    }
    slice.parent = open.empty() ? kNoSlice : open.back();
    if (open.size() < kMostOpen) open.push_back(i);
  }
}

struct SpanKey {
  uint32_t thread;
  int64_t start_ns;
  uint16_t depth;

  friend bool operator==(const SpanKey&, const SpanKey&) = default;
  template <typename H>
  friend H AbslHashValue(H hash, const SpanKey& key) {
    return H::combine(std::move(hash), key.thread, key.start_ns, key.depth);
  }
};
struct SpanOperator {
  uint32_t stack;
  uint32_t torch_thread;
  uint64_t forward_thread;
  int64_t sequence;
  bool is_backward;
};

// Makes sampled functions of the spans of one row.
class FrameSampler {
 public:
  FrameSampler(const FrameTree& frames, std::vector<ThreadSpan>& spans)
      : frames_(frames), spans_(spans) {}

  // Appends the functions to the spans, whose order is then that of IsOuterOrEarlier() no more.
  void Run() {
    std::ranges::stable_sort(spans_, IsOuterOrEarlier);
    NestSpans(spans_);
    count_ = spans_.size();
    FindChildren();
    // Of spans without a stack, what all stacks inside have.
    inner_.resize(count_, kUnknownFrame);
    for (size_t i = count_; i-- > 0;) {
      if (spans_[i].is_sampled) inner_[i] = spans_[i].slice.frame;
      const uint32_t parent = spans_[i].slice.parent;
      if (parent == kNoSlice || spans_[parent].is_sampled || inner_[i] == kUnknownFrame) continue;
      inner_[parent] =
          inner_[parent] == kUnknownFrame ? inner_[i] : frames_.CommonOf(inner_[parent], inner_[i]);
    }
    within_.resize(count_, FrameTree::kNone);
    // Parents first: the functions inside a span begin from those that are around it.
    MakeFramesIn(kNoSlice);
    for (uint32_t i = 0; i < count_; ++i) MakeFramesIn(i);
    spans_.insert(spans_.end(), made_.begin(), made_.end());
  }

 private:
  // children_[first_[i] .. first_[i + 1]) are those of i - 1; of 0, the outermost ones.
  void FindChildren() {
    first_.assign(count_ + 2, 0);
    for (const ThreadSpan& span : spans_) ++first_[SlotOf(span.slice.parent) + 1];
    for (size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
    // A counting sort by parent. It is stable, so that children stay in order of time.
    std::vector<uint32_t> next(first_.begin(), first_.end() - 1);
    children_.resize(count_);
    for (uint32_t i = 0; i < count_; ++i) children_[next[SlotOf(spans_[i].slice.parent)]++] = i;
  }
  static size_t SlotOf(uint32_t parent) { return parent == kNoSlice ? 0 : size_t{parent} + 1; }

  // The functions around a child: those of its stack, and around a child without a stack those that
  // are inside of it, too, as well as around what is next to it.
  void FindAround(std::span<const uint32_t> children) {
    around_.assign(children.size(), kUnknownFrame);
    uint32_t before = kUnknownFrame;
    for (size_t i = 0; i < children.size(); ++i) {
      const uint32_t inner = inner_[children[i]];
      if (inner == kUnknownFrame) continue;
      if (spans_[children[i]].is_sampled) {
        around_[i] = inner;
      } else if (before != kUnknownFrame) {
        around_[i] = frames_.CommonOf(before, inner);
      }
      before = inner;
    }
    uint32_t after = kUnknownFrame;
    for (size_t i = children.size(); i-- > 0;) {
      const uint32_t inner = inner_[children[i]];
      if (inner == kUnknownFrame) continue;
      if (!spans_[children[i]].is_sampled && after != kUnknownFrame) {
        const uint32_t common = frames_.CommonOf(after, inner);
        if (around_[i] == kUnknownFrame || frames_[common].depth > frames_[around_[i]].depth) {
          around_[i] = common;
        }
      }
      after = inner;
    }
  }

  void MakeFramesIn(uint32_t parent) {
    const size_t slot = SlotOf(parent);
    const std::span<const uint32_t> children =
        std::span(children_).subspan(first_[slot], first_[slot + 1] - first_[slot]);
    if (children.empty()) return;
    const uint32_t base = parent == kNoSlice ? FrameTree::kNone : within_[parent];
    const uint32_t level = parent == kNoSlice ? 0 : spans_[parent].level + 1;
    FindAround(children);
    open_.clear();
    for (size_t i = 0; i < children.size(); ++i) {
      ThreadSpan& child = spans_[children[i]];
      const uint32_t around = around_[i];
      within_[children[i]] = around == kUnknownFrame ? base : around;
      child.level = level + static_cast<uint32_t>(open_.size());
      if (around == kUnknownFrame) continue;
      Open(base, around, level, child.slice);
      child.level = level + static_cast<uint32_t>(open_.size());
      for (const OpenFrame& open : open_) made_[open.made].slice.end_ns = child.slice.end_ns;
    }
  }

  // Leaves those open that lead from `base` to `frame`.
  void Open(uint32_t base, uint32_t frame, uint32_t level, const HostSlice& first) {
    const uint32_t common = frames_.CommonOf(base, frame);
    path_.clear();
    for (uint32_t at = frame; at != common; at = frames_[at].parent) path_.push_back(at);
    std::ranges::reverse(path_);
    size_t kept = 0;
    while (kept < std::min(open_.size(), path_.size()) && open_[kept].frame == path_[kept]) ++kept;
    open_.resize(kept);
    for (; kept < path_.size(); ++kept) {
      open_.push_back({path_[kept], made_.size()});
      ThreadSpan& made = made_.emplace_back();
      made.level = level + static_cast<uint32_t>(kept);
      made.slice = {.start_ns = first.start_ns,
                    .end_ns = first.end_ns,
                    .thread = first.thread,
                    .frame = path_[kept],
                    .is_python = true};
    }
  }

  struct OpenFrame {
    uint32_t frame = FrameTree::kNone;
    size_t made = 0;
  };

  const FrameTree& frames_;
  std::vector<ThreadSpan>& spans_;
  size_t count_ = 0;
  std::vector<uint32_t> first_;
  std::vector<uint32_t> children_;
  std::vector<uint32_t> inner_;   // By span.
  std::vector<uint32_t> around_;  // By child.
  std::vector<uint32_t> within_;  // By span: the functions that are around it.
  std::vector<OpenFrame> open_;
  std::vector<uint32_t> path_;
  std::vector<ThreadSpan> made_;
};

}  // namespace

bool IsPythonFunction(uint8_t category) {
  return category == static_cast<uint8_t>(wire::RangeCategory::kPython);
}

class HostSlices::Builder {
 public:
  Builder(store::CaptureReader& reader, const Options& options)
      : reader_(reader), options_(options) {}

  absl::StatusOr<HostSlices> Build() {
    FindRows();
    ASSIGN_OR_RETURN(stacks_, StackTable::Build(reader_));
    RETURN_IF_ERROR(ReadOperators());
    RETURN_IF_ERROR(ReadRanges());
    const bool is_sampled = !is_recorded_ && !stacks_.empty();
    if (is_sampled) {
      FindFrames();
      AddSteps();
    }
    for (std::vector<ThreadSpan>& spans : spans_) {
      if (is_sampled) FrameSampler(slices_.frames_, spans).Run();
      FinishRow(spans);
      spans = {};
    }
    FindForward();
    return std::move(slices_);
  }

 private:
  void FindRows() {
    absl::flat_hash_map<int64_t, uint32_t> rows;
    for (const store::ReaderThread& thread : reader_.threads()) {
      const auto next = static_cast<uint32_t>(spans_.size());
      const uint32_t row =
          thread.os_thread > 0 ? rows.try_emplace(thread.os_thread, next).first->second : next;
      slices_.row_of_.push_back(row);
      if (row == next) spans_.emplace_back();
    }
    slices_.rows_.resize(spans_.size());
  }

  absl::Status ReadOperators() {
    return reader_.ForEach<OperatorRow>([&](const OperatorBatch& batch) {
      constexpr auto kBackward = static_cast<uint8_t>(wire::OperatorScope::kBackwardFunction);
      for (size_t i = 0; i < batch.size; ++i) {
        if (batch.stack[i] == 0 && batch.sequence[i] < 0) continue;
        operators_[{batch.thread, batch.start_ns[i], batch.depth[i]}] = {
            .stack = batch.stack[i],
            .torch_thread = batch.torch_thread[i],
            .forward_thread = batch.forward_thread[i],
            .sequence = batch.sequence[i],
            .is_backward = batch.scope[i] == kBackward};
      }
      return absl::OkStatus();
    });
  }

  absl::Status ReadRanges() {
    constexpr uint32_t kColumns =
        kRangeStart | kRangeDuration | kRangeName | kRangeDepth | kRangeCategory;
    std::vector<std::optional<uint32_t>> functions(reader_.names().size());
    return reader_.ForEach<RangeRow>(kColumns, {}, [&](const RangeBatch& batch) {
      std::vector<ThreadSpan>& spans = spans_[slices_.row_of_[batch.thread]];
      for (size_t i = 0; i < batch.size; ++i) {
        ThreadSpan span = {.slice = {.start_ns = batch.start_ns[i],
                                     .end_ns = EndOf(batch.start_ns[i], batch.duration_ns[i]),
                                     .name = batch.name[i],
                                     .thread = batch.thread,
                                     .depth = batch.depth[i]},
                           .level = batch.depth[i]};
        if (IsPythonFunction(batch.category[i])) {
          is_recorded_ = true;
          std::optional<uint32_t>& function = functions[batch.name[i]];
          if (!function.has_value()) {
            function = slices_.frames_.AddFunction(FunctionOfText(reader_.names()[batch.name[i]]));
          }
          span.slice.is_python = true;
          span.slice.name = *function;  // Until FinishRow().
        }
        spans.push_back(span);
      }
      return absl::OkStatus();
    });
  }

  FrameTree::Function FunctionOfText(const std::string& name) const {
    FrameTree::Function function = {.name = name, .module = "", .class_name = ""};
    if (name.starts_with(kModulePrefix)) {
      const std::string numbered = name.substr(kModulePrefix.size());
      const std::string place = stacks_.NameOfNumbered(numbered);
      function.module = place.empty() ? numbered : place;
      function.class_name = numbered.substr(0, numbered.rfind('_'));
    }
    return function;
  }

  // ---- from stacks ----

  void FindFrames() {
    std::vector<uint32_t>& frames = slices_.frame_of_;
    frames.resize(stacks_.size());
    for (uint32_t stack = 1; stack < stacks_.size(); ++stack) {
      const StackTable::Stack& row = stacks_[stack];
      frames[stack] = slices_.frames_.Child(frames[row.caller], FunctionOf(row, row.is_again));
      if (const std::string_view source = stacks_.GeneratedFrom(row); !source.empty()) {
        frames[stack] = slices_.frames_.Child(frames[stack], FunctionOfSource(source));
      }
    }
    for (std::vector<ThreadSpan>& spans : spans_) {
      for (ThreadSpan& span : spans) {
        const SpanOperator* const op = OperatorOf(span.slice);
        if (op != nullptr) span.slice.frame = slices_.FrameOfStack(op->stack);
        span.is_sampled = span.slice.frame != FrameTree::kNone;
      }
    }
  }

  uint32_t FunctionOfSource(std::string_view source) {
    const auto [at, is_new] = function_of_source_.try_emplace(std::string(source));
    if (is_new) {
      at->second = slices_.frames_.AddFunction(
          {.name = std::string(source), .module = "", .class_name = ""});
    }
    return at->second;
  }

  // A module's call in an imported trace has no file: its text is all that is known. Of a module
  // that is called again, every second call is another function with the same texts.
  uint32_t FunctionOf(const StackTable::Stack& row, bool is_again) {
    const std::tuple key(row.file, row.function, row.first_line, row.module, row.class_name,
                         is_again);
    const auto found = function_of_.find(key);
    if (found != function_of_.end()) return found->second;
    if (is_again) {
      const uint32_t number = slices_.frames_.AddFunctionLike(FunctionOf(row, false));
      function_of_.emplace(key, number);
      return number;
    }
    FrameTree::Function function;
    if (row.file == 0) {
      function = FunctionOfText(reader_.names()[row.function]);
    } else if (row.module != 0) {
      // As torch.profiler numbers them: each class by itself, in the order of their first call.
      function.class_name = reader_.names()[row.class_name];
      function.module_id = next_module_[function.class_name]++;
      function.name = StrCat(kModulePrefix, function.class_name, "_", function.module_id);
      function.module = stacks_.NameOf(row);
    } else {
      function.name = StrCat(reader_.names()[row.file], "(", row.first_line,
                             "): ", reader_.names()[row.function]);
    }
    const uint32_t number = slices_.frames_.AddFunction(std::move(function));
    function_of_.emplace(key, number);
    return number;
  }

  void AddSteps() {
    if (options_.step_thread < 0 ||
        static_cast<uint64_t>(options_.step_thread) >= slices_.row_of_.size()) {
      return;
    }
    const auto thread = static_cast<uint32_t>(options_.step_thread);
    for (const StepRecord& step : options_.steps) {
      spans_[slices_.row_of_[thread]].push_back(
          {.slice = {.start_ns = step.start_ns,
                     .end_ns = EndOf(step.start_ns, step.duration_ns),
                     .thread = thread,
                     .depth = kStepDepth}});
    }
  }

  // ---- both ----

  void FinishRow(std::vector<ThreadSpan>& spans) {
    if (spans.empty()) return;
    std::erase_if(spans, [](const ThreadSpan& span) { return span.slice.depth == kStepDepth; });
    // Recorded functions were around what has equal times, however deep a file has them.
    if (is_recorded_) {
      constexpr uint32_t kBelowFunctions = uint32_t{1} << 16;
      for (ThreadSpan& span : spans) span.level += span.slice.is_python ? 0 : kBelowFunctions;
    }
    std::ranges::stable_sort(spans, IsOuterOrEarlier);
    NestSpans(spans);
    const auto row = slices_.row_of_[spans.front().slice.thread];
    std::vector<HostSlice>& slices = slices_.rows_[row];
    slices.reserve(spans.size());
    for (ThreadSpan& span : spans) {
      HostSlice& slice = slices.emplace_back(span.slice);
      const uint32_t around =
          slice.parent == kNoSlice ? FrameTree::kNone : slices[slice.parent].frame;
      if (!slice.is_python) {
        if (slice.frame == FrameTree::kNone) slice.frame = around;
      } else if (is_recorded_) {
        slice.frame = slices_.frames_.Child(around, std::exchange(slice.name, 0));
      }
    }
  }

  const SpanOperator* OperatorOf(const HostSlice& slice) const {
    if (slice.is_python) return nullptr;
    const auto at = operators_.find({slice.thread, slice.start_ns, slice.depth});
    return at == operators_.end() ? nullptr : &at->second;
  }

  // Autograd runs backward on threads without Python; the forward operator has the same sequence
  // number on the thread that the backward operator names.
  void FindForward() {
    absl::flat_hash_map<std::pair<uint64_t, int64_t>, uint32_t> forward;
    for (const std::vector<HostSlice>& slices : slices_.rows_) {
      for (const HostSlice& slice : slices) {
        const SpanOperator* const op = OperatorOf(slice);
        if (op == nullptr || op->is_backward || op->sequence < 0) continue;
        if (slice.frame != FrameTree::kNone) {
          forward[{op->torch_thread, op->sequence}] = slice.frame;
        }
      }
    }
    for (std::vector<HostSlice>& slices : slices_.rows_) {
      for (HostSlice& slice : slices) {
        if (slice.is_python) continue;
        // Parents come before their children in a row, so theirs is known by now.
        if (slice.parent != kNoSlice) slice.forward = slices[slice.parent].forward;
        const SpanOperator* const op = OperatorOf(slice);
        if (op == nullptr || !op->is_backward || op->sequence < 0) continue;
        const auto at = forward.find({op->forward_thread, op->sequence});
        if (at != forward.end()) slice.forward = at->second;
      }
    }
  }

  // No range is as deep.
  static constexpr uint16_t kStepDepth = std::numeric_limits<uint16_t>::max();

  store::CaptureReader& reader_;
  const Options& options_;
  HostSlices slices_;
  StackTable stacks_;
  bool is_recorded_ = false;
  absl::flat_hash_map<SpanKey, SpanOperator> operators_;
  std::vector<std::vector<ThreadSpan>> spans_;  // By row.
  absl::flat_hash_map<std::tuple<uint32_t, uint32_t, uint32_t, uint64_t, uint32_t, bool>, uint32_t>
      function_of_;
  absl::flat_hash_map<std::string, uint32_t> function_of_source_;
  absl::flat_hash_map<std::string, int64_t> next_module_;  // By class.
};

absl::StatusOr<HostSlices> HostSlices::Build(store::CaptureReader& reader, const Options& options) {
  return Builder(reader, options).Build();
}

uint32_t HostSlices::At(uint32_t row, int64_t time_ns) const {
  const std::vector<HostSlice>& slices = rows_[row];
  const auto after = std::ranges::upper_bound(slices, time_ns, std::less(), &HostSlice::start_ns);
  if (after == slices.begin()) return HostSlice::kNone;
  auto at = static_cast<uint32_t>(after - slices.begin() - 1);
  while (at != HostSlice::kNone && slices[at].end_ns <= time_ns) at = slices[at].parent;
  return at;
}

}  // namespace profd::report
