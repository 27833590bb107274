// A program that uses the library once and prints what it sees; started with the
// environment that a test is about. With "connect" it waits for the daemon; with "inject" it
// calls nothing but the injection's entry points, and says what became of that; with "quiet"
// it calls nothing at all, and prints how many threads it has.
#include <stdio.h>
#include <string.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/client_lib/child.h"
#include "tests/fakes/fake_daemon.h"
#include "tests/fakes/fake_nvtx.h"

namespace {

int CountAgents() {
  int agents = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::ifstream(entry.path() / "comm") >> name;
    agents += name == "profd" ? 1 : 0;
  }
  return agents;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "quiet") == 0) {
    const std::filesystem::directory_iterator threads("/proc/self/task");
    printf("%td\n", std::distance(begin(threads), end(threads)));
    return 0;
  }
  if (argc > 1 && strcmp(argv[1], "inject") == 0) {
    using Nvtx = profd::testing::FakeNvtx<0>;
    const int cuda = InitializeInjection();
    const bool attached = Nvtx::Attach();
    printf("cuda %d nvtx %d slots %d agents %d\n", cuda, attached,
           Nvtx::CoreSlot(profd::client::nvtx::kNameOsThreadA) != nullptr, CountAgents());
    return 0;
  }
  const int init = profd_init();
  const int metadata = profd_set_metadata("key", "value");
  for (int i = 0; i < 3; ++i) profd_step();
  if (argc > 1 && strcmp(argv[1], "connect") == 0) profd::testing::WaitConnected();
  profd_status status{};
  status.size_bytes = sizeof(status);
  const int result = profd_get_status(&status);
  int agents = CountAgents();
  if (init == PROFD_OK) {
    // It gives itself its name once it runs.
    profd::testing::WaitUntil("the agent", [&] { return (agents = CountAgents()) > 0; });
  }
  printf(
      "init %d metadata %d status %d disabled %u connected %u steps %llu agents %d recording %u\n",
      init, metadata, result, status.disabled, status.connected,
      static_cast<unsigned long long>(status.step_count), agents, *profd_recording_flag());
  return 0;
}
