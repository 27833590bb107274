// The exported functions of torch_api.h that the collector calls: argument checks, the hand-over
// to an earlier copy of the library, nothing else.
#include "client_lib/torch/torch_api.h"

#include <string.h>

#include "client_lib/core/gpu_part.h"
#include "client_lib/core/hot_state.h"
#include "client_lib/core/lifecycle.h"
#include "client_lib/core/log.h"
#include "client_lib/core/recorder.h"
#include "client_lib/include/profd/profd.h"
#include "client_lib/torch/collector.h"
#include "client_lib/torch/compilations.h"
#include "client_lib/torch/steps.h"
#include "client_lib/torch/torch_handover.h"
#include "client_lib/torch/torch_part.h"
#include "proto/wire/event.h"

namespace profd::client::torch {
namespace {

using wire::MemoryCategory;

bool IsBlocksCategory(uint16_t category) {
  return category == static_cast<uint16_t>(MemoryCategory::kUnknown) ||
         category == static_cast<uint16_t>(MemoryCategory::kParameter) ||
         category == static_cast<uint16_t>(MemoryCategory::kGradient) ||
         category == static_cast<uint16_t>(MemoryCategory::kOptimizerState) ||
         category == static_cast<uint16_t>(MemoryCategory::kBuffer);
}

uint32_t NameOrNone(const char* text) {
  return text != nullptr ? InternName(text, strlen(text)) : wire::kNoNameId;
}

int AnswerOf(collector::Task task) {
  switch (task) {
    case collector::Task::kArmed:
      return PROFD_TORCH_ARMED;
    case collector::Task::kCollect:
      return PROFD_TORCH_COLLECT;
    case collector::Task::kCount:
      return PROFD_TORCH_COUNT;
    case collector::Task::kIdle:
      break;
  }
  return PROFD_TORCH_IDLE;
}

int WaitInEarlierCopy(const TorchTable* torch, uint32_t* wanted) {
  if (torch != nullptr) return torch->wait(wanted);
  Log(LogLevel::kWarning, "the copy of the library that was loaded first is too old for PyTorch");
  return PROFD_TORCH_QUIT;
}

}  // namespace
}  // namespace profd::client::torch

using namespace profd::client;         // NOLINT: the C functions stand outside.
using namespace profd::client::torch;  // NOLINT
namespace wire = profd::wire;

