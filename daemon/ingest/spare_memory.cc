#include "daemon/ingest/spare_memory.h"

#include <utility>

#include "daemon/ingest/ingest_thread.h"

namespace profd {
namespace {

constexpr uint64_t kNoCapture = 0;  // No capture has this number.

// Null: there is no memory for it.
std::unique_ptr<CaptureMemory> MakeSpare() {
  absl::StatusOr<std::unique_ptr<CaptureMemory>> made =
      CaptureMemory::Create(kNoCapture, SpareMemory::kSizeBytes);
  if (!made.ok()) return nullptr;
  while (!(*made)->has_first_chunks()) {
    if ((*made)->FillFreeList() != CaptureMemory::Fill::kMore) return nullptr;
  }
  return *std::move(made);
}

}  // namespace

void SpareMemory::Start() {
  thread_ = StartIngestThread("profd-spare", [this] { Run(); });
}

void SpareMemory::Stop() {
  {
    absl::MutexLock lock(&mu_);
    is_stopped_ = true;
    changed_.Signal();
  }
  if (thread_.joinable()) thread_.join();
}

void SpareMemory::PrepareSoon() {
  absl::MutexLock lock(&mu_);
  if (spare_ != nullptr) return;
  is_wanted_ = true;
  changed_.Signal();
}

void SpareMemory::Run() {
  for (;;) {
    {
      absl::MutexLock lock(&mu_);
      while (!is_wanted_ && !is_stopped_) changed_.Wait(&mu_);
      if (is_stopped_) return;
      is_wanted_ = false;
    }
    Prepare();
  }
}

void SpareMemory::Prepare() {
  const absl::Duration now = clock_.Monotonic();
  {
    absl::MutexLock lock(&mu_);
    if (spare_ != nullptr || now < next_try_) return;
  }
  // Not under the lock, which Take() needs at once. A second thread's spare is dropped.
  std::unique_ptr<CaptureMemory> made = MakeSpare();
  absl::MutexLock lock(&mu_);
  if (made == nullptr) {
    next_try_ = now + kRetryInterval;
  } else if (spare_ == nullptr) {
    spare_ = std::move(made);
  }
}

absl::StatusOr<std::unique_ptr<CaptureMemory>> SpareMemory::Take(uint64_t capture_number,
                                                                 uint64_t bytes) {
  std::unique_ptr<CaptureMemory> taken;
  // The layout depends on the size, so a spare fits captures of exactly this size.
  if (bytes == kSizeBytes) {
    absl::MutexLock lock(&mu_);
    taken = std::move(spare_);
    if (taken != nullptr) ++taken_count_;
  }
  if (taken == nullptr) return CaptureMemory::Create(capture_number, bytes);
  taken->SetCaptureNumber(capture_number);
  return taken;
}

bool SpareMemory::has_spare() const {
  absl::MutexLock lock(&mu_);
  return spare_ != nullptr;
}

int64_t SpareMemory::taken_count() const {
  absl::MutexLock lock(&mu_);
  return taken_count_;
}

}  // namespace profd
