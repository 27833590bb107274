// Stores a CaptureRecord, a GroupRecord, and a ScheduleRecord as JSON: sqlite3 shows it as text,
// old daemons skip fields that they do not know, and new ones use defaults for missing fields.
//
// How do I add a field to a record?  A line in the Visit() of its struct in
// record_codec.cc; both directions follow from it. A key is never reused.
//
// Threads: any. Errors: DATA_LOSS for text that no profd wrote.
#ifndef PROFD_DAEMON_STORE_FILE_RECORD_CODEC_H_
#define PROFD_DAEMON_STORE_FILE_RECORD_CODEC_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "daemon/capture/capture_types.h"
#include "daemon/capture/group_types.h"
#include "daemon/schedule/schedule_types.h"

namespace profd::store {

// Text that is not UTF-8 is kept as ToValidUtf8() makes it. Times are kept to the ns.
std::string EncodeRecord(const CaptureRecord& record);

// The enums of the result have known values, its grade is known or empty, and what its checks say
// is fit for display; all else may be anything its type can be.
absl::StatusOr<CaptureRecord> DecodeRecord(std::string_view untrusted);

std::string EncodeGroup(const GroupRecord& group);
absl::StatusOr<GroupRecord> DecodeGroup(std::string_view untrusted);

// `paused`, `delete_time` and `last_window` of a schedule are columns of their own.
std::string EncodeSchedule(const ScheduleRecord& record);
absl::StatusOr<ScheduleRecord> DecodeSchedule(std::string_view untrusted);
// Hex; the same for equal specs, on every node of one version of profd.
std::string HashOfSpec(const ScheduleSpec& spec);

}  // namespace profd::store

#endif  // PROFD_DAEMON_STORE_FILE_RECORD_CODEC_H_
