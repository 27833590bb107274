// A program that uses the library once and prints what it sees; started with the
// environment that a test is about. With "connect" it waits for the daemon.
#include <stdio.h>
#include <string.h>

#include <filesystem>

#include "tests/client_lib/child.h"

int main(int argc, char** argv) {
  const int init = profd_init();
  const int metadata = profd_set_metadata("key", "value");
  for (int i = 0; i < 3; ++i) profd_step();
  if (argc > 1 && strcmp(argv[1], "connect") == 0) profd::testing::WaitConnected();
  profd_status status{};
  status.size_bytes = sizeof(status);
  const int result = profd_get_status(&status);
  int threads = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    threads += entry.is_directory() ? 1 : 0;
  }
#if defined(__SANITIZE_THREAD__)
  --threads;  // The sanitizer's own.
#endif
  printf(
      "init %d metadata %d status %d disabled %u connected %u steps %llu threads %d recording %u\n",
      init, metadata, result, status.disabled, status.connected,
      static_cast<unsigned long long>(status.step_count), threads, *profd_recording_flag());
  return 0;
}
