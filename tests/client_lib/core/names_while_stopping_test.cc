// A name that is new at the moment at which a capture stops.
#include <gtest/gtest.h>

#include "client_lib/core/hot_state.h"
#include "tests/client_lib/child.h"
#include "tests/fakes/fake_daemon.h"

namespace profd::testing {
namespace {

// The agent takes the session away, then clears the flag. A thread that interns a name in between
// still records.
TEST(NamesWhileStoppingTest, ANameThatIsNewBeforeTheFlagIsOffIsPublished) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent& parent) {
    profd_init();
    WaitConnected();
    parent.Tell('r');
    parent.Await('i');
    client::Session* const session = client::g_hot.session.exchange(nullptr);
    CHILD_EXPECT(session != nullptr);
    CHILD_EXPECT(client::g_hot.flag.load() != client::kFlagOff);
    const uint32_t id = profd_intern("new", 3);
    client::g_hot.session.store(session);
    profd_range_begin_id(id);
    profd_range_end_id();
    parent.Tell('d');
    parent.Await('x');
  });
  auto target = daemon.WaitTarget();
  child.Await('r');
  auto capture = target->Arm(2u << 20);
  capture->Fire(ByTime());
  capture->WaitPhase(wire::Phase::kRecording);
  child.Tell('i');
  child.Await('d');
  // Fails on an event whose name was not published.
  const CaptureContents contents = capture->Finish();
  ASSERT_EQ(contents.ranges.size(), 1u);
  EXPECT_EQ(contents.ranges[0].name, "new");
  child.Tell('x');
  child.ExpectSuccess();
}

}  // namespace
}  // namespace profd::testing
