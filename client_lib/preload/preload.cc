// libprofd_preload.so: what `profctl run --preload` puts into LD_PRELOAD.
//
// LD_PRELOAD reaches every process below the command, whatever its C library: a musl program ends
// with exit code 127 if a preloaded library needs a symbol that musl lacks, and a program with an
// old glibc ends if one needs a newer version. This one needs no library and no symbol, so every
// loader accepts it. In a process with glibc it loads the client library with dlopen(), which
// fails without harm where the library does not fit.
//
// Threads: The constructor runs on the program's first thread, before main().
// Errors:  None are reported: a process that cannot be profiled runs as it would without us.
#include <dlfcn.h>

namespace {

// Weak: null where the process has no such function. glibc before 2.34 has dlopen() in a library
// of its own, which a program may lack; __libc_dlopen_mode() is the one in its libc.
extern "C" {
[[gnu::weak]] extern const char* gnu_get_libc_version();
[[gnu::weak]] extern char* getenv(const char* name);
[[gnu::weak]] extern void* WeakDlopen(const char* path, int mode) __asm__("dlopen");
[[gnu::weak]] extern void* WeakLibcDlopen(const char* path, int mode) __asm__("__libc_dlopen_mode");
}

// Tells glibc that the caller of __libc_dlopen_mode() wants what dlopen() does.
constexpr int kFromDlopen = static_cast<int>(0x80000000U);

[[gnu::constructor]] void LoadClientLibrary() {
  if (gnu_get_libc_version == nullptr || getenv == nullptr) return;
  const char* const path = getenv("PROFD_CLIENT_LIB");
  if (path == nullptr || path[0] != '/') return;
  // Global, as a preloaded library is: programs look the profd_* functions up by name.
  const int mode = RTLD_NOW | RTLD_GLOBAL;
  if (WeakDlopen != nullptr) {
    (void)WeakDlopen(path, mode);
  } else if (WeakLibcDlopen != nullptr) {
    (void)WeakLibcDlopen(path, mode | kFromDlopen);
  }
}

}  // namespace
