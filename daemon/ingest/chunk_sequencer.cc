#include "daemon/ingest/chunk_sequencer.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "daemon/ingest/decode/event_decoder.h"

namespace profd {

ChunkSequencer::ChunkSequencer(size_t max_held, Take decode, Take reject)
    : max_held_(max_held), decode_(std::move(decode)), reject_(std::move(reject)) {}

void ChunkSequencer::Accept(ChunkCopy* copy) {
  const auto known = orders_.find(copy->thread_serial);
  // Each serial takes memory here, and a hostile target may use a new one in every chunk.
  if (known == orders_.end() && orders_.size() >= EventDecoder::kMaxThreads) return reject_(copy);
  Order& order = known != orders_.end() ? known->second : orders_[copy->thread_serial];
  if (copy->sequence < order.next) return reject_(copy);
  if (copy->sequence > order.next) {
    // An honest thread never uses a number twice. A second chunk of that number would stay without
    // an owner.
    if (!order.held.emplace(copy->sequence, copy).second) return reject_(copy);
    ++held_count_;
    if (held_count_ > max_held_) DeclareGap(order);
    return;
  }
  ++order.next;
  decode_(copy);
  GiveHeld(order);
}

void ChunkSequencer::GiveHeld(Order& order) {
  while (!order.held.empty() && order.held.begin()->first == order.next) {
    ChunkCopy* copy = order.held.begin()->second;
    order.held.erase(order.held.begin());
    --held_count_;
    ++order.next;
    decode_(copy);
  }
}

void ChunkSequencer::DeclareGap(Order& order) {
  ++gap_count_;
  order.next = order.held.begin()->first;
  GiveHeld(order);
}

void ChunkSequencer::Finish() {
  if (held_count_ == 0) return;
  std::vector<uint32_t> serials;
  for (const auto& [serial, order] : orders_) {
    if (!order.held.empty()) serials.push_back(serial);
  }
  // A hash map has another order in every process. The file of a capture should not depend on it.
  std::sort(serials.begin(), serials.end());
  for (const uint32_t serial : serials) {
    Order& order = orders_[serial];
    while (!order.held.empty()) DeclareGap(order);
  }
}

}  // namespace profd
