#include "daemon/rpc/admission/accept_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <memory>
#include <thread>
#include <utility>

#include "daemon/base/unique_fd.h"
#include "tests/fakes/status_matchers.h"

namespace profd::rpc {
namespace {

// A listening socket with a name of the kernel's choice; nothing connects to it.
UniqueFd Listener() {
  UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr address{.sa_family = AF_UNIX, .sa_data = {}};
  EXPECT_EQ(bind(listener.get(), &address, sizeof(address.sa_family)), 0);
  EXPECT_EQ(listen(listener.get(), kListenBacklog), 0);
  return listener;
}

// The watchdog asks the loop at any time, also right before it is stopped. Stop() must not depend
// on its own wake being the one that the loop reads.
TEST(AcceptLoopTest, AWakeThatComesTogetherWithAnotherStillStopsTheLoop) {
  constexpr int kRounds = 2000;
  for (int round = 0; round < kRounds; ++round) {
    absl::StatusOr<std::unique_ptr<AcceptLoop>> loop = AcceptLoop::Create(Listener());
    ASSERT_THAT(loop, IsOk());
    std::atomic<bool> is_awake{false};
    (*loop)->Start("profd-test", "nowhere",
                   {.on_connection = [](UniqueFd) {},
                    .on_ended = [](int) {},
                    .on_wake =
                        [&] {
                          is_awake.store(true);
                          is_awake.notify_all();
                        }});
    (*loop)->Wake();
    if (round % 2 == 0) is_awake.wait(false);
    (*loop)->Wake();
    (*loop)->Stop();  // Would wait for ever.
  }
}

}  // namespace
}  // namespace profd::rpc
