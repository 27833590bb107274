// One capture's part in comparing the ranks of its group, as bytes that the catalog keeps after the
// events are removed: the steps and collectives (collectives.h), from which CompareSteps() makes
// the same figures and verdict as from the events.
//
//   byte 0        4         8       12         16                           56
//        +--------+---------+-------+----------+----------------------------+---------+---------+
//        | "PRKS" | version | crc32 | reserved | rows, steps, communicators,| column  | columns |
//        |        | u32: 2  |  u32  |  u32: 0  | left out rows, steps (i64) | lengths |         |
//        +--------+---------+-------+----------+----------------------------+---------+---------+
//
// crc32 covers everything from byte 12 to the columns; lengths are u32. Each column is one of
// store/file/column_codec.h, which has a checksum of its own. All integers are little endian.
//
// Version 1 lacks the last column, a step's wait for a CPU, which is then not known. Daemons that
// know version 1 only do not read version 2, and name the capture as one without a summary.
//
// Size: at most kMostSummaryCollectives collectives and kMostSummarySteps steps. A capture with
// more keeps the first whole steps and counts the rest, so that every kept step is compared as a
// whole.
//
// Threads: any. Errors: RESOURCE_EXHAUSTED (OVER_BUDGET): the first step does not fit, or the
// capture has no steps to cut at. DATA_LOSS: bytes that EncodeRankSummary() did not write; they are
// harmless.
#ifndef PROFD_DAEMON_REPORT_RANKS_RANK_SUMMARY_H_
#define PROFD_DAEMON_REPORT_RANKS_RANK_SUMMARY_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "daemon/report/ranks/collectives.h"

namespace profd::report {

inline constexpr size_t kMostSummaryCollectives = 8192;
inline constexpr size_t kMostSummarySteps = 1024;

struct RankSummary {
  CollectiveTable collectives;      // Without exposed_on_host.
  int64_t left_out_step_count = 0;  // Later steps; their collectives are in left_out_count.
};

absl::StatusOr<std::string> EncodeRankSummary(const CollectiveTable& collectives);
absl::StatusOr<RankSummary> DecodeRankSummary(std::string_view bytes);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_RANKS_RANK_SUMMARY_H_
