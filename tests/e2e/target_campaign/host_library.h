// What the programs of host_program.c share: the library, if it is there, and small helpers. A part
// of that file, which includes it once.
#ifndef PROFD_TESTS_E2E_TARGET_CAMPAIGN_HOST_LIBRARY_H_
#define PROFD_TESTS_E2E_TARGET_CAMPAIGN_HOST_LIBRARY_H_

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char* g_folder;

// ---- The library, if it is there.

struct status {
  uint32_t size_bytes, connected, recording, disabled;
  uint64_t step_count, dropped, captures;
};
static void (*g_step)(void);
static uint32_t (*g_intern)(const char*, size_t);
static void (*g_begin)(uint32_t);
static void (*g_end)(void);
static int (*g_set_metadata)(const char*, const char*);
static int (*g_get_status)(struct status*);
static uint32_t g_name;

static void find_library(void) {
#ifndef CAMPAIGN_STATIC
  *(void**)&g_step = dlsym(RTLD_DEFAULT, "profd_step");
  *(void**)&g_intern = dlsym(RTLD_DEFAULT, "profd_intern");
  *(void**)&g_begin = dlsym(RTLD_DEFAULT, "profd_range_begin_id");
  *(void**)&g_end = dlsym(RTLD_DEFAULT, "profd_range_end_id");
  *(void**)&g_set_metadata = dlsym(RTLD_DEFAULT, "profd_set_metadata");
  *(void**)&g_get_status = dlsym(RTLD_DEFAULT, "profd_get_status");
#endif
  if (g_intern != NULL) g_name = g_intern("work", 4);
}

static void step(void) {
  if (g_step != NULL) g_step();
}

static void range(void) {
  if (g_begin == NULL) return;
  g_begin(g_name);
  g_end();
}

static void wake_agent(void) {
  if (g_set_metadata != NULL) g_set_metadata("loss", "1");
}

static void work(void) {
  step();
  for (int i = 0; i < 200; ++i) range();
  wake_agent();
}

// ---- Helpers

static void die(const char* what) {
  printf("failed: %s: %s\n", what, strerror(errno));
  exit(99);
}

static void pause_ms(long ms) {
  struct timespec left = {ms / 1000, ms % 1000 * 1000000};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
}

static void path_of(char* path, const char* name) {
  snprintf(path, PATH_MAX, "%s/%s", g_folder, name);
}

static void create_file(const char* name) {
  char path[PATH_MAX];
  path_of(path, name);
  const int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
  if (fd < 0) die(name);
  close(fd);
}

static void await_file(const char* name) {
  char path[PATH_MAX];
  path_of(path, name);
  while (access(path, F_OK) != 0) pause_ms(2);
}

enum library_state { kConnected, kRecording, kNotRecording };

static int is_library(enum library_state state) {
  struct status status = {.size_bytes = sizeof status};
  g_get_status(&status);
  if (state == kConnected) return status.connected != 0;
  return (status.recording != 0) == (state == kRecording);
}

// The library's state is polled: it has no event for the program. At most about `ms`.
static void await_library(enum library_state state, int ms) {
  if (g_get_status == NULL) return;
  for (int i = 0; i < ms && !is_library(state); ++i) {
    step();
    pause_ms(1);
  }
}

static int is_awaited(const char* state) {
  const char* await = getenv("PROFD_CAMPAIGN_AWAIT");
  return await != NULL && strcmp(await, state) == 0;
}

static int is_to_be_recorded(void) {
  return is_awaited("recording") || is_awaited("second recording");
}

static void get_ready(void) {
  if (is_awaited("connected")) await_library(kConnected, 5000);
  if (is_to_be_recorded()) await_library(kRecording, 5000);
  if (is_awaited("second recording")) {
    await_library(kNotRecording, 5000);
    await_library(kRecording, 5000);
  }
  create_file("ready");
  await_file("go");
}

static int open_checkpoint(int i, char* path) {
  char name[32];
  snprintf(name, sizeof name, "checkpoint%d", i);
  path_of(path, name);
  const int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
  if (fd < 0) die("open");
  return fd;
}

static void put(int fd, const char* text) {
  const ssize_t size = (ssize_t)strlen(text);
  if (write(fd, text, (size_t)size) != size) die("write");
}

static void show_file(const char* path) {
  char bytes[256] = {0};
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) die("reopen");
  const ssize_t got = read(fd, bytes, sizeof bytes - 1);
  close(fd);
  printf("%zd bytes:", got);
  for (ssize_t i = 0; i < got; ++i) {
    if (bytes[i] >= ' ') {
      putchar(bytes[i]);
    } else {
      printf("<%02x>", (unsigned char)bytes[i]);
    }
  }
  putchar('\n');
}

static void wait_for(pid_t child) {
  int status = 0;
  if (waitpid(child, &status, 0) != child) die("waitpid");
  printf("child: exit %d signal %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1,
         WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

#endif  // PROFD_TESTS_E2E_TARGET_CAMPAIGN_HOST_LIBRARY_H_
