/* What the groups of cupti_facts.c share: facts as lines of JSON, CUPTI's functions, and the
 * buffers and records of the activity interface.
 *
 * Threads: CUPTI's callbacks run on any thread; fact() may be called on any. */
#ifndef PROFD_TESTS_GPU_CUPTI_ROWS_H_
#define PROFD_TESTS_GPU_CUPTI_ROWS_H_

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { kRuntime = 5, kDriver = 4, kMemcpy = 1, kMemset = 2, kKernel = 10, kDevice = 8 };
enum { kOverhead = 17, kSync = 38, kGraphTrace = 51, kSwitch = 57, kKinds = 64 };
enum { kBufferBytes = 256 << 10, kRowLimit = 1 << 16, kAbsent = -1 };
typedef void* handle;
typedef void (*on_callback)(void*, uint32_t, uint32_t, const void*);
typedef void (*on_requested)(uint8_t**, size_t*, size_t*);
typedef void (*on_completed)(handle, uint32_t, uint8_t*, size_t, size_t);

typedef struct {
  size_t struct_size;
  const char* name;
  char* old_name;
  size_t old_name_size;
  uint8_t allow_multiple;
  uint8_t padding[7];
} subscriber_params;

/* Signatures as in cupti_callbacks.h and cupti_activity.h. Absent ones stay null. */
#define CUPTI(X)                                                     \
  X(GetVersion, (uint32_t*))                                         \
  X(GetTimestamp, (uint64_t*))                                       \
  X(GetResultString, (int, const char**))                            \
  X(GetCallbackName, (uint32_t, uint32_t, const char**))             \
  X(Subscribe, (handle*, on_callback, void*))                        \
  X(Subscribe_v2, (handle*, on_callback, void*, subscriber_params*)) \
  X(Unsubscribe, (handle))                                           \
  X(EnableCallback, (uint32_t, handle, uint32_t, uint32_t))          \
  X(EnableDomain, (uint32_t, handle, uint32_t))                      \
  X(ActivityRegisterCallbacks, (on_requested, on_completed))         \
  X(ActivityEnable, (uint32_t))                                      \
  X(ActivityDisable, (uint32_t))                                     \
  X(ActivityEnableAndDump, (uint32_t))                               \
  X(ActivityEnableDriverApi, (uint32_t, uint8_t))                    \
  X(ActivityEnableRuntimeApi, (uint32_t, uint8_t))                   \
  X(ActivityEnableAllSyncRecords, (uint8_t))                         \
  X(ActivityFlushAll, (uint32_t))                                    \
  X(ActivityGetNextRecord, (uint8_t*, size_t, uint8_t**))            \
  X(ActivityGetNumDroppedRecords, (handle, uint32_t, size_t*))       \
  X(ActivityGetStructSize, (uint32_t, uint32_t, size_t*))            \
  X(ActivityGetAttribute, (uint32_t, size_t*, void*))                \
  X(ActivitySetAttribute, (uint32_t, size_t*, void*))                \
  X(GetThreadIdType, (uint32_t*))                                    \
  X(SetThreadIdType, (uint32_t))                                     \
  X(Finalize, (void))

typedef struct {
#define MEMBER(name, arguments) int(*name) arguments;
  CUPTI(MEMBER)
#undef MEMBER
} functions;

extern functions cupti;
extern const char *label, *group;

__attribute__((format(printf, 2, 3))) void fact(const char* name, const char* format, ...);
/* `name` with how many records of each kind there were since forget(). */
void fact_counts(const char* name);

/* A record. `extra`: sync type, is_visible of a device, graph ID, or operation of a switch, whose
 * `correlation` is its context. */
typedef struct {
  uint32_t kind, correlation, thread, extra;
  uint64_t start, end;
  char name[24];
} row;

extern row rows[kRowLimit];
extern atomic_uint counts[kKinds];
extern uint16_t sizes[kKinds];
extern atomic_int outstanding, requested, completed;
/* Calls of the callbacks, by thread: main, launcher, another. */
extern atomic_uint request_threads[3], complete_threads[3];
extern pid_t main_thread, launcher_thread;

unsigned noted(void); /* Of `rows`. */
void forget(void);
void resolve(handle from, functions* into);
/* Fills `sizes`. In the group `calls` they are facts, too. */
void read_sizes(void);
void on_request(uint8_t** buffer, size_t* size, size_t* max_records);
void on_complete(handle context, uint32_t stream, uint8_t* buffer, size_t size, size_t valid);

#endif /* PROFD_TESTS_GPU_CUPTI_ROWS_H_ */
