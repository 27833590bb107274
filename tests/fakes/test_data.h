// Real traces, which are not in the tree: tests that use them skip where they are not.
#ifndef PROFD_TESTS_FAKES_TEST_DATA_H_
#define PROFD_TESTS_FAKES_TEST_DATA_H_

#include <cstdlib>
#include <filesystem>
#include <string_view>

namespace profd {

// In PROFD_TEST_DATA, or in what stands beside the checkout (PROFD_SOURCE_DIR, as ctest sets it).
inline std::filesystem::path TestData(std::string_view name) {
  if (const char* const folder = std::getenv("PROFD_TEST_DATA")) {
    return std::filesystem::path(folder) / name;
  }
  const char* const source = std::getenv("PROFD_SOURCE_DIR");
  return std::filesystem::path(source == nullptr ? "." : source) / ".." / "shared" / "data" / name;
}

}  // namespace profd

#endif  // PROFD_TESTS_FAKES_TEST_DATA_H_
