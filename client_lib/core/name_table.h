// NameTable holds every name this process has interned: equal bytes, equal id, for the
// life of the process. What a capture's readers see of it is published per capture by
// Session::PublishName().
//
// Ids run from kOtherNameId (the name "(other)") upwards. Beyond wire::kMaxNames ids or
// wire::kMaxNameAreaBytes bytes, names become "(other)" and are counted.
//
// Threads:   any; lookups and inserts are lock-free.
// Hot path:  Intern() of a known name hashes and compares it; no lock, allocation or
//            system call. The very first call maps the table's address space.
// Ownership: owns its memory until the process ends. Constant-initialised, no destructor.
// Fork:      a child goes on using it; ids stay valid.
// Errors:    where memory cannot be mapped every name is "(other)".
#ifndef PROFD_CLIENT_LIB_CORE_NAME_TABLE_H_
#define PROFD_CLIENT_LIB_CORE_NAME_TABLE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "proto/wire/event.h"
#include "proto/wire/long_names.h"

namespace profd::client {

struct NameView {
  const char* bytes;
  uint32_t length;
};

class NameTable {
 public:
  constexpr NameTable() = default;

  // The id of `length` bytes at `text`, shortened beyond wire::kMaxNameBytes (long_names.h). Never
  // 0.
  uint32_t Intern(const char* text, size_t length);

  // Every id in use is below this.
  uint32_t id_limit() const { return next_id_.load(std::memory_order_seq_cst); }

  // The bytes of `id`. False for an id that was not given out yet.
  bool Find(uint32_t id, NameView* name) const;

  uint64_t name_count() const { return name_count_.load(std::memory_order_relaxed); }
  // Calls of Intern() that ended in "(other)" because of a cap.
  uint64_t other_count() const { return other_count_.load(std::memory_order_relaxed); }

 private:
  struct Entry {
    // 1 once the id is in a slot. Sequentially consistent: either the thread that arms a
    // capture sees it and publishes the name, or the interning thread sees the capture.
    std::atomic<uint32_t> live;
    std::atomic<uint32_t> next_spare;
    uint32_t hash;
    uint32_t length;
    uint32_t offset;    // Of its bytes.
    uint32_t capacity;  // Bytes it may use there.
  };
  struct Storage;

  Storage* GetStorage();
  uint32_t NewEntry(Storage* storage, const char* text, uint32_t length, uint32_t hash);
  uint32_t InternLong(const char* text, size_t length);
  uint32_t TakeId(Storage* storage);
  void GiveBackId(Storage* storage, uint32_t id);
  bool ReserveBytes(uint32_t length, uint32_t* offset);

  std::atomic<Storage*> storage_{nullptr};
  std::atomic<uint32_t> next_id_{wire::kOtherNameId + 1};
  std::atomic<uint32_t> used_bytes_{0};
  // Ids taken by threads that lost the race to insert the same name. (tag << 32) | id.
  std::atomic<uint64_t> spare_ids_{0};
  std::atomic<uint64_t> name_count_{0};
  std::atomic<uint64_t> other_count_{0};
};

extern constinit NameTable g_names;

}  // namespace profd::client

#endif  // PROFD_CLIENT_LIB_CORE_NAME_TABLE_H_
