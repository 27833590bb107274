#include "client_lib/cupti/launch_tracker.h"

#include <string.h>

namespace profd::client {

bool LaunchTracker::TakeBlock(uint32_t* there, uint32_t tag) {
  // IDs wrap at 2^32, and so do tags.
  constexpr uint32_t kHalfOfTags = (UINT32_MAX / kBlockIds + 1) / 2;
  const uint32_t ahead = (tag - *there) % (UINT32_MAX / kBlockIds + 1);
  if (*there != 0 && ahead >= kHalfOfTags) return false;
  *there = tag;
  memset(&flags_[(tag - 1) % kBlocks * kBlockIds], 0, kBlockIds);
  return true;
}

LaunchTracker::Missing LaunchTracker::CountMissing(uint32_t first, uint32_t last) const {
  Missing missing{};
  for (uint32_t block = 0; block < kBlocks; ++block) {
    if (tags_[block] == 0) continue;
    for (uint32_t i = 0; i < kBlockIds; ++i) {
      const uint8_t flags = flags_[block * kBlockIds + i];
      missing.launches += (flags & (kIsAwaited | kHasWork)) == kIsAwaited ? 1 : 0;
      missing.copies += (flags & (kMayBeSilent | kHasWork)) == kMayBeSilent ? 1 : 0;
      if ((flags & kHasWork) == 0) continue;
      const uint32_t id = (tags_[block] - 1) * kBlockIds + i;
      const bool counts =
          first != 0 ? id - first <= last - first : (flags & (kOfWindow | kWantsCall)) != 0;
      if (!counts) continue;
      ++missing.worked;
      missing.callless += (flags & kHasCall) == 0 ? 1 : 0;
    }
  }
  return missing;
}

}  // namespace profd::client
