#define _GNU_SOURCE
#include "cupti_rows.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

functions cupti;
const char *label = "", *group = "";

/* ---- Facts */

static pthread_mutex_t output = PTHREAD_MUTEX_INITIALIZER;

void fact(const char* name, const char* format, ...) {
  pthread_mutex_lock(&output);
  printf(
      "{\"phase\": \"cupti_facts\", \"cupti\": \"%s\", \"group\": \"%s\", \"fact\": \"%s\", "
      "\"value\": ",
      label, group, name);
  va_list arguments;
  va_start(arguments, format);
  vprintf(format, arguments);
  va_end(arguments);
  printf("}\n");
  fflush(stdout);
  pthread_mutex_unlock(&output);
}

/* ---- Buffers and what is in them */

row rows[kRowLimit];
static atomic_uint row_count;
atomic_int outstanding, requested, completed;
atomic_uint counts[kKinds];
uint16_t sizes[kKinds];
pid_t main_thread, launcher_thread;
atomic_uint request_threads[3], complete_threads[3]; /* main, launcher, other */

static int thread_class(void) {
  const pid_t self = (pid_t)syscall(SYS_gettid);
  return self == main_thread ? 0 : self == launcher_thread ? 1 : 2;
}

void on_request(uint8_t** buffer, size_t* size, size_t* max_records) {
  ++request_threads[thread_class()];
  ++requested;
  ++outstanding;
  *buffer = aligned_alloc(4096, kBufferBytes);
  if (*buffer) memset(*buffer, 0, kBufferBytes);
  *size = kBufferBytes;
  *max_records = 0;
}

static uint32_t u32(const uint8_t* at) {
  uint32_t value;
  memcpy(&value, at, sizeof(value));
  return value;
}
static uint64_t u64(const uint8_t* at) {
  uint64_t value;
  memcpy(&value, at, sizeof(value));
  return value;
}

/* Offsets as in client_lib/cupti/cupti_abi.h. */
static void note(const uint8_t* at, uint32_t kind) {
  const unsigned index = row_count++;
  if (index >= kRowLimit) return;
  row* r = &rows[index];
  memset(r, 0, sizeof(*r));
  r->kind = kind;
  switch (kind) {
    case kKernel: {
      const char* name = (const char*)u64(at + 104);
      r->start = u64(at + 16), r->end = u64(at + 24);
      r->correlation = u32(at + 92), r->extra = u32(at + 156);
      if (name) snprintf(r->name, sizeof(r->name), "%s", name);
      break;
    }
    case kMemcpy:
      r->start = u64(at + 16), r->end = u64(at + 24);
      r->correlation = u32(at + 44), r->extra = u32(at + 72);
      break;
    case kMemset:
      r->start = u64(at + 16), r->end = u64(at + 24);
      r->correlation = u32(at + 44), r->extra = u32(at + 72);
      break;
    case kRuntime:
    case kDriver:
      r->start = u64(at + 8), r->end = u64(at + 16);
      r->thread = u32(at + 28), r->correlation = u32(at + 32);
      break;
    case kSync:
      r->extra = u32(at + 4), r->start = u64(at + 8), r->end = u64(at + 16);
      break;
    case kGraphTrace:
      r->correlation = u32(at + 4), r->start = u64(at + 8), r->end = u64(at + 16);
      r->extra = u32(at + 28);
      break;
    case kSwitch:
      r->correlation = u32(at + 4), r->start = r->end = u64(at + 8), r->extra = u32(at + 16);
      break;
    case kDevice:
      r->extra = sizes[kDevice] >= 176 ? at[144] : 1;
      break;
    default:
      break;
  }
}

void on_complete(handle context, uint32_t stream, uint8_t* buffer, size_t size, size_t valid) {
  (void)context, (void)stream, (void)size;
  ++complete_threads[thread_class()];
  for (size_t at = 0; at + 8 <= valid;) {
    const uint32_t kind = u32(buffer + at);
    const uint16_t bytes = kind < kKinds ? sizes[kind] : 0;
    if (!bytes || bytes > valid - at) {
      fact("unreadable_buffer", "{\"kind\": %u, \"at\": %zu, \"valid\": %zu}", kind, at, valid);
      break;
    }
    ++counts[kind];
    note(buffer + at, kind);
    at += bytes;
  }
  free(buffer);
  --outstanding;
  ++completed;
}

unsigned noted(void) { return row_count < kRowLimit ? row_count : kRowLimit; }
void forget(void) {
  row_count = 0;
  for (int i = 0; i < kKinds; ++i) counts[i] = 0;
}
void fact_counts(const char* name) {
  char text[1024] = "";
  size_t at = 0;
  for (int kind = 0; kind < kKinds; ++kind) {
    if (counts[kind]) {
      at += (size_t)snprintf(text + at, sizeof(text) - at, "%s\"%d\": %u", at ? ", " : "", kind,
                             counts[kind]);
    }
  }
  fact(name, "{%s}", text);
}

void read_sizes(void) {
  static uint8_t buffer[4096] __attribute__((aligned(8)));
  char probed[1024] = "", asked[1024] = "";
  size_t at_probed = 0, at_asked = 0;
  int differ = 0;
  for (uint32_t kind = 1; kind < kKinds; ++kind) {
    size_t by_function = 0, by_probe = 0;
    if (cupti.ActivityGetStructSize && cupti.ActivityGetStructSize(kind, 0, &by_function) != 0) {
      by_function = 0;
    }
    for (size_t at = 0; at < sizeof(buffer); at += 8) {
      memset(buffer + at, 0, 8);
      memcpy(buffer + at, &kind, sizeof(kind));
    }
    uint8_t* record = NULL;
    if (cupti.ActivityGetNextRecord(buffer, sizeof(buffer), &record) == 0 &&
        cupti.ActivityGetNextRecord(buffer, sizeof(buffer), &record) == 0) {
      by_probe = (size_t)(record - buffer);
    }
    differ += cupti.ActivityGetStructSize && by_probe && by_function != by_probe;
    sizes[kind] = (uint16_t)(by_function ? by_function : by_probe);
    if (by_probe) {
      at_probed += (size_t)snprintf(probed + at_probed, sizeof(probed) - at_probed, "%s\"%u\": %zu",
                                    at_probed ? ", " : "", kind, by_probe);
    }
    if (by_function) {
      at_asked += (size_t)snprintf(asked + at_asked, sizeof(asked) - at_asked, "%s\"%u\": %zu",
                                   at_asked ? ", " : "", kind, by_function);
    }
  }
  if (strcmp(group, "calls") != 0) return;
  fact("sizes_by_probe", "{%s}", probed);
  fact("sizes_by_GetStructSize", "{%s}", asked);
  fact("sizes_differ", "%d", differ);
}

void resolve(handle from, functions* into) {
#define RESOLVE(name, arguments)                \
  {                                             \
    void* found = dlsym(from, "cupti" #name);   \
    memcpy(&into->name, &found, sizeof(found)); \
  }
  CUPTI(RESOLVE)
#undef RESOLVE
}
