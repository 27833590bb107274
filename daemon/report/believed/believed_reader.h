// Readers whose times can all be right, whatever was recorded. All reports read through one;
// exports do not.
//
//   CaptureReader ◀── BelievedCalls ◀── BelievedReader
//                     calls             and GPU work
//
// They give all other data as it is. Nothing is searched before rows are read, nor if the seal
// found no impossible times, nor below another reader of the same kind.
//
// Threads: one at a time.
// Memory:  that of the search, and what impossible_calls.h and impossible_times.h have found.
// Errors:  the other reader's.
#ifndef PROFD_DAEMON_REPORT_BELIEVED_BELIEVED_READER_H_
#define PROFD_DAEMON_REPORT_BELIEVED_BELIEVED_READER_H_

#include "daemon/report/believed/impossible_calls.h"
#include "daemon/report/believed/impossible_times.h"
#include "daemon/store/file/capture_reader.h"
#include "daemon/store/file/forwarding_reader.h"

namespace profd::report {

// A call that lasts too long ends where its thread did something else, and so does the record of
// what it waited for.
class BelievedCalls final : public store::ForwardingReader {
 public:
  // `reader` must outlive it.
  explicit BelievedCalls(store::CaptureReader& reader) : ForwardingReader(reader) {}
  // With what was found in it.
  BelievedCalls(store::CaptureReader& reader, ImpossibleCalls calls)
      : ForwardingReader(reader), searched_(true), calls_(std::move(calls)) {}

  absl::Status Scan(RowKind kind, uint32_t columns, const store::TimeFilter& filter,
                    absl::FunctionRef<absl::Status(const EventBatch&)> fn) override;

 private:
  absl::Status Search();

  bool searched_ = false;
  ImpossibleCalls calls_;
};

class BelievedReader final : public store::ForwardingReader {
 public:
  // `reader` must outlive it.
  explicit BelievedReader(store::CaptureReader& reader)
      : ForwardingReader(reader), believed_calls_(reader) {}

  absl::Status Scan(RowKind kind, uint32_t columns, const store::TimeFilter& filter,
                    absl::FunctionRef<absl::Status(const EventBatch&)> fn) override;

  // Then rows are not numbered as those of the other reader; known once rows were read.
  bool leaves_out_rows() const { return times_.detached_count > 0; }

 private:
  absl::Status Search();

  BelievedCalls believed_calls_;
  bool searched_ = false;
  ImpossibleTimes times_;
};

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_BELIEVED_BELIEVED_READER_H_
