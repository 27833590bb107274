#include "client_lib/nvtx/nvtx_modules.h"

#include <dlfcn.h>

#include <atomic>

#include "client_lib/core/capture_listener.h"
#include "client_lib/core/log.h"
#include "client_lib/nvtx/nvtx_callbacks.h"

namespace profd::client::nvtx {
namespace {

struct Module {
  Slots core;
  Slots core2;
  std::atomic<bool> is_ready;
};

constinit Module g_modules[kMaxModules] = {};
constinit std::atomic<uint32_t> g_module_count{0};

Slots SlotsOf(const CallbacksTable& callbacks, uint32_t module) {
  Slots slots;
  const int found = callbacks.get_module_function_table(module, &slots.table, &slots.size);
  return found != 0 && slots.table != nullptr ? slots : Slots{};
}

// Code that changes what is wanted calls this after the change, so the last one to write the
// slots has seen the last change: if it was overtaken, it writes them again.
void SetAllSlots() {
  bool wanted;
  do {
    wanted = AnnotationsAreWanted();
    const uint32_t claimed = g_module_count.load(std::memory_order_seq_cst);
    const uint32_t count = claimed < kMaxModules ? claimed : kMaxModules;
    for (uint32_t i = 0; i < count; ++i) {
      const Module& module = g_modules[i];
      if (!module.is_ready.load(std::memory_order_seq_cst)) continue;
      SetRangeCallbacks(module.core, module.core2, wanted);
    }
  } while (wanted != AnnotationsAreWanted());
}

// dlclose() would unmap the slots, which are written at a time of ours.
void KeepMapped(const void* address) {
  Dl_info object{};
  if (dladdr(address, &object) == 0 || object.dli_fname == nullptr) return;
  // Fails for the program itself, which stays.
  dlopen(object.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

}  // namespace

bool Attach(GetExportTable get) {
  if (get == nullptr) return false;
  const auto* callbacks = static_cast<const CallbacksTable*>(get(kCallbacksTable));
  if (callbacks == nullptr || callbacks->struct_bytes < sizeof(*callbacks)) return false;
  const Slots core = SlotsOf(*callbacks, kModuleCore);
  const Slots core2 = SlotsOf(*callbacks, kModuleCore2);
  if (core.table == nullptr && core2.table == nullptr) return false;
  const uint32_t index = g_module_count.fetch_add(1, std::memory_order_seq_cst);
  if (index >= kMaxModules) {
    g_module_count.store(kMaxModules, std::memory_order_seq_cst);
    Log(LogLevel::kWarning, "NVTX in more than %u shared objects: the rest is not seen",
        kMaxModules);
    return false;
  }
  KeepMapped(core.table != nullptr ? core.table : core2.table);
  Module& module = g_modules[index];
  module.core = core;
  module.core2 = core2;
  SetHandleCallbacks(core, core2);
  // Not left to NVTX, which empties those that nobody set, and would race with a capture.
  SetRangeCallbacks(core, core2, false);
  g_capture_listener.store(SetAllSlots, std::memory_order_seq_cst);
  module.is_ready.store(true, std::memory_order_seq_cst);
  SetAllSlots();
  return true;
}

}  // namespace profd::client::nvtx
