#include "client_lib/torch/got_slots.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client_lib/core/foreign_calls.h"

namespace profd::client::torch {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kJumpSlot = R_X86_64_JUMP_SLOT;
constexpr uint32_t kGlobalData = R_X86_64_GLOB_DAT;
#elif defined(__aarch64__)
constexpr uint32_t kJumpSlot = R_AARCH64_JUMP_SLOT;
constexpr uint32_t kGlobalData = R_AARCH64_GLOB_DAT;
#else
#error "how this architecture names its relocations"
#endif

// The entries of an object's dynamic section that lead to its slots.
struct DynamicSection {
  const ElfW(Sym) * symbols;
  const char* strings;
  const ElfW(Rela) * calls;  // DT_JMPREL
  size_t calls_bytes;
  const ElfW(Rela) * data;  // DT_RELA
  size_t data_bytes;
};

const ElfW(Phdr) * FindSegment(const dl_phdr_info& object, uint32_t type) {
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    if (object.dlpi_phdr[i].p_type == type) return &object.dlpi_phdr[i];
  }
  return nullptr;
}

DynamicSection ReadDynamicSection(const dl_phdr_info& object) {
  DynamicSection section{};
  const ElfW(Phdr)* segment = FindSegment(object, PT_DYNAMIC);
  if (segment == nullptr) return section;
  const auto* entry = reinterpret_cast<const ElfW(Dyn)*>(object.dlpi_addr + segment->p_vaddr);
  for (; entry->d_tag != DT_NULL; ++entry) {
    const ElfW(Addr) address = entry->d_un.d_ptr;
    switch (entry->d_tag) {
      case DT_SYMTAB:
        section.symbols = reinterpret_cast<const ElfW(Sym)*>(address);
        break;
      case DT_STRTAB:
        section.strings = reinterpret_cast<const char*>(address);
        break;
      case DT_JMPREL:
        section.calls = reinterpret_cast<const ElfW(Rela)*>(address);
        break;
      case DT_PLTRELSZ:
        section.calls_bytes = entry->d_un.d_val;
        break;
      case DT_RELA:
        section.data = reinterpret_cast<const ElfW(Rela)*>(address);
        break;
      case DT_RELASZ:
        section.data_bytes = entry->d_un.d_val;
        break;
      default:
        break;
    }
  }
  return section;
}

const char* BaseName(const dl_phdr_info& object) {
  if (object.dlpi_name == nullptr) return "";
  const char* slash = strrchr(object.dlpi_name, '/');
  return slash != nullptr ? slash + 1 : object.dlpi_name;
}

bool StartsWith(const char* text, const char* prefix) {
  return strncmp(text, prefix, strlen(prefix)) == 0;
}

bool Holds(const dl_phdr_info& object, const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object.dlpi_phdr[i];
    if (segment.p_type != PT_LOAD) continue;
    const uintptr_t start = object.dlpi_addr + segment.p_vaddr;
    if (at >= start && at - start < segment.p_memsz) return true;
  }
  return false;
}

// Read-only is what the loader makes of whole pages, from the one on that the segment begins in.
bool IsReadOnly(const dl_phdr_info& object, const void* address) {
  const ElfW(Phdr)* relro = FindSegment(object, PT_GNU_RELRO);
  if (relro == nullptr) return false;
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t start = (object.dlpi_addr + relro->p_vaddr) / page * page;
  const uintptr_t end = (object.dlpi_addr + relro->p_vaddr + relro->p_memsz) / page * page;
  const auto at = reinterpret_cast<uintptr_t>(address);
  return at >= start && at < end;
}

// Rejected: writing through /proc/self/mem, which asks for no protection. The kernel copies bytes,
// and nothing promises that a thread that calls through the slot meanwhile reads a whole pointer.
bool MakeWritable(void** slot) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t start = reinterpret_cast<uintptr_t>(slot) / page * page;
  return mprotect(reinterpret_cast<void*>(start), page, PROT_READ | PROT_WRITE) == 0;
}

