// Counts what each thread allocates, for HeapLimit (budget.h), by replacing operator new and
// delete. For programs only, never for a library: see budget.h.
#include <malloc.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "daemon/base/budget.h"

#ifndef PROFD_SANITIZED
namespace profd {
namespace {

[[maybe_unused]] const bool kCounts = internal::g_counts_heap = true;

void* Counted(void* block) {
  internal::t_heap_bytes += static_cast<int64_t>(malloc_usable_size(block));
  return block;
}

template <typename Allocate>
void* AllocateOrThrow(Allocate allocate) {
  for (;;) {
    if (void* block = allocate(); block != nullptr) return Counted(block);
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) throw std::bad_alloc();
    handler();
  }
}

void Free(void* block) noexcept {
  if (block == nullptr) return;
  internal::t_heap_bytes -= static_cast<int64_t>(malloc_usable_size(block));
  std::free(block);
}

}  // namespace
}  // namespace profd

// The other forms (arrays, nothrow, sized) are the library's own, which call these.
void* operator new(size_t size) {
  return profd::AllocateOrThrow([size] { return std::malloc(size == 0 ? 1 : size); });
}
void* operator new(size_t size, std::align_val_t alignment) {
  return profd::AllocateOrThrow([size, alignment]() -> void* {
    void* block = nullptr;
    const size_t least = sizeof(void*);
    const size_t bytes = static_cast<size_t>(alignment);
    return posix_memalign(&block, bytes < least ? least : bytes, size) == 0 ? block : nullptr;
  });
}
void operator delete(void* block) noexcept { profd::Free(block); }
void operator delete(void* block, size_t /*size*/) noexcept { profd::Free(block); }
void operator delete(void* block, std::align_val_t /*alignment*/) noexcept { profd::Free(block); }
void operator delete(void* block, size_t /*size*/, std::align_val_t /*alignment*/) noexcept {
  profd::Free(block);
}
#endif
