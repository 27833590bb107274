#include "client_lib/core/handover.h"

#include <elf.h>
#include <link.h>
#include <string.h>

#include "client_lib/core/log.h"

namespace profd::client {
namespace {

constexpr char kSymbol[] = "profd_copy_table";
constexpr size_t kFirstTableBytes = offsetof(CopyTable, attach_nvtx);

struct DynamicSection {
  const ElfW(Sym) * symbols;
  const char* strings;
  const uint32_t* gnu_hash;
};

uint32_t GnuHash(const char* name) {
  uint32_t hash = 5381;
  for (; *name != '\0'; ++name) hash = hash * 33 + static_cast<unsigned char>(*name);
  return hash;
}

// The loader has relocated these addresses for most objects, but not for the vDSO.
ElfW(Addr) AddressIn(const dl_phdr_info& object, ElfW(Addr) value) {
  return value < object.dlpi_addr ? value + object.dlpi_addr : value;
}

bool ReadDynamicSection(const dl_phdr_info& object, DynamicSection* section) {
  *section = {};
  const ElfW(Dyn)* entry = nullptr;
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    if (object.dlpi_phdr[i].p_type == PT_DYNAMIC) {
      entry = reinterpret_cast<const ElfW(Dyn)*>(object.dlpi_addr + object.dlpi_phdr[i].p_vaddr);
    }
  }
  for (; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
    const ElfW(Addr) address = AddressIn(object, entry->d_un.d_ptr);
    if (entry->d_tag == DT_SYMTAB) {
      section->symbols = reinterpret_cast<const ElfW(Sym)*>(address);
    } else if (entry->d_tag == DT_STRTAB) {
      section->strings = reinterpret_cast<const char*>(address);
    } else if (entry->d_tag == DT_GNU_HASH) {
      section->gnu_hash = reinterpret_cast<const uint32_t*>(address);
    }
  }
  return section->symbols != nullptr && section->strings != nullptr && section->gnu_hash != nullptr;
}

// The symbol of `name` that the object defines, or null.
const ElfW(Sym) * FindSymbol(const DynamicSection& section, const char* name) {
  const uint32_t bucket_count = section.gnu_hash[0];
  const uint32_t first_symbol = section.gnu_hash[1];
  const uint32_t filter_words = section.gnu_hash[2];
  const uint32_t filter_shift = section.gnu_hash[3];
  if (bucket_count == 0 || filter_words == 0) return nullptr;
  const auto* filter = reinterpret_cast<const ElfW(Addr)*>(section.gnu_hash + 4);
  const auto* buckets = reinterpret_cast<const uint32_t*>(filter + filter_words);
  const uint32_t* chains = buckets + bucket_count;
  constexpr uint32_t kWordBits = sizeof(ElfW(Addr)) * 8;

  const uint32_t hash = GnuHash(name);
  const ElfW(Addr) word = filter[hash / kWordBits % filter_words];
  const ElfW(Addr) bits = (ElfW(Addr){1} << (hash % kWordBits)) |
                          (ElfW(Addr){1} << ((hash >> filter_shift) % kWordBits));
  if ((word & bits) != bits) return nullptr;
  uint32_t index = buckets[hash % bucket_count];
  if (index < first_symbol) return nullptr;
  for (;; ++index) {
    const uint32_t chain = chains[index - first_symbol];
    const ElfW(Sym)& symbol = section.symbols[index];
    if ((chain | 1) == (hash | 1) && symbol.st_shndx != SHN_UNDEF &&
        strcmp(section.strings + symbol.st_name, name) == 0) {
      return &symbol;
    }
    if ((chain & 1) != 0) return nullptr;
  }
}

bool Holds(const dl_phdr_info& object, uintptr_t address) {
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object.dlpi_phdr[i];
    if (segment.p_type != PT_LOAD) continue;
    const uintptr_t start = object.dlpi_addr + segment.p_vaddr;
    if (address >= start && address - start < segment.p_memsz) return true;
  }
  return false;
}

// Stops at the first copy in the list, which may be this one.
int VisitObject(dl_phdr_info* object, size_t, void* found) {
  if (Holds(*object, reinterpret_cast<uintptr_t>(&VisitObject))) return 1;
  DynamicSection section;
  if (!ReadDynamicSection(*object, &section)) return 0;
  const ElfW(Sym)* symbol = FindSymbol(section, kSymbol);
  if (symbol == nullptr) return 0;
  *static_cast<uintptr_t*>(found) = object->dlpi_addr + symbol->st_value;
  return 1;
}

}  // namespace

constinit const CopyTable* g_earlier_copy = nullptr;

void FindEarlierCopy() {
  uintptr_t found = 0;
  dl_iterate_phdr(VisitObject, &found);
  if (found == 0) return;
  const auto table_of = reinterpret_cast<decltype(&profd_copy_table)>(found);
  const CopyTable* table = table_of();
  if (table == nullptr || table->size_bytes < kFirstTableBytes) {
    Log(LogLevel::kError, "an earlier copy of the library is of no use to this one");
    return;
  }
  Log(LogLevel::kInfo, "handing over to the copy of the library that was loaded first");
  g_earlier_copy = table;
}

}  // namespace profd::client
