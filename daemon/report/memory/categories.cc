#include "daemon/report/memory/categories.h"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "daemon/base/status_macros.h"
#include "daemon/report/index/flow_nodes.h"
#include "proto/wire/event.h"

namespace profd::report {
namespace {

using wire::MemoryCategory;

constexpr size_t kNoEvent = std::numeric_limits<size_t>::max();
constexpr int64_t kUnknownBytes = -1;

// CUDA's own allocations are what a framework's allocator lives on: they hold its blocks.
bool IsFrameworks(uint8_t device_type) {
  return device_type != static_cast<uint8_t>(wire::DeviceType::kCudaDriver) &&
         device_type != static_cast<uint8_t>(wire::DeviceType::kCudaPool);
}

struct Block {
  size_t event = kNoEvent;  // That allocated it or, of an older one, freed it.
  int64_t bytes = kUnknownBytes;
  uint32_t made_in = FlowNodes::kNone;
  uint32_t freed_in = FlowNodes::kNone;
  MemoryCategory told = MemoryCategory::kUnknown;
  uint8_t device_type = 0;
  int16_t device_index = 0;
  bool is_older = false;  // Than the window.
  bool is_kept_gradient = false;
  bool is_forgotten_gradient = false;
  bool is_freed_in_backward = false;
  bool used_by_optimizer = false;
  bool used_in_backward = false;
  bool used_in_forward = false;
  // Found by following the data.
  bool from_gradient = false;
  bool from_model = false;
  bool feeds_model = false;
};

// One tensor of one operator.
struct Use {
  int64_t time_ns;
  uint64_t address;
  uint32_t thread;
  uint16_t depth;
  uint8_t input;
};

enum class EdgeKind : uint8_t { kInput, kChanged, kResult };
struct Edge {  // Between a node and a block.
  uint32_t node;
  uint32_t block;
  EdgeKind kind;
};

class Classifier {
 public:
  explicit Classifier(FlowNodes nodes) : nodes_(std::move(nodes)), events_(nodes_), used_(nodes_) {}

  absl::Status Read(store::CaptureReader& reader, MemoryInOrder& events) {
    RETURN_IF_ERROR(ReadUses(reader));
    RETURN_IF_ERROR(events.ForEach([&](const MemoryEvent& event) {
      // An operator has its inputs before it makes anything.
      ApplyUsesUntil(event.time_ns);
      ApplyEvent(event);
      return absl::OkStatus();
    }));
    ApplyUsesUntil(std::numeric_limits<int64_t>::max());
    RETURN_IF_ERROR(reader.ForEach<BlockRow>([&](const BlockBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) ApplyBlock(batch, i);
      return absl::OkStatus();
    }));
    FollowData();
    return absl::OkStatus();
  }

  MemoryCategories Take() {
    MemoryCategories categories;
    categories.of_event.resize(event_count_);
    for (size_t i = 0; i < told_events_.size(); ++i) {
      categories.of_event[told_events_[i].first] = told_events_[i].second;
    }
    for (const Block& block : blocks_) {
      const auto category = static_cast<uint8_t>(CategoryOf(block));
      if (block.event != kNoEvent) categories.of_event[block.event] = category;
      if (block.is_older && block.bytes != kUnknownBytes) {
        categories.older.push_back({block.device_type, block.device_index, category, block.bytes});
      }
    }
    return categories;
  }

 private:
  static constexpr uint32_t kFreed = std::numeric_limits<uint32_t>::max();

  absl::Status ReadUses(store::CaptureReader& reader) {
    RETURN_IF_ERROR(reader.ForEach<TensorUseRow>([&](const TensorUseBatch& batch) {
      for (size_t i = 0; i < batch.size && uses_.size() < kMostTensorUses; ++i) {
        if (batch.address[i] == 0) continue;  // Of no elements.
        uses_.push_back({.time_ns = batch.time_ns[i],
                         .address = batch.address[i],
                         .thread = batch.thread,
                         .depth = batch.depth[i],
                         .input = batch.input[i]});
      }
      return absl::OkStatus();
    }));
    std::stable_sort(uses_.begin(), uses_.end(),
                     [](const Use& a, const Use& b) { return a.time_ns < b.time_ns; });
    return absl::OkStatus();
  }

