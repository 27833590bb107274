// A CaptureReader that passes every call on to another one: the base of readers that change a few
// answers.
//
// Threads and errors: those of the other reader, which must outlive it.
#ifndef PROFD_DAEMON_STORE_FILE_FORWARDING_READER_H_
#define PROFD_DAEMON_STORE_FILE_FORWARDING_READER_H_

#include <span>
#include <string>

#include "daemon/store/file/capture_reader.h"

namespace profd::store {

class ForwardingReader : public CaptureReader {
 public:
  explicit ForwardingReader(CaptureReader& reader) : reader_(reader) {}

  const CaptureRecord& record() const override { return reader_.record(); }
  std::span<const std::string> names() const override { return reader_.names(); }
  std::span<const ReaderThread> threads() const override { return reader_.threads(); }
  std::span<const StepRecord> steps() const override { return reader_.steps(); }
  int64_t step_thread() override { return reader_.step_thread(); }
  std::span<const OperatorInputs> inputs() const override { return reader_.inputs(); }
  std::span<const std::string> scalars() const override { return reader_.scalars(); }
  int64_t RowsOf(RowKind kind) const override { return reader_.RowsOf(kind); }
  absl::Status Scan(RowKind kind, uint32_t columns, const TimeFilter& filter,
                    absl::FunctionRef<absl::Status(const EventBatch&)> fn) override {
    return reader_.Scan(kind, columns, filter, fn);
  }

 protected:
  CaptureReader& reader_;
};

}  // namespace profd::store

#endif  // PROFD_DAEMON_STORE_FILE_FORWARDING_READER_H_
