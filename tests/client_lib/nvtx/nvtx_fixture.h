// What the tests of NVTX share: a program with NVTX in it, and what a capture of it holds.
#ifndef PROFD_TESTS_CLIENT_LIB_NVTX_NVTX_FIXTURE_H_
#define PROFD_TESTS_CLIENT_LIB_NVTX_NVTX_FIXTURE_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "tests/client_lib/child.h"
#include "tests/fakes/fake_daemon.h"
#include "tests/fakes/fake_nvtx.h"

namespace profd::testing {

using Nvtx = FakeNvtx<0>;
using OtherNvtx = FakeNvtx<1>;

inline constexpr uint32_t kRangeSlots[] = {
    nvtx::kMarkEx,      nvtx::kMarkA,       nvtx::kMarkW,    nvtx::kRangeStartEx,
    nvtx::kRangeStartA, nvtx::kRangeStartW, nvtx::kRangeEnd, nvtx::kRangePushEx,
    nvtx::kRangePushA,  nvtx::kRangePushW,  nvtx::kRangePop};
inline constexpr uint32_t kDomainSlots[] = {nvtx::kDomainMarkEx, nvtx::kDomainRangeStartEx,
                                            nvtx::kDomainRangeEnd, nvtx::kDomainRangePushEx,
                                            nvtx::kDomainRangePop};

template <typename Fake>
bool RangeSlotsAre(bool filled) {
  return std::all_of(std::begin(kRangeSlots), std::end(kRangeSlots),
                     [&](uint32_t id) { return (Fake::CoreSlot(id) != nullptr) == filled; }) &&
         std::all_of(std::begin(kDomainSlots), std::end(kDomainSlots),
                     [&](uint32_t id) { return (Fake::Core2Slot(id) != nullptr) == filled; });
}

template <typename Fake = Nvtx>
void WaitRangeSlots(bool filled) {
  WaitUntil("the slots", [&] { return RangeSlotsAre<Fake>(filled); });
}

inline void PushPop(const char* text) {
  Nvtx::PushA(text);
  Nvtx::Pop();
}

// What a child did in a window by time, with NVTX attached before and slots filled by then.
inline CaptureContents Recorded(const std::function<void()>& body) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [&](Parent& parent) {
    CHILD_EXPECT(Nvtx::Attach());
    WaitConnected();
    parent.Tell('c');
    WaitRecording();
    WaitRangeSlots(true);
    body();
    parent.Tell('d');
    parent.Await('x');
  });
  auto target = daemon.WaitTarget();
  child.Await('c');
  auto capture = target->Arm();
  capture->Fire(ByTime());
  child.Await('d');
  CaptureContents contents = capture->Finish();
  child.Tell('x');
  child.ExpectSuccess();
  return contents;
}

inline std::vector<std::string> NamesOf(const std::vector<CaptureContents::Range>& ranges) {
  std::vector<std::string> names;
  names.reserve(ranges.size());
  for (const CaptureContents::Range& range : ranges) names.push_back(range.name);
  return names;
}

inline const CaptureContents::Range& RangeNamed(const CaptureContents& contents,
                                                const std::string& name) {
  for (const CaptureContents::Range& range : contents.ranges) {
    if (range.name == name) return range;
  }
  FailTest("no range " + name);
}

inline uint64_t EndOf(const CaptureContents::Range& range) {
  return range.start_ticks + range.duration_ticks;
}

}  // namespace profd::testing

#endif  // PROFD_TESTS_CLIENT_LIB_NVTX_NVTX_FIXTURE_H_