  // ---- in order of time ----

  void ApplyUsesUntil(int64_t time_ns) {
    for (; next_use_ < uses_.size() && uses_[next_use_].time_ns <= time_ns; ++next_use_) {
      ApplyUse(uses_[next_use_]);
    }
  }

  void ApplyUse(const Use& use) {
    const auto [at, inserted] = block_at_.try_emplace(use.address, kFreed);
    if (inserted) at->second = AddBlock({.is_older = true});
    if (at->second == kFreed) return;  // A stranger's file, or one with gaps.
    Block& block = blocks_[at->second];
    if (use.input == 0 && nodes_.KeepsGradient(use.thread, use.time_ns, use.depth)) {
      block.is_kept_gradient = true;
    }
    const uint32_t number = used_.NodeAt(use.thread, use.time_ns);
    if (number == FlowNodes::kNone) return;
    const FlowNode& node = nodes_.nodes()[number];
    block.used_by_optimizer |= node.is_optimizer;
    block.used_in_backward |= node.is_backward;
    block.used_in_forward |= !node.is_optimizer && !node.is_backward;
    const bool is_changed = node.writes_first && use.input == 0 && use.time_ns == node.start_ns;
    edges_.push_back({number, at->second, is_changed ? EdgeKind::kChanged : EdgeKind::kInput});
  }

  void ApplyEvent(const MemoryEvent& event) {
    const size_t position = event_count_++;
    if (!IsFrameworks(event.device_type)) {
      told_events_.emplace_back(position, event.category);
      return;
    }
    const uint32_t node = events_.NodeAt(event.thread, event.time_ns);
    const auto [at, inserted] = block_at_.try_emplace(event.address, kFreed);
    if (!event.is_free) {
      at->second = AddBlock({.event = position,
                             .bytes = std::max<int64_t>(0, event.bytes),
                             .made_in = node,
                             .told = Told(event.category),
                             .device_type = event.device_type,
                             .device_index = event.device_index});
      return;
    }
    if (at->second == kFreed) {
      // Freed a second time: it is not a block, but the same mistake again.
      if (!inserted) {
        told_events_.emplace_back(position, event.category);
        return;
      }
      at->second = AddBlock({.told = Told(event.category), .is_older = true});
    }
    Block& block = blocks_[at->second];
    if (block.is_older) {
      block.event = position;
      block.bytes = std::max<int64_t>(0, event.bytes);
      block.device_type = event.device_type;
      block.device_index = event.device_index;
    }
    block.freed_in = node;
    block.is_freed_in_backward = nodes_.InBackward(event.thread, event.time_ns);
    block.is_forgotten_gradient = nodes_.ForgetsGradients(event.thread, event.time_ns);
    at->second = kFreed;
  }

  void ApplyBlock(const BlockBatch& batch, size_t i) {
    const MemoryCategory category = Told(batch.category[i]);
    if (batch.address[i] == 0) return;
    if (category == MemoryCategory::kUnknown) return ApplySize(batch, i);
    has_blocks_ = true;
    const bool is_gradient = category == MemoryCategory::kGradient;
    const auto found = block_at_.find(batch.address[i]);
    if (found == block_at_.end()) {
      // Nothing touched it in the window. What is used again and again is older than that.
      if (is_gradient && !uses_.empty()) return;
      block_at_.emplace(batch.address[i], AddBlock({.bytes = batch.bytes[i],
                                                    .told = category,
                                                    .device_type = batch.device_type[i],
                                                    .device_index = batch.device_index[i],
                                                    .is_older = true}));
      return;
    }
    if (found->second == kFreed) return;  // Made anew after the window.
    Block& block = blocks_[found->second];
    if (block.told != MemoryCategory::kUnknown) return;
    if (block.is_older) {
      block.told = category;
      block.bytes = batch.bytes[i];
      block.device_type = batch.device_type[i];
      block.device_index = batch.device_index[i];
      return;
    }
    // Allocators round up; what is smaller was freed since, and this is another.
    if (block.bytes < batch.bytes[i]) return;
    if (is_gradient && block.made_in != FlowNodes::kNone && !MadeInBackward(block)) return;
    block.told = category;
  }

