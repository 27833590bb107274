// The operator table by kind, before it is sorted and cut: what SummarizeOps() and
// SummarizeOpProfile() have in common.
#ifndef PROFD_DAEMON_REPORT_OPS_SUMMARY_H_
#define PROFD_DAEMON_REPORT_OPS_SUMMARY_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/capture/capture_types.h"
#include "daemon/report/index/op_kinds.h"
#include "daemon/report/ops/op_table.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

struct OpSummaryTable {
  OpTable table;                // Rows in no order, all of them.
  std::vector<uint32_t> kinds;  // Of each row: the first kind of it.
};

// `kinds` are of the reader. Of `options` only by_step and step count.
absl::StatusOr<OpSummaryTable> SummarizeOpsByKind(store::CaptureReader& reader,
                                                  const OpOptions& options, OpKinds& kinds);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_OPS_SUMMARY_H_
