#include "tests/cupti_standin/names.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <deque>
#include <list>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

struct sgpu_module {
  char* memory = nullptr;
  size_t bytes = 0;
  std::vector<const char*> names;
};

namespace sgpu {
namespace {

struct Memory {
  char* data;
  size_t bytes;
};

struct Names {
  std::mutex mu;
  // All below guarded by mu.
  std::deque<Function> functions;
  std::unordered_map<const char*, Function*> by_address;    // Of loaded modules.
  std::unordered_map<std::string_view, Function*> by_text;  // Of the module that stays.
  std::list<sgpu_module> modules;
  std::vector<Memory> reusable;
};

Names& names() {
  static Names* const names = new Names;
  return *names;
}

NameCache::Line& LineOf(NameCache& cache, const char* address) {
  const auto bits = reinterpret_cast<uintptr_t>(address);
  return cache.lines[(bits >> 3 ^ bits >> 11) % cache.lines.size()];
}

size_t WholePages(size_t bytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

Function* AddFunction(Names& all, const char* name, const char* copy) {
  Function& function = all.functions.emplace_back();
  function.name = name;
  function.copy = copy;
  return &function;
}

char* MapPages(Names& all, size_t bytes) {
  for (auto it = all.reusable.begin(); it != all.reusable.end(); ++it) {
    if (it->bytes != bytes) continue;
    char* const data = it->data;
    all.reusable.erase(it);
    return data;
  }
  void* const data =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return data == MAP_FAILED ? nullptr : static_cast<char*>(data);
}

}  // namespace

Function* FindFunction(const char* kernel, NameCache& cache) {
  NameCache::Line& line = LineOf(cache, kernel);
  if (line.address == kernel && std::strcmp(line.function->copy, kernel) == 0) {
    return line.function;
  }
  Names& all = names();
  const std::lock_guard lock(all.mu);
  Function* function = nullptr;
  if (const auto loaded = all.by_address.find(kernel); loaded != all.by_address.end()) {
    function = loaded->second;
  } else if (const auto known = all.by_text.find(kernel); known != all.by_text.end()) {
    function = known->second;
  } else {
    const char* const copy = strdup(kernel);
    function = AddFunction(all, copy, copy);
    all.by_text.emplace(copy, function);
  }
  line = {kernel, function};
  return function;
}

sgpu_module* LoadModule(const char* const* texts, uint32_t count) {
  size_t bytes = 1;
  for (uint32_t i = 0; i < count; ++i) bytes += std::strlen(texts[i]) + 1;
  bytes = WholePages(bytes);

  Names& all = names();
  const std::lock_guard lock(all.mu);
  char* next = MapPages(all, bytes);
  if (next == nullptr) return nullptr;
  sgpu_module& module = all.modules.emplace_back();
  module.memory = next;
  module.bytes = bytes;
  for (uint32_t i = 0; i < count; ++i) {
    const size_t length = std::strlen(texts[i]) + 1;
    std::memcpy(next, texts[i], length);
    module.names.push_back(next);
    all.by_address[next] = AddFunction(all, next, strdup(texts[i]));
    next += length;
  }
  return &module;
}

const char* FunctionName(const sgpu_module* module, uint32_t index) {
  return index < module->names.size() ? module->names[index] : nullptr;
}

void UnloadModule(sgpu_module* module, sgpu_unload how) {
  Names& all = names();
  const std::lock_guard lock(all.mu);
  for (const char* const name : module->names) all.by_address.erase(name);
  switch (how) {
    case SGPU_UNLOAD_UNMAP:
      mprotect(module->memory, module->bytes, PROT_NONE);
      break;
    case SGPU_UNLOAD_OVERWRITE:
      for (const char* const name : module->names) {
        std::memset(module->memory + (name - module->memory), '#', std::strlen(name));
      }
      break;
    case SGPU_UNLOAD_REUSE:
      all.reusable.push_back({module->memory, module->bytes});
      break;
  }
  all.modules.remove_if([module](const sgpu_module& each) { return &each == module; });
}

}  // namespace sgpu
