// GotSlots is where some shared objects of this process keep the address of one function that they
// call: their slots for it in the global offset table. Another address put there, their calls go
// elsewhere; no code is changed, and nobody else's calls.
//
//   caller ──► PLT ──► slot ──► c10::reportMemoryUsageToProfiler()
//                       └─ Replace() ──► ours, which calls that one
//
// The page of a slot that the loader has made read-only (full RELRO) becomes writable and stays so.
// Made read-only again, it would end a program in which another tool is about to store to the same
// page. (A tool that makes the page read-only in the few ns between our mprotect() and our store
// would still end it.) A slot that holds what neither the loader put there nor we did belongs to
// another tool, and is left alone.
//
// Threads:   Find(), Replace(), Restore() one at a time; the calls that go through the slots, any.
// Ownership: of nothing; the objects must stay loaded.
// Errors:    counted: what Find() found less what Replace() replaced.
#ifndef PROFD_CLIENT_LIB_TORCH_GOT_SLOTS_H_
#define PROFD_CLIENT_LIB_TORCH_GOT_SLOTS_H_

#include <cstddef>
#include <cstdint>

struct dl_phdr_info;

namespace profd::client::torch {

class GotSlots {
 public:
  // Most objects that have one.
  static constexpr uint32_t kMost = 16;

  // Looks through the objects whose files' names begin with `object_prefix`, for slots of the
  // function whose name begins with `symbol_prefix`. Returns how many there are.
  uint32_t Find(const char* object_prefix, const char* symbol_prefix);

  // Puts `replacement` into each slot that still leads to the function. Returns into how many.
  uint32_t Replace(void* replacement);

  // Puts back what Replace() found, where nothing else was put since.
  void Restore();

  uint32_t count() const { return count_; }
  // The function; null where Find() found none.
  void* function() const { return function_; }
  // What it is called in full: its name says its arguments.
  const char* symbol() const { return symbol_; }
  void* AddressForTesting(uint32_t index) const { return slots_[index].address; }

 private:
  struct Slot {
    void** address;
    void* unbound;  // What it holds until the loader has bound it.
    void* before;   // What Replace() found.
    void* replacement;
    bool is_read_only;
  };
  struct Search;

  static int VisitObject(dl_phdr_info* object, size_t size, void* search);
  static bool Store(const Slot& slot, void* expected, void* value);
  void AddSlot(void** address, bool is_read_only);

  Slot slots_[kMost] = {};
  uint32_t count_ = 0;
  void* function_ = nullptr;
  char symbol_[128] = {};
};

// Whether an object is loaded whose file's name begins with `prefix`.
bool IsObjectLoaded(const char* prefix);

}  // namespace profd::client::torch

#endif  // PROFD_CLIENT_LIB_TORCH_GOT_SLOTS_H_
