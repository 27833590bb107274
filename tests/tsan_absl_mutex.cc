// Shows ThreadSanitizer the locks of the packaged Abseil, which was not built with it: without
// this every value guarded by an absl::Mutex is reported as a race. Each function here stands in
// front of Abseil's own (the executable's symbols come first), tells the sanitizer, and calls it.
//
// Only in builds with -DPROFD_SANITIZE=thread, linked into every executable (CMakeLists.txt).
// Conditions are evaluated by Abseil inside these calls, maybe for other threads and always under
// the lock; the sanitizer is told to look away between its pre_ and post_ marks, as it does there.
#include <dlfcn.h>
#include <sanitizer/tsan_interface.h>

#include <cstdio>
#include <cstdlib>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

namespace {

constexpr unsigned kWrite = 0;
constexpr unsigned kRead = __tsan_mutex_read_lock;
constexpr unsigned kTry = __tsan_mutex_try_lock;

template <typename Fn>
Fn Next(const char* symbol) {
  void* const found = dlsym(RTLD_NEXT, symbol);
  if (found == nullptr) {
    std::fprintf(stderr, "tsan_absl_mutex: the packaged Abseil has no %s\n", symbol);
    std::abort();
  }
  return reinterpret_cast<Fn>(found);
}

// Some of Abseil's functions call others of these: only the outermost is told of.
thread_local int depth = 0;

// Waits on a condition let the lock go and take it again.
class Relock {
 public:
  explicit Relock(absl::Mutex* mu) : mu_(mu) {
    if (depth++ > 0) return;
    __tsan_mutex_pre_unlock(mu_, kWrite);
    __tsan_mutex_post_unlock(mu_, kWrite);
    __tsan_mutex_pre_lock(mu_, kWrite);
  }
  ~Relock() {
    if (--depth == 0) __tsan_mutex_post_lock(mu_, kWrite, 0);
  }

 private:
  absl::Mutex* const mu_;
};

class LockMarks {
 public:
  LockMarks(absl::Mutex* mu, unsigned flags) : mu_(mu), flags_(flags) {
    if (depth++ == 0) __tsan_mutex_pre_lock(mu_, flags_);
  }
  ~LockMarks() {
    if (--depth == 0) __tsan_mutex_post_lock(mu_, flags_, 0);
  }
  void Failed() { flags_ |= __tsan_mutex_try_lock_failed; }

 private:
  absl::Mutex* const mu_;
  unsigned flags_;
};

class UnlockMarks {
 public:
  UnlockMarks(absl::Mutex* mu, unsigned flags) : mu_(mu), flags_(flags) {
    if (depth++ == 0) __tsan_mutex_pre_unlock(mu_, flags_);
  }
  ~UnlockMarks() {
    if (--depth == 0) __tsan_mutex_post_unlock(mu_, flags_);
  }

 private:
  absl::Mutex* const mu_;
  const unsigned flags_;
};

}  // namespace

#define ABSL_SYMBOL(name) "_Z" name
#define IN_FRONT_OF(result, fn, symbol, ...)                      \
  extern "C" result fn(__VA_ARGS__) __asm__(ABSL_SYMBOL(symbol)); \
  extern "C" result fn(__VA_ARGS__)
#define NEXT(fn, symbol) static const auto next = Next<decltype(&fn)>(ABSL_SYMBOL(symbol))

#define LOCK(fn, symbol, flags)                    \
  IN_FRONT_OF(void, fn, symbol, absl::Mutex* mu) { \
    NEXT(fn, symbol);                              \
    const LockMarks marks(mu, flags);              \
    next(mu);                                      \
  }
LOCK(ProfdLock, "N4absl7debian35Mutex4LockEv", kWrite)
LOCK(ProfdReaderLock, "N4absl7debian35Mutex10ReaderLockEv", kRead)

#define TRY_LOCK(fn, symbol, flags)                \
  IN_FRONT_OF(bool, fn, symbol, absl::Mutex* mu) { \
    NEXT(fn, symbol);                              \
    LockMarks marks(mu, (flags) | kTry);           \
    const bool got = next(mu);                     \
    if (!got) marks.Failed();                      \
    return got;                                    \
  }
TRY_LOCK(ProfdTryLock, "N4absl7debian35Mutex7TryLockEv", kWrite)
TRY_LOCK(ProfdReaderTryLock, "N4absl7debian35Mutex13ReaderTryLockEv", kRead)

#define UNLOCK(fn, symbol, flags)                  \
  IN_FRONT_OF(void, fn, symbol, absl::Mutex* mu) { \
    NEXT(fn, symbol);                              \
    const UnlockMarks marks(mu, flags);            \
    next(mu);                                      \
  }
UNLOCK(ProfdUnlock, "N4absl7debian35Mutex6UnlockEv", kWrite)
UNLOCK(ProfdReaderUnlock, "N4absl7debian35Mutex12ReaderUnlockEv", kRead)

#define DESTROY(fn, symbol)                        \
  IN_FRONT_OF(void, fn, symbol, absl::Mutex* mu) { \
    NEXT(fn, symbol);                              \
    __tsan_mutex_destroy(mu, 0);                   \
    next(mu);                                      \
  }
DESTROY(ProfdDestroy1, "N4absl7debian35MutexD1Ev")
DESTROY(ProfdDestroy2, "N4absl7debian35MutexD2Ev")

