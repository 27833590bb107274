#include "daemon/ingest/spare_memory.h"

#include <utility>

#include "proto/wire/capture_memory.h"

namespace profd {
namespace {

constexpr uint64_t kSpareSizeBytes = wire::kDefaultCaptureMemoryBytes;
constexpr uint64_t kNoCapture = 0;  // No capture has this number.

}  // namespace

void SpareMemory::Prepare() {
  if (has_spare()) return;
  // Not under the lock, which Take() needs at once. A second thread's spare is dropped.
  absl::StatusOr<std::unique_ptr<CaptureMemory>> made =
      CaptureMemory::Create(kNoCapture, kSpareSizeBytes);
  if (!made.ok()) return;
  while (!(*made)->has_first_chunks()) {
    if ((*made)->FillFreeList() != CaptureMemory::Fill::kMore) return;
  }
  (*made)->ClearTouched();
  absl::MutexLock lock(&mu_);
  if (spare_ == nullptr) spare_ = *std::move(made);
}

absl::StatusOr<std::unique_ptr<CaptureMemory>> SpareMemory::Take(uint64_t capture_number,
                                                                 uint64_t bytes) {
  std::unique_ptr<CaptureMemory> taken;
  if (bytes == kSpareSizeBytes) {
    absl::MutexLock lock(&mu_);
    taken = std::move(spare_);
  }
  if (taken == nullptr) return CaptureMemory::Create(capture_number, bytes);
  taken->SetCaptureNumber(capture_number);
  return taken;
}

bool SpareMemory::has_spare() const {
  absl::MutexLock lock(&mu_);
  return spare_ != nullptr;
}

}  // namespace profd
