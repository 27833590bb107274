// The traces of real GPUs that tests read: in PROFD_TEST_DATA, or else in what stands beside the
// checkout.
#ifndef PROFD_TESTS_IMPORT_REAL_TRACES_H_
#define PROFD_TESTS_IMPORT_REAL_TRACES_H_

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "daemon/base/str_cat.h"
#include "gtest/gtest.h"

namespace profd {

inline constexpr const char* kRealTraces[] = {
    "alexnet_train",    "b200_eager",        "diff_control", "diff_test",
    "h100_owlv2_large", "h100_qwen1.5_0.5b", "nccl_rank",    "sglang_graph_capture"};

inline std::filesystem::path RealTrace(std::string_view name) {
  const char* const folder = std::getenv("PROFD_TEST_DATA");
  const char* const source = std::getenv("PROFD_SOURCE_DIR");
  const std::filesystem::path checkout =
      std::filesystem::absolute(source != nullptr ? source : ".");
  const std::filesystem::path data = folder != nullptr ? std::filesystem::path(folder)
                                                       : checkout.parent_path() / "shared" / "data";
  return data / "traces" / StrCat(name, ".json.gz");
}

inline std::string RealTraceName(const testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '.'; }, '_');
  return name;
}

}  // namespace profd

#endif  // PROFD_TESTS_IMPORT_REAL_TRACES_H_
