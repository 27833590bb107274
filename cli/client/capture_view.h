// CaptureView: a capture as commands show it, whether it came from a daemon or from a file.
// What a newer daemon may add to (states, reasons) is kept as the words it sent.
#ifndef PROFD_CLI_CLIENT_CAPTURE_VIEW_H_
#define PROFD_CLI_CLIENT_CAPTURE_VIEW_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "daemon/capture/capture_types.h"

namespace profd::cli {

struct CaptureView {
  CaptureRecord record;
  std::string state;     // "COMPLETE"
  std::string ended_by;  // "steps"; empty: it has not ended.
  std::string quality;   // "A".."D", "-"
  int64_t dropped_event_count = 0;
  bool pinned = false;                               // Its events are never removed to make room.
  std::map<std::string, int64_t> dropped_by_reason;  // Only those above 0.
  // Captures whose events were removed to make room for it: the IDs of the caller's own, oldest
  // first, at most 16, and the number of all.
  std::vector<std::string> evicted_ids;
  int64_t evicted_count = 0;
  std::vector<StepRecord> steps;  // Of a terminal capture; empty in a listing.

  bool HasEvents() const { return !record.deleted && record.file_bytes > 0; }
};

CaptureView ViewOf(CaptureRecord record, std::vector<StepRecord> steps);

}  // namespace profd::cli

#endif  // PROFD_CLI_CLIENT_CAPTURE_VIEW_H_
