// Whether the depths of ranges alone tell which range is inside of which.
#ifndef PROFD_DAEMON_REPORT_INDEX_LOST_PARENTS_H_
#define PROFD_DAEMON_REPORT_INDEX_LOST_PARENTS_H_

#include <algorithm>

#include "daemon/report/index/overlaps.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

// They do not where a parent was dropped, or is on a lane: ranges that began after one which did
// not nest count it in their depth, and it is in the rows of another thread. Times tell then.
inline bool MayLackParents(store::CaptureReader& reader) {
  return TotalDrops(reader.record().drops) > 0 || std::ranges::any_of(reader.threads(), IsLane);
}

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_INDEX_LOST_PARENTS_H_