int VisitForName(dl_phdr_info* object, size_t, void* prefix) {
  return StartsWith(BaseName(*object), static_cast<const char*>(prefix)) ? 1 : 0;
}

}  // namespace

struct GotSlots::Search {
  GotSlots* slots;
  const char* object_prefix;
  const char* symbol_prefix;
  char path[512];  // Of the first object that has one.
};

int GotSlots::VisitObject(dl_phdr_info* object, size_t, void* argument) {
  auto* search = static_cast<Search*>(argument);
  GotSlots* slots = search->slots;
  if (!StartsWith(BaseName(*object), search->object_prefix)) return 0;
  const DynamicSection section = ReadDynamicSection(*object);
  if (section.symbols == nullptr || section.strings == nullptr) return 0;
  const auto look_through = [&](const ElfW(Rela) * entries, size_t bytes) {
    for (size_t i = 0; entries != nullptr && i < bytes / sizeof(*entries); ++i) {
      const uint32_t type = ELF64_R_TYPE(entries[i].r_info);
      if (type != kJumpSlot && type != kGlobalData) continue;
      const ElfW(Sym)& symbol = section.symbols[ELF64_R_SYM(entries[i].r_info)];
      const char* name = section.strings + symbol.st_name;
      if (!StartsWith(name, search->symbol_prefix)) continue;
      auto** address = reinterpret_cast<void**>(object->dlpi_addr + entries[i].r_offset);
      if (slots->count_ == 0) {
        strncpy(slots->symbol_, name, sizeof(slots->symbol_) - 1);
        strncpy(search->path, object->dlpi_name, sizeof(search->path) - 1);
      }
      if (strcmp(slots->symbol_, name) != 0 || slots->count_ == kMost) continue;
      Slot& slot = slots->slots_[slots->count_++];
      slot = {};
      slot.address = address;
      slot.is_read_only = IsReadOnly(*object, address);
      // Unbound, it leads back into the object's own PLT.
      void* value = __atomic_load_n(address, __ATOMIC_RELAXED);
      if (type == kJumpSlot && Holds(*object, value)) slot.unbound = value;
    }
  };
  look_through(section.calls, section.calls_bytes);
  look_through(section.data, section.data_bytes);
  return 0;
}

uint32_t GotSlots::Find(const char* object_prefix, const char* symbol_prefix) {
  const ForeignCall call;
  *this = {};
  Search search{this, object_prefix, symbol_prefix, {}};
  dl_iterate_phdr(VisitObject, &search);
  if (count_ == 0) return 0;
  // As that object sees it. Kept open: the slots lie in it.
  void* object = dlopen(search.path, RTLD_LAZY | RTLD_NOLOAD);
  function_ = object != nullptr ? dlsym(object, symbol_) : nullptr;
  if (function_ == nullptr) count_ = 0;
  return count_;
}

bool GotSlots::Store(const Slot& slot, void* expected, void* value) {
  // Each time: another tool may have made the page read-only again.
  if (slot.is_read_only && !MakeWritable(slot.address)) return false;
  return __atomic_compare_exchange_n(slot.address, &expected, value, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED);
}

uint32_t GotSlots::Replace(void* replacement) {
  uint32_t replaced = 0;
  for (uint32_t i = 0; i < count_; ++i) {
    Slot& slot = slots_[i];
    slot.before = __atomic_load_n(slot.address, __ATOMIC_ACQUIRE);
    const bool is_own =
        slot.before == function_ || (slot.before == slot.unbound && slot.unbound != nullptr);
    slot.replacement = is_own && Store(slot, slot.before, replacement) ? replacement : nullptr;
    if (slot.replacement != nullptr) ++replaced;
  }
  return replaced;
}

void GotSlots::Restore() {
  for (uint32_t i = 0; i < count_; ++i) {
    Slot& slot = slots_[i];
    if (slot.replacement != nullptr) Store(slot, slot.replacement, slot.before);
    slot.replacement = nullptr;
  }
}

bool IsObjectLoaded(const char* prefix) {
  const ForeignCall call;
  return dl_iterate_phdr(VisitForName, const_cast<char*>(prefix)) != 0;
}

}  // namespace profd::client::torch
