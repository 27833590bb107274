// Kernel names, where CUDA has them: in the memory of modules, which may be unloaded under a
// record that points there.
#ifndef PROFD_TESTS_CUPTI_STANDIN_NAMES_H_
#define PROFD_TESTS_CUPTI_STANDIN_NAMES_H_

#include <array>
#include <atomic>
#include <cstdint>

#include "tests/cupti_standin/sgpu.h"

namespace sgpu {

// A kernel. Never freed: what was launched may be asked for after its module is gone.
struct Function {
  const char* name = nullptr;  // In the module; what records point to.
  const char* copy = nullptr;  // The same text, for good.
  std::atomic<uint32_t> registers{32};
  std::atomic<uint32_t> static_shared{0};
  std::atomic<uint32_t> dynamic_shared{0};
  std::atomic<uint32_t> local{0};
};

// What a thread launched lately, by the address it gave.
struct NameCache {
  struct Line {
    const char* address = nullptr;
    Function* function = nullptr;
  };
  std::array<Line, 64> lines{};
};

// The function whose name `kernel` is; one of the module that is never unloaded, made now, if
// `kernel` is no module's. Some ns for a name in `cache`, which is the calling thread's.
Function* FindFunction(const char* kernel, NameCache& cache);

// nullptr without memory.
sgpu_module* LoadModule(const char* const* names, uint32_t count);
const char* FunctionName(const sgpu_module* module, uint32_t index);
void UnloadModule(sgpu_module* module, sgpu_unload how);

}  // namespace sgpu

#endif  // PROFD_TESTS_CUPTI_STANDIN_NAMES_H_
