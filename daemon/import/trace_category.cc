#include "daemon/import/trace_category.h"

#include "absl/container/flat_hash_map.h"

namespace profd::importer {

Category CategoryOf(std::string_view text) {
  static const auto* const kCategories = new absl::flat_hash_map<std::string_view, Category>{
      {"cpu_op", Category::kOperator},
      {"Operator", Category::kOperator},
      {"user_annotation", Category::kAnnotation},
      {"python_function", Category::kPython},
      {"cuda_runtime", Category::kRuntime},
      {"Runtime", Category::kRuntime},
      {"cuda_driver", Category::kDriver},
      {"kernel", Category::kKernel},
      {"Kernel", Category::kKernel},
      {"gpu_memcpy", Category::kMemcpy},
      {"Memcpy", Category::kMemcpy},
      {"gpu_memset", Category::kMemset},
      {"Memset", Category::kMemset},
      {"cuda_sync", Category::kSync},
      {"cuda_event", Category::kCudaEvent},
      {"overhead", Category::kOverhead},
      {"gpu_user_annotation", Category::kGpuAnnotation},
      {"Trace", Category::kDerived},
  };
  if (const auto found = kCategories->find(text); found != kCategories->end()) return found->second;
  if (text.ends_with("_runtime")) return Category::kRuntime;
  if (text.ends_with("_driver")) return Category::kDriver;
  return Category::kUnknown;
}

}  // namespace profd::importer
