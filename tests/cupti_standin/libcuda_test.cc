// The driver that is none: what a process sees of it, and what it does to the process.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "gtest/gtest.h"
#include "tests/cupti_standin/test_client.h"

namespace sgpu {
namespace {

class LibcudaTest : public TestClient {
 protected:
  void* Driver() { return dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD); }
  template <typename Function>
  std::add_pointer_t<Function> Get(const char* name) {
    return reinterpret_cast<std::add_pointer_t<Function>>(dlsym(Driver(), name));
  }
};

TEST_F(LibcudaTest, InitializingTheGpuLoadsIt) {
  ASSERT_NE(Driver(), nullptr) << "found by its SONAME, as profilers look for it";
  int version = 0;
  EXPECT_EQ(Get<int(int*)>("cuDriverGetVersion")(&version), 0);
  EXPECT_GE(version, 13000);
  void* context = nullptr;
  EXPECT_EQ(Get<int(void**)>("cuCtxGetCurrent")(&context), 0);
  EXPECT_NE(context, nullptr);
  const char* text = nullptr;
  EXPECT_EQ(Get<int(int, const char**)>("cuGetErrorString")(0, &text), 0);
  EXPECT_STREQ(text, "no error");
}

// In a process of its own, since it happens once in one.
TEST(InjectionDeathTest, TheFirstInitializationRunsTheInjectionOnce) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const char* const build = std::getenv("PROFD_BUILD_DIR");
  const std::string injection = std::string(build == nullptr ? "build/release" : build) +
                                "/lib/cupti_standin/tests/libinjection_probe.so";
  EXPECT_EXIT(
      {
        setenv("CUDA_INJECTION64_PATH", injection.c_str(), 1);
        const Standin& cupti = Standin::Load(kCupti13);
        const int result = cupti.sgpu_init(nullptr);
        void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
        auto* const initialize = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
        initialize(0);
        void* const probe = dlopen(injection.c_str(), RTLD_NOW | RTLD_NOLOAD);
        auto* const injections = reinterpret_cast<int*>(dlsym(probe, "injections"));
        _exit(result == 0 && injections != nullptr && *injections == 1 ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace sgpu