extern "C" {

PROFD_API uint32_t profd_torch_features(void) {
  if (EarlierCopy() == nullptr) return Features();
  const TorchTable* torch = EarlierTorch();
  return torch != nullptr ? torch->features() : 0;
}

PROFD_API int profd_torch_wait(uint32_t* wanted) {
  if (EarlierCopy() != nullptr) return WaitInEarlierCopy(EarlierTorch(), wanted);
  if (wanted == nullptr || IsDisabled()) return PROFD_TORCH_QUIT;
  return AnswerOf(collector::Wait(wanted));
}

PROFD_API void profd_torch_block(uint64_t address, int64_t bytes, uint16_t device_type,
                                 int16_t device_index, uint16_t category, const char* name) {
  if (EarlierCopy() != nullptr) {
    const TorchTable* torch = EarlierTorch();
    if (torch != nullptr) torch->block(address, bytes, device_type, device_index, category, name);
    return;
  }
  const bool is_cpu = device_type == static_cast<uint16_t>(wire::DeviceType::kCpu);
  if (bytes < 0 || device_type > static_cast<uint16_t>(wire::DeviceType::kCuda) ||
      (!is_cpu && device_index < 0) || !IsBlocksCategory(category)) {
    return;
  }
  wire::BlockEvent block{};
  block.header = {sizeof(block), static_cast<uint8_t>(wire::EventKind::kBlock), 0, 0};
  block.address = address;
  block.bytes = bytes;
  block.name_id = NameOrNone(name);
  block.category = category;
  block.device_type = device_type;
  block.device_index = is_cpu ? int16_t{0} : device_index;
  collector::AddBlock(block);
}

PROFD_API void profd_torch_note(uint16_t kind, const char* subject, const char* text,
                                int64_t value) {
  if (EarlierCopy() != nullptr) {
    const TorchTable* torch = EarlierTorch();
    if (torch != nullptr) torch->note(kind, subject, text, value);
    return;
  }
  if (kind == 0 || kind > wire::kMaxNoteKind || !IsWanted()) return;
  if (IsRecording()) {
    return RecordNote(static_cast<wire::NoteKind>(kind), NameOrNone(subject), NameOrNone(text),
                      value);
  }
  wire::NoteEvent note{};
  note.header = {sizeof(note), static_cast<uint8_t>(wire::EventKind::kNote), 0, 0};
  note.subject_id = NameOrNone(subject);
  note.text_id = NameOrNone(text);
  note.value = value;
  note.kind = kind;
  collector::AddNote(note);
}

PROFD_API void profd_torch_compiling(int begins) {
  if (EarlierCopy() == nullptr) return compilations::Tell(begins != 0);
  const TorchTable* torch = EarlierTorch();
  if (torch != nullptr) torch->compiling(begins);
}

PROFD_API void profd_torch_optimizers(const char* class_name, uint32_t count) {
  if (EarlierCopy() == nullptr) {
    return TellOptimizers(class_name != nullptr ? class_name : "", count);
  }
  const TorchTable* torch = EarlierTorch();
  constexpr size_t kEnd = offsetof(TorchTable, optimizers) + sizeof(TorchTable::optimizers);
  if (torch != nullptr && torch->size_bytes >= kEnd) torch->optimizers(class_name, count);
}

PROFD_API void profd_torch_optimizer_hook(uint64_t type, uint64_t optimizer, int begins) {
  if (PROFD_LIKELY(EarlierCopy() == nullptr)) return OnOptimizerHook(type, optimizer, begins != 0);
  const TorchTable* torch = EarlierTorch();
  constexpr size_t kEnd = offsetof(TorchTable, optimizer_hook) + sizeof(TorchTable::optimizer_hook);
  if (torch != nullptr && torch->size_bytes >= kEnd) torch->optimizer_hook(type, optimizer, begins);
}

PROFD_API void profd_torch_module(uint64_t address, uint64_t root, const char* path,
                                  const char* class_name) {
  if (EarlierCopy() != nullptr) {
    const TorchTable* torch = EarlierTorch();
    constexpr size_t kEnd = offsetof(TorchTable, module) + sizeof(TorchTable::module);
    if (torch != nullptr && torch->size_bytes >= kEnd) {
      torch->module(address, root, path, class_name);
    }
    return;
  }
  wire::ModuleEvent module{};
  module.header = {sizeof(module), static_cast<uint8_t>(wire::EventKind::kModule), 0, 0};
  module.address = address;
  module.root = root;
  module.path_id = NameOrNone(path);
  module.class_name_id = NameOrNone(class_name);
  collector::AddModule(module);
}

PROFD_API void profd_torch_profiler(int begins) {
  if (EarlierCopy() == nullptr) {
    return begins != 0 ? gpu_part::ClaimCupti() : gpu_part::DropCuptiClaim();
  }
  const TorchTable* torch = EarlierTorch();
  constexpr size_t kEnd = offsetof(TorchTable, profiler) + sizeof(TorchTable::profiler);
  if (torch != nullptr && torch->size_bytes >= kEnd) torch->profiler(begins);
}

PROFD_API void profd_torch_done(void) {
  if (EarlierCopy() == nullptr) return collector::Done();
  const TorchTable* torch = EarlierTorch();
  if (torch != nullptr) torch->done();
}

PROFD_API const TorchTable* profd_torch_table(void) {
  static constexpr TorchTable kTable = {sizeof(TorchTable),      0,
                                        profd_torch_features,    profd_torch_wait,
                                        profd_torch_block,       profd_torch_note,
                                        profd_torch_done,        profd_torch_attach,
                                        profd_torch_probe_begin, profd_torch_probe_end,
                                        profd_torch_leave,       profd_torch_compiling,
                                        profd_torch_optimizers,  profd_torch_optimizer_hook,
                                        profd_torch_module,      profd_torch_profiler};
  return &kTable;
}

}  // extern "C"
