// What a service manager hears, also one that does not read for a while.
#include "daemon/base/service_notifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "daemon/base/str_cat.h"

namespace profd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class ServiceNotifierTest : public testing::Test {
 protected:
  void SetUp() override {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    name_.copy(address.sun_path + 1, name_.size());
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name_.size());
    ASSERT_EQ(bind(manager_.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
  }

  // Nobody reads: the kernel takes no more.
  void FillQueue() {
    ServiceNotifier other(StrCat("@", name_));
    while (other.Notify(StrCat("FILLER=", ++fillers_))) {
    }
  }

  std::vector<std::string> Read() const {
    std::vector<std::string> states;
    char state[64];
    for (;;) {
      const ssize_t size = recv(manager_.get(), state, sizeof(state), MSG_DONTWAIT);
      if (size < 0) return states;
      states.emplace_back(state, static_cast<size_t>(size));
    }
  }

  const std::string name_ = StrCat("profd-notifier-test-", getpid());
  const UniqueFd manager_{socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  ServiceNotifier notifier_{StrCat("@", name_)};
  int fillers_ = 0;
};

TEST_F(ServiceNotifierTest, AStateIsSentAtOnce) {
  EXPECT_TRUE(notifier_.Notify("READY=1"));
  EXPECT_THAT(Read(), ElementsAre("READY=1"));
}

TEST_F(ServiceNotifierTest, AManagerThatDoesNotReadIsNotWaitedForAndHearsOfItLater) {
  FillQueue();
  EXPECT_FALSE(notifier_.Notify("READY=1"));
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(notifier_.Notify("WATCHDOG=1"));
  EXPECT_FALSE(notifier_.Retry());
  Read();
  EXPECT_TRUE(notifier_.Retry());
  EXPECT_THAT(Read(), ElementsAre("READY=1", "WATCHDOG=1"));
  EXPECT_TRUE(notifier_.Retry());
  EXPECT_THAT(Read(), IsEmpty());
}

TEST_F(ServiceNotifierTest, WithoutAManagerNothingWaits) {
  for (const char* address : {"", "@", "relative", "vsock:2:1234", "/no/such/socket"}) {
    EXPECT_TRUE(ServiceNotifier(address).Notify("READY=1")) << address;
  }
  EXPECT_TRUE(ServiceNotifier(std::string(500, '/')).Notify("READY=1"));
}

}  // namespace
}  // namespace profd
