// libprofd_preload.so: what `profctl run --preload` puts into LD_PRELOAD.
//
// LD_PRELOAD reaches every process below the command, whatever its C library: a musl program ends
// with exit code 127 if a preloaded library needs a symbol that musl lacks, and a program with an
// old glibc ends if one needs a newer version. This one needs no library and no symbol, so every
// loader accepts it. In a process with glibc it loads the client library with dlopen(), which
// fails without harm where the library does not fit.
//
// It also stands before unshare() and setns(). The kernel refuses some of these calls to a process
// with several threads, and the client library has two. If such a call fails for that reason, the
// library's threads end, the call is made again, and they start again. Direct system calls, and
// programs that have threads of their own, fail as they do for the kernel.
//
// And it stands before syscall(), by which a program sets a seccomp filter for all its threads.
// Such a filter may kill the process for the next call of any thread, so the library's threads end
// before, and stay away: profiling is off from then on. All other numbers go to the kernel at once.
//
// Threads: The constructor runs on the program's first thread, before main(). The calls: any.
// Errors:  None are reported: a process that cannot be profiled runs as it would without us.
#include <dlfcn.h>
#include <errno.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>

namespace {

// Weak: null where the process has no such function. glibc before 2.34 has dlopen() in a library
// of its own, which a program may lack; __libc_dlopen_mode() is the one in its libc.
extern "C" {
[[gnu::weak]] extern const char* gnu_get_libc_version();
[[gnu::weak]] extern char* getenv(const char* name);
[[gnu::weak]] extern void* WeakDlopen(const char* path, int mode) __asm__("dlopen");
[[gnu::weak]] extern void* WeakLibcDlopen(const char* path, int mode) __asm__("__libc_dlopen_mode");
[[gnu::weak]] extern void* WeakDlsym(void* object, const char* name) __asm__("dlsym");
[[gnu::weak]] extern void* WeakLibcDlsym(void* object, const char* name) __asm__("__libc_dlsym");
[[gnu::weak]] extern int* WeakErrno() __asm__("__errno_location");
}

// The client library's, in processes that have it.
int (*g_stop_threads)() = nullptr;
void (*g_restart_threads)() = nullptr;
void (*g_stay_stopped)() = nullptr;  // Null in an earlier one: its threads stay stopped, too.

// Tells glibc that the caller of __libc_dlopen_mode() wants what dlopen() does.
constexpr int kFromDlopen = static_cast<int>(0x80000000U);

[[gnu::constructor]] void LoadClientLibrary() {
  if (gnu_get_libc_version == nullptr || getenv == nullptr) return;
  const char* const path = getenv("PROFD_CLIENT_LIB");
  if (path == nullptr || path[0] != '/') return;
  // Global, as a preloaded library is: programs look the profd_* functions up by name.
  const int mode = RTLD_NOW | RTLD_GLOBAL;
  void* library = nullptr;
  if (WeakDlopen != nullptr && WeakDlsym != nullptr) {
    library = WeakDlopen(path, mode);
  } else if (WeakLibcDlopen != nullptr && WeakLibcDlsym != nullptr) {
    library = WeakLibcDlopen(path, mode | kFromDlopen);
  }
  if (library == nullptr) return;
  const auto find = WeakDlopen != nullptr && WeakDlsym != nullptr ? WeakDlsym : WeakLibcDlsym;
  g_stop_threads = reinterpret_cast<int (*)()>(find(library, "profd_stop_threads"));
  g_restart_threads = reinterpret_cast<void (*)()>(find(library, "profd_restart_threads"));
  g_stay_stopped = reinterpret_cast<void (*)()>(find(library, "profd_stay_stopped"));
}

// What a system call gets in registers.
struct Arguments {
  long values[6];
};

// Returns -errno if it fails.
long CallKernel(long number, const Arguments& arguments) {
  const long* const values = arguments.values;
#if defined(__x86_64__)
  long result;
  register long r10 __asm__("r10") = values[3];
  register long r8 __asm__("r8") = values[4];
  register long r9 __asm__("r9") = values[5];
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(values[0]), "S"(values[1]), "d"(values[2]), "r"(r10), "r"(r8),
                     "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
#elif defined(__aarch64__)
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = values[0];
  register long x1 __asm__("x1") = values[1];
  register long x2 __asm__("x2") = values[2];
  register long x3 __asm__("x3") = values[3];
  register long x4 __asm__("x4") = values[4];
  register long x5 __asm__("x5") = values[5];
  __asm__ volatile("svc 0"
                   : "+r"(x0)
                   : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                   : "memory");
  return x0;
#else
#error "a system call of this architecture"
#endif
}

// What setns() answers for a time namespace, where the others answer EINVAL.
bool MayBeForThreads(long result) { return result == -EINVAL || result == -EUSERS; }

// As libc's functions answer: -1 and errno, or the result.
long Answer(long result) {
  constexpr long kLargestErrno = 4095;
  if (result >= 0 || result < -kLargestErrno) return result;
  if (WeakErrno != nullptr) *WeakErrno() = static_cast<int>(-result);
  return -1;
}

bool StopThreads() {
  return g_stop_threads != nullptr && g_restart_threads != nullptr && g_stop_threads() == 0;
}

int CallAlone(long number, const Arguments& arguments) {
  long result = CallKernel(number, arguments);
  if (MayBeForThreads(result) && StopThreads()) {
    result = CallKernel(number, arguments);
    g_restart_threads();
  }
  return static_cast<int>(Answer(result));
}

bool SetsFilterOfAllThreads(long number, const Arguments& arguments) {
  // Without a filter it only asks whether the kernel knows the flags.
  return number == SYS_seccomp && arguments.values[0] == SECCOMP_SET_MODE_FILTER &&
         (arguments.values[1] & SECCOMP_FILTER_FLAG_TSYNC) != 0 && arguments.values[2] != 0;
}

// SECCOMP_FILTER_FLAG_NEW_LISTENER, which is newer than some headers. For all threads only with
// TSYNC_ESRCH, so that a thread's number is never returned then.
constexpr long kNewListener = 1 << 3;

long SetFilter(long number, const Arguments& arguments) {
  const bool are_stopped = StopThreads();
  const long result = CallKernel(number, arguments);
  // A number above 0 is a thread that could not be synchronized, or else the filter's listener.
  const bool has_listener = (arguments.values[1] & kNewListener) != 0;
  const bool is_set = result == 0 || (result > 0 && has_listener);
  if (are_stopped && !is_set) g_restart_threads();
  if (are_stopped && is_set && g_stay_stopped != nullptr) g_stay_stopped();
  return Answer(result);
}

}  // namespace

