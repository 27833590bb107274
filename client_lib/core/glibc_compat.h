/* Included first in every file of the library (see CMakeLists.txt): binds the functions
 * that newer glibc releases moved into libc.so under a new symbol version to the first
 * version they have had, so that the library also loads where glibc
 * is older than on the build machine (2.28 and up; tests/client_lib/elf_test.py checks).
 *
 * How do I use a libc function that fails that test?  Add it here if it has an older
 * version (`objdump -T libc.so.6` shows), else call the kernel directly.
 */
#ifndef PROFD_CLIENT_LIB_CORE_GLIBC_COMPAT_H_
#define PROFD_CLIENT_LIB_CORE_GLIBC_COMPAT_H_

#if defined(__linux__) && defined(PROFD_PIN_GLIBC)
#if defined(__x86_64__)
#define PROFD_GLIBC_BASE "GLIBC_2.2.5"
#define PROFD_GLIBC_DLINFO "GLIBC_2.3.3"
#elif defined(__aarch64__)
#define PROFD_GLIBC_BASE "GLIBC_2.17"
#define PROFD_GLIBC_DLINFO PROFD_GLIBC_BASE
#endif
#ifdef PROFD_GLIBC_BASE
#define PROFD_PIN_TO(function, version) __asm__(".symver " #function "," #function "@" version)
#define PROFD_PIN(function) PROFD_PIN_TO(function, PROFD_GLIBC_BASE)
PROFD_PIN(pthread_create);
PROFD_PIN(pthread_join);
PROFD_PIN(pthread_key_create);
PROFD_PIN(pthread_getspecific);
PROFD_PIN(pthread_setspecific);
PROFD_PIN(pthread_attr_setstacksize);
PROFD_PIN(dlopen);
PROFD_PIN(dlsym);
PROFD_PIN(dlerror);
PROFD_PIN(dladdr);
PROFD_PIN_TO(dlinfo, PROFD_GLIBC_DLINFO);
#undef PROFD_PIN
#undef PROFD_PIN_TO
#endif
#endif

#endif /* PROFD_CLIENT_LIB_CORE_GLIBC_COMPAT_H_ */
