#include "client_lib/torch/compilations.h"

#include <string.h>

#include <atomic>

#include "client_lib/core/hot_state.h"
#include "client_lib/core/recorder.h"

namespace profd::client::torch::compilations {
namespace {

constexpr char kTimedSuffix[] = " (dynamo_timed)";
constexpr char kToldName[] = "_compile.compile_inner";
constexpr char kCacheLookup[] = "TorchDynamo Cache Lookup";
// Of the range of a compilation that Python tells of.
constexpr uint16_t kToldStack = kOperatorStack - 1;

constexpr uint32_t kNone = 0;
constexpr uint32_t kInside = 1u << 31;

// What was left out, by what it was in.
struct Fold {
  std::atomic<uint32_t> name_id;  // kNoNameId: free.
  std::atomic<uint64_t> count;
};
constexpr uint32_t kMaxFolds = 32;  // The last one takes all that come later.
constinit Fold g_folds[kMaxFolds] = {};

__thread Fold* t_fold __attribute__((tls_model("initial-exec"))) = nullptr;
// The flag when Python told of the compilation; kFlagOff: it is not one of those.
__thread uint32_t t_told_epoch __attribute__((tls_model("initial-exec"))) = kFlagOff;

uint32_t Flag() { return g_hot.flag.load(std::memory_order_relaxed); }

Fold* FoldOf(uint32_t name_id) {
  for (uint32_t i = 0; i + 1 < kMaxFolds; ++i) {
    uint32_t known = wire::kNoNameId;
    if (g_folds[i].name_id.compare_exchange_strong(known, name_id, std::memory_order_relaxed) ||
        known == name_id) {
      return &g_folds[i];
    }
  }
  Fold& last = g_folds[kMaxFolds - 1];
  last.name_id.store(wire::kOtherNameId, std::memory_order_relaxed);
  return &last;
}

void CloseTold() {
  t_told_epoch = kFlagOff;
  t_state &= ~kInside;  // What is still open of it ends unseen.
  EndRangeOn(kToldStack);
}

}  // namespace

__thread uint32_t t_state __attribute__((tls_model("initial-exec"))) = kNone;

bool IsOne(const char* name) {
  const size_t length = strnlen(name, wire::kMaxNameBytes);
  constexpr size_t kSuffixLength = sizeof(kTimedSuffix) - 1;
  return (length >= kSuffixLength && strcmp(name + length - kSuffixLength, kTimedSuffix) == 0) ||
         strncmp(name, "_compile.", strlen("_compile.")) == 0;
}

void Open(uint32_t name_id) {
  t_fold = FoldOf(name_id);
  t_state = kInside;
}

bool BeginInside(const char* name) {
  if (t_state == kInside && t_told_epoch != kFlagOff &&
      (t_told_epoch != Flag() || strcmp(name, kCacheLookup) == 0)) {
    CloseTold();
    return false;
  }
  ++t_state;
  CountAsync();
  return true;
}

bool EndInside() {
  if (t_state != kInside) {
    --t_state;
    return true;
  }
  // The compilation's own; or, of one that Python told of, one that was open before.
  if (t_told_epoch == kFlagOff) t_state = kNone;
  return false;
}

void CountAsync() {
  if (IsRecording()) t_fold->count.fetch_add(1, std::memory_order_relaxed);
}

void Tell(bool begins) {
  if (!begins) {
    if (t_told_epoch != kFlagOff) CloseTold();
    return;
  }
  if (IsInside() || !IsRecording()) return;
  static constinit std::atomic<uint32_t> name_id{wire::kNoNameId};
  if (name_id.load(std::memory_order_relaxed) == wire::kNoNameId) {
    name_id.store(InternName(kToldName, sizeof(kToldName) - 1), std::memory_order_relaxed);
  }
  BeginRangeOn(kToldStack, name_id.load(std::memory_order_relaxed));
  Open(name_id.load(std::memory_order_relaxed));
  t_told_epoch = Flag();
}

void ResetCounts() {
  for (Fold& fold : g_folds) fold.count.store(0, std::memory_order_relaxed);
}

uint64_t count() {
  uint64_t sum = 0;
  for (const Fold& fold : g_folds) sum += fold.count.load(std::memory_order_relaxed);
  return sum;
}

void WriteNotes(LateWriter* writer) {
  for (const Fold& fold : g_folds) {
    const uint64_t count = fold.count.load(std::memory_order_relaxed);
    if (count == 0) continue;
    wire::NoteEvent note{};
    note.header = {sizeof(note), static_cast<uint8_t>(wire::EventKind::kNote), 0, 0};
    note.subject_id = writer->NameFor(fold.name_id.load(std::memory_order_relaxed));
    note.value = static_cast<int64_t>(count);
    note.kind = static_cast<uint16_t>(wire::NoteKind::kFolded);
    writer->Write(&note, sizeof(note));
  }
}

}  // namespace profd::client::torch::compilations