  // What nothing touched in the window may have been made after it.
  void ApplySize(const BlockBatch& batch, size_t i) {
    const auto found = block_at_.find(batch.address[i]);
    if (found == block_at_.end() || found->second == kFreed) return;
    Block& block = blocks_[found->second];
    if (!block.is_older || block.bytes != kUnknownBytes) return;
    block.bytes = batch.bytes[i];
    block.device_type = batch.device_type[i];
    block.device_index = batch.device_index[i];
  }

  // ---- following the data ----

  void FollowData() {
    const std::vector<uint32_t> order = NodesByStart();
    for (uint32_t i = 0; i < blocks_.size(); ++i) {
      const Block& block = blocks_[i];
      has_parameters_ |= block.told == MemoryCategory::kParameter;
      // What a node makes and frees carries no data out of it.
      if (block.made_in != FlowNodes::kNone && block.freed_in != block.made_in) {
        edges_.push_back({block.made_in, i, EdgeKind::kResult});
      }
    }
    GroupEdges();
    // Data comes from nodes that started before, so one pass in each direction follows it.
    for (const uint32_t node : order) FollowForward(node);
    for (auto node = order.rbegin(); node != order.rend(); ++node) FollowBack(*node);
  }

  std::vector<uint32_t> NodesByStart() const {
    const auto nodes = nodes_.nodes();
    std::vector<uint32_t> order(nodes.size());
    for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return nodes[a].start_ns < nodes[b].start_ns; });
    return order;
  }

  void GroupEdges() {
    std::stable_sort(edges_.begin(), edges_.end(),
                     [](const Edge& a, const Edge& b) { return a.node < b.node; });
    edges_begin_.assign(nodes_.nodes().size() + 1, 0);
    for (const Edge& edge : edges_) ++edges_begin_[edge.node + size_t{1}];
    for (size_t i = 1; i < edges_begin_.size(); ++i) edges_begin_[i] += edges_begin_[i - 1];
  }

  std::span<const Edge> EdgesOf(uint32_t node) const {
    return std::span(edges_).subspan(edges_begin_[node],
                                     edges_begin_[node + size_t{1}] - edges_begin_[node]);
  }

  // What a node of the forward pass makes and changes comes from what it has.
  void FollowForward(uint32_t number) {
    const FlowNode& node = nodes_.nodes()[number];
    if (node.is_backward || node.is_optimizer) return;
    bool from_gradient = false;
    bool from_model = false;
    for (const Edge& edge : EdgesOf(number)) {
      if (edge.kind == EdgeKind::kResult) continue;
      const Block& block = blocks_[edge.block];
      from_gradient |= IsFromGradient(block);
      from_model |= block.told == MemoryCategory::kParameter || block.from_model;
    }
    if (!from_gradient && !from_model) return;
    for (const Edge& edge : EdgesOf(number)) {
      if (edge.kind == EdgeKind::kInput) continue;
      blocks_[edge.block].from_gradient |= from_gradient;
      blocks_[edge.block].from_model |= from_model;
    }
  }

  // Whatever meets a parameter or a gradient, or what does, is part of the computation.
  void FollowBack(uint32_t number) {
    const std::span<const Edge> edges = EdgesOf(number);
    const bool feeds = std::any_of(edges.begin(), edges.end(), [&](const Edge& edge) {
      const Block& block = blocks_[edge.block];
      return block.feeds_model || block.is_kept_gradient ||
             block.told == MemoryCategory::kParameter || block.told == MemoryCategory::kGradient;
    });
    if (!feeds) return;
    for (const Edge& edge : edges) blocks_[edge.block].feeds_model = true;
  }

  // ---- the rules ----

  MemoryCategory CategoryOf(const Block& block) const {
    if (block.told != MemoryCategory::kUnknown) return block.told;
    if (IsGradient(block)) return MemoryCategory::kGradient;
    if (block.made_in != FlowNodes::kNone && block.made_in == block.freed_in) {
      return MemoryCategory::kTemporary;
    }
    if (IsFromGradient(block)) return MemoryCategory::kUnknown;
    if (!has_parameters_) {
      const bool is_saved =
          block.used_in_backward || block.is_freed_in_backward || IsBackward(block.freed_in);
      return !block.is_older && is_saved ? MemoryCategory::kActivation : MemoryCategory::kUnknown;
    }
    if (block.from_model) return MemoryCategory::kActivation;
    return block.feeds_model && block.used_in_forward ? MemoryCategory::kInput
                                                      : MemoryCategory::kUnknown;
  }

  bool IsGradient(const Block& block) const {
    if (block.is_kept_gradient) return true;
    if (block.is_forgotten_gradient && (block.is_older || MadeInBackward(block))) return true;
    // What else an older block in an optimizer may be, its parameters and its state, is told.
    return block.used_by_optimizer && (block.is_older ? has_blocks_ : MadeInBackward(block));
  }

  bool IsFromGradient(const Block& block) const {
    if (block.told != MemoryCategory::kUnknown) {
      return block.told == MemoryCategory::kGradient ||
             block.told == MemoryCategory::kOptimizerState;
    }
    if (block.from_gradient || IsGradient(block) || MadeInBackward(block)) return true;
    return block.made_in != FlowNodes::kNone && nodes_.nodes()[block.made_in].is_optimizer;
  }

  bool IsBackward(uint32_t node) const {
    return node != FlowNodes::kNone && nodes_.nodes()[node].is_backward;
  }
  bool MadeInBackward(const Block& block) const { return IsBackward(block.made_in); }

  static MemoryCategory Told(uint8_t category) {
    return category <= wire::kMaxMemoryCategory ? static_cast<MemoryCategory>(category)
                                                : MemoryCategory::kUnknown;
  }

  uint32_t AddBlock(const Block& block) {
    blocks_.push_back(block);
    return static_cast<uint32_t>(blocks_.size() - 1);
  }

  const FlowNodes nodes_;
  FlowNodes::Cursor events_;  // For times of memory events.
  FlowNodes::Cursor used_;    // For times of uses.

  std::vector<Use> uses_;  // By time.
  size_t next_use_ = 0;
  size_t event_count_ = 0;
  std::vector<std::pair<size_t, uint8_t>> told_events_;  // Events of no block, with their category.
  std::vector<Block> blocks_;
  absl::flat_hash_map<uint64_t, uint32_t> block_at_;  // By address; kFreed: it was, in the window.
  bool has_blocks_ = false;                           // Somebody told of any.
  bool has_parameters_ = false;

  std::vector<Edge> edges_;  // By node, once grouped.
  std::vector<size_t> edges_begin_;
};

}  // namespace

absl::StatusOr<MemoryCategories> FindMemoryCategories(store::CaptureReader& reader,
                                                      MemoryInOrder& events) {
  if (reader.framework_row_count() == 0) return MemoryCategories();
  ASSIGN_OR_RETURN(FlowNodes nodes, FlowNodes::Build(reader));
  Classifier classifier(std::move(nodes));
  RETURN_IF_ERROR(classifier.Read(reader, events));
  return classifier.Take();
}

}  // namespace profd::report