extern "C" {

[[gnu::visibility("default")]] int unshare(int flags) { return CallAlone(SYS_unshare, {{flags}}); }

[[gnu::visibility("default")]] int setns(int fd, int type) {
  return CallAlone(SYS_setns, {{fd, type}});
}

// From syscall(), below: with its arguments, and with what the kernel answered.
[[gnu::used]] long ProfdCallSeccomp(long number, long operation, long flags, long filter) {
  const Arguments arguments = {{operation, flags, filter}};
  if (SetsFilterOfAllThreads(number, arguments)) return SetFilter(number, arguments);
  return Answer(CallKernel(number, arguments));
}

[[gnu::used]] long ProfdAnswer(long result) { return Answer(result); }

}  // extern "C"

// long syscall(long number, ...), as in libc: six arguments, however many there are. Without a
// frame of its own, as libc's: a child that runs on another stack, or on its parent's, comes back
// as well as it does from there.
#if defined(__x86_64__)
__asm__(
    ".text\n"
    ".globl syscall\n"
    ".type syscall, @function\n"
    "syscall:\n"
    ".cfi_startproc\n"
    "  cmpq $317, %rdi\n"  // SYS_seccomp
    "  je ProfdCallSeccomp\n"
    "  movq %rdi, %rax\n"
    "  movq %rsi, %rdi\n"
    "  movq %rdx, %rsi\n"
    "  movq %rcx, %rdx\n"
    "  movq %r8, %r10\n"
    "  movq %r9, %r8\n"
    "  movq 8(%rsp), %r9\n"
    "  syscall\n"
    "  cmpq $-4095, %rax\n"
    "  jae 1f\n"
    "  ret\n"
    "1: movq %rax, %rdi\n"
    "  jmp ProfdAnswer\n"
    ".cfi_endproc\n"
    ".size syscall, .-syscall\n");
static_assert(SYS_seccomp == 317);
#else
__asm__(
    ".text\n"
    ".globl syscall\n"
    ".type syscall, %function\n"
    "syscall:\n"
    ".cfi_startproc\n"
    "  cmp x0, #277\n"  // SYS_seccomp
    "  b.eq ProfdCallSeccomp\n"
    "  mov x8, x0\n"
    "  mov x0, x1\n"
    "  mov x1, x2\n"
    "  mov x2, x3\n"
    "  mov x3, x4\n"
    "  mov x4, x5\n"
    "  mov x5, x6\n"
    "  svc #0\n"
    "  cmn x0, #4095\n"
    "  b.cs 1f\n"
    "  ret\n"
    "1: b ProfdAnswer\n"
    ".cfi_endproc\n"
    ".size syscall, .-syscall\n");
static_assert(SYS_seccomp == 277);
#endif