IN_FRONT_OF(void, ProfdAwait, "N4absl7debian35Mutex5AwaitERKNS0_9ConditionE", absl::Mutex* mu,
            const absl::Condition& condition) {
  NEXT(ProfdAwait, "N4absl7debian35Mutex5AwaitERKNS0_9ConditionE");
  const Relock relock(mu);
  next(mu, condition);
}
IN_FRONT_OF(bool, ProfdAwaitWithTimeout,
            "N4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE",
            absl::Mutex* mu, const absl::Condition& condition, absl::Duration timeout) {
  NEXT(ProfdAwaitWithTimeout,
       "N4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE");
  const Relock relock(mu);
  return next(mu, condition, timeout);
}
IN_FRONT_OF(bool, ProfdAwaitWithDeadline,
            "N4absl7debian35Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE", absl::Mutex* mu,
            const absl::Condition& condition, absl::Time deadline) {
  NEXT(ProfdAwaitWithDeadline,
       "N4absl7debian35Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE");
  const Relock relock(mu);
  return next(mu, condition, deadline);
}

IN_FRONT_OF(void, ProfdLockWhen, "N4absl7debian35Mutex8LockWhenERKNS0_9ConditionE", absl::Mutex* mu,
            const absl::Condition& condition) {
  NEXT(ProfdLockWhen, "N4absl7debian35Mutex8LockWhenERKNS0_9ConditionE");
  const LockMarks marks(mu, kWrite);
  next(mu, condition);
}
IN_FRONT_OF(bool, ProfdLockWhenWithTimeout,
            "N4absl7debian35Mutex19LockWhenWithTimeoutERKNS0_9ConditionENS0_8DurationE",
            absl::Mutex* mu, const absl::Condition& condition, absl::Duration timeout) {
  NEXT(ProfdLockWhenWithTimeout,
       "N4absl7debian35Mutex19LockWhenWithTimeoutERKNS0_9ConditionENS0_8DurationE");
  const LockMarks marks(mu, kWrite);
  return next(mu, condition, timeout);
}
IN_FRONT_OF(bool, ProfdLockWhenWithDeadline,
            "N4absl7debian35Mutex20LockWhenWithDeadlineERKNS0_9ConditionENS0_4TimeE",
            absl::Mutex* mu, const absl::Condition& condition, absl::Time deadline) {
  NEXT(ProfdLockWhenWithDeadline,
       "N4absl7debian35Mutex20LockWhenWithDeadlineERKNS0_9ConditionENS0_4TimeE");
  const LockMarks marks(mu, kWrite);
  return next(mu, condition, deadline);
}

IN_FRONT_OF(void, ProfdCondWait, "N4absl7debian37CondVar4WaitEPNS0_5MutexE", absl::CondVar* cv,
            absl::Mutex* mu) {
  NEXT(ProfdCondWait, "N4absl7debian37CondVar4WaitEPNS0_5MutexE");
  const Relock relock(mu);
  next(cv, mu);
}
IN_FRONT_OF(bool, ProfdCondWaitWithTimeout,
            "N4absl7debian37CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE", absl::CondVar* cv,
            absl::Mutex* mu, absl::Duration timeout) {
  NEXT(ProfdCondWaitWithTimeout,
       "N4absl7debian37CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE");
  const Relock relock(mu);
  return next(cv, mu, timeout);
}
IN_FRONT_OF(bool, ProfdCondWaitWithDeadline,
            "N4absl7debian37CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE", absl::CondVar* cv,
            absl::Mutex* mu, absl::Time deadline) {
  NEXT(ProfdCondWaitWithDeadline,
       "N4absl7debian37CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE");
  const Relock relock(mu);
  return next(cv, mu, deadline);
}

IN_FRONT_OF(void, ProfdNotify, "N4absl7debian312Notification6NotifyEv",
            absl::Notification* notification) {
  NEXT(ProfdNotify, "N4absl7debian312Notification6NotifyEv");
  __tsan_release(notification);
  next(notification);
}
IN_FRONT_OF(void, ProfdWaitForNotification, "NK4absl7debian312Notification19WaitForNotificationEv",
            const absl::Notification* notification) {
  NEXT(ProfdWaitForNotification, "NK4absl7debian312Notification19WaitForNotificationEv");
  next(notification);
  __tsan_acquire(const_cast<absl::Notification*>(notification));
}
IN_FRONT_OF(bool, ProfdWaitForNotificationWithTimeout,
            "NK4absl7debian312Notification30WaitForNotificationWithTimeoutENS0_8DurationE",
            const absl::Notification* notification, absl::Duration timeout) {
  NEXT(ProfdWaitForNotificationWithTimeout,
       "NK4absl7debian312Notification30WaitForNotificationWithTimeoutENS0_8DurationE");
  const bool notified = next(notification, timeout);
  if (notified) __tsan_acquire(const_cast<absl::Notification*>(notification));
  return notified;
}
IN_FRONT_OF(bool, ProfdDecrementCount, "N4absl7debian315BlockingCounter14DecrementCountEv",
            absl::BlockingCounter* counter) {
  NEXT(ProfdDecrementCount, "N4absl7debian315BlockingCounter14DecrementCountEv");
  __tsan_release(counter);
  return next(counter);
}
IN_FRONT_OF(void, ProfdWaitForCounter, "N4absl7debian315BlockingCounter4WaitEv",
            absl::BlockingCounter* counter) {
  NEXT(ProfdWaitForCounter, "N4absl7debian315BlockingCounter4WaitEv");
  next(counter);
  __tsan_acquire(counter);
}
